"""The Gaussian rounded to integers, Y = round(σ·N): for changes of which the Euclidean norm is known.

Adding Y to a whole number is adding σ·N and rounding, so that the privacy of the Gaussian mechanism carries over
(docs/dominance.md). P[Y = y] is the density at y of σ·N + T with T uniform on [-½, ½]: log-concave, and smooth between
the integers. Up to a constant -log P[Y = y] is U(y) = c·y²/2 - log E[exp(-c·y·T)], c = 1/σ², T with density
∝ exp(-c·t²/2) on [-½, ½].
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import flint
import numpy as np
import scipy
from flint import arb

from osgt.noise.arguments import real_number
from osgt.noise.integer import IntegerDistribution
from osgt.support.arrays import Floats
from osgt.support.errors import ArgumentError

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
