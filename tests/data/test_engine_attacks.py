"""What someone who writes the rows of one unit might try, so that it counts for more than one."""

import duckdb
import psycopg
import pytest
from psycopg import sql

from engines import new_name, sums
from osgt import Dataset
from osgt.data.engines import engine_named
from osgt.query.measures import Bins, ClippedSum, Rows, Units, Values
from osgt.query.values import grid_of

LIKE = ["a", "A", "á", "Á", "a\u0301", "A\u0301"]


def most_of_one_unit(dataset, by="key", max_groups=3, max_rows=2):
    """The largest numbers of units and of rows that a group has, and the number of groups."""
    query = dataset.group_by(by, max_groups=max_groups, max_rows_per_group=max_rows)
    found = sums(query, [Units(), Rows(), Values("value")])
    assert sum(numbers[1][0] for numbers in found.values()) <= max_groups * max_rows
    return max(n[0][0] for n in found.values()), max(n[1][0] for n in found.values()), len(found)


@pytest.mark.parametrize("collation", ["NOCASE", "NOACCENT", "NFC", "NOCASE.NOACCENT"])
def test_collations_of_duckdb(collation):
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE t (person int, key varchar COLLATE {collation}, value int)")
    connection.executemany("INSERT INTO t VALUES (1, ?, 1)", [[key] for key in LIKE * 4])
    assert most_of_one_unit(Dataset(connection, "person", table="t")) == (1, 2, 3)


def test_default_collation_of_duckdb():
    connection = duckdb.connect()
    connection.execute("PRAGMA default_collation = NOCASE")
    connection.execute("CREATE TABLE t (person int, key varchar, value int)")
    connection.executemany("INSERT INTO t VALUES (1, ?, 1)", [[key] for key in LIKE * 4])
    dataset = Dataset(connection, "person", table="t")
    assert most_of_one_unit(dataset) == (1, 2, 3)
    query = dataset.group_by("key", max_groups=3, max_rows_per_group=2, public_keys=["a", "A", "x"])
    assert sums(query, [Units(), Rows()]) == {(0,): [[1], [2]], (1,): [[1], [2]]}


def test_collations_of_spark(spark, engine_of):
    engine_of("spark")  # the session's own settings
    name = new_name()
    rows = ", ".join(f"(1, '{key}', 1)" for key in LIKE * 4)
    spark.sql(
        f"CREATE TEMPORARY VIEW {name} AS SELECT person, key COLLATE UNICODE_CI_AI AS key, value "
        f"FROM VALUES {rows} AS t(person, key, value)"
    )
    assert most_of_one_unit(Dataset(spark, "person", table=name)) == (1, 2, 3)


@pytest.fixture
def postgres_rows(postgres_tables):
    """A function from the types of the unit and of the key, and rows in SQL, to a data set."""
    with psycopg.connect(postgres_tables, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS citext")
        connection.execute(
            "CREATE COLLATION IF NOT EXISTS alike (provider = icu, locale = 'und-u-ks-level1', deterministic = false)"
        )
        engine = engine_named("postgres")
        opened = engine.connect(postgres_tables)

        def make(person, key, rows, value="int"):
            name = new_name()
            connection.execute(f"CREATE TABLE {name} (person {person}, key {key}, value {value})")
            for row in rows:
                connection.execute(sql.SQL("INSERT INTO {} VALUES ({})").format(sql.Identifier(name), sql.SQL(row)))
            return Dataset(engine.named(opened, name), "person")

        yield make
        opened.close()


@pytest.mark.parametrize("key", ["citext", "text COLLATE alike", "varchar(9) COLLATE alike"])
def test_collations_of_postgres(postgres_rows, key):
    dataset = postgres_rows("int", key, [f"1, '{text}', 1" for text in LIKE * 4])
    assert most_of_one_unit(dataset) == (1, 2, 3)


def test_padded_text_of_postgres(postgres_rows):
    """In char(n) blanks at the end are no part of the value."""
    rows = ["'x', 'a', 1", "'x ', 'a ', 1", "'x  ', 'a  ', 1", "'x', ' a', 1"]
    assert most_of_one_unit(postgres_rows("char(4)", "char(5)", rows)) == (1, 2, 2)


def test_numbers_that_are_written_in_several_ways(postgres_rows):
    """1.0 and 1.00 are one unit; as a key, a number must say how many digits it has."""
    rows = ["1.0, 7, 1", "1.00, 7, 1", "1, 7, 1", "1.000, 8, 1"]
    dataset = postgres_rows("numeric", "int", rows)
    assert most_of_one_unit(dataset) == (1, 2, 2)
    with pytest.raises(TypeError, match=r"group_by: column 'person' must have a precision"):
        dataset.group_by("person", max_groups=1)


def test_one_instant_in_several_zones(postgres_rows):
    rows = [f"1, '2024-01-01 {time}', 1" for time in ("12:00+00", "13:00+01", "11:00-01")]
    assert most_of_one_unit(postgres_rows("int", "timestamptz", rows)) == (1, 2, 1)


HUGE = ["1e400", "-1e400", "1e-400", "'NaN'", "'Infinity'", "'-Infinity'", "NULL", "1.5"]


def test_no_number_is_too_large_for_a_sum(postgres_rows):
    """A query that fails because of one value would give that value away."""
    dataset = postgres_rows("int", "int", [f"{i}, {i}, {value}" for i, value in enumerate(HUGE)], value="numeric")
    grid = grid_of("value", dataset.type_of("column", "value"), (-3, 5))
    query = dataset.group_by("key", max_groups=1, max_rows_per_group=1)
    found = sums(query, [ClippedSum("value", grid), Values("value"), Bins("value", (0, 1, 2))])
    assert [found[(i,)] for i in range(len(HUGE))] == [
        [[grid.high], [1], [0, 0]],
        [[grid.low], [1], [0, 0]],
        [[0], [1], [1, 0]],
        [[0], [0], [0, 0]],
        [[grid.high], [1], [0, 0]],
        [[grid.low], [1], [0, 0]],
        [[0], [0], [0, 0]],
        [[1.5 / grid.step], [1], [0, 1]],
    ]


def test_a_view_that_is_different_each_time_it_is_read(engine):
    """Rows that come and go: bounds hold for what is read, which must be read once.

    One unit has four rows in a view that shows each with probability one half, two are kept. Were the view read once
    for small groups and once for large ones, three or four rows would be kept in some of the groups.
    """
    query = engine.flickering(200).group_by("key", max_groups=200, max_rows_per_group=2)
    found = sums(query, [Units(), Rows(), Values("value")])
    assert max(numbers[0][0] for numbers in found.values()) == 1
    assert max(numbers[1][0] for numbers in found.values()) <= 2


def test_a_function_that_lies_about_being_the_same_each_time():
    """To DuckDB the function has no side effects: the engine may call it again for what it has computed already."""
    connection, calls = duckdb.connect(), []

    def sometimes(i: int) -> bool:
        calls.append(i)
        return len(calls) % 3 != 0 and len(calls) % 5 != 0

    connection.create_function("sometimes", sometimes, ["BIGINT"], "BOOLEAN", side_effects=False)
    connection.execute(
        "CREATE VIEW t AS SELECT 1 AS person, i % 200 AS key, 1 AS value FROM range(800) r(i) WHERE sometimes(i)"
    )
    dataset = Dataset(connection, "person", table="t")
    assert most_of_one_unit(dataset, max_groups=200)[:2] == (1, 2)
    assert len(calls) == 800
