"""CSV that is safe to open in a spreadsheet, and Parquet with the statement in it.

A spreadsheet takes text that begins with `=`, `+`, `-` or `@` for a formula, also after characters that it skips. In
CSV such text gets an apostrophe before it, and so does text that begins with an apostrophe. A program that reads the
file gets the exact text back when it removes one apostrophe from the beginning of every name and text that has one.
Numbers are never changed, but for those that are none: NaN, INF and -INF, as in XML Schema. Parquet holds everything
as it is.
"""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from osgt.extras import missing
from osgt.shown_text import FORMULA
from osgt.tables.about import About

if TYPE_CHECKING:
    from osgt.tables.query import Query
    from osgt.tables.statement import Statement

#: What the names of the files must end in.
SUFFIXES = {"out": (".parquet", ".csv", ".xlsx"), "report": (".html",)}

#: Rows of a sheet of a spreadsheet, the one with the names among them.
SHEET_ROWS = 2**20

_NAMES = {".csv": "a CSV file", ".xlsx": "an Excel file"}


def out_key(table: str) -> str:
    """The key of a table's file among those that are written together; the only table has no name."""
    return f"table {table}" if table else "out"


def used_files(query: "Query") -> tuple[str, ...]:
    """The files that a query reads or charges: a release never replaces them."""
    name = getattr(query.dataset.ledger, "name", None)
    return query.dataset.files if name is None else (*query.dataset.files, name)


def check_writable(query: "Query", path: str | Path) -> None:
    """Raise if the table of a query cannot be written to a file of this kind."""
    suffix = Path(path).suffix.lower()
    if suffix not in _NAMES:
        return
    for name in query.groups.by:
        if query.dataset.table.schema()[name].is_binary():
            raise TypeError(f"out: {_NAMES[suffix]} cannot hold the binary column {name!r}; write a Parquet file")
    if suffix == ".xlsx":
        if find_spec("xlsxwriter") is None:
            raise missing("an Excel file", "XlsxWriter", "excel")
        check_sheet(query.groups.known or 0)


def check_sheet(rows: int) -> None:
    """Raise if so many groups do not fit on a sheet."""
    if rows >= SHEET_ROWS:
        raise ValueError(f"out: an Excel file holds {SHEET_ROWS - 1:,} groups, got {rows:,}; write a Parquet file")


def write_csv(table: pa.Table, path: Path | IO[bytes]) -> None:
    """Write CSV for spreadsheets."""
    pyarrow.csv.write_csv(pa.table([_as_text(column) for column in table.columns], names=csv_names(table)), path)


def csv_names(table: pa.Table) -> list[str]:
    """The names of the columns as CSV has them."""
    found: list[str] = _escaped(_names(table)).to_pylist()
    return found


def write_parquet(table: pa.Table, statement: "Statement", about: About, path: Path | IO[bytes]) -> None:
    """Write Parquet with the statement and the texts in its metadata."""
    said = {b"osgt": json.dumps(statement.to_dict()).encode(), b"osgt.texts": about.to_json().encode()}
    metadata = {**(table.schema.metadata or {}), **said}
    pyarrow.parquet.write_table(table.replace_schema_metadata(metadata), path)


def has_escaped_text(table: pa.Table) -> bool:
    """Whether CSV of this table holds text with an apostrophe before it."""
    texts = [_names(table), *(column for column in table.columns if _is_text(column.type))]
    return any(pc.any(pc.match_substring_regex(text.cast(pa.string()), FORMULA)).as_py() for text in texts)


def _names(table: pa.Table) -> pa.ChunkedArray:
    return pa.chunked_array([table.column_names], pa.string())


def _is_text(dtype: pa.DataType) -> bool:
    if pa.types.is_dictionary(dtype):
        dtype = dtype.value_type
    return dtype in (pa.string(), pa.large_string(), pa.string_view())


def _as_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column as it is written: text that is no formula; numbers as they are, unless some are not finite."""
    if _is_text(column.type):
        return _escaped(column)
    if not pa.types.is_floating(column.type) or not pc.any(pc.invert(pc.is_finite(column))).as_py():
        return column
    return pc.replace_substring(pc.utf8_upper(column.cast(pa.string())), "NAN", "NaN")


def _escaped(column: pa.ChunkedArray) -> pa.ChunkedArray:
    texts = column.cast(pa.string())
    return pc.if_else(pc.match_substring_regex(texts, FORMULA), pc.binary_join_element_wise("'", texts, ""), texts)
