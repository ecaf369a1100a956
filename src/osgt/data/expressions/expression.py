"""Expressions and conditions: computed from a row alone, checked, and written anew for the engine.

Ibis puts the SQL that is written here where it belongs, and changes nothing in it.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import ibis
import ibis.expr.datashape as ds
import ibis.expr.datatypes as dt
import ibis.expr.operations as ops
import ibis.expr.types as ir
import sqlglot.expressions as sge
from ibis.backends.sql.compilers.base import SQLGlotCompiler
from ibis.common.annotations import attribute
from ibis.common.typing import VarTuple

from osgt.data.engines import engine_on
from osgt.data.expressions.checks import check_calls, check_types, nodes_of
from osgt.data.expressions.dialect import Dialect, Type
from osgt.data.expressions.grammar import parse
from osgt.data.expressions.growth import limit_texts
from osgt.data.expressions.own import Formula, expand, values_of
from osgt.data.expressions.tokens import tokens
from osgt.data.expressions.tree import Column, Node, Word, rebuild
from osgt.support.errors import ArgumentError, ArgumentTypeError
from osgt.support.text import names_in_words, unknown

_COLUMN = re.compile("\0(\\d+)\0")


class WrittenValue(ops.Value):  # type: ignore[misc]
    """A value in the engine's SQL, in which the number of a column stands between null characters."""

    sql: str
    columns: VarTuple[ops.Value]
    type: dt.DataType

    shape = ds.columnar

    @attribute  # type: ignore[untyped-decorator]
    def dtype(self) -> dt.DataType:
        """The type of the value."""
        return self.type


def sql_value(sql: str, table: ir.Table, columns: Sequence[str], dtype: dt.DataType = dt.boolean) -> Any:
    """The value for each row of a table."""
    return WrittenValue(sql, tuple(table[name].op() for name in columns), dtype).to_expr()


def _visit(
    compiler: Any, operation: Any, *, sql: str, columns: tuple[sge.Expression, ...], type: dt.DataType
) -> sge.Expression:
    names = [column.sql(compiler.dialect) for column in columns]
    # A variable is written as it is: no parser and no writer but the engine's own ever sees the text.
    return sge.Var(this=_COLUMN.sub(lambda match: names[int(match[1])], sql))


SQLGlotCompiler.visit_WrittenValue = _visit


#: The name of the rows in the SQL of an Ibis expression.
_ROWS = "osgt_rows"

#: A guarded expression names its parts several times.
_LONGEST = 200_000

#: What looks beyond one row, and what nobody can look into, in an Ibis expression.
_CROSSING = (
    ops.Reduction,
    ops.Analytic,
    ops.WindowFunction,
    ops.Subquery,
    ops.ExistsSubquery,
    ops.Impure,
    ops.RowID,
    ops.ScalarUDF,
)


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
    type: dt.DataType
    values: tuple[str | int, ...] | None


def check_expression(table: ir.Table, given: Any, what: str) -> Expression:
    """The expression, if it looks at one row alone. Errors begin with `what`, where it was written."""
    backend = table.get_backend()
    with name_errors(what), engine_on(backend).turn(backend):
        if isinstance(given, Formula):
            return _Checking(table).formula(given)
        if isinstance(given, str):
            return _Checking(table).text(given)
        return _Checking(table).text(_text(table, given))


@contextmanager
def name_errors(what: str) -> Iterator[None]:
    """Begin the messages of errors with what they are about."""
    try:
        yield
    except (ValueError, TypeError) as error:
        kind = ArgumentTypeError if isinstance(error, TypeError) else ArgumentError
        raise kind(f"{what}: {error}", argument=what.partition(":")[0]) from None


def _text(table: ir.Table, given: Any) -> str:
    """An Ibis expression in the engine's SQL, without what the table was made of."""
    bound = table.bind(given)
    if len(bound) != 1 or not isinstance(bound[0], ir.Value):
        raise TypeError(f"it must be SQL or one Ibis expression, got {given!r}")
    node = bound[0].op()
    # Values alone are searched: what the table itself was made of is not part of the expression.
    if node.find(_CROSSING, filter=ops.Value) or node.relations - {table.op()}:
        raise ValueError(
            "it must look at one row alone: no aggregates, windows, other tables, row numbers, random numbers or "
            "functions of your own"
        )
    rows = ibis.table(table.schema(), name=_ROWS)
    compiler = table.get_backend().compiler
    query = compiler.to_sqlglot(rows.select(expression=node.replace({table.op(): rows.op()}).to_expr()))
    for column in query.find_all(sge.Column):
        column.set("table", None)
    sql: str = query.expressions[0].unalias().sql(compiler.dialect)
    return sql


