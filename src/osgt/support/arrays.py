"""Types of arrays, and the limits of whole numbers, noise and shifts: one list for all that refuse larger ones."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

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
