"""Groups that are chosen by a noisy count: from which threshold on, so that noise and choice together keep (ε, δ).

docs/dominance.md has the proof. A group is shown if count + Y ≥ τ. Let F be the distribution function of Y, K the most
that a unit adds to a count and g the most groups that it counts in. The chance that a group which is one unit's alone
is shown, of any of its groups, is at most s = 1 - F(τ - 1 - K)^g. Where the unit adds K in all its groups together, it
is at most s = 1 - F(τ - 1 - K)·F(τ - 1)^(g - 1): F is log-concave, so -Σ log F(τ - 1 - t) is convex in what the unit
adds to its groups, and largest where all of it is in one. Noise that is (ε, δ - s) and this choice are (ε, δ) together.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

from osgt.noise import Distribution
from osgt.support.numeric import first_that_fits


@dataclass(frozen=True)
class Selection:
    """The choice of groups: they are shown from the noisy count `threshold` on, in steps.

    `delta` is the chance that any group that is one unit's alone is shown, rounded up: it adds to the δ of the noise.
    """

    threshold: int
    delta: float


@lru_cache(maxsize=256)
def select(noise: Distribution, most: int, groups: int, delta: float, *, in_all: bool) -> Selection:
    """The least threshold whose chance to show a group of one unit alone is at most δ.

    Parameters
    ----------
    most
        The most that a unit adds to a count: to each of its groups, or `in_all` to all of them together.
    groups
        The most groups that a unit counts in.
    """
    # With all that it can add in each of its groups, a unit is seen more often.
    high = int(noise.isf(delta / groups * (1.0 - 1e-12))) + most + 1
    while _chance(noise, high, most, groups, in_all=in_all) > delta:
        high += 1
    low = high - most if in_all else high - 1
    while low > 0 and _chance(noise, low, most, groups, in_all=in_all) <= delta:
        low, high = low - max(1, most), low
    high = first_that_fits(lambda tau: _chance(noise, tau, most, groups, in_all=in_all) <= delta, low + 1, high)
    return Selection(high, _chance(noise, high, most, groups, in_all=in_all))


def _chance(noise: Distribution, tau: int, most: int, groups: int, *, in_all: bool) -> float:
    """The chance that any group of a unit alone is shown, rounded up."""
    above = [float(noise.sf(place)) for place in (tau - 1 - most, tau - 1)]
    if above[0] >= 1.0:
        return 1.0
    full, empty = (-math.log1p(-chance) for chance in above)
    return -math.expm1(-(full + (groups - 1) * (empty if in_all else full))) * (1.0 + 1e-12)


def shown_size(noise: Distribution, tau: int, probability: float) -> int:
    """The least count with which a group is shown with this probability."""
    return max(1, tau + int(noise.isf(1.0 - probability)))
