"""The potential of a noise distribution, even and convex: all that the rest of the software needs to know of it.

A distribution with density (or pmf) proportional to exp(-U(|y|)) is used by sampler and accounting through a
`Potential` only. A further family of noise is one more class of potentials, and a `Family` that lists them. The
distributions on the reals follow from it here, those on the integers in `noise.integer`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, Self

import numpy as np
import scipy
from flint import arb
from numpy.typing import ArrayLike

from osgt.support.numeric import Floats


class Potential(Protocol):
    """U on the half line y ≥ 0: convex, nondecreasing, U(0) = 0, smooth for y > 0, without limit as y grows.

    A frozen dataclass whose fields are floats: they are the parameters that are written down and read back, so its
    constructor checks them. Equal potentials are equal distributions.
    """

    #: Name of the family that the potential belongs to.
    family: ClassVar[str]

    #: Error of log P[Y > y] as it follows from `hazard`, up to a factor 1 - log P[Y > y]; at most 1e-13.
    tail_error: ClassVar[float]

    def __hash__(self) -> int: ...

    def __call__(self, y: Floats) -> Floats:
        """U(y), to a relative error below 2⁻⁵⁰."""

    def rise(self, y: Floats, d: Floats) -> Floats:
        """U(y + d) - U(y) for d ≥ 0, to a relative error below 2⁻⁵⁰ however small it is."""

    def derivatives(self, y: Floats) -> Sequence[Floats]:
        """U'(y), U''(y), …, up to the last that is not identically zero, or the 24th (at 0: from the right)."""

    @property
    def largest_slope(self) -> float:
        """The supremum of U', not rounded down: finite where the privacy loss is bounded, as for the Laplace."""

    def hazard(self, y: Floats) -> Floats:
        """exp(-U(y)) / ∫_y^∞ exp(-U)."""

    def moments(self) -> tuple[float, float]:
        """First and second moment of the density on y ≥ 0 that is proportional to exp(-U)."""

    def ball(self, y: int) -> arb:
        """A ball that contains U(y), as narrow as Arb's working precision allows."""

    def scaled(self, factor: float) -> Self:
        """The potential of noise that is `factor` times as large: U(y/factor)."""


@dataclass(frozen=True)
class SymmetricDistribution:
    """A distribution around zero on the whole line, given by its potential; known by its quantiles and its variance."""

    potential: Potential

    #: Whether it lives on the integers.
    discrete: ClassVar[bool]

    @property
    def log_peak(self) -> float:
        """Logarithm of the density or probability at 0, the largest there is."""
        raise NotImplementedError

    def isf(self, q: ArrayLike) -> Floats:
        """Upper quantile."""
        raise NotImplementedError

    def var(self) -> float:
        """Variance."""
        raise NotImplementedError

    def mean_abs(self) -> float:
        """E|Y|."""
        raise NotImplementedError

    def std(self) -> float:
        """Standard deviation."""
        return math.sqrt(self.var())

    def mean(self) -> float:
        """Zero: the distribution is symmetric."""
        return 0.0

    def median(self) -> float:
        """Zero: the distribution is symmetric."""
        return 0.0

    def support(self) -> tuple[float, float]:
        """The support: all of the line."""
        return -math.inf, math.inf

    def interval(self, confidence: ArrayLike) -> tuple[Floats, Floats]:
        """The least symmetric interval that holds Y with at least the given probability."""
        confidence = np.asarray(confidence, dtype=np.float64)
        half_width = self.isf(np.where(confidence >= 0, (1.0 - confidence) / 2, np.nan))
        return -half_width, half_width


#: Quantiles whose probability is this close to ½ are solved for the mass between 0 and y.
_CENTRAL = 0.1
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)
_NEWTON_STEPS = 60

#: Ends of the panels of an integral over y ≥ 0, in units of the mean of |Y|.
_PANELS = np.array([0.0, 0.5, 1.5, 3.0, 6.0, 12.0, 24.0, 48.0])


#: The probability of each tail that an expectation leaves out.
NOT_EXPECTED = 1e-30


