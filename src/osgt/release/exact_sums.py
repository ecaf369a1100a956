"""The query for the engine: rows with the columns that are needed, and the exact, bounded sums of each group."""

from collections.abc import Mapping
from typing import Any

import ibis
import ibis.expr.datatypes as dt
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa

from osgt.data.engines.engine import Engine
from osgt.limits.bounding import UNIT, bounded_sums
from osgt.limits.left_out_measures import LeftOutMeasures
from osgt.query.aggregates.base import QuerySpec
from osgt.query.groups import Groups, UnitsAt
from osgt.query.keys import KEY
from osgt.query.measures import Measure, Values


def exact_sums(
    query: QuerySpec,
    measures: list[Measure],
    salt: int,
    order: str | None = None,
    left_out: LeftOutMeasures | None = None,
) -> ir.Table:
    """The exact, bounded sums of each group, and what is left out: a query for the engine."""
    looked_at = [Values(column) for column in (() if left_out is None else left_out.columns)]
    rows, keys, values = prepared_rows(query, [*measures, *looked_at], order, numbered=False)
    counted = {measure.by for measure in measures if isinstance(measure, UnitsAt) and measure.by}
    return bounded_sums(
        rows,
        keys,
        values,
        measures,
        max_groups=query.groups.max_groups,
        max_rows=query.groups.rows,
        salt=salt,
        order=None if order is None else "order",
        levels={by: name for by, name in level_columns(query.groups).items() if by in counted},
        side=left_out,
    )


def level_columns(groups: Groups) -> dict[tuple[str, ...], str]:
    """The column of the prepared rows that has the group of each level; the table as a whole needs none."""
    return {level.by: f"level_{i}" for i, level in enumerate(groups.levels) if level.by}


def prepared_rows(
    query: QuerySpec, measures: list[Measure], order: str | None = None, *, numbered: bool = True
) -> tuple[ir.Table, list[str], dict[Any, str]]:
    """The rows with the columns that are needed, under names of our own; rows with other than public keys are gone.

    Rows that are units of their own get a number as their unit, if they are to be `numbered`.
    """
    table, by = query.dataset.rows(), query.groups.by
    sources = _sources(table, measures)
    values = {source: f"value_{i}" for i, source in enumerate(sources)}
    keys = [f"key_{i}" for i in range(len(by))]
    engine = query.dataset.engine
    unit = query.dataset.unit
    # A table has at least one column.
    without = unit.each_row and not numbered
    columns = {"each_row": ibis.literal(True)} if without else {UNIT: unit.value(engine, table)}
    columns |= {key: engine.carried(table[name]) for key, name in zip(keys, by, strict=True)}
    columns |= {value: sources[source] for source, value in values.items()}
    if order is not None:
        columns["order"] = table[order]
    rows = table.select(**columns)
    if query.groups.public is None:
        return rows, keys, values
    types = [table[name].type() for name in by]
    return _with_public_keys(engine, rows, keys, types, query.groups, _places(query.groups, measures)), [KEY], values


def _sources(table: ir.Table, measures: list[Measure]) -> dict[Any, ir.Value]:
    """The values that measures are made of: columns by their names, and what some derive of a row."""
    names = dict.fromkeys(column for measure in measures for column in measure.columns)
    sources: dict[Any, ir.Value] = {name: table[name] for name in names}
    return sources | {measure: value for measure in measures if (value := measure.derived(table)) is not None}


def _places(groups: Groups, measures: list[Measure]) -> dict[str, Any]:
    """The group of each public key in the levels whose units are counted, by the column that has it."""
    counted = {measure.by for measure in measures if isinstance(measure, UnitsAt)}
    names = level_columns(groups)
    return {names[level.by]: level.places for level in groups.levels if level.by and level.by in counted}


def _with_public_keys(
    engine: Engine,
    rows: ir.Table,
    keys: list[str],
    types: list[dt.DataType],
    groups: Groups,
    places: Mapping[str, Any],
) -> ir.Table:
    """The rows whose keys are public: numbers in place of keys, those of their groups and of these in some levels."""
    public = groups.public
    assert public is not None
    public_names = [f"public_{i}" for i in range(len(keys))]
    renamed = public.rename_columns(public_names)
    for name, numbers in {KEY: np.arange(public.num_rows), **places}.items():
        renamed = renamed.append_column(name, pa.array(numbers, pa.int32()))
    numbered = engine.small_table(rows.get_backend(), renamed)
    theirs = {name: engine.carried(engine.public_key(numbered[name], types[i])) for i, name in enumerate(public_names)}
    if groups.each_row:
        # Two keys that are one to the engine, as a UUID in large and in small letters: a row is in the first alone.
        numbered = numbered.select(KEY, **theirs)
        numbered = numbered.group_by(list(theirs)).agg(**{KEY: numbered[KEY].min()})
        theirs = {name: numbered[name] for name in theirs}
        rows = engine.read_once(rows)  # where a view gives others every time, a row could be in several groups
    # An equality can be looked up in a hash table on every engine; one that takes null for equal cannot.
    same = [
        rows[key].identical_to(theirs[f"public_{i}"])
        if public.column(i).null_count
        else rows[key] == theirs[f"public_{i}"]
        for i, key in enumerate(keys)
    ]
    joined = rows.inner_join(numbered, same)
    return joined.select([KEY, *places, *(name for name in rows.columns if name not in keys)])
