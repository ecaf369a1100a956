"""Derived columns: labels, public keys, what `cut` and `recode` refuse, and what people read."""

import math

import numpy as np
import pyarrow as pa
import pytest

import osgt
from engines import rows_of
from osgt import Dataset, cut, month, quarter, recode, weekday, year
from osgt.data.rows import fingerprint

TABLE = pa.table(
    {"user": [1, 2, 3], "age": [8, 34, 71], "fare": [1.5, 2.5, 3.5], "town": ["a", "b", "c"], "born": ["x", "y", "z"]}
)
DATA = Dataset(TABLE, "user")

LABELS = [
    ([0, 18, 65, 120], ["0–17", "18–64", "65–120"]),
    ([0, 1, 2, 3], ["0", "1", "2–3"]),
    ([0, 18, math.inf], ["0–17", "18+"]),
    ([-math.inf, 18, 65], ["<18", "18–65"]),
    ([-math.inf, 18], ["≤18"]),
    ([-10, 0, 10], ["-10 to -1", "0 to 10"]),
    ([0.0, 10, 50], ["0–<10", "10–50"]),
    ([0, 0.25, 1e-7 + 1], ["0–<0.25", "0.25–1.0000001"]),
    ([-0.5, 0.5, 1.5], ["-0.5 to <0.5", "0.5 to 1.5"]),
    ([0, 1e21], ["0–1000000000000000000000"]),
    (np.arange(0, 30, 10), ["0–9", "10–20"]),
    (np.array([0.0, 0.5]), ["0–0.5"]),
    ((0, 10), ["0–10"]),
]


@pytest.mark.parametrize(("edges", "labels"), LABELS, ids=str)
def test_labels(edges, labels):
    assert cut("age", edges).labels == labels


WRONG = [
    ("0, 18", None, TypeError, "list of ascending numbers"),
    (18, None, TypeError, "list of ascending numbers"),
    ([], None, ValueError, "at least two edges"),
    ([0], None, ValueError, "at least two edges"),
    ([0, 0], None, ValueError, "ascending"),
    ([10, 0], None, ValueError, "ascending"),
    ([0, "x"], None, TypeError, "must be numbers"),
    ([0, True], None, TypeError, "must be numbers"),
    ([0, math.nan], None, ValueError, "got nan"),
    ([math.inf, 0], None, ValueError, "ascending"),
    ([-math.inf, math.inf], None, ValueError, "at least two edges"),
    ([0, math.inf, 3], None, ValueError, "ascending"),
    ([0, 1e50], None, ValueError, "between 1e-40 and 1e40"),
    (range(2000), None, ValueError, "at most 1,000 bands"),
    ([0, 1, 2], ["a"], ValueError, "a label for each band"),
    ([0, 1, 2], ["a", "a"], ValueError, "must differ"),
    ([0, 1, 2], ["a", 7], TypeError, "list of texts"),
    ([0, 1, 2], "ab", TypeError, "list of texts"),
    ([0, 1, 2], ["a", ""], ValueError, "must not be empty"),
    ([0, 1, 2], ["a", "b\0"], ValueError, "null character"),
]


@pytest.mark.parametrize(("edges", "labels", "error", "message"), WRONG, ids=str)
def test_refused_bands(edges, labels, error, message):
    with pytest.raises(error, match=message):
        cut("age", edges, labels)


@pytest.mark.parametrize(
    ("mapping", "otherwise", "message"),
    [({}, None, "must be a dict"), (["a"], None, "must be a dict"), ({"a": 1.5}, None, "it must be text"),
     ({"a": "b\0"}, None, "null character"), ({"a": "b"}, object(), "it must be text")],
)  # fmt: skip
def test_refused_mappings(mapping, otherwise, message):
    with pytest.raises((TypeError, ValueError), match=message):
        recode("town", mapping, otherwise)


def test_a_column_must_be_named():
    for function in (year, quarter, month, weekday, lambda column: cut(column, [0, 1])):
        with pytest.raises(TypeError, match="name of a column"):
            function(7)
    with pytest.raises(ValueError, match="derive: x: there is no column 'nobody'; the table has 'user', 'age'"):
        DATA.derive(x=cut("nobody", [0, 1]))


def test_labels_of_whole_numbers_are_for_whole_numbers():
    """17.5 is not in "0–17"."""
    with pytest.raises(TypeError, match=r"'0–9' are for whole numbers.*as 0.0, or give labels"):
        DATA.derive(x=cut("fare", [0, 10, 20]))
    assert DATA.derive(x=cut("fare", [0.0, 10, 20])).derived["x"].values == ("0–<10", "10–20")
    assert DATA.derive(x=cut("fare", [0, 10, 20], ["low", "high"])).derived["x"].values == ("low", "high")


