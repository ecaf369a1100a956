"""CSV files: every column is text, and nothing about them is guessed but their names, which stand in the first line.

Both engines read by the same rules (docs/tables.md), under which no row is an error.
"""

import csv
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ibis.expr.types as ir
import pyarrow as pa

from osgt.sampling.entropy import token
from osgt.tables.spark import table_of_frame
from osgt.tables.types import TEXT, Type, read_by_duckdb, read_by_spark

#: The delimiter for each ending, where none is given.
DELIMITERS = {".csv": ",", ".tsv": "\t"}


def checked_delimiter(delimiter: object, suffix: str) -> str:
    """The delimiter of a file with this suffix, or the one that was given."""
    if delimiter is None:
        return DELIMITERS[suffix]
    if not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '"\r\n' or not delimiter.isascii():
        raise ValueError(f'delimiter must be one character, as ";" or "\\t", got {delimiter!r}')
    return delimiter


def header_of(paths: Sequence[Path], delimiter: str) -> list[str]:
    """The names of the columns, which all files must have in the same order."""
    headers = [_header(path, delimiter) for path in paths]
    for path, header in zip(paths, headers, strict=True):
        if header != headers[0]:
            raise ValueError(
                f"source: the files must have the same columns in the same order; {str(path)!r} has others than "
                f"{str(paths[0])!r}"
            )
    return headers[0]


def _header(path: Path, delimiter: str) -> list[str]:
    wrong = ValueError(f"source: the first line of {str(path)!r} must hold the names of the columns, in UTF-8")
    try:
        with pa.input_stream(str(path), compression="detect") as stream:
            # What follows the first line may be anything.
            text = io.TextIOWrapper(stream, "utf-8-sig", errors="surrogateescape", newline="")
            names = next(csv.reader(text, delimiter=delimiter, quotechar='"', strict=True), [])
            "".join(names).encode()
    except (OSError, UnicodeEncodeError, csv.Error):
        raise wrong from None
    if not any(names):
        raise wrong
    return [name or f"column_{i}" for i, name in enumerate(names, start=1)]


def read_on_duckdb(
    connection: Any, paths: Sequence[Path], names: Sequence[str], delimiter: str, types: dict[str, Type]
) -> ir.Table:
    """The files as a view."""
    columns = ", ".join(f"{_text(name)}: 'VARCHAR'" for name in names)
    files = ", ".join(_text(str(path)) for path in paths)
    options = {
        "auto_detect": "false",
        "header": "true",
        "delim": _text(delimiter),
        "quote": "'\"'",
        "escape": "'\"'",
        "columns": f"{{{columns}}}",
        "encoding": "'utf-8'",
        "allow_quoted_nulls": "false",
        # No row is an error. Rows with too few fields are allowed only to a reader that reads one after the other.
        "null_padding": "true",
        "ignore_errors": "true",
        "strict_mode": "false",
        "parallel": "false",
    }
    settings = ", ".join(f"{name} = {value}" for name, value in options.items())
    shown = ", ".join(read_by_duckdb(name, types.get(name, TEXT)) for name in names)
    view = f"osgt_{token(8)}"
    connection.con.execute(f"CREATE VIEW {view} AS SELECT {shown} FROM read_csv([{files}], {settings})")
    found: ir.Table = connection.table(view)
    return found


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def read_on_spark(
    connection: Any, paths: Sequence[str], names: Sequence[str] | None, delimiter: str, types: dict[str, Type]
) -> ir.Table:
    """The files as a view; Spark reads the names itself where `names` is None, and checks each file's."""
    options = {
        "header": "true",
        "sep": delimiter,
        "quote": '"',
        "escape": '"',
        "encoding": "UTF-8",
        "mode": "PERMISSIVE",
        "multiLine": "true",
        # What stands for a field without text, so that it is told from "": nobody can have written it.
        "nullValue": token(32),
        "emptyValue": "",
        "columnNameOfCorruptRecord": f"osgt_{token(8)}",
        "enforceSchema": "false" if names is None else "true",
    }
    reader = connection._session.read.options(**options)
    if names is not None:
        from pyspark.sql.types import StringType, StructField, StructType  # noqa: PLC0415 - an extra

        reader = reader.schema(StructType([StructField(name, StringType()) for name in names]))
    frame = reader.csv([_quoted(path) for path in paths] if names is not None else list(paths))
    shown = [read_by_spark(name, types.get(name, TEXT)) for name in frame.columns]
    return table_of_frame(connection, frame.select(*shown))


def _quoted(path: str) -> str:
    """A path in which Spark sees no pattern."""
    return re.sub(r"([\[\]{}*?\\])", r"\\\1", path)
