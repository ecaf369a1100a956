"""Totals: numbers that add up, with the noise and the intervals that least squares leave, within the budget."""

import itertools
import math
import random
import re

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import plain_tables
from leakage import of_moves
from osgt import Dataset
from osgt.estimation.rounding import nonnegative, rounded_together
from osgt.noise import on_integers, scaled
from osgt.plan.agreement import SharedNumbers
from osgt.query.groups import OTHER, SUMMED_OVER, Total, UnitsAt
from osgt.query.levels import levels_of
from osgt.query.measures import CentredOnAll, Rows, Units, UnitsInAny
from spies import people

CITIES, MONTHS = ["Bern", "Oslo", "Rome"], list(range(1, 5))
PRODUCT = {"city": CITIES, "month": MONTHS}

#: A tree in which groups have different numbers of others in them.
BUSHY = [("Bern", 1), ("Oslo", 2), ("Bern", 3), ("Rome", 1), ("Rome", 2), ("Rome", 4), ("Rome", 7), ("Bern", 9)]


def asked(totals="rollup", keys=PRODUCT, max_groups=2, max_rows=2, **options):
    return people(**options).group_by(
        "city", "month", max_groups=max_groups, max_rows_per_group=max_rows, public_keys=keys, totals=totals
    )


def noisy_rows(plan, exact=0):
    """What a release of groups that all have the same exact numbers would show, for each level."""
    measured = {}
    for measure, law in plan.laws.items():
        numbers = np.full((plan.groups.public.num_rows, measure.numbers), int(exact / plan.groups.step(measure)))
        if isinstance(measure, Total):
            numbers = measure.level.summed(numbers)
        elif isinstance(measure, CentredOnAll):
            numbers = measure.times * numbers  # as if there were no units: they are taken away and added again
        elif isinstance(measure, UnitsInAny):
            numbers = np.zeros((1, 1), np.int64)
        measured[measure] = numbers + law.sample(numbers.shape)
    return plan.levels.rows(SharedNumbers(plan.levels.shared, (measured,), nonnegative=False), plan.confidence)


class TestLevels:
    def found(self, totals, by=("a", "b", "c"), rows=None):
        public = pa.table({name: [1, 2] for name in by}) if rows is None else rows
        return [level.by for level in levels_of(totals, by, public)]

    def test_rollup_cube_and_lists(self):
        product = pa.table(list(zip(*itertools.product([1, 2], repeat=3), strict=True)), names=["a", "b", "c"])
        assert self.found("rollup") == [("a", "b"), ("a",), ()]
        assert self.found("cube", rows=product) == [("a", "b"), ("a", "c"), ("b", "c"), ("a",), ("b",), ("c",), ()]
        assert self.found([(), ("b",), ["c", "b"]], rows=product) == [("b", "c"), ("b",), ()]
        assert self.found(["a", ()]) == [("a",), ()]
        assert self.found(None) == []

    def test_weights(self):
        levels = levels_of([{"by": [], "weight": 4}, {"by": ["a"]}], ("a", "b"), pa.table({"a": [1], "b": [2]}))
        assert [(level.by, level.weight) for level in levels] == [(("a",), 1.0), ((), 4.0)]

    def test_groups_of_a_level_come_in_the_order_of_the_keys(self):
        [level] = levels_of([("city",)], ("city", "month"), pa.table(list(zip(*BUSHY, strict=True)), ["city", "month"]))
        assert level.keys["city"].to_pylist() == ["Bern", "Oslo", "Rome"]
        assert level.places.tolist() == [0, 1, 0, 2, 2, 2, 2, 0]

    def test_a_missing_key_is_a_key(self):
        [level] = levels_of([("a",)], ("a", "b"), pa.table({"a": ["x", None, "x", None], "b": [1, 2, 3, 4]}))
        assert level.keys["a"].to_pylist() == ["x", None]
        assert level.places.tolist() == [0, 1, 0, 1]

    @pytest.mark.parametrize(
        ("totals", "words"),
        [
            ("all", 'must be "rollup"'),
            (7, 'must be "rollup"'),
            ({"by": []}, 'must be "rollup"'),
            ([7], 'must be "rollup"'),
            ([{"columns": []}], 'must be "rollup"'),
            ([("d",)], "'d' is not among the columns to group by, a, b, c"),
            ([("a", "b", "c")], "are all the keys"),
            ([("a",), ("a",)], "each level once"),
            ([("a",), ("b",)], "every combination"),
            ([{"by": [], "weight": 0}], "weight must be"),
        ],
    )
    def test_what_is_refused(self, totals, words):
        with pytest.raises((TypeError, ValueError), match=words):
            self.found(totals)

    def test_private_keys_have_one_total(self):
        assert [level.by for level in levels_of([()], ("a",), None)] == [()]
        with pytest.raises(ValueError, match="public_keys"):
            levels_of("rollup", ("a", "b"), None)
        with pytest.raises(ValueError, match="no columns to group by"):
            people().group_by(totals=[()])
        with pytest.raises(ValueError, match="summed_over"):
            levels_of([()], (SUMMED_OVER,), None)


