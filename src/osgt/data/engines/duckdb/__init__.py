"""DuckDB: the engine for files and frames, and for DuckDB's own files and connections."""

import glob
import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import pyarrow as pa

from osgt.data.engines.duckdb.reading import frame_as_view, is_frame, parquet_as_view, text_files_as_view
from osgt.data.engines.duckdb.where import DuckDBWhere
from osgt.data.engines.engine import Engine, decimal, digits_of, least_beyond
from osgt.data.engines.source import Options, Source, check_file, is_rows
from osgt.data.sql import Table, Value
from osgt.data.types import ColumnType, decimal_type
from osgt.sampling.entropy import token
from osgt.support.errors import ArgumentError, about
from osgt.support.locations import PARQUET, shown, suffix_of
from osgt.support.numeric import DECIMAL_DIGITS

#: Connections that are not a caller's.
_OWN: WeakSet[Any] = WeakSet()

_DATABASES = (".duckdb", ".ddb", ".db")

#: Nothing is downloaded, and no code is loaded, because a file or a query asks for it; and no variable of a program is
#: taken for a table.
_SETTINGS: dict[str, Any] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,
}

#: Where DuckDB's files say what they are.
_MAGIC = slice(8, 12)


class DuckDB(Engine):
    """DuckDB. Its integers of 128 bits, HUGEINT, are decimals of 38 digits to us, but some of them have 39."""

    name = "duckdb"
    title = "DuckDB"
    ibis_name = "duckdb"
    takes = (
        "a path or glob of Parquet, CSV, Excel, SPSS, Stata or SAS files, a DuckDB file or connection with table=, or "
        "a pandas, polars or pyarrow frame"
    )
    dialect = DuckDBWhere
    computes_once = True
    oldest = MappingProxyType({"DuckDB": "1.5.2"})

    def connect(self, path: str | None = None) -> Any:
        """A new connection: to a file, from which it only reads, or to a database in memory."""
        import duckdb  # noqa: PLC0415 - it is loaded when it is first used

        connection = duckdb.connect(config=_SETTINGS) if path is None else _file(path)
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("SET enable_progress_bar_print = false")  # DuckDB's own goes to standard output
        # Statistics of Parquet files leave NaN out: DuckDB 2.0.0 takes them for complete, and isnan for false.
        connection.execute("SET disabled_optimizers = 'statistics_propagation'")
        _OWN.add(connection)
        return connection

    def opens(self, source: Any) -> bool:
        if isinstance(source, str | os.PathLike):
            return self.is_path(os.fspath(source))
        return _is_connection(source) or is_frame(source)

    def opened(self, source: Any, options: Options) -> Source:
        if isinstance(source, str | os.PathLike):
            return self._open_named(os.fspath(source), options)
        if _is_connection(source):
            with self.turn(source):
                return Source(self.named(source, options.table))
        if is_frame(source):
            return frame_as_view(self, self.connect(), source, options.types)
        raise self.refused(source)

    def beside(self, connection: Any, source: Any, options: Options) -> Source:
        if connection not in _OWN or self.files(connection) or source is None or isinstance(source, Table):
            return super().beside(connection, source, options)
        if is_frame(source):
            return frame_as_view(self, connection, source, options.types)
        if isinstance(source, str | os.PathLike) and suffix_of(os.fspath(source)) not in _DATABASES:
            return self._open_named(os.fspath(source), options, connection)
        raise ArgumentError(
            "source: files are joined to files and frames to frames, got another source", argument="source"
        )

    def _open_named(self, name: str, options: Options, connection: Any = None) -> Source:
        if not self.is_path(name):
            raise self.refused(name)
        if suffix_of(name) in _DATABASES:
            if not Path(name).is_file():
                raise about("source", FileNotFoundError(f"source: there is no database file {shown(name)!r}"))
            return Source(self._table_in_file(name, options.table))
        if not is_rows(name):
            raise self.refused(name)
        paths = check_file(name, options)
        if suffix_of(name) in PARQUET:
            return Source(parquet_as_view(self, connection or self.connect(), name))
        return text_files_as_view(self, connection or self.connect(), paths, suffix_of(name), options)

    def _table_in_file(self, path: str, table: str | None) -> Table:
        connection = self.connect(path)
        import duckdb  # noqa: PLC0415 - it is loaded by now

        try:
            return self.named(connection, table)
        except duckdb.PermissionException:
            raise ArgumentError(
                f"table: {table!r} is a view that reads more than its own file, which would be read with your rights; "
                "store its rows in a table of the file, or open the file yourself and hand the connection over",
                argument="table",
            ) from None

    def files(self, connection: Any) -> list[str]:
        paths = self.run(connection.cursor(), "SELECT path FROM system.main.duckdb_databases() WHERE path IS NOT NULL")
        return [glob.escape(path) for (path,) in paths]

    def versions(self, connection: Any) -> dict[str, str]:
        [(version,)] = self.run(connection, "SELECT system.main.version()")
        return {"DuckDB": str(version)}

    def describe(self, connection: Any, query: str) -> list[tuple[str, ColumnType]]:
        return [(name, _column_type(dtype)) for name, dtype, *_ in self.run(connection, f"DESCRIBE {query}")]

    def stored(self, connection: Any, name: str, keeps: Any = None) -> Table:
        columns = {
            column: replace(_column_type(dtype), nullable=null != "NO")
            for column, dtype, null, *_ in self.run(connection, f"DESCRIBE {name}")
        }
        return Table(self, connection, columns, name, keeps=keeps)

    def run(self, connection: Any, query: str) -> list[Any]:
        return list(connection.execute(query).fetchall())

    def find_table(self, connection: Any, names: list[str]) -> str | None:
        # Functions by their full names, and names compared here: a macro of somebody's might be in place of either.
        catalogue = "SELECT database_name, schema_name, {0}_name, temporary FROM system.main.duckdb_{0}s()"
        tables = [row for kind in ("table", "view") for row in self.run(connection, catalogue.format(kind))]
        here = "SELECT system.main.current_database(), system.main.current_schema()"
        [(database, schema)] = self.run(connection, here)
        *before, name = (part.lower() for part in names)
        place = [*[database.lower(), schema.lower()][: 2 - len(before)], *before]
        places = [
            table[:3]
            for *table, temporary in sorted(tables, key=lambda row: not row[-1])
            if table[2].lower() == name
            and ((temporary and not before) or [part.lower() for part in table[:2]] == place)
        ]
        return ".".join(self.quote(part) for part in places[0]) if places else None

    def small_table(self, connection: Any, table: pa.Table) -> Table:
        """A table of a connection of our own: joined to one whose ranges are known, rows need no hash table."""
        with self.turn(connection):
            if connection not in _OWN:  # nothing is left in a caller's connection
                _unregister_unused(connection)
                name = f"osgt_{token(8)}"
                connection.register(name, table)
                return self.stored(connection, f"temp.main.{name}", _Registered(connection, name))
            name = f"osgt_{_digest(table)}"
            connection.register(f"{name}_rows", table)
            connection.execute(f"CREATE TEMP TABLE IF NOT EXISTS {name} AS FROM temp.main.{name}_rows")
            connection.unregister(f"{name}_rows")
            return self.stored(connection, f"temp.main.{name}")

    # Spelling

    def real(self, number: float) -> Value:
        text = repr(number).removesuffix(".0")
        text += "" if "e" in text else "e0"
        return Value(text if number >= 0 else f"({text})", self.float64, self)

    # Columns

    def text_bytes(self, column: Value) -> Value:
        return self.call("encode", column, returns=self.binary)

    def record(self, columns: Sequence[Value]) -> Value:
        return self.call("row", *columns, returns=ColumnType("other", "STRUCT"))

    def carried_plain(self, column: Value) -> Value:
        dtype = column.dtype
        if dtype.kind in ("date", "timestamp"):
            return self.call("isfinite", column, returns=self.boolean).then(column)
        if _is_huge(dtype):
            return _try_cast(column)
        return column

    # Numbers

    def hashed(self, salt: int, columns: Sequence[Value]) -> Value:
        salted = self.call("hash", self.whole(salt), *columns, returns=self.int64)
        # Hashed again: the engine combines the hashes of columns by exclusive or, which keeps an order of groups.
        return Value(f"CAST(hash({salted.sql}) >> 32 AS UINTEGER)", self.int64, self)

    def total(self, numbers: Value, over: Sequence[Value] = ()) -> Value:
        return self.call("sum", numbers, returns=_HUGE).over(over)  # summed in 128 bits

    def quotient(self, numerator: Value, denominator: Value) -> Value:
        return self.call("divide", numerator, denominator, returns=self.int64)

    def decimal_steps(self, column: Value, step: Fraction, low: int, high: int) -> Value:
        """Seen from the lower bound values are not negative, so that the engine's rounding away from 0 is up."""
        precision, scale = column.dtype.digits or (DECIMAL_DIGITS, 0)
        digits, least, most = digits_of(step), low * step, high * step
        whole_digits = max(precision - scale, len(str(int(max(abs(least), abs(most))))))
        dtype = decimal_type(min(whole_digits + scale + 1, DECIMAL_DIGITS), scale)
        value = _within_decimals(column).cast(dtype).at_least(decimal(self, least, dtype))
        if most < least_beyond(dtype.digits or (0, 0)):
            value = value.at_most(decimal(self, most, dtype))
        rounded = value - decimal(self, least, dtype)
        if digits < scale:
            rounded = Value(f"round({rounded.sql}, {digits})", dtype, self)
        # At most 2³² steps: floats tell these apart, whatever the step is.
        steps = self.call("round", rounded.cast(self.float64) * float(1 / step), returns=self.float64)
        return steps.cast(self.int64) + low

    def shifted(self, column: Value, bits: int) -> Value:
        if column.dtype.signed:
            return Value(f"({column.operand} >> {bits})", self.int64, self)
        return Value(f"divide({column.sql}, {1 << bits}::UBIGINT)", column.dtype, self).cast(self.int64)

    def matches(self, text: Value, pattern: str) -> Value:
        return Value(f"regexp_matches({text.sql}, {self.dialect(None).string(pattern)})", self.boolean, self)

    # Queries

    def replaced(self, connection: Any, names: list[str]) -> list[str]:
        if connection in _OWN and not self.files(connection):
            return []  # in a database in memory of our own nobody has put any
        # Macros among the built-in functions use others, so no name of theirs may be taken.
        functions = "SELECT DISTINCT function_name FROM system.main.duckdb_functions() WHERE"
        if not connection.execute(f"{functions} NOT internal").fetchall():
            return []
        both = f"{functions} NOT internal INTERSECT {functions} internal ORDER BY 1"
        return [name for (name,) in connection.execute(both).fetchall()]

    def fetch(self, connection: Any, sql: str, schema: pa.Schema) -> pa.Table:
        result = connection.sql(sql).to_arrow_table().cast(schema)
        _unregister_unused(connection)
        return result

    def progress(self, connection: Any) -> float | None:
        percent = float(connection.query_progress())
        return percent if percent >= 0 else None


