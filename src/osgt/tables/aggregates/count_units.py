"""The number of privacy units."""

from dataclasses import dataclass
from typing import Literal, Self

from osgt.tables.aggregates.kinds import Arguments, Asking, Kind, named, weighted
from osgt.tables.aggregates.plain import PlainNumbers
from osgt.tables.groups import Groups
from osgt.tables.measures import Units


@dataclass(frozen=True)
class CountUnits(PlainNumbers):
    """The number of privacy units: each counts once in a group."""

    kind = "count_units"

    def adds_up(self, groups: Groups) -> bool:
        return groups.most == 1


class CountUnitsMethod(Asking):
    """`query.count_units()`."""

    def count_units(self, *, name: str = "count_units", weight: float = 1) -> Self:
        """The number of privacy units."""
        return self.with_aggregate(CountUnits(named(name, "count_units"), weighted(weight), Units()))


class CountUnitsArguments(Arguments):
    """The number of privacy units."""

    kind: Literal["count_units"]


COUNT_UNITS = Kind("count_units", CountUnitsMethod.count_units, CountUnitsArguments)
