"""Brackets of δ: the true value, by another method, lies between the two bounds, and they are close."""

import math

import numpy as np
import pytest
from privacy_oracles import contour_delta, enumerated_delta, gaussian_delta, theorem_1

from osgt import OSGT, DiscreteOSGT, PrivacyProfile
from osgt.privacy import composition
from osgt.privacy.loss_distribution import gather
from osgt.privacy.pair import Pair


def profile_of(parts):
    return PrivacyProfile.compose([PrivacyProfile(*part) for part in parts])


@pytest.mark.parametrize(
    ("parts", "epsilon"),
    [
        ([(OSGT(15, 630**0.5), 1, 8)], 0.9),
        ([(OSGT(3, 40**0.5), 1, 3)], 1.5),
        ([(OSGT(20, 30), 1, 4), (OSGT(5, 60), 2, 5)], 0.6),
        ([(OSGT(40, 50), 1, 1000)], 2.0),
    ],
)
def test_smooth_losses(parts, epsilon):
    lower, upper = profile_of(parts).delta_interval(epsilon)
    exact = contour_delta(parts, epsilon)
    assert lower <= exact * (1 + 1e-9)
    assert exact * (1 - 1e-9) <= upper
    assert lower >= upper * (1 - 5e-4)


@pytest.mark.parametrize("seed", range(8))
def test_integer_noise_at_its_atoms_and_between(seed):
    """Against all outcomes of one to three unlike coordinates; ε is a sum of losses, hardly off one, or anywhere."""
    rng = np.random.default_rng(seed)
    parts = []
    for _ in range(rng.integers(1, 3)):
        slope, curvature = rng.uniform(0.2, 1.0), rng.choice([0.0, rng.uniform(0.01, 0.5)])
        parts.append((DiscreteOSGT.from_rates(slope, curvature), int(rng.integers(1, 4)), int(rng.integers(1, 3))))
    if sum(n for _, _, n in parts) == 1:
        parts.append((DiscreteOSGT.laplace(1.5), 1, 1))
    profile = profile_of(parts)
    atom = sum(n * Pair(noise, shift).kink for noise, shift, n in parts)
    for epsilon in (atom, atom * (1 - 1e-9), 0.3 * atom, 0.61803 * atom):
        lower, upper = profile.delta_interval(epsilon)
        exact = enumerated_delta(parts, epsilon)
        assert lower <= exact * (1 + 1e-9) + 1e-19
        assert exact * (1 - 1e-9) - 1e-19 <= upper
        if exact > 1e-12:
            assert lower >= 0.99 * upper


@pytest.mark.parametrize("noise", [OSGT(3, 7), OSGT.laplace(2), OSGT.gaussian(4), OSGT(10, 100)])
def test_one_coordinate(noise):
    lower, upper = PrivacyProfile(noise).delta_interval(0.1)
    assert lower <= theorem_1(noise, 1, 0.1) <= upper
    assert lower >= upper * (1 - 1e-10)


@pytest.mark.parametrize(("sigma", "coordinates", "epsilon"), [(20, 8, 0.5), (20, 8, 3.0), (300, 10**4, 1.0)])
def test_gaussian_coordinates_by_the_engine(sigma, coordinates, epsilon):
    """The engine on equal Gaussian coordinates, which a profile would take as one."""
    exact = float(gaussian_delta(math.sqrt(coordinates) / sigma, epsilon))
    pair = Pair(OSGT.gaussian(sigma), 1.0)
    lower = composition.delta_below([pair], [coordinates], epsilon, 1e-4, exact)
    assert exact * (1 - 1e-3) <= lower <= exact * (1 + 1e-9)


def test_all_losses_of_laplace_noise():
    """Two coordinates of scale 1: L is 2, 0 or -2 for the atoms and between for the rest; δ(ε) by integration."""
    profile = PrivacyProfile(OSGT.laplace(1.0), coordinates=2)
    for epsilon in (1.0, 1.9, 2 - 1e-6):
        lower, upper = profile.delta_interval(epsilon)
        # Density of one loss between -1 and 1: exp((l - 1)/2)/4; atoms 1/2 at 1 and exp(-1)/2 at -1.
        loss = np.linspace(epsilon - 1, 1, 200_001)
        one = 0.25 * np.exp((loss - 1) / 2)
        mixed = np.trapezoid(2 * 0.5 * one * -np.expm1(epsilon - 1 - loss), loss)
        inner = np.linspace(epsilon, 2, 20_001)
        density = (2 - inner) * np.exp((inner - 2) / 2) / 16
        both = np.trapezoid(density * -np.expm1(epsilon - inner), inner)
        exact = 0.25 * -math.expm1(epsilon - 2) + mixed + both
        assert lower * (1 - 1e-7) <= exact <= upper * (1 + 1e-7)
        assert lower >= upper * (1 - 5e-4)
    assert profile.delta_interval(2.0) == (0.0, 0.0)


