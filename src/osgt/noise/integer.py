"""Any symmetric log-concave distribution on the integers, given by its potential.

pmf(y) = exp(-U(|y|)) / Z for integer y. Everything here comes from the sums Σ_{k ≥ y} exp(-U(k)), which are taken
term by term where the pmf falls steeply from one integer to the next, and by the Euler–Maclaurin formula where it
hardly changes. Both cost the same at every scale; nothing is tabulated.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import ClassVar

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from osgt.noise.potential import SymmetricDistribution
from osgt.noise.real import RealDistribution
from osgt.support.arrays import Floats


@cache
def _euler_maclaurin() -> tuple[float, ...]:
    """B₂ⱼ/(2j)! for j = 1, 2, …: with the limits below the first one left out weighs less than 1e-16."""
    return tuple(float(b) / math.factorial(2 * j) for j, b in enumerate(scipy.special.bernoulli(24)[2::2], start=1))


_GENTLE_SLOPE = 1.2
_GENTLE_RATE = 0.1
_UNFELT = 1e-18

#: Terms of a sum beyond exp(-_NEGLIGIBLE) of the first are below double precision, all together.
_NEGLIGIBLE = 45.0


@dataclass(frozen=True)
class IntegerDistribution(SymmetricDistribution):
    """The distribution on the integers with pmf proportional to exp(-U(|y|)), U the convex `potential`.

    Methods take arrays and return arrays (scalars stay scalars) and mean what they mean on a frozen
    `scipy.stats` discrete distribution: `sf(k)` is P[Y > k], `ppf(q)` the least k with cdf(k) ≥ q.
    """

    discrete: ClassVar[bool] = True

    def sample(self, size: int | tuple[int, ...] | None = None) -> int | NDArray[np.int64]:
        """Independent draws with exactly this distribution, from the operating system's entropy.

        Parameters
        ----------
        size
            Number of draws or shape; None for a single `int`.
        """
        from osgt.sampling import sampler_for  # noqa: PLC0415 - loads a cipher, which distributions do not need

        return sampler_for(self.potential).sample(size)

    def logpmf(self, k: ArrayLike) -> Floats:
        """Logarithm of the probability of k; -inf where k is not an integer."""
        k = np.asarray(k, dtype=np.float64)
        whole = np.isfinite(k) & (k == np.floor(k))
        with np.errstate(over="ignore"):
            value = -self.potential(np.where(whole, np.abs(k), 0.0)) - self._log_normaliser
        return np.where(whole, value, np.where(np.isnan(k), np.nan, -np.inf))[()]

    def pmf(self, k: ArrayLike) -> Floats:
        """Probability of k; 0 where k is not an integer."""
        return np.exp(self.logpmf(k))

    def logsf(self, k: ArrayLike) -> Floats:
        """Logarithm of P[Y > k], exact far into the tail."""
        return self._log_at_least(np.floor(np.asarray(k, dtype=np.float64)) + 1.0)

    def logcdf(self, k: ArrayLike) -> Floats:
        """Logarithm of P[Y ≤ k], exact far into the tail."""
        return self._log_at_least(-np.floor(np.asarray(k, dtype=np.float64)))

    def sf(self, k: ArrayLike) -> Floats:
        """P[Y > k]."""
        return np.exp(self.logsf(k))

    def cdf(self, k: ArrayLike) -> Floats:
        """P[Y ≤ k]."""
        return np.exp(self.logcdf(k))

    def isf(self, q: ArrayLike) -> Floats:
        """The least integer k with P[Y > k] ≤ q; NaN where q is not a probability."""
        q = np.asarray(q, dtype=np.float64)
        return self._least(lambda k: np.asarray(self.sf(k) <= q), RealDistribution(self.potential).isf(q))

    def ppf(self, q: ArrayLike) -> Floats:
        """The least integer k with P[Y ≤ k] ≥ q; NaN where q is not a probability."""
        q = np.asarray(q, dtype=np.float64)
        return self._least(lambda k: np.asarray(self.cdf(k) >= q), RealDistribution(self.potential).ppf(q))

    def var(self) -> float:
        """Variance."""
        return self._variance

    @cached_property
    def _variance(self) -> float:
        return 2 * self._half_sum(2) / self._normaliser

    def mean_abs(self) -> float:
        """E|Y|."""
        return 2 * self._half_sum(1) / self._normaliser

    @property
    def log_peak(self) -> float:
        """Logarithm of the probability of 0."""
        return -self._log_normaliser

    @cached_property
    def _normaliser(self) -> float:
        return 1.0 + 2 * self._half_sum(0)

    @property
    def _log_normaliser(self) -> float:
        return math.log(self._normaliser)

    def _log_at_least(self, k: Floats) -> Floats:
        """log P[Y ≥ k] for integers k (as floats)."""
        upper = k > 0
        magnitude = np.where(upper, k, 1.0 - k)
        finite = np.isfinite(magnitude)
        y = np.where(finite, magnitude, 1.0)
        with np.errstate(over="ignore"):
            # One logarithm of the ratio: two would each carry a rounding error that grows with the scale.
            tail = np.log(self._relative_tail(y) / self._normaliser) - self.potential(y)
        tail = np.where(finite, tail, np.where(np.isnan(k), np.nan, -np.inf))
        return np.where(upper, tail, np.log1p(-np.exp(tail)))[()]

    def _relative_tail(self, y: Floats) -> Floats:
        """Σ_{k ≥ y} exp(U(y) - U(k)) for integers y ≥ 0."""
        gentle = self._is_gentle(y)
        total = np.empty_like(y)
        if np.any(gentle):
            total[gentle] = self._smooth_tail(y[gentle])
        if not np.all(gentle):
            total[~gentle] = self._stepwise_tail(y[~gentle])
        return total

    def _is_gentle(self, y: Floats) -> NDArray[np.bool_]:
        """Whether U changes so little from y to y + 1 that the Euler–Maclaurin formula is exact in double precision."""
        slope, *higher = self.potential.derivatives(y)
        gentle = slope <= _GENTLE_SLOPE
        for order, derivative in enumerate(higher, start=2):
            gentle = gentle & (np.abs(derivative) <= _GENTLE_RATE**order * (1 + 1e-12))
        return gentle

    def _smooth_tail(self, y: Floats) -> Floats:
        """Euler–Maclaurin: the integral, half the first term, and the odd derivatives at the lower end."""
        ratios = self._derivative_ratios(y)
        total = 1.0 / self.potential.hazard(y) + 0.5
        for coefficient, ratio in zip(_euler_maclaurin(), ratios[1::2], strict=False):
            total -= coefficient * ratio
        return total

    def _stepwise_tail(self, y: Floats) -> Floats:
        """Term by term. U is convex, so the terms fall at least as fast as their first ratio."""
        y = np.minimum(y, 2.0**52)  # beyond it y + 1 = y, and the logarithm of the sum is nothing beside U(y)
        base = self.potential(y)
        total = np.ones_like(y)
        for step in range(1, self._reach(float(np.min(y))) + 1):
            total += np.exp(base - self.potential(y + step))
        return total

    def _reach(self, y: float) -> int:
        """The number of steps from y in which U grows by `_NEGLIGIBLE`; no more are needed from anywhere beyond."""
        steps = 128
        while True:
            growth = self.potential(y + np.arange(1.0, steps + 1)) - self.potential(np.asarray(y))
            if growth[-1] >= _NEGLIGIBLE:
                return int(np.searchsorted(growth, _NEGLIGIBLE)) + 1
            steps *= 2

    def _derivative_ratios(self, y: Floats) -> list[Floats]:
        """g⁽ⁿ⁾(y)/g(y) for g = exp(-U) and n = 0, 1, …, by Leibniz' rule on g' = -U'·g; as many as are felt."""
        derivatives = self.potential.derivatives(y)
        ratios = [np.ones_like(y)]
        for n in range(2 * _terms_felt(derivatives) - 1):
            following = derivatives[0] * ratios[n]
            for k in range(1, min(n + 1, len(derivatives))):
                following = following + math.comb(n, k) * derivatives[k] * ratios[n - k]
            ratios.append(-following)
        return ratios

    def _half_sum(self, power: int) -> float:
        """Σ_{k ≥ 1} k^power·exp(-U(k)) for power 0, 1 or 2."""
        zero = np.zeros(1)
        if not self._is_gentle(zero)[0]:
            last = 1
            while float(self.potential(np.asarray(last, dtype=np.float64))) < 2 * _NEGLIGIBLE:
                last *= 2
            k = np.arange(1.0, last + 1)
            return math.fsum(k**power * np.exp(-self.potential(k)))
        ratios = [float(r[0]) for r in self._derivative_ratios(zero)]
        integral = (1.0, *self.potential.moments())[power] / float(self.potential.hazard(zero)[0])
        total = integral - (0.5 if power == 0 else 0.0)
        for j, coefficient in enumerate(_euler_maclaurin(), start=1):
            order = 2 * j - 1  # the derivative of x^power·g at 0 is order!/(order - power)!·g^(order - power)
            if power <= order < len(ratios) + power:
                total -= coefficient * math.perm(order, power) * ratios[order - power]
        return total

    @staticmethod
    def _least(reached: Callable[[Floats], NDArray[np.bool_]], near: Floats) -> Floats:
        """The least integer where `reached` turns true, not far from the quantile on the reals; that itself if ±inf."""
        near = np.asarray(near, dtype=np.float64)
        inside = np.isfinite(near)
        middle = np.rint(np.where(inside, near, 0.0))
        low = high = middle
        width = np.maximum(1.0, np.spacing(np.abs(middle)))
        while not np.all(enough := reached(high) | ~inside):
            high, width = np.where(enough, high, high + width), 2 * width
        width = np.maximum(1.0, np.spacing(np.abs(middle)))
        while np.any(too_high := reached(low) & inside):
            low, width = np.where(too_high, low - width, low), 2 * width
        # Beyond 2⁵³ neighbouring floats are more than 1 apart, and the search ends at them.
        while np.any(((middle := np.floor(0.5 * (low + high))) > low) & (middle < high)):
            now = reached(middle)
            high, low = np.where(now, middle, high), np.where(now, low, middle)
        return np.where(inside, high + 0.0, near)[()]


def _terms_felt(derivatives: Sequence[Floats]) -> int:
    """Count the terms of the Euler–Maclaurin formula that are above 1e-18 of the first one.

    If U'' is constant, g⁽ⁿ⁾/g = E[(-U' + i·√U''·X)ⁿ] with X standard normal, which is at most (U' + √(n·U''))ⁿ.
    """
    if len(derivatives) != 2:
        return len(_euler_maclaurin())
    slope, root = float(np.max(derivatives[0])), math.sqrt(float(np.max(derivatives[1])))
    for j, coefficient in enumerate(_euler_maclaurin()):
        if abs(coefficient) * (slope + root * math.sqrt(2 * j + 1)) ** (2 * j + 1) < _UNFELT:
            return max(j, 2)
    return len(_euler_maclaurin())