class _Checking:
    """One expression on its way from what was written to what is run."""

    def __init__(self, table: ir.Table) -> None:
        self.table, self.backend = table, table.get_backend()
        self.backend._run_pre_execute_hooks(table)  # tables in memory that it is made of become known to the engine
        self.dialect: Dialect = engine_on(self.backend).dialect(self.backend)

    def text(self, text: str) -> Expression:
        """An expression in the engine's SQL."""
        self.dialect.check_text(text)
        tree = parse(tokens(text, self.dialect.lexicon), self.dialect.grammar, self._column)
        return self._check(tree, text)

    def formula(self, formula: Formula) -> Expression:
        """An expression that was put together in Python."""

        def known(node: Node) -> Node:
            if isinstance(node, Column) and node.name not in self.table.columns:
                raise ValueError(unknown("column", node.name, self.table.columns))
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
        query = self.backend.compile(self.table.select(value=sql_value(sql, self.table, columns)))
        if len(query) > 2 * _LONGEST:
            raise ValueError("it is made of too many columns that are computed themselves; compute them before")
        self._try_query(text, query, run=False)
        dtype = dt.null if result.kind == "null" else self.dialect.column_type(result)
        return Expression(text, sql, columns, result.kind, result.name.lower(), dtype, values)

    def _column(self, name: str, quoted: bool) -> str:
        names = self.table.columns
        result: list[str] = [column for column in names if self.dialect.same_name(name, column, quoted=quoted)]
        if not result:
            text = f". If it is text, write '{name}' in single quotes" if quoted else ""
            raise ValueError(unknown("column", name, names) + text)
        if len(result) > 1:
            raise ValueError(f"there are several columns {name!r}: {names_in_words(result)}")
        return result[0]

    def _types(self, tree: Node, text: str) -> dict[Node, Type]:
        """The engine's type of every part, of functions that are known to look at one row alone."""
        check_calls(tree, self.dialect)
        nodes = list(dict.fromkeys(nodes_of(tree)))
        parts = ", ".join(self.dialect.written(node) for node in nodes)
        query = self.backend.compile(self.table.select(last=sql_value(parts, self.table, self.dialect.columns)))
        try:
            result = self.dialect.types_of(query)
        except Exception as error:
            raise self._misunderstood(text, error) from None
        types = dict(zip(nodes, result, strict=True))
        return types | {node: Type("null", "null") for node in nodes if node == Word("NULL")}

    def _try_query(self, text: str, query: str, *, run: bool) -> None:
        try:
            (self.dialect.run if run else self.dialect.types_of)(query)
        except Exception as error:  # each engine has errors of its own
            raise self._misunderstood(text, error) from None

    def _misunderstood(self, text: str, error: Exception) -> ValueError:
        line = (str(error).replace("\0", "").strip().splitlines() or [type(error).__name__])[0]
        return ValueError(f"{self.dialect.engine} does not understand {text!r}: {line}")


# Conditions


def check_condition(table: ir.Table, condition: Any, what: str = "where") -> Expression:
    """The condition, if it is one and looks at one row alone. Errors begin with `what`, where it was written."""
    result = check_expression(table, condition, what)
    if result.kind != "boolean":
        raise ArgumentTypeError(
            f"{what}: the condition must be true or false for each row, got {result.type_name}; "
            "compare it with something",
            argument=what,
        )
    return result


def filter_rows(table: ir.Table, conditions: Sequence[Expression]) -> ir.Table:
    """The rows of the table for which all conditions hold."""
    if not conditions:
        return table
    return table.filter([holds(condition, table) for condition in conditions])


def holds(condition: Expression, table: ir.Table) -> ir.BooleanValue:
    """Test a condition on the rows of the table; null where it is neither true nor false."""
    value: ir.BooleanValue = sql_value(condition.sql, table, condition.columns)
    return value
