"""The engines that every test of tables runs on, and the ways in which data are handed over.

A test writes its rows as an Arrow table with an explicit schema; `put` brings them to the engine with the types that
come closest there, and gives the data set back.
"""

import uuid
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import duckdb
import ibis
import polars
import psycopg
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from psycopg import sql

from osgt import Dataset
from osgt.tables import release
from osgt.tables.keys import KEY
from osgt.tables.reading import compiled, fetched
from osgt.tables.release import exact_sums, shown_keys

#: The column of the privacy unit, and the one that puts a unit's rows in order, in the tables of the tests.
UNIT, ROW = "person", "row"

QUERY_ENGINES = ("duckdb", "spark", "postgres")

SOURCES = (
    "pandas", "polars", "lazy polars", "pyarrow", "parquet", "parquet glob", "csv", "duckdb file",
    "duckdb connection", "ibis memtable", "spark csv", "spark dataframe", "spark session", "spark file", "postgres url",
)  # fmt: skip


@dataclass(frozen=True)
class Engine:
    """An engine by name, and the function that stores an Arrow table there."""

    name: str
    store: Callable[[pa.Table], Any]
    close: Callable[[], None] = lambda: None

    def put(self, table: pa.Table, unit: str = UNIT, **options: Any) -> Dataset:
        """The data set of these rows on this engine."""
        return Dataset(self.store(table), unit, **options)


def sums(query, measures, salt=1, order=ROW):
    """The exact numbers of each group: a dict from its key to a list with the numbers of each measure.

    Keys are tuples in the order of `group_by`; with public keys, the place of the key among them.
    """
    return numbers_by_key(query, measures, fetched(compiled(exact_sums(query, list(measures), salt, order))))


def numbers_by_key(query, measures, found):
    """The rows that the engine gave back, by key."""
    names = [KEY] if query.groups.public is not None else [f"key_{i}" for i in range(len(query.groups.by))]
    keys = {name: _values(column) for name, column in _columns(shown_keys(query, found.select(names)))}
    columns = found.select([name for name in found.column_names if name not in names]).to_pydict()
    result = {}
    for row in range(found.num_rows):
        key = tuple(column[row] for column in keys.values())
        assert key not in result, f"the engine gave the group {key} twice"
        result[key] = [
            [columns[name][row] for name in columns if name.startswith(f"sum_{i}_")] for i in range(len(measures))
        ]
        assert all(type(number) is int for numbers in result[key] for number in numbers)
    return result


def _columns(table):
    return zip(table.column_names, table.columns, strict=True)


def _values(column):
    """The values as Python has them; dates and times that it has not, as numbers."""
    try:
        return column.to_pylist()
    except (ValueError, OverflowError):
        return column.cast(pa.int32() if pa.types.is_date32(column.type) else pa.int64()).to_pylist()


