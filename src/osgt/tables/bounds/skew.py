"""How unequal groups are: the mean square of their sizes over the square of the mean."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from osgt.noise import IntegerLaw

#: What is taken for granted as long as nothing else is measured: sizes of groups in real tables.
USUAL, _USUAL_STD = 2.0, 1.5

#: The fourth moment of noise is at most so many squared variances, that of the Laplace distribution.
_FOURTH = 6.0


@dataclass(frozen=True, eq=False)
class Sizes:
    """Noisy sizes of groups where every unit counts in one group of its own, drawn at random.

    `known` says whether these are all groups, which are public; otherwise those that reached a threshold.
    """

    numbers: NDArray[np.int64]
    noise: IntegerLaw
    known: bool

    def share(self, units: float) -> float:
        """The part of the units that is in these groups."""
        return 1.0 if self.known or units <= 0 else min(max(float(self.numbers.sum()) / units, 0.0), 1.0)

    def skew(self, units: float) -> float:
        """The skew κ ≥ 1, between what was measured and what is usual, as far as the noise lets one tell.

        The squares of noisy sizes are too large by the variance of the noise, and by the units themselves, which are in
        one of their groups by chance.
        """
        n, inside = len(self.numbers), units * self.share(units)
        if n == 0 or inside <= 0:
            return USUAL
        variance = self.noise.var()
        squares = float(np.sum(self.numbers.astype(np.float64) ** 2)) - n * variance - inside
        measured = n * squares / inside**2
        error = n / inside**2 * math.sqrt((_FOURTH - 1.0) * n * variance**2 + 4.0 * variance * max(squares, 0.0))
        weight = _USUAL_STD**2 / (_USUAL_STD**2 + error**2)
        return max(weight * measured + (1.0 - weight) * USUAL, 1.0)
