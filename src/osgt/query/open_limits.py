"""Limits that are not given: which there are, and a query with those that were chosen for them.

Only limits whose choice leaves the noise in steps as it is can be chosen within a release: of rows, of totals and of
values. How many groups a unit counts in decides about the noise: without a limit, units count in all public groups.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, TypeVar

from osgt.query.aggregates.base import Aggregate, QuerySpec

Q = TypeVar("Q", bound=QuerySpec)

#: A limit: a number, or two where it is bounds.
Limit = Fraction | tuple[Fraction, Fraction]

#: What stands for limits that are still open. The noise in steps is the same for every limit on rows; that of groups
#: which a unit counts in is made for so many, and none beyond it may be chosen.
ANY_LIMIT = 16


@dataclass(frozen=True)
class OpenLimit:
    """A limit that is to be chosen: the argument that it is of, and the column if it is about values."""

    argument: str
    column: str | None = None

    @property
    def words(self) -> str:
        """The limit in words: "max_rows", "max_total of cost"."""
        return self.argument if self.column is None else f"{self.argument} of {self.column}"


def open_limits(query: QuerySpec) -> tuple[OpenLimit, ...]:
    """The limits that are not given and that something in the query needs."""
    groups = query.groups
    measures = [measure for aggregate in query.aggregates for measure in aggregate.measures]
    result = []
    # Groups that are chosen by their size are chosen by rows, unless units are limited in groups.
    chosen_by_rows = not groups.shows_all and groups.max_groups is None
    counts_rows = any(groups.is_weighted(measure) and measure.own_limit is None for measure in measures)
    if not groups.limits_rows and (counts_rows or chosen_by_rows):
        result.append(OpenLimit("max_rows"))
    for aggregate in query.aggregates:
        if aggregate.open_limit is not None:
            result.append(OpenLimit(aggregate.open_limit, str(aggregate.arguments()["column"])))
    return tuple(dict.fromkeys(result))


def with_limits(query: Q, limits: Mapping[OpenLimit, Limit]) -> Q:
    """Give a query the limits that were chosen for it."""
    of_groups: dict[str, Any] = {
        limit.argument: int(size)
        for limit, size in limits.items()
        if isinstance(size, Fraction) and limit.column is None and getattr(query.groups, limit.argument) is None
    }

    def closed(aggregate: Aggregate) -> Aggregate:
        if aggregate.open_limit is None:
            return aggregate
        column = str(aggregate.arguments()["column"])
        limit = limits[OpenLimit(aggregate.open_limit, column)]
        return aggregate.with_limit(limit, query.dataset.number_type_of(column))

    return replace(query, groups=replace(query.groups, **of_groups), aggregates=tuple(map(closed, query.aggregates)))


def with_any_limits(query: Q) -> Q:
    """Give a query some limits on rows and groups where they are open: its plan in steps serves all candidates."""
    limits: dict[str, Any] = {each.argument: ANY_LIMIT for each in open_limits(query) if each.column is None}
    return replace(query, groups=replace(query.groups, **limits)) if limits else query
