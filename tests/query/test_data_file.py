"""Data files: what is known about the data, said once, for Python, query files and commands."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pytest
from typer.testing import CliRunner

from osgt import Dataset, Ledger
from osgt.cli import app
from osgt.query.file.reading import query_file_of, read_data_file, read_query_file
from osgt.query.file.reference import DATA_SCHEMA, data_file_schema
from osgt.query.file.text import query_file_text

ROOT = Path(__file__).resolve().parents[2]

VISITS = pa.table(
    {
        "patient": [f"p{i // 2}" for i in range(800)],
        "ward": [["x", "y", "z"][i % 3] for i in range(800)],
        "day": [f"2024-{i % 12 + 1:02}-01" for i in range(800)],
        "cost": [i % 100 for i in range(800)],
    }
)

FILE = """
[data]
source = "visits.csv"
privacy_unit = "patient"
units = 400
where = "cost < 99"
ledger = "ledger.db"
dataset = "visits"

[data.derive]
month = "month(day)"

[columns.ward]
values = "wards.csv"
label = "Ward"

[columns.day]
type = "date"

[columns.month]
label = "Month"

[columns.cost]
type = "float64"
range = [0, 100]
unit = "CHF"

[budget]
epsilon = 2
delta = 1e-6

[report]
publisher = "Hospital"
"""


@pytest.fixture
def folder(tmp_path):
    pyarrow.csv.write_csv(VISITS, tmp_path / "visits.csv")
    (tmp_path / "wards.csv").write_text("code,label\nx,Surgery\ny,Oncology\n", encoding="utf-8")
    (tmp_path / "data.toml").write_text(FILE, encoding="utf-8")
    return tmp_path


@pytest.fixture
def run(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    return lambda *arguments: CliRunner().invoke(app, [str(argument) for argument in arguments])


def opened(folder):
    with Ledger(folder / "ledger.db") as book:
        book.open("visits", epsilon=10, delta=1e-5, unit="patient", tables=["visits"])


class TestPython:
    def test_a_release_needs_nothing_else(self, folder):
        opened(folder)
        data = Dataset.from_file(folder / "data.toml")
        release = data.group_by("ward").count().mean("cost").release()
        assert (release.plan.epsilon, release.plan.delta) == (2, 1e-6)
        assert release.to_arrow()["ward"].to_pylist() == ["x", "y"]
        release.report(folder / "report.html")
        page = (folder / "report.html").read_text(encoding="utf-8")
        assert all(text in page for text in ("Hospital", "Surgery", "Ward", "CHF"))
        data.close()

    def test_labels_of_derived_columns(self, folder):
        data = Dataset.from_file(folder / "data.toml")
        assert data.known_column("month").label == "Month"
        assert data.known_column("month").values == tuple(range(1, 13))

    def test_a_budget_that_is_given_takes_its_place(self, folder):
        query = Dataset.from_file(folder / "data.toml").group_by("ward").count()
        assert query.plan(epsilon=1).epsilon == 1
        assert query.plan(delta=0).epsilon == 2

    def test_its_files_are_never_replaced(self, folder):
        data = Dataset.from_file(folder / "data.toml")
        for name in ("data.toml", "wards.csv", "visits.csv"):
            assert str(folder / name) in data.files


class TestQueryFiles:
    def write(self, folder, text):
        (folder / "sub").mkdir(exist_ok=True)
        path = folder / "sub" / "query.toml"
        path.write_text(text, encoding="utf-8")
        return path

    QUERY = '[data]\nfile = "../data.toml"\n{}\n[groups]\nby = "ward"\n[[aggregates]]\nkind = "count"\n'

    def test_it_takes_everything_from_the_data_file(self, folder):
        file = read_query_file(self.write(folder, self.QUERY.format("")))
        assert file.data.source == str(folder / "visits.csv")
        assert file.data.ledger == str(folder / "ledger.db")
        assert file.columns["ward"].values == str(folder / "wards.csv")
        assert (file.budget.epsilon, file.report.publisher) == (2, "Hospital")

    def test_what_it_says_itself_goes_first(self, folder):
        own = 'where = "cost > 1"\nunits = 500\ntypes = {cost = "int64"}\nderive = {low = "cost < 5"}'
        file = read_query_file(self.write(folder, self.QUERY.format(own) + "[budget]\nepsilon = 1\n"))
        assert file.data.where == ["cost < 99", "cost > 1"]
        assert file.data.units == 500
        assert (file.data.types, file.columns["cost"].type) == ({"cost": "int64"}, None)
        assert set(file.data.derive) == {"month", "low"}
        assert (file.budget.epsilon, file.budget.delta) == (1, 1e-6)

    def test_written_out_it_says_everything_itself(self, folder):
        file = read_query_file(self.write(folder, self.QUERY.format("")))
        copy = folder / "copy.toml"
        copy.write_text(query_file_text(file.given(), folder), encoding="utf-8")
        assert "file =" not in copy.read_text(encoding="utf-8")
        assert read_query_file(copy).given() == file.given()

    @pytest.mark.parametrize(
        ("own", "message"),
        [
            ('source = "x.csv"', "data.source must be left out with data.file"),
            ('privacy_unit = "x"', "data.privacy_unit must be left out with data.file"),
            ('zzz = "x"', "has no 'zzz'"),
        ],
    )
    def test_what_says_the_same_is_refused(self, folder, own, message):
        with pytest.raises(ValueError, match=message):
            read_query_file(self.write(folder, self.QUERY.format(own)))

    def test_a_file_that_is_not_there(self, folder):
        with pytest.raises(FileNotFoundError, match="there is no file"):
            query_file_of({"data": {"file": str(folder / "nowhere.toml")}})

    @pytest.mark.parametrize("value", [3, ["a"], True])
    def test_a_file_that_is_no_text(self, value):
        with pytest.raises(ValueError, match=r"data.file must be text in quotes"):
            query_file_of({"data": {"file": value, "source": "x", "privacy_unit": "y"}})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[data]\nsource = 'x.csv'", "data.privacy_unit must be given"),
        ("[columns.a]\nrange = [0, 1]", r"\[data\] must be given"),
        ("[data]\nsource='x'\nprivacy_unit='y'\n[columns.a]\nrange = [0]", "columns.a.range must be two numbers"),
        ("[data]\nsource='x'\nprivacy_unit='y'\n[columns.a]\nvalus = 1", r"\[columns.a\] has no 'valus'"),
        ("[data]\nsource='x'\nprivacy_unit='y'\n[columns]\na = 1", "columns.a must be a table, under"),
        ("[data]\nsource='x'\nprivacy_unit='y'\n[columns.a]\nvalues = {x = 1}", "columns.a.values must be a list, a"),
        ("[data]\nsource='x'\nprivacy_unit='y'\n[extra]\n", "the data file has no 'extra'"),
        ("[data]\nfile = 'other.toml'", "data.file is for query files"),
        ("[groups]\nby = 'x'", "is a query file, since it has groups: give it as `--query"),
        ("[[aggregates]]\nkind = 'count'", "is a query file"),
        ("no toml", "is not TOML"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, text, message):
    path = tmp_path / "data.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_data_file(path)


class TestCommands:
    def test_it_stands_for_the_data(self, run, folder):
        opened(folder)
        result = run("release", folder / "data.toml", "--by", "ward", "--count", "--mean", "cost", "--json")
        assert result.exit_code == 0, result.stderr
        found = json.loads(result.stdout)
        assert [row["ward"] for row in found["table"]] == ["x", "y"]
        assert (found["epsilon"], found["ledger"]["dataset"]) == (2, "visits")

    def test_options_take_the_place_of_what_it_says(self, run, folder):
        options = ("--by", "ward", "--count", "--epsilon", 1, "--public-keys", "none")
        result = run("plan", folder / "data.toml", *options)
        assert "ε = 1, δ = 1e-06" in result.stdout
        assert "rows of a shown group" in result.stdout

    def test_preview_and_limits_take_it(self, run, folder):
        opened(folder)
        assert run("preview", folder / "data.toml", "--by", "ward", "--count").exit_code == 0
        chosen = run("limits", folder / "data.toml", "--by", "ward", "--count", "--epsilon", "0.5", "--json")
        assert json.loads(chosen.stdout)["dataset"] == "visits"

    @pytest.mark.parametrize(
        ("more", "message"),
        [
            (["--count", "--unit", "patient"], "--unit must be left out with a data file"),
            (["--query", "data.toml"], "data.toml"),
            (["--by", "ward"], "give at least one aggregate"),
            (["--count", "--by", "wrd"], "there is no column 'wrd'"),
        ],
    )
    def test_what_is_wrong_is_named(self, run, folder, more, message):
        result = run("plan", folder / "data.toml", *more)
        assert result.exit_code == 2
        assert message in result.stderr

    def test_the_data_file_is_never_replaced(self, run, folder):
        opened(folder)
        result = run(
            *("release", folder / "data.toml", "--by", "ward", "--count"),
            *("--save-query", folder / "data.toml", "--overwrite"),
        )
        assert result.exit_code == 2
        assert "is a file in use" in result.stderr
        assert (folder / "data.toml").read_text(encoding="utf-8") == FILE

    def test_a_server_that_only_the_file_names_is_not_connected_to(self, run, folder):
        text = FILE.replace('"visits.csv"', '"postgresql://elsewhere/db"')
        (folder / "data.toml").write_text(text, encoding="utf-8")
        result = run("plan", folder / "data.toml", "--count")
        assert result.exit_code == 2
        assert "the data file names a server" in result.stderr


def test_the_schema_is_up_to_date():
    """`python -m osgt.query.file.reference docs/reference` makes it."""
    pages = ROOT / "docs" / "reference"
    assert json.loads((pages / DATA_SCHEMA).read_text(encoding="utf-8")) == data_file_schema()
