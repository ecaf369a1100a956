"""The stage: made tables on the engine of a query, and what is played on them.

Plays are repeated on neighbouring tables: the release of a query, and the histograms from which its limits are chosen.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from osgt.api.publish import estimate
from osgt.api.query import Query
from osgt.auditing.made_rows import Row, can_be_written
from osgt.calibration import Part
from osgt.data.reading import EngineQuery, compile_query, fetch
from osgt.data.sql import Table
from osgt.data.types import ColumnType
from osgt.data.unit import Neighbours
from osgt.plan.choice import Draw
from osgt.plan.plan import Plan
from osgt.query.aggregates.base import QuerySpec
from osgt.query.groups import Total, UnitsAt
from osgt.query.measures import Measure, Values
from osgt.query.values import as_float
from osgt.release.exact_sums import prepared_rows
from osgt.release.limits import histograms_of, prepare_draw
from osgt.release.measuring import Presentation, exact_numbers, prepare, with_noise

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

    @cached_property
    def columns(self) -> dict[str, ColumnType]:
        """The stored columns whose values can be made."""
        stored = self.query.dataset.stored.columns
        return {name: dtype for name, dtype in stored.items() if can_be_written(dtype)}

    def query_on(self, rows: Sequence[Row]) -> tuple[Any, str]:
        """The query on these rows, and the column that says in which order they stand."""
        order = _other_name("row", self.query.dataset.table.columns)
        return rebuild(self.query, self._put(rows, order)), order

    def place(self, rows: Sequence[Row], values: Sequence[str] = ()) -> list[Placed | None]:
        """Place each row in its group, by the code of the release; None where it does not count."""
        query, order = self.query_on(rows)
        measures: list[Measure] = [Values(name) for name in (order, *values)]
        table, keys, names = prepared_rows(query, measures, numbered=False, with_totals=False)
        floats = {f"float_{i}": as_float(table[names[name]]) for i, name in enumerate(values)}
        wanted = {**{key: table[key] for key in keys}, "place": table[names[order]], **floats}
        result = fetch(compile_query(table.select("places", "The group of each made row.", wanted)))
        groups = keys_of(result.select(keys))
        columns = [result[name].to_pylist() for name in floats]
        places: list[Placed | None] = [None] * len(rows)
        for i, at in enumerate(result["place"].to_pylist()):
            places[at] = Placed(groups[i] if keys else (), tuple(column[i] for column in columns))
        return places

    def which_count(self, rows: Sequence[Row]) -> list[bool]:
        """Tell for each row whether it meets the conditions."""
        query, order = self.query_on(rows)
        table = query.dataset.rows()
        met = table.select("places", "The made rows that count.", {order: table[order]})
        result = set(fetch(compile_query(met))[order].to_pylist())
        return [i in result for i in range(len(rows))]

    def _put(self, rows: Sequence[Row], order: str) -> Table:
        """The rows as a table of the engine, with the types of the data set's columns."""
        columns = {name: pa.array([row.get(name) for row in rows], pa.string()) for name in self.columns}
        columns[order] = pa.array([str(i) for i in range(len(rows))], pa.string())
        engine = self.query.dataset.engine
        made = engine.small_table(self.query.dataset.table.connection, pa.table(columns))
        types = {**self.columns, order: engine.int64}
        return made.select("made_rows", "Made rows.", {name: made[name].cast(types[name]) for name in columns})


def rebuild(query: QuerySpec, table: Table) -> Any:
    """Build the query again on another table, so that nothing of the first one is kept."""
    data = query.dataset.on(table)
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
    names = sorted(query.table.names, key=text.find)
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
    """The most by which one unit may move some numbers.

    `in_groups` if only in its own groups, of which it has few. `norm` is 1 or 2 if the numbers of all groups together
    may move by so much: the sum of their moves, or the root of the sum of squares.
    """

    part: Part
    in_groups: bool = False
    norm: Literal[1, 2] | None = None


