"""The privacy of the rounded Gaussian: never more loss than the Gaussian mechanism, whatever way a change is spread."""

import math
from functools import reduce

import numpy as np
import pytest
from scipy.special import ndtr

from osgt import OSGT, DiscreteOSGT, Mechanism, PrivacyProfile
from osgt.calibration import Part, calibrate_parts
from osgt.calibration.search import ends_of_family
from osgt.noise import RoundedGaussian
from osgt.privacy import Charge, NoisyPart

SIGMA = 2.0
EPSILONS = [0.0, 0.3, 1.0, 2.0]
VECTORS = [(3,), (2, 2), (2, 1), (1, 1, 1)]
STEPS = 2**30


def gaussian_delta(mu, epsilon):
    """Φ(μ/2 - ε/μ) - exp(ε)·Φ(-μ/2 - ε/μ)."""
    return float(ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu))


def delta_by_sum(law, vector, epsilon):
    """Σ max(P - exp(ε)·Q, 0) over all outcomes of all coordinates."""
    y = np.arange(-26, 30)
    moved = reduce(np.multiply.outer, [law.pmf(y - z) for z in vector])
    unmoved = reduce(np.multiply.outer, [law.pmf(y) for _ in vector])
    return float(np.sum(np.maximum(moved - math.exp(epsilon) * unmoved, 0.0)))


@pytest.mark.parametrize("vector", VECTORS)
def test_enumerated_loss_is_at_most_the_gaussian_one(vector):
    norm = math.sqrt(sum(z * z for z in vector))
    for epsilon in EPSILONS:
        enumerated = delta_by_sum(RoundedGaussian(SIGMA), vector, epsilon)
        gaussian = gaussian_delta(norm / SIGMA, epsilon)
        assert 0.9 * gaussian < enumerated <= gaussian * (1 + 1e-14)  # (3,) attains it at ε = 0
        assert PrivacyProfile(RoundedGaussian(SIGMA), norm).delta(epsilon) == pytest.approx(gaussian, rel=1e-12)
        assert PrivacyProfile.l2(RoundedGaussian(SIGMA), norm, len(vector)).delta(epsilon) >= enumerated


def test_the_discrete_gaussian_is_not_dominated():
    """The power of the test above: the usual noise on the integers fails it."""
    for vector, epsilon, ratio in (
        ((3,), 0.0, 1.0088),
        ((2, 2), 0.3, 1.0052),
        ((2, 1), 2.0, 1.0109),
        ((1, 1, 1), 2.0, 1.0257),
    ):
        mu = math.sqrt(sum(z * z for z in vector)) / SIGMA
        enumerated = delta_by_sum(DiscreteOSGT.gaussian(SIGMA), vector, epsilon)
        assert enumerated / gaussian_delta(mu, epsilon) == pytest.approx(ratio, abs=5e-5)


def test_the_mu_of_a_budget_and_the_length_of_eight_rows():
    for delta, mu in ((1e-8, 0.196066560), (1e-6, 0.236704381)):
        [noise] = calibrate_parts(1, delta, [Part(STEPS, euclidean=True)])
        assert STEPS / noise.sigma == pytest.approx(mu, rel=3e-9)
        assert gaussian_delta(STEPS / noise.sigma, 1.0) <= delta * (1 + 1e-9)
    [noise] = calibrate_parts(1, 1e-8, [Part(STEPS, euclidean=True)])
    assert noise.sigma / (STEPS // 8) == pytest.approx(40.80, abs=5e-3)


def test_a_charge_holds_the_gaussian_before_rounding():
    noise = RoundedGaussian(5.476e9)
    part = NoisyPart(noise, STEPS, 1)
    assert part == NoisyPart(OSGT.gaussian(5.476e9), STEPS, 1)
    assert part.noise.curvature == noise.potential.curvature
    charge = Charge(PrivacyProfile(noise, STEPS))
    assert Charge.from_dict(charge.to_dict()) == charge
    assert "rounded" not in str(charge.to_dict())
    # The norm of a change need not be whole.
    assert PrivacyProfile(noise, math.sqrt(2) * STEPS).delta(1.0) > charge.delta(1.0)


def test_composition_is_that_of_the_norms():
    first, second = PrivacyProfile(RoundedGaussian(4), 2), PrivacyProfile(RoundedGaussian(8), 3)
    assert (first + second).delta(0.5) == pytest.approx(gaussian_delta(math.hypot(2 / 4, 3 / 8), 0.5), rel=1e-9)
    assert PrivacyProfile(RoundedGaussian(4), 2, 9).delta(0.5) == pytest.approx(gaussian_delta(1.5, 0.5), rel=1e-9)


@pytest.mark.parametrize(
    "others",
    [[Part(STEPS)], [Part(STEPS), Part(STEPS)], [Part(1, 3), Part(math.sqrt(2) * STEPS, euclidean=True)]],
    ids=["rows", "two of rows", "another length"],
)
def test_calibrated_with_other_parts(others):
    parts = [*others, Part(STEPS, euclidean=True)]
    noises = calibrate_parts(1, 1e-8, parts)
    assert [isinstance(noise, RoundedGaussian) for noise in noises] == [part.euclidean for part in parts]
    profile = PrivacyProfile.compose(
        PrivacyProfile(noise, part.shift, part.coordinates) for noise, part in zip(noises, parts, strict=True)
    )
    assert 0.999e-8 < profile.delta(1.0) <= 1e-8


def test_on_the_reals_it_is_the_gaussian():
    [noise] = calibrate_parts(1, 1e-6, [Part(2.5, euclidean=True)], discrete=False)
    assert isinstance(noise, OSGT)
    assert gaussian_delta(2.5 / noise.std(), 1.0) == pytest.approx(1e-6, rel=1e-5)


def test_there_is_no_pure_privacy_for_it():
    parts = [Part(STEPS), Part(STEPS, euclidean=True)]
    with pytest.raises(ValueError, match="delta must be above 0"):
        calibrate_parts(1, 0, parts)
    assert list(ends_of_family(1, 1e-6, parts)) == ["gaussian", "laplace"]
    assert PrivacyProfile(RoundedGaussian(4)).epsilon(0) == math.inf


def test_so_little_noise_that_it_is_refused():
    with pytest.raises(ValueError, match=r"sigma must be at least 0\.25 .* count in finer steps"):
        calibrate_parts(1000, 1e-8, [Part(1, euclidean=True)])


def test_in_a_mechanism():
    mechanism = Mechanism.of(RoundedGaussian(30), shift=3, coordinates=4)
    assert mechanism.noise == RoundedGaussian(30)
    assert mechanism.profile.delta(0.5) == pytest.approx(gaussian_delta(6 / 30, 0.5), rel=1e-9)
    assert mechanism.release([5, 6]).dtype == np.int64
