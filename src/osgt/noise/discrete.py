"""DiscreteOSGT on the integers: the law that a release adds."""

import numpy as np
from numpy.typing import NDArray

from osgt.noise.integer import IntegerLaw
from osgt.noise.parameters import OffsetLaw


class DiscreteOSGT(OffsetLaw, IntegerLaw):
    """The integer law with pmf ∝ exp(-slope·|y| - curvature·y²/2), in the parameters of `OSGT`.

    `m = 0` is the discrete Gaussian, `DiscreteOSGT.laplace(scale)` the discrete Laplace (two-sided geometric) law.
    Its moments, quantiles and privacy come from its own pmf, not from the continuous formulas.

    Examples
    --------
    >>> law = DiscreteOSGT(m=3, sigma=40**0.5)
    >>> round(law.var(), 4)
    27.6738
    >>> law.sample(5).dtype
    dtype('int64')
    """

    def sample(self, size: int | tuple[int, ...] | None = None) -> int | NDArray[np.int64]:
        """Independent draws with exactly this law, from the operating system's entropy.

        Parameters
        ----------
        size
            Number of draws or shape; None for a single `int`.
        """
        # The one import from a lower layer: noise/ knows no randomness, but users ask the law itself for draws.
        from osgt.sampling import sampler_for  # noqa: PLC0415

        return sampler_for(self.potential).sample(size)
