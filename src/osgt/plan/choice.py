"""The choice of limits that are open, before a release: which are drawn, and with which part of the budget.

Each draw is differentially private by itself (docs/choice.md). The draws, and the release with the limits that they
choose, add up; whatever is chosen, the noise in steps is the same, and so is the charge.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from osgt.limits.choice import (
    LARGEST_ROWS,
    MOST_FOR_CHOICE,
    USUAL_GROUPS,
    Candidate,
    Ladder,
    Rule,
    loss_of_choice,
    rule_for,
    score_strength,
    units_needed,
)
from osgt.noise import DiscreteOSGT
from osgt.privacy import Charge, PrivacyProfile
from osgt.privacy.profile import NoisyPart
from osgt.query.aggregates.base import Limit, OpenLimit, QuerySpec, open_limits
from osgt.support.errors import ArgumentError

#: Values are looked at in steps of this, and limits on them reach from 0.01 to a thousand million.
VALUE_STEP = Fraction(1, 1000)
_VALUE_STEPS = (10, 10**12)

#: Within a range that is known, the smallest bounds are so many times smaller.
_RANGE_OVER_SMALLEST = 1_000

#: Kinds of bounds; of a column whose range is known, around its centre and from its lower end.
AROUND, FROM_ZERO = "around 0", "from 0"

#: Limits are numbers that people can read: each is about 1.15 times the one before.
_DIGITS = (10, 12, 14, 16, 18, 20, 23, 26, 30, 35, 40, 45, 50, 60, 70, 80, 90)

#: Where nobody says how many units there are, this part of ε counts them first, and this part goes to the choice.
_COUNTING_SHARE, _USUAL_SHARE = 0.02, 0.15


def ladders_of(limit: OpenLimit) -> tuple[Ladder, ...]:
    """The candidates of a limit: whole numbers of rows or of different values, or of steps of a value.

    Limits on values are around 0, or begin at 0. That halves the distance of a value from the middle of bounds; of a
    total the noise is the same, but intervals of what has one sign can allow for what was cut off. Of a column whose
    range is known, bounds are within it, around its centre or from its lower end; and totals of what cannot be negative
    begin at 0.
    """
    if not limit.is_of_values:
        return (_around(_round_numbers(1, LARGEST_ROWS)),)
    if limit.range is None:
        limits = _round_numbers(*_VALUE_STEPS)
        return _around(limits), _from_zero(limits)
    if limit.argument != "bounds":
        limits = _round_numbers(*_VALUE_STEPS)
        return (_from_zero(limits),) if limit.range[0] >= 0 else (_around(limits), _from_zero(limits))
    largest = min(math.floor((limit.range[1] - limit.range[0]) / VALUE_STEP), _VALUE_STEPS[1])
    smallest = max(largest // _RANGE_OVER_SMALLEST, 1)
    return _around(_round_numbers(smallest, largest // 2)), _from_zero(_round_numbers(smallest, largest))


def _around(limits: tuple[int, ...]) -> Ladder:
    return Ladder(AROUND, limits, tuple(float(rung) for rung in limits))


def _from_zero(limits: tuple[int, ...]) -> Ladder:
    return Ladder(FROM_ZERO, limits, tuple(0.5 * rung for rung in limits))


def _round_numbers(smallest: int, largest: int) -> tuple[int, ...]:
    """Whole numbers between two, with two digits, and the largest itself."""
    powers = range(len(str(largest)) + 1)
    numbers = {digits * 10**power // 10 for digits in _DIGITS for power in powers if digits * 10**power % 10 == 0}
    return tuple(sorted({*(number for number in numbers if smallest <= number < largest), largest}))


def limit_of(limit: OpenLimit, candidate: Candidate) -> Limit:
    """The limit that a candidate stands for."""
    if not limit.is_of_values:
        return Fraction(candidate.limit)
    size = candidate.limit * VALUE_STEP
    if candidate.kind == FROM_ZERO:
        return limit.low, limit.low + size
    return limit.centre - size, limit.centre + size


@dataclass(frozen=True)
class Draw:
    """The draw of one limit, in a table of so many groups."""

    limit: OpenLimit
    ladders: tuple[Ladder, ...]
    groups: int
    moves_intervals: bool
    #: The factor of ε in the scores (`score_strength`).
    strength: float = 1.0

    @property
    def span(self) -> float:
        """The largest noise of a candidate over the smallest."""
        return max(ladder.noise[-1] for ladder in self.ladders) / min(ladder.noise[0] for ladder in self.ladders)


@dataclass(frozen=True)
class LimitChoice:
    """Draws of limits, the whole ε of their release, and the ε of each draw and of counting the units first."""

    draws: tuple[Draw, ...]
    whole_epsilon: float
    epsilon_of_a_draw: float
    counting_epsilon: float = 0.0

    @property
    def epsilon(self) -> float:
        """The ε of all of it."""
        return len(self.draws) * self.epsilon_of_a_draw + self.counting_epsilon

    @property
    def units_needed(self) -> int:
        """The fewest units with which the limits can be chosen."""
        share = len(self.draws) * self.epsilon_of_a_draw / self.whole_epsilon
        return math.ceil(_units_needed(self.draws, self.whole_epsilon) * MOST_FOR_CHOICE / share)

    @cached_property
    def charge(self) -> Charge:
        """The loss of all draws, and of counting the units."""
        parts = [loss_of_choice(self.epsilon_of_a_draw, len(self.draws))]
        if self.counting_epsilon:
            parts.append(NoisyPart(self.counting_noise, 1, 1))
        return Charge(PrivacyProfile.of(parts))

    @property
    def counting_noise(self) -> DiscreteOSGT:
        """The noise on the number of units."""
        return DiscreteOSGT.laplace(1.0 / self.counting_epsilon)

    def rule(self, draw: Draw, units: float, noise: float) -> Rule | None:
        """The rule of a draw, given the noise at a limit of one with what is left of ε; None with too few units."""
        left = 1.0 - self.epsilon / self.whole_epsilon
        return _rule(draw, self.whole_epsilon, units, noise * left, len(self.draws))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {"limits": [draw.limit.words for draw in self.draws], "epsilon": self.epsilon}


def _rule(draw: Draw, epsilon: float, units: float, noise: float, draws: int) -> Rule | None:
    return rule_for(
        epsilon,
        units,
        draw.groups,
        noise,
        draw.span,
        draws=draws,
        strength=draw.strength,
        moves_intervals=draw.moves_intervals,
        of_totals=draw.limit.argument == "max_total",
    )


def _units_needed(draws: Sequence[Draw], epsilon: float) -> int:
    """The fewest units with which all draws together can be made."""
    return max(units_needed(epsilon, draw.span, draws=len(draws), strength=draw.strength) for draw in draws)


def choice_of(draws: tuple[Draw, ...], epsilon: float, units: int | None) -> LimitChoice | None:
    """The choice of open limits at a budget; None if none is open. Refused where there are too few units for it."""
    if not draws:
        return None
    if units is None:
        return LimitChoice(draws, epsilon, _USUAL_SHARE * epsilon / len(draws), _COUNTING_SHARE * epsilon)
    rules = [_rule(draw, epsilon, units, 1.0, len(draws)) for draw in draws]
    share = max((rule.choice_share for rule in rules if rule is not None), default=0.0)
    if None in rules:
        few = _units_needed(draws, epsilon)
        names = " and ".join(draw.limit.words for draw in draws)
        raise ArgumentError(
            f"{names}: with about {units:,} units, ε = {epsilon:.15g} is too little to choose limits privately; give "
            f"{names}, or use data about at least {few:,} units",
            argument=draws[0].limit.argument,
        )
    return LimitChoice(draws, epsilon, share * epsilon / len(draws))


def _possible(limit: OpenLimit, ladder: Ladder, query: QuerySpec) -> Ladder:
    """The candidates that the type of a column has room for: no limit that is drawn may be refused after the charge."""
    if limit.column is None or not limit.is_of_values:
        return ladder
    dtype = query.dataset.number_type_of(limit.column)
    own = [a for a in query.aggregates if a.open_limit == limit.argument and a.arguments()["column"] == limit.column]
    rungs = []
    for candidate in ladder:
        try:
            for aggregate in own:
                aggregate.with_limit(limit_of(limit, candidate), dtype)
        except ValueError:
            continue
        rungs.append(candidate)
    return Ladder(ladder.kind, tuple(rung.limit for rung in rungs), tuple(rung.noise for rung in rungs))


def draws_of(queries: Sequence[QuerySpec]) -> tuple[Draw, ...]:
    """The draws of open limits; one of several tables is drawn once, for that with the fewest groups."""
    tables: dict[OpenLimit, QuerySpec] = {}
    for query in sorted(queries, key=lambda query: -(query.groups.public_group_count or USUAL_GROUPS)):
        tables |= dict.fromkeys(open_limits(query), query)
    return tuple(_draw(limit, query) for limit, query in tables.items())


def _draw(limit: OpenLimit, query: QuerySpec) -> Draw:
    ladders = tuple(_possible(limit, ladder, query) for ladder in ladders_of(limit))
    return Draw(
        limit,
        ladders,
        query.groups.public_group_count or USUAL_GROUPS,
        # Intervals of counts and of sums from 0 on allow for what is cut off; means hardly depend on it.
        moves_intervals=limit.argument not in ("bounds", "max_distinct"),
        strength=score_strength(len(ladders), query.dataset.neighbours),
    )
