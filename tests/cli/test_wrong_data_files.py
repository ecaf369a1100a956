"""Wrong data files, SQL and keys on the command line: a clear sentence, nothing charged, nothing written."""

import os
import sqlite3

import pytest
from typer.testing import CliRunner

from osgt import Ledger
from osgt.cli import app

ROWS = [f"p{i % 900},{'AB'[i % 2]},{i % 7},2024-01-{1 + i % 28:02},{i % 50}.5" for i in range(3000)]
DATA_FILE = """[data]
source = "visits.csv"
privacy_unit = "patient"
units = 900
ledger = "ledger.db"
dataset = "visits"

[columns.day]
type = "date"

[columns.days]
type = "int64"

[columns.cost]
type = "float64"
range = [0, 100]

[columns.ward]
values = ["A", "B"]

[budget]
epsilon = 1
delta = 1e-6
"""
LEAKS = ("Traceback", "Errno", "Error(", "Exception", "<class", "object at 0x", "pydantic", "Arrow", "None", "('")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("visits")
    (path / "visits.csv").write_text("\n".join(["patient,ward,days,day,cost", *ROWS]) + "\n", encoding="utf-8")
    (path / "data.toml").write_text(DATA_FILE, encoding="utf-8")
    (path / "wrong.toml").touch()
    with Ledger(path / "ledger.db") as book:
        book.open("visits", epsilon=3, delta=1e-5, unit="patient", tables=["visits"])
    return path


@pytest.fixture
def refused(folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setenv("NO_COLOR", "1")

    def message(*arguments):
        before = _state()
        result = CliRunner().invoke(app, [*map(str, arguments)])
        assert result.exit_code == 2, result.output
        assert result.stdout == ""
        assert not [leak for leak in LEAKS if leak in result.stderr], result.stderr
        assert _state() == before
        return result.stderr

    return message


def _state():
    with sqlite3.connect("ledger.db") as connection:
        entries = connection.execute("SELECT count(*) FROM osgt_entries").fetchone()
    return {name for name in os.listdir() if not name.startswith("ledger.db-")}, entries


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (DATA_FILE, "", "[data] must be given: where the rows are"),
        ("[data]", "[dta]", "the data file has no 'dta' (did you mean 'data'?)"),
        ("source =", "soure =", "[data] has no 'soure' (did you mean 'source'?)"),
        ('"visits.csv"', '"visit.csv"', "there is no file 'visit.csv'"),
        ('"visits.csv"', "3", "data.source must be text in quotes, got 3"),
        ('= "patient"', '= "person"', "data.privacy_unit: there is no column 'person'"),
        ('privacy_unit = "patient"', "", "data.privacy_unit must be given"),
        ("units = 900", 'units = "many"', "data.units must be a whole number, got 'many'"),
        ("units = 900", "units = 0", "data.units must be an integer ≥ 1, got 0"),
        ("units = 900", "units = 900\nunits = 5", "is not TOML: Cannot overwrite a value"),
        ("units = 900", 'units = 900\nwhere = "cost >"', "data.where: it ends too early"),
        ("units = 900", 'units = 900\nderive = {q = "quarter(nope)"}', "data.derive: q: there is no column 'nope'"),
        ("units = 900", 'units = 900\nnoun = ["a", "b", "c"]', "data.noun must be one word"),
        ("units = 900", 'units = 900\nencoding = "klingon"', "data.encoding must be the name of a text encoding"),
        ("units = 900", 'units = 900\ndecimal = ";"', 'data.decimal must be "." or ","'),
        ("units = 900", 'units = 900\nengine = "oracle"', "engine must be duckdb, postgres or spark"),
        ("units = 900", 'units = 900\ntable = "t"', "data.table is for databases and spreadsheets"),
        ("units = 900", 'units = 900\nfile = "data.toml"', "data.file is for query files"),
        ('type = "date"', 'type = "day"', "column 'day' must be int64, float64, decimal(p, s), boolean, date"),
        ("[columns.cost]", "[columns.csot]", "there is no column 'csot' (did you mean 'cost'?)"),
        ("[0, 100]", "[100, 0]", "range must be the least and the largest plausible value"),
        ("[0, 100]", "5", "columns.cost.range must be two numbers, as in [0, 100], got 5"),
        ('["A", "B"]', "[]", "values must hold at least one value"),
        ('["A", "B"]', '["A", "A"]', "values must hold each value once, got 'A' again"),
        ('["A", "B"]', '"nolist"', "one of 'iso-countries', 'months' and 'weekdays', got 'nolist'"),
        ('["A", "B"]', '"none.csv"', "there is no file"),
        ("values =", "value =", "[columns.ward] has no 'value' (did you mean 'values'?)"),
        ("epsilon = 1", "epsilon = -1", "budget.epsilon must be a finite number > 0, got -1"),
        ("epsilon = 1", "epsilon = 'one'", "budget.epsilon must be a number, got 'one'"),
        ("delta = 1e-6", "delta = 3", "budget.delta must be at least 0 and below 1"),
        ('dataset = "visits"', "", "data.dataset must be given with a ledger"),
        ('dataset = "visits"', 'dataset = "other"', "other"),
        ('ledger = "ledger.db"', 'ledger = "no.db"', "no.db"),
        ("[budget]", "[budget", "is not TOML"),
        ("[budget]", "[buget]", "the data file has no 'buget' (did you mean 'budget'?)"),
    ],
)
def test_a_data_file(refused, folder, old, new, message):
    assert old in DATA_FILE
    (folder / "wrong.toml").write_text(DATA_FILE.replace(old, new), encoding="utf-8")
    assert message in refused("release", "wrong.toml", "--by", "ward", "--count")


