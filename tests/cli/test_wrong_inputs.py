"""Wrong inputs on the command line, in query files and in Python: a sentence with the right names, and nothing happens.

Each line is a mistake that somebody may make and what must be said about it. Nothing is written, nothing is charged.
"""

import os
import sqlite3
import sys

import pyarrow as pa
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from osgt import Dataset, Ledger, Mechanism
from osgt.cli import app

TYPED = {
    "--unit": "user",
    "--by": "city",
    "--max-groups": "3",
    "--max-rows-per-group": "2",
    "--epsilon": "5",
    "--delta": "1e-4",
    "--ledger": "budget.db",
    "--dataset": "rides",
    "--out": "out.csv",
    "--report": "out.html",
}
FILE = {
    "data": {"source": "'rows.parquet'", "privacy_unit": "'user'", "ledger": "'budget.db'", "dataset": "'rides'"},
    "groups": {"by": "'city'", "max_groups": "3", "max_rows_per_group": "2"},
    "budget": {"epsilon": "5", "delta": "1e-4"},
    "output": {"out": "'out.csv'"},
}
COUNT = "[[aggregates]]\nkind = 'count'"

#: What must be in no message: parts of Python, of libraries and of terminals.
LEAKS = (
    *("Traceback", "Errno", "codec", "\x1b", "Error(", "Exception", "<class", "object at 0x", "unable to parse"),
    *("pydantic", "Arrow", "duckdb.", "ibis", "java", "None", "('", "['", "Invalid Input", "dict"),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("wrong")
    rows = {"user": [i % 50 for i in range(300)], "city": ["Bern", "Rome", "Oslo"] * 100, "fare": [1.5] * 300}
    pyarrow.parquet.write_table(pa.table(rows), path / "rows.parquet")
    pyarrow.parquet.write_table(pa.table({"town": ["Bern"]}), path / "towns.parquet")
    (path / "rows.csv").write_text("user,city,fare\n1,Bern,1.5\n")
    (path / "semicolons.csv").write_text("user;city;fare\n1;Bern;1,5\n")
    (path / "latin.csv").write_bytes("city\nZürich\n".encode("latin-1"))
    (path / "header.csv").write_bytes("user,größe\n1,2\n".encode("latin-1"))
    (path / "wide.csv").write_bytes("user,city,fare\n".encode("utf-16"))
    (path / "empty.csv").write_bytes(b"")
    (path / "twice.csv").write_text("user,city,City\n1,a,b\n")
    (path / "fake.parquet").write_text("hello")
    whole = bytearray((path / "rows.parquet").read_bytes())
    whole[40:400:3] = bytes(120)
    (path / "damaged.parquet").write_bytes(whole)
    (path / "fake.db").write_text("hello")
    (path / "sheet.xlsx").write_text("x")
    (path / "notes.txt").write_text("x")
    (path / "noise.csv").write_text("people\n3\n2.5\n")
    (path / "folder").mkdir()
    with Ledger(path / "budget.db") as ledger:
        ledger.open("rides", epsilon=100, delta=1e-3)
    return path


@pytest.fixture(autouse=True)
def nothing_happens(monkeypatch, folder):
    """Nothing is written, and no entry is added to the ledger."""
    monkeypatch.chdir(folder)
    before = what_there_is()
    yield
    assert what_there_is() == before


def what_there_is():
    """The files, without what the database keeps beside its own, and the number of entries in the ledger."""
    with sqlite3.connect("budget.db") as connection:
        entries = connection.execute("SELECT count(*) FROM osgt_entries").fetchone()
    return {name for name in os.listdir() if not name.startswith("budget.db-")}, entries


@pytest.fixture
def refused(monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")

    def message(*arguments):
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        assert result.exit_code == 2, result.output
        assert isinstance(result.exception, SystemExit)
        assert result.stdout == ""
        checked(result.stderr)
        return result.stderr

    return message


def checked(text):
    assert not [leak for leak in LEAKS if leak in text], text
    assert len(text.splitlines()) <= 6, text


CHANGED = [
    ("--epsilon", "0,5", "'0,5' is not a number: write it with a decimal point, 0.5"),
    ("--epsilon", "abc", "'abc' is not a number"),
    ("--epsilon", "50%", "'50%' is not a number: write 50% as 0.5"),
    *(("--epsilon", value, "--epsilon must be a finite number > 0") for value in ("0", "-1", "nan", "inf")),
    ("--epsilon", "1e9", "--epsilon must be"),
    ("--epsilon", None, "--epsilon must be given"),
    ("--delta", None, "--delta must be given"),
    ("--delta", "1e-4,", "is not a number"),
    ("--delta", "0", "or give --public-keys"),
    *(("--delta", value, "--delta must be at least 0 and below 1") for value in ("1", "2")),
    *(("--delta", value, "--delta must be") for value in ("-1", "nan")),
    ("--unit", None, "--unit (or --unit-row) must be given"),
    (
        "--unit",
        "usr",
        "--unit: there is no column 'usr' (did you mean 'user'?); the table has 'user', 'city' and 'fare'",
    ),
    ("--unit", "User", "(did you mean 'user'?)"),
    ("--unit", "fare", "--unit: column 'fare'"),
    ("--by", "cty", "--by: there is no column 'cty' (did you mean 'city'?)"),
    ("--by", "größe", "--by: there is no column 'größe'; the table has"),
    ("--by", "city,fare", "--by: there is no column 'city,fare': give each by itself; the table has"),
    ("--by", "fare", "--by: column 'fare'"),
    ("--by", "user", "--by"),
    *(("--max-groups", value, "--max-groups must be an integer") for value in ("0", "-1", "99999999999999999999")),
    ("--max-groups", "2.5", "'2.5' is not a whole number"),
    ("--max-groups", "two", "'two' is not a whole number"),
    ("--max-groups", "2,5", "'2,5' is not a whole number"),
    *(("--max-rows-per-group", value, "--max-rows-per-group must be") for value in ("0", "-3")),
    ("--dataset", None, "--dataset must be given with a ledger"),
    ("--dataset", "ridse", "ridse"),
    ("--ledger", None, "--ledger must be given where a data set is named"),
    ("--ledger", "no.db", "there is no ledger at"),
    ("--ledger", "fake.db", "is not a database, or is damaged"),
    ("--ledger", "mysql://x/y", "mysql"),
    ("--out", "x.txt", "--out must end in .parquet, .csv or .xlsx"),
    ("--out", "folder", "--out must end in"),
    ("--out", "no/x.csv", "--out: there is no folder 'no'"),
    ("--out", "rows.parquet", "--out: 'rows.parquet' is a file in use"),
    ("--out", "rows.csv", "--out: 'rows.csv' exists; --overwrite replaces it"),
    ("--report", "x.pdf", "--report must end in .html"),
    ("--report", "no/x.html", "--report: there is no folder 'no'"),
]
ADDED = [
    ("--confidence 95", "--confidence must be above 0 and below 1, got 95.0; write 95 % as 0.95"),
    ("--confidence 95%", "write 95% as 0.95"),
    ("--confidence 0,95", "write it with a decimal point, 0.95"),
    ("--confidence=0,9", "write it with a decimal point, 0.9"),
    *((f"--confidence {value}", "--confidence must be") for value in ("0", "1", "-1", "nan")),
    ("--sum fre:0:1", "Error: there is no column 'fre' (did you mean 'fare'?)"),
    ("--sum fare --units 50", "max_total of fare: with about 50 units"),
    ("--sum fare:x", "--sum must be COLUMN[:TOTAL/:LOW:HIGH], got 'fare:x': 'x' is not a number"),
    ("--sum fare:0", "max_total of 'fare' must be above 0 and finite, got 0"),
    ("--units 0", "--units must be an integer ≥ 1, got 0"),
    ("--max-rows 5", "--max-rows and --max-rows-per-group both limit the rows of a unit"),
    ("--sum fare:9:0", "bounds of 'fare' must be the lower one and then the upper one, got 9 and 0"),
    ("--sum fare:1:1", "bounds of 'fare' must be the lower one and then the upper one"),
    ("--sum fare:0:1,5", "'1,5' is not a number"),
    ("--sum fare:0:inf", "bounds of 'fare' must be finite"),
    ("--sum city:0:1", "column 'city' must hold numbers"),
    ("--sum fare:0:9 --sum fare:0:9", "there is a column 'fare_sum' already; leave one out"),
    ("--mean fare:a:b", "--mean must be COLUMN[:LOW:HIGH]"),
    ("--variance fare:0", "--variance must be"),
    (
        "--median fare",
        "bounds of 'fare' must be given: the least and the largest value that a row may count as (on the",
    ),
    ("--median fare", "fare:LOW:HIGH"),
    ("--quantile fare:0:1", "--quantile must be"),
    ("--quantile fare:0:1:95", "must be above 0 and below 1, got 95.0; write 95 % as 0.95"),
    ("--histogram fare:5:3", "edges of 'fare' must be"),
    ("--proportion fare", "--proportion must be"),
    ("--proportion high=fre>1", "there is no column 'fre' (did you mean 'fare'?)"),
    ("--average fare:0:1", "No such option: --average (did you mean '--mean'?)"),
    ("--percentile fare:0:1:0.5", "(did you mean '--quantile'?)"),
    ("--count-unts", "(did you mean '--count-units'?)"),
    ("--where fre>1", "--where: there is no column 'fre' (did you mean 'fare'?)"),
    ('--where city="Bern"', "--where: there is no column 'Bern'; the table has"),
    ('--where city="Bern"', "If it is text, write 'Bern' in single quotes"),
    ("--where fare>", "--where: it ends too early: a value or a column must follow"),
    (
        "--where city=Bern",
        "there is no column 'Bern'; the table has 'user', 'city' and 'fare'. If it is text, write 'Bern'",
    ),
    ("--where citty='x'", "(did you mean 'city'?); the table has 'user', 'city' and 'fare'\n"),
    ("--derive m=mnth(user)", "(did you mean 'month'?); compute it before"),
    ("--where city='Bern", "--where: the quote at character 6 is never closed"),
    ("--where random()<1", "--where: the function 'random'"),
    ("--derive x", "--derive must be NAME=SQL"),
    ("--derive x=fre+1", "--derive: x: there is no column 'fre'"),
    ("--derive city=fare", "--derive: there is a column 'city' already"),
    ("--type fare", "--type must be COLUMN:TYPE"),
    ("--type fare:int64", "--type is for CSV files"),
    ("--delimiter ;", "--delimiter is for CSV files"),
    ("--table t", "--table is for databases"),
    ("--engine sprk", "--engine must be duckdb, postgres or spark"),
    ("--engine postgres", "source must be a URL postgresql://"),
    ("--engine spark --master foo://x", "--master must be local, local[4], spark://host:7077,"),
    ("--master local[2]", "--master must be left out for DuckDB"),
    ("--neighbours both", '--neighbours must be "add_remove" or "change_one"'),
    ("--public-keys no.csv", "--public-keys: there is no file 'no.csv'"),
    ("--public-keys all", "--public-keys: "),
    ("--public-keys latin.csv", "--public-keys: 'latin.csv' cannot be read; it must be CSV in UTF-8"),
    ("--public-keys notes.txt", "--public-keys: 'notes.txt' cannot be read; it must be Parquet"),
    ("--public-keys towns.parquet", "--public-keys must have the columns of the keys alone, 'city'; got 'town'"),
    ("--keys city", "--keys must be COLUMN=KEY,KEY,…, as in department=Cardiology,Emergency, got 'city'"),
    ("--keys city=", "--keys must be COLUMN=KEY"),
    ("--keys =Rome", "--keys must be COLUMN=KEY"),
    ("--keys city=Rome --keys city=Oslo", "--keys: give all keys of 'city' at once"),
    ("--keys town=Rome", "--keys must have a list for each key, 'city'; got 'town'"),
    ("--keys city=Rome,Rome", "--keys must hold each key once"),
    ("--keys city=all", '--keys: "all" is for columns with public values'),
    ("--keys city=Rome --public-keys towns.parquet", "give --keys or --public-keys, not both"),
    ("--group-by city", "No such option: --group-by (did you mean '--by'?)"),
    ("--groupby city", "(did you mean '--by'?)"),
    ("--where-sql fare>1", "(did you mean '--where'?)"),
    ("--filter fare>1", "(did you mean '--where'?)"),
    ("--privacy-unit user", "(did you mean '--unit'?)"),
    ("--eps 1", "(did you mean '--epsilon'?)"),
    ("--output x.csv", "(did you mean '--out'?)"),
    ("--std fare", "(did you mean '--variance'?)"),
    ("--bounds 0:5", "No such option: --bounds: write them after the column, as in --mean cost:0:5000"),
    ("--format csv", "the ending of --out says it"),
    ("--totals cty", "--totals: 'cty' is not among the columns"),
    ("--by city", "--by: each column once, got city, city"),
    ("--unit-row", "give --unit or --unit-row, not both"),
    (
        "--objective best",
        "--objective must be interval, variance, mean_abs, quantile:P with P between 0 and 1, or max:N",
    ),
    ("--objective quantile:95", "--objective must be interval,"),
    ("--objective max:few", "--objective must be interval,"),
    ("--query no.toml", "--query: there is no file 'no.toml'"),
    ("--query notes.txt", "--query: 'notes.txt' is not TOML"),
    ("--query folder", "--query: 'folder' is a folder; give the name of a file"),
    ("--query rows.parquet", "--query: 'rows.parquet' is not TOML: it is not text in UTF-8"),
    ("--url x", "give a source or --url, not both"),
    ("--save-query x.csv", "--save-query must end in .toml"),
    ("extra", "what has blanks stands in quotes"),
]
SOURCES = [
    ("no.csv", "source: there is no file 'no.csv'"),
    ("no*.parquet", "source: there is no file 'no*.parquet'"),
    ("folder", "source: 'folder' is a folder; name the files in it, as in 'folder/*.parquet'"),
    ("sheet.xlsx", "source: 'sheet.xlsx' cannot be read as a spreadsheet without a password; save it again, or save"),
    ("notes.txt", "source must be a path or glob of Parquet, CSV, Excel, SPSS, Stata or SAS files"),
    ("empty.csv", "source: the first line of 'empty.csv' must hold the names of the columns"),
    ("header.csv", "source: the first line of 'header.csv' must hold the names of the columns, in UTF-8"),
    ("wide.csv", "in UTF-8"),
    ("twice.csv", "source: the columns 'city' and 'City' have one name; rename one of them"),
    ("semicolons.csv", "--delimiter must be given: the only column is 'user;city;fare'"),
    ("fake.parquet", "source 'fake.parquet' cannot be read"),
    ("fake.db", "fake.db"),
    ("rows.csv --sum fare:0:9", "--type fare:float64"),
    ("rows.csv --type fre:int64", "--type: there is no column 'fre' (did you mean 'fare'?)"),
    ("rows.csv --type fare:float", "--type: column 'fare' must be int64, float64, decimal(p, s), boolean,"),
    ("rows.csv --delimiter ;;", "--delimiter must be one character"),
    ("rows.csv --quote ''", "--quote must be one character"),
    ("rows.csv --encoding klingon", "--encoding must be the name of a text encoding"),
    ("rows.csv --decimal ;", '--decimal must be "." or ","'),
    ("rows.csv --date-format %d.%m.%y", "--date-format must have %d (the day)"),
]


@pytest.mark.parametrize(("option", "value", "message"), CHANGED)
def test_an_option_with_another_value_or_none(refused, option, value, message):
    typed = {**TYPED, option: value}
    words = [word for name, each in typed.items() if each is not None for word in (name, each)]
    assert message in refused("release", "rows.parquet", "--count", *words)


@pytest.mark.parametrize(("more", "message"), ADDED)
def test_one_more_option(refused, more, message):
    words = [word for pair in TYPED.items() for word in pair]
    assert message in refused("release", "rows.parquet", "--count", *words, *more.split())


@pytest.mark.parametrize(("source", "message"), SOURCES)
def test_a_source(refused, source, message):
    words = [word for pair in TYPED.items() for word in pair]
    assert message in refused("release", *source.split(), "--count", *words)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("release", "SOURCE (a file), --url or --query must be given"),
        ("release data.tml --by city --count", "source: there is no file 'data.tml'"),
        ("relase", "No such command 'relase'. Did you mean 'release'?"),
        ("release rows.parquet --unit user --epsilon 1", "give at least one aggregate: --count,"),
        ("plan", "--delta must be given"),
        ("plan --epsilon 1 --delta 1e-8", "--coordinates must be given"),
        ("plan --epsilon 1 --delta 1e-8 --coordinates 0", "--coordinates must be an integer"),
        ("plan --epsilon 1 --delta 1e-8 --coordinates 8 --shift 0", "--shift must be"),
        ("plan --epsilon 1 --delta 1e-8 --coordinates 8 --cells 0", "--cells must be an integer"),
        (
            "plan --epsilon 1 --delta 1e-8 --coordinates 8 --objective interval",
            "--objective must be variance, mean_abs,",
        ),
        ("plan --epsilon 1 --error 5 --delta 1e-8 --coordinates 8", "give one of --epsilon (the budget) and --error"),
        ("plan --epsilon 1 --delta 1e-8 --coordinates 8 --plot x.bmp", "--plot must end in .png, .svg or .pdf"),
        (
            "noise noise.csv --column peple --epsilon 1 --delta 0 --coordinates 1",
            "(did you mean 'people'?); the file has",
        ),
        ("noise noise.csv --column people --epsilon 0 --delta 0 --coordinates 1", "--epsilon must be"),
        ("noise noise.csv --column people --epsilon 1 --delta 0 --coordinates 0", "--coordinates must be"),
        (
            "noise noise.csv --column people --epsilon 1 --delta 0 --coordinates 1",
            "numbers with decimals need --values floats",
        ),
        (
            "noise noise.csv --column people --interval 95 --epsilon 1 --delta 0 --coordinates 1",
            "--interval must be above 0",
        ),
        ("noise no.csv --column people --epsilon 1 --delta 0 --coordinates 1", "'no.csv'"),
        ("noise folder --column people --epsilon 1 --delta 0 --coordinates 1", "'folder'"),
        ("noise latin.csv --column people --epsilon 1 --delta 0 --coordinates 1", "must be text in UTF-8"),
        ("noise semicolons.csv --column fare --epsilon 1 --delta 0 --coordinates 1", "commas between its fields"),
        ("statement rows.parquet", "'rows.parquet' holds no statement"),
        ("statement rows.csv", "'rows.csv' has no statement"),
        ("statement no.parquet", "there is no file 'no.parquet'"),
        ("limits rows.parquet --unit user --count", "--epsilon must be given"),
        ("limits rows.parquet --unit user --count --reopen", "--save must be given"),
        ("limits rows.parquet --unit user --count --max-rows 3 --epsilon 1", "nothing to choose"),
        ("preview header.csv --unit user --count", "in UTF-8"),
        ("preview rows.parquet --unit user --by cty --count", "--by: there is no column 'cty'"),
        ("preview damaged.parquet --unit user --by city --count", "the data cannot be read: "),
        ("audit --epsilon 1", "--delta must be given"),
        ("audit rows.parquet --unit user --count --max-rows-per-group 1", "--epsilon must be given"),
        ("schema --out no/x.json", "--out: there is no folder 'no'"),
        ("paper --out notes.txt", "--out must be a folder"),
        ("ledger opn budget.db x", "Did you mean 'open'?"),
        ("ledger open l.db x --epsilon 0,5 --delta 1e-6", "write it with a decimal point, 0.5"),
        ("ledger open l.db x --epsilon 0 --delta 1e-6", "--epsilon must be"),
        ("ledger open l.db x --epsilon 1 --delta 1", "--delta must be"),
        ("ledger open budget.db rides --epsilon 1 --delta 1e-6", "rides"),
        ("ledger show no.db", "there is no ledger at"),
        ("ledger show fake.db", "is not a database"),
        ("ledger show budget.db --last -1", "--last must be at least 0"),
        ("ledger show budget.db --since yesterday", "--since must be a day or a time as in 2026-05-03"),
        ("ledger show budget.db trips", "trips"),
        ("ledger remaining budget.db rides --coordinates 0", "--coordinates must be"),
        ("ledger settle budget.db rides one", "'one' is not a whole number"),
        ("ledger settle budget.db rides 99", "99"),
        ("ledger budget budget.db rides --epsilon 1 --delta 1e-3", "Missing option '--reason'"),
        ("ledger verify budget.db --heads notes.txt", "--heads: 'notes.txt' is not JSON"),
        ("ledger backup budget.db rows.csv", "rows.csv"),
    ],
)
def test_other_commands(refused, words, message):
    assert message in refused(*words.split())


