"""Numbers that users pass, checked."""

import math
from numbers import Real


def real_number(name: str, value: object, *, positive: bool) -> float:
    """Return `value` as a finite float that is ≥ 0 (> 0 where `positive`), or say what is wrong with it."""
    allowed = "a finite number > 0" if positive else "a finite number ≥ 0"
    if type(value) is not float and (isinstance(value, bool) or not isinstance(value, Real)):
        raise TypeError(f"{name} must be {allowed}, got {value!r} of type {type(value).__name__}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number) or number < 0 or (positive and number == 0):
        raise ValueError(f"{name} must be {allowed}, got {value!r}")
    return number


def confidence_level(value: object, name: str = "confidence") -> float:
    """Return `value` as a float between 0 and 1, or say what is wrong with it."""
    number = real_number(name, value, positive=True)
    if number >= 1:
        percent = f"; write {number:g} % as {number / 100:g}" if 1 < number < 100 else ""
        raise ValueError(f"{name} must be above 0 and below 1, got {value!r}{percent}")
    return number
