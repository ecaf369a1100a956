"""What the rest of the software needs to know of a noise law: its even, convex potential.

A law with density (or pmf) proportional to exp(-U(|y|)) is used by the integer law, the sampler and the
accounting through a `Potential` only. A further family of noise is one more class here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from flint import arb

from osgt.noise.mills import Floats, half_line_moments, hazard


class Potential(Protocol):
    """U on the half line y ≥ 0: convex, nondecreasing, U(0) = 0, smooth for y > 0."""

    def __call__(self, y: Floats) -> Floats:
        """U(y), to a relative error below 2⁻⁴⁸."""

    def derivatives(self, y: Floats) -> Sequence[Floats]:
        """U'(y), U''(y), …, up to the last that is not identically zero (at 0: from the right)."""

    def hazard(self, y: Floats) -> Floats:
        """exp(-U(y)) / ∫_y^∞ exp(-U)."""

    def moments(self) -> tuple[float, float]:
        """First and second moment of the density on y ≥ 0 that is proportional to exp(-U)."""

    def ball(self, y: int) -> arb:
        """A ball that contains U(y), as narrow as Arb's working precision allows."""


@dataclass(frozen=True)
class OffsetPotential:
    """U(y) = slope·y + curvature·y²/2: a Laplace density times a Gaussian density."""

    slope: float
    curvature: float

    def __call__(self, y: Floats) -> Floats:
        return y * (self.slope + 0.5 * self.curvature * y)

    def derivatives(self, y: Floats) -> Sequence[Floats]:
        first = self.slope + self.curvature * y
        return (first, np.full_like(first, self.curvature))

    def hazard(self, y: Floats) -> Floats:
        return hazard(self.slope + self.curvature * y, self.curvature)

    def moments(self) -> tuple[float, float]:
        return half_line_moments(self.slope, self.curvature)

    def ball(self, y: int) -> arb:
        # A float becomes an exact ball, so the only error is Arb's own rounding, which it keeps track of.
        return arb(y) * (arb(self.slope) + arb(self.curvature) * arb(y) / 2)
