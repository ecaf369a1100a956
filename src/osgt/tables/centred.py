"""Centred measures: a number less a multiple of another one that is measured anyway, which moves half as far.

Where a unit is in a group with 1 … 3 rows, it adds 1 … 3 to the rows and 1 to the units: rows - 2·units moves by 1, and
with the units it gives the rows back. What each row adds is computed before anything is summed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import ibis.expr.types as ir
import numpy as np

from osgt.limits import LARGEST_SUM
from osgt.tables.measures import Integers, Measure, Place, Units
from osgt.tables.values import one_if


@dataclass(frozen=True)
class Centred(Measure):
    """times·base - by·on, `on` being the number of units or of rows."""

    base: Measure
    on: Measure
    times: int
    by: int

    @property
    def low(self) -> int:
        return self.times * self.base.low - self.by

    @property
    def high(self) -> int:
        return self.times * self.base.high - self.by

    def reach(self, rows: int) -> tuple[int, int]:
        if not isinstance(self.on, Units):
            return super().reach(rows)
        low, high = self.base.reach(rows)
        return self.times * low - self.by, self.times * high - self.by

    @property
    def uses_first(self) -> bool:
        return self.on.uses_first or self.base.uses_first

    @property
    def columns(self) -> tuple[str, ...]:
        return self.base.columns

    @property
    def words(self) -> str:
        return f"{_times(self.times, self.base.words)} - {_times(self.by, self.on.words)}"

    def contributions(self, rows: Mapping[Any, ir.Value], place: Place) -> list[Any]:
        [base], [on] = self.base.contributions(rows, place), self.on.contributions(rows, place)
        return [self.times * base - self.by * on]


@dataclass(frozen=True)
class UnitsInAny(Measure):
    """The number of units that are in any group: one number for the whole table.

    Each unit counts in the first of its groups; the sum over all groups is what is measured.
    """

    @property
    def low(self) -> int:
        return 1

    @property
    def for_table(self) -> bool:
        return True

    @property
    def uses_first(self) -> bool:
        return True

    @property
    def words(self) -> str:
        return "units in any group"

    def reach(self, rows: int) -> tuple[int, int]:
        return 1, 1

    def contributions(self, rows: Mapping[Any, ir.Value], place: Place) -> list[Any]:
        return [one_if(place.starts[()])]

    def exact(self, sums: Mapping[Measure, Integers]) -> Integers:
        return np.array([[min(sum(sums[self][:, 0].tolist()), LARGEST_SUM)]])


@dataclass(frozen=True)
class CentredOnAll(Measure):
    """times·base - by·(units in any group), for every public group: what a unit that is not in a group moves, too.

    Both numbers come from the engine and are put together afterwards. Each may have been cut off at ±2⁶¹, the units
    only if there were 2⁶¹ of them. A cut sum moves by no more than without the cut and in the same direction, so that
    the difference stays within what one unit moves; the difference itself is cut off as well.
    """

    base: Measure
    times: int
    by: int

    @property
    def words(self) -> str:
        return f"{_times(self.times, self.base.words)} - {_times(self.by, UnitsInAny().words)}"

    @property
    def summed(self) -> tuple[Measure, ...]:
        return self.base, UnitsInAny()

    def exact(self, sums: Mapping[Measure, Integers]) -> Integers:
        units = int(UnitsInAny().exact(sums)[0, 0])
        found = [self.times * number - self.by * units for number in sums[self.base][:, 0].tolist()]
        return np.array([[min(max(number, -LARGEST_SUM), LARGEST_SUM)] for number in found], dtype=np.int64)

    def reach(self, rows: int) -> tuple[int, int]:
        low, high = self.base.reach(rows)
        return self.times * low - self.by, self.times * high - self.by


def _times(number: int, words: str) -> str:
    return words if number == 1 else f"{number:,}·({words})" if " " in words else f"{number:,}·{words}"


def centre(low: int, high: int) -> tuple[int, int]:
    """(times, by) for which times·x - by lies as far below zero as above it, for x from low to high."""
    middle = Fraction(low + high, 2)
    return middle.denominator, middle.numerator
