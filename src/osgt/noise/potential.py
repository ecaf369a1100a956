"""What the rest of the software needs to know of a noise distribution: its even, convex potential.

A distribution with density (or pmf) proportional to exp(-U(|y|)) is used by sampler and accounting through a
`Potential` only. A further family of noise is one more class of potentials, and a `Family` that lists them.
"""

from collections.abc import Sequence
from typing import ClassVar, Protocol, Self

from flint import arb

from osgt.noise.mills import Floats


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