def test_an_option_that_was_given_is_told_by_its_name(refused):
    assert "--units must be an integer" in refused("release", "data.toml", "--units", -1, "--count")
    assert "--max-groups must be an integer" in refused(
        "release", "data.toml", "--by", "ward", "--max-groups", 0, "--count"
    )


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (["--keys", "nope=a"], "--keys must have a list for each key, 'ward'; got 'nope'"),
        (["--keys", "ward"], "--keys must be COLUMN=KEY,KEY,…"),
        (["--keys", "ward="], "--keys must be COLUMN=KEY,KEY,…"),
        (["--keys", "ward=A,A"], "--keys must hold each key once"),
        (["--keys", "ward=A", "--public-keys", "all"], "give --keys or --public-keys, not both"),
        (
            ["--by", "days", "--keys", "ward=A", "--keys", "days=x"],
            "--keys: column 'days' must hold whole numbers, got 'x'",
        ),
        (["--public-keys", "none.csv"], "--public-keys: there is no file 'none.csv'"),
        (["--by", "patient"], "--by: 'patient' is the privacy unit"),
        (["--by", "wrd"], "--by: there is no column 'wrd' (did you mean 'ward'?)"),
        (["--mean", "csot"], "there is no column 'csot' (did you mean 'cost'?)"),
        (["--mean", "ward"], "the type of column 'ward' must be declared"),
        (["--median", "days"], "bounds of 'days' must be given"),
        (["--group-by", "ward"], "did you mean '--by'?"),
        (["--avg", "cost"], "did you mean '--mean'?"),
        (["--epsilon", 9], "at most about ε = 2.9 still fits"),
    ],
)
def test_options_beside_a_data_file(refused, typed, message):
    assert message in refused("release", "data.toml", "--by", "ward", "--count", "--max-rows", 5, *typed)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it must be a SELECT with an aggregate"),
        ("SELECT", "FROM must say which table is meant"),
        ("DROP TABLE visits", "it must begin with SELECT, got 'DROP'"),
        ("SELECT COUNT(*) FROM visits; DROP TABLE visits", "there must be one statement"),
        ("SELECT * FROM visits", "rows are never published"),
        ("SELECT ward FROM visits", "ward is neither in GROUP BY nor an aggregate"),
        ("SELECT DISTINCT ward FROM visits", "Count them, as in SELECT"),
        ("SELECT COUNT(*) FROM other", "FROM names the table 'other', and these data are 'visits'"),
        ("SELECT MAX(cost) FROM visits", "Ask for a quantile near the end"),
        ("SELECT STDDEV(cost) FROM visits", "ask for VARIANCE"),
        ("SELECT COUNT(DISTINCT ward, cost) FROM visits", "of several columns is not answered: ask for COUNT(DISTINCT"),
        ("SELECT SUM(cost) / COUNT(*) FROM visits", "an aggregate must stand by itself"),
        ("SELECT patient, COUNT(*) FROM visits GROUP BY 1", "'patient' is the privacy unit"),
        ("SELECT wrd, COUNT(*) FROM visits GROUP BY wrd", "there is no column 'wrd' (did you mean 'ward'?)"),
        ("SELECT AVG(csot) FROM visits", "there is no column 'csot' (did you mean 'cost'?)"),
        ("SELECT MEDIAN(days) FROM visits", "--bounds must be given for MEDIAN(days)"),
        ("SELECT cost, COUNT(*) FROM visits GROUP BY cost", "cannot tell groups or units apart"),
        ("SELECT COUNT(*) FROM visits GROUP BY 3", "GROUP BY 3: SELECT has 1 item\n"),
        ("SELECT COUNT(*) FROM visits WHERE ward = 'x", "is never closed"),
        ("SELECT COUNT(*) FROM visits WHERE cost > (SELECT 1)", "a query inside a query is not answered"),
        ("SELECT COUNT(*) FROM visits JOIN other ON a = b", "a join is not written in the query"),
        ("SELECT COUNT(*) OVER () FROM visits", "window functions are not answered"),
        ("SELECT COUNT(*) FROM visits HAVING COUNT(*) > 3", "HAVING is not answered"),
        ("SELECT ward, COUNT(*) FROM visits GROUP BY ward LIMIT 3", "LIMIT is not answered"),
        ("SELECT COUNT(*) FROM visits WHERE read_csv('x')", "the function 'read_csv' is not known"),
    ],
)
def test_sql(refused, text, message):
    assert message in refused("sql", "data.toml", text)