class TestRounding:
    @settings(max_examples=60)
    @given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60), st.data())
    def test_every_run_of_rows_stays_within_one(self, numbers, data):
        parts = np.array(numbers)[:, None]
        base = np.arange(len(numbers))[:, None] * 10**12
        whole = rounded_together(base, parts)[:, 0]
        first = data.draw(st.integers(0, len(numbers)))
        last = data.draw(st.integers(first, len(numbers)))
        exact = math.fsum(numbers[first:last])
        assert abs((whole - base[:, 0])[first:last].sum() - exact) <= 1 + 1e-6

    @settings(max_examples=60)
    @given(st.lists(st.floats(-50, 50), min_size=6, max_size=6))
    def test_the_nearest_numbers_that_are_not_negative(self, numbers):
        """The sum stays, none is negative, and no number nearer by moving between any two of them (a projection)."""
        exact = np.array(numbers)
        base, parts = nonnegative(np.zeros((6, 1), np.int64), exact[:, None], [])
        found = (base + parts)[:, 0]
        assert np.all(found >= 0)
        assert found.sum() == pytest.approx(max(exact.sum(), 0.0), abs=1e-9)
        positive = found > 1e-9
        change = exact - found
        if positive.any():
            assert np.ptp(change[positive]) < 1e-6  # all that stay positive are moved alike
            assert np.all(change[~positive] <= change[positive].min() + 1e-6)  # the others would have gone below zero

    def test_nested_totals_stay(self):
        places = np.array([0, 0, 1, 1, 1])
        exact = np.array([[5.0], [-2.0], [-1.0], [-3.0], [1.0]])
        base, parts = nonnegative(np.zeros((5, 1), np.int64), exact, [places])
        found = (base + parts)[:, 0]
        assert found.tolist() == pytest.approx([0.0, 0.0, 0.0, 0.0, 0.0])  # the second total is below zero: so is all
        exact[2] = 9.0
        base, parts = nonnegative(np.zeros((5, 1), np.int64), exact, [places])
        assert (base + parts)[:, 0].tolist() == pytest.approx([3.0, 0.0, 7.0, 0.0, 0.0])