KEYS = [
    ("budget", "epsilon", "0", "budget.epsilon must be a finite number > 0, got 0"),
    ("budget", "epsilon", "'0,5'", "budget.epsilon must be a number, got '0,5'"),
    ("budget", "epsilon", "true", "budget.epsilon must be a number, got true"),
    ("budget", "epsilon", None, "budget.epsilon must be given"),
    ("budget", "epsilom", "1", "[budget] has no 'epsilom' (did you mean 'epsilon'?)"),
    ("budget", "delta", "2", "budget.delta must be"),
    ("budgt", "epsilon", "1", "the query file has no 'budgt' (did you mean 'budget'?)"),
    ("data", "source", None, "data.source must be given: a Parquet, CSV, Excel, SPSS, Stata, SAS or database file"),
    ("data", "source", "'no.csv'", "data.source: there is no file"),
    ("data", "source", "5", "data.source must be text in quotes, got 5"),
    ("data", "sorce", "'x'", "[data] has no 'sorce' (did you mean 'source'?)"),
    ("data", "privacy_unit", "'usr'", "data.privacy_unit: there is no column 'usr' (did you mean 'user'?)"),
    ("data", "privacy_unit", "[]", "data.privacy_unit must name at least one column"),
    ("data", "where", "'fre > 1'", "data.where: there is no column 'fre'"),
    ("data", "where", "'fare >'", "data.where: it ends too early"),
    ("data", "derive", "{x = 'fre + 1'}", "data.derive: x: there is no column 'fre'"),
    ("data", "types", "{fare = 'int64'}", "data.types is for CSV files"),
    ("data", "delimiter", "';'", "data.delimiter is for CSV files"),
    ("data", "engine", "'sprk'", "engine must be duckdb, postgres or spark, got 'sprk'"),
    ("data", "neighbours", "'both'", 'data.neighbours must be "add_remove" or "change_one"'),
    ("data", "dataset", None, "data.dataset must be given with a ledger"),
    ("data", "ledger", None, "data.ledger must be given"),
    ("data", "table", "'t'", "data.table is for databases"),
    ("groups", "by", "'cty'", "groups.by: there is no column 'cty' (did you mean 'city'?)"),
    ("groups", "by", "5", "groups.by must be text in quotes, or a list of texts, got 5"),
    ("groups", "max_groups", "0", "groups.max_groups must be an integer"),
    ("groups", "max_groups", "2.5", "groups.max_groups must be a whole number, got 2.5"),
    ("groups", "max_rows", "5", "groups.max_rows and groups.max_rows_per_group both limit"),
    ("groups", "max_group", "3", "[groups] has no 'max_group' (did you mean 'max_groups'?)"),
    ("groups", "public_keys", "'no.csv'", "groups.public_keys: there is no file"),
    ("groups", "public_keys", "[1, 2]", "groups.public_keys: column 'city' must hold text"),
    ("groups", "public_keys", "[]", "groups.public_keys must hold at least one key"),
    ("groups", "public_keys", "{cty = [1]}", "groups.public_keys must have a list for each key, 'city'; got 'cty'"),
    ("groups", "totals", "'sums'", 'groups.totals must be "rollup", "cube" or a list of levels'),
    ("output", "confidence", "95", "output.confidence must be above 0 and below 1, got 95; write 95 % as 0.95"),
    ("output", "confidence", "'95%'", "output.confidence must be a number, got '95%'"),
    ("output", "objective", "'best'", "output.objective must be interval, variance,"),
    ("output", "out", "'x.txt'", "output.out must end in"),
    ("output", "out", "'no/x.csv'", "output.out: there is no folder"),
    ("output", "nonnegative", "'yes'", "output.nonnegative must be true or false, got 'yes'"),
    ("report", "titel", "'x'", "[report] has no 'titel' (did you mean 'title'?)"),
    ("report", "labels", "{cty = 'x'}", "labels: there is no key or column 'cty' (did you mean 'city'?)"),
]
AGGREGATES = [
    ("", "the query must ask for something"),
    ("[[aggregates]]\nkind = 'average'", "got 'average' (did you mean 'mean'?)"),
    ("[[aggregates]]\nkind = 'counts'", "got 'counts' (did you mean 'count'?)"),
    ("[[aggregates]]\ncolumn = 'fare'", "kind of aggregate 1 must be one of count, count_units,"),
    ("[[aggregates]]\nkind = 'sum'", "column of aggregate 1 (sum) must be given"),
    (
        "[[aggregates]]\nkind = 'sum'\ncolumn = 'fre'\nbounds = [0, 1]",
        "there is no column 'fre' (did you mean 'fare'?)",
    ),
    (
        "[[aggregates]]\nkind = 'sum'\ncolumn = 'fare'\nbounds = [1, 0]",
        "the lower one and then the upper one, got 1 and 0",
    ),
    ("[[aggregates]]\nkind = 'sum'\ncolumn = 'fare'\nbounds = 0", "must be two numbers, as in [0, 100], got 0"),
    ("[[aggregates]]\nkind = 'sum'\ncolumn = 'fare'\nbound = [0, 1]", "has no 'bound' (did you mean 'bounds'?)"),
    ("[[aggregates]]\nkind = 'sum'\ncolumn = 'city'\nbounds = [0, 1]", "column 'city' must hold numbers"),
    ("[[aggregates]]\nkind = 'median'\ncolumn = 'fare'", "bounds of 'fare' must be given"),
    (f"{COUNT}\n{COUNT}", "there is a column 'count' already; leave one out"),
    ("[aggregates]\nkind = 'count'", "aggregates must be a list of tables, each under [[aggregates]]"),
    ("[[agregates]]\nkind = 'count'", "the query file has no 'agregates' (did you mean 'aggregates'?)"),
    (f"{COUNT}\n[[table]]\nname = 'x'", "output.out must have {table} where the name of a table goes"),
    ("[data]", "is not TOML: Cannot declare [data] twice"),
    ("[dat", "is not TOML: Expected ']' at the end of a table declaration"),
    ("kind = rows.parquet", "is not TOML: Invalid value (at line "),
]


