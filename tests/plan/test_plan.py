"""Plans: no data are read, shifts follow from first principles, and the budget is met once, by all columns together."""

import json
import math

import numpy as np
import pyarrow as pa
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import given, settings
from hypothesis import strategies as st

from osgt import Dataset, DiscreteOSGT, PrivacyProfile, Publication, calibrate
from osgt.noise import scaled
from osgt.noise.error import Combination
from osgt.privacy import Charge
from osgt.query.measures import Bins, CentredSum, ClippedSum, Rows, Squares, Units, Values
from spies import SpyLedger, people

FIVE = ["a", "b", "c", "d", "e"]

#: Part of the error by which the calibration may miss the best member of the family: its coarse search says so.
CALIBRATION_TOLERANCE = 2e-3


def parts_of(query):
    """Shift, in units of the number that is asked for, and coordinates of each measure, by its class.

    A unit's steps need not be a multiple of its limit: the shift is larger by less than 1e-8 of itself.
    """
    planning, result = query.planning(), {}
    for measure in planning.alternatives.directly().measured:
        [(steps, coordinates)] = planning.groups.sensitivity(measure, planning.neighbours)
        shift = steps * planning.groups.step(measure)
        assert 0 <= shift - round(shift) <= 1e-8 * shift
        result[type(measure)] = round(shift), coordinates
    return result


