"""The ε that an accepted error needs: a round one, found among plans that the query remembers."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from osgt.tables.plan import Plan

#: Further plans at most, before the search is given up.
_MOST_PLANS = 24

_LEAST, _LARGEST = 1e-6, 1e5


def accepted_epsilon(plan_at: Callable[[float], "Plan"], target: float, column: str | None, guess: float) -> float:
    """The least ε of two digits at which the noise interval of a column is as narrow as the target.

    `guess` is where to begin; without a column, the first one whose noise does not depend on the group counts.
    """
    name = column or first_column(plan_at(_round_up(guess)))

    def width(epsilon: float) -> float:
        [found] = [each.half_width for each in plan_at(epsilon).columns if each.name == name] or [None]
        if found is None:
            raise ValueError(f"column must be a count or a sum: the interval of {name} depends on the group")
        return found

    epsilon = _round_up(guess)
    tried: set[float] = set()
    # The width is about inversely proportional to ε: this comes near within two or three plans.
    while epsilon not in tried and len(tried) < _MOST_PLANS:
        tried.add(epsilon)
        epsilon = _round_up(min(max(epsilon * width(epsilon) / target, _LEAST), _LARGEST))
    for _ in range(_MOST_PLANS):
        if width(epsilon) > target:
            if epsilon >= _LARGEST:
                raise ValueError(f"interval {target:g} is too small for this query: not even ε = 100,000 reaches it")
            epsilon = _neighbour(epsilon, 1)
        elif epsilon > _LEAST and width(before := _neighbour(epsilon, -1)) <= target:
            epsilon = before
        else:
            break
    if epsilon <= _LEAST:
        raise ValueError(f"interval {target:g} is wide enough for any ε")
    return epsilon


def first_column(plan: "Plan") -> str:
    """The first column whose noise is the same in every group."""
    known = [column.name for column in plan.columns if column.noise is not None]
    if not known:
        raise ValueError("interval is for counts and sums: choose ε by its value, or add a count")
    return known[0]


def _digits(epsilon: float) -> tuple[int, int]:
    """The least number of two digits and the power of ten that is at least ε."""
    power = math.floor(math.log10(epsilon)) - 1
    digits = math.ceil(epsilon / 10.0**power * (1.0 - 1e-12))
    return (10, power + 1) if digits > 99 else (digits, power)


def _round_up(epsilon: float) -> float:
    digits, power = _digits(epsilon)
    return float(f"{digits}e{power}")


def _neighbour(epsilon: float, step: int) -> float:
    """The next number of two digits, above or below."""
    digits, power = _digits(epsilon)
    digits += step
    if digits < 10:
        digits, power = 99, power - 1
    return float(f"{digits}e{power}")
