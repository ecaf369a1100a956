"""The distributions of osgt.noise a second time, by other methods and in more digits. Nothing here calls the package.

On the reals: closed forms in 150 digits, enough to survive the cancellation at large m/σ, and quadrature.
On the integers: sums term by term in 40 digits, the geometric series at the Laplace end, and plain sums of
millions of floats for large scales.
"""

from functools import cache, cached_property

import mpmath
import numpy as np

mp = mpmath.mp.clone()
mp.dps = 150
short = mpmath.mp.clone()
short.dps = 40


def relative_error(got, want):
    """The largest |got/want - 1|; infinite where `got` has another shape or is not finite."""
    got, want = np.ravel(got), np.ravel(want)
    if got.shape != want.shape or not np.all(np.isfinite(got)):
        return np.inf
    return max(_relative_error(mp.mpf(float(g)), w) for g, w in zip(got, want, strict=True))


def _relative_error(got, want):
    return float(abs(got - want) / abs(want)) if want else float(abs(got))


class RealOracle:
    """Density ∝ exp(-slope·|y| - curvature·y²/2) in closed form, as mpmath numbers."""

    def __init__(self, slope, curvature):
        self.slope, self.curvature = mp.mpf(slope), mp.mpf(curvature)
        if self.curvature:
            self.sigma = 1 / mp.sqrt(self.curvature)
            self.shape = self.slope * self.sigma
            self.half = self.sigma * _upper(self.shape) / mp.npdf(self.shape)
        else:
            self.half = 1 / self.slope

    def _tail(self, y):
        if self.curvature:
            return _upper(self.shape + y / self.sigma) / (2 * _upper(self.shape))
        return mp.exp(-self.slope * y) / 2

    def logpdf(self, y):
        y = abs(mp.mpf(y))
        return -self.slope * y - self.curvature * y**2 / 2 - mp.log(2 * self.half)

    def pdf(self, y):
        return mp.exp(self.logpdf(y))

    def sf(self, y):
        y = mp.mpf(y)
        return self._tail(y) if y >= 0 else 1 - self._tail(-y)

    def logsf(self, y):
        y = mp.mpf(y)
        return mp.log(self._tail(y)) if y >= 0 else mp.log1p(-self._tail(-y))

    def cdf(self, y):
        return self.sf(-y)

    def logcdf(self, y):
        return self.logsf(-y)

    def isf(self, q, near):
        """The only root of sf(y) = q, by Newton's method from `near`; fails where that is not close."""
        q, y = mp.mpf(q), mp.mpf(near)
        for _ in range(5):
            y += (self.sf(y) - q) / self.pdf(y)
        assert abs(self.sf(y) / q - 1) < 1e-60
        return y

    def mean_abs(self):
        return (1 / self.half - self.slope) / self.curvature if self.curvature else 1 / self.slope

    def var(self):
        return (1 - self.slope * self.mean_abs()) / self.curvature if self.curvature else 2 / self.slope**2

    def entropy(self):
        return mp.log(2 * self.half) + self.slope * self.mean_abs() + self.curvature * self.var() / 2

    def fisher_information(self):
        return self.curvature + self.slope / self.half

    def expectation(self, function, lower=0):
        """E[function(|Y|); |Y| > lower] by quadrature in 30 digits."""
        with mp.workdps(30):
            scale = mp.sqrt(self.var())
            edges = [lower + scale * x for x in (0, 0.5, 1, 2, 4, 8, 16, 32, 64)]
            return 2 * mp.quad(lambda y: function(y) * self.pdf(y), edges)


