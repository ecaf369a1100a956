"""Numbers in computations: types of arrays, limits of size, checks of what users pass, and searches.

Limits are one list for all that refuse larger numbers. Errors of checks name the argument, its value and what is
allowed. A search for the place where something turns true ends on the side that was verified.
"""

import math
from bisect import bisect_left
from collections.abc import Callable
from numbers import Integral, Real

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from osgt.support.errors import ArgumentError, ArgumentTypeError

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


#: Exact values, and noise, are at most this in absolute value, so that their sum fits into 64 bits.
LARGEST_VALUE = 2**62

#: Sums that an engine makes stay within this: their noise and the half-width of an interval still fit beside them.
LARGEST_SUM = 2**61

#: Integers up to this are floats without rounding.
LARGEST_EXACT_FLOAT = 2**53

#: One person moves a whole number by at most this: floats in the accounting count several shifts without rounding.
LARGEST_SHIFT = 2**50

#: Shifts of floats are within this range, so that the step of their grid and 2⁶² steps are floats too.
SMALLEST_FLOAT_SHIFT, LARGEST_FLOAT_SHIFT = 1e-290, 1e280

#: Noise can be drawn if its potential reaches ½ within this: the sampler has 64 blocks of 2⁴⁷ integers for that.
LARGEST_NOISE_SCALE = 2**53

#: A decimal column of an Arrow table holds this many digits.
DECIMAL_DIGITS = 38


def can_be_drawn(potential: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> bool:
    """Whether noise with this potential U can be drawn, and added to a value within ±2⁶² in 64 bits.

    U is even and convex with U(0) = 0. If it is at least ½ at 2⁵³, it is at least 256 at 2⁶² and rises by at least
    2⁻⁵⁴ a step there, so that noise beyond 2⁶² has a probability below 1e-94: the check that remains where noise is
    added never fails in practice.
    """
    return float(potential(np.asarray(LARGEST_NOISE_SCALE, dtype=np.float64))) >= 0.5


def real_number(name: str, value: object, *, positive: bool) -> float:
    """Return `value` as a finite float that is ≥ 0 (> 0 where `positive`), or say what is wrong with it."""
    allowed = "a finite number > 0" if positive else "a finite number ≥ 0"
    if type(value) is not float and (isinstance(value, bool) or not isinstance(value, Real)):
        raise ArgumentTypeError(
            f"{name} must be {allowed}, got {value!r} of type {type(value).__name__}", argument=name
        )
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number) or number < 0 or (positive and number == 0):
        raise ArgumentError(f"{name} must be {allowed}, got {value!r}", argument=name)
    return number


def confidence_level(value: object, name: str = "confidence") -> float:
    """Return `value` as a float between 0 and 1, or say what is wrong with it."""
    number = real_number(name, value, positive=True)
    if number >= 1:
        percent = f"; write {number:g} % as {number / 100:g}" if 1 < number < 100 else ""
        raise ArgumentError(f"{name} must be above 0 and below 1, got {value!r}{percent}", argument=name)
    return number


def positive(name: str, value: object) -> float:
    """A finite number > 0."""
    return real_number(name, value, positive=True)


def count(name: str, value: object) -> int:
    """An integer from 1 to 2**53."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise ArgumentTypeError(
            f"{name} must be an integer ≥ 1, got {value!r} of type {type(value).__name__}", argument=name
        )
    number = int(value)
    if number < 1:
        raise ArgumentError(f"{name} must be an integer ≥ 1, got {value!r}", argument=name)
    if number > 2**53:
        raise ArgumentError(f"{name} must be an integer from 1 to 2**53, got {value!r}", argument=name)
    return number


def slack(value: object) -> float:
    """A relative slack."""
    number = positive("slack", value)
    if not 1e-9 <= number < 1:
        raise ValueError(f"slack must be between 1e-9 and 1, got {value!r}")
    return number


def epsilons(value: ArrayLike) -> Floats:
    """Numbers ε ≥ 0, finite."""
    numbers = _numbers("epsilon", value)
    _require(np.isfinite(numbers) & (numbers >= 0), "epsilon", numbers, "finite and ≥ 0")
    return numbers


def deltas(value: ArrayLike) -> Floats:
    """Numbers δ in [0, 1)."""
    numbers = _numbers("delta", value)
    _require((numbers >= 0) & (numbers < 1), "delta", numbers, "in (0, 1), or 0 for pure differential privacy")
    return numbers


def orders(value: ArrayLike) -> Floats:
    """Rényi orders α > 1, finite."""
    numbers = _numbers("alpha", value)
    _require(np.isfinite(numbers) & (numbers > 1), "alpha", numbers, "finite and > 1")
    return numbers


def probabilities(name: str, value: ArrayLike) -> Floats:
    """Numbers in [0, 1]."""
    numbers = _numbers(name, value)
    _require((numbers >= 0) & (numbers <= 1), name, numbers, "in [0, 1]")
    return numbers


def _numbers(name: str, value: ArrayLike) -> Floats:
    array = np.asarray(value)
    if array.dtype.kind not in "iuf":
        raise ArgumentTypeError(f"{name} must be a number or an array of numbers, got {value!r}", argument=name)
    return array.astype(np.float64)


def _require(allowed: NDArray[np.bool_], name: str, numbers: Floats, words: str) -> None:
    if not np.all(allowed):
        wrong = float(numbers[~allowed].flat[0]) if numbers.ndim else float(numbers)
        raise ArgumentError(f"{name} must be {words}, got {wrong!r}", argument=name)


def grow(start: float, is_short: Callable[[float], bool], factor: float = 2.0) -> float:
    """The first of start, start·factor, start·factor², … that is not too short."""
    while is_short(start):
        start *= factor
    return start


def first_that_fits(fits: Callable[[int], bool], low: int, high: int) -> int:
    """The least whole number from `low` on that fits, all larger ones do; `high` if none below it does."""
    return low + bisect_left(range(low, high), True, key=fits)


def bracket(
    excess: Callable[[float], float], start: float, step: float, *, lowest: float = -math.inf, largest: float = math.inf
) -> tuple[float, float]:
    """Two numbers between which an increasing excess passes 0; both `lowest`, or `largest`, if it does so beyond.

    The search goes out from `start` in steps that double.
    """
    low = high = start
    if excess(start) > 0:
        while low == high or excess(low) > 0:
            if low <= lowest:
                return low, low
            low, high, step = max(low - step, lowest), low, 2.0 * step
    else:
        while low == high or excess(high) <= 0:
            if high >= largest:
                return high, high
            low, high, step = high, min(high + step, largest), 2.0 * step
    return low, high


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
    low, high = bracket(lambda x: 1.0 if fits(x) else -1.0, start, step, lowest=lowest, largest=largest)
    if low == high:
        return low if low <= lowest else None
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
