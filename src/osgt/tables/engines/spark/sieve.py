"""Rows of groups that cannot be among the first of their unit leave before the rows are sorted, which is slow on Spark.

The hashes by which groups are chosen are put into cells, in order, and a unit notes in one integer which cells its
groups are in. Groups in different cells have different hashes. So if `max_groups` cells before its own hold groups of
its unit, a group is not among the first `max_groups`. What stays is at least what is kept. Whether a row stays depends
on the rows of its unit alone, and those that stay are bounded as all would be: the promise does not rest on the sieve.
"""

import ibis
import ibis.expr.datatypes as dt
import ibis.expr.types as ir

from osgt.tables.engines.functions import function, reduction

#: Cells: as many as an integer of 64 bits can note beside its sign.
CELLS = 63

#: With more groups than that, units rarely have them in so many cells, and nothing would leave.
_MOST_GROUPS = 32


def sieved(rows: ir.Table, unit: str, max_groups: int) -> ir.Table:
    """The rows without those of groups that others of their unit are before: `max_groups` or more, by "choice"."""
    if max_groups > _MOST_GROUPS:
        return rows
    # From 0 to 1, and its root: cells are narrow at the beginning, where the first of many groups are.
    place = (rows["choice"].cast("float64") * 2.0**-64 + 0.5).sqrt() * float(CELLS)
    cell = ibis.least(place.floor().cast("int32"), ibis.literal(CELLS - 1, type="int32"))
    one = ibis.literal(1, type="int8").cast("int64")
    rows = rows.mutate(bit=function("shiftleft", one, cell, returns=dt.int64))
    each = ibis.window(group_by=unit)
    cells = reduction("bit_or", rows["bit"], returns=dt.int64).over(each)
    rows = rows.mutate(cells=cells, unit_rows=rows.count().over(each))
    before = function("bit_count", rows["cells"] & (rows["bit"] - 1), returns=dt.int32)
    return rows.filter(before < max_groups).drop("bit", "cells")
