"""One row with a strange value: the release succeeds all the same, with the same columns, types and sensitivity.

An error that comes up because of one row gives that row away, so every value that a type can hold has a defined answer:
as a key it is shown, or counts as null; in a sum it is clipped, or counts as missing.
"""

import datetime as dt
import functools

import duckdb
import psycopg
import pyarrow as pa
import pytest
from engines import UNIT, new_name, sums
from test_engine_sensitivity import beyond_part

from osgt import Dataset
from osgt.limits import LARGEST_SUM
from osgt.tables.measures import Bins, CentredSum, ClippedSum, Rows, Squares, Units, Values
from osgt.tables.values import ValueGrid, grid_of

#: Key types of each engine: how an ordinary key is written there, and hostile ones; True for those shown as null.
KEYS = {
    "duckdb": {
        "DATE": ("DATE '2024-02-29'", {"DATE 'infinity'": True, "DATE '-infinity'": True, "DATE '5881580-07-10'": False,
                                       "DATE '5877642-06-25 (BC)'": False}),
        "TIMESTAMP": ("TIMESTAMP '2024-02-29 12:00:00'", {"TIMESTAMP 'infinity'": True, "TIMESTAMP '-infinity'": True,
                                                          "TIMESTAMP '290000-01-01 00:00:00'": False}),
        "TIMESTAMPTZ": ("TIMESTAMPTZ '2024-02-29 12:00:00+00'", {"TIMESTAMPTZ 'infinity'": True,
                                                                 "TIMESTAMPTZ '294000-01-01 00:00:00+00'": False}),
        "TIMESTAMP_S": ("TIMESTAMP_S '2024-02-29 12:00:00'", {"'infinity'::TIMESTAMP_S": True,
                                                              "'290000-01-01'::TIMESTAMP_S": False}),
        "TIMESTAMP_NS": ("TIMESTAMP_NS '2024-02-29 12:00:00'", {"'infinity'::TIMESTAMP_NS": True}),
        "HUGEINT": ("7", {"170141183460469231731687303715884105727": True,
                          "99999999999999999999999999999999999999": False}),
        "UBIGINT": ("7", {"18446744073709551615": False}),
        "DECIMAL(38, 10)": ("7", {"9999999999999999999999999999.9999999999": False}),
        "VARCHAR": ("'Rome'", {"chr(0) || 'x'": False, "repeat('x', 100000)": False, "'\\xff'": False}),
        "BLOB": ("'ab'::BLOB", {"'\\xff\\x00'::BLOB": False}),
        "UUID": ("'00000000-0000-0000-0000-000000000001'", {"'ffffffff-ffff-ffff-ffff-ffffffffffff'": False}),
        "BOOLEAN": ("true", {"false": False}),
    },
    "spark": {
        "DATE": ("DATE '2024-02-29'", {"date_add(DATE '9999-12-31', 1000000000)": False,
                                       "date_add(DATE '0001-01-01', -1000000000)": False}),
        "TIMESTAMP": ("TIMESTAMP '2024-02-29 12:00:00'", {"timestamp_micros(9223372036854775807)": False,
                                                          "timestamp_micros(-9223372036854775807)": False}),
        "TIMESTAMP_NTZ": ("TIMESTAMP_NTZ '2024-02-29 12:00:00'", {"TIMESTAMP_NTZ '+290000-01-01 00:00:00'": False}),
        "DECIMAL(38, 10)": ("7", {"9999999999999999999999999999.9999999999": False}),
        "STRING": ("'Rome'", {"'x\\0'": False, "cast(unhex('ff') AS STRING)": False}),
        "BINARY": ("unhex('00')", {"unhex('ff')": False}),
        "BIGINT": ("7", {"-9223372036854775808": False}),
    },
    "postgres": {
        "date": ("'2024-02-29'", {"'infinity'": True, "'-infinity'": True, "'4713-01-01 BC'": False,
                                  "'5874897-12-31'": False, "'10000-01-01'": False}),
        "timestamp": ("'2024-02-29 12:00'", {"'infinity'": True, "'-infinity'": True, "'4713-01-01 BC'": False,
                                             "'294276-12-31 23:59:59.999999'": True, "'294246-12-31'": False}),
        "timestamptz": ("'2024-02-29 12:00+00'", {"'infinity'": True, "'0044-03-15 12:00+00 BC'": False,
                                                  "'9999-12-31 23:59:59.999999-12'": False}),
        "timestamp(3)": ("'2024-02-29 12:00'", {"'infinity'": True, "'10000-01-01'": False}),
        "numeric(9, 2)": ("7", {"'NaN'": True, "-9999999.99": False}),
        "numeric(38, 37)": ("7", {"'NaN'": True, "9.9999999999999999999999999999999999999": False}),
        "uuid": ("'00000000-0000-0000-0000-000000000001'", {"'ffffffff-ffff-ffff-ffff-ffffffffffff'": False}),
        "bytea": ("'ab'", {r"'\xff00'": False}),
        "text": ("'Rome'", {"repeat('x', 100000)": False, "U&'\\+01F600'": False}),
        "bigint": ("7", {"-9223372036854775808": False}),
    },
}  # fmt: skip


