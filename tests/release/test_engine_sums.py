"""The exact sums of every engine equal a plain reference in whole numbers: what rows are worth, and what is cut off."""

from dataclasses import replace

import pyarrow as pa
import pytest

import made_tables
import plain_tables
from engines import ROW, UNIT, choose_by, choose_pairs_by, cut_off, group_order, steps
from osgt.query.measures import Distinct, Rows, Units
from plain_tables import Limits
from stands import STANDS

BY = ("table", "town", "number")

#: Limits of each kind, some that bind for nearly everyone and some for few.
LIMITS = [
    {"max_rows": 1},
    {"max_rows": 5},
    {"max_rows": 1000},
    {"max_rows": 4, "max_groups": 2},
    {"max_groups": 1, "max_rows_per_group": 1},
    {"max_groups": 3, "max_rows_per_group": 2},
    {"max_groups": 100, "max_rows_per_group": 3},
]


def made_batch(seed, tables=12):
    rng = made_tables.same_every_time(seed)
    return made_tables.batch_of([made_tables.made_rows(rng, most=40) for _ in range(tables)])


def numbered(table):
    """The table with a number of its own for each row."""
    return table.set_column(table.schema.get_field_index(ROW), ROW, pa.array(range(table.num_rows), pa.int64()))


def check(query, table, limits, measures, salt=1):
    """Compare sums and what is cut off with the reference; public keys are places in the answer of an engine."""
    rows, by = table.to_pylist(), query.groups.by
    choose = choose_by(group_order(query, salt)) if by else None
    expected = plain_tables.weighted_sums(rows, UNIT, by, limits, measures, choose, choose_pairs_by(query, salt))
    if limits.public is not None:
        expected = {(limits.public.index(key),): numbers for key, numbers in expected.items()}
    assert plain_tables.differences(steps(query, measures, salt), expected, measures) == []
    things = ["rows"] if by == () or limits.max_groups is None else ["rows", "units"]
    things += [measure for measure in measures if isinstance(measure, Distinct)]
    for thing, numbers in cut_off(query, things, salt).items():
        assert numbers == plain_tables.cut_off(rows, UNIT, by, limits, thing, choose), thing


@pytest.mark.on_slow_engines("given", LIMITS[1:6:2])
@pytest.mark.parametrize("given", LIMITS, ids=str)
def test_sums_equal_the_reference(engine, given):
    table = numbered(made_batch(1))
    dataset = engine.put(table)
    check(dataset.group_by(*BY, **given), table, Limits(**given), made_tables.made_measures(dataset))


@pytest.mark.parametrize("given", [LIMITS[1], LIMITS[5], {"max_rows": 3, "max_groups": 1}], ids=str)
def test_rows_with_other_keys_count_for_what_a_row_is_worth(engine, given):
    """N is the number of all rows of a unit, so that a row is worth as much in every table of a publication."""
    table = numbered(made_batch(4, tables=6))
    dataset = engine.put(table)
    keys = ["Rome", None, "Zürich", "nowhere"]
    query = dataset.group_by("town", public_keys=keys, **given)
    limits = Limits(**given, public=tuple((key,) for key in keys))
    check(query, table, limits, made_tables.made_measures(dataset))


def test_one_group_without_keys(engine):
    table = numbered(made_batch(2, tables=3))
    dataset = engine.put(table)
    check(dataset.group_by(max_rows=2), table, Limits(max_rows=2), made_tables.made_measures(dataset))


def test_units_count_once_in_each_of_their_first_groups(engine):
    """Whatever limits their rows, which count in all public groups."""
    table = numbered(made_batch(5, tables=3))
    dataset = engine.put(table)
    keys = made_tables.TOWNS
    query = dataset.group_by("town", max_rows=3, max_groups=2, public_keys=keys)
    limits = Limits(max_rows=3, max_groups=2, public=tuple((key,) for key in keys))
    check(query, table, limits, [Units(), Rows()], salt=99)


def test_all_engines_give_the_same(engine_of):
    """No group is cut: nothing depends on how an engine makes a hash."""
    table = made_batch(3, tables=6)
    answers = []
    for name in STANDS:
        dataset = engine_of(name).put(table)
        keys = {"town": made_tables.TOWNS, "flag": made_tables.FLAG}
        query = dataset.group_by("town", "flag", max_rows=3, max_groups=40, public_keys=keys)
        # Of few different values of a unit, the hash would choose others on each engine.
        made = made_tables.made_measures(dataset)
        measures = [replace(each, limit=1000) if isinstance(each, Distinct) else each for each in made]
        answers.append(steps(query, measures))
    assert all(answer == answers[0] for answer in answers[1:])


def test_a_unit_with_very_many_rows(engine):
    """Of 300,000 rows each is worth 3,579 steps; sums and the totals of a unit do not wrap at 32 or 64 bits."""
    size = 300_000
    table = pa.table(
        {
            UNIT: pa.array(["heavy"] * size + ["light"] * 3),
            "value": pa.array([-(2**63)] * size + [2**63 - 1, 5, 0], pa.int64()),
            ROW: pa.array(range(size + 3), pa.int64()),
        }
    )
    dataset = engine.put(table)
    query = dataset.group_by(max_rows=2)
    whole, small = (made_tables.limited_sum(dataset, "value", limit) for limit in (2**63, 7))
    [numbers] = steps(query, [Rows(), whole, small]).values()
    k = plain_tables.STEPS
    assert numbers[0] == [size * (k // size) + 3 * (k // 3)]
    # Every value of the one is minus the limit, so that each adds the same part of all steps.
    largest = whole.own_limit
    light = k * (largest - 1) // largest if plain_tables.in_steps(2**63 - 1, whole.grid) < largest else k
    assert numbers[1][0] == -size * (k // size) + light
    assert numbers[2] == [-size * (k // size) + k * 7 // 12 + k * 5 // 12]
