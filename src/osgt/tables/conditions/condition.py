"""Conditions: which rows count."""

from collections.abc import Sequence
from typing import Any

import ibis.expr.types as ir

from osgt.tables.conditions.expression import Expression, checked_expression
from osgt.tables.conditions.operation import written


def checked_condition(table: ir.Table, condition: Any, what: str = "where") -> Expression:
    """The condition, if it is one and looks at one row alone. Errors begin with `what`, where it was written."""
    found = checked_expression(table, condition, what)
    if found.kind != "boolean":
        raise TypeError(
            f"{what}: the condition must be true or false for each row, got {found.type_name}; "
            "compare it with something"
        )
    return found


def filtered(table: ir.Table, conditions: Sequence[Expression]) -> ir.Table:
    """The rows of the table for which all conditions hold."""
    if not conditions:
        return table
    return table.filter([holds(condition, table) for condition in conditions])


def holds(condition: Expression, table: ir.Table) -> ir.BooleanValue:
    """Whether a condition holds for a row of the table; null where it is neither true nor false."""
    value: ir.BooleanValue = written(condition.sql, table, condition.columns)
    return value
