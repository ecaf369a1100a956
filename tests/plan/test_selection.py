"""Thresholds: the δ of noise and choice together, gone through outcome by outcome, and the least threshold for it."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from osgt import DiscreteOSGT, PrivacyProfile, calibrate
from osgt.plan.selection import chance_alone, chance_apart, chosen_delta, threshold

LAWS = [DiscreteOSGT(2, 3), DiscreteOSGT.laplace(2), DiscreteOSGT.gaussian(2.5)]


def seen(law, count, tau):
    """What is seen of one group: hidden, or its noisy count. A group that nobody is in is never shown."""
    if count == 0:
        return np.eye(1, 101)[0]
    values = np.arange(tau, tau + 100)
    return np.concatenate([[law.cdf(tau - 1 - count)], law.pmf(values - count)])


def release(law, counts, tau):
    """The distribution of what is seen of several groups."""
    joint = np.ones(1)
    for count in counts:
        joint = np.multiply.outer(joint, seen(law, count, tau)).ravel()
    return joint


def leak(first, second, epsilon):
    return np.maximum(first - math.exp(epsilon) * second, 0).sum()


def delta(law, shift, coordinates, epsilon):
    """δ at any ε, negative ones too, of noise in so many coordinates."""
    if coordinates == 0:
        return max(1 - math.exp(epsilon), 0.0)
    if epsilon < 0:
        return 1 - math.exp(epsilon) + math.exp(epsilon) * delta(law, shift, coordinates, -epsilon)
    return float(PrivacyProfile(law, shift, coordinates).delta(epsilon, slack=1e-5))


class TestFormula:
    """Tables are gone through by brute force; the formula of docs/dominance.md is none of it."""

    @pytest.mark.parametrize("most", [1, 2])
    @pytest.mark.parametrize("epsilon", [0.4, 1.0])
    @pytest.mark.parametrize("law", LAWS, ids=repr)
    def test_adding_or_removing_a_person(self, law, epsilon, most):
        """Equal to the formula at the worst table; no table is above it."""
        tau, groups = 8, 2
        q = float(law.cdf(tau - 1 - most))
        exact = max(
            max(
                1 - q**j + q**j * delta(law, most, groups - j, epsilon - j * math.log(q)),
                delta(law, most, groups - j, epsilon + j * math.log(q)),
            )
            for j in range(groups + 1)
        )
        bound = max(1 - q**j + q**j * delta(law, most, groups - j, epsilon) for j in range(groups + 1))
        largest = 0.0
        for others in [(0, 0), (0, 1), (0, 7), (0, 60), (1, 1), (3, 60), (60, 60)]:
            without = release(law, others, tau)
            for added in [(most, most), (1, most), (most, 1), (1, 1), (most, 0), (0, most)]:
                joined = release(law, np.add(others, added), tau)
                largest = max(largest, leak(joined, without, epsilon), leak(without, joined, epsilon))
        assert largest <= exact * (1 + 1e-4) + 1e-12
        assert largest >= exact * (1 - 1e-4) - 1e-12
        assert exact <= bound * (1 + 1e-4)

    @pytest.mark.parametrize("epsilon", [0.4, 1.0])
    @pytest.mark.parametrize("law", LAWS, ids=repr)
    def test_exchanging_a_person(self, law, epsilon):
        """One group each, up to three in all: no table is above the bound, and one is as good as there."""
        tau, most, groups = 7, 1, 1
        q = float(law.cdf(tau - 1 - most))
        bound = max(1 - q**j + q**j * delta(law, most, 2 * groups - j, epsilon) for j in range(groups + 1))
        largest = 0.0
        for others in [(0, 0), (0, 1), (1, 0), (0, 60), (60, 0), (60, 60), (5, 7)]:
            for first, second in [((1, 0), (0, 1)), ((1, 0), (1, 0)), ((1, 0), (0, 0))]:
                one, other = (release(law, np.add(others, brought), tau) for brought in (first, second))
                largest = max(largest, leak(one, other, epsilon), leak(other, one, epsilon))
        assert 0.9 * bound <= largest <= bound * (1 + 1e-4)

    @settings(max_examples=60)
    @given(st.floats(0.01, 0.99), st.floats(0, 3), st.sampled_from(LAWS), st.integers(1, 3))
    def test_what_a_ledger_charges_is_enough(self, q, epsilon, law, groups):
        """A selection δ of 1 - q^r beside the profile of r groups covers both directions at every ε and j."""
        s = 1 - q**groups
        charged = s + (1 - s) * delta(law, 1, groups, epsilon)
        for j in range(groups + 1):
            left = groups - j
            there = 1 - q**j + q**j * delta(law, 1, left, epsilon - j * math.log(q))
            back = delta(law, 1, left, epsilon + j * math.log(q))
            assert max(there, back) <= charged * (1 + 1e-4)


class TestThreshold:
    @pytest.mark.parametrize(
        ("epsilon", "budget", "groups", "most_tau"), [(1, 1e-8, 10, 156), (1, 1e-6, 8, 83), (0.5, 1e-6, 4, 116)]
    )
    def test_it_is_the_least_and_lower_than_with_a_tenth_of_delta(self, epsilon, budget, groups, most_tau):
        law = calibrate(epsilon, budget, coordinates=groups)
        chance = chance_alone(groups, budget, lambda j: delta(law, 1, groups - j, epsilon))
        tau = threshold(law, 1, chance)
        assert tau <= most_tau

        def spent(at):
            q = float(law.cdf(at - 2))
            return max(1 - q**j + q**j * delta(law, 1, groups - j, epsilon) for j in range(groups + 1))

        assert spent(tau) <= budget * (1 + 1e-9)
        assert spent(tau - 1) > budget

    @pytest.mark.parametrize("groups", [1, 5, 40, 1000])
    @pytest.mark.parametrize("law", LAWS, ids=repr)
    def test_blocks_of_many_groups_are_on_the_safe_side(self, law, groups):
        """δ that falls slowly with the groups, made up: every j keeps the bound."""
        budget = 1e-6

        def falling(j):
            return 0.9 * budget * math.exp(-3.0 * j / groups)

        p = chance_alone(groups, budget, falling)
        spent = [-math.expm1(j * math.log1p(-p)) + (1 - p) ** j * falling(j) for j in range(1, groups + 1)]
        assert max(spent) <= budget
        assert max(spent) >= 0.8 * budget

    @pytest.mark.parametrize("delta_", [1e-12, 1e-7, 0.01, 0.3])
    @pytest.mark.parametrize("groups", [1, 8, 1000])
    def test_apart_from_the_noise(self, groups, delta_):
        chance = chance_apart(groups, delta_)
        assert delta_ * (1 - 1e-9) <= chosen_delta(groups, chance) <= delta_ * (1 + 1e-11)
        for law in LAWS:
            tau = threshold(law, 3, chance)
            assert law.sf(tau - 4) <= chance < law.sf(tau - 5)

    def test_nothing_left_is_an_error(self):
        with pytest.raises(ValueError, match="nothing is left for choosing groups"):
            chance_alone(2, 1e-6, lambda _: 1e-6)
