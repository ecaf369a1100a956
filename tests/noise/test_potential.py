"""Potentials: OSGT's own, and another family that joins without a change to the package."""

from fractions import Fraction
from functools import cache

import flint
import numpy as np
import pytest
from law_oracle import TermByTerm, mp, relative_error

from osgt import DiscreteOSGT
from osgt.noise.integer import IntegerDistribution
from osgt.noise.osgt import OffsetPotential
from osgt.noise.potential import RealDistribution
from quartic import QuarticPotential

#: Steep at 0, steep only further out, wide, and narrow although flat at 0.
QUARTICS = [(1.0, 0.1), (0.05, 0.02), (0.01, 1e-9), (0.0, 1e-10), (0.0, 0.1)]


@cache
def quartic_oracle(slope, quartic):
    return TermByTerm(lambda k: mp.mpf(slope) * k + mp.mpf(quartic) * k**4)


@pytest.fixture(params=QUARTICS, ids=str)
def quartic(request):
    return IntegerDistribution(QuarticPotential(*request.param)), quartic_oracle(*request.param)


class TestAnotherFamily:
    @pytest.mark.parametrize("name", ["pmf", "logpmf", "sf", "logsf", "cdf", "logcdf"])
    def test_functions(self, quartic, name):
        law, exact = quartic
        reach = round(3 * float(exact.std()))
        k = np.array([-2 * reach, -reach, -1, 0, 1, 2, 3, reach, 2 * reach])
        assert relative_error(getattr(law, name)(k), [getattr(exact, name)(x) for x in k]) < 1e-10

    @pytest.mark.parametrize("name", ["var", "std", "mean_abs"])
    def test_moments(self, quartic, name):
        law, exact = quartic
        assert relative_error(getattr(law, name)(), getattr(exact, name)()) < 1e-10

    def test_normalised(self, quartic):
        law, exact = quartic
        reach = round(8 * float(exact.std())) + 2
        assert float(np.sum(law.pmf(np.arange(-reach, reach + 1)))) == pytest.approx(1.0, abs=1e-12)

    def test_quantiles(self, quartic):
        law, exact = quartic
        for k in {1, 2, round(2 * float(exact.std()))}:
            q = float((exact.sf(k) + exact.sf(k - 1)) / 2)
            assert law.isf(q) == k
            assert law.ppf(q) == -k


class TestOffsetPotential:
    rates = pytest.mark.parametrize(("slope", "curvature"), [(0.1, 0.3), (0.0, 1e-14), (1 / 3, 0.0), (1e-9, 7e5)])

    @rates
    def test_the_law_hands_it_out(self, slope, curvature):
        potential = DiscreteOSGT.from_rates(slope, curvature).potential
        assert potential == OffsetPotential(slope, curvature)
        assert potential(np.float64(0.0)) == 0.0

    @rates
    @pytest.mark.parametrize("y", [0, 1, 3, 12345, 10**18 + 1])
    @pytest.mark.parametrize("precision", [24, 53, 64, 200])
    def test_balls_contain_the_exact_value(self, slope, curvature, y, precision):
        exact = Fraction(slope) * y + Fraction(curvature) * y**2 / 2
        with flint.ctx.workprec(precision):
            ball = OffsetPotential(slope, curvature).ball(y)
        assert abs(_fraction(ball.mid()) - exact) <= _fraction(ball.rad())
        assert _fraction(ball.rad()) <= exact * Fraction(2) ** (4 - precision)

    @rates
    def test_derivatives_are_the_slopes_of_secants(self, slope, curvature):
        # A parabola's central difference is its derivative, whatever the step.
        potential, y = OffsetPotential(slope, curvature), np.array([1.0, 2.0, 50.0])
        first, second = potential.derivatives(y)
        np.testing.assert_allclose(first, (potential(y + 1) - potential(y - 1)) / 2, rtol=1e-12)
        np.testing.assert_allclose(
            second, potential(y + 1) - 2 * potential(y) + potential(y - 1), rtol=1e-9, atol=1e-13
        )

    @rates
    def test_derivatives_at_0_are_those_from_the_right(self, slope, curvature):
        first, second = OffsetPotential(slope, curvature).derivatives(np.zeros(2))
        np.testing.assert_array_equal(first, [slope, slope])
        np.testing.assert_array_equal(second, [curvature, curvature])

    @pytest.mark.parametrize(("slope", "curvature"), [(0.1, 0.3), (0.0, 0.04), (1 / 3, 0.0), (2.0, 1e-6)])
    def test_hazard_and_moments_by_quadrature(self, slope, curvature):
        potential = OffsetPotential(slope, curvature)

        def integral(power, y=0):
            exponent = mp.mpf(slope) + mp.mpf(curvature) * y
            edges = [0, 1, 5, 20, 100, 400]
            with mp.workdps(30):
                return mp.quad(lambda t: t**power * mp.exp(-exponent * t - mp.mpf(curvature) * t**2 / 2), edges)

        y = np.array([0.0, 1.0, 7.5])
        assert relative_error(potential.hazard(y), [1 / integral(0, float(x)) for x in y]) < 1e-12
        assert relative_error(potential.moments(), [integral(p) / integral(0) for p in (1, 2)]) < 1e-12