def table_of_sql(engine_name, request, column, rows):
    """A table of units and keys, made on the engine itself; values that no driver hands over can be in it."""
    name = new_name()
    values = ", ".join(f"({unit}, {key})" for unit, key in rows)
    if engine_name == "duckdb":
        connection = duckdb.connect()
        connection.execute(f"CREATE TABLE {name} (person BIGINT, key {column}); INSERT INTO {name} VALUES {values}")
        return Dataset(connection, UNIT, table=name)
    if engine_name == "spark":
        spark = request.getfixturevalue("spark")
        spark.sql(
            f"CREATE TEMPORARY VIEW {name} AS SELECT CAST(col1 AS BIGINT) AS person, CAST(col2 AS {column}) AS key "
            f"FROM VALUES {values}"
        )
        return Dataset(spark, UNIT, table=name)
    url = request.getfixturevalue("postgres_tables")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE {name} (person bigint, key {column}); INSERT INTO {name} VALUES {values}")
    return Dataset(url, UNIT, table=name)


@pytest.mark.parametrize(
    ("engine_name", "column"), [(name, column) for name, types in KEYS.items() for column in types], ids=str
)
def test_one_hostile_key(request, engine_name, column):
    ordinary, hostile = KEYS[engine_name][column]
    data = functools.partial(table_of_sql, engine_name, request, column)
    common = [(i, ordinary) for i in range(300)]
    less = data(common)
    whole = data(common + [(1000 + i, key) for i, key in enumerate(hostile)])
    found = {}
    for name, dataset in (("less", less), ("whole", whole)):
        query = dataset.group_by("key", max_groups=1, max_rows_per_group=1)
        found[name] = sums(query, [Units(), Rows()], order=None)
    (usual,) = found["less"]
    assert found["less"][usual] == [[300], [300]]
    assert list(found["whole"].values()).count([[300], [300]]) == 1
    expected = {}
    for key, null in hostile.items():
        expected[None if null else key] = expected.get(None if null else key, 0) + 1
    more = {key: numbers for key, numbers in found["whole"].items() if numbers != [[300], [300]]}
    assert len(more) == len(expected)
    assert more.get((None,), [[0]])[0][0] == expected.get(None, 0)
    if engine_name != "spark" or column == "DATE":  # slow, and the way from the groups to the release is the same
        releases = [
            dataset.group_by("key", max_groups=1, max_rows_per_group=1).count().release(1, 1e-6).to_arrow()
            for dataset in (less, whole)
        ]
        assert releases[0].schema == releases[1].schema
        assert releases[0]["key"] == releases[1]["key"]
        assert releases[0]["key"].to_pylist() == list(usual)


@pytest.mark.parametrize("engine_name", ["duckdb", "postgres"])
def test_hostile_keys_that_are_shown(request, engine_name):
    """Groups of many people with keys that Python has no dates for: they are shown in the type of their column."""
    keys = {"duckdb": ("DATE", ["DATE '20000-01-01'", "DATE 'infinity'", "NULL"]),
            "postgres": ("date", ["'20000-01-01'", "'infinity'", "NULL"])}[engine_name]  # fmt: skip
    rows = [(i, keys[1][i % 3]) for i in range(900)]
    dataset = table_of_sql(engine_name, request, keys[0], rows)
    release = dataset.group_by("key", max_groups=1, max_rows_per_group=1).count_units().release(1, 1e-6)
    shown = release.to_arrow()
    assert shown.schema.field("key").type == pa.date32()
    assert shown["key"].cast(pa.int32()).to_pylist() == [(dt.date(2000, 1, 1) - dt.date(1970, 1, 1)).days + 45 * 146097,
                                                         None]  # fmt: skip
    assert [abs(n - true) < 60 for n, true in zip(shown["count_units"].to_pylist(), [300, 600], strict=True)]


