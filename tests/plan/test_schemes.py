"""Schemes: what is put together is what was asked for, the best is found, and one person's part in it stays hidden."""

import itertools
import random
from fractions import Fraction

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import leakage
import plain_tables
from osgt import Dataset
from osgt.noise import scaled
from osgt.plan.schemes import Alternatives, RoughCost, Scheme
from osgt.query.groups import Groups
from osgt.query.measures import (
    Centred,
    CentredOnAll,
    CentredSum,
    ClippedSum,
    Measure,
    Rows,
    Squares,
    Units,
    UnitsInAny,
    Values,
)
from osgt.query.values import ValueGrid
from spies import people

MANY = [str(i) for i in range(1000)]


def grid(low, high):
    return ValueGrid("integer", Fraction(1), low, high)


def plain(measure: Measure, groups):
    """A measure of each group as it is asked for, from its rows, in plain Python."""
    return np.array([plain_tables.numbers(measure, rows, "unit") for rows in groups])


def measured(measure: Measure, groups, everyone, max_rows):
    """A measure of each group in steps, from rows of units that keep to their limit, in plain Python."""
    if isinstance(measure, UnitsInAny):
        return np.array([[everyone]])
    if isinstance(measure, CentredOnAll):
        return measure.times * plain(measure.base, groups) - measure.by * everyone
    if measure.per_unit:
        return plain(measure, groups)
    return np.array([in_steps(measure, rows, max_rows) for rows in groups])


def in_steps(measure: Measure, rows, max_rows):
    """What rows of a group, each of a unit with so many rows, add to a measure."""
    worth, each = plain_tables.STEPS // max_rows, [plain_tables.numbers(measure, [row], "unit") for row in rows]
    numbers = [[plain_tables.toward_zero(worth * number, measure.largest) for number in one] for one in each]
    return np.sum(numbers, axis=0, dtype=np.int64) if numbers else [0] * measure.numbers


def made_groups(rng, number, max_rows):
    """Groups of rows, of some units with up to so many rows in each; some values are missing."""
    groups = [
        [
            {"unit": unit, "x": rng.choice([None, 5, 7, 10]), "y": rng.randint(-3, 4)}
            for unit in range(6)
            if rng.random() < 0.6
            for _ in range(rng.randint(1, max_rows))
        ]
        for _ in range(number)
    ]
    return groups, len({row["unit"] for rows in groups for row in rows})


ASKED = (
    Units(),
    Rows(),
    Values("x"),
    ClippedSum("x", grid(5, 10)),
    ClippedSum("y", grid(-3, 4)),
    CentredSum("x", grid(5, 10)),
    Squares("x", grid(5, 10)),
)


class TestCombinations:
    @pytest.mark.parametrize("max_rows", [1, 2, 3])
    @pytest.mark.parametrize("public", [4, None])
    def test_they_give_back_what_was_asked_for(self, public, max_rows):
        """Every way to measure every number, from plain rows and without noise: what was asked for, but for steps."""
        rng = random.Random(7)
        keys = None if public is None else pa.table({"g": [str(i) for i in range(public)]})
        groups = Groups(("g",), keys, max_groups=3, max_rows_per_group=max_rows)
        alternatives = Alternatives(ASKED, groups, "add_remove")
        numbers = [n for n in (*ASKED, Rows(), Units()) if len(alternatives.options(n)) > 1]
        rows, everyone = made_groups(rng, 4, max_rows)
        seen = set()
        for _ in range(150):
            scheme = alternatives._scheme({n: rng.choice(alternatives.options(n)) for n in numbers})
            seen |= {type(measure) for measure in scheme.measured}
            exact = {measure: measured(measure, rows, everyone, max_rows) for measure in scheme.measured}
            for asked, quotient in scheme.values(exact).items():
                found, expected = quotient.values / quotient.of, plain(asked, rows)
                assert found == pytest.approx(expected, rel=1e-6, abs=1e-6), (asked.words, scheme.in_words())
        assert Centred in seen
        assert (CentredOnAll in seen) == (public is not None)

    def test_columns_without_nulls_need_no_count_of_values(self):
        groups = Groups(("g",), max_groups=3, max_rows_per_group=2)
        for scheme in Alternatives(ASKED, groups, "add_remove", frozenset({"x"})).ranked(lambda s: len(s.measured)):
            assert scheme.combined[Values("x")] == scheme.combined[Rows()]
            assert Values("x") not in scheme.measured

    def test_numbers_beyond_64_bits_are_cut_off(self):
        scheme = Scheme({Rows(): {Rows(): Fraction(1), Units(): Fraction(2**40)}})
        huge = {Rows(): np.array([[5]]), Units(): np.array([[2**40]])}
        assert scheme.values(huge)[Rows()][0].tolist() == [[2**62]]


