"""Wrong inputs on the command line, in query files and in Python: the right name, and nothing happens."""

import os

import pyarrow as pa
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from osgt import Dataset
from osgt.cli import app

TYPED = {
    "--unit": "user",
    "--by": "city",
    "--max-groups": "3",
    "--max-rows-per-group": "2",
    "--epsilon": "5",
    "--delta": "1e-4",
}
FILE = {
    "data": {"source": "'rows.parquet'", "privacy_unit": "'user'"},
    "groups": {"by": "'city'", "max_groups": "3", "max_rows_per_group": "2"},
    "budget": {"epsilon": "5", "delta": "1e-4"},
    "output": {},
}
#: What must be in no message.
LEAKS = ("Traceback", "Errno", "codec", "\x1b", "Error(", "pydantic", "Arrow", "must_be", "unable to parse")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("wrong")
    rows = {"user": [i % 50 for i in range(300)], "city": ["Bern", "Rome", "Oslo"] * 100, "fare": [1.5] * 300}
    pyarrow.parquet.write_table(pa.table(rows), path / "rows.parquet")
    (path / "latin.csv").write_bytes("city\nZürich\n".encode("latin-1"))
    (path / "header.csv").write_bytes("user,größe\n1,2\n".encode("latin-1"))
    (path / "notes.txt").write_text("x")
    (path / "noise.csv").write_text("people\n3\n")
    return path


@pytest.fixture
def run(monkeypatch, folder):
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.chdir(folder)
    before = sorted(os.listdir())

    def refused(*arguments):
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        assert result.exit_code == 2, result.output
        assert isinstance(result.exception, SystemExit)
        assert not [leak for leak in LEAKS if leak in result.stderr], result.stderr
        assert result.stdout == ""
        assert sorted(os.listdir()) == before
        return result.stderr

    return refused


CHANGED = [
    ("--epsilon", "0,5", "'0,5' is not a number: write it with a decimal point, 0.5"),
    ("--epsilon", "abc", "'abc' is not a number"),
    *(("--epsilon", value, "--epsilon must be") for value in ("0", "-1", "nan", "inf", "1e9")),
    ("--epsilon", None, "--epsilon must be given"),
    ("--delta", None, "--delta must be given"),
    ("--delta", "1e-4,", "is not a number"),
    ("--delta", "0", "or give --public-keys"),
    *(("--delta", value, "--delta must be") for value in ("2", "-1", "nan")),
    ("--unit", None, "--unit (or --unit-row) must be given"),
    (
        "--unit",
        "usr",
        "--unit: there is no column 'usr' (did you mean 'user'?); the table has 'user', 'city' and 'fare'",
    ),
    ("--by", "cty", "--by: there is no column 'cty'"),
    ("--max-groups", None, "--max-groups must be given"),
    ("--max-rows-per-group", None, "only --count-units can do without"),
    *(("--max-groups", value, "--max-groups must be an integer") for value in ("0", "-1", "99999999999999999999")),
    ("--max-groups", "2.5", "'2.5' is not a whole number"),
    ("--max-groups", "two", "'two' is not a whole number"),
    *(("--max-rows-per-group", value, "--max-rows-per-group must be") for value in ("0", "-3")),
]
ADDED = [
    ("--confidence 95", "--confidence must be above 0 and below 1, got 95.0; write 95 % as 0.95"),
    ("--confidence 95%", "write 95% as 0.95"),
    ("--confidence 0,95", "write it with a decimal point, 0.95"),
    ("--confidence=0,9", "write it with a decimal point, 0.9"),
    *((f"--confidence {value}", "--confidence must be") for value in ("0", "1", "-1", "nan")),
    ("--sum fre:0:1", "there is no column 'fre'"),
    ("--sum fare", "bounds must be given for column 'fare'"),
    ("--sum fare:0", "--sum must be COLUMN:LOW:HIGH"),
    ("--sum fare:9:0", "bounds of 'fare' must be the lower one and then the upper one, got 9 and 0"),
    ("--sum fare:0:1,5", "'1,5' is not a number"),
    ("--sum fare:0:inf", "bounds of 'fare' must be finite"),
    ("--sum city:0:1", "column 'city' must hold numbers"),
    ("--mean fare:a:b", "--mean must be COLUMN:LOW:HIGH"),
    ("--variance fare:0", "--variance must be"),
    ("--median fare", "--median must be"),
    ("--quantile fare:0:1", "--quantile must be"),
    ("--histogram fare:5:3", "edges of 'fare' must be"),
    ("--proportion fare", "--proportion must be"),
    ("--average fare:0:1", "No such option: --average"),
    ("--count-unts", "--count-units"),
    ("--where fre>1", "--where: there is no column 'fre'"),
    ("--where fare>", "--where: it ends too early"),
    ("--where random()<1", "--where: the function 'random'"),
    ("--derive x", "--derive must be NAME=SQL"),
    ("--derive x=fre+1", "--derive: x: there is no column 'fre'"),
    ("--derive city=fare", "--derive: there is a column 'city' already"),
    ("--type fare", "--type must be COLUMN:TYPE"),
    ("--type fare:int64", "--type is for CSV files"),
    ("--delimiter ;", "--delimiter is for CSV files"),
    ("--table t", "--table is for databases"),
    ("--engine sprk", "--engine must be duckdb, postgres or spark"),
    ("--neighbours both", 'must be "add_remove" or "change_one"'),
    ("--public-keys no.csv", "--public-keys: there is no file 'no.csv'"),
    ("--public-keys all", "--public-keys: "),
    ("--public-keys latin.csv", "--public-keys: 'latin.csv' cannot be read; it must be CSV in UTF-8"),
    ("--public-keys notes.txt", "--public-keys: 'notes.txt' cannot be read; it must be Parquet"),
    ("--totals cty", "--totals: 'cty' is not among the columns"),
    ("--unit-row", "give --unit or --unit-row, not both"),
    ("--objective best", "--objective must be"),
    ("--objective quantile:95", "--objective must be"),
    ("--out x.txt", "--out must end in .parquet, .csv or .xlsx"),
    ("--out no/x.csv", "--out: there is no folder 'no'"),
    ("--out rows.parquet", "--out: 'rows.parquet' is a file in use"),
    ("--report x.pdf", "--report must end in .html"),
    ("--ledger no.db", "--dataset must be given with"),
    ("--dataset x", "--ledger must be given"),
    ("--ledger no.db --dataset x", "there is no ledger at"),
    ("--query no.toml", "there is no file 'no.toml'"),
    ("--query notes.txt", "is not TOML"),
    ("--url x", "give a source or --url, not both"),
]


