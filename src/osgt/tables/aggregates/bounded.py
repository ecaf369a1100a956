"""What aggregates with bounds have in common: values beyond them count as the nearer bound."""

from typing import Any

from pydantic import Field

from osgt.tables.aggregates.base import Limits
from osgt.tables.aggregates.kinds import Arguments, Bounds, ColumnName
from osgt.tables.values import ValueGrid


class BoundedArguments(Arguments):
    """A column and its bounds."""

    column: ColumnName
    bounds: Bounds | None = Field(
        default=None,
        description="The least and the largest value that a row may count as. Without it, `osgt bounds` recommends it.",
    )


def bounds_of(grid: ValueGrid) -> list[float]:
    """The bounds in the units of the column, as they are kept."""
    ends = [grid.low * grid.step, grid.high * grid.step]
    return [int(end) if end.denominator == 1 else float(end) for end in ends]


def bounded_arguments(column: str, grid: ValueGrid) -> dict[str, Any]:
    """Column and bounds in plain values."""
    return {"column": column, "bounds": bounds_of(grid)}


def clipped(column: str, grid: ValueGrid) -> tuple[Limits, ...]:
    """What the bounds of a column cut off."""
    low, high = bounds_of(grid)
    words = f"values below {low:,} count as {low:,}, values above {high:,} as {high:,}"
    return (Limits(column, low, high, f"bounds of {column}: {words}"),)
