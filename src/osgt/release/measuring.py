"""Exact (private!) aggregates from the engine, and the same numbers with noise.

The query for the engine has the rows with the columns that are needed, and the exact, weighted sums of each group.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from osgt.data.engines.query import EngineQuery, check_query, compile_query, fetch
from osgt.data.sql import Join, Table, Value
from osgt.data.types import ColumnType
from osgt.limits.contribution import COUNTED_ROWS, UNIT, fresh_salt, unit_totals, weighted_sums, with_unit_totals
from osgt.limits.left_out import LeftOut
from osgt.limits.misfits import fitting_rows
from osgt.mechanism import Mechanism
from osgt.plan.agreement import SharedNumbers
from osgt.plan.plan import Plan
from osgt.plan.reconciled import Reconciled
from osgt.plan.structure import Structure
from osgt.plan.total_rows import ChosenGroups, joined, level_columns, order_of_rows, with_others, with_totals
from osgt.query.aggregates.base import QuerySpec, rate_names
from osgt.query.aggregates.marks import MARK, Marks, marked_columns
from osgt.query.groups import Groups, UnitsAt, is_nested
from osgt.query.keys import KEY
from osgt.query.measures import Measure
from osgt.query.quantiles import QuantileDraw
from osgt.release.exponential_mechanism import draw_bins
from osgt.support.errors import ArgumentError, OsgtError
from osgt.support.numeric import LARGEST_SUM, Floats


def exact_sums(query: QuerySpec, measures: list[Measure], salt: int, cut_off: Sequence[str | Measure] = ()) -> Table:
    """The exact, weighted sums of each group, and how much of which things is cut off: a query for the engine."""
    rows, keys, values = prepared_rows(query, measures, numbered=False)
    counted = {measure.by for measure in measures if isinstance(measure, UnitsAt) and measure.by}
    return weighted_sums(
        rows,
        keys,
        values,
        measures,
        query.groups,
        salt=salt,
        levels={by: name for by, name in _level_names(query.groups).items() if by in counted},
        cut_off=cut_off,
    )


def _level_names(groups: Groups) -> dict[tuple[str, ...], str]:
    """The column of the prepared rows that has the group of each level; the table as a whole needs none."""
    return {level.by: f"level_{i}" for i, level in enumerate(groups.levels) if level.by}


def prepared_rows(
    query: QuerySpec,
    measures: Sequence[Measure],
    *,
    numbered: bool = True,
    with_totals: bool = True,
    with_keys: bool = True,
) -> tuple[Table, list[str], dict[Any, str]]:
    """The rows with the columns that are needed, under names of our own; rows with other than public keys are gone.

    Rows that are units of their own get a number as their unit, if they are to be `numbered`. Other units are counted
    with all their rows, also those with other keys: tables with the same rows give a row the same worth. Rows without a
    unit are gone.

    Without totals, what rows are worth is not known; without keys, rows with any keys are there.
    """
    data, by = query.dataset, query.groups.by if with_keys else ()
    table, engine, unit = data.table, data.engine, data.unit
    sources, values = _sources(table, measures), value_names(query, measures)
    keys = [f"key_{i}" for i in range(len(by))]
    # A table has at least one column.
    without = unit.each_row and not numbered
    columns = {"each_row": engine.literal(True)} if without else {UNIT: unit.value(engine, table)}
    columns |= {key: engine.carried(table[name]) for key, name in zip(keys, by, strict=True)}
    columns |= {value: sources[source] for source, value in values.items()}
    further = _further(query, with_keys=with_keys)
    columns |= {key: engine.carried(table[name]) for key, (name, _) in further.items()}
    is_public = query.groups.public is not None and with_keys
    rows = table.select(
        "private_rows",
        "The rows that meet the conditions: whom each is about, its keys, and the values that are needed.",
        columns,
        where=[*data.conditions, *unit.named(table)],
        once=is_public or bool(further),  # where a view gives others every time, a row could be in several groups
    )
    if not unit.each_row and with_totals:
        rows = with_unit_totals(rows, unit_totals(query.groups, measures, values))
    rows = _with_further_keys(rows, further, table.columns)
    if not is_public:
        return rows, keys, values
    types = [table.columns[name] for name in by]
    return _with_public_keys(rows, keys, types, query.groups, _places(query.groups, measures)), [KEY], values


def value_names(query: QuerySpec, measures: Sequence[Measure]) -> dict[Any, str]:
    """The names of the values that measures are made of, as `prepared_rows` gives them."""
    return {source: f"value_{i}" for i, source in enumerate(_sources(query.dataset.table, measures))}


def _sources(table: Table, measures: Sequence[Measure]) -> dict[Any, Value]:
    """The values that measures are made of: columns by their names, and what some derive of a row."""
    names = dict.fromkeys(column for measure in measures for column in measure.columns)
    sources: dict[Any, Value] = {name: table[name] for name in names}
    return sources | {measure: value for measure in measures if (value := measure.derived(table)) is not None}


def _places(groups: Groups, measures: Sequence[Measure]) -> dict[str, Any]:
    """The group of each public key in the levels whose units are counted, by the column that has it."""
    counted = {measure.by for measure in measures if isinstance(measure, UnitsAt)}
    names = _level_names(groups)
    return {names[level.by]: level.places for level in groups.levels if level.by and level.by in counted}


def _further(query: QuerySpec, *, with_keys: bool) -> dict[str, tuple[str, pa.Array]]:
    """The keys by which tables are grouped that agree with this one, and their values, by names of our own."""
    keys = query.groups.further.items() if with_keys else []
    return {f"further_{i}": key for i, key in enumerate(keys)}


def _with_further_keys(rows: Table, keys: Mapping[str, tuple[str, pa.Array]], types: Mapping[str, ColumnType]) -> Table:
    """The rows with a public value of each of the further keys."""
    engine = rows.engine
    for key, (column, values) in keys.items():
        name = f"public_{key}"
        given = engine.small_table(rows.connection, pa.table({name: values}))
        carried = {name: engine.carried(engine.public_key(given[name], types[column]))}
        theirs = given.select("carried_keys", "The public values of a key of other tables.", carried)
        once = theirs.select("further_keys", "Each of them once.", {}, group_by=[name])
        same = rows[key].compare("IS NOT DISTINCT FROM" if values.null_count else "=", once[name])
        rows = rows.select(
            "agreeing_rows",
            "The rows that tables which agree with this one have as well.",
            {each: rows[each] for each in rows.columns if each != key},
            joins=[Join(once, same)],
        )
    return rows


def _with_public_keys(
    rows: Table, keys: list[str], types: list[ColumnType], groups: Groups, places: Mapping[str, Any]
) -> Table:
    """The rows whose keys are public: numbers in place of keys, those of their groups and of these in some levels."""
    public, engine = groups.public, rows.engine
    assert public is not None
    public_names = [f"public_{i}" for i in range(len(keys))]
    numbered = public.rename_columns(public_names)
    for name, numbers in {KEY: np.arange(public.num_rows), **places}.items():
        numbered = numbered.append_column(name, pa.array(numbers, pa.int32()))
    given = engine.small_table(rows.connection, numbered)
    carried = {name: engine.carried(engine.public_key(given[name], types[i])) for i, name in enumerate(public_names)}
    theirs = given.select(
        "carried_keys",
        "The public keys in the form in which the keys of rows are compared.",
        {KEY: given[KEY], **{name: given[name] for name in places}, **carried},
    )
    public_keys = theirs.select(
        "public_keys",
        "Each public key once: of two that are one to the engine, a row is in the group of the first.",
        {name: theirs[name].min() for name in (KEY, *places)},
        group_by=public_names,
    )
    # An equality can be looked up in a hash table on every engine; one that takes null for equal cannot.
    same = [
        rows[key].compare("IS NOT DISTINCT FROM" if public.column(i).null_count else "=", public_keys[f"public_{i}"])
        for i, key in enumerate(keys)
    ]
    on = same[0]
    for each in same[1:]:
        on = on & each
    kept = {name: rows[name] for name in rows.columns if name not in keys}
    return rows.select(
        "grouped_rows",
        "The rows in public groups, with the number of their group.",
        {KEY: public_keys[KEY], **{name: public_keys[name] for name in places}, **kept},
        joins=[Join(public_keys, on)],
    )


class NothingReleasedError(OsgtError, RuntimeError):
    """The budget was charged and the data may have been read, but nothing came out.

    Whether this happens may depend on single rows, and so may the error behind it, which is kept as `__cause__` for
    whoever may see the data. The message quotes nothing: of the error it names the class alone, if that stands in its
    module, and so cannot have been named by data.
    """

    def __init__(self, error: BaseException, *, charged: bool) -> None:
        stands = "The charge to the ledger stands. " if charged else ""
        name = type(error).__name__
        stands_there = getattr(sys.modules.get(type(error).__module__), name, None) is type(error)
        kind = f" ({name})" if stands_there else ""
        super().__init__(
            f"Nothing was released: reading the data failed after the budget was charged{kind}. {stands}"
            "The reason is not shown, because it may quote the data. Do not publish that this happened: it may depend "
            "on the data of one person."
        )


@dataclass(frozen=True)
class Exact:
    """The keys of all groups, the exact numbers of each measure and those of what is left out. Nobody may see them."""

    keys: pa.Table
    numbers: Mapping[Measure, NDArray[np.int64]]
    left_out: Mapping[str, NDArray[np.int64]]


@dataclass(frozen=True)
class Presentation:
    """How numbers are shown: negative ones as 0; intervals that allow for what limits cut off, or for noise alone.

    With `marks`, beside each number how certain it is. The statement names the entry in the ledger of the release that
    this one `corrects`.
    """

    nonnegative: bool = False
    intervals: Literal["truth", "noise"] = "truth"
    marks: Marks | None = None
    corrects: int | None = None

    def __post_init__(self) -> None:
        if self.intervals not in ("truth", "noise"):
            raise ArgumentError(f'intervals must be "truth" or "noise", got {self.intervals!r}', argument="intervals")


def check_presentation(plan: Plan, presentation: Presentation) -> None:
    """Raise unless the numbers of a plan can be shown like that. Reads nothing."""
    known = plan.planning.known.values()
    if presentation.nonnegative and not all(is_nested([level.by for level in levels]) for levels in known):
        raise ArgumentError(
            "nonnegative must be left out where known totals cross: whole numbers from 0 on need not have such sums",
            argument="nonnegative",
        )


@dataclass(frozen=True)
class Measured:
    """The keys of the groups that are shown, what was measured of them with noise, and what was left out."""

    keys: pa.Table
    noisy: Mapping[Measure, NDArray[np.int64]]
    left_out: LeftOut | None


def prepare(query: QuerySpec, plan: Plan, salt: int | None = None) -> EngineQuery:
    """The query for the engine: all that can be refused is refused here. No row is read.

    A release has a fresh salt; an audit plays it again with the one that is given.
    """
    query.dataset.check_files()
    ready = compile_release(query, plan, fresh_salt() if salt is None else salt)
    for each in (ready, ready.beside):
        if each is not None:
            check_query(each)
    return ready


def compile_release(query: QuerySpec, plan: Plan, salt: int) -> EngineQuery:
    """Write the query for the engine, and the one beside it about values that do not fit their types."""
    left_out = plan.left_out
    ready = compile_query(exact_sums(query, summed(plan), salt, () if left_out is None else left_out.things))
    misfits = () if left_out is None else left_out.misfits
    beside = compile_query(left_out.fitting(fitting_rows(query.dataset, misfits))) if left_out and misfits else None
    return replace(ready, beside=beside, salt=salt)


def exact_numbers(query: QuerySpec, plan: Plan, ready: EngineQuery) -> Exact:
    """Fetch the exact numbers from the engine."""
    answer = fetch(ready)
    left_out: dict[str, NDArray[np.int64]] = {}
    if plan.left_out is not None:
        numbers = {measure: answer_of(answer, i, measure) for i, measure in enumerate(summed(plan))}
        left_out |= plan.left_out.exact(answer, numbers, value_names(query, summed(plan)))
        if ready.beside is not None:
            left_out |= plan.left_out.exact_fitting(fetch(ready.beside))
    keys, sums = _exact(query, summed(plan), answer)
    return Exact(keys, {measure: measure.exact(sums) for measure in plan.parts}, left_out)


def with_noise(query: QuerySpec, plan: Plan, exact: Exact) -> Measured:
    """Select the groups to show, and add noise to all numbers."""
    chosen, noisy = noisy_numbers(plan, exact.numbers)
    keys = shown_keys(query, exact.keys.take(pa.array(np.flatnonzero(chosen))))
    return Measured(keys, noisy, None if plan.left_out is None else _left_out(query, plan, exact.left_out))


def _left_out(query: QuerySpec, plan: Plan, exact: Mapping[str, NDArray[np.int64]]) -> LeftOut:
    """Estimate what the bounds left out, from numbers with noise."""
    assert plan.left_out is not None
    laws = {name: law for name, (law, _) in plan.noise.extra_noise.items()}
    noisy = noisy_left_out(plan, exact)
    examples = query.dataset.source.examples
    types = {name: f"{dtype}, as {examples[name]}" for name, dtype in query.dataset.declared_types.items()}
    return LeftOut.of(plan.left_out, noisy, laws, plan.confidence, types)


def noisy_left_out(plan: Plan, exact: Mapping[str, NDArray[np.int64]]) -> dict[str, NDArray[np.int64]]:
    """The numbers of what is left out, with noise."""
    noisy = {}
    for name, numbers in exact.items():
        law, part = plan.noise.extra_noise[name]
        noisy[name] = np.asarray(Mechanism.of(law, part.shift, part.coordinates).release(numbers))
    return noisy


def summed(plan: Plan) -> list[Measure]:
    """List the measures that the engine sums: those of the plan, or their terms, and values outside of bounds."""
    outside = [] if plan.left_out is None else plan.left_out.outside.values()
    return list(dict.fromkeys([*(each for measure in plan.parts for each in measure.summed), *outside]))


def answer_of(sums: pa.Table, place: int, measure: Measure) -> NDArray[np.int64]:
    """The numbers of a measure in the engine's answer, one row for each group there."""
    return np.stack([_integers(sums[f"sum_{place}_{j}"]) for j in range(measure.numbers)], axis=1)


