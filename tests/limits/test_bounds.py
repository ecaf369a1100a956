"""Histograms over units, what they tell, and the bounds that are recommended from them. No engine is needed."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from osgt.limits.curve import Wanted
from osgt.limits.evidence import USUAL, Evidence, Sizes
from osgt.limits.histogram import SCALE, Histogram, count_edges, limits_up_to, parts, pooled, value_edges
from osgt.limits.recommendation import Open, recommend
from scipy import stats

from goodness import FALSE_ALARM
from osgt import DiscreteOSGT

RUNS = 4000


def laplace(std):
    """Noise with this standard deviation on a count, in parts of SCALE."""
    return DiscreteOSGT.laplace(std * SCALE / math.sqrt(2))


@given(st.integers(1, 2_000_000))
def test_edges_are_geometric_and_reach_the_most(most):
    edges = count_edges(most)
    assert edges[0] == 1
    assert edges[-1] == max(most, 2)
    assert all(low < high <= max(1.5 * low, low + 1) for low, high in itertools.pairwise(edges))
    limits = limits_up_to(most)
    assert limits[0] == 1
    assert limits[-1] == most
    assert limits == sorted(set(limits))


def test_edges_of_values_are_symmetric():
    edges = value_edges(1.0, 1e6)
    assert edges == tuple(-edge for edge in reversed(edges))
    positive = [edge for edge in edges if edge > 0]
    assert positive[0] == 1
    assert positive[-1] == 1e6
    assert all(high <= 1.5 * low for low, high in itertools.pairwise(positive))


@given(st.lists(st.floats(-50, 1e7), min_size=1, max_size=30), st.sampled_from(count_edges(1000)))
def test_totals_over_bins_are_totals_over_units(values, cut):
    edges = count_edges(1000)
    counts = parts(values, edges)
    assert counts.min() >= 0
    assert counts.sum() == len(values) * SCALE
    clipped = np.clip(values, edges[0], edges[-1])
    # A function that is linear between edges: what is beyond a cut.
    over_bins = float(np.maximum(np.array(edges) - cut, 0.0) @ (counts / SCALE))
    assert over_bins == pytest.approx(np.maximum(clipped - cut, 0.0).sum(), rel=1e-5, abs=1e-3)


@given(st.lists(st.floats(-100, 100), min_size=1, max_size=20))
def test_pools_keep_the_sum_and_are_not_negative(counts):
    found = pooled(np.array(counts))
    assert found.min() >= 0
    assert len(found) == len(counts)
    if sum(counts) >= 0:
        assert found.sum() == pytest.approx(sum(counts), abs=1e-9)


def held(shares, truth):
    return sum(share.low <= truth <= share.high for share in shares)


def too_few(hits, runs, confidence):
    """Whether so few hits are less likely than the false-alarm rate if the interval holds as often as it says."""
    return stats.binom.cdf(hits, runs, confidence) < FALSE_ALARM


class TestShares:
    """Units are in 1 to 40 groups; what is beyond 10 is a known share."""

    values = np.concatenate([np.full(2000, 1), np.full(800, 7), np.full(500, 15), np.full(400, 40)])
    truth = float(np.maximum(values - 10, 0).sum() / values.sum())

    def shares(self, noise, claimed, runs=RUNS):
        edges = count_edges(100)
        exact = parts(self.values, edges)
        draws = noise.sample((runs, len(edges)))
        return [
            Evidence(Histogram(edges, exact + draw, claimed), None, {}, None, 100).pairs_lost(10, 0.9) for draw in draws
        ]

    @pytest.mark.parametrize("std", [4, 20])
    def test_intervals_hold_as_often_as_they_say(self, std):
        noise = laplace(std)
        assert not too_few(held(self.shares(noise, noise), self.truth), RUNS, 0.9)

    def test_they_would_not_with_more_noise_than_they_say(self):
        assert too_few(held(self.shares(laplace(20), laplace(14)), self.truth), RUNS, 0.9)

    def test_they_are_not_much_wider_than_need_be(self):
        noise = DiscreteOSGT.gaussian(10 * SCALE)
        hits = held(self.shares(noise, noise), self.truth)
        assert stats.binom.sf(hits, RUNS, 0.95) > FALSE_ALARM

    def test_limits_between_edges_are_covered(self):
        edges, noise = count_edges(100), laplace(5)
        exact = parts(self.values, edges)
        truth = float(np.maximum(self.values - 12, 0).sum() / self.values.sum())
        shares = [
            Evidence(Histogram(edges, exact + draw, noise), None, {}, None, 100).pairs_lost(12, 0.9)
            for draw in noise.sample((RUNS, len(edges)))
        ]
        assert not too_few(held(shares, truth), RUNS, 0.9)

    def test_nothing_is_known_of_next_to_no_units(self):
        edges, noise = count_edges(100), laplace(1000)
        share = Histogram(edges, parts([1, 2, 3], edges), noise).share(lambda x: x - 1, lambda x: x, 0.95, (1, 10))
        assert (share.low, share.high) == (0.0, 1.0)


class TestSkew:
    def test_it_is_measured_where_noise_is_small(self):
        sizes = np.array([1000, 10, 10, 10])
        truth = 4 * (sizes.astype(float) ** 2).sum() / sizes.sum() ** 2
        found = Sizes(sizes, DiscreteOSGT.laplace(0.5), known=True).skew(float(sizes.sum()))
        assert found == pytest.approx(truth, rel=0.02)

    def test_it_is_the_usual_one_where_noise_is_large(self):
        found = Sizes(np.array([3, -40, 70, 12]), DiscreteOSGT.laplace(500), known=True).skew(60.0)
        assert found == pytest.approx(USUAL, abs=0.01)
        assert Sizes(np.zeros(0, np.int64), DiscreteOSGT.laplace(1), known=False).skew(10.0) == USUAL


class TestRecommendation:
    """One unit in ten is in 30 groups, the others in 3; noise grows with the root of the limit."""

    groups = np.concatenate([np.full(9000, 3), np.full(1000, 30)])

    def evidence(self, std):
        edges = count_edges(100)
        noise = laplace(std)
        return Evidence(
            Histogram(edges, parts(self.groups, edges) + noise.sample(len(edges)), noise), None, {}, None, 100
        )

    @pytest.mark.parametrize(("unit_noise", "best"), [(0.5, 30), (1000.0, 1)])
    def test_the_limit_follows_the_noise(self, unit_noise, best):
        asked = Open((Wanted("count_units", 1.0),), None, 1, {}, grouped=True)
        found = recommend(self.evidence(3.0), asked, lambda limit: unit_noise * math.sqrt(limit))
        assert found.choice.max_groups == best
        assert found.sure == "stable"

    def test_a_limit_that_was_given_stays(self):
        asked = Open((Wanted("count_units", 1.0),), 17, 1, {}, grouped=True)
        assert recommend(self.evidence(3.0), asked, math.sqrt).choice.max_groups == 17

    def test_few_units_are_a_reason_for_caution(self):
        asked = Open((Wanted("count_units", 1.0),), None, 1, {}, grouped=True)
        found = recommend(self.evidence(3000.0), asked, math.sqrt)
        assert found.cautions
        assert found.sure != "stable"
