"""The query that the engine runs: exact whole sums by group, in which every unit has the same number of steps.

A unit has K = 2³⁰ steps and spreads them over its rows. With a limit of m rows in all, each of its N rows is worth
⌊K/max(N, m)⌋ steps; with a limit c of length, the largest w with w²·max(Q, c²) ≤ K², Q being the sum of squares of its
rows in each group; in a box of r groups with k rows each, ⌊K/max(n, k)⌋, n being its rows in the group, and nothing in
groups beyond the first r by a salted hash of (unit, group). A row that a measure takes for a, |a| ≤ h, adds the whole
part of a·worth/h; of a sum with a total limit M, the whole part of a·K/max(A, M), A being the unit's sum of |a|. So a
unit adds at most K in all, in Euclidean norm, or to each of r groups (docs/dominance.md). What its rows are worth
follows from these rows and the salt alone: no other unit's numbers change with them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import or_
from typing import Any

import ibis
import ibis.expr.types as ir

from osgt.data.engines import engine_on
from osgt.query.groups import STEPS, Groups
from osgt.query.measures import Measure, Place
from osgt.query.values import one_if
from osgt.sampling.entropy import token
from osgt.support.arrays import LARGEST_SUM

#: The columns of rows with their unit, with the number of its rows, and with what each of them is worth for that.
UNIT, UNIT_ROWS, WORTH = "unit", "unit_rows", "worth"

#: The column of sums that says how many rows of a group count.
COUNTED_ROWS = "counted_rows"

#: Of each unit at most so many times its steps are told as cut off; and as kept, where that can be more than one.
MOST_CUT_OFF, MOST_OF_LENGTH = 3, 11


def fresh_salt() -> int:
    """A salt for one release."""
    return int(token(8), 16) >> 2


def quotient(numerator: Any, denominator: Any) -> Any:
    """A quotient of whole numbers, one of them a column, rounded toward 0; it is below 2⁵⁰."""
    return engine_on((numerator + denominator).get_backend()).quotient(numerator, denominator)


def saturated(total: Any) -> Any:
    """A total as an integer of 64 bits, at most 2⁶¹ from zero; 0 where nothing was added up."""
    return ibis.least(ibis.greatest(total.fill_null(0), -LARGEST_SUM), LARGEST_SUM).cast("int64")


def _at_most(total: Any) -> Any:
    """A total of a unit as an integer of 64 bits; one beyond 2⁶¹ is so large that its rows are worth nothing."""
    return ibis.least(total.fill_null(0), LARGEST_SUM + 1).cast("int64")


#: A total of all rows of a unit, given rows, and its limit.
UnitTotal = tuple[Callable[[ir.Table], Any], int]


def with_unit_totals(rows: ir.Table, totals: Mapping[str, UnitTotal]) -> ir.Table:
    """Attach to each row some totals of its unit, each at least its limit; of the number of its rows, the row's worth.

    `totals` has for each new column the total of rows, as an expression, and the limit. Rows without a unit go.
    """
    rows = rows.filter(rows[UNIT].notnull())
    if not totals:
        return rows
    sums = {name: total(rows) for name, (total, _) in totals.items()}
    limits = {name: _whole(limit) for name, (_, limit) in totals.items()}
    if not engine_on(rows.get_backend()).computes_once:
        rows = rows.mutate(
            **{name: ibis.greatest(_at_most(total.over(group_by=UNIT)), limits[name]) for name, total in sums.items()}
        )
        return rows.mutate(**{WORTH: _worth(rows[UNIT_ROWS])}) if UNIT_ROWS in totals else rows
    # Few units exceed a limit: only these are looked up.
    units = rows.group_by(UNIT).agg(**{name: _at_most(total) for name, total in sums.items()})
    heavy = units.filter(reduce(or_, (units[name] > limit for name, limit in limits.items())))
    known = {name: ibis.greatest(heavy[name], limit) for name, limit in limits.items()}
    if UNIT_ROWS in totals:
        known[WORTH] = _worth(known.pop(UNIT_ROWS))
        limits[WORTH] = _whole(STEPS // totals[UNIT_ROWS][1])
        del limits[UNIT_ROWS]
    heavy = heavy.select(heavy=heavy[UNIT], **known)
    joined = rows.left_join(heavy, rows[UNIT] == heavy["heavy"])
    return joined.select(*rows.columns, **{name: joined[name].fill_null(limit) for name, limit in limits.items()})


def _whole(number: int | None) -> Any:
    assert number is not None
    return ibis.literal(number, type="int64")


def _worth(rows: Any) -> Any:
    """The worth of each of so many rows."""
    return quotient(_whole(STEPS), rows)


def unit_totals(groups: Groups, measures: Sequence[Measure], values: Mapping[Any, str]) -> dict[str, UnitTotal]:
    """The totals of a unit that decide what its rows are worth: its rows, and sums with a limit of their own."""
    totals: dict[str, UnitTotal] = {}
    if groups.max_rows is not None:
        totals[UNIT_ROWS] = (lambda rows: rows.count(), groups.max_rows)
    for measure in measures:
        if measure.own_limit is not None:
            totals[f"total_{values[measure]}"] = (partial(_absolute_total, values[measure]), measure.own_limit)
    return totals


def _absolute_total(value: str, rows: ir.Table) -> Any:
    """The sum of absolute values, exact however many there are."""
    return engine_on(rows.get_backend()).total(rows[value].abs().fill_null(0))


def _worth_of_length(square: Any) -> Any:
    """The largest w with w²·square ≤ K²: a root in floats is at most one off."""
    near = (float(STEPS) / square.cast("float64").sqrt()).floor().cast("int64")
    whole = _whole(STEPS**2)
    near = ibis.ifelse(near * near * square > whole, near - 1, near)
    return ibis.ifelse((near + 1) * (near + 1) * square <= whole, near + 1, near)


@dataclass(frozen=True)
class Ranked:
    """Rows with their place among those of their unit, and with what they are worth."""

    rows: ir.Table
    place: Place
    #: Steps of each row, 0 in groups that do not count; None where every row is a unit, and counts as it is.
    worth: Any
    #: Whether the group counts for the unit.
    counts: Any


def weighted_sums(
    rows: ir.Table,
    keys: Sequence[str],
    values: Mapping[Any, str],
    measures: Sequence[Measure],
    groups: Groups,
    *,
    salt: int,
    levels: Mapping[tuple[str, ...], str] | None = None,
    cut_off: Sequence[str | Measure] = (),
) -> ir.Table:
    """Sum each group into one row: its keys, the sums `sum_i_j` of number j of measure i, and its rows that count.

    Sums beyond ±2⁶¹ count as that: no sum is an error, and a unit moves none further than without this limit.

    Parameters
    ----------
    rows
        The unit in the column "unit", its totals (`unit_totals`), the keys, and the values. Without a unit every row is
        one of its own.
    values
        Column of `rows` for each column that the measures name, and for each measure with a derived value.
    levels
        Column of `rows` with the group of each level in which distinct units are counted.
    cut_off
        The things ("rows", "units" in groups, or sums with a limit of their own, from 0 on) of which to add up how many
        steps the limits cut off and keep.
    """
    ranked = _rank(
        rows,
        list(keys),
        groups,
        salt,
        per_unit="units" in cut_off or any(measure.per_unit for measure in measures),
        by_group=groups.max_rows is None
        and ("rows" in cut_off or any(groups.is_weighted(m) and m.own_limit is None for m in measures)),
        levels=levels or {},
    )
    rows = ranked.rows
    columns = {name: rows[column] for name, column in values.items()}
    numbers: dict[str, Any] = {} if groups.shows_all else {COUNTED_ROWS: one_if(ranked.counts)}
    for i, measure in enumerate(measures):
        for j, number in enumerate(measure.contributions(columns, ranked.place)):
            numbers[f"sum_{i}_{j}"] = _steps(measure, number, ranked, groups, values)
    for thing in cut_off:
        if isinstance(thing, Measure):
            numbers |= _cut_off_total(thing, ranked, values[thing])
        else:
            numbers |= _cut_off(thing, ranked, groups)
    # A number that several things are made of is summed once.
    names = {name: next(other for other in numbers if numbers[other].equals(numbers[name])) for name in numbers}
    total = engine_on(rows.get_backend()).total
    summed = rows.select(
        **{key: rows[key] for key in keys}, **{name: numbers[name] for name in dict.fromkeys(names.values())}
    )
    sums = {name: saturated(total(summed[other])) for name, other in names.items()}
    return summed.group_by(list(keys)).agg(**sums) if keys else summed.agg(**sums)


def _cut_off(what: str, ranked: Ranked, groups: Groups) -> dict[str, Any]:
    """The steps of each row that limits cut off, and those that they keep; of a unit, at most 3K and K in all."""
    rows = ranked.rows
    if what == "units":
        pair, full = rows["position"] == 0, STEPS // groups.max_groups_per_unit
        # Of the groups of a unit, those that it does not count in.
        number = ibis.greatest(rows["group_rank"].max().over(group_by=UNIT) + 1 - groups.max_groups_per_unit, 1)
        kept = ibis.ifelse(ranked.place.first, full, 0)
        lost = ibis.ifelse(pair & ~ranked.place.first, full, 0)
    elif groups.max_rows is not None:
        lost = ibis.least(groups.full_worth - ranked.worth, MOST_CUT_OFF * rows[WORTH])
        return {"cut_rows": lost, "kept_rows": ranked.worth}
    else:
        # In a box a unit has its steps in each of several groups: as many as it has in all are told.
        boxes = 1 if groups.max_length is not None else groups.max_groups_per_unit
        number = rows.count().over(group_by=UNIT)
        kept = quotient(ranked.worth, _whole(boxes))
        lost = STEPS // boxes // groups.most_rows - kept
    times = MOST_CUT_OFF if groups.max_length is None else MOST_OF_LENGTH
    most = quotient(_whole(times * STEPS), number)
    kept = kept if groups.max_length is None else ibis.least(kept, most)
    return {f"cut_{what}": ibis.least(lost, most).cast("int64"), f"kept_{what}": kept.cast("int64")}


def _cut_off_total(measure: Measure, ranked: Ranked, value: str) -> dict[str, Any]:
    """The steps of each row that a limit on totals cuts off, and those that it keeps; of a unit, at most 3K and K."""
    steps = STEPS * ranked.rows[value].fill_null(0)
    kept = quotient(steps, _unit_total(measure, ranked, value))
    lost = quotient(steps, _whole(measure.own_limit)) - kept
    return {f"cut_{value}": ibis.least(lost, MOST_CUT_OFF * kept), f"kept_{value}": kept}


def _unit_total(measure: Measure, ranked: Ranked, value: str) -> Any:
    """The total of a unit, at least its limit; of a row that is a unit, the limit, which it does not exceed."""
    name = f"total_{value}"
    return ranked.rows[name] if name in ranked.rows.columns else _whole(measure.own_limit)


def _steps(measure: Measure, number: Any, ranked: Ranked, groups: Groups, values: Mapping[Any, str]) -> Any:
    """The steps that a row adds to a measure: rounded toward 0."""
    if not groups.is_weighted(measure):
        return number
    if measure.own_limit is not None:
        steps, of = ibis.ifelse(ranked.counts, STEPS, 0), _unit_total(measure, ranked, values[measure])
    elif measure.low == measure.high == 1:
        return ranked.worth
    elif measure.largest == 1:
        return number * ranked.worth
    else:
        steps, of = ranked.worth, _whole(measure.largest)
    return quotient(steps * number, of)


def _rank(
    rows: ir.Table,
    keys: list[str],
    groups: Groups,
    salt: int,
    *,
    per_unit: bool,
    by_group: bool,
    levels: Mapping[tuple[str, ...], str],
) -> Ranked:
    """Rank the groups of each unit by a salted hash, where anything depends on that, and say what rows are worth."""
    yes, nothing = ibis.literal(True), _whole(0)
    if groups.each_row:
        return Ranked(rows, Place(yes, {(): yes, **dict.fromkeys(levels, yes)}), None, yes)
    counts: Any = yes
    if keys and (per_unit or by_group or not groups.shows_all):
        engine = engine_on(rows.get_backend())
        rows = rows.mutate(choice=engine.hashed(salt, [rows[name] for name in (UNIT, *keys)]))
        # The keys come after the hashes: groups whose hashes are equal are still two.
        order = {"group_by": UNIT, "order_by": ["choice", *keys]}
        each, peers = ibis.window(**order), ibis.range_window(**order, preceding=0, following=0)
        places = {"group_rank": ibis.dense_rank().over(each)}
        places |= {"position": ibis.row_number().over(each) - ibis.rank().over(each)} if per_unit else {}
        places |= {"group_rows": rows.count().over(peers)} if by_group else {}
        rows = rows.mutate(**places)
        if groups.limits_groups:
            counts = rows["group_rank"] < groups.max_groups_per_unit
    elif per_unit:
        rows = rows.mutate(group_rank=nothing, position=ibis.row_number().over(group_by=UNIT))
    place = _place(rows, counts, keys, levels) if per_unit else Place(yes, {})
    if by_group and groups.max_length is not None:
        total = engine_on(rows.get_backend()).total
        square = _at_most(total(rows["group_rows"].cast("int64")).over(group_by=UNIT))
        worth = _worth_of_length(ibis.greatest(square, _whole(groups.max_length**2)))
        counts = yes if groups.shows_all else counts
        return Ranked(rows, place, ibis.ifelse(counts, worth, nothing), counts)
    if by_group:
        most = ibis.greatest(rows["group_rows"], _whole(groups.max_rows_per_group))
        return Ranked(rows, place, ibis.ifelse(counts, _worth(most), nothing), counts)
    # Units are counted in few of their groups; their rows count in all of them, unless groups are chosen by their size.
    counts = yes if groups.shows_all else counts
    if groups.max_rows is None:
        return Ranked(rows, place, nothing, counts)
    worth = rows[WORTH]
    return Ranked(rows, place, worth if groups.shows_all else ibis.ifelse(counts, worth, nothing), counts)


def _place(rows: ir.Table, counts: Any, keys: list[str], levels: Mapping[tuple[str, ...], str]) -> Place:
    """The rows that count for their unit: one in each group that counts, in each group of a level, and in the table."""
    first = (rows["position"] == 0) & counts
    starts: dict[tuple[str, ...], Any] = {(): first & (rows["group_rank"] == 0) if keys else first}
    for level, column in levels.items():
        # Of the groups that a unit is in within one of a level, the first by its rank.
        starts[level] = first & (rows["group_rank"] == rows["group_rank"].min().over(group_by=[UNIT, column]))
    return Place(first, starts)
