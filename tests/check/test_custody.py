"""The chain of custody: from a published file to the entry of the ledger that charged it."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from osgt import Dataset, Ledger
from osgt.cli import app
from osgt.ledger.custody import read_export
from osgt.ledger.snapshot import verify


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two published tables, the ledger that they were charged to, its export, and a table that was charged to none."""
    folder = tmp_path_factory.mktemp("custody")
    rows = pa.table({"user": np.arange(4000) % 900, "town": ["Bern", "Oslo"] * 2000})
    with Ledger(folder / "budget.db") as ledger:
        ledger.open("other", epsilon=1, delta=1e-6)
        ledger.open("trips", epsilon=3, delta=1e-6)
        for name, epsilon in (("one", 1), ("two", 0.5)):
            data = Dataset(rows, "user", ledger=ledger, dataset="trips")
            query = data.group_by("town", public_keys=["Bern", "Oslo"], max_rows=6).count()
            query.release(epsilon, 1e-7).write(out=folder / f"{name}.csv")
        (folder / "export.json").write_text(json.dumps(ledger.export()))
        exported = ledger.verify()
    assert exported.ok
    query = Dataset(rows, "user").group_by("town", public_keys=["Bern", "Oslo"], max_rows=6).count()
    query.release(1, 1e-7).write(out=folder / "free.parquet")
    return folder


def run(*arguments):
    return CliRunner().invoke(app, ["check", *map(str, arguments)])


def words(result):
    return " ".join(result.output.split())


@pytest.mark.parametrize("ledger", ["budget.db", "export.json"])
def test_a_file_is_the_one_that_was_charged(folder, ledger):
    result = run(folder / "one.csv", folder / "two.csv", "--ledger", folder / ledger)
    assert result.exit_code == 0, result.output
    assert "it is entry 2 of data set 'trips'" in words(result)
    assert "all 2 releases of 'trips' together keep its budget, ε = 3 and δ = 1e-06" in words(result)
    assert "byte for byte" in words(result)
    plain = json.loads(run("--json", folder / "one.csv", "--ledger", folder / ledger).stdout)
    assert len(plain[str(folder / "one.csv")]["by_the_ledger"]) == 3


def test_an_export_is_as_good_as_the_ledger(folder):
    exported = read_export(json.loads((folder / "export.json").read_text()))
    assert verify(exported).ok
    assert [head.name for head in exported.heads] == ["other", "trips"]


def changed(folder, tmp_path, change):
    """The first file after a change of its statement."""
    plain = json.loads((folder / "one.csv-metadata.json").read_text())
    [note] = [note for note in plain["notes"] if note["schema:name"] == "osgt statement"]
    statement = json.loads(note["schema:text"])
    change(statement)
    (tmp_path / "one.json").write_text(json.dumps(statement))
    return tmp_path / "one.json"


CHANGES = {
    "settled with another statement": lambda s: s.update(objective="variance"),
    "charged for other noise": lambda s: s["privacy"]["charge"].update(selection_delta=1e-9),
    "asked for with": lambda s: s.update(epsilon=1.25),
    "written anew": lambda s: s.update(ledger_entry_hash="0" * 64),
    "is no release": lambda s: s["ledger"].update(reservation="77"),
}


@pytest.mark.parametrize("problem", CHANGES)
def test_another_statement_is_told(folder, tmp_path, problem):
    result = run(changed(folder, tmp_path, CHANGES[problem]), "--ledger", folder / "export.json")
    assert result.exit_code == 1
    assert problem in words(result)


def test_a_ledger_that_was_changed_is_told(folder, tmp_path):
    plain = json.loads((folder / "export.json").read_text())
    trips = plain["datasets"][1]["entries"]
    trips[0]["budget"]["epsilon"] = 9.0
    (tmp_path / "export.json").write_text(json.dumps(plain))
    result = run(folder / "one.csv", "--ledger", tmp_path / "export.json")
    assert result.exit_code == 1
    assert "the ledger is not what was written" in words(result)


