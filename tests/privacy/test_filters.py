"""The union of filters: what it allows, what it refuses, and that its states can be kept and proved again."""

import json
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from filter_oracles import gauss_delta
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import logsumexp

from charges import gaussian, laplace, osgt
from osgt import OSGT, DiscreteOSGT, PrivacyProfile, calibrate
from osgt.privacy import Charge, NoisyPart
from osgt.privacy.filters import costs, residue, union
from osgt.privacy.filters.budget import SELECTION_SHARE, Shares, shares_for
from osgt.privacy.filters.union import FilterState

BUDGETS = [(1.0, 1e-6), (3.0, 1e-6), (10.0, 1e-8), (0.1, 1e-9)]


def continuous(sigma, coordinates=1):
    return Charge(PrivacyProfile(OSGT.gaussian(sigma), coordinates=coordinates))


def stands(shares, charges):
    """The state after these charges, all of which must be allowed."""
    state = FilterState.start(shares)
    for charge in charges:
        state = state.try_charge(charge)
        assert state is not None
    return state


def some_charge(generator, epsilon, delta):
    """A release of some kind that takes a few hundredths of a budget."""
    scale = generator.uniform(10, 50) / epsilon
    coordinates = int(generator.integers(1, 9))
    selection = float(generator.choice([0.0, 1e-3 * delta]))
    match generator.integers(4):
        case 0:
            return laplace(1 / scale, selection)
        case 1:
            return gaussian(2 * scale, coordinates, selection)
        case 2:
            return continuous(2 * scale, coordinates)
        case _:
            return osgt(generator.uniform(0.1, 3) * scale * 2, scale * 2, coordinates, selection)


class TestShares:
    @pytest.mark.parametrize("share", [0.0, 0.1, SELECTION_SHARE, 1 / 3, 0.9, 1.0])
    @pytest.mark.parametrize(("epsilon", "delta"), [*BUDGETS, (1.0, 0.0), (1.0, 1e-290)])
    def test_they_add_up_to_no_more_than_delta(self, epsilon, delta, share):
        shares = shares_for(epsilon, delta, share)
        total = sum(map(Fraction, (shares.gaussian, shares.renyi, shares.selection, shares.few, shares.basic)))
        assert total <= Fraction(delta)
        assert total >= Fraction(delta) * (1 - Fraction(1, 10**12))
        assert share * delta <= shares.selection <= share * delta * (1 + 2e-9)
        assert shares.gaussian == pytest.approx(4 * shares.renyi, rel=1e-12)
        assert "-0.0" not in (plain := json.dumps(shares.to_dict()))
        assert Shares.from_dict(json.loads(plain)) == shares

    def test_shares_that_exceed_delta_are_not_read(self):
        plain = shares_for(1.0, 1e-6).to_dict()
        plain["gaussian"] *= 1.01
        with pytest.raises(ValueError, match="add up to more"):
            Shares.from_dict(plain)

    def test_wrong_selection_share(self):
        with pytest.raises(ValueError, match="selection_share must be"):
            shares_for(1.0, 1e-6, 1.1)
        with pytest.raises(ValueError, match="selection_share must be"):
            shares_for(1.0, 1e-6, -0.1)


class TestBasic:
    @pytest.mark.parametrize("delta", [0.0, 1e-8])
    def test_largest_losses_fill_epsilon_to_the_last_bit(self, delta):
        shares = shares_for(3.0, delta, 0.0)
        assert FilterState.start(shares).how_many(laplace(0.5)) == 6

    @pytest.mark.parametrize(("each", "count"), [(0.1, 10), (0.2, 5), (0.05, 20), (1 / 3, 3)])
    def test_sums_of_decimals(self, each, count):
        """Ten times 0.1 exceeds 1 as a sum of floats by 5.6e-17; a δ of no more than that is set aside for it."""
        shares = shares_for(1.0, 1e-9)
        assert FilterState.start(shares).how_many(laplace(each)) >= count
        assert math.fsum([each] * count) - 1.0 <= shares.basic

    def test_a_pure_budget_takes_pure_noise_only(self):
        shares = shares_for(1.0, 0.0)
        state = stands(shares, [laplace(0.25)] * 4)
        assert state.share == 1
        for charge in (laplace(1e-9), gaussian(1e9), laplace(0.1, 1e-30)):
            assert not state.fits(charge)
        assert not FilterState.start(shares).fits(gaussian(1e9))
        assert not FilterState.start(shares).fits(laplace(0.1, 1e-30))

    @pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
    @pytest.mark.parametrize("parts", [1, 2, 5, 30])
    def test_never_beaten_by_the_sum_of_epsilons(self, epsilon, delta, parts):
        shares = shares_for(epsilon, delta)
        assert FilterState.start(shares).how_many(laplace(epsilon / parts)) >= parts


