"""The parameters that OSGT and DiscreteOSGT share."""

import math
from dataclasses import dataclass
from numbers import Real
from typing import Self

from osgt.noise.potential import OffsetPotential


def real_number(name: str, value: object, *, positive: bool) -> float:
    """Return `value` as a finite float that is ≥ 0 (> 0 where `positive`), or say what is wrong with it."""
    allowed = "a finite number > 0" if positive else "a finite number ≥ 0"
    if type(value) is not float and (isinstance(value, bool) or not isinstance(value, Real)):
        raise TypeError(f"{name} must be {allowed}, got {value!r} of type {type(value).__name__}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number) or number < 0 or (positive and number == 0):
        raise ValueError(f"{name} must be {allowed}, got {value!r}")
    return number


@dataclass(frozen=True, init=False, repr=False)
class OffsetLaw:
    """A member of the family exp(-slope·|y| - curvature·y²/2).

    The law is the pair of stored floats, exactly: sampler and accounting read the same two numbers.

    Parameters
    ----------
    m : float
        Offset of the two Gaussian tails, ≥ 0. Zero is the Gaussian.
    sigma : float
        Scale of the two Gaussian tails, > 0. It is *not* the standard deviation, which is smaller.
    """

    slope: float
    curvature: float

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
        self._store(offset / variance, curvature)

    def _store(self, slope: float, curvature: float) -> None:
        if slope == 0 and curvature == 0:
            raise ValueError("slope and curvature are both zero: at least one must be > 0")
        object.__setattr__(self, "slope", slope)
        object.__setattr__(self, "curvature", curvature)

    @classmethod
    def from_rates(cls, slope: float, curvature: float) -> Self:
        """The law exp(-slope·|y| - curvature·y²/2): slope = m/sigma², curvature = 1/sigma²."""
        law = cls.__new__(cls)
        law._store(real_number("slope", slope, positive=False), real_number("curvature", curvature, positive=False))
        return law

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

    @property
    def potential(self) -> OffsetPotential:
        """The even, convex function U(|y|) = -log density + constant."""
        return OffsetPotential(self.slope, self.curvature)

    def __repr__(self) -> str:
        name = type(self).__name__
        if self.slope == 0:
            return f"{name}.gaussian(sigma={self.sigma:.10g})"
        if self.curvature == 0:
            return f"{name}.laplace(scale={1.0 / self.slope:.10g})"
        return f"{name}(m={self.m:.10g}, sigma={self.sigma:.10g})"