def test_types_are_declared_not_guessed(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("user,age,day\n1,8,2020-01-01\n2,x,never\n")
    with pytest.raises(TypeError, match="cut needs a number, got varchar; declare the type"):
        Dataset(path, "user").derive(band=cut("age", [0, 18]))
    with pytest.raises(TypeError, match="year needs a date or a time, got varchar; declare the type"):
        Dataset(path, "user").derive(y=year("day"))
    data = Dataset(path, "user", types={"age": "int64", "day": "date"})
    derived = data.derive(band=cut("age", [0, 18]), y=year("day"))
    assert rows_of(derived.table, "band", "y").to_pydict() == {"band": ["0–18", None], "y": [2020, None]}


def test_all_values_that_a_column_can_have():
    data = DATA.derive(
        band=cut("age", [0, 18, 120]),
        code=recode("town", {"a": "north", "b": "south", "c": "north"}, otherwise="west"),
        number=recode("town", {"a": 1, "b": None}),
        kept="recode(town, 'a', 'x', town)",
        day="weekday(DATE '2020-01-01')",
        net="age + 1",
    )
    values = {name: expression.values for name, expression in data.derived.items()}
    assert values == {
        "band": ("0–17", "18–120"),
        "code": ("north", "south", "west"),
        "number": (1,),
        "kept": None,
        "day": tuple(range(1, 8)),
        "net": None,
    }
    for name in ("kept", "net", "town"):
        with pytest.raises(ValueError, match=f'"all" is for columns .* list the keys of {name!r}'):
            data.group_by(name, max_groups=1, public_keys="all")
    both = data.group_by("band", "town", max_groups=1, public_keys={"band": "all", "town": ["a"]})
    assert both.groups.public.to_pydict() == {"band": ["0–17", "18–120"], "town": ["a", "a"]}


def test_a_file_named_all_can_be_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "all").write_bytes(b"")
    with pytest.raises(Exception, match=r"(?i)parquet|empty"):
        DATA.group_by("town", max_groups=1, public_keys="./all")


def kinds(data):
    return {name: dtype.kind for name, dtype in data.table.columns.items()}


def test_a_data_set_stays_as_it_was_and_is_the_same_table_to_a_ledger():
    derived = DATA.derive(a="age + 1").derive(b="a + 1")
    assert DATA.derived == {}
    assert "a" not in DATA.table.columns
    assert derived.identity == DATA.identity
    assert derived.identity["schema"] == fingerprint(kinds(DATA)) != fingerprint(kinds(derived))
    assert rows_of(derived.where("b > 30").rows()).num_rows == 2
    assert rows_of(DATA.where("age > 30").derive(b="age + 1").where("b < 40").rows()).num_rows == 1


def test_public_names():
    for name in ("cut", "recode", "year", "quarter", "month", "weekday"):
        assert getattr(osgt, name) is getattr(osgt.api, name)
        assert name in osgt.__all__


def test_plan_and_statement_say_the_derivations():
    data = DATA.derive(band=cut("age", [0, 18, 120]), net="fare - 0.5")
    query = data.group_by("band", max_groups=1, max_rows_per_group=1, public_keys="all").mean("net", bounds=(0, 9))
    release = query.release(5, 1e-6)
    assert query.to_dict()["data"]["derive"] == {"band": "cut(age, 0, 18, 120)", "net": "fare - 0.5"}
    assert "computed from each row by itself: band = cut(age, 0, 18, 120); net = fare - 0.5." in str(release.statement)
    assert release.statement.to_dict()["query"]["data"]["derive"]["net"] == "fare - 0.5"


def test_totals_and_publications_know_derived_columns():
    """Levels of a table and several tables at once, from columns that are computed."""
    rows = pa.table({"age": [i % 90 for i in range(400)], "town": [["a", "b"][i % 2] for i in range(400)]})
    data = Dataset(rows, "row").derive(band=cut("age", [0, 18, 65, 120]), odd="age % 2")
    keys = {"band": "all", "town": ["a", "b"]}
    query = data.group_by("band", "town", public_keys=keys, totals="rollup").count()
    table = query.release(20, 1e-6).to_pandas()
    whole = table[table["town"].isna() & table["band"].isna()]["count"].item()
    assert whole == table[table["town"].isna() & table["band"].notna()]["count"].sum()
    assert whole == pytest.approx(400, abs=20)
    both = osgt.Publication(by_band=query, odd=data.sum("odd", bounds=(0, 1)))
    assert len(both.release(20, 1e-6)["odd"]) == 1
