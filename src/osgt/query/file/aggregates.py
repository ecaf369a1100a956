"""Aggregates as query files and the command line ask for them: for each a model of its arguments, and its option.

How they are computed is in `query/aggregates`, as methods of a query under the same names. Nothing here needs to
compute: help and refusals load no more than this.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

from pydantic import Field

from osgt.query.file import FileTable, PlainNumber, Text, Words

ColumnName = Annotated[Text, Field(description="The column of numbers.")]
Bounds = Annotated[
    list[PlainNumber],
    Words("two numbers, as in [0, 100]"),
    Field(min_length=2, max_length=2, description="The least and the largest value that a row may count as."),
]
Bins = Annotated[
    int, Field(description="How many bins the bounds are divided into, at most: from 2 to 1,024. More are finer.")
]


class Arguments(FileTable):
    """What a query file says about an aggregate. The first line of such a docstring describes the aggregate."""

    kind: Text = Field(description="What is asked for: one of those above.")
    name: Text | None = Field(default=None, description="The name of the column in the release, if not the usual one.")
    weight: PlainNumber = Field(default=1, description="More than 1: less noise here, and more in the other columns.")


class BoundedArguments(Arguments):
    """A column and its bounds."""

    column: ColumnName
    bounds: Bounds | None = Field(
        default=None,
        description="The least and the largest value that a row may count as; chosen privately if left out.",
    )


class CountArguments(Arguments):
    """The number of rows."""

    kind: Literal["count"]


class CountUnitsArguments(Arguments):
    """The number of privacy units."""

    kind: Literal["count_units"]


class CountValuesArguments(Arguments):
    """The number of rows in which a column has a value."""

    kind: Literal["count_values"]
    column: Text = Field(description="The column: of any type.")


class CountDistinctArguments(Arguments):
    """The number of different values of a column; missing values are none."""

    kind: Literal["count_distinct"]
    column: Text = Field(description="The column whose values are told apart.")
    max_distinct: int | None = Field(
        default=None,
        description="The most pairs of group and value that one unit counts with; chosen privately if left out.",
    )


class SumArguments(BoundedArguments):
    """The sum of a column."""

    kind: Literal["sum"]
    bounds: Bounds | None = Field(
        default=None, description="The least and the largest value that a row may count as, in place of max_total."
    )
    max_total: Annotated[PlainNumber | list[PlainNumber], Words("a number, or 0 and a number")] | None = Field(
        default=None,
        description="The most that one unit adds in all: of one with more, each row counts less. As [0, total] values "
        "below 0 count as 0. Chosen privately if neither this nor bounds are given.",
    )


class MeanArguments(BoundedArguments):
    """The mean of a column; values beyond the bounds count as the nearer bound."""

    kind: Literal["mean"]
    missing: Literal["skip", "centre"] = Field(
        default="skip",
        description='What becomes of missing values: left out ("skip"), or counted as the middle of the bounds '
        '("centre"), for which no count of the values is needed.',
    )


class VarianceArguments(BoundedArguments):
    """The variance of a column; values beyond the bounds count as the nearer bound."""

    kind: Literal["variance"]


class HistogramArguments(Arguments):
    """The number of rows between each two neighbouring edges."""

    kind: Literal["histogram"]
    column: ColumnName
    edges: Annotated[int | list[PlainNumber], Words("a list of ascending numbers, or a number of bins")] = Field(
        description="A bin lies between each two of them; each holds its lower edge, the last one both. A number: so "
        "many bins of equal width in the range of the column."
    )


_RANGE: Any = Field(
    default=None,
    description="The least and the largest value that a row may count as; the range of the column if left out.",
)


_Interval = Annotated[
    Literal["noise", "none"],
    Field(
        description='"none": for one quantile of public groups, a value that is several times nearer, and no interval.'
    ),
]


class QuantileArguments(Arguments):
    """Quantiles of a column; values beyond the bounds count as the nearer bound."""

    kind: Literal["quantile"]
    column: ColumnName
    levels: Annotated[
        PlainNumber | Annotated[list[PlainNumber], Field(min_length=1)],
        Words("a number between 0 and 1, or a list of them"),
    ] = Field(
        description="Which quantiles: 0.5 is the median. The columns are named after them, as in …_q50; one number "
        "with a name has that name alone."
    )
    bounds: Bounds | None = _RANGE
    bins: Bins = 256
    interval: _Interval = "noise"


class MedianArguments(Arguments):
    """The median of a column; values beyond the bounds count as the nearer bound."""

    kind: Literal["median"]
    column: ColumnName
    bounds: Bounds | None = _RANGE
    bins: Bins = 256
    interval: _Interval = "noise"


class ProportionArguments(Arguments):
    """The share of the rows for which a condition holds."""

    kind: Literal["proportion"]
    condition: Text = Field(description="SQL of the engine as after WHERE; it looks at one row alone.")


def number(text: str) -> int | float:
    """A number as it is written on the command line."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number") from None


