"""Excel files, read back by another library: values in their types, text that stays text, and the notes."""

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from osgt import Dataset, Publication
from osgt.facts.statement import Statement
from osgt.query.about import About
from osgt.render.excel import sheet_name, write_excel
from osgt.render.published import SHEET_ROWS, check_sheet

openpyxl = pytest.importorskip("openpyxl")

PRIVACY = {"unit": "user", "noun": ["user", "users"], "unit_in_words": "column user"}
FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "＝1", "  =1", "'=1", "http://example.org", "12", "{=1}"]


@pytest.fixture(scope="module")
def release():
    towns = ["=HYPERLINK(1)", "Rome", "Bern"]
    rows = pa.table({"user": range(900), "town": towns * 300, "year": [2013, 2014, 2015] * 300, "fare": [1.5] * 900})
    query = Dataset(rows, "user").group_by("town", "year", max_groups=1, max_rows_per_group=1)
    return query.count().mean("fare", (0, 50)).release(1, 1e-6)


def cells(path, sheet="Table"):
    return list(openpyxl.load_workbook(path)[sheet].iter_rows())


def written(tmp_path, table):
    columns = [{"name": name, "role": "key", "of": name, "words": "=A key."} for name in table.column_names]
    values = {"epsilon": 1.0, "delta": 0.0, "columns": columns, "privacy": PRIVACY}
    values |= {"confidence": 0.95, "date": "2026-11-17T02:20:38+00:00", "software": "osgt"}
    statement = Statement("One sentence. =Another.", values)
    write_excel({"": (table, statement)}, statement, About(title="=1"), tmp_path / "x.xlsx")
    return cells(tmp_path / "x.xlsx")


def test_a_release(release, tmp_path):
    path = tmp_path / "x.xlsx"
    release.to_excel(path, title="Trips", publisher="Office", labels={"town": "Town"}, units={"fare_mean": "CHF"})
    head, *rows = cells(path)
    assert [cell.value for cell in head] == release.table.column_names
    for row, expected in zip(rows, release.rows(10), strict=True):
        assert [cell.value for cell in row] == pytest.approx(list(expected.values()))
        assert (row[0].data_type, row[1].number_format, row[2].number_format) == ("s", "General", "#,##0")
    notes = [[cell.value for cell in row if cell.value is not None] for row in cells(path, "Notes")]
    assert ["Publisher", "Office"] in notes
    assert ["Privacy loss ε, in total", 1] in notes
    told = " ".join(row[0] for row in notes if len(row) == 1)
    assert str(release.statement) in told
    assert ["town", "Town", "The group that the row is about."] in notes
    assert [row[:3] for row in notes if row and row[0] == "fare_mean_low"] == [
        ["fare_mean_low", "mean fare, lower end", "CHF"]
    ]


def test_text_stays_text(tmp_path):
    head, *rows = written(tmp_path, pa.table({"=name": FORMULAS}))
    assert (head[0].value, head[0].data_type, head[0].quotePrefix) == ("=name", "s", True)
    for (cell,), text in zip(rows, FORMULAS, strict=True):
        assert (cell.value, cell.data_type, cell.hyperlink) == (text, "s", None)
        assert bool(cell.quotePrefix) == (text[0] not in "h1{")
    assert all(cell.data_type in "sn" for row in cells(tmp_path / "x.xlsx", "Notes") for cell in row)


