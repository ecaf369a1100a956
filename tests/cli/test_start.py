"""`osgt start` and `osgt.start`: a data file from answers or options, and the budget in the ledger."""

import tomllib

import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

import osgt
from osgt import Dataset, Ledger
from osgt.api.data_file import make_offers, usual_delta
from osgt.cli import app

ROWS = [f"{i:04},{i // 2},{['x', 'y'][i % 2]},{i * 0.5},{i % 2 == 0},2024-01-{i % 28 + 1:02},{i}" for i in range(200)]
CSV = "\n".join(["zip,patient_id,ward,cost,urgent,day,number", *ROWS]) + "\n"


@pytest.fixture
def run(monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "visits.csv").write_text(CSV, encoding="utf-8")

    def run(*arguments, answers=None):
        typed = None if answers is None else "\n".join(answers) + "\n"
        return CliRunner().invoke(app, ["start", *map(str, arguments)], input=typed)

    return run


def written(folder):
    return tomllib.loads((folder / "data.toml").read_text(encoding="utf-8"))


GIVEN = ["visits.csv", "--unit", "patient_id", "--noun", "patient", "--units", 100, "--yes"]


def test_everything_as_options(run, tmp_path):
    result = run(
        *GIVEN, "--keys", "ward=x,y,z", "--keys", "number=1,2", "--range", "cost=0:100", "--type", "zip:string"
    )
    assert result.exit_code == 0, result.stderr
    file = written(tmp_path)
    assert file["data"] == {
        "source": "visits.csv",
        "privacy_unit": "patient_id",
        "noun": "patient",
        "units": 100,
        "ledger": "ledger.db",
        "dataset": "visits",
    }
    assert file["columns"] == {
        "ward": {"values": ["x", "y", "z"]},
        "cost": {"type": "float64", "range": [0, 100]},
        "urgent": {"type": "boolean"},
        "day": {"type": "date"},
        "number": {"type": "int64", "values": [1, 2]},
    }
    assert file["budget"] == {"epsilon": 1, "delta": 1e-6}
    with Ledger("ledger.db") as book:
        assert book.datasets() == ["visits"]
        assert book.spent("visits").budget_epsilon == 3
    assert "osgt plan data.toml --by ward --count" in result.stdout
    release = Dataset.from_file("data.toml").group_by("ward", max_rows=4).count().release()
    assert release.to_arrow()["ward"].to_pylist() == ["x", "y", "z"]


def test_a_noun_with_an_irregular_plural(run, tmp_path):
    assert run(*GIVEN, "--noun", "patients in all").exit_code == 0
    assert written(tmp_path)["data"]["noun"] == ["patient", "patients in all"]


def test_yes_takes_no_values_of_the_data(run, tmp_path):
    assert run(*GIVEN).exit_code == 0
    assert "values" not in (tmp_path / "data.toml").read_text(encoding="utf-8")


def test_the_questions(run, tmp_path):
    answers = ["patient_id", "patient", "100", "number:float64", "yes", "ward, urgent", "y", "n", "none"]
    answers += ["nmber=0:9", "number=9", "number=0:9, cost=0:100", "2", "1e-7"]
    result = run("visits.csv", answers=[*answers, "", "8", "1e-5"])
    assert result.exit_code == 0, result.output
    file = written(tmp_path)
    assert file["columns"]["ward"]["values"] == ["x", "y"]
    assert file["columns"]["number"] == {"type": "float64", "range": [0, 9]}
    assert file["columns"]["cost"]["range"] == [0, 100]
    assert "There is no column of numbers 'nmber' (did you mean 'number'?)." in result.output
    assert "--range must be like cost=0:50000, got number='9'" in result.output
    assert "values" not in file["columns"]["urgent"]
    assert file["budget"] == {"epsilon": 2, "delta": 1e-7}
    assert "becomes public" in result.output
    with Ledger("ledger.db") as book:
        assert book.spent("visits").budget_epsilon == 8


def test_a_column_that_is_not_there_is_asked_for_again(run):
    result = run("visits.csv", "--units", 100, answers=["patient", "patient_id", "", "", "none", "", "", "", "none"])
    assert result.exit_code == 0, result.output
    assert "There is no column 'patient'" in result.output


