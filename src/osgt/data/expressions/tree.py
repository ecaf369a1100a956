"""The tree of a condition: what it is made of, whatever the engine."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any


@dataclass(frozen=True)
class Node:
    """A part of a condition."""

    @property
    def parts(self) -> tuple["Node", ...]:
        """The nodes that it is made of."""
        result: list[Node] = []
        for field in fields(self):
            value = getattr(self, field.name)
            result += _nodes(value)
        return tuple(result)


def _nodes(value: object) -> list[Node]:
    if isinstance(value, Node):
        return [value]
    return [node for item in value for node in _nodes(item)] if isinstance(value, tuple) else []


def change_parts(node: Node, change: Callable[[Node], Node]) -> Node:
    """The node with each of its parts changed."""

    def inside(value: Any) -> Any:
        if isinstance(value, Node):
            return change(value)
        return tuple(inside(item) for item in value) if isinstance(value, tuple) else value

    return replace(node, **{field.name: inside(getattr(node, field.name)) for field in fields(node)})


def rebuild(node: Node, change: Callable[[Node], Node]) -> Node:
    """The tree with every node changed, the innermost first."""
    return change(change_parts(node, lambda part: rebuild(part, change)))


@dataclass(frozen=True)
class Text(Node):
    """A string."""

    value: str


@dataclass(frozen=True)
class Number(Node):
    """A number as it is written: digits, a point, an exponent."""

    text: str


@dataclass(frozen=True)
class Word(Node):
    """TRUE, FALSE, NULL, CURRENT_DATE or CURRENT_TIMESTAMP."""

    word: str


@dataclass(frozen=True)
class Typed(Node):
    """DATE '…', TIMESTAMP '…' or INTERVAL '…', the last perhaps with a unit."""

    type: str
    value: str
    unit: str = ""


@dataclass(frozen=True)
class Column(Node):
    """A column, by its own name."""

    name: str


@dataclass(frozen=True)
class Limited(Node):
    """A column of text; NULL where it has more bytes than `most`."""

    value: Column
    most: int


@dataclass(frozen=True)
class Call(Node):
    """A function, by its lower-case name."""

    name: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True)
class Cast(Node):
    """A value as another type; `tolerant` if it is NULL where that cannot be."""

    value: Node
    type: str
    tolerant: bool


@dataclass(frozen=True)
class Unary(Node):
    """NOT, + or - before a value."""

    operator: str
    value: Node


@dataclass(frozen=True)
class Binary(Node):
    """Two values and what stands between them."""

    operator: str
    left: Node
    right: Node


@dataclass(frozen=True)
class In(Node):
    """A value among others."""

    value: Node
    options: tuple[Node, ...]


@dataclass(frozen=True)
class Between(Node):
    """A value between two others."""

    value: Node
    low: Node
    high: Node


@dataclass(frozen=True)
class Like(Node):
    """LIKE or ILIKE with a pattern that is written out."""

    operator: str
    value: Node
    pattern: str
    escape: str | None


@dataclass(frozen=True)
class Is(Node):
    """IS NULL, IS TRUE, IS FALSE or IS UNKNOWN."""

    value: Node
    what: str


@dataclass(frozen=True)
class Case(Node):
    """CASE WHEN … THEN … ELSE … END."""

    branches: tuple[tuple[Node, Node], ...]
    otherwise: Node


@dataclass(frozen=True)
class Extract(Node):
    """EXTRACT(field FROM value)."""

    field: str
    value: Node
