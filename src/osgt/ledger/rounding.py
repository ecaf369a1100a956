"""Fractions as floats, rounded to one side."""

import math
from fractions import Fraction


def rounded_up(value: Fraction) -> float:
    """The least float that is not smaller."""
    near = float(value)
    return near if Fraction(near) >= value else math.nextafter(near, math.inf)


def rounded_down(value: Fraction) -> float:
    """The largest float that is not larger."""
    near = float(value)
    return near if Fraction(near) <= value else math.nextafter(near, -math.inf)
