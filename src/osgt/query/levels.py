"""The levels of totals that are asked for: read, checked, and placed among the public keys."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from osgt.data.types import ColumnType
from osgt.query.groups import SUMMED_OVER, KnownTotals, Level, codes, is_nested, is_product
from osgt.query.public_numbers import numbers_by_key
from osgt.support.errors import ArgumentError, ArgumentTypeError
from osgt.support.numeric import real_number

_EXPECTED = (
    'totals must be "rollup", "cube" or a list of levels, each a list of columns that remain, as in [["region"], []] '
    'or [{"by": ["region"], "weight": 2}], or public numbers, as in {(): 8_700_000}'
)

#: The columns of each level that a word stands for.
_WORDS: dict[str, Callable[[Sequence[str]], list[tuple[str, ...]]]] = {
    "rollup": lambda by: [tuple(by[:n]) for n in range(len(by))],
    "cube": lambda by: [some for n in range(len(by)) for some in itertools.combinations(by, n)],
}

#: What a level may say beside its columns.
_KEYS = {"by", "weight", "known", "column"}


@dataclass(frozen=True)
class _Asked:
    """A level as it is asked for: with a weight, or with its public numbers."""

    by: tuple[str, ...]
    weight: float = 1.0
    known: Any = None
    column: str | None = None


def levels_of(
    totals: Any, by: Sequence[str], public: pa.Table | None, types: Mapping[str, ColumnType] | None = None
) -> tuple[Level, ...]:
    """The levels that are asked for, from the finest to the coarsest; errors name `totals`.

    `types` are those of the keys in the source, in which keys of public numbers are read.
    """
    asked = [replace(level, by=tuple(name for name in by if name in level.by)) for level in _parse_levels(totals, by)]
    asked.sort(key=lambda level: (-len(level.by), [by.index(name) for name in level.by]))
    if not asked:
        return ()
    if SUMMED_OVER in by:
        raise ArgumentError(
            f"totals: a key must not be named {SUMMED_OVER!r}, which says what a total is summed over",
            argument="totals",
        )
    if public is None:
        return (_level_of_chosen_groups(asked),)
    if not (is_nested([level.by for level in asked]) or is_product(public)):
        raise ArgumentError(
            "totals: levels that cross, as in a cube, need public_keys with every combination of the values: a dict "
            "with a list for each column. Levels each of which is within the one before, as in a roll-up, do not",
            argument="totals",
        )
    return tuple(_level(level, public, types or {}) for level in asked)


def _level_of_chosen_groups(asked: Sequence[_Asked]) -> Level:
    """The only level of totals where groups are chosen by their size: all rows."""
    if len(asked) > 1 or asked[0].by:
        raise ArgumentError(
            "totals: groups that are chosen by their size have one total, that of all rows: totals=[()]; give "
            "public_keys for totals of some of the keys",
            argument="totals",
        )
    if asked[0].known is not None:
        raise ArgumentError(
            "totals: numbers that are known need public_keys: groups that are not published have a part of them",
            argument="totals",
        )
    return Level((), asked[0].weight)


def known_files(totals: Any) -> list[Any]:
    """List what gives the numbers of levels that are known: paths among it."""
    if isinstance(totals, Mapping):
        return [*totals.values()]
    return [level.get("known") for level in as_levels(totals) if isinstance(level, Mapping)]


def as_levels(totals: Any) -> Sequence[Any]:
    """The levels of a list; none of a word for several."""
    return totals if isinstance(totals, list | tuple) else ()


def _level(asked: _Asked, public: pa.Table, types: Mapping[str, ColumnType]) -> Level:
    """Place a level among the public keys."""
    places, keys = groups_of_level(public, asked.by)
    if asked.known is None:
        return Level(asked.by, asked.weight, places, keys)
    what = f"the known totals by {', '.join(asked.by)}" if asked.by else "the known total"
    numbers = numbers_by_key(asked.known, asked.by, keys, types, argument="totals", what=what)
    whole = tuple(number for number in numbers if isinstance(number, int))
    if len(whole) < len(numbers):
        wrong = next(number for number in numbers if isinstance(number, float))
        raise ArgumentError(f"totals: {what} must be whole numbers, got {wrong}", argument="totals")
    return Level(asked.by, 1.0, places, keys, KnownTotals(whole, asked.column))


def _parse_levels(totals: Any, by: Sequence[str]) -> Iterator[_Asked]:
    """Iterate over the levels that are asked for."""
    if totals is None:
        return
    if not by:
        raise ArgumentError("totals must be left out where there are no columns to group by", argument="totals")
    if isinstance(totals, str) and totals in _WORDS:
        yield from map(_Asked, _WORDS[totals](by))
        return
    if isinstance(totals, Mapping) and ("by" in by or "by" not in totals):
        totals = [columns if known is None else {"by": columns, "known": known} for columns, known in totals.items()]
    if isinstance(totals, str) or not isinstance(totals, Sequence):
        raise ArgumentTypeError(f"{_EXPECTED}; got a value of type {type(totals).__name__}", argument="totals")
    met: set[frozenset[str]] = set()
    for level in totals:
        columns = _level_columns(level, by)
        if frozenset(columns) in met:
            raise ArgumentError(f"totals: each level once, got {columns!r} again", argument="totals")
        met.add(frozenset(columns))
        yield _parse_level(columns, level if isinstance(level, Mapping) else {})


def _parse_level(by: tuple[str, ...], given: Mapping[str, Any]) -> _Asked:
    """A level with what is said beside its columns."""
    known, column = given.get("known"), given.get("column")
    if known is not None and "weight" in given:
        raise ArgumentError("totals: a level that is known has no weight: it has no noise", argument="totals")
    if column is not None and (known is None or not isinstance(column, str)):
        raise ArgumentError(
            f"totals: column names the count that known totals are about, got {column!r}", argument="totals"
        )
    weight = real_number("totals: weight", given.get("weight", 1), positive=True)
    return _Asked(by, weight, known, column)


def _level_columns(level: Any, by: Sequence[str]) -> tuple[str, ...]:
    """The columns that remain in a level, if these are some of the keys but not all."""
    columns = level.get("by") if isinstance(level, Mapping) else level
    columns = (columns,) if isinstance(columns, str) else columns
    if not isinstance(columns, Sequence) or (isinstance(level, Mapping) and not set(level) <= _KEYS):
        raise ArgumentTypeError(f"{_EXPECTED}; got {level!r}", argument="totals")
    for name in columns:
        if name not in by:
            raise ArgumentError(
                f"totals: {name!r} is not among the columns to group by, {', '.join(by)}", argument="totals"
            )
    if set(columns) == set(by):
        raise ArgumentError(f"totals: {', '.join(by)} are all the keys; a total has fewer of them", argument="totals")
    return tuple(columns)


def groups_of_level(public: pa.Table, columns: Sequence[str]) -> tuple[NDArray[np.intp], pa.Table]:
    """The place of each key in a level, in the order in which its groups come first, and the keys of the level."""
    place = np.zeros(public.num_rows, np.intp)
    for name in columns:
        place = place * (public.num_rows + 1) + codes(public[name])
        _, place = np.unique(place, return_inverse=True)
        place = np.asarray(place, np.intp)
    _, first, inverse = np.unique(place, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    keys = public.select(list(columns)).take(pa.array(first[order]))
    return np.asarray(rank[inverse], np.intp), keys if columns else pa.table({"": np.zeros(1)})
