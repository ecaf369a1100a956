"""Frames and CSV files as views of DuckDB, with columns of text in their declared types."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from osgt.data.engines.source import Options, Source, arrow_table, check_names, names_of, source_of_texts
from osgt.data.text_files import CleanFiles, TextForm, header_of
from osgt.data.types import LONGEST, TEXT, Type, parse_types
from osgt.sampling.entropy import token
from osgt.support.errors import ArgumentError

_FRAMES = [
    *[("pandas", "DataFrame"), ("polars", "DataFrame"), ("polars", "LazyFrame")],
    *[("pyarrow", "Table"), ("pyarrow", "RecordBatch")],
]

#: Text in Arrow.
_TEXTS = ("string", "large_string", "string_view")

#: DuckDB's names for declared types; decimals have theirs.
_NAMES = {"int64": "BIGINT", "float64": "DOUBLE"}

#: The bytes of the longest row that is read, and those that are read at once.
_LONGEST_ROW, _BUFFER = 2 << 20, 128 << 20


def is_frame(source: Any) -> bool:
    """Whether it is a frame, told by the library that it comes from: none of them needs to be installed."""
    return (type(source).__module__.partition(".")[0], type(source).__name__) in _FRAMES


def frame_as_view(engine: Any, connection: Any, frame: Any, types: Any) -> Source:
    """A frame on a connection of its own."""
    if type(frame).__name__ == "LazyFrame":
        frame = frame.collect()
    declared = parse_types(types, names_of(frame))
    table, mixed = arrow_table(frame, declared)
    for name in declared:
        dtype = table.schema.field(name).type
        if str(dtype) not in _TEXTS:
            raise ArgumentError(
                f"types: column {name!r} has the type {dtype} of its own; types are declared for text", argument="types"
            )
    name = f"osgt_frame_{token(8)}"  # there may be several on a connection
    connection.register(name, table)
    view = partial(_view, engine, connection, name)
    return source_of_texts(table.column_names, declared, _value, view, has_fields=False, mixed=mixed)


def text_files_as_view(engine: Any, connection: Any, paths: Sequence[Path], suffix: str, options: Options) -> Source:
    """CSV files on a connection of their own."""
    form = TextForm.of(options, suffix)
    writing = options.writing
    names = header_of(paths, form)
    check_names(names)
    declared = parse_types(options.types, names, writing)
    clean = CleanFiles(paths, form)
    columns = ", ".join(f"{_text(name)}: 'VARCHAR'" for name in names)
    files = ", ".join(_text(str(path)) for path in clean.paths)
    how = {
        # Nothing is found out from the rows, nor from the names of folders.
        "auto_detect": "false",
        "hive_partitioning": "false",
        "header": "true",
        "delim": _text(form.delimiter),
        "quote": _text(form.quote),
        "escape": _text(form.quote),
        "columns": f"{{{columns}}}",
        "encoding": "'utf-8'",
        "allow_quoted_nulls": "false",
        # No row is an error. Rows with too few fields are allowed only to a reader that reads one after the other.
        "null_padding": "true",
        "ignore_errors": "true",
        "strict_mode": "false",
        "parallel": "false",
        # Longer rows are left out, wherever they stand; a field that is longer than a buffer could end in the middle.
        "max_line_size": str(_LONGEST_ROW),
        "buffer_size": str(_BUFFER),
    }
    settings = ", ".join(f"{name} = {value}" for name, value in how.items())
    view = partial(_view, engine, connection, f"read_csv([{files}], {settings})")
    return source_of_texts(names, declared, _value, view, has_fields=True, files=clean)


def parquet_as_view(engine: Any, connection: Any, name: str) -> Any:
    """Parquet files, by a path or a glob, on a connection of their own."""
    return _view(engine, connection, f"read_parquet({_text(name)})", {})


def _view(engine: Any, connection: Any, rows: str, columns: dict[str, str]) -> Any:
    name = f"osgt_{token(8)}"
    values = ", ".join(f"{value} AS {_name(column)}" for column, value in columns.items()) or "*"
    connection.execute(f"CREATE TEMP VIEW {name} AS SELECT {values} FROM {rows}")
    return engine.stored(connection, f"temp.main.{name}")


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _name(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'


def _value(column: str, dtype: Type) -> str:
    """SQL for a column of text in its declared type."""
    name = _name(column)
    if dtype == TEXT:
        return name
    text = f"CASE WHEN length({name}) <= {LONGEST} THEN {name} END"
    kind = _NAMES.get(dtype.name, dtype.name.upper())
    parts = [
        _text(part) if isinstance(part, str) else f"regexp_extract({text}, {_text(dtype.whole)}, {part})"
        for part in dtype.parts
    ]
    read = " || ".join(parts)
    if dtype.comma:
        read = f"replace({read}, ',', '.')"
    return f"TRY_CAST({read} AS {kind})"