class TestShifts:
    """One person in at most 4 groups with at most 3 rows in each: by how much can each number move?"""

    @pytest.mark.parametrize(
        ("ask", "one", "changed"),
        [
            # The one: what adding or removing a person does. Changed: exchanging one for another.
            (lambda q: q.count(), {Rows: (3, 4)}, {Rows: (3, 8)}),
            (lambda q: q.count_units(), {Units: (1, 4)}, {Units: (1, 8)}),
            # All values on one side of zero: taken away in 4 groups, brought in 4 others.
            (lambda q: q.sum("rides", (0, 5)), {ClippedSum: (3 * 5, 4)}, {ClippedSum: (15, 8)}),
            (lambda q: q.sum("rides", (10, 20)), {ClippedSum: (3 * 20, 4)}, {ClippedSum: (60, 8)}),
            (lambda q: q.sum("rides", (-9, -2)), {ClippedSum: (3 * 9, 4)}, {ClippedSum: (27, 8)}),
            # Values of both signs: -7·3 taken away and 2·3 brought in one group move it further than either.
            (lambda q: q.sum("rides", (-7, 2)), {ClippedSum: (3 * 7, 4)}, {ClippedSum: (42, 4)}),
            # Cents; powers of two; truth values.
            (lambda q: q.sum("tip", (0, 30)), {ClippedSum: (3 * 3000, 4)}, {ClippedSum: (9000, 8)}),
            (lambda q: q.sum("fare", (0, 100)), {ClippedSum: (3 * 100 * 2**14, 4)}, {ClippedSum: (3 * 100 * 2**14, 8)}),
            (lambda q: q.sum("member", (0, 1)), {ClippedSum: (3, 4)}, {ClippedSum: (3, 8)}),
            # A mean is a sum of distances from the middle, here in half rides: half as far to move as the sum.
            (
                lambda q: q.mean("rides", (0, 5)),
                {Values: (3, 4), CentredSum: (15, 4)},
                {Values: (3, 8), CentredSum: (30, 4)},
            ),
            (lambda q: q.mean("rides", (100, 105)), {Values: (3, 4), CentredSum: (15, 4)}, None),
            (lambda q: q.mean("rides", (0, 5), missing="centre"), {Rows: (3, 4), CentredSum: (15, 4)}, None),
            # z from -4 to 4 half rides, 2z² - 16 from -16 to 16.
            (
                lambda q: q.variance("rides", (0, 4)),
                {Values: (3, 4), CentredSum: (12, 4), Squares: (48, 4)},
                {Values: (3, 8), CentredSum: (24, 4), Squares: (96, 4)},
            ),
            # However many bins: as one count.
            (lambda q: q.histogram("fare", [0, 1]), {Bins: (3, 4)}, {Bins: (3, 8)}),
            (lambda q: q.histogram("fare", list(range(50))), {Bins: (3, 4)}, {Bins: (3, 8)}),
        ],
    )
    def test_each_measure(self, ask, one, changed):
        for neighbours, expected in (("add_remove", one), ("change_one", changed)):
            data = people(neighbours=neighbours)
            query = ask(data.group_by("city", max_groups=4, max_rows_per_group=3))
            if expected is None:
                continue
            # A count chooses the groups that are shown. Where there is none, units are counted for that.
            extra = {} if expected.keys() & {Rows, Values} else {Units: (1, 4 if neighbours == "add_remove" else 8)}
            assert parts_of(query) == extra | expected

    def test_public_groups_are_not_chosen_and_bound_the_coordinates(self):
        query = people().group_by("city", max_groups=4, max_rows_per_group=3, public_keys=["a", "b"])
        assert parts_of(query.count()) == {Rows: (3, 2)}
        query = people().group_by("city", max_groups=4, max_rows_per_group=3, public_keys=FIVE)
        assert parts_of(query.count()) == {Rows: (3, 4)}

    def test_public_groups_when_one_is_changed(self):
        """Of five groups no more than five can move, but each of two bins of a group can."""
        data = people(neighbours="change_one")
        query = data.group_by("city", max_groups=4, max_rows_per_group=3, public_keys=FIVE)
        assert parts_of(query.count()) == {Rows: (3, 5)}
        assert parts_of(query.sum("rides", (-1, 2))) == {ClippedSum: (12, 4)}
        assert parts_of(query.histogram("fare", [0, 1, 2])) == {Bins: (3, 8)}

    def test_no_groups_at_all(self):
        query = people().group_by(max_rows_per_group=3)
        assert parts_of(query.count().sum("rides", (0, 5))) == {Rows: (3, 1), ClippedSum: (15, 1)}
        query = people(neighbours="change_one").group_by(max_rows_per_group=3)
        assert parts_of(query.count().sum("rides", (-5, 5))) == {Rows: (3, 1), ClippedSum: (30, 1)}
        assert parts_of(query.histogram("fare", [0, 1, 2])) == {Bins: (3, 2)}

    @pytest.mark.parametrize(
        ("neighbours", "rows", "sums"),
        [("add_remove", (3, 1), (3 * 7, 1)), ("change_one", (3, 2), (42, 1))],
    )
    def test_a_limit_on_all_rows(self, neighbours, rows, sums):
        """All that a person adds in one group is the worst case; units are counted in four groups all the same."""
        query = people(neighbours=neighbours).group_by("city", max_rows=3, max_groups=4, public_keys=FIVE)
        assert parts_of(query.count()) == {Rows: rows}
        assert parts_of(query.sum("rides", (-7, 2))) == {ClippedSum: sums}
        assert parts_of(query.count_units()) == {Units: (1, 4 if neighbours == "add_remove" else 5)}

    def test_with_one_row_in_a_group_rows_are_units(self):
        query = people().group_by("city", max_groups=4, max_rows_per_group=1).count().count_units()
        assert parts_of(query) == {Units: (1, 4)}
        assert parts_of(query.mean("rides", (0, 5), missing="centre")) == {Units: (1, 4), CentredSum: (5, 4)}

    @pytest.mark.parametrize(
        ("ask", "chosen_by"),
        [
            (lambda q: q.count(), "rows"),
            (lambda q: q.mean("rides", (0, 5)), "values of rides"),
            (lambda q: q.mean("rides", (0, 5)).count(), "rows"),
            (lambda q: q.count().count_units(), "units"),
            (lambda q: q.sum("rides", (0, 5)), "units"),
            (lambda q: q.histogram("fare", [0, 1, 2]), "units"),
        ],
    )
    def test_groups_are_chosen_by_a_count_that_is_there(self, ask, chosen_by):
        """Counting units only to choose groups would take noise from every other column."""
        plan = ask(people().group_by("city", max_groups=4, max_rows_per_group=3)).plan(1, 1e-6)
        assert plan.chosen_by == chosen_by
        assert f"noisy number of {chosen_by} is at least {plan.threshold:,}" in str(plan)
        with_units = ask(people().group_by("city", max_groups=4, max_rows_per_group=1)).plan(1, 1e-6)
        assert with_units.chosen_by.startswith(("units", "values"))

    def test_measures_are_shared(self):
        """Mean and variance of a column need one count and one sum of it between them."""
        query = people().group_by(max_rows_per_group=3).mean("rides", (0, 4)).variance("rides", (0, 4))
        assert parts_of(query) == {Values: (3, 1), CentredSum: (12, 1), Squares: (48, 1)}


