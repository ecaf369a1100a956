"""Groups that are chosen by a noisy count: from which threshold on, so that noise and choice together keep (ε, δ).

docs/dominance.md has the proof. With p = P[most + Y ≥ τ], the chance that a group with one unit alone is shown, and
q = 1 - p, what is to be kept is 1 - q^j + q^j·δ_j(ε) ≤ δ for every j from 1 to max_groups: j groups of the unit have
nobody else in them, and δ_j is the δ of all the noise that the unit still moves without these.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from osgt.noise import Distribution

#: Numbers of groups up to which each is looked at if need be; beyond, blocks that grow by this factor stand for all in
#: them.
_EACH = 12
_GROWTH = 1.25

#: Part of δ that makes no difference to the threshold.
_NOTHING = 1e-6


@dataclass(frozen=True)
class Selection:
    """The choice of groups: they are shown from the noisy count `threshold` on.

    `delta` is the chance that any group that is one unit's alone is shown; `charged_separately` says whether it adds to
    the δ of the noise, as in a ledger, or is within it.
    """

    threshold: int
    delta: float
    charged_separately: bool


def chance_alone(groups: int, delta: float, delta_without: Callable[[int], float]) -> float:
    """The largest chance p, rounded down, to show a group that has one unit alone in it.

    Parameters
    ----------
    groups
        The most groups that one unit is in.
    delta_without
        For j the δ at the budget's ε of all the noise that a unit moves if nobody else is in j of its groups: an upper
        bound that does not rise with j.
    """
    # 1 - q^j + q^j·d ≤ δ  ⇔  -j·log q ≤ -log(1 - (δ - d)/(1 - d)); d = 0 allows the most.
    least = -math.log1p(-delta) / groups
    first = 1
    while first <= groups:
        spent = delta_without(first)
        left = delta - spent
        if left <= 0:
            raise ValueError("the noise alone needs all of delta: nothing is left for choosing groups")
        limit = -math.log1p(-left / (1.0 - spent))
        # The limit holds from `first` on, and says nothing new up to here.
        last = min(math.floor(limit / least), groups - 1)
        if spent <= _NOTHING * delta:
            last = groups
        elif last < first:
            last = first if first < _EACH else min(groups, math.ceil(first * _GROWTH))
        least = min(least, limit / last)
        first = last + 1
    return -math.expm1(-least) * (1.0 - 1e-12)


def chance_apart(groups: int, delta: float) -> float:
    """The largest chance p, rounded down, with which 1 - (1 - p)^groups ≤ δ: where the choice is charged by itself."""
    return -math.expm1(math.log1p(-delta) / groups) * (1.0 - 1e-12)


def chosen_delta(groups: int, chance: float) -> float:
    """1 - (1 - chance)^groups, rounded up: the chance that any group of a unit alone is shown."""
    return -math.expm1(groups * math.log1p(-chance)) * (1.0 + 1e-12)


def threshold(noise: Distribution, most: int, chance: float) -> int:
    """The least τ with P[most + Y ≥ τ] ≤ chance."""
    return int(noise.isf(chance)) + most + 1


def shown_size(noise: Distribution, tau: int, probability: float) -> int:
    """The least count with which a group is shown with this probability."""
    return max(1, tau + int(noise.isf(1.0 - probability)))
