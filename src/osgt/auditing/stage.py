"""The stage: made tables on the engine of a query, and the query played on them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import ibis.expr.datatypes as dt
import ibis.expr.operations as ops
import ibis.expr.types as ir
import pyarrow as pa

from osgt.auditing.made_rows import Row, can_be_written
from osgt.tables.aggregates.kinds import Asking
from osgt.tables.bounds.open_query import OpenQuery
from osgt.tables.exact_sums import prepared_rows
from osgt.tables.measures import Measure, Values
from osgt.tables.query import Query
from osgt.tables.reading import EngineQuery, compiled, fetched
from osgt.tables.values import as_float


@dataclass(frozen=True)
class Placed:
    """Where a row falls: its group, and the values of columns that were asked for."""

    group: Any
    values: tuple[float | None, ...]


@dataclass(frozen=True, eq=False)
class Stage:
    """Where tables are put and a query is played. They have the stored columns; what is derived is computed anew."""

    query: Asking
    kept: list[ir.Table] = field(default_factory=list)

    @cached_property
    def columns(self) -> dict[str, dt.DataType]:
        """The stored columns whose values can be made."""
        schema = self.query.dataset.stored.schema()
        return {name: dtype for name, dtype in schema.items() if can_be_written(dtype)}

    def asked(self, rows: Sequence[Row]) -> tuple[Any, str]:
        """The query on these rows, and the column that says in which order they stand."""
        order = _other_name("row", self.query.dataset.table.schema())
        return rebuilt(self.query, self._put(rows, order)), order

    def placed(self, rows: Sequence[Row], values: Sequence[str] = ()) -> list[Placed | None]:
        """Where each row falls, by the code of the release; None where it does not count."""
        query, order = self.asked(rows)
        measures: list[Measure] = [Values(name) for name in values]
        table, keys, names = prepared_rows(query, measures, order, numbered=False)
        floats = {f"float_{i}": as_float(table[names[name]]) for i, name in enumerate(values)}
        found = fetched(compiled(table.select("order", *keys, **floats)))
        groups = keys_of(found.select(keys))
        columns = [found[name].to_pylist() for name in floats]
        places: list[Placed | None] = [None] * len(rows)
        for i, at in enumerate(found["order"].to_pylist()):
            places[at] = Placed(groups[i] if keys else (), tuple(column[i] for column in columns))
        return places

    def counting(self, rows: Sequence[Row]) -> list[bool]:
        """Which rows meet the conditions."""
        query, order = self.asked(rows)
        found = set(fetched(compiled(query.dataset.rows().select(order)))[order].to_pylist())
        return [i in found for i in range(len(rows))]

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


def rebuilt(query: Asking, table: ir.Table) -> Any:
    """The same query on another table: asked for again, so that nothing of the first one is kept."""
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
    names = sorted({node.name for node in query.expression.op().find(ops.PhysicalTable)}, key=text.find)
    for i, name in enumerate(names):
        text = text.replace(name, f"table_{i}")
    return text


def groups_of(query: Query, keys: pa.Table) -> list[Any]:
    """The groups of a release as `placed` calls them: public ones by their numbers."""
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
    lower = {each.lower() for each in taken}
    while name in lower:
        name += "_"
    return name
