"""Replay: the query on neighbouring tables, with the same salt and the same order of rows. Nothing is left to chance.

The exact whole numbers may differ by what the noise is made for, and nothing else may differ at all: no column, type,
grid, noise, SQL text or statement, and no table may be an error.
"""

import math
import time
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

import ibis
import ibis.expr.datatypes as dt
import ibis.expr.operations as ops
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from osgt.auditing.made_rows import Row, can_be_written, text_of
from osgt.auditing.moves import ByGroup, beyond, moved, pieces
from osgt.auditing.neighbours import Maker, Pair
from osgt.auditing.result import Check, Finding, Progress
from osgt.calibration import Part
from osgt.tables.bounding import UNIT, fresh_salt
from osgt.tables.measures import Measure
from osgt.tables.plan import Plan
from osgt.tables.query import Query
from osgt.tables.reading import EngineQuery, compiled, fetched
from osgt.tables.release import exact_numbers, finished, prepared, prepared_rows, with_noise
from osgt.tables.totals import Total, UnitsAt

#: Real rows that are looked at, units of each kind, and rows where each is a unit.
_MOST_REAL, _UNITS, _FEW = 2000, 3, 40

#: What a statement may say about the data: when it was made, how many groups it shows, and what is measured with noise.
_MAY_DIFFER = ("date", "groups_shown", "left_out", "warnings")


@dataclass(frozen=True)
class Played:
    """All that came out for one table: numbers that may move, and a form that may not."""

    measures: Mapping[str, ByGroup] = field(default_factory=dict)
    beside: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)
    form: Mapping[str, str] = field(default_factory=dict)
    error: str | None = None


def replay(
    query: Query,
    plan: Plan,
    *,
    real: bool = True,
    seconds: float = math.inf,
    progress: Progress = lambda what, done: None,
) -> Check:
    """Play the query on pairs of neighbouring tables and compare all that comes out.

    Parameters
    ----------
    real
        Whether rows of the data set are used, besides made ones. The result then tells about the data.
    seconds
        No further pair is begun after so long.
    """
    started = time.monotonic()
    rows, note = _real_rows(query) if real else ([], "")
    maker = Maker(query, rows)
    stage, salt = Stage(query, plan, maker.columns), fresh_salt()
    pairs = list(maker.pairs())
    findings: list[Finding] = []
    compared: list[dict[str, Any]] = []
    known: dict[tuple[int, ...], Played] = {}
    for i, pair in enumerate(pairs):
        if i and time.monotonic() - started > seconds:
            break
        progress(f"replay: {pair.name}", i / len(pairs))
        before, after = (_once(stage, known, table, salt) for table in (pair.before, pair.after))
        found, told = _compared(plan, pair, before, after)
        findings += found
        compared.append(told)
    form = next((played.form for played in known.values() if played.form), {})
    engine = query.dataset.engine.title
    if not form:
        raise ValueError(f"the query fails on every table: {next(iter(known.values())).error}")
    words = (
        f"{_number_of(len(compared), 'pair')} of neighbouring tables on {engine}, "
        f"{sum(sum(each['rows']) for each in compared):,} rows, "
        f"{_number_of(len(plan.parts) + len(plan.noise.beside), 'measure')}. "
    )
    if len(compared) < len(pairs):
        words += f"Time was too short for {_number_of(len(pairs) - len(compared), 'further pair')}. "
    words += (
        "No number moved further than its noise is made for, and nothing else differed."
        if not findings
        else f"{_number_of(len(findings), 'difference')} that may not be."
    )
    details = {
        "engine": query.dataset.engine.name,
        "salt": salt,
        "real_rows": len(rows),
        "pairs": compared,
        "compared": sorted(form),
    }
    return Check("replay", words + note, tuple(findings), 0.0, details)


def _number_of(number: int, thing: str) -> str:
    return f"{number:,} {thing}" + ("" if number == 1 else "s")


def _once(stage: "Stage", known: dict[tuple[int, ...], Played], table: tuple[Row, ...], salt: int) -> Played:
    key = tuple(map(id, table))
    if key not in known:
        known[key] = stage.played(table, salt)
    return known[key]


def _by_place(measure: Measure, names: Sequence[Any], numbers: Any) -> ByGroup:
    """The numbers of a measure by what moves apart: groups; distinct units of a level; all other totals of it together.

    All that a unit adds may fall on one of a level's totals, or on several: its part is for one.
    """
    if not measure.for_table:
        return dict(zip(names, numbers, strict=True))
    if isinstance(measure, Total) and isinstance(measure.base, UnitsAt):
        return dict(enumerate(numbers))
    return {(): numbers.ravel()}


@dataclass(frozen=True, eq=False)
class Stage:
    """Where tables are put and the query is played."""

    query: Query
    plan: Plan
    columns: Mapping[str, dt.DataType]
    kept: list[ir.Table] = field(default_factory=list)

    def played(self, rows: Sequence[Row], salt: int) -> Played:
        """What comes out for these rows. An error is an outcome as well."""
        try:
            return self._played(rows, salt)
        except Exception as error:  # whatever it is, it came with this table
            cause = error.__cause__ or error
            return Played(error=f"{type(cause).__name__}: {str(cause).splitlines()[0][:200] if str(cause) else ''}")

    def _played(self, rows: Sequence[Row], salt: int) -> Played:
        query, order = self.put_and_asked(rows)
        plan, form = self.plan, {}
        ready = prepared(query, plan, salt, order)
        form["SQL text"] = _plain_sql(ready.sums)
        if ready.left_out is not None:
            form["SQL text of what is left out"] = _plain_sql(ready.left_out)
        exact = exact_numbers(query, plan, ready)
        names = keys_of(exact.keys)
        measures = {measure.words: _by_place(measure, names, numbers) for measure, numbers in exact.numbers.items()}
        release = finished(query, plan, with_noise(query, plan, exact), nonnegative=False)
        form["aggregates and their grids"] = repr(query.aggregates)
        form["noise"] = repr([*query.planning().complete, query.planning().neighbours, query.planning().errors])
        form["columns and types"] = str(release.table.schema)
        statement = {k: v for k, v in release.statement.to_dict().items() if k not in _MAY_DIFFER}
        if release.left_out is not None:
            del statement["statement"]  # its words tell what is measured with noise
        form["statement"] = repr(statement)
        return Played(measures, exact.left_out, form)

    def put_and_asked(self, rows: Sequence[Row]) -> tuple[Query, str]:
        """The query on these rows, and the column that says in which order they stand."""
        order = _other_name("row", self.columns)
        return rebuilt(self.query, self._put(rows, order)), order

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


