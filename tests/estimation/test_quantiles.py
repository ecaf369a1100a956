"""Quantiles: intervals hold as often as they say for data of every kind, and ranks are as exact as a tree allows."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from goodness import FALSE_ALARM
from osgt import Dataset, DiscreteOSGT
from osgt.estimation.intervals import Quotient
from osgt.noise.error import Combination
from osgt.plan import joint
from osgt.plan.joint import make_plans
from osgt.plan.plan import Asked
from osgt.plan.schemes import Option
from osgt.query.measures import Units, Values
from osgt.query.quantiles import Layout, Leaves, NoisyTree, Ranges, layouts, least_rank_error
from osgt.query.values import ValueGrid

DRAWS = 4_000
LAWS = [DiscreteOSGT.laplace(3), DiscreteOSGT(4, 3), DiscreteOSGT.gaussian(5)]


def leaves_of(width, most=64, kind="integer"):
    return Leaves("x", ValueGrid(kind, Fraction(1), 0, width), most)


def exact_numbers(layout, values):
    """The numbers of values in the ranges of each level."""
    leaves = layout.leaves
    places = np.searchsorted(leaves.edges[1:-1], values, side="right")
    bins = np.bincount(places, minlength=leaves.numbers)[None, :]
    return [level.exact({leaves: bins}) for level in layout.levels]


def alone(law):
    """One noise as a sum of noises."""
    return Combination(((Fraction(1), law),))


def measured(layout, values, laws, *, draws=DRAWS, factor=1.0, total=None):
    """Noisy trees of the same values; the noise may be larger than its distribution says."""

    def noisy(number, law, size):
        return number + np.rint(factor * law.sample(size)).astype(np.int64)

    numbers = [
        noisy(exact, law, (draws, exact.shape[1]))
        for exact, law in zip(exact_numbers(layout, values), laws, strict=True)
    ]
    known = None if total is None else alone(total)
    totals = None if total is None else Quotient(noisy(len(values), total, (draws, 1)), 1)
    return NoisyTree(layout, tuple(map(alone, laws)), known).with_values(numbers, totals)


def quantiles_of(values, share, grid):
    """The least and the largest quantile: numbers with at most the share below and at most the rest above them."""
    steps = np.arange(grid.low, grid.high + 1)
    values = np.sort(values)
    under, upto = np.searchsorted(values, steps, side="left"), np.searchsorted(values, steps, side="right")
    found = steps[(under <= share * len(values) + 1e-9) & (upto >= share * len(values) - 1e-9)]
    return found[0], found[-1]


def missed(tree, values, share, confidence):
    """How often the interval did not hold all quantiles."""
    [found] = tree.quantiles([share], confidence)
    least, largest = quantiles_of(values, share, tree.layout.leaves.grid)
    assert np.all((found.low <= found.values) & (found.values <= found.high))
    return int(np.count_nonzero((found.low > least) | (found.high < largest)))


def too_often(misses, draws, confidence):
    return stats.binom.sf(misses - 1, draws, 1 - confidence) < FALSE_ALARM


RNG = np.random.default_rng(5)
DATA = {
    "spread": RNG.integers(0, 201, 3000),
    "one peak": np.clip(np.rint(RNG.normal(80, 4, 2000)), 0, 200).astype(int),
    "ties": np.repeat([20, 60, 61, 140], [500, 500, 10, 990]),
    "half and half": np.repeat([30, 170], [400, 400]),
    "all equal": np.full(900, 77),
    "at the lower bound": np.zeros(500, int),
    "at the upper bound": np.full(500, 200),
    "at both bounds": np.repeat([0, 200], [700, 300]),
    "few": np.array([3, 50, 199]),
    "one": np.array([120]),
    "none": np.zeros(0, int),
}


class TestIntervals:
    @pytest.mark.parametrize("share", [0.1, 0.5, 0.75])
    @pytest.mark.parametrize("name", DATA)
    def test_they_hold_all_quantiles(self, name, share):
        """Every layout, with noise of other shapes at its levels, with and without the number of all values."""
        values = DATA[name]
        for i, layout in enumerate(layouts(leaves_of(200), None)):
            laws = [LAWS[(i + j) % 3] for j in range(len(layout.levels))]
            total = LAWS[2] if i % 2 else None
            tree = measured(layout, values, laws, total=total)
            assert not too_often(missed(tree, values, share, 0.9), DRAWS, 0.9), layout

    @pytest.mark.parametrize("kind", ["integer", "float"])
    def test_bins_of_one_step_and_of_many(self, kind):
        for width in (3, 40, 1001):
            leaves = leaves_of(width, most=16, kind=kind)
            values = np.minimum(RNG.integers(0, width + 1, 300), width)
            tree = measured(Layout(leaves, 4, None), values, [LAWS[0]] * len(Layout(leaves, 4, None).levels))
            assert not too_often(missed(tree, values, 0.5, 0.8), DRAWS, 0.8)

    def test_the_test_has_power(self):
        """Where there is no value, every number is a quantile: noise 5 % wider misses the bounds too often."""
        layout, none, draws = Layout(leaves_of(15), 4, None), DATA["none"], 100_000
        laws = [DiscreteOSGT.gaussian(300)] * len(layout.levels)
        misses = missed(measured(layout, none, laws, draws=draws), none, 0.1, 0.95)
        assert not too_often(misses, draws, 0.95)
        wider = measured(layout, none, laws, draws=draws, factor=1.05)
        assert too_often(missed(wider, none, 0.1, 0.95), draws, 0.95)
        # Nor do intervals hold much more often than they say.
        assert misses > 0.9 * 0.05 * draws

    def test_they_are_as_long_as_the_ranks_say(self):
        """From the value h ranks below to the one h ranks above, and a bin on either side."""
        values = np.arange(0, 200, 0.01).astype(int)
        layout = Layout(leaves_of(200, most=256), 4, None)
        tree = measured(layout, values, [LAWS[1]] * len(layout.levels), draws=500)
        [found] = tree.quantiles([0.5], 0.95)
        half = tree.rank_error(0.5, 0.95) / 100
        assert np.mean(found.high - found.low) <= 2 * half + 2

    def test_without_noise_they_are_the_bin(self):
        values = DATA["one peak"]
        leaves = leaves_of(200, most=256)
        layout = Layout(leaves, 16, None)
        tree = measured(layout, values, [DiscreteOSGT.laplace(0.02)] * len(layout.levels), draws=3)
        for share in (0.05, 0.5, 0.9):
            [found] = tree.quantiles([share], 0.95)
            least, largest = quantiles_of(values, share, leaves.grid)
            assert least == largest
            assert found.low.tolist() == found.values.tolist() == found.high.tolist() == [least] * 3


class TestEstimates:
    def test_they_ascend_with_the_share(self):
        shares = [0.05, 0.25, 0.3, 0.5, 0.52, 0.9, 0.99]
        for name, values in DATA.items():
            layout = Layout(leaves_of(200), 4, None)
            tree = measured(layout, values, [LAWS[0]] * len(layout.levels), draws=300)
            found = tree.quantiles(shares, 0.9)
            for kind in ("values", "low", "high"):
                steps = np.array([getattr(each, kind) for each in found])
                assert np.all(np.diff(steps, axis=0) >= 0), (name, kind)
                assert steps.min() >= 0
                assert steps.max() <= 200

    def test_many_groups_at_once_are_like_one_after_the_other(self):
        layout = Layout(leaves_of(50), 8, None)
        tree = measured(layout, RNG.integers(0, 51, 500), [LAWS[0]] * len(layout.levels), draws=5_000)
        [all_at_once] = tree.quantiles([0.5], 0.9)
        part = replace(tree, numbers=tuple(level[4_090:4_100] for level in tree.numbers))
        [some] = part.quantiles([0.5], 0.9)
        assert some.values.tolist() == all_at_once.values[4_090:4_100].tolist()
        assert some.low.tolist() == all_at_once.low[4_090:4_100].tolist()

    def test_no_groups(self):
        layout = Layout(leaves_of(50), 8, None)
        tree = measured(layout, np.array([4]), [LAWS[0]] * len(layout.levels), draws=0)
        assert len(tree.quantiles([0.5], 0.9)[0].values) == 0


class TestRanks:
    def test_every_step_is_in_one_bin(self):
        for kind in ("integer", "float"):
            for width in (2, 3, 255, 256, 257, 1000, 2**21):
                for most in (2, 7, 256):
                    leaves = leaves_of(width, most, kind)
                    edges = leaves.edges
                    assert edges[0] == 0
                    assert edges[-1] == width + (kind != "float")
                    assert 2 <= leaves.numbers <= most or width < most
                    sizes = np.diff(edges)
                    assert np.all(sizes > 0)
                    assert len(set(sizes[:-1].tolist())) <= 1
                    assert sizes[-1] <= sizes[0]

    @pytest.mark.parametrize(
        ("bins", "limits"), [(64, (4.0, 2.5, 2.2)), (256, (8.0, 3.6, 2.9)), (1024, (16.0, 4.2, 3.5))]
    )
    def test_known_rank_errors(self, bins, limits):
        """Flat, 16-ary and 4-ary, in units of one count with the same budget and Gaussian noise."""
        for fan_out, limit in zip((bins, 16, 4), limits, strict=True):
            layout = Layout(leaves_of(bins - 1, most=bins), fan_out, None)
            assert layout.leaves.numbers == bins
            assert float(sum(layout.coefficients[0])) == pytest.approx(limit, rel=0.05)

    def test_the_weights_make_the_variance(self):
        """Of ranks with noise, by simulation: draws of all levels, least squares, numbers below each edge."""
        layout, values = Layout(leaves_of(63), 4, None), DATA["none"]
        laws = [DiscreteOSGT.gaussian(s) for s in (20, 30, 50)]
        tree = measured(layout, values, laws, draws=20_000)
        bins = tree.tree.estimates([None, *(level.T for level in tree.numbers)])[-1]
        ranks = np.cumsum(bins, axis=0)[:-1] - 0.3 * bins.sum(axis=0)
        expected = [noise.std() for noise in tree.rank_noise(0.3)]
        assert ranks.std(axis=1) == pytest.approx(expected, rel=0.05)

    def test_a_count_that_is_measured_anyway_helps(self):
        leaves = leaves_of(255, most=256)
        noises = (alone(LAWS[2]),) * 4
        bins = NoisyTree(Layout(leaves, 4, None), noises, None)
        counted = NoisyTree(Layout(leaves, 4, Values("x")), noises, alone(LAWS[2]))
        assert counted.rank_error(0.5, 0.95) < bins.rank_error(0.5, 0.95)
        assert counted.rank_error(0.9, 0.95) < 0.95 * bins.rank_error(0.9, 0.95)

    def test_ranges_add_up_bins(self):
        leaves = leaves_of(9, most=10)
        bins = np.arange(20).reshape(2, 10)
        assert Ranges(leaves, 4).exact({leaves: bins}).tolist() == [[6, 22, 17], [46, 62, 37]]


PEOPLE = pa.table({"person": ["a", "a", "b"], "town": ["x", "y", "x"], "x": [1.5, 2.5, None], "n": [1, 2, 3]})


def towns(max_groups=1, max_rows=1, **options):
    return Dataset(PEOPLE, privacy_unit="person", **options).group_by(
        "town", max_groups=max_groups, max_rows_per_group=max_rows, public_keys=[str(i) for i in range(1000)]
    )


class TestPlans:
    def test_the_rank_error_of_a_median_in_256_bins(self):
        """At most 3 standard deviations of one count at the same budget, with Gaussian noise as the plan has it."""
        median = towns(64).median("x", bounds=(0, 200)).plan(epsilon=1, delta=1e-8).ends["gaussian"]
        count = towns(64).count().plan(epsilon=1, delta=1e-8).ends["gaussian"]
        [tree] = median.scheme.trees(median.laws).values()
        assert tree.layout.leaves.numbers == 256
        middle = [noise.var() for noise in tree.rank_noise(0.5)[63:191]]
        [law] = count.laws.values()
        assert math.sqrt(np.mean(middle)) <= 3.0 * law.std()

    def test_fewer_levels_next_to_the_laplace_end(self):
        """One group, one row, no δ: a level more costs as much as a count."""
        few = towns(1).median("x", bounds=(0, 200)).plan(epsilon=1, delta=0)
        many = towns(64).median("x", bounds=(0, 200)).plan(epsilon=1, delta=1e-8)
        assert len(few.laws) < len(many.laws)

    def test_the_layout_is_the_best(self, monkeypatch):
        """Each layout, calibrated by itself: none has a clearly smaller error."""
        monkeypatch.setattr(joint, "_noises", joint._noises.__wrapped__)  # for equal queries it is computed once
        query = towns(8).median("x", bounds=(0, 200), bins=64)
        for epsilon, delta in ((1.0, 1e-6), (0.2, 0.0)):
            plan = query.plan(epsilon=epsilon, delta=delta, measure_left_out=False)
            best = plan.columns[0].ranks
            [leaves] = plan.aggregates[0].measures
            for layout in layouts(leaves, None):
                only = replace(plan.planning)
                only.alternatives._options[leaves] = [Option(layout=layout)]
                [other] = make_plans([Asked(only, ())], epsilon, delta)
                assert list(other.noise.scheme.layouts.values()) == [layout]
                assert best <= 1.1 * other.columns[0].ranks

    def test_quantiles_of_a_column_share_their_numbers(self):
        once = towns(4).median("x", bounds=(0, 200), bins=32).plan(epsilon=1, delta=1e-6)
        more = towns(4).quantile("x", [0.1, 0.5], bounds=(0, 200), bins=32).median("x", bounds=(0, 200), bins=32)
        plan = more.plan(epsilon=1, delta=1e-6)
        assert list(plan.laws) == list(once.laws)
        assert [law.std() for law in plan.laws.values()] == pytest.approx([law.std() for law in once.laws.values()])
        assert [column.name for column in plan.columns] == ["x_q10", "x_q50", "x_median"]
        assert plan.columns[1].ranks == plan.columns[2].ranks == pytest.approx(once.columns[0].ranks)
        other = towns(4).median("x", bounds=(0, 200), bins=32).median("x", bounds=(0, 100), bins=32, name="other")
        assert len(other.plan(epsilon=1, delta=1e-6).laws) == 2 * len(once.laws)

    def test_the_number_of_values_is_used_where_it_is_measured(self):
        plan = towns(4).median("x", bounds=(0, 200), bins=32).mean("x", bounds=(0, 200)).plan(epsilon=1, delta=1e-6)
        [layout] = plan.noise.scheme.layouts.values()
        assert layout.total == Values("x")
        whole = towns(4).median("x", bounds=(0, 200), bins=32).count().plan(epsilon=1, delta=1e-6)
        [layout] = whole.noise.scheme.layouts.values()
        assert layout.total is None  # values may be missing: their number is not that of units
        assert Units() in whole.laws

    def test_ranks_are_told(self):
        plan = towns(4).median("x", bounds=(0, 200), bins=32).plan(epsilon=1, delta=1e-6)
        assert "x_median  between the 49th and 51st percentile" in str(plan)
        assert plan.to_dict()["columns"][0]["half_width_in_ranks"] == plan.columns[0].ranks

    def test_the_unit_of_the_error_is_that_of_the_best_tree(self):
        leaves = leaves_of(255, most=256)
        assert least_rank_error(leaves) == pytest.approx(2.7, abs=0.1)
