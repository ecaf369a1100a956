"""The OSGT family: potential slope·|y| + curvature·y²/2, on the reals (`OSGT`) and on the integers (`DiscreteOSGT`).

The family reaches from the Gaussian (u = 0) to the Laplace (u = 1), with m/σ = u/(1 - u) in between.

Everything about the half line density g(x) = exp(-a·x - c·x²/2), x ≥ 0, follows from its hazard rate
h = g(0) / ∫₀^∞ g. With z = a/√c and the Mills ratio R of the standard normal distribution, h = √c / R(z), in forms that
neither overflow nor cancel.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Self

import numpy as np
import scipy
from flint import arb

from osgt.noise.family import End, Family, register
from osgt.noise.integer import IntegerDistribution
from osgt.noise.potential import RealDistribution, SymmetricDistribution
from osgt.support.numeric import Floats, real_number

#: From here on R(x) = 1/x to double precision.
_MILLS_IS_RECIPROCAL = 1e8

#: Above this shape moments come from the continued fraction, below it from the recurrence.
_CONTINUED_FRACTION_SHAPE = 2.0
_CONTINUED_FRACTION_TERMS = 100


def mills_ratio(x: Floats) -> Floats:
    """R(x) = Q(x)/φ(x) of the standard normal distribution."""
    return np.asarray(math.sqrt(math.pi / 2) * scipy.special.erfcx(x / math.sqrt(2)), dtype=np.float64)


def hazard(slope: Floats, curvature: float) -> Floats:
    """1 / ∫₀^∞ exp(-slope·x - curvature·x²/2) dx, for slope ≥ 0 and curvature ≥ 0, not both zero."""
    if curvature == 0:
        return np.asarray(slope, dtype=np.float64)
    root = math.sqrt(curvature)
    with np.errstate(divide="ignore", over="ignore"):
        x = slope / root
    nearly_laplace = x > _MILLS_IS_RECIPROCAL
    return np.where(nearly_laplace, slope, root / mills_ratio(np.minimum(x, _MILLS_IS_RECIPROCAL)))


def half_line_moments(slope: float, curvature: float) -> tuple[float, float]:
    """First and second moment of the distribution on x ≥ 0 with density ∝ exp(-slope·x - curvature·x²/2).

    Write Jₙ = ∫ xⁿ g. Integration by parts gives slope·Jₙ + curvature·Jₙ₊₁ = n·Jₙ₋₁, from which both moments
    follow, but for z ≫ 1 by differences of nearly equal numbers. There the ratios
    ρₙ = slope·Jₙ/Jₙ₋₁ = n / (1 + ρₙ₊₁·curvature/slope²) are a continued fraction of positive terms.
    """
    root = math.sqrt(curvature)
    if slope < _CONTINUED_FRACTION_SHAPE * root:
        first = (float(hazard(np.asarray(slope), curvature)) - slope) / curvature
        return first, (1.0 - slope * first) / curvature
    inverse_shape_squared = (root / slope) ** 2
    ratio = 0.0
    for n in range(_CONTINUED_FRACTION_TERMS, 1, -1):
        ratio = n / (1.0 + ratio * inverse_shape_squared)
    second_ratio = ratio
    first_ratio = 1.0 / (1.0 + second_ratio * inverse_shape_squared)
    return first_ratio / slope, (first_ratio / slope) * (second_ratio / slope)


@dataclass(frozen=True)
class OffsetPotential:
    """U(y) = slope·y + curvature·y²/2: a Laplace density times a Gaussian density."""

    slope: float
    curvature: float

    family: ClassVar[str] = "osgt"
    tail_error: ClassVar[float] = 2.0**-50

    def __post_init__(self) -> None:
        object.__setattr__(self, "slope", real_number("slope", self.slope, positive=False))
        object.__setattr__(self, "curvature", real_number("curvature", self.curvature, positive=False))
        if self.slope == 0 and self.curvature == 0:
            raise ValueError("slope and curvature are both zero: at least one must be > 0")

    def __call__(self, y: Floats) -> Floats:
        return y * (self.slope + 0.5 * self.curvature * y)

    def rise(self, y: Floats, d: Floats) -> Floats:
        return d * (self.slope + self.curvature * (y + 0.5 * d))

    def derivatives(self, y: Floats) -> Sequence[Floats]:
        first = self.slope + self.curvature * y
        return (first, np.full_like(first, self.curvature))

    @property
    def largest_slope(self) -> float:
        return self.slope if self.curvature == 0 else math.inf

    def hazard(self, y: Floats) -> Floats:
        return hazard(self.slope + self.curvature * y, self.curvature)

    def moments(self) -> tuple[float, float]:
        return half_line_moments(self.slope, self.curvature)

    def ball(self, y: int) -> arb:
        # A float becomes an exact ball, so the only error is Arb's own rounding, which it keeps track of.
        return arb(y) * (arb(self.slope) + arb(self.curvature) * arb(y) / 2)

    def scaled(self, factor: float) -> Self:
        return type(self)(self.slope / factor, self.curvature / factor / factor)


class OffsetDistribution(SymmetricDistribution):
    """A member of the family exp(-slope·|y| - curvature·y²/2).

    The distribution is its pair of stored floats, exactly: sampler and accounting read the same two numbers.

    Parameters
    ----------
    m : float
        Offset of the two Gaussian tails, ≥ 0. Zero is the Gaussian.
    sigma : float
        Scale of the two Gaussian tails, > 0. It is *not* the standard deviation, which is smaller.
    """

    potential: OffsetPotential

    def __init__(self, m: float, sigma: float) -> None:
        offset = real_number("m", m, positive=False)
        scale = real_number("sigma", sigma, positive=True)
        variance = scale * scale
        curvature = 1.0 / variance if variance > 0 else math.inf
        if not 0 < curvature < math.inf:
            raise ValueError(
                f"sigma must be such that sigma² is a finite float above 0, say 1e-150 to 1e150, got {sigma!r}"
            )
        if offset / variance == math.inf:
            raise ValueError(f"m / sigma² must be a finite number, got m = {m!r} with sigma = {sigma!r}")
        object.__setattr__(self, "potential", OffsetPotential(offset / variance, curvature))

    @classmethod
    def of(cls, potential: OffsetPotential) -> Self:
        """The distribution with this potential."""
        noise = cls.__new__(cls)
        object.__setattr__(noise, "potential", potential)
        return noise

    @classmethod
    def from_rates(cls, slope: float, curvature: float) -> Self:
        """The distribution exp(-slope·|y| - curvature·y²/2): slope = m/sigma², curvature = 1/sigma²."""
        return cls.of(OffsetPotential(slope, curvature))

    @classmethod
    def gaussian(cls, sigma: float) -> Self:
        """The Gaussian end of the family: m = 0."""
        return cls(0.0, sigma)

    @classmethod
    def laplace(cls, scale: float) -> Self:
        """The Laplace end of the family, density ∝ exp(-|y|/scale)."""
        slope = 1.0 / real_number("scale", scale, positive=True)
        if not 0 < slope < math.inf:
            raise ValueError(
                f"scale must be such that 1/scale is a finite float above 0, say 1e-300 to 1e300, got {scale!r}"
            )
        return cls.from_rates(slope, 0.0)

    @property
    def slope(self) -> float:
        """m/σ² of the paper: what the potential grows by next to 0."""
        return self.potential.slope

    @property
    def curvature(self) -> float:
        """1/σ² of the paper; 0 at the Laplace end."""
        return self.potential.curvature

    @property
    def m(self) -> float:
        """Offset m of the paper; infinite at the Laplace end."""
        return self.slope / self.curvature if self.curvature > 0 else math.inf

    @property
    def sigma(self) -> float:
        """Scale σ of the paper; infinite at the Laplace end."""
        return 1.0 / math.sqrt(self.curvature) if self.curvature > 0 else math.inf

    @property
    def shape(self) -> float:
        """m/σ: 0 for the Gaussian, infinite for the Laplace."""
        return self.slope / math.sqrt(self.curvature) if self.curvature > 0 else math.inf

    def entropy(self) -> float:
        """Entropy in nats; of the distribution on the reals its differential entropy."""
        return self.slope * self.mean_abs() + 0.5 * self.curvature * self.var() - self.log_peak

    def __repr__(self) -> str:
        name = type(self).__name__
        if self.slope == 0:
            return f"{name}.gaussian(sigma={self.sigma:.10g})"
        if self.curvature == 0:
            return f"{name}.laplace(scale={1.0 / self.slope:.10g})"
        return f"{name}(m={self.m:.10g}, sigma={self.sigma:.10g})"


Generator = np.random.Generator | np.random.RandomState


@dataclass(frozen=True, init=False, repr=False)
class OSGT(OffsetDistribution, RealDistribution):
    """Offset-symmetric Gaussian tails: the normalised product of a Laplace and a Gaussian density.

    Methods take arrays and return arrays (scalars stay scalars) and mean what they mean on a frozen
    `scipy.stats` distribution.

    Examples
    --------
    >>> noise = OSGT(m=3, sigma=40**0.5)
    >>> round(noise.var(), 4)
    27.7047
    >>> round(float(noise.isf(0.025)), 3)
    10.581
    """

    potential: OffsetPotential

    def fisher_information(self) -> float:
        """E[U'(Y)²]; at least 1/V, with equality for the Gaussian alone.

        What remains of the distribution when very many releases are composed: the noise with less of it wins there.
        """
        return self.slope * 2 * self._peak() + self.curvature

    def is_sub_gaussian(self) -> bool:
        """Whether P[Y ≥ y] ≤ exp(-y²/2σ²) for all y ≥ 0: true but for the Laplace end.

        The paper's Proposition 2 shows it for m/σ ≤ Q⁻¹(¼) ≈ 0.6745. That condition is not needed: the Mills
        ratio falls, so P[Y ≥ y] = ½·exp(-slope·y - y²/2σ²)·R(m/σ + y/σ)/R(m/σ) ≤ ½·exp(-y²/2σ²) for every m/σ.
        """
        return self.curvature > 0

    def rvs(self, size: int | tuple[int, ...] | None = None, random_state: object = None) -> Floats:
        """Floating-point draws for simulation. **Never for release**: the low bits of such noise reveal data.

        For a release use `DiscreteOSGT.sample`, which is exact and takes its randomness from the system.
        """
        generator = _generator(random_state)
        count = 1 if size is None else int(np.prod(size))
        draws = np.concatenate([np.empty(0), *self._magnitudes(generator, count)])[:count]
        draws *= np.where(generator.random(count) < 0.5, -1.0, 1.0)
        return draws[0] if size is None else draws.reshape(size)

    def _magnitudes(self, generator: Generator, count: int) -> list[Floats]:
        """Batches of |Y|, at least `count` in all, by rejection from the nearer end of the family."""
        batches: list[Floats] = []
        while count > 0:
            batch = count + count // 2 + 16
            if self.shape < 0.8:
                proposal = np.abs(generator.standard_normal(batch)) * self.sigma
                exponent = self.slope * proposal
            else:
                proposal = generator.standard_exponential(batch) / self.slope
                exponent = 0.5 * self.curvature * proposal**2
            batches.append(proposal[generator.standard_exponential(batch) >= exponent])
            count -= len(batches[-1])
        return batches

    def _reaching(self, level: Floats) -> Floats:
        """Solve U = `level`: the root of a quadratic."""
        root = self.slope + np.hypot(self.slope, math.sqrt(self.curvature) * np.sqrt(2 * level))
        return np.divide(2 * level, root, out=np.zeros_like(level), where=level > 0)


def _generator(random_state: object) -> Generator:
    if isinstance(random_state, np.random.Generator | np.random.RandomState):
        return random_state
    return np.random.default_rng(random_state)  # type: ignore[arg-type]


@dataclass(frozen=True, init=False, repr=False)
class DiscreteOSGT(OffsetDistribution, IntegerDistribution):
    """The distribution on the integers with pmf ∝ exp(-slope·|y| - curvature·y²/2), in the parameters of `OSGT`.

    `m = 0` is the discrete Gaussian, `DiscreteOSGT.laplace(scale)` the discrete Laplace (two-sided geometric)
    distribution. Its moments, quantiles and privacy come from its own pmf, not from the continuous formulas.

    Examples
    --------
    >>> noise = DiscreteOSGT(m=3, sigma=40**0.5)
    >>> round(noise.var(), 4)
    27.6738
    >>> noise.sample(5).dtype
    dtype('int64')
    """

    potential: OffsetPotential


@lru_cache(maxsize=4096)
def _unit(u: float) -> OffsetPotential:
    if u == 1:
        return OffsetPotential(math.sqrt(2.0), 0.0)
    shape = u / (1.0 - u)
    variance = OSGT(shape, 1.0).var()
    return OffsetPotential(shape * math.sqrt(variance), variance)


OSGT_FAMILY = register(
    Family(
        name="osgt",
        potential=OffsetPotential,
        unit=_unit,
        ends=(
            End(
                "gaussian", "many coordinates for this δ: their losses add up to a bell curve, which suits the Gaussian"
            ),
            End("laplace", "few coordinates for this δ: the bounded privacy loss of the Laplace pays"),
        ),
        real=OSGT.of,
        integer=DiscreteOSGT.of,
    )
)
