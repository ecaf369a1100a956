"""Tables with two keys as rows × columns: in a terminal and in pandas, with totals as margins."""

import pandas as pd
import pyarrow as pa
import pytest

from osgt import Dataset
from osgt.query.about import About
from osgt.render.cross import MOST_COLUMNS, cross_of
from osgt.render.table_cards import release_tables
from osgt.support.text import columns_wide

WARDS = ["Cardiology", "Surgery", "産科"]
KEYS = {"ward": WARDS, "month": [3, 1, 2]}


@pytest.fixture(scope="module")
def data():
    rows = [(f"p{i}", WARDS[i % 3], 1 + i % 3 if i % 7 else 2, float(i % 9)) for i in range(3000)]
    names = ("person", "ward", "month", "cost")
    return Dataset(pa.table({name: [row[i] for row in rows] for i, name in enumerate(names)}), privacy_unit="person")


def released(data, *by, totals=None, public_keys=None):
    public = public_keys or {key: KEYS[key] for key in by}
    return data.group_by(*by, max_rows=1, public_keys=public, totals=totals).count().release(1, 1e-6)


@pytest.fixture(scope="module")
def cube(data):
    return released(data, "ward", "month", totals="cube")


def terminal(monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))


class TestCross:
    def test_each_number_is_where_its_keys_are(self, cube):
        cross = cross_of(cube.table, ("ward", "month"), About())
        assert cross.sides == (*WARDS, "Total")
        assert cross.heads == ("3", "1", "2", "Total")
        rows = cube.rows(len(cube))
        for side, places in zip(cross.sides, cross.places, strict=True):
            for head, place in zip(cross.heads, places, strict=True):
                ward, month = rows[place]["ward"] or "Total", rows[place]["month"] or "Total"
                assert (ward, str(month)) == (side, head)

    def test_turned(self, cube):
        cross = cross_of(cube.table, ("ward", "month"), About())
        turned = cross.turned()
        assert (turned.keys, turned.sides, turned.heads) == (("month", "ward"), cross.heads, cross.sides)
        assert turned.places[1][2] == cross.places[2][1]
        assert turned.turned() == cross

    def test_labels(self, cube):
        cross = cross_of(cube.table, ("ward", "month"), About(values={"month": {"1": "January"}}))
        assert cross.heads == ("3", "January", "2", "Total")

    @pytest.mark.parametrize(("columns", "heads"), [(46, "Cardiol…  Surgery"), (41, "Cardi…  Surge…")])
    def test_headings_are_shortened_where_they_would_not_fit(self, columns, heads):
        """A cross table with short headings rather than the first and the last rows of a list."""
        wards = ["Cardiology", "Surgery", "Emergency"]
        rows = [(f"p{i}", wards[i % 3], 1 + i % 12) for i in range(3000)]
        table = pa.table(dict(zip(("person", "ward", "month"), zip(*rows, strict=True), strict=True)))
        query = Dataset(table, privacy_unit="person").group_by(
            "ward", "month", max_rows=1, public_keys={"ward": wards, "month": range(1, 13)}, totals="cube"
        )
        release = query.count().release(1, 1e-6)
        [shown] = release_tables(release, About(), columns)
        text = "\n".join(shown.lines())
        assert heads in text
        assert "month \\ …" in text
        assert max(map(columns_wide, text.splitlines()[1:])) <= columns

    def test_keys_that_are_missing_or_empty(self):
        table = pa.table({"a": ["x", "x", "x", "", "", ""], "b": [None, "", "Total"] * 2, "count": range(6)})
        cross = cross_of(table, ("a", "b"), About())
        assert (cross.sides, cross.heads) == (("x", "(empty)"), ("(empty)", "Total", "(none)"))
        assert cross.places == ((1, 2, 0), (4, 5, 3))

    def test_chosen_keys_come_in_order_though_some_groups_are_not_published(self):
        table = pa.table({"a": [1, 1, 2, 2, 3, 3], "b": [2, 3, 1, 3, 1, 2], "count": range(6)})
        cross = cross_of(table, ("a", "b"), About())
        assert cross.heads == ("1", "2", "3")
        assert cross.places == ((None, 0, 1), (2, None, 3), (4, 5, None))

    @pytest.mark.parametrize(
        ("columns", "keys"),
        [
            ({"a": [1, 2]}, ("a",)),
            ({"a": [1, 2], "b": [1, 1]}, ("a", "b")),
            ({"a": [1] * 90, "b": range(90)}, ("a", "b")),
            ({"a": range(9), "b": range(9)}, ("a", "b")),
            ({"a": [], "b": []}, ("a", "b")),
            ({"a": [1, 1], "b": [1, 2], "c": [1, 1]}, ("a", "b", "c")),
        ],
        ids=["one key", "one column", "too many columns", "hardly any pair", "nothing", "three keys"],
    )
    def test_none(self, columns, keys):
        assert MOST_COLUMNS < 90
        assert cross_of(pa.table(columns), keys, About()) is None


