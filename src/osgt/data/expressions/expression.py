"""Expressions and conditions: computed from a row alone, checked, and written anew for the engine.

The parts of a condition must fit together by their types: what an engine would convert row by row is refused.
Such a conversion fails for some values and not for others. Whether a release succeeds must not depend on one row.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from osgt.data.expressions.dialect import Dialect
from osgt.data.expressions.grammar import parse
from osgt.data.expressions.growth import limit_texts, whole_number
from osgt.data.expressions.own import Formula, expand, labels_of, values_of
from osgt.data.expressions.syntax import (
    Between,
    Binary,
    Call,
    Case,
    Column,
    Extract,
    In,
    Is,
    Like,
    Node,
    Text,
    Typed,
    Unary,
    Word,
    rebuild,
    tokens,
)
from osgt.data.sql import Table, Value
from osgt.data.types import ColumnType
from osgt.support.errors import ArgumentError, ArgumentTypeError
from osgt.support.text import names_in_words, nearest, unknown

#: What the letters in a dialect's list of functions ask of an argument. Behind ? it may be left out, * repeats it.
ARGUMENTS = {
    "t": "text",
    "n": "a number",
    "d": "a date or time",
    "s": "a time",
    "b": "true or false",
    "a": "a plain value",
    "=": "of the kind of the others",
    "N": "a whole number from 0 to 1000, written out",
    "Z": "a whole number from 1 to 1000, written out",
    "W": "a whole number, written out",
    "P": "a regular expression, written out",
    "T": "text, written out",
    "F": "the name of a part of a date, written out",
}
_KINDS = {"t": ("text",), "n": ("integer", "decimal", "float"), "d": ("date", "timestamp"), "s": ("timestamp",)}
_LARGEST = 1000


def nodes_of(node: Node) -> Iterator[Node]:
    """The node and all its parts, the innermost first."""
    for part in node.parts:
        yield from nodes_of(part)
    yield node


def check_calls(root: Node, dialect: Dialect) -> None:
    """Raise unless all functions are known to look at one row alone, and have the arguments that they need."""
    for node in nodes_of(root):
        if isinstance(node, Call):
            if node.name not in dialect.functions:
                raise ValueError(
                    f"the function {node.name!r} is not known to look at one row alone on {dialect.engine}"
                    f"{nearest(node.name, [*dialect.functions])}; compute it before the rows are handed over"
                )
            _letters(node, dialect)
        elif isinstance(node, Extract):
            _check_field(node.field, dialect)
        elif isinstance(node, Like):
            _check_like(node, dialect)


def check_types(root: Node, dialect: Dialect) -> None:
    """Raise unless every part has operands of kinds that go together."""
    for node in nodes_of(root):
        _check(node, dialect)


def _check_plain(node: Node, dialect: Dialect) -> None:
    """Raise if a value of which nothing is known is used for more than IS NULL."""
    for part in () if isinstance(node, Is) else node.parts:
        if dialect.kind(part) == "other":
            name = dialect.types[part].name.lower()
            raise TypeError(f"values of type {name} can only be tested with IS NULL; use a view that casts them")


def _check(node: Node, dialect: Dialect) -> None:
    _check_plain(node, dialect)
    if isinstance(node, Binary | Unary):
        _check_operator(node, dialect)
    elif isinstance(node, Like):
        _one_of(node.operator, node.value, ("text",), dialect)
    elif isinstance(node, In | Between):
        _alike(node.parts, dialect)
    elif isinstance(node, Is) and node.what in ("TRUE", "FALSE", "UNKNOWN"):
        _booleans("IS", (node.value,), dialect)
    elif isinstance(node, Case):
        _booleans("WHEN", tuple(test for test, _ in node.branches), dialect)
        _alike((*(value for _, value in node.branches), node.otherwise), dialect)
    elif isinstance(node, Extract):
        _one_of("EXTRACT", node.value, _KINDS["d"], dialect)
    elif isinstance(node, Call):
        _check_arguments(node, dialect)


def _check_operator(node: Binary | Unary, dialect: Dialect) -> None:
    """Raise unless an operator has operands of the kinds that it needs."""
    if node.operator in ("NOT", "AND", "OR"):
        _booleans(node.operator, node.parts, dialect)
    elif isinstance(node, Unary):
        _one_of(node.operator, node.value, _KINDS["n"], dialect)
    elif node.operator in ("RLIKE", *dialect.grammar.matches):
        _one_of(node.operator, node.left, ("text",), dialect)
        if not isinstance(node.right, Text):
            raise ValueError("a regular expression must be written out")
    elif node.operator in ("+", "-", "*", "/", "%", "//", "^"):
        _check_arithmetic(node, dialect)
    elif node.operator != "||":
        _alike((node.left, node.right), dialect)


def _check_arithmetic(node: Binary, dialect: Dialect) -> None:
    """Raise unless arithmetic is about numbers, or about dates to which a length of time is added."""
    if dialect.kind(node.left) not in _KINDS["d"]:
        for part in (node.left, node.right):
            _one_of(node.operator, part, _KINDS["n"], dialect)
        return
    if node.operator not in ("+", "-"):
        raise TypeError(f"{node.operator} is for numbers")
    time = isinstance(node.right, Typed) or (node.operator == "-" and dialect.kind(node.right) in _KINDS["d"])
    if not time and not (dialect.kind(node.left) == "date" and whole_number(node.right) is not None):
        raise TypeError("to a date, add INTERVAL '…' or a whole number of days, written out")


def _booleans(what: str, parts: tuple[Node, ...], dialect: Dialect) -> None:
    for part in parts:
        _one_of(what, part, ("boolean",), dialect)


def _one_of(what: str, node: Node, kinds: tuple[str, ...], dialect: Dialect) -> None:
    if dialect.kind(node) not in (*kinds, "null"):
        needed = "true or false" if kinds == ("boolean",) else " or ".join(kinds)
        raise TypeError(
            f"{what} needs {needed}, got {dialect.types[node].name.lower()}; compare it with something or cast it"
        )


def _alike(parts: tuple[Node, ...], dialect: Dialect) -> None:
    """Raise unless the parts can be compared without converting text row by row. Strings fit to what is not text."""
    families = {dialect.types[part].family for part in parts if not isinstance(part, Text)} - {"null"}
    if len(families) > 1:
        names = sorted({dialect.types[part].name.lower() for part in parts if dialect.kind(part) != "null"})
        raise TypeError(f"{' and '.join(names)} cannot be compared; cast one of them")


# Functions


def _letters(node: Call, dialect: Dialect) -> str:
    """The letter of each argument."""
    spec = dialect.functions[node.name]
    needed, _, optional = spec.rstrip("*").partition("?")
    letters = needed + optional
    given = len(node.arguments)
    if spec.endswith("*") and given > len(letters):
        letters += letters[-1] * (given - len(letters))
    if not len(needed) <= given <= len(letters):
        raise ValueError(f"the function {node.name!r} takes {_words(needed, optional)}, got {given} arguments")
    for letter, argument in zip(letters, node.arguments, strict=False):
        if not _is_written(letter, argument, dialect):
            raise ValueError(f"the function {node.name!r} takes {_words(needed, optional)}")
    return letters[:given]


def _words(needed: str, optional: str) -> str:
    words = [ARGUMENTS[letter] for letter in needed] + [f"perhaps {ARGUMENTS[letter]}" for letter in optional]
    return "; ".join(words) or "nothing"


def _is_written(letter: str, node: Node, dialect: Dialect) -> bool:
    """Whether an argument that must be written out is."""
    if letter == "F":
        if isinstance(node, Text):
            _check_field(node.value.upper(), dialect)
        return isinstance(node, Text)
    if letter in "PT":
        return isinstance(node, Text)
    if letter == "W":
        return whole_number(node) is not None
    if letter in "NZ":
        number = whole_number(node)
        return number is not None and (letter == "N" or number >= 1) and 0 <= number <= _LARGEST
    return True


def _check_arguments(node: Call, dialect: Dialect) -> None:
    letters = _letters(node, dialect)
    for letter, argument in zip(letters, node.arguments, strict=True):
        if letter in _KINDS:
            _one_of(node.name, argument, _KINDS[letter], dialect)
        elif letter == "b":
            _booleans(node.name, (argument,), dialect)
    _alike(tuple(node.arguments[i] for i, letter in enumerate(letters) if letter == "="), dialect)


def _check_field(field: str, dialect: Dialect) -> None:
    if field not in dialect.fields:
        raise ValueError(f"{field.lower()!r} is not a part of a date; use {', '.join(sorted(dialect.fields)).lower()}")


def _check_like(node: Like, dialect: Dialect) -> None:
    if node.escape is not None and len(node.escape) != 1:
        raise ValueError("ESCAPE must be followed by one character")
    escape = node.escape or dialect.like_escape
    if escape is None:
        return
    at = 0
    while at < len(node.pattern):
        if node.pattern[at] == escape:
            at += 1
            following = node.pattern[at : at + 1]
            if not following or (dialect.like_strict and following not in ("%", "_", escape)):
                raise ValueError(f"in a pattern of LIKE {escape!r} must stand before %, _ or itself")
        at += 1


#: In what a dialect writes, the number of a column stands between null characters.
_COLUMN = re.compile("\0(\\d+)\0")


def sql_value(sql: str, table: Table, columns: Sequence[str], dtype: ColumnType) -> Value:
    """The value for each row of a table: no parser and no writer but the engine's own ever sees the text."""
    return Value(_COLUMN.sub(lambda match: table[columns[int(match[1])]].sql, sql), dtype, table.engine)