def test_every_type(tmp_path):
    day, moment = datetime.date(2013, 1, 31), datetime.datetime(2013, 1, 31, 3, 4, 5, 600_000)
    columns = {
        "whole": [1, 10**15 - 1, 10**15, -(2**62)],
        "float": [1.5, float("nan"), float("inf"), None],
        "decimal": pa.array(
            [Decimal("1.50"), None, Decimal("-1"), Decimal("1234567890123456.5")], pa.decimal128(30, 2)
        ),
        "yes": [True, False, None, True],
        "date32": pa.array([day, datetime.date(1900, 2, 28), None, datetime.date(1900, 3, 1)]),
        "far": pa.array([3_000_000, -800_000, 2_932_896, 0], pa.date32()),
        "moment": pa.array([moment, moment.replace(microsecond=1), None, moment], pa.timestamp("us")),
        "fine": pa.array([1_359_601_445_600_000_000, 1, None, -(2**62)], pa.timestamp("ns")),
        "zone": pa.array([moment, None, None, None], pa.timestamp("ms", "UTC")),
        "clock": pa.array([datetime.time(1, 2), None, None, None]),
    }
    _, *rows = written(tmp_path, pa.table(columns))
    found = {name: [row[i].value for row in rows] for i, name in enumerate(columns)}
    midnight = datetime.datetime(2013, 1, 31)
    assert found["whole"] == [1, 10**15 - 1, str(10**15), str(-(2**62))]
    assert found["float"] == [1.5, "nan", "inf", None]
    assert found["decimal"] == [1.5, None, -1, "1234567890123456.50"]
    assert found["yes"] == [True, False, None, True]
    assert found["date32"] == [midnight, "1900-02-28", None, datetime.datetime(1900, 3, 1)]
    assert found["far"] == [
        "10183-09-21",
        "-0221-09-04",
        datetime.datetime(9999, 12, 31),
        datetime.datetime(1970, 1, 1),
    ]
    assert found["moment"] == [moment, "2013-01-31 03:04:05.000001", None, moment]
    assert found["fine"][:3] == [moment, "1970-01-01 00:00:00.000000001", None]
    assert found["fine"][3].startswith("1823-")
    assert found["zone"][0] == "2013-01-31 03:04:05.600Z"
    assert found["clock"][0].startswith("01:02:00")


def test_what_does_not_fit(tmp_path):
    with pytest.raises(ValueError, match="32,767 characters; write a Parquet file"):
        written(tmp_path, pa.table({"key": ["x" * 32_768]}))
    check_sheet(SHEET_ROWS - 1)
    with pytest.raises(ValueError, match="holds 1,048,575 groups, got 1,048,576"):
        check_sheet(SHEET_ROWS)


def test_all_or_nothing(release, tmp_path, monkeypatch):
    path = tmp_path / "x.xlsx"
    path.write_text("precious")
    with pytest.raises(FileExistsError, match="overwrite=True replaces it"):
        release.to_excel(path)
    with pytest.raises(ValueError, match=r"must end in \.xlsx"):
        release.to_excel(tmp_path / "x.xls")

    def broken(*_):
        raise OSError("disk full")

    monkeypatch.setattr("osgt.render.excel._write_notes", broken)
    with pytest.raises(OSError, match="disk full"):
        release.to_excel(path, overwrite=True)
    assert path.read_text() == "precious"
    assert list(tmp_path.iterdir()) == [path]


def test_refused_before_anything_is_charged(monkeypatch):
    from osgt.render.published import check_writable  # noqa: PLC0415

    rows = pa.table({"user": range(9), "key": [b"x"] * 9, "town": ["x"] * 9})
    binary = Dataset(rows, "user").group_by("key", max_groups=1, max_rows_per_group=1)
    with pytest.raises(TypeError, match="an Excel file cannot hold the binary column 'key'"):
        check_writable(binary, "x.xlsx")
    plain = Dataset(rows, "user").group_by("town", max_groups=1, max_rows_per_group=1)
    check_writable(plain, "x.xlsx")
    monkeypatch.setattr("osgt.render.published.find_spec", lambda _: None)
    with pytest.raises(ImportError, match=r'pip install "osgt\[excel\]"'):
        check_writable(plain, "x.xlsx")


