"""The tests' own PostgreSQL server works, and says what is missing where it cannot."""

import psycopg
import pytest

import postgres_server


def test_every_test_has_a_database_of_its_own(postgres_database, postgres_url):
    with psycopg.connect(postgres_database) as connection:
        connection.execute("CREATE TABLE things (name text)")
        assert connection.execute("SHOW fsync").fetchone() == ("off",)
    with postgres_server.new_database(postgres_url) as other, psycopg.connect(other) as connection:
        assert connection.execute("SELECT count(*) FROM pg_tables WHERE tablename = 'things'").fetchone() == (0,)


def test_missing_server_is_an_error(monkeypatch, tmp_path):
    monkeypatch.setattr(postgres_server.shutil, "which", lambda name: None)
    monkeypatch.setattr(postgres_server.Path, "glob", lambda self, pattern: [])
    with (
        pytest.raises(postgres_server.PostgresMissingError, match="apt-get install postgresql"),
        postgres_server.postgres_server(),
    ):
        pass
