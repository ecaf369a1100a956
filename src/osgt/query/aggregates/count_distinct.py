"""The number of different values of a column."""

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Self

from osgt.data.types import ColumnType
from osgt.query.aggregates.base import ANY_LIMIT, PlainNumbers, QuerySpec, check_name, check_weight
from osgt.query.groups import LARGEST_LIMIT, Groups
from osgt.query.measures import Distinct
from osgt.query.values import ValueGrid
from osgt.support.errors import ArgumentError, ArgumentTypeError
from osgt.support.numeric import count


@dataclass(frozen=True)
class CountDistinct(PlainNumbers):
    """The number of different values of a column in each group."""

    kind = "count_distinct"

    measure: Distinct
    is_open: bool = False

    @property
    def grid(self) -> ValueGrid:
        return ValueGrid("integer", Fraction(1), 0, self.measure.limit)

    def adds_up(self, groups: Groups) -> bool:
        return False

    @property
    def open_limit(self) -> str | None:
        return "max_distinct" if self.is_open else None

    def with_limit(self, limit: Any, dtype: ColumnType) -> Self:
        return replace(self, measure=replace(self.measure, limit=int(limit)), is_open=False)

    def arguments(self) -> dict[str, Any]:
        limits = {} if self.is_open else {"max_distinct": self.measure.limit}
        return {"column": self.measure.column, **limits}

    def counted(self, groups: Groups) -> str | None:
        return None


class CountDistinctMethod(QuerySpec):
    """`query.count_distinct(…)`."""

    def count_distinct(
        self, column: str, max_distinct: int | None = None, *, name: str | None = None, weight: float = 1
    ) -> Self:
        """The number of different values of a column: columns `diagnosis_distinct`, … Missing values and NaN are none.

        One unit counts with at most `max_distinct` pairs of group and value, chosen by a salted hash from those that it
        has; of its other pairs, those count that somebody else has. Chosen privately if it is not given.
        """
        dtype = self.dataset.type_of("column", column)
        if dtype.kind != "float" and not self.dataset.engine.can_be_key(dtype):
            raise ArgumentTypeError(
                f"column {column!r} of type {dtype} has no values that can be told apart; use numbers, text or dates",
                argument="column",
            )
        if self.groups.levels:
            raise ArgumentError(
                "totals must be left out where different values are counted: the numbers of groups do not add up. Ask "
                "for each level in a table of its own, in one Publication",
                argument="totals",
            )
        is_open = max_distinct is None and not self.groups.each_row
        limit = ANY_LIMIT if max_distinct is None else count("max_distinct", max_distinct)
        if self.groups.each_row:  # a row has one value
            limit = 1
        if limit > LARGEST_LIMIT:
            raise ArgumentError(
                f"max_distinct must be between 1 and {LARGEST_LIMIT:,}, got {max_distinct!r}", argument="max_distinct"
            )
        measure = Distinct(column, limit, in_steps=is_open)
        return self.with_aggregate(
            CountDistinct(check_name(name, f"{column}_distinct"), check_weight(weight), measure, is_open)
        )
