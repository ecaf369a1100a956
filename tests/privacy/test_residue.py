"""The Gaussian residue: what is left dominates what is claimed, at every ε, by oracles that share nothing with it."""

import math

import mpmath
import numpy as np
import pytest
from filter_oracles import atoms, followed_by_gauss, gauss_delta
from hypothesis import given, settings
from hypothesis import strategies as st

from osgt import OSGT, DiscreteOSGT, PrivacyProfile
from osgt.privacy import NoisyPart
from osgt.privacy.filters import costs, residue

EPSILON, DELTA = 3.0, 8e-7

RELEASES = {
    "discrete Laplace": [(DiscreteOSGT.from_rates(0.15, 0.0), 1, 1)],
    "Laplace": [(OSGT.laplace(8.0), 1.0, 1)],
    "Laplace, shift 3": [(DiscreteOSGT.from_rates(0.03, 0.0), 3, 1)],
    "discrete Gaussian": [(DiscreteOSGT.gaussian(20.0), 1, 1)],
    "coarse Gaussian": [(DiscreteOSGT.gaussian(3.5), 1, 1)],
    "OSGT": [(OSGT(9.0, 7.0), 1.0, 1)],
    "discrete OSGT": [(DiscreteOSGT(9.0, 7.0), 1, 1)],
    "eight coordinates": [(DiscreteOSGT(40.0, 30.0), 1, 8)],
    "two parts": [(DiscreteOSGT(40.0, 30.0), 1, 3), (DiscreteOSGT.from_rates(0.01, 0.0), 5, 2)],
    "small": [(DiscreteOSGT(500.0, 400.0), 1, 2)],
}


def profile_parts(release):
    return tuple(NoisyPart(*part) for part in release)


def excess(release, mu, left):
    """The largest of δ of the release and Gauss(left) over that of Gauss(μ), less 1, over ε of both signs."""
    epsilon = np.concatenate([np.linspace(-6 * mu, 6 * mu + mu**2 / 2, 121), np.linspace(0, mu, 41)])
    return float(np.max(followed_by_gauss(release, left, epsilon) / gauss_delta(mu, epsilon))) - 1


class TestGauss:
    @pytest.mark.parametrize("mu", [1e-7, 1e-3, 0.05, 0.3, 0.69, 0.71, 2.0, 9.0, 20.0])
    def test_against_fifty_digits(self, mu):
        """Cancellation between its two terms costs nothing, and neither do the derivatives."""
        epsilon = np.concatenate([np.linspace(-9, 9, 13) * mu, mu**2 / 2 + np.linspace(-9, 12, 12) * mu])
        found = residue.curve(mu, epsilon)
        with mpmath.workdps(50):
            m = mpmath.mpf(mu)
            for i, value in enumerate(map(mpmath.mpf, map(float, epsilon))):
                y = value / m - m / 2
                b, c = mpmath.exp(value) * mpmath.ncdf(-y - m), mpmath.npdf(y) / m
                delta = mpmath.ncdf(-y) - b
                expected = (delta, -b, c - b, c - b - c * y / m)
                sizes = (delta, b, b + c, b + c + c * abs(y) / m)
                for row, right, size in zip(found, expected, sizes, strict=True):
                    assert abs(row[i] - right) <= 2e-13 * size

    @pytest.mark.parametrize("mu", [0.05, 0.7, 3.0])
    def test_the_fourth_derivative_is_bounded_all_around(self, mu):
        epsilon = np.linspace(-8 * mu, 8 * mu, 41)
        reach = 0.02 * mu
        bound = residue.bound_fourth(mu, epsilon, reach)
        for offset in np.linspace(-reach, reach, 9):
            h = 1e-3 * mu
            third = [residue.curve(mu, epsilon + offset + sign * h)[3] for sign in (-1, 1)]
            assert np.all(np.abs(third[1] - third[0]) / (2 * h) <= bound * (1 + 1e-3))