class TestFew:
    def test_an_estimate_that_is_hardly_too_small_is_not_taken(self, monkeypatch):
        profile, share = PrivacyProfile(DiscreteOSGT(30, 20)), 1e-8
        estimate = profile.epsilon(1.0005 * share) / (1 + 2 * costs._SLACK)
        monkeypatch.setattr(costs, "epsilon_roughly", lambda *_: estimate)
        costs._exact.cache_clear()
        assert profile.delta(costs._exact(profile, share)) <= share

    @pytest.mark.parametrize("charge", [osgt(20, 25, 3), gaussian(3.0, 5), continuous(3.0, 2), osgt(5, 5, 40)])
    def test_what_is_proved_keeps_its_share(self, charge):
        for share in (1e-12, 3e-8, 1e-5, 1e-3):
            found = costs._exact(charge.profile, share)
            assert charge.profile.delta(found, slack=costs._SLACK) <= share
            assert charge.profile.delta(found * (1 - 1e-2)) > share

    @pytest.mark.parametrize("charge", [osgt(20, 25, 3), laplace(0.3), gaussian(3.0, 5), continuous(3.0), osgt(5, 5)])
    @pytest.mark.parametrize("earlier", [0, 3])
    def test_epsilons_are_those_of_the_profile_rounded_up(self, charge, earlier):
        found = costs.release_epsilon(charge.profile.parts, 1e-7, 1e-24, earlier)
        exact = float(charge.profile.epsilon(1e-7 / 2 ** (1 + earlier), slack=1e-6))
        assert exact <= found * (1 + 1e-6)
        assert found <= exact * 1.03

    def test_small_losses(self):
        """Where δ is a small difference of large masses."""
        profile = PrivacyProfile(OSGT.laplace(1e7), coordinates=4)
        found = costs.release_epsilon(profile.parts, 1e-12, 1e-29, 0)
        assert float(profile.epsilon(5e-13)) <= found <= float(profile.epsilon(5e-13)) * 1.01 + 2e-13

    @pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (3.0, 1e-6)])
    @pytest.mark.parametrize("coordinates", [8])
    @pytest.mark.parametrize("count", [1, 2])
    def test_a_budget_takes_releases_of_all_its_epsilon(self, epsilon, delta, coordinates, count):
        """One release that uses the whole ε, or two with half of it, calibrated to a two-hundredth of δ."""
        noise = calibrate(epsilon / count, delta / 200, coordinates=coordinates)
        shares = shares_for(epsilon, delta)
        charge = Charge(PrivacyProfile(noise, coordinates=coordinates), delta / 1000)
        assert FilterState.start(shares).how_many(charge) >= count

    def test_no_more_than_a_few(self):
        shares = shares_for(3.0, 1e-6)
        state = stands(shares, [laplace(0.001)] * 30)
        assert state.count == 30  # largest losses need no δ
        state = stands(shares, [gaussian(1000.0)] * 30)
        assert (state.few, state.count) == (None, costs.MOST_FEW)


