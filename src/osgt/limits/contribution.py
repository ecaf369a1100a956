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
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from operator import or_
from typing import Any

from osgt.data.sql import Join, Table, Value
from osgt.limits.distinct import Pairs, number_of_values, with_pairs
from osgt.query.groups import STEPS, Groups
from osgt.query.measures import Distinct, LimitedSum, Measure, Place
from osgt.query.values import one_if
from osgt.sampling.entropy import token
from osgt.support.numeric import LARGEST_SUM

#: The columns of rows with their unit, with the number of its rows, and with what each of them is worth for that.
UNIT, UNIT_ROWS, WORTH = "unit", "unit_rows", "worth"

#: The columns of rows with a hash of unit and group, the rank of the group by it, and the rows that the unit has there;
#: and with the row's place among these, from 0 on.
CHOICE, RANK, GROUP_ROWS, PLACE = "choice", "group_rank", "group_rows", "place_in_group"

#: The column of sums that says how many rows of a group count.
COUNTED_ROWS = "counted_rows"

#: Of each unit at most so many times its steps are told as cut off; and as kept, where that can be more than one.
MOST_CUT_OFF, MOST_OF_LENGTH = 3, 11


def fresh_salt() -> int:
    """A salt for one release."""
    return int(token(8), 16) >> 2


def quotient(numerator: Value, denominator: Value) -> Value:
    """A quotient of whole numbers, rounded toward 0."""
    return numerator.engine.quotient(numerator, denominator)


def saturate(total: Value) -> Value:
    """A total as an integer of 64 bits, at most 2⁶¹ from zero; 0 where nothing was added up."""
    return total.or_else(0).at_least(-LARGEST_SUM).at_most(LARGEST_SUM).cast(total.engine.int64)


def _at_most(total: Value) -> Value:
    """A total of a unit as an integer of 64 bits; one beyond 2⁶¹ is so large that its rows are worth nothing."""
    return total.or_else(0).at_most(LARGEST_SUM + 1).cast(total.engine.int64)


#: A total of all rows of a unit, given rows and what they share if it is for each of them; and its limit.
UnitTotal = tuple[Callable[[Table, Sequence[Value]], Value], int]


def with_unit_totals(rows: Table, totals: Mapping[str, UnitTotal]) -> Table:
    """Attach to each row some totals of its unit, each at least its limit; of the number of its rows, the row's worth.

    `totals` has for each new column the total of rows, as a value, and the limit. No row may be without a unit.
    """
    if not totals:
        return rows
    whole = rows.engine.whole
    limits = {name: limit for name, (_, limit) in totals.items()}
    if not rows.engine.computes_once:
        over = {name: total(rows, [rows[UNIT]]).at_least(limit) for name, (total, limit) in totals.items()}
        rows = rows.select("unit_totals", "Every row with the totals of its unit.", over, keeps_all=True)
        if UNIT_ROWS not in totals:
            return rows
        worth = quotient(whole(STEPS), rows[UNIT_ROWS])
        return rows.select("weighted_rows", _WEIGHTED, {WORTH: worth}, keeps_all=True)
    # Few units exceed a limit: only these are looked up.
    units = rows.select(
        "unit_totals",
        "The totals of each unit over all its rows.",
        {name: total(rows, ()) for name, (total, _) in totals.items()},
        group_by=[UNIT],
    )
    known = {name: units[name].at_least(limit) for name, limit in limits.items()}
    if UNIT_ROWS in totals:
        known[WORTH] = quotient(whole(STEPS), known.pop(UNIT_ROWS))
        limits[WORTH] = STEPS // limits.pop(UNIT_ROWS)
    heavy = units.select(
        "heavy_units",
        "The units beyond a limit, and what each of their rows is worth.",
        {"heavy_unit": units[UNIT], **known},
        where=[reduce(or_, (units[name] > limit for name, (_, limit) in totals.items()))],
    )
    kept = {name: rows[name] for name in rows.columns}
    return rows.select(
        "weighted_rows",
        _WEIGHTED,
        {**kept, **{name: heavy[name].or_else(limit) for name, limit in limits.items()}},
        joins=[Join(heavy, rows[UNIT].equals(heavy["heavy_unit"]), "LEFT JOIN")],
    )


#: The comment of rows with their worth.
_WEIGHTED = f"Every row with what it is worth: a unit has {STEPS} steps, and spreads them over its rows."