#: A guarded expression names its parts several times.
_LONGEST = 200_000


@dataclass(frozen=True)
class Expression:
    """An expression: what the user wrote, for people, and what the engine runs, with its columns as numbers.

    `values` are all that it can have, where that follows from how it is written, as the labels of bands; `labels` are
    what people call these, if not the same.
    """

    text: str
    sql: str
    columns: tuple[str, ...]
    kind: str
    type_name: str
    type: ColumnType
    values: tuple[str | int, ...] | None
    labels: tuple[str, ...] | None = None

    def length(self, columns: Mapping[str, int]) -> int:
        """The length of its text if some columns are written out, which have these lengths, wherever they stand."""
        names = (self.columns[int(place)] for place in _COLUMN.findall(self.sql))
        return len(self.sql) + sum(columns.get(name, 0) for name in names)


def check_expression(table: Table, given: Any, what: str) -> Expression:
    """The expression, if it looks at one row alone. Errors begin with `what`, where it was written."""
    with name_errors(what), table.engine.turn(table.connection):
        if isinstance(given, Formula):
            return _Checking(table).formula(given)
        if isinstance(given, str):
            return _Checking(table).text(given)
        raise TypeError(
            f'it must be SQL in quotes, as in "days > 3", or made by cut, recode, year and the like; got an object of '
            f"type {type(given).__name__}"
        )


