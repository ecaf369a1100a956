"""One row with a strange value: the release succeeds all the same, with the same columns, types and sensitivity.

An error that comes up because of one row gives that row away, so every value that a type can hold has a defined answer:
as a key it is shown, or counts as null; in a sum it is clipped, or counts as missing.
"""

import datetime as dt
import functools

import pyarrow as pa
import pytest
from test_engine_sensitivity import beyond_part

from engines import UNIT, steps, sums
from osgt import Dataset
from osgt.data.engines.query import compile_query, fetch
from osgt.limits.contribution import saturate
from osgt.query.measures import Bins, CentredSum, ClippedSum, Rows, Squares, Units, Values
from osgt.query.values import grid_of
from osgt.support.numeric import LARGEST_SUM
from plain_tables import STEPS
from stands import STANDS


def cases(of):
    """Parameters: each engine with each type that it lists."""
    return pytest.mark.parametrize(
        ("engine_name", "column"), [(name, column) for name, stand in STANDS.items() for column in of(stand)], ids=str
    )


def units_and(engine, column, rows):
    """A table of units and a column, of which rows are given as pairs in SQL."""
    return engine.made({UNIT: "BIGINT", "key": column}, ", ".join(f"({unit}, {value})" for unit, value in rows))


@cases(lambda stand: stand.hostile_keys)
def test_one_hostile_key(engine_of, engine_name, column):
    engine = engine_of(engine_name)
    ordinary, hostile = engine.hostile_keys[column]
    data = functools.partial(units_and, engine, column)
    common = [(i, ordinary) for i in range(300)]
    less = data(common)
    whole = data(common + [(1000 + i, key) for i, key in enumerate(hostile)])
    found = {}
    for name, dataset in (("less", less), ("whole", whole)):
        query = dataset.group_by("key", max_groups=1, max_rows_per_group=1)
        found[name] = sums(query, [Units(), Rows()])
    (usual,) = found["less"]
    assert found["less"][usual] == [[300], [300]]
    assert list(found["whole"].values()).count([[300], [300]]) == 1
    expected = {}
    for key, null in hostile.items():
        expected[None if null else key] = expected.get(None if null else key, 0) + 1
    more = {key: numbers for key, numbers in found["whole"].items() if numbers != [[300], [300]]}
    assert len(more) == len(expected)
    assert more.get((None,), [[0]])[0][0] == expected.get(None, 0)
    if not engine.slow or column == "DATE":  # slow, and the way from the groups to the release is the same
        releases = [
            dataset.group_by("key", max_groups=1, max_rows_per_group=1).count().release(1, 1e-6).to_arrow()
            for dataset in (less, whole)
        ]
        assert releases[0].schema == releases[1].schema
        assert releases[0]["key"] == releases[1]["key"]
        assert releases[0]["key"].to_pylist() == list(usual)


@pytest.mark.parametrize("engine_name", [name for name, stand in STANDS.items() if stand.hostile_dates])
def test_hostile_keys_that_are_shown(engine_of, engine_name):
    """Groups of many people with keys that Python has no dates for: they are shown in the type of their column."""
    engine = engine_of(engine_name)
    column, keys = engine.hostile_dates
    dataset = units_and(engine, column, [(i, keys[i % 3]) for i in range(900)])
    release = dataset.group_by("key", max_groups=1, max_rows_per_group=1).count_units().release(1, 1e-6)
    shown = release.to_arrow()
    assert shown.schema.field("key").type == pa.date32()
    assert shown["key"].cast(pa.int32()).to_pylist() == [(dt.date(2000, 1, 1) - dt.date(1970, 1, 1)).days + 45 * 146097,
                                                         None]  # fmt: skip
    assert [abs(n - true) < 60 for n, true in zip(shown["count_units"].to_pylist(), [300, 600], strict=True)]


def test_bytes_that_are_no_text_are_shown_escaped():
    """Arrow hands them over, DuckDB keeps them: as keys they are told apart, and what is shown is text."""
    buffers = [None, pa.array([0, 2, 4], pa.int32()).buffers()[1], pa.py_buffer(b"a\xffb\xfe")]
    texts = pa.Array.from_buffers(pa.string(), 2, buffers)
    table = pa.table({UNIT: range(600), "key": pa.concat_arrays([texts] * 300)})
    release = Dataset(table, UNIT).group_by("key", max_groups=1, max_rows_per_group=1).count().release(1, 1e-6)
    assert release.to_arrow()["key"].to_pylist() == ["a\\xff", "b\\xfe"]


@pytest.mark.parametrize("bounds", [(-5, 7), (0, 10**15)], ids=["fine", "coarse"])
@cases(lambda stand: stand.hostile_numbers)
def test_hostile_numbers(engine_of, engine_name, column, bounds):
    """In sums, means, variances and histograms: every one is within its bounds, or counts as missing."""
    engine = engine_of(engine_name)
    if column == "DECIMAL(38, 38)":
        bounds = (0, bounds[1])
    common = [(i, "3" if column != "DECIMAL(38, 38)" else "0.3") for i in range(3)]
    less = units_and(engine, column, common)
    dtype = less.type_of("column", "key")
    fine, centred = grid_of("key", dtype, bounds), grid_of("key", dtype, bounds, centred=True)
    squares = grid_of("key", dtype, bounds, squares=True)
    measures = [
        Values("key"), ClippedSum("key", fine), CentredSum("key", centred), Squares("key", squares),
        Bins("key", (-1, 0, 5)),
    ]  # fmt: skip
    values = engine.hostile_numbers[column][: 2 if engine.slow else None]
    (before,) = steps(less.group_by(max_rows_per_group=1), measures).values()
    for value in values:
        dataset = units_and(engine, column, [*common, (1000, value)])
        query = dataset.group_by(max_rows_per_group=1)
        (after,) = steps(query, measures).values()
        assert beyond_part({(): before}, {(): after}, query.groups, measures, "add_remove") == [], value
        assert (after[0][0] == before[0][0]) == ("NaN" in value), value


def test_sums_beyond_64_bits_are_saturated(engine):
    """One row more or less then moves a sum by no more than its bound, and is no error.

    A row adds 2³¹ steps at the most, so that it would take as many rows to get there: larger numbers stand for them.
    """
    most = 2**60
    for sign in (1, -1):
        for rows in (0, 1, 2, 3, 40):
            table = engine.store(pa.table({"v": pa.array([0] + [sign * most] * rows, pa.int64())}))
            total = saturate(table.engine.total(table["v"]))
            [found] = fetch(compile_query(table.select("sums", "A sum.", {"total": total})))["total"].to_pylist()
            assert found == sign * min(rows * most, LARGEST_SUM)


@pytest.mark.parametrize("sign", [1, -1])
def test_sums_of_the_largest_numbers_of_steps(engine, sign):
    """The finest grid of the widest bounds: products of a worth and a value stay within 64 bits."""
    rows = 40
    table = pa.table({UNIT: range(rows), "v": pa.array([sign * (2**63 - 1)] * rows, pa.int64())})
    dataset = engine.put(table)
    grid = grid_of("v", dataset.type_of("column", "v"), (-(2**63), 2**63))
    assert grid.high == 2**31
    (numbers,) = steps(dataset.group_by(max_rows_per_group=1), [ClippedSum("v", grid), Rows()]).values()
    assert numbers == [[sign * rows * STEPS], [rows * STEPS]]
