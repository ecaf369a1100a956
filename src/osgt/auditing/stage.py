"""The stage: rows that try what can go wrong, tables made of them on the engine of a query, and what is played on them.

Rows have values of every type at its ends, beyond its bounds, missing or strange. All values are text, which every
engine casts to the type of its column: drivers disagree about NaN, null and infinity, text they leave alone. Nothing of
this is left to chance.

Plays are repeated on neighbouring tables: the release of a query, and the histograms from which its limits are chosen.
"""

import datetime
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from typing import Any, Literal, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from osgt.api.publish import estimate
from osgt.api.query import Query
from osgt.calibration import Part
from osgt.data.engines.query import EngineQuery, compile_query, fetch
from osgt.data.sql import Table
from osgt.data.types import ColumnType
from osgt.data.unit import Neighbours
from osgt.plan.choice import Draw
from osgt.plan.plan import Plan
from osgt.query.aggregates.base import QuerySpec
from osgt.query.groups import Total, UnitsAt
from osgt.query.measures import Measure, Values
from osgt.query.values import as_float
from osgt.release.choice import histograms_of, prepare_draw
from osgt.release.measuring import Presentation, exact_numbers, prepare, prepared_rows, with_noise

#: A row: text for each column, None where nothing is there.
Row = dict[str, str | None]

#: Kinds of columns whose values can be handed over as text.
_KINDS = ("text", "boolean", "integer", "float", "decimal", "date", "timestamp", "uuid")

#: Values that have been taken for something else, or are at the ends of what there is.
_STRANGE = {
    "text": [
        "",
        " ",
        "Rome",
        "rome",
        "Rom'e",
        'R"ome',
        "Zürich",
        "Zu\u0308rich",
        "'; DROP TABLE t; --",
        "null",
        "NaN",
    ],
    "boolean": ["true", "false"],
    "float": ["NaN", "Infinity", "-Infinity", "0", "-0.0", "5e-324", "-1.7976931348623157e308", "1.5"],
    "date": ["1970-01-01", "0001-01-01", "9999-12-31", "2024-02-29"],
    "timestamp": ["1970-01-01 00:00:00", "2024-02-29 23:59:59.999999", "1900-01-01 00:00:00"],
    "uuid": ["00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"],
}

#: Literals in expressions.
_QUOTED, _NUMBER, _DAY = (
    re.compile(r"'((?:[^']|'')*)'"),
    re.compile(r"(?<![\w.])\d+(?:\.\d+)?"),
    re.compile(r"\d{4}-\d\d-\d\d"),
)


def text_of(value: Any) -> str | None:
    """A value that came from an engine, as text that an engine reads back as the same value."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(repr(value), repr(value))
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ")
    return str(value)


def can_be_written(dtype: ColumnType) -> bool:
    """Whether values of this type can be handed over as text."""
    return dtype.kind in _KINDS


def strange(dtype: ColumnType) -> list[str | None]:
    """Values of a type at its ends, and missing ones where there may be any."""
    numbers = ["0", "1", *(f"{end:f}" for end in _range(dtype))]
    result = numbers if dtype.kind in ("integer", "decimal") else _STRANGE[dtype.kind]
    return [*result, *(["x" * 3000] if dtype.kind == "text" else []), *([None] if dtype.nullable else [])]


def ordinary(dtype: ColumnType) -> str | None:
    """A value of a type that is nothing special."""
    return strange(dtype)[0]


def constants(dtype: ColumnType, text: str) -> list[str]:
    """Values of a type that an expression names, and numbers beside them: there it may change."""
    texts = [quoted.replace("''", "'") for quoted in _QUOTED.findall(text)]
    if dtype.kind == "text":
        return texts
    if dtype.kind in ("date", "timestamp"):
        return [day for day in texts if _DAY.match(day)]
    if not dtype.is_number:
        return []
    least, most = _range(dtype)
    beside = (Decimal(number) + step for number in _NUMBER.findall(_QUOTED.sub("", text)) for step in (0, -1, 1))
    fitting = (number for number in beside if least <= number <= most and (dtype.kind != "integer" or number % 1 == 0))
    return [f"{number:f}" for number in fitting]


def numbered(dtype: ColumnType, number: int) -> str | None:
    """The value of a type that has this number, different for different numbers; None where there are not so many."""
    kind = dtype.kind
    if kind in ("integer", "decimal"):
        # From the large end: small numbers are those that people use.
        value = int(_range(dtype)[1]) - 7 - number
        return str(value) if value > 1 else None
    day = datetime.date(1800, 1, 1) + datetime.timedelta(days=number)
    return {
        "text": f"osgt {number}",
        "boolean": ("true", "false")[number] if number < 2 else None,
        "date": day.isoformat(),
        "timestamp": f"{day.isoformat()} 12:00:00",
        "uuid": f"0059a7d1-0000-4000-8000-{number:012x}",
    }.get(kind)


def ends(dtype: ColumnType, bounds: Sequence[float]) -> tuple[list[str], list[str]]:
    """Values at and far beyond the low ends of some bounds, and as many at the high ends."""
    if dtype.kind == "boolean":
        return ["false"], ["true"]
    least, most = _range(dtype)

    def inside(number: float) -> str:
        exact = min(max(Decimal(number), least), most)
        return str(int(exact)) if dtype.kind == "integer" else f"{exact:f}"

    beyond = ("-Infinity", "Infinity") if dtype.kind == "float" else (f"{least:f}", f"{most:f}")
    return [inside(min(bounds, default=0)), beyond[0]], [inside(max(bounds, default=1)), beyond[1]]


def _range(dtype: ColumnType) -> tuple[Decimal, Decimal]:
    """The least and the largest number of a type; of floats, numbers that are large."""
    if dtype.kind == "integer":
        return Decimal(dtype.bounds[0]), Decimal(dtype.bounds[1])
    if dtype.kind == "decimal":
        precision, scale = dtype.digits or (18, 0)
        digits = "9" * precision
        largest = Decimal(f"{digits[scale:] or '0'}.{digits[:scale]}")
        return largest.copy_negate(), largest
    return Decimal("-1e300"), Decimal("1e300")


def key_rows(pools: Mapping[str, Sequence[str | None]], most: int) -> list[Row]:
    """Up to `most` different combinations of keys, each column changing from one to the next."""
    if not pools:
        return [{}]
    names = list(pools)
    return [dict(zip(names, keys, strict=True)) for keys in _spread([pools[name] for name in names], most)]


def _spread(pools: Sequence[Sequence[str | None]], most: int) -> Iterator[tuple[str | None, ...]]:
    """Combinations, first along the diagonal, so that few of them show every value."""
    longest = max(len(pool) for pool in pools)
    diagonal = (tuple(pool[i % len(pool)] for pool in pools) for i in range(longest))
    every = itertools.chain(diagonal, itertools.product(*pools))
    return itertools.islice(dict.fromkeys(itertools.islice(every, 4 * most)), most)


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

    def stored(self, rows: Sequence[Row]) -> pa.Table:
        """The rows with the stored columns and types, in their order."""
        order = _other_name("row", self.query.dataset.table.columns)
        made = self._put(rows, order)
        wanted = {name: made[name] for name in (*self.columns, order)}
        table = fetch(compile_query(made.select("stored_rows", "The made rows.", wanted)))
        return table.sort_by(order).drop_columns([order])

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
