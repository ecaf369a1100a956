"""The private choice of a limit: its exact probabilities, its privacy by enumeration, and what it is charged."""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate, stats

from goodness import FALSE_ALARM
from osgt import OSGT, DiscreteOSGT, PrivacyProfile
from osgt.limits.choice import (
    RATIO,
    Candidate,
    Ladder,
    choose,
    count_cut,
    limits_between,
    loss_of_choice,
    permute_and_flip,
    score_strength,
    scores_below_zero,
)
from osgt.privacy import Charge
from osgt.privacy.filters import union
from osgt.privacy.filters.budget import shares_for

COSTS = [0.0, 0.3, 0.5, 2.0, 0.1]
PROBABILITIES = [0.3169, 0.2108, 0.1656, 0.0329, 0.2737]


def probabilities(costs):
    """Of permute-and-flip: q_k·∫ Π (1 - u·q_j) du over u in (0, 1), a polynomial, by Gauss's rule that is exact for it.

    u is the rank of k in the random order: each of the others comes before it with probability u, independently.
    """
    q = np.exp(min(costs) - np.asarray(costs, dtype=float))
    nodes, weights = np.polynomial.legendre.leggauss(len(q) // 2 + 1)
    u = (nodes + 1) / 2
    others = [np.prod(1 - np.outer(u, np.delete(q, k)), axis=1) for k in range(len(q))]
    return np.array([q[k] * np.sum(weights / 2 * others[k]) for k in range(len(q))])


def largest_of_exponentials(costs):
    """P[k has the largest -cost + Exp(1)], by integration over the noise of k."""

    def density(t, k):
        ahead = np.delete(costs[k] - np.asarray(costs), k)  # by so much k lies behind the others
        return math.exp(-t) * np.prod(np.maximum(-np.expm1(-(t - ahead)), 0) * (t > ahead))

    kinks = sorted({abs(a - b) for a in costs for b in costs})
    return [integrate.quad(density, 0, 60, args=(k,), points=kinks, limit=400)[0] for k in range(len(costs))]


def test_probabilities_are_those_of_the_largest_with_exponential_noise():
    assert probabilities(COSTS) == pytest.approx(PROBABILITIES, abs=5e-5)
    assert largest_of_exponentials(COSTS) == pytest.approx(probabilities(COSTS), abs=1e-9)


def test_draws_have_these_probabilities():
    draws = 8_000
    costs = [Fraction(cost) for cost in COSTS]
    counts = np.bincount([permute_and_flip(costs) for _ in range(draws)], minlength=len(costs))
    assert stats.chisquare(counts, draws * probabilities(COSTS)).pvalue > FALSE_ALARM
    halved = [cost / 2 for cost in COSTS]  # as noise with twice the mean would have them
    assert stats.chisquare(counts, draws * probabilities(halved)).pvalue < FALSE_ALARM


# Two kinds of candidates for units with (rows, squared length).
ROWS = Ladder("rows", (2, 4, 8, 12), (2.0, 4.0, 8.0, 12.0))
LENGTH = Ladder("length", (4, 16, 25), (3.0, 6.0, 7.5))


def histogram(ladder, numbers):
    return np.bincount(np.searchsorted(ladder.limits, numbers), minlength=len(ladder.limits) + 1).tolist()


def log_probabilities(units, ladders, epsilon, target):
    """Of each candidate, for units with (rows, squared length)."""
    columns = {"rows": 0, "length": 1}
    histograms = [histogram(ladder, [unit[columns[ladder.kind]] for unit in units]) for ladder in ladders]
    costs = scores_below_zero(ladders, histograms, epsilon=epsilon, target=target, exponent=1.5)
    return np.log(probabilities([float(cost) for cost in costs]))


def loss(units, others, ladders, strength, epsilon, target=0):
    a, b = (log_probabilities(both, ladders, strength * epsilon, target) for both in (units, others))
    return np.max(np.abs(a - b))


def some_unit(generator):
    groups = generator.integers(1, 16)
    counts = 1 + generator.multinomial(generator.integers(0, 8), np.full(groups, 1 / groups))
    return int(counts.sum()), int((counts**2).sum())


@pytest.mark.parametrize("neighbours", ["add_remove", "change_one"])
@pytest.mark.parametrize("ladders", [[ROWS], [LENGTH], [ROWS, LENGTH]])
def test_no_neighbour_changes_a_probability_by_more_than_e_to_epsilon(neighbours, ladders):
    generator = np.random.default_rng()
    strength = score_strength(len(ladders), neighbours)
    largest = 0.0
    for _ in range(400):
        epsilon, target = generator.uniform(0.05, 2), int(generator.integers(0, 6))
        units = [some_unit(generator) for _ in range(generator.integers(1, 45))]
        others = [*units, some_unit(generator)]
        if neighbours == "change_one":
            units = [*units, some_unit(generator)]
        change = loss(units, others, ladders, strength, epsilon, target) / epsilon
        assert change <= 1 + 1e-9
        largest = max(largest, change)
    assert largest > 0.3  # the neighbours are no harmless ones


def test_two_kinds_under_change_one_would_lose_twice_as_much():
    ladders = [Ladder("rows", (12,), (1.0,)), Ladder("length", (25,), (1.0,))]
    units = [(13, 13)] * 9
    narrow, wide = (10, 100), (15, 15)  # 10 rows in one group, 15 rows in 15 groups
    assert score_strength(2, "change_one") == 0.5
    assert loss([*units, narrow], [*units, wide], ladders, 0.5, 0.7) == pytest.approx(0.7)
    assert loss([*units, narrow], [*units, wide], ladders, 1.0, 0.7) == pytest.approx(1.4)


def test_noise_of_half_the_mean_would_lose_twice_as_much():
    ladders = [Ladder("rows", (2, 12), (1.0, 1.0))]
    units = [(5, 5)] * 8
    assert loss(units, [*units, (5, 5)], ladders, 1.0, 0.7) == pytest.approx(0.7)
    assert loss(units, [*units, (5, 5)], ladders, 2.0, 0.7) == pytest.approx(1.4)


def test_cut_units_are_those_above_the_limit():
    generator = np.random.default_rng()
    numbers = generator.integers(1, 20, 50)
    assert count_cut(histogram(ROWS, numbers)) == tuple(int(np.sum(numbers > limit)) for limit in ROWS.limits)


def test_target_is_never_more_than_a_tenth_of_the_units():
    def costs(units, target):
        return scores_below_zero([ROWS], [[0, units, 0, 0, 0]], epsilon=0.5, target=target, exponent=0.0)

    assert costs(40, 3) == [Fraction(37, 2), 0, 0, 0]
    assert costs(40, 30) == costs(40, 4) == [18, 0, 0, 0]


def test_rounded_terms_lose_no_more():
    costs = scores_below_zero([ROWS], [[0, 10**6, 0, 0, 0]], epsilon=0.1, target=0, exponent=0.0)
    assert 0.1 * 10**6 - 1e-5 < costs[0] <= Fraction(0.1) * 10**6


@pytest.mark.parametrize("neighbours", ["add_remove", "change_one"])
def test_sharp_limits_are_chosen(neighbours):
    ladders = [
        Ladder("rows", limits := limits_between(1, 100), tuple(map(float, limits))),
        Ladder("length", squares := limits_between(1, 10_000, RATIO**2), tuple(9 * s**0.5 for s in squares)),
    ]
    histograms = [histogram(ladders[0], [7] * 1000), histogram(ladders[1], [49] * 1000)]
    chosen = choose(ladders, histograms, epsilon=60, target=0, exponent=500, neighbours=neighbours)
    assert chosen == Candidate("rows", 7, 7.0)


def test_limits_ascend_in_steps():
    limits = limits_between(1, 2**20)
    assert limits[0] == 1
    assert limits[-1] == 2**20
    assert all(a < b <= max(a + 1, 1.2 * a) for a, b in pairwise(limits))
    assert len(limits) < 100
    assert limits_between(5, 5) == (5,)
    squares = np.sqrt(limits_between(1, 2**40, RATIO**2))
    assert len(squares) < 120


@pytest.mark.parametrize(
    ("limits", "noise"), [((), ()), ((1, 2), (1.0,)), ((2, 2), (1.0, 1.0)), ((1, 2), (0.0, 1.0)), ((1,), (math.inf,))]
)
def test_ladders_that_are_none(limits, noise):
    with pytest.raises(ValueError, match=r"ladder|limits|noise"):
        Ladder("rows", limits, noise)


def test_wrong_arguments():
    with pytest.raises(ValueError, match="one count more"):
        scores_below_zero([ROWS], [[1, 2]], epsilon=1, target=0, exponent=1)
    with pytest.raises(ValueError, match="same units"):
        scores_below_zero([ROWS, LENGTH], [[1, 0, 0, 0, 0], [2, 0, 0, 0]], epsilon=1, target=0, exponent=1)
    with pytest.raises(ValueError, match="neighbours"):
        score_strength(1, "add")
    with pytest.raises(ValueError, match="from 1 on"):
        limits_between(0, 5)


@pytest.mark.parametrize("epsilon", [0.01, 0.05, 0.25, 1.0, 3.0])
def test_loss_is_that_of_randomised_response(epsilon):
    profile = PrivacyProfile.of([loss_of_choice(epsilon)])
    truth = 1 / (1 + math.exp(-epsilon))
    for at in np.array([0.0, 0.3, 0.9]) * epsilon:
        expected = truth - math.exp(at) * (1 - truth)
        assert expected <= profile.delta(at) <= expected * (1 + 1e-9)
    assert profile.delta(epsilon) == 0
    moment = truth**2 / (1 - truth) + (1 - truth) ** 2 / truth
    assert profile.renyi(2.0) == pytest.approx(math.log(moment), rel=1e-9)
    assert PrivacyProfile(OSGT.laplace(1 / epsilon)).delta(0.0) < (1 - 0.04 * epsilon) * profile.delta(0.0)  # too small


def test_choice_and_release_are_one_charge():
    release = PrivacyProfile(DiscreteOSGT.gaussian(6.0 * 2**30), shift=2**30)
    charge = Charge(PrivacyProfile.of([loss_of_choice(0.1), *release.parts]))
    assert Charge.from_dict(charge.to_dict()) == charge
    truth = 1 / (1 + math.exp(-0.1))
    expected = truth * release.delta(0.7) + (1 - truth) * release.delta(0.9)
    assert expected * (1 - 1e-9) <= charge.delta(0.8) <= expected * (1 + 1e-3)
    assert charge.epsilon(1e-8) <= 0.1 + release.epsilon(1e-8)
    shares = shares_for(1.0, 1e-6, 0.0)
    state = union.FilterState.start(shares).try_charge(charge)
    assert state is not None
    assert union.follows(union.FilterState.start(shares), charge, state)


def test_choice_alone_takes_its_epsilon_from_a_budget():
    shares = shares_for(1.0, 1e-6, 0.0)
    charge = Charge(PrivacyProfile.of([loss_of_choice(0.25)]))
    assert union.FilterState.start(shares).how_many(charge, most=4) == 4
    state = union.FilterState.start(shares).try_charge(charge)
    assert state is not None
    assert state.pure == Fraction(1, 4)
