"""Failures after the charge: one message that quotes nothing, an exit code of its own, and no files."""

import os

import duckdb
import pyarrow as pa
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from osgt import Ledger
from osgt.cli import app

SECRET = "Ann-is-ill"


@pytest.fixture
def run(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")
    return lambda *arguments: CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def budget(tmp_path):
    with Ledger(tmp_path / "budget.db") as ledger:
        ledger.open("rides", epsilon=20, delta=1e-3)
        yield ledger, ("--ledger", tmp_path / "budget.db", "--dataset", "rides")


QUERY = ("--unit", "user", "--by", "city", "--count", "--max-groups", 1, "--max-rows-per-group", 1)
PRICE = ("--epsilon", 1, "--delta", "1e-6")


def failing(path):
    """A DuckDB file with a view that fails where a row has a secret, and quotes it."""
    with duckdb.connect(path) as connection:
        connection.execute(f"CREATE TABLE people AS SELECT i AS user, '{SECRET}' AS city FROM range(9) r(i)")
        connection.execute(
            "CREATE VIEW visits AS SELECT user, CAST(CAST(city AS INTEGER) AS VARCHAR) AS city FROM people"
        )
    return path


def test_the_engine_fails(run, budget, tmp_path):
    ledger, charge = budget
    out = tmp_path / "out.csv"
    for more in ((), charge):
        source = failing(tmp_path / f"data{len(more)}.duckdb")
        result = run("release", source, "--table", "visits", *QUERY, *PRICE, *more, "--out", out)
        assert result.exit_code == 3
        assert SECRET not in result.output
        assert result.stderr.strip().startswith("Error: Nothing was released")
        assert ("charge to the ledger stands" in result.stderr) == bool(more)
        assert not out.exists()
    assert len(ledger.history("rides")) == 1


def test_the_files_fail(run, budget, tmp_path, monkeypatch):
    """The disk is full when all is done: the budget is spent, and nothing came out."""
    ledger, charge = budget
    source = tmp_path / "rows.parquet"
    pyarrow.parquet.write_table(pa.table({"user": range(300), "city": ["Rome"] * 300}), source)

    def full(_handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    result = run("release", source, *QUERY, *PRICE, *charge, "--out", tmp_path / "out.csv")
    assert result.exit_code == 3
    assert not (tmp_path / "out.csv").exists()
    monkeypatch.undo()
    assert len(ledger.history("rides")) == 1
