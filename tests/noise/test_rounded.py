"""The rounded Gaussian against differences of normal tails in many digits."""

import json
from fractions import Fraction

import flint
import numpy as np
import pytest
from law_oracle import mp, relative_error

from osgt import DiscreteOSGT
from osgt.estimation.sums import ManySum
from osgt.noise import RoundedGaussian, on_integers, read, scaled, written
from osgt.noise.error import Combination, reach_of
from osgt.noise.integer import RoundedPotential

SIGMAS = [0.25, 0.3, 1, 2, 37.5, 1e6, 1e10]


class Oracle:
    """P[Y = y] = Q((y - ½)/σ) - Q((y + ½)/σ), in 150 digits."""

    def __init__(self, law):
        self.curvature = mp.mpf(law.potential.curvature)

    def upper(self, y):
        """P[σ·N > y]."""
        return mp.erfc(mp.mpf(y) * mp.sqrt(self.curvature / 2)) / 2

    def pmf(self, k):
        k = abs(int(k))
        return self.upper(k - mp.mpf("0.5")) - self.upper(k + mp.mpf("0.5"))

    def sf(self, k):
        return self.upper(int(k) + mp.mpf("0.5"))

    def cdf(self, k):
        return self.sf(-int(k) - 1)

    def potential(self, k):
        return mp.log(self.pmf(0) / self.pmf(k))

    def moment(self, power):
        """E|Y| or E[Y²]: sums of tails, or of Gaussian integrals by Poisson's formula where there are too many."""
        sigma = 1 / mp.sqrt(self.curvature)
        if sigma < 100:
            return 2 * mp.fsum((2 * k + 1) ** (power - 1) * self.sf(k) for k in range(int(12 * sigma) + 4))
        # Terms that are left out are below 1/σ⁴ of it.
        return sigma**2 + mp.mpf(1) / 12 if power == 2 else mp.sqrt(2 / mp.pi) * sigma * (1 - 1 / (24 * sigma**2))


@pytest.fixture(params=SIGMAS, ids=str)
def law(request):
    return RoundedGaussian(request.param)


@pytest.fixture
def exact(law):
    return Oracle(law)


def places(law):
    """Integers in the middle, in the tail, and where c·y passes 1."""
    sigma = law.sigma
    return sorted({int(y) for y in (0, 1, 2, 3, 5, sigma / 3, sigma, 2.5 * sigma, 8 * sigma, 30 * sigma, 1 + sigma**2)})


@pytest.mark.parametrize("name", ["pmf", "sf", "cdf"])
def test_functions(law, exact, name):
    k = [k for k in places(law) if k <= 30 * law.sigma + 5]
    k = np.array([*(-x for x in k), *k], dtype=np.float64)
    for value, log, x in zip(getattr(law, name)(k), getattr(law, f"log{name}")(k), k, strict=True):
        want = getattr(exact, name)(x)
        # A probability p is exact to about -log p units in the last place, its logarithm to one or two.
        assert relative_error(value, want) < 1e-15 * (1 - mp.log(want))
        assert abs(log - mp.log(want)) < 1e-15 * (1 - mp.log(want))


def test_potential_is_as_exact_as_the_sampler_needs(law, exact):
    k = [k for k in places(law) if 0 < k < 1e5 * law.sigma]
    got = law.potential(np.array(k, dtype=np.float64))
    assert relative_error(got, [exact.potential(y) for y in k]) < 2.0**-50


@pytest.mark.parametrize("precision", [64, 200])
def test_balls_contain_the_exact_value(law, exact, precision):
    for y in (y for y in places(law) if y <= 30 * law.sigma + 5):
        with flint.ctx.workprec(precision):
            ball = law.potential.ball(y)
        with flint.ctx.workprec(600), mp.workdps(150):
            middle = mp.mpf(int(ball.mid().man_exp()[0])) * mp.mpf(2) ** int(ball.mid().man_exp()[1])
            radius = mp.mpf(str(ball.rad().str(20, radius=False))) * (1 + mp.mpf(10) ** -15)
            assert abs(middle - exact.potential(y)) <= radius
            assert radius <= (1 + exact.potential(y)) ** 2 * mp.mpf(2) ** (8 - precision)


def test_moments(law, exact):
    assert relative_error([law.var(), law.mean_abs()], [exact.moment(2), exact.moment(1)]) < 1e-14
    if law.sigma >= 1:
        assert law.var() == pytest.approx(law.sigma**2 + 1 / 12, rel=2e-8)


@pytest.mark.parametrize("q", [0.4, 0.025, 1e-6, 1e-15])
def test_quantiles_are_the_least_integers(law, exact, q):
    k = int(law.isf(q))
    assert law.ppf(q) == -k
    # Beyond 2⁵³/100 integers are closer together than probabilities in floats.
    slack = 1 + 1e-13 * law.sigma
    assert exact.sf(k + int(slack)) <= q < exact.sf(k - 1 - int(slack))
    if law.sigma < 1e5:
        assert exact.sf(k) <= q < exact.sf(k - 1)


