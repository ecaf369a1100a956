"""Public knowledge of columns: the values they can have and what people call these, plausible ranges, units.

Whoever describes the data says it, and it is never taken from them. Values become the public keys of a table, ranges
the bounds within which limits are chosen.
"""

import csv
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from decimal import Decimal
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from osgt.data import CODE_LISTS, code_list
from osgt.data.engines.source import interval_texts, is_interval
from osgt.data.types import ColumnType
from osgt.support.errors import ArgumentError, ArgumentTypeError, about
from osgt.support.text import names_in_words, nearest

#: What may be said of a column.
KEYS = ("type", "values", "range", "label", "unit")

#: The signs that may stand between the two columns of a code list.
_SEPARATORS = ",;\t"


@dataclass(frozen=True)
class KnownColumn:
    """The public knowledge of a column.

    `labels` are what people call its values, by the text of a value; `file` is the code list, if it was one.
    """

    values: tuple[Any, ...] | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    range: tuple[float, float] | None = None
    label: str | None = None
    unit: str | None = None
    file: str | None = None


def known_column(name: str, given: object, dtype: ColumnType) -> KnownColumn:
    """Check what a description says of a column of this type; errors name the key."""
    given = _check_keys(name, given)
    texts = {key: _text(name, key, given[key]) for key in ("label", "unit") if given.get(key) is not None}
    values, labels = None, dict[str, str]()
    source = given.get("values")
    if source is not None:
        values, labels = _values(name, source, dtype)
    limits = None if given.get("range") is None else _range(name, given["range"], dtype)
    is_file = isinstance(source, str | os.PathLike) and source not in CODE_LISTS
    return KnownColumn(values, labels, limits, **texts, file=os.fspath(source) if is_file else None)  # type: ignore[arg-type]


def declared_types(columns: Mapping[str, Any], types: Mapping[str, str] | None) -> Mapping[str, str] | None:
    """The declared types with those that the descriptions of columns say."""
    if not isinstance(columns, Mapping):
        raise ArgumentTypeError(
            'columns must be a dict with what is known of each column, as {"cost": {"range": (0, 50_000)}}, got '
            f"{columns!r}",
            argument="columns",
        )
    own = {name: given["type"] for name, given in columns.items() if isinstance(given, Mapping) and given.get("type")}
    if not own or not isinstance(types or {}, Mapping):
        return types
    for name, dtype in own.items():
        if types and types.get(name, dtype) != dtype:
            raise ArgumentError(
                f"columns: {name}: the type must be declared once: types says {types[name]!r}, and columns {dtype!r}",
                argument="columns",
            )
    return {**(types or {}), **own}


def _check_keys(name: str, given: object) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise ArgumentTypeError(
            f'columns: {name} must be a dict with some of {names_in_words(KEYS)}, as {{"range": (0, 100)}}, got '
            f"{given!r}",
            argument="columns",
        )
    for key in given:
        if key not in KEYS:
            raise ArgumentError(
                f"columns: {name} has no {key!r}"
                + (nearest(str(key), KEYS) or f"; it may have {names_in_words(KEYS)}"),
                argument="columns",
            )
    return given


def _text(name: str, key: str, given: object) -> str:
    if not isinstance(given, str) or not given.strip():
        raise ArgumentTypeError(f"columns: {name}: {key} must be text, got {given!r}", argument="columns")
    return given


def _range(name: str, given: object, dtype: ColumnType) -> tuple[float, float]:
    if not dtype.is_number:
        raise ArgumentTypeError(f"columns: {name}: range is for columns of numbers, got {dtype}", argument="columns")
    ends: list[Any] = list(given) if isinstance(given, Sequence) and not isinstance(given, str) else []
    is_number = [isinstance(end, Real | Decimal) and not isinstance(end, bool) for end in ends]
    if len(ends) != 2 or not all(is_number) or not all(math.isfinite(end) for end in ends) or ends[0] >= ends[1]:
        raise ArgumentError(
            f"columns: {name}: range must be the least and the largest plausible value, as (0, 100), got {given!r}",
            argument="columns",
        )
    return ends[0], ends[1]


