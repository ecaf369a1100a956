"""What steers a search must be near what `calibrate` and `PrivacyProfile` say."""

import pytest

from osgt import OSGT, DiscreteOSGT, PrivacyProfile, calibrate
from osgt.calibration import Part
from osgt.calibration.search import calibrate_roughly
from osgt.privacy.estimate import epsilon_roughly


@pytest.mark.parametrize(
    ("epsilon", "delta", "coordinates"),
    [(2.2, 1e-7, 8), (1.0, 1e-6, 32), (0.3, 1e-8, 8), (0.5, 1e-6, 1), (2.0, 1e-8, 2)],
)
def test_noise_of_about_the_same_size_and_shape(epsilon, delta, coordinates):
    exact = calibrate(epsilon, delta, coordinates=coordinates)
    (rough,) = calibrate_roughly(epsilon, delta, [Part(1, coordinates)])
    assert rough.std() == pytest.approx(exact.std(), rel=0.01)
    shapes = [0.0 if noise.curvature == 0 else 1 / (1 + noise.shape) for noise in (exact, rough)]
    assert shapes[1] == pytest.approx(shapes[0], abs=0.05)


@pytest.mark.parametrize("delta", [1e-9, 1e-5])
@pytest.mark.parametrize(
    "profile",
    [
        PrivacyProfile(DiscreteOSGT(30, 20), coordinates=8),
        PrivacyProfile(OSGT.gaussian(4.0), coordinates=3),
        PrivacyProfile(DiscreteOSGT.laplace(0.4)),
        PrivacyProfile(DiscreteOSGT(5, 3)),
        PrivacyProfile(DiscreteOSGT.laplace(6.0), coordinates=4),
        PrivacyProfile(OSGT.gaussian(1e4)),
    ],
)
def test_about_the_same_epsilon(profile, delta):
    assert epsilon_roughly(profile, delta) == pytest.approx(profile.epsilon(delta), rel=0.01, abs=1e-6)