def parse_expression(table: Table, text: str, what: str) -> Node:
    """The tree of an expression, with the table's own names of columns. Types and functions are not checked."""
    with name_errors(what), table.engine.turn(table.connection):
        return _Checking(table).tree(text)


@contextmanager
def name_errors(what: str) -> Iterator[None]:
    """Begin the messages of errors with what they are about."""
    try:
        yield
    except (ValueError, TypeError) as error:
        kind = ArgumentTypeError if isinstance(error, TypeError) else ArgumentError
        raise kind(f"{what}: {error}", argument=what.partition(":")[0]) from None


class _Checking:
    """One expression on its way from what was written to what is run."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.dialect: Dialect = table.engine.dialect(table.connection)

    def text(self, text: str) -> Expression:
        """An expression in the engine's SQL."""
        return self._check(self.tree(text), text)

    def tree(self, text: str) -> Node:
        """The tree of an expression in the engine's SQL."""
        self.dialect.check_text(text)
        return parse(tokens(text, self.dialect.lexicon), self.dialect.grammar, self._column)

    def formula(self, formula: Formula) -> Expression:
        """An expression that was put together in Python."""

        def known(node: Node) -> Node:
            if isinstance(node, Column) and node.name not in self.table.columns:
                raise ValueError(unknown("column", node.name, list(self.table.columns)))
            return node

        return self._check(rebuild(formula.tree, known), self.dialect.shown(formula.tree))

    def _check(self, tree: Node, text: str) -> Expression:
        values, labels = values_of(tree), labels_of(tree)
        limit_texts(tree, lambda node: "unknown")  # before the engine computes constants
        tree = expand(tree, self.dialect, lambda node: self._types(node, text)[node])
        check_calls(tree, self.dialect)
        types = self._types(tree, text)
        tree, before = limit_texts(tree, lambda node: types[node].kind)
        types = {node: types[old] for node, old in before.items()}
        self.dialect.types = types
        check_types(tree, self.dialect)
        sql = self.dialect.written(tree)
        if len(sql) > _LONGEST:
            raise ValueError("the arithmetic is nested too deeply; compute it before, as a column")
        probes = [probe for node in nodes_of(tree) for probe in self.dialect.probes(node)]
        if probes:
            self._try_query(text, f"SELECT {', '.join(probes)}", run=True)
        columns, result = tuple(self.dialect.columns), types[tree]
        self._try_query(text, self._query(sql), run=False)
        return Expression(text, sql, columns, result.kind, result.name.lower(), result, values, labels)

    def _query(self, sql: str) -> str:
        """A query for values that are written for the table."""
        value = sql_value(sql, self.table, self.dialect.columns, self.table.engine.boolean)
        return self.table.select("checked", "What is checked.", {"value": value}).sql

    def _column(self, name: str, quoted: bool) -> str:
        names = list(self.table.columns)
        result: list[str] = [column for column in names if self.dialect.same_name(name, column, quoted=quoted)]
        if not result:
            may_be_text = quoted or not nearest(name, names)
            text = f". If it is text, write '{name}' in single quotes" if may_be_text else ""
            raise ValueError(unknown("column", name, names) + text)
        if len(result) > 1:
            raise ValueError(f"there are several columns {name!r}: {names_in_words(result)}")
        return result[0]

    def _types(self, tree: Node, text: str) -> dict[Node, ColumnType]:
        """The engine's type of every part, of functions that are known to look at one row alone."""
        check_calls(tree, self.dialect)
        nodes = list(dict.fromkeys(nodes_of(tree)))
        parts = ", ".join(self.dialect.written(node) for node in nodes)
        try:
            result = [dtype for _, dtype in self.table.engine.describe(self.table.connection, self._query(parts))]
        except Exception as error:
            raise self._misunderstood(text, error) from None
        types = dict(zip(nodes, result, strict=True))
        return types | {node: ColumnType("null", "null") for node in nodes if node == Word("NULL")}

    def _try_query(self, text: str, query: str, *, run: bool) -> None:
        try:
            (self.table.engine.run if run else self.table.engine.describe)(self.table.connection, query)
        except Exception as error:  # each engine has errors of its own
            raise self._misunderstood(text, error) from None

    def _misunderstood(self, text: str, error: Exception) -> ValueError:
        line = (str(error).replace("\0", "").strip().splitlines() or [type(error).__name__])[0]
        return ValueError(f"{self.dialect.engine} does not understand {text!r}: {line}")


# Conditions


def check_condition(table: Table, condition: Any, what: str = "where") -> Expression:
    """The condition, if it is one and looks at one row alone. Errors begin with `what`, where it was written."""
    result = check_expression(table, condition, what)
    if result.kind != "boolean":
        raise ArgumentTypeError(
            f"{what}: the condition must be true or false for each row, got {result.type_name}; "
            "compare it with something",
            argument=what,
        )
    return result


def holds(condition: Expression, table: Table) -> Value:
    """Test a condition on the rows of the table; null where it is neither true nor false."""
    return sql_value(condition.sql, table, condition.columns, table.engine.boolean)