class Play(Protocol):
    """A play: a release, or the choice of a limit."""

    @property
    def allowed(self) -> Mapping[str, Allowed]:
        """The most by which one unit may move the numbers, by their names."""

    def played(self, query: Any, salt: int) -> Played:
        """Play a query on a made table, and return what comes out."""


@dataclass(frozen=True, eq=False)
class ReleasePlay:
    """A release by its plan: the numbers of each measure, and of what the bounds leave out."""

    plan: Plan

    @property
    def allowed(self) -> Mapping[str, Allowed]:
        """The most by which one unit may move the numbers."""
        result = {measure.words: self._allowed(measure, part) for measure, part in self.plan.parts.items()}
        return result | {_left_out(name): Allowed(part) for name, (_, part) in self.plan.noise.extra_noise.items()}

    def _allowed(self, measure: Measure, part: Part) -> Allowed:
        groups = self.plan.groups
        norm: Literal[1, 2] | None = (
            1 if groups.limits_in_all(measure) else 2 if groups.limits_length(measure) else None
        )
        # Rows count in all public groups, unless a box limits them; of groups chosen by their size, always in few.
        in_few = norm is None or not groups.shows_all
        return Allowed(part, in_groups=in_few and not (part.also or measure.for_table), norm=norm)

    def played(self, query: Any, salt: int) -> Played:
        """Play the release, and return the numbers and the form that come out."""
        plan, form = self.plan, {}
        ready = prepare(query, plan, salt)
        form["SQL text"] = plain_sql(ready)
        exact = exact_numbers(query, plan, ready)
        names = keys_of(exact.keys)
        numbers = {measure.words: _by_place(measure, names, rows) for measure, rows in exact.numbers.items()}
        release = estimate(query, plan, [with_noise(query, plan, exact)], Presentation()).tables[""]
        form["aggregates and their grids"] = repr(query.aggregates)
        form["noise"] = repr([*query.planning().complete, query.planning().neighbours, query.planning().errors])
        form["columns and types"] = str(release.table.schema)
        statement = {k: v for k, v in release.statement.to_dict().items() if k not in _MAY_DIFFER}
        form["statement"] = repr(statement)
        return Played(numbers | {_left_out(name): _at_once(counts) for name, counts in exact.left_out.items()}, form)


@dataclass(frozen=True, eq=False)
class DrawPlay:
    """The histograms of units that a limit is drawn from: a unit is in one bin of each."""

    draw: Draw
    neighbours: Neighbours

    @property
    def allowed(self) -> Mapping[str, Allowed]:
        """The most by which one unit may move the histograms."""
        part = Part(1, 1 if self.neighbours == "add_remove" else 2)
        return {_histogram(ladder.kind): Allowed(part) for ladder in self.draw.ladders}

    def played(self, query: Any, salt: int) -> Played:
        """Play the histograms, and return the numbers and the form that come out."""
        ready = prepare_draw(query, self.draw)
        histograms = histograms_of(ready)
        numbers = {
            _histogram(ladder.kind): _at_once(np.asarray(histogram))
            for ladder, histogram in zip(self.draw.ladders, histograms, strict=True)
        }
        return Played(numbers, {"columns": str(ready.query.schema)})


def _left_out(name: str) -> str:
    return f"what is left out ({name})"


def _histogram(name: str) -> str:
    return f"histogram of {name}"


def _at_once(numbers: NDArray[np.int64]) -> ByGroup:
    """Numbers among which a unit moves one, or parts of several together."""
    return {(): numbers.ravel()}


def _by_place(measure: Measure, names: Sequence[Any], numbers: Any) -> ByGroup:
    """The numbers of a measure by what moves apart: groups; distinct units of a level; all other totals of it together.

    All that a unit adds may fall on one of a level's totals, or on several: its part is for one.
    """
    if not measure.for_table:
        return dict(zip(names, numbers, strict=True))
    if isinstance(measure, Total) and isinstance(measure.base, UnitsAt):
        return dict(enumerate(numbers))
    return _at_once(numbers)
