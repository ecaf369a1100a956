"""SQL of our own inside an Ibis expression: Ibis puts it where it belongs and changes nothing in it."""

import re
from typing import Any

import ibis.expr.datashape as ds
import ibis.expr.datatypes as dt
import ibis.expr.operations as ops
import ibis.expr.types as ir
import sqlglot.expressions as sge
from ibis.backends.sql.compilers.base import SQLGlotCompiler
from ibis.common.typing import VarTuple

_COLUMN = re.compile("\0(\\d+)\0")


class WrittenCondition(ops.Value):  # type: ignore[misc]
    """A condition in the engine's SQL, in which the number of a column stands between null characters."""

    sql: str
    columns: VarTuple[ops.Value]

    dtype = dt.boolean
    shape = ds.columnar


def written(sql: str, table: ir.Table, columns: list[str]) -> ir.BooleanValue:
    """The condition on the rows of a table."""
    return WrittenCondition(sql, tuple(table[name].op() for name in columns)).to_expr()


def _visit(compiler: Any, operation: Any, *, sql: str, columns: tuple[sge.Expression, ...]) -> sge.Expression:
    names = [column.sql(compiler.dialect) for column in columns]
    # A variable is written as it is: no parser and no writer but the engine's own ever sees the text.
    return sge.Var(this=_COLUMN.sub(lambda match: names[int(match[1])], sql))


SQLGlotCompiler.visit_WrittenCondition = _visit