# Values and their labels


def _values(name: str, given: object, dtype: ColumnType) -> tuple[tuple[Any, ...], dict[str, str]]:
    """The values of a column in its type, and their labels by the text of each."""
    what = f"columns: {name}: values"
    if dtype.kind not in (*_FITS, "timestamp"):
        raise ArgumentTypeError(f"{what} are for columns that can be keys, got {dtype}", argument="columns")
    codes, labels, read = _codes(what, name, given)
    if not codes:
        raise ArgumentError(f"{what} must hold at least one value, got none", argument="columns")
    if any(code is None for code in codes):
        raise ArgumentError(f"{what} must not be missing", argument="columns")
    try:
        column = pa.chunked_array([pa.array(codes)])
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        raise ArgumentTypeError(f"{what} must be of one type", argument="columns") from None
    values = convert(column, what, dtype, read=read, argument="columns")
    texts = values.cast(pa.string()).to_pylist()
    again = _repeated(texts)
    if again is not None:
        raise ArgumentError(f"{what} must hold each value once, got {again!r} again", argument="columns")
    if labels is None:
        return tuple(values.to_pylist()), {}
    shown = [label if label is not None and label.strip() else text for text, label in zip(texts, labels, strict=True)]
    again = _repeated(shown)
    if again is not None:
        raise ArgumentError(f"{what} must have a label of their own each, got {again!r} again", argument="columns")
    return tuple(values.to_pylist()), {text: label for text, label in zip(texts, shown, strict=True) if text != label}


def _codes(what: str, name: str, given: object) -> tuple[list[Any], list[str | None] | None, bool]:
    """The codes that are given, their labels if there are any, and whether codes are text to be read in a type."""
    if isinstance(given, Mapping):
        for code, label in given.items():
            if not isinstance(label, str):
                raise ArgumentTypeError(
                    f"{what}: the label of {code!r} must be text, got {label!r}", argument="columns"
                )
        return list(given), list(given.values()), all(isinstance(code, str) for code in given)
    if isinstance(given, str) and given in CODE_LISTS:
        codes = code_list(given)
        return list(codes), list(codes.values()), True
    if isinstance(given, str | os.PathLike):
        rows = _read_codes(what, name, Path(given))
        labels = [row[1] if len(row) > 1 else None for row in rows]
        return [row[0] for row in rows], labels if any(labels) else None, True
    listed = list_values(given, "columns")
    if listed is None:
        raise ArgumentTypeError(
            f"{what} must be a list, a dict of codes and labels, the path of a CSV file or one of "
            f"{names_in_words(CODE_LISTS)}, got {type(given).__name__}",
            argument="columns",
        )
    return listed, None, False


def _read_codes(what: str, name: str, path: Path) -> list[list[str]]:
    """The rows of a code list: a column of codes, and one of labels if there is a second."""
    if path.suffix.lower() != ".csv":
        hint = nearest(str(path), CODE_LISTS)
        raise ArgumentError(
            f"{what} must be a list, a dict of codes and labels, the path of a CSV file or one of "
            f"{names_in_words(CODE_LISTS)}, got {str(path)!r}{hint}",
            argument="columns",
        )
    head, *rows = _rows_of_file(what, path)
    names = [cell.strip().lower() for cell in head]
    if names not in ([own, *more] for own in ("code", name.lower()) for more in ([], ["label"])):
        raise ArgumentError(
            f'{what}: the first line of {str(path)!r} must be "code" or "code,label"', argument="columns"
        )
    if any(len(row) > len(names) or not row[0] for row in rows):
        raise ArgumentError(
            f"{what}: each line of {str(path)!r} must be a code{', and its label' if len(names) > 1 else ''}",
            argument="columns",
        )
    return rows


