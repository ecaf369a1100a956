"""Releases from several threads of one data set: what is charged is released, each with the answer to its own query."""

from concurrent.futures import ThreadPoolExecutor

import duckdb
import pyarrow as pa
import pytest

from engines import fetched_queries
from osgt import Dataset, Ledger
from plain_tables import STEPS
from stands.postgres import postgres_table
from stands.spark import spark_frame

THREADS = 4

TABLE = pa.table(
    {"person": list(range(300)), "town": [i % 3 for i in range(300)], "value": [i % 7 for i in range(300)]}
)

BUDGET = {"epsilon": 1, "delta": 1e-6}


@pytest.fixture(params=["pyarrow", "csv", "duckdb connection", "postgres", "spark"])
def data_of(request, tmp_path):
    """A function from a ledger to a data set of each kind that holds a connection."""
    if request.param == "pyarrow":
        return lambda **options: Dataset(TABLE, "person", **options)
    if request.param == "csv":
        pa.csv.write_csv(TABLE, tmp_path / "x.csv")
        types = dict.fromkeys(TABLE.column_names, "int64")
        return lambda **options: Dataset(tmp_path / "x.csv", "person", types=types, **options)
    if request.param == "duckdb connection":
        connection = duckdb.connect()
        connection.register("incoming", TABLE)
        connection.execute("CREATE TEMP TABLE people AS FROM incoming")
        return lambda **options: Dataset(connection, "person", table="people", **options)
    if request.param == "spark":
        frame = spark_frame(request.getfixturevalue("spark"), TABLE)
        return lambda **options: Dataset(frame, "person", **options)
    url = request.getfixturevalue("postgres_tables")
    return lambda **options: Dataset(url, "person", table=postgres_table(url, TABLE), **options)


def test_what_is_charged_is_released(request, data_of, tmp_path):
    rounds = 4 if "spark" in request.node.name else 8
    with Ledger(tmp_path / "budget.db") as ledger:
        ledger.open("people", epsilon=100, delta=0.01)
        data = data_of(ledger=ledger, dataset="people")

        def released(i):
            """Another query each time: with conditions, with public keys, with other columns."""
            rows = data.where(f"value < {1 + i % 7}") if i % 2 else data
            groups = rows.group_by("town", max_groups=1, max_rows_per_group=1, public_keys=[0, 1, 2] if i % 3 else None)
            return groups.histogram("value", list(range(8))).release(**BUDGET)

        with fetched_queries() as fetched, ThreadPoolExecutor(THREADS) as pool:
            made = list(pool.map(released, range(rounds)))
        # Values that do not fit their declared types are counted by a query of their own.
        fetched = [found for found in fetched if "sum_0_0" in found.column_names]
        assert len(made) == len(fetched) == rounds
        assert ledger.spent("people").releases == rounds
        # Each query had its own answer.
        values = [row["value"] for row in TABLE.to_pylist()]
        expected = [sum(v for v in values if not i % 2 or v < 1 + i % 7) for i in range(rounds)]
        totals = [sum(v * sum(found[f"sum_0_{v}"].to_pylist()) for v in range(7)) for found in fetched]
        assert sorted(totals) == sorted(STEPS * total for total in expected)
