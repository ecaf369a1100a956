"""Sources: a table of an engine and what is known about its types. Only names and types are looked at, no rows."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ibis
import ibis.expr.types as ir

from osgt.locations import shown
from osgt.tables.text_files import DELIMITERS

PARQUET = (".parquet", ".pq")


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
        The same rows with what is declared: for the type at place i its text as `text_i`, its value as `value_i`. None
        if nothing is declared to be anything but text.
    """

    table: ir.Table
    types: dict[str, str] = field(default_factory=dict)
    declarable: bool = False
    mixed: frozenset[str] = frozenset()
    texts: ir.Table | None = None


@dataclass(frozen=True)
class Options:
    """What goes with a source: how it is read."""

    table: str | None = None
    engine: str | None = None
    master: str | None = None
    types: Any = None
    delimiter: str | None = None


def table_in(connection: Any, table: str | None) -> ir.Table:
    """A table of a database."""
    if table is None:
        raise ValueError("table must be given: the name of the table in the database")
    *schema, name = table.split(".")
    try:
        found: ir.Table = connection.table(name, database=tuple(schema) or None)
    except ibis.common.exceptions.TableNotFound:
        raise ValueError(f"table: there is no table {table!r} in the database") from None
    return found


def suffix_of(name: str) -> str:
    """The ending of a file's name that says what is in it."""
    path = Path(name)
    suffix = path.suffix.lower()
    return Path(path.stem).suffix.lower() if suffix in (".gz", ".zst") else suffix


def check_file(name: str, options: Options) -> list[Path]:
    """The Parquet or CSV files that a path or a glob names, in the order of their names. There is at least one."""
    if options.table is not None:
        raise ValueError(f"table is for databases, got table={options.table!r} with the file {shown(name)!r}")
    paths = _files(name)
    if not paths:
        raise FileNotFoundError(f"source: there is no file {shown(name)!r}")
    return paths


def is_rows(name: str) -> bool:
    """Whether this is the name of a Parquet or CSV file."""
    return suffix_of(name) in (*PARQUET, *DELIMITERS)


def _files(name: str) -> list[Path]:
    path = Path(name)
    if path.exists():
        return [path]
    if not any(char in name for char in "*?["):
        return []
    pattern = str(path.relative_to(path.anchor)) if path.anchor else name
    return sorted(Path(path.anchor or ".").glob(pattern))
