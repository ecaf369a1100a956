"""The mean of a column."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pyarrow as pa

from osgt.data.types import ColumnType
from osgt.estimation.intervals import ratio_interval
from osgt.query.aggregates.base import Aggregate, Error, Noisy, QuerySpec, bounds_within_range, check_name, check_weight
from osgt.query.groups import Groups
from osgt.query.measures import CentredSum, Measure, Rows, Values
from osgt.query.values import ValueGrid, grid_of, grid_to_be_chosen
from osgt.support.errors import ArgumentError


@dataclass(frozen=True)
class Mean(Aggregate):
    """The mean: a centred sum over a count, both with noise; missing values are left out or count as the centre."""

    kind = "mean"

    column: str
    grid: ValueGrid
    count: Measure
    is_open: bool = False

    @property
    def measures(self) -> tuple[Measure, ...]:
        return self.count, CentredSum(self.column, self.grid)

    @property
    def clipping(self) -> tuple[str, ValueGrid]:
        return self.column, self.grid

    @property
    def open_limit(self) -> str | None:
        return "bounds" if self.is_open else None

    def with_limit(self, limit: Any, dtype: ColumnType) -> Self:
        grid = grid_of(self.column, dtype, limit, centred=True)
        return replace(self, grid=grid, is_open=False)

    def errors(self, groups: Groups) -> tuple[Error, ...]:
        """The noise of sum - mean·count, for a mean half-way between the middle of the bounds and one of them."""
        count, total = self.measures
        return (Error({total: 1.0, count: self.grid.width / 2}, float(groups.max_contribution(total)), self.weight),)

    def columns(self, noisy: Noisy) -> dict[str, pa.Array]:
        count, total = (noisy.number(measure) for measure in self.measures)
        low, high = ratio_interval(total, count, self.grid.width, noisy.confidence)
        value = np.clip(total.floats / np.maximum(count.floats, 1), low, high)
        centre, unit = float(self.grid.centre), float(self.grid.step) / 2
        unknown = (low <= -self.grid.width) & (high >= self.grid.width)
        return self.with_interval(*(centre + unit * array for array in (value, low, high)), unknown=unknown)

    def arguments(self) -> dict[str, Any]:
        return super().arguments() | {"missing": "skip" if isinstance(self.count, Values) else "centre"}


class MeanMethod(QuerySpec):
    """`query.mean(…)`."""

    def mean(
        self,
        column: str,
        bounds: Sequence[float] | None = None,
        *,
        missing: str = "skip",
        name: str | None = None,
        weight: float = 1,
    ) -> Self:
        """The mean of a column, each value clipped to `bounds`.

        Bounds that are not given are chosen privately, within the range of the column if that is known.

        Missing values are left out (`missing="skip"`), for which the values are counted with noise of their own, or
        count as the middle of the bounds (`missing="centre"`), for which the count of rows serves.
        """
        if missing not in ("skip", "centre"):
            raise ArgumentError(f'missing must be "skip" or "centre", got {missing!r}', argument="missing")
        dtype = self.dataset.number_type_of(column)
        bounds, is_open = bounds_within_range(self, column, bounds)
        grid = grid_to_be_chosen(column, dtype) if is_open else grid_of(column, dtype, bounds, centred=True)
        count = Values(column) if missing == "skip" else self.groups.canonical(Rows())
        mean = Mean(check_name(name, f"{column}_mean"), check_weight(weight), column, grid, count, is_open)
        return self.with_aggregate(mean)