#: Queries of different kinds, small enough in scale for an accounting that goes through all outcomes.
QUERIES = {
    "count, chosen groups": lambda **o: people(**o).group_by("city", max_groups=5, max_rows_per_group=2).count(),
    "count, sum and mean": lambda **o: (
        people(**o)
        .group_by("city", max_groups=3, max_rows_per_group=2, public_keys=FIVE)
        .count()
        .sum("rides", (0, 4))
        .mean("rides", (-3, 3), missing="centre")
    ),
    "histogram and units": lambda **o: (
        people(**o)
        .group_by("city", max_groups=8, max_rows_per_group=3)
        .histogram("fare", [0, 10, 20, 50])
        .count_units(weight=3)
    ),
    "one number": lambda **o: people(**o).group_by(max_rows_per_group=1).count(),
}


#: Steps of a shift in coarse numbers, and the part by which their δ may be off.
COARSE, OFF = 64, 1e-3


def coarse(law, shift):
    """Noise and shift in steps so coarse that all outcomes can be gone through."""
    return (law, shift) if shift <= COARSE else (scaled(law, COARSE / shift), COARSE)


def delta_by_enumeration(plan, pessimistic):
    """δ at the plan's ε from dp-accounting, out of the probabilities of all outcomes."""
    composed = None
    for law, shift, coordinates in (
        (*coarse(plan.laws[measure], shift), n) for measure, part in plan.parts.items() for shift, n in part.moves
    ):
        far = int(law.isf(1e-25)) + int(shift)
        outcomes = np.arange(-far, far + 1)
        upper = dict(zip(outcomes.tolist(), law.logpmf(outcomes).tolist(), strict=True))
        lower = dict(zip(outcomes.tolist(), law.logpmf(outcomes - shift).tolist(), strict=True))
        one = pld.from_two_probability_mass_functions(
            lower, upper, pessimistic_estimate=pessimistic, value_discretization_interval=1e-4
        ).self_compose(coordinates)
        composed = one if composed is None else composed.compose(one)
    return composed.get_delta_for_epsilon(plan.epsilon)


def shown_widths(plan, noise):
    """Σ weight·(half-width/shift)² over what decides the errors, with the half-widths as they are shown."""
    total = 0.0
    for error in plan.planning.errors:
        parts = noise.scheme.coefficients(error)
        combined = Combination(tuple((part, noise.laws[measure]) for measure, part in parts.items()))
        total += error.weight * (combined.half_width(plan.confidence) / error.unit) ** 2
    return total