class TestPandas:
    @pytest.mark.parametrize("totals", [None, "rollup", "cube", [()]])
    @pytest.mark.parametrize("wide", ["ward", "month"])
    def test_as_pandas_pivots(self, data, totals, wide):
        release = released(data, "ward", "month", totals=totals)
        found = release.to_pandas(wide=wide)
        frame = release.to_pandas().drop(columns="summed_over", errors="ignore").astype({"month": object})
        frame[["ward", "month"]] = frame[["ward", "month"]].where(frame[["ward", "month"]].notna(), "Total")
        other = "ward" if wide == "month" else "month"
        expected = frame.pivot(index=other, columns=wide)
        pd.testing.assert_frame_equal(
            found, expected.loc[found.index, found.columns], check_index_type=False, check_column_type=False
        )
        assert found.shape == expected.shape
        assert list(found["count"].columns)[-1] == ("Total" if totals else list(KEYS[wide])[-1])

    def test_one_and_three_keys(self, data):
        alone = released(data, "month")
        assert alone.to_pandas(wide="month")["count"].iloc[0].to_dict() == dict(
            zip(alone["month"], alone["count"], strict=True)
        )
        more = data.derive(cheap="cost < 3")
        keys = {**KEYS, "cheap": [True, False]}
        release = released(more, "ward", "month", "cheap", public_keys=keys, totals="cube")
        found = release.to_pandas(wide="cheap")["count"]
        assert found.shape == (16, 3)
        assert found.loc[("Total", "Total"), "Total"] == release["count"][-1]

    def test_whole_numbers_stay_whole(self, cube):
        assert list(cube.to_pandas(wide="month")["count"].columns) == [3, 1, 2, "Total"]
        assert list(cube.to_pandas(wide="ward").index) == [3, 1, 2, "Total"]

    def test_no_such_key(self, cube):
        with pytest.raises(ValueError, match=r"wide: there is no key 'mnth' \(did you mean 'month'\?\)"):
            cube.to_pandas(wide="mnth")


class TestPrinted:
    def test_two_keys_with_margins(self, cube, monkeypatch):
        terminal(monkeypatch, 80)
        lines = str(cube).splitlines()
        at = lines.index("count, with 95 % intervals")
        assert lines[at + 1].split() == ["ward", "\\", "month", "3", "1", "2", "Total"]
        assert [line.split()[0] for line in lines[at + 2 : at + 10 : 2]] == [*WARDS, "Total"]
        assert all(" to " in line for line in lines[at + 3 : at + 10 : 2])

    def test_columns_stand_below_each_other_though_characters_are_wide(self, cube, monkeypatch):
        terminal(monkeypatch, 80)
        lines = str(cube).splitlines()
        table = lines[lines.index("count, with 95 % intervals") + 1 :][:9]
        assert len({columns_wide(line) for line in table}) == 1

    def test_narrow_terminals(self, cube, monkeypatch):
        """Numbers alone with the reach of the intervals in words; narrower still, a list."""
        terminal(monkeypatch, 45)
        assert "count; 95 % intervals: " in str(cube)
        assert "to" not in str(cube).split("\n\n")[1].splitlines()[2]
        terminal(monkeypatch, 30)
        assert "Total       Total" in str(cube)

    def test_many_rows(self, data, monkeypatch):
        terminal(monkeypatch, 80)
        many = data.group_by("month", max_rows=1, public_keys=list(range(1, 101))).count().release(1, 1e-6)
        text = str(many)
        assert text.startswith("100 rows, ")
        assert "… stands for 84 more rows." in text
        shown = [line.split()[0] for line in text.split("\n\n")[1].splitlines()[1:]]
        assert shown == [*map(str, range(1, 13)), "…", *map(str, range(97, 101))]

    def test_columns_that_do_not_fit_are_below_the_others(self, data, monkeypatch):
        terminal(monkeypatch, 80)
        query = data.group_by("ward", max_rows=1, public_keys=WARDS).count().sum("cost").mean("cost", (0, 9))
        text = str(query.histogram("cost", edges=[0, 2, 4, 6, 9]).release(1, 1e-6))
        table = text.split("Promise:", maxsplit=1)[0].splitlines()
        assert max(map(columns_wide, table[:-2])) <= 80
        assert sum(line.startswith("ward ") for line in table) > 1
        assert all(name in text for name in ("count", "cost_sum", "cost_mean", "cost_0_to_2"))

    def test_groups_that_are_not_published(self, data, monkeypatch):
        terminal(monkeypatch, 80)
        rows = [(i, "ab"[i % 2], i % 3) for i in range(3000) if not (i % 2 and i % 3 == 1)]
        table = pa.table({"person": [r[0] for r in rows], "x": [r[1] for r in rows], "y": [r[2] for r in rows]})
        text = str(Dataset(table, "person").group_by("x", "y", max_rows=1).count().release(1, 1e-6))
        assert "· stands for a group that is not published." in text
        assert text.count("·") == 2

    def test_one_number(self, data):
        text = str(data.count(max_rows=1).release(1, 1e-6))
        assert text.startswith("1 row, each number with its 95 % interval\n\n")

    def test_what_is_asked(self, data, cube):
        query = data.group_by("ward").count()
        assert "Groups by: ward" in str(query)
        assert "chosen privately" in str(query)
        assert "cost    " in str(data)
        assert "float64" in str(data)


class TestColumns:
    def test_a_column(self, cube):
        assert cube["count"].tolist() == cube.table["count"].to_pylist()
        assert cube["ward"].tolist() == cube.table["ward"].to_pylist()
        assert "count" in cube
        assert "cuont" not in cube
        with pytest.raises(KeyError, match=r"there is no column 'cuont' \(did you mean 'count'\?\)"):
            cube["cuont"]

    def test_rows(self, cube):
        assert len(cube) == 16
        assert [row["count"] for row in cube] == cube["count"].tolist()
        assert list(pd.DataFrame(cube)["count"]) == cube["count"].tolist()
