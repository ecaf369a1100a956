"""The stage: made tables on the engine of a query, and what is played on them.

Plays are repeated on neighbouring tables: the release of a query, and the histograms of a suggestion.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import ibis.expr.datatypes as dt
import ibis.expr.operations as ops
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from osgt.api.publish import estimate
from osgt.api.query import Query
from osgt.api.suggestion.histograms import exact_histograms, prepared_histograms
from osgt.api.suggestion.open_query import OpenQuery
from osgt.api.suggestion.suggestion import NoisePlan
from osgt.auditing.made_rows import Row, can_be_written
from osgt.calibration import Part
from osgt.data.reading import EngineQuery, compile_query, fetch
from osgt.limits.histogram_query import Layout
from osgt.plan.plan import Plan
from osgt.query.aggregates.base import QuerySpec
from osgt.query.groups import Total, UnitsAt
from osgt.query.measures import Measure, Values
from osgt.query.values import as_float
from osgt.release.exact_sums import prepared_rows
from osgt.release.measuring import exact_numbers, prepared, with_noise

#: The numbers of each group by its key.
ByGroup = Mapping[Any, NDArray[np.int64]]

#: What a statement may say about the data: when it was made, how many groups it shows, what is measured with noise, and
#: words about all that.
_MAY_DIFFER = ("date", "groups_shown", "left_out", "mostly_noise", "warnings", "statement")


@dataclass(frozen=True)
class Placed:
    """The place where a row falls: its group, and the values of columns that were asked for."""

    group: Any
    values: tuple[float | None, ...]


@dataclass(frozen=True, eq=False)
class Stage:
    """A stage for made tables and queries. Tables have the stored columns; what is derived is computed anew."""

    query: QuerySpec
    kept: list[ir.Table] = field(default_factory=list)

    @cached_property
    def columns(self) -> dict[str, dt.DataType]:
        """The stored columns whose values can be made."""
        schema = self.query.dataset.stored.schema()
        return {name: dtype for name, dtype in schema.items() if can_be_written(dtype)}

    def query_on(self, rows: Sequence[Row]) -> tuple[Any, str]:
        """The query on these rows, and the column that says in which order they stand."""
        order = _other_name("row", self.query.dataset.table.schema())
        return rebuild(self.query, self._put(rows, order)), order

    def place(self, rows: Sequence[Row], values: Sequence[str] = ()) -> list[Placed | None]:
        """Place each row in its group, by the code of the release; None where it does not count."""
        query, order = self.query_on(rows)
        measures: list[Measure] = [Values(name) for name in values]
        table, keys, names = prepared_rows(query, measures, order, numbered=False)
        floats = {f"float_{i}": as_float(table[names[name]]) for i, name in enumerate(values)}
        result = fetch(compile_query(table.select("order", *keys, **floats)))
        groups = keys_of(result.select(keys))
        columns = [result[name].to_pylist() for name in floats]
        places: list[Placed | None] = [None] * len(rows)
        for i, at in enumerate(result["order"].to_pylist()):
            places[at] = Placed(groups[i] if keys else (), tuple(column[i] for column in columns))
        return places

    def which_count(self, rows: Sequence[Row]) -> list[bool]:
        """Tell for each row whether it meets the conditions."""
        query, order = self.query_on(rows)
        result = set(fetch(compile_query(query.dataset.rows().select(order)))[order].to_pylist())
        return [i in result for i in range(len(rows))]

    def _put(self, rows: Sequence[Row], order: str) -> ir.Table:
        """The rows as a table of the engine, with the types of the data set's columns."""
        columns = {name: pa.array([row.get(name) for row in rows], pa.string()) for name in self.columns}
        columns[order] = pa.array([str(i) for i in range(len(rows))], pa.string())
        engine, backend = self.query.dataset.engine, self.query.dataset.table.get_backend()
        made = engine.small_table(backend, pa.table(columns))
        if made.op().find(ops.InMemoryTable):
            # It belongs to no connection by itself, and is gone when nobody has it any more.
            self.kept.append(made)
            with engine.turn(backend):
                backend._run_pre_execute_hooks(made)
                made = backend.table(made.op().name)
        return made.cast({**self.columns, order: "int64"})


def rebuild(query: QuerySpec, table: ir.Table) -> Any:
    """Build the query again on another table, so that nothing of the first one is kept."""
    data = query.dataset.on(table)
    if isinstance(query, OpenQuery):
        return replace(query, dataset=data)
    assert isinstance(query, Query)
    again: Any = replace(query, dataset=data, aggregates=())
    for aggregate in query.aggregates:
        arguments = aggregate.to_dict()
        again = getattr(again, arguments.pop("kind"))(**arguments)
    return again


def plain_sql(query: EngineQuery) -> str:
    """The SQL, with the names of tables replaced: they are new each time."""
    text = query.sql
    if query.beside is not None:
        return f"{plain_sql(replace(query, beside=None))}; {plain_sql(query.beside)}"
    names = sorted({node.name for node in query.expression.op().find(ops.PhysicalTable)}, key=text.find)
    for i, name in enumerate(names):
        text = text.replace(name, f"table_{i}")
    return text


def salted_sql(prepare: Callable[..., EngineQuery], *subject: Any) -> Callable[[int | None], str]:
    """The SQL that is prepared for a subject, as a function of the salt; of a fresh one where it is None."""
    return lambda salt: plain_sql(prepare(*subject, salt))


