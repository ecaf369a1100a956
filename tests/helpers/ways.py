"""Every way to hand data over."""

import duckdb
import polars
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from engines import new_name
from stands.postgres import postgres_table
from stands.spark import spark_frame

SOURCES = (
    "pandas", "polars", "lazy polars", "pyarrow", "parquet", "parquet glob", "csv", "duckdb file",
    "duckdb connection", "spark csv", "spark dataframe", "spark session", "spark file", "postgres url",
)  # fmt: skip


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
