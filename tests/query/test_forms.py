"""The forms in which people say things: lists of columns, keys of every kind, all rows at once, a path as a ledger."""

import datetime

import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pytest

from osgt import Dataset, Ledger
from osgt.query.file.aggregates import AGGREGATES
from osgt.query.keys import public_table

TABLE = pa.table(
    {
        "user": [1, 1, 2, 3],
        "city": ["Bern", "Rome", "Rome", "Oslo"],
        "year": [2020, 2021, 2020, 2021],
        "day": [datetime.date(2020, 1, day) for day in (1, 2, 3, 4)],
        "fare": [1.0, 2.0, 3.0, 4.0],
    }
)
DATA = Dataset(TABLE, "user")


def keys(given, by=("year",)):
    return public_table(given, by, DATA.table.columns).to_pydict()


def test_columns_in_a_list():
    for columns in (["city", "year"], ("city", "year")):
        assert DATA.group_by(columns, max_groups=2).groups.by == ("city", "year")
    assert DATA.group_by(["city"], "year", max_groups=2).groups.by == ("city", "year")
    assert DATA.group_by([], max_rows_per_group=1).groups.by == ()
    with pytest.raises(TypeError, match="group_by must be the name of a column, got 7"):
        DATA.group_by(["city", 7], max_groups=2)


YEARS = {
    "range": range(2020, 2023),
    "array": np.arange(2020, 2023),
    "array of objects": np.array([2020, 2021, 2022], dtype=object),
    "small integers": np.arange(2020, 2023).astype("int16"),
    "series": pd.Series([2020, 2021, 2022], index=[5, 6, 7]),
    "nullable series": pd.Series([2020, 2021, 2022], dtype="Int64"),
    "index": pd.Index([2020, 2021, 2022]),
    "range index": pd.RangeIndex(2020, 2023),
    "categorical": pd.Categorical([2022, 2022], categories=[2020, 2021, 2022]),
    "series of categories": pd.Series([2022, 2022], dtype=pd.CategoricalDtype([2020, 2021, 2022])),
    "polars": polars.Series([2020, 2021, 2022]),
    "set": {2022, 2020, 2021},
    "frozen set": frozenset({2022, 2020, 2021}),
    "keys of a dict": {2022: 1, 2020: 1, 2021: 1}.keys(),
}


@pytest.mark.parametrize("form", YEARS)
def test_lists_of_keys(form):
    assert keys(YEARS[form]) == {"year": [2020, 2021, 2022]}
    both = keys({"city": ["Rome"], "year": YEARS[form]}, ("city", "year"))
    assert both == {"city": ["Rome"] * 3, "year": [2020, 2021, 2022]}


def test_keys_of_other_types():
    day = datetime.date(2020, 1, 1)
    for days in ([day], np.array(["2020-01-01"], dtype="datetime64[D]"), {day}, polars.Series([day])):
        assert keys(days, ("day",)) == {"day": [day]}
    assert keys(pd.Series(["Bern", None]), ("city",)) == {"city": ["Bern", None]}
    assert keys({"Rome", None, "Bern"}, ("city",)) == {"city": [None, "Bern", "Rome"]}
    assert keys(pd.MultiIndex.from_product([["Bern"], [2020, 2021]]), ("city", "year"))["year"] == [2020, 2021]
    assert keys(np.array([[1, 2], [3, 4]]), ("user", "year")) == {"user": [1, 3], "year": [2, 4]}
    assert keys({("Rome", 2020), ("Bern", 2021)}, ("city", "year"))["city"] == ["Bern", "Rome"]


@pytest.mark.parametrize("given", ["", b"xy", 7, 2.5, None, iter([1]), object(), {1, "a"}])
def test_what_is_no_list_is_refused(given):
    with pytest.raises((TypeError, FileNotFoundError), match="public_keys"):
        keys({"year": given} if isinstance(given, str) else given)