class TestRenyi:
    def test_the_limit_converts_to_delta(self):
        """By the formula of Canonne, Kamath and Steinke, written out."""
        shares = shares_for(3.0, 1e-6)
        limit, alpha = costs.renyi_limit(3.0, shares.renyi, shares.order), 1 + shares.order
        delta = math.exp((alpha - 1) * (limit - 3.0)) / (alpha - 1) * (1 - 1 / alpha) ** alpha
        assert shares.renyi * (1 - 1e-6) < delta <= shares.renyi

    @pytest.mark.parametrize("charge", [osgt(20, 25, 3), laplace(0.3), gaussian(2.0, 5), continuous(3.0)])
    def test_divergences_are_those_of_the_profile_rounded_up(self, charge):
        exact = float(charge.profile.renyi(5.5))
        assert exact < costs.renyi_divergence(charge.profile.parts, 4.5) <= exact * (1 + 1e-6)

    def test_the_discrete_gaussian_by_the_continuous_formula(self):
        """It bounds the sum over the integers from above, at a σ where they differ."""
        part = NoisyPart(DiscreteOSGT.gaussian(0.4), 1, 1)
        y = np.arange(-60.0, 61.0)
        log_p, log_q = -(y**2) / 0.32, -((y + 1) ** 2) / 0.32
        exact = float(logsumexp(5.5 * log_p - 4.5 * log_q) - logsumexp(log_p)) / 4.5
        assert exact < costs.renyi_divergence((part,), 4.5)

    @pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
    def test_the_order_is_near_the_best_for_gaussian_noise(self, epsilon, delta):
        order = costs.best_order(epsilon, delta)
        most = costs.renyi_limit(epsilon, delta, order) / (1 + order)
        assert all(costs.renyi_limit(epsilon, delta, o) / (1 + o) <= most * (1 + 1e-3) for o in np.geomspace(0.01, 1e4))

    def test_a_large_release_that_only_this_filter_allows(self):
        """What the residue will not take because its total variation is too large; then the residue stays dead."""
        shares = shares_for(1.0, 1e-6)
        state = stands(shares, [osgt(12.0, 9.0)])
        assert state.mu is None
        assert state.unbounded == 1
        later = state.try_charge(osgt(1200.0, 900.0))
        assert later is not None
        assert later.mu is None


class TestSequences:
    @pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
    def test_gaussian_releases_lose_nothing_but_the_shares(self, epsilon, delta):
        shares = shares_for(epsilon, delta, 0.0)
        mu = brentq(lambda m: float(gauss_delta(m, epsilon)) - 0.76 * delta, 1e-3 * epsilon, 3 * epsilon, xtol=1e-12)
        sigma = 9.5 / mu
        count = FilterState.start(shares).how_many(continuous(sigma))
        assert count == math.floor((mu * sigma) ** 2 * (1 - 1e-4)) == 90
        # On the integers: the last one or two, no more. The scale is large against the shift, or nearly so.
        discrete = FilterState.start(shares).how_many(gaussian(sigma))
        assert count - 2 <= discrete <= count

    @pytest.mark.parametrize("seed", range(8))
    def test_random_sequences_are_within_the_budget_by_exact_composition(self, seed):
        """All releases that were allowed, had they been planned: δ of their exact composition is at most δ."""
        generator = np.random.default_rng(seed)
        epsilon, delta = BUDGETS[seed % len(BUDGETS)]
        shares = shares_for(epsilon, delta, 0.1)
        state, stood, refused = FilterState.start(shares), [], 0
        while refused < 3 and len(stood) < 80:
            charge = some_charge(generator, epsilon, delta)
            moved = state.try_charge(charge)
            refused += moved is None
            if moved is not None:
                assert union.follows(state, charge, moved)
                state, stood = moved, [*stood, charge]
        total = Charge.compose(stood)
        assert total.delta(epsilon, slack=1e-3) <= delta
        assert total.delta(0.7 * epsilon, slack=1e-3) > delta  # and it is used

    @pytest.mark.parametrize("charge", [osgt(133, 100, 8), gaussian(30, 4), laplace(0.1)])
    def test_nearly_as_many_as_exact_composition(self, charge):
        shares = shares_for(3.0, 1e-6, 0.0)
        count = FilterState.start(shares).how_many(charge)
        assert Charge.compose([charge] * count).delta(3.0) <= 1e-6
        enough = math.ceil(count / 0.84)
        assert Charge.compose([charge] * enough).delta(3.0) > 1e-6

    def test_how_many_stops_at_the_most(self):
        shares = shares_for(3.0, 1e-6)
        assert FilterState.start(shares).how_many(gaussian(1000), most=7) == 7


class TestSelection:
    def test_the_quota_is_never_exceeded(self):
        shares = shares_for(3.0, 1e-6, 0.1)
        charge = laplace(0.01, 1e-8)
        assert FilterState.start(shares).how_many(charge) == 10
        state = stands(shares, [charge] * 10)
        assert state.selection >= 1e-7 * (1 - 1e-12)
        assert not state.fits(laplace(0.01, 1e-15))
        assert state.fits(laplace(0.01))

    def test_no_quota_no_selection(self):
        shares = shares_for(3.0, 1e-6, 0.0)
        assert not FilterState.start(shares).fits(laplace(0.01, 1e-20))

    def test_a_release_with_the_share_of_the_whole_delta_fits(self):
        """Of a release at the whole δ, a share of `selection_share` is the whole quota; so are ten of a tenth."""
        for delta in (1e-6, 3e-7, 1e-9):
            shares = shares_for(1.0, delta, 0.1)
            start = FilterState.start(shares)
            assert start.how_many(laplace(0.1, 0.1 * delta)) == 1
            assert start.how_many(laplace(0.01, 0.1 * (delta / 10))) == 10


