"""The facts about an engine by which conditions are read, checked and written for it."""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from osgt.data.expressions.grammar import Grammar
from osgt.data.expressions.syntax import (
    Between,
    Binary,
    Call,
    Case,
    Cast,
    Column,
    Extract,
    In,
    Is,
    Lexicon,
    Like,
    Limited,
    Node,
    Number,
    Text,
    Typed,
    Unary,
    Word,
    by_name,
)
from osgt.data.types import ColumnType

#: Names of columns that need no quotes and are no words of the grammar.
_PLAIN_NAME = re.compile(
    r"(?!(?:null|true|false|case|not|date|timestamp|interval|current_\w+)$)[a-z_][a-z0-9_]*", re.ASCII
)

#: Parts of a date that EXTRACT and date_trunc know.
FIELDS = frozenset(
    by_name(
        {
            "part": "YEAR QUARTER MONTH WEEK DAY HOUR MINUTE SECOND DOW ISODOW DOY ISOYEAR EPOCH DECADE CENTURY "
            "MILLENNIUM"
        }
    )
)


class Dialect(ABC):
    """An engine. Columns are written as their number between null characters, which no text holds."""

    #: For people.
    engine: ClassVar[str]
    grammar: ClassVar[Grammar]
    #: The functions that see nothing but their arguments. Each letter stands for what an argument must be
    #: (`checks.ARGUMENTS`); behind ? it may be left out, * repeats the last. Any function that is not here might look
    #: at the whole table, at a row's place in it, or at the world outside.
    functions: ClassVar[Mapping[str, str]]
    #: Parts of a date that the engine knows.
    fields: ClassVar[frozenset[str]]
    #: The character that takes the meaning of % and _ in LIKE without ESCAPE, and whether it must stand before these.
    like_escape: ClassVar[str | None] = "\\"
    like_strict: ClassVar[bool] = False
    #: By kind, the widest type of numbers that may be NaN, which is above all others.
    with_nan: ClassVar[Mapping[str, str]]

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.columns: list[str] = []
        self.types: Mapping[Node, ColumnType] = {}

    # What the engine says

    @property
    @abstractmethod
    def lexicon(self) -> Lexicon:
        """The rules by which the engine reads text, under its present settings."""

    def check_text(self, text: str) -> None:
        """Raise if the engine would change the text of a condition before it reads it."""
        return

    def same_name(self, written: str, name: str, *, quoted: bool) -> bool:
        """Whether the engine takes what was written for the name of a column."""
        return written.lower() == name.lower()

    def weekday(self, value: Node) -> Node:
        """The day of the week, from 1 for Monday to 7 for Sunday."""
        return Cast(Extract("ISODOW", value), self.grammar.types["integer"], tolerant=False)

    # What is written

    def shown(self, node: Node) -> str:
        """A tree of our own functions, columns and constants as a user would write it."""
        if isinstance(node, Call):
            return f"{node.name}({', '.join(self.shown(argument) for argument in node.arguments)})"
        if isinstance(node, Column):
            quote = self.lexicon.quote
            return (
                node.name if _PLAIN_NAME.fullmatch(node.name) else quote + node.name.replace(quote, 2 * quote) + quote
            )
        if isinstance(node, Unary):
            return f"{node.operator}{self.shown(node.value)}"
        return self.shown_string(node.value) if isinstance(node, Text) else self.written(node)

    def shown_string(self, value: str) -> str:
        """A string as a user would write it."""
        return self.string(value)

    def written(self, node: Node) -> str:
        """The node in the engine's SQL, in brackets, so that nothing depends on precedence."""
        return getattr(self, f"_{type(node).__name__.lower()}")(node)  # type: ignore[no-any-return]

    def kind(self, node: Node) -> str:
        """The kind of a node; "unknown" before the engine was asked, and "other" where operators may mean anything."""
        if node not in self.types:
            return "unknown"
        return self.types[node].kind if self.types[node].has_own_operators else "other"

    def string(self, value: str) -> str:
        """A string in the one form that can be read in one way only."""
        quoted = value.replace("'", "''")
        if not re.search(r"[\\\x00-\x1f\x7f]", quoted):
            return f"'{quoted}'"
        # Read alike under all settings, and in one line: nobody may indent what is in it.
        escaped = quoted.replace("\\", "\\\\")
        return "E'" + re.sub(r"[\x00-\x1f\x7f]", lambda match: f"\\{ord(match[0]):03o}", escaped) + "'"

    def probes(self, node: Node) -> list[str]:
        """Constants that must not be an error."""
        fixed = isinstance(node, Typed) or (isinstance(node, Call) and "W" in self.functions[node.name])
        return [self.written(node)] if fixed else []

    def cast_probes(self, node: Cast | Binary | In | Between) -> list[str]:
        """Casts of strings that are written out to the types that they become, in a cast or beside other values."""
        if isinstance(node, Cast):
            return [f"CAST({self.written(node.value)} AS {node.type})"] if isinstance(node.value, Text) else []
        others = [part for part in node.parts if not isinstance(part, Text) and self.kind(part) not in ("null", "text")]
        texts = [part for part in node.parts if isinstance(part, Text)] if others else []
        return [f"CAST({self.written(text)} AS {self.types[others[0]].name})" for text in texts]

    def _text(self, node: Text) -> str:
        return self.string(node.value)

    def _number(self, node: Number) -> str:
        return node.text

    def _word(self, node: Word) -> str:
        return node.word

    def _typed(self, node: Typed) -> str:
        if not re.fullmatch(r"[\w:+\-./ ]*", node.value, re.ASCII):
            raise ValueError(f"{node.type} must be followed by a date, time or length of time in quotes")
        unit = node.unit.removesuffix("S")
        return f"({node.type} '{node.value}'{f' {unit}' if unit else ''})"

    def _column(self, node: Column) -> str:
        if node.name not in self.columns:
            self.columns.append(node.name)
        return f"\0{self.columns.index(node.name)}\0"

    def _call(self, node: Call) -> str:
        return f"{node.name}({self.listed(node.arguments)})"

    def listed(self, nodes: tuple[Node, ...]) -> str:
        """Several nodes."""
        return ", ".join(self.written(node) for node in nodes)

    def _limited(self, node: Limited) -> str:
        text = self.written(node.value)
        return f"(CASE WHEN {self.size(text)} <= {node.most} THEN {text} END)"

    @abstractmethod
    def size(self, text: str) -> str:
        """The number of bytes of a text."""

    @abstractmethod
    def _cast(self, node: Cast) -> str: ...

    def _unary(self, node: Unary) -> str:
        if node.operator == "NOT":
            return f"(NOT {self.written(node.value)})"
        if isinstance(node.value, Number):
            return f"({node.operator}{node.value.text})"
        return self.signed(node)

    @abstractmethod
    def signed(self, node: Unary) -> str:
        """A sign before a value that is no constant."""

    def _binary(self, node: Binary) -> str:
        if node.operator in ("AND", "OR"):
            return f"({self.written(node.left)} {node.operator} {self.written(node.right)})"
        if node.operator in ("+", "-", "*", "/", "%", "//", "^", "||"):
            return self.calculated(node)
        return self.compared(node)

    @abstractmethod
    def calculated(self, node: Binary) -> str:
        """Arithmetic, with NULL instead of an error where a value allows no answer."""

    def compared(self, node: Binary) -> str:
        """A comparison or a regular expression."""
        return f"({self.written(node.left)} {node.operator} {self.written(node.right)})"

    def _in(self, node: In) -> str:
        return f"({self.written(node.value)} IN ({self.listed(node.options)}))"

    def _between(self, node: Between) -> str:
        value, low, high = (self.written(part) for part in node.parts)
        return f"({value} BETWEEN {low} AND {high})"

    def _like(self, node: Like) -> str:
        escape = "" if node.escape is None else f" ESCAPE {self.string(node.escape)}"
        return f"({self.written(node.value)} {node.operator} {self.string(node.pattern)}{escape})"

    def _is(self, node: Is) -> str:
        what = "NULL" if node.what == "UNKNOWN" else node.what
        return f"({self.written(node.value)} IS {what})"

    def _case(self, node: Case) -> str:
        branches = " ".join(f"WHEN {self.written(test)} THEN {self.written(value)}" for test, value in node.branches)
        return f"(CASE {branches} ELSE {self.written(node.otherwise)} END)"

    def _extract(self, node: Extract) -> str:
        return f"EXTRACT({node.field} FROM {self.written(node.value)})"
