"""The same options for every command on tables, `--dry-run`, `--save-query`, and pictures that cannot be drawn."""

import json
import re
import sys

import pyarrow as pa
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from osgt import Ledger
from osgt.cli import app
from osgt.query.file.reading import read_query_file

TABLE = ["--unit", "user", "--by", "city", "--count", "--max-groups", 2, "--max-rows-per-group", 2]
RELEASE = [
    *TABLE,
    "--epsilon",
    1,
    "--delta",
    "1e-6",
    "--confidence",
    0.9,
    "--objective",
    "variance",
    "--title",
    "Rides",
]
SEVERAL = """
[data]
source = "rows.parquet"
privacy_unit = "user"

[budget]
epsilon = 1
delta = 1e-6

[[table]]
name = "cities"
[table.groups]
by = "city"
max_groups = 2
max_rows_per_group = 2
[[table.aggregates]]
kind = "count"

[[table]]
name = "all"
[table.groups]
max_rows_per_group = 4
[[table.aggregates]]
kind = "count"
"""


@pytest.fixture
def run(monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.chdir(tmp_path)
    rows = pa.table({"user": [i % 50 for i in range(400)], "city": [["Bern", "Rome"][i % 2] for i in range(400)]})
    pyarrow.parquet.write_table(rows, tmp_path / "rows.parquet")
    (tmp_path / "several.toml").write_text(SEVERAL, encoding="utf-8")
    with Ledger(tmp_path / "budget.db") as ledger:
        ledger.open("rides", epsilon=3, delta=1e-5, unit="user")
    return lambda *arguments: CliRunner().invoke(app, [str(argument) for argument in arguments])


def spent(tmp_path):
    with Ledger(tmp_path / "budget.db") as ledger:
        return len(ledger.history("rides"))


CHARGED = ["--ledger", "budget.db", "--dataset", "rides"]


@pytest.mark.parametrize(
    "command",
    [["plan"], ["preview"], ["release", "--dry-run"], ["ledger", "remaining", "budget.db", "rides"]],
    ids=lambda command: command[0],
)
@pytest.mark.parametrize("more", [[], ["--totals", "()"], ["--derive", "town=upper(city)"]], ids=str)
def test_the_word_of_the_command_can_be_exchanged(run, command, more):
    options = RELEASE if command[0] == "ledger" else [*RELEASE, *CHARGED, "--out", "out.csv", "--report", "out.html"]
    result = run(*command, "rows.parquet", *options, *more)
    assert result.exit_code == 0, result.stderr


@pytest.mark.parametrize(
    "command",
    [["plan"], ["preview"], ["release", "--dry-run"], ["ledger", "remaining", "budget.db", "rides"]],
    ids=lambda command: command[0],
)
def test_several_tables_in_every_command(run, command):
    assert run(*command, "--query", "several.toml").exit_code == 0


def test_a_unit_that_is_a_row(run):
    options = ["--unit-row", "--by", "city", "--count", "--max-groups", 1, "--max-rows-per-group", 1]
    for command in (["plan"], ["preview"], ["release", "--dry-run"]):
        result = run(*command, "rows.parquet", *options, "--epsilon", 1, "--delta", "1e-6")
        assert result.exit_code == 0, result.stderr


class TestDryRun:
    def test_nothing_is_read_charged_or_written(self, run, tmp_path):
        before = sorted(tmp_path.iterdir())
        result = run("release", "rows.parquet", *RELEASE, *CHARGED, "--out", "out.csv", "--dry-run")
        assert result.exit_code == 0, result.stderr
        assert "Would charge: ε = 1, δ = 1e-06 to 'rides' in" in result.stdout
        assert "Would write: out.csv, out.csv-metadata.json." in result.stdout
        assert "90 % noise intervals" in result.stdout
        assert sorted(tmp_path.iterdir()) == before
        assert spent(tmp_path) == 0

    def test_json(self, run):
        answer = json.loads(run("release", "rows.parquet", *RELEASE, "--dry-run", "--json").stdout)
        assert answer["dry_run"] is True
        assert answer["files"] == []
        assert answer["ledger"] is None
        assert answer["plan"]["epsilon"] == 1

    @pytest.mark.parametrize(
        ("more", "message"),
        [
            (["--epsilon", 100], "Refused, nothing was charged"),
            (["--unit", "city", "--by", "user"], "user"),
            (["--out", "nowhere/out.csv"], "there is no folder"),
            (["--out", "rows.parquet"], "is a file in use"),
            (["--dataset", "flights"], "flights"),
        ],
    )
    def test_what_a_release_refuses(self, run, tmp_path, more, message):
        typed = ["release", "rows.parquet", *RELEASE, *CHARGED, *more]
        if "--by" in more:
            typed = ["release", "rows.parquet", *more, *RELEASE[4:], *CHARGED]
        dry, wet = run(*typed, "--dry-run"), run(*typed)
        assert dry.exit_code == wet.exit_code == 2
        assert message in dry.stderr
        assert dry.stderr.split() == wet.stderr.split()
        assert spent(tmp_path) == 0


class TestSavedQuery:
    def test_it_is_the_same_query(self, run, tmp_path):
        (tmp_path / "queries").mkdir()
        options = [*RELEASE, *CHARGED, "--where", "city <> 'Oslo'", "--derive", "town=upper(city)", "--out", "out.csv"]
        result = run("release", "rows.parquet", *options, "--save-query", "queries/rides.toml", "--dry-run")
        assert result.exit_code == 0, result.stderr
        assert "Query file: queries/rides.toml" in result.stdout
        again = read_query_file(tmp_path / "queries" / "rides.toml")
        assert (tmp_path / again.data.source).samefile(tmp_path / "rows.parquet")
        assert again.data.derive == {"town": "upper(city)"}
        assert again.output.confidence == 0.9
        assert again.report.title == "Rides"
        planned = [
            run("plan", "rows.parquet", *options, "--json"),
            run("plan", "--query", "queries/rides.toml", "--json"),
        ]
        assert planned[0].stdout == planned[1].stdout
        released = run("release", "--query", "queries/rides.toml")
        assert released.exit_code == 0, released.stderr
        assert (tmp_path / "out.csv").exists()
        assert spent(tmp_path) == 1

    def test_with_the_release_or_not_at_all(self, run, tmp_path):
        refused = run("release", "rows.parquet", *RELEASE, *CHARGED, "--epsilon", 50, "--save-query", "q.toml")
        assert refused.exit_code == 2
        assert not (tmp_path / "q.toml").exists()
        assert run("release", "rows.parquet", *RELEASE, "--save-query", "q.toml").exit_code == 0
        again = run("release", "rows.parquet", *RELEASE, "--save-query", "q.toml")
        assert "--save-query: 'q.toml' exists; --overwrite replaces it" in again.stderr
        several = run("release", "--query", "several.toml", "--save-query", "s.toml", "--dry-run")
        assert several.exit_code == 0, several.stderr
        assert read_query_file("s.toml") == read_query_file("several.toml")

    def test_no_password_is_written(self, run, tmp_path):
        typed = [*RELEASE, "--url", "postgresql://ann:secret@localhost/x", "--table", "t", "--save-query", "q.toml"]
        refused = run("release", *typed)
        assert refused.exit_code == 2
        assert "--save-query would write the user and password" in refused.stderr
        assert "secret" not in refused.output


def test_a_picture_that_cannot_be_drawn_is_refused(run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = run("plan", "--epsilon", 1, "--delta", "1e-6", "--coordinates", 1, "--plot", "curve.png")
    assert result.exit_code == 2
    assert 'a picture needs Matplotlib: pip install "osgt[plots]"' in result.stderr
    assert not (tmp_path / "curve.png").exists()


def test_values_and_intervals_can_be_told_apart_without_colour(run):
    result = run("release", "rows.parquet", *TABLE, "--epsilon", 20, "--delta", "1e-6")
    assert re.search(r"Bern +\d+ \(\d+ to \d+\)", result.stdout), result.stdout
