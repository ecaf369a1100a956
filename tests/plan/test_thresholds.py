"""Thresholds: which groups are shown, how seldom a lone person's is, and that the promise holds in both directions."""

import functools
import itertools
import math

import mpmath as mp
import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from goodness import FALSE_ALARM
from osgt import Dataset, DiscreteOSGT
from osgt.plan.selection import select, shown_size
from osgt.query.measures import Units
from osgt.release.measuring import noisy_numbers

LAWS = [DiscreteOSGT(3, 5), DiscreteOSGT(40, 20), DiscreteOSGT.laplace(6), DiscreteOSGT.gaussian(4.5)]


@functools.cache
def tails(law):
    """P[Y ≥ y] for y = 0, 1, …, summed term by term with digits to spare; the terms left out are below 1e-50."""
    with mp.workdps(60):
        a, c = mp.mpf(law.slope), mp.mpf(law.curvature)
        weights = [mp.exp(-a * y - c * mp.mpf(y) ** 2 / 2) for y in range(800)]
        total = 2 * mp.fsum(weights) - 1
        sums = list(itertools.accumulate(reversed(weights)))
        return [each / total for each in reversed(sums)]


def chance_alone(law, tau):
    """P[1 + Y ≥ τ]."""
    tail = tails(law)
    return tail[tau - 1] if tau >= 1 else 1 - tail[2 - tau]


@pytest.mark.parametrize("law", LAWS, ids=repr)
class TestSizes:
    def test_the_threshold_is_the_least_for_a_chance(self, law):
        for chance in (1e-2, 1e-9, 1e-15):
            tau = select(law, 1, 1, chance, in_all=False).threshold
            assert chance_alone(law, tau) <= chance < chance_alone(law, tau - 1)

    def test_the_size_that_is_nearly_always_shown(self, law):
        tau = select(law, 1, 1, 1e-8, in_all=False).threshold
        size = shown_size(law, tau, 0.99)
        # P[size + Y ≥ τ], and the same for one unit less
        assert law.sf(tau - size - 1) >= 0.99 > law.sf(tau - size)

    def test_larger_groups_are_shown_more_often(self, law):
        sizes = [shown_size(law, 30, probability) for probability in (0.01, 0.5, 0.99, 0.9999)]
        assert sizes == sorted(sizes)
        assert shown_size(law, 30, 0.5) == pytest.approx(30, abs=1)


class TestHidden:
    """With a δ so large that it can be measured, through the whole of a release."""

    #: A lone person's group may be seen with so much probability.
    DELTA = 0.2
    GROUPS = 60_000

    @pytest.fixture(scope="class")
    @staticmethod
    def plan():
        rows = pa.table({"unit": [0], "city": [0]})
        query = Dataset(rows, "unit").group_by("city", max_groups=1, max_rows_per_group=1).count()
        return query.plan(1, TestHidden.DELTA)

    @staticmethod
    def shown(size):
        """How many of many groups of one size a release shows."""
        n = TestHidden.GROUPS
        rows = pa.table({"unit": np.arange(n * size), "city": np.repeat(np.arange(n), size)})
        query = Dataset(rows, "unit").group_by("city", max_groups=1, max_rows_per_group=1).count()
        release = query.release(1, TestHidden.DELTA)
        assert all(count >= release.plan.threshold for count in release.to_arrow()["count"].to_pylist())
        return len(release)

    def test_a_lone_person_stays_hidden(self, plan):
        """False alarms at 1e-9; a threshold that is one too low would be noticed, and so would one too high."""
        seen, law, tau = self.shown(1), plan.laws[Units()], plan.threshold
        chance = float(law.sf(tau - 2))
        assert chance <= plan.selection_delta
        assert stats.binomtest(seen, self.GROUPS, plan.selection_delta, alternative="greater").pvalue > FALSE_ALARM
        assert stats.binomtest(seen, self.GROUPS, chance).pvalue > FALSE_ALARM
        for wrong in (tau - 1, tau + 1):
            assert stats.binomtest(seen, self.GROUPS, float(law.sf(wrong - 2))).pvalue < FALSE_ALARM

    def test_a_group_of_the_stated_size_is_shown(self, plan):
        size = plan.shown_size
        seen = self.shown(size)
        assert stats.binomtest(seen, self.GROUPS, 0.99, alternative="less").pvalue > FALSE_ALARM
        law = plan.laws[Units()]
        assert stats.binomtest(seen, self.GROUPS, float(law.sf(plan.threshold - size - 1))).pvalue > FALSE_ALARM

    def test_a_small_delta_hides_every_one(self):
        n = 20_000
        rows = pa.table({"unit": np.arange(n), "city": np.arange(n)})
        release = Dataset(rows, "unit").group_by("city", max_groups=1, max_rows_per_group=1).count().release(1, 1e-12)
        assert len(release) == 0  # fails with probability 20,000·1e-13

    def test_other_columns_get_their_noise_after_the_choice(self, plan):
        """Groups are chosen by their units alone: what is shown holds exactly the groups that passed."""
        exact = {Units(): np.repeat([[1], [200]], 500, axis=0)}
        shown, noisy = noisy_numbers(plan, exact)
        assert shown[500:].all()
        assert len(noisy[Units()]) == shown.sum()
        assert (noisy[Units()] >= plan.threshold).all()


