"""The sum of a column."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

from osgt.tables.aggregates.base import Limits
from osgt.tables.aggregates.bounded import BoundedArguments, bounded_arguments, clipped
from osgt.tables.aggregates.kinds import BOUNDED, Asking, Kind, named, weighted
from osgt.tables.aggregates.plain import PlainNumbers
from osgt.tables.measures import ClippedSum
from osgt.tables.values import ValueGrid, grid_of


@dataclass(frozen=True)
class Sum(PlainNumbers):
    """The sum of a column's values within bounds, in steps of its grid."""

    kind = "sum"

    measure: ClippedSum

    @property
    def grid(self) -> ValueGrid:
        return self.measure.grid

    @property
    def limits(self) -> tuple[Limits, ...]:
        return clipped(self.measure.column, self.grid)

    def arguments(self) -> dict[str, Any]:
        return bounded_arguments(self.measure.column, self.grid)


class SumMethod(Asking):
    """`query.sum(…)`."""

    def sum(
        self, column: str, bounds: Sequence[float] | None = None, *, name: str | None = None, weight: float = 1
    ) -> Self:
        """The sum of a column, each value clipped to `bounds`. Missing values and NaN add nothing."""
        if bounds is None:
            return self.without_bounds("sum", {"column": column, "name": name, "weight": weight})  # type: ignore[no-any-return]
        grid = grid_of(column, self.dataset.number_type_of(column), bounds)
        return self.with_aggregate(Sum(named(name, f"{column}_sum"), weighted(weight), ClippedSum(column, grid)))


class SumArguments(BoundedArguments):
    """The sum of a column; values beyond the bounds count as the nearer bound."""

    kind: Literal["sum"]


SUM = Kind("sum", SumMethod.sum, SumArguments, BOUNDED)
