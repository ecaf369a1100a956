"""Rows of the data set itself, of the units that are most likely to show something."""

import ibis
import ibis.expr.types as ir
import pyarrow as pa

from osgt.auditing.made_rows import Row, can_be_written, text_of
from osgt.tables.aggregates.kinds import Asking
from osgt.tables.bounding import UNIT
from osgt.tables.exact_sums import prepared_rows
from osgt.tables.reading import compiled, fetched

#: Rows that are looked at, units of each kind, and rows where each is a unit.
_MOST_REAL, _UNITS, _FEW = 2000, 3, 40


def real_rows(query: Asking) -> tuple[list[Row], str]:
    """Rows of a few units, and a note if there are none: those with most rows, in most groups, alone, and others."""
    table = query.dataset.rows()
    columns = {name: dtype for name, dtype in query.dataset.stored.schema().items() if can_be_written(dtype)}
    if query.dataset.unit.each_row:
        return _as_rows(table.select(*columns).limit(_FEW))
    rows, keys, _ = prepared_rows(query, [])
    rows = rows.filter(rows[UNIT].notnull())
    pairs = rows.group_by([UNIT, *keys]).agg(size=rows.count())
    units = pairs.group_by(UNIT).agg(groups=pairs.count(), rows=pairs["size"].sum())
    ranked = [units.order_by(ibis.desc("rows"), UNIT), units.order_by(ibis.desc("groups"), UNIT), units.order_by(UNIT)]
    if keys:
        shared = pairs.mutate(members=pairs.count().over(group_by=keys))
        fewest = shared.group_by(UNIT).agg(members=shared["members"].max())
        ranked.append(fewest.order_by("members", UNIT))
    chosen = ibis.union(*(each.limit(_UNITS).select(UNIT) for each in ranked), distinct=True)
    unit = query.dataset.unit.value(query.dataset.engine, table)
    return _as_rows(table.filter(unit.isin(chosen[UNIT])).select(*columns).limit(_MOST_REAL))


def _as_rows(table: ir.Table) -> tuple[list[Row], str]:
    """The rows of a table as text; or none, and why."""
    try:
        rows = fetched(compiled(table)).to_pylist()
    except (ValueError, OverflowError, pa.ArrowInvalid) as error:
        return [], f" No real rows were used, since they cannot be carried over ({type(error).__name__})."
    return [{name: text_of(value) for name, value in row.items()} for row in rows], ""