class TestReleaseLoss:
    @pytest.mark.parametrize("name", RELEASES)
    def test_it_dominates_and_hardly_exceeds(self, name):
        """As a distribution of the loss of its own: δ at every ε is not below that of the exact composition."""
        release = RELEASES[name]
        loss = costs.loss_of(profile_parts(release), 1e-22)
        profile = PrivacyProfile.of(profile_parts(release))
        assert loss.beyond < 1e-20
        spread = math.sqrt(float(np.sum(loss.masses * loss.losses**2)))
        for epsilon in np.linspace(0, 4 * spread, 9):
            u = np.maximum(loss.losses - epsilon, 0.0)
            ours = float(np.sum(loss.masses * -np.expm1(-u))) + loss.beyond
            exact = float(profile.delta(epsilon, slack=1e-7))
            assert ours >= exact * (1 - 1e-6) - 1e-18
            # By at most half the variance that a grid of 32 steps in the standard deviation adds.
            assert ours <= exact * 1.02 + 2e-3 * spread

    def test_masses_are_right_far_out(self):
        """Relative to themselves: 64 coordinates, at masses of 1e-25, against a sum of logarithms."""
        loss = costs.loss_of((NoisyPart(DiscreteOSGT.from_rates(0.05, 0.0), 1, 64),), 1e-40)
        # Two-valued losses: binomial. All are ±0.05, and the sum is 0.05·(2·ups - 64).
        for ups in (60, 62, 64):
            log_tail = [
                math.lgamma(65) - math.lgamma(k + 1) - math.lgamma(65 - k) + 0.05 * k - 64 * math.log1p(math.exp(0.05))
                for k in range(ups, 65)
            ]
            exact = math.fsum(map(math.exp, log_tail))
            above = float(np.sum(loss.masses[loss.losses > 0.05 * (2 * ups - 65)])) + loss.beyond
            assert exact * 0.99 < above < exact * 3.0

    def test_none_for_more_coordinates_than_the_rounding_allows(self):
        assert costs.loss_of((NoisyPart(DiscreteOSGT(30, 40), 1, 2**53),), 1e-12) is None

    def test_none_for_losses_beyond_any_budget(self):
        assert costs.loss_of((NoisyPart(DiscreteOSGT.gaussian(0.02), 1, 1),), 1e-22) is None
        assert costs.loss_of((NoisyPart(DiscreteOSGT.from_rates(1.0, 0.0), 1, 400),), 1e-22) is None


class TestStart:
    @pytest.mark.parametrize(("epsilon", "delta"), [(0.01, 1e-9), (1, 1e-6), (3, 1e-6), (10, 1e-8), (1, 1e-100)])
    def test_it_is_the_largest(self, epsilon, delta):
        mu = residue.start(epsilon, delta)
        assert 0.998 * delta < float(gauss_delta(mu, epsilon)) < 0.9991 * delta

    def test_none_where_there_is_no_use_for_one(self):
        assert residue.start(1.0, 0.0) is None
        assert residue.start(1e5, 1e-6) is None


