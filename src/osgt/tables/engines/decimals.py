"""Exact decimals in expressions for an engine."""

from decimal import Context, Decimal, Inexact, localcontext
from fractions import Fraction
from typing import Any

import ibis
import ibis.expr.datatypes as dt

#: More than the bounds of a column can have.
_MANY_DIGITS = 2000


def beyond(dtype: dt.Decimal) -> Fraction:
    """The least number that is too large for a decimal type."""
    return Fraction(10) ** int(dtype.precision - dtype.scale)


def digits_of(step: Fraction) -> int:
    """The digits behind the point of a power of ten; negative before it."""
    return len(str(step.denominator)) - len(str(step.numerator))


def decimal(number: Fraction, dtype: dt.Decimal) -> Any:
    """A number with finitely many digits, as a decimal of the engine."""
    with localcontext(Context(prec=_MANY_DIGITS, traps=[Inexact])):
        return ibis.literal(f"{Decimal(number.numerator) / number.denominator:f}").cast(dtype)


def clipped(value: Any, low: Any, high: Any) -> Any:
    """The value, between two ends."""
    return ibis.least(ibis.greatest(value, low), high)
