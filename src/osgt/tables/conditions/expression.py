"""An expression: what is computed from a row alone, checked, and written anew for the engine."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import ibis
import ibis.expr.datatypes as dt
import ibis.expr.operations as ops
import ibis.expr.types as ir
import sqlglot.expressions as sge

from osgt.near_names import names_in_words, unknown
from osgt.tables.conditions.checks import check_calls, check_types, nodes_of
from osgt.tables.conditions.dialect import Dialect, Type
from osgt.tables.conditions.grammar import parsed
from osgt.tables.conditions.operation import written
from osgt.tables.conditions.own import Formula, expanded, values_of
from osgt.tables.conditions.tokens import tokens
from osgt.tables.conditions.tree import Column, Node, Word, rebuilt
from osgt.tables.engines import engine_on

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


def checked_expression(table: ir.Table, given: Any, what: str) -> Expression:
    """The expression, if it looks at one row alone. Errors begin with `what`, where it was written."""
    backend = table.get_backend()
    with told_about(what), engine_on(backend).turn(backend):
        if isinstance(given, Formula):
            return _Checking(table).formula(given)
        if isinstance(given, str):
            return _Checking(table).text(given)
        return _Checking(table).text(_text(table, given))


@contextmanager
def told_about(what: str) -> Iterator[None]:
    """Errors say what they are about."""
    try:
        yield
    except (ValueError, TypeError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{what}: {error}") from None


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
        tree = parsed(tokens(text, self.dialect.lexicon), self.dialect.grammar, self._column)
        return self._checked(tree, text)

    def formula(self, formula: Formula) -> Expression:
        """An expression that was put together in Python."""

        def known(node: Node) -> Node:
            if isinstance(node, Column) and node.name not in self.table.columns:
                raise ValueError(unknown("column", node.name, self.table.columns))
            return node

        return self._checked(rebuilt(formula.tree, known), self.dialect.shown(formula.tree))

    def _checked(self, tree: Node, text: str) -> Expression:
        values = values_of(tree)
        tree = expanded(tree, self.dialect, lambda node: self._types(node, text)[node])
        check_calls(tree, self.dialect)
        types = self._types(tree, text)
        self.dialect.types = types
        check_types(tree, self.dialect)
        sql = self.dialect.written(tree)
        if len(sql) > _LONGEST:
            raise ValueError("the arithmetic is nested too deeply; compute it before, as a column")
        probes = [probe for node in nodes_of(tree) for probe in self.dialect.probes(node)]
        if probes:
            self._accepted(text, f"SELECT {', '.join(probes)}", run=True)
        columns, found = tuple(self.dialect.columns), types[tree]
        query = self.backend.compile(self.table.select(value=written(sql, self.table, columns)))
        if len(query) > 2 * _LONGEST:
            raise ValueError("it is made of too many columns that are computed themselves; compute them before")
        self._accepted(text, query, run=False)
        dtype = dt.null if found.kind == "null" else self.dialect.column_type(found)
        return Expression(text, sql, columns, found.kind, found.name.lower(), dtype, values)

    def _column(self, name: str, quoted: bool) -> str:
        names = self.table.columns
        found: list[str] = [each for each in names if self.dialect.same_name(name, each, quoted=quoted)]
        if not found:
            text = f". If it is text, write '{name}' in single quotes" if quoted else ""
            raise ValueError(unknown("column", name, names) + text)
        if len(found) > 1:
            raise ValueError(f"there are several columns {name!r}: {names_in_words(found)}")
        return found[0]

    def _types(self, tree: Node, text: str) -> dict[Node, Type]:
        """The engine's type of every part, of functions that are known to look at one row alone."""
        check_calls(tree, self.dialect)
        nodes = list(dict.fromkeys(nodes_of(tree)))
        parts = ", ".join(self.dialect.written(node) for node in nodes)
        query = self.backend.compile(self.table.select(last=written(parts, self.table, self.dialect.columns)))
        try:
            found = self.dialect.types_of(query)
        except Exception as error:
            raise self._misunderstood(text, error) from None
        types = dict(zip(nodes, found, strict=True))
        return types | {node: Type("null", "null") for node in nodes if node == Word("NULL")}

    def _accepted(self, text: str, query: str, *, run: bool) -> None:
        try:
            (self.dialect.run if run else self.dialect.types_of)(query)
        except Exception as error:  # each engine has errors of its own
            raise self._misunderstood(text, error) from None

    def _misunderstood(self, text: str, error: Exception) -> ValueError:
        line = (str(error).replace("\0", "").strip().splitlines() or [type(error).__name__])[0]
        return ValueError(f"{self.dialect.engine} does not understand {text!r}: {line}")