@pytest.fixture(scope="module")
def several():
    wards, sexes = ["Cardiology", "=Surgery"], ["f", "m"]
    rows = [(i, wards[i % 2], sexes[i // 2 % 2], float(i % 9)) for i in range(2000)]
    names = ("person", "ward", "sex", "cost")
    data = Dataset(pa.table({name: [row[i] for row in rows] for i, name in enumerate(names)}), "person")
    both = data.group_by("ward", "sex", max_rows=1, public_keys={"ward": wards, "sex": sexes}, totals="cube")
    alone = data.group_by("sex", max_rows=1, public_keys=sexes).count()
    return Publication(
        by_ward_and_sex_with_all_totals_1=both.count().mean("cost", (0, 9)),
        by_ward_and_sex_with_all_totals_2=both.count(),
        notes=alone,
    ).release(1, 1e-6)


@pytest.fixture(scope="module")
def book(several, tmp_path_factory):
    path = tmp_path_factory.mktemp("book") / "tables.xlsx"
    several.write(path, title="Visits", labels={"cost_mean": "Mean cost"}, units={"cost_mean": "CHF"})
    assert [each.name for each in path.parent.iterdir()] == ["tables.xlsx"]
    return openpyxl.load_workbook(path)


class TestWorkbook:
    """Several tables in one file: a sheet for each, crossed if it has two keys, and the notes once."""

    def test_sheets(self, book):
        assert book.sheetnames == [
            "by_ward_and_sex_with_all_totals",
            "by_ward_and_sex_with_al (cross)",
            "by_ward_and_sex_with_all_tota 2",
            "by_ward_and_sex_with_ (cross) 2",
            "notes 2",
            "Notes",
        ]
        assert all(len(name) <= 31 for name in book.sheetnames)

    def test_lists_have_filters_and_their_head_stays(self, book, several):
        for sheet, table in zip((book.worksheets[i] for i in (0, 2, 4)), several.tables.values(), strict=True):
            assert sheet.auto_filter.ref == sheet.dimensions
            assert sheet.freeze_panes == f"{'ABC'[len(table.query.groups.by)]}2"
            assert sheet.max_row == len(table) + 1

    def test_totals_have_their_name(self, book, several):
        table = several["by_ward_and_sex_with_all_totals_1"]
        rows = list(book.worksheets[0].iter_rows(min_row=2, values_only=True))
        assert [row[:2] for row in rows] == [(row["ward"] or "Total", row["sex"] or "Total") for row in table]
        assert [row[3] for row in rows] == table["count"].tolist()

    def test_numbers_are_shown_with_the_digits_that_the_noise_leaves(self, book):
        row = book.worksheets[0][2]
        assert [cell.number_format for cell in row[3:6]] == ["#,##0"] * 3
        assert {cell.number_format for cell in row[6:9]} < {"#,##0.0", "#,##0.00", "#,##0.000"}

    def test_cross_tables_are_as_pandas_pivots(self, book, several):
        wide = several["by_ward_and_sex_with_all_totals_1"].to_pandas(wide="sex")
        rows = list(book.worksheets[1].iter_rows(values_only=True))
        titles = {row[0]: at for at, row in enumerate(rows) if row[0] is not None and row[1] is None}
        assert list(titles) == [
            *("count", "Mean cost (CHF)", "count, lower end", "count, upper end"),
            *("Mean cost, lower end (CHF)", "Mean cost, upper end (CHF)"),
        ]
        for title, name in (("count", "count"), ("Mean cost (CHF)", "cost_mean"), ("count, upper end", "count_high")):
            at = titles[title]
            assert rows[at + 1][:4] == ("ward \\ sex", "f", "m", "Total")
            assert [row[0] for row in rows[at + 2 : at + 5]] == list(wide.index)
            assert [list(row[1:4]) for row in rows[at + 2 : at + 5]] == pytest.approx(wide[name].to_numpy())

    def test_text_stays_text(self, book):
        for sheet in book:
            cells = [cell for row in sheet.iter_rows() for cell in row]
            assert all(cell.data_type in "sn" for cell in cells)
            assert all(cell.quotePrefix for cell in cells if cell.value == "=Surgery")

    def test_notes_are_there_once(self, book, several):
        texts = [cell.value for row in book["Notes"].iter_rows() for cell in row if cell.value is not None]
        assert texts[0] == "Visits"
        said = [line for line in str(several.statement).splitlines() if line.startswith("This publication")]
        assert sum(said[0].startswith(text) for text in texts if isinstance(text, str) and len(text) > 40) == 1
        assert [text for text in texts if str(text).startswith("Columns of ")] == [
            f"Columns of {name}" for name in several
        ]

    def test_other_ways(self, several, tmp_path):
        several.to_excel(tmp_path / "all.xlsx")
        several.write(tmp_path / "{table}.xlsx")
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["all.xlsx", *(f"{n}.xlsx" for n in several)])
        with pytest.raises(ValueError, match=r"path must end in \.xlsx"):
            several.to_excel(tmp_path / "all.csv")
        with pytest.raises(ValueError, match="or be a folder or an Excel file"):
            several.write(tmp_path / "all.csv")


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["a", "A", "a"], ["a", "A 2", "a 3"]),
        (["x" * 40, "x" * 31], ["x" * 31, "x" * 29 + " 2"]),
        (["a/b:c*[d]?", "'q'"], ["a_b_c__d__", "_q_"]),
        (["Notes"], ["Notes 2"]),
    ],
)
def test_names_of_sheets(names, expected):
    taken = {"notes"}
    assert [sheet_name(name, taken) for name in names] == expected