class TestCancellation:
    CHARGES = (laplace(0.2, 1e-9), gaussian(20, 2), osgt(50, 40, 3, 1e-9))

    def test_the_last_charge_is_taken_back_entirely(self):
        shares = shares_for(3.0, 1e-6)
        before = stands(shares, self.CHARGES)
        after = before.try_charge(osgt(9, 9))
        assert after.without_charge(osgt(9, 9), before) == before

    def test_one_in_between_leaves_the_sums_but_not_the_residue(self):
        shares = shares_for(3.0, 1e-6)
        whole = stands(shares, self.CHARGES)
        without = stands(shares, [self.CHARGES[0], self.CHARGES[2]])
        state = whole.without_charge(self.CHARGES[1], None)
        assert (state.mu, state.few, state.count) == (whole.mu, whole.few, whole.count)
        sums = ("pure", "unbounded", "renyi", "selection")
        assert all(getattr(state, name) == getattr(without, name) for name in sums)

    def test_a_filter_that_died_of_it_lives_again(self):
        shares = shares_for(1.0, 0.0)
        before = stands(shares, [laplace(0.5)])
        assert before.try_charge(gaussian(1e9)) is None
        shares = shares_for(1.0, 1e-6)
        before = FilterState.start(shares)
        after = before.try_charge(osgt(12.0, 9.0))
        assert after.mu is None
        assert after.without_charge(osgt(12.0, 9.0), before) == before

    def test_replay(self):
        shares = shares_for(3.0, 1e-6)
        assert union.add_all(shares, self.CHARGES) == stands(shares, self.CHARGES)
        assert union.add_all(shares, []) == FilterState.start(shares)
        # Whether or not they would be allowed: a budget may have been lowered.
        over = union.add_all(shares, [*self.CHARGES, gaussian(0.5), laplace(9.0)])
        assert not over.fits(laplace(1e-6))
        assert over.share == 1