def test_bytes_that_are_no_text_are_shown_escaped():
    """Arrow hands them over, DuckDB keeps them: as keys they are told apart, and what is shown is text."""
    buffers = [None, pa.array([0, 2, 4], pa.int32()).buffers()[1], pa.py_buffer(b"a\xffb\xfe")]
    texts = pa.Array.from_buffers(pa.string(), 2, buffers)
    table = pa.table({UNIT: range(600), "key": pa.concat_arrays([texts] * 300)})
    release = Dataset(table, UNIT).group_by("key", max_groups=1, max_rows_per_group=1).count().release(1, 1e-6)
    assert release.to_arrow()["key"].to_pylist() == ["a\\xff", "b\\xfe"]


HUGE = "170141183460469231731687303715884105727"

#: Columns of numbers, and values in them that no sum may stumble over.
NUMBERS = {
    "duckdb": {
        "HUGEINT": [HUGE, f"-{HUGE}", "10000000000000000000000000000000000000"],
        "DECIMAL(38, 0)": ["99999999999999999999999999999999999999", "-99999999999999999999999999999999999999"],
        "UBIGINT": ["18446744073709551615", "0"],
        "DOUBLE": ["'NaN'", "'Infinity'", "1.7976931348623157e308", "5e-324", "-1.7976931348623157e308"],
        "FLOAT": ["'NaN'", "3.4028235e38", "1e-45"],
    },
    "spark": {
        "DECIMAL(38, 0)": ["99999999999999999999999999999999999999", "-99999999999999999999999999999999999999"],
        "DECIMAL(38, 38)": ["0.99999999999999999999999999999999999999", "-0.99999999999999999999999999999999999999"],
        "DOUBLE": ["DOUBLE('NaN')", "DOUBLE('Infinity')", "1.7976931348623157e308D", "4.9e-324D"],
        "BIGINT": ["9223372036854775807", "-9223372036854775808"],
    },
    "postgres": {
        "numeric": ["'NaN'", "'Infinity'", "'-Infinity'", "1e131071", "1e-16383", "-1e131071"],
        "numeric(500, 400)": ["'NaN'", "1e99", "1e-400"],
        "numeric(9, 2)": ["'NaN'", "9999999.99"],
        "double precision": ["'NaN'", "'Infinity'", "1.7976931348623157e308", "5e-324"],
        "bigint": ["9223372036854775807", "-9223372036854775808"],
    },
}  # fmt: skip


@pytest.mark.parametrize("bounds", [(-5, 7), (0, 10**15)], ids=["fine", "coarse"])
@pytest.mark.parametrize(
    ("engine_name", "column"), [(name, column) for name, types in NUMBERS.items() for column in types], ids=str
)
def test_hostile_numbers(request, engine_name, column, bounds):
    """In sums, means, variances and histograms: every one is within its bounds, or counts as missing."""
    if column == "DECIMAL(38, 38)":
        bounds = (0, bounds[1])
    common = [(i, "3" if column != "DECIMAL(38, 38)" else "0.3") for i in range(3)]
    less = table_of_sql(engine_name, request, column, common)
    dtype = less.type_of("column", "key")
    fine, centred = grid_of("key", dtype, bounds), grid_of("key", dtype, bounds, centred=True)
    squares = grid_of("key", dtype, bounds, squares=True)
    measures = [
        Values("key"), ClippedSum("key", fine), CentredSum("key", centred), Squares("key", squares),
        Bins("key", (-1, 0, 5)),
    ]  # fmt: skip
    values = NUMBERS[engine_name][column]
    (before,) = sums(less.group_by(max_rows_per_group=1), measures, order=None).values()
    tables = [table_of_sql(engine_name, request, column, [*common, (1000, value)]) for value in values]
    if engine_name == "spark":
        tables = tables[:2]
    for dataset, value in zip(tables, values, strict=False):
        query = dataset.group_by(max_rows_per_group=1)
        (after,) = sums(query, measures, order=None).values()
        assert beyond_part({(): before}, {(): after}, query.groups, measures, "add_remove") == [], value
        assert (after[0][0] == before[0][0]) == ("NaN" in value), value


def test_sums_beyond_64_bits_are_saturated(engine):
    """One row more or less then moves a sum by no more than its bound, and is no error."""
    size, most = 40, 2**60
    for sign in (1, -1):
        grid = ValueGrid("integer", 1, min(0, sign * most), max(0, sign * most))
        found = []
        for rows in (0, 1, 2, 3, size):
            table = pa.table({UNIT: range(rows + 1), "v": pa.array([0] + [sign * most] * rows, pa.int64())})
            query = engine.put(table).group_by(max_rows_per_group=1)
            (numbers,) = sums(query, [ClippedSum("v", grid), Rows()], order=None).values()
            found.append(numbers)
        assert [numbers[0][0] for numbers in found] == [
            sign * min(rows * most, LARGEST_SUM) for rows in (0, 1, 2, 3, size)
        ]
        assert found[-1][1] == [size + 1]
