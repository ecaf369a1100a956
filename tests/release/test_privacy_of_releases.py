"""The promise of whole releases, by an independent convolution: what one unit changes, for random queries and tables.

The exact numbers of a table with and without a unit (or with another in its place) come from the engine, the noise from
the plan; `leakage` makes δ of both. A unit does its worst: it is in all groups or in one, with values at the ends of
their bounds, heavy or light.
"""

import random
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import pyarrow as pa
import pytest

import leakage
from engines import ROW, UNIT
from osgt import Publication
from osgt.limits import contribution
from osgt.noise import on_integers, scaled
from osgt.privacy import Charge
from osgt.privacy.filters.budget import Partition
from osgt.release import measuring
from osgt.release.measuring import exact_numbers, prepare
from stands import STANDS

EPSILON, DELTA = 1.0, 1e-2
TOWNS, MONTHS = ["a", "b", "c", "d"], [1, 2, 3]
SCHEMA = pa.schema(
    [(UNIT, pa.string()), ("town", pa.string()), ("month", pa.int64()), ("fare", pa.float64()), (ROW, pa.int64())]
)


def made_rows(rng, units=8):
    rows = []
    for person in range(units):
        for _ in range(rng.choice([1, 2, 9])):
            rows.append(
                (
                    f"p{person}",
                    rng.choice([*TOWNS, "e", None]),
                    rng.choice(MONTHS),
                    rng.choice([None, -40.0, 0.5, 7.25, 90.0]),
                )
            )
    return rows


def adversary(rng):
    """A unit in one group, in all of them, or in many that nobody else is in; with few rows or with many."""
    kind = rng.choice(["one", "all", "new", "light", "values"])
    fare = rng.choice([1e9, -1e9, -20.0, 3.1])
    number = 1 if kind == "light" else rng.choice([3, 7, 60])
    if kind in ("one", "light"):
        return [("x", "a", 1, fare)] * number
    if kind == "new":
        return [("x", f"new {i % 30}", 2, fare * rng.choice([1, -1])) for i in range(number)]
    if kind == "values":
        return [("x", TOWNS[i % 4], 1, fare + i) for i in range(number)]
    return [("x", town, month, fare) for town in [*TOWNS, "z"] for month in MONTHS for _ in range(number // 3)]


def made_limits(rng):
    return rng.choice(
        [
            {"max_rows": rng.choice([1, 3, 10])},
            {"max_rows": 4, "max_groups": 2},
            {"max_groups": rng.choice([1, 3]), "max_rows_per_group": rng.choice([1, 2, 5])},
        ]
    )


def made_table(rng, data):
    """A random query of one table."""
    by = rng.choice([(), ("town",), ("town", "month")])
    limits = made_limits(rng)
    if not by:
        limits = {"max_rows": 3}
    public = bool(by) and rng.random() < 0.6
    given = {"town": TOWNS, "month": MONTHS}
    keys = {"public_keys": {name: given[name] for name in by}} if public else {}
    totals = {"totals": rng.choice(["rollup", "cube", [()]])} if public and rng.random() < 0.5 else {}
    query = data.group_by(*by, **limits, **keys, **totals).count()
    more = rng.sample(["units", "total", "sum", "mean", "median", "bins", "distinct"], 2)
    if "distinct" in more and not totals:
        query = query.count_distinct("fare", rng.choice([1, 2, 5]))
    if "units" in more and (not by or "max_groups" in limits):
        query = query.count_units()
    if "total" in more:
        query = query.sum("fare", max_total=rng.choice([10, 500]))
    if "sum" in more:
        query = query.sum("fare", bounds=rng.choice([(-5, 50), (0, 100)]), name="clipped")
    if "mean" in more:
        query = query.mean("fare", bounds=(-10, 60))
    if "median" in more and public:
        query = query.median("fare", bounds=(-16, 48), bins=8)
    if "bins" in more:
        query = query.histogram("fare", edges=[-50, 0, 5, 100])
    return query


def made_query(seed, data):
    rng = random.Random(seed)
    if seed % 5:
        return made_table(rng, data)
    return Publication(first=made_table(rng, data), second=made_table(rng, data))


def exact(put, rows, asked, salt, neighbours):
    """The plans of a query, and the exact numbers of each block of it."""
    table = pa.Table.from_pylist(
        [dict(zip(SCHEMA.names, (*row, i), strict=True)) for i, row in enumerate(rows)], schema=SCHEMA
    )
    data = put(table)
    data.neighbours = neighbours
    query = asked(data)
    plan = query.plan(EPSILON, DELTA)
    blocks = zip(query.computed, plan.blocks, strict=True)
    return plan, [exact_numbers(block, own, prepare(block, own, salt)) for block, own in blocks]


def problems(put, seed, change=lambda plan: plan):
    """What breaks the promise in one random case, in words."""
    rng = random.Random(f"tables {seed}")
    neighbours = rng.choice(["add_remove", "change_one"])
    others, mine = made_rows(rng), adversary(rng)
    instead = adversary(rng) if neighbours == "change_one" else []
    tables = [others + mine, others + instead]
    return problems_between(put, tables, lambda data: made_query(seed, data), seed, neighbours, change)


def problems_between(put, tables, asked, salt, neighbours, change=lambda plan: plan):
    """What breaks the promise of a query on two tables, in words."""
    answers = [exact(put, rows, asked, salt, neighbours) for rows in tables]
    plan = answers[0][0]
    plans, one, other = change(plan).blocks, answers[0][1], answers[1][1]
    wrong = leakage.too_far(plans, one, other, neighbours)
    for first, second in ((one, other), (other, one)):
        for epsilon in (EPSILON, EPSILON / 2):
            told = plan.delta if epsilon == EPSILON else plan.charge.delta(epsilon)
            delta = leakage.delta(plans, first, second, epsilon)
            if delta > told * (1 + 1e-6):
                wrong.append(f"δ({epsilon}) = {delta:.3e}, where {told:.3e} is promised")
    return wrong


@pytest.mark.parametrize("seed", range(60))
def test_random_queries(engine_of, seed):
    assert problems(engine_of("duckdb").put, seed) == []


@pytest.mark.parametrize("name", [name for name in STANDS if name != "duckdb"])
def test_random_queries_elsewhere(engine_of, name):
    for seed in range(4):
        assert problems(engine_of(name).put, seed) == [], seed


@pytest.mark.long
@pytest.mark.parametrize("name", STANDS)
def test_more_random_queries(engine_of, name):
    for seed in range(100, 400 if name == "duckdb" else 160):
        assert problems(engine_of(name).put, seed) == [], seed


# Power: each of these must be seen in one of the first cases.


@contextmanager
def rounded_up():
    """Rows that are worth ⌈K/N⌉."""

    def quotient(numerator, denominator):
        return numerator.engine.quotient(numerator + denominator - 1, denominator)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contribution, "quotient", quotient)
        yield


@contextmanager
def heavy_units_overlooked():
    """Rows of a unit with more rows than its limit are worth as much as those of others."""
    totals = contribution.unit_totals

    def unit_totals(groups, measures, values):
        return {
            name: (lambda rows, over, m=limit: rows.count().over(over) * 0 + m, limit)
            for name, (_, limit) in totals(groups, measures, values).items()
        }

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measuring, "unit_totals", unit_totals)
        yield