def shown_keys(query: QuerySpec, keys: pa.Table) -> pa.Table:
    """The keys of groups in the types of their columns; public keys are as they were given."""
    if query.groups.public is not None or not query.groups.by:
        return keys
    types = [query.dataset.table.columns[name] for name in query.groups.by]
    shown = query.dataset.engine.shown
    columns = [shown(column.combine_chunks(), dtype) for column, dtype in zip(keys.columns, types, strict=True)]
    return pa.table(columns, names=list(query.groups.by))


def _exact(
    query: QuerySpec, measures: list[Measure], sums: pa.Table
) -> tuple[pa.Table, dict[Measure, NDArray[np.int64]]]:
    """The keys of the groups, and for each measure its exact numbers, one row for each group.

    Where groups are chosen by their size, one exists through its rows that count, and not through others.
    """
    groups = query.groups
    if not groups.shows_all:
        sums = sums.filter(pa.array(_integers(sums[COUNTED_ROWS]) > 0))
    exact = {measure: answer_of(sums, i, measure) for i, measure in enumerate(measures)}
    if groups.public is not None:
        at = _integers(sums[KEY])
        for measure, numbers in exact.items():
            every = np.zeros((groups.public.num_rows, numbers.shape[1]), dtype=np.int64)
            every[at] = numbers
            exact[measure] = every
        return groups.public, exact
    keys = pa.table([sums[f"key_{i}"] for i in range(len(groups.by))], names=list(groups.by))
    if not groups.by:
        keys = pa.table({"": np.zeros(1)}).select([])
    return keys, exact


