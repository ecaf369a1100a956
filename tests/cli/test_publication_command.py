"""Several tables on the command line: plan, preview and release of a query file with [[table]], and what goes wrong."""

import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from osgt import Ledger
from osgt.cli import app

FILE = """
[data]
source = "rows.parquet"
privacy_unit = "user"

[[table]]
name = "towns"
weight = 2

[table.groups]
by = "town"
max_groups = 2
max_rows_per_group = 2
public_keys = "keys.csv"

[[table.aggregates]]
kind = "count"

[[table]]
name = "months"
where = "month < 4"

[table.groups]
by = "month"
max_groups = 3
max_rows_per_group = 1

[[table.aggregates]]
kind = "count_units"

[budget]
epsilon = 2
delta = 1e-6

[output]
out = "{table}.csv"
report = "all.html"
"""


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(1)
    rows = {"user": np.arange(3000) % 900, "town": rng.choice(["a", "b"], 3000), "month": rng.integers(1, 7, 3000)}
    pq.write_table(pa.table(rows), tmp_path / "rows.parquet")
    (tmp_path / "keys.csv").write_text("town\na\nb\n")
    (tmp_path / "query.toml").write_text(FILE)
    return tmp_path


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_plan_and_preview(folder):
    told = json.loads(run("plan", "--query", folder / "query.toml", "--json").stdout)
    assert list(told["tables"]) == ["towns", "months"]
    assert told["epsilon"] == 2
    shown = run("plan", "--query", folder / "query.toml")
    assert shown.exit_code == 0, shown.output
    assert "for 2 tables together" in shown.stdout
    preview = json.loads(run("preview", "--query", folder / "query.toml", "--json").stdout)
    assert preview["tables"]["months"]["rows"]["after_where"] < preview["tables"]["towns"]["rows"]["after_where"]


def test_release(folder):
    with Ledger(folder / "budget.db") as ledger:
        ledger.open("trips", epsilon=5, delta=1e-5)
    charged = "--ledger", folder / "budget.db", "--dataset", "trips"
    made = run("release", "--query", folder / "query.toml", *charged)
    assert made.exit_code == 0, made.output
    names = ["all.html", "months.csv", "months.csv-metadata.json", "towns.csv", "towns.csv-metadata.json"]
    assert all((folder / name).is_file() for name in names)
    with Ledger(folder / "budget.db") as ledger:
        [entry] = ledger.history("trips")
    assert entry.status == "settled"
    assert len(entry.output_hashes) == 5
    left = run("ledger", "remaining", folder / "budget.db", "trips", "--query", folder / "query.toml")
    assert left.exit_code == 0, left.output
    assert "one more release fits" in left.stdout
    said = run("statement", folder / "towns.csv")
    assert said.exit_code == 0, said.output
    assert "This publication of 2 tables (towns and months)" in said.stdout


def test_json_and_a_folder(folder):
    (folder / "out").mkdir()
    made = run("release", "--query", folder / "query.toml", "--out", folder / "out", "--json")
    assert made.exit_code == 0, made.output
    told = json.loads(made.stdout)
    assert list(told["table"]) == list(told["tables"]) == ["towns", "months"]
    assert sorted(path.name for path in (folder / "out").iterdir()) == ["months.parquet", "towns.parquet"]


def test_kept_tables_are_put_in_place_and_settled(folder, monkeypatch):
    """The disk is full when the files are written: all tables are kept, and one command puts them in place."""
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    with Ledger(folder / "budget.db") as ledger:
        ledger.open("trips", epsilon=5, delta=1e-5)

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("osgt.render.published.write_csv", full)
        made = run("release", "--query", folder / "query.toml", "--ledger", folder / "budget.db", "--dataset", "trips")
    assert made.exit_code == 4, made.output
    assert not (folder / "towns.csv").exists()
    kept = sorted((folder / "state" / "osgt").glob("*.parquet"))
    assert len(kept) == 2
    words = made.stderr.partition("run `")[2].partition("`")[0].replace("\n", " ").split()
    done = run(*words[1:])
    assert done.exit_code == 0, done.output
    assert (folder / "towns.csv").read_text().startswith('"town"')
    assert (folder / "months.csv").read_text().startswith('"month"')
    assert list((folder / "state" / "osgt").glob("*.parquet")) == []
    with Ledger(folder / "budget.db") as ledger:
        [entry] = ledger.history("trips")
    assert entry.status == "settled"


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (("", ""), ["--by", "town"], "groups and aggregates must be left out where there are several tables"),
        (("", ""), ["--count"], "groups and aggregates must be left out where there are several tables"),
        (("", ""), ["--out", "x.csv"], "out must have {table} where the name of a table goes"),
        (('name = "months"', 'name = "towns"'), [], "each [[table]] must have a name of its own, got towns, towns"),
        (('name = "months"', 'name = "a/b"'), [], "the name of a table must be letters, digits"),
        (('name = "months"\n', ""), [], "name of table 2 must be given: the name of the table"),
        (("max_groups = 3", 'max_groups = "3"'), [], "table 2 (months): groups.max_groups must be a whole number"),
        (('"count_units"', '"counts"'), [], "table 2 (months): kind of aggregate 1 must be one of count,"),
        (
            ('by = "month"', 'by = "moon"'),
            [],
            "table 'months': groups.by: there is no column 'moon' (did you mean 'month'?)",
        ),
        (("weight = 2", "wait = 2"), [], "table 1 (towns) has no 'wait' (did you mean 'weight'?)"),
        (("weight = 2", "weight = 0"), [], "weight of towns must be"),
        (
            ("max_groups = 3\n", "max_rows = 5\n"),
            [],
            "table 'months': groups.max_rows and groups.max_rows_per_group both",
        ),
        (("max_groups = 3\n", ""), [], "table 'months': groups.max_groups must be given with groups.max_rows_per"),
        (("max_groups = 3\nmax_rows_per_group = 1\n", ""), [], "groups.max_groups must be given for count_units"),
        (("max_groups = 2\nmax_rows_per_group = 2\n", ""), ["--units", 30], "with about 30 units, ε = 2 is too"),
    ],
)
def test_refused(folder, change, options, message):
    file = folder / "query.toml"
    file.write_text(FILE.replace(*change) if change[0] else FILE)
    made = run("release", "--query", file, *options)
    assert made.exit_code == 2, made.output
    assert message in made.stderr.replace("\n", " ")
    assert sorted(path.name for path in Path(folder).iterdir()) == ["keys.csv", "query.toml", "rows.parquet"]


def test_one_table_alone(folder):
    assert "--error is for one table" in run("plan", "--query", folder / "query.toml", "--error", 3).stderr


@pytest.mark.parametrize(
    ("out", "told"),
    [
        ("all.xlsx", ["All tables: all.xlsx"]),
        ("{table}.csv", ["The whole table: towns.csv", "The whole table: months.csv"]),
    ],
)
def test_a_report_names_a_workbook_once(folder, out, told):
    file = folder / "query.toml"
    file.write_text(FILE.replace("{table}.csv", out), encoding="utf-8")
    assert CliRunner().invoke(app, ["release", "--query", str(file)]).exit_code == 0
    page = (folder / "all.html").read_text(encoding="utf-8")
    assert re.findall(r">((?:The whole table|All tables): [^<]*)</a>", page) == told
