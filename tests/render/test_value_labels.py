"""Labels of single values of keys: wherever people read, as text whatever they hold; the data keep their values."""

import datetime
import json

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from html_pages import HOSTILE, Page, assert_loads_nothing
from osgt import Dataset, Publication
from osgt.cli import app
from osgt.query.about import About
from osgt.query.file.reading import query_file_of, read_query_file
from osgt.query.file.text import query_file_text
from osgt.render.table import key_text

LABELS = {"EWR": "Newark", "JFK": "Kennedy"}


def rows(**columns):
    return pa.table({"plane": np.arange(len(next(iter(columns.values())))), **columns})


def release_of(table, by, keys, epsilon=1):
    query = Dataset(table, "plane").group_by(*by, max_groups=1, max_rows_per_group=1, public_keys=keys)
    return query.count().release(epsilon, 1e-6)


@pytest.fixture(scope="module")
def release():
    return release_of(rows(origin=["EWR", "JFK", "LGA"] * 100), ["origin"], ["EWR", "JFK", "LGA"])


def page_of(release, path, **texts):
    release.report(path, overwrite=True, **texts)
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    assert_loads_nothing(text, page)
    return page


def test_the_report_shows_them_and_its_files_do_not(release, tmp_path):
    page = page_of(release, tmp_path / "report.html", values={"origin": LABELS})
    shown = page.words.partition("Pictures")[2].partition("In short")[0]
    assert shown.count("Newark") == shown.count("Kennedy") == shown.count("LGA") == 2  # in the picture and in the table
    assert "EWR" not in shown
    for name, content in page.downloads().items():
        assert b"EWR" in content or name in ("statement.json", "check.html")
    texts = pa.parquet.read_table(pa.BufferReader(page.downloads()["table.parquet"])).schema.metadata[b"osgt.texts"]
    assert json.loads(texts)["values"] == {"origin": LABELS}


def test_data_files_keep_the_values(release, tmp_path):
    release.to_csv(tmp_path / "x.csv", values={"origin": LABELS})
    release.to_parquet(tmp_path / "x.parquet", values={"origin": LABELS})
    for table in (pa.csv.read_csv(tmp_path / "x.csv"), pa.parquet.read_table(tmp_path / "x.parquet")):
        assert table["origin"].to_pylist() == ["EWR", "JFK", "LGA"]


