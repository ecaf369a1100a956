"""Derived columns: computed from each row by itself, and the functions that make them in Python."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from numbers import Real
from typing import Any

import numpy as np

from osgt.data.expressions.expression import Expression, check_expression, sql_value
from osgt.data.expressions.own import Formula, literal, values_of
from osgt.data.expressions.syntax import Call, Column, Node, Number, Text, Unary, Word
from osgt.data.sql import Table
from osgt.support.errors import ArgumentError, ArgumentTypeError

#: Kinds of values that a column can hold.
_KINDS = ("text", "integer", "decimal", "float", "boolean", "date", "timestamp")

#: Characters of the longest expression if the columns that it is made of were written out: some engines do that.
_LONGEST = 400_000

#: Bytes of the longest name that every engine keeps as it is.
_LONGEST_NAME = 63


@dataclass(frozen=True)
class Banded(Formula):
    """Bands, as `cut` makes them."""

    @property
    def labels(self) -> list[str]:
        """The labels of the bands in their order: public keys, if a table is grouped by them."""
        return [str(label) for label in values_of(self.tree) or ()]


def cut(column: str | Formula, edges: Sequence[float], labels: Sequence[str] | None = None) -> Banded:
    """Bands of a number, with a readable label for each: a derived column of text.

    A band holds its lower edge, and the last one both its edges; what is outside of all of them is missing. `math.inf`
    (or `-math.inf` as the first edge) leaves an end open.

    Parameters
    ----------
    column
        A column of numbers.
    edges
        Ascending numbers. If all of them are whole, labels are those of whole numbers; write one of them with a point
        for a column of other numbers.
    labels
        A label for each band, in place of the usual ones.

    Examples
    --------
    >>> cut("age", [0, 18, 65, math.inf]).labels
    ['0–17', '18–64', '65+']
    >>> cut("fare", [0.0, 10, 50]).labels
    ['0–<10', '10–50']
    """
    if isinstance(edges, str) or not isinstance(edges, Sequence | np.ndarray):
        raise TypeError(f"cut: edges must be a list of ascending numbers, got {edges!r}")
    bounds = [_edge(edge) for edge in edges]
    if any(low >= high for low, high in pairwise(edges)):
        raise ValueError("cut: edges must be ascending numbers")
    if labels is None:
        return _check_bands(Banded(Call("cut", (_value(column), *bounds))))
    if isinstance(labels, str) or not all(isinstance(label, str) for label in labels):
        raise TypeError(f"cut: labels must be a list of texts, got {labels!r}")
    if len(labels) != len(bounds) - 1:
        raise ValueError(f"cut needs a label for each band between two edges: {len(bounds) - 1}, got {len(labels)}")
    rest = [node for pair in zip(bounds, [literal(label) for label in labels], strict=False) for node in pair]
    return _check_bands(Banded(Call("cut", (_value(column), *rest, bounds[-1]))))


def recode(column: str | Formula, mapping: Mapping[Any, Any], otherwise: Any = None) -> Formula:
    """Other values in place of those of a column.

    Parameters
    ----------
    mapping
        From old values to new ones: text, whole numbers, True or False. None as an old value stands for missing ones,
        as a new one for none.
    otherwise
        The new value of all that `mapping` does not name; missing if not given.
    """
    if not isinstance(mapping, Mapping) or not mapping:
        raise TypeError(f"recode: mapping must be a dict from old values to new ones, got {mapping!r}")
    pairs = [node for pair in mapping.items() for node in map(literal, pair)]
    return Formula(Call("recode", (_value(column), *pairs, literal(otherwise))))


def year(column: str | Formula) -> Formula:
    """The year of a date or time, a whole number."""
    return Formula(Call("year", (_value(column),)))


def quarter(column: str | Formula) -> Formula:
    """The quarter of a date or time, from 1 to 4."""
    return Formula(Call("quarter", (_value(column),)))


def month(column: str | Formula) -> Formula:
    """The month of a date or time, from 1 to 12."""
    return Formula(Call("month", (_value(column),)))


def weekday(column: str | Formula) -> Formula:
    """The day of the week, from 1 for Monday to 7 for Sunday."""
    return Formula(Call("weekday", (_value(column),)))


def check_column(table: Table, derived: Mapping[str, Expression], name: str, given: Any) -> Expression:
    """The expression that makes one more column of a table, beside those that are derived already."""
    _check_name(table, name)
    result = check_expression(table, given, f"derive: {name}")
    if result.kind not in _KINDS:
        raise ArgumentTypeError(
            f"derive: {name}: a column cannot be of type {result.type_name}; cast it to a number, text, date "
            "or boolean",
            argument="derive",
        )
    lengths: dict[str, int] = {}
    for column, expression in derived.items():
        lengths[column] = expression.length(lengths)
    if result.length(lengths) > _LONGEST:
        raise ArgumentError(
            f"derive: {name}: it is made of too many columns that are computed themselves; compute them before",
            argument="derive",
        )
    return result


def add_columns(table: Table, derived: Mapping[str, Expression]) -> Table:
    """The table with columns that expressions make, each of columns of the table or of others among these."""
    left = dict(derived)
    while left:
        ready = {name: column for name, column in left.items() if table.columns.keys() >= set(column.columns)}
        table = table.select(
            "derived_columns",
            "The rows with columns that are derived from each of them alone.",
            {name: sql_value(column.sql, table, column.columns, column.type) for name, column in ready.items()},
            keeps_all=True,
        )
        left = {name: column for name, column in left.items() if name not in ready}
    return table


def _check_name(table: Table, name: object) -> None:
    if not isinstance(name, str) or not name.strip() or len(name.encode(errors="replace")) > _LONGEST_NAME:
        raise ArgumentError(
            f"derive: the name of a column must be text of 1 to {_LONGEST_NAME} bytes, got {name!r}", argument="derive"
        )
    if not name.isprintable() or set(name) & set('"`\\'):
        raise ArgumentError(
            f"derive: the name of a column must not hold quotes or control characters, got {name!r}", argument="derive"
        )
    taken = [column for column in table.columns if column.lower() == name.lower()]
    if taken:
        raise ArgumentError(
            f"derive: there is a column {taken[0]!r} already; give the new one another name", argument="derive"
        )


def _value(column: str | Formula) -> Node:
    if isinstance(column, Formula):
        return column.tree
    if not isinstance(column, str):
        raise TypeError(f"it must be the name of a column, or what cut, year and the like make of one, got {column!r}")
    return Column(column)


def _edge(edge: object) -> Node:
    if isinstance(edge, bool) or not isinstance(edge, Real):
        raise TypeError(f"cut: edges must be numbers, got {edge!r}")
    if isinstance(edge, int | np.integer):
        return literal(int(edge))
    number = float(edge)
    if math.isnan(number):
        raise ValueError("cut: edges must be numbers, got nan")
    if math.isinf(number):
        return Word("NULL")
    text = repr(abs(number))
    return Unary("-", Number(text)) if number < 0 else Number(text)


def _check_bands(bands: Banded) -> Banded:
    if any(isinstance(node, Text) and not node.value for node in bands.tree.parts):
        raise ValueError("cut: a label must not be empty")
    values_of(bands.tree)  # refuses edges and labels that do not go together
    return bands
