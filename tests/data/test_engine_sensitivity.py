"""The claim that the noise rests on: one unit moves each measure no further, and in no more groups, than its part says.

The salt is the same for both tables, so all that differs is what one unit adds.
"""

import functools

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import made_tables
import plain_tables
from engines import ROW, UNIT, numbers_by_key, steps
from osgt import Dataset
from osgt.data.engines.query import compile_query
from osgt.query.groups import Groups
from osgt.query.measures import Bins, CentredOnAll, ClippedSum, Rows, Units, UnitsInAny, Values
from osgt.query.values import ValueGrid, grid_of
from osgt.release.measuring import exact_sums

TABLES = 12
LIMITS = [
    {"max_groups": 1, "max_rows_per_group": 1},
    {"max_groups": 3, "max_rows_per_group": 2},
    {"max_rows": 1},
    {"max_rows": 7},
    {"max_rows": 4, "max_groups": 2},
]


def moved(before, after, measures):
    """For each measure, how far each number of each group moved; groups in which nothing moved are left out."""
    groups = before.keys() | after.keys()
    for i, measure in enumerate(measures):
        steps = {}
        for group in groups:
            width = len((before.get(group) or after.get(group))[i])
            old, new = (table[group][i] if group in table else [0] * width for table in (before, after))
            if old != new:
                steps[group] = [b - a for a, b in zip(old, new, strict=True)]
        yield measure, steps


def beyond_part(before, after, groups, measures, neighbours):
    """What moved further or in more groups than `Groups.moves` says, in words; empty if the claim holds."""
    wrong = []
    for measure, moves in moved(before, after, measures):
        [(shift, coordinates)] = groups.sensitivity(measure, neighbours)
        far = {group: sum(map(abs, each)) for group, each in moves.items()}
        largest = max((abs(step) for each in moves.values() for step in each), default=0)
        # The bins of a group move together by what one number may move; an exchange is a removal and an addition.
        exchanges = 1 if neighbours == "add_remove" else 2
        within_group = shift * (exchanges if measure.numbers > 1 else 1)
        if largest > shift or max(far.values(), default=0) > within_group:
            wrong.append(f"{measure} moved by {moves}, its shift is {shift}")
        # Under a limit on all rows, the numbers of all groups together move by what one may move, for each exchange.
        if sum(far.values()) > shift * (
            coordinates if not groups.limits_in_all(measure) else min(coordinates, exchanges)
        ):
            wrong.append(f"{measure} moved by {moves} in all, {coordinates} times {shift} at most")
        public_rows = groups.shows_all and groups.limits_in_all(measure)
        if not public_rows and len(far) > exchanges * groups.max_groups_per_unit:
            wrong.append(f"{measure} moved in {len(far)} groups, {exchanges * groups.max_groups_per_unit} at most")
    return wrong


def of_table(answer, number):
    """The groups of one of the tables of a batch."""
    return {key[1:]: numbers for key, numbers in answer.items() if key[0] == number}


def units_of(rows):
    return sorted({row[UNIT] for row in rows if row[UNIT] is not None})


def without(rows, unit):
    return [row for row in rows if row[UNIT] != unit]


def groups_of(rows, unit, by):
    return {tuple(row[name] for name in by) for row in rows if row[UNIT] == unit}


def crowd(rng):
    """A table in which one unit is in many groups with many rows, all of them at the ends of what there is."""
    rows = made_tables.made_rows(rng)
    for town in made_tables.TOWNS:
        for number in rng.sample(made_tables.NUMBERS, 2):
            for _ in range(rng.choice([1, 4])):
                rows.append(made_tables.made_row(rng, "p0", len(rows)) | {"town": town, "number": number})
    return rows


@pytest.fixture(scope="module")
def neighbours():
    """Tables, and beside each the same without one unit, and with all rows of that unit exchanged for others."""
    rng = made_tables.same_every_time(20240229)
    tables = [crowd(rng) if i % 4 == 0 else made_tables.made_rows(rng) for i in range(TABLES)]
    tables = [rows if units_of(rows) else crowd(rng) for rows in tables]
    units = [
        "p0" if i % 4 == 0 and "p0" in units_of(rows) else rng.choice(units_of(rows)) for i, rows in enumerate(tables)
    ]
    removed = [without(rows, unit) for rows, unit in zip(tables, units, strict=True)]
    exchanged = []
    for rows, unit in zip(removed, units, strict=True):
        others = [row | {UNIT: unit, ROW: 1000 + i} for i, row in enumerate(crowd(rng)) if row[UNIT] == "p0"]
        exchanged.append(rows + others)
    return tables, units, removed, exchanged


