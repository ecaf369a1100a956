"""An analyst who chooses each release after seeing the losses of all earlier ones, as well as that can be done.

Against exact composition, used as a filter, she exceeds δ by far. Against the union of filters she never does.
"""

import math
from functools import cache

import numpy as np
import pytest
from filter_oracles import Analyst, atoms, gauss_atoms, gauss_delta
from scipy.special import ndtr
from scipy.stats import binom

from osgt import OSGT, DiscreteOSGT, PrivacyProfile
from osgt.ledger.headroom import Headroom
from osgt.privacy import Charge
from osgt.privacy.filters.budget import SELECTION_SHARE, new_budget, shares_for
from osgt.privacy.filters.union import FilterState

#: ε, δ, ε of a Laplace release, μ of a Gaussian one.
CASES = [(1.0, 1e-6, 0.2, 0.02), (1.0, 1e-8, 0.1, 0.02), (3.0, 1e-6, 0.3, 0.08)]


def most(allowed, kinds):
    """How many of each kind alone are allowed."""
    counts = []
    for kind in range(kinds):
        n = 0
        while allowed(tuple((n + 1) * (i == kind) for i in range(kinds))):
            n += 1
        counts.append(n)
    return tuple(counts)


def exact_composition(epsilon, delta, each, mu):
    """Exact composition of k two-valued losses (Laplace noise on the integers) and j Gaussian ones, as a filter."""

    @cache
    def allowed(counts):
        k, j = counts
        ups = np.arange(k + 1)
        chance, loss = binom.pmf(ups, k, 1 / (1 + math.exp(-each))), (2 * ups - k) * each
        if j == 0:
            return np.sum(chance * np.maximum(-np.expm1(np.minimum(epsilon - loss, 0)), 0)) <= delta
        return np.sum(chance * gauss_delta(mu * math.sqrt(j), epsilon - loss)) <= delta

    return allowed


def union_of_filters(shares, charges, stands=lambda state: True):
    """Whether so many of each of the charges can stand together, in whatever order lets most through."""

    @cache
    def state(counts):
        if not any(counts):
            return FilterState.start(shares)
        found = None
        for i, charge in enumerate(charges):
            if counts[i]:
                before = state((*counts[:i], counts[i] - 1, *counts[i + 1 :]))
                after = before.try_charge(charge) if before is not None else None
                if after is not None and stands(after) and (found is None or (after.mu or 0) > (found.mu or 0)):
                    found = after
        return found

    return lambda counts: state(counts) is not None


@pytest.mark.parametrize(("epsilon", "delta", "each", "mu"), CASES)
def test_exact_composition_is_no_filter(epsilon, delta, each, mu):
    """What she reaches is a lower bound: more than twice δ."""
    noise = DiscreteOSGT.from_rates(each, 0.0)
    allowed = exact_composition(epsilon, delta, each, mu)
    counts = most(allowed, 2)
    # The oracle's rule is the software's exact composition.
    profile = PrivacyProfile.compose([PrivacyProfile(noise)] * 3 + [PrivacyProfile(OSGT.gaussian(1 / mu))] * 9)
    assert (profile.delta(epsilon) <= delta) == allowed((3, 9))
    analyst = Analyst(epsilon, [atoms(noise), gauss_atoms(mu, "down")], mu / 50, "down")
    assert analyst.best(allowed, counts) > 2 * delta


@pytest.mark.parametrize(("epsilon", "delta", "each", "mu"), CASES)
def test_the_spent_epsilon_holds_for_whoever_stops_by_it(epsilon, delta, each, mu):
    """She stops before "ε spent", which she is told after each release, exceeds an ε' below that of the budget."""
    noise = DiscreteOSGT.from_rates(each, 0.0)
    charges = [Charge(PrivacyProfile(noise)), Charge(PrivacyProfile(OSGT.gaussian(1 / mu)))]
    budget = new_budget(1.5 * epsilon, delta, selection_share=0.0)

    def stands(state):
        return Headroom(budget, state, 1, None, None).figures()[0] <= epsilon

    allowed = union_of_filters(budget.shares, charges, stands)
    reached = Analyst(epsilon, [atoms(noise), gauss_atoms(mu, "up")], mu / 20, "up").best(allowed, most(allowed, 2))
    assert 1e-4 * delta < reached < delta


