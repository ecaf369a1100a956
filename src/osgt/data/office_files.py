"""Spreadsheets and files of SPSS, Stata and SAS, whose cells are written as text: what follows is as for a CSV file.

Each cell is written by itself, so that no value changes how another one is read. Whole numbers have no point, a date is
as in 2026-05-03, and the time of day is left out at midnight. Codes stay codes: labels are no values. What is missing
to the program, and text without a character, is missing.
"""

import datetime
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from osgt.support.errors import ArgumentError, OsgtError, missing
from osgt.support.locations import is_spreadsheet
from osgt.support.text import listed, unknown

#: Functions of pyreadstat that are not called after the ending.
_READERS = {".zsav": "read_sav", ".xpt": "read_xport"}

#: Rows that are read at once.
_ROWS = 50_000


def office_lines(path: Path, sheet: str | None, most: int | None = None) -> Iterator[list[str]]:
    """The names of the columns, and then the rows in text, "" where a value is missing; `most` rows if it is given."""
    lines = _sheet_lines(path, sheet) if is_spreadsheet(path) else _statistics_lines(path, most)
    return itertools.islice(lines, None if most is None else most + 1)


def office_labels(path: Path) -> dict[str, dict[str, str]]:
    """The labels of codes that a file of SPSS, Stata or SAS has, by column."""
    if is_spreadsheet(path):
        return {}
    _, about = _read(path, metadataonly=True)
    named: Mapping[str, Mapping[Any, str]] = about.variable_value_labels
    return {column: {_text(code): label for code, label in labels.items()} for column, labels in named.items()}


def csv_text(lines: Iterable[list[str]]) -> Iterator[str]:
    """Write lines as those of a CSV file: text in quotes, and nothing where a value is missing."""
    for line in lines:
        yield ",".join('"' + text.replace('"', '""') + '"' if text else "" for text in line) + "\n"


def _sheet_lines(path: Path, sheet: str | None) -> Iterator[list[str]]:
    try:
        import python_calamine as calamine  # noqa: PLC0415 - an extra
    except ImportError:
        raise missing("A spreadsheet", "python-calamine", "office") from None
    try:
        with calamine.CalamineWorkbook.from_path(str(path)) as book:
            names = book.sheet_names
            if sheet is None and len(names) > 1:
                raise ArgumentError(
                    f"table must name a sheet of {str(path)!r}: it has {listed([repr(name) for name in names])}",
                    argument="table",
                )
            if sheet is not None and sheet not in names:
                raise ArgumentError(f"table: {unknown('sheet', sheet, names, having='the file has')}", argument="table")
            rows = iter(book.get_sheet_by_name(sheet or names[0]).iter_rows())
            names = [_text(cell) for cell in next(rows, [])]
            yield names
            for row in rows:
                yield [_text(cell) for cell in row]
    except (calamine.CalamineError, OSError, IndexError) as error:
        if isinstance(error, OsgtError):
            raise
        raise _unreadable(path, "a spreadsheet without a password") from None


def _statistics_lines(path: Path, most: int | None) -> Iterator[list[str]]:
    for start in itertools.count(0, _ROWS):
        columns, about = _read(path, row_offset=start, row_limit=_ROWS if most is None else max(1, min(most, _ROWS)))
        if not start:
            yield list(about.column_names)
        values = [list(column) for column in columns.values()]
        for row in zip(*values, strict=True):
            yield [_text(cell) for cell in row]
        if not values or len(values[0]) < _ROWS:
            return


def _read(path: Path, **options: Any) -> tuple[dict[str, Any], Any]:
    try:
        pyreadstat: Any = import_module("pyreadstat")  # an extra
    except ImportError:
        raise missing(f"A {path.suffix} file", "pyreadstat", "office") from None
    try:
        suffix = path.suffix.lower()
        read = getattr(pyreadstat, _READERS.get(suffix, f"read_{suffix[1:]}"))
        columns, about = read(str(path), output_format="dict", **options)
    except (pyreadstat.ReadstatError, pyreadstat.PyreadstatError, OSError, ValueError, OverflowError):
        raise _unreadable(path, "a file of SPSS, Stata or SAS") from None
    return columns, about


def _unreadable(path: Path, what: str) -> ArgumentError:
    return ArgumentError(
        f"source: {str(path)!r} cannot be read as {what}; save it again, or save it as CSV", argument="source"
    )


def _text(cell: Any) -> str:
    """A cell as it would stand in a CSV file; nothing for what no type is for."""
    if isinstance(cell, np.generic):
        cell = cell.item()
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, int | str):
        return str(cell)
    if isinstance(cell, float):
        return "" if math.isnan(cell) else str(int(cell)) if cell.is_integer() and abs(cell) < 1 << 63 else repr(cell)
    if isinstance(cell, datetime.datetime):
        return str(cell.replace(tzinfo=None)).removesuffix(" 00:00:00")
    return cell.isoformat() if isinstance(cell, datetime.date) else ""