@pytest.mark.on_slow_engines("limits", LIMITS[1::2])
@pytest.mark.parametrize("limits", LIMITS, ids=str)
def test_one_unit_moves_no_more_than_its_part(engine, neighbours, limits):
    tables, units, removed, exchanged = neighbours
    by = ("town", "number")
    answers = []
    for batch in (tables, removed, exchanged):
        dataset = engine.put(made_tables.batch_of(batch))
        query = dataset.group_by("table", *by, **limits)
        measures = made_tables.made_measures(dataset)
        answers.append(steps(query, measures, salt=4))
    groups = Groups(by, **limits)
    for i, (rows, unit) in enumerate(zip(tables, units, strict=True)):
        whole, less, other = (of_table(answer, i) for answer in answers)
        assert beyond_part(whole, less, groups, measures, "add_remove") == []
        assert beyond_part(whole, other, groups, measures, "change_one") == []
        for group in (whole.keys() | less.keys()) - groups_of(rows, unit, by):
            assert whole.get(group) == less.get(group), "a group of others moved"


def test_one_group_and_public_keys(engine):
    rng = made_tables.same_every_time(5)
    rows = crowd(rng)
    whole, less = (engine.put(made_tables.table_of(r)) for r in (rows, without(rows, "p0")))
    measures = made_tables.made_measures(whole)
    for query in (
        lambda dataset: dataset.group_by(max_rows=2),
        lambda dataset: dataset.group_by("town", max_rows=5, public_keys=["Rome", None, "x"]),
        lambda dataset: dataset.group_by("town", max_groups=2, max_rows_per_group=2, public_keys=["Rome", None, "x"]),
    ):
        answers = [steps(query(dataset), measures, salt=9) for dataset in (whole, less)]
        assert beyond_part(*answers, query(whole).groups, measures, "add_remove") == []


def test_numbers_centred_on_the_units_in_any_group(engine):
    """One unit less moves the units by 1, each of its groups by the shift and every other group by the rest."""
    rng = made_tables.same_every_time(6)
    rows = crowd(rng)
    keys = [*made_tables.TOWNS, "x", "y"]
    whole, less = (engine.put(made_tables.table_of(r)) for r in (rows, without(rows, "p0")))
    bases = [Units()]
    for max_groups in (1, 3, len(keys)):
        groups = Groups(("town",), pa.table({"town": keys}), max_rows=2, max_groups=max_groups)
        measures = [UnitsInAny(), *(CentredOnAll(Units(), times, 1) for times in (2, 3, 5))]
        found = []
        for dataset in (whole, less):
            query = dataset.group_by("town", max_rows=2, max_groups=max_groups, public_keys=keys)
            answer = steps(query, [UnitsInAny(), *bases], salt=9)
            every = np.zeros((len(keys), 1 + len(bases)), dtype=np.int64)
            for (key,), numbers in answer.items():
                every[key] = [number for [number] in numbers]
            summed = {measure: every[:, [i]] for i, measure in enumerate([UnitsInAny(), *bases])}
            found.append({measure: measure.exact(summed)[:, 0] for measure in measures})
        kept = [row for row in rows if row["town"] in keys and row[UNIT] is not None]
        assert found[0][UnitsInAny()].tolist() == [len({row[UNIT] for row in kept})]
        for measure in measures:
            far = sorted(np.abs(found[0][measure] - found[1][measure]).tolist(), reverse=True)
            allowed = [shift for shift, n in groups.sensitivity(measure, "add_remove") for _ in range(n)]
            assert len(far) == len(allowed)
            assert all(a <= b for a, b in zip(far, sorted(allowed, reverse=True), strict=True)), measure.words


# More tables on DuckDB: hypothesis looks for the one that breaks the claim, and for the smallest.

VALUES = {
    "town": st.one_of(st.sampled_from(made_tables.TOWNS), st.text(max_size=3).filter(lambda text: "\0" not in text)),
    "number": st.one_of(st.sampled_from(made_tables.NUMBERS), st.integers(-2, 2)),
    "small": st.one_of(st.none(), st.integers(-128, 127)),
    "whole": st.one_of(st.sampled_from(made_tables.WHOLE), st.integers(-(2**63), 2**63 - 1)),
    "real": st.one_of(st.none(), st.floats()),
    "price": st.one_of(st.none(), st.decimals(-10_000, 10_000, places=2, allow_nan=False)),
    "flag": st.sampled_from(made_tables.FLAG),
}
ROWS = st.lists(st.fixed_dictionaries({UNIT: st.sampled_from([None, "a", "b", "c"]), **VALUES}), max_size=25)
OF_ONE = st.lists(st.fixed_dictionaries({UNIT: st.just("x"), **VALUES}), max_size=25)


