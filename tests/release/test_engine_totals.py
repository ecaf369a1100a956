"""Totals on every engine: from the same kept rows as the groups, distinct units once, and moved by one unit as told."""

import numpy as np
import pytest

import made_tables
from engines import ROW, UNIT, steps, sums
from osgt.query.groups import Total, UnitsAt
from osgt.query.measures import Rows, Units

BY = ("town", "number")
KEYS = {"town": made_tables.TOWNS, "number": made_tables.NUMBERS}


def asked(dataset, max_groups, max_rows, totals="cube"):
    return dataset.group_by(*BY, max_groups=max_groups, max_rows_per_group=max_rows, public_keys=KEYS, totals=totals)


def exact(query, of=sums, salt=3):
    """All numbers of groups and totals, or their steps: rows, units, and distinct units of each level."""
    levels = query.groups.levels
    summed = [Rows(), Units(), *(UnitsAt(level.by) for level in levels)]
    cells = {measure: np.zeros((query.groups.public.num_rows, 1), np.int64) for measure in summed}
    for (place,), numbers in of(query, summed, salt=salt).items():
        for measure, [number] in zip(summed, numbers, strict=True):
            cells[measure][place] = number
    totals = [Total(base, level) for level in levels for base in (Rows(), Units(), UnitsAt(level.by))]
    return {measure: measure.exact(cells)[:, 0] for measure in [Rows(), Units(), *totals]}


def crowd(rng):
    rows = made_tables.made_rows(rng, people=8)
    for town in made_tables.TOWNS[:5]:
        for number in made_tables.NUMBERS[:4]:
            rows += [made_tables.made_row(rng, "p0", len(rows) + i) | {"town": town, "number": number} for i in (0, 1)]
    return rows


def test_they_are_those_of_a_plain_reference(engine):
    rng = made_tables.same_every_time(11)
    rows = crowd(rng)
    query = asked(engine.put(made_tables.table_of(rows)), 100, 100)
    found = exact(query)
    kept = [row for row in rows if row[UNIT] is not None]
    for level in query.groups.levels:
        keys = level.keys.to_pylist() if level.by else [{}]
        inside = [[row for row in kept if all(row[name] == key[name] for name in level.by)] for key in keys]
        assert found[Total(Rows(), level)].tolist() == [len(each) for each in inside]
        assert found[Total(UnitsAt(level.by), level)].tolist() == [len({row[UNIT] for row in each}) for each in inside]


@pytest.mark.parametrize("max_groups", [1, 4])
def test_one_unit_moves_no_more_than_its_part(engine, max_groups):
    rng = made_tables.same_every_time(12)
    rows = crowd(rng)
    other = [row | {UNIT: "p0", ROW: 1000 + i} for i, row in enumerate(crowd(rng)) if row[UNIT] == "p0"]
    less = [row for row in rows if row[UNIT] != "p0"]
    tables = {"whole": rows, "add_remove": less, "change_one": less + other}
    queries = {name: asked(engine.put(made_tables.table_of(each)), max_groups, 2) for name, each in tables.items()}
    found = {name: exact(query, steps) for name, query in queries.items()}
    groups = queries["whole"].groups
    for relation in ("add_remove", "change_one"):
        for measure, numbers in found["whole"].items():
            far = np.abs(numbers - found[relation][measure])
            [(shift, coordinates)] = groups.sensitivity(measure, relation)
            assert far.sum() <= shift * coordinates, (relation, measure)
            distinct = isinstance(measure, Total) and isinstance(measure.base, UnitsAt)
            if distinct or not isinstance(measure, Total):
                assert far.max() <= shift
                assert np.count_nonzero(far) <= coordinates


@pytest.mark.parametrize("totals", ["rollup", [()]])
def test_a_release(engine, totals):
    """What is published at an ε with next to no noise is the plain reference; it adds up whatever the noise."""
    rows = crowd(made_tables.same_every_time(13))
    query = asked(engine.put(made_tables.table_of(rows)), 66, 20, totals).count().count_units()
    table = query.release(1e6, 1e-6).to_arrow().to_pylist()
    kept = [row for row in rows if row[UNIT] is not None]
    assert table[-1]["count"] == len(kept)
    assert table[-1]["count_units"] == len({row[UNIT] for row in kept})
    cells = [row for row in query.release(0.5, 1e-6).to_arrow().to_pylist() if row["summed_over"] is None]
    assert len(cells) == 66