def column_and_bounds(text: str) -> dict[str, Any]:
    """COLUMN:LOW:HIGH, where the name of the column may have colons; COLUMN alone leaves its bounds open."""
    if text and ":" not in text:
        return {"column": text}
    column, *bounds = text.rsplit(":", 2)
    if not column or len(bounds) != 2:
        raise ValueError("a column and two numbers")
    return {"column": column, "bounds": [number(bound) for bound in bounds]}


def _parse_sum(text: str) -> dict[str, Any]:
    """COLUMN alone, COLUMN:TOTAL or COLUMN:LOW:HIGH, where the name of the column may have colons in the last form."""
    column, *limits = text.rsplit(":", 2)
    if column and len(limits) == 1:
        return {"column": column, "max_total": number(limits[0])}
    return column_and_bounds(text)


def _parse_count_distinct(text: str) -> dict[str, Any]:
    """COLUMN, or COLUMN:MOST; the name of the column may have colons in the last form."""
    column, *most = text.rsplit(":", 1)
    if not most:
        return {"column": column}
    if not column or not most[0].isdecimal():
        raise ValueError("a column and a whole number")
    return {"column": column, "max_distinct": int(most[0])}


def _parse_histogram(text: str) -> dict[str, Any]:
    column, *edges = text.split(":")
    if len(edges) == 1 and edges[0].isdecimal():
        return {"column": column, "edges": int(edges[0])}
    return {"column": column, "edges": [number(edge) for edge in edges]}


def _parse_quantile(text: str) -> dict[str, Any]:
    column, *rest = text.rsplit(":", 3)
    if not column or len(rest) not in (1, 3):
        raise ValueError("a column, two numbers if its range is not known, and shares between commas")
    *ends, levels = rest
    bounds = {"bounds": [number(end) for end in ends]} if ends else {}
    return {"column": column, **bounds, "levels": [number(level) for level in levels.split(",")]}


def _parse_proportion(text: str) -> dict[str, Any]:
    name, separator, condition = text.partition("=")
    if not (name.strip() and separator and condition.strip()):
        raise ValueError("a name, = and a condition")
    return {"name": name.strip(), "condition": condition.strip()}


@dataclass(frozen=True)
class Option:
    """The value of an option on the command line: how it is written, and the arguments that it stands for.

    `parse` raises ValueError for a text of another form.
    """

    metavar: str
    parse: Callable[[str], dict[str, Any]]


@dataclass(frozen=True)
class Kind:
    """The kind of an aggregate: everything known of it before anybody has asked for one.

    Parameters
    ----------
    arguments
        What a query file may say: the same names as the arguments of the method of a query. Its docstring is one line
        for help, docs and editors.
    option
        The value of its option on the command line; None for an option without one.
    """

    arguments: type[Arguments]
    option: Option | None = None

    @property
    def name(self) -> str:
        """Its name in a query file, and that of the method of a query."""
        [name] = get_args(self.arguments.model_fields["kind"].annotation)
        return str(name)

    @property
    def summary(self) -> str:
        """The description of the aggregate, in one line."""
        return inspect.getdoc(self.arguments) or ""

    @property
    def flag(self) -> str:
        """Its option on the command line."""
        return "--" + self.name.replace("_", "-")

    def parse(self, text: str) -> dict[str, Any]:
        """The arguments that the value of its option stands for."""
        if self.option is None:
            raise TypeError(f"{self.flag} takes no value")
        try:
            return self.option.parse(text)
        except ValueError as error:
            raise ValueError(f"{self.flag} must be {self.option.metavar}, got {text!r}: {error}") from None


_BOUNDED = Option("COLUMN[:LOW:HIGH]", column_and_bounds)

#: The aggregates that there are, by name.
AGGREGATES: dict[str, Kind] = {}


def register(kind: Kind) -> None:
    """Make an aggregate known to query files and commands."""
    if kind.name in AGGREGATES:
        raise ValueError(f"there is an aggregate {kind.name!r} already")
    AGGREGATES[kind.name] = kind


for _kind in (
    Kind(CountArguments),
    Kind(CountUnitsArguments),
    Kind(CountValuesArguments, Option("COLUMN", lambda text: {"column": text})),
    Kind(CountDistinctArguments, Option("COLUMN[:MOST]", _parse_count_distinct)),
    Kind(SumArguments, Option("COLUMN[:TOTAL/:LOW:HIGH]", _parse_sum)),
    Kind(MeanArguments, _BOUNDED),
    Kind(VarianceArguments, _BOUNDED),
    Kind(HistogramArguments, Option("COLUMN:EDGE:EDGE:…/:BINS", _parse_histogram)),
    Kind(QuantileArguments, Option("COLUMN[:LOW:HIGH]:LEVEL,LEVEL,…", _parse_quantile)),
    Kind(MedianArguments, _BOUNDED),
    Kind(ProportionArguments, Option("NAME=CONDITION", _parse_proportion)),
):
    register(_kind)