@pytest.fixture(scope="module")
def compiled():
    """For bounds: a function from rows to the answer on DuckDB. Queries are compiled once, that takes longest."""
    connection = duckdb.connect()
    connection.register("incoming", made_tables.SCHEMA.empty_table())
    connection.execute("CREATE TABLE people AS FROM incoming").fetchall()
    connection.unregister("incoming")
    dataset = Dataset(connection, UNIT, table="people")
    measures = made_tables.made_measures(dataset)

    @functools.cache
    def query(limits, salt):
        query = dataset.group_by("town", "number", **dict(limits))
        compiled = compile_query(exact_sums(query, measures, salt))
        return query, compiled.sql, compiled.schema

    def answer(bounds, rows):
        asked, text, schema = query(*bounds)
        table = made_tables.table_of([row | {ROW: i} for i, row in enumerate(rows)])
        connection.register("incoming", table)
        connection.execute("DELETE FROM people; INSERT INTO people FROM incoming").fetchall()
        connection.unregister("incoming")
        return numbers_by_key(asked, measures, connection.sql(text).to_arrow_table().cast(schema))

    return answer, lambda bounds: query(*bounds)[0].groups, measures


@settings(max_examples=25)
@given(
    others=ROWS,
    mine=OF_ONE,
    instead=OF_ONE,
    bounds=st.sampled_from(
        [(tuple(limits.items()), salt) for limits, salt in zip(LIMITS, (3, 2**61 + 5, 0, 99, 7), strict=True)]
    ),
)
def test_no_table_breaks_the_claim(compiled, others, mine, instead, bounds):
    answer, groups, measures = compiled
    less, whole, other = (answer(bounds, rows) for rows in (others, others + mine, others + instead))
    assert beyond_part(whole, less, groups(bounds), measures, "add_remove") == []
    assert beyond_part(whole, other, groups(bounds), measures, "change_one") == []


def test_the_claim_is_tight():
    """The check has power: a step too many, in one group or in all together, or a group too many is seen."""
    k = plain_tables.STEPS
    grid = ValueGrid("integer", 1, -5, 10)
    measures = [Units(), Rows(), Values("v"), ClippedSum("v", grid), Bins("v", (0, 1, 2))]
    box = Groups(("g",), max_groups=2, max_rows_per_group=3)
    most = {("a",): [[1], [k], [k], [k], [k, 0]], ("b",): [[1], [k], [k], [-k // 2], [k // 4, k // 2]]}
    assert beyond_part({}, most, box, measures, "add_remove") == []
    assert beyond_part(most, {}, box, measures, "change_one") == []
    in_all = Groups(("g",), max_rows=3, max_groups=2)
    assert beyond_part({}, most, in_all, measures, "add_remove") != []
    most = {("a",): [[1], [k - 1], [k], [k // 2], [k // 2, 0]], ("b",): [[1], [1], [0], [-k // 2], [0, k // 2]]}
    assert beyond_part({}, most, in_all, measures, "add_remove") == []
    wrong = {
        "a unit too many": {("a",): [[2], [0], [0], [0], [0, 0]]},
        "a step too many": {("a",): [[1], [k + 1], [0], [0], [0, 0]]},
        "a value too many": {("a",): [[1], [0], [k + 1], [0], [0, 0]]},
        "a step too far": {("a",): [[1], [0], [0], [-k - 1], [0, 0]]},
        "bins together": {("a",): [[1], [0], [0], [0], [k // 2 + 1, k // 2]]},
        "a group too many": {(g,): [[1], [0], [0], [0], [0, 0]] for g in "abc"},
    }
    for name, answer in wrong.items():
        for groups in (box, in_all):
            assert beyond_part({}, answer, groups, measures, "add_remove") != [], name


def test_the_steps_of_a_unit_are_used_up():
    """A unit at its limit or beyond it adds K steps, but for less than one for each of its rows."""
    for size in (2, 3, 7, 1000):
        table = pa.table({UNIT: ["x"] * size, "g": [i % 3 for i in range(size)], "v": [5.0] * size})
        dataset = Dataset(table, UNIT)
        query = dataset.group_by("g", max_rows=2, public_keys=[0, 1, 2])
        measures = [
            Rows(),
            made_tables.limited_sum(dataset, "v", 10),
            ClippedSum("v", grid_of("v", dataset.type_of("column", "v"), (0, 5))),
        ]
        for added in zip(*steps(query, measures).values(), strict=True):
            total = sum(number for [number] in added)
            assert plain_tables.STEPS - size <= total <= plain_tables.STEPS


def test_the_reference_keeps_the_claim():
    """The description, with any order of groups, keeps the limits: the claim is about the description too."""
    rng = made_tables.same_every_time(11)
    measures = [Units(), Rows(), ClippedSum("whole", ValueGrid("integer", 1, -1000, 1000))]
    for given_limits in LIMITS:
        for _ in range(6):
            rows, seed = crowd(rng), rng.random()

            def choose(found, seed=seed):
                return made_tables.same_every_time(seed).sample(sorted(found, key=str), len(found))

            by = ("town", "number")
            answers = [
                plain_tables.weighted_sums(r, UNIT, by, plain_tables.Limits(**given_limits), measures, choose)
                for r in (rows, without(rows, "p0"))
            ]
            assert beyond_part(*answers, Groups(by, **given_limits), measures, "add_remove") == []