def test_numbers_with_a_point_are_no_whole_numbers():
    with pytest.raises(ValueError, match="must hold whole numbers"):
        keys(np.array([2020.0]))


def test_bands_of_pandas():
    """`pandas.cut` makes categories of intervals: keys of the data, and public keys."""
    frame = pd.DataFrame({"user": range(300), "age": [i % 90 for i in range(300)]})
    frame["band"] = pd.cut(frame["age"], [0, 18, 65, 120], right=False)
    groups = Dataset(frame, "user").group_by("band", max_groups=1, max_rows_per_group=1, public_keys=frame["band"])
    release = groups.count().release(epsilon=30, delta=0)
    assert release.to_arrow()["band"].to_pylist() == ["[0, 18)", "[18, 65)", "[65, 120)"]
    exact = frame["band"].value_counts(sort=False).tolist()
    assert release.to_arrow()["count"].to_pylist() == pytest.approx(exact, abs=3)
    for given in (frame["band"].cat.categories, pd.IntervalIndex.from_breaks([0, 18, 65, 120], closed="left")):
        again = Dataset(frame, "user").group_by("band", max_groups=1, public_keys=given)
        assert again.groups.public.equals(groups.groups.public)
    listed = pd.DataFrame({"band": frame["band"].cat.categories[:1]})
    again = Dataset(frame, "user").group_by("band", max_groups=1, public_keys=listed)
    assert again.groups.public.to_pydict() == {"band": ["[0, 18)"]}


def test_aggregates_of_all_rows():
    """Every aggregate that there is; limits that are left out are chosen."""
    asked = DATA.count(max_rows=2, name="rows").sum("fare", bounds=(0, 5))
    assert asked.groups.by == ()
    assert asked.to_dict()["groups"] == {"by": [], "max_rows": 2, "public_keys": None}
    assert asked.release(50, 0).to_arrow().column_names[0] == "rows"
    assert DATA.count_units().plan(1, 0).columns[0].name == "count_units"
    assert DATA.mean("fare", bounds=(0, 5), max_rows=1).plan(1, 1e-6)
    for query, open_limits in (
        (DATA.count(), ["max_rows"]),
        (DATA.sum("fare", bounds=(0, 5)), ["max_rows"]),
        (DATA.sum("fare"), ["max_total of fare"]),
        (DATA.mean("fare", max_rows=1), ["bounds of fare"]),
        (DATA.count_units(), []),
    ):
        assert [limit.words for limit in query.open_limits] == open_limits
        assert (query.plan(1, 0).choice is None) == (open_limits == [])
    survey = Dataset(TABLE, "row")
    assert survey.count().plan(1, 0).columns[0].name == "count"
    for name in AGGREGATES:
        assert "All rows are one group" in getattr(Dataset, name).__doc__


def test_bins_are_named_by_their_edges():
    histogram = DATA.histogram("fare", [-5, 0, 0.5, 10, 1e20], max_rows=1)
    names = histogram.aggregates[0].names
    assert names == ["fare_-5_to_0", "fare_0_to_0.5", "fare_0.5_to_10", "fare_10_to_1e+20"]
    close = DATA.histogram("fare", [0.1, np.nextafter(0.1, 1), 0.2], max_rows=1).aggregates[0].names
    assert len(set(close)) == 2
    assert DATA.histogram("fare", [0, 1], name="x", max_rows=1).aggregates[0].names == ["x_0_to_1"]


def test_the_path_of_a_ledger(tmp_path):
    path = tmp_path / "budget.db"
    with Ledger(path) as ledger:
        ledger.open("rides", epsilon=3, delta=1e-6, unit="user")
    for location in (path, str(path)):
        data = Dataset(TABLE, "user", ledger=location, dataset="rides")
        data.count_units().release(epsilon=1, delta=0)
        data.close()
    with Ledger(path) as ledger:
        assert len(ledger.history("rides")) == 2
    with pytest.raises(TypeError, match="ledger must be a Ledger or its path"):
        Dataset(TABLE, "user", ledger=7, dataset="rides")
