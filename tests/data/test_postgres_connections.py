"""Connections to PostgreSQL: what a URL says, tables by their names, and small tables on the server."""

import gc

import psycopg
import pyarrow as pa
import pytest
from psycopg.conninfo import conninfo_to_dict

from engines import UNIT, new_name
from osgt import Dataset
from osgt.data.engines import engine_named

ENGINE = engine_named("postgres")


@pytest.fixture
def connection(postgres_database):
    connection = ENGINE.connect(postgres_database)
    yield connection
    connection.close()


def path_of(url):
    connection = ENGINE.connect(url)
    [(path,)] = ENGINE.run(connection, "SELECT current_setting('search_path')")
    connection.close()
    return path


def test_a_url_may_name_a_schema(postgres_url):
    for end in ("?schema=a,b", "?sslmode=disable&schema=a%2Cb", "?schema=a,b&sslmode=disable", "/a,b"):
        assert path_of(postgres_url + end) == "a,b"
    assert path_of(postgres_url) == '"$user", public'


@pytest.mark.parametrize(
    "hosts", ["localhost:1,db.example.org:2", "db.example.org,localhost", "localhost,db.example.org"]
)
def test_every_host_of_a_url_must_ask_by_scram(monkeypatch, hosts):
    for name in ("PGREQUIREAUTH", "PGHOST", "PGHOSTADDR", "PGSERVICE"):
        monkeypatch.delenv(name, raising=False)
    asked = []

    def connect(conninfo, **options):
        asked.append(conninfo_to_dict(conninfo))
        raise psycopg.OperationalError("nobody is there")

    monkeypatch.setattr(psycopg, "connect", connect)
    for place in (hosts, "localhost"):
        with pytest.raises(psycopg.OperationalError):
            ENGINE.connect(f"postgresql://ann:secret@{place}/town")
    assert [settings.get("require_auth") for settings in asked] == ["scram-sha-256", None]


def test_tables_by_their_names(connection):
    connection.execute('CREATE SCHEMA "A b"; CREATE TABLE "A b"."C" (i int NOT NULL, j int); CREATE TABLE c (i int)')
    connection.execute(
        'CREATE VIEW seen AS SELECT * FROM c; CREATE INDEX listed ON c (i); SET search_path = "A b", public'
    )
    [(database,)] = ENGINE.run(connection, "SELECT current_database()")
    found = {
        "C": '"A b"."C"', "c": '"public"."c"', "A b.C": '"A b"."C"', f"{database}.public.c": '"public"."c"',
        "seen": '"public"."seen"', "public.C": None, "A b.c": None, "elsewhere.public.c": None, "listed": None,
        "": None, ".c": None, "a.b.c.d": None,
    }  # fmt: skip
    assert {name: ENGINE.find_table(connection, name.split(".")) for name in found} == found
    columns = ENGINE.named(connection, "C").columns
    assert [columns[name].nullable for name in "ij"] == [False, True]


def test_small_tables_are_gone_when_nobody_uses_them(connection):
    def tables():
        return ENGINE.run(connection, "SELECT relname FROM pg_class WHERE relname LIKE 'osgt%' AND relkind = 'r'")

    rows = pa.table({"text": ["a\t\\N'\"", None, ""], "number": pa.array([1, None, 3], pa.int32())})
    first = ENGINE.small_table(connection, rows)
    step = first.select("step", "One more step.", {"text": first["text"]})
    second = ENGINE.small_table(connection, rows)
    assert ENGINE.fetch(connection, second.sql, rows.schema) == rows
    del first
    gc.collect()
    ENGINE.small_table(connection, rows)
    assert ENGINE.run(connection, step.sql) == [("a\t\\N'\"",), (None,), ("",)]
    del step
    gc.collect()
    third = ENGINE.small_table(connection, rows)
    assert sorted(tables()) == sorted((table.text.split('"')[1],) for table in (second, third))


def test_a_database_without_an_encoding(postgres_url):
    name = new_name()
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'SQL_ASCII'")
        url = f"{postgres_url.rpartition('/')[0]}/{name}"
        with psycopg.connect(url, autocommit=True) as inside:
            rows = b"SELECT i AS person, 'x\xff' AS key, 'a' AS c FROM generate_series(1, 1000) i"
            inside.execute(b"CREATE TABLE t AS " + rows)
        dataset = Dataset(url, UNIT, table="t").where("c = 'a'")
        query = dataset.group_by("key", max_groups=1, max_rows_per_group=1).count()
        assert query.release(9, 1e-4).table["key"].to_pylist() == ["x\\xff"]
        dataset.close()
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