class TestBest:
    @pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-8), (1.0, 0.0)])
    def test_the_best_of_all(self, epsilon, delta):
        """By going through all of them; the direct one is among them."""
        query = people().group_by("city", max_groups=4, max_rows_per_group=3, public_keys=MANY)
        planning = query.count().sum("rides", (0, 9)).planning()
        cost = RoughCost(planning.groups, "add_remove", planning.errors).at(epsilon, delta)
        ranked = planning.alternatives.ranked(cost)
        costs = [cost(scheme) for scheme in ranked]
        assert costs == pytest.approx(sorted(costs), rel=1e-5)
        assert costs[0] <= cost(planning.alternatives.directly())
        options = planning.alternatives
        every = itertools.product(*(options.options(n) for n in (Rows(), ClippedSum("rides", grid(0, 9)), Units())))
        names = Rows(), ClippedSum("rides", grid(0, 9)), Units()
        least = min(cost(options._scheme(dict(zip(names, each, strict=True)))) for each in every)
        assert costs[0] <= least * (1 + 1e-9)

    def test_many_columns_are_searched_in_a_moment(self):
        query = people().group_by("city", max_groups=4, max_rows_per_group=3, public_keys=[str(i) for i in range(12)])
        for i in range(6):
            query = query.sum("rides", (0, 9 + i), name=f"s{i}").mean("rides", (0, 9 + i), name=f"m{i}")
        planning = query.count().count_units().planning()
        cost = RoughCost(planning.groups, "add_remove", planning.errors).at(1.0, 1e-6)
        ranked = planning.alternatives.ranked(cost)
        assert len(ranked) < 20_000
        assert cost(ranked[0]) < 0.5 * cost(planning.alternatives.directly())


def data_set(nullable=True):
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE t (unit BIGINT, g BIGINT, x BIGINT {'' if nullable else 'NOT NULL'})")
    return Dataset(connection, "unit", table="t")


class TestMustShow:
    """Standard deviations at equal (ε, δ), in the variance objective: what measuring once saves."""

    def stds(self, query, delta=1e-8):
        plan = query.plan(1, delta, objective="variance", measure_left_out=False)
        return {column.name: column.std for column in plan.columns}

    def query(self, *, nullable=True):
        return data_set(nullable).group_by("g", max_groups=8, max_rows_per_group=3, public_keys=list(range(1000)))

    def test_count_and_sum(self):
        """Measured apart: 59.07 and 295,354."""
        found = self.stds(self.query().count().sum("x", (0, 5000)))
        assert found["count"] <= 59.3
        assert found["x_sum"] <= 209_500

    def test_count_sum_and_mean(self):
        """Measured apart: 85.85 and 429,247."""
        assert self.stds(self.query().count().sum("x", (0, 5000)).mean("x", (0, 5000)))["x_sum"] <= 227_000
        found = self.stds(self.query(nullable=False).count().sum("x", (0, 5000)).mean("x", (0, 5000)))
        assert found["x_sum"] <= 209_500
        assert found["count"] <= 59.3

    def test_few_public_groups(self):
        """Measured apart: a variance of 202."""
        keys = list(range(12))
        query = data_set().group_by("g", max_groups=12, max_rows_per_group=1, public_keys=keys).count()
        assert self.stds(query, 1e-6)["count"] ** 2 <= 84

    def test_threshold(self):
        """A tenth of δ is set aside for the choice of groups: at 1e-10 for each of ten, noise of 14.04 is below 173."""
        query = data_set().group_by("g", max_groups=10, max_rows_per_group=1).count()
        assert query.plan(1, 1e-8, objective="variance", measure_left_out=False).threshold <= 174


