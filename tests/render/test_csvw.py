"""The description beside a CSV file: what the W3C recommendation asks for, and what a validator says."""

import datetime
import json
import re
import warnings
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from osgt import Dataset
from osgt.facts.statement import Statement
from osgt.query.about import About
from osgt.render.csvw import datatype, metadata, write_csv
from osgt.render.published import Published, read_published

#: Properties of a table description, prefixes of others that may be used, and built-in datatypes.
PROPERTIES = {"@context", "@id", "@type", "url", "dialect", "notes", "tableSchema", "tableDirection"}
PREFIXES = {"dc", "schema"}
WHOLE = {"byte", "short", "int", "long", "unsignedByte", "unsignedShort", "unsignedInt", "unsignedLong"}
DATATYPES = WHOLE | {"string", "boolean", "double", "decimal", "number", "date", "dateTime", "time"}
#: The name of a column is a variable of a URI template that does not begin with an underscore.
VARIABLE = re.compile(r"(?!_)(?:[A-Za-z0-9_.]|%[0-9A-F]{2})+")
NASTY = ["=1+1", "a,b", 'q"q', "é\n", "@id", "_x", "a-b.c", "ends_low"]


@pytest.fixture(scope="module")
def release():
    rows = pa.table({"user": range(900), "town": ["=1", "Rome", "Bern, Süd"] * 300, "fare": [1.5] * 900})
    query = Dataset(rows, "user").group_by("town", max_groups=1, max_rows_per_group=1)
    return query.count().mean("fare", (0, 50)).histogram("fare", [0, 1, 2]).release(1, 1e-6)


TEXTS = {
    "title": "Trips",
    "publisher": "Office",
    "licence": "CC0",
    "labels": {"town": "Town"},
    "units": {"fare_mean": "CHF"},
}


def check(plain, header):
    """The rules of the recommendation for a table description."""
    assert plain["@context"] == "http://www.w3.org/ns/csvw"
    assert isinstance(plain["url"], str)
    for name, value in plain.items():
        assert name in PROPERTIES or name.partition(":")[0] in PREFIXES
        if ":" in name:
            check_common(value)
    columns = plain["tableSchema"]["columns"]
    names = [column["name"] for column in columns]
    assert len(set(names)) == len(names) == len(header)
    for column, title in zip(columns, header, strict=True):
        assert VARIABLE.fullmatch(column["name"])
        titles = column["titles"]
        assert ([titles] if isinstance(titles, str) else titles)[0] == title  # or the file would not be valid
        kind = column["datatype"]
        assert (kind if isinstance(kind, str) else kind["base"]) in DATATYPES
        assert all(":" in name for name in set(column) - {"name", "titles", "datatype"})
    assert set(plain["tableSchema"].get("primaryKey", [])) <= set(names)
    for note in plain["notes"]:
        check_common(note)


def check_common(value):
    if isinstance(value, list):
        for each in value:
            check_common(each)
    if isinstance(value, dict):
        if "@value" in value:
            assert set(value) <= {"@value", "@type"}
            assert isinstance(value["@value"], str | int | float | bool)
        assert all(name in ("@value", "@type") or name.partition(":")[0] in PREFIXES for name in value)
        assert value.get("@type", "xsd:x").partition(":")[0] in (*PREFIXES, "xsd")
        for each in value.values():
            check_common(each)


@pytest.fixture
def validated(caplog):
    """What a validator says about a CSV file and its description: its complaints, and the rows that it reads."""
    csvw = pytest.importorskip("csvw", reason="pip install csvw")

    def validate(path):
        caplog.clear()
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            try:
                found = csvw.CSVW(str(path), validate=True)
                complaints = [] if found.is_valid else ["not valid"]
                rows = list(found.tables[0])
            except ValueError as error:
                complaints, rows = [str(error)], []
        complaints += [str(each.message) for each in told if "csvw" in str(each.filename)]
        return complaints + [record.message for record in caplog.records], rows

    return validate


def test_a_release(release, tmp_path):
    path = tmp_path / "trips 2013.csv"
    release.to_csv(path, **TEXTS)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["trips 2013.csv", "trips 2013.csv-metadata.json"]
    plain = json.loads((tmp_path / "trips 2013.csv-metadata.json").read_text(encoding="utf-8"))
    check(plain, release.table.column_names)
    assert plain["url"] == "trips%202013.csv"
    assert plain["dc:title"] == "Trips"
    assert plain["dc:description"] == str(release.statement)
    promise = {each["schema:name"]: each["schema:value"] for each in plain["schema:additionalProperty"]}
    assert (promise["epsilon"], promise["delta"], promise["privacy unit"]) == (1, 1e-6, "user")
    columns = {column["name"]: column for column in plain["tableSchema"]["columns"]}
    assert columns["town"]["titles"] == ["town", "Town"]
    assert "apostrophe" in columns["town"]["dc:description"]
    assert columns["fare_mean_low"]["schema:unitText"] == "CHF"
    assert "95 % noise interval of fare_mean" in columns["fare_mean_low"]["dc:description"]
    assert "limits of a value: 0 to 50" in columns["fare_mean"]["dc:description"]
    assert plain["tableSchema"]["primaryKey"] == ["town"]


def test_a_validator_agrees(release, tmp_path, validated):
    release.to_csv(tmp_path / "trips.csv", **TEXTS)
    complaints, rows = validated(tmp_path / "trips.csv")
    assert complaints == []
    assert [row["count"] for row in rows] == release.table["count"].to_pylist()
    assert [row["fare_mean"] for row in rows] == release.table["fare_mean"].to_pylist()