@dataclass(frozen=True)
class RealDistribution(SymmetricDistribution):
    """The distribution on the reals with density proportional to exp(-U(|y|)), U the convex `potential`.

    Methods take arrays and return arrays (scalars stay scalars) and mean what they mean on a frozen
    `scipy.stats` distribution.
    """

    discrete: ClassVar[bool] = False

    def logpdf(self, y: ArrayLike) -> Floats:
        """Logarithm of the density."""
        magnitude = np.abs(np.asarray(y, dtype=np.float64))
        return np.asarray(math.log(self._peak()) - self._potential(magnitude))[()]

    def pdf(self, y: ArrayLike) -> Floats:
        """Density."""
        magnitude = np.abs(np.asarray(y, dtype=np.float64))
        return (self._peak() * np.exp(-self._potential(magnitude)))[()]

    def logsf(self, y: ArrayLike) -> Floats:
        """Logarithm of P[Y > y], exact far into the tail."""
        y = np.asarray(y, dtype=np.float64)
        tail = self._log_tail(np.abs(y))
        return np.where(y >= 0, tail, np.log1p(-np.exp(tail)))[()]

    def logcdf(self, y: ArrayLike) -> Floats:
        """Logarithm of P[Y ≤ y], exact far into the tail."""
        return self.logsf(-np.asarray(y, dtype=np.float64))

    def sf(self, y: ArrayLike) -> Floats:
        """P[Y > y]."""
        y = np.asarray(y, dtype=np.float64)
        tail = np.exp(self._log_tail(np.abs(y)))
        return np.where(y >= 0, tail, 1.0 - tail)[()]

    def cdf(self, y: ArrayLike) -> Floats:
        """P[Y ≤ y]."""
        return self.sf(-np.asarray(y, dtype=np.float64))

    def isf(self, q: ArrayLike) -> Floats:
        """The y with P[Y > y] = q; NaN where q is not a probability."""
        q = np.asarray(q, dtype=np.float64)
        tail = np.where(q <= 0.5, q, 1.0 - q)
        return np.where(q <= 0.5, 1.0, -1.0)[()] * self._quantile(tail)[()]

    def ppf(self, q: ArrayLike) -> Floats:
        """The y with P[Y ≤ y] = q; NaN where q is not a probability."""
        return 0.0 - self.isf(q)

    def var(self) -> float:
        """Variance."""
        return self.potential.moments()[1]

    def mean_abs(self) -> float:
        """E|Y|."""
        return self.potential.moments()[0]

    def fisher_information(self) -> float:
        """E[U'(Y)²]; at least 1/V, with equality for the Gaussian alone.

        What remains of the distribution when very many releases are composed: the noise with less of it wins there.
        """
        half = 0.5 * np.diff(_PANELS)[:, np.newaxis]
        y = (_PANELS[:-1, np.newaxis] + half * (1.0 + _NODES)) * self.mean_abs()
        weights = np.exp(-self.potential(y)) * half * _WEIGHTS
        return float(np.sum(self.potential.derivatives(y)[0] ** 2 * weights) / np.sum(weights))

    def expect(self, function: Callable[[Floats], ArrayLike]) -> float:
        """E[function(Y)], by quadrature. `function` takes an array and grows slower than the tails fall."""
        scale = self.mean_abs()

        def both_sides(t: float) -> float:
            y = np.array([-t, t]) * scale
            return float(np.sum(np.asarray(function(y), dtype=np.float64))) * float(self.pdf(y[1])) * scale

        last = float(self.isf(NOT_EXPECTED)) / scale
        return float(scipy.integrate.quad(both_sides, 0.0, last, limit=200, epsabs=1e-15, epsrel=1e-10)[0])

    @property
    def log_peak(self) -> float:
        """Logarithm of the density at 0."""
        return math.log(self._peak())

    def _peak(self) -> float:
        """The density at 0."""
        return 0.5 * float(self.potential.hazard(np.zeros(())))

    def _potential(self, magnitude: Floats) -> Floats:
        with np.errstate(over="ignore", invalid="ignore"):
            value = self.potential(magnitude)
        return np.where(np.isinf(magnitude), np.inf, value)

    def _log_tail(self, y: Floats) -> Floats:
        """log P[Y > y] for y ≥ 0."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            hazards = self.potential.hazard(np.where(np.isinf(y), 0.0, y))
            return np.asarray(np.log(self._peak() / hazards) - self._potential(y))

    def _reaching(self, level: Floats) -> Floats:
        """For each level a y ≥ 0 with U(y) at least that, not much larger than need be."""
        y = np.where(level > 0, 1.0 / float(self.potential.hazard(np.zeros(()))), 0.0)
        while np.any(short := self.potential(y) < level):
            y = np.where(short, 2.0 * y, y)
        return y

    def _quantile(self, tail: Floats) -> Floats:
        """The y ≥ 0 with P[Y > y] = tail, for tail in [0, ½]; NaN elsewhere.

        log P[Y > y] is concave and lies below -log 2 - U(y). Newton's steps from where the latter has the value sought,
        or from beyond, come down to the root without ever passing it.
        """
        valid = (tail > 0) & (tail <= 0.5)
        level = -np.log(np.where(valid, 2 * tail, 1.0))
        y, peak = self._reaching(level), self._peak()
        for _ in range(_NEWTON_STEPS):
            hazards = self.potential.hazard(y)
            excess = self.potential(y) - np.log(2.0 * peak / hazards) - level
            step = np.maximum(excess, 0.0) / hazards
            y = np.maximum(y - step, 0.0)
            if np.all(step <= 1e-15 * y):
                break
        y, central = np.asarray(y), valid & (tail > 0.5 - _CENTRAL)
        if np.any(central):
            y[central] = self._central_quantile(y[central], 0.5 - tail[central])
        return np.where(valid, y, np.where(tail == 0, np.inf, np.nan))

    def _central_quantile(self, y: Floats, mass: Floats) -> Floats:
        """Refine y ≥ 0 until P[0 < Y < y] = mass, which keeps full accuracy as y → 0."""
        for _ in range(3):
            half = 0.5 * y
            points = half[..., np.newaxis] * (1.0 + _NODES)
            y = y - (half * (self.pdf(points) @ _WEIGHTS) - mass) / self.pdf(y)
        return y
