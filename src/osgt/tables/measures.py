"""Measures: the integers that the engine sums for each group, and how far one person can move them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ibis.expr.types as ir
import numpy as np
from numpy.typing import NDArray

from osgt.tables.values import ValueGrid, as_float, one_if, present

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Place:
    """Where a row stands among those of its unit."""

    #: Whether it is the one that counts for its unit in the group.
    first: ir.BooleanValue
    #: Whether it is the one that counts for its unit in a group of a level, by the level's columns; () is the table.
    starts: Mapping[tuple[str, ...], ir.BooleanValue]


@dataclass(frozen=True)
class Measure:
    """What each kept row adds to its group: an integer between `low` and `high`.

    `per_unit` measures count a unit once in a group, however many of its rows are kept there. A measure may have
    several `numbers`, as the bins of a histogram: each row then adds to one of them at most.
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
        """How many numbers it has for each group."""
        return 1

    @property
    def per_unit(self) -> bool:
        """Whether a unit counts once in a group, rather than with each of its rows."""
        return False

    @property
    def uses_first(self) -> bool:
        """Whether it tells one row of a unit in a group from the others."""
        return self.per_unit

    @property
    def for_table(self) -> bool:
        """Whether its numbers are for the table or a level of it, rather than one for each group."""
        return False

    def reach(self, rows: int) -> tuple[int, int]:
        """The least and the most that a unit adds to a group in which it has between 1 and `rows` rows."""
        most = 1 if self.per_unit else rows
        return self.low * (most if self.low < 0 else 1), self.high * (most if self.high > 0 else 1)

    @property
    def summed(self) -> tuple["Measure", ...]:
        """What the engine sums for it."""
        return (self,)

    def exact(self, sums: Mapping["Measure", Integers]) -> Integers:
        """Its numbers, one row for each group, from what the engine has summed."""
        return sums[self]

    @property
    def words(self) -> str:
        """What it is, for statements."""
        raise NotImplementedError

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it needs."""
        return ()

    @property
    def counted(self) -> str | None:
        """What it counts, in words; None if it is not a count."""
        return None

    def derived(self, rows: ir.Table) -> ir.Value | None:
        """A value of each row that is computed once, before rows are left out; None if the columns are enough."""
        return None

    def contributions(self, rows: Mapping[Any, ir.Value], place: Place) -> list[Any]:
        """What each row adds, one expression for each number of the measure.

        `rows` has the columns by their names, and what is `derived` for a measure under the measure itself.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class Units(Measure):
    """The number of units."""

    @property
    def low(self) -> int:
        return 1

    @property
    def counted(self) -> str | None:
        return "units"

    @property
    def per_unit(self) -> bool:
        return True

    @property
    def words(self) -> str:
        return "units"

    def contributions(self, rows: Mapping[Any, ir.Value], place: Place) -> list[Any]:
        return [one_if(place.first)]


@dataclass(frozen=True)
class Rows(Measure):
    """The number of rows."""

    @property
    def low(self) -> int:
        return 1

    @property
    def counted(self) -> str | None:
        return "rows"

    @property
    def words(self) -> str:
        return "rows"

    def contributions(self, rows: Mapping[Any, ir.Value], place: Place) -> list[Any]:
        return [one_if(place.first.notnull())]


@dataclass(frozen=True)
class Values(Measure):
    """The number of rows in which a column has a value."""

    column: str

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    @property
    def counted(self) -> str | None:
        return f"values of {self.column}"

    @property
    def words(self) -> str:
        return f"values of {self.column}"

    def contributions(self, rows: Mapping[Any, ir.Value], place: Place) -> list[Any]:
        return [one_if(present(rows[self.column]))]


@dataclass(frozen=True)
class ClippedSum(Measure):
    """The sum of a column, in steps of its grid."""

    column: str
    grid: ValueGrid

    @property
    def low(self) -> int:
        return min(self.grid.low, 0)

    @property
    def high(self) -> int:
        return max(self.grid.high, 0)

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    @property
    def words(self) -> str:
        return f"sum of {self.column} in steps of {self.grid.step}"

    def contributions(self, rows: Mapping[Any, ir.Value], place: Place) -> list[Any]:
        column = rows[self.column]
        return [present(column).ifelse(self._of(self.grid.steps(column)), 0)]

    def _of(self, steps: Any) -> Any:
        return steps


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
        return 2 * steps - (self.grid.low + self.grid.high)


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
        return 2 * distance * distance - self.grid.width**2


@dataclass(frozen=True)
class Bins(Measure):
    """The number of rows in each bin between edges: the lower edge belongs to a bin, the last bin has both.

    A person's rows in a group may fall into several bins. Moving one number by k loses at least as much privacy as
    moving several by k in all (docs/tables.md), so the bins of a group cost as much as one number.
    """

    column: str
    edges: tuple[float, ...]

    @property
    def numbers(self) -> int:
        return len(self.edges) - 1

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    @property
    def words(self) -> str:
        return f"rows in each bin of {self.column}"

    def contributions(self, rows: Mapping[Any, ir.Value], place: Place) -> list[Any]:
        column = rows[self.column]
        # One type for all comparisons, so that a row is in one bin at most; floats hold every value there is.
        whole = column.type().is_signed_integer() and all(isinstance(edge, int) for edge in self.edges)
        number = column if whole else as_float(column)
        below = [number < edge for edge in self.edges[1:-1]] + [number <= self.edges[-1]]
        inside = [~below[i - 1] & below[i] if i else (number >= self.edges[0]) & below[0] for i in range(len(below))]
        return [one_if(present(column) & bin_) for bin_ in inside]