class TestNoise:
    """In units of one count alone at the same budget, at the Gaussian end; one leaf a unit."""

    def of(self, by, keys, totals):
        alone = people().group_by(max_rows_per_group=1).count().plan(1, 1e-8, measure_left_out=False)
        [(measure, law)] = alone.ends["gaussian"].laws.items()
        unit = law.var() * float(alone.groups.step(measure)) ** 2
        query = people().group_by(*by, max_groups=1, max_rows_per_group=1, public_keys=keys, totals=totals).count()
        plan = query.plan(1, 1e-8, measure_left_out=False)
        levels = plan._levels(plan.ends["gaussian"])
        return [
            max(each.noises.numbers[plan.aggregates[0].measure].var() for each in at) / unit for at in levels.noises
        ]

    def test_a_roll_up(self):
        keys = [(str(i), j) for i in range(16) for j in range(25)]
        assert self.of(("city", "month"), keys, "rollup") == pytest.approx([2.8, 2.7, 2.9], rel=0.03)

    def test_a_roll_up_with_groups_of_different_sizes(self):
        keys = [(str(i), j) for i in range(16) for j in range(5 + (i * 7) % 41)]
        assert all(found < 3.0 for found in self.of(("city", "month"), keys, "rollup"))

    def test_a_cube(self):
        keys = {"city": ["a", "b", "c"], "month": list(range(12)), "rides": list(range(104))}
        found = self.of(("city", "month", "rides"), keys, "cube")
        assert len(found) == 8
        assert np.mean(found) <= 5.6

    def test_a_level_that_is_better_added_up_takes_no_budget(self):
        """A person in all twelve groups moves their total by twelve."""
        months = list(range(12))
        for most, measured in ((1, True), (12, False)):
            grouped = people().group_by("month", max_groups=most, max_rows_per_group=1, public_keys=months, totals=[()])
            plan = grouped.count().plan(1, 1e-6)
            assert any(isinstance(measure, Total) for measure in plan.laws) is measured

    def test_a_heavier_level_has_less_noise(self):
        def noise(weight):
            plan = asked([("city",), {"by": [], "weight": weight}]).count().plan(1, 1e-6)
            [columns] = [columns for level, columns in plan.totals.items() if not level.by]
            return columns[0].std

        assert noise(8) < 0.95 * noise(1)

    @pytest.mark.parametrize("keys", [PRODUCT, BUSHY], ids=["product", "tree"])
    def test_the_noise_that_is_told_is_that_of_the_numbers(self, keys):
        """Half-widths of all levels, told before and found in rows; the variance of the estimates by simulation."""
        plan = asked(keys=keys).count().plan(1, 1e-6)
        [measure] = plan.aggregates[0].measures
        draws: dict[tuple[int, int], list[float]] = {}
        for _ in range(1000):
            for at, classes in enumerate(noisy_rows(plan)):
                for each in classes:
                    values, of, _ = each.added.values[measure]
                    for place, value in zip(each.places, values[:, 0], strict=True):
                        draws.setdefault((at, int(place)), []).append(value / of)
        for at, classes in enumerate(plan.levels.noises):
            for each in classes:
                told = each.noises.numbers[measure].var()
                # A ratio of a thousand draws beyond these has a probability below 1e-9 for all 13 numbers together:
                # Chernoff's bound for the heaviest tails of the family, those of the Laplace distribution.
                for place in each.places:
                    assert 0.6 < np.var(draws[at, int(place)]) / told < 1.72


class TestCoverage:
    """Intervals of every level hold the exact number as often as they say. False alarms: below 1e-9 each."""

    RUNS = 300

    def misses(self, plan, exact, smaller=1.0):
        """For each level how often the interval of its first group missed, with noise as told or larger."""
        found = np.zeros(len(plan.levels.structure.levels), int)
        cells = [int(each[0]) for each in plan.levels.structure.cells]
        for _ in range(self.RUNS):
            for at, classes in enumerate(noisy_rows(plan, exact)):
                rows = next(each for each in classes if 0 in each.places)
                first = int(np.flatnonzero(rows.places == 0)[0])
                for aggregate in plan.aggregates:
                    columns = aggregate.columns(rows.of(aggregate, plan.groups))
                    low, high = (columns[f"{aggregate.name}_{end}"].to_pylist()[first] for end in ("low", "high"))
                    middle, half = (low + high) / 2, (high - low) / 2 * smaller
                    found[at] += not middle - half <= exact * cells[at] <= middle + half
        return found

    @pytest.mark.parametrize("keys", [PRODUCT, BUSHY], ids=["product", "tree"])
    def test_intervals_hold_as_often_as_they_say(self, keys):
        plan = asked(keys=keys).count().plan(1, 1e-6, confidence=0.8)
        most = stats.binom.isf(1e-9, self.RUNS, 0.2)
        assert np.all(self.misses(plan, 50) <= most)

    def test_they_would_not_if_they_were_shorter(self):
        plan = asked().count().plan(1, 1e-6, confidence=0.8)
        most = stats.binom.isf(1e-9, self.RUNS, 0.2)
        assert np.all(self.misses(plan, 50, smaller=0.25) > most)

    def test_means(self):
        """Means of all levels: the sum and the count are 0 and 50 in every group, in half steps around the middle."""
        plan = asked().mean("rides", (0, 10)).plan(2, 1e-6, confidence=0.8)
        missed = np.zeros(3, int)
        count, total = plan.aggregates[0].measures
        for _ in range(self.RUNS):
            measured = {}
            for measure, law in plan.laws.items():
                base = measure.base if isinstance(measure, Total) else measure
                numbers = np.full((12, 1), int(50 / plan.groups.step(base)) if base == count else 0)
                assert base in (count, total)
                numbers = measure.level.summed(numbers) if isinstance(measure, Total) else numbers
                measured[measure] = numbers + law.sample(numbers.shape)
            numbers = SharedNumbers(plan.levels.shared, (measured,), nonnegative=False)
            for at, [rows] in enumerate(plan.levels.rows(numbers, 0.8)):
                columns = plan.aggregates[0].columns(rows.added)
                missed[at] += not columns["rides_mean_low"][0].as_py() <= 5 <= columns["rides_mean_high"][0].as_py()
        assert np.all(missed <= stats.binom.isf(1e-9, self.RUNS, 0.2))


