"""Measures: the integers that the engine sums for each group, and how far one person can move them."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from osgt.data.sql import Table, Value
from osgt.query.values import ValueGrid, as_float, one_if, present
from osgt.support.numeric import LARGEST_SUM, Integers


@dataclass(frozen=True)
class Place:
    """The place of a row among those of its unit."""

    #: Whether it is the one that counts for its unit in the group.
    first: Value
    #: Whether it is the one that counts for its unit in a group of a level, by the level's columns; () is the table.
    starts: Mapping[tuple[str, ...], Value]


@dataclass(frozen=True)
class Measure:
    """The contribution of each row to its group: an integer between `low` and `high`, times what the row is worth.

    `per_unit` measures count a unit once in a group, however many rows it has there. A measure may have several
    `numbers`, as the bins of a histogram: each row then adds to one of them at most.
    """

    @property
    def low(self) -> int:
        """The least that a row adds."""
        return 0

    @property
    def high(self) -> int:
        """The most that a row adds."""
        return 1

    @property
    def numbers(self) -> int:
        """The count of its numbers for each group."""
        return 1

    @property
    def per_unit(self) -> bool:
        """Whether a unit counts once in a group, rather than with each of its rows."""
        return False

    @property
    def largest(self) -> int:
        """The most that a row adds, in absolute value."""
        return max(-self.low, self.high)

    @property
    def own_limit(self) -> int | None:
        """The limit on what a unit adds in all, where it has one of its own; None if that of rows holds."""
        return None

    @property
    def in_steps(self) -> bool:
        """Whether what a unit adds under a limit of its own is weighed, in steps; else it is a whole number."""
        return True

    @property
    def for_table(self) -> bool:
        """Whether its numbers are for the table or a level of it, rather than one for each group."""
        return False

    @property
    def summed(self) -> tuple["Measure", ...]:
        """The measures that the engine sums for it."""
        return (self,)

    def exact(self, sums: Mapping["Measure", Integers]) -> Integers:
        """Compute its numbers, one row for each group, from what the engine has summed."""
        return sums[self]

    @property
    def words(self) -> str:
        """The description of the measure, for statements."""
        raise NotImplementedError

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it needs."""
        return ()

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns that decide about it, also where what is derived from them is all that it needs."""
        return self.columns

    @property
    def counted(self) -> str | None:
        """The things that it counts, in words; None if it is not a count."""
        return None

    def derived(self, rows: Table) -> Value | None:
        """A value of each row that is computed once, before rows are left out; None if the columns are enough."""
        return None

    def contributions(self, rows: Mapping[Any, Value], place: Place) -> list[Any]:
        """Express the contribution of each row, one expression for each number of the measure.

        `rows` has the columns by their names, and what is `derived` for a measure under the measure itself.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class Units(Measure):
    """The number of units."""

    low = 1
    counted = "units"
    per_unit = True
    words = "units"

    def contributions(self, rows: Mapping[Any, Value], place: Place) -> list[Any]:
        return [one_if(place.first)]


@dataclass(frozen=True)
class Rows(Measure):
    """The number of rows."""

    low = 1
    counted = "rows"
    words = "rows"

    def contributions(self, rows: Mapping[Any, Value], place: Place) -> list[Any]:
        return [place.first.engine.whole(1)]


@dataclass(frozen=True)
class ColumnMeasure(Measure):
    """A measure of one column."""

    column: str

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)


@dataclass(frozen=True)
class Values(ColumnMeasure):
    """The number of rows in which a column has a value."""

    @property
    def words(self) -> str:
        return f"values of {self.column}"

    @property
    def counted(self) -> str:
        return self.words

    def contributions(self, rows: Mapping[Any, Value], place: Place) -> list[Any]:
        return [one_if(present(rows[self.column]))]


@dataclass(frozen=True)
class ClippedSum(ColumnMeasure):
    """The sum of a column, in steps of its grid."""

    grid: ValueGrid

    @property
    def low(self) -> int:
        return min(self.grid.low, 0)

    @property
    def high(self) -> int:
        return max(self.grid.high, 0)

    @property
    def words(self) -> str:
        return f"sum of {self.column} in steps of {self.grid.step}"

    def contributions(self, rows: Mapping[Any, Value], place: Place) -> list[Any]:
        column = rows[self.column]
        return [present(column).then(self._of(self.grid.steps(column)), 0)]

    def _of(self, steps: Any) -> Any:
        return steps


@dataclass(frozen=True)
class LimitedSum(ClippedSum):
    """The sum of a column of which a unit adds at most a total: of one with more, each row counts less.

    The grid reaches from minus that total, or from 0, to it, so that a row beyond it counts as the whole total.
    """

    @property
    def own_limit(self) -> int:
        return self.largest

    @property
    def words(self) -> str:
        return f"sum of {self.column} in steps of {self.grid.step}, at most {self.largest:,} of each unit"

    def derived(self, rows: Table) -> Value:
        column = rows[self.column]
        return present(column).then(self.grid.steps(column))

    def contributions(self, rows: Mapping[Any, Value], place: Place) -> list[Any]:
        return [rows[self].or_else(0)]


