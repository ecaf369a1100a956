"""Values as whole numbers of steps: clipped to their bounds and rounded before anything is summed.

Sums of integers are exact on every engine, in any order; what one row adds is between `low` and `high` steps whatever
the column holds, so neither infinities nor rounding can let a person move a sum by more than the noise is made for.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from numbers import Real
from typing import Any

import ibis
import ibis.expr.datatypes as dt
import ibis.expr.types as ir

#: Most steps from zero to a bound. Integers and decimals are kept exactly as long as that allows.
_EXACT_STEPS = 1 << 31
_FLOAT_STEPS = 1 << 21

#: Most steps between the bounds where squares are summed.
_SQUARED_STEPS = 1 << 13

_LARGEST_BOUND = Fraction(2) ** 900


@dataclass(frozen=True)
class Grid:
    """Multiples of `step` from `low` to `high` steps; `kind` is "integer", "decimal" or "float"."""

    kind: str
    step: Fraction
    low: int
    high: int

    @property
    def width(self) -> int:
        """Steps from one bound to the other."""
        return self.high - self.low

    @property
    def centre(self) -> Fraction:
        """The middle between the bounds."""
        return Fraction(self.low + self.high, 2) * self.step

    def steps(self, column: ir.NumericValue) -> ir.IntegerValue:
        """The number of steps of a value that is present, between `low` and `high`: the expression for the engine."""
        if self.step == 1 and column.type().is_integer():
            return _clipped(column, self.low, self.high).cast("int64")
        number = column.cast("int64") if column.type().is_boolean() else column
        # Clipped first: the product stays finite. Clipped again: no rounding of the engine can lead out of the grid.
        value = _clipped(number.cast("float64"), float(self.low * self.step), float(self.high * self.step))
        return _clipped((value * float(1 / self.step) + 0.5).floor().cast("int64"), self.low, self.high)


def present(column: ir.Value) -> ir.BooleanValue:
    """Whether there is a value: not null, and not NaN."""
    if column.type().is_floating():
        return column.notnull() & ~column.isnan().fill_null(True)
    return column.notnull()


def _clipped(value: Any, low: float, high: float) -> Any:
    return ibis.least(ibis.greatest(value, low), high)


def checked_bounds(column: str, bounds: object) -> tuple[Fraction, Fraction]:
    """The bounds as exact numbers, the lower one first."""
    if bounds is None:
        raise ValueError(f"bounds of {column!r} must be given: the least and the largest value that a row may count as")
    ends = list(bounds) if isinstance(bounds, Sequence) else []
    if len(ends) != 2 or any(isinstance(end, bool) or not isinstance(end, Real | Decimal) for end in ends):
        raise TypeError(f"bounds of {column!r} must be two numbers (low, high), got {bounds!r}")
    if not all(math.isfinite(end) for end in ends):
        raise ValueError(f"bounds of {column!r} must be finite, got {bounds!r}")
    low, high = Fraction(ends[0]), Fraction(ends[1])
    if low >= high:
        raise ValueError(f"bounds of {column!r} must be (low, high) with low < high, got {bounds!r}")
    if max(abs(low), abs(high)) > _LARGEST_BOUND or high - low < 1 / _LARGEST_BOUND:
        raise ValueError(f"bounds of {column!r} are too far from or too close to each other: {bounds!r}")
    return low, high


def grid_of(name: str, dtype: dt.DataType, bounds: object, *, squares: bool = False) -> Grid:
    """The grid for a column of this type: as fine as exact sums allow, chosen from type and bounds, never from data.

    Integers step by 1 and decimals by their last digit unless the bounds are too far apart for that; floats step by a
    power of two. `squares` leaves room for sums of squares.
    """
    low, high = checked_bounds(name, bounds)
    extent, most = (high - low, _SQUARED_STEPS) if squares else (max(abs(low), abs(high)), _EXACT_STEPS)
    if dtype.is_integer() or dtype.is_boolean():
        low, high = Fraction(math.ceil(low)), Fraction(math.floor(high))
        if low >= high:
            raise ValueError(f"bounds of {name!r} must leave room for two whole numbers, got {bounds!r}")
        return _grid("integer", max(Fraction(1), _power(2, extent / most)), low, high)
    if dtype.is_decimal():
        last_digit = Fraction(10) ** -(dtype.scale or 0)
        return _grid("decimal", max(last_digit, _power(10, extent / most)), low, high)
    if dtype.is_floating():
        return _grid("float", _power(2, extent / min(most, _FLOAT_STEPS)), low, high)
    raise TypeError(f"column {name!r} must hold numbers, got {dtype}")


def _grid(kind: str, step: Fraction, low: Fraction, high: Fraction) -> Grid:
    return Grid(kind, step, math.floor(low / step + Fraction(1, 2)), math.floor(high / step + Fraction(1, 2)))


def _power(base: int, least: Fraction) -> Fraction:
    """The least power of `base` that is not below `least`."""
    power = Fraction(base) ** math.ceil(math.log(least) / math.log(base))
    while power < least:
        power *= base
    while power / base >= least:
        power /= base
    return power