@pytest.mark.parametrize(("option", "value", "message"), CHANGED)
def test_an_option_with_another_value_or_none(run, option, value, message):
    typed = {**TYPED, option: value}
    words = [word for name, each in typed.items() if each is not None for word in (name, each)]
    assert message in run("release", "rows.parquet", "--count", *words)


@pytest.mark.parametrize(("more", "message"), ADDED)
def test_one_more_option(run, more, message):
    words = [word for pair in TYPED.items() for word in pair]
    assert message in run("release", "rows.parquet", "--count", *words, *more.split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("plan", "--delta must be given"),
        ("plan --epsilon 1 --delta 1e-8", "--coordinates must be given"),
        ("plan --epsilon 1 --delta 1e-8 --coordinates 0", "--coordinates must be an integer"),
        ("plan --epsilon 1 --delta 1e-8 --coordinates 8 --shift 0", "--shift must be"),
        ("noise noise.csv --column peple --epsilon 1 --delta 0 --coordinates 1", "there is no column 'peple'"),
        ("noise noise.csv --column people --epsilon 0 --delta 0 --coordinates 1", "--epsilon must be"),
        ("noise noise.csv --column people --epsilon 1 --delta 0 --coordinates 0", "--coordinates must be"),
        ("noise no.csv --column people --epsilon 1 --delta 0 --coordinates 1", "'no.csv'"),
        ("ledger open l.db x --epsilon 0,5 --delta 1e-6", "write it with a decimal point, 0.5"),
        ("ledger open l.db x --epsilon 0 --delta 1e-6", "--epsilon must be"),
        ("preview header.csv --unit user --count", "in UTF-8"),
    ],
)
def test_other_commands(run, words, message):
    assert message in run(*words.split())


@pytest.mark.parametrize(
    ("part", "key", "value", "message"),
    [
        ("budget", "epsilon", "0", "budget.epsilon must be"),
        ("budget", "epsilon", "'0,5'", "budget.epsilon must be a number"),
        ("budget", "epsilon", None, "budget.epsilon must be given"),
        ("budget", "delta", "2", "budget.delta must be"),
        ("data", "privacy_unit", "'usr'", "data.privacy_unit: there is no column 'usr'"),
        ("data", "where", "'fre > 1'", "data.where: there is no column 'fre'"),
        ("data", "sorce", "'x'", "did you mean 'source'?"),
        ("groups", "by", "'cty'", "groups.by: there is no column 'cty'"),
        ("groups", "max_groups", "0", "groups.max_groups must be"),
        ("groups", "max_groups", None, "groups.max_groups must be given"),
        ("groups", "public_keys", "'no.csv'", "groups.public_keys: there is no file"),
        ("output", "confidence", "95", "output.confidence must be above 0 and below 1, got 95"),
        ("output", "objective", "'best'", "output.objective must be"),
    ],
)
def test_a_key_of_a_query_file(run, tmp_path, folder, part, key, value, message):
    parts = {**FILE, part: {**FILE[part], key: value}}
    parts["data"] = {**parts["data"], "source": f"'{folder / 'rows.parquet'}'"}
    lines = []
    for name, keys in parts.items():
        lines += [f"[{name}]", *(f"{each} = {text}" for each, text in keys.items() if text is not None)]
    path = tmp_path / "query.toml"
    path.write_text("\n".join([*lines, "[[aggregates]]", "kind = 'count'"]), encoding="utf-8")
    assert message in run("release", "--query", path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epsilon": 0}, "epsilon must be"),
        ({"delta": 2}, "delta must be"),
        ({"confidence": 95}, "confidence must be above 0 and below 1, got 95; write 95 % as 0.95"),
        ({"max_groups": 0}, "max_groups must be"),
        ({"max_rows_per_group": 0}, "max_rows_per_group must be"),
        ({"by": "cty"}, "group_by: there is no column 'cty'"),
        ({"privacy_unit": "usr"}, "privacy_unit: there is no column 'usr'"),
        ({"public_keys": "latin.csv"}, "public_keys: 'latin.csv' cannot be read"),
    ],
)
def test_an_argument_in_python(run, change, message):
    given = {"privacy_unit": "user", "by": "city", "max_groups": 3, "max_rows_per_group": 2, **change}
    budget = {"epsilon": 5, "delta": 1e-4, "confidence": 0.95}
    budget = {key: change.get(key, value) for key, value in budget.items()}
    limits = {key: given[key] for key in ("max_groups", "max_rows_per_group", "public_keys") if key in given}
    with pytest.raises(ValueError, match=r".") as refused:
        Dataset("rows.parquet", given["privacy_unit"]).group_by(given["by"], **limits).count().release(**budget)
    assert message in str(refused.value)
    assert "--" not in str(refused.value)