@contextmanager
def negative_values_rounded_down():
    """What a row takes away is rounded away from 0."""
    steps = contribution._steps

    def rounded(measure, number, ranked, groups, values):
        found = steps(measure, number, ranked, groups, values)
        return (number < 0).then(found - 1, found) if groups.is_weighted(measure) else found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contribution, "_steps", rounded)
        yield


@contextmanager
def one_pair_more():
    """A unit counts with a pair of group and value more than its limit."""
    with_pairs = contribution.with_pairs

    def with_more(rows, keys, counts, values, **options):
        more = {replace(measure, limit=measure.limit + 1): value for measure, value in values.items()}
        table, pairs = with_pairs(rows, keys, counts, more, **options | {"cut_off": set(more)})
        return table, {replace(measure, limit=measure.limit - 1): found for measure, found in pairs.items()}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contribution, "with_pairs", with_more)
        yield


@contextmanager
def nothing_wrong():
    yield


def with_half_the_noise(plan):
    """The plan with noise that is half as large."""

    def halved(noise):
        return replace(noise, laws={measure: on_integers(scaled(law, 0.5)) for measure, law in noise.laws.items()})

    return SimpleNamespace(blocks=[replace(block, noise=halved(block.noise)) for block in plan.blocks])


@pytest.mark.parametrize(
    ("mutant", "change"),
    [
        (rounded_up, lambda plan: plan),
        (heavy_units_overlooked, lambda plan: plan),
        (negative_values_rounded_down, lambda plan: plan),
        (nothing_wrong, with_half_the_noise),
    ],
)
def test_mutants_are_seen(engine_of, mutant, change):
    with mutant():
        assert any(problems(engine_of("duckdb").put, seed, change) for seed in range(12))