def noisy_numbers(
    plan: Plan, exact: Mapping[Measure, NDArray[np.int64]]
) -> tuple[NDArray[np.bool_], dict[Measure, NDArray[np.int64]]]:
    """Select the groups to show, and add noise to the measures of these."""
    mechanisms = {m: Mechanism.of(plan.laws[m], plan.parts[m].shift, plan.parts[m].coordinates) for m in exact}
    noisy: dict[Measure, NDArray[np.int64]] = {}
    shown = np.ones(next(len(numbers) for measure, numbers in exact.items() if not measure.for_table), dtype=bool)
    if plan.selector is not None and plan.selection is not None:
        counts = mechanisms[plan.selector].release(exact[plan.selector])
        shown = counts[:, 0] >= plan.selection.threshold
        noisy[plan.selector] = counts[shown]
    for measure, numbers in exact.items():
        if isinstance(measure, QuantileDraw):
            noisy[measure] = draw_bins(measure, numbers[shown], plan.laws[measure])
        elif measure not in noisy:
            noisy[measure] = mechanisms[measure].release(numbers if measure.for_table else numbers[shown])
    return shown, noisy


def _integers(column: pa.ChunkedArray) -> NDArray[np.int64]:
    return np.asarray(column.cast(pa.int64()).to_numpy(), dtype=np.int64)