def _rows_of_file(what: str, path: Path) -> list[list[str]]:
    """The lines of a CSV file that are not empty, the first one with the names; a row without any if there is none."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except FileNotFoundError:
        raise about("columns", FileNotFoundError(f"{what}: there is no file {str(path)!r}")) from None
    except (OSError, UnicodeDecodeError):
        raise ArgumentError(
            f"{what}: {str(path)!r} cannot be read; it must be CSV in UTF-8", argument="columns"
        ) from None
    head = lines[0] if lines else ""
    separator = next((sign for sign in _SEPARATORS if sign in head), ",")
    return [row for row in csv.reader(lines, delimiter=separator) if any(row)] or [[]]


def _repeated(texts: Iterable[str]) -> str | None:
    """The first text that is there twice."""
    seen: set[str] = set()
    for text in texts:
        if text in seen:
            return text
        seen.add(text)
    return None


def list_values(values: Any, argument: str) -> list[Any] | None:
    """Values as a list: of a list, range, set (sorted), NumPy array, pandas or polars Series, Index or Categorical.

    Of what is categorical in pandas the categories, and intervals (of `pandas.cut`) as text, as "(0, 18]". None if it
    is nothing of that kind.
    """
    if isinstance(values, Set):
        try:
            return sorted(values, key=lambda value: (value is not None, value))
        except TypeError:
            raise ArgumentTypeError(
                f"{argument}: a set must hold values of one type, which can be sorted", argument=argument
            ) from None
    library = type(values).__module__.partition(".")[0]
    if library == "pandas" and hasattr(values, "dtype"):
        return _of_pandas(values)
    if library == "polars" and hasattr(values, "to_arrow"):
        return list(values.to_arrow().to_pylist())
    if isinstance(values, np.ndarray):
        return list(values.tolist() if values.ndim != 1 or values.dtype == object else pa.array(values).to_pylist())
    return list(values) if isinstance(values, Sequence) and not isinstance(values, str | bytes) else None


def _of_pandas(values: Any) -> list[Any]:
    dtype = values.dtype
    if hasattr(dtype, "categories"):
        return _of_pandas(dtype.categories)
    listed = list(values.tolist())
    if is_interval(dtype):
        return [*interval_texts(listed)]
    return listed if hasattr(values, "levels") else list(pa.array(listed, from_pandas=True).to_pylist())


# Values in the type of their column


def convert(column: pa.ChunkedArray, what: str, dtype: ColumnType, *, read: bool, argument: str) -> pa.Array:
    """Values in the type of the source; texts are read in it if `read`.

    None is turned into something else: 1 is not "1", nor True. `what` begins the messages.
    """
    column = column.combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not (read or _is_like(column.type, dtype)):
        raise ArgumentError(
            f"{what} must hold {_in_words(dtype)}, as in the data; got values of type {column.type}", argument=argument
        )
    try:
        return column.cast(dtype.arrow)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        value = re.search("'.*'", str(error))
        got = "" if value is None else f", got {value[0]}"
        raise ArgumentError(f"{what} must hold {_in_words(dtype)}{got}", argument=argument) from None


def _is_text(given: pa.DataType) -> bool:
    return str(given) in ("string", "large_string", "string_view")


#: By the kind of a column, whether values of an Arrow type are of the same kind, or become that without a loss.
_FITS: dict[str, Callable[[pa.DataType], bool]] = {
    "text": _is_text,
    "uuid": _is_text,
    "integer": pa.types.is_integer,
    "boolean": pa.types.is_boolean,
    "decimal": lambda given: pa.types.is_decimal(given) or pa.types.is_integer(given),
    "date": pa.types.is_date,
    "binary": lambda given: "binary" in str(given),
}


def _is_like(given: pa.DataType, dtype: ColumnType) -> bool:
    """Whether values of an Arrow type can be values of a column."""
    if pa.types.is_null(given):
        return True
    if dtype.kind == "timestamp":
        zone = getattr(given, "tz", None) is not None
        without = pa.types.is_date(given) or (pa.types.is_timestamp(given) and not zone)
        return zone if dtype.zone else without
    return dtype.kind in _FITS and _FITS[dtype.kind](given)


def _in_words(dtype: ColumnType) -> str:
    if dtype.kind == "timestamp":
        return "times with a zone" if dtype.zone else "times without a zone"
    words = {"text": "text", "integer": "whole numbers", "boolean": "truth values"}
    return words.get(dtype.kind, f"values of type {dtype}")