def test_the_ends_of_the_line():
    law = RoundedGaussian(1e10)
    np.testing.assert_array_equal(law.isf([0, 1, 0.5, np.nan]), [np.inf, -np.inf, 0, np.nan])
    np.testing.assert_array_equal(law.sf([-np.inf, np.inf, np.nan]), [1, 0, np.nan])
    np.testing.assert_array_equal(law.logpmf([0.5, np.inf]), [-np.inf, -np.inf])


def test_log_concave(law):
    """P[y]² ≥ P[y - 1]·P[y + 1]: in exact balls, since for large σ floats do not tell the steps apart."""
    with flint.ctx.workprec(400):
        for y in {1, 2, 3, int(law.sigma), int(3 * law.sigma), int(7 * law.sigma)} - {0}:
            before, here, after = (law.potential.ball(k) for k in (y - 1, y, y + 1))
            assert before + after > 2 * here
            assert here > before


def test_derivatives_and_hazard():
    """By differences of the potential, and by a plain sum over a fine grid."""
    for sigma in (0.3, 2.0, 37.5):
        potential, y = RoundedGaussian(sigma).potential, np.array([0.4, 1.0, 3.0]) * max(sigma, 1)
        h = 1e-4 * max(sigma, 1)
        first, second, third, *_ = potential.derivatives(y)
        np.testing.assert_allclose(first, (potential(y + h) - potential(y - h)) / (2 * h), rtol=1e-6)
        ahead, behind = potential.derivatives(y + h), potential.derivatives(y - h)
        for k, derivative in enumerate((second, third)):
            np.testing.assert_allclose(derivative, (ahead[k] - behind[k]) / (2 * h), rtol=1e-6, atol=1e-9)
        for start in y:
            step = 2e-4 * sigma
            grid = start + step * (np.arange(60_000) + 0.5)
            integral = step * np.sum(np.exp(potential(np.asarray(start)) - potential(grid)))
            assert potential.hazard(np.asarray(start)) == pytest.approx(1 / integral, rel=1e-6)


def test_written_and_read(law):
    plain = json.loads(json.dumps(written(law)))
    assert plain == {"family": "rounded_gaussian", "discrete": True, "curvature": law.potential.curvature}
    again = read(plain)
    assert again == law
    assert type(again) is RoundedGaussian
    assert law != DiscreteOSGT.gaussian(law.sigma)
    assert on_integers(scaled(law, 3.0)).sigma == pytest.approx(3 * law.sigma)
    for change in ({"discrete": False}, {"discrete": 1}, {"curvature": 0.0}, {"curvature": 17.0}, {"slope": 0.0}):
        with pytest.raises((TypeError, ValueError)):
            read(plain | change)


@pytest.mark.parametrize("sigma", [0.24, 1e-200, 1e200, 0, -1, float("nan"), float("inf")])
def test_scales_that_are_refused(sigma):
    with pytest.raises(ValueError, match="must be"):
        RoundedGaussian(sigma)
    with pytest.raises(TypeError, match="sigma must be"):
        RoundedGaussian("1")


def test_more_noise_than_can_be_drawn():
    with pytest.raises(ValueError, match="too large to be drawn"):
        RoundedGaussian(1e17).sample()


class TestSums:
    @pytest.mark.parametrize("tail", [1e-3, 1e-9, 1e-17])
    def test_reach(self, law, exact, tail):
        reach = reach_of(law, tail)
        assert exact.sf(int(reach)) <= tail
        assert reach <= 1.002 * float(law.isf(tail)) + 1

    def test_two_of_them_are_exact(self):
        terms = ((Fraction(1), RoundedGaussian(2)), (Fraction(2), RoundedGaussian(1)))
        y = np.arange(-40, 41)
        sums = np.add.outer(y, 2 * y)
        mass = np.outer(terms[0][1].pmf(y), terms[1][1].pmf(y))
        half = Combination(terms).half_width(0.95)
        assert np.sum(mass[np.abs(sums) <= half]) >= 0.95 > np.sum(mass[np.abs(sums) <= half - 1])

    @pytest.mark.parametrize("sigma", [3.0, 5.4e9])
    def test_beside_laplace_noise(self, sigma):
        """On the reals P[|N + L| > h] is an integral; a rounded sum is at most 1 away from it, a grid a few steps."""
        scale = 0.7 * sigma
        terms = ((1, RoundedGaussian(sigma)), (1, DiscreteOSGT.laplace(scale)))
        few, many = Combination(terms).half_width(0.95), ManySum(tuple((c, n, 1) for c, n in terms)).half_width(0.95)

        def outside(h):
            with mp.workdps(20):
                return 2 * mp.quad(
                    lambda y: mp.npdf(y) * _laplace_upper((h / sigma - y) / 0.7), [-9, 0, 1, h / sigma, 3, 9]
                )

        assert outside(few + 2) <= 0.05 <= outside(0.997 * few - 2)
        assert few * (1 - 1e-3) - 1 <= many <= 1.02 * few + 1


def _laplace_upper(x):
    return mp.exp(-x) / 2 if x > 0 else 1 - mp.exp(x) / 2


def test_of_a_potential():
    assert RoundedGaussian.of(RoundedPotential(0.25)) == RoundedGaussian(2)
    assert repr(RoundedGaussian(2)) == "RoundedGaussian(sigma=2)"
