"""The number of rows, of those in which a column has a value, and of privacy units."""

from dataclasses import dataclass
from typing import Any, Self

from osgt.query.aggregates.base import PlainNumbers, QuerySpec, check_name, check_weight
from osgt.query.groups import Groups
from osgt.query.measures import Rows, Units, Values


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


@dataclass(frozen=True)
class CountValues(PlainNumbers):
    """The number of rows in which a column has a value."""

    kind = "count_values"

    measure: Values

    def arguments(self) -> dict[str, Any]:
        return {"column": self.measure.column}


class CountValuesMethod(QuerySpec):
    """`query.count_values(…)`."""

    def count_values(self, column: str, *, name: str | None = None, weight: float = 1) -> Self:
        """The number of rows in which a column has a value: all of them, less those in which it is missing."""
        self.dataset.type_of("column", column)
        return self.with_aggregate(
            CountValues(check_name(name, f"{column}_values"), check_weight(weight), Values(column))
        )