def groups_of(query: Query, keys: pa.Table) -> list[Any]:
    """The groups of a release as `place` calls them: public ones by their numbers."""
    return [(i,) for i in range(keys.num_rows)] if query.groups.public is not None else keys_of(keys)


def keys_of(keys: pa.Table) -> list[Any]:
    """The keys of the groups, to tell them apart; dates that Python has not, as numbers."""
    if not keys.column_names:
        return [()]
    columns = []
    for column in keys.columns:
        number = pa.int32() if pa.types.is_date32(column.type) else pa.int64()
        columns.append((column.cast(number) if pa.types.is_temporal(column.type) else column).to_pylist())
    return list(zip(*columns, strict=True))


def _other_name(name: str, taken: Mapping[str, Any]) -> str:
    lower = {column.lower() for column in taken}
    while name in lower:
        name += "_"
    return name


@dataclass(frozen=True)
class Played:
    """The outcome for one table: numbers that may move, and a form that may not."""

    numbers: Mapping[str, ByGroup] = field(default_factory=dict)
    form: Mapping[str, str] = field(default_factory=dict)
    error: str | None = None


@dataclass(frozen=True)
class Allowed:
    """The most by which one unit may move some numbers; `in_groups` if only in its own groups, of which it has few."""

    part: Part
    in_groups: bool = False


class Play(Protocol):
    """A play: a release or a suggestion."""

    @property
    def allowed(self) -> Mapping[str, Allowed]:
        """The most by which one unit may move the numbers, by their names."""

    def played(self, query: Any, salt: int, order: str) -> Played:
        """Play a query on a made table, and return what comes out."""


@dataclass(frozen=True, eq=False)
class ReleasePlay:
    """A release by its plan: the numbers of each measure, and of what the bounds leave out."""

    plan: Plan

    @property
    def allowed(self) -> Mapping[str, Allowed]:
        """The most by which one unit may move the numbers."""
        result = {
            measure.words: Allowed(part, in_groups=not (part.also or measure.for_table))
            for measure, part in self.plan.parts.items()
        }
        return result | {_left_out(name): Allowed(part) for name, (_, part) in self.plan.noise.extra_noise.items()}

    def played(self, query: Any, salt: int, order: str) -> Played:
        """Play the release, and return the numbers and the form that come out."""
        plan, form = self.plan, {}
        ready = prepared(query, plan, salt, order)
        form["SQL text"] = plain_sql(ready)
        exact = exact_numbers(query, plan, ready)
        names = keys_of(exact.keys)
        numbers = {measure.words: _by_place(measure, names, rows) for measure, rows in exact.numbers.items()}
        release = estimate(query, plan, [with_noise(query, plan, exact)], nonnegative=False).tables[""]
        form["aggregates and their grids"] = repr(query.aggregates)
        form["noise"] = repr([*query.planning().complete, query.planning().neighbours, query.planning().errors])
        form["columns and types"] = str(release.table.schema)
        statement = {k: v for k, v in release.statement.to_dict().items() if k not in _MAY_DIFFER}
        form["statement"] = repr(statement)
        return Played(numbers | {_left_out(name): _at_once(counts) for name, counts in exact.left_out.items()}, form)


@dataclass(frozen=True, eq=False)
class SuggestionPlay:
    """The histograms that bounds are recommended from."""

    layout: Layout
    plan: NoisePlan

    @property
    def allowed(self) -> Mapping[str, Allowed]:
        """The most by which one unit may move the histograms."""
        return {_histogram(name): Allowed(part) for name, part in self.plan.parts.items()}

    def played(self, query: Any, salt: int, order: str) -> Played:
        """Play the histograms, and return the numbers and the form that come out."""
        ready = prepared_histograms(query, self.layout, salt, order)
        exact = exact_histograms(query, self.layout, ready)
        every = {"groups": exact.groups, "rows": exact.rows}
        every |= {f"values of {name}": numbers for name, numbers in exact.values.items()}
        result = {_histogram(name): _at_once(numbers) for name, numbers in every.items() if numbers is not None}
        if exact.sizes is not None:
            result[_histogram("sizes")] = _in_order(exact.sizes, public=query.groups.public is not None)
        return Played(result, {"SQL text": plain_sql(ready), "query": repr((query.asked, query.given))})


def _left_out(name: str) -> str:
    return f"what is left out ({name})"


def _histogram(name: str) -> str:
    return f"histogram of {name}"


def _at_once(numbers: NDArray[np.int64]) -> ByGroup:
    """Numbers among which a unit moves one, or parts of several together."""
    return {(): numbers.ravel()}


def _in_order(sizes: NDArray[np.int64], *, public: bool) -> ByGroup:
    """The sizes of groups; of those that are not public, from the largest on, since nobody knows which is which."""
    ordered = sizes if public else np.sort(sizes)[::-1]
    return {(i,): ordered[i : i + 1] for i in range(len(ordered))}


def _by_place(measure: Measure, names: Sequence[Any], numbers: Any) -> ByGroup:
    """The numbers of a measure by what moves apart: groups; distinct units of a level; all other totals of it together.

    All that a unit adds may fall on one of a level's totals, or on several: its part is for one.
    """
    if not measure.for_table:
        return dict(zip(names, numbers, strict=True))
    if isinstance(measure, Total) and isinstance(measure.base, UnitsAt):
        return dict(enumerate(numbers))
    return _at_once(numbers)