@dataclass(frozen=True)
class Distinct(ColumnMeasure):
    """The number of different values that a column has in each group.

    A unit counts with the first `limit` of its pairs of group and value, in the order of a salted hash
    (`limits.distinct`). With a unit more, each pair that it alone has moves the number of one group by 1: by `limit`
    in all, and all in one direction.
    """

    limit: int
    in_steps: bool = False

    columns = ()

    @property
    def own_limit(self) -> int:
        return self.limit

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.column,)

    @property
    def words(self) -> str:
        return f"different values of {self.column}, with at most {self.limit:,} of each unit"

    def derived(self, rows: Table) -> Value:
        """The value in a form in which all that is equal is the same, bit by bit; null where there is none."""
        column = rows[self.column]
        if column.dtype.kind != "float":
            return rows.engine.carried(column)
        number = as_float(column)  # 0 has two forms
        return present(column).then(number.equals(0).then(0.0, number))

    def contributions(self, rows: Mapping[Any, Value], place: Place) -> list[Any]:
        return [rows[self]]


@dataclass(frozen=True)
class CentredSum(ClippedSum):
    """The sum of a column's distances from the middle of its bounds, in half steps: half as far to move."""

    @property
    def low(self) -> int:
        return -self.grid.width

    @property
    def high(self) -> int:
        return self.grid.width

    @property
    def words(self) -> str:
        return (
            f"sum of 2·{self.column} - {self.grid.low + self.grid.high:,}, {self.column} in steps of {self.grid.step}"
        )

    def _of(self, steps: Any) -> Any:
        return steps * 2 - (self.grid.low + self.grid.high)


@dataclass(frozen=True)
class Squares(CentredSum):
    """The sum of 2·z² - w², z being the distance from the middle and w its largest value, in half steps.

    The squares lie between 0 and w²; like this they are centred as well.
    """

    @property
    def low(self) -> int:
        return -(self.grid.width**2)

    @property
    def high(self) -> int:
        return self.grid.width**2

    @property
    def words(self) -> str:
        return (
            f"sum of 2z² - {self.grid.width**2:,} with z = 2·{self.column} - {self.grid.low + self.grid.high:,}, "
            f"{self.column} in steps of {self.grid.step}"
        )

    def _of(self, steps: Any) -> Any:
        distance = super()._of(steps)
        return distance * distance * 2 - self.grid.width**2


@dataclass(frozen=True)
class Bins(ColumnMeasure):
    """The number of rows in each bin between edges: the lower edge belongs to a bin, the last bin has both.

    A person's rows in a group may fall into several bins. Moving one number by k loses at least as much privacy as
    moving several by k in all (docs/tables.md), so the bins of a group cost as much as one number.
    """

    edges: tuple[float, ...]

    @property
    def numbers(self) -> int:
        return len(self.edges) - 1

    @property
    def words(self) -> str:
        return f"rows in each bin of {self.column}"

    def contributions(self, rows: Mapping[Any, Value], place: Place) -> list[Any]:
        column = rows[self.column]
        # One type for all comparisons, so that a row is in one bin at most; floats hold every value there is.
        is_signed = column.dtype.kind == "integer" and column.dtype.signed
        whole = is_signed and all(isinstance(edge, int) for edge in self.edges)
        number = column if whole else as_float(column)
        below = [number < edge for edge in self.edges[1:-1]] + [number <= self.edges[-1]]
        inside = [~below[i - 1] & below[i] if i else (number >= self.edges[0]) & below[0] for i in range(len(below))]
        return [one_if(present(column) & bin_) for bin_ in inside]


# Centred measures: centre a measure on another one to halve its sensitivity. A row adds 0 or 1 to the values of a
# column and 1 to the rows: 2·values - rows moves by 1 either way, and with the rows it gives the values back. What each
# row adds is computed before anything is summed.


@dataclass(frozen=True)
class Centred(Measure):
    """times·base - by·on, `on` being the number of rows."""

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

    @property
    def columns(self) -> tuple[str, ...]:
        return self.base.columns

    @property
    def words(self) -> str:
        return f"{_times(self.times, self.base.words)} - {_times(self.by, self.on.words)}"

    def contributions(self, rows: Mapping[Any, Value], place: Place) -> list[Any]:
        [base], [on] = self.base.contributions(rows, place), self.on.contributions(rows, place)
        return [base * self.times - (self.by if isinstance(self.on, Rows) else on * self.by)]


@dataclass(frozen=True)
class UnitsInAny(Measure):
    """The number of units that are in any group: one number for the whole table.

    Each unit counts in the first of its groups; the sum over all groups is what is measured.
    """

    low = 1
    for_table = True
    per_unit = True
    words = "units in any group"

    def contributions(self, rows: Mapping[Any, Value], place: Place) -> list[Any]:
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
        result = [self.times * number - self.by * units for number in sums[self.base][:, 0].tolist()]
        return np.array([[min(max(number, -LARGEST_SUM), LARGEST_SUM)] for number in result], dtype=np.int64)

    @property
    def low(self) -> int:
        return self.times * self.base.low - self.by

    @property
    def high(self) -> int:
        return self.times * self.base.high - self.by


def _times(number: int, words: str) -> str:
    return words if number == 1 else f"{number:,}·({words})" if " " in words else f"{number:,}·{words}"


def centre(low: int, high: int) -> tuple[int, int]:
    """(times, by) for which times·x - by lies as far below zero as above it, for x from low to high."""
    middle = Fraction(low + high, 2)
    return middle.denominator, middle.numerator
