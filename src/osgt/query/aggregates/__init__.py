"""Aggregates: one module for each, with the method of a query that asks for it.

How query files and the command line ask for them is in `query/file/aggregates.py`, under the same names.
"""

import inspect
from collections.abc import Callable
from typing import Any

from osgt.query.aggregates.base import Aggregate, Column, Limits, Noisy
from osgt.query.aggregates.count import CountMethod, CountUnitsMethod, CountValuesMethod
from osgt.query.aggregates.count_distinct import CountDistinctMethod
from osgt.query.aggregates.histogram import HistogramMethod
from osgt.query.aggregates.mean import MeanMethod
from osgt.query.aggregates.proportion import ProportionMethod
from osgt.query.aggregates.quantile import MedianMethod, QuantileMethod
from osgt.query.aggregates.sum import SumMethod
from osgt.query.aggregates.variance import VarianceMethod
from osgt.support.errors import guided


class Methods(
    CountMethod,
    CountUnitsMethod,
    CountValuesMethod,
    CountDistinctMethod,
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
    count_values: Callable[..., Any]
    count_distinct: Callable[..., Any]
    sum: Callable[..., Any]
    mean: Callable[..., Any]
    variance: Callable[..., Any]
    histogram: Callable[..., Any]
    quantile: Callable[..., Any]
    median: Callable[..., Any]
    proportion: Callable[..., Any]


def _of_all_rows(ask: Callable[..., Any]) -> Callable[..., Any]:
    """The method of a data set that asks for an aggregate of all rows."""

    def method(self: Any, *arguments: Any, max_rows: int | None = None, **named: Any) -> Any:
        return ask(self.group_by(max_rows=max_rows), *arguments, **named)

    asked = inspect.signature(ask)
    limit = inspect.Parameter("max_rows", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=int | None)
    method.__signature__ = asked.replace(  # type: ignore[attr-defined]
        parameters=[*asked.parameters.values(), limit], return_annotation="Query"
    )
    method.__name__ = ask.__name__
    method.__doc__ = f"{inspect.getdoc(ask)}\n\nAll rows are one group: `group_by(max_rows=…)`."
    return method


def add_method(ask: Callable[..., Any]) -> None:
    """Give queries, and data sets, a method that asks for an aggregate."""
    method = guided(ask)
    setattr(Methods, ask.__name__, method)
    setattr(OfAllRows, ask.__name__, _of_all_rows(method))


def method_names() -> list[str]:
    """The names of the methods that ask for aggregates."""
    return [name for name in vars(Methods) if not name.startswith("_")]


for _base in Methods.__bases__:
    for _ask in [member for name, member in vars(_base).items() if not name.startswith("_")]:
        add_method(_ask)

__all__ = ["Aggregate", "Column", "Limits", "Methods", "Noisy", "OfAllRows", "add_method", "method_names"]
