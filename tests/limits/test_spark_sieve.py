"""The sieve of Spark: no row of a group that is kept leaves, and of units with many groups most of the others do."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines import ROW, UNIT, sums
from osgt import Dataset
from osgt.data.engines.engine import Engine
from osgt.data.engines.spark import CELLS, Spark
from osgt.data.engines.spark.sessions import connection_to, table_of_frame
from osgt.query.measures import ClippedSum, Rows, Units
from osgt.query.values import ValueGrid
from stands.spark import spark_frame

LEAST, MOST = -(2**63), 2**63 - 1


def stayed(spark, hashes, max_groups):
    """The hashes of each unit that stay, from a list of hashes for each unit."""
    units = [unit for unit, theirs in enumerate(hashes) for _ in theirs]
    table = pa.table({"unit": pa.array(units, pa.int64()), "choice": pa.array(np.concatenate(hashes), pa.int64())})
    rows = table_of_frame(connection_to(spark), spark_frame(spark, table))
    found = Spark().sieved(rows, "unit", max_groups).to_pyarrow()
    for unit, rows_of_unit in zip(*(found[name].to_pylist() for name in ("unit", "unit_rows")), strict=True):
        assert rows_of_unit == len(hashes[unit])
    return [
        sorted(c for u, c in zip(found["unit"].to_pylist(), found["choice"].to_pylist(), strict=True) if u == unit)
        for unit in range(len(hashes))
    ]


def is_enough(hashes, found, max_groups):
    """Whether all that may be kept has stayed: rows with the first `max_groups` different hashes."""
    first = sorted(set(hashes))[:max_groups]
    return all(found.count(each) == list(hashes).count(each) for each in first)


HASHES = st.lists(
    st.one_of(st.integers(LEAST, MOST), st.integers(LEAST, LEAST + 3), st.integers(MOST - 3, MOST), st.integers(-2, 2)),
    min_size=1,
    max_size=80,
)


@settings(max_examples=10)
@given(st.lists(HASHES, min_size=1, max_size=6), st.integers(1, 32))
def test_what_may_be_kept_stays(spark, hashes, max_groups):
    found = stayed(spark, hashes, max_groups)
    assert all(is_enough(theirs, ours, max_groups) for theirs, ours in zip(hashes, found, strict=True))


@pytest.mark.parametrize("max_groups", [1, 10, 32])
def test_every_border_of_cells(spark, max_groups):
    """Hashes at the borders of cells, as floats round them, and the numbers next to these."""
    borders = [int(((cell / CELLS) ** 2 - 0.5) * 2.0**64) for cell in range(CELLS)]
    near = {max(LEAST, min(MOST, border + step)) for border in borders for step in (-1025, -1, 0, 1, 1025)}
    hashes = sorted(near)
    for theirs in (hashes, hashes[::5], hashes[::2]):
        [found] = stayed(spark, [theirs], max_groups)
        assert is_enough(theirs, found, max_groups)


def test_most_of_the_rest_leaves(spark):
    """Without this the sieve would be of no use. And a sieve for one group less would be found out above."""
    random = np.random.default_rng(5)
    hashes = [random.integers(LEAST, MOST, size, endpoint=True).tolist() for size in (5, 100, 2000)]
    found = stayed(spark, hashes, 10)
    assert len(found[0]) == 5
    assert 10 <= len(found[1]) < 20
    assert 10 <= len(found[2]) < 100
    assert not is_enough(hashes[1], stayed(spark, hashes, 1)[1], 10)


@pytest.mark.parametrize("max_groups", [1, 7, 32, 33])
def test_sums_are_those_of_all_rows(spark, monkeypatch, max_groups):
    """Units with up to 300 groups and several rows in each: the same salt and order, with the sieve and without."""
    random, rows = np.random.default_rng(6), 4000
    unit = (random.random(rows) ** 4 * 30).astype(np.int64)
    town = random.integers(0, 300, rows)
    table = pa.table({UNIT: unit, "town": town, "size": random.integers(0, 9, rows), ROW: np.arange(rows)})
    data = Dataset(spark_frame(spark, table), UNIT)
    query = data.group_by("town", max_groups=max_groups, max_rows_per_group=2)
    measures = [Rows(), Units(), ClippedSum("size", ValueGrid("integer", 1, 0, 9))]
    found = sums(query, measures, salt=77)
    monkeypatch.setattr(Spark, "sieved", Engine.sieved)
    assert found == sums(query, measures, salt=77)
    kept = sum(numbers[1][0] for numbers in found.values())
    groups = {u: len(set(town[unit == u])) for u in set(unit)}
    assert kept == sum(min(count, max_groups) for count in groups.values())