def noisy_table(
    query: QuerySpec,
    plan: Plan,
    answer: Measured,
    presentation: Presentation,
    shared: SharedNumbers | None = None,
) -> pa.Table:
    """The table that is published, made of numbers with noise alone: its own, or those that it shares with others."""
    return with_rates(query, _with_intervals(query, plan, answer, presentation, shared))


def with_rates(query: QuerySpec, table: pa.Table) -> pa.Table:
    """The table with a rate after each number that is to be divided, and with the ends of its interval."""
    groups = query.groups
    if groups.rates is None:
        return table
    own = np.array(groups.rates.numbers, dtype=np.float64)
    if groups.levels:
        structure = Structure(groups)
        own = np.concatenate([np.bincount(places, own) for places in structure.places])[order_of_rows(groups)]
    for name, rate in rate_names(query).items():
        last = max(place for place, other in enumerate(table.column_names) if other in (f"{name}_high", name + MARK))
        for place, end in enumerate(("", "_low", "_high"), last + 1):
            table = table.add_column(place, rate + end, groups.rates.divide(table[name + end], own))
    return table


def _with_intervals(
    query: QuerySpec, plan: Plan, answer: Measured, presentation: Presentation, shared: SharedNumbers | None
) -> pa.Table:
    """The numbers with noise and their intervals, which allow for what limits cut off."""
    table = _numbers_and_noise(query, plan, answer, presentation, shared)
    if presentation.intervals == "noise" or answer.left_out is None:
        return table
    for aggregate in plan.aggregates:
        missing = answer.left_out.missing.get(aggregate.counted(plan.groups) or "", 0.0)
        for name in aggregate.names if missing else ():
            numbers = _as_floats(table[name]) * missing
            below, above = np.zeros(len(numbers)), np.maximum(numbers, 0.0)
            if isinstance(plan.levels, Reconciled):
                below, above = _beside_known_totals(plan.groups, plan.levels, aggregate.measures[0], above)
            table = _move(_move(table, f"{name}_high", above), f"{name}_low", -below)
            if presentation.nonnegative and np.any(below):
                floor = np.minimum(_as_floats(table[f"{name}_low"]), 0.0)
                table = _move(table, f"{name}_low", -floor)
    return table


