"""Exact (private!) aggregates from the engine, and the same numbers with noise."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from osgt.data.reading import EngineQuery, check_query, compile_query, fetch
from osgt.limits.left_out import LeftOut
from osgt.limits.misfits import fitting_rows
from osgt.limits.worth import COUNTED_ROWS, fresh_salt
from osgt.mechanism import Mechanism
from osgt.plan.plan import Plan
from osgt.plan.reconciled import Reconciled
from osgt.plan.total_rows import ChosenGroups, joined, with_others, with_totals
from osgt.query.aggregates.base import QuerySpec
from osgt.query.keys import KEY
from osgt.query.measures import Measure
from osgt.release.exact_sums import exact_sums, value_names
from osgt.support.arrays import LARGEST_SUM
from osgt.support.errors import ArgumentError, OsgtError


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
    """How numbers are shown: negative ones as 0; intervals that allow for what limits cut off, or for noise alone."""

    nonnegative: bool = False
    intervals: Literal["truth", "noise"] = "truth"

    def __post_init__(self) -> None:
        if self.intervals not in ("truth", "noise"):
            raise ArgumentError(f'intervals must be "truth" or "noise", got {self.intervals!r}', argument="intervals")


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
    return LeftOut.of(plan.left_out, noisy, laws, query.dataset.privacy_unit, plan.confidence, types)


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
        sums = sums.filter(pc.greater(sums[COUNTED_ROWS], 0))
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
        if measure not in noisy:
            noisy[measure] = mechanisms[measure].release(numbers if measure.for_table else numbers[shown])
    return shown, noisy


def _integers(column: pa.ChunkedArray) -> NDArray[np.int64]:
    return np.asarray(column.cast(pa.int64()).to_numpy(), dtype=np.int64)


def noisy_table(query: QuerySpec, plan: Plan, answer: Measured, presentation: Presentation) -> pa.Table:
    """The table that is published, made of numbers with noise alone."""
    table = _numbers_and_noise(query, plan, answer, nonnegative=presentation.nonnegative)
    if presentation.intervals == "noise" or answer.left_out is None:
        return table
    for aggregate in plan.aggregates:
        missing = answer.left_out.missing.get(aggregate.counted(plan.groups) or "", 0.0)
        for name in aggregate.names if missing else ():
            table = _allow_for(table, name, missing)
    return table


def _allow_for(table: pa.Table, name: str, missing: float) -> pa.Table:
    """Raise the upper ends of a count or a sum by what may be missing in it, a part of the number itself."""
    place = table.column_names.index(f"{name}_high")
    ends = table[place]
    numbers = table[name].cast(pa.float64(), safe=False).fill_null(0.0).to_numpy()
    more = np.minimum(np.ceil(np.maximum(numbers, 0.0) * missing), float(LARGEST_SUM))
    if pa.types.is_decimal(ends.type):  # sums of decimals would have a digit more than Arrow allows
        raised = [None if end is None else end + int(step) for end, step in zip(ends.to_pylist(), more, strict=True)]
        return table.set_column(place, f"{name}_high", pa.array(raised, ends.type))
    return table.set_column(place, f"{name}_high", pc.add(ends, pa.array(more).cast(ends.type)))


def _numbers_and_noise(query: QuerySpec, plan: Plan, answer: Measured, *, nonnegative: bool) -> pa.Table:
    """The table with intervals that allow for the noise alone."""
    groups, levels = plan.groups, plan.levels
    if groups.levels and isinstance(levels, Reconciled):
        rows = levels.rows(answer.noisy, plan.confidence, nonnegative=nonnegative)
        return joined(*with_totals(groups, plan.aggregates, rows))
    answers = plan.noisy(answer.noisy, nonnegative=nonnegative)
    columns = {name: array for aggregate in plan.aggregates for name, array in aggregate.columns(answers).items()}
    table = _sort(joined(answer.keys, columns), query)
    if groups.levels and isinstance(levels, ChosenGroups):
        return with_others(table, groups, levels.columns(plan.aggregates, answers, answer.noisy))
    return table


def _sort(table: pa.Table, query: QuerySpec) -> pa.Table:
    """Sort by key: the engine's order may tell about the data. Public keys stay in the order given."""
    if query.groups.public is not None or not query.groups.by:
        return table
    order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in query.groups.by])
    return table.take(order)
