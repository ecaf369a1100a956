"""Thresholds: the δ of noise and choice together, gone through outcome by outcome, and the least threshold for it."""

import itertools
import math

import numpy as np
import pytest

from osgt import DiscreteOSGT, PrivacyProfile
from osgt.plan.selection import select

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


@pytest.mark.parametrize("law", LAWS, ids=repr)
@pytest.mark.parametrize("most", [2, 4])
@pytest.mark.parametrize("in_all", [True, False])
def test_noise_and_choice_together(law, most, in_all):
    """No unit, whatever it adds to two groups that others are in or not, is told more of than s + (1 - s)·δ."""
    allowed, groups = 0.02, 2
    chosen = select(law, most, groups, allowed, in_all=in_all)
    s, tau = chosen.delta, chosen.threshold
    adds = [p for p in itertools.product(range(1, most + 1), repeat=2) if not in_all or sum(p) <= most]
    for epsilon in (0.0, 0.4, 1.0):
        noise = max(delta(law, most, 1 if in_all else groups, epsilon), 0.0)
        for own, others in itertools.product(adds, itertools.product((0, 3), repeat=2)):
            more = release(law, [a + b for a, b in zip(own, others, strict=True)], tau)
            less = release(law, others, tau)
            worst = max(leak(more, less, epsilon), leak(less, more, epsilon))
            assert worst <= (s + (1 - s) * noise) * (1 + 1e-6)


def spreads(most, groups):
    """All ways to spread at most so many steps over some groups, the largest part first."""
    for parts in itertools.combinations_with_replacement(range(most + 1), groups):
        if sum(parts) <= most:
            yield parts


@pytest.mark.parametrize("law", LAWS, ids=repr)
@pytest.mark.parametrize(("most", "groups"), [(6, 1), (6, 3), (5, 5), (9, 4)])
def test_the_chance_that_a_group_of_one_unit_alone_is_shown(law, most, groups):
    """Of all ways to spread, all in one group is seen most; the δ that is told is that chance, and τ is the least."""

    def chance(tau, parts):
        return 1 - math.prod(float(law.cdf(tau - 1 - part)) for part in parts)

    for allowed in (0.3, 1e-3, 1e-7):
        chosen = select(law, most, groups, allowed, in_all=True)
        tau = chosen.threshold
        worst = max(chance(tau, parts) for parts in spreads(most, groups))
        assert worst == pytest.approx(chance(tau, (most, *[0] * (groups - 1))), rel=1e-9)
        assert chosen.delta == pytest.approx(worst, rel=1e-6, abs=1e-15)
        assert chosen.delta <= allowed
        assert chance(tau - 1, (most, *[0] * (groups - 1))) > allowed
        # Where a unit adds as much to each of its groups, it is seen more often.
        assert select(law, most, groups, allowed, in_all=False).threshold >= tau


@pytest.mark.parametrize("in_all", [True, False])
def test_noise_far_below_what_a_unit_adds(in_all):
    """The search passes thresholds at which a group is certain to be shown."""
    law, most, groups, allowed = DiscreteOSGT.laplace(3), 2**30, 4, 1e-7
    chosen = select(law, most, groups, allowed, in_all=in_all)
    chance = float(law.sf(chosen.threshold - 1 - most))
    assert chance * (1 if in_all else groups) == pytest.approx(chosen.delta, rel=1e-6)
    assert chosen.delta <= allowed < float(law.sf(chosen.threshold - 2 - most)) * (1 if in_all else groups)
