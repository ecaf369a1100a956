"""Frames and CSV files as views of DuckDB, with columns of text in their declared types."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from osgt.sampling.entropy import token
from osgt.tables.engines.source import Options, Source
from osgt.tables.frames import arrow_table, check_names, names_of
from osgt.tables.text_files import checked_delimiter, header_of
from osgt.tables.types import LONGEST, TEXT, Type, checked_types

_FRAMES = [
    *[("pandas", "DataFrame"), ("polars", "DataFrame"), ("polars", "LazyFrame")],
    *[("pyarrow", "Table"), ("pyarrow", "RecordBatch")],
]

#: Text in Arrow.
_TEXTS = ("string", "large_string", "string_view")

#: DuckDB's names for declared types; decimals have theirs.
_NAMES = {"int64": "BIGINT", "float64": "DOUBLE"}


def is_frame(source: Any) -> bool:
    """Whether it is a frame, told by the library that it comes from: none of them needs to be installed."""
    return (type(source).__module__.partition(".")[0], type(source).__name__) in _FRAMES


def frame_as_view(connection: Any, frame: Any, types: Any) -> Source:
    """A frame on a connection of its own."""
    if type(frame).__name__ == "LazyFrame":
        frame = frame.collect()
    declared = checked_types(types, names_of(frame))
    table, mixed = arrow_table(frame, declared)
    for name in declared:
        dtype = table.schema.field(name).type
        if str(dtype) not in _TEXTS:
            raise ValueError(f"types: column {name!r} has the type {dtype} of its own; types are declared for text")
    connection.con.register("osgt_frame", table)
    return _source(connection, table.column_names, declared, "osgt_frame", mixed)


def text_files_as_view(connection: Any, paths: Sequence[Path], suffix: str, options: Options) -> Source:
    """CSV files on a connection of their own."""
    delimiter = checked_delimiter(options.delimiter, suffix)
    names = header_of(paths, delimiter)
    check_names(names)
    declared = checked_types(options.types, names)
    columns = ", ".join(f"{_text(name)}: 'VARCHAR'" for name in names)
    files = ", ".join(_text(str(path)) for path in paths)
    how = {
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
    settings = ", ".join(f"{name} = {value}" for name, value in how.items())
    return _source(connection, names, declared, f"read_csv([{files}], {settings})")


def _source(
    connection: Any, names: Sequence[str], declared: dict[str, Type], rows: str, mixed: frozenset[str] = frozenset()
) -> Source:
    """The rows as a view, and as another one what declared types were read from."""

    def view(columns: list[str]) -> Any:
        name = f"osgt_{token(8)}"
        connection.con.execute(f"CREATE TEMP VIEW {name} AS SELECT {', '.join(columns)} FROM {rows}")
        return connection.table(name)

    table = view([f"{_value(name, declared.get(name, TEXT))} AS {_name(name)}" for name in names])
    texts = []
    for i, (name, dtype) in enumerate(declared.items()):
        if dtype != TEXT:
            texts += [f"{_name(name)} AS text_{i}", f"{_value(name, dtype)} AS value_{i}"]
    return Source(table, _names(declared), declarable=True, mixed=mixed, texts=view(texts) if texts else None)


def _names(declared: dict[str, Type]) -> dict[str, str]:
    return {name: dtype.name for name, dtype in declared.items()}


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
    return f"TRY_CAST(regexp_extract({text}, '{dtype.whole}', 1) AS {kind})"
