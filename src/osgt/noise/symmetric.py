"""What every symmetric distribution has, on the reals and on the integers."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from osgt.noise.mills import Floats
from osgt.noise.potential import Potential


@dataclass(frozen=True)
class SymmetricLaw:
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
        """All of the line."""
        return -math.inf, math.inf

    def interval(self, confidence: ArrayLike) -> tuple[Floats, Floats]:
        """The least symmetric interval that holds Y with at least the given probability."""
        confidence = np.asarray(confidence, dtype=np.float64)
        half_width = self.isf(np.where(confidence >= 0, (1.0 - confidence) / 2, np.nan))
        return -half_width, half_width
