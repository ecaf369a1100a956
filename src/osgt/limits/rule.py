"""The rule by which a limit is chosen: shares of the budget, and how cautious the choice is.

Nothing that privacy rests on: all of it is public. The constants are the result of simulations (docs/choice.md).
"""

import math
from dataclasses import dataclass

#: At most this share of ε goes to the choice: beyond it, whoever knows the limit should give it.
MOST_FOR_CHOICE = 0.25

#: The share if units abound: fewer groups need more, since a cut unit is missed more in each of them.
_LEAST_FOR_CHOICE = 0.05
_LEAST_FOR_FEW_GROUPS = 0.1
_FEW_GROUPS_FACTOR = 0.5

#: Groups are taken to be so many where nobody says how many there are.
USUAL_GROUPS = 30

#: The share for measuring what was cut off falls with the root of the number of groups: it is divided among them.
_CUT_OFF_FACTOR = 0.35
_LEAST_FOR_CUT_OFF = 0.02
_MOST_FOR_CUT_OFF = 0.15

#: Units that are cut willingly, for each group and each standard deviation of noise at the limit 1.
_TARGET_FACTOR = 0.5

#: An overshoot by a factor f has probability about f^(-exponent). Below 4 the noise would often be far too large.
_LEAST_EXPONENT = 4.0
_LARGEST_EXPONENT = 6.0

#: Where intervals do not allow for what was cut off, less may be cut off.
_CAUTIOUS_SHARE = 0.15
_CAUTIOUS_TARGET_FACTOR = 0.125

#: Totals of few units can be most of a sum. In few groups that is missed most, and a large limit is the lesser evil.
_EXPONENT_OF_TOTALS = 3.0

#: A limit that cuts everybody loses 90 % of ε·units in its score, and must still lose by a factor of e¹².
_FALL = 0.9
_CERTAIN = 12.0


@dataclass(frozen=True)
class Rule:
    """Parameters of a choice: shares of ε for all draws together and for what was cut off, and those of `choose`."""

    choice_share: float
    cut_off_share: float
    target: int
    exponent: float


def units_needed(epsilon: float, span: float, *, draws: int = 1, strength: float = 1.0) -> int:
    """The fewest units with which a limit can be chosen.

    A limit that cuts everybody has the least noise. So that it is not chosen, ε₁·units must outweigh the exponent times
    the logarithm of `span`: 75 for limits from 1 to 2²⁰, 300 units at ε = 1.

    Parameters
    ----------
    span
        The largest noise of a candidate over the smallest.
    draws
        How many limits are chosen.
    strength
        The factor of ε in the score (`score_strength`).
    """
    return math.ceil(_needed(span, strength) * draws / (epsilon * MOST_FOR_CHOICE))


def rule_for(
    epsilon: float,
    units: float,
    groups: int,
    noise: float,
    span: float,
    *,
    draws: int = 1,
    strength: float = 1.0,
    moves_intervals: bool = True,
    of_totals: bool = False,
) -> Rule | None:
    """The rule for a release; None if there are too few units (`units_needed`), and the limit must be given.

    Parameters
    ----------
    epsilon
        The whole ε of the release, choice included.
    units
        About how many units there are, known in public or measured.
    groups
        The number of public groups; of private ones a guess.
    noise
        Standard deviation of a published number, over the limit, at the whole ε and with all columns of the release.
    span, draws, strength
        As in `units_needed`.
    moves_intervals
        Whether upper ends of intervals are moved up by what was cut off: not for signed sums and means.
    of_totals
        Whether the limit is one of totals, rather than of numbers of rows or of values.
    """
    share = _needed(span, strength) * draws / (epsilon * max(units, 1.0))
    if share > MOST_FOR_CHOICE:
        return None
    least, factor = _CAUTIOUS_SHARE, _CAUTIOUS_TARGET_FACTOR
    cut_off_share, largest_exponent = share_for_cut_off(groups, moves_intervals=moves_intervals), _LEAST_EXPONENT
    if moves_intervals:
        root = math.sqrt(groups)
        least = _within(_FEW_GROUPS_FACTOR / root, _LEAST_FOR_CHOICE, _LEAST_FOR_FEW_GROUPS)
        factor, largest_exponent = _TARGET_FACTOR, _LARGEST_EXPONENT
    share = max(share, least)
    outweighed = _FALL * strength * share * epsilon * units / draws - _CERTAIN
    exponent = _within(outweighed / math.log(max(span, 2.0)), _LEAST_EXPONENT, largest_exponent)
    if of_totals and groups < USUAL_GROUPS:
        factor, exponent = _CAUTIOUS_TARGET_FACTOR, _EXPONENT_OF_TOTALS
    # With less of ε the noise is larger, nearly in proportion.
    left = 1.0 - share - cut_off_share
    return Rule(share, cut_off_share, math.floor(factor * noise / left * groups), exponent)


def share_for_cut_off(groups: int | None, *, moves_intervals: bool) -> float:
    """The share of ε for measuring what was cut off; of groups whose number is not public, a usual one is taken."""
    if not moves_intervals:
        return _LEAST_FOR_CUT_OFF
    return _within(_CUT_OFF_FACTOR / math.sqrt(groups or USUAL_GROUPS), _LEAST_FOR_CUT_OFF, _MOST_FOR_CUT_OFF)


def _needed(span: float, strength: float) -> float:
    """The least ε₁·units of one draw."""
    return (_LEAST_EXPONENT * math.log(max(span, 2.0)) + _CERTAIN) / (_FALL * strength)


def _within(value: float, least: float, most: float) -> float:
    return min(max(value, least), most)