def test_releases_that_exceed_the_budget_are_told(folder, tmp_path):
    """An entry is cut out, and the chain after it linked anew: what is left does not follow from the charges."""
    plain = json.loads((folder / "export.json").read_text())
    plain["datasets"][1]["entries"].pop(1)
    (tmp_path / "export.json").write_text(json.dumps(plain))
    assert run(folder / "two.csv", "--ledger", tmp_path / "export.json").exit_code == 1


@pytest.mark.parametrize("content", ["{}", "[]", '{"format": "osgt ledger"}', "no", '{"format": "x", "datasets": []}'])
def test_other_files_are_no_export(folder, tmp_path, content):
    (tmp_path / "other.json").write_text(content)
    result = run(folder / "one.csv", "--ledger", tmp_path / "other.json")
    assert result.exit_code == 2
    assert "Traceback" not in result.output


def test_a_release_without_a_ledger_or_of_another_one(folder, tmp_path):
    result = run(folder / "free.parquet", "--ledger", folder / "export.json")
    assert result.exit_code == 2
    assert "charged to no ledger" in words(result)
    with Ledger(tmp_path / "new.db") as ledger:
        ledger.open("else", epsilon=1, delta=0)
    result = run(folder / "one.csv", "--ledger", tmp_path / "new.db")
    assert result.exit_code == 2
    assert "has no data set 'trips'" in words(result)


def test_a_number_that_was_changed_is_seen(folder, tmp_path):
    text = (folder / "one.csv").read_text()
    number = text.splitlines()[1].split(",")[1]
    (tmp_path / "one.csv").write_text(text.replace(number, str(int(number) + 1), 1))
    beside = "one.csv-metadata.json"
    (tmp_path / beside).write_bytes((folder / beside).read_bytes())
    assert run(tmp_path / "one.csv").exit_code == 0  # of numbers with noise nobody can tell
    result = run(tmp_path / "one.csv", "--ledger", folder / "budget.db")
    assert result.exit_code == 1
    assert "none of those that were written" in words(result)


SERIES = """
[data]
source = "rows.parquet"
privacy_unit = "user"
ledger = "budget.db"
dataset = "trips"
[groups]
max_rows = 6
[[aggregates]]
kind = "count"
[budget]
epsilon = 0.5
delta = 0
[series]
column = "day"
from = "2026-01"
until = "2026-03"
max_periods = 2
[output]
out = "count-{period}.csv"
"""


def test_instalments_are_those_of_a_charged_series(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    days = np.datetime64("2026-01-01") + np.arange(4000) % 89
    pq.write_table(pa.table({"user": np.arange(4000) % 900, "day": days}), "rows.parquet")
    (tmp_path / "query.toml").write_text(SERIES)
    with Ledger("budget.db") as ledger:
        ledger.open("trips", epsilon=3, delta=1e-6)
    published = CliRunner().invoke(app, ["publish", "query.toml"])
    assert published.exit_code == 0, published.output
    result = run("count-2026-02.csv", "--ledger", "budget.db")
    assert result.exit_code == 0, result.output
    assert "instalment 2026-02" in words(result)
    assert "byte for byte" in words(result)
    assert "one of 3 instalments" in words(result)
    assert "count in 2 of them: together they keep ε = 1 at δ ≤ 0." in words(result)
    assert "a unit counts in the first 2 of 3 parts alone" in words(result)
    (tmp_path / "other.csv").write_bytes((tmp_path / "count-2026-01.csv").read_bytes())
    (tmp_path / "other.csv-metadata.json").write_bytes((tmp_path / "count-2026-02.csv-metadata.json").read_bytes())
    assert run("other.csv", "--ledger", "budget.db").exit_code == 1


def test_files_that_are_not_there_are_named(folder):
    assert "there is no file 'nowhere.csv'" in words(run("nowhere.csv"))
    (folder / "alone.csv").write_text("a\n1\n")
    assert "there is no file 'alone.csv-metadata.json' beside it" in words(run(folder / "alone.csv"))
