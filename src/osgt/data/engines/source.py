"""Sources: a table of an engine and what is known about its types. Only names and types are looked at, no rows."""

import datetime
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from osgt.data.sql import Table
from osgt.data.text_files import DELIMITERS, CleanFiles
from osgt.data.types import TEXT, Type, Writing
from osgt.support.errors import ArgumentError, ArgumentTypeError, about
from osgt.support.locations import PARQUET, is_office, is_spreadsheet, shown, suffix_of


@dataclass(frozen=True)
class Source:
    """A table and what is known about its types.

    Attributes
    ----------
    types
        The declared types.
    declarable
        Whether the types of columns of text can be declared: for CSV files and frames. Others have types of their own.
    mixed
        Columns of Python objects of which some are no text, and whose type is not declared.
    texts
        The same rows with what they were read from: the value of the column at place i as `value_i`, and its text as
        `text_i` where its type is declared. None if nothing is declared to be anything but text.
    examples
        How values of declared types are written, by column.
    fields
        The rows of CSV files as text: for the column at place i its field as `field_i`.
    files
        The CSV files that are read, or the copies of them.
    """

    table: Table
    types: dict[str, str] = field(default_factory=dict)
    declarable: bool = False
    mixed: frozenset[str] = frozenset()
    texts: Table | None = None
    examples: dict[str, str] = field(default_factory=dict)
    fields: Table | None = None
    files: CleanFiles | None = None


@dataclass(frozen=True)
class Options:
    """The options of a source: how it is read."""

    table: str | None = None
    engine: str | None = None
    master: str | None = None
    types: Any = None
    delimiter: str | None = None
    quote: str | None = None
    encoding: str | None = None
    decimal: str | None = None
    date_format: str | None = None

    @property
    def writing(self) -> Writing:
        """The form in which numbers and dates are written."""
        return Writing.of(self.decimal, self.date_format)


def not_a_source(source: Any, takes: str) -> Exception:
    """The error for what cannot be opened; `takes` says what can."""
    if isinstance(source, str | os.PathLike):
        name = os.fspath(source)
        if "://" not in name and os.path.isdir(name):
            inside = shown(os.path.join(name, "*.parquet"))
            return ValueError(f"source: {shown(name)!r} is a folder; name the files in it, as in {inside!r}")
        return ValueError(f"source must be {takes}; got {shown(name)!r}")
    return TypeError(f"source must be {takes}; got {type(source).__name__}")


def source_of_texts(
    names: Sequence[str],
    declared: Mapping[str, Type],
    value: Callable[[str, Type], Any],
    view: Callable[[dict[str, Any]], Table],
    *,
    has_fields: bool,
    mixed: frozenset[str] = frozenset(),
    files: CleanFiles | None = None,
) -> Source:
    """The source of columns of text in their declared types.

    Parameters
    ----------
    value
        A column of text in a type, in a form of the engine; TEXT leaves it as it is.
    view
        A view of such values by name.
    has_fields
        Whether the rows are told as text as well, as those of CSV files are.
    """

    def kept_view(columns: dict[str, Any]) -> Table:
        table = view(columns)
        return replace(table, keeps=(table.keeps, files))

    values = {name: value(name, declared.get(name, TEXT)) for name in names}
    texts = {f"text_{i}": value(name, TEXT) for i, name in enumerate(names) if declared.get(name, TEXT) != TEXT}
    if texts:
        texts |= {f"value_{i}": read for i, read in enumerate(values.values())}
    return Source(
        kept_view(values),
        {name: dtype.name for name, dtype in declared.items()},
        declarable=True,
        mixed=mixed,
        texts=kept_view(texts) if texts else None,
        examples={name: dtype.example for name, dtype in declared.items()},
        fields=kept_view({f"field_{i}": value(name, TEXT) for i, name in enumerate(names)}) if has_fields else None,
        files=files,
    )


def is_rows(name: str) -> bool:
    """Whether this is the name of a file of rows: Parquet, CSV, a spreadsheet or that of a statistics program."""
    return suffix_of(name) in (*PARQUET, *DELIMITERS) or is_office(name)


def check_file(name: str, options: Options) -> list[Path]:
    """The files of rows that a path or a glob names, in the order of their names. There is at least one."""
    if options.table is not None and not is_spreadsheet(name):
        raise ArgumentError(
            f"table is for databases and spreadsheets, got table={options.table!r} with the file {shown(name)!r}",
            argument="table",
        )
    paths = _files(name)
    if not paths:
        raise about("source", FileNotFoundError(f"source: there is no file {shown(name)!r}"))
    return paths


def _files(name: str) -> list[Path]:
    path = Path(name)
    if path.exists():
        return [path]
    if not any(char in name for char in "*?["):
        return []
    pattern = str(path.relative_to(path.anchor)) if path.anchor else name
    return sorted(Path(path.anchor or ".").glob(pattern))


# Frames of pandas, polars and Arrow as Arrow tables: the type of a column follows from its declared type alone. A
# column of Python objects says nothing about what it holds, and guessing would look at the values. It is a column of
# text, in which everything else is missing; with a declared type, the values are written as text and read by its rules.
# Only the privacy unit is looked at, before anything is charged: of a person whose name is no text, all rows would be
# missing.