def unit_totals(groups: Groups, measures: Sequence[Measure], values: Mapping[Any, str]) -> dict[str, UnitTotal]:
    """The totals of a unit that decide what its rows are worth: its rows, and sums with a limit of their own."""
    totals: dict[str, UnitTotal] = {}
    if groups.max_rows is not None:
        totals[UNIT_ROWS] = (number_of_rows, groups.max_rows)
    for measure in measures:
        if isinstance(measure, LimitedSum):
            totals[f"total_{values[measure]}"] = (partial(_absolute_total, values[measure]), measure.own_limit)
    return totals


def number_of_rows(rows: Table, over: Sequence[Value]) -> Value:
    """The number of rows."""
    return rows.count().over(over)


def _absolute_total(value: str, rows: Table, over: Sequence[Value]) -> Value:
    """The sum of absolute values, exact however many there are."""
    return _at_most(rows.engine.total(rows[value].abs().or_else(0), over))


def _worth_of_length(square: Value) -> Value:
    """The largest w with w²·square ≤ K²: a root in floats is at most one off."""
    engine = square.engine
    root = engine.call("sqrt", square.cast(engine.float64), returns=engine.float64)
    near = (engine.real(float(STEPS)) / root).floor().cast(engine.int64)
    near = (near * near * square > STEPS**2).then(near - 1, near)
    return ((near + 1) * (near + 1) * square <= STEPS**2).then(near + 1, near)


@dataclass(frozen=True)
class Ranked:
    """Rows with their place among those of their unit, and with what they are worth."""

    rows: Table
    place: Place
    #: Steps of each row, 0 in groups that do not count; 1 where every row is a unit, and counts as it is.
    worth: Value
    #: Whether the group counts for the unit.
    counts: Value
    #: The pairs of group and value that count, of the measures that count distinct values.
    pairs: Mapping[Distinct, Pairs] = field(default_factory=dict)


def weighted_sums(
    rows: Table,
    keys: Sequence[str],
    values: Mapping[Any, str],
    measures: Sequence[Measure],
    groups: Groups,
    *,
    salt: int,
    levels: Mapping[tuple[str, ...], str] | None = None,
    cut_off: Sequence[str | Measure] = (),
) -> Table:
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
        by_group=groups.max_rows is None and ("rows" in cut_off or groups.weighs_rows(measures)),
        levels=levels or {},
    )
    ranked = _with_pairs(ranked, keys, values, measures, groups, salt, cut_off)
    rows = ranked.rows
    numbers: dict[str, Value] = {} if groups.shows_all else {COUNTED_ROWS: one_if(ranked.counts)}
    numbers |= _contributions(measures, ranked, groups, values)
    for thing in cut_off:
        numbers |= _cut_off(thing, ranked, groups) if isinstance(thing, str) else _cut_off_own(thing, ranked, values)
    # A number that several things are made of is summed once.
    first = {value.sql: name for name, value in reversed(numbers.items())}
    summed = rows.select(
        "contributions",
        "The steps that each row adds to each number of its group, and those that limits cut off.",
        {**{key: rows[key] for key in keys}, **{name: numbers[name] for name in numbers if name in first.values()}},
    )
    return summed.select(
        "exact_sums",
        "The exact sums of each group. Nobody sees them: noise is added before anything is shown.",
        {name: _summed(name, summed[first[value.sql]], measures) for name, value in numbers.items()},
        group_by=keys,
    )


def _summed(name: str, steps: Value, measures: Sequence[Measure]) -> Value:
    """Sum what the rows of a group add to a number; or count its different values."""
    own = measures[int(name.split("_")[1])] if name.startswith("sum_") else None
    return number_of_values(steps, own) if isinstance(own, Distinct) else saturate(steps.engine.total(steps))


def _with_pairs(
    ranked: Ranked,
    keys: Sequence[str],
    values: Mapping[Any, str],
    measures: Sequence[Measure],
    groups: Groups,
    salt: int,
    cut_off: Sequence[str | Measure],
) -> Ranked:
    """Say with which values each unit counts, in groups that count for it where these are chosen by their size."""
    distinct = {measure: values[measure] for measure in measures if isinstance(measure, Distinct)}
    if not distinct:
        return ranked
    rows, pairs = with_pairs(
        ranked.rows,
        keys,
        ranked.rows.engine.literal(True) if groups.shows_all else ranked.counts,
        distinct,
        unit=None if groups.each_row else UNIT,
        salt=salt,
        cut_off=cut_off,
    )
    return replace(ranked, rows=rows, pairs=pairs)


