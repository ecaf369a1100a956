"""The exact sums of every engine are those of a plain reference, and bounds keep as much as they allow, no more."""

from fractions import Fraction

import pyarrow as pa
import pytest

import made_tables
import plain_tables
from engines import ROW, UNIT, sums
from osgt.query.measures import ClippedSum, Rows, Units
from osgt.query.values import ValueGrid
from stands import STANDS

BY = ("table", "town", "number")


def made_batch(seed, tables=40):
    rng = made_tables.same_every_time(seed)
    return made_tables.batch_of([made_tables.made_rows(rng) for _ in range(tables)])


@pytest.mark.parametrize("max_rows", [1, 3, 50])
def test_sums_equal_the_reference_where_groups_are_not_cut(engine, max_rows):
    if engine.slow and max_rows == 50:
        pytest.skip("bounds on rows that bind are the harder case")
    table = made_batch(1)
    dataset = engine.put(table)
    query = dataset.group_by(*BY, max_groups=100, max_rows_per_group=max_rows)
    measures = made_tables.made_measures(dataset)
    kept = plain_tables.bounded(table.to_pylist(), UNIT, BY, ROW, 100, max_rows)
    assert plain_tables.differences(sums(query, measures), plain_tables.sums(kept, UNIT, measures), measures) == []


def marked_rows(seed, people=6, towns=5):
    """Rows whose kept ones can be read off the sums: each has a power of two of its own in one of the columns."""
    rng = made_tables.same_every_time(seed)
    rows = []
    for person in range(people):
        for town in rng.sample(range(towns), rng.randint(1, towns)):
            rows += [{"person": f"p{person}", "town": f"t{town}"} for _ in range(rng.choice([1, 2, 4]))]
    rng.shuffle(rows)
    columns = -(-len(rows) // 30)
    for i, row in enumerate(rows):
        row[ROW] = i
        row.update({f"bits_{c}": 2 ** (i % 30) if c == i // 30 else 0 for c in range(columns)})
    return rows, [f"bits_{c}" for c in range(columns)]


@pytest.mark.parametrize(("max_groups", "max_rows"), [(1, 1), (2, 3)])
@pytest.mark.parametrize("order", [ROW, None], ids=["in order", "at random"])
def test_kept_rows_are_as_many_as_the_bounds_allow(engine, max_groups, max_rows, order):
    rows, columns = marked_rows(7)
    dataset = engine.put(pa.Table.from_pylist(rows))
    query = dataset.group_by("town", max_groups=max_groups, max_rows_per_group=max_rows)
    bits = [ClippedSum(column, ValueGrid("integer", Fraction(1), 0, 2**30)) for column in columns]
    found = sums(query, [Rows(), Units(), *bits], order=order)
    kept = {
        group: [row for row in rows if numbers[2 + row[ROW] // 30][0] >> row[ROW] % 30 & 1]
        for group, numbers in found.items()
    }
    for (town,), chosen in kept.items():
        assert {row["town"] for row in chosen} == {town}
        assert found[(town,)][:2] == [[len(chosen)], [len({row[UNIT] for row in chosen})]]
    for person in {row[UNIT] for row in rows}:
        groups = {row["town"]: [] for row in rows if row[UNIT] == person}
        for row in rows:
            if row[UNIT] == person:
                groups[row["town"]].append(row)
        mine = {town: [row for row in chosen if row[UNIT] == person] for (town,), chosen in kept.items()}
        mine = {town: chosen for town, chosen in mine.items() if chosen}
        assert len(mine) == min(len(groups), max_groups)
        for town, chosen in mine.items():
            assert len(chosen) == min(len(groups[town]), max_rows)
            if order == ROW:
                assert chosen == groups[town][:max_rows]


def test_one_group_without_keys(engine):
    table = made_batch(2, tables=3)
    dataset = engine.put(table)
    measures = made_tables.made_measures(dataset)
    query = dataset.group_by(max_rows_per_group=2)
    kept = plain_tables.bounded(table.to_pylist(), UNIT, (), ROW, 1, 2)
    assert plain_tables.differences(sums(query, measures), plain_tables.sums(kept, UNIT, measures), measures) == []


def test_all_engines_give_the_same(engine_of):
    """Rows ordered by a column, bounds on groups that do not bind: nothing is left to chance."""
    table = made_batch(3, tables=10)
    answers = []
    for name in STANDS:
        dataset = engine_of(name).put(table)
        query = dataset.group_by("town", "flag", max_groups=40, max_rows_per_group=2)
        answers.append(sums(query, made_tables.made_measures(dataset)))
    assert all(answer == answers[0] for answer in answers[1:])
