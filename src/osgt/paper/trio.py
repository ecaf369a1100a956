"""Three noises of the same variance: OSGT, Gaussian and Laplace; and where one overtakes another."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from osgt.noise import OSGT, DiscreteOSGT
from osgt.privacy import PrivacyProfile
from osgt.support.arrays import Floats


@dataclass(frozen=True)
class Trio:
    """An OSGT with the Gaussian and the Laplace of its variance, on the reals or on the integers.

    Examples
    --------
    >>> trio = Trio.of(OSGT(3, 40**0.5))
    >>> round(trio.laplace.var() / trio.osgt.var(), 9)
    1.0
    """

    osgt: OSGT | DiscreteOSGT
    gaussian: OSGT | DiscreteOSGT
    laplace: OSGT | DiscreteOSGT

    @classmethod
    def of(cls, law: OSGT | DiscreteOSGT) -> "Trio":
        """The distribution and its two rivals at equal variance."""
        if isinstance(law, OSGT):
            return cls(law, OSGT.gaussian(law.std()), OSGT.laplace(law.std() / math.sqrt(2)))
        # The two-sided geometric distribution with ratio exp(-1/t) has the variance 1/(2·sinh²(1/2t)).
        scale = 1.0 / (2 * math.asinh(1.0 / (math.sqrt(2) * law.std())))
        return cls(law, _discrete_gaussian(law.var()), DiscreteOSGT.laplace(scale))

    def profiles(self, coordinates: int = 1) -> tuple[PrivacyProfile, PrivacyProfile, PrivacyProfile]:
        """Privacy of OSGT, Gaussian and Laplace, each coordinate changed by 1."""
        osgt, gaussian, laplace = (
            PrivacyProfile(law, coordinates=coordinates) for law in (self.osgt, self.gaussian, self.laplace)
        )
        return osgt, gaussian, laplace


def _discrete_gaussian(variance: float) -> DiscreteOSGT:
    """Find the discrete Gaussian of a variance: from σ = 1 on σ² to seven digits and more; below, solved for."""
    law = DiscreteOSGT.gaussian(math.sqrt(variance))
    if abs(law.var() / variance - 1) < 1e-12:
        return law
    scale = brentq(lambda s: DiscreteOSGT.gaussian(s).var() - variance, 0.2, 2 * math.sqrt(variance) + 1, xtol=1e-12)
    return DiscreteOSGT.gaussian(scale)


def of_shape(shape: float, variance: float) -> OSGT:
    """The OSGT with the given m/σ and variance."""
    unit = OSGT(shape, 1.0).var()
    sigma = math.sqrt(variance / unit)
    return OSGT(shape * sigma, sigma)


def log_ratio(numerator: Floats, denominator: Floats) -> Floats:
    """log(numerator/denominator), infinite where one of them is 0 and NaN where both are."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.log(numerator) - np.log(denominator))


def turns(difference: Callable[[float], float], grid: Floats) -> list[float]:
    """Find the zeros of a difference, to 10 digits, if its sign changes once between neighbours of the grid."""
    values = np.array([difference(float(x)) for x in grid])
    result = []
    for i in np.flatnonzero(np.signbit(values[:-1]) != np.signbit(values[1:])):
        if np.isfinite(values[i]) and np.isfinite(values[i + 1]):
            result.append(float(brentq(difference, grid[i], grid[i + 1], xtol=1e-12, rtol=1e-10)))
    return result


def last_turn(difference: Callable[[float], float], grid: Floats) -> float:
    """The last change of sign; NaN where there is none."""
    result = turns(difference, grid)
    return result[-1] if result else math.nan


def epsilon_turn(one: PrivacyProfile, other: PrivacyProfile, grid: Floats) -> float:
    """The ε from which on `one` has the smaller δ (up to the end of the grid); NaN where there is none."""
    return last_turn(lambda e: float(log_ratio(one.delta(e), other.delta(e))), grid)


def alpha_turn(one: Callable[[float], float], other: Callable[[float], float], grid: Floats) -> float:
    """The order α from which on `one` is the smaller divergence or bound."""
    return last_turn(lambda a: one(a) - other(a), grid)
