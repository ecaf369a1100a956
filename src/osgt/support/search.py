"""Searches for the place where something turns true, with a result on the side that was verified."""

import math
from collections.abc import Callable

import scipy


def grow(start: float, is_short: Callable[[float], bool], factor: float = 2.0) -> float:
    """The first of start, start·factor, start·factor², … that is not too short."""
    while is_short(start):
        start *= factor
    return start


def least_that_fits(
    fits: Callable[[float], bool],
    start: float,
    *,
    step: float,
    accuracy: float,
    lowest: float = -math.inf,
    largest: float = math.inf,
) -> float | None:
    """A number that was found to fit, at most `accuracy` above one that was found not to; all larger ones must fit.

    The search goes out from `start` in steps that double, then halves what lies between. It looks at no number below
    `lowest`, which is the result if it fits; above `largest` it ends with None.
    """
    low = high = start
    if fits(start):
        while low == high or fits(low):
            if low <= lowest:
                return low
            low, high, step = max(low - step, lowest), low, 2.0 * step
    else:
        while low == high or not fits(high):
            low, high, step = high, high + step, 2.0 * step
            if high > largest:
                return None
    while high - low > accuracy:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def root_within(
    excess: Callable[[float], float],
    low: float,
    high: float,
    *,
    inward: Callable[[float], float],
    xtol: float,
    rtol: float = 2.0**-50,
) -> float:
    """A number between two at which the excess has opposite signs: near its root, and with an excess of at most 0.

    `inward` moves a number by a hair to the side where the excess is below 0.
    """
    root = float(scipy.optimize.brentq(excess, low, high, xtol=xtol, rtol=rtol))
    while excess(root) > 0:
        root = inward(root)
    return root
