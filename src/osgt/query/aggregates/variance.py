"""The variance of a column."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pyarrow as pa

from osgt.data.types import ColumnType
from osgt.estimation.intervals import variance_interval
from osgt.query.aggregates.base import Aggregate, Error, Noisy, QuerySpec, bounds_within_range, check_name, check_weight
from osgt.query.groups import Groups
from osgt.query.measures import CentredSum, Measure, Squares, Values
from osgt.query.values import ValueGrid, grid_of, grid_to_be_chosen


@dataclass(frozen=True)
class Variance(Aggregate):
    """The variance of the values around their mean: the mean square less the squared mean, all centred."""

    kind = "variance"

    column: str
    grid: ValueGrid
    is_open: bool = False

    @property
    def measures(self) -> tuple[Measure, ...]:
        return Values(self.column), CentredSum(self.column, self.grid), Squares(self.column, self.grid)

    @property
    def clipping(self) -> tuple[str, ValueGrid]:
        return self.column, self.grid

    @property
    def open_limit(self) -> str | None:
        return "bounds" if self.is_open else None

    def with_limit(self, limit: Any, dtype: ColumnType) -> Self:
        grid = grid_of(self.column, dtype, limit, squares=True)
        return replace(self, grid=grid, is_open=False)

    def errors(self, groups: Groups) -> tuple[Error, ...]:
        """The noise of both sums around their ratios to the count, these half-way to the end of what they can be."""
        count, *totals = self.measures
        return tuple(
            Error({total: 1.0, count: total.high / 2}, float(groups.max_contribution(total)), self.weight)
            for total in totals
        )

    def columns(self, noisy: Noisy) -> dict[str, pa.Array]:
        count, total, squares = (noisy.number(measure) for measure in self.measures)
        width = self.grid.width
        low, high = variance_interval(count, total, squares, width, noisy.confidence)
        at_least_one, largest = np.maximum(count.floats, 1), float(width) ** 2
        mean = np.clip(total.floats / at_least_one, -width, width)
        value = np.clip((squares.floats / at_least_one + largest) / 2 - mean**2, 0.0, largest)
        unit = (float(self.grid.step) / 2) ** 2
        unknown = (low <= 0.0) & (high >= largest)
        return self.with_interval(*(unit * array for array in (np.clip(value, low, high), low, high)), unknown=unknown)


class VarianceMethod(QuerySpec):
    """`query.variance(…)`."""

    def variance(
        self, column: str, bounds: Sequence[float] | None = None, *, name: str | None = None, weight: float = 1
    ) -> Self:
        """The variance of a column, each value clipped to `bounds`; missing values are left out.

        Bounds that are not given are chosen privately, within the range of the column if that is known.
        """
        dtype = self.dataset.number_type_of(column)
        bounds, is_open = bounds_within_range(self, column, bounds)
        grid = grid_to_be_chosen(column, dtype) if is_open else grid_of(column, dtype, bounds, squares=True)
        variance = Variance(check_name(name, f"{column}_variance"), check_weight(weight), column, grid, is_open)
        return self.with_aggregate(variance)
