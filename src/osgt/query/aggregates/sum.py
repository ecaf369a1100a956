"""The sum of a column."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import ibis.expr.datatypes as dt
from pydantic import Field

from osgt.query.aggregates.base import PlainNumbers, QuerySpec
from osgt.query.aggregates.kinds import (
    BoundedArguments,
    Bounds,
    Kind,
    Option,
    check_name,
    check_weight,
    column_and_bounds,
    number,
)
from osgt.query.file.types import PlainNumber
from osgt.query.measures import ClippedSum, LimitedSum
from osgt.query.values import ValueGrid, check_limit, grid_of, grid_to_be_chosen, grid_up_to
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

    def with_limit(self, limit: Any, dtype: dt.DataType) -> Self:
        measure = LimitedSum(self.measure.column, grid_up_to(self.measure.column, dtype, limit))
        return replace(self, measure=measure, is_open=False)

    def arguments(self) -> dict[str, Any]:
        if not isinstance(self.measure, LimitedSum):
            return super().arguments()
        total = {} if self.is_open else {"max_total": self.grid.bounds[1]}
        return {"column": self.measure.column, **total}


class SumMethod(QuerySpec):
    """`query.sum(…)`."""

    def sum(
        self,
        column: str,
        bounds: Sequence[float] | None = None,
        *,
        max_total: float | None = None,
        name: str | None = None,
        weight: float = 1,
    ) -> Self:
        """The sum of a column. Missing values and NaN add nothing.

        One unit adds at most `max_total`, in absolute value and in all: of one with more, each row counts less. It is
        chosen privately if it is not given. Or each value is clipped to `bounds`, and rows are limited as in a count.
        """
        dtype = self.dataset.number_type_of(column)
        if bounds is not None and max_total is not None:
            raise ArgumentError("bounds and max_total both limit a sum: leave one of them out", argument="max_total")
        if bounds is None and self.groups.each_row and max_total is not None:
            limit = check_limit(column, max_total)
            bounds = (-limit, limit)  # type: ignore[assignment] # a unit is one row
        if bounds is not None:
            measure = ClippedSum(column, grid_of(column, dtype, bounds))
        else:
            grid = grid_to_be_chosen(column, dtype) if max_total is None else grid_up_to(column, dtype, max_total)
            measure = LimitedSum(column, grid)
        is_open = bounds is None and max_total is None
        return self.with_aggregate(Sum(check_name(name, f"{column}_sum"), check_weight(weight), measure, is_open))


class SumArguments(BoundedArguments):
    """The sum of a column."""

    kind: Literal["sum"]
    bounds: Bounds | None = Field(
        default=None, description="The least and the largest value that a row may count as, in place of max_total."
    )
    max_total: PlainNumber | None = Field(
        default=None,
        description="The most that one unit adds in all: of one with more, each row counts less. Chosen privately if "
        "neither this nor bounds are given.",
    )


def _parse_sum(text: str) -> dict[str, Any]:
    """COLUMN alone, COLUMN:TOTAL or COLUMN:LOW:HIGH, where the name of the column may have colons in the last form."""
    column, *limits = text.rsplit(":", 2)
    if column and len(limits) == 1:
        return {"column": column, "max_total": number(limits[0])}
    return column_and_bounds(text)


SUM = Kind(SumMethod.sum, SumArguments, Option("COLUMN[:TOTAL/:LOW:HIGH]", _parse_sum))
