"""Two tables of an engine in one answer, so that what both are made from is computed once."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import ibis
import ibis.expr.types as ir
import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True)
class Grouped:
    """A table of sums: the columns of some rows by which it is grouped, integers, and how these are added up."""

    by: Mapping[str, Any]
    numbers: Mapping[str, Any]
    total: Callable[[Any], Any]

    def table(self, rows: ir.Table) -> ir.Table:
        """The sums of these rows, one row for each group; if there are no groups, one row."""
        rows = rows.select(**self.by, **self.numbers)
        sums = {name: self.total(rows[name]) for name in self.numbers}
        return rows.group_by(list(self.by)).agg(**sums) if self.by else rows.agg(**sums)


#: How the columns of the second table begin; the first of them is never null in its rows.
_SECOND = "told_"


def together(first: ir.Table, second: ir.Table) -> ir.Table:
    """The rows of both tables, with the columns of both; those of the other table are null."""
    theirs = _named({name: second[name] for name in second.columns})
    without = {name: ibis.null(column.type()) for name, column in theirs.items()}
    ours = {name: ibis.null(first[name].type()) for name in first.columns}
    return ibis.union(first.mutate(**without), second.select(**ours, **theirs))


def doubled(rows: ir.Table, in_second: ir.BooleanValue) -> ir.Table:
    """The rows once for the first table ("side" 0), and those where `in_second` holds for the second too (1)."""
    rows = rows.mutate(sides=in_second.ifelse(ibis.array([0, 1]), ibis.array([0])))
    return rows.mutate(side=rows["sides"].unnest()).drop("sides")


def in_one_pass(rows: ir.Table, first: Grouped, second: Grouped) -> ir.Table:
    """The same as `together` for tables of sums, where an engine would compute twice what both are made from.

    The rows are `doubled`, and grouped by the columns of both tables, of which those of the other table are null.
    """
    ours = rows["side"] == 0
    # Nulls without a type: to Ibis a time with a zone and one without are one type on Spark, which would convert them.
    here = {name: ours.ifelse(column, None) for name, column in first.by.items()}
    here |= {name: ours.ifelse(column, 0) for name, column in first.numbers.items()}
    there = {name: ours.ifelse(None, column) for name, column in second.by.items()}
    there |= {name: ours.ifelse(0, column) for name, column in second.numbers.items()}
    rows = rows.select(**here, **_named(there))
    sums = {name: first.total(rows[name]) for name in first.numbers}
    sums |= {name: second.total(rows[name]) for name in _named(second.numbers)}
    return rows.group_by([*first.by, *_named(second.by)]).agg(**sums)


def _named(columns: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{_SECOND}{name}": column for name, column in columns.items()}


def apart(answer: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The two tables."""
    names = [name for name in answer.column_names if name.startswith(_SECOND)]
    of_first = pc.is_null(answer[names[0]])
    first, second = answer.filter(of_first).drop_columns(names), answer.filter(pc.invert(of_first)).select(names)
    return first, second.rename_columns([name.removeprefix(_SECOND) for name in names])
