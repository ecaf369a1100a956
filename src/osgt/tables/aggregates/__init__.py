"""Aggregates: one module for each. This list is what queries, plans, previews, query files and commands go by."""

from osgt.tables.aggregates.base import Aggregate, Column, Limits, Noisy
from osgt.tables.aggregates.count import COUNT, CountMethod
from osgt.tables.aggregates.count_units import COUNT_UNITS, CountUnitsMethod
from osgt.tables.aggregates.histogram import HISTOGRAM, HistogramMethod
from osgt.tables.aggregates.kinds import Kind
from osgt.tables.aggregates.mean import MEAN, MeanMethod
from osgt.tables.aggregates.sum import SUM, SumMethod
from osgt.tables.aggregates.variance import VARIANCE, VarianceMethod

#: The aggregates that there are, by name.
AGGREGATES: dict[str, Kind] = {}


class Methods(CountMethod, CountUnitsMethod, SumMethod, MeanMethod, VarianceMethod, HistogramMethod):
    """The methods of a query that ask for aggregates."""


def register(kind: Kind) -> None:
    """Make an aggregate known to queries, query files and commands."""
    if kind.name in AGGREGATES:
        raise ValueError(f"there is an aggregate {kind.name!r} already")
    AGGREGATES[kind.name] = kind
    setattr(Methods, kind.name, kind.method)


for _kind in (COUNT, COUNT_UNITS, SUM, MEAN, VARIANCE, HISTOGRAM):
    register(_kind)

__all__ = ["AGGREGATES", "Aggregate", "Column", "Kind", "Limits", "Methods", "Noisy", "register"]
