"""Conditions: which rows count, decided by each row alone."""

from dataclasses import dataclass
from typing import Any

import ibis
import ibis.expr.operations as ops
import ibis.expr.types as ir
import sqlglot
from sqlglot import exp

#: The name of the rows in SQL.
_ROWS = "osgt_rows"


@dataclass(frozen=True, eq=False)
class Condition:
    """A condition and how it reads."""

    text: str
    expression: Any = None

    def apply(self, table: ir.Table) -> ir.Table:
        """The rows of the table for which it holds."""
        if self.expression is not None:
            return table.filter(self.expression)
        return table.alias(_ROWS).sql(f"SELECT * FROM {_ROWS} WHERE {self.text}", dialect=table.get_backend().name)


def checked_condition(table: ir.Table, condition: Any) -> Condition:
    """The condition, if it is one and looks at one row alone."""
    if isinstance(condition, str):
        return _sql(table, condition)
    bound = table.bind(condition)
    if len(bound) != 1 or not isinstance(bound[0], ir.BooleanValue):
        raise TypeError(f"where: the condition must be true or false for each row, got {condition!r}")
    node = bound[0].op()
    crossing = node.find((ops.Reduction, ops.Analytic, ops.WindowFunction, ops.Subquery, ops.ExistsSubquery))
    if crossing or any(relation != table.op() for relation in node.find(ops.Relation, filter=ops.Value | ops.Relation)):
        raise ValueError("where: the condition must look at one row alone: no aggregates, windows or other tables")
    return Condition(ibis.to_sql(table.filter(bound[0])).partition("WHERE")[2].strip(), bound[0])


def _sql(table: ir.Table, text: str) -> Condition:
    dialect = table.get_backend().name
    try:
        parsed = sqlglot.parse(text, read="spark" if dialect == "pyspark" else dialect)
    except sqlglot.errors.ParseError as error:
        raise ValueError(f"where: {text!r} is not a condition in SQL: {error}") from None
    if len(parsed) != 1 or not isinstance(parsed[0], exp.Expression) or isinstance(parsed[0], exp.Query | exp.DDL):
        raise ValueError(f"where: must be one condition in SQL, got {text!r}")
    if parsed[0].find(exp.Query, exp.Subquery, exp.AggFunc, exp.Window, exp.Table):
        raise ValueError("where: the condition must look at one row alone: no subqueries, aggregates or windows")
    # What was checked is what is run: comments and everything else that was not part of the condition are gone.
    condition = Condition(parsed[0].sql(dialect="spark" if dialect == "pyspark" else dialect))
    try:
        condition.apply(table).schema()
    except Exception as error:
        raise ValueError(f"where: the engine does not understand {text!r}: {error}") from None
    return condition
