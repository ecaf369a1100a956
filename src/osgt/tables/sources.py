"""Sources: whatever holds the rows, as an Ibis table. Only names and types are looked at here, no rows."""

import glob
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ibis
import ibis.expr.types as ir

from osgt.locations import shown, without_secrets
from osgt.sampling.entropy import token
from osgt.tables.bounding import HASHES
from osgt.tables.frames import arrow_table, check_names, names_of
from osgt.tables.reading import first_line, turn
from osgt.tables.spark import connection_to, running_session, session_for_files, table_of_frame
from osgt.tables.text_files import DELIMITERS, checked_delimiter, header_of, read_on_duckdb, read_on_spark
from osgt.tables.types import TEXT, checked_types, read_by_duckdb

_DATABASES = (".duckdb", ".ddb", ".db")
_PARQUET = (".parquet", ".pq")


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
    """

    table: ir.Table
    types: dict[str, str] = field(default_factory=dict)
    declarable: bool = False
    mixed: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Options:
    """What goes with a source: how it is read."""

    table: str | None = None
    engine: str | None = None
    master: str | None = None
    types: Any = None
    delimiter: str | None = None


def source_of(source: Any, options: Options) -> Source:
    """The table that `source` stands for.

    Parameters
    ----------
    source
        A path or glob of Parquet or CSV files; the path of a DuckDB file, a DuckDB connection, a Spark session or the
        URL of a PostgreSQL database, each with `table`; a pandas, polars or pyarrow frame; an Ibis table; a Spark
        DataFrame.
    """
    if options.engine not in (None, "duckdb", "spark", "postgres"):
        raise ValueError(f'engine must be "duckdb", "spark" or "postgres", got {options.engine!r}')
    if isinstance(source, ir.Table):
        found = Source(_own_engine(source))
    elif isinstance(source, str | os.PathLike):
        found = _opened(os.fspath(source), options)
    else:
        found = _object(source, options)
    backend = found.table.get_backend()
    if backend.name not in HASHES:
        raise ValueError(
            f"source must be on DuckDB, Spark or PostgreSQL, got a table on {backend.name}: hand over an Arrow table "
            "or a file instead"
        )
    if options.types and not found.declarable:
        raise ValueError("types are for CSV files and for frames; this source has types of its own: cast them there")
    if options.delimiter is not None and not _is_text_file(source):
        raise ValueError("delimiter is for CSV files")
    return found


def _is_text_file(source: Any) -> bool:
    return isinstance(source, str | os.PathLike) and _suffix(os.fspath(source)) in DELIMITERS


def _own_engine(source: ir.Table) -> ir.Table:
    """The table itself; if it holds its rows in memory, on a DuckDB of its own."""
    backends, _ = source._find_backends()
    return source if backends else _on_duckdb(ibis.duckdb.connect().to_pyarrow(source), Options()).table


def _opened(name: str, options: Options) -> Source:
    """What a path or a URL names. Errors of engines and drivers may quote it, and so a password."""
    message = ""
    try:
        return _named(name, options)
    except (ValueError, TypeError, OSError, ImportError) as error:
        if without_secrets(str(error), name) == str(error):
            raise
        message = without_secrets(str(error), name)
    except Exception as error:  # each engine has errors of its own
        message = without_secrets(first_line(error), name)
    raise ValueError(f"source {shown(name)!r} cannot be read: {message}")


def _named(name: str, options: Options) -> Source:
    engine = options.engine
    if name.startswith(("postgresql://", "postgres://")):
        if engine not in (None, "postgres"):
            raise ValueError(f"engine must be postgres for a PostgreSQL URL, got {engine!r}")
        return Source(_table(ibis.connect(name), options.table))
    if engine == "postgres":
        raise ValueError(
            f"source must be a URL postgresql://user@host/database for engine postgres, got {shown(name)!r}"
        )
    if "://" in name and engine != "spark":
        raise ValueError(f"source must be a path or a URL postgresql://…, got {shown(name)!r}")
    suffix = _suffix(name)
    if suffix in _DATABASES:
        if not Path(name).is_file():
            raise FileNotFoundError(f"source: there is no database file {shown(name)!r}")
        return Source(_table(ibis.duckdb.connect(name, read_only=True), options.table))
    if engine == "spark" and options.table is None and not suffix:
        return Source(connection_to(running_session(options.master)).table(name))
    if suffix not in (*_PARQUET, *DELIMITERS):
        raise ValueError(f"source must be a Parquet, CSV or DuckDB file or a database URL, got {shown(name)!r}")
    if options.table is not None:
        raise ValueError(f"table is for databases, got table={options.table!r} with the file {shown(name)!r}")
    paths = [] if "://" in name else _files(name)
    if "://" not in name and not paths:
        raise FileNotFoundError(f"source: there is no file {shown(name)!r}")
    connection = connection_to(session_for_files(options.master)) if engine == "spark" else ibis.duckdb.connect()
    if suffix in _PARQUET:
        return Source(connection.read_parquet(name))
    return _text_files(connection, name, paths, suffix, options)


def _text_files(connection: Any, name: str, paths: list[Path], suffix: str, options: Options) -> Source:
    delimiter = checked_delimiter(options.delimiter, suffix)
    names = header_of(paths, delimiter) if paths else None
    if names is None:
        names = read_on_spark(connection, [name], None, delimiter, {}).columns
        declared = checked_types(options.types, list(names))
        table = read_on_spark(connection, [name], None, delimiter, declared)
    else:
        check_names(names)
        declared = checked_types(options.types, names)
        if connection.name == "pyspark":
            table = read_on_spark(connection, [str(path) for path in paths], names, delimiter, declared)
        else:
            table = read_on_duckdb(connection, paths, names, delimiter, declared)
    return Source(table, {name: dtype.name for name, dtype in declared.items()}, declarable=True)


def _object(source: Any, options: Options) -> Source:
    """Frames and connections, told by the library that they come from: none of them needs to be installed."""
    library, kind = type(source).__module__.partition(".")[0], type(source).__name__
    if library == "pyspark" and kind == "DataFrame":
        if source.sparkSession.conf.get("spark.sql.caseSensitive") != "true":
            check_names(source.columns)
        return Source(table_of_frame(connection_to(source.sparkSession), source))
    if library == "pyspark":
        return Source(_table(connection_to(source), options.table))
    if library in ("duckdb", "_duckdb") and kind == "DuckDBPyConnection":
        return Source(_table(_callers_duckdb(source), options.table))
    if kind == "LazyFrame":
        source = source.collect()
    if (library, kind) in _FRAMES:
        return _on_duckdb(source, options)
    raise TypeError(
        "source must be a path, a database URL, a pandas, polars, pyarrow or Spark frame, a DuckDB or Spark "
        f"connection with table=, or an Ibis table; got {type(source).__name__}"
    )


_FRAMES = [
    *[("pandas", "DataFrame"), ("polars", "DataFrame"), ("polars", "LazyFrame")],
    *[("pyarrow", "Table"), ("pyarrow", "RecordBatch")],
]


def _callers_duckdb(connection: Any) -> Any:
    """The caller's connection for Ibis, whose own way to connect sets its time zone and more."""
    ibis.duckdb  # noqa: B018 - its options are known once it is named
    from ibis.backends.duckdb import Backend  # noqa: PLC0415 - it is loaded when first used

    backend = Backend(id(connection))
    backend.con, backend._can_reconnect, backend._record_batch_readers_consumed = connection, False, {}
    return backend