class IntegerOracle:
    """pmf ∝ exp(-U(|k|)) on the integers; the subclasses say how to sum."""

    def potential(self, k):
        """U(k), in mpmath."""
        raise NotImplementedError

    def series(self, power, start):
        """Σ k^power·exp(U(start) - U(k)) over k ≥ start."""
        raise NotImplementedError

    @cached_property
    def normaliser(self):
        return 2 * mp.mpf(self.series(0, 0)) - 1

    @cache  # noqa: B019
    def at_least(self, k):
        """P[Y ≥ k] for k ≥ 1."""
        return mp.exp(-self.potential(k)) * self.series(0, k) / self.normaliser

    def pmf(self, k):
        return mp.exp(-self.potential(abs(int(k)))) / self.normaliser

    def logpmf(self, k):
        return mp.log(self.pmf(k))

    def sf(self, k):
        k = int(k)
        return self.at_least(k + 1) if k >= 0 else 1 - self.at_least(-k)

    def logsf(self, k):
        k = int(k)
        return mp.log(self.at_least(k + 1)) if k >= 0 else mp.log1p(-self.at_least(-k))

    def cdf(self, k):
        return self.sf(-int(k) - 1)

    def logcdf(self, k):
        return self.logsf(-int(k) - 1)

    def var(self):
        return 2 * mp.mpf(self.series(2, 0)) / self.normaliser

    def std(self):
        return mp.sqrt(self.var())

    def mean_abs(self):
        return 2 * mp.mpf(self.series(1, 0)) / self.normaliser


class TermByTerm(IntegerOracle):
    """Any potential that mpmath can evaluate."""

    def __init__(self, potential):
        self.potential = potential

    def series(self, power, start):
        total, k, base = short.mpf(0), start, self.potential(start)
        while True:
            fall = short.exp(base - self.potential(k))
            total += k**power * fall
            if k > start and k**power * fall < 1e-25 * total:
                return total
            k += 1


class Offset(IntegerOracle):
    """U(k) = slope·k + curvature·k²/2."""

    def __init__(self, slope, curvature):
        self.slope, self.curvature = slope, curvature

    def potential(self, k):
        return mp.mpf(self.slope) * k + mp.mpf(self.curvature) * k**2 / 2


class MultiplyingSums(Offset):
    """Sums in 40 digits: each term is the last times a ratio, which itself shrinks by exp(-curvature)."""

    def series(self, power, start):
        ratio = short.exp(-short.mpf(self.slope) - short.mpf(self.curvature) * (start + short.mpf(0.5)))
        shrink = short.exp(-short.mpf(self.curvature))
        total, term, k = short.mpf(0), short.mpf(1), start
        while k == start or term * k**power > 1e-25 * total:
            total += term * k**power
            term *= ratio
            ratio *= shrink
            k += 1
        return total


class GeometricSums(Offset):
    """The Laplace end in closed form, at any scale."""

    def series(self, power, start):
        ratio = mp.exp(-mp.mpf(self.slope))
        if power == 0:
            return 1 / (1 - ratio)
        assert start == 0
        return ratio / (1 - ratio) ** 2 if power == 1 else ratio * (1 + ratio) / (1 - ratio) ** 3


class FloatSums(Offset):
    """Every term as a float, many at a time; the exponents are differences, so that nothing cancels."""

    chunk = 2**18

    def series(self, power, start):
        total, steps = 0.0, np.arange(self.chunk, dtype=float)
        while True:
            fall = np.exp(-steps * (self.slope + self.curvature * (start + 0.5 * steps)))
            terms = fall if power == 0 else fall * (start + steps) ** power
            total += float(np.sum(terms))
            if terms[-1] * steps[-1] < 1e-14 * total:
                return mp.mpf(total)
            steps += self.chunk


@cache
def real_oracle(slope, curvature):
    return RealOracle(slope, curvature)


@cache
def integer_oracle(slope, curvature):
    """The most precise of the methods that ends in reasonable time."""
    if curvature == 0:
        return GeometricSums(slope, curvature)
    return MultiplyingSums(slope, curvature) if curvature > 1e-7 else FloatSums(slope, curvature)


def _upper(x):
    """Q(x) of the standard normal distribution."""
    return mp.erfc(x / mp.sqrt(2)) / 2
