"""Expressions and conditions: computed from a row alone, checked, and written anew for the engine."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from osgt.data.expressions.checks import check_calls, check_types, nodes_of
from osgt.data.expressions.dialect import Dialect
from osgt.data.expressions.grammar import parse
from osgt.data.expressions.growth import limit_texts
from osgt.data.expressions.own import Formula, expand, values_of
from osgt.data.expressions.tokens import tokens
from osgt.data.expressions.tree import Column, Node, Word, rebuild
from osgt.data.sql import Table, Value
from osgt.data.types import ColumnType
from osgt.support.errors import ArgumentError, ArgumentTypeError
from osgt.support.text import names_in_words, unknown

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

    `values` are all that it can have, where that follows from how it is written, as the labels of bands.
    """

    text: str
    sql: str
    columns: tuple[str, ...]
    kind: str
    type_name: str
    type: ColumnType
    values: tuple[str | int, ...] | None

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
        self.dialect.check_text(text)
        tree = parse(tokens(text, self.dialect.lexicon), self.dialect.grammar, self._column)
        return self._check(tree, text)

    def formula(self, formula: Formula) -> Expression:
        """An expression that was put together in Python."""

        def known(node: Node) -> Node:
            if isinstance(node, Column) and node.name not in self.table.columns:
                raise ValueError(unknown("column", node.name, list(self.table.columns)))
            return node

        return self._check(rebuild(formula.tree, known), self.dialect.shown(formula.tree))

    def _check(self, tree: Node, text: str) -> Expression:
        values = values_of(tree)
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
        return Expression(text, sql, columns, result.kind, result.name.lower(), result, values)

    def _query(self, sql: str) -> str:
        """A query for values that are written for the table."""
        value = sql_value(sql, self.table, self.dialect.columns, self.table.engine.boolean)
        return self.table.select("checked", "What is checked.", {"value": value}).sql

    def _column(self, name: str, quoted: bool) -> str:
        names = list(self.table.columns)
        result: list[str] = [column for column in names if self.dialect.same_name(name, column, quoted=quoted)]
        if not result:
            text = f". If it is text, write '{name}' in single quotes" if quoted else ""
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
