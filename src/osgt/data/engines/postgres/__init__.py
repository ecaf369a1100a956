"""PostgreSQL: tables of a database that a URL names."""

import re
import uuid
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from importlib.util import find_spec
from typing import Any, ClassVar
from urllib.parse import unquote
from weakref import WeakKeyDictionary, finalize

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from osgt.data.engines.engine import Engine, decimal
from osgt.data.engines.postgres.types import column_types, name_for
from osgt.data.engines.postgres.where import PostgreSQLWhere
from osgt.data.engines.source import Options, Source
from osgt.data.sql import Table, Value
from osgt.data.types import ColumnType
from osgt.sampling.entropy import token
from osgt.support.errors import missing
from osgt.support.locations import auth_options, shown, wrong_method
from osgt.support.numeric import DECIMAL_DIGITS

#: Rows that are fetched at a time.
_BATCH = 1_000_000

#: Days and microseconds are counted from the year 2000, in Arrow from 1970.
_DAYS_TO_2000, _MICROSECONDS_TO_2000 = 10_957, 946_684_800_000_000

#: The last year is beyond what 64 bits of microseconds from 1970 hold.
_AFTER_LAST_TIMESTAMP = "'294247-01-01'"

#: Operators that release queries use; % is left out, which extensions have for text.
_OPERATORS = ["=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "||"]
_OPERATORS += [f"{no}{like}{case}" for no in ("", "!") for like in ("~", "~~") for case in ("", "*")]

#: A schema among the settings of a URL, of which libpq knows nothing.
_SCHEMA = re.compile(r"(?<=[?&])schema=([^&]*)&?")

#: Numbers of any size, and totals of integers, which have so many digits at most.
_NUMERIC = ColumnType("decimal", "numeric")
_TOTAL = ColumnType("decimal", "numeric", digits=(DECIMAL_DIGITS, 0))

#: By connection, the names of small tables that nobody uses any more.
_UNUSED: WeakKeyDictionary[Any, list[str]] = WeakKeyDictionary()


class PostgreSQL(Engine):
    """PostgreSQL. Python cannot read every date and number of it, but the bytes in which they are stored."""

    name = "postgres"
    title = "PostgreSQL"
    ibis_name = "postgres"
    takes = "a URL postgresql://user@host/database with table="
    dialect = PostgreSQLWhere
    computes_once = True
    oldest: ClassVar = {"PostgreSQL": "14", "psycopg": "3.2"}

    boolean = ColumnType("boolean", "boolean")
    int64 = ColumnType("integer", "bigint")
    float64 = ColumnType("float", "double precision")
    binary = ColumnType("binary", "bytea")
    text = ColumnType("text", "text")

    def connect(self, url: str) -> Any:
        """A new connection to the database that a URL names."""
        import psycopg  # noqa: PLC0415 - the extra "postgres"
        from psycopg.conninfo import conninfo_to_dict, make_conninfo  # noqa: PLC0415

        # The hosts are those that libpq finds in the URL, and so connects to.
        settings = {name: str(value) for name, value in conninfo_to_dict(_SCHEMA.sub("", url)).items()}
        database, slash, schema = settings.get("dbname", "").partition("/")
        if slash:
            settings["dbname"] = database
        if named := _SCHEMA.search(url):
            schema = unquote(named[1])
        try:
            connection = psycopg.connect(make_conninfo(**settings, **auth_options(None, settings)), autocommit=True)
        except psycopg.OperationalError as error:
            told = wrong_method(str(error))
            if told is None:
                raise
            raise ValueError(f"source {shown(url)!r} cannot be read: {told}") from None
        # In a database without an encoding, the catalogue would be told in bytes.
        connection.execute("SET TIMEZONE = UTC; SET CLIENT_ENCODING = UTF8")
        if schema:
            connection.execute("SELECT pg_catalog.set_config('search_path', %s, false)", [schema])
        return connection

    def opens(self, source: Any) -> bool:
        return isinstance(source, str) and source.startswith(("postgresql://", "postgres://"))

    def opened(self, source: Any, options: Options) -> Source:
        if not self.opens(source):
            raise self.refused(source)
        if find_spec("psycopg") is None:
            raise missing("PostgreSQL", "psycopg", "postgres")
        return Source(self.named(self.connect(source), options.table))

    def versions(self, connection: Any) -> dict[str, str]:
        import psycopg  # noqa: PLC0415 - the extra "postgres"

        major, minor = divmod(connection.info.server_version, 10_000)
        return {"PostgreSQL": f"{major}.{minor}", "psycopg": psycopg.__version__}

    def describe(self, connection: Any, query: str) -> list[tuple[str, ColumnType]]:
        # Nothing is read; constants are computed, and an error among them comes up here.
        with connection.transaction(), connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM (\n{query}\n) AS described LIMIT 0")
            return column_types(cursor)

    def run(self, connection: Any, query: str) -> list[Any]:
        return _rows(connection, query)

    def find_table(self, connection: Any, names: list[str]) -> str | None:
        *before, name = names
        schema = before[-1] if before else None
        query = """
            SELECT nspname, relname FROM pg_catalog.pg_class
            JOIN pg_catalog.pg_namespace ON pg_namespace.oid = relnamespace
            WHERE relname = %(name)s AND relkind IN ('r', 'v', 'm', 'f', 'p') AND CASE
                WHEN %(schema)s::pg_catalog.text IS NULL THEN pg_catalog.pg_table_is_visible(pg_class.oid)
                ELSE nspname = %(schema)s AND %(database)s IN ('', pg_catalog.current_database())
            END
        """
        places = _rows(connection, query, {"name": name, "schema": schema, "database": ".".join(before[:-1])})
        return ".".join(self.quote(part) for part in places[0]) if places else None

    def stored(self, connection: Any, name: str, keeps: Any = None) -> Table:
        table = super().stored(connection, name, keeps)
        query = "SELECT attname FROM pg_catalog.pg_attribute WHERE attnotnull AND attrelid = %s::pg_catalog.regclass"
        complete = {column for (column,) in _rows(connection, query, [name])}
        columns = {column: replace(dtype, nullable=column not in complete) for column, dtype in table.columns.items()}
        return replace(table, columns=columns)

    def small_table(self, connection: Any, table: pa.Table) -> Table:
        name, keeps = f'pg_temp."osgt_{token(8)}"', _Used()
        columns = ", ".join(f"{self.quote(field.name)} {name_for(field.type)}" for field in table.schema)
        with self.turn(connection):
            unused = _UNUSED.setdefault(connection, [])
            with connection.transaction(), connection.cursor() as cursor:
                # Here, and not as soon as nobody uses them: that may be in the middle of a query.
                while unused:
                    cursor.execute(f"DROP TABLE IF EXISTS {unused.pop()}")
                cursor.execute(f"CREATE TEMP TABLE {name} ({columns})")
                with cursor.copy(f"COPY {name} FROM STDIN") as copy:
                    for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
                        copy.write_row(row)
            finalize(keeps, unused.append, name).atexit = False
            return self.stored(connection, name, keeps)

    def stores(self, uses: int, *, once: bool) -> bool:
        # Otherwise the planner may read again what is used once, and rows might differ between these.
        return uses > 1 or once

    # Spelling

    def real(self, number: float) -> Value:
        return Value(f"'{number!r}'::{self.float64.name}", self.float64, self)

    # Columns

    def unusable(self, dtype: ColumnType) -> str | None:
        return "is of type money, which depends on settings; use numeric" if dtype.name == "money" else None

    def text_bytes(self, column: Value) -> Value:
        text = self.call("text", column, returns=self.text)  # of citext, char(n) and enumerations
        # A database without an encoding holds any bytes: these cannot be converted, and need not be.
        encoding = "CASE getdatabaseencoding() WHEN 'SQL_ASCII' THEN 'SQL_ASCII' ELSE 'UTF8' END"
        return Value(f"convert_to({text.sql}, {encoding})", self.binary, self)

    def record(self, columns: Sequence[Value]) -> Value:
        # Records in records have no hash; their bytes have, in which 1.0 and 1.00 would be two.
        plain = [self.call("trim_scale", c, returns=c.dtype) if c.dtype.kind == "decimal" else c for c in columns]
        return self.call("record_send", self.call("row", *plain, returns=self.binary), returns=self.binary)

    def carried_plain(self, column: Value) -> Value:
        kind = column.dtype.kind
        if kind == "date":
            return self._finite(column).then(self._sent("date", column))
        if kind == "timestamp":
            early = column < Value(_AFTER_LAST_TIMESTAMP, column.dtype, self)
            sent = self._sent("timestamptz" if column.dtype.zone else "timestamp", column)
            return (self._finite(column) & early).then(sent)
        if kind == "uuid":
            return self._sent("uuid", column)
        return (~self.is_nan(column)).then(column) if kind == "decimal" else column

    def _finite(self, column: Value) -> Value:
        return self.call("isfinite", column, returns=self.boolean)

    def _sent(self, name: str, column: Value) -> Value:
        """The bytes of a value, as the server sends them."""
        return self.call(f"{name}_send", column, returns=self.binary)

    def shown(self, keys: pa.Array, dtype: ColumnType) -> pa.Array:
        released = dtype.arrow
        if dtype.kind == "uuid":
            return pa.array([None if key is None else str(uuid.UUID(bytes=key)) for key in keys.to_pylist()], released)
        if dtype.kind == "date":
            days, absent = _numbers(keys, ">i4")
            return pa.array(days + _DAYS_TO_2000, pa.int32(), mask=absent).cast(released)
        if dtype.kind == "timestamp":
            microseconds, absent = _numbers(keys, ">i8")
            return pa.array(microseconds + _MICROSECONDS_TO_2000, pa.timestamp("us"), mask=absent).cast(released)
        return super().shown(keys, dtype)

    # Numbers

    def hashed(self, salt: int, columns: Sequence[Value]) -> Value:
        # The hash of a record is made for the equality of each type: 1.0 and 1.00 are one number, with one hash.
        salted, record = self.whole(salt), self.call("row", *columns, returns=self.binary)
        together = self.call("hash_record_extended", record, salted, returns=self.int64)
        # Hashed again: the engine adds up the hashes of several columns, which keeps an order of groups.
        return self.call("hashint8extended", together, salted, returns=self.int64)

    def total(self, numbers: Value, over: Sequence[Value] = ()) -> Value:
        return self.call("sum", numbers, returns=_TOTAL).over(over)  # summed in numbers of any size

    def quotient(self, numerator: Value, denominator: Value) -> Value:
        return self.call("int8div", numerator, denominator, returns=self.int64)

    def decimal_steps(self, column: Value, step: Fraction, low: int, high: int) -> Value:
        """Numbers of any size are multiplied and added exactly."""
        least, most, half = (decimal(self, number, _NUMERIC) for number in (low * step, high * step, Fraction(1, 2)))
        value = column.cast(_NUMERIC).at_least(least).at_most(most)
        if step > 1:
            # What lies behind the point makes no difference to half an even step, and might have too many digits.
            value = value.floor()
        return (value * decimal(self, 1 / step, _NUMERIC) + half).floor().cast(self.int64)

    def decimal_float(self, column: Value) -> Value:
        if column.dtype.digits is None or column.dtype.digits[0] > 300:
            # Of numbers of any size only those that are floats can become one.
            tiny, zero, away, far = (
                Value(f"'{n}'::numeric", _NUMERIC, self) for n in ("1e-300", "0", "-1e300", "1e300")
            )
            column = column.cast(_NUMERIC)
            column = (column.abs() < tiny).then(zero, column).at_least(away).at_most(far)
        return column.cast(self.float64)

    def shifted(self, column: Value, bits: int) -> Value:
        return self.call("int8shr", column, bits, returns=self.int64)

    def is_nan(self, column: Value) -> Value:
        return column.equals(Value("'NaN'", column.dtype, self))

    def present(self, column: Value) -> Value:
        if column.dtype.kind == "decimal":
            return column.not_null() & ~self.is_nan(column)
        return super().present(column)

    def matches(self, text: Value, pattern: str) -> Value:
        return text.compare("~", Value(self.dialect(None).string(pattern), self.text, self))

    # Queries

    def replaced(self, connection: Any, names: list[str]) -> list[str]:
        # Objects with numbers from 16384 on were made after the database was. What an extension does for its own types
        # is its affair; but anybody can make text(mood) for an enumeration, or = for a domain.
        query = """
            WITH extended AS (SELECT classid, objid FROM pg_catalog.pg_depend WHERE deptype = 'e')
            SELECT proname::pg_catalog.text FROM pg_catalog.pg_proc
            WHERE oid >= 16384 AND proname = ANY (%(names)s) AND NOT (EXISTS (
                SELECT 1 FROM pg_catalog.unnest(proargtypes) AS argument(type) WHERE argument.type >= 16384
            ) AND EXISTS (
                SELECT 1 FROM extended WHERE objid = oid AND classid = 'pg_catalog.pg_proc'::pg_catalog.regclass
            )) AND pronamespace IN (
                SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = ANY (pg_catalog.current_schemas(true))
            ) AND EXISTS (
                SELECT 1 FROM pg_catalog.pg_proc AS other WHERE other.oid < 16384 AND other.proname = pg_proc.proname
            )
            UNION SELECT oprname::pg_catalog.text FROM pg_catalog.pg_operator
            WHERE oid >= 16384 AND oprname = ANY (%(operators)s) AND NOT (
                (oprleft >= 16384 OR oprright >= 16384) AND EXISTS (
                SELECT 1 FROM extended WHERE objid = oid AND classid = 'pg_catalog.pg_operator'::pg_catalog.regclass
            )) AND oprnamespace IN (
                SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = ANY (pg_catalog.current_schemas(true))
            )
            UNION SELECT pg_catalog.format_type(castsource, NULL) || ' AS ' || pg_catalog.format_type(casttarget, NULL)
            FROM pg_catalog.pg_cast WHERE oid >= 16384 AND (castsource < 16384 AND casttarget < 16384 OR (
                castmethod = 'f' AND (castsource < 16384 OR casttarget < 16384) AND NOT EXISTS (
                SELECT 1 FROM extended WHERE objid = oid AND classid = 'pg_catalog.pg_cast'::pg_catalog.regclass
            )))
            ORDER BY 1
        """
        return [name for (name,) in _rows(connection, query, {"names": names, "operators": _OPERATORS})]

    def fetch(self, connection: Any, sql: str, schema: pa.Schema) -> pa.Table:
        from psycopg.types.string import TextLoader  # noqa: PLC0415 - the extra "postgres"

        row, batches = pa.struct(schema), []
        with connection.transaction(), connection.cursor(name=f"osgt_{token(8)}") as cursor:
            # Compiling the many expressions of a release takes longer than it saves.
            connection.execute("SET LOCAL jit = off")
            cursor.adapters.register_loader("uuid", TextLoader)
            cursor.execute(sql)
            while rows := cursor.fetchmany(_BATCH):
                batches.append(pa.RecordBatch.from_struct_array(pa.array(rows, type=row)))
        return pa.Table.from_batches(batches, schema)


class _Used:
    """Something that users of a small table have."""


def _rows(connection: Any, query: str, parameters: Any = None) -> list[Any]:
    with connection.transaction(), connection.cursor() as cursor:
        return list(cursor.execute(query, parameters).fetchall())


def _numbers(array: pa.Array, form: str) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Big-endian integers from their bytes, 0 where there are none; and where that is."""
    present = array.is_valid().to_numpy(zero_copy_only=False)
    numbers = np.zeros(len(array), dtype=np.int64)
    numbers[present] = np.frombuffer(b"".join(array.drop_null().to_pylist()), dtype=form)
    return numbers, ~present
