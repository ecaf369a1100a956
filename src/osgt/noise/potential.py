"""The potential of a noise distribution, even and convex: all that the rest of the software needs to know of it.

A distribution with density (or pmf) proportional to exp(-U(|y|)) is used by sampler and accounting through a
`Potential` only. A further family of noise is one more class of potentials, and a `Family` that lists them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, Self

import numpy as np
from flint import arb
from numpy.typing import ArrayLike

from osgt.support.arrays import Floats


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