def nobody(**options):
    """A table without rows."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t (unit BIGINT, city VARCHAR, rides BIGINT, small BIGINT)")
    return Dataset(connection, "unit", table="t", **options)


def random_query(rng, neighbours):
    max_groups, max_rows = rng.randint(1, 6), rng.randint(1, 3)
    keys = [str(i) for i in range(max_groups + rng.choice([0, 0, 2, 20]))]
    query = nobody(neighbours=neighbours).group_by(
        "city", max_groups=max_groups, max_rows_per_group=max_rows, public_keys=rng.choice([keys, keys, None])
    )
    low = rng.choice([0, 0, -4, 3])
    ways = [
        lambda q: q.count(),
        lambda q: q.count_units(),
        lambda q: q.sum("rides", (low, 6)),
        lambda q: q.mean("rides", (low, 6)),
        lambda q: q.sum("small", (-2, 5)),
        lambda q: q.variance("small", (0, 3)),
        lambda q: q.histogram("rides", [0, 3, 6]),
    ]
    for ask in rng.sample(ways, rng.randint(1, 3)):
        query = ask(query)
    return query


def vertices(rng, plan, number):
    """The rows of one unit in up to max_groups groups: few or too many, values at the ends, between or missing."""
    values, limit = [None, *range(-9, 10, 3)], plan.groups.max_rows_per_group
    for i in range(number):
        size = plan.groups.max_groups_per_unit if i % 3 else rng.randint(1, plan.groups.max_groups_per_unit)
        fixed = {"rides": rng.choice(values), "small": rng.choice(values)}
        yield [
            [
                fixed if i % 2 else {"rides": rng.choice(values), "small": rng.choice(values)}
                for _ in range(limit if i % 4 else rng.randint(1, 3 * limit))
            ]
            for _ in range(size)
        ]


def moved_by(plan, unit, known):
    """For each measured number the changes in the groups that a unit is in, and in the public ones that it is not."""
    rows = [[row | {"unit": 1} for row in group] for group in unit]
    found = {}
    for measure in plan.parts:
        if isinstance(measure, UnitsInAny):
            found[measure] = [[1]]
        elif isinstance(measure, CentredOnAll):
            inside = [
                measure.times * plain_tables.numbers(measure.base, group, "unit")[0] - measure.by for group in rows
            ]
            found[measure] = [[n] for n in inside] + [[-measure.by]] * (known - len(rows))
        else:
            found[measure] = [_moved(plan.groups, measure, group) for group in rows]
    return found


def _moved(groups, measure, rows):
    """What the rows of a unit in a group add to a measure."""
    if not groups.is_weighted(measure):
        return plain_tables.numbers(measure, rows, "unit")
    return in_steps(measure, rows, max(groups.max_rows_per_group, len(rows)))


def delta_of(changes, epsilon):
    """δ(ε) of moving numbers with independent noise: [(law, shift), …]. A lower bound, near to the exact one."""
    return leakage.of_moves(changes).delta(epsilon)


class TestPrivacy:
    """Not our accounting: losses of what one unit can really do, convolved here, for queries made at random."""

    @pytest.mark.parametrize(
        "seed", [*range(12), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(12, 36))]
    )
    def test_no_unit_moves_the_release_beyond_its_budget(self, seed):
        rng = random.Random(seed)
        neighbours = "change_one" if seed % 4 == 3 else "add_remove"
        epsilon, delta = rng.choice([0.7, 2.0]), 1e-4
        plan = random_query(rng, neighbours).plan(epsilon, delta, objective=rng.choice(["variance", "interval"]))
        known = plan.groups.public_group_count or 0
        for unit in vertices(rng, plan, 8):
            moved = moved_by(plan, unit, known)
            if neighbours == "change_one":
                # Another one comes instead: into the same groups, in the same order.
                for other in vertices(rng, plan, 2):
                    both = moved_by(plan, other, known)
                    self.check(plan, {m: self.exchanged(moved[m], both[m]) for m in moved})
            else:
                self.check(plan, moved)

    @staticmethod
    def exchanged(one, other):
        width = len((one or other)[0])
        pairs = itertools.zip_longest(one, other, fillvalue=[0] * width)
        return [[b - a for a, b in zip(x, y, strict=True)] for x, y in pairs]

    @staticmethod
    def check(plan, moved):
        changes = [
            (plan.laws[measure], abs(number)) for measure, each in moved.items() for group in each for number in group
        ]
        if any(shift for _, shift in changes):
            found = delta_of(changes, plan.epsilon)
            assert found <= plan.delta * (1 + 1e-6), plan.noise.scheme.in_words()
            return found
        return 0.0

    @pytest.mark.parametrize("max_rows", [1, 3])
    def test_the_check_has_power(self, max_rows):
        """The worst that a unit can do takes nearly all of δ, and noise that is 5 % smaller is found out."""
        keys = [str(i) for i in range(8)]
        query = people().group_by("city", max_groups=8, max_rows_per_group=max_rows, public_keys=keys)
        plan = query.count_units().count().sum("rides", (0, 6)).plan(1, 1e-4, measure_left_out=False)
        worst = [[{"rides": 6, "small": 0}] * max_rows] * 8
        moved = moved_by(plan, worst, 8)
        assert self.check(plan, moved) >= 0.5 * plan.delta
        smaller = [
            (scaled(law, 0.95), abs(n)) for measure, law in plan.laws.items() for group in moved[measure] for n in group
        ]
        assert delta_of(smaller, plan.epsilon) > plan.delta


class TestReleases:
    """At an ε so large that there is no noise to speak of, the release has the exact numbers, however measured."""

    ROWS = pa.table(
        {
            "unit": [1, 1, 1, 2, 2, 3, 3, 4, 5, 5],
            "city": ["a", "a", "b", "a", "c", "b", "b", "c", "a", "x"],
            "x": pa.array([5, 7, None, 10, 6, 9, 30, None, 8, 8], pa.int64()),
        }
    )

    @pytest.mark.parametrize("max_groups", [3, 4])
    @pytest.mark.parametrize("keys", [["a", "b", "c", "d"], None])
    def test_exact_numbers(self, keys, max_groups):
        query = Dataset(self.ROWS, "unit").group_by(
            "city", max_groups=max_groups, max_rows_per_group=2, public_keys=keys
        )
        query = query.count().count_units().sum("x", (5, 10)).mean("x", (5, 10))
        release = query.release(50_000, 1e-6, objective="variance")
        found = {row["city"]: row for row in release.to_arrow().to_pylist()}
        exact = {"a": (4, 3, 30, 7.5), "b": (3, 2, 19, 9.5), "c": (2, 2, 6, 6.0)}
        for city, (count, units, total, mean) in exact.items():
            row = found[city]
            assert (row["count"], row["count_units"], row["x_sum"]) == (count, units, total), release.plan
            # Rows are worth steps: noise is some thousandths of a value, and far beyond that with chance below 1e-20.
            assert row["x_mean"] == pytest.approx(mean, abs=0.05)
            assert row["x_sum_low"] <= total <= row["x_sum_high"]
        if keys:
            assert (found["d"]["count"], found["d"]["x_sum"]) == (0, 0)
        else:
            assert "x" not in found  # one unit alone

    def test_few_public_groups_are_centred_on_the_units_in_any_of_them(self):
        query = Dataset(self.ROWS, "unit").group_by(
            "city", max_groups=4, max_rows_per_group=2, public_keys=list("abcd")
        )
        plan = query.count_units().plan(1, 1e-6)
        assert any(isinstance(measure, CentredOnAll) for measure in plan.parts)
        assert plan.charge.delta(1.0) <= 1e-6
        table = query.count_units().release(1, 1e-6).to_arrow()
        assert table.num_rows == 4
        columns = (table[name].to_pylist() for name in ("count_units_low", "count_units", "count_units_high"))
        assert all(low <= n <= high for low, n, high in zip(*columns, strict=True))
