"""The query for the engine: rows with the columns that are needed, and the exact, weighted sums of each group."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from osgt.data.sql import Join, Table, Value
from osgt.data.types import ColumnType
from osgt.limits.worth import UNIT, unit_totals, weighted_sums, with_unit_totals
from osgt.query.aggregates.base import QuerySpec
from osgt.query.groups import Groups, UnitsAt
from osgt.query.keys import KEY
from osgt.query.measures import Measure


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
    is_public = query.groups.public is not None and with_keys
    rows = table.select(
        "private_rows",
        "The rows that meet the conditions: whom each is about, its keys, and the values that are needed.",
        columns,
        where=[*data.conditions, *unit.named(table)],
        once=is_public,  # where a view gives others every time, a row could be in several groups
    )
    if not unit.each_row and with_totals:
        rows = with_unit_totals(rows, unit_totals(query.groups, measures, values))
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
    names = level_columns(groups)
    return {names[level.by]: level.places for level in groups.levels if level.by and level.by in counted}


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
