"""A noise family that the package does not know: potentials slope·|y| + quartic·y⁴, as a user would write it.

The ends are y⁴ itself (u = 0) and the Laplace (u = 1). U' is not log-concave between them, unlike that of OSGT.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from flint import arb

from osgt.noise import End, Family
from osgt.support.numeric import real_number

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(56)

#: Integrands are followed down to exp(-_DEPTH).
_DEPTH = 50.0


@dataclass(frozen=True)
class QuarticPotential:
    """U(y) = slope·y + quartic·y⁴, with its integrals by Gauss–Legendre quadrature."""

    slope: float
    quartic: float

    family: ClassVar[str] = "quartic"
    tail_error: ClassVar[float] = 1e-13

    def __post_init__(self):
        for name in ("slope", "quartic"):
            object.__setattr__(self, name, real_number(name, getattr(self, name), positive=False))
        if self.slope == self.quartic == 0:
            raise ValueError("slope and quartic are both zero")

    def __call__(self, y):
        return y * (self.slope + self.quartic * (y * y * y))

    def rise(self, y, d):
        return d * (self.slope + self.quartic * ((2.0 * y + d) * (y * y + (y + d) * (y + d))))

    def derivatives(self, y):
        b = self.quartic
        return (self.slope + 4 * b * y**3, 12 * b * y**2, 24 * b * y, np.full_like(y, 24 * b))

    @property
    def largest_slope(self):
        return self.slope if self.quartic == 0 else math.inf

    def hazard(self, y):
        return 1.0 / self._integral(y, 0)

    def moments(self):
        mass, first, second = (float(self._integral(np.float64(0.0), power)) for power in range(3))
        return first / mass, second / mass

    def ball(self, y):
        return arb(y) * (arb(self.slope) + arb(self.quartic) * arb(y) ** 3)

    def scaled(self, factor):
        return QuarticPotential(self.slope / factor, self.quartic / factor**4)

    def _integral(self, y, power):
        """∫ t^power·exp(U(y) - U(y + t)) over t ≥ 0."""
        y = np.asarray(y, dtype=np.float64)[..., np.newaxis]
        with np.errstate(divide="ignore"):
            steep = _DEPTH / (self.slope + 4 * self.quartic * y**3)
            reach = np.minimum(steep, (_DEPTH / np.float64(self.quartic)) ** 0.25)
        t = 0.5 * reach * (1 + _NODES)
        return (0.5 * reach * np.exp(-self.rise(y, t)) * t**power) @ _WEIGHTS


def _unit(u):
    if u == 1:
        return QuarticPotential(math.sqrt(2.0), 0.0)
    one = QuarticPotential(u / (1.0 - u), 1.0)
    return one.scaled(1.0 / math.sqrt(one.moments()[1]))


QUARTIC = Family(
    name="quartic",
    potential=QuarticPotential,
    unit=_unit,
    ends=(End("fourth power", "the errors of few values matter"), End("laplace", "one person changes few coordinates")),
)