#: Names of tables in memory on callers' connections that nobody uses any more.
_UNUSED: WeakKeyDictionary[Any, list[str]] = WeakKeyDictionary()


class _Registered:
    """A table in memory under a name on a caller's connection, for as long as somebody has this."""

    def __init__(self, connection: Any, name: str) -> None:
        self.unused, self.name = _UNUSED.setdefault(connection, []), name

    def __del__(self) -> None:
        self.unused.append(self.name)  # a query of another thread may be running: it is taken away later


def _unregister_unused(connection: Any) -> None:
    """Take away the tables in memory that nobody uses any more; it is one's turn on the connection."""
    unused = _UNUSED.get(connection, [])
    while unused:
        connection.unregister(unused.pop())


# Types

_HUGE = ColumnType("decimal", "HUGEINT", digits=(DECIMAL_DIGITS, 0))

_TYPES = {
    **{f"{sign}{name}": ColumnType("integer", f"{sign}{name}", bits, not sign)
       for name, bits in {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64}.items() for sign in ("", "U")},
    "HUGEINT": _HUGE,
    "UHUGEINT": ColumnType("decimal", "UHUGEINT", digits=(DECIMAL_DIGITS, 0)),
    "FLOAT": ColumnType("float", "FLOAT", 32),
    "DOUBLE": ColumnType("float", "DOUBLE"),
    **{name: ColumnType(kind, name) for name, kind in {
        "BOOLEAN": "boolean", "VARCHAR": "text", "BLOB": "binary", "DATE": "date", "TIME": "clock",
        "INTERVAL": "interval", "UUID": "uuid"}.items()},
    **{name: ColumnType("timestamp", name, unit=unit) for name, unit in {
        "TIMESTAMP": "us", "TIMESTAMP_S": "s", "TIMESTAMP_MS": "ms", "TIMESTAMP_NS": "ns"}.items()},
    "TIMESTAMP WITH TIME ZONE": ColumnType("timestamp", "TIMESTAMP WITH TIME ZONE", zone=True),
    '"NULL"': ColumnType("null", "NULL"),
}  # fmt: skip


