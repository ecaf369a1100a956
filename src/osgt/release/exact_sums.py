"""The query for the engine: rows with the columns that are needed, and the exact, weighted sums of each group."""

from collections.abc import Mapping, Sequence
from typing import Any

import ibis
import ibis.expr.datatypes as dt
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa

from osgt.data.engines.engine import Engine
from osgt.limits.worth import UNIT, unit_totals, weighted_sums, with_unit_totals
from osgt.query.aggregates.base import QuerySpec
from osgt.query.groups import Groups, UnitsAt
from osgt.query.keys import KEY
from osgt.query.measures import Measure


def exact_sums(query: QuerySpec, measures: list[Measure], salt: int, cut_off: Sequence[str | Measure] = ()) -> ir.Table:
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
        levels={by: name for by, name in level_columns(query.groups).items() if by in counted},
        cut_off=cut_off,
    )


def level_columns(groups: Groups) -> dict[tuple[str, ...], str]:
    """The column of the prepared rows that has the group of each level; the table as a whole needs none."""
    return {level.by: f"level_{i}" for i, level in enumerate(groups.levels) if level.by}


def prepared_rows(
    query: QuerySpec,
    measures: Sequence[Measure],
    *,
    numbered: bool = True,
    with_totals: bool = True,
    with_keys: bool = True,
) -> tuple[ir.Table, list[str], dict[Any, str]]:
    """The rows with the columns that are needed, under names of our own; rows with other than public keys are gone.

    Rows that are units of their own get a number as their unit, if they are to be `numbered`. Other units are counted
    with all their rows, also those with other keys: tables with the same rows give a row the same worth.

    Without totals, what rows are worth is not known; without keys, rows with any keys are there.
    """
    table, by = query.dataset.rows(), query.groups.by if with_keys else ()
    sources, values = _sources(table, measures), value_names(query, measures)
    keys = [f"key_{i}" for i in range(len(by))]
    engine = query.dataset.engine
    unit = query.dataset.unit
    # A table has at least one column.
    without = unit.each_row and not numbered
    columns = {"each_row": ibis.literal(True)} if without else {UNIT: unit.value(engine, table)}
    columns |= {key: engine.carried(table[name]) for key, name in zip(keys, by, strict=True)}
    columns |= {value: sources[source] for source, value in values.items()}
    rows = table.select(**columns)
    if not unit.each_row:
        rows = with_unit_totals(rows, unit_totals(query.groups, measures, values) if with_totals else {})
    if query.groups.public is None or not with_keys:
        return rows, keys, values
    types = [table[name].type() for name in by]
    return _with_public_keys(engine, rows, keys, types, query.groups, _places(query.groups, measures)), [KEY], values


def value_names(query: QuerySpec, measures: Sequence[Measure]) -> dict[Any, str]:
    """The names of the values that measures are made of, as `prepared_rows` gives them."""
    return {source: f"value_{i}" for i, source in enumerate(_sources(query.dataset.rows(), measures))}


def _sources(table: ir.Table, measures: Sequence[Measure]) -> dict[Any, ir.Value]:
    """The values that measures are made of: columns by their names, and what some derive of a row."""
    names = dict.fromkeys(column for measure in measures for column in measure.columns)
    sources: dict[Any, ir.Value] = {name: table[name] for name in names}
    return sources | {measure: value for measure in measures if (value := measure.derived(table)) is not None}


def _places(groups: Groups, measures: Sequence[Measure]) -> dict[str, Any]:
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
    # Two keys that are one to the engine, as a UUID in large and in small letters: a row is in the first alone.
    numbered = numbered.select(KEY, *places, **theirs)
    firsts = {name: numbered[name].min() for name in (KEY, *places)}
    numbered = numbered.group_by(list(theirs)).agg(**firsts)
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
