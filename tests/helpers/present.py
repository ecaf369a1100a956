"""An aggregate that only tests know, in one file: how many rows have a value within a range in a column."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

from osgt.data.sql import Value
from osgt.query.aggregates import Limits, add_method
from osgt.query.aggregates.base import PlainNumbers, QuerySpec, check_name, check_weight
from osgt.query.file.aggregates import Arguments, Bounds, ColumnName, Kind, Option, column_and_bounds, register
from osgt.query.measures import Measure, Place
from osgt.query.values import one_if, present


@dataclass(frozen=True)
class Within(Measure):
    """The number of rows with a value in a range."""

    column: str
    least: float
    most: float

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    @property
    def words(self) -> str:
        return f"values of {self.column} from {self.least:,} to {self.most:,}"

    def contributions(self, rows: Mapping[str, Value], place: Place) -> list[Any]:
        value = rows[self.column]
        return [one_if(present(value) & (value >= self.least) & (value <= self.most))]


@dataclass(frozen=True)
class Present(PlainNumbers):
    kind = "present_within"

    measure: Within

    @property
    def limits(self) -> tuple[Limits, ...]:
        within = self.measure
        words = f"range of {within.column}: values below {within.least:,} or above {within.most:,} are not counted"
        return (Limits(within.column, within.least, within.most, words),)

    def arguments(self) -> dict[str, Any]:
        return {"column": self.measure.column, "range": [self.measure.least, self.measure.most]}


class PresentMethod(QuerySpec):
    def present_within(
        self, column: str, range: Sequence[float], *, name: str | None = None, weight: float = 1
    ) -> Self:
        """The number of rows with a value in a range."""
        self.dataset.number_type_of(column)
        measure = Within(column, *range)
        return self.with_aggregate(Present(check_name(name, f"{column}_present"), check_weight(weight), measure))


class PresentArguments(Arguments):
    """The number of rows with a value in a range."""

    kind: Literal["present_within"]
    column: ColumnName
    range: Bounds


def _parse(text: str) -> dict[str, Any]:
    found = column_and_bounds(text)
    return {"column": found["column"], "range": found["bounds"]}


add_method(PresentMethod.present_within)
register(Kind(PresentArguments, Option("COLUMN:LEAST:MOST", _parse)))
