"""SQL of our own inside an Ibis expression: Ibis puts it where it belongs and changes nothing in it."""

import re
from collections.abc import Sequence
from typing import Any

import ibis.expr.datashape as ds
import ibis.expr.datatypes as dt
import ibis.expr.operations as ops
import ibis.expr.types as ir
import sqlglot.expressions as sge
from ibis.backends.sql.compilers.base import SQLGlotCompiler
from ibis.common.annotations import attribute
from ibis.common.typing import VarTuple

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


def written(sql: str, table: ir.Table, columns: Sequence[str], dtype: dt.DataType = dt.boolean) -> Any:
    """The value for each row of a table."""
    return WrittenValue(sql, tuple(table[name].op() for name in columns), dtype).to_expr()


def _visit(
    compiler: Any, operation: Any, *, sql: str, columns: tuple[sge.Expression, ...], type: dt.DataType
) -> sge.Expression:
    names = [column.sql(compiler.dialect) for column in columns]
    # A variable is written as it is: no parser and no writer but the engine's own ever sees the text.
    return sge.Var(this=_COLUMN.sub(lambda match: names[int(match[1])], sql))


SQLGlotCompiler.visit_WrittenValue = _visit
