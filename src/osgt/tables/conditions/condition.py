"""A condition: checked, and written anew for the engine."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ibis
import ibis.expr.operations as ops
import ibis.expr.types as ir
import sqlglot.expressions as sge

from osgt.tables.conditions.checks import check_calls, check_types, nodes_of
from osgt.tables.conditions.dialect import Dialect, Type
from osgt.tables.conditions.grammar import parsed
from osgt.tables.conditions.operation import written
from osgt.tables.conditions.tokens import tokens
from osgt.tables.conditions.tree import Node, Word
from osgt.tables.engines import engine_on

#: The name of the rows in the SQL of an Ibis expression.
_ROWS = "osgt_rows"

#: A guarded condition names its parts several times.
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
class Condition:
    """A condition: what the user wrote, for people, and what the engine runs, with its columns as numbers."""

    text: str
    sql: str
    columns: tuple[str, ...]


def filtered(table: ir.Table, conditions: Sequence[Condition]) -> ir.Table:
    """The rows of the table for which all conditions hold."""
    if not conditions:
        return table
    return table.filter([holds(condition, table) for condition in conditions])


def holds(condition: Condition, table: ir.Table) -> ir.BooleanValue:
    """Whether a condition holds for a row of the table; null where it is neither true nor false."""
    return written(condition.sql, table, list(condition.columns))


def checked_condition(table: ir.Table, condition: Any) -> Condition:
    """The condition, if it is one and looks at one row alone."""
    backend = table.get_backend()
    with engine_on(backend).turn(backend):
        return _checked_in_turn(table, condition)


def _checked_in_turn(table: ir.Table, condition: Any) -> Condition:
    if isinstance(condition, str):
        return _checked(table, condition)
    bound = table.bind(condition)
    if len(bound) != 1 or not isinstance(bound[0], ir.BooleanValue):
        raise TypeError(f"where: the condition must be true or false for each row, got {condition!r}")
    node = bound[0].op()
    # Values alone are searched: what the table itself was made of is not part of the condition.
    if node.find(_CROSSING, filter=ops.Value) or node.relations - {table.op()}:
        raise ValueError(
            "where: the condition must look at one row alone: no aggregates, windows, other tables, row numbers, "
            "random numbers or functions of your own"
        )
    return _checked(table, _as_sql(table, node))


def _as_sql(table: ir.Table, node: ops.Value) -> str:
    """An Ibis expression in the engine's SQL, without what the table was made of."""
    rows = ibis.table(table.schema(), name=_ROWS)
    compiler = table.get_backend().compiler
    query = compiler.to_sqlglot(rows.select(condition=node.replace({table.op(): rows.op()}).to_expr()))
    for column in query.find_all(sge.Column):
        column.set("table", None)
    sql: str = query.expressions[0].unalias().sql(compiler.dialect)
    return sql


def _checked(table: ir.Table, text: str) -> Condition:
    backend = table.get_backend()
    backend._run_pre_execute_hooks(table)  # tables in memory that it is made of become known to the engine
    dialect = engine_on(backend).dialect(backend)
    dialect.check_text(text)

    def column(name: str, quoted: bool) -> str:
        return _column(dialect, table, name, quoted=quoted)

    tree = parsed(tokens(text, dialect.lexicon), dialect.grammar, column)
    check_calls(tree, dialect)
    dialect.types = _types(table, dialect, tree, text)
    check_types(tree, dialect)
    sql = dialect.written(tree)
    if len(sql) > _LONGEST:
        raise ValueError("where: the arithmetic in this condition is nested too deeply; compute it before, as a column")
    probes = [probe for node in nodes_of(tree) for probe in dialect.probes(node)]
    if probes:
        _accepted(text, dialect, f"SELECT {', '.join(probes)}")
    condition = Condition(text, sql, tuple(dialect.columns))
    _accepted(text, dialect, backend.compile(filtered(table, [condition])), run=False)
    return condition


def _column(dialect: Dialect, table: ir.Table, name: str, *, quoted: bool) -> str:
    found: list[str] = [each for each in table.columns if dialect.same_name(name, each, quoted=quoted)]
    if len(found) != 1:
        raise ValueError(
            f"where: there {'are several columns' if found else 'is no column'} {name!r}; "
            f"the table has {', '.join(table.columns)}"
        )
    return found[0]


def _types(table: ir.Table, dialect: Dialect, tree: Node, text: str) -> dict[Node, Type]:
    """The engine's type of every part."""
    nodes = list(dict.fromkeys(nodes_of(tree)))
    parts = ", ".join(dialect.written(node) for node in nodes)
    query = dialect.backend.compile(table.select(last=written(parts, table, dialect.columns)))
    try:
        found = dialect.types_of(query)
    except Exception as error:
        raise _misunderstood(text, dialect, error) from None
    types = dict(zip(nodes, found, strict=True))
    return types | {node: Type("null", "null") for node in nodes if node == Word("NULL")}


def _accepted(text: str, dialect: Dialect, query: str, *, run: bool = True) -> None:
    try:
        (dialect.run if run else dialect.types_of)(query)
    except Exception as error:  # each engine has errors of its own
        raise _misunderstood(text, dialect, error) from None


def _misunderstood(text: str, dialect: Dialect, error: Exception) -> ValueError:
    line = (str(error).replace("\0", "").strip().splitlines() or [type(error).__name__])[0]
    return ValueError(f"where: {dialect.engine} does not understand {text!r}: {line}")