class TestAfter:
    @pytest.mark.parametrize("share", [1.0, 0.5])
    @pytest.mark.parametrize("name", RELEASES)
    def test_dominated_at_every_epsilon_and_hardly_more_could_be_left(self, name, share):
        """The claim itself; and with a price that is 1 % smaller the oracle finds an ε where it fails."""
        release = RELEASES[name]
        mu = residue.start(EPSILON, DELTA) * share
        left = residue.after(mu, profile_parts(release), EPSILON, DELTA)
        price = mu**2 - left**2
        accuracy = 1e-4 * price / mu**2  # of the oracle, which puts losses on a grid of its own
        assert excess(release, mu, left) <= accuracy
        assert excess(release, mu, math.sqrt(mu**2 - 0.985 * price)) > 2 * accuracy

    @settings(max_examples=15)
    @given(
        shape=st.floats(0.0, 4.0),
        scale=st.floats(2.0, 25.0),
        discrete=st.booleans(),
        coordinates=st.integers(1, 4),
        share=st.floats(0.2, 1.0),
    )
    def test_random_releases(self, shape, scale, discrete, coordinates, share):
        noise = (DiscreteOSGT if discrete else OSGT)(shape * scale, scale)
        mu = residue.start(EPSILON, DELTA) * share
        left = residue.after(mu, (NoisyPart(noise, 1, coordinates),), EPSILON, DELTA)
        if left is None:
            return
        price = mu**2 - left**2
        assert price > 0.9 * coordinates / noise.var() * 0.5
        assert excess([(noise, 1, coordinates)], mu, left) <= max(1e-4 * price / mu**2, 1e-9)

    @pytest.mark.parametrize("coordinates", [1, 7])
    def test_gaussian_noise_takes_exactly_its_own(self, coordinates):
        mu = residue.start(EPSILON, DELTA)
        part = NoisyPart(OSGT.gaussian(20.0), 3.0, coordinates)
        left = residue.after(mu, (part,), EPSILON, DELTA)
        assert left**2 == pytest.approx(mu**2 - coordinates * 9 / 400, rel=1e-15)
        assert residue.after(0.05, (part,), EPSILON, DELTA) is None

    def test_gaussian_and_other_parts_together(self):
        mu = residue.start(EPSILON, DELTA)
        release = [(OSGT.gaussian(10.0), 1.0, 2), (DiscreteOSGT(9.0, 7.0), 1, 1)]
        left = residue.after(mu, profile_parts(release), EPSILON, DELTA)
        between = residue.after(mu, profile_parts(release[:1]), EPSILON, DELTA)
        assert left == residue.after(between, profile_parts(release[1:]), EPSILON, DELTA)

    def test_the_discrete_gaussian_is_not_taken_for_the_continuous_one(self):
        """At σ = 0.8 its total variation is much larger; what would be left of the other is not valid."""
        release = [(DiscreteOSGT.gaussian(0.8), 1, 1)]
        mu = 1.3
        epsilon, delta = 10.0, 1e-6
        left = residue.after(mu, profile_parts(release), epsilon, delta)
        wrong = math.sqrt(mu**2 - 1 / 0.64)
        assert left is None or left < wrong
        assert excess(release, mu, wrong) > 1e-3

    def test_a_price_holds_at_every_larger_mu(self):
        """On which the row of μ relies."""
        release = RELEASES["discrete Laplace"]
        low = residue.start(EPSILON, DELTA) * 0.5
        price = low**2 - residue.after(low, profile_parts(release), EPSILON, DELTA) ** 2
        for factor in (1.001, 1.1, 1.5, 2.0):
            mu = low * factor
            assert excess(release, mu, math.sqrt(mu**2 - price)) <= 1e-6

    def test_what_is_left_grows_with_mu(self):
        parts = profile_parts(RELEASES["discrete OSGT"])
        first = residue.start(EPSILON, DELTA)
        left = [residue.after(first * x, parts, EPSILON, DELTA) for x in np.linspace(0.6, 1.0, 60)]
        assert np.all(np.diff(left) > 0)

    def test_proofs_of_others(self):
        parts = profile_parts(RELEASES["OSGT"])
        mu = residue.start(EPSILON, DELTA)
        left = residue.after(mu, parts, EPSILON, DELTA)
        price = mu**2 - left**2
        assert residue.is_valid(mu, left, parts, EPSILON, DELTA)
        assert residue.is_valid(mu, 0.9 * left, parts, EPSILON, DELTA)
        assert not residue.is_valid(mu, math.sqrt(mu**2 - 0.99 * price), parts, EPSILON, DELTA)
        assert not residue.is_valid(mu, mu, parts, EPSILON, DELTA)


def test_the_oracle_knows_the_two_valued_loss():
    losses, masses = atoms(DiscreteOSGT.from_rates(0.3, 0.0))
    assert np.allclose(np.abs(losses), 0.3)
    assert np.sum(masses[losses > 0]) == pytest.approx(1 / (1 + math.exp(-0.3)))