def _contributions(
    measures: Sequence[Measure], ranked: Ranked, groups: Groups, values: Mapping[Any, str]
) -> dict[str, Value]:
    """The steps that each row adds to every number of every measure."""
    columns = {name: ranked.rows[column] for name, column in values.items()}
    return {
        f"sum_{i}_{j}": _steps(measure, number, ranked, groups, values)
        for i, measure in enumerate(measures)
        for j, number in enumerate(measure.contributions(columns, ranked.place))
    }


def _cut_off(what: str, ranked: Ranked, groups: Groups) -> dict[str, Value]:
    """The steps of each row that limits cut off, and those that they keep; of a unit, at most 3K and K in all."""
    rows, whole = ranked.rows, ranked.rows.engine.whole
    if what == "units":
        pair, full = rows[PLACE].equals(0), STEPS // groups.max_groups_per_unit
        # Of the groups of a unit, those that it does not count in.
        number = (rows[RANK].max().over([rows[UNIT]]) - groups.max_groups_per_unit).at_least(1)
        kept = ranked.place.first.then(full, 0)
        lost = (pair & ~ranked.place.first).then(full, 0)
    elif groups.max_rows is not None:
        lost = (whole(groups.full_worth) - ranked.worth).at_most(rows[WORTH] * MOST_CUT_OFF)
        return {"cut_rows": lost, "kept_rows": ranked.worth}
    else:
        # In a box a unit has its steps in each of several groups: as many as it has in all are told.
        boxes = 1 if groups.max_length is not None else groups.max_groups_per_unit
        number = rows.count().over([rows[UNIT]])
        kept = quotient(ranked.worth, whole(boxes))
        lost = whole(STEPS // boxes // groups.most_rows) - kept
    times = MOST_CUT_OFF if groups.max_length is None else MOST_OF_LENGTH
    most = quotient(whole(times * STEPS), number)
    kept = kept if groups.max_length is None else kept.at_most(most)
    return {f"cut_{what}": lost.at_most(most), f"kept_{what}": kept}


def _cut_off_own(measure: Measure, ranked: Ranked, values: Mapping[Any, str]) -> dict[str, Value]:
    """The steps of each row that a limit of a measure's own cuts off, and those that it keeps."""
    if not isinstance(measure, Distinct):
        return _cut_off_total(measure, ranked, values[measure])
    return dict(zip((f"cut_{values[measure]}", f"kept_{values[measure]}"), ranked.pairs[measure].fates, strict=True))


def _cut_off_total(measure: Measure, ranked: Ranked, value: str) -> dict[str, Value]:
    """The steps of each row that a limit on totals cuts off, and those that it keeps; of a unit, at most 3K and K."""
    steps = ranked.rows[value].or_else(0) * STEPS
    kept = quotient(steps, _unit_total(measure, ranked, value))
    lost = quotient(steps, _own_limit(measure, ranked)) - kept
    return {f"cut_{value}": lost.at_most(kept * MOST_CUT_OFF), f"kept_{value}": kept}


def _unit_total(measure: Measure, ranked: Ranked, value: str) -> Value:
    """The total of a unit, at least its limit; of a row that is a unit, the limit, which it does not exceed."""
    name = f"total_{value}"
    return ranked.rows[name] if name in ranked.rows.columns else _own_limit(measure, ranked)


def _own_limit(measure: Measure, ranked: Ranked) -> Value:
    assert measure.own_limit is not None
    return ranked.rows.engine.whole(measure.own_limit)


def _steps(measure: Measure, number: Value, ranked: Ranked, groups: Groups, values: Mapping[Any, str]) -> Value:
    """The steps that a row adds to a measure: rounded toward 0."""
    if isinstance(measure, Distinct):
        return ranked.pairs[measure].value
    if not groups.is_weighted(measure):
        return number
    if measure.own_limit is not None:
        steps, of = ranked.counts.then(STEPS, 0), _unit_total(measure, ranked, values[measure])
    elif measure.low == measure.high == 1:
        return ranked.worth
    elif measure.largest == 1:
        return number * ranked.worth
    else:
        steps, of = ranked.worth, ranked.rows.engine.whole(measure.largest)
    return quotient(steps * number, of)


def _rank(
    rows: Table,
    keys: list[str],
    groups: Groups,
    salt: int,
    *,
    per_unit: bool,
    by_group: bool,
    levels: Mapping[tuple[str, ...], str],
) -> Ranked:
    """Rank the groups of each unit by a salted hash, where anything depends on that, and say what rows are worth."""
    engine = rows.engine
    yes, nothing = engine.literal(True), engine.whole(0)
    if groups.each_row:
        return Ranked(rows, Place(yes, {(): yes, **dict.fromkeys(levels, yes)}), engine.whole(1), yes)
    counts = yes
    if keys and (per_unit or by_group or not groups.shows_all):
        rows = _in_order(rows, keys, salt, per_unit=per_unit, by_group=by_group)
        if groups.limits_groups:
            counts = rows[RANK] <= groups.max_groups_per_unit
    elif per_unit:
        number = _window_function(rows, "row_number").over([rows[UNIT]], [engine.literal(None)])
        places = {RANK: engine.whole(1), PLACE: number - 1}
        rows = rows.select("ranked_rows", "The rows of each unit, in any order.", places, keeps_all=True)
    place = _place(rows, counts, keys, levels) if per_unit else Place(yes, {})
    if groups.shows_all and not (by_group and groups.max_length is None):
        # Units are counted in few of their groups; their rows count in all of them, unless groups are chosen by size.
        counts = yes
    if by_group:
        worth = counts.then(_worth_in_group(rows, groups), nothing)
        rows = rows.select("weighted_rows", _WEIGHTED, {WORTH: worth}, keeps_all=True)
        return Ranked(rows, place, rows[WORTH], counts)
    return Ranked(rows, place, nothing if groups.max_rows is None else counts.then(rows[WORTH], nothing), counts)


def _worth_in_group(rows: Table, groups: Groups) -> Value:
    """The steps of a row that follow from the rows of its unit in each group: under a limit of length, or in a box."""
    if groups.max_length is not None:
        square = _at_most(rows.engine.total(rows[GROUP_ROWS], [rows[UNIT]]))
        return _worth_of_length(square.at_least(groups.max_length**2))
    assert groups.max_rows_per_group is not None
    return quotient(rows.engine.whole(STEPS), rows[GROUP_ROWS].at_least(groups.max_rows_per_group))


def _in_order(rows: Table, keys: Sequence[str], salt: int, *, per_unit: bool, by_group: bool) -> Table:
    """Put the groups of each unit into the order of a salted hash: their ranks, from 1 on, and places of rows, from 0.

    The keys come after the hashes: groups whose hashes are equal are still two.
    """
    hashed = rows.select(
        "hashed_rows",
        "A salted hash of unit and group, by which the groups of a unit are put into an order.",
        {CHOICE: rows.engine.hashed(salt, [rows[name] for name in (UNIT, *keys)])},
        keeps_all=True,
    )
    partition, order = [hashed[UNIT]], [hashed[name] for name in (CHOICE, *keys)]
    row_number, rank, dense_rank = (
        _window_function(hashed, name).over(partition, order) for name in ("row_number", "rank", "dense_rank")
    )
    places = {RANK: dense_rank}
    places |= {PLACE: row_number - rank} if per_unit else {}
    peers = "RANGE BETWEEN CURRENT ROW AND CURRENT ROW"
    places |= {GROUP_ROWS: hashed.count().over(partition, order, peers)} if by_group else {}
    return hashed.select(
        "ranked_rows", "The rows with the rank of their group among those of their unit.", places, keeps_all=True
    )


def _window_function(rows: Table, name: str) -> Value:
    return Value(f"{name}()", rows.engine.int64, rows.engine)


def _place(rows: Table, counts: Value, keys: list[str], levels: Mapping[tuple[str, ...], str]) -> Place:
    """The rows that count for their unit: one in each group that counts, in each group of a level, and in the table."""
    first = rows[PLACE].equals(0) & counts
    starts: dict[tuple[str, ...], Value] = {(): first & rows[RANK].equals(1) if keys else first}
    for level, column in levels.items():
        # Of the groups that a unit is in within one of a level, the first by its rank.
        starts[level] = first & rows[RANK].equals(rows[RANK].min().over([rows[UNIT], rows[column]]))
    return Place(first, starts)
