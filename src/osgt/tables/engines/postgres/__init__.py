"""PostgreSQL: tables of a database that a URL names."""

import uuid
from collections.abc import Sequence
from fractions import Fraction
from importlib.util import find_spec
from typing import Any, cast

import ibis
import ibis.expr.datatypes as dt
import ibis.expr.schema as sch
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
import sqlglot.expressions as exp
from numpy.typing import NDArray

from osgt.extras import missing
from osgt.sampling.entropy import token
from osgt.tables.engines.decimals import clipped, decimal
from osgt.tables.engines.engine import Engine
from osgt.tables.engines.functions import function
from osgt.tables.engines.postgres.catalogue import replaced
from osgt.tables.engines.postgres.ranks import with_limits
from osgt.tables.engines.postgres.where import PostgreSQLWhere
from osgt.tables.engines.source import Options, Source, table_in

#: The number of the type money in the catalogue.
_MONEY = 790

#: Rows that are fetched at a time.
_BATCH = 1_000_000

#: Days and microseconds are counted from the year 2000, in Arrow from 1970.
_DAYS_TO_2000, _MICROSECONDS_TO_2000 = 10_957, 946_684_800_000_000

#: The last year is beyond what 64 bits of microseconds from 1970 hold.
_AFTER_LAST_TIMESTAMP = "294247-01-01"


