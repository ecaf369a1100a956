"""The query that the engine runs: exact integer sums by group, with what each unit adds bounded.

Of each unit at most `max_groups` groups are kept, those that come first by a salted hash of (unit, group), and of each
of these at most `max_rows` rows, in random order. What a unit adds depends on its own rows, the salt and the random
numbers alone, never on other units: that is what bounds the sensitivity.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import ibis
import ibis.expr.types as ir

from osgt.data.engines import engine_on
from osgt.data.reading import Grouped, duplicate_rows, in_one_pass, union_tables
from osgt.query.measures import Measure, Place
from osgt.sampling.entropy import token
from osgt.support.arrays import LARGEST_SUM

#: Columns of the rows that are bounded; values keep their places under other names of this form.
UNIT = "unit"


class SideQuery(Protocol):
    """Extra statistics over units, returned with the sums of the groups: sums by places that units are put in.

    They are about rows of which none is left out for `max_rows` yet. These have the rank of their group within their
    unit ("group_rank"), the number of all rows of their unit ("unit_rows"), and a part of 1 ("part") that adds up to
    the rows that are kept of their unit and group.
    """

    @property
    def all_groups(self) -> bool:
        """Whether it needs the rows of all groups, rather than those of the groups that are kept."""

    def of_unit(self, rows: ir.Table, values: Mapping[Any, str]) -> dict[str, Any]:
        """Define the statistics of the rows of a unit; of each row, where rows are units of their own."""

    def grouped(self, units: ir.Table) -> Grouped:
        """The places that units are put in, and what is added up there, from columns with what is asked about them."""


def fresh_salt() -> int:
    """A salt for one release."""
    return int(token(8), 16) >> 2


def bounded_sums(
    rows: ir.Table,
    keys: Sequence[str],
    values: Mapping[Any, str],
    measures: Sequence[Measure],
    *,
    max_groups: int,
    max_rows: int,
    salt: int,
    order: str | None = None,
    levels: Mapping[tuple[str, ...], str] | None = None,
    side: SideQuery | None = None,
) -> ir.Table:
    """Sum each group into one row: its keys and the sums `sum_i_j` of number j of measure i; and sum what `side` asks.

    Sums beyond ±2⁶¹ count as that: no sum is an error, and a unit moves none further than without this limit.

    Parameters
    ----------
    rows
        The unit in the column "unit", the keys, and the values. Without that column every row is a unit of its own.
    values
        Column of `rows` for each column that the measures name, and for each measure with a derived value.
    order
        Column by which the rows of a unit in a group are ordered, random if not given.
    levels
        Column of `rows` with the group of each level in which distinct units are counted.
    side
        What else is asked. Its rows are beside those of the groups, to be taken apart by `reading.split_tables`.
    """
    units = any(measure.uses_first for measure in measures)
    chosen, kept = _chosen(
        rows,
        list(keys),
        max_groups,
        max_rows,
        salt,
        order,
        units=units,
        with_unit=bool(levels),
        side=side,
        values=values,
    )
    # Of the groups that a unit is in within one of a level, the first by its rank.
    ranks = {
        f"first_{column}": kept["group_rank"].min().over(group_by=[UNIT, column]) for column in (levels or {}).values()
    }
    kept = kept.mutate(**ranks)
    if side is not None and _in_one_pass(rows, keys):
        kept = duplicate_rows(kept, (kept["position"] == 0) & (kept["group_rank"] == 0))  # one row of each unit
    first = kept["position"] == 0
    starts: dict[tuple[str, ...], ir.BooleanValue] = {(): first & (kept["group_rank"] == 0) if keys else first}
    for level, column in (levels or {}).items():
        starts[level] = first & (kept["group_rank"] == kept[f"first_{column}"])
    place = Place(first, starts)
    columns = {name: kept[column] for name, column in values.items()}
    sums: dict[str, Any] = {}
    for i, measure in enumerate(measures):
        for j, contribution in enumerate(measure.contributions(columns, place)):
            sums[f"sum_{i}_{j}"] = contribution.cast("int64")
    total = engine_on(rows.get_backend()).total
    groups = Grouped({key: kept[key] for key in keys}, sums, lambda numbers: saturated(total(numbers)))
    if side is None:
        return groups.table(kept)
    if _in_one_pass(rows, keys):
        return in_one_pass(kept, groups, side.grouped(kept))
    asked = side.of_unit(chosen, values)
    each_unit = chosen.group_by(UNIT).agg(**asked) if UNIT in chosen.columns else chosen.select(**asked)
    return union_tables(groups.table(kept), side.grouped(each_unit).table(each_unit))


def _in_one_pass(rows: ir.Table, keys: Sequence[str]) -> bool:
    """Whether the side query is better added up with the groups. Without groups there is one row of sums anyway."""
    return bool(keys) and not engine_on(rows.get_backend()).computes_once


def saturated(total: Any) -> Any:
    """A total as an integer of 64 bits, at most 2⁶¹ from zero; 0 where nothing was added up."""
    return ibis.least(ibis.greatest(total.fill_null(0), -LARGEST_SUM), LARGEST_SUM).cast("int64")


def _chosen(
    rows: ir.Table,
    keys: list[str],
    max_groups: int,
    max_rows: int,
    salt: int,
    order: str | None,
    *,
    values: Mapping[Any, str],
    units: bool,
    with_unit: bool,
    side: SideQuery | None,
) -> tuple[ir.Table, ir.Table]:
    """The rows of the groups that are kept (of all groups, if these are asked for), and those of them that are kept.

    They have the rank of their group within their unit, from 0 on. Where `units` matter, one of the kept rows of each
    unit in a group has the position 0. Where two tables are made in one pass, they have what is asked about their unit.
    """
    choose, engine = bool(values), engine_on(rows.get_backend())
    if UNIT not in rows.columns:
        # Every row is a unit of its own, and in one group: nothing can be left out.
        nothing = ibis.literal(0, type="int64")
        rows = rows.mutate(position=nothing, group_rank=nothing)
        if side is not None and _in_one_pass(rows, keys):
            rows = rows.mutate(**side.of_unit(rows, values))
        return rows, rows
    rows = rows.filter(rows[UNIT].notnull())
    shuffled = partial(_shuffled, order=order)
    if not keys:
        rows = shuffled(rows)
        each = ibis.window(group_by=UNIT, order_by="shuffled")
        rows = rows.mutate(position=ibis.row_number().over(each), **_unit_rows(rows, each, side))
        return _with_part(rows, max_rows), rows.filter(rows["position"] < max_rows)
    rows = rows.mutate(choice=engine.hashed(salt, [rows[name] for name in (UNIT, *keys)]))
    if choose and engine.orders_few:
        return _few_and_many(rows, keys, max_groups, max_rows, shuffled, units=units, with_unit=with_unit, side=side)
    all_groups = side is not None and side.all_groups
    if not all_groups:
        rows = engine.sieved(rows, UNIT, max_groups)
    each = ibis.window(**_in_order(keys))
    if choose:
        rows = rows.mutate(group_rank=ibis.dense_rank().over(each), **_unit_rows(rows, each, side))
        # In the order of the groups, so that what is sorted by this is sorted by the rest soon.
        rows = _with_position(shuffled(rows.filter(rows["group_rank"] < max_groups)), ["choice", *keys])
    else:
        # Which rows are kept makes no difference to how many.
        row, before = ibis.row_number().over(each), ibis.rank().over(each)
        rank = ibis.dense_rank().over(each)
        rows = rows.mutate(group_rank=rank, position=row - before, **_unit_rows(rows, each, side))
        rows = rows if all_groups else rows.filter(rows["group_rank"] < max_groups)
    rows = _with_part(rows, max_rows)
    if side is not None and _in_one_pass(rows, keys):
        rows = rows.mutate(**{name: asked.over(group_by=UNIT) for name, asked in side.of_unit(rows, values).items()})
    return rows, rows.filter((rows["group_rank"] < max_groups) & (rows["position"] < max_rows))


def _few_and_many(
    rows: ir.Table,
    keys: list[str],
    max_groups: int,
    max_rows: int,
    shuffled: Callable[[ir.Table], Any],
    *,
    units: bool,
    with_unit: bool,
    side: SideQuery | None,
) -> tuple[ir.Table, ir.Table]:
    """Choose rows as `_chosen` does, in less time where the engine computes once what a query uses twice.

    Few units have more rows in a group than are kept: only those rows are put into random order. Every window takes
    time: the position is 0 where it is not asked for, and the unit goes where nothing asks for it.
    """
    nothing = ibis.literal(0, type="int64")
    each = ibis.window(**_in_order(keys))
    peers = ibis.range_window(**_in_order(keys), preceding=0, following=0)
    found = {"group_rank": ibis.dense_rank().over(each), "size": rows.count().over(peers)}
    found |= {"row": ibis.row_number().over(each), "before": ibis.rank().over(each)} if units else {}
    ranked = rows.mutate(**found, **_unit_rows(rows, each, side))
    ranked = ranked.filter(ranked["group_rank"] < max_groups)
    ranked = ranked.mutate(position=ranked["row"] - ranked["before"] if units else nothing)
    few = ranked.filter(ranked["size"] <= max_rows)
    many = _with_position(shuffled(ranked.filter(ranked["size"] > max_rows)), keys)
    many = many.filter(many["position"] < max_rows)
    dropped = ("choice",) if with_unit else ("choice", UNIT)
    kept = [*(name for name in rows.columns if name not in dropped), "group_rank", "position"]
    part = ibis.ifelse(ranked["size"] > max_rows, float(max_rows) / ranked["size"].cast("float64"), 1.0)
    return ranked.mutate(part=part), few.select(kept).union(many.select(kept))


def _unit_rows(rows: ir.Table, each: Any, side: SideQuery | None) -> dict[str, Any]:
    """The number of rows of a unit, if somebody asks for it and it is not there; in the order that is there anyway."""
    return {} if side is None or "unit_rows" in rows.columns else {"unit_rows": rows.count().over(each)}


def _with_part(rows: ir.Table, max_rows: int) -> ir.Table:
    """The rows with 1 for those that are kept."""
    return rows.mutate(part=ibis.ifelse(rows["position"] < max_rows, 1.0, 0.0))


def _in_order(keys: list[str]) -> dict[str, Any]:
    """The groups of a unit by their hashes; the keys come after these: groups whose hashes are equal are still two."""
    return {"group_by": UNIT, "order_by": ["choice", *keys]}


def _shuffled(rows: ir.Table, *, order: str | None) -> ir.Table:
    """The rows with a random number each."""
    return rows.mutate(shuffled=ibis.random() if order is None else rows[order])


def _with_position(rows: ir.Table, keys: list[str]) -> ir.Table:
    """The rows with their position, from 0 on, in the random order of their unit and group."""
    return rows.mutate(position=ibis.row_number().over(group_by=[UNIT, *keys], order_by="shuffled"))
