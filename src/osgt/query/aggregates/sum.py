"""The sum of a column."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from osgt.data.types import ColumnType
from osgt.query.aggregates.base import PlainNumbers, QuerySpec, check_name, check_weight
from osgt.query.groups import Groups
from osgt.query.measures import ClippedSum, LimitedSum
from osgt.query.values import ValueGrid, check_total, grid_of, grid_to_be_chosen
from osgt.support.errors import ArgumentError


@dataclass(frozen=True)
class Sum(PlainNumbers):
    """The sum of a column, in steps of its grid: of values within bounds, or with a limit on the total of a unit."""

    kind = "sum"

    measure: ClippedSum
    is_open: bool = False

    @property
    def grid(self) -> ValueGrid:
        return self.measure.grid

    @property
    def clipping(self) -> tuple[str, ValueGrid] | None:
        return None if isinstance(self.measure, LimitedSum) else (self.measure.column, self.grid)

    @property
    def open_limit(self) -> str | None:
        return "max_total" if self.is_open else None

    def with_limit(self, limit: Any, dtype: ColumnType) -> Self:
        measure = LimitedSum(self.measure.column, grid_of(self.measure.column, dtype, limit))
        return replace(self, measure=measure, is_open=False)

    def arguments(self) -> dict[str, Any]:
        if not isinstance(self.measure, LimitedSum):
            return super().arguments()
        if self.is_open:
            return {"column": self.measure.column}
        low, high = self.grid.bounds
        return {"column": self.measure.column, "max_total": high if low else [low, high]}

    def counted(self, groups: Groups) -> str | None:
        is_limited = isinstance(self.measure, LimitedSum) and self.grid.low >= 0
        return f"sum of {self.measure.column}" if is_limited else None


class SumMethod(QuerySpec):
    """`query.sum(…)`."""

    def sum(
        self,
        column: str,
        bounds: Sequence[float] | None = None,
        *,
        max_total: float | Sequence[float] | None = None,
        name: str | None = None,
        weight: float = 1,
    ) -> Self:
        """The sum of a column. Missing values and NaN add nothing.

        One unit adds at most `max_total`, in absolute value and in all: of one with more, each row counts less. Written
        as (0, total), values below 0 count as 0, and intervals allow for what the limit cuts off. It is chosen
        privately if it is not given. Or each value is clipped to `bounds`, and rows are limited as in a count.
        """
        dtype = self.dataset.number_type_of(column)
        if bounds is not None and max_total is not None:
            raise ArgumentError("bounds and max_total both limit a sum: leave one of them out", argument="max_total")
        is_open = bounds is None and max_total is None
        if bounds is not None:
            measure = ClippedSum(column, grid_of(column, dtype, bounds))
        elif is_open:
            measure = LimitedSum(column, grid_to_be_chosen(column, dtype))
        else:
            measure = LimitedSum(column, grid_of(column, dtype, check_total(column, max_total)))
        return self.with_aggregate(Sum(check_name(name, f"{column}_sum"), check_weight(weight), measure, is_open))