def _column_type(name: str) -> ColumnType:
    """The type with this name."""
    if digits := re.fullmatch(r"DECIMAL\((\d+), ?(\d+)\)", name):
        return ColumnType("decimal", name, digits=(int(digits[1]), int(digits[2])))
    if name.startswith("ENUM("):
        return ColumnType("text", name)
    return _TYPES.get(name, ColumnType("other", name))


def _is_huge(dtype: ColumnType) -> bool:
    return dtype.name in ("HUGEINT", "UHUGEINT")


def _try_cast(column: Value) -> Value:
    """Integers of 128 bits as decimals; null where they have too many digits."""
    dtype = decimal_type(DECIMAL_DIGITS, 0)
    return Value(f"TRY_CAST(CAST({column.sql} AS VARCHAR) AS {dtype.name})", dtype, column.engine)


def _within_decimals(column: Value) -> Value:
    """HUGEINT as a decimal: what has too many digits is as far away as that can say."""
    if not _is_huge(column.dtype):
        return column
    last = decimal(column.engine, Fraction(10**DECIMAL_DIGITS - 1), decimal_type(DECIMAL_DIGITS, 0))
    far = (column.cast(column.engine.float64) > 0).then(last, Value(f"-{last.sql}", last.dtype, column.engine))
    return _try_cast(column).or_else(far)


# Connections


def _file(path: str) -> Any:
    """A connection to a file that reads nothing else: views in it are code of whoever made it."""
    import duckdb  # noqa: PLC0415 - it is loaded when it is first used

    with Path(path).open("rb") as file:
        magic = file.read(_MAGIC.stop)[_MAGIC]
    if magic != b"DUCK":
        raise ArgumentError(
            f"source: {shown(path)!r} is no DuckDB file; write its table to a Parquet or CSV file", argument="source"
        )
    try:
        return duckdb.connect(path, read_only=True, config={"enable_external_access": False, **_SETTINGS})
    except duckdb.ConnectionException:
        raise ArgumentError(
            f"source: this program has {shown(path)!r} open already; close that connection, or hand it over",
            argument="source",
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
