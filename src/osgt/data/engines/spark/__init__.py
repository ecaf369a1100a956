"""Spark: sessions and DataFrames, tables that a session knows, and files on request."""

import os
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import ibis
import ibis.expr.datatypes as dt
import ibis.expr.schema as sch
import ibis.expr.types as ir
import pyarrow as pa

from osgt.data.engines.engine import Engine, asking_for_nothing, decimal, digits_of, function, least_beyond
from osgt.data.engines.source import PARQUET, Options, Source, check_file, check_names, is_rows, suffix_of, table_in
from osgt.data.engines.spark.reading import text_files_as_view
from osgt.data.engines.spark.sessions import (
    check_session,
    connection_to,
    in_one_piece,
    running_session,
    session_for_files,
    table_of_frame,
)
from osgt.data.engines.spark.where import SparkWhere

#: Where Spark's own functions are.
_BUILT_IN = "org.apache.spark.sql.catalyst.expressions."


class Spark(Engine):
    """Spark. It seeds the random numbers of every query by itself, and runs several queries at once."""

    name = "spark"
    title = "Spark"
    backend = "pyspark"
    takes = (
        'a Spark DataFrame, a Spark session with table=, or with engine="spark" the name of a table or a path of '
        "Parquet or CSV files"
    )
    dialect = SparkWhere
    has_master = True

    def opens(self, source: Any) -> bool:
        return type(source).__module__.partition(".")[0] == "pyspark"

    def opened(self, source: Any, options: Options) -> Source:
        if isinstance(source, str | os.PathLike):
            return self._open_named(os.fspath(source), options)
        if not self.opens(source):
            raise self.refused(source)
        if type(source).__name__ != "DataFrame":
            return Source(table_in(connection_to(source), options.table))
        if source.sparkSession.conf.get("spark.sql.caseSensitive") != "true":
            check_names(source.columns)
        return Source(table_of_frame(connection_to(source.sparkSession), source))

    def _open_named(self, name: str, options: Options) -> Source:
        if options.table is None and not suffix_of(name):
            return Source(connection_to(running_session(options.master)).table(name))
        if not is_rows(name):
            raise self.refused(name)
        paths = check_file(name, options) if "://" not in name else []
        connection = connection_to(session_for_files(options.master))
        if suffix_of(name) in PARQUET:
            return Source(connection.read_parquet(name))
        return text_files_as_view(connection, name, paths, suffix_of(name), options)

    def is_path(self, source: str) -> bool:
        return super().is_path(source) and bool(Path(source).suffix)

    def close(self, backend: Any) -> None:
        """Sessions are shared with whoever else uses Spark in this process."""

    def small_table(self, backend: Any, table: pa.Table) -> ir.Table:
        from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 - an extra

        # What Ibis holds in memory goes to Spark through pandas, where a null among whole numbers is lost.
        # Spark by itself would take times without a zone for times in that of the session, and so convert the column
        # that they are compared with: the hours that a clock skips there would be others.
        schema = from_arrow_schema(table.schema, prefer_timestamp_ntz=True)
        return table_of_frame(backend, backend._session.createDataFrame(table, schema))

    # Columns

    def key_schema(self, table: ir.Table) -> sch.Schema:
        """With zones: Spark tells times with a zone from those without; to Ibis they are one type."""
        backend = table.get_backend()
        fields = backend.raw_sql(backend.compile(table)).schema.fields
        instants = {field.name for field in fields if field.dataType.typeName() == "timestamp"}
        known = table.schema().items()
        return sch.Schema({name: dt.Timestamp(timezone="UTC") if name in instants else dtype for name, dtype in known})

    def public_key(self, column: ir.Value, dtype: dt.DataType) -> ir.Value:
        """Times are what they should be: a cast to Ibis' one type for them may go through the clock of the session."""
        return column if dtype.is_timestamp() else super().public_key(column, dtype)

    def text_bytes(self, column: ir.Value) -> ir.Value:
        return column.cast("binary")

    def shown(self, keys: pa.Array, dtype: dt.DataType) -> pa.Array:
        if pa.types.is_timestamp(keys.type) and keys.type.tz is not None and dtype.timezone is None:
            return keys.cast(pa.timestamp("us", "UTC"))  # times with a zone: to Ibis they have none
        return super().shown(keys, dtype)

    # Numbers

    def hashed(self, salt: int, columns: Sequence[ir.Value]) -> ir.Value:
        return function("xxhash64", ibis.literal(salt, type="int64"), *columns, returns=dt.int64)

    def total(self, numbers: Any) -> Any:
        """Sums have 64 bits, and too large a one is an error: the upper and the lower bits apart never are."""
        upper, lower = (part.sum().cast("decimal(28, 0)") for part in (numbers >> 16, numbers & 0xFFFF))
        return upper * 2**16 + lower

    def decimal_steps(self, column: ir.DecimalValue, step: Fraction, low: int, high: int) -> ir.IntegerValue:
        """Rounded down to one more digit than a step has: ⌊y + ½⌋ = ⌊(⌊10·y⌋ + 5)/10⌋. Nothing is added to decimals."""
        dtype, digits = column.type(), digits_of(step) + 1
        least, most = low * step, high * step
        if least > -least_beyond(dtype):
            column = ibis.greatest(column, decimal(least, dtype))
        if most < least_beyond(dtype):
            column = ibis.least(column, decimal(most, dtype))
        if digits < dtype.scale:
            places = ibis.literal(digits, type="int32")
            column = function("floor", column, places, returns=dt.Decimal(38, max(digits, 0)))
        tenth = decimal(step / 10, dt.Decimal(max(1, abs(digits) + 1), max(digits, 0)))
        tenths = function("div", column, tenth, returns=dt.int64)
        return ((tenths + 5).cast("float64") / 10).floor().cast("int64")

    # Queries

    def single(self, backend: Any) -> Any:
        return None

    def replaced(self, backend: Any, names: list[str]) -> list[str]:
        own = []
        known = {row[0] for row in backend._session.sql("SHOW FUNCTIONS").collect()}
        for name in known.intersection(names):
            lines = [row[0] for row in backend._session.sql(f"DESCRIBE FUNCTION `{name}`").collect()]
            classes = [line.removeprefix("Class: ") for line in lines if line.startswith("Class: ")]
            if classes and not classes[0].startswith(_BUILT_IN):
                own.append(name)
        return sorted(own)

    def rehearse(self, backend: Any, sql: str, schema: sch.Schema) -> None:
        check_session(backend._session)  # a table of Ibis brings its own
        backend.raw_sql(asking_for_nothing(sql)).toArrow()  # a job on no rows: the source is not read

    def fetched(self, backend: Any, sql: str, schema: sch.Schema) -> pa.Table:
        # Ibis goes through pandas here, where whole numbers beside a null become floats and large ones run together.
        return in_one_piece(backend._session, lambda: backend.raw_sql(sql).toArrow())