class TestProvedAgain:
    SHARES = shares_for(3.0, 1e-6)

    def test_beginnings(self):
        start = FilterState.start(self.SHARES)
        assert union.begins(start)
        assert union.begins(FilterState.from_dict({**start.to_dict(), "mu": start.mu * (1 + 1e-14)}, self.SHARES))
        assert not union.begins(FilterState.from_dict({**start.to_dict(), "mu": start.mu * (1 + 1e-6)}, self.SHARES))
        assert not union.begins(FilterState.from_dict({**start.to_dict(), "renyi": "-1"}, self.SHARES))

    @pytest.mark.parametrize("charge", [laplace(0.2, 1e-9), gaussian(20, 2), osgt(50, 40, 3), continuous(9)])
    def test_forgeries(self, charge):
        before = stands(self.SHARES, [osgt(50, 40, 2)])
        after = before.try_charge(charge)
        assert union.follows(before, charge, after)
        plain = after.to_dict()
        price = before.mu**2 - after.mu**2
        forged = [
            {"pure": str(after.pure - Fraction(1, 10**9))},
            {"unbounded": after.unbounded - 1},
            {"renyi": str(after.renyi - (after.renyi - before.renyi) / 10**6)},
            {"renyi": str(before.renyi)},
            {"mu": math.sqrt(before.mu**2 - 0.995 * price)},
            {"mu": before.mu},
            {"few": str(before.few)},
            {"few": str(after.few - (after.few - before.few) / 10**6)},
            {"count": before.count},
            {"selection": str(after.selection - Fraction(1, 10**15))},
        ]
        for values in forged:
            assert not union.follows(before, charge, FilterState.from_dict({**plain, **values}, self.SHARES)), values
        # Other machines' last digits.
        for values in ({"mu": after.mu * (1 - 1e-13)}, {"renyi": str(after.renyi + Fraction(1, 10**16))}):
            assert union.follows(before, charge, FilterState.from_dict({**plain, **values}, self.SHARES))

    @pytest.mark.parametrize("charge", [laplace(0.2, 1e-9), gaussian(20, 2), osgt(50, 40, 3)])
    def test_what_a_sum_is_without_a_proof(self, charge):
        """A state that is better by a millionth of the charge is not even plausible, nor the sum of its charges."""
        before = FilterState.start(self.SHARES)
        after = before.try_charge(charge)
        cheapest = before.mu**2 - float(2 * after.renyi) / (1 + self.SHARES.order)
        assert union.plausible(before, charge, after)
        assert union.is_same(after, after)
        assert union.plausible(before, charge, replace(after, mu=math.sqrt(cheapest * (1 - 1e-6))))
        better = [
            replace(after, renyi=after.renyi * (1 - Fraction(1, 10**6))),
            replace(after, few=after.few * (1 - Fraction(1, 10**6))),
            replace(after, mu=math.sqrt(cheapest * (1 + 1e-6))),
            replace(after, selection=after.selection - Fraction(1, 10**15)),
        ]
        for forged in better:
            assert not union.plausible(before, charge, forged)
        for name in ("renyi", "few", "mu"):
            for factor, same in ((1e-9, True), (1e-5, False), (-1e-5, False)):
                other = Fraction(getattr(after, name)) * (1 + Fraction(factor))
                moved = replace(after, **{name: float(other) if name == "mu" else other})
                assert union.is_same(moved, after) == same

    def test_forged_cancellations(self):
        charge = osgt(50, 40, 2)
        before = FilterState.start(self.SHARES)
        state = before.try_charge(charge)
        for known in (before, None):
            after = state.without_charge(charge, known)
            assert union.follows_cancellation(state, charge, known, after)
            for values in ({"renyi": "-1/1000"}, {"mu": before.mu * 1.01}, {"unbounded": -1}, {"pure": "-1"}):
                forged = FilterState.from_dict({**after.to_dict(), **values}, self.SHARES)
                assert not union.follows_cancellation(state, charge, known, forged)

    def test_a_charge_beyond_the_budget_does_not_follow(self):
        before = FilterState.start(self.SHARES)
        charge = gaussian(0.5)
        assert not before.fits(charge)
        after = union.add_all(self.SHARES, [charge])
        assert not union.follows(before, charge, after)
        selected = laplace(0.01, 9e-7)
        assert not union.follows(before, selected, union.add_all(self.SHARES, [selected]))

    def test_a_dead_residue_stays_dead(self):
        before = stands(self.SHARES, [osgt(50, 40, 2)])
        after = before.try_charge(gaussian(20))
        for name in ("mu", "few"):
            dead = FilterState.from_dict({**before.to_dict(), name: None}, self.SHARES)
            assert not union.follows(dead, gaussian(20), after)


