"""Symmetric log-concave distributions on the integers: any that is given by its potential, and the rounded Gaussian.

pmf(y) = exp(-U(|y|)) / Z for integer y. Everything here comes from the sums Σ_{k ≥ y} exp(-U(k)), which are taken
term by term where the pmf falls steeply from one integer to the next, and by the Euler–Maclaurin formula where it
hardly changes. Both cost the same at every scale; nothing is tabulated.

The Gaussian rounded to integers, Y = round(σ·N), is for changes of which the Euclidean norm is known. Adding Y to a
whole number is adding σ·N and rounding, so that the privacy of the Gaussian mechanism carries over (docs/dominance.md).
P[Y = y] is the density at y of σ·N + T with T uniform on [-½, ½]: log-concave, and smooth between the integers. Up to a
constant -log P[Y = y] is U(y) = c·y²/2 - log E[exp(-c·y·T)], c = 1/σ², T with density ∝ exp(-c·t²/2) on [-½, ½].
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import ClassVar, NoReturn, Self

import flint
import numpy as np
import scipy
from flint import arb
from numpy.typing import ArrayLike, NDArray

from osgt.noise.potential import NOT_EXPECTED, RealDistribution, SymmetricDistribution
from osgt.support.errors import ArgumentError
from osgt.support.numeric import Floats, real_number


@cache
def _euler_maclaurin() -> tuple[float, ...]:
    """B₂ⱼ/(2j)! for j = 1, 2, …: with the limits below the first one left out weighs less than 1e-16."""
    return tuple(float(b) / math.factorial(2 * j) for j, b in enumerate(scipy.special.bernoulli(24)[2::2], start=1))


#: Up to this slope, and this rate of higher derivatives, the Euler–Maclaurin formula is exact in double precision, with
#: terms from _UNFELT on.
_GENTLE_SLOPE = 1.2
_GENTLE_RATE = 0.1
_UNFELT = 1e-18

#: Terms of a sum beyond exp(-_NEGLIGIBLE) of the first are below double precision, all together.
_NEGLIGIBLE = 45.0


#: An expectation adds up to so many integers on each side, a few seconds of work, and so many at once.
_MOST_EXPECTED, _EXPECTED_AT_ONCE = 10**8, 2**20


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

    def expect(self, function: Callable[[Floats], ArrayLike]) -> float:
        """E[function(Y)], integer by integer. `function` takes an array and grows slower than the tails fall."""
        last = float(self.isf(NOT_EXPECTED))
        if last > _MOST_EXPECTED:
            raise ValueError(
                f"expect adds up {2 * last:.2g} integers here, more than {2 * _MOST_EXPECTED:.2g}: use the same "
                "distribution on the reals, which differs by little at this scale"
            )
        total = 0.0
        for first in range(0, int(last) + 1, _EXPECTED_AT_ONCE):
            k = np.arange(first, min(first + _EXPECTED_AT_ONCE, int(last) + 1), dtype=np.float64)
            both = np.asarray(function(k), dtype=np.float64) + np.where(k > 0, function(-k), 0.0)
            total += float(np.sum(both * self.pmf(k)))
        return total

    def rvs(self, *arguments: object, **options: object) -> NoReturn:
        """Refused: draws that a seed can repeat are no noise for a release. `sample` draws exactly, without a seed."""
        raise TypeError(
            f"{type(self).__name__} has no rvs: draws that come from a seed or a generator can be repeated, and must "
            "never be published. Use sample(size), which is exact and takes its randomness from the operating system; "
            "for simulations that repeat, round OSGT.rvs(size, random_state)"
        )

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


#: The largest curvature, σ = ¼. Beyond, nearly all noise is 0, and the potential too flat at 0 for Euler and Maclaurin.
_LARGEST_CURVATURE = 16.0

#: Nodes and weights on [0, 1]; 24 of them integrate exp(-40·v) to double precision.
_NODES, _WEIGHTS = (0.5 * (x + shift) for x, shift in zip(np.polynomial.legendre.leggauss(24), (1.0, 0.0), strict=True))
_STEEP = 40.0


@dataclass(frozen=True)
class RoundedPotential:
    """The `Potential` log P[Y = 0] - log P[Y = y] of Y = round(σ·N), given by the curvature 1/σ² of the Gaussian.

    The accounting never looks at it, but at the Gaussian: `rise` is a plain difference, which is enough for quantiles.
    """

    curvature: float

    family: ClassVar[str] = "rounded_gaussian"
    tail_error: ClassVar[float] = 2.0**-44

    def __post_init__(self) -> None:
        object.__setattr__(self, "curvature", real_number("curvature", self.curvature, positive=True))
        if self.curvature > _LARGEST_CURVATURE:
            raise ArgumentError(
                f"sigma must be at least {_LARGEST_CURVATURE**-0.5:g} for a Gaussian that is rounded, got "
                f"{self.curvature**-0.5:.6g}: count in finer steps",
                argument="sigma",
            )

    def __call__(self, y: Floats) -> Floats:
        c, slope = self.curvature, np.asarray(self.curvature * y)
        t, weights = self._tilted(np.zeros(()))
        # E[exp(-c·y·T)] by E[cosh] - 1 where c·y is small, else by the two tails: neither cancels.
        half = 0.5 * np.minimum(slope, 1.0)[..., np.newaxis]
        gentle = 0.5 * c * y * y - np.log1p(2.0 * np.sinh(half * t) ** 2 @ (weights / np.sum(weights)))
        if np.all(slope < 1.0):
            return np.asarray(gentle)[()]
        unit = math.sqrt(c / 8)
        tails = scipy.special.erfcx(unit * (2.0 * y - 1.0)) - np.exp(-slope) * scipy.special.erfcx(
            unit * (2.0 * y + 1.0)
        )
        steep = 0.5 * c * y * (y - 1.0) + c / 8 - np.log(tails / (2.0 * scipy.special.erf(unit)))
        return np.where(slope < 1.0, gentle, steep)[()]

    def rise(self, y: Floats, d: Floats) -> Floats:
        return self(y + d) - self(y)

    def derivatives(self, y: Floats) -> Sequence[Floats]:
        """By the cumulants of T under the tilt exp(-c·y·t), which follow from its moments."""
        t, weights = self._tilted(y)
        moments = [np.sum(weights * t**n, axis=-1) / np.sum(weights, axis=-1) for n in range(25)]
        cumulants = [np.zeros_like(y)]
        for n in range(1, 25):
            rest = sum(math.comb(n - 1, k - 1) * cumulants[k] * moments[n - k] for k in range(1, n))
            cumulants.append(moments[n] - rest)
        first, second, *higher = (-((-self.curvature) ** n) * cumulants[n] for n in range(1, 25))
        return (self.curvature * y + first, self.curvature + second, *higher)

    @property
    def largest_slope(self) -> float:
        return math.inf

    def hazard(self, y: Floats) -> Floats:
        t, weights = self._tilted(y)
        root = math.sqrt(self.curvature)
        mills = math.sqrt(math.pi / 2) * scipy.special.erfcx(root / math.sqrt(2) * (np.asarray(y)[..., np.newaxis] + t))
        return np.asarray(root * np.sum(weights, axis=-1) / np.sum(weights * mills, axis=-1))

    def moments(self) -> tuple[float, float]:
        t, root = _NODES - 0.5, math.sqrt(self.curvature)
        distance = math.sqrt(2 / math.pi) / root * np.exp(-0.5 * (root * t) ** 2) + t * scipy.special.erf(
            root / math.sqrt(2) * t
        )
        return float(_WEIGHTS @ distance), 1.0 / self.curvature + 1.0 / 12.0

    def ball(self, y: int) -> arb:
        # A difference of two tails loses the bits of σ.
        with flint.ctx.workprec(flint.ctx.prec + max(0, -math.frexp(self.curvature)[1])):
            unit = (arb(self.curvature) / 8).sqrt()
            both = ((2 * y - 1) * unit).erfc() - ((2 * y + 1) * unit).erfc()
            return (2 * unit.erf() / both).log()

    def scaled(self, factor: float) -> Self:
        """The potential of the Gaussian `factor` times as large, rounded."""
        return type(self)(self.curvature / factor / factor)

    def _tilted(self, y: Floats) -> tuple[Floats, Floats]:
        """Nodes t in [-½, ½] and weights for integrals over exp(-c·y·(t + ½) - c·t²/2), along a last axis."""
        slope = np.asarray(self.curvature * y)[..., np.newaxis]
        length = _STEEP / np.maximum(slope, _STEEP)  # beyond, the exponential is nothing
        t = length * _NODES - 0.5
        return t, length * _WEIGHTS * np.exp(-slope * length * _NODES - 0.5 * self.curvature * t * t)


@dataclass(frozen=True, init=False, repr=False)
class RoundedGaussian(IntegerDistribution):
    """The distribution of round(σ·N) on the integers, σ ≥ ¼: P[Y = y] = Φ((y + ½)/σ) - Φ((y - ½)/σ).

    For whole numbers of which one person's change is known by its Euclidean norm. Its privacy loss is at most that of
    `OSGT.gaussian(sigma)`, and is accounted for as that. From σ = 1 on the variance is σ² + 1/12, to eight digits.

    Examples
    --------
    >>> noise = RoundedGaussian(40.8)
    >>> round(noise.std(), 3), float(noise.isf(0.025))
    (40.801, 80.0)
    """

    potential: RoundedPotential

    def __init__(self, sigma: float) -> None:
        scale = real_number("sigma", sigma, positive=True)
        # In the steps of OSGT.gaussian, so that sampler and accounting have the same float.
        object.__setattr__(self, "potential", RoundedPotential(1.0 / max(scale * scale, 1e-300)))

    @classmethod
    def of(cls, potential: RoundedPotential) -> Self:
        """The distribution with this potential."""
        noise = cls.__new__(cls)
        object.__setattr__(noise, "potential", potential)
        return noise

    @property
    def sigma(self) -> float:
        """Standard deviation of the Gaussian before it is rounded."""
        return 1.0 / math.sqrt(self.potential.curvature)

    def _log_at_least(self, k: Floats) -> Floats:
        return np.asarray(scipy.special.log_ndtr((0.5 - k) * math.sqrt(self.potential.curvature)))[()]

    def __repr__(self) -> str:
        return f"RoundedGaussian(sigma={self.sigma:.10g})"
