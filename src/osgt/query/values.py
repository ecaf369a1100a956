"""Values as whole numbers of steps: clipped to their bounds and rounded before anything is summed.

Sums of integers are exact on every engine, in any order; what one row adds is between `low` and `high` steps whatever
the column holds, so neither infinities nor rounding can let a person move a sum by more than the noise is made for.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from numbers import Integral, Real
from typing import Any

from osgt.data.engines.engine import least_beyond
from osgt.data.sql import Value
from osgt.data.types import ColumnType
from osgt.support.errors import ArgumentError, ArgumentTypeError
from osgt.support.numeric import DECIMAL_DIGITS

#: Most steps from zero to a bound. Integers and decimals are kept exactly as long as that allows.
_EXACT_STEPS = 1 << 31
_FLOAT_STEPS = 1 << 21

#: Most steps between the bounds where squares are summed.
_SQUARED_STEPS = 1 << 13

#: What stands for a limit that is still open: one that nobody gives.
_ANY_LIMIT = 1013

#: Steps from zero that floats tell apart, with room for rounding.
_TOLD_APART = 1 << 50

#: Larger bounds, or finer distances, are no floats with room to compute in.
_LARGEST_BOUND = Fraction(2) ** 900

#: Squares of larger numbers, or of smaller distances, are no floats.
_LARGEST_SQUARED = Fraction(2) ** 450


@dataclass(frozen=True)
class ValueGrid:
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
    def bounds(self) -> list[float]:
        """The bounds in the units of the column, as they are kept."""
        ends = [self.low * self.step, self.high * self.step]
        return [int(end) if end.denominator == 1 else float(end) for end in ends]

    @property
    def centre(self) -> Fraction:
        """The middle between the bounds."""
        return Fraction(self.low + self.high, 2) * self.step

    def steps(self, column: Value) -> Value:
        """The number of steps of a value that is present, between `low` and `high`, in the engine's SQL.

        ⌊value/step + ½⌋, exactly for integers and decimals, and no value of the column is an error.
        """
        engine, dtype = column.engine, column.dtype
        least, most = _ends(dtype)
        if self.low * self.step >= most or self.high * self.step <= least:
            # All values count as the one bound, and the other one need not be a number of the engine.
            return engine.whole(self.low if self.low * self.step >= most else self.high)
        if dtype.kind == "integer":
            return self._of_integers(column)
        if dtype.kind == "decimal":
            steps = engine.decimal_steps(column, self.step, self.low, self.high)
            return steps.at_least(self.low).at_most(self.high)
        # Ends and half steps are floats, and rounding keeps the order: no value between the ends leads out of the grid.
        # Half a step is added first: the product of a tiny value is an error on some engines, which would give it away.
        value, (low, high) = as_float(column), (float(end * self.step) for end in (self.low, self.high))
        steps = ((value + float(self.step / 2)) * float(1 / self.step)).floor().cast(engine.int64)
        beyond = (value <= low).then(self.low, self.high)
        return ((value > low) & (value < high)).then(steps, beyond)

    def _of_integers(self, column: Value) -> Value:
        """Integers in steps of 1 or of a power of two: rounded by shifting bits."""
        engine, dtype = column.engine, column.dtype
        is_wide = dtype.bits == 64
        wide = column if is_wide else column.cast(engine.int64)
        (least, most), low, high = wide.dtype.bounds, int(self.low * self.step), int(self.high * self.step)
        # A bound that the type does not reach clips nothing, and is no number of that type.
        if low > least:
            wide = wide.at_least(low)
        if high < most:
            wide = wide.at_most(high)
        shift = int(self.step).bit_length() - 1
        if shift == 0:
            return wide if wide.dtype.signed else wide.cast(engine.int64)
        if shift > 64:
            # No value is half a step away from zero, and engines shift by the remainder of 64.
            return engine.whole(0)
        steps = engine.shifted(engine.shifted(wide, shift - 1) + 1, 1)
        return steps.at_least(self.low).at_most(self.high)


def _ends(dtype: ColumnType) -> tuple[Fraction | float, Fraction | float]:
    """The ends of a type: none of its values lies beyond them."""
    if dtype.kind == "integer":
        return Fraction(dtype.bounds[0]), Fraction(dtype.bounds[1])
    if dtype.digits is not None:
        return -least_beyond(dtype.digits), least_beyond(dtype.digits)
    return -math.inf, math.inf


def present(column: Value) -> Value:
    """Test for a value: not null, and not NaN."""
    return column.engine.present(column)


def as_float(column: Value) -> Value:
    """The number as a float: no value of the column may be an error, since that would give it away."""
    if column.dtype.kind == "boolean":
        column = column.then(1, 0)
    if column.dtype.kind == "decimal":
        return column.engine.decimal_float(column)
    return column if column.dtype == column.engine.float64 else column.cast(column.engine.float64)


def one_if(condition: Value) -> Value:
    """1 where the condition holds, 0 elsewhere: some engines turn no truth value into a bigint."""
    return condition.then(1, 0)


def check_bounds(column: str, bounds: object) -> tuple[Fraction, Fraction]:
    """The bounds as exact numbers, the lower one first."""
    if bounds is None:
        raise ArgumentError(
            f"bounds of {column!r} must be given: the least and the largest value that a row may count as "
            f"(on the command line {column}:LOW:HIGH); or say once which values are plausible, as range in "
            f"[columns.{column}] of a data file or in Dataset(columns=…)",
            argument="bounds",
        )
    ends = list(bounds) if isinstance(bounds, Sequence) else []
    if len(ends) != 2 or any(isinstance(end, bool) or not isinstance(end, Real | Decimal) for end in ends):
        raise ArgumentTypeError(
            f"bounds of {column!r} must be two numbers (low, high), got {bounds!r}", argument="bounds"
        )
    if not all(_is_finite(end) for end in ends):
        raise ArgumentError(f"bounds of {column!r} must be finite, got {ends[0]} and {ends[1]}", argument="bounds")
    low, high = (exact_number(end) for end in ends)
    if low >= high:
        raise ArgumentError(
            f"bounds of {column!r} must be the lower one and then the upper one, got {ends[0]} and {ends[1]}",
            argument="bounds",
        )
    if max(abs(low), abs(high)) > _LARGEST_BOUND or high - low < 1 / _LARGEST_BOUND:
        raise ArgumentError(
            f"bounds of {column!r} are too far from or too close to each other: {ends[0]} and {ends[1]}",
            argument="bounds",
        )
    return low, high


def exact_number(number: Any) -> Fraction:
    """A number as it is; integers of NumPy would overflow in a fraction."""
    return Fraction(int(number)) if isinstance(number, Integral) else Fraction(number)


def _is_finite(number: Any) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:
        return True  # an integer beyond the largest float


def grid_of(name: str, dtype: ColumnType, bounds: object, *, centred: bool = False, squares: bool = False) -> ValueGrid:
    """The grid for a column of this type: as fine as exact sums allow, chosen from type and bounds, never from data.

    Integers step by 1 and decimals by their last digit unless the bounds are too far apart for that; floats step by a
    power of two. `centred` is for sums of distances from the middle of the bounds, for which only their own distance
    counts; `squares` leaves room for sums of the squares of these.
    """
    low, high = check_bounds(name, bounds)
    largest = max(abs(low), abs(high))
    most = _SQUARED_STEPS if squares else _FLOAT_STEPS if dtype.kind == "float" else _EXACT_STEPS
    # However close the bounds are, the engine's floats must tell the steps apart.
    least = max((high - low if centred or squares else largest) / most, largest / _TOLD_APART)
    if dtype.kind in ("integer", "boolean"):
        low, high = Fraction(math.ceil(low)), Fraction(math.floor(high))
        if low >= high:
            raise ArgumentError(
                f"bounds of {name!r} must leave room for two whole numbers, got {bounds!r}", argument="bounds"
            )
    grid = _finest_grid(name, dtype, least, low, high)
    if not centred and not squares and grid.kind != "float":
        _check_digits(name, grid.step)
    if squares:
        _check_squares(name, bounds, largest, high - low)
    if grid.width == 0 and (centred or squares):
        raise ArgumentError(
            f"bounds of {name!r} are too close to each other for numbers so large: {bounds!r}", argument="bounds"
        )
    return grid


def check_total(column: str, total: object) -> tuple[Fraction, Fraction]:
    """The ends of what a unit adds to a sum in all: a number, which holds for both signs, or 0 and a number."""
    low, high = total if isinstance(total, Sequence) and len(total) == 2 else (None, total)
    if isinstance(high, bool) or not isinstance(high, Real | Decimal) or low not in (None, 0):
        raise ArgumentTypeError(
            f"max_total of {column!r} must be a number, or (0, number) for values that are not negative, got {total!r}",
            argument="max_total",
        )
    if not _is_finite(high) or exact_number(high) <= 0:
        raise ArgumentError(f"max_total of {column!r} must be above 0 and finite, got {high}", argument="max_total")
    return Fraction(0) if low == 0 else -exact_number(high), exact_number(high)


def grid_to_be_chosen(column: str, dtype: ColumnType) -> ValueGrid:
    """A grid that stands for one whose limit is open: what is planned does not depend on it."""
    return grid_of(column, dtype, (-_ANY_LIMIT, _ANY_LIMIT), squares=True)


def _check_squares(name: str, bounds: object, largest: Fraction, width: Fraction) -> None:
    if largest > _LARGEST_SQUARED or width < 1 / _LARGEST_SQUARED:
        raise ArgumentError(
            f"bounds of {name!r} are too far from or too close to each other for squares: {bounds!r}", argument="bounds"
        )


def _finest_grid(name: str, dtype: ColumnType, least: Fraction, low: Fraction, high: Fraction) -> ValueGrid:
    """The finest grid for a type whose step is not below `least`."""
    if dtype.kind in ("integer", "boolean"):
        return _grid("integer", max(Fraction(1), _power(2, least)), low, high)
    if dtype.kind == "float":
        return _grid("float", _power(2, least), low, high)
    if dtype.kind != "decimal":
        raise ArgumentTypeError(f"column {name!r} must hold numbers, got {dtype}", argument="column")
    # A decimal without a scale has no last digit.
    last = Fraction(0) if dtype.digits is None else Fraction(10) ** -dtype.digits[1]
    grid = _grid("decimal", max(last, _power(10, least)), low, high)
    _check_distance(name, dtype, grid)
    return grid


def _check_distance(name: str, dtype: ColumnType, grid: ValueGrid) -> None:
    """Raise if the lower bound, or the distance of a value from it, might have more digits than decimals have."""
    if dtype.digits is None:
        return
    precision, scale = dtype.digits
    digits = max(precision, DECIMAL_DIGITS) - scale
    most = least_beyond(dtype.digits) - Fraction(10) ** -scale
    low, high = grid.low * grid.step, min(grid.high * grid.step, most)
    if max(-low, high - low) >= Fraction(10) ** digits:
        raise ArgumentError(
            f"bounds of {name!r} must be less than 1e{digits} apart, and the lower one above -1e{digits}, for a column "
            f"of type {dtype}",
            argument="bounds",
        )


def _check_digits(name: str, step: Fraction) -> None:
    """Raise if a sum with its noise and its interval, all within 64 bits, need not be a decimal of Arrow."""
    if step.numerator << 63 >= 10**DECIMAL_DIGITS or step.denominator > 10**DECIMAL_DIGITS:
        raise ArgumentError(
            f"bounds of {name!r} are too large or too small: sums of it are decimals of {DECIMAL_DIGITS} digits",
            argument="bounds",
        )


def _grid(kind: str, step: Fraction, low: Fraction, high: Fraction) -> ValueGrid:
    return ValueGrid(kind, step, math.floor(low / step + Fraction(1, 2)), math.floor(high / step + Fraction(1, 2)))


def _power(base: int, least: Fraction) -> Fraction:
    """The least power of `base` that is not below `least`."""
    power = Fraction(base) ** math.ceil(math.log(least) / math.log(base))
    while power < least:
        power *= base
    while power / base >= least:
        power /= base
    return power