def rebuilt(query: Query, table: ir.Table) -> Query:
    """The same query on another table: asked for again, so that nothing of the first one is kept."""
    data = copy(query.dataset)
    data.table, data.ledger, data.dataset = table, None, None
    again = replace(query, dataset=data, aggregates=())
    for aggregate in query.aggregates:
        arguments = aggregate.to_dict()
        again = getattr(again, arguments.pop("kind"))(**arguments)
    return again


def _compared(plan: Plan, pair: Pair, before: Played, after: Played) -> tuple[list[Finding], dict[str, Any]]:
    """What differs that may not, and how far each measure moved."""
    told: dict[str, Any] = {"name": pair.name, "rows": [len(pair.before), len(pair.after)], "moved": []}
    if before.error or after.error:
        errors = [f"an error: {each}" for each in dict.fromkeys((before.error, after.error)) if each]
        return [Finding(pair.name, error) for error in errors], told
    findings = [
        Finding(pair.name, f"{name} differs: {_first_difference(before.form[name], after.form[name])}")
        for name in before.form
        if before.form[name] != after.form[name]
    ]
    exchanged = plan.neighbours == "change_one"
    places: set[Any] = set()

    def judged(name: str, steps: Mapping[Any, list[int]], part: Part) -> None:
        found = pieces(steps, exchanged=exchanged)
        wrong = beyond(found, None if pair.of_nobody else part, exchanged=exchanged)
        findings.extend([Finding(pair.name, f"{name} {wrong}")] if wrong else [])
        told["moved"].append(
            {
                "measure": name,
                "largest": max(found, default=0),
                "places": len(found),
                "allowed": part.shift,
                "allowed_places": sum(n for _, n in part.moves),
            }
        )

    for measure, part in plan.parts.items():
        steps = moved(before.measures[measure.words], after.measures[measure.words])
        judged(measure.words, steps, part)
        if not (part.also or measure.for_table):
            places |= steps.keys()
    most = plan.groups.most * (2 if exchanged else 1)
    if len(places) > most:
        findings.append(Finding(pair.name, f"{len(places):,} groups moved, at most {most:,} may"))
    for name, (_, part) in plan.noise.beside.items():
        steps = moved({(): before.beside[name].ravel()}, {(): after.beside[name].ravel()})
        judged(f"left out, {name}:", steps, part)
    return findings, told


def _first_difference(one: str, other: str) -> str:
    at = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    start = max(0, at - 20)
    return f"{one[start : at + 40]!r} and {other[start : at + 40]!r}"


def _plain_sql(query: EngineQuery) -> str:
    """The SQL, with the names of tables replaced: they are new each time."""
    text = query.sql
    names = sorted({node.name for node in query.expression.op().find(ops.PhysicalTable)}, key=text.find)
    for i, name in enumerate(names):
        text = text.replace(name, f"table_{i}")
    return text


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
    lower = {each.lower() for each in taken}
    while name in lower:
        name += "_"
    return name


def _real_rows(query: Query) -> tuple[list[Row], str]:
    """All rows of a few units: those with most rows, those in most groups, some that are alone, and some others."""
    table = query.dataset.rows()
    columns = {name: dtype for name, dtype in table.schema().items() if can_be_written(dtype)}
    if query.dataset.unit.each_row:
        return _as_rows(table.select(*columns).limit(_FEW))
    rows, keys, _ = prepared_rows(query, [])
    rows = rows.filter(rows[UNIT].notnull())
    pairs = rows.group_by([UNIT, *keys]).agg(size=rows.count())
    units = pairs.group_by(UNIT).agg(groups=pairs.count(), rows=pairs["size"].sum())
    ranked = [units.order_by(ibis.desc("rows"), UNIT), units.order_by(ibis.desc("groups"), UNIT), units.order_by(UNIT)]
    if keys:
        shared = pairs.mutate(members=pairs.count().over(group_by=keys))
        fewest = shared.group_by(UNIT).agg(members=shared["members"].max())
        ranked.append(fewest.order_by("members", UNIT))
    chosen = ibis.union(*(each.limit(_UNITS).select(UNIT) for each in ranked), distinct=True)
    unit = query.dataset.unit.value(query.dataset.engine, table)
    return _as_rows(table.filter(unit.isin(chosen[UNIT])).select(*columns).limit(_MOST_REAL))


def _as_rows(table: ir.Table) -> tuple[list[Row], str]:
    """The rows of a table as text; or none, and why."""
    try:
        rows = fetched(compiled(table)).to_pylist()
    except (ValueError, OverflowError, pa.ArrowInvalid) as error:
        return [], f" No real rows were used, since they cannot be carried over ({type(error).__name__})."
    return [{name: text_of(value) for name, value in row.items()} for row in rows], ""