class TestStates:
    @settings(max_examples=60)
    @given(
        pure=st.fractions(0, 10),
        unbounded=st.integers(0, 10**6),
        few=st.none() | st.floats(0, 9).map(Fraction),
        renyi=st.floats(1e-300, 1e9).map(Fraction),
        mu=st.none() | st.floats(1e-12, 20.0),
        selection=st.floats(0, 0.9).map(Fraction),
    )
    def test_json_and_back(self, pure, unbounded, few, renyi, mu, selection):
        shares = shares_for(3.0, 1e-6)
        state = FilterState(shares, pure, unbounded, few, unbounded, renyi, mu, selection)
        assert FilterState.from_dict(json.loads(json.dumps(state.to_dict(), allow_nan=False)), shares) == state

    def test_the_size_does_not_grow(self):
        shares = shares_for(3.0, 1e-6)
        state = stands(shares, [osgt(700 + i, 900, 2, 1e-12) for i in range(40)])
        assert len(json.dumps(state.to_dict())) < 300

    def test_results_do_not_depend_on_what_was_computed_before(self):
        def clear():
            for cached in (
                residue.price,
                residue._comparison,
                costs.loss_of,
                costs.renyi_divergence,
                costs.release_epsilon,
            ):
                cached.cache_clear()

        shares = shares_for(3.0, 1e-6)
        charges = [osgt(50, 40, 3), laplace(0.1), gaussian(15, 2), osgt(50, 40, 3), laplace(0.1)]
        clear()
        first = stands(shares, charges)
        first.how_many(laplace(0.1))
        second = stands(shares, charges)
        clear()
        assert first == second == stands(shares, charges)

    @settings(max_examples=40)
    @given(
        shape=st.floats(0.0, 5.0),
        scale=st.floats(1.0, 40.0),
        coordinates=st.integers(1, 12),
        factor=st.floats(1.02, 4.0),
        earlier=st.integers(0, 3),
    )
    def test_more_noise_is_allowed_whenever_less_is(self, shape, scale, coordinates, factor, earlier):
        shares = shares_for(3.0, 1e-6)
        state = stands(shares, [osgt(20, 15)] * earlier)
        noise = DiscreteOSGT(shape * scale, scale)
        larger = DiscreteOSGT.from_rates(noise.slope / factor, noise.curvature / factor**2)
        less, more = (Charge(PrivacyProfile(n, coordinates=coordinates)) for n in (noise, larger))
        allowed = state.try_charge(less)
        if allowed is not None:
            with_more = state.try_charge(more)
            assert with_more is not None
            assert (with_more.mu or 0) >= (allowed.mu or 0)
            assert with_more.renyi <= allowed.renyi

    @pytest.mark.parametrize(
        "noise",
        [
            DiscreteOSGT.gaussian(1e-3),
            DiscreteOSGT.gaussian(1e12),
            DiscreteOSGT.from_rates(1e-12, 0.0),
            DiscreteOSGT.from_rates(50.0, 0.0),
            OSGT.laplace(1e9),
            OSGT(1e-6, 1e-3),
            OSGT(1e9, 1e6),
            DiscreteOSGT(1e5, 1e3),
        ],
        ids=repr,
    )
    @pytest.mark.parametrize(("epsilon", "delta"), [*BUDGETS, (1e-9, 1e-12), (1e6, 1e-6), (1.0, 1e-290), (1.0, 0.5)])
    def test_extremes(self, epsilon, delta, noise):
        """No budget and no release ends in an error, and what is allowed is within the budget."""
        shares = shares_for(epsilon, delta)
        charge = Charge(PrivacyProfile(noise, coordinates=3))
        state = FilterState.start(shares).try_charge(charge)
        if state is not None:
            assert union.follows(FilterState.start(shares), charge, state)
            assert charge.delta(epsilon) <= delta
        state = state or FilterState.start(shares)
        assert 0 <= state.share <= 1
        assert 0 <= state.figures()[0] <= epsilon


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_each_filter_alone_ends_at_its_limit(epsilon, delta):
    """A sum that is a little below its limit is allowed, a little above it is not; the others have died."""
    shares = shares_for(epsilon, delta)
    alone = replace(FilterState.start(shares), few=None, mu=None, unbounded=1)
    # The Rényi limit, by the conversion as it stands in the paper.
    alpha = 1 + shares.order
    limit = epsilon + (math.log(shares.renyi) + math.log(alpha - 1) - alpha * math.log1p(-1 / alpha)) / (alpha - 1)
    assert union.alive(replace(alone, renyi=Fraction(limit * (1 - 1e-6))))
    assert not union.alive(replace(alone, renyi=Fraction(limit * (1 + 1e-6))))
    pure = replace(alone, unbounded=0, renyi=Fraction(10**6))
    assert union.alive(replace(pure, pure=Fraction(epsilon)))
    assert not union.alive(replace(pure, pure=Fraction(epsilon) * (1 + Fraction(1, 10**4))))
    full = replace(FilterState.start(shares), selection=Fraction(shares.selection))
    assert full.try_charge(laplace(epsilon / 100)) is not None
    assert full.try_charge(laplace(epsilon / 100, shares.selection * 1e-6)) is None


def test_what_is_told():
    shares = shares_for(3.0, 1e-6)
    start = FilterState.start(shares)
    assert (start.share, start.figures()) == (0.0, (0.0, 0.0))
    state = stands(shares, [continuous(10.0)] * 20)
    assert state.share == pytest.approx(0.2 / residue.start(3.0, shares.gaussian) ** 2, rel=1e-6)
    assert Charge.compose([continuous(10.0)] * 20).epsilon(1e-6) < state.figures()[0] < 3
    assert stands(shares, [laplace(0.25)] * 4).figures()[0] == pytest.approx(1, rel=1e-6)


def test_the_curve_of_the_oracle():
    assert float(gauss_delta(0.7, 0.3)) == pytest.approx(float(residue.curve(0.7, np.array([0.3]))[0][0]), rel=1e-12)
