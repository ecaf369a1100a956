"""Sources: whatever holds the rows, as an Ibis table. Only names and types are looked at here, no rows."""

import glob
import os
from pathlib import Path
from typing import Any

import ibis
import ibis.expr.types as ir
import pyarrow as pa

from osgt.sampling.entropy import token
from osgt.tables.bounding import HASHES

_DATABASES = (".duckdb", ".ddb", ".db")
_FILES = {".parquet": "read_parquet", ".pq": "read_parquet", ".csv": "read_csv", ".tsv": "read_csv"}

#: The name under which a frame is known to the engine.
_FRAME = "osgt_source"


def table_of(
    source: Any, table: str | None = None, *, engine: str | None = None, master: str | None = None
) -> ir.Table:
    """The table that `source` stands for.

    Parameters
    ----------
    source
        A path or glob of Parquet or CSV files; the path of a DuckDB file, a DuckDB connection, a Spark session or the
        URL of a PostgreSQL database, each with `table`; a pandas, polars or pyarrow frame; an Ibis table; a Spark
        DataFrame.
    table
        The table of a database, `schema.table` if need be.
    engine
        For files: "duckdb" (the default) or "spark".
    master
        Where Spark runs; "local[*]", all cores of this machine, by default.
    """
    if engine not in (None, "duckdb", "spark", "postgres"):
        raise ValueError(f'engine must be "duckdb", "spark" or "postgres", got {engine!r}')
    if isinstance(source, ir.Table):
        found = _own_engine(source)
    elif isinstance(source, str | os.PathLike):
        try:
            found = _named(os.fspath(source), table, engine, master)
        except (ValueError, OSError, ImportError):
            raise
        except Exception as error:  # each engine has errors of its own
            raise ValueError(f"source {origin(source)!r} cannot be read: {first_line(error)}") from error
    else:
        found = _object(source, table)
    if found.get_backend().name not in HASHES:
        raise ValueError(
            f"source must be on DuckDB, Spark or PostgreSQL, got a table on {found.get_backend().name}: "
            "hand over an Arrow table or a file instead"
        )
    return found


def _own_engine(source: ir.Table) -> ir.Table:
    """The table itself; if it holds its rows in memory, on a DuckDB of its own."""
    backends, _ = source._find_backends()
    return source if backends else _on_duckdb(ibis.duckdb.connect().to_pyarrow(source))


def _named(name: str, table: str | None, engine: str | None, master: str | None) -> ir.Table:
    if name.startswith(("postgresql://", "postgres://")):
        if engine not in (None, "postgres"):
            raise ValueError(f"engine must be postgres for a PostgreSQL URL, got {engine!r}")
        return _table(ibis.connect(name), table)
    if engine == "postgres":
        raise ValueError(f"source must be a URL postgresql://user@host/database for engine postgres, got {name!r}")
    if "://" in name and engine != "spark":
        raise ValueError(f"source must be a path or a URL postgresql://…, got {name!r}")
    suffix = _suffix(name)
    if suffix in _DATABASES:
        if not Path(name).is_file():
            raise FileNotFoundError(f"source: there is no database file {name!r}")
        return _table(ibis.duckdb.connect(name, read_only=True), table)
    if engine == "spark" and table is None and not suffix:
        return spark(master).table(name)
    if suffix not in _FILES:
        raise ValueError(f"source must be a Parquet, CSV or DuckDB file or a database URL, got {name!r}")
    if table is not None:
        raise ValueError(f"table is for databases, got table={table!r} with the file {name!r}")
    connection = spark(master) if engine == "spark" else ibis.duckdb.connect()
    if "://" not in name and not _exists(name):
        raise FileNotFoundError(f"source: there is no file {name!r}")
    options = {"header": True, "inferSchema": True} if engine == "spark" and _FILES[suffix] == "read_csv" else {}
    read = getattr(connection, _FILES[suffix])
    found: ir.Table = read(name, **options)
    return found