@pytest.mark.parametrize("wrong", [{"datatype": "date"}, {"datatype": "wrong"}, {"name": "_x"}], ids=str)
def test_the_validator_can_fail(release, tmp_path, validated, wrong):
    """Power: wrong types and names are found."""
    release.to_csv(tmp_path / "trips.csv")
    beside = tmp_path / "trips.csv-metadata.json"
    plain = json.loads(beside.read_text(encoding="utf-8"))
    plain["tableSchema"]["columns"][1].update(wrong)
    beside.write_text(json.dumps(plain), encoding="utf-8")
    assert validated(tmp_path / "trips.csv")[0] != []


TYPES = {
    "whole": [1, -2],
    "small": pa.array([1, 2], pa.uint8()),
    "float": [1.5e300, -1e-7],
    "strange": [float("nan"), float("-inf")],
    "decimal": pa.array([Decimal("1.50"), Decimal("-2.25")]),
    "fine": pa.array([Decimal("0.0000000001"), Decimal("1")], pa.decimal128(20, 10)),
    "yes": [True, False],
    "day": [datetime.date(2013, 1, 31), datetime.date(1899, 12, 1)],
    "second": pa.array([datetime.datetime(2013, 1, 1, 3, 4, 5), None], pa.timestamp("s")),
    "moment": pa.array([datetime.datetime(2013, 1, 1, 3, 4, 5, 678), None], pa.timestamp("us")),
    "zone": pa.array([datetime.datetime(2013, 7, 1), None], pa.timestamp("ms", "Europe/Zurich")),
    "text": ["x", None],
    "category": pa.array(["x", "y"]).dictionary_encode(),
}


def described(table):
    columns = [{"name": name, "role": "key", "of": name, "words": "A key."} for name in table.column_names]
    values = {
        "epsilon": 1.0,
        "delta": 0.0,
        "query": {},
        "privacy": {"definition": "pure", "unit": "user", "neighbouring": "one more or less"},
        "columns": columns,
        "confidence": 0.95,
        "date": "2026-11-17T02:20:38+00:00",
        "software": "osgt",
    }
    return Statement("Words.", values)


@pytest.mark.parametrize("name", TYPES)
def test_every_type_of_a_key(tmp_path, validated, name):
    table = pa.table({"id": [1, 2], name: TYPES[name]})
    write_csv(table, tmp_path / "x.csv")
    plain = metadata(table, described(table), About(), "x.csv")
    check(plain, table.column_names)
    (tmp_path / "x.csv-metadata.json").write_text(json.dumps(plain), encoding="utf-8")
    complaints, rows = validated(tmp_path / "x.csv")
    assert complaints == []
    if name not in ("strange", "zone", "day"):
        found = [float(row[name]) if name == "fine" else row[name] for row in rows]
        assert found == [float(value) if name == "fine" else value for value in table[name].to_pylist()]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), min_size=1, max_size=6, unique=True))
def test_names_of_all_sorts(names):
    table = pa.table({name: ["x"] for name in names})
    plain = metadata(table, described(table), About(), "x.csv")
    found = [column["name"] for column in plain["tableSchema"]["columns"]]
    assert all(VARIABLE.fullmatch(name) for name in found)
    assert len(set(found)) == len(names)


def test_hostile_names_are_valid(tmp_path, validated):
    table = pa.table({name: [name, "y"] for name in NASTY})
    write_csv(table, tmp_path / "x.csv")
    published = Published(described(table), About(), table)
    (tmp_path / "x.csv-metadata.json").write_text(published.metadata("x.csv"), encoding="utf-8")
    complaints, rows = validated(tmp_path / "x.csv")
    assert (complaints, len(rows)) == ([], 2)
    assert read_published(tmp_path / "x.csv").statement == published.statement


def test_keys_that_are_empty_tell_no_rows_apart():
    for texts in (["", None], ["x", ""], ["x", None]):
        table = pa.table({"key": texts})
        assert "primaryKey" not in metadata(table, described(table), About(), "x.csv")["tableSchema"]


def test_numbers_that_are_none(tmp_path):
    write_csv(pa.table({"f": [float("nan"), float("inf"), float("-inf"), 1.5, None]}), tmp_path / "x.csv")
    assert (tmp_path / "x.csv").read_text().replace('"', "").split("\n")[1:-1] == ["NaN", "INF", "-INF", "1.5", ""]


def test_an_unknown_type_is_text():
    assert datatype(pa.null()) == "string"


class TestAllOrNothing:
    def test_a_description_that_is_there_is_not_replaced(self, release, tmp_path):
        (tmp_path / "x.csv-metadata.json").write_text("precious")
        with pytest.raises(FileExistsError, match=r"x\.csv-metadata\.json' exists; overwrite=True"):
            release.to_csv(tmp_path / "x.csv")
        assert [each.name for each in tmp_path.iterdir()] == ["x.csv-metadata.json"]
        release.to_csv(tmp_path / "x.csv", overwrite=True)
        assert read_published(tmp_path / "x.csv").statement == release.statement

    def test_neither_without_the_other(self, release, tmp_path, monkeypatch):
        def broken(*_):
            raise OSError("disk full")

        monkeypatch.setattr("osgt.render.csvw.metadata", broken)
        with pytest.raises(OSError, match="disk full"):
            release.to_csv(tmp_path / "x.csv")
        assert list(tmp_path.iterdir()) == []

    def test_not_over_data_that_are_read(self, tmp_path):
        rows = tmp_path / "rows.csv-metadata.json"
        path = tmp_path / "keys.csv"
        path.write_text("town\nRome\n")
        table = pa.table({"user": range(50), "town": ["Rome"] * 50})
        query = Dataset(table, "user").group_by("town", max_groups=1, max_rows_per_group=1, public_keys=path)
        made = query.count().release(1, 1e-6)
        with pytest.raises(ValueError, match="never replaced"):
            made.to_csv(path, overwrite=True)
        assert not rows.exists()
