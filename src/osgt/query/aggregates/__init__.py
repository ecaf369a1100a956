"""Aggregates: one module for each. This list is what queries, plans, previews, query files and commands go by."""

import inspect
from collections.abc import Callable
from typing import Any

from osgt.query.aggregates.base import Aggregate, Column, Limits, Noisy
from osgt.query.aggregates.count import COUNT, COUNT_UNITS, CountMethod, CountUnitsMethod
from osgt.query.aggregates.histogram import HISTOGRAM, HistogramMethod
from osgt.query.aggregates.kinds import Kind
from osgt.query.aggregates.mean import MEAN, MeanMethod
from osgt.query.aggregates.proportion import PROPORTION, ProportionMethod
from osgt.query.aggregates.quantile import MEDIAN, QUANTILE, MedianMethod, QuantileMethod
from osgt.query.aggregates.sum import SUM, SumMethod
from osgt.query.aggregates.variance import VARIANCE, VarianceMethod

#: The aggregates that there are, by name.
AGGREGATES: dict[str, Kind] = {}


class Methods(
    CountMethod,
    CountUnitsMethod,
    SumMethod,
    MeanMethod,
    VarianceMethod,
    HistogramMethod,
    QuantileMethod,
    MedianMethod,
    ProportionMethod,
):
    """The methods of a query that ask for aggregates."""


class OfAllRows:
    """The methods of a data set that ask for aggregates: all rows are one group."""

    count: Callable[..., Any]
    count_units: Callable[..., Any]
    sum: Callable[..., Any]
    mean: Callable[..., Any]
    variance: Callable[..., Any]
    histogram: Callable[..., Any]
    quantile: Callable[..., Any]
    median: Callable[..., Any]
    proportion: Callable[..., Any]


def _of_all_rows(kind: Kind) -> Callable[..., Any]:
    """The method of a data set that asks for an aggregate of all rows."""

    def method(self: Any, *arguments: Any, max_rows: int | None = None, **named: Any) -> Any:
        return kind.method(self.group_by(max_rows=max_rows), *arguments, **named)

    asked = inspect.signature(kind.method)
    limit = inspect.Parameter("max_rows", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=int | None)
    method.__signature__ = asked.replace(  # type: ignore[attr-defined]
        parameters=[*asked.parameters.values(), limit], return_annotation="Query"
    )
    method.__name__ = kind.name
    method.__doc__ = f"{inspect.getdoc(kind.method)}\n\nAll rows are one group: `group_by(max_rows=…)`."
    return method


def register(kind: Kind) -> None:
    """Make an aggregate known to queries, query files and commands."""
    if kind.name in AGGREGATES:
        raise ValueError(f"there is an aggregate {kind.name!r} already")
    AGGREGATES[kind.name] = kind
    setattr(Methods, kind.name, kind.method)
    setattr(OfAllRows, kind.name, _of_all_rows(kind))


for _kind in (COUNT, COUNT_UNITS, SUM, MEAN, VARIANCE, HISTOGRAM, QUANTILE, MEDIAN, PROPORTION):
    register(_kind)

__all__ = ["AGGREGATES", "Aggregate", "Column", "Kind", "Limits", "Methods", "Noisy", "OfAllRows", "register"]
