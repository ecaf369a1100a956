"""Previews: exact figures for whoever may see them, marked as such, and never part of a release."""

import json
import math
from collections import Counter, defaultdict

import numpy as np
import pyarrow as pa
import pytest

from osgt import Dataset
from osgt.api.limits import WARNING
from osgt.query.aggregates.base import OpenLimit
from osgt.support.text import rounded_percent

MAX_GROUPS, MAX_ROWS = 2, 3
LOW, HIGH = 0, 50


@pytest.fixture(scope="module")
def table():
    """A few people with many rides, many with few; missing units, cities and fares among them."""
    rng = np.random.default_rng(5)
    n = 3000
    users = [None if u % 29 == 0 else f"user {u}" for u in rng.zipf(1.4, n) % 400]
    cities = [None if c == 7 else f"city {c}" for c in rng.integers(0, 9, n)]
    fares = [
        [None, math.nan, math.inf, -math.inf][i % 4] if i % 11 == 0 else float(f)
        for i, f in enumerate(rng.normal(25, 20, n))
    ]
    return pa.table({"user": users, "city": cities, "fare": fares, "rides": rng.integers(-3, 12, n)})


class Plain:
    """The same figures in plain Python, from the rows with a user."""

    def __init__(self, rows):
        self.rows = Counter(row["user"] for row in rows)
        self.groups = Counter(user for user, _ in {(row["user"], row["city"]) for row in rows})
        self.fares = defaultdict(list)
        for row in rows:
            if row["fare"] is not None and not math.isnan(row["fare"]):
                self.fares[row["user"]].append(row["fare"])


def check(cuts, numbers):
    """Hold what limits cut off against the numbers of units: rows, groups or totals."""
    for cut in cuts:
        assert cut.number == pytest.approx(sum(max(number - cut.limit, 0) for number in numbers.values()))
        assert cut.share == pytest.approx(cut.number / sum(numbers.values()))
        assert cut.units == sum(number > cut.limit for number in numbers.values())
        assert cut.units_share == pytest.approx(cut.units / len(numbers))
    assert cuts[-1].number == 0
    assert len(cuts) > 2


@pytest.mark.parametrize("public", [None, ["city 1", "city 2", "city 3", "city 4", "nowhere"]])
def test_figures(table, public):
    data = Dataset(table, "user").where("rides >= 0")
    query = data.group_by("city", max_rows=MAX_ROWS, max_groups=MAX_GROUPS, public_keys=public).count_units()
    query = query.count().sum("fare", (LOW, HIGH)).histogram("rides", [2, 5, 8])
    preview = query.sum("rides", max_total=7 if public else (0, 7)).preview()
    left = [row for row in table.to_pylist() if row["rides"] >= 0]
    known = [row for row in left if public is None or row["city"] in public]
    with_unit = [row for row in known if row["user"] is not None]
    plain = Plain(with_unit)
    assert preview.rows == {
        "in_the_table": table.num_rows,
        "after_where": len(left),
        "without_a_unit": sum(row["user"] is None for row in left),
        "with_a_unit" if public is None else "with_public_keys_and_a_unit": len(with_unit),
    }
    assert preview.units == len(plain.rows)
    limits = {limit.words: cuts for limit, cuts in preview.limits.items()}
    assert set(limits) == {"max_rows", "max_groups", "bounds of fare", "max_total of rides"}
    given = {name: [cut.limit for cut in cuts if cut.given] for name, cuts in limits.items()}
    assert given == {"max_rows": [3], "max_groups": [2], "bounds of fare": [], "max_total of rides": [7]}
    # All rows of a unit make it heavy, those with other keys as well.
    everything = [row for row in left if row["user"] is not None]
    check(limits["max_rows"], Plain(everything).rows)
    check(limits["max_groups"], plain.groups)
    totals = Counter()
    for row in everything:
        totals[row["user"]] += row["rides"]
    check(limits["max_total of rides"], totals)
    there = [fare for fares in Plain(everything).fares.values() for fare in fares]
    for cut in limits["bounds of fare"]:
        assert cut.number == sum(abs(fare) > cut.limit for fare in there)
        assert cut.share == pytest.approx(cut.number / len(there))
        assert cut.units == sum(max(map(abs, fares)) > cut.limit for fares in Plain(everything).fares.values())
    there = [fare for fares in plain.fares.values() for fare in fares]
    assert preview.missing == {"fare": len(with_unit) - len(there), "rides": 0}
    fares, rides = preview.outside
    assert (fares.column, fares.low, fares.high) == ("fare", LOW, HIGH)
    assert fares.number == sum(not LOW <= fare <= HIGH for fare in there) > sum(fare > HIGH for fare in there)
    assert fares.share == pytest.approx(fares.number / len(there))
    assert rides.number == sum(not 2 <= row["rides"] <= 8 for row in with_unit)


def test_limits_need_not_be_given(table):
    preview = Dataset(table, "user").group_by("city").count().mean("fare").preview()
    assert not any(cut.given for cuts in preview.limits.values() for cut in cuts)
    assert preview.outside == ()
    plain = Plain([row for row in table.to_pylist() if row["user"] is not None])
    check(preview.limits[OpenLimit("max_rows")], plain.rows)
    with pytest.raises(ValueError, match="must ask for something"):
        Dataset(table, "user").group_by("city").preview()


