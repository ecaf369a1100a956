"""Public keys: all of them are shown and no others, in whatever form they are given, on every engine."""

import datetime as dt
from decimal import Decimal

import pandas as pd
import polars
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from engines import ROW, UNIT, sums
from osgt.query.measures import Rows, Units

TABLE = pa.table(
    {
        UNIT: ["a", "a", "a", "a", "b", "b", "c"],
        ROW: range(7),
        "town": ["x", "y", None, "other", "x", "X", ""],
        "year": [1, 2, 1, 2, 1, 1, None],
    }
)

KEYS = [("x", 1), ("y", 2), ("absent", 1), ("", 7)]


def forms(folder):
    """The same four keys in every form that there is."""
    table = pa.table({"town": [town for town, _ in KEYS], "year": [year for _, year in KEYS]})
    pyarrow.csv.write_csv(table, folder / "keys.csv")
    pyarrow.parquet.write_table(table, folder / "keys.parquet")
    return {
        "list of tuples": KEYS,
        "list of lists": [list(key) for key in KEYS],
        "arrow": table.select(["year", "town"]),
        "pandas": table.to_pandas(),
        "polars": polars.from_arrow(table),
        "csv": str(folder / "keys.csv"),
        "parquet": folder / "keys.parquet",
    }


def test_every_form_of_keys(engine, tmp_path):
    dataset = engine.put(TABLE)
    for name, keys in forms(tmp_path).items():
        query = dataset.group_by("town", "year", max_groups=9, max_rows_per_group=9, public_keys=keys)
        assert query.groups.public.to_pylist() == [{"town": town, "year": year} for town, year in KEYS], name
        if not engine.slow or name == "list of tuples":
            assert sums(query, [Units(), Rows()]) == {(0,): [[2], [2]], (1,): [[1], [1]]}, name


def test_all_combinations_and_null_keys(engine):
    dataset = engine.put(TABLE)
    keys = {"town": ["x", None, ""], "year": [1, None]}
    query = dataset.group_by("town", "year", max_groups=9, max_rows_per_group=9, public_keys=keys)
    # x 1, x null, null 1, null null, '' 1, '' null
    assert sums(query, [Units(), Rows()]) == {(0,): [[2], [2]], (2,): [[1], [1]], (5,): [[1], [1]]}


def test_other_keys_use_up_no_groups(engine):
    """Rows with other keys are gone before groups are chosen: one of one group is always kept."""
    table = pa.table(
        {UNIT: [p for p in range(50) for _ in range(20)], "town": [t for _ in range(50) for t in range(20)]}
    )
    dataset = engine.put(table.append_column(ROW, pa.array(range(1000))))
    query = dataset.group_by("town", max_groups=1, max_rows_per_group=1, public_keys=[7, 21])
    assert sums(query, [Units(), Rows()]) == {(0,): [[50], [50]]}


def test_absent_keys_are_shown(engine):
    """As noise around nothing, in the order in which the keys were given."""
    dataset = engine.put(TABLE)
    keys = ["nowhere", "x", None]
    query = dataset.group_by("town", max_groups=2, max_rows_per_group=1, public_keys=keys).count()
    release = query.release(epsilon=10, delta=1e-6)
    assert release.to_arrow()["town"].to_pylist() == keys
    # At this budget the noise is within 4 but once in 10⁹ releases.
    count = release.to_arrow()["count"].to_pylist()
    assert all(abs(noisy - true) <= 4 for noisy, true in zip(count, [0, 2, 1], strict=True))


INSTANTS = [dt.datetime(2024, 3, 31, 1, tzinfo=dt.UTC), None, dt.datetime(1969, 1, 1, tzinfo=dt.UTC)]
TYPED = {
    "date": (pa.date32(), [dt.date(2024, 2, 29), None, dt.date(1, 1, 1)]),
    "price": (pa.decimal128(9, 2), [Decimal("1.10"), None, Decimal("-0.01")]),
    "flag": (pa.bool_(), [True, None, False]),
    "instant": (pa.timestamp("us", "UTC"), INSTANTS),
    "clock": (pa.timestamp("us"), [dt.datetime(2024, 3, 31, 1), None, dt.datetime(1969, 1, 1)]),
    "number": (pa.int64(), [2**63 - 1, None, -(2**63)]),
    "small": (pa.int8(), [127, None, -128]),
    "text": (pa.string(), ["it's", None, ""]),
}  # fmt: skip


def test_keys_of_every_type(engine):
    columns = {name: pa.array(values, dtype) for name, (dtype, values) in TYPED.items()}
    dataset = engine.put(pa.table({UNIT: range(3), ROW: range(3), **columns}))
    keys = [tuple(values[i] for _, values in TYPED.values()) for i in range(3)]
    query = dataset.group_by(*TYPED, max_groups=1, max_rows_per_group=1, public_keys=keys)
    assert sums(query, [Units(), Rows()]) == {(i,): [[1], [1]] for i in range(3)}
    if not engine.slow:
        for i, name in enumerate(TYPED):
            query = dataset.group_by(name, max_groups=1, max_rows_per_group=1, public_keys=[key[i] for key in keys])
            assert sums(query, [Units(), Rows()]) == {(i,): [[1], [1]] for i in range(3)}, name


#: In New York a clock skips the first of these times, and shows the last one twice: at both of the last two instants.
CLOCKS = [dt.datetime(2024, 3, 10, 2, 30), dt.datetime(2024, 3, 10, 3, 30), dt.datetime(2024, 11, 3, 1, 30)]
MOMENTS = [dt.datetime(2024, 3, 10, 7, 30), dt.datetime(2024, 11, 3, 5, 30), dt.datetime(2024, 11, 3, 6, 30)]


@pytest.fixture
def in_new_york(engine):
    """A table of times, a row for each, two for the second, on a connection in the time zone of New York."""
    instants = [moment.replace(tzinfo=dt.UTC) for moment in MOMENTS]
    clocks = pa.array([*CLOCKS, CLOCKS[1]], pa.timestamp("us"))
    times = {"clock": clocks, "instant": pa.array([*instants, instants[1]], pa.timestamp("us", "UTC"))}
    dataset = engine.put(pa.table({UNIT: range(4), ROW: range(4), **times}))
    engine.raw(dataset, engine.set_zone.format("America/New_York"))
    yield dataset.derive(same_clock="clock", same_instant="instant"), {"clock": CLOCKS, "instant": instants}
    engine.raw(dataset, engine.set_zone.format("UTC"))


def test_times_that_a_clock_skips_or_shows_twice(in_new_york):
    """Times without a zone are those on the clock whatever the zone; instants are told apart."""
    dataset, times = in_new_york
    for name, keys in times.items():
        for column in (name, f"same_{name}"):
            query = dataset.group_by(column, max_groups=1, max_rows_per_group=1, public_keys=[keys[1]])
            assert sums(query, [Units(), Rows()]) == {(0,): [[2], [2]]}, column
            query = dataset.group_by(column, max_groups=1, max_rows_per_group=1, public_keys=keys)
            assert sums(query, [Units(), Rows()]) == {(0,): [[1], [1]], (1,): [[2], [2]], (2,): [[1], [1]]}, column


@pytest.mark.parametrize("frame", [pd.DataFrame, polars.DataFrame, dict])
def test_one_column_frames(engine_of, frame):
    query = engine_of("duckdb").put(TABLE).group_by("town", max_groups=4, public_keys=frame({"town": ["y", "x"]}))
    assert sums(query, [Units()]) == {(0,): [[1]], (1,): [[2]]}
