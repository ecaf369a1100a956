"""Totals: numbers measured for the groups of a level, each a sum over the finest groups in it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ibis.expr.types as ir

from osgt.tables.levels import Level
from osgt.tables.measures import Integers, Measure, Place
from osgt.tables.values import one_if


@dataclass(frozen=True)
class UnitsAt(Measure):
    """The number of distinct units in each group of a level: a unit counts in the first of its finest groups there."""

    by: tuple[str, ...]

    @property
    def per_unit(self) -> bool:
        return True

    @property
    def words(self) -> str:
        return "distinct units"

    def contributions(self, rows: Mapping[str, ir.Value], place: Place) -> list[Any]:
        return [one_if(place.starts[self.by])]


@dataclass(frozen=True)
class Total(Measure):
    """A measure added up for the groups of a level.

    One unit is in several of the finest groups, and what it adds to them may fall on one number or on several: one is
    the worst case (docs/dominance.md). Distinct units move by one in each group that the unit is in.
    """

    base: Measure
    level: Level

    @property
    def numbers(self) -> int:
        return self.base.numbers

    @property
    def for_table(self) -> bool:
        return True

    @property
    def words(self) -> str:
        return f"{self.base.words} {self.level.words}"

    @property
    def summed(self) -> tuple[Measure, ...]:
        return self.base.summed

    def exact(self, sums: Mapping[Measure, Integers]) -> Integers:
        return self.level.summed(self.base.exact(sums))