ROWS = 4000


@pytest.fixture(scope="module")
def rides():
    rng = np.random.default_rng(5)
    return pa.table(
        {
            "user": rng.integers(0, 900, ROWS),
            "city": rng.choice([*CITIES, "Ulm"], ROWS),
            "month": rng.integers(1, 10, ROWS),
            "rides": rng.integers(0, 9, ROWS),
        }
    )


class TestAddingUp:
    def check(self, release, columns):
        """Every total is the sum of the groups in it, and lies within its interval."""
        rows = release.to_arrow().to_pylist()
        groups = [row for row in rows if row[SUMMED_OVER] is None]
        by = release.query.groups.by
        levels = {
            ", ".join(name for name in by if name not in level.by): level.by for level in release.query.groups.levels
        }
        for row in rows:
            for name in columns:
                assert row[f"{name}_low"] <= row[f"{name}_high"]
                if row[SUMMED_OVER] is not None:
                    inside = [g for g in groups if all(g[key] == row[key] for key in levels[row[SUMMED_OVER]])]
                    assert row[name] == sum(g[name] for g in inside), (row, name)
        return rows

    @pytest.mark.parametrize("nonnegative", [False, True])
    @pytest.mark.parametrize(
        ("keys", "totals"), [(PRODUCT, "rollup"), (PRODUCT, "cube"), (PRODUCT, [("month",)]), (BUSHY, "rollup")]
    )
    def test_to_the_last_digit(self, rides, keys, totals, nonnegative):
        query = Dataset(rides, "user").group_by(
            "city", "month", max_groups=3, max_rows_per_group=2, public_keys=keys, totals=totals
        )
        query = query.count().sum("rides", (0, 9)).histogram("rides", [0, 3, 9])
        release = query.release(0.3, 1e-6, nonnegative=nonnegative)
        rows = self.check(
            release,
            [
                "count",
                "rides_sum",
                *(
                    n
                    for n in release.to_arrow().column_names
                    if n.startswith("rides_bin") and not n.endswith(("_low", "_high"))
                ),
            ],
        )
        if nonnegative:
            assert all(row["count"] >= 0 and row["rides_sum"] >= 0 for row in rows)

    def test_order_and_words(self, rides):
        query = Dataset(rides, "user").group_by(
            "city", "month", max_groups=3, max_rows_per_group=2, public_keys=BUSHY, totals="rollup"
        )
        release = query.count().count_units().release(1, 1e-6)
        rows = [(row["city"], row["month"], row[SUMMED_OVER]) for row in release.to_arrow().to_pylist()]
        assert rows == [
            ("Bern", 1, None),
            ("Bern", 3, None),
            ("Bern", 9, None),
            ("Bern", None, "month"),
            ("Oslo", 2, None),
            ("Oslo", None, "month"),
            ("Rome", 1, None),
            ("Rome", 2, None),
            ("Rome", 4, None),
            ("Rome", 7, None),
            ("Rome", None, "month"),
            (None, None, "city, month"),
        ]
        assert len(release.without_totals()) == 8
        assert "add up exactly" in str(release.statement)
        assert re.search(r"count by city +±", str(release.plan))
        assert release.statement.to_dict()["query"]["groups"]["totals"] == [
            {"by": ["city"], "weight": 1.0},
            {"by": [], "weight": 1.0},
        ]

    def test_exact_numbers_where_there_is_next_to_no_noise(self, rides):
        query = Dataset(rides, "user").group_by(
            "city", "month", max_groups=50, max_rows_per_group=8, public_keys=PRODUCT, totals="cube"
        )
        release = query.count().count_units().sum("rides", (0, 9)).mean("rides", (0, 9)).release(1e6, 1e-6)
        rows = release.to_arrow().to_pylist()
        plain = [r for r in rides.to_pylist() if r["city"] in CITIES and r["month"] in MONTHS]
        for row in rows:
            inside = [r for r in plain if row["city"] in (None, r["city"]) and row["month"] in (None, r["month"])]
            assert row["count"] == len(inside)
            assert row["count_units"] == len({r["user"] for r in inside})
            assert row["rides_sum"] == sum(r["rides"] for r in inside)
            assert row["rides_mean"] == pytest.approx(sum(r["rides"] for r in inside) / len(inside), abs=1e-3)

    @pytest.mark.parametrize("keys", [PRODUCT, BUSHY, None], ids=["product", "tree", "private"])
    def test_quantiles_of_every_level(self, rides, keys):
        """At an ε with hardly any noise the median of every level is that of its rows."""
        query = Dataset(rides, "user").group_by(
            "city", "month", max_groups=36, max_rows_per_group=9, public_keys=keys, totals=[()]
        )
        release = query.median("rides", (0, 16), bins=16).count().release(5000, 1e-6)
        rows = release.to_arrow().to_pylist()
        assert "rides_median in all" in str(release.plan)
        plain = rides.to_pylist()
        for row in rows:
            inside = [
                r["rides"]
                for r in plain
                if (keys is None or keys is PRODUCT or (r["city"], r["month"]) in BUSHY)
                and (keys is not PRODUCT or (r["city"] in CITIES and r["month"] in MONTHS))
                and row["city"] in (None, r["city"])
                and row["month"] in (None, r["month"])
            ]
            if row[SUMMED_OVER] != OTHER and inside:
                assert row["rides_median_low"] - 1 <= np.median(inside) <= row["rides_median_high"] + 1

    def test_private_keys_have_a_total_and_the_others(self, rides):
        query = Dataset(rides, "user").group_by("city", "month", max_groups=9, max_rows_per_group=2, totals=[()])
        release = query.count().count_units().sum("rides", (0, 9)).release(3, 1e-6)
        *groups, other, total = release.to_arrow().to_pylist()
        assert (other[SUMMED_OVER], total[SUMMED_OVER]) == (OTHER, "city, month")
        assert 0 < len(groups) <= 36
        for name in ("count", "rides_sum"):
            assert total[name] == other[name] + sum(row[name] for row in groups)
        assert other["count_units"] is None
        # Groups are chosen by their units, with noise that the counts of rows are not made from, or are.
        chosen = any(isinstance(m, Units) for m in release.plan.noise.scheme.combined[Rows()])
        assert (other["count_low"] is None) is chosen
        assert total["count_units_low"] - 60 <= 900 <= total["count_units_high"] + 60
        assert OTHER in str(release.statement)

    def test_no_interval_for_what_is_left_beside_chosen_groups(self):
        """A thousand groups just below the threshold: those that are shown are too large, the rest too small."""
        sizes = [18] * 1000 + [400] * 5
        cities = np.repeat(np.arange(len(sizes)), sizes)
        table = pa.table({"user": np.arange(len(cities)), "city": cities})
        query = Dataset(table, "user").group_by("city", max_groups=1, max_rows_per_group=1, totals=[()])
        release = query.count().release(1, 1e-6)
        other, total = release.to_arrow().to_pylist()[-2:]
        assert other["count_low"] is None
        assert other["count_high"] is None
        assert total["count_low"] <= len(cities) + 60
        assert "no interval" in str(release.statement)

    def test_a_large_roll_up(self):
        """A million groups: seconds, most of them for the noise and the table."""
        small = [(str(i), j) for i in range(300) for j in range(100)]
        data = Dataset(pa.table({"user": [1, 2], "city": ["1", "2"], "month": [3, 4]}), "user")
        release = (
            data.group_by("city", "month", max_groups=1, max_rows_per_group=1, public_keys=small, totals="rollup")
            .count()
            .release(1, 1e-6)
        )
        assert len(release) == 30_000 + 300 + 1
        self.check_sums(release)

    @staticmethod
    def check_sums(release):
        frame = release.to_pandas()
        cells = frame[frame[SUMMED_OVER].isna()]
        cities = frame[frame[SUMMED_OVER] == "month"].set_index("city")["count"]
        assert (cells.groupby("city")["count"].sum() == cities.sort_index()).all()
        assert frame[frame[SUMMED_OVER] == "city, month"]["count"].item() == cells["count"].sum()