#: Decimals and integers with more digits than this are beyond every type, and only their sign matters.
_DIGITS = 400


def arrow_table(frame: Any, declared: Iterable[str]) -> tuple[pa.Table, frozenset[str]]:
    """The frame as Arrow, and the columns in which something else than text is missing now.

    Columns of objects that are declared are text to be read.
    """
    library, names, written = _library(frame), names_of(frame), set(declared)
    check_names(names)
    columns, mixed = {}, set()
    for place, name in enumerate(names):
        columns[name], is_mixed = _READERS[library](frame, place, written=name in written)
        if is_mixed:
            mixed.add(name)
    return pa.table(columns), frozenset(mixed)


def names_of(frame: Any) -> list[str]:
    """The names of its columns."""
    return list(frame.schema.names) if _library(frame) == "pyarrow" else [str(name) for name in frame.columns]


def _library(frame: Any) -> str:
    return type(frame).__module__.partition(".")[0]


def check_names(names: Iterable[str]) -> None:
    """Raise if two columns have one name, to engines for which "A" and "a" are one as well."""
    seen: dict[str, str] = {}
    for name in names:
        folded = name.lower()
        if folded in seen:
            raise ArgumentError(
                f"source: the columns {seen[folded]!r} and {name!r} have one name; rename one of them",
                argument="source",
            )
        seen[folded] = name


def _of_arrow(frame: Any, place: int, *, written: bool) -> tuple[Any, bool]:
    return _plain(frame.column(place)), False


def _of_polars(frame: Any, place: int, *, written: bool) -> tuple[Any, bool]:
    series = frame.to_series(place)
    if str(series.dtype) == "Object":
        values = series.to_list()
        return _texts(values, written=written), not written and _is_mixed(values, [value is None for value in values])
    return _plain(pa.chunked_array([series.to_arrow()])), False


def _of_pandas(frame: Any, place: int, *, written: bool) -> tuple[Any, bool]:
    series = frame.iloc[:, place]
    if series.dtype == object:
        values = series.tolist()
        return _texts(values, written=written), not written and _is_mixed(values, series.isna())
    if hasattr(series, "cat"):
        codes = np.asarray(series.cat.codes)
        categories, is_mixed = _of_pandas(series.cat.categories.to_frame(index=False), 0, written=written)
        return categories.take(pa.array(codes, mask=codes < 0)), is_mixed
    if is_interval(series.dtype):
        return _texts(interval_texts(series), written=False), False
    if getattr(series.dtype, "storage", None) == "python":
        return _texts(series.tolist(), written=False), False
    try:
        column = pa.array(series, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        column = None
    if column is None or isinstance(column.type, pa.ExtensionType):
        raise ArgumentTypeError(
            f"source: column {series.name!r} has the type {series.dtype}; convert it, or drop it", argument="source"
        )
    return _plain(column), False


def is_interval(dtype: Any) -> bool:
    """Whether a type of pandas is one of intervals, as `pandas.cut` makes them."""
    return hasattr(dtype, "subtype") and hasattr(dtype, "closed")


def interval_texts(intervals: Iterable[Any]) -> list[str | None]:
    """Intervals of pandas as the text by which they are told apart, as "(0, 18]"."""
    return [str(interval) if hasattr(interval, "closed") else None for interval in intervals]


_READERS = {"pandas": _of_pandas, "polars": _of_polars, "pyarrow": _of_arrow}


def _plain(column: Any) -> Any:
    """The column; the values themselves if they are kept in a dictionary."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _texts(values: list[Any], *, written: bool) -> pa.Array:
    """The values that are text; if `written`, others that there are types for as they would be written."""
    texts = [_write(value) if written else _text(value) for value in values]
    try:
        return pa.array(texts, pa.large_string())
    except UnicodeEncodeError:  # halves of characters, which are no text
        return pa.array([text if text is not None and _is_whole(text) else None for text in texts], pa.large_string())


def _is_mixed(values: Iterable[Any], missing: Iterable[bool]) -> bool:
    """Whether a value is neither text nor missing."""
    return any(not (absent or isinstance(value, str)) for value, absent in zip(values, missing, strict=True))


def _text(value: Any) -> str | None:
    return str.__str__(value) if isinstance(value, str) else None


def _is_whole(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _write(value: Any) -> str | None:
    """A value as it would stand in a CSV file; None if no type is for it."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        value = int(value)
        return str(value) if value.bit_length() < 3 * _DIGITS else ("-inf" if value < 0 else "inf")
    if isinstance(value, float):
        value = Decimal(float.__repr__(value))
    if isinstance(value, Decimal):
        short = value.is_finite() and abs(value.adjusted()) < _DIGITS and len(value.as_tuple().digits) < _DIGITS
        return format(value, "f") if short else str(value)
    if isinstance(value, datetime.datetime):
        return str(value) if value.tzinfo is None else None  # NaT of pandas is no time in any form
    return value.isoformat() if isinstance(value, datetime.date) else _text(value)
