"""Ibis tables as sources: their SQL is taken, with what they are made of. Ibis is installed by the user."""

import gc

import polars
import pyarrow as pa
import pytest

from engines import UNIT, sums
from osgt import Dataset
from osgt.query.measures import Rows, Units

ibis = pytest.importorskip("ibis")

TABLE = pa.table({UNIT: ["a", "a", "b", "b", "c"], "town": ["x", "y", "x", "x", None], "size": [1, 2, 3, 1, 5]})
REGIONS = pa.table({"town": ["x", "y"], "region": ["north", "south"]})


@pytest.fixture(params=["duckdb", "postgres"])
def of_ibis(request):
    """The table as Ibis has it, on an engine."""
    if request.param == "postgres":
        backend = ibis.connect(request.getfixturevalue("postgres_tables"))
        name = request.getfixturevalue("engine_of")("postgres").store(TABLE).text.split(".")[-1].strip('"')
        yield backend.table(name)
        backend.disconnect()
        return
    try:
        backend = ibis.duckdb.connect()
        table = backend.create_table("people", TABLE)
    except Exception as error:  # Ibis 12 does not know DuckDB 2
        pytest.skip(f"this Ibis does not work with this DuckDB: {type(error).__name__}")
    yield table


def rows_left(dataset):
    return sums(dataset.group_by(max_rows_per_group=10), [Rows(), Units()])[()]


def test_a_table(of_ibis):
    data = Dataset(of_ibis, UNIT)
    assert {name: str(dtype) for name, dtype in data.table.columns.items()} == {
        UNIT: "string", "town": "string", "size": "int64"
    }  # fmt: skip
    assert rows_left(data.where("size > 1")) == [[3], [3]]
    released = data.group_by("town", max_rows=5, public_keys=["x", "y"]).count().release(1e6, 1e-6)
    assert released.to_arrow()["count"].to_pylist() == [3, 1]


def test_a_table_that_is_a_query_itself(of_ibis):
    """Two statements that name one another: the steps of a release have other names than those of the source."""
    visits = of_ibis.group_by([UNIT, "town"]).agg(visits=of_ibis.count())
    assert rows_left(Dataset(visits, UNIT).where("visits > 0").where("visits < 2")) == [[3], [2]]


def test_a_table_with_a_part_in_memory(of_ibis):
    joined = of_ibis.inner_join(ibis.memtable(REGIONS), "town")
    assert rows_left(Dataset(joined, UNIT).where("region = 'north'").where("size > 1")) == [[1], [1]]


def test_another_engine_than_the_table_is_on(of_ibis):
    own = of_ibis.get_backend().name
    other = {"duckdb": "postgres", "postgres": "duckdb"}[own]
    with pytest.raises(ValueError, match=f"engine must be {own} for this table, got '{other}'"):
        Dataset(of_ibis, UNIT, engine=other)


def test_a_back_end_that_is_no_engine():
    table = ibis.polars.connect().create_table("people", polars.DataFrame({"unit": [1]}))
    with pytest.raises(ValueError, match="source must be on DuckDB, PostgreSQL or Spark, got a table on polars"):
        Dataset(table, "unit")


def test_a_table_on_spark(spark):
    """Also where a part of it is in memory: the session is Ibis', as it has set it up."""
    backend = ibis.pyspark.connect(spark.newSession())
    towns = ibis.memtable(pa.table({"town": [0, 1], "name": ["x", "y"]}))
    people = backend.sql("SELECT id AS person, id % 3 AS town FROM range(9)")
    source = people.inner_join(towns, "town").mutate(double=2 * people.person)
    data = Dataset(source, "person")
    assert {name: str(dtype) for name, dtype in data.table.columns.items()} == {
        "person": "int64", "town": "int64", "name": "string", "double": "int64"
    }  # fmt: skip
    assert sums(data.where("double < 12").group_by("name", max_groups=1), [Units()]) == {("x",): [[2]], ("y",): [[2]]}
    names = set(backend.list_tables())
    del data
    gc.collect()
    assert len(names - set(backend.list_tables())) == 1