def in_steps(groups, measure, rows):
    """What the rows of a unit in one group add to a measure: in steps, where rows count by what they are worth."""
    if not groups.is_weighted(measure):
        return plain_tables.numbers(measure, rows, "unit")
    worth = plain_tables.STEPS // max(len(rows), groups.max_rows_per_group)
    each = [plain_tables.numbers(measure, [row], "unit") for row in rows]
    return [
        sum(plain_tables.toward_zero(worth * number, measure.largest) for number in column)
        for column in zip(*each, strict=True)
    ]


def moved_by(plan, unit):
    """What one unit with rows in some groups (by place) adds to each number of each measure."""
    moved = {}
    for measure in plan.laws:
        base = measure.base if isinstance(measure, Total) else measure
        size = plan.groups.public.num_rows
        if isinstance(base, UnitsInAny):
            moved[measure] = np.array([1])
            continue
        if isinstance(base, UnitsAt):
            places = np.zeros(size, int) if measure.level.places is None else measure.level.places
            moved[measure] = np.isin(np.arange(measure.level.size), places[list(unit)]).astype(int)
            continue
        added = base.base if isinstance(base, CentredOnAll) else base
        numbers = np.zeros((size, base.numbers), np.int64)
        for place, rows in unit.items():
            numbers[place] = in_steps(plan.groups, added, rows)
        if isinstance(base, CentredOnAll):
            numbers = base.times * numbers - base.by
        moved[measure] = (measure.level.summed(numbers) if isinstance(measure, Total) else numbers).ravel()
    return moved


