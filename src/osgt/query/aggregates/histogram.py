"""Numbers of rows between edges."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from numbers import Real
from typing import Any, Self

import numpy as np

from osgt.query.aggregates.base import Limits, PlainNumbers, QuerySpec, check_name, check_weight
from osgt.query.measures import Bins
from osgt.support.errors import ArgumentError, ArgumentTypeError

#: The most bins of equal width.
_MOST_BINS = 1_000


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

    def histogram(
        self, column: str, edges: Sequence[float] | int, *, name: str | None = None, weight: float = 1
    ) -> Self:
        """The number of rows between each two neighbouring edges: columns `fare_0_to_10`, `fare_10_to_20`, …

        A number in place of edges: so many bins of equal width in the range of the column, if that is known. A bin
        holds its lower edge, the last one both. Values outside the edges and missing ones are in no bin. All bins of a
        group together cost as much as one count.
        """
        dtype = self.dataset.number_type_of(column)
        if not dtype.is_number:
            raise ArgumentTypeError(f"column {column!r} must hold numbers, got {dtype}", argument="column")
        bins = Bins(column, _check_edges(column, _equal_edges(self, column, edges)))
        return self.with_aggregate(Histogram(check_name(name, column), check_weight(weight), bins))


def _equal_edges(query: QuerySpec, column: str, edges: Any) -> Any:
    """Edges of bins of equal width, if their number is given."""
    if isinstance(edges, bool) or not isinstance(edges, int):
        return edges
    known = query.dataset.known_column(column).range
    if known is None:
        raise ArgumentTypeError(
            f"edges of {column!r} must be a list of ascending numbers, got {edges!r}: a number of bins is for columns "
            "whose range is known",
            argument="edges",
        )
    if not 1 <= edges <= _MOST_BINS:
        raise ArgumentError(f"edges of {column!r} must be from 1 to {_MOST_BINS:,} bins, got {edges}", argument="edges")
    low, high = (Fraction(str(end)) for end in known)
    return [float(low + (high - low) * i / edges) for i in range(edges + 1)]


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
