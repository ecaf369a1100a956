"""Spreadsheets and files of SPSS, Stata and SAS: read as a CSV file with the same cells."""

import datetime
import tomllib

import pandas as pd
import pytest
from typer.testing import CliRunner

from osgt import Dataset
from osgt.api.data_file import make_offers
from osgt.cli import app
from osgt.data.engines.query import compile_query, fetch
from osgt.data.office_files import csv_text, office_lines
from osgt.support.locations import is_office

pytest.importorskip("python_calamine", reason='pip install -e ".[office]"')
pyreadstat = pytest.importorskip("pyreadstat", reason='pip install -e ".[office]"')

DAY, MOMENT = datetime.date(2024, 1, 31), datetime.datetime(2024, 2, 29, 10, 11, 12)
ROWS = [
    ["a", 1, DAY, 1.5, 'ä, "x"', MOMENT],
    ["b", 2, None, 2e20, "line\nbreak", datetime.datetime(2024, 2, 1)],
    ["b", 1, DAY, None, "+1", None],
    ["", None, None, -0.25, "z", MOMENT],
]
NAMES = ["person", "sex", "day", "cost", "note", "moment"]
TYPES = {"sex": "int64", "day": "date", "cost": "float64", "moment": "timestamp"}
LABELS = {"sex": {1: "Men", 2: "Women"}}
FILES = ["rows.xlsx", "rows.sav", "rows.dta", "rows.xpt"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")
    frame = pd.DataFrame(ROWS, columns=NAMES)
    frame.to_excel("rows.xlsx", index=False)
    pyreadstat.write_sav(frame, "rows.sav", variable_value_labels=LABELS)
    pyreadstat.write_dta(frame, "rows.dta", variable_value_labels=LABELS)
    pyreadstat.write_xport(frame, "rows.xpt", file_format_version=8)
    return tmp_path


def rows_of(source, **options):
    data = Dataset(source, "person", types=TYPES, **options)
    answer = fetch(compile_query(data.stored.select("rows", "All rows.", {}, group_by=list(data.stored.columns))))
    data.close()
    return sorted(answer.to_pylist(), key=str)


@pytest.mark.parametrize("name", FILES)
def test_cells_are_those_of_a_csv_file(name, folder):
    rows = [[cell or None for cell in row] for row in ROWS]
    assert rows_of(name) == sorted((dict(zip(NAMES, row, strict=True)) for row in rows), key=str)
    (folder / "rows.csv").write_text("".join(csv_text(office_lines(folder / name, None))), encoding="utf-8")
    assert rows_of("rows.csv") == rows_of(name)


@pytest.mark.parametrize("name", FILES)
def test_each_cell_is_read_by_itself(name, folder):
    """Whole numbers are written alike beside others: a key of one person's rows never depends on another's."""
    before = {tuple(line) for line in office_lines(folder / name, None)}
    frame = pd.DataFrame([*ROWS, ["c", 0.5, DAY, 7.0, "text", MOMENT]], columns=NAMES)
    writers = {"xlsx": frame.to_excel} if name.endswith("xlsx") else {}
    if writers:
        frame.to_excel(name, index=False)
    else:
        write = {"sav": pyreadstat.write_sav, "dta": pyreadstat.write_dta, "xpt": pyreadstat.write_xport}
        write[name[-3:]](frame, name)
    after = {tuple(line) for line in office_lines(folder / name, None)}
    assert before < after
    assert after - before == {("c", "0.5", "2024-01-31", "7", "text", "2024-02-29 10:11:12")}


def test_pieces_of_a_long_file(folder, monkeypatch):
    frame = pd.DataFrame({"person": [f"p{i}" for i in range(25)], "sex": range(25)})
    pyreadstat.write_sav(frame, "long.sav")
    monkeypatch.setattr("osgt.data.office_files._ROWS", 10)
    assert [*office_lines(folder / "long.sav", None)][1:] == [[f"p{i}", str(i)] for i in range(25)]
    assert len([*office_lines(folder / "long.sav", None, 12)]) == 13
    pyreadstat.write_sav(frame.head(20), "even.sav")
    assert len([*office_lines(folder / "even.sav", None)]) == 21


def test_a_changed_file_is_not_read(folder):
    data = Dataset("rows.xlsx", "person", types=TYPES)
    query = data.group_by(max_rows=2).count()
    pd.DataFrame(ROWS[:1], columns=NAMES).to_excel("rows.xlsx", index=False)
    with pytest.raises(ValueError, match="has changed since it was opened"):
        query.release(epsilon=1, delta=1e-8)


def test_names_and_sheets(folder):
    with pd.ExcelWriter("two.xlsx") as book:
        pd.DataFrame(ROWS, columns=NAMES).to_excel(book, sheet_name="Visits", index=False)
        pd.DataFrame({"code": [1]}).to_excel(book, sheet_name="Codes", index=False)
    assert rows_of("two.xlsx", table="Visits") == rows_of("rows.xlsx")
    data = Dataset("two.xlsx", "person", table="Visits")
    assert data.identity["name"] == "two"  # ledgers know the file
    assert data.sql("SELECT COUNT(*) FROM two").aggregates
    assert not is_office("rows.xlsx.gz")


def run(*arguments):
    return CliRunner().invoke(app, [*map(str, arguments)])


GIVEN = ["--unit", "person", "--count", "--max-rows", 2, "--epsilon", 1, "--delta", 1e-8]


@pytest.mark.parametrize(
    ("file", "options", "message"),
    [
        ("two.xlsx", [], "--table must name a sheet of 'two.xlsx': it has 'A' and 'B'"),
        ("two.xlsx", ["--table", "C"], "--table: there is no sheet 'C'; the file has 'A' and 'B'"),
        ("none.xlsx", [], "the first row of 'none.xlsx' must hold the names of the columns"),
        ("rows.sav", ["--table", "A"], "--table is for databases and spreadsheets"),
        ("rows.sav", ["--delimiter", ";"], "--delimiter is for CSV files"),
        ("text.xlsx", [], "'text.xlsx' cannot be read as a spreadsheet without a password"),
        ("text.sav", [], "'text.sav' cannot be read as a file of SPSS, Stata or SAS"),
        ("text.sas7bdat", [], "'text.sas7bdat' cannot be read as a file of SPSS, Stata or SAS"),
        ("cut.dta", [], "'cut.dta' cannot be read as a file of SPSS, Stata or SAS"),
        ("twice.xlsx", [], "the columns 'person' and 'Person' have one name"),
        ("no.sav", [], "there is no file 'no.sav'"),
        ("rows.xlsx.gz", [], "source must be"),
    ],
)
def test_what_cannot_be_read_is_refused(file, options, message, folder):
    with pd.ExcelWriter("two.xlsx") as book:
        for sheet in "AB":
            pd.DataFrame({"person": [1]}).to_excel(book, sheet_name=sheet, index=False)
    pd.DataFrame().to_excel("none.xlsx", index=False)
    pd.DataFrame([[1, 2]], columns=["person", "Person"]).to_excel("twice.xlsx", index=False)
    for name in ("text.xlsx", "text.sav", "text.sas7bdat"):
        (folder / name).write_text("person,sex\na,1\n", encoding="utf-8")
    (folder / "cut.dta").write_bytes((folder / "rows.dta").read_bytes()[:700])
    (folder / "rows.xlsx.gz").write_bytes(b"")
    result = run("release", file, *GIVEN, *options, "--out", "out.csv")
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert "Traceback" not in result.output
    assert not (folder / "out.csv").exists()


def test_start_offers_types_and_labels(folder):
    offers = make_offers("rows.sav", {})
    assert offers.columns == tuple(NAMES)
    assert offers.types == {**dict.fromkeys(NAMES, "string"), **TYPES}
    assert offers.labels == {"sex": {"1": "Men", "2": "Women"}}
    answers = ["person", "person", "100", "", "sex", "y", "", "1", "1e-6", "none"]
    result = CliRunner().invoke(app, ["start", "rows.sav"], input="\n".join(answers) + "\n")
    assert result.exit_code == 0, result.output
    assert "sex has these values in your data: 1 = Men, 2 = Women" in result.output
    written = tomllib.loads((folder / "data.toml").read_text(encoding="utf-8"))
    assert written["columns"]["sex"] == {"type": "int64", "values": {"1": "Men", "2": "Women"}}
    table = Dataset.from_file("data.toml").group_by("sex", max_rows=2).count().release(epsilon=1, delta=1e-6)
    assert table.to_pandas()["sex"].tolist() == [1, 2]
    assert "Women" in str(table)
