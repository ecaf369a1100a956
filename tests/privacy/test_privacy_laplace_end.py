"""Discrete Laplace noise with unit shift has the losses ±slope alone: compositions are binomial sums, known exactly."""

import math

import mpmath as mp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from osgt import DiscreteOSGT, PrivacyProfile


def exact_delta(slope, coordinates, epsilon):
    with mp.workdps(60):
        slope, epsilon = mp.mpf(slope), mp.mpf(epsilon)
        up = 1 / (1 + mp.exp(-slope))
        least = max(0, int(mp.floor((epsilon / slope + coordinates) / 2)))
        total = mp.mpf(0)
        for k in range(least, coordinates + 1):
            loss = slope * (2 * k - coordinates)
            if loss > epsilon:
                mass = mp.binomial(coordinates, k) * up**k * (1 - up) ** (coordinates - k)
                total += mass * -mp.expm1(epsilon - loss)
        return total


def profile(slope, coordinates):
    return PrivacyProfile(DiscreteOSGT.from_rates(slope, 0.0), 1, coordinates)


@settings(max_examples=60)
@given(
    log_slope=st.floats(math.log(1e-9), math.log(8.0)),
    coordinates=st.sampled_from([1, 2, 3, 5, 8, 30, 100]),
    log_gap=st.floats(math.log(1e-11), 0.0),
)
def test_never_below_the_truth_however_close_to_the_pure_loss(log_slope, coordinates, log_gap):
    slope = math.exp(log_slope)
    epsilon = coordinates * slope * -math.expm1(log_gap) if log_gap < 0 else 0.0
    truth = exact_delta(slope, coordinates, epsilon)
    if truth > 1e-300:
        assert mp.mpf(float(profile(slope, coordinates).delta(epsilon))) >= truth


@pytest.mark.parametrize(
    ("slope", "coordinates", "epsilon"),
    [
        (6.933668677025846, 3, 20.80100595990569),  # 5e-9 below the pure loss
        (0.5, 3, 1.5 * (1 - 1e-9)),
        (8.42e-6, 2, 1.0874233541790424e-05),  # noise of a scale of 10⁵: rounding of the tails
        (1.22e-4, 5, 0.0),
        (1.383e-5, 5, 0.999994 * 5 * 1.383e-5),
        (1e-7, 10_000, 2e-5),
        (1e-10, 10_000, 3.6e-8),
    ],
)
def test_close_to_the_truth_in_the_hardest_cases(slope, coordinates, epsilon):
    bound, truth = mp.mpf(float(profile(slope, coordinates).delta(epsilon))), exact_delta(slope, coordinates, epsilon)
    assert truth <= bound <= 1.01 * truth


@pytest.mark.parametrize(("scale", "coordinates"), [(2.0, 2), (2.0, 8), (5.0, 4), (2.0, 30), (24.0, 24)])
@pytest.mark.parametrize("delta", [1e-12, 1e-15, 1e-300])
def test_epsilon_does_not_overspend(scale, coordinates, delta):
    law = DiscreteOSGT.laplace(scale)
    epsilon = PrivacyProfile(law, 1, coordinates).epsilon(delta)
    assert exact_delta(law.slope, coordinates, epsilon) <= delta


class TestDifferentScales:
    """Of several Laplace noises nothing but the largest loss of all lies above an ε that is next to it."""

    PARTS = ((8.0, 1, 3), (900.0, 50, 2), (3e6, 10**5, 2))

    def profile(self):
        return PrivacyProfile.compose(PrivacyProfile(DiscreteOSGT.laplace(b), shift, n) for b, shift, n in self.PARTS)

    def exact(self, epsilon):
        with mp.workdps(60):
            slopes = [(mp.mpf(DiscreteOSGT.laplace(b).slope), shift, n) for b, shift, n in self.PARTS]
            largest = mp.fsum(n * shift * slope for slope, shift, n in slopes)
            assert largest - min(slope for slope, _, _ in slopes) < epsilon < largest
            return -mp.expm1(epsilon - largest) / mp.fprod((1 + mp.exp(-slope)) ** n for slope, _, n in slopes)

    @pytest.mark.parametrize("distance", [3e-7, 1e-8, 1e-10, 1e-12])
    def test_delta(self, distance):
        epsilon = float(self.profile().epsilon(0.0)) - distance
        bound, truth = mp.mpf(float(self.profile().delta(epsilon))), self.exact(epsilon)
        assert truth <= bound <= 1.001 * truth

    @pytest.mark.parametrize("delta", [1e-9, 1e-11, 1e-13])
    def test_epsilon(self, delta):
        assert 0.999 * delta <= self.exact(float(self.profile().epsilon(delta))) <= delta


def test_bounds_do_not_vanish():
    """What is not pure has no δ of zero, by whichever method."""
    law = DiscreteOSGT(3, 5)
    assert PrivacyProfile(law).delta_from_renyi(60.0) > 0
    assert PrivacyProfile.l2(law, 1.0, 2).delta(60.0) > 0


def test_a_trade_off_far_out_is_a_lower_bound():
    assert PrivacyProfile(DiscreteOSGT.gaussian(1.0), 50, 2).tradeoff(0.01) == 0