class TestBudget:
    @pytest.mark.parametrize("neighbours", ["add_remove", "change_one"])
    @pytest.mark.parametrize("name", QUERIES)
    def test_the_budget_is_met_and_used(self, name, neighbours):
        """Recomputed by another library, which brackets δ from both sides."""
        plan = QUERIES[name](neighbours=neighbours).plan(1, 1e-6, measure_left_out=False)
        assert plan.charge.delta(1.0) <= 1e-6
        assert delta_by_enumeration(plan, pessimistic=False) <= plan.noise_delta * (1 + OFF)
        if any(law.curvature > 0 for law in plan.laws.values()):  # pure Laplace noise may need no δ at all
            assert delta_by_enumeration(plan, pessimistic=True) >= 0.9 * plan.noise_delta

    @pytest.mark.parametrize("name", QUERIES)
    def test_never_worse_than_dividing_the_budget_among_the_columns(self, name):
        """Against each number measured as it is, with an equal share of the budget for each."""
        plan = QUERIES[name]().plan(1, 1e-6, objective="variance", measure_left_out=False)
        scheme, groups = plan.planning.alternatives.directly(), plan.groups
        share = len(scheme.measured)
        alone = {}
        for measure in scheme.measured:
            [(shift, coordinates)] = groups.sensitivity(measure, plan.neighbours)
            alone[measure] = calibrate(1 / share, plan.noise_delta / share, shift=shift, coordinates=coordinates)
        divided = sum(need * alone[measure].var() for measure, need in scheme.needs(plan.planning.errors).items())
        assert plan.noise.error <= divided * (1 + CALIBRATION_TOLERANCE)
        if share > 1:
            assert plan.noise.error < 0.9 * divided

    @pytest.mark.parametrize(
        ("name", "delta"), [*((name, 1e-9) for name in QUERIES), ("count, chosen groups", 1e-3), ("one number", 1e-3)]
    )
    def test_neither_end_of_the_family_is_better(self, name, delta):
        """In the variance, and in the intervals that are shown: these are never wider, to the last digit."""
        for objective in ("variance", "interval"):
            plan = QUERIES[name]().plan(1, delta, objective=objective)
            assert set(plan.gains) == {"gaussian", "laplace", "laplace (pure)"}
            assert set(plan.alternatives) == set(plan.gains)
            for columns in plan.alternatives.values():
                assert [column.name for column in columns] == [column.name for column in plan.columns]
            if objective == "variance":
                assert min(plan.gains.values()) >= -CALIBRATION_TOLERANCE
            else:
                widths = {end: shown_widths(plan, noise) for end, noise in plan.ends.items()}
                assert shown_widths(plan, plan.noise) <= min(widths.values())
                assert min(plan.gains.values()) >= -0.02  # whole numbers round

    def test_part_of_delta_is_set_aside_for_the_choice_of_groups(self):
        plan = QUERIES["count, chosen groups"]().plan(1, 1e-6)
        assert 0.5e-7 < plan.selection_delta <= 1e-7
        assert plan.noise_delta + plan.selection_delta == pytest.approx(1e-6, rel=1e-15)
        assert plan.charge.selection_delta == plan.selection_delta
        assert plan.charge.delta(1.0) <= 1e-6
        with_ledger = people(ledger=SpyLedger(), dataset="people").group_by("city", max_groups=5, max_rows_per_group=2)
        assert with_ledger.count().plan(1, 1e-6).threshold == plan.threshold
        public = QUERIES["count, sum and mean"]().plan(1, 1e-6)
        assert (public.selection_delta, public.noise_delta, public.threshold) == (0.0, 1e-6, None)
        assert public.shown_size is None

    def test_more_budget_less_noise(self):
        query = QUERIES["one number"]()
        widths = [query.plan(epsilon, 1e-6).columns[0].std for epsilon in (0.1, 1, 10)]
        assert widths == sorted(widths, reverse=True)

    def test_a_unit_exchanged_takes_more_noise(self):
        one, other = (QUERIES["count, chosen groups"](neighbours=n).plan(1, 1e-6) for n in ("add_remove", "change_one"))
        assert other.columns[0].std > 1.2 * one.columns[0].std

    def test_weights(self):
        """A column that counts for more gets less noise, at the cost of the others; only ratios of weights matter."""

        def stds(*weights):
            query = people().group_by(max_rows_per_group=2).count(weight=weights[0])
            plan = query.sum("rides", (0, 4), weight=weights[1]).plan(1, 1e-6)
            assert plan.charge.delta(1.0) <= 1e-6
            return [column.std for column in plan.columns]

        equal, heavy, twice = stds(1, 1), stds(16, 1), stds(2, 2)
        assert heavy[0] < 0.8 * equal[0]
        assert heavy[1] > 1.1 * equal[1]
        assert twice == pytest.approx(equal, rel=1e-3)

    def test_pure_privacy(self):
        """δ = 0 leaves the Laplace distribution: scale = (total shift)/ε, and ε is all that is charged."""
        query = people().group_by("city", max_groups=2, max_rows_per_group=3, public_keys=FIVE).count()
        plan = query.plan(0.5, 0, measure_left_out=False)
        law = plan.laws[Rows()]
        assert law.curvature == 0
        assert float(plan.groups.step(Rows())) / law.slope == pytest.approx(3 * 2 / 0.5)
        assert plan.charge.epsilon(0.0) <= 0.5
        assert set(plan.gains) == {"laplace (pure)"}