@contextmanager
def fetched_queries():
    """The tables that releases get from the engine meanwhile, and nothing else may: a list that grows."""
    tables = []

    def fetched_and_noted(query):
        tables.append(fetched(query))
        return tables[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(release, "fetched", fetched_and_noted)
        yield tables


def new_name():
    return f"t_{uuid.uuid4().hex}"


# DuckDB


def duckdb_engine():
    connection = ibis.duckdb.connect()

    def store(table):
        name = new_name()
        connection.con.register("incoming", table)
        connection.raw_sql(f"CREATE TABLE {name} AS FROM incoming")
        connection.con.unregister("incoming")
        return connection.table(name)

    return Engine("duckdb", store)


# Spark


def spark_session():
    """A small session: one thread, one partition, no web page, no log."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - starting Java takes a while

    session = (
        SparkSession.builder.master("local[1]")
        .appName("osgt tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.memory", "1g")
        # The tables are small: compiling a query would take longer than running it.
        .config("spark.sql.codegen.wholeStage", "false")
        .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    return session


def spark_engine(session):
    connection = ibis.pyspark.connect(session)

    def store(table):
        name = new_name()
        spark_frame(session, table).createOrReplaceTempView(name)
        return connection.table(name)

    return Engine("spark", store)


def spark_frame(session, table):
    """The rows as a Spark frame. Spark has no unsigned integers: each becomes the next larger type."""
    larger = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64(), pa.uint64(): pa.decimal128(20)}
    fields = [pa.field(f.name, larger.get(f.type, f.type)) for f in table.schema]
    frame = session.createDataFrame(table.cast(pa.schema(fields)))
    for field in fields:
        if pa.types.is_timestamp(field.type) and field.type.tz is None:
            frame = frame.withColumn(field.name, frame[field.name].cast("timestamp_ntz"))
    return frame


# PostgreSQL


def postgres_engine(url):
    connection = ibis.connect(url)

    def store(table):
        return connection.table(postgres_table(url, table))

    return Engine("postgres", store, connection.disconnect)


def postgres_table(url, table):
    """The name of a new table with these rows."""
    name = new_name()
    columns = [sql.SQL("{} {}").format(sql.Identifier(f.name), sql.SQL(_postgres_type(f.type))) for f in table.schema]
    with psycopg.connect(url) as connection:
        connection.execute(sql.SQL("CREATE TABLE {} ({})").format(sql.Identifier(name), sql.SQL(", ").join(columns)))
        with connection.cursor().copy(sql.SQL("COPY {} FROM STDIN").format(sql.Identifier(name))) as copy:
            for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
                copy.write_row(row)
    return name


def _postgres_type(dtype):
    names = {
        pa.int8(): "smallint", pa.uint8(): "smallint", pa.int16(): "smallint", pa.uint16(): "integer",
        pa.int32(): "integer", pa.uint32(): "bigint", pa.int64(): "bigint", pa.uint64(): "numeric(20, 0)",
        pa.float32(): "real", pa.float64(): "double precision", pa.bool_(): "boolean", pa.string(): "text",
        pa.large_string(): "text", pa.date32(): "date", pa.binary(): "bytea",
    }  # fmt: skip
    if pa.types.is_decimal(dtype):
        return f"numeric({dtype.precision}, {dtype.scale})"
    if pa.types.is_timestamp(dtype):
        return "timestamptz" if dtype.tz else "timestamp"
    return names[dtype]


# Every way to hand data over


def source(name, table, folder, session=None, postgres=None):
    """What is handed to `Dataset` for this way, and the arguments that go with it."""
    ways = {
        "pandas": lambda: (table.to_pandas(), {"types": _declared(table, only_objects=True)}),
        "polars": lambda: (polars.from_arrow(table), {}),
        "lazy polars": lambda: (polars.from_arrow(table).lazy(), {}),
        "pyarrow": lambda: (table, {}),
        "parquet": lambda: (_parquet(table, folder / "data.parquet"), {}),
        "parquet glob": lambda: (_parts(table, folder), {}),
        "csv": lambda: (_csv(table, folder / "data.csv"), {"types": _declared(table)}),
        "spark csv": lambda: (_csv(table, folder / "data.csv"), {"types": _declared(table), "engine": "spark"}),
        "duckdb file": lambda: (_duckdb_file(table, folder / "data.duckdb"), {"table": "town.people"}),
        "duckdb connection": lambda: (
            duckdb.connect(_duckdb_file(table, folder / "data.duckdb")),
            {"table": "town.people"},
        ),
        "ibis memtable": lambda: (ibis.memtable(table), {}),
        "spark dataframe": lambda: (spark_frame(session, table), {}),
        "spark session": lambda: (session, {"table": _spark_view(session, table)}),
        "spark file": lambda: (_parquet(table, folder / "data.parquet"), {"engine": "spark"}),
        "postgres url": lambda: (postgres, {"table": f"public.{postgres_table(postgres, table)}"}),
    }
    return ways[name]()


def _declared(table, *, only_objects=False):
    """The types of the columns, by the names that are declared; in pandas, of what it keeps as objects."""
    names = {pa.int8(): "int64", pa.int64(): "int64", pa.float64(): "float64", pa.bool_(): "boolean"}
    types = {f.name: str(f.type).replace("decimal128", "decimal") for f in table.schema if pa.types.is_decimal(f.type)}
    if only_objects:
        return types | {"flag": "boolean"}
    return types | {f.name: names[f.type] for f in table.schema if f.type in names}


def _parquet(table, path):
    pyarrow.parquet.write_table(table, path)
    return str(path)


def _parts(table, folder):
    half = table.num_rows // 2
    _parquet(table.slice(0, half), folder / "part 1.parquet")
    _parquet(table.slice(half), folder / "part 2.parquet")
    return str(folder / "part *.parquet")


def _csv(table, path):
    pyarrow.csv.write_csv(table, path)
    return str(path)


def _duckdb_file(table, path):
    with duckdb.connect(path) as connection:
        connection.register("incoming", table)
        connection.execute("CREATE SCHEMA town; CREATE TABLE town.people AS FROM incoming")
    return str(path)


def _spark_view(session, table):
    name = new_name()
    spark_frame(session, table).createOrReplaceTempView(name)
    return name
