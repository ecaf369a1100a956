"""The median of a column."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

from osgt.tables.aggregates.kinds import (
    Arguments,
    Asking,
    Bounds,
    ColumnName,
    Kind,
    Option,
    column_and_bounds,
    named,
    weighted,
)
from osgt.tables.aggregates.quantile import BINS, Bins, Quantile, leaves_of


@dataclass(frozen=True)
class Median(Quantile):
    """The quantile in the middle, under a name of its own."""

    kind = "median"

    @property
    def names(self) -> list[str]:
        return [self.name]

    def arguments(self) -> dict[str, Any]:
        return self._arguments()


class MedianMethod(Asking):
    """`query.median(…)`."""

    def median(
        self,
        column: str,
        bounds: Sequence[float] | None = None,
        *,
        bins: int = BINS,
        name: str | None = None,
        weight: float = 1,
    ) -> Self:
        """The median of a column, each value clipped to `bounds`; missing values are left out.

        As `quantile(column, 0.5)`, in a column `…_median`.
        """
        leaves = leaves_of(self, column, bounds, bins)
        return self.with_aggregate(Median(named(name, f"{column}_median"), weighted(weight), (0.5,), leaves))


class MedianArguments(Arguments):
    """The median of a column; values beyond the bounds count as the nearer bound."""

    kind: Literal["median"]
    column: ColumnName
    bounds: Bounds
    bins: Bins = BINS


def _parsed(text: str) -> dict[str, Any]:
    found = column_and_bounds(text)
    if "bounds" not in found:
        raise ValueError("a column and two numbers")
    return found


MEDIAN = Kind("median", MedianMethod.median, MedianArguments, Option("COLUMN:LOW:HIGH", _parsed))
