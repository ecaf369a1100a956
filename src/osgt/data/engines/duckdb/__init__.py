"""DuckDB: the engine for files and frames, and for DuckDB's own files and connections."""

import glob
import hashlib
import os
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any
from weakref import WeakSet

import ibis
import ibis.expr.datatypes as dt
import ibis.expr.schema as sch
import ibis.expr.types as ir
import pyarrow as pa
from sqlglot import exp

from osgt.data.engines.duckdb.reading import frame_as_view, is_frame, text_files_as_view
from osgt.data.engines.duckdb.where import DuckDBWhere
from osgt.data.engines.engine import Engine, decimal, digits_of, function, least_beyond
from osgt.data.engines.source import PARQUET, Options, Source, check_file, is_rows, suffix_of, table_in
from osgt.support.arrays import DECIMAL_DIGITS
from osgt.support.errors import ArgumentError, about
from osgt.support.servers import shown

#: Connections that are not a caller's.
_OWN: WeakSet[Any] = WeakSet()

_DATABASES = (".duckdb", ".ddb", ".db")

#: Nothing is downloaded, and no code is loaded, because a file or a query asks for it.
_NO_EXTENSIONS = {"autoinstall_known_extensions": False, "autoload_known_extensions": False}

#: Where DuckDB's files say what they are.
_MAGIC = slice(8, 12)


class DuckDB(Engine):
    """DuckDB. Its integers of 128 bits, HUGEINT, are decimals of 38 digits to Ibis, but some of them have 39."""

    name = "duckdb"
    title = "DuckDB"
    backend = "duckdb"
    takes = (
        "a path or glob of Parquet or CSV files, a DuckDB file or connection with table=, or a pandas, polars or "
        "pyarrow frame"
    )
    dialect = DuckDBWhere
    computes_once = True

    def connect(self, path: str | None = None) -> Any:
        """A new connection: to a file, from which it only reads, or to a database in memory."""
        backend = ibis.duckdb.connect(**_NO_EXTENSIONS) if path is None else _file(path)
        _OWN.add(backend.con)
        return backend

    def opens(self, source: Any) -> bool:
        if isinstance(source, str | os.PathLike):
            return self.is_path(os.fspath(source))
        return isinstance(source, ir.Table) or _is_connection(source) or is_frame(source)

    def opened(self, source: Any, options: Options) -> Source:
        if isinstance(source, str | os.PathLike):
            return self._open_named(os.fspath(source), options)
        if _is_connection(source):
            backend = _callers(source)
            with self.turn(backend):
                return Source(table_in(backend, options.table))
        if isinstance(source, ir.Table):  # which holds its rows in memory
            source = self.connect().to_pyarrow(source)
        if is_frame(source):
            return frame_as_view(self.connect(), source, options.types)
        raise self.refused(source)

    def _open_named(self, name: str, options: Options) -> Source:
        if not self.is_path(name):
            raise self.refused(name)
        if suffix_of(name) in _DATABASES:
            if not Path(name).is_file():
                raise about("source", FileNotFoundError(f"source: there is no database file {shown(name)!r}"))
            return Source(_table_in_file(self.connect(name), options.table))
        if not is_rows(name):
            raise self.refused(name)
        paths = check_file(name, options)
        if suffix_of(name) in PARQUET:
            return Source(self.connect().read_parquet(name))
        return text_files_as_view(self.connect(), paths, suffix_of(name), options)

    def files(self, backend: Any) -> list[str]:
        result = backend.con.cursor().execute("SELECT path FROM duckdb_databases() WHERE path IS NOT NULL").fetchall()
        return [glob.escape(path) for (path,) in result]

    def small_table(self, backend: Any, table: pa.Table) -> ir.Table:
        """A table of a connection of our own: joined to one whose ranges are known, rows need no hash table."""
        if backend.con not in _OWN:
            return super().small_table(backend, table)  # nothing is left in a caller's connection
        name = f"osgt_{_digest(table)}"
        with self.turn(backend):
            backend.con.register(f"{name}_rows", table)
            backend.con.execute(f"CREATE TEMP TABLE IF NOT EXISTS {name} AS FROM {name}_rows")
            backend.con.unregister(f"{name}_rows")
            result: ir.Table = backend.table(name, database=("temp", "main"))
        return result

    # Columns

    def text_bytes(self, column: ir.Value) -> ir.Value:
        return function("encode", column, returns=dt.binary)

    def carried_plain(self, column: ir.Value) -> ir.Value:
        dtype = column.type()
        if dtype.is_date() or dtype.is_timestamp():
            return function("isfinite", column, returns=dt.boolean).ifelse(column, ibis.null(dtype))
        if dtype.is_decimal() and dtype.scale == 0 and dtype.precision == DECIMAL_DIGITS:
            return column.cast("string").try_cast(dtype)  # HUGEINT
        return column

    # Numbers

    def hashed(self, salt: int, columns: Sequence[ir.Value]) -> ir.Value:
        salted = function("hash", ibis.literal(salt, type="int64"), *columns, returns=dt.uint64)
        # Hashed again: the engine combines the hashes of columns by exclusive or, which keeps an order of groups.
        return (function("hash", salted, returns=dt.uint64) >> 32).cast("uint32")

    def total(self, numbers: Any) -> Any:
        return numbers.sum().cast("decimal(38, 0)")  # summed in 128 bits

    def quotient(self, numerator: Any, denominator: Any) -> Any:
        return function("divide", numerator.cast("int64"), denominator.cast("int64"), returns=dt.int64)

    def decimal_steps(self, column: ir.DecimalValue, step: Fraction, low: int, high: int) -> ir.IntegerValue:
        """Seen from the lower bound values are not negative, so that the engine's rounding away from 0 is up."""
        scale, digits = column.type().scale, digits_of(step)
        least, most = low * step, high * step
        whole_digits = max(column.type().precision - scale, len(str(int(max(abs(least), abs(most))))))
        dtype = dt.Decimal(min(whole_digits + scale + 1, DECIMAL_DIGITS), scale)
        value = ibis.greatest(_within_decimals(column).cast(dtype), decimal(least, dtype))
        if most < least_beyond(dtype):
            value = ibis.least(value, decimal(most, dtype))
        rounded = value - decimal(least, dtype)
        if digits < scale:
            places = ibis.literal(digits, type="int32")
            rounded = function("round", rounded, places, returns=dt.Decimal(38, max(digits, 0)))
        # At most 2³² steps: floats tell these apart, whatever the step is.
        steps = (rounded.cast("float64") * float(1 / step)).round().cast("int64")
        return steps + low

    def shifted(self, column: ir.IntegerValue, bits: int) -> ir.IntegerValue:
        if not column.type().is_uint64():
            return column >> bits
        # Ibis takes what is shifted for signed.
        return function("divide", column, ibis.literal(1 << bits, type="uint64"), returns=dt.uint64).cast("int64")

    # Queries

    def compiled(self, backend: Any, expression: ir.Table) -> str:
        backend._run_pre_execute_hooks(expression)
        query = backend.compiler.to_sqlglot(expression)
        uses = Counter(table.name for table in query.find_all(exp.Table))
        for part in query.find_all(exp.CTE):
            if uses[part.alias] > 1:
                # Otherwise it is for the engine to decide whether it reads twice, and rows might differ between these.
                part.set("materialized", True)
        sql: str = query.sql(dialect=backend.dialect)
        return sql

    def replaced(self, backend: Any, names: list[str]) -> list[str]:
        # Macros among the built-in functions use others, so no name of theirs may be taken.
        functions = "SELECT DISTINCT function_name FROM system.main.duckdb_functions() WHERE"
        if not backend.con.execute(f"{functions} NOT internal").fetchall():
            return []
        both = f"{functions} NOT internal INTERSECT {functions} internal ORDER BY 1"
        return [name for (name,) in backend.con.execute(both).fetchall()]

    def fetched(self, backend: Any, sql: str, schema: sch.Schema) -> pa.Table:
        return backend.con.sql(sql).to_arrow_table().cast(schema.to_pyarrow())

    def progress(self, backend: Any) -> float | None:
        percent = float(backend.con.query_progress())
        return percent if percent >= 0 else None


