"""Choose a limit privately: candidates, their scores, and an exact draw by permute-and-flip (McKenna and Sheldon 2020).

A *ladder* has the candidates of one kind in ascending order. Of each candidate it is known in public how much noise it
leads to; from the data comes only how many units it would cut. A candidate scores

    -ε·max(cut - min(target, ⌊units/10⌋), 0) - exponent·log(noise),

and the best score after adding independent noise of the distribution Exp(1) wins. That is ε-differentially private;
where a unit is exchanged for another one and there are several ladders, ε/2 takes the place of ε in the score. Privacy
rests on the first term alone; ladders, target and exponent only have to be public. docs/choice.md has the proof.

The draw is exact: the terms are multiples of 2⁻⁴⁰ (ε is rounded down to one), random bits become decisions in whole
numbers. Every candidate is tried, whatever came before it. What still depends on the data is how many random bits
a trial needs: a few, on average, for every score.

The rule (shares of the budget, how cautious the choice is) comes first. Nothing that privacy rests on: all of it is
public, and its constants are the result of simulations (docs/choice.md).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, pairwise

from osgt.noise import DiscreteOSGT
from osgt.privacy import NoisyPart
from osgt.sampling.entropy import ByteSource, system_entropy
from osgt.sampling.reference import bernoulli_exp, uniform_below

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


#: Each limit exceeds the one before by about so much: finer steps would change the error by less than 1 %.
RATIO = 1.15

#: Limits on rows reach so far: products with the steps of a unit stay within 64 bits.
LARGEST_ROWS = 1 << 20

#: At most this part of all units is cut willingly.
_WILLINGLY = 10

#: The terms of a score are multiples of one in so many.
_FINENESS = 1 << 40


@dataclass(frozen=True)
class Candidate:
    """A limit of some kind, and the standard deviation of a published number under it."""

    kind: str
    limit: int
    noise: float


@dataclass(frozen=True)
class Ladder:
    """Candidates of one kind, in ascending order: a unit that one of them cuts is cut by every one before it."""

    kind: str
    limits: tuple[int, ...]
    noise: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.limits or len(self.limits) != len(self.noise):
            raise ValueError(f"a ladder needs one noise for each limit, got {len(self.noise)} for {len(self.limits)}")
        if any(lower >= upper for lower, upper in pairwise(self.limits)):
            raise ValueError(f"limits must ascend, got {self.limits!r}")
        if not all(0 < noise < math.inf for noise in self.noise):
            raise ValueError(f"noise must be finite and > 0, got {self.noise!r}")

    def __iter__(self) -> Iterator[Candidate]:
        return (Candidate(self.kind, *rung) for rung in zip(self.limits, self.noise, strict=True))


def limits_between(smallest: int, largest: int, ratio: float = RATIO) -> tuple[int, ...]:
    """Whole numbers from `smallest` to `largest`, each about `ratio` times the one before.

    Lengths are given by their squares: `limits_between(1, largest**2, RATIO**2)`.

    >>> limits_between(1, 20)
    (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 18, 20)
    """
    if not 1 <= smallest <= largest:
        raise ValueError(f"limits must be whole numbers from 1 on, got {smallest!r} to {largest!r}")
    limits = [smallest]
    while limits[-1] < largest:
        limits.append(min(max(limits[-1] + 1, round(limits[-1] * ratio)), largest))
    return tuple(limits)


def count_cut(histogram: Sequence[int]) -> tuple[int, ...]:
    """Count the units that each candidate of a ladder would cut.

    Parameters
    ----------
    histogram
        Units whose number is at most the first limit, units between the first and the second, …, units above the last:
        one count more than there are limits.
    """
    return tuple(accumulate(reversed(histogram[1:])))[::-1]


def choose(
    ladders: Sequence[Ladder],
    histograms: Sequence[Sequence[int]],
    *,
    epsilon: float,
    target: int,
    exponent: float,
    neighbours: str,
    source: ByteSource = system_entropy,
) -> Candidate:
    """Draw one candidate; `loss_of_choice(epsilon)` is what that costs.

    Parameters
    ----------
    ladders
        Candidates, known in public.
    histograms
        One for each ladder, all over the same units, as `count_cut` takes them. Private!
    target
        So many units may be cut without a lower score.
    exponent
        The larger it is, the more a candidate with less noise is preferred.
    neighbours
        "add_remove" or "change_one".
    """
    costs = scores_below_zero(
        ladders,
        histograms,
        epsilon=epsilon * score_strength(len(ladders), neighbours),
        target=target,
        exponent=exponent,
    )
    candidates = [candidate for ladder in ladders for candidate in ladder]
    return candidates[permute_and_flip(costs, source)]


def score_strength(ladders: int, neighbours: str) -> float:
    """The factor of ε in the score: ½ if an exchange of units can move two scores in opposite directions."""
    if neighbours not in ("add_remove", "change_one"):
        raise ValueError(f"neighbours must be 'add_remove' or 'change_one', got {neighbours!r}")
    return 0.5 if neighbours == "change_one" and ladders > 1 else 1.0


def scores_below_zero(
    ladders: Sequence[Ladder],
    histograms: Sequence[Sequence[int]],
    *,
    epsilon: float,
    target: int,
    exponent: float,
) -> list[Fraction]:
    """The scores of all candidates with their signs turned: the smaller, the better. Exact in the histograms."""
    if [len(histogram) for histogram in histograms] != [len(ladder.limits) + 1 for ladder in ladders]:
        raise ValueError("histograms must have one count more than their ladders have limits")
    units = {sum(histogram) for histogram in histograms}
    if len(units) != 1:
        raise ValueError("histograms must be over the same units: their sums differ")
    allowed = min(target, units.pop() // _WILLINGLY)
    rate = Fraction(math.floor(epsilon * _FINENESS), _FINENESS)
    return [
        rate * max(cut - allowed, 0) + Fraction(round(exponent * math.log(candidate.noise) * _FINENESS), _FINENESS)
        for ladder, histogram in zip(ladders, histograms, strict=True)
        for candidate, cut in zip(ladder, count_cut(histogram), strict=True)
    ]


def permute_and_flip(costs: Sequence[Fraction], source: ByteSource = system_entropy) -> int:
    """Draw the index of the largest of -cost + E, with independent E of the distribution Exp(1).

    Candidates are tried in a random order and accepted with probability exp(least cost - cost); the first that is
    accepted wins. The rest is tried as well, so that the time does not tell when that was.
    """
    least = min(costs)
    order = list(range(len(costs)))
    for last in range(len(order) - 1, 0, -1):
        other = uniform_below(last + 1, source)
        order[last], order[other] = order[other], order[last]
    accepted = [index for index in order if bernoulli_exp(costs[index] - least, source)]
    return accepted[0]


def loss_of_choice(epsilon: float, draws: int = 1) -> NoisyPart:
    """The privacy loss of an ε-differentially private draw: randomised response, which dominates every such.

    Geometric noise of rate ε on one whole number that moves by 1 *is* randomised response: its loss is ε or -ε. (That
    of Laplace noise on the reals lies between them, too, and would be too small.)
    """
    return NoisyPart(DiscreteOSGT.from_rates(epsilon, 0.0), 1, draws)