class TestInterval:
    @pytest.mark.parametrize("target", [3, 12.5])
    def test_the_least_epsilon_for_an_interval(self, target):
        query = people().group_by(max_rows_per_group=1).count()
        plan = query.plan(interval=target, delta=1e-6)
        assert plan.columns[0].half_width <= target
        assert query.plan(plan.epsilon * (1 - 5e-4), 1e-6).columns[0].half_width > target
        assert plan.charge.delta(plan.epsilon) <= 1e-6

    @pytest.mark.long
    @pytest.mark.parametrize(("target", "column"), [(12, None), (40, "rides_sum")])
    def test_the_least_epsilon_for_one_of_several_columns(self, target, column):
        query = people().group_by("city", max_groups=3, max_rows_per_group=2).count().sum("rides", (0, 3))
        plan = query.plan(interval=target, column=column, delta=1e-6)
        assert {c.name: c.half_width for c in plan.columns}[column or "count"] <= target
        less = query.plan(plan.epsilon * (1 - 5e-4), 1e-6)
        assert {c.name: c.half_width for c in less.columns}[column or "count"] > target

    def test_a_relative_error_in_a_group_is_an_interval(self):
        query = people().group_by("city", max_groups=3, max_rows_per_group=2).sum("rides", (0, 3)).count()
        plan = query.plan(relative_error=0.08, group_size=250, delta=1e-6)
        half_width = {column.name: column.half_width for column in plan.columns}["count"]
        assert half_width <= 20  # 0.08 * 250, of the count and not of the sum that comes first
        assert half_width / 250 == pytest.approx(0.08, rel=0.06)  # the noise is on whole numbers
        assert plan.epsilon == query.plan(interval=20, column="count", delta=1e-6).epsilon

    def test_a_relative_error_needs_a_size_and_a_count(self):
        query = people().group_by(max_rows_per_group=1).count().sum("fare", (0, 100))
        for one, other in (("relative_error", "group_size"), ("group_size", "relative_error")):
            with pytest.raises(ValueError, match=f"{other} must be given"):
                query.plan(delta=1e-6, **{one: 0.1})
        with pytest.raises(ValueError, match="interval must be left out"):
            query.plan(delta=1e-6, relative_error=0.1, group_size=50, interval=5)
        with pytest.raises(ValueError, match="one of epsilon"):
            query.plan(1, 1e-6, relative_error=0.1, group_size=50)
        for name in ("fare_sum", "nothing"):
            with pytest.raises(ValueError, match=r"must name a count .*\['count'\].* for a sum, give interval"):
                query.plan(delta=1e-6, relative_error=0.1, group_size=50, column=name)
        for wrong in (0, -0.1, math.nan, "10 %"):
            with pytest.raises((ValueError, TypeError), match="relative_error must be"):
                query.plan(delta=1e-6, relative_error=wrong, group_size=50)
        alone = people().group_by(max_rows_per_group=1).mean("fare", (0, 100))
        with pytest.raises(ValueError, match="does not follow from the size"):
            alone.plan(delta=1e-6, relative_error=0.1, group_size=50)

    def test_what_no_epsilon_can_do(self):
        query = people().group_by(max_rows_per_group=1).count()
        for measure_left_out in (True, False):
            with pytest.raises(ValueError, match=r"interval 1e\+30 is wide enough for any ε"):
                query.plan(interval=1e30, delta=1e-6, measure_left_out=measure_left_out)
        query = people().group_by(max_rows_per_group=1).sum("fare", (0, 100))
        with pytest.raises(ValueError, match=r"interval 1e-09 is too small for this query"):
            query.plan(interval=1e-9, delta=1e-6)

    @pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
    def test_half_widths_are_those_of_the_law(self, confidence):
        plan = people().group_by(max_rows_per_group=2).sum("tip", (0, 3)).plan(1, 1e-6, confidence=confidence)
        [(measure, law)], column = plan.laws.items(), plan.columns[0]
        step = 0.01 * float(plan.groups.step(measure))
        steps, few = round(column.half_width / step), 1_000  # a millionth of what a person adds
        assert 1 - 2 * law.sf(steps + few) >= confidence > 1 - 2 * law.sf(steps - few)
        assert column.std == pytest.approx(law.std() * step)

    def test_ratios_tell_their_interval_by_group_size(self):
        plan = people().group_by(max_rows_per_group=1).mean("rides", (0, 10)).variance("rides", (0, 10)).plan(1, 1e-6)
        for column in plan.columns:
            assert column.half_width is None
            sizes = list(column.by_size)
            assert sizes == sorted(sizes)
            halves = list(column.by_size.values())
            assert halves == sorted(halves, reverse=True)
            assert halves[0] <= 50