@pytest.mark.parametrize("neighbours", ["add_remove", "change_one"])
@pytest.mark.parametrize("limits", [{"public_keys": TOWNS}, {"max_rows": 3}, {"max_groups": 2}], ids=str)
def test_a_unit_with_many_values(engine_of, neighbours, limits):
    """It moves the numbers of different values by its limit, and would be seen if it counted with one pair more."""
    rng = random.Random(7)
    others = made_rows(rng)
    mine, instead = ([("x", town, 1, 1000.0 + i) for i in range(20) for town in own] for own in (TOWNS[:2], TOWNS[2:]))
    tables = [others + mine, others + (instead if neighbours == "change_one" else [])]

    def found(limit):
        return problems_between(
            engine_of("duckdb").put,
            tables,
            lambda data: data.group_by("town", **limits).count_distinct("fare", limit),
            3,
            neighbours,
        )

    assert [found(limit) for limit in (1, 3, 10)] == [[], [], []]
    with one_pair_more():
        assert all(found(limit) for limit in (1, 3, 10))


# Known totals and parts of the people


def with_known_totals(seed, data):
    """A query whose totals are public: the same whatever the unit does."""
    rng = random.Random(f"known {seed}")
    known = rng.choice(
        [{(): 90}, {("town",): {town: 20 + i for i, town in enumerate(TOWNS)}}, {("month",): dict.fromkeys(MONTHS, 30)}]
    )
    keys = {"town": TOWNS, "month": MONTHS}
    query = data.group_by("town", "month", public_keys=keys, totals=known, **made_limits(rng)).count()
    return query.mean("fare", bounds=(-10, 60)) if seed % 2 else query


@pytest.mark.parametrize("change", [lambda plan: plan, with_half_the_noise], ids=["planned", "half the noise"])
def test_known_totals(engine_of, change):
    """They cost nothing: what is measured beside them keeps the promise, and with half the noise would not."""
    put, found = engine_of("duckdb").put, []
    for seed in range(12):
        rng = random.Random(f"known totals {seed}")
        neighbours = rng.choice(["add_remove", "change_one"])
        others, mine = made_rows(rng), adversary(rng)
        tables = [others + mine, others + (adversary(rng) if neighbours == "change_one" else [])]
        found += problems_between(
            put, tables, lambda data, s=seed: with_known_totals(s, data), seed, neighbours, change
        )
    assert bool(found) == (change is with_half_the_noise)


def losses_in_parts(put, seed, most, neighbours, change=lambda plan: plan):
    """δ of releases about all parts together, in the worse direction, and the charge of the largest."""
    rng = random.Random(f"parts {seed}")
    parts = {f"m{month}": f"month = {month}" for month in MONTHS}
    limits = made_limits(rng)
    towns = TOWNS if "max_groups" in limits else TOWNS[:1]
    others = made_rows(rng)
    mine = [("x", town, month, 1e9) for month in MONTHS for town in towns] * 10
    instead = [("y", town, month, -1e9) for month in MONTHS[1:] for town in towns] * 10
    tables = [others + mine, others + (instead if neighbours == "change_one" else [])]

    def asked(data, part):
        query = data.parts(parts, max_parts=most)[part].group_by("town", public_keys=TOWNS, **limits).count()
        return query.mean("fare", bounds=(-10, 60))

    plans, exacts = [], ([], [])
    for part in parts:
        for i, rows in enumerate(tables):
            plan, blocks = exact(put, rows, lambda data, p=part: asked(data, p), seed, neighbours)
            exacts[i].extend(blocks)
        plans += change(plan).blocks
    lost = max(leakage.delta(plans, one, other, EPSILON) for one, other in (exacts, exacts[::-1]))
    return lost, plan.charge


@pytest.mark.parametrize(("most", "neighbours"), [(1, "add_remove"), (2, "add_remove"), (1, "change_one")])
def test_parts_together(engine_of, most, neighbours):
    """A unit in all parts loses no more than in those in which it counts."""
    together = Partition((("", ""),) * len(MONTHS), most, neighbours).together
    put = engine_of("duckdb").put
    results = [losses_in_parts(put, seed, most, neighbours) for seed in range(6)]
    assert all(lost <= Charge.compose([one] * together).delta(EPSILON) * (1 + 1e-6) for lost, one in results)
    # Power: it would be seen if noise was half as large, and if a unit counted in one part more.
    results = [losses_in_parts(put, seed, most, neighbours, with_half_the_noise) for seed in range(3)]
    assert any(lost > Charge.compose([one] * together).delta(EPSILON) for lost, one in results)
    if neighbours == "add_remove":
        results = [losses_in_parts(put, seed, most + 1, neighbours) for seed in range(6)]
        assert any(lost > Charge.compose([one] * together).delta(EPSILON) for lost, one in results)
