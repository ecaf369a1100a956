"""What OSGT and DiscreteOSGT share: the potential slope·|y| + curvature·y²/2, and the parameters of the paper."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from flint import arb

from osgt.noise.mills import Floats, half_line_moments, hazard
from osgt.noise.parameters import real_number


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


class OffsetLaw:
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
        law = cls.__new__(cls)
        object.__setattr__(law, "potential", potential)
        return law

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

    def __repr__(self) -> str:
        name = type(self).__name__
        if self.slope == 0:
            return f"{name}.gaussian(sigma={self.sigma:.10g})"
        if self.curvature == 0:
            return f"{name}.laplace(scale={1.0 / self.slope:.10g})"
        return f"{name}(m={self.m:.10g}, sigma={self.sigma:.10g})"