def _object(source: Any, table: str | None) -> ir.Table:
    """Frames and connections, told by the library that they come from: none of them needs to be installed."""
    library, kind = type(source).__module__.partition(".")[0], type(source).__name__
    if library == "pyspark" and kind == "DataFrame":
        return _spark_view(_spark_connection(source.sparkSession), source)
    if library == "pyspark":
        return _table(_spark_connection(source), table)
    if library in ("duckdb", "_duckdb") and kind == "DuckDBPyConnection":
        return _table(ibis.duckdb.from_connection(source), table)
    if kind == "LazyFrame":
        source = source.collect()
    if library in ("pandas", "polars", "pyarrow"):
        return _on_duckdb(source)
    raise TypeError(
        "source must be a path, a database URL, a pandas, polars, pyarrow or Spark frame, a DuckDB or Spark "
        f"connection with table=, or an Ibis table; got {type(source).__name__}"
    )


def _on_duckdb(frame: Any) -> ir.Table:
    connection = ibis.duckdb.connect()
    connection.con.register(_FRAME, frame)
    return connection.table(_FRAME)


def _table(connection: Any, table: str | None) -> ir.Table:
    if table is None:
        raise ValueError("table must be given: the name of the table in the database")
    *schema, name = table.split(".")
    try:
        found: ir.Table = connection.table(name, database=tuple(schema) or None)
    except ibis.common.exceptions.TableNotFound:
        raise ValueError(f"table: there is no table {table!r} in the database") from None
    return found


def first_line(error: BaseException) -> str:
    """What an engine says went wrong; what follows may quote rows and settings."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def origin(source: object, table: str | None = None) -> str:
    """A name for a source that gives no password away."""
    if not isinstance(source, str | os.PathLike):
        text = f"{type(source).__module__.partition('.')[0]} {type(source).__name__}"
    else:
        scheme, found, rest = os.fspath(source).partition("://")
        text = f"{scheme}://{rest.rpartition('@')[2].partition('?')[0]}" if found else scheme
    return text if table is None else f"{text}, table {table}"


def files_of(source: object, table: ir.Table) -> tuple[str, ...]:
    """The files that are read, as paths or globs: none of them may be written to."""
    named = [os.fspath(source)] if isinstance(source, str | os.PathLike) else []
    backend = table.get_backend()
    if backend.name == "duckdb":
        found = backend.con.cursor().execute("SELECT path FROM duckdb_databases() WHERE path IS NOT NULL").fetchall()
        named += [glob.escape(path) for (path,) in found]
    return tuple(named)


def seed_anew(backend: Any) -> None:
    """Give the engine's random numbers a new beginning that nobody knows.

    They choose rows where a unit has too many, one number after the other: known numbers would let one unit's rows
    decide about another's. Spark seeds every query by itself.
    """
    query = f"SELECT setseed({(int(token(8), 16) >> 11) * 2.0**-53!r})"
    if backend.name == "duckdb":
        backend.con.execute(query)
    elif backend.name == "postgres":
        with backend.con.cursor() as cursor:
            cursor.execute(query)


def fetched(expression: ir.Table) -> pa.Table:
    """The rows of a query, as Arrow."""
    backend = expression.get_backend()
    if backend.name == "pyspark":
        # Ibis goes through pandas here, where whole numbers beside a null become floats and large ones run together.
        backend._run_pre_execute_hooks(expression)
        found: pa.Table = backend.raw_sql(backend.compile(expression)).toArrow()
    else:
        found = backend.to_pyarrow(expression)
    return found


def spark_table(connection: Any, table: pa.Table) -> ir.Table:
    """A small Arrow table on Spark."""
    return _spark_view(connection, connection._session.createDataFrame(table))


def _spark_view(connection: Any, frame: Any) -> ir.Table:
    """A Spark DataFrame under a name of its own."""
    view = f"{_FRAME}_{token(8)}"
    frame.createOrReplaceTempView(view)
    found: ir.Table = connection.table(view)
    return found


def spark(master: str | None) -> Any:
    """Spark on this machine or at `master`; a session that runs already is used as it is."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - an extra

    builder = SparkSession.builder.appName("osgt").config("spark.ui.enabled", "false")
    return _spark_connection(builder.master(master or "local[*]").getOrCreate())


def _spark_connection(session: Any) -> Any:
    return ibis.pyspark.connect(session)


def _suffix(name: str) -> str:
    path = Path(name)
    suffix = path.suffix.lower()
    return Path(path.stem).suffix.lower() if suffix in (".gz", ".zst") else suffix


def _exists(name: str) -> bool:
    path = Path(name)
    if path.exists():
        return True
    return (
        any(char in name for char in "*?[")
        and next(Path(path.anchor or ".").glob(str(path.relative_to(path.anchor)) if path.anchor else name), None)
        is not None
    )
