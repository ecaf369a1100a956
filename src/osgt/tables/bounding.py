"""The query that the engine runs: exact integer sums by group, with what each unit adds bounded.

Of each unit at most `max_groups` groups are kept, those that come first by a salted hash of (unit, group), and of each
of these at most `max_rows` rows, in random order. What a unit adds depends on its own rows, the salt and the random
numbers alone, never on other units: that is what bounds the sensitivity.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import ibis
import ibis.expr.types as ir

from osgt.limits import LARGEST_SUM
from osgt.sampling.entropy import token
from osgt.tables.engines import engine_on
from osgt.tables.measures import Measure, Place

#: Columns of the rows that are bounded; values keep their places under other names of this form.
UNIT = "unit"


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
) -> ir.Table:
    """One row for each group: its keys, and the sums `sum_i_j` of number j of measure i.

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
    """
    units = any(measure.uses_first for measure in measures)
    kept = _kept(
        rows,
        list(keys),
        max_groups,
        max_rows,
        salt,
        order,
        choose=bool(values),
        units=units,
        with_unit=bool(levels),
    )
    # Of the groups that a unit is in within one of a level, the first by its rank.
    ranks = {
        f"first_{column}": kept["group_rank"].min().over(group_by=[UNIT, column]) for column in (levels or {}).values()
    }
    kept = kept.mutate(**ranks)
    first = kept["position"] == 0
    starts: dict[tuple[str, ...], ir.BooleanValue] = {(): first & (kept["group_rank"] == 0) if keys else first}
    for level, column in (levels or {}).items():
        starts[level] = first & (kept["group_rank"] == kept[f"first_{column}"])
    place = Place(first, starts)
    columns = {name: kept[column] for name, column in values.items()}
    total = engine_on(rows.get_backend()).total
    sums: dict[str, Any] = {}
    for i, measure in enumerate(measures):
        for j, contribution in enumerate(measure.contributions(columns, place)):
            sums[f"sum_{i}_{j}"] = saturated(total(contribution.cast("int64")))
    return kept.group_by(list(keys)).agg(**sums) if keys else kept.agg(**sums)


def saturated(total: Any) -> Any:
    """A total as an integer of 64 bits, at most 2⁶¹ from zero; 0 where nothing was added up."""
    return ibis.least(ibis.greatest(total.fill_null(0), -LARGEST_SUM), LARGEST_SUM).cast("int64")


def _kept(
    rows: ir.Table,
    keys: list[str],
    max_groups: int,
    max_rows: int,
    salt: int,
    order: str | None,
    *,
    choose: bool,
    units: bool,
    with_unit: bool,
) -> ir.Table:
    """The rows that are kept, with the rank of their group within their unit, from 0 on.

    Where `units` matter, one row of each unit in a group has the position 0.
    """
    if UNIT not in rows.columns:
        # Every row is a unit of its own, and in one group: nothing can be left out.
        nothing = ibis.literal(0, type="int64")
        return rows.mutate(position=nothing, group_rank=nothing)
    rows = rows.filter(rows[UNIT].notnull())
    shuffled = partial(_shuffled, order=order)
    if not keys:
        return _first_rows(shuffled(rows), keys, max_rows)
    rows = rows.mutate(choice=_choice(rows, keys, salt))
    if choose and engine_on(rows.get_backend()).computes_once:
        return _few_and_many(rows, keys, max_groups, max_rows, shuffled, units=units, with_unit=with_unit)
    each = ibis.window(**_in_order(keys))
    if choose:
        # The longer order comes first: what is sorted by it is sorted by the shorter one as well.
        longer = {"group_by": UNIT, "order_by": ["choice", *keys, "shuffled"]}
        rows = shuffled(rows)
        rows = rows.mutate(row=ibis.row_number().over(**longer)).drop("shuffled").mutate(**_ranks(each))
    else:
        # Which rows are kept makes no difference to how many.
        rows = rows.mutate(row=ibis.row_number().over(each), **_ranks(each))
    rows = rows.mutate(position=rows["row"] - rows["before"])
    rows = rows.filter((rows["group_rank"] < max_groups) & (rows["position"] < max_rows))
    return rows.drop("choice", "row", "before")


def _few_and_many(
    rows: ir.Table,
    keys: list[str],
    max_groups: int,
    max_rows: int,
    shuffled: Callable[[ir.Table], Any],
    *,
    units: bool,
    with_unit: bool,
) -> ir.Table:
    """The same in less time, where a part of a query that is used twice is computed once (the engine sees to it).

    Few units have more rows in a group than are kept: only those rows are put into random order. Every window takes
    time: the position is 0 where it is not asked for, and the unit goes where nothing asks for it.
    """
    nothing = ibis.literal(0, type="int64")
    each = ibis.window(**_in_order(keys))
    peers = ibis.range_window(**_in_order(keys), preceding=None, following=0)
    row = ibis.row_number().over(each) if units else nothing
    ranked = rows.mutate(row=row, through=rows.count().over(peers), **_ranks(each))
    ranked = ranked.mutate(size=ranked["through"] - ranked["before"])
    ranked = ranked.filter(ranked["group_rank"] < max_groups)
    few = ranked.filter(ranked["size"] <= max_rows)
    few = few.mutate(position=few["row"] - few["before"] if units else nothing)
    many = _first_rows(shuffled(ranked.filter(ranked["size"] > max_rows)), keys, max_rows)
    dropped = ("choice",) if with_unit else ("choice", UNIT)
    columns = [*(name for name in rows.columns if name not in dropped), "group_rank", "position"]
    return few.select(columns).union(many.select(columns))


def _in_order(keys: list[str]) -> dict[str, Any]:
    """The groups of a unit by their hashes; the keys come after these: groups whose hashes are equal are still two."""
    return {"group_by": UNIT, "order_by": ["choice", *keys]}


def _ranks(each: Any) -> dict[str, Any]:
    """The rank of a row's group within the unit, and the number of rows in the groups before it."""
    return {"group_rank": ibis.dense_rank().over(each), "before": ibis.rank().over(each)}


def _shuffled(rows: ir.Table, *, order: str | None) -> ir.Table:
    """The rows with a random number each."""
    return rows.mutate(shuffled=ibis.random() if order is None else rows[order])


def _first_rows(rows: ir.Table, keys: list[str], max_rows: int) -> ir.Table:
    """The first rows of each unit and group in random order, with their position."""
    rows = rows.mutate(position=ibis.row_number().over(group_by=[UNIT, *keys], order_by="shuffled"))
    return rows.filter(rows["position"] < max_rows).drop("shuffled")


def _choice(rows: ir.Table, keys: list[str], salt: int) -> ir.Value:
    """A number that depends on salt, unit and group as if drawn at random: the engine's own hash function."""
    return engine_on(rows.get_backend()).hashed(salt, [rows[name] for name in (UNIT, *keys)])
