"""CSV for spreadsheets: text never begins like a formula, the way back is exact, and numbers stay numbers."""

import csv
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from osgt import Dataset
from osgt.render.csvw import has_escaped_text, write_csv

#: What OWASP's page on CSV injection lists, and blanks before it.
FORMULAS = [
    "=1+1",
    "+1",
    "-1",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "\n=1",
    "＝1",
    "＋1",
    "－1",
    "＠1",
    "  =1",
    "\x00=1",
    "\u00a0-1",
]
HARMLESS = ["Rome", "O'slo", "a=b", "1-2", "", " x", "é", "Zürich, Süd", 'say "=1"', "(=)"]


def written(tmp_path, table):
    """The fields of the CSV file, as a reader of CSV gets them."""
    write_csv(table, tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def back(text):
    """The exact text again, by the rule that is documented."""
    return text[1:] if text.startswith("'") else text


@pytest.mark.parametrize("formula", FORMULAS)
def test_formulas_get_an_apostrophe(tmp_path, formula):
    table = pa.table({"key": [formula, "Rome"], formula: [1, 2]})
    assert has_escaped_text(table)
    assert written(tmp_path, table) == [["key", "'" + formula], ["'" + formula, "1"], ["Rome", "2"]]


def test_other_text_stays(tmp_path):
    table = pa.table({"key": HARMLESS})
    assert not has_escaped_text(table)
    assert [row[0] if row else "" for row in written(tmp_path, table)] == ["key", *HARMLESS]


def test_an_apostrophe_gets_another_one(tmp_path):
    assert written(tmp_path, pa.table({"key": ["'=1", "''", "'s-Hertogenbosch"]}))[1:] == [
        ["''=1"],
        ["'''"],
        ["''s-Hertogenbosch"],
    ]


@pytest.mark.parametrize(
    "dtype", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())], ids=str
)
def test_every_kind_of_text(tmp_path, dtype):
    table = pa.table({"key": pa.array(["=1", "x", None], pa.string()).cast(dtype)})
    assert has_escaped_text(table)
    assert written(tmp_path, table)[1:] == [["'=1"], ["x"], []]


def test_numbers_stay_numbers(tmp_path):
    table = pa.table({"i": [-1], "f": [-1.5], "d": pa.array([Decimal("-2.50")])})
    assert not has_escaped_text(table)
    assert written(tmp_path, table)[1] == ["-1", "-1.5", "-2.50"]


def test_an_empty_table(tmp_path):
    table = pa.table({"key": pa.array([], pa.string()), "n": pa.array([], pa.int64())})
    assert written(tmp_path, table) == [["key", "n"]]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), min_size=1, max_size=20))
def test_the_way_back_is_exact(tmp_path_factory, texts):
    rows = written(tmp_path_factory.mktemp("csv"), pa.table({"key": texts}))[1:]
    assert [back(row[0]) for row in rows] == texts
    assert not any(row[0].lstrip().startswith(("=", "+", "-", "@", "＝", "＋", "－", "＠")) for row in rows)


def test_a_release_with_such_keys(tmp_path):
    rows = pa.table({"user": range(600), "city": ["=HYPERLINK(1)", "Rome"] * 300})
    release = Dataset(rows, "user").group_by("city", max_groups=1, max_rows_per_group=1).count().release(1, 1e-6)
    release.to_csv(tmp_path / "out.csv")
    text = (tmp_path / "out.csv").read_text()
    assert '"\'=HYPERLINK(1)"' in text
    assert release.to_arrow()["city"].to_pylist() == ["=HYPERLINK(1)", "Rome"]  # elsewhere the key is as it is
