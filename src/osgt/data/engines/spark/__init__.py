"""Spark: sessions and DataFrames, tables that a session knows, and files on request."""

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from osgt.data.engines.engine import Engine, asking_for_nothing, decimal, digits_of, least_beyond
from osgt.data.engines.source import Options, Source, check_file, check_names, is_rows
from osgt.data.engines.spark import connect
from osgt.data.engines.spark.reading import (
    check_session,
    connect_address,
    in_one_piece,
    running_session,
    session_for_files,
    table_of_frame,
    text_files_as_view,
)
from osgt.data.engines.spark.where import SparkWhere, string_literal
from osgt.data.sql import Table, Value
from osgt.data.types import ColumnType, decimal_type
from osgt.support.errors import ArgumentError
from osgt.support.locations import PARQUET, is_office, shown, suffix_of
from osgt.support.numeric import DECIMAL_DIGITS

#: Where Spark's own functions are.
_BUILT_IN = "org.apache.spark.sql.catalyst.expressions."


class Spark(Engine):
    """Spark. A connection is a session. It seeds the random numbers of every query by itself."""

    name = "spark"
    title = "Spark"
    ibis_name = "pyspark"
    takes = (
        'a Spark DataFrame, a Spark session with table=, or with engine="spark" the name of a table or a path of '
        "files: Parquet, CSV, Excel, SPSS, Stata or SAS"
    )
    dialect = SparkWhere
    runs_several = True
    has_master = True
    oldest: ClassVar = {"Spark": "4.0", "PySpark": "4.0"}

    binary = ColumnType("binary", "BINARY")
    text = ColumnType("text", "STRING")

    def opens(self, source: Any) -> bool:
        return type(source).__module__.partition(".")[0] == "pyspark"

    def opened(self, source: Any, options: Options) -> Source:
        if isinstance(source, str | os.PathLike):
            return self._open_named(os.fspath(source), options)
        if not self.opens(source):
            raise self.refused(source)
        if type(source).__name__ != "DataFrame":
            check_session(source)
            return Source(self.named(source, options.table))
        if source.sparkSession.conf.get("spark.sql.caseSensitive") != "true":
            check_names(source.columns)
        return Source(table_of_frame(self, source))

    def _open_named(self, name: str, options: Options) -> Source:
        if options.table is None and not suffix_of(name):
            return Source(self._table_called(name, options.master))
        if not is_rows(name) or ("://" in name and is_office(name)):
            raise self.refused(name)
        if (address := connect_address(options.master)) is not None:
            return self._open_connected(name, address, options)
        paths = check_file(name, options) if "://" not in name else []
        session = session_for_files(options.master)
        if suffix_of(name) in PARQUET:
            return Source(table_of_frame(self, session.read.parquet(name)))
        return text_files_as_view(self, session, name, paths, suffix_of(name), options)

    def _open_connected(self, name: str, address: str, options: Options) -> Source:
        """Open files that a server of Spark Connect sees, wherever they are."""
        if options.table is not None or suffix_of(name) not in PARQUET:
            raise ArgumentError(f"source: {connect.REFUSED}", argument="source")
        frame = connect.frame_of_files(address, name)
        check_names(frame.columns)
        return Source(table_of_frame(self, frame))

    def _table_called(self, name: str, master: str | None) -> Table:
        session = running_session(master)
        check_session(session)
        found = self.find_table(session, [name])
        if found is None:
            raise ArgumentError(f"source: Spark knows no table {shown(name)!r}", argument="source")
        return self.stored(session, found)

    def is_path(self, source: str) -> bool:
        return super().is_path(source) and bool(Path(source).suffix)

    def close(self, connection: Any) -> None:
        """Sessions are shared with whoever else uses Spark in this process, or the server ends them."""

    def versions(self, connection: Any) -> dict[str, str]:
        import pyspark  # noqa: PLC0415 - an extra

        return {"Spark": connection.version, "PySpark": pyspark.__version__}

    def describe(self, connection: Any, query: str) -> list[tuple[str, ColumnType]]:
        return [(field.name, _column_type(field)) for field in connection.sql(query).schema.fields]

    def run(self, connection: Any, query: str) -> list[Any]:
        return list(connection.sql(query).collect())

    def find_table(self, connection: Any, names: list[str]) -> str | None:
        from pyspark.errors import AnalysisException  # noqa: PLC0415 - an extra

        try:
            table = connection.catalog.getTable(".".join(map(self.quote, names)))
        except AnalysisException:
            return None
        # Temporary views have no catalogue, and most of them no schema either.
        before = [*([table.catalog] if table.catalog else []), *(table.namespace or [])]
        return ".".join(map(self.quote, [*before, table.name]))

    def small_table(self, connection: Any, table: pa.Table) -> Table:
        from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 - an extra

        # Spark by itself would take times without a zone for times in that of the session, and so convert the column
        # that they are compared with: the hours that a clock skips there would be others.
        schema = from_arrow_schema(table.schema, prefer_timestamp_ntz=True)
        return table_of_frame(self, connection.createDataFrame(table, schema))

    def ibis_table(self, table: Any) -> Table:
        backend = table.get_backend()
        backend.to_pyarrow(table.limit(0))  # tables in memory that it is made of become known to Spark
        return table_of_frame(self, backend.raw_sql(backend.compile(table)))

    # Spelling

    def quote(self, name: str) -> str:
        return "`" + name.replace("`", "``") + "`"

    def whole(self, number: int) -> Value:
        return Value(f"{number}L" if number >= 0 else f"({number}L)", self.int64, self)

    def real(self, number: float) -> Value:
        text = f"{number!r}D" if "e" in repr(number) else f"{number!r}e0D"
        return Value(text if number >= 0 else f"({text})", self.float64, self)

    # Columns

    def text_bytes(self, column: Value) -> Value:
        return column.cast(self.binary)

    def record(self, columns: Sequence[Value]) -> Value:
        parts = ", ".join(f"'column_{i}', {column.sql}" for i, column in enumerate(columns))
        return Value(f"named_struct({parts})", ColumnType("other", "STRUCT"), self)

    # Numbers

    def hashed(self, salt: int, columns: Sequence[Value]) -> Value:
        return self.call("xxhash64", self.whole(salt), *columns, returns=self.int64)

    def total(self, numbers: Value, over: Sequence[Value] = ()) -> Value:
        """Sums have 64 bits, and too large a one is an error: the upper and the lower bits apart never are."""
        lower = self.call("pmod", numbers, 1 << 16, returns=self.int64)
        parts = [part.sum().over(over).cast(decimal_type(28, 0)) for part in (self.shifted(numbers, 16), lower)]
        return parts[0] * (1 << 16) + parts[1]

    def quotient(self, numerator: Value, denominator: Value) -> Value:
        return self.call("div", numerator, denominator, returns=self.int64)

    def decimal_steps(self, column: Value, step: Fraction, low: int, high: int) -> Value:
        """Rounded down to one more digit than a step has: ⌊y + ½⌋ = ⌊(⌊10·y⌋ + 5)/10⌋. Nothing is added to decimals."""
        dtype, digits = column.dtype, digits_of(step) + 1
        precision, scale = dtype.digits or (0, 0)
        least, most = low * step, high * step
        if least > -least_beyond((precision, scale)):
            column = column.at_least(decimal(self, least, dtype))
        if most < least_beyond((precision, scale)):
            column = column.at_most(decimal(self, most, dtype))
        if digits < scale:
            column = Value(f"floor({column.sql}, {digits})", decimal_type(DECIMAL_DIGITS, max(digits, 0)), self)
        tenth = decimal(self, step / 10, decimal_type(max(1, abs(digits) + 1), max(digits, 0)))
        tenths = self.call("div", column, tenth, returns=self.int64)
        return ((tenths + 5).cast(self.float64) / 10).floor().cast(self.int64)

    def shifted(self, column: Value, bits: int) -> Value:
        return self.call("shiftright", column, bits, returns=self.int64)

    def matches(self, text: Value, pattern: str) -> Value:
        return text.compare("RLIKE", Value(string_literal(pattern), self.text, self))

    # Queries

    def replaced(self, connection: Any, names: list[str]) -> list[str]:
        own = []
        known = {row[0] for row in self.run(connection, "SHOW FUNCTIONS")}
        for name in known.intersection(names):
            lines = [row[0] for row in self.run(connection, f"DESCRIBE FUNCTION {self.quote(name)}")]
            classes = [line.removeprefix("Class: ") for line in lines if line.startswith("Class: ")]
            if classes and not classes[0].startswith(_BUILT_IN):
                own.append(name)
        return sorted(own)

    def rehearse(self, connection: Any, sql: str, schema: pa.Schema) -> None:
        check_session(connection)
        if connect.is_connected(connection):
            connect.settled_files(connection)
        # A job on no rows: the source is not read.
        connection.sql(asking_for_nothing(sql)).toArrow().cast(schema)

    def fetch(self, connection: Any, sql: str, schema: pa.Schema) -> pa.Table:
        run = connect.with_same_files if connect.is_connected(connection) else in_one_piece
        return run(connection, lambda: connection.sql(sql).toArrow()).cast(schema)


# Types

_TYPES = {
    **{name: ColumnType("integer", name, bits)
       for name, bits in {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}.items()},
    "float": ColumnType("float", "float", 32),
    "double": ColumnType("float", "double"),
    **{name: ColumnType(name, name) for name in ("boolean", "binary", "date")},
    # In a cast, "timestamp" is one of both, as the session has it.
    "timestamp": ColumnType("timestamp", "timestamp_ltz", zone=True),
    "timestamp_ntz": ColumnType("timestamp", "timestamp_ntz"),
    "void": ColumnType("null", "void"),
}  # fmt: skip


def _column_type(field: Any) -> ColumnType:
    """The type of a field of a schema."""
    name = field.dataType.simpleString()
    kind = re.split(r"[ (<]", name)[0]
    if kind == "decimal":
        dtype = ColumnType("decimal", name, digits=(field.dataType.precision, field.dataType.scale))
    elif kind in ("string", "varchar", "char"):
        dtype = ColumnType("text", name)
    elif kind == "interval":
        dtype = ColumnType("interval", name)
    else:
        dtype = _TYPES.get(name, ColumnType("other", name))
    return replace(dtype, nullable=field.nullable)
