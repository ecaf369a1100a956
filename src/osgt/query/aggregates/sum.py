"""The sum of a column."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Self

from osgt.query.aggregates.base import PlainNumbers, QuerySpec
from osgt.query.aggregates.kinds import BOUNDED, BoundedArguments, Kind, check_name, check_weight
from osgt.query.measures import ClippedSum
from osgt.query.values import ValueGrid, grid_of


@dataclass(frozen=True)
class Sum(PlainNumbers):
    """The sum of a column's values within bounds, in steps of its grid."""

    kind = "sum"

    measure: ClippedSum

    @property
    def grid(self) -> ValueGrid:
        return self.measure.grid

    @property
    def clipping(self) -> tuple[str, ValueGrid]:
        return self.measure.column, self.grid


class SumMethod(QuerySpec):
    """`query.sum(…)`."""

    def sum(
        self, column: str, bounds: Sequence[float] | None = None, *, name: str | None = None, weight: float = 1
    ) -> Self:
        """The sum of a column, each value clipped to `bounds`. Missing values and NaN add nothing."""
        if bounds is None:
            return self.without_bounds("sum", {"column": column, "name": name, "weight": weight})  # type: ignore[no-any-return]
        measure = ClippedSum(column, grid_of(column, self.dataset.number_type_of(column), bounds))
        return self.with_aggregate(Sum(check_name(name, f"{column}_sum"), check_weight(weight), measure))


class SumArguments(BoundedArguments):
    """The sum of a column; values beyond the bounds count as the nearer bound."""

    kind: Literal["sum"]


SUM = Kind(SumMethod.sum, SumArguments, BOUNDED)
