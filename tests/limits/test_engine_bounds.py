"""The histograms of a suggestion on every engine: as plain Python has them, and moved by one unit at most."""

import random
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from osgt.data.reading import compile_query, fetch
from osgt.limits.bounding import UNIT
from osgt.limits.histogram import SCALE, count_edges, parts, value_edges
from osgt.limits.histogram_query import Layout, exact_numbers, histograms
from osgt.query.measures import Values
from osgt.release.exact_sums import prepared_rows

LAYOUT = Layout(count_edges(20), (count_edges(20, factor=4), count_edges(100)), {"fare": value_edges()}, sizes=True)
#: With fewer edges: a slow engine takes seconds to read a query with all of them, so that it does so once.
FEWER_EDGES = replace(LAYOUT, values={"fare": value_edges(1.0, 1e3)})
TOWNS = ["Rome", "Bern", "Oslo", "Wien", None]


def made(seed, units=30):
    """Rows (person, town, fare): some people in one town, some in all, some with very many rows."""
    rng = random.Random(seed)
    rows = []
    for person in range(units):
        for town in rng.sample(TOWNS, rng.randint(1, len(TOWNS))):
            for _ in range(rng.choice([1, 1, 2, 5, 150])):
                rows.append((f"p{person}", town, rng.choice([None, 0.0, -3.5, 12.25, 1e300, -1e300, float("nan")])))
    return rows


def table_of(rows):
    person, town, fare = zip(*rows, strict=True)
    schema = pa.schema([("person", pa.string()), ("town", pa.string()), ("fare", pa.float64()), ("row", pa.int64())])
    return pa.table([person, town, fare, range(len(rows))], schema=schema)


def exact(engine, rows, *, public=None, salt=7, layout=None):
    dataset = engine.put(table_of(rows))
    query = dataset.group_by("town", public_keys=public).count().sum("fare")
    prepared, keys, values = prepared_rows(query, [Values("fare")])
    assert UNIT in prepared.columns
    layout = layout or (FEWER_EDGES if engine.slow else LAYOUT)
    answer = fetch(compile_query(histograms(prepared, keys, values, layout, salt)))
    return exact_numbers(answer, layout, None if public is None else len(public))


@pytest.mark.parametrize("public", [None, ["Rome", "Bern", "Oslo", "nowhere"]])
def test_histograms_are_those_of_the_units(engine, public):
    rows = made(1)
    found = exact(engine, rows, public=public, layout=None if public else LAYOUT)
    kept = [row for row in rows if public is None or row[1] in public]
    towns = {}
    for person, town, _ in kept:
        towns.setdefault(person, {}).setdefault(town, 0)
        towns[person][town] += 1
    expected = parts([len(each) for each in towns.values()], LAYOUT.group_edges)
    assert found.groups.tolist() == expected.tolist()
    assert found.sizes.sum() == len(towns)
    assert len(found.sizes) == (len(public) if public else len({row[1] for row in kept}))
    # One group of each unit was drawn: the total lies between those of the smallest and of the largest one.
    assert abs(found.rows.sum() - len(towns) * SCALE) <= 4 * len(towns)
    marginal = found.rows.sum(axis=0) @ np.array(LAYOUT.rows[1]) / SCALE
    clipped = [[min(size, 100) for size in each.values()] for each in towns.values()]
    assert sum(map(min, clipped)) - 1 <= marginal <= sum(map(max, clipped)) + 1
    assert 0 < found.values["fare"].sum() <= len(towns) * SCALE


def test_all_histograms_are_of_one_reading_of_the_rows(engine):
    """A source may give other rows every time."""
    dataset = engine.put(table_of(made(3)))
    query = dataset.group_by("town", "row").count().sum("fare")
    prepared, keys, values = prepared_rows(query, [Values("fare")])
    sql = compile_query(histograms(prepared, keys, values, LAYOUT, 7)).sql
    assert sql.count(dataset.table.get_name()) == 1


def test_one_unit_moves_each_histogram_by_one_at_most(engine):
    rows = made(2, units=12)
    whole = exact(engine, rows)
    for person in ("p0", "p5", "p11"):
        less = exact(engine, [row for row in rows if row[0] != person])
        for before, after, most in (
            (whole.groups, less.groups, SCALE),
            (whole.rows, less.rows, SCALE),
        ):
            moved = before - after
            assert moved.min() >= 0
            assert 0 < moved.sum() <= most
        assert whole.sizes.sum() - less.sizes.sum() == 1


def test_the_value_of_a_unit_is_one_of_its_own(engine):
    """Values are drawn anew each time: what all units but one add is the same only if they have one value each."""
    rows = [(f"p{i}", "Rome", float(i)) for i in range(9)] + [("x", town, 1e300) for town in TOWNS for _ in range(50)]
    whole, less = exact(engine, rows), exact(engine, rows[:9])
    moved = whole.values["fare"] - less.values["fare"]
    # Engines may round the last digit another way.
    assert moved.sum() == SCALE
    assert moved[-1] >= SCALE - 1
    assert moved.min() >= 0


def test_units_without_a_name_are_ignored(engine):
    rows = [("p1", "Rome", 1.0), (None, "Rome", 5.0), (None, "Bern", 5.0)]
    found = exact(engine, rows)
    assert found.groups.sum() == SCALE
    assert found.sizes.tolist() == [1]
