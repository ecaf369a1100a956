"""Conditions: which rows count, decided by each row alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ibis
import ibis.expr.operations as ops
import ibis.expr.types as ir
import sqlglot
from sqlglot import exp

#: The name of the rows in SQL.
_ROWS = "osgt_rows"

#: Functions that see nothing but their arguments, by the names of sqlglot. Any other might look at the whole table
#: (statistics, queries in strings, macros) or at a row's place in it (row numbers, sequences, seeded random numbers).
# fmt: off
_ROW_WISE = frozenset({
    "Abs", "And", "Array", "ArrayContains", "Between", "Case", "Cast", "Ceil", "Coalesce", "Concat", "ConcatWs",
    "Contains", "CurrentDate", "CurrentTimestamp", "Date", "DateAdd", "DateDiff", "DatePart", "DateSub", "DateTrunc",
    "Day", "DayOfMonth", "DayOfWeek", "DayOfWeekIso", "DayOfYear", "EndsWith", "Exp", "Extract", "Floor", "Greatest",
    "Hour", "If", "IsInf", "IsNan", "LastDay", "Least", "Left", "Length", "Ln", "Log", "Lower", "Lpad", "Ltrim",
    "MD5", "Minute", "Mod", "Month", "Not", "Nullif", "Or", "Pad", "Pow", "Quarter", "RegexpExtract",
    "RegexpFullMatch", "RegexpILike", "RegexpLike", "RegexpReplace", "Replace", "Right", "Round", "Rpad", "Rtrim",
    "SafeDivide", "Second", "Sign", "Sqrt", "StartsWith", "StrPosition", "StrToDate", "StrToTime", "Substring",
    "Time", "Timestamp", "TimestampTrunc", "TimeToStr", "Trim", "Trunc", "TryCast", "TsOrDsToDate", "Upper", "Week",
    "WeekOfYear", "Xor", "Year",
})
# fmt: on


@dataclass(frozen=True, eq=False)
class Condition:
    """A condition as SQL; if it was given as an Ibis expression, that as well."""

    text: str
    expression: Any = None


def filtered(table: ir.Table, conditions: Sequence[Condition]) -> ir.Table:
    """The rows of the table for which all conditions hold."""
    expressions = [condition.expression for condition in conditions if condition.expression is not None]
    texts = [f"({condition.text})" for condition in conditions if condition.expression is None]
    if expressions:
        table = table.filter(expressions)
    if texts:
        # Spark takes WHERE (flag) after a table for its new name and a list of columns.
        sql = f"SELECT * FROM {_ROWS} WHERE TRUE AND {' AND '.join(texts)}"
        table = table.alias(_ROWS).sql(sql, dialect=table.get_backend().name)
    return table


def checked_condition(table: ir.Table, condition: Any) -> Condition:
    """The condition, if it is one and looks at one row alone."""
    if isinstance(condition, str):
        return _sql(table, condition)
    bound = table.bind(condition)
    if len(bound) != 1 or not isinstance(bound[0], ir.BooleanValue):
        raise TypeError(f"where: the condition must be true or false for each row, got {condition!r}")
    node = bound[0].op()
    crossing = (
        *(ops.Reduction, ops.Analytic, ops.WindowFunction, ops.Subquery, ops.ExistsSubquery),
        *(ops.Impure, ops.RowID, ops.ScalarUDF),  # a row's place, and what nobody can look into
    )
    # Values alone are searched: what the table itself was made of is not part of the condition.
    if node.find(crossing, filter=ops.Value) or node.relations - {table.op()}:
        raise ValueError(
            "where: the condition must look at one row alone: no aggregates, windows, other tables, row numbers, "
            "random numbers or functions of your own"
        )
    return Condition(ibis.to_sql(table.filter(bound[0])).partition("WHERE")[2].strip(), bound[0])


def _sql(table: ir.Table, text: str) -> Condition:
    dialect = table.get_backend().name
    try:
        parsed = sqlglot.parse(text, read="spark" if dialect == "pyspark" else dialect)
    except sqlglot.errors.SqlglotError as error:
        raise ValueError(f"where: {text!r} is not a condition in SQL: {error}") from None
    if len(parsed) != 1 or not isinstance(parsed[0], exp.Expression) or isinstance(parsed[0], exp.Query | exp.DDL):
        raise ValueError(f"where: must be one condition in SQL, got {text!r}")
    if parsed[0].find(exp.Query, exp.Subquery, exp.AggFunc, exp.Window, exp.Table):
        raise ValueError("where: the condition must look at one row alone: no subqueries, aggregates or windows")
    _check_names(table, parsed[0])
    # What was checked is what is run: comments and everything else that was not part of the condition are gone.
    condition = Condition(parsed[0].sql(dialect="spark" if dialect == "pyspark" else dialect))
    try:
        filtered(table, [condition]).schema()
    except Exception as error:
        raise ValueError(f"where: the engine does not understand {text!r}: {error}") from None
    return condition


def _check_names(table: ir.Table, condition: exp.Expression) -> None:
    """Raise unless all columns are columns of the table and all functions are known to look at one row alone."""
    known = {name.lower() for name in table.columns}
    for column in condition.find_all(exp.Column):
        if column.table or column.name.lower() not in known:
            raise ValueError(f"where: there is no column {column.sql()!r}; the table has {', '.join(table.columns)}")
    for function in condition.find_all(exp.Func):
        if type(function).__name__ not in _ROW_WISE:
            name = function.name if isinstance(function, exp.Anonymous) else function.sql_name().lower()
            raise ValueError(
                f"where: the function {name!r} is not known to look at one row alone; use an Ibis expression, or "
                "filter the rows before they are handed over"
            )
