"""DuckDB files: nothing is loaded because of them, and views in them read nothing but the file."""

import sqlite3
from contextlib import closing

import duckdb
import pandas as pd
import pytest

from osgt import Dataset


def counted(dataset):
    query = dataset.group_by(max_rows_per_group=1).count()
    return query.release(epsilon=1, delta=0).to_arrow()["count"].to_pylist()


#: Views that read the CSV file {} in ways of their own.
BEYOND = {
    "function": "SELECT * FROM read_csv('{}')",
    "name": "SELECT * FROM '{}'",
    "view of a view": "SELECT other.* FROM (SELECT * FROM read_csv('{}')) other, own",
    "macro": "SELECT * FROM rows_of('{}')",
    "subquery": "SELECT person, (SELECT content FROM read_text('{}')) AS value FROM people",
    "subquery in a macro": "SELECT person, text_of('{}') AS value FROM people",
    "files": "SELECT person, file AS value FROM people, glob('{}')",
}


@pytest.fixture
def file(tmp_path):
    secret = tmp_path / "secret.csv"
    secret.write_text("person,value\n1,2\n")
    path = tmp_path / "people.duckdb"
    with duckdb.connect(path) as connection:
        connection.execute("CREATE TABLE people AS SELECT i AS person, i % 7 AS value FROM range(50) r(i)")
        connection.execute("CREATE MACRO rows_of(path) AS TABLE SELECT * FROM read_csv(path)")
        connection.execute("CREATE MACRO text_of(path) AS (SELECT content FROM read_text(path))")
        connection.execute("CREATE MACRO doubled(x) AS 2 * x")
        connection.execute("CREATE VIEW own AS SELECT person, doubled(value) AS value FROM people WHERE value > 1")
        connection.execute("CREATE VIEW joined AS SELECT own.* FROM own JOIN people USING (person)")
        for name, query in BEYOND.items():
            connection.execute(f'CREATE VIEW "{name}" AS {query.format(secret)}')
    return path


@pytest.mark.parametrize("name", BEYOND)
def test_views_that_read_other_files_are_refused(file, name):
    with pytest.raises(ValueError, match=f"table: '{name}' is a view that reads more than its own file"):
        Dataset(file, "person", table=name)


@pytest.mark.parametrize("name", ["people", "own", "joined"])
def test_tables_and_views_of_the_file_itself(file, name):
    dataset = Dataset(file, "person", table=name)
    assert len(counted(dataset.where("value >= 0"))) == 1
    dataset.close()


def test_a_connection_of_ones_own_reads_what_it_may(file):
    with duckdb.connect(file, read_only=True) as connection:
        assert len(counted(Dataset(connection, "person", table="function"))) == 1
        with pytest.raises(ValueError, match="open already; close that connection, or hand it over"):
            Dataset(file, "person", table="people")


def test_a_file_of_another_program_is_refused(tmp_path):
    """DuckDB itself would download an extension for it."""
    path = tmp_path / "people.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE people (person)")
    connection.commit()
    connection.close()
    for other in (path, tmp_path / "empty.db"):
        other.touch()
        with pytest.raises(ValueError, match=r"source: .* is no DuckDB file; write its table"):
            Dataset(other, "person", table="people")


def test_no_extension_is_installed_or_loaded_by_itself(file, tmp_path):
    csv = tmp_path / "rows.csv"
    csv.write_text("person\n1\n")
    parquet = tmp_path / "rows.parquet"
    duckdb.sql("SELECT 1 AS person").write_parquet(str(parquet))
    names = "'autoinstall_known_extensions', 'autoload_known_extensions'"
    for source in (csv, parquet, pd.DataFrame({"person": [1]}), file):
        dataset = Dataset(source, "person", table="people" if source is file else None)
        settings = f"SELECT value FROM duckdb_settings() WHERE name IN ({names})"
        assert dataset.table.connection.execute(settings).fetchall() == [("false",)] * 2
        dataset.close()


def test_duckdb_shows_no_bar_of_its_own(capfd):
    """It would stand among the numbers on standard output, wherever Python is interactive."""
    with closing(Dataset(pd.DataFrame({"person": [1, 2]}), "person")) as data:
        connection = data.table.connection
        connection.execute("SET progress_bar_time = 0")  # also turns the bar on
        shown = connection.sql("SELECT value FROM duckdb_settings() WHERE name = 'enable_progress_bar'").fetchall()
        connection.sql("SELECT sum(a.range * b.range) FROM range(20000) a, range(1000) b").fetchall()
    assert shown == [("true",)]
    assert capfd.readouterr().out == ""
