"""The ε that an accepted error needs: a round one, found among plans that the query remembers."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from osgt.tables.plan import Plan

#: Numbers of two digits are counted from this power of ten on, up to that one.
_LEAST_POWER, _LARGEST_POWER = -5, 3

_IN_A_POWER = 90
_LARGEST = _IN_A_POWER * (_LARGEST_POWER - _LEAST_POWER)

#: Plans by the rule of three; what is not found then is found by halving.
_BY_RULE = 6


def accepted_epsilon(plan_at: Callable[[float], "Plan"], target: float, column: str | None, guess: float) -> float:
    """The least ε of two digits at which the noise interval of a column is as narrow as the target.

    `guess` is where to begin; without a column, the first one whose noise does not depend on the group counts.
    """
    at = _place(guess)
    name = column or first_column(plan_at(_epsilon(at)))

    def width(epsilon: float) -> float:
        [found] = [each.half_width for each in plan_at(epsilon).columns if each.name == name] or [None]
        if found is None:
            raise ValueError(f"column must be a count or a sum: the interval of {name} depends on the group")
        return found

    # Intervals shrink as ε grows: too wide at `low`, narrow enough at `high`, as far as it is known.
    low, high, plans = -1, _LARGEST + 1, 0
    while high - low > 1:
        here = width(_epsilon(at))
        low, high, plans = (at, high, plans + 1) if here > target else (low, at, plans + 1)
        # About inversely proportional to ε: this comes near within two or three plans, unless widths are round.
        near = _place(_epsilon(at) * here / target) if plans < _BY_RULE else (low + high) // 2
        at = min(max(near, low + 1), high - 1)
    if high > _LARGEST:
        raise ValueError(f"interval {target:g} is too small for this query: not even ε = 1,000 reaches it")
    if high == 0:
        raise ValueError(f"interval {target:g} is wide enough for any ε")
    return _epsilon(high)


def first_column(plan: "Plan") -> str:
    """The first column whose noise is the same in every group."""
    known = [column.name for column in plan.columns if column.noise is not None]
    if not known:
        raise ValueError("interval is for counts and sums: choose ε by its value, or add a count")
    return known[0]


def _epsilon(place: int) -> float:
    """The number of two digits at a place in the row of all of them."""
    power, digits = divmod(place, _IN_A_POWER)
    return float(f"{digits + 10}e{power + _LEAST_POWER - 1}")


def _place(epsilon: float) -> int:
    """The place of the least number of two digits that is at least ε; the first or last if ε is out of range."""
    if not epsilon > 10.0**_LEAST_POWER:
        return 0
    if epsilon >= 10.0**_LARGEST_POWER:
        return _LARGEST
    power = math.floor(math.log10(epsilon))
    digits = math.ceil(epsilon / 10.0 ** (power - 1) * (1.0 - 1e-12))
    return _IN_A_POWER * (power - _LEAST_POWER) + digits - 10