def _file(path: str) -> Any:
    """A connection to a file that reads nothing else: views in it are code of whoever made it."""
    import duckdb  # noqa: PLC0415 - Ibis loads it when it is first used

    with Path(path).open("rb") as file:
        magic = file.read(_MAGIC.stop)[_MAGIC]
    if magic != b"DUCK":
        raise ArgumentError(
            f"source: {shown(path)!r} is no DuckDB file; write its table to a Parquet or CSV file", argument="source"
        )
    try:
        return ibis.duckdb.connect(path, read_only=True, enable_external_access=False, **_NO_EXTENSIONS)
    except duckdb.ConnectionException:
        raise ArgumentError(
            f"source: this program has {shown(path)!r} open already; close that connection, or hand it over",
            argument="source",
        ) from None


def _table_in_file(backend: Any, table: str | None) -> ir.Table:
    import duckdb  # noqa: PLC0415 - it is loaded by now

    try:
        return table_in(backend, table)
    except duckdb.PermissionException:
        raise ArgumentError(
            f"table: {table!r} is a view that reads more than its own file, which would be read with your rights; "
            "store its rows in a table of the file, or open the file yourself and hand the connection over",
            argument="table",
        ) from None


def _is_connection(source: Any) -> bool:
    kind = type(source)
    return kind.__module__.partition(".")[0] in ("duckdb", "_duckdb") and kind.__name__ == "DuckDBPyConnection"


def _digest(table: pa.Table) -> str:
    """A name for what a table holds: one that is asked for again is there already."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table.combine_chunks())
    return hashlib.blake2b(sink.getvalue(), digest_size=16).hexdigest()


def _callers(connection: Any) -> Any:
    """The caller's connection for Ibis, whose own way to connect sets its time zone and more."""
    ibis.duckdb  # noqa: B018 - its options are known once it is named
    from ibis.backends.duckdb import Backend  # noqa: PLC0415 - it is loaded when first used

    backend = Backend(id(connection))
    backend.con, backend._can_reconnect, backend._record_batch_readers_consumed = connection, False, {}
    return backend


def _within_decimals(column: ir.DecimalValue) -> ir.DecimalValue:
    """HUGEINT as a decimal: what has too many digits is as far away as that can say."""
    if column.type().scale or column.type().precision < DECIMAL_DIGITS:
        return column
    last = decimal(Fraction(10**DECIMAL_DIGITS - 1), column.type())
    far = (column.cast("float64") > 0).ifelse(last, -last)
    return ibis.coalesce(column.cast("string").try_cast(column.type()), far)
