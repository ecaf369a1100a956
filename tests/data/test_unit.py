"""Privacy units: what they are called, and what is refused."""

import pyarrow as pa
import pytest

from osgt import Dataset, Ledger
from osgt.data.unit import Noun, PrivacyUnit
from osgt.ledger.errors import OtherSubjectError
from osgt.query.file.reading import query_file_of

TABLE = pa.table({"house": ["a", "b"], "person": ["x", "y"], "town": ["p", "q"], "v": [1.0, 2.0]})
WITH_ROW = TABLE.append_column("Row", pa.array([1, 2]))


def name_of(*columns):
    return PrivacyUnit(columns, Noun("person", "people")).name


def test_names_are_told_apart():
    """A ledger must not take one unit for another."""
    units = [("row",), (), ("a", "b"), ("a + b",), ('"row"',), ('"a + b"',), ("a", "b + c"), ("a + b", "c"),
             ("a", "b", "c"), ('"a', 'b"'), ("a",), ("row", "b")]  # fmt: skip
    names = [name_of(*columns) for columns in units]
    assert len(set(names)) == len(units)
    assert name_of("b", "a") == name_of("a", "b") == "a + b"
    assert (name_of(), name_of("row"), name_of("a")) == ("row", '"row"', "a")


def test_a_column_named_row():
    with pytest.raises(ValueError, match=r'column \'Row\'.*\["Row"\].*--unit Row.*rename'):
        Dataset(WITH_ROW, "row")
    assert Dataset(WITH_ROW, ["Row"]).unit.columns == ("Row",)
    small = WITH_ROW.rename_columns([name.lower() for name in WITH_ROW.column_names])
    data = Dataset(small, ["row"])
    assert (data.privacy_unit, data.to_dict()["privacy_unit"]) == ('"row"', ["row"])


@pytest.mark.parametrize(
    ("unit", "message"),
    [
        ([], "at least one column"),
        (["house", "house"], "each column once"),
        (["house", "nobody"], "no column 'nobody'"),
        (["house", "v"], "'v' of type float64"),
        ([1], "name of a column"),
        (1, "name of a column"),
        (None, "name of a column"),
    ],
)
def test_refused_units(unit, message):
    with pytest.raises((ValueError, TypeError), match=message):
        Dataset(TABLE, unit)


def test_limits_of_rows_are_one():
    data = Dataset(TABLE, "row")
    for name in ("max_rows", "max_groups", "max_rows_per_group"):
        with pytest.raises(ValueError, match=f"{name} must be left out where every row is a unit"):
            data.group_by("town", **{name: 2})
        data.group_by("town", **{name: 1})
    groups = data.group_by("town").groups
    assert (groups.limits, groups.max_groups_per_unit, groups.each_row) == ({}, 1, True)


def test_groups_of_one_unit_are_refused():
    data = Dataset(TABLE, ["house", "person"])
    with pytest.raises(ValueError, match="'house \\+ person' is the privacy unit"):
        data.group_by("person", "house", max_groups=1)
    data.group_by("house", max_groups=1)


@pytest.mark.parametrize("neighbours", ["add_remove", "change_one"])
def test_noise_and_words_of_rows(neighbours, tmp_path):
    """As much noise as for units with one row in one group; sentences that speak of rows."""
    keys = ["p", "q"]
    survey = Dataset(TABLE, "row", neighbours=neighbours).group_by("town", public_keys=keys).count()
    people = Dataset(TABLE, "person", neighbours=neighbours).group_by(
        "town", max_groups=1, max_rows_per_group=1, public_keys=keys
    )
    assert survey.plan(1, 1e-6).laws == people.count().plan(1, 1e-6, measure_left_out=False).laws
    assert survey.plan(1, 1e-6).left_out is None
    release = survey.release(1, 1e-6)
    words = str(release.statement)
    assert {"add_remove": "Adding or removing one row", "change_one": "Replacing one row by another"}[
        neighbours
    ] in words
    assert "protected for each of them alone" in words
    assert "chosen at random" not in words
    assert "max_groups" not in str(survey.plan(1, 1e-6))
    assert survey.to_dict()["groups"] == {"by": ["town"], "public_keys": 2}
    release.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "every row is one" in page
    assert "all rows of one" not in page


def test_a_budget_protects_one_unit(tmp_path):
    """Rows, a column named "row" and columns together are different people to a ledger."""
    path = tmp_path / "budget.db"
    small = WITH_ROW.rename_columns([name.lower() for name in WITH_ROW.column_names])
    units = {"row": (TABLE, "row"), '"row"': (small, ["row"]), "house + person": (TABLE, ["person", "house"])}
    with Ledger(path) as ledger:
        for name in units:
            ledger.open(name, epsilon=10, delta=1e-5, unit=name)
        for name, (table, unit) in units.items():
            query = Dataset(table, unit, ledger=ledger, dataset=name).group_by(max_rows_per_group=1).count()
            query.release(1, 1e-6)
            for other in units.keys() - {name}:
                elsewhere = Dataset(table, unit, ledger=ledger, dataset=other).group_by(max_rows_per_group=1).count()
                with pytest.raises(OtherSubjectError):
                    elsewhere.release(1, 1e-6)


def test_in_a_query_file():
    for unit in ("row", ["house", "person"], ["house"]):
        file = query_file_of({"data": {"source": "x.parquet", "privacy_unit": unit}})
        assert file.data.privacy_unit == unit
