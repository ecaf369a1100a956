"""Two tables of an engine in one answer, so that what both are made from is computed once."""

import ibis
import ibis.expr.types as ir
import pyarrow as pa
import pyarrow.compute as pc

#: How the columns of the second table begin; the first of them is never null in its rows.
_SECOND = "told_"


def together(first: ir.Table, second: ir.Table) -> ir.Table:
    """The rows of both tables, with the columns of both; those of the other table are null."""
    theirs = {f"{_SECOND}{name}": second[name] for name in second.columns}
    without = {name: ibis.null(column.type()) for name, column in theirs.items()}
    ours = {name: ibis.null(first[name].type()) for name in first.columns}
    return ibis.union(first.mutate(**without), second.select(**ours, **theirs))


def apart(answer: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The two tables."""
    names = [name for name in answer.column_names if name.startswith(_SECOND)]
    of_first = pc.is_null(answer[names[0]])
    first, second = answer.filter(of_first).drop_columns(names), answer.filter(pc.invert(of_first)).select(names)
    return first, second.rename_columns([name.removeprefix(_SECOND) for name in names])
