"""Several tables in a data file: rows without the person's column belong to those that have it."""

import csv
from contextlib import closing

import pytest
from typer.testing import CliRunner

from osgt import Dataset
from osgt.cli import app
from osgt.query.file.reading import read_query_file

PATIENTS = ["patient,sex", *(f"p{i},{'fm'[i % 3 == 0]}" for i in range(900))]
VISITS = ["visit;patient;ward;cost", *(f"{i};p{i % 900};{'AB'[i % 2]};{i % 50},5" for i in range(3000)), "9999;p1;A;?"]
BILLS = ["visit,amount", *(f"{i % 3000},{i % 90}" for i in range(6000))]
DATA_FILE = """[data]
source = "patients.csv"
privacy_unit = "patient"
units = 900

[tables.visits]
source = "stays_2025.csv"
delimiter = ";"
decimal = ","
joins = "patients on patient"

[tables.bills]
source = "bills.csv"
joins = "visits on visit"

[columns.visit]
type = "int64"

[columns.cost]
type = "float64"
range = [0, 100]

[columns.amount]
type = "int64"

[columns.sex]
values = ["f", "m"]

[columns.ward]
values = ["A", "B"]

[budget]
epsilon = 1
delta = 1e-6
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name, lines in {"patients": PATIENTS, "stays_2025": VISITS, "bills": BILLS}.items():
        (tmp_path / f"{name}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "data.toml").write_text(DATA_FILE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setenv("NO_COLOR", "1")
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(app, [str(each) for each in arguments])


@pytest.mark.parametrize(
    ("rows", "by", "truth"),
    [
        (None, "sex", {"f": 600, "m": 300}),
        ("visits", "sex", {"f": 2001, "m": 1000}),
        ("visits", "ward", {"A": 1501, "B": 1500}),
        ("bills", "ward", {"A": 3000, "B": 3000}),
        ("bills", "sex", {"f": 4000, "m": 2000}),
    ],
)
def test_the_rows_that_are_asked_about(folder, quiet_noise, rows, by, truth):
    with closing(Dataset.from_file("data.toml", rows=rows)) as data:
        release = data.group_by(by, max_rows=20).count().release(epsilon=1, delta=1e-6)
    counts = dict(zip(*(release.to_arrow()[name].to_pylist() for name in (by, "count")), strict=True))
    assert counts == pytest.approx(truth, abs=40)  # the noise that is left has a scale of about 1


def test_from_names_the_table_in_sql(folder, quiet_noise):
    result = run("sql", "data.toml", "SELECT ward, SUM(amount) AS billed FROM bills GROUP BY ward", "--out", "b.csv")
    assert result.exit_code == 0, result.output
    with (folder / "b.csv").open(encoding="utf-8") as stream:
        sums = {row["ward"]: int(row["billed"]) for row in csv.DictReader(stream)}
    assert sums["A"] == pytest.approx(sum(i % 90 for i in range(0, 6000, 2)), rel=0.2)
    assert "'patients'" in run("sql", "data.toml", "SELECT COUNT(*) FROM nurses").stderr


def test_values_that_do_not_fit_are_missing_and_nobody_says_there_are_none(folder, quiet_noise):
    with closing(Dataset.from_file("data.toml", rows="visits")) as data:
        release = data.group_by("ward", max_rows=20).count().mean("cost", bounds=(0, 100)).release(1, 1e-6)
    assert release.to_arrow()["cost_mean"].to_pylist() == pytest.approx([24.5, 25.5], abs=5)
    assert "unreadable" not in str(release)


def test_the_file_that_is_saved_says_the_same(folder):
    asked = ["release", "data.toml", "--rows", "visits", "--by", "ward", "--count", "--dry-run"]
    assert run(*asked, "--save-query", "saved.toml").exit_code == 0
    saved = read_query_file("saved.toml")
    assert saved.data.rows == "visits"
    assert [*saved.tables] == ["visits", "bills"]
    assert run("release", "--query", "saved.toml", "--dry-run").exit_code == 0


def test_no_table_is_written_over(folder):
    asked = ["release", "data.toml", "--rows", "visits", "--by", "ward", "--count", "--max-rows", 9]
    before = (folder / "bills.csv").read_text()
    for name in ("stays_2025.csv", "bills.csv"):
        result = run(*asked, "--out", name, "--overwrite")
        assert result.exit_code == 2, name
    assert (folder / "bills.csv").read_text() == before


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"patients on patient"', '"patients"', "tables.visits.joins must be a table and the column that both have"),
        ('"patients on patient"', '"patient on patient"', "there is no table 'patient' (did you mean 'patients'?)"),
        ('"patients on patient"', '"patients on ward"', "tables.visits: on: there is no column 'ward'"),
        (
            '"visits on visit"',
            '"visit on visit"',
            "tables.bills.joins: there is no table 'visit' (did you mean 'visits'?)",
        ),
        ('"patients on patient"', '"bills on visit"', "the tables belong to one another in a circle"),
        ('"stays_2025.csv"', '"stays.csv"', "there is no file 'stays.csv'"),
        ('"stays_2025.csv"', '"postgresql://me:secret@localhost/db"', "tables.visits.source must be a file"),
        ('source = "stays_2025.csv"', "", "tables.visits must have a source (a file) or a table of the database"),
        ('joins = "patients on patient"', "", "tables.visits.joins must be given"),
        ("joins =", "join =", "[tables.visits] has no 'join' (did you mean 'joins'?)"),
        ("joins =", "joins = 3\n#", "tables.visits.joins must be text in quotes, got 3"),
        ("[columns.cost]", "[columns.csot]", "columns: there is no column 'csot' (did you mean 'cost'?)"),
        ("units = 900", 'units = 900\nrows = "visit"', "data.rows: there is no table 'visit' (did you mean 'visits'?)"),
    ],
)
def test_wrong_tables(folder, old, new, message):
    (folder / "wrong.toml").write_text(DATA_FILE.replace(old, new, 1), encoding="utf-8")
    rows = [] if "rows =" in new else ["--rows", "visits"]
    result = run("release", "wrong.toml", *rows, "--by", "ward", "--count", "--max-rows", 9, "--out", "t.csv")
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert "secret" not in result.output
    assert not (folder / "t.csv").exists()
