"""Estimates of δ steer searches: they must be near what is proved, whatever the noise."""

import math

import numpy as np
import pytest

from osgt import OSGT, DiscreteOSGT, PrivacyProfile
from osgt.privacy.estimate import Estimate
from osgt.privacy.pair import Pair
from quartic import QUARTIC


def estimated(profile, epsilon, log_delta):
    return Estimate(*profile.pairs(), log_delta).log_delta(epsilon)


@pytest.mark.parametrize(
    ("profile", "epsilon"),
    [
        (PrivacyProfile(OSGT(15, 630**0.5), coordinates=8), 0.9),
        (PrivacyProfile(OSGT(15, 630**0.5), coordinates=2), 0.2),
        (PrivacyProfile(OSGT.laplace(20), coordinates=16), 0.47),
        (PrivacyProfile(OSGT.laplace(8), coordinates=8), 0.9995),
        (PrivacyProfile(DiscreteOSGT.laplace(1.3), coordinates=5), 3.0),
        (PrivacyProfile(DiscreteOSGT(2, 3), shift=2, coordinates=4), 2.5),
        (PrivacyProfile(DiscreteOSGT(40, 20), coordinates=100), 4.0),
        (PrivacyProfile(DiscreteOSGT.gaussian(300), shift=7, coordinates=10**5), 60.0),
        (PrivacyProfile(OSGT(4000, 5000), coordinates=10**6), 1.0),
        (PrivacyProfile(OSGT(1, 1), shift=50), 2600.0),
        (PrivacyProfile(OSGT(30, 40), coordinates=3) + PrivacyProfile(DiscreteOSGT.laplace(9), 2, 2), 0.7),
        (PrivacyProfile(QUARTIC.member(0.5, 6.0, discrete=True), coordinates=6), 1.1),
    ],
    ids=repr,
)
def test_near_what_is_proved(profile, epsilon):
    proved = math.log(profile.delta(epsilon))
    assert estimated(profile, epsilon, proved) == pytest.approx(proved, abs=0.01)
    assert Estimate(*profile.pairs(), proved).epsilon(proved) == pytest.approx(epsilon, rel=2e-3)


def test_one_coordinate_is_exact():
    profile = PrivacyProfile(DiscreteOSGT(5, 3))
    assert estimated(profile, 0.7, -10.0) == math.log(profile.delta(0.7))


def test_nothing_beyond_the_largest_loss():
    assert estimated(PrivacyProfile(OSGT.laplace(4.0), coordinates=3), 0.76, -10.0) < -30


@pytest.mark.parametrize("noise", [OSGT(3, 7), OSGT.gaussian(2), OSGT.laplace(5), OSGT.from_rates(1e-7, 1e-16)])
@pytest.mark.parametrize("shift", [1e-3, 1.0, 400.0])
def test_positions_in_closed_form_and_by_search(noise, shift):
    pair = Pair(noise, shift)
    losses = pair.kink * np.concatenate([[0.0], np.geomspace(1e-9, 0.999, 60), np.geomspace(1.001, 50, 60)])
    losses = losses[losses < pair.largest_loss]
    found = pair.position(losses)
    assert np.all(np.abs(pair.loss(found) - losses) <= 1e-15 * (losses + pair.kink))
    np.testing.assert_allclose(found, pair._upper_position(losses), rtol=1e-9, atol=1e-9 * shift)
    np.testing.assert_array_equal(pair.position(-losses[1:]), -shift - found[1:])
