"""The number of rows."""

from dataclasses import dataclass
from typing import Literal, Self

from osgt.tables.aggregates.kinds import Arguments, Asking, Kind, named, weighted
from osgt.tables.aggregates.plain import PlainNumbers
from osgt.tables.measures import Rows


@dataclass(frozen=True)
class Count(PlainNumbers):
    """The number of rows, at most `max_rows_per_group` of each unit."""

    kind = "count"


class CountMethod(Asking):
    """`query.count()`."""

    def count(self, *, name: str = "count", weight: float = 1) -> Self:
        """The number of rows, at most `max_rows_per_group` of each unit."""
        return self.with_aggregate(Count(named(name, "count"), weighted(weight), self.groups.same(Rows())))


class CountArguments(Arguments):
    """The number of rows."""

    kind: Literal["count"]


COUNT = Kind("count", CountMethod.count, CountArguments)