def query_file(tmp_path, folder, change=None, aggregates=COUNT):
    """The path of a query file with a key of a part changed."""
    parts = {name: dict(keys) for name, keys in FILE.items()}
    for place, name in (("data", "source"), ("data", "ledger"), ("output", "out")):
        parts[place][name] = f"'{folder / parts[place][name][1:-1]}'"
    for part, key, value in [] if change is None else [change]:
        parts.setdefault(part, {})[key] = value
    lines = []
    for name, keys in parts.items():
        lines += [f"[{name}]", *(f"{key} = {value}" for key, value in keys.items() if value is not None)]
    path = tmp_path / "query.toml"
    path.write_text("\n".join([*lines, aggregates]), encoding="utf-8")
    return path


@pytest.mark.parametrize(("part", "key", "value", "message"), KEYS)
def test_a_key_of_a_query_file(refused, tmp_path, folder, part, key, value, message):
    said = refused("release", "--query", query_file(tmp_path, folder, (part, key, value)))
    assert message in said
    assert "--" not in said


@pytest.mark.parametrize(("aggregates", "message"), AGGREGATES)
def test_the_aggregates_of_a_query_file(refused, tmp_path, folder, aggregates, message):
    assert message in refused("release", "--query", query_file(tmp_path, folder, aggregates=aggregates))


