"""DiscreteOSGT on the integers: the distribution that a release adds."""

from dataclasses import dataclass

from osgt.noise.integer import IntegerLaw
from osgt.noise.offset import OffsetLaw, OffsetPotential


@dataclass(frozen=True, init=False, repr=False)
class DiscreteOSGT(OffsetLaw, IntegerLaw):
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