def outputs(law, units, tau, values):
    """The distribution of what is shown of some groups: a dictionary from what is seen to its probability.

    `units` are the true numbers of units; a group with none is not in the table and never shown.
    """
    shown = []
    for count in units:
        if count == 0:
            shown.append({None: 1.0})
            continue
        probabilities = law.pmf(values - count)
        seen = {int(v): float(p) for v, p in zip(values, probabilities, strict=True) if v >= tau}
        shown.append({None: float(law.cdf(tau - 1 - count)), **seen})
    return [
        (tuple(what), math.prod(p for _, p in each))
        for each in itertools.product(*(group.items() for group in shown))
        for what in [[value for value, _ in each]]
    ]


def leak(first, second, epsilon):
    """The least δ for which the one is (ε, δ)-close to the other."""
    other = dict(second)
    return math.fsum(max(p - math.exp(epsilon) * other.get(what, 0.0), 0.0) for what, p in first)


class TestPromise:
    """Every outcome of two small tables is gone through, without any of the accounting."""

    #: Outcomes beyond are left out; their probability is below 1e-12 with these distributions.
    VALUES = np.arange(-75, 100)

    @pytest.mark.parametrize("epsilon", [0.5, 1.0])
    @pytest.mark.parametrize("delta", [0.01, 0.1])
    def test_adding_or_removing_a_person(self, epsilon, delta):
        """A person of two groups, in some with others and in some alone: both directions, at the stated δ."""
        rows = pa.table({"unit": [0], "city": [0]})
        query = Dataset(rows, "unit").group_by("city", max_groups=2, max_rows_per_group=1).count()
        plan = query.plan(epsilon, delta)
        law, tau = plan.laws[Units()], plan.threshold
        largest = 0.0
        for without, joined in (
            ((0, 0), (1, 1)),
            ((0, 1), (1, 2)),
            ((1, 1), (2, 2)),
            ((0, 9), (1, 10)),
            ((0, 3), (1, 3)),
            ((0, tau + 4), (1, tau + 5)),
            ((tau + 4, tau + 4), (tau + 5, tau + 5)),
        ):
            one, other = (outputs(law, units, tau, self.VALUES) for units in (without, joined))
            assert sum(p for _, p in one) == pytest.approx(1, abs=1e-9)
            largest = max(largest, leak(one, other, epsilon), leak(other, one, epsilon))
        assert largest <= delta
        assert largest >= 0.3 * delta  # the bound is not idle: most of δ is for the noise, and it is used

    def test_exchanging_a_person(self):
        """One leaves a group that they were alone in, another comes into one that did not exist."""
        rows = pa.table({"unit": [0], "city": [0]})
        data = Dataset(rows, "unit", neighbours="change_one")
        plan = data.group_by("city", max_groups=1, max_rows_per_group=1).count().plan(1.0, 0.1)
        law, tau = plan.laws[Units()], plan.threshold
        for before, after in (((1, 0), (0, 1)), ((1, 4), (0, 5)), ((5, 0), (4, 1)), ((8, 4), (7, 5)), ((1, 1), (1, 1))):
            one, other = (outputs(law, units, tau, self.VALUES) for units in (before, after))
            assert max(leak(one, other, 1.0), leak(other, one, 1.0)) <= plan.delta

    def test_a_lower_threshold_would_break_it(self):
        """The check has power: with groups shown from one unit on, the promise fails."""
        rows = pa.table({"unit": [0], "city": [0]})
        plan = Dataset(rows, "unit").group_by("city", max_groups=2, max_rows_per_group=1).count().plan(1.0, 0.1)
        law = plan.laws[Units()]
        one, other = (outputs(law, units, 1, self.VALUES) for units in ((0, 0), (1, 1)))
        assert leak(other, one, 1.0) > plan.delta