def test_a_data_set_that_has_a_budget_keeps_it(run):
    with Ledger("ledger.db") as book:
        book.open("visits", epsilon=9, delta=1e-5, unit="patient_id", tables=["visits"])
    assert run(*GIVEN).exit_code == 0
    with Ledger("ledger.db") as book:
        assert book.spent("visits").budget_epsilon == 9


def test_without_a_ledger(run, tmp_path):
    assert run(*GIVEN, "--ledger", "none").exit_code == 0
    assert "ledger" not in written(tmp_path)["data"]
    assert not (tmp_path / "ledger.db").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.csv", "--unit", "x", "--yes"], "there is no file 'nowhere.csv'"),
        (["visits.csv", "--yes"], "--unit must be given: who is protected is never guessed"),
        (["visits.csv", "--unit", "patient", "--yes"], "there is no column 'patient'"),
        ([*GIVEN, "--keys", "wrd=x"], "there is no column 'wrd'"),
        ([*GIVEN, "--keys", "ward"], "--keys must be like department=Cardiology,Emergency"),
        ([*GIVEN, "--keys", "number=a"], "values of 'number' must be of type int64"),
        ([*GIVEN, "--keys", "ward=x,x"], "--keys ward: values must hold each value once"),
        ([*GIVEN, "--keys", "ward=none.csv"], "--keys ward: values: there is no file 'none.csv'"),
        ([*GIVEN, "--range", "cost=0"], "--range must be like cost=0:50000"),
        ([*GIVEN, "--range", "cost=9:1"], "--range cost: range must be the least and the largest"),
        ([*GIVEN, "--type", "zipp:int64"], "--type: there is no column 'zipp'"),
        ([*GIVEN, "--type", "zip:number"], "zip"),
        ([*GIVEN, "--out", "data.txt"], "--out must end in .toml"),
        ([*GIVEN, "--keys", "patient_id=1,2"], "keys: 'patient_id' is the privacy unit"),
        ([*GIVEN, "--keys", "cost=1.5"], "values are for columns that can be keys"),
        ([*GIVEN, "--range", "ward=0:1"], "range is for columns of numbers"),
        ([*GIVEN, "--range", "csot=0:1"], "there is no column 'csot' (did you mean 'cost'?)"),
        ([*GIVEN, "--epsilon", 0, "--ledger", "none"], "--epsilon must be a finite number > 0, got 0"),
        ([*GIVEN, "--delta", 2, "--ledger", "none"], "--delta must be from 0 to below 1, got 2"),
        ([*GIVEN, "--delta", -1], "--delta must be"),
        ([*GIVEN, "--total-epsilon", 0], "--total-epsilon must be a finite number > 0"),
        ([*GIVEN, "--total-epsilon", 0.5], "or not even one release fits"),
        ([*GIVEN, "--total-delta", 1e-9], "or not even one release fits"),
        ([*GIVEN, "--delimiter", ";;"], "--delimiter must be one character"),
        ([*GIVEN, "--encoding", "latin-99"], "--encoding must be the name of a text encoding"),
        ([*GIVEN, "--date-format", "%d"], "--date-format must have %d (the day), %m (the month) and %Y"),
        ([*GIVEN, "--decimal", ";"], '--decimal must be "." or ","'),
        ([*GIVEN, "--noun", ""], "--noun must be a word"),
        (["visits.csv", "--unit", "patient_id", "--units", -3, "--yes"], "--units must be an integer ≥ 1"),
        ([*GIVEN, "--ledger", "no/folder/ledger.db"], "cannot be opened: its folder does not exist"),
        ([*GIVEN, "--table", "t"], "--table is for databases"),
        (["empty.csv", "--unit", "x", "--yes"], "the first line of 'empty.csv' must hold the names"),
        (["header.csv", "--unit", "x", "--yes"], "'header.csv' has no rows, only the names of columns; give the file"),
        (
            ["header.xlsx", "--unit", "x", "--yes"],
            "'header.xlsx' has no rows, only the names of columns",
        ),
        (["bytes.csv", "--unit", "x", "--yes"], "'bytes.csv' is no text with a separator between fields"),
        (["visits.csv", "--unit", "patient_id"], "a question got no answer: --yes takes what is offered"),
        (["twice.csv", "--unit", "a", "--yes"], "the columns 'a' and 'A' have one name"),
    ],
)
def test_what_is_wrong_is_named(run, tmp_path, arguments, message):
    (tmp_path / "empty.csv").write_bytes(b"")
    (tmp_path / "twice.csv").write_bytes(b"a,A\n1,2\n")
    (tmp_path / "header.csv").write_bytes(b"x,y\n\n,\n")
    (tmp_path / "bytes.csv").write_bytes(bytes(range(10)) * 9 + b'\r"x')
    pd.DataFrame({"x": [], "y": []}).to_excel(tmp_path / "header.xlsx", index=False)
    result = run(*arguments)
    assert result.exit_code == 2
    assert "Traceback" not in result.output
    assert message in result.stderr
    assert not (tmp_path / "data.toml").exists()
    assert not (tmp_path / "ledger.db").exists()