#: Members of both families, from one end to the other, and with parameters of very different size.
POTENTIALS = [
    *(OffsetPotential(a, c) for a, c in [(0.1, 0.3), (0.0, 1e-6), (1 / 3, 0.0), (2.0, 1e-9), (1e-9, 0.7)]),
    *(QuarticPotential(a, b) for a, b in [(0.1, 0.3), (0.0, 1e-6), (1 / 3, 0.0), (2.0, 1e-9), (1e-9, 0.7)]),
]


@pytest.mark.parametrize("potential", POTENTIALS, ids=repr)
class TestPromises:
    """What `Potential` promises, and the accounting relies on. For a new family: add its members above."""

    def exact(self, potential, y):
        """U(y) as a fraction."""
        y = Fraction(y)
        first, second = (Fraction(value) for value in vars(potential).values())
        return first * y + second * (y**4 if isinstance(potential, QuarticPotential) else y**2 / 2)

    def test_the_potential_and_its_rise(self, potential):
        for y in (0.0, 1e-3, 1.0, 7.0, 123.456, 1e6):
            assert (
                abs(Fraction(float(potential(np.float64(y)))) - self.exact(potential, y))
                <= self.exact(potential, y) * Fraction(2) ** -50
            )
            for d in (1e-9, 1.0, 3.0, 1e4):
                rise = self.exact(potential, Fraction(y) + Fraction(d)) - self.exact(potential, y)
                found = Fraction(float(potential.rise(np.float64(y), np.float64(d))))
                assert abs(found - rise) <= rise * Fraction(2) ** -50

    def test_tails_are_as_exact_as_promised(self, potential):
        law = RealDistribution(potential)
        with mp.workdps(30):
            whole = _tail(potential, 0.0)
            for y in law.std() * np.array([0.1, 0.7, 1.3, 2.9]):
                log_tail = mp.log(_tail(potential, y) / (2 * whole))
                error = abs(mp.mpf(float(law.logsf(y))) - log_tail)
                assert error <= potential.tail_error * (1 - log_tail)

    def test_scaled(self, potential):
        wide, y = potential.scaled(8.0), np.array([0.0, 1.0, 9.5])
        assert type(wide) is type(potential)
        np.testing.assert_array_equal(wide(8.0 * y), potential(y))  # a power of two: nothing is rounded
        assert wide.largest_slope == potential.largest_slope / 8
        assert wide.moments()[1] == pytest.approx(64 * potential.moments()[1], rel=1e-12)

    def test_the_largest_slope(self, potential):
        far = float(potential.derivatives(np.asarray(1e12))[0])
        if np.isfinite(potential.largest_slope):
            assert far == potential.largest_slope
        else:
            assert float(potential.derivatives(np.asarray(1e14))[0]) > 50 * far

    def test_balls_contain_it(self, potential):
        for y in (0, 1, 17, 10**9 + 7):
            for precision in (30, 64, 200):
                with flint.ctx.workprec(precision):
                    ball = potential.ball(y)
                assert abs(_fraction(ball.mid()) - self.exact(potential, y)) <= _fraction(ball.rad())


def _tail(potential, y):
    """∫ from y on of exp(-U), as an mpmath number."""
    reach = 1e-3
    while float(potential.rise(np.float64(y), np.float64(reach))) < 80:
        reach *= 1.2
    edges = [mp.mpf(float(y)) + mp.mpf(reach) * x / 24 for x in range(25)]
    return mp.quad(lambda t: mp.exp(-_real(potential, t)), edges)


def _real(potential, y):
    """U(y) as an mpmath number."""
    first, second = (mp.mpf(value) for value in vars(potential).values())
    return first * y + second * (y**4 if isinstance(potential, QuarticPotential) else y**2 / 2)


def _fraction(number):
    mantissa, exponent = (int(part) for part in number.man_exp())
    return mantissa * Fraction(2) ** exponent