@pytest.mark.parametrize(("epsilon", "delta", "each", "mu"), CASES)
def test_the_union_of_filters_holds(epsilon, delta, each, mu):
    """Nobody can reach more than the upper bound, and it is below δ; nor is the rule so strict that it holds idly."""
    noise = DiscreteOSGT.from_rates(each, 0.0)
    shares = shares_for(epsilon, delta, 0.0)
    charges = [Charge(PrivacyProfile(noise)), Charge(PrivacyProfile(OSGT.gaussian(1 / mu)))]
    allowed = union_of_filters(shares, charges)
    analyst = Analyst(epsilon, [atoms(noise), gauss_atoms(mu, "up")], mu / 20, "up")
    reached = analyst.best(allowed, most(allowed, 2))
    assert 0.55 * delta < reached < 0.8 * delta


def test_the_union_of_filters_holds_for_all_kinds_at_once():
    """Laplace, Gaussian and OSGT releases of different sizes, and releases with selection δ."""
    epsilon, delta = 2.0, 1e-6
    shares = shares_for(epsilon, delta)
    tiny = Charge(PrivacyProfile(OSGT.gaussian(1e7)), shares.selection / 2)
    laplace, middle = DiscreteOSGT.from_rates(0.5, 0.0), DiscreteOSGT(9.0, 9.0)
    charges = [
        Charge(PrivacyProfile(laplace)),
        Charge(PrivacyProfile(OSGT.gaussian(12.5))),
        Charge(PrivacyProfile(middle)),
    ]
    allowed = union_of_filters(shares, charges)
    selections = FilterState.start(shares).how_many(tiny)
    assert selections == 2
    analyst = Analyst(epsilon, [atoms(laplace), gauss_atoms(0.08, "up"), atoms(middle)], 0.08 / 20, "up")
    reached = analyst.best(allowed, most(allowed, 3), tiny.selection_delta, selections)
    assert 0.55 * delta < reached < 0.9 * delta


class TestSelection:
    """A Gaussian release; if its outcome is harmless a release with selection δ, else another Gaussian one."""

    EPSILON, DELTA, SELECTION = 3.0, 1e-6, 9.9e-7
    FIRST, SECOND = OSGT.gaussian(2.03144), OSGT.gaussian(2.79742)

    def test_both_paths_alone_are_within_the_budget_and_the_choice_is_not(self):
        first, second = 1 / 2.03144, 1 / 2.79742
        loss = first**2 / 2 + first * np.linspace(-12, 12, 200_001)
        p = np.diff(ndtr(loss / first - first / 2))
        loss = loss[:-1]  # rounded down
        stopped = np.maximum(-np.expm1(np.minimum(self.EPSILON - loss, 0)), 0)
        selected = self.SELECTION + (1 - self.SELECTION) * stopped
        more = gauss_delta(second, self.EPSILON - loss)
        assert np.sum(p * selected) < self.DELTA
        assert np.sum(p * more) < self.DELTA
        assert np.sum(p * np.maximum(selected, more)) > 1.15 * self.DELTA

    @pytest.mark.parametrize("share", [0.0, 0.1, SELECTION_SHARE, 0.5, 0.9, 0.99, 0.991, 0.999, 1.0])
    def test_not_both_paths_are_allowed(self, share):
        shares = shares_for(self.EPSILON, self.DELTA, share)
        state = FilterState.start(shares).try_charge(Charge(PrivacyProfile(self.FIRST)))
        selected = Charge(PrivacyProfile(OSGT.gaussian(1e6)), self.SELECTION)
        more = Charge(PrivacyProfile(self.SECOND))
        both = state is not None and all(state.fits(charge) for charge in (selected, more))
        assert not both