def _beside_known_totals(
    groups: Groups, levels: Reconciled, measure: Measure, missing: Floats
) -> tuple[Floats, Floats]:
    """How far below and above its number each row of a table may be, where known totals share out what is missing."""
    order = order_of_rows(groups) if groups.levels else np.arange(len(missing))
    stacked = np.empty(len(missing))
    stacked[order] = missing
    found = levels.reach(measure, stacked[-levels.structure.sizes[-1] :])
    if found is None:
        return np.zeros(len(missing)), missing
    below, above = (np.concatenate(side)[order] for side in zip(*found, strict=True))
    return below, above


def _as_floats(column: pa.ChunkedArray) -> Floats:
    return np.asarray(column.cast(pa.float64(), safe=False).fill_null(0.0).to_numpy())


def _move(table: pa.Table, name: str, by: Floats) -> pa.Table:
    """Move the ends of intervals in a column by so much, and on to whole steps."""
    import pyarrow.compute as pc  # noqa: PLC0415 - takes a while

    place = table.column_names.index(name)
    ends = table[place]
    steps = np.sign(by) * np.minimum(np.ceil(np.abs(by)), float(LARGEST_SUM))
    if pa.types.is_decimal(ends.type):  # sums of decimals would have a digit more than Arrow allows
        moved = [None if end is None else end + int(step) for end, step in zip(ends.to_pylist(), steps, strict=True)]
        return table.set_column(place, name, pa.array(moved, ends.type))
    return table.set_column(place, name, pc.add(ends, pa.array(steps).cast(ends.type)))


def _numbers_and_noise(
    query: QuerySpec, plan: Plan, answer: Measured, presentation: Presentation, shared: SharedNumbers | None
) -> pa.Table:
    """The table with intervals that allow for the noise alone."""
    groups, levels, marks = plan.groups, plan.levels, presentation.marks
    if plan.is_reconciled and isinstance(levels, Reconciled):
        numbers = shared or SharedNumbers(levels.shared, (answer.noisy,), presentation.nonnegative)
        rows = levels.rows(numbers, plan.confidence)
        if not groups.levels:
            return joined(answer.keys, level_columns(groups, plan.aggregates, rows[-1], marks))
        return joined(*with_totals(groups, plan.aggregates, rows, marks))
    answers = plan.noisy(answer.noisy, nonnegative=presentation.nonnegative)
    columns = {name: array for each in plan.aggregates for name, array in marked_columns(each, answers, marks).items()}
    table = _sort(joined(answer.keys, columns), query)
    if groups.levels and isinstance(levels, ChosenGroups):
        return with_others(table, groups, levels.columns(plan.aggregates, answers, answer.noisy, marks))
    return table


def _sort(table: pa.Table, query: QuerySpec) -> pa.Table:
    """Sort by key: the engine's order may tell about the data. Public keys stay in the order given."""
    if query.groups.public is not None or not query.groups.by:
        return table
    return table.sort_by([(name, "ascending") for name in query.groups.by])
