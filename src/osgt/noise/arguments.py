"""Checks of what users pass, with errors that name the argument, its value and what is allowed."""

import math
from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osgt.noise.integer import IntegerDistribution
from osgt.noise.real import RealDistribution
from osgt.support.arrays import Floats
from osgt.support.errors import ArgumentError, ArgumentTypeError


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


#: What the margins of the accounting leave room for.
_LARGEST_TAIL_ERROR = 1e-13


def check_noise(noise: object) -> None:
    """Raise unless `noise` is a noise distribution that the accounting can work with."""
    if not isinstance(noise, RealDistribution | IntegerDistribution):
        raise TypeError(
            "noise must be a noise distribution (an OSGT, a DiscreteOSGT or one of another family), got "
            f"{noise!r} of type {type(noise).__name__}"
        )
    if not 0 < noise.potential.tail_error <= _LARGEST_TAIL_ERROR:
        raise ValueError(f"tail_error of the family {noise.potential.family!r} must be at most {_LARGEST_TAIL_ERROR:g}")


def positive(name: str, value: object) -> float:
    """A finite number > 0."""
    return real_number(name, value, positive=True)


def shift(noise: RealDistribution | IntegerDistribution, value: object) -> float:
    """A shift > 0: an integer where the noise is on the integers."""
    number = positive("shift", value)
    if noise.discrete and (number != math.floor(number) or number > 2**53):
        raise ArgumentError(
            f"shift must be an integer from 1 to 2**53 for noise on the integers, got {value!r}", argument="shift"
        )
    return number


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