class TestForm:
    def test_nothing_is_read_or_reserved(self):
        """Every test of this file plans on rows that cannot be read; here a ledger is watched as well."""
        ledger = SpyLedger()
        query = people(ledger=ledger, dataset="people").group_by("city", max_groups=3, max_rows_per_group=2)
        plan = query.count().mean("tip", (0, 9)).histogram("fare", [0, 5, 9]).plan(1, 1e-6)
        assert str(plan)
        assert plan.to_dict()
        assert query.to_dict()
        assert ledger.calls == []

    def test_plain_values(self):
        plan = QUERIES["histogram and units"]().plan(1, 1e-6)
        plain = json.loads(json.dumps(plan.to_dict(), allow_nan=False))
        assert plain["epsilon"] == 1
        assert plain["delta"] == 1e-6
        assert plain["threshold"] == plan.threshold
        assert plain["neighbours"] == "add_remove"
        assert [column["name"] for column in plain["columns"]] == [
            "fare_0_to_10",
            "fare_10_to_20",
            "fare_20_to_50",
            "count_units",
        ]
        assert Charge.from_dict(plain["charge"]) == plan.charge
        assert Charge.from_dict(plain["charge"]).delta(1.0) <= 1e-6

    def test_the_words_name_every_bound(self):
        query = people().where("fare > 0").group_by("city", max_groups=3, max_rows_per_group=2)
        query = query.sum("rides", (-4, 77)).mean("tip", (0, 9)).histogram("fare", [5, 1234.5])
        plan = query.plan(0.7, 1e-6)
        for part in (
            "ε = 0.7, δ = 1e-06",
            "No data was read",
            "each unit counts as at most 2 rows in a group and in at most 3 groups",
            "rides from -4 to 77",
            "tip from 0 to 9",
            "fare from 5 to 1,234.5",
            "A group is published if its noisy number",
        ):
            assert part in str(plan), part
        notes = "\n".join(plan.limit_notes)
        for part in (
            "a unit counts as at most 2 rows in a group",
            "a unit in more than 3 groups is counted in 3 of them",
            "bounds of rides",
            "below -4",
            "above 77",
            "edges of fare",
            "below 5 or above 1,234.5",
            "threshold",
            "rows without a unit",
        ):
            assert part in notes, part
        public = people().group_by("city", max_groups=3, max_rows_per_group=2, public_keys=FIVE).count()
        assert "public_keys: rows with other keys are ignored" in public.plan(0.7, 1e-6).limit_notes
        in_all = people().group_by("city", max_rows=7).count().sum("rides", max_total=(0, 1500))
        assert "each unit counts as at most 7 rows; at most 1,500 of rides." in str(in_all.plan(0.7, 1e-6))

    def test_every_step_makes_a_new_query(self):
        base = people().group_by("city", max_groups=3, max_rows_per_group=2)
        first, second = base.count(), base.count_units()
        assert [a.name for a in first.aggregates] == ["count"]
        assert [a.name for a in second.aggregates] == ["count_units"]
        assert base.aggregates == ()


laws = st.builds(
    lambda scale, shape: DiscreteOSGT.from_rates(shape / scale, (1 - shape) / scale**2),
    st.floats(0.5, 30),
    st.one_of(st.just(0.0), st.just(1.0), st.floats(0, 1)),
)