def test_a_file_that_is_there_is_not_replaced(run, tmp_path):
    (tmp_path / "data.toml").write_text("mine", encoding="utf-8")
    result = run(*GIVEN)
    assert result.exit_code == 2
    assert "exists; --overwrite replaces it" in result.stderr
    assert (tmp_path / "data.toml").read_text(encoding="utf-8") == "mine"
    assert run(*GIVEN, "--overwrite").exit_code == 0


def test_in_python(run, tmp_path):
    data = osgt.start(
        "visits.csv",
        "patient_id",
        types={"cost": "float64"},
        keys={"ward": {"x": "Surgery", "y": "Oncology"}},
        ranges={"cost": (0, 100)},
        epsilon=2,
        ledger=None,
        out="about.toml",
    )
    assert data.known_column("ward").labels == {"x": "Surgery", "y": "Oncology"}
    assert data.known_column("cost").range == (0, 100)
    assert data.budget == {"epsilon": 2, "delta": 1e-8}


def test_parquet_has_types_of_its_own(run, tmp_path):
    table = pa.table({"person": [1, 2], "town": ["a", "b"]})
    pyarrow.parquet.write_table(table, tmp_path / "rows.parquet")
    result = run("rows.parquet", "--unit", "person", "--keys", "town=a,b", "--yes")
    assert result.exit_code == 0, result.stderr
    assert written(tmp_path)["columns"] == {"town": {"values": ["a", "b"]}}


class TestOffers:
    def offers(self, tmp_path, text, encoding="utf-8"):
        path = tmp_path / "rows.csv"
        path.write_text(text, encoding=encoding)
        return make_offers(str(path), {})

    def test_a_file_of_an_office(self, tmp_path):
        text = "Person_ID;Größe;Datum;PLZ\n" + "a;1,5;31.12.2024;0123\nb;12;1.2.2024;8000\n" * 5
        offers = self.offers(tmp_path, text, "cp1252")
        assert offers.form == {"delimiter": ";", "encoding": "cp1252", "decimal": ",", "date_format": "%d.%m.%Y"}
        assert offers.types == {"Person_ID": "string", "Größe": "float64", "Datum": "date", "PLZ": "string"}
        assert offers.privacy_unit == "Person_ID"

    def test_months_before_days(self, tmp_path):
        assert self.offers(tmp_path, "d\n12/31/2024\n1/2/2024\n").form["date_format"] == "%m/%d/%Y"

    def test_many_values_are_no_list(self, tmp_path):
        rows = "".join(f"{i},{'ab'[i % 2]}\n" for i in range(60))
        assert self.offers(tmp_path, f"many,few\n{rows}").few == ("few",)

    def test_an_empty_file(self, tmp_path):
        assert self.offers(tmp_path, "").columns == ()


def test_delta_is_far_below_one_over_the_number_of_units():
    assert [usual_delta(units) for units in (None, 10, 14_000, 10**9)] == [1e-8, 1e-6, 1e-8, pytest.approx(1e-12)]
