"""What engines give back, for tests to compare.

A test writes its rows as an Arrow table with an explicit schema; `put` of an engine (`stands`) brings them there with
the types that come closest, and gives the data set back.
"""

import functools
import re
import uuid
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from osgt.data.engines.query import compile_query, fetch
from osgt.data.types import ColumnType, decimal_type
from osgt.limits.contribution import COUNTED_ROWS
from osgt.limits.contribution import UNIT as PREPARED_UNIT
from osgt.query.keys import KEY
from osgt.query.measures import Values
from osgt.release import measuring
from osgt.release.measuring import exact_sums, prepared_rows, shown_keys, value_names


def rows_of(table, *names):
    """All rows of a table of an engine, or some of its columns, as Arrow."""
    wanted = {name: table[name] for name in names or table.columns}
    return fetch(compile_query(table.select("wanted", "All rows.", wanted)))


def column_type(name):
    """The type of a column that has this name in Arrow."""
    digits = re.fullmatch(r"decimal(?:128)?\((\d+), (\d+)\)", str(name))
    if digits:
        return decimal_type(int(digits[1]), int(digits[2]))
    if sized := re.fullmatch(r"(u?)(int|float)(\d+)", str(name).replace("double", "float64")):
        kind = "integer" if sized[2] == "int" else "float"
        return ColumnType(kind, str(name), int(sized[3]), signed=not sized[1])
    return ColumnType({"string": "text", "bool": "boolean"}.get(str(name), str(name)), str(name))


#: The column of the privacy unit, and the one that numbers rows, in the tables of the tests.
UNIT, ROW = "person", "row"


def steps(query, measures, salt=1):
    """The exact numbers of each group in steps: a dict from its key to a list with the numbers of each measure.

    Keys are tuples in the order of `group_by`; with public keys, the place of the key among them.
    """
    return numbers_by_key(query, measures, fetch(compile_query(exact_sums(query, list(measures), salt))))


def sums(query, measures, salt=1):
    """The numbers of each group in place of their steps, to the nearest whole number; of groups that there are.

    Those of units that keep to the limits are exact, since what is rounded off is far below one half.
    """
    sizes = [query.groups.step(measure) for measure in measures]
    answer = fetch(compile_query(exact_sums(query, list(measures), salt)))
    if not query.groups.shows_all:
        answer = answer.filter(pc.greater(answer[COUNTED_ROWS], 0))
    return {
        key: [[round(number * size) for number in each] for each, size in zip(numbers, sizes, strict=True)]
        for key, numbers in numbers_by_key(query, measures, answer).items()
    }


def cut_off(query, things, salt=1):
    """What limits cut off and keep, in steps, by thing."""
    measures = [thing for thing in things if not isinstance(thing, str)]
    answer = fetch(compile_query(exact_sums(query, measures, salt, things)))
    names = {thing: thing if isinstance(thing, str) else value_names(query, measures)[thing] for thing in things}
    return {
        thing: tuple(sum(answer[f"{fate}_{names[thing]}"].to_pylist()) for fate in ("cut", "kept")) for thing in things
    }


def group_order(query, salt=1):
    """For each row that is prepared, by the number in its column ROW: where its group comes among those of its unit."""
    rows, keys, values = prepared_rows(query, [Values(ROW)], with_totals=False)
    choice = query.dataset.engine.hashed(salt, [rows[name] for name in (PREPARED_UNIT, *keys)])
    answer = rows_of(rows.select("ordered", "The order of groups.", {"row": rows[values[ROW]], "choice": choice}))
    return dict(zip(answer["row"].to_pylist(), answer["choice"].to_pylist(), strict=True))


def choose_pairs_by(query, salt=1):
    """The pairs of group and value of a unit in the order in which they count, as the plain reference takes it."""

    def choose(measure):
        rows, keys, values = prepared_rows(query, [Values(ROW), measure], with_totals=False)
        choice = query.dataset.engine.hashed(salt, [rows[name] for name in (PREPARED_UNIT, *keys, values[measure])])
        wanted = {"row": rows[values[ROW]], "choice": choice}
        answer = rows_of(rows.select("ordered", "The order of pairs.", wanted))
        order = dict(zip(answer["row"].to_pylist(), answer["choice"].to_pylist(), strict=True))
        return lambda pairs: sorted(pairs, key=lambda pair: order[pairs[pair][0][ROW]])

    return functools.cache(choose)


def choose_by(order):
    """The groups of a unit in the order of `group_order`, as the plain reference takes it."""
    return lambda groups: sorted(groups, key=lambda group: order[groups[group][0][ROW]])


def numbers_by_key(query, measures, found):
    """The rows that the engine gave back, by key."""
    names = [KEY] if query.groups.public is not None else [f"key_{i}" for i in range(len(query.groups.by))]
    keys = {name: _values(column) for name, column in _columns(shown_keys(query, found.select(names)))}
    columns = found.select([name for name in found.column_names if name not in names]).to_pydict()
    result = {}
    for row in range(found.num_rows):
        key = tuple(column[row] for column in keys.values())
        assert key not in result, f"the engine gave the group {key} twice"
        result[key] = [
            [columns[name][row] for name in columns if name.startswith(f"sum_{i}_")] for i in range(len(measures))
        ]
        assert all(type(number) is int for numbers in result[key] for number in numbers)
    return result


def _columns(table):
    return zip(table.column_names, table.columns, strict=True)


def _values(column):
    """The values as Python has them; dates and times that it has not, as numbers."""
    try:
        return column.to_pylist()
    except (ValueError, OverflowError):
        return column.cast(pa.int32() if pa.types.is_date32(column.type) else pa.int64()).to_pylist()


@contextmanager
def fetched_queries():
    """The tables that releases get from the engine meanwhile, and nothing else may: a list that grows."""
    tables = []

    def fetched_and_noted(query):
        tables.append(fetch(query))
        return tables[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measuring, "fetch", fetched_and_noted)
        yield tables


def new_name():
    return f"t_{uuid.uuid4().hex}"
