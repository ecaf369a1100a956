"""Tables that nobody would make on purpose: each gives what it should, or says what is wrong."""

import numpy as np
import pyarrow as pa
import pytest

from engines import ROW, UNIT, fetched_queries, sums
from osgt import Dataset
from osgt.limits.contribution import fresh_salt
from osgt.query.measures import ClippedSum, Rows, Units, Values
from osgt.query.values import ValueGrid

GRID = ValueGrid("integer", 1, 0, 10)


def answer(dataset, by=("key",), max_groups=2, max_rows=2, column="value"):
    query = dataset.group_by(*by, max_groups=max_groups, max_rows_per_group=max_rows)
    return sums(query, [Units(), Rows(), Values(column), ClippedSum(column, GRID)], fresh_salt())


def test_one_unit_in_every_group_and_one_group_with_every_unit(engine):
    size = 300
    keys = [f"g{i}" for i in range(size)] + ["g0"] * size
    people = ["everywhere"] * size + [f"p{i}" for i in range(size)]
    dataset = engine.put(pa.table({UNIT: people, "key": keys, "value": [1] * (2 * size)}))
    found = answer(dataset, max_groups=5)
    everyone = found.pop(("g0",), None)
    assert everyone in ([[size]] * 4, [[size + 1]] * 4)
    assert len(found) + everyone[0][0] - size == 5
    assert set(map(str, found.values())) == {str([[1]] * 4)}


@pytest.mark.parametrize("rows", [0, 5], ids=["empty", "all null"])
def test_nothing_there(engine, rows):
    columns = {UNIT: pa.string(), "key": pa.string(), "value": pa.int64()}
    table = pa.table({name: pa.nulls(rows, dtype) for name, dtype in columns.items()})
    dataset = engine.put(table)
    assert answer(dataset) == {}
    if not engine.slow:
        query = dataset.group_by(max_rows_per_group=2)
        assert sums(query, [Units(), Rows(), ClippedSum("value", GRID)]) == {(): [[0], [0], [0]]}
        release = dataset.group_by("key", max_groups=1, max_rows_per_group=1).count().release(1, 1e-6)
        assert release.to_arrow().num_rows == 0
        assert len(dataset.group_by(max_rows_per_group=2).count().release(1, 1e-6)) == 1


def test_units_without_keys_and_values(engine):
    table = pa.table(
        {
            UNIT: pa.array(["a", "b", None], pa.string()),
            "key": pa.nulls(3, pa.string()),
            "value": pa.nulls(3, pa.int64()),
        }
    )
    assert answer(engine.put(table)) == {(None,): [[2], [2], [0], [0]]}


#: Names that are words of SQL, that hold what quotes names, and that the query uses itself.
NAMES = [
    "unit", "key", "key_0", "key_1", "value_0", "value_1", "choice", "position", "shuffled", "order", "group_rank",
    "size", "row", "before", "through", "kept", "sum_0_0", "public_0", "osgt_rows", "osgt_source", "select", "FROM",
    "count", 'a"b', "a'b", ";--", "a b", " ", "日本", "Zu\u0308rich", "%s", "{x}", "$1", "?", ":name", "t0", "*", "/*",
    "a`b", "a\\b",
]  # fmt: skip


def test_hostile_column_names(engine):
    """Every name as the unit, the key or the value, in a table with all the others."""
    names = [name for name in NAMES if not set(name) & set(engine.not_in_names)]
    table = pa.table({name: [i, i, i + 1] for i, name in enumerate(names)})
    triples = [(names[i], names[i - 1], names[i - 2]) for i in range(0, len(names), 3)]
    if engine.slow:  # each is a query: the names that the query uses itself
        triples = [("unit", "choice", "value_0"), ("position", "key_0", "order"), (";--", 'a"b', "select")]
    source = engine.store(table)
    for unit, key, value in triples:
        at = names.index(key)
        found = answer(Dataset(source, [unit]), by=(key,), column=value)  # "row" alone would mean every row
        low, high = (min(names.index(value) + i, 10) for i in (0, 1))
        assert found == {(at,): [[1], [2], [2], [2 * low]], (at + 1,): [[1], [1], [1], [high]]}, (unit, key, value)


def test_one_column_in_several_places(engine):
    """The key as value, and the unit as value; never the unit as key, where a group would be one unit."""
    dataset = engine.put(pa.table({UNIT: [1, 1, 2], "key": [3, 3, 4], "value": [5, 5, 6]}))
    assert answer(dataset, column="key") == {(3,): [[1], [2], [2], [6]], (4,): [[1], [1], [1], [4]]}
    assert answer(dataset, column=UNIT) == {(3,): [[1], [2], [2], [2]], (4,): [[1], [1], [1], [2]]}
    for by in ((UNIT,), ("key", UNIT)):
        with pytest.raises(ValueError, match=f"group_by: '{UNIT}' is the privacy unit"):
            dataset.group_by(*by, max_groups=1)


def test_a_million_groups():
    """On DuckDB: each unit is in one group; all come back, and the noise hides them."""
    size = 1_000_000
    numbers = np.arange(size)
    table = pa.table({UNIT: numbers, "key": numbers, "value": numbers % 10})
    query = Dataset(table, UNIT).group_by("key", max_groups=1, max_rows_per_group=1)
    with fetched_queries() as fetched:
        release = query.sum("value", (0, 9)).release(1, 1e-9, measure_left_out=False)
    (found,) = fetched
    assert found.num_rows == size
    assert np.array_equal(np.sort(found["key_0"].to_numpy()), numbers)
    assert release.to_arrow().num_rows < size / 1000


def test_only_groups_leave_the_engine(engine):
    """A release gets a row for each group, keys and numbers: nothing of a unit or row."""
    table = pa.table({UNIT: [f"secret {i}" for i in range(50)], "key": [1, 2] * 25, ROW: range(50), "value": range(50)})
    dataset = engine.put(table)
    query = dataset.group_by("key", max_groups=1, max_rows_per_group=3).count().mean("value", (0, 10))
    with fetched_queries() as fetched:
        query.release(1, 1e-6)
    (found,) = fetched
    assert found.num_rows == 2
    expected = {"key", "sum", "counted_rows", "cut_rows", "kept_rows"}
    assert {name.rstrip("0123456789_") for name in found.column_names} == expected
    assert all(pa.types.is_integer(column.type) for column in found.columns)
    assert UNIT not in str(found.to_pydict())
    assert "secret" not in str(found.to_pydict())
