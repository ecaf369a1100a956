"""Quantiles of a column, and the median."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import Any, Literal, Self

import numpy as np
import pyarrow as pa

from osgt.estimation.sums import many_terms
from osgt.query.aggregates.base import (
    Aggregate,
    Column,
    Error,
    Noisy,
    QuerySpec,
    bounds_within_range,
    check_name,
    check_weight,
    in_units,
)
from osgt.query.groups import Groups
from osgt.query.measures import Measure
from osgt.query.quantiles import Leaves, QuantileDraw, least_rank_error
from osgt.query.values import ValueGrid, grid_of
from osgt.support.errors import ArgumentError, ArgumentTypeError
from osgt.support.numeric import confidence_level, count

#: The number of bins if none is given, and the most there may be: engines limit how many numbers a query asks for.
BINS, MOST_BINS = 256, 1024

#: Whether a quantile has a noise interval, or none.
Interval = Literal["noise", "none"]


@dataclass(frozen=True)
class Quantile(Aggregate):
    """Quantiles, read from a tree of histograms."""

    kind = "quantile"

    levels: tuple[float, ...]
    leaves: Leaves
    #: Whether the one share that is asked for has a name of its own, to which nothing is added.
    is_named: bool = False

    @property
    def measures(self) -> tuple[Measure, ...]:
        return (self.leaves,)

    @property
    def names(self) -> list[str]:
        return [self.name if self.is_named else f"{self.name}_q{_percent(level)}" for level in self.levels]

    @property
    def clipping(self) -> tuple[str, ValueGrid]:
        return self.leaves.column, self.leaves.grid

    def errors(self, groups: Groups) -> tuple[Error, ...]:
        """The noise of a rank in the middle, in units of what it would be if nothing else were asked for."""
        unit = float(groups.max_contribution(self.leaves)) * least_rank_error(self.leaves)
        return (Error({self.leaves: 1.0}, unit, self.weight),)

    def columns(self, noisy: Noisy) -> dict[str, pa.Array]:
        import pyarrow.compute as pc  # noqa: PLC0415 - takes a while

        columns: dict[str, pa.Array] = {}
        grid = self.leaves.grid
        result = noisy.trees[self.leaves].quantiles(self.levels, noisy.confidence)
        for name, quantile in zip(self.names, result, strict=True):
            low, high = in_units(quantile.low, grid), in_units(quantile.high, grid)
            value = in_units(quantile.values, grid)
            # Where the interval is all of the bounds, the value says nothing.
            unknown = pa.array((quantile.low <= grid.low) & (quantile.high >= grid.high))
            value = pc.if_else(unknown, pa.scalar(None, type=value.type), value)
            columns |= {name: value, f"{name}_low": low, f"{name}_high": high}
        return columns

    def plan_columns(self, noisy: Noisy) -> list[Column]:
        tree = noisy.trees[self.leaves]
        return [
            Column(name, self.kind, noisy.confidence, ranks=tree.rank_error(level, noisy.confidence), level=level)
            for name, level in zip(self.names, self.levels, strict=True)
        ]

    def arguments(self) -> dict[str, Any]:
        levels = self.levels[0] if self.is_named else list(self.levels)
        return super().arguments() | {"bins": self.leaves.most, "levels": levels}


@dataclass(frozen=True)
class DrawnQuantile(Quantile):
    """One quantile without an interval: the middle of a bin that is drawn by the exponential mechanism."""

    @property
    def drawn(self) -> QuantileDraw:
        """The measure of the bin that is drawn."""
        return QuantileDraw(self.leaves, self.levels[0])

    @property
    def measures(self) -> tuple[Measure, ...]:
        return (self.drawn,)

    def adds_up(self, groups: Groups) -> bool:
        return False

    def errors(self, groups: Groups) -> tuple[Error, ...]:
        return (Error({self.drawn: 1.0}, float(groups.max_contribution(self.drawn)), self.weight),)

    def columns(self, noisy: Noisy) -> dict[str, pa.Array]:
        """The middle of the bin; nothing is known of how far off it is, so the interval is all of the bounds."""
        grid, edges = self.leaves.grid, self.leaves.edges
        values, of, _ = noisy.values[self.drawn]
        bins = np.clip(values[:, 0] // of, 0, self.leaves.numbers - 1)
        last = np.minimum(edges[bins + 1] - (grid.kind != "float"), grid.high)
        ends = (np.full(len(bins), end, dtype=np.int64) for end in (grid.low, grid.high))
        columns = (edges[bins] + (last - edges[bins]) // 2, *ends)
        [name] = self.names
        return {name + end: in_units(steps, grid) for end, steps in zip(("", "_low", "_high"), columns, strict=True)}

    def plan_columns(self, noisy: Noisy) -> list[Column]:
        [(step, law, _)] = many_terms(noisy.noise(self.drawn))
        ranks = float(step) * self.drawn.rank_error(law.potential.largest_slope, noisy.confidence)
        return [Column(self.names[0], self.kind, noisy.confidence, ranks=ranks, level=self.levels[0])]

    def arguments(self) -> dict[str, Any]:
        return super().arguments() | {"levels": self.levels[0], "interval": "none"}


class QuantileMethod(QuerySpec):
    """`query.quantile(…)`."""

    def quantile(
        self,
        column: str,
        levels: float | Sequence[float],
        bounds: Sequence[float] | None = None,
        *,
        bins: int = BINS,
        interval: Interval = "noise",
        name: str | None = None,
        weight: float = 1,
    ) -> Self:
        """Quantiles of a column, each value clipped to `bounds`; missing values are left out.

        `levels` are shares between 0 and 1: `[0.25, 0.5, 0.75]` gives the columns `…_q25`, `…_q50` and `…_q75`; a
        single number with a `name` gives a column of that name. The bounds (the range of the column if they are not
        given, and that is known) are divided into at most `bins` equally wide bins, and an interval consists of whole
        bins. All quantiles of a column with the same bounds and bins are read from the same noisy numbers.

        `interval="none"`, for one quantile of public groups: a value that is several times nearer, and no interval.
        """
        leaves = leaves_of(self, column, bounds, bins)
        shares, is_named = _levels(levels), name is not None and isinstance(levels, Real | Decimal)
        kind = DrawnQuantile if _is_drawn(self, interval, len(shares)) else Quantile
        return self.with_aggregate(
            kind(check_name(name, column), check_weight(weight), shares, leaves, is_named=is_named)
        )


def _is_drawn(query: QuerySpec, interval: object, quantiles: int) -> bool:
    """Whether a quantile is drawn, without an interval; refused where that is not possible."""
    if interval not in ("noise", "none"):
        raise ArgumentError(f'interval must be "noise" or "none", got {interval!r}', argument="interval")
    if interval == "noise":
        return False
    groups = query.groups
    reasons = {
        "it is for one quantile: ask for each by itself, or leave it out": quantiles > 1,
        "groups that are chosen by their size have intervals: give public_keys": not groups.shows_all,
        "there are no totals without intervals: ask for them in a table of their own": bool(groups.levels),
        "give max_rows in place of max_length": groups.max_length is not None,
    }
    for reason, holds in reasons.items():
        if holds:
            raise ArgumentError(f'interval = "none": {reason}', argument="interval")
    return True


def leaves_of(query: QuerySpec, column: str, bounds: object, bins: object) -> Leaves:
    """The bins of a column."""
    dtype = query.dataset.number_type_of(column)
    if not dtype.is_number:
        raise ArgumentTypeError(f"column {column!r} must hold numbers, got {dtype}", argument="column")
    most = count("bins", bins)
    if not 2 <= most <= MOST_BINS:
        raise ArgumentError(f"bins must be between 2 and {MOST_BINS:,}, got {bins!r}", argument="bins")
    bounds, _ = bounds_within_range(query, column, bounds, choose=False)
    grid = grid_of(column, dtype, bounds, centred=dtype.kind == "float")
    if grid.width < 2:
        raise ArgumentError(
            f"bounds of {column!r} are too close to each other for quantiles: {bounds!r}", argument="bounds"
        )
    return Leaves(column, grid, most)


def _levels(levels: object) -> tuple[float, ...]:
    """The shares, ascending."""
    given: list[Any] = list(levels) if isinstance(levels, Sequence) and not isinstance(levels, str) else [levels]
    if not given or any(isinstance(level, bool) or not isinstance(level, Real | Decimal) for level in given):
        raise ArgumentTypeError(
            f"levels must be numbers between 0 and 1, as in [0.25, 0.5, 0.75], got {levels!r}", argument="levels"
        )
    result = sorted({confidence_level(float(level), "levels") for level in given})
    if len({_percent(level) for level in result}) < len(given):
        raise ArgumentError(f"levels must differ from each other, got {levels!r}", argument="levels")
    return tuple(result)


def _percent(level: float) -> str:
    """A share as it stands in the name of a column: 50, 99_9."""
    return f"{100 * level:.10g}".replace(".", "_").replace("e-", "e_")


@dataclass(frozen=True)
class Median(Quantile):
    """The quantile in the middle, under a name of its own."""

    kind = "median"

    @property
    def names(self) -> list[str]:
        return [self.name]

    def arguments(self) -> dict[str, Any]:
        return {name: value for name, value in super().arguments().items() if name != "levels"}


@dataclass(frozen=True)
class DrawnMedian(Median, DrawnQuantile):
    """The quantile in the middle, without an interval."""


class MedianMethod(QuerySpec):
    """`query.median(…)`."""

    def median(
        self,
        column: str,
        bounds: Sequence[float] | None = None,
        *,
        bins: int = BINS,
        interval: Interval = "noise",
        name: str | None = None,
        weight: float = 1,
    ) -> Self:
        """The median of a column, each value clipped to `bounds`; missing values are left out.

        As `quantile(column, 0.5)`, in a column `…_median`.
        """
        leaves = leaves_of(self, column, bounds, bins)
        kind = DrawnMedian if _is_drawn(self, interval, 1) else Median
        return self.with_aggregate(kind(check_name(name, f"{column}_median"), check_weight(weight), (0.5,), leaves))