def _on_duckdb(frame: Any, options: Options) -> Source:
    """A frame on a DuckDB of its own."""
    declared = checked_types(options.types, names_of(frame))
    table, mixed = arrow_table(frame, declared)
    for name in declared:
        dtype = table.schema.field(name).type
        if str(dtype) not in _TEXTS:
            raise ValueError(f"types: column {name!r} has the type {dtype} of its own; types are declared for text")
    connection, view = ibis.duckdb.connect(), f"osgt_{token(8)}"
    connection.con.register("osgt_frame", table)
    shown_columns = [read_by_duckdb(name, declared.get(name, TEXT)) for name in table.column_names]
    connection.con.execute(f"CREATE TEMP VIEW {view} AS SELECT {', '.join(shown_columns)} FROM osgt_frame")
    types = {name: dtype.name for name, dtype in declared.items()}
    return Source(connection.table(view), types, declarable=True, mixed=mixed)


#: Text in Arrow.
_TEXTS = ("string", "large_string", "string_view")


def _table(connection: Any, table: str | None) -> ir.Table:
    if table is None:
        raise ValueError("table must be given: the name of the table in the database")
    *schema, name = table.split(".")
    try:
        with turn(connection):
            found: ir.Table = connection.table(name, database=tuple(schema) or None)
    except ibis.common.exceptions.TableNotFound:
        raise ValueError(f"table: there is no table {table!r} in the database") from None
    return found


def origin(source: object, table: str | None = None) -> str:
    """A name for a source that gives no password away."""
    if isinstance(source, str | os.PathLike):
        text = shown(os.fspath(source))
    else:
        text = f"{type(source).__module__.partition('.')[0]} {type(source).__name__}"
    return text if table is None else f"{text}, table {table}"


def files_of(source: object, table: ir.Table) -> tuple[str, ...]:
    """The files that are read, as paths or globs: none of them may be written to."""
    named = [os.fspath(source)] if isinstance(source, str | os.PathLike) else []
    backend = table.get_backend()
    if backend.name == "duckdb":
        found = backend.con.cursor().execute("SELECT path FROM duckdb_databases() WHERE path IS NOT NULL").fetchall()
        named += [glob.escape(path) for (path,) in found]
    return tuple(named)


def _suffix(name: str) -> str:
    path = Path(name)
    suffix = path.suffix.lower()
    return Path(path.stem).suffix.lower() if suffix in (".gz", ".zst") else suffix


def _files(name: str) -> list[Path]:
    """The files that a path or a glob names, in the order of their names."""
    path = Path(name)
    if path.exists():
        return [path]
    if not any(char in name for char in "*?["):
        return []
    pattern = str(path.relative_to(path.anchor)) if path.anchor else name
    return sorted(Path(path.anchor or ".").glob(pattern))