def test_excel_shows_them_and_tells_the_values(release, tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    release.to_excel(tmp_path / "x.xlsx", values={"origin": {**LABELS, "LGA": "=HYPERLINK(1)"}})
    book = openpyxl.load_workbook(tmp_path / "x.xlsx")
    first = [row[0] for row in book["Table"].iter_rows(min_row=2)]
    assert [cell.value for cell in first] == ["Newark", "Kennedy", "=HYPERLINK(1)"]
    assert {cell.data_type for cell in first} == {"s"}
    notes = [[cell.value for cell in row if cell.value is not None] for row in book["Notes"].iter_rows()]
    assert ["origin", "Newark", "EWR"] in notes


def test_pictures_of_matplotlib(release):
    pytest.importorskip("matplotlib")
    axes = release.plot(title="Flights", labels={"count": "Departures"}, values={"origin": LABELS})
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["Newark", "Kennedy", "LGA"]
    assert (axes.get_title(), axes.get_xlabel()) == ("Flights", "Departures")
    months = release_of(rows(month=np.arange(300) % 3 + 1), ["month"], [1, 2, 3])
    axes = months.plot(values={"month": {1: "January", 2: "$x_1$"}})
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["January", "$x_1$", "3"]


def test_lines_of_the_report(tmp_path):
    keys = {"origin": ["EWR", "JFK"], "month": [1, 2, 3]}
    release = release_of(rows(origin=["EWR", "JFK"] * 150, month=np.arange(300) % 3 + 1), ["origin", "month"], keys)
    values = {"origin": LABELS, "month": {1: "January", "3": "March"}}
    page = page_of(release, tmp_path / "report.html", values=values)
    panels = [a["aria-label"] for tag, a in page.attributes if tag == "svg"]
    assert [panel.partition(":")[0] for panel in panels] == ["Newark", "Kennedy"]
    assert all("from January: " in panel and " to March: " in panel for panel in panels)
    assert (
        page.words.count("January") == 1 + 2 + 1 + 2
    )  # in the example, below each panel, in the cross table, and twice in the list


def test_values_of_other_types(tmp_path):
    days = [datetime.date(2013, 1, 1), datetime.date(2013, 1, 2)]
    release = release_of(
        rows(day=days * 50, late=[True, False] * 50), ["day", "late"], {"day": days, "late": [True, False]}
    )
    values = {"day": {days[0]: "New Year", "2013-01-02": "the day after"}, "late": {True: "late", "false": "in time"}}
    words = page_of(release, tmp_path / "report.html", values=values).words
    for label in ("New Year", "the day after", "late", "in time"):
        assert label in words


@pytest.mark.parametrize("label", [text for text in HOSTILE if text.strip()])
def test_hostile_labels_are_text(release, tmp_path, label):
    page = page_of(release, tmp_path / "report.html", values={"origin": {"EWR": label}})
    assert " ".join(label.split())[:40] in page.words


def test_groups_that_are_read_alike_stay_apart(tmp_path):
    """A label may be what another group, which nobody knew beforehand, is called; the two are not made one."""
    table = rows(origin=["EWR"] * 2000 + ["Newark"] * 2000, kind=["a", "b"] * 2000)
    release = release_of(table, ["origin", "kind"], None)
    assert len(release) == 4
    page = page_of(release, tmp_path / "report.html", values={"origin": {"EWR": "Newark"}})
    assert sum(a.get("scope") == "rowgroup" for _, a in page.attributes) == 2


def test_keys_with_the_same_text_are_all_told():
    assert key_text({"month": 1, "day": 1}, ["month", "day"], About()) == "1, 1"
    total = {"month": None, "day": None, "summed_over": "month, day"}
    assert key_text(total, ["month", "day"], About()) == "Total"


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        ({"dest": {"EWR": "x"}}, ValueError, "values: there is no key 'dest'; the table has 'origin'"),
        ({"origin": {"EWX": "x"}}, ValueError, "'EWX' is none of the public keys of origin: 'EWR', 'JFK' and 'LGA'"),
        ({"origin": {"EWR": "x", "JFK": "x"}}, ValueError, "2 values of origin would all be shown as 'x'"),
        ({"origin": {"EWR": "JFK"}}, ValueError, "2 values of origin would all be shown as 'JFK'"),
        ({"origin": {"EWR": 3}}, TypeError, "the label of 'EWR' must be text, got 3"),
        ({"origin": {"EWR": " "}}, ValueError, "the label of 'EWR' must not be empty"),
        ({"origin": "EWR"}, TypeError, "values: origin must be a table of values and their labels, got 'EWR'"),
        (["origin"], TypeError, "values must be a table of keys, each with its values and their labels"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_written(release, tmp_path, values, error, message):
    with pytest.raises(error, match=message):
        release.report(tmp_path / "report.html", values=values)
    assert list(tmp_path.iterdir()) == []


def test_labels_may_change_places(release, tmp_path):
    page_of(release, tmp_path / "report.html", values={"origin": {"EWR": "JFK", "JFK": "EWR"}})


def test_a_publication(tmp_path):
    data = Dataset(rows(origin=["EWR", "JFK"] * 100, month=[1, 2] * 100), "plane")
    by = {"max_groups": 1, "max_rows_per_group": 1}
    first = data.group_by("origin", **by, public_keys=["EWR", "JFK"]).count()
    second = data.group_by("month", **by, public_keys=[1, 2]).count()
    release = Publication(first=first, second=second).release(1, 1e-6)
    release.write(report=tmp_path / "x.html", values={"origin": LABELS, "month": {1: "January"}})
    words = Page((tmp_path / "x.html").read_text(encoding="utf-8")).words
    assert all(label in words for label in ("Newark", "Kennedy", "January"))


def test_from_a_query_file(tmp_path):
    pa.parquet.write_table(rows(origin=["EWR", "JFK"] * 100), tmp_path / "x.parquet")
    plain = {
        "data": {"source": str(tmp_path / "x.parquet"), "privacy_unit": "plane"},
        "groups": {"by": "origin", "max_groups": 1, "max_rows_per_group": 1, "public_keys": ["EWR", "JFK"]},
        "aggregates": [{"kind": "count"}],
        "budget": {"epsilon": 1, "delta": 1e-6},
        "report": {"labels": {"origin": "Airport"}, "values": {"origin": {"EWR": "[red]Newark"}, 'a "b"': {"": "c"}}},
    }
    text = query_file_text(plain, tmp_path)
    assert '[report.values.origin]\nEWR = "[red]Newark"' in text
    (tmp_path / "x.toml").write_text(text, encoding="utf-8")
    assert read_query_file(tmp_path / "x.toml").report.texts() == plain["report"]
    with pytest.raises(ValueError, match=r"report\.values must be a table for each key, of values and their labels"):
        query_file_of({**plain, "report": {"values": {"origin": "EWR"}}})
    del plain["report"]["values"]['a "b"']
    (tmp_path / "x.toml").write_text(query_file_text(plain, tmp_path), encoding="utf-8")
    done = CliRunner().invoke(app, ["release", "--query", str(tmp_path / "x.toml"), "--out", str(tmp_path / "y.csv")])
    assert done.exit_code == 0, done.output
    assert "[red]Newark" in done.output
    assert "Airport" in done.output
    assert "EWR" in (tmp_path / "y.csv").read_text(encoding="utf-8")


def test_a_wrong_label_is_told_before_anything_is_charged(tmp_path):
    pa.parquet.write_table(rows(origin=["EWR", "JFK"] * 100), tmp_path / "x.parquet")
    text = (
        '[data]\nsource = "x.parquet"\nprivacy_unit = "plane"\n[groups]\nby = "origin"\nmax_groups = 1\n'
        'max_rows_per_group = 1\npublic_keys = ["EWR"]\n[[aggregates]]\nkind = "count"\n'
        '[report.values.origin]\nX = "y"\n'
    )
    (tmp_path / "x.toml").write_text(text, encoding="utf-8")
    options = [
        "--query",
        str(tmp_path / "x.toml"),
        "--epsilon",
        "1",
        "--delta",
        "1e-6",
        "--out",
        str(tmp_path / "y.csv"),
    ]
    done = CliRunner().invoke(app, ["release", *options])
    assert done.exit_code == 2
    assert "'X' is none of the public keys of origin" in " ".join(done.output.split())
    assert not (tmp_path / "y.csv").exists()
