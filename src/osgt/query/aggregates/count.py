"""The number of rows, and that of privacy units."""

from dataclasses import dataclass
from typing import Self

from osgt.query.aggregates.base import PlainNumbers, QuerySpec, check_name, check_weight
from osgt.query.groups import Groups
from osgt.query.measures import Rows, Units


@dataclass(frozen=True)
class Count(PlainNumbers):
    """The number of rows; of a unit with more than its limit, each row counts less."""

    kind = "count"


class CountMethod(QuerySpec):
    """`query.count()`."""

    def count(self, *, name: str = "count", weight: float = 1) -> Self:
        """The number of rows; of a unit with more than its limit, each row counts less."""
        return self.with_aggregate(
            Count(check_name(name, "count"), check_weight(weight), self.groups.canonical(Rows()))
        )


@dataclass(frozen=True)
class CountUnits(PlainNumbers):
    """The number of privacy units: each counts once in a group."""

    kind = "count_units"

    def adds_up(self, groups: Groups) -> bool:
        return groups.max_groups_per_unit == 1


class CountUnitsMethod(QuerySpec):
    """`query.count_units()`."""

    def count_units(self, *, name: str = "count_units", weight: float = 1) -> Self:
        """The number of privacy units."""
        return self.with_aggregate(CountUnits(check_name(name, "count_units"), check_weight(weight), Units()))