def test_gathered_groups_are_dominated():
    """Each P-mass on a grid point came with as much Q-mass as the point says: both add up to no more than there was."""
    rng = np.random.default_rng(3)
    losses, p = rng.normal(0.1, 1.0, 400), rng.dirichlet(np.ones(400))
    law, log_factor = gather(np.log(p), losses, 0.05, 2.0)
    points = (law.start + np.arange(len(law.masses))) * law.step
    masses = law.masses * np.exp(log_factor - 2.0 * points)
    assert masses.sum() == pytest.approx(1.0, rel=1e-12)
    for epsilon in np.linspace(-2, 3, 101):
        true = np.sum(p * np.maximum(-np.expm1(epsilon - losses), 0.0))
        ours = np.sum(masses * np.maximum(-np.expm1(epsilon - points), 0.0))
        assert ours <= true * (1 + 1e-12) + 1e-15
        assert ours >= true - 2e-3


class TestEpsilon:
    @pytest.mark.parametrize("delta", [1e-3, 1e-8, 1e-30])
    @pytest.mark.parametrize(
        "parts",
        [
            [(OSGT(15, 630**0.5), 1, 8)],
            [(OSGT(20, 30), 1, 4), (OSGT(5, 60), 2, 5)],
            [(OSGT(40, 50), 1, 1000)],
        ],
    )
    def test_delta_is_too_large_at_the_lower_end_and_small_enough_at_the_upper(self, parts, delta):
        """By another method, a contour integral: the least ε lies between the ends, and they are close."""
        lower, upper = profile_of(parts).epsilon_interval(delta)
        assert 0 < lower <= upper
        assert contour_delta(parts, lower) >= delta * (1 - 1e-9)
        assert contour_delta(parts, upper) <= delta * (1 + 1e-9)
        assert upper - lower <= 2e-4 * upper

    @pytest.mark.parametrize("noise", [OSGT(3, 7), OSGT(10, 100), OSGT.laplace(2)])
    def test_one_coordinate(self, noise):
        lower, upper = PrivacyProfile(noise).epsilon_interval(1e-3)
        assert theorem_1(noise, 1, upper) * (1 - 1e-12) <= 1e-3 <= theorem_1(noise, 1, lower) * (1 + 1e-12)
        assert upper - lower <= 1e-8 * upper

    @pytest.mark.parametrize("sigma", [0.5, 3.0, 40.0])
    def test_gaussian_noise(self, sigma):
        lower, upper = PrivacyProfile(OSGT.gaussian(sigma)).epsilon_interval(1e-6)
        assert float(gaussian_delta(1 / sigma, lower)) >= 1e-6 * (1 - 1e-12)
        assert float(gaussian_delta(1 / sigma, upper)) <= 1e-6 * (1 + 1e-12)
        assert upper - lower <= 1e-9 * upper

    @pytest.mark.parametrize("seed", range(4))
    def test_integer_noise(self, seed):
        rng = np.random.default_rng(seed)
        parts = [(DiscreteOSGT.from_rates(*rng.uniform(0.2, 0.8, 2)), 1, int(rng.integers(1, 4)))]
        for delta in (0.1, 1e-3):
            lower, upper = profile_of(parts).epsilon_interval(delta)
            assert lower == 0 or enumerated_delta(parts, lower) >= delta * (1 - 1e-9)
            assert enumerated_delta(parts, upper) <= delta * (1 + 1e-9)

    def test_pure(self):
        laplace = PrivacyProfile(OSGT.laplace(3.0), coordinates=7)
        lower, upper = laplace.epsilon_interval(0)
        assert lower <= 7 / 3 <= upper <= math.nextafter(lower, 9)
        assert PrivacyProfile(OSGT.gaussian(2)).epsilon_interval(0) == (math.inf, math.inf)

    def test_a_delta_that_needs_no_epsilon(self):
        assert PrivacyProfile(OSGT.gaussian(2)).epsilon_interval(0.9) == (0.0, 0.0)

    def test_a_delta_below_the_floats(self):
        lower, upper = PrivacyProfile(OSGT.gaussian(2)).epsilon_interval(1e-320)
        assert 10 < lower < upper

    def test_a_bound_that_is_not_one_would_be_seen(self):
        """The same check fails for an ε that is a thousandth too large."""
        parts = [(OSGT(15, 630**0.5), 1, 8)]
        lower, _ = profile_of(parts).epsilon_interval(1e-8)
        assert contour_delta(parts, lower * 1.001) < 1e-8 * (1 - 1e-9)


def test_infinite_or_negative_epsilon_is_refused():
    with pytest.raises(ValueError, match="epsilon must be"):
        PrivacyProfile(OSGT(3, 7)).delta_interval(-1.0)
