"""Functions of our own, the same on every engine: bands, recoding, and parts of dates. They become trees of others.

`cut(value, edge, edge, …)` is the label of the band between two edges, `cut(value, edge, 'label', edge, 'label', …,
edge)` has the labels that are given; NULL as the first or last edge leaves that end open. `recode(value, old, new,
old, new, …, otherwise)` is the new value of the old one. `year`, `quarter`, `month` and `weekday` are whole numbers.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import count, pairwise
from typing import Any

from osgt.data import LABELS
from osgt.data.expressions.dialect import Dialect
from osgt.data.expressions.syntax import Binary, Call, Case, Cast, Extract, Is, Node, Number, Text, Unary, Word, rebuild
from osgt.data.types import ColumnType
from osgt.support.errors import ArgumentError

_NULL = Word("NULL")
_NUMBER = re.compile(r"(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_PARTS = {"year": "YEAR", "quarter": "QUARTER", "month": "MONTH"}

#: The most bands of `cut`, and values of `recode`.
MOST = 1_000

#: Whole numbers of the engines are below this.
_LARGEST = 2**63

#: Edges have no more digits than this.
_DIGITS = 40

#: The values of parts of dates, where there are few.
_VALUES = {"quarter": range(1, 5), "month": range(1, 13), "weekday": range(1, 8)}


@dataclass(frozen=True)
class Formula:
    """A computation from a row, put together in Python. Columns have their own names in the tree."""

    tree: Node


def expand(tree: Node, dialect: Dialect, type_of: Callable[[Node], ColumnType]) -> Node:
    """The tree with other functions in place of our own, the innermost first."""

    def replaced(node: Node) -> Node:
        if not isinstance(node, Call):
            return node
        if node.name == "cut":
            value, bands = _bands(node)
            return _cut(value, bands, type_of(value), dialect)
        if node.name == "recode":
            return _recode(node)
        if node.name == "weekday" or node.name in _PARTS:
            return _part(node, dialect, type_of)
        return node

    return rebuild(tree, replaced)


def values_of(tree: Node) -> tuple[str | int, ...] | None:
    """List the values that a tree can have, NULL aside, if it is a function of our own with few of them."""
    if not isinstance(tree, Call):
        return None
    if tree.name == "cut":
        return _bands(tree)[1].labels
    if tree.name == "recode":
        _, pairs, otherwise = _split_recode(tree)
        values = [constant(node) for node in (*(new for _, new in pairs), otherwise) if node != _NULL]
        return None if None in values else tuple(dict.fromkeys(value for value in values if value is not None))
    return tuple(_VALUES[tree.name]) if tree.name in _VALUES else None


def labels_of(tree: Node) -> tuple[str, ...] | None:
    """The names that people have for the values of a tree: those of months and weekdays."""
    return LABELS.get(tree.name) if isinstance(tree, Call) else None


def constant(node: Node) -> str | int | None:
    """A text or a whole number that is written out; None for everything else."""
    if isinstance(node, Text):
        return node.value
    number = _edge(node)
    return int(number) if number is not None and number.denominator == 1 else None


# Bands


@dataclass(frozen=True)
class Bands:
    """Bands between ascending edges; a band holds its lower edge, the last one both. None is an open end."""

    edges: tuple[Fraction | None, ...]
    #: Whether all edges are whole numbers as they were written, so that labels are those of whole numbers.
    whole: bool
    given: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        inner = [edge for edge in self.edges if edge is not None]
        if len(self.edges) < 2 or not inner or None in self.edges[1:-1]:
            raise ValueError("cut needs at least two edges; only the first and the last may be open")
        if len(self.edges) > MOST + 1:
            raise ValueError(f"cut has at most {MOST:,} bands; recode a column that is made before")
        if any(low >= high for low, high in pairwise(inner)):
            raise ValueError("the edges of cut must be ascending numbers")
        if self.given is not None and len(self.given) != len(self.edges) - 1:
            raise ValueError(
                f"cut needs a label for each band between two edges: {len(self.edges) - 1}, got {len(self.given)}"
            )
        if len(set(self.labels)) < len(self.labels):
            raise ValueError("the labels of cut must differ")

    @property
    def labels(self) -> tuple[str, ...]:
        """The label of each band."""
        if self.given is not None:
            return self.given
        last = len(self.edges) - 2
        return tuple(self._label(low, high, last=i == last) for i, (low, high) in enumerate(pairwise(self.edges)))

    def _label(self, low: Fraction | None, high: Fraction | None, *, last: bool) -> str:
        to = " to " if any(edge is not None and edge < 0 for edge in self.edges) else "–"
        if low is None:
            return f"{'≤' if last else '<'}{_show(high)}"
        if high is None:
            return f"{_show(low)}+"
        if last:
            return f"{_show(low)}{to}{_show(high)}"
        if not self.whole:
            return f"{_show(low)}{to}<{_show(high)}"
        return _show(low) if high == low + 1 else f"{_show(low)}{to}{_show(high - 1)}"


def _show(edge: Fraction | None) -> str:
    assert edge is not None
    if edge.denominator == 1:
        return str(edge.numerator)
    places = next(n for n in count(1) if 10**n % edge.denominator == 0)
    digits = str(abs(edge.numerator) * 10**places // edge.denominator).rjust(places + 1, "0")
    return f"{'-' if edge < 0 else ''}{digits[:-places]}.{digits[-places:]}"


def _bands(node: Call) -> tuple[Node, Bands]:
    """The value and the bands of `cut`."""
    if len(node.arguments) < 3:
        raise ValueError("cut needs a value and at least two edges, as in cut(age, 0, 18, 65)")
    value, *rest = node.arguments
    labels = tuple(label.value for label in rest if isinstance(label, Text))
    if labels and [isinstance(node, Text) for node in rest] != [i % 2 == 1 for i in range(len(rest))]:
        raise ValueError(
            "cut with labels is written with one between each two edges: cut(age, 0, 'young', 18, 'old', 65)"
        )
    edges = [edge for edge in rest if not isinstance(edge, Text)]
    whole = all(edge == _NULL or _is_whole(edge) for edge in edges)
    return value, Bands(tuple(_bound(edge) for edge in edges), whole, labels or None)


def _bound(node: Node) -> Fraction | None:
    """The number of an edge; None for an open end."""
    number = None if node == _NULL else _edge(node)
    if number is None and node != _NULL:
        raise ValueError("the edges of cut must be numbers, written out")
    return number


def _edge(node: Node) -> Fraction | None:
    """The number that is written."""
    if isinstance(node, Unary) and node.operator in ("+", "-"):
        inner = _edge(node.value)
        return inner if inner is None or node.operator == "+" else -inner
    if not isinstance(node, Number) or not _NUMBER.fullmatch(node.text):
        return None
    number = Decimal(node.text)
    if len(node.text) > _DIGITS or (number and not -_DIGITS < number.adjusted() < _DIGITS):
        raise ArgumentError(
            f"edges must be between 1e-{_DIGITS} and 1e{_DIGITS}, and of at most {_DIGITS} digits", argument="edges"
        )
    return Fraction(number)


def _is_whole(node: Node) -> bool:
    return _is_whole(node.value) if isinstance(node, Unary) else isinstance(node, Number) and node.text.isdigit()


def _cut(value: Node, bands: Bands, dtype: ColumnType, dialect: Dialect) -> Node:
    if dtype.family != "number":
        raise TypeError(f"cut needs a number, got {dtype.name.lower()}; declare the type of the column, or cast it")
    if bands.whole and bands.given is None and dtype.kind != "integer":
        raise TypeError(
            f"labels such as {bands.labels[0]!r} are for whole numbers, got {dtype.name.lower()}: write one of the "
            "edges with a point, as 0.0, or give labels of your own"
        )

    def compared(operator: str, edge: Fraction) -> Node:
        if dtype.kind == "integer":
            edge = Fraction(math.floor(edge) if operator == "<=" else math.ceil(edge))
            if abs(edge) >= _LARGEST:
                raise ValueError("the edges of cut must be below 2**63 for whole numbers")
        text = _show(abs(edge))
        if dtype.kind == "float":
            number: Node = Cast(Text(f"-{text}" if edge < 0 else text), dialect.with_nan["float"], tolerant=False)
        else:
            number = Unary("-", Number(text)) if edge < 0 else Number(text)
        return Binary(operator, value, number)

    branches: list[tuple[Node, Node]] = []
    first, *uppers = bands.edges
    if first is not None:
        branches.append((compared("<", first), _NULL))
    for i, (upper, label) in enumerate(zip(uppers, bands.labels, strict=True)):
        if upper is not None:
            branches.append((compared("<=" if i == len(uppers) - 1 else "<", upper), Text(label)))
        elif dtype.kind in dialect.with_nan:
            nan = Cast(Text("NaN"), dialect.with_nan[dtype.kind], tolerant=False)
            branches.append((Binary("<>", value, nan), Text(label)))
        else:
            branches.append((Unary("NOT", Is(value, "NULL")), Text(label)))
    return Case(tuple(branches), _NULL)


# Recoding


def _split_recode(node: Call) -> tuple[Node, list[tuple[Node, Node]], Node]:
    if len(node.arguments) < 3:
        raise ValueError("recode needs a value and at least one pair: recode(town, 'ZH', 'east')")
    value, *rest = node.arguments
    otherwise = rest.pop() if len(rest) % 2 else _NULL
    pairs = list(zip(rest[::2], rest[1::2], strict=True))
    if len(pairs) > MOST:
        raise ValueError(f"recode takes at most {MOST:,} values; join a table of them before")
    if len({old for old, _ in pairs}) < len(pairs):
        raise ValueError("recode: each old value once")
    return value, pairs, otherwise


def _recode(node: Call) -> Node:
    value, pairs, otherwise = _split_recode(node)
    tests = [Is(value, "NULL") if old == _NULL else Binary("=", value, old) for old, _ in pairs]
    return Case(tuple((test, new) for test, (_, new) in zip(tests, pairs, strict=True)), otherwise)


# Dates


def _part(node: Call, dialect: Dialect, type_of: Callable[[Node], ColumnType]) -> Node:
    if len(node.arguments) != 1:
        raise ValueError(f"{node.name} takes a date or a time, and nothing else")
    [value] = node.arguments
    dtype = type_of(value)
    if dtype.kind not in ("date", "timestamp", "null"):
        raise TypeError(
            f"{node.name} needs a date or a time, got {dtype.name.lower()}; declare the type of the column, or cast it"
        )
    if node.name == "weekday":
        return dialect.weekday(value)
    return Cast(Extract(_PARTS[node.name], value), dialect.grammar.types["integer"], tolerant=False)


def literal(value: Any) -> Node:
    """A value of Python as it would be written out."""
    if value is None:
        return _NULL
    if isinstance(value, bool):
        return Word("TRUE" if value else "FALSE")
    if isinstance(value, str):
        if "\0" in value:
            raise ValueError("text must not hold a null character")
        return Text(value)
    if isinstance(value, int):
        return Number(str(value)) if value >= 0 else Unary("-", Number(str(-value)))
    raise TypeError(f"it must be text, a whole number, True, False or None, got {value!r}")