class PostgreSQL(Engine):
    """PostgreSQL. Python cannot read every date and number of it, but the bytes in which they are stored."""

    name = "postgres"
    title = "PostgreSQL"
    backend = "postgres"
    takes = "a URL postgresql://user@host/database with table="
    dialect = PostgreSQLWhere
    computes_once = True

    def opens(self, source: Any) -> bool:
        return isinstance(source, str) and source.startswith(("postgresql://", "postgres://"))

    def opened(self, source: Any, options: Options) -> Source:
        if not self.opens(source):
            raise self.refused(source)
        if find_spec("psycopg") is None:
            raise missing("PostgreSQL", "psycopg", "postgres")
        return Source(table_in(ibis.connect(source), options.table))

    # Columns

    def unusable(self, table: ir.Table, column: str) -> str | None:
        """Ibis takes money for a decimal."""
        if not table.schema()[column].is_decimal():
            return None
        backend = table.get_backend()
        with self.turn(backend), backend.con.transaction(), backend.con.cursor() as cursor:
            cursor.execute(backend.compile(table.select(column).limit(0)))
            is_money = cursor.description[0].type_code == _MONEY
        return "is of type money, which depends on settings; use numeric" if is_money else None

    def text_bytes(self, column: ir.Value) -> ir.Value:
        text = function("text", column, returns=dt.string)  # of citext, char(n) and enumerations
        # A database without an encoding holds any bytes: these cannot be converted, and need not be.
        name = function("getdatabaseencoding", returns=dt.string)
        encoding = (name == "SQL_ASCII").ifelse("SQL_ASCII", "UTF8")
        return function("convert_to", text, encoding, returns=dt.binary)

    def record(self, columns: Sequence[ir.Value]) -> ir.Value:
        # Records in records have no hash; their bytes have, in which 1.0 and 1.00 would be two.
        plain = [function("trim_scale", c, returns=c.type()) if c.type().is_decimal() else c for c in columns]
        record = function("row", *plain, returns=dt.binary)
        return cast(ir.Value, function("record_send", record, returns=dt.binary))

    def carried_plain(self, column: ir.Value) -> ir.Value:
        dtype = column.type()
        if dtype.is_date():
            return _where(_finite(column), function("date_send", column, returns=dt.binary))
        if dtype.is_timestamp():
            send = "timestamp_send" if dtype.timezone is None else "timestamptz_send"
            early = column < ibis.literal(_AFTER_LAST_TIMESTAMP).cast(dtype)
            return _where(_finite(column) & early, function(send, column, returns=dt.binary))
        if dtype.is_uuid():
            return function("uuid_send", column, returns=dt.binary)
        if dtype.is_decimal():
            return _where(column != ibis.literal("NaN").cast(dtype), column)
        return column

    def shown(self, keys: pa.Array, dtype: dt.DataType) -> pa.Array:
        released = dtype.to_pyarrow()
        if dtype.is_uuid():
            return pa.array([None if key is None else str(uuid.UUID(bytes=key)) for key in keys.to_pylist()], released)
        if dtype.is_date():
            days, missing = _numbers(keys, ">i4")
            return pa.array(days + _DAYS_TO_2000, pa.int32(), mask=missing).cast(released)
        if dtype.is_timestamp():
            microseconds, missing = _numbers(keys, ">i8")
            return pa.array(microseconds + _MICROSECONDS_TO_2000, pa.timestamp("us"), mask=missing).cast(released)
        return super().shown(keys, dtype)

    # Numbers

    def hashed(self, salt: int, columns: Sequence[ir.Value]) -> ir.Value:
        # The hash of a record is made for the equality of each type: 1.0 and 1.00 are one number, with one hash.
        salted, record = ibis.literal(salt, type="int64"), function("row", *columns, returns=dt.binary)
        together = function("hash_record_extended", record, salted, returns=dt.int64)
        # Hashed again: the engine adds up the hashes of several columns, which keeps an order of groups.
        return function("hashint8extended", together, salted, returns=dt.int64)

    def total(self, numbers: Any) -> Any:
        return numbers.sum().cast("decimal(38, 0)")  # summed in numbers of any size

    def decimal_steps(self, column: ir.DecimalValue, step: Fraction, low: int, high: int) -> ir.IntegerValue:
        """Numbers of any size are multiplied and added exactly."""
        dtype = dt.Decimal()
        least, most, half = (decimal(number, dtype) for number in (low * step, high * step, Fraction(1, 2)))
        value = clipped(column.cast(dtype), least, most)
        if step > 1:
            # What lies behind the point makes no difference to half an even step, and might have too many digits.
            value = value.floor()
        return (value * decimal(1 / step, dtype) + half).floor().cast("int64")

    def decimal_float(self, column: ir.DecimalValue) -> ir.FloatingValue:
        if (column.type().precision or 1000) > 300:
            # Of numbers of any size only those that are floats can become one.
            zero, tiny, far, away = (ibis.literal(n).cast(dt.Decimal()) for n in ("0", "1e-300", "1e300", "-1e300"))
            column = column.cast(dt.Decimal())
            column = clipped((column.abs() < tiny).ifelse(zero, column), away, far)
        return column.cast("float64")

    def present(self, column: ir.Value) -> ir.BooleanValue:
        if column.type().is_decimal():
            return column.notnull() & (column != ibis.literal("NaN").cast(column.type())).fill_null(False)
        return super().present(column)

    # Queries

    def read_once(self, rows: ir.Table) -> ir.Table:
        return rows.alias("osgt_rows")  # which makes it a part with a name, as in `compiled`

    def compiled(self, backend: Any, expression: ir.Table) -> str:
        backend._run_pre_execute_hooks(expression)
        query = with_limits(backend.compiler.to_sqlglot(expression))
        for part in query.find_all(exp.CTE):
            # Otherwise the planner may read again what is used once, and rows might differ between these.
            part.set("materialized", True)
        sql: str = query.sql(dialect=backend.dialect)
        return sql

    def replaced(self, backend: Any, names: list[str]) -> list[str]:
        return replaced(backend.con, names)

    def understand(self, backend: Any, sql: str) -> None:
        with backend.con.transaction(), backend.con.cursor() as cursor:
            cursor.execute(f"EXPLAIN {sql}")

    def seed(self, backend: Any, number: float) -> None:
        with backend.con.cursor() as cursor:
            cursor.execute(f"SELECT setseed({number!r})")

    def fetched(self, backend: Any, sql: str, schema: sch.Schema) -> pa.Table:
        row, batches = schema.as_struct().to_pyarrow(), []
        with backend.con.transaction(), backend.con.cursor(name=f"osgt_{token(8)}") as cursor:
            # Compiling the many expressions of a release takes longer than it saves.
            backend.con.execute("SET LOCAL jit = off")
            cursor.execute(sql)
            while rows := cursor.fetchmany(_BATCH):
                batches.append(pa.RecordBatch.from_struct_array(pa.array(rows, type=row)))
        return pa.Table.from_batches(batches, schema.to_pyarrow())


def _finite(column: ir.Value) -> Any:
    return function("isfinite", column, returns=dt.boolean)


def _where(condition: Any, value: ir.Value) -> ir.Value:
    """The value where the condition holds, and null elsewhere."""
    return condition.ifelse(value, ibis.null(value.type()))


def _numbers(array: pa.Array, form: str) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Big-endian integers from their bytes, 0 where there are none; and where that is."""
    present = array.is_valid().to_numpy(zero_copy_only=False)
    numbers = np.zeros(len(array), dtype=np.int64)
    numbers[present] = np.frombuffer(b"".join(array.drop_null().to_pylist()), dtype=form)
    return numbers, ~present