def test_an_option_in_place_of_a_key_has_its_own_name(refused, tmp_path, folder):
    path = query_file(tmp_path, folder)
    assert "--max-groups must be an integer" in refused("release", "--query", path, "--max-groups", 0)
    assert "--by: there is no column 'cty'" in refused("release", "--query", path, "--by", "cty")


def test_a_mark_of_windows_at_the_beginning_of_a_query_file_is_no_mistake(tmp_path, folder):
    path = query_file(tmp_path, folder)
    path.write_text(path.read_text(), encoding="utf-8-sig")
    assert CliRunner().invoke(app, ["plan", "--query", str(path)]).exit_code == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epsilon": 0}, "epsilon must be a finite number > 0, got 0"),
        ({"epsilon": "1"}, "epsilon must be a finite number > 0, got '1'"),
        ({"delta": 2}, "delta must be at least 0 and below 1, got 2"),
        ({"confidence": 95}, "confidence must be above 0 and below 1, got 95; write 95 % as 0.95"),
        ({"objective": "best"}, 'objective must be "variance", "mean_abs",'),
        ({"max_groups": 0}, "max_groups must be an integer ≥ 1, got 0"),
        ({"max_groups": 2.5}, "max_groups must be an integer ≥ 1, got 2.5"),
        ({"max_rows_per_group": 0}, "max_rows_per_group must be"),
        ({"by": "cty"}, "group_by: there is no column 'cty' (did you mean 'city'?)"),
        ({"by": 5}, "group_by must be the name of a column, got 5"),
        ({"privacy_unit": "usr"}, "privacy_unit: there is no column 'usr' (did you mean 'user'?)"),
        ({"privacy_unit": []}, "privacy_unit must name at least one column"),
        ({"public_keys": "latin.csv"}, "public_keys: 'latin.csv' cannot be read"),
        ({"public_keys": []}, "public_keys must hold at least one key"),
        ({"totals": "sums"}, 'totals must be "rollup", "cube" or a list of levels'),
        ({"bounds": (1, 0)}, "bounds of 'fare' must be the lower one and then the upper one, got 1 and 0"),
        ({"column": "fre"}, "there is no column 'fre' (did you mean 'fare'?)"),
        ({"where": "fre > 1"}, "where: there is no column 'fre'"),
        ({"source": "no.csv"}, "source: there is no file 'no.csv'"),
        ({"source": "folder"}, "source: 'folder' is a folder"),
        ({"dataset": "ridse"}, "ridse"),
    ],
)
def test_an_argument_in_python(change, message):
    given = {"source": "rows.parquet", "privacy_unit": "user", "by": "city", "column": "fare", "bounds": (0, 9)}
    given |= {"max_groups": 3, "max_rows_per_group": 2, "epsilon": 5, "delta": 1e-4, "where": "fare > 0"}
    given |= {"dataset": "rides", **change}
    limits = {key: given[key] for key in ("max_groups", "max_rows_per_group", "public_keys", "totals") if key in given}
    options = {key: given[key] for key in ("epsilon", "delta", "confidence", "objective") if key in given}

    def release():
        data = Dataset(given["source"], given["privacy_unit"], ledger="budget.db", dataset=given["dataset"])
        query = data.where(given["where"]).group_by(given["by"], **limits).sum(given["column"], bounds=given["bounds"])
        return query.release(**options)

    with pytest.raises((ValueError, TypeError, OSError)) as error:
        release()
    assert message in str(error.value)
    assert "--" not in str(error.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epsilon": 0, "delta": 0}, "epsilon must be"),
        ({"epsilon": 1, "delta": 1.5}, "delta must be"),
        ({"epsilon": 1, "delta": 0, "coordinates": 0}, "coordinates must be"),
        ({"epsilon": 1, "delta": 0, "shift": -1}, "shift must be"),
        ({"epsilon": 1, "delta": 0, "objective": "best"}, "objective must be"),
    ],
)
def test_a_mechanism_in_python(arguments, message):
    with pytest.raises(ValueError, match=message):
        Mechanism(**arguments)


@pytest.mark.parametrize(
    ("absent", "words", "message"),
    [
        ("pyspark", ["--engine", "spark"], 'Spark needs PySpark: pip install "osgt[spark]"'),
        ("xlsxwriter", ["--out", "out.xlsx"], 'an Excel file needs XlsxWriter: pip install "osgt[excel]"'),
    ],
)
def test_an_extra_that_is_not_installed(refused, monkeypatch, absent, words, message):
    for name in [name for name in sys.modules if name.partition(".")[0] == absent] or [absent]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, absent, None)
    typed = [word for pair in TYPED.items() for word in pair]
    assert message in refused("release", "rows.parquet", "--count", *typed, *words)


def test_there_are_many():
    tables = (CHANGED, ADDED, SOURCES, KEYS, AGGREGATES)
    assert sum(map(len, tables)) > 150
