"""Numbers of rows between edges."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from numbers import Real
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field

from osgt.query.aggregates.base import Limits, PlainNumbers, QuerySpec
from osgt.query.aggregates.kinds import Arguments, ColumnName, Kind, Option, check_name, check_weight, number
from osgt.query.file.types import PlainNumber, Words
from osgt.query.measures import Bins
from osgt.support.errors import ArgumentError, ArgumentTypeError


@dataclass(frozen=True)
class Histogram(PlainNumbers):
    """The number of rows in each bin."""

    kind = "histogram"

    measure: Bins

    @property
    def names(self) -> list[str]:
        return [f"{self.name}_{low}_to_{high}" for low, high in pairwise(self.measure.edges)]

    @property
    def limits(self) -> tuple[Limits, ...]:
        column, first, last = self.measure.column, self.measure.edges[0], self.measure.edges[-1]
        words = f"edges of {column}: values below {first:,} or above {last:,} are in no bin"
        return (Limits(column, first, last, words, "are in no bin"),)

    def arguments(self) -> dict[str, Any]:
        return {"column": self.measure.column, "edges": list(self.measure.edges)}


class HistogramMethod(QuerySpec):
    """`query.histogram(…)`."""

    def histogram(self, column: str, edges: Sequence[float], *, name: str | None = None, weight: float = 1) -> Self:
        """The number of rows between each two neighbouring edges: columns `fare_0_to_10`, `fare_10_to_20`, …

        A bin holds its lower edge, the last one both. Values outside the edges and missing ones are in no bin. All
        bins of a group together cost as much as one count.
        """
        dtype = self.dataset.number_type_of(column)
        if not dtype.is_number:
            raise ArgumentTypeError(f"column {column!r} must hold numbers, got {dtype}", argument="column")
        bins = Bins(column, _check_edges(column, edges))
        return self.with_aggregate(Histogram(check_name(name, column), check_weight(weight), bins))


class HistogramArguments(Arguments):
    """The number of rows between each two neighbouring edges."""

    kind: Literal["histogram"]
    column: ColumnName
    edges: Annotated[list[PlainNumber], Words("a list of ascending numbers")] = Field(
        min_length=2, description="A bin lies between each two of them; each holds its lower edge, the last one both."
    )


def _check_edges(column: str, edges: object) -> tuple[float, ...]:
    """The edges of a histogram: at least two finite numbers, ascending."""
    if isinstance(edges, str) or not isinstance(edges, Sequence | np.ndarray):
        raise ArgumentTypeError(
            f"edges of {column!r} must be a list of ascending numbers, got {edges!r}", argument="edges"
        )
    numbers = list(edges)
    if not all(isinstance(edge, Real | Decimal) and not isinstance(edge, bool) for edge in numbers):
        raise ArgumentTypeError(f"edges of {column!r} must be numbers, got {edges!r}", argument="edges")
    values = np.array([float(edge) for edge in numbers])
    if len(values) < 2 or not np.all(np.isfinite(values)) or not np.all(np.diff(values) > 0):
        raise ArgumentError(
            f"edges of {column!r} must be at least two finite, ascending numbers, got {edges!r}", argument="edges"
        )
    return tuple(int(edge) if edge.is_integer() and abs(edge) < 2**53 else float(edge) for edge in values)


def _column_and_edges(text: str) -> dict[str, Any]:
    column, *edges = text.split(":")
    return {"column": column, "edges": [number(edge) for edge in edges]}


HISTOGRAM = Kind(HistogramMethod.histogram, HistogramArguments, Option("COLUMN:EDGE:EDGE:…", _column_and_edges))
