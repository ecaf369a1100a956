"""PostgreSQL: tables of a database that a URL names."""

import uuid
from collections.abc import Sequence
from fractions import Fraction
from importlib.util import find_spec
from typing import Any, cast
from urllib.parse import parse_qsl, urlsplit

import ibis
import ibis.expr.datatypes as dt
import ibis.expr.schema as sch
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
import sqlglot.expressions as exp
from numpy.typing import NDArray

from osgt.data.engines.engine import Engine, clip, decimal, function
from osgt.data.engines.postgres.where import PostgreSQLWhere
from osgt.data.engines.source import Options, Source, table_in
from osgt.sampling.entropy import token
from osgt.support.errors import missing
from osgt.support.servers import auth_options, shown, wrong_method

#: The number of the type money in the catalogue.
_MONEY = 790

#: Rows that are fetched at a time.
_BATCH = 1_000_000

#: Days and microseconds are counted from the year 2000, in Arrow from 1970.
_DAYS_TO_2000, _MICROSECONDS_TO_2000 = 10_957, 946_684_800_000_000

#: The last year is beyond what 64 bits of microseconds from 1970 hold.
_AFTER_LAST_TIMESTAMP = "294247-01-01"

#: Operators that release queries use; % is left out, which extensions have for text.
_OPERATORS = ["=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "||"]
_OPERATORS += [f"{no}{like}{case}" for no in ("", "!") for like in ("~", "~~") for case in ("", "*")]

_RANKS = (exp.RowNumber, exp.Rank, exp.DenseRank)


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
        url = urlsplit(source)
        settings = dict(parse_qsl(url.query)) | ({"password": url.password} if url.password else {})
        return Source(table_in(_connect(source, auth_options(url.hostname, settings)), options.table))

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

    def quotient(self, numerator: Any, denominator: Any) -> Any:
        return function("int8div", numerator.cast("int64"), denominator.cast("int64"), returns=dt.int64)

    def decimal_steps(self, column: ir.DecimalValue, step: Fraction, low: int, high: int) -> ir.IntegerValue:
        """Numbers of any size are multiplied and added exactly."""
        dtype = dt.Decimal()
        least, most, half = (decimal(number, dtype) for number in (low * step, high * step, Fraction(1, 2)))
        value = clip(column.cast(dtype), least, most)
        if step > 1:
            # What lies behind the point makes no difference to half an even step, and might have too many digits.
            value = value.floor()
        return (value * decimal(1 / step, dtype) + half).floor().cast("int64")

    def decimal_float(self, column: ir.DecimalValue) -> ir.FloatingValue:
        if (column.type().precision or 1000) > 300:
            # Of numbers of any size only those that are floats can become one.
            zero, tiny, far, away = (ibis.literal(n).cast(dt.Decimal()) for n in ("0", "1e-300", "1e300", "-1e300"))
            column = column.cast(dt.Decimal())
            column = clip((column.abs() < tiny).ifelse(zero, column), away, far)
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
        with backend.con.transaction(), backend.con.cursor() as cursor:
            result = cursor.execute(query, {"names": names, "operators": _OPERATORS}).fetchall()
        return [name for (name,) in result]

    def fetched(self, backend: Any, sql: str, schema: sch.Schema) -> pa.Table:
        row, batches = schema.as_struct().to_pyarrow(), []
        with backend.con.transaction(), backend.con.cursor(name=f"osgt_{token(8)}") as cursor:
            # Compiling the many expressions of a release takes longer than it saves.
            backend.con.execute("SET LOCAL jit = off")
            cursor.execute(sql)
            while rows := cursor.fetchmany(_BATCH):
                batches.append(pa.RecordBatch.from_struct_array(pa.array(rows, type=row)))
        return pa.Table.from_batches(batches, schema.to_pyarrow())


def _connect(source: str, options: dict[str, str]) -> Any:
    from psycopg import OperationalError  # noqa: PLC0415 - the extra "postgres"

    try:
        return ibis.connect(source, **options)
    except OperationalError as error:
        told = wrong_method(str(error))
        if told is None:
            raise
        raise ValueError(f"source {shown(source)!r} cannot be read: {told}") from None


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


def with_limits(query: exp.Query) -> exp.Query:
    """Rewrite the conditions of a query on ranks so that they are about ranks from 1 on.

    PostgreSQL leaves the rest of a window alone where a condition is about a rank as it is. Ibis counts ranks from 0 on
    and writes `DENSE_RANK() OVER (…) - 1 AS group_rank`, of which the planner knows nothing. So `group_rank < 10`
    becomes `"group_rank from 1" <= 10`, with the rank itself under that name beside the other.
    """
    for where in query.find_all(exp.Where):
        ranks = _ranks(where.parent)
        for condition in list(where.find_all(exp.LT)):
            column, most = condition.this, condition.expression
            if isinstance(column, exp.Column) and column.name in ranks and most.is_int:
                renamed = exp.column(_from_1(column.name), table=column.table, quoted=True)
                condition.replace(exp.LTE(this=renamed, expression=most.copy()))
    return query


def _ranks(select: exp.Expression | None) -> set[str]:
    """The columns that are ranks in the subquery from which a query selects; each gets another beside it."""
    source = select.find(exp.From) if isinstance(select, exp.Select) else None
    inner = source.this.this if source is not None and isinstance(source.this, exp.Subquery) else None
    if not isinstance(inner, exp.Select):
        return set()
    ranks = {column.alias: column.this.this for column in inner.expressions if _is_rank(column.this)}
    for name, rank in ranks.items():
        if _from_1(name) not in inner.named_selects:
            inner.append("expressions", exp.alias_(rank.copy(), _from_1(name), quoted=True))
    return set(ranks)


def _is_rank(column: exp.Expression) -> bool:
    """Whether it is a rank over a window, less 1. A table that a caller has derived may have other differences."""
    if not (isinstance(column, exp.Sub) and isinstance(column.this, exp.Window)):
        return False
    return isinstance(column.this.this, _RANKS) and column.expression == exp.Literal.number(1)


def _from_1(name: str) -> str:
    return f"{name} from 1"
