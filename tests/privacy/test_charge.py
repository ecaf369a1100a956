"""Charges: what is stored is what is read back, and together they are the composition of their parts."""

import json
import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osgt import OSGT, DiscreteOSGT, PrivacyProfile
from osgt.privacy import Charge

laws = st.builds(
    lambda cls, slope, curvature: cls.from_rates(slope, curvature),
    st.sampled_from([OSGT, DiscreteOSGT]),
    st.floats(1e-3, 2),
    st.floats(1e-6, 1),
)
profiles = st.builds(PrivacyProfile, laws, st.integers(1, 9), st.integers(1, 5))
charges = st.builds(Charge, profiles, st.floats(0, 1e-6))


@given(st.lists(charges, min_size=1, max_size=4))
def test_what_is_stored_is_what_is_read(several):
    charge = Charge.compose(several)
    assert Charge.from_dict(json.loads(json.dumps(charge.to_dict()))) == charge


def test_composition_adds_the_chances_and_composes_the_noise():
    a = Charge(PrivacyProfile(DiscreteOSGT(3, 5), coordinates=2), 1e-9)
    b = Charge(PrivacyProfile(DiscreteOSGT.gaussian(7), 2), 3e-9)
    both = Charge.compose([a, b])
    assert both.profile == a.profile + b.profile
    assert math.fsum([1e-9, 3e-9]) <= both.selection_delta <= 4e-9 * (1 + 1e-12)
    assert both.delta(1.0) == pytest.approx((a.profile + b.profile).delta(1.0) + 4e-9)


@given(st.lists(st.floats(0, 1e-3), min_size=1, max_size=50))
def test_the_sum_of_chances_is_never_rounded_down(chances):
    profile = PrivacyProfile(DiscreteOSGT(3, 5))
    composed = Charge.compose([Charge(profile, chance) for chance in chances])
    assert Fraction(composed.selection_delta) >= sum(map(Fraction, chances))


def test_epsilon_leaves_room_for_the_selection():
    charge = Charge(PrivacyProfile(DiscreteOSGT(3, 5), coordinates=2), 1e-9)
    assert charge.epsilon(1e-8) == charge.profile.epsilon(1e-8 - 1e-9)
    assert charge.epsilon(1e-10) == math.inf
    assert charge.delta(charge.epsilon(1e-8)) <= 1e-8


@pytest.mark.parametrize("selection", [-1e-9, 1.0, math.nan, "1e-9"])
def test_a_chance_is_a_probability(selection):
    with pytest.raises((ValueError, TypeError), match="selection_delta"):
        Charge(PrivacyProfile(DiscreteOSGT(3, 5)), selection)


@pytest.mark.parametrize("plain", [{}, {"parts": [], "selection_delta": 0}, {"parts": [{"noise": "x"}]}, {"parts": 3}])
def test_what_is_no_charge_is_refused(plain):
    with pytest.raises(ValueError, match="not a stored charge"):
        Charge.from_dict(plain)
