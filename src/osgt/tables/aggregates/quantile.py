"""Quantiles of a column."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import Annotated, Any, Literal, Self

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from osgt.noise.parameters import confidence_level
from osgt.privacy.arguments import count
from osgt.tables.aggregates.base import Aggregate, Column, Error, Limits, Noisy
from osgt.tables.aggregates.bounded import bounded_arguments, clipped
from osgt.tables.aggregates.kinds import Arguments, Asking, Bounds, ColumnName, Kind, Option, named, number, weighted
from osgt.tables.aggregates.plain import in_units
from osgt.tables.file_types import PlainNumber, Words
from osgt.tables.groups import Groups
from osgt.tables.measures import Measure
from osgt.tables.ranks import Leaves, least_rank_error
from osgt.tables.values import grid_of

#: The number of bins if none is given, and the most there may be: engines limit how many numbers a query asks for.
BINS, MOST_BINS = 256, 1024

Bins = Annotated[
    int,
    Field(description=f"How many bins the bounds are divided into, at most: from 2 to {MOST_BINS:,}. More are finer."),
]


@dataclass(frozen=True)
class Quantile(Aggregate):
    """Quantiles, read from a tree of histograms."""

    kind = "quantile"

    levels: tuple[float, ...]
    leaves: Leaves

    @property
    def measures(self) -> tuple[Measure, ...]:
        return (self.leaves,)

    @property
    def names(self) -> list[str]:
        return [f"{self.name}_q{_percent(level)}" for level in self.levels]

    @property
    def limits(self) -> tuple[Limits, ...]:
        return clipped(self.leaves.column, self.leaves.grid)

    def errors(self, groups: Groups) -> tuple[Error, ...]:
        """The noise of a rank in the middle, in units of what it would be if nothing else were asked for."""
        unit = groups.most_of(self.leaves) * least_rank_error(self.leaves)
        return (Error({self.leaves: 1.0}, unit, self.weight),)

    def columns(self, noisy: Noisy) -> dict[str, pa.Array]:
        columns: dict[str, pa.Array] = {}
        grid = self.leaves.grid
        found = noisy.trees[self.leaves].quantiles(self.levels, noisy.confidence)
        for name, each in zip(self.names, found, strict=True):
            low, high = in_units(each.low, grid), in_units(each.high, grid)
            value = in_units(each.values, grid)
            # Where the interval is all of the bounds, the value says nothing.
            unknown = pa.array((each.low <= grid.low) & (each.high >= grid.high))
            value = pc.if_else(unknown, pa.scalar(None, type=value.type), value)
            columns |= {name: value, f"{name}_low": low, f"{name}_high": high}
        return columns

    def planned(self, noisy: Noisy) -> list[Column]:
        tree = noisy.trees[self.leaves]
        return [
            Column(name, self.kind, noisy.confidence, ranks=tree.rank_error(level, noisy.confidence))
            for name, level in zip(self.names, self.levels, strict=True)
        ]

    def arguments(self) -> dict[str, Any]:
        return self._arguments() | {"levels": list(self.levels)}

    def _arguments(self) -> dict[str, Any]:
        return bounded_arguments(self.leaves.column, self.leaves.grid) | {"bins": self.leaves.most}


class QuantileMethod(Asking):
    """`query.quantile(…)`."""

    def quantile(
        self,
        column: str,
        levels: float | Sequence[float],
        bounds: Sequence[float] | None = None,
        *,
        bins: int = BINS,
        name: str | None = None,
        weight: float = 1,
    ) -> Self:
        """Quantiles of a column, each value clipped to `bounds`; missing values are left out.

        `levels` are shares between 0 and 1: `[0.25, 0.5, 0.75]` gives the columns `…_q25`, `…_q50` and `…_q75`. The
        bounds are divided into at most `bins` equally wide bins, and an interval consists of whole bins. All quantiles
        of a column with the same bounds and bins are read from the same noisy numbers.
        """
        leaves = leaves_of(self, column, bounds, bins)
        return self.with_aggregate(Quantile(named(name, column), weighted(weight), _levels(levels), leaves))


class QuantileArguments(Arguments):
    """Quantiles of a column; values beyond the bounds count as the nearer bound."""

    kind: Literal["quantile"]
    column: ColumnName
    levels: Annotated[list[PlainNumber], Words("a list of numbers between 0 and 1")] = Field(
        min_length=1, description="Which quantiles: 0.5 is the median. The columns are named after them, as in …_q50."
    )
    bounds: Bounds
    bins: Bins = BINS


def leaves_of(query: Asking, column: str, bounds: object, bins: object) -> Leaves:
    """The bins of a column."""
    dtype = query.dataset.number_type_of(column)
    if not dtype.is_numeric() or dtype.is_boolean():
        raise TypeError(f"column {column!r} must hold numbers, got {dtype}")
    most = count("bins", bins)
    if not 2 <= most <= MOST_BINS:
        raise ValueError(f"bins must be between 2 and {MOST_BINS:,}, got {bins!r}")
    grid = grid_of(column, dtype, bounds, centred=dtype.is_floating())
    if grid.width < 2:
        raise ValueError(f"bounds of {column!r} are too close to each other for quantiles: {bounds!r}")
    return Leaves(column, grid, most)


def _levels(levels: object) -> tuple[float, ...]:
    """The shares, ascending."""
    given: list[Any] = list(levels) if isinstance(levels, Sequence) and not isinstance(levels, str) else [levels]
    if not given or any(isinstance(each, bool) or not isinstance(each, Real | Decimal) for each in given):
        raise TypeError(f"levels must be numbers between 0 and 1, as in [0.25, 0.5, 0.75], got {levels!r}")
    found = sorted({confidence_level(float(each), "levels") for each in given})
    if len({_percent(each) for each in found}) < len(given):
        raise ValueError(f"levels must differ from each other, got {levels!r}")
    return tuple(found)


def _percent(level: float) -> str:
    """A share as it stands in the name of a column: 50, 99_9."""
    return f"{100 * level:.10g}".replace(".", "_").replace("e-", "e_")


def _parsed(text: str) -> dict[str, Any]:
    column, *rest = text.rsplit(":", 3)
    if not column or len(rest) != 3:
        raise ValueError("a column, two numbers, and shares between commas")
    low, high, levels = rest
    return {
        "column": column,
        "bounds": [number(low), number(high)],
        "levels": [number(level) for level in levels.split(",")],
    }


QUANTILE = Kind(
    "quantile", QuantileMethod.quantile, QuantileArguments, Option("COLUMN:LOW:HIGH:LEVEL,LEVEL,…", _parsed)
)