class TestOneNumberForAll:
    """Moving several numbers by k in all gives away no more than moving one by k: what bins and exchanges rest on."""

    @settings(max_examples=60)
    @given(laws, st.lists(st.integers(1, 6), min_size=2, max_size=4), st.floats(0, 4))
    def test_bins(self, law, moves, epsilon):
        split = PrivacyProfile.compose(PrivacyProfile(law, move) for move in moves)
        whole = PrivacyProfile(law, sum(moves))
        slack = 1e-4  # what the composition may lie above its exact value
        assert split.delta(epsilon, slack=slack) <= whole.delta(epsilon) * (1 + 1.1 * slack) + 1e-290

    @settings(max_examples=30)
    @given(laws, st.integers(1, 4), st.integers(1, 4), st.floats(0, 4))
    def test_twice_as_far_in_one_group_stands_for_two_groups(self, law, shift, groups, epsilon):
        two, one = PrivacyProfile(law, shift, 2 * groups), PrivacyProfile(law, 2 * shift, groups)
        assert two.delta(epsilon, slack=1e-4) <= one.delta(epsilon, slack=1e-4) * (1 + 1.1e-4) + 1e-290

    @pytest.mark.parametrize("law", [DiscreteOSGT(2, 3), DiscreteOSGT.laplace(2), DiscreteOSGT.gaussian(2)], ids=repr)
    def test_by_enumeration(self, law):
        """All outcomes of two numbers, moved together against apart, without the accounting."""
        y = np.arange(-60, 61)
        p = law.pmf(y)
        for first, second in ((1, 1), (1, 2), (3, 2)):
            still = np.outer(p, p)
            apart = np.outer(law.pmf(y - first), law.pmf(y - second))
            together = np.outer(law.pmf(y - first - second), p)
            for epsilon in (0.0, 0.3, 1.0, 2.0):
                leak_apart = np.maximum(apart - math.exp(epsilon) * still, 0).sum()
                leak_together = np.maximum(together - math.exp(epsilon) * still, 0).sum()
                assert leak_apart <= leak_together + 1e-12


class TestDeltaZero:
    """Where all groups are public δ may be 0: the plan says what that costs."""

    WORDS = "δ = 0 makes intervals up to"

    ROWS = pa.table({"person": [*range(24)], "month": [*range(12)] * 2, "fare": [1.5] * 24})

    def by_month(self, months=12, data=None):
        data = Dataset(self.ROWS, privacy_unit="person") if data is None else data
        groups = data.group_by("month", max_groups=months, max_rows_per_group=2, public_keys=list(range(12)))
        return groups.count().mean("fare", bounds=(0, 30))

    def test_the_cost_is_that_of_a_second_plan(self):
        pure, usual = (self.by_month().plan(1, delta) for delta in (0, 1e-8))
        widths = [[plan.columns[0].half_width, plan.columns[1].by_size[10_000]] for plan in (pure, usual)]
        factor = max(mine / theirs for mine, theirs in zip(*widths, strict=True))
        assert factor > 1.3
        words = f"{self.WORDS} {factor:.3g} times as wide as δ = 1e-08 would."
        assert words in str(pure)
        assert words in pure.to_dict()["warnings"][0]
        assert words in pure._repr_html_()
        assert self.WORDS not in f"{usual}{usual.to_dict()}"

    def test_of_several_tables_it_is_told_once(self):
        data = Dataset(self.ROWS, privacy_unit="person")
        publication = Publication(many=self.by_month(data=data), few=self.by_month(3, data))
        assert str(publication.plan(1, 0)).count(self.WORDS) == 1
        assert publication.plan(1, 0)._repr_html_().count(self.WORDS) == 1
        assert self.WORDS not in str(publication.plan(1, 1e-8))

    def test_nothing_is_said_where_it_costs_nothing_nor_of_a_table_that_is_out(self):
        assert self.WORDS not in str(self.by_month(1).plan(1, 0))
        release = self.by_month().release(1, 0)
        assert self.WORDS not in f"{release.statement}{release.statement.to_dict()}{release._repr_html_()}"
