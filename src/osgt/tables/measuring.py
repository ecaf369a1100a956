"""What is measured of the groups: exact numbers from the engine, which nobody may see, and the same with noise."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from osgt.mechanism import Mechanism
from osgt.tables.answers import apart
from osgt.tables.bounding import fresh_salt
from osgt.tables.exact_sums import exact_sums
from osgt.tables.keys import KEY
from osgt.tables.left_out import LeftOut
from osgt.tables.measures import Measure
from osgt.tables.plan import Plan
from osgt.tables.query import Query
from osgt.tables.reading import EngineQuery, check_query, compiled, fetched


@dataclass(frozen=True)
class Exact:
    """The keys of all groups, the exact numbers of each measure and those of what is left out. Nobody may see them."""

    keys: pa.Table
    numbers: Mapping[Measure, NDArray[np.int64]]
    left_out: Mapping[str, NDArray[np.int64]]


@dataclass(frozen=True)
class Measured:
    """The keys of the groups that are shown, what was measured of them with noise, and what was left out."""

    keys: pa.Table
    noisy: Mapping[Measure, NDArray[np.int64]]
    left_out: LeftOut | None


def prepared(query: Query, plan: Plan, salt: int | None = None, order: str | None = None) -> EngineQuery:
    """The query for the engine: all that can be refused is refused here. No row is read.

    A release has a fresh salt and its rows in random order; an audit plays it again with those that are given.
    """
    salt = fresh_salt() if salt is None else salt
    ready = compiled(exact_sums(query, summed(plan), salt, order, plan.left_out))
    check_query(ready)
    return ready


def measured(query: Query, plan: Plan, ready: EngineQuery) -> Measured:
    """What the engine gives back, with noise. Any error here may depend on the data."""
    return with_noise(query, plan, exact_numbers(query, plan, ready))


def exact_numbers(query: Query, plan: Plan, ready: EngineQuery) -> Exact:
    """What the engine gives back."""
    answer, left_out = fetched(ready), {}
    if plan.left_out is not None:
        answer, told = apart(answer)
        left_out = plan.left_out.exact(told)
    keys, found = _exact(query, summed(plan), answer)
    return Exact(keys, {measure: measure.exact(found) for measure in plan.parts}, left_out)


def with_noise(query: Query, plan: Plan, exact: Exact) -> Measured:
    """The groups that are shown, and all numbers with noise."""
    chosen, noisy = noisy_numbers(plan, exact.numbers)
    keys = shown_keys(query, exact.keys.take(pa.array(np.flatnonzero(chosen))))
    return Measured(keys, noisy, None if plan.left_out is None else _left_out(query, plan, exact.left_out))


def _left_out(query: Query, plan: Plan, exact: Mapping[str, NDArray[np.int64]]) -> LeftOut:
    """What the bounds left out, with its noise."""
    assert plan.left_out is not None
    laws = {name: law for name, (law, _) in plan.noise.beside.items()}
    noisy = {}
    for name, numbers in exact.items():
        law, part = plan.noise.beside[name]
        noisy[name] = np.asarray(Mechanism.of(law, part.shift, part.coordinates).release(numbers))
    return LeftOut.of(plan.left_out, noisy, laws, query.dataset.privacy_unit, plan.confidence)


def summed(plan: Plan) -> list[Measure]:
    """What the engine sums: the measures, or what they are made of."""
    return list(dict.fromkeys(each for measure in plan.parts for each in measure.summed))


def shown_keys(query: Query, keys: pa.Table) -> pa.Table:
    """The keys of groups in the types of their columns; public keys are as they were given."""
    if query.groups.public is not None or not query.groups.by:
        return keys
    types = [query.dataset.table.schema()[name] for name in query.groups.by]
    shown = query.dataset.engine.shown
    columns = [shown(column.combine_chunks(), dtype) for column, dtype in zip(keys.columns, types, strict=True)]
    return pa.table(columns, names=list(query.groups.by))


def _exact(query: Query, measures: list[Measure], sums: pa.Table) -> tuple[pa.Table, dict[Measure, NDArray[np.int64]]]:
    """The keys of the groups, and for each measure its exact numbers, one row for each group."""
    exact = {}
    for i, measure in enumerate(measures):
        exact[measure] = np.stack([_integers(sums[f"sum_{i}_{j}"]) for j in range(measure.numbers)], axis=1)
    groups = query.groups
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
    """Which groups are shown, and the measures of these with noise."""
    mechanisms = {m: Mechanism.of(plan.laws[m], plan.parts[m].shift, plan.parts[m].coordinates) for m in exact}
    noisy: dict[Measure, NDArray[np.int64]] = {}
    shown = np.ones(next(len(numbers) for measure, numbers in exact.items() if not measure.for_table), dtype=bool)
    if plan.selector is not None:
        counts = mechanisms[plan.selector].release(exact[plan.selector])
        shown = counts[:, 0] >= plan.threshold
        noisy[plan.selector] = counts[shown]
    for measure, numbers in exact.items():
        if measure not in noisy:
            noisy[measure] = mechanisms[measure].release(numbers if measure.for_table else numbers[shown])
    return shown, noisy


def _integers(column: pa.ChunkedArray) -> NDArray[np.int64]:
    return np.asarray(column.cast(pa.int64()).to_numpy(), dtype=np.int64)
