"""Kinds of aggregates: how one is asked for in Python, in a query file and on the command line."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from osgt.noise.arguments import real_number
from osgt.query.file.types import FileTable, PlainNumber, Text, Words
from osgt.support.errors import ArgumentTypeError

ColumnName = Annotated[Text, Field(description="The column of numbers.")]
Bounds = Annotated[
    list[PlainNumber],
    Words("two numbers, as in [0, 100]"),
    Field(min_length=2, max_length=2, description="The least and the largest value that a row may count as."),
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
    method
        The method of a query that asks for one. Its name is that of the kind in a query file, and of the option with -
        for _.
    arguments
        What a query file may say: the same names as the arguments of the method. Its docstring is one line for help,
        docs and editors.
    option
        The value of its option on the command line; None for an option without one.
    """

    method: Callable[..., Any]
    arguments: type[Arguments]
    option: Option | None = None

    @property
    def name(self) -> str:
        """Its name in a query file, and that of the method."""
        return self.method.__name__

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


def check_name(name: object, usual: str) -> str:
    """The name of a column in the release: the usual one if none is given."""
    if name is not None and not (isinstance(name, str) and name):
        raise ArgumentTypeError(f"name must be the name of a column, got {name!r}", argument="name")
    return usual if name is None else name


def check_weight(weight: object) -> float:
    """The weight of an aggregate."""
    return real_number("weight", weight, positive=True)


def column_and_bounds(text: str) -> dict[str, Any]:
    """COLUMN:LOW:HIGH, where the name of the column may have colons; COLUMN alone leaves its bounds open."""
    if text and ":" not in text:
        return {"column": text}
    column, *bounds = text.rsplit(":", 2)
    if not column or len(bounds) != 2:
        raise ValueError("a column and two numbers")
    return {"column": column, "bounds": [number(bound) for bound in bounds]}


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


BOUNDED = Option("COLUMN[:LOW:HIGH]", column_and_bounds)