def changes(plan, unit, other=None):
    """All that changes if a unit comes, or if another one comes in its place: pairs (noise, how far)."""
    moved = moved_by(plan, unit)
    if other is not None:
        moved = {measure: numbers - moved[measure] for measure, numbers in moved_by(plan, other).items()}
    return [(plan.laws[measure], abs(int(far))) for measure, each in moved.items() for far in each if far]


class TestPrivacy:
    """Not our accounting: losses of what one unit can really do to groups and totals, convolved here."""

    @pytest.mark.parametrize("seed", range(6))
    def test_no_unit_moves_the_release_beyond_its_budget(self, seed):
        rng = random.Random(seed)
        most, rows = rng.choice([1, 2, 5]), rng.choice([1, 2])
        grouped = asked(rng.choice(["rollup", [()], "cube"]), max_groups=most, max_rows=rows)
        query = grouped.count() if seed % 2 else grouped.count_units().sum("rides", (-2, 6))
        plan = query.plan(1, 1e-4)
        assert any(isinstance(measure, Total) for measure in plan.laws) or most > 2
        for _ in range(8):
            at = rng.choice([rng.sample(range(12), most), list(range(most))])
            unit = {place: [{"unit": 1, "rides": rng.choice([-2, 6])}] * rows for place in at}
            assert of_moves(changes(plan, unit)).delta(plan.epsilon) <= plan.delta * (1 + 1e-6)

    def test_the_check_has_power(self):
        """All groups of a unit in one total is the worst, and noise that is 5 % smaller is found out."""
        plan = asked(max_groups=3, max_rows=1).count().plan(1, 1e-4, measure_left_out=False)
        worst = changes(plan, {place: [{"unit": 1}] for place in range(3)})
        assert of_moves(worst).delta(1) >= 0.5 * plan.delta
        smaller = [(on_integers(scaled(law, 0.95)), far) for law, far in worst]
        assert of_moves(smaller).delta(1) > plan.delta

    @pytest.mark.parametrize("keys", [PRODUCT, BUSHY], ids=["product", "tree"])
    def test_exchanging_a_unit_for_another(self, keys):
        plan = asked(keys=keys, max_groups=2, neighbours="change_one").count().sum("rides", (-2, 6)).plan(1, 1e-4)
        rng = random.Random(1)
        for _ in range(8):
            one, other = (
                {place: [{"unit": 1, "rides": rng.choice([-2, 6])}] * 2 for place in rng.sample(range(8), 2)}
                for _ in range(2)
            )
            assert of_moves(changes(plan, one, other)).delta(1) <= plan.delta * (1 + 1e-6)
