"""Public numbers by key: what everybody knows of each group, such as its population."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import Any, Self

import numpy as np
import pyarrow as pa

from osgt.data.columns import convert
from osgt.data.types import ColumnType
from osgt.query.keys import is_text_file, read_frame, table_of_tuples
from osgt.support.errors import ArgumentError, ArgumentTypeError
from osgt.support.numeric import LARGEST_VALUE, Floats, count
from osgt.support.text import names_in_words

#: The ending of the name of a column with rates.
RATE = "_rate"

#: Rates are per so many if nothing is said, as is usual for illnesses.
_PER_HOW_MANY = 100_000

#: At most so many keys are named by a message.
_NAMED = 3


def numbers_by_key(
    given: Any, by: Sequence[str], keys: pa.Table, types: Mapping[str, ColumnType], *, argument: str, what: str
) -> list[int | float]:
    """The public number of each key, in the order of `keys`; errors name the argument and say of `what`.

    Parameters
    ----------
    given
        A mapping from keys to numbers (tuples if there are several columns), a frame of pandas, polars or Arrow or the
        path of a CSV or Parquet file with the columns `by` and one of numbers; without columns a number alone.
    """
    if not by:
        while isinstance(given, Mapping) and list(given) == [()]:
            given = given[()]
        return [_number(given, "all rows", argument, what)]
    named, values = _as_table(given, by, types, argument, what)
    every = list(zip(*(named[name].to_pylist() for name in by), strict=True))
    numbers = dict(zip(every, values, strict=True))
    wanted = list(zip(*(keys[name].to_pylist() for name in by), strict=True))
    if len(numbers) < len(every):
        raise ArgumentError(f"{argument}: {what} must have each key once", argument=argument)
    if missing := [key for key in wanted if key not in numbers]:
        raise ArgumentError(f"{argument}: {what} must have a number for {_in_words(missing)}", argument=argument)
    if unknown := numbers.keys() - set(wanted):
        first = [key for key in every if key in unknown]
        raise ArgumentError(
            f"{argument}: {what} has {_in_words(first)}, which is not among the public keys", argument=argument
        )
    return [_number(numbers[key], _in_words([key]), argument, what) for key in wanted]


def _as_table(
    given: Any, by: Sequence[str], types: Mapping[str, ColumnType], argument: str, what: str
) -> tuple[pa.Table, list[Any]]:
    """The keys in the types of the source, and the number of each."""
    is_text = is_text_file(given)
    if isinstance(given, Mapping):
        tuples = [key if isinstance(key, tuple) else (key,) for key in given]
        table, values = table_of_tuples(tuples, by, argument), [*given.values()]  # of whatever types
        is_text = True  # in TOML all keys are text
    else:
        frame = read_frame(given, by, argument)
        if frame is None:
            raise ArgumentTypeError(
                f"{argument}: {what} must be given as a dict from keys to numbers, a frame or the path of a file, got "
                f"{type(given).__name__}",
                argument=argument,
            )
        others = [name for name in frame.column_names if name not in by]
        if len(others) != 1 or len(frame.column_names) != len(by) + 1:
            raise ArgumentError(
                f"{argument}: {what} must have the columns {names_in_words(by)} and one of numbers, got "
                f"{names_in_words(frame.column_names)}",
                argument=argument,
            )
        table, values = frame, frame[others[0]].to_pylist()
    columns = {}
    for name in by:
        read = is_text and pa.types.is_string(table[name].type)
        columns[name] = convert(table[name], f"{argument}: column {name!r}", types[name], read=read, argument=argument)
    return pa.table(columns), values


def _in_words(keys: Sequence[tuple[Any, ...]]) -> str:
    """Some keys in words: "ZH, 2024", of many the first ones."""
    shown = [", ".join("(missing)" if value is None else str(value) for value in key) for key in keys[:_NAMED]]
    return "; ".join(shown) + (f" and {len(keys) - _NAMED:,} more" if len(keys) > _NAMED else "")


def _number(value: Any, key: str, argument: str, what: str) -> int | float:
    is_number = isinstance(value, Real | Decimal) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or not 0 <= value < LARGEST_VALUE:
        raise ArgumentError(
            f"{argument}: {what} must be a number from 0 on for {key}, got {value!r}", argument=argument
        )
    return int(value) if value == int(value) else float(value)


@dataclass(frozen=True)
class Rates:
    """Public numbers of the groups, such as populations, to divide counts and sums by: rates per so many."""

    numbers: tuple[int | float, ...]
    per_how_many: int

    @classmethod
    def of(
        cls, per: Any, per_how_many: Any, by: Sequence[str], public: pa.Table | None, types: Mapping[str, ColumnType]
    ) -> Self:
        """The rates that are asked for; errors name the argument."""
        if per is None:
            raise ArgumentError("per_how_many is for rates: give per, the public numbers", argument="per_how_many")
        if by and public is None:
            raise ArgumentError(
                "per needs public_keys: groups that are chosen by their size have no public number", argument="per"
            )
        many = count("per_how_many", _PER_HOW_MANY if per_how_many is None else per_how_many)
        keys = pa.table({"": [0]}) if public is None else public
        numbers = numbers_by_key(per, by, keys, types, argument="per", what="the numbers to divide by")
        return cls(tuple(numbers), many)

    def divide(self, column: pa.ChunkedArray, denominators: Floats) -> pa.Array:
        """A column as rates; missing where the number to divide by is 0."""
        numbers = np.asarray(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))
        nothing = denominators == 0
        rates = numbers * self.per_how_many / np.where(nothing, 1.0, denominators)
        return pa.array(rates, mask=nothing | np.isnan(numbers))