def test_without_groups_and_without_rows(table):
    preview = Dataset(table, "user").group_by(max_rows=MAX_ROWS).count().count_units().preview()
    assert list(preview.limits) == [OpenLimit("max_rows")]
    empty = Dataset(table.slice(0, 0), "user").group_by("city", max_rows=1, max_groups=1)
    preview = empty.count().count_units().sum("fare", (0, 1)).preview()
    assert set(preview.rows.values()) == {0}
    assert preview.units == 0
    assert len(preview.limits) == 3
    assert all(cut.share == 0 for cuts in (*preview.limits.values(), preview.outside) for cut in cuts)


def test_units_alone_have_no_rows_to_limit(table):
    preview = Dataset(table, "user").group_by("city", max_groups=1).count_units().preview()
    assert list(preview.limits) == [OpenLimit("max_groups")]
    groups = Plain([row for row in table.to_pylist() if row["user"] is not None]).groups
    [given] = [cut for cut in preview.limits[OpenLimit("max_groups")] if cut.given]
    assert given.number == sum(groups.values()) - len(groups)


def test_it_says_that_it_is_not_private(table):
    preview = Dataset(table, "user").group_by("city", max_groups=1, max_rows_per_group=1).count().preview()
    assert WARNING.startswith("NOT PRIVATE")
    assert str(preview).startswith(WARNING)
    assert json.loads(json.dumps(preview.to_dict()))["warning"] == WARNING


def test_words(table):
    preview = Dataset(table, "user").group_by("city", max_rows=3).count().sum("fare", (LOW, HIGH)).preview()
    [given] = [cut for cut in preview.limits[OpenLimit("max_rows")] if cut.given]
    text = str(preview)
    assert f"{given.number:,.0f} ({rounded_percent(given.share)}) of rows cut off by max_rows = 3." in text
    assert "3 *" in text
    assert " values of fare (" in text
    assert ") outside 0 to 50." in text


def test_figures_on_every_engine(engine, table):
    """Each engine counts as DuckDB does."""
    plain = table.select(["user", "city", "fare"]).append_column("row", pa.array(range(table.num_rows)))
    found, expected = (
        data.group_by("city", max_rows=3, max_groups=2)
        .count()
        .count_units()
        .sum("fare", (LOW, HIGH))
        .preview()
        .to_dict()
        for data in (engine.put(plain.rename_columns(["person", "city", "fare", "row"])), Dataset(plain, "user"))
    )
    assert found == expected


def test_nothing_of_it_is_in_a_release(table, tmp_path):
    """The figures of a preview appear neither in statement nor report nor file, even if it was made just before."""
    query = Dataset(table, "user").group_by("city", max_groups=2, max_rows_per_group=3).count()
    query.preview()
    release = query.release(1, 1e-6)
    release.report(tmp_path / "report.html")
    release.to_parquet(tmp_path / "out.parquet")
    statement = json.dumps(release.statement.to_dict())
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    for text in (statement, page, (tmp_path / "out.parquet").read_bytes().decode("latin-1")):
        assert "NOT PRIVATE" not in text
        assert "in_the_table" not in text
        assert "3000" not in text
        assert "3,000" not in text


MISFITS = {
    "fare": ["1,5", "-2,25", ",5", "abc", " ", "", "3.5"],
    "born": ["03.05.2026", "2026-05-03", "2026-02-31", "", "2020-01-01", "2020-01-02", "2020-01-03"],
    "rides": ["1", "2", "3", "4", "5", "6", "99999999999999999999"],
}


@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_values_that_do_not_fit_their_declared_types(tmp_path, engine, request):
    if engine == "spark":
        request.getfixturevalue("spark")
    lines = [f"{i};{fare};{born};{rides}" for i, (fare, born, rides) in enumerate(zip(*MISFITS.values(), strict=True))]
    path = tmp_path / "rows.csv"
    path.write_text("\n".join(["user;fare;born;rides", *lines]) + "\n")
    types = {"user": "string", "fare": "float64", "born": "date", "rides": "int64"}
    data = Dataset(str(path), "user", types=types, delimiter=";", engine=engine)
    preview = data.group_by(max_rows_per_group=1).count().sum("fare", (0, 9)).preview()
    assert {name: (each.number, each.commas) for name, each in preview.misfits.items()} == {
        "fare": (4, 3),
        "born": (2, 0),
        "rides": (1, 0),
    }
    fare = {"number": 4, "dtype": "float64", "example": "12.5", "commas": 3, "points": 0, "dates": 0}
    assert preview.to_dict()["misfits"]["fare"] == fare
    text = str(preview)
    assert "4 values of fare do not fit the declared type float64 (written as 12.5) and count as missing" in text
    assert '3 of them have a decimal comma: if all have one, give decimal as ",".' in text
    assert "1 value of rides does not fit the declared type int64" in text
    assert preview.undecoded == 0
    # A release is as it would be without them: nothing about it follows from values.
    # A release tells of the column that it uses, with noise: too much of it for seven people.
    release = data.group_by(max_rows_per_group=1).count().sum("fare", (0, 9)).release(1, 0)
    assert list(release.left_out.misfits) == ["fare"]
    assert "4 values" not in str(release.statement)


def test_declared_types_of_frames():
    frame = pa.table({"user": ["a", "b"], "fare": ["1,5", "2.5"]})
    preview = Dataset(frame, "user", types={"fare": "float64"}).group_by(max_rows_per_group=1).count().preview()
    assert preview.misfits["fare"].commas == 1
