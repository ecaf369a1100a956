"""Previews: exact figures for whoever may see them, marked as such, and never part of a release."""

import json
import math
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from osgt import Dataset
from osgt.tables.preview import WARNING

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


def counted(rows):
    """The same figures in plain Python, from (user, city, fare, rides) of the rows with a user."""
    pairs = Counter((row["user"], row["city"]) for row in rows)
    groups = Counter(user for user, _ in pairs)
    sizes = Counter()
    for (user, _), size in pairs.items():
        sizes[user] += size
    return {
        "lost": sum(sizes[u] * (1 - MAX_GROUPS / g) for u, g in groups.items() if g > MAX_GROUPS),
        "beyond": sum(size - MAX_ROWS for size in pairs.values() if size > MAX_ROWS),
        "units": len(groups),
        "over": sum(g > MAX_GROUPS for g in groups.values()),
        "crowded": len({user for (user, _), size in pairs.items() if size > MAX_ROWS}),
        "groups": list(groups.values()),
        "sizes": list(pairs.values()),
    }


@pytest.mark.parametrize("public", [None, ["city 1", "city 2", "city 3", "city 4", "nowhere"]])
def test_figures(table, public):
    data = Dataset(table, "user").where("rides >= 0")
    query = data.group_by("city", max_groups=MAX_GROUPS, max_rows_per_group=MAX_ROWS, public_keys=public)
    preview = query.count().sum("fare", (LOW, HIGH)).histogram("rides", [2, 5, 8]).preview()
    left = [row for row in table.to_pylist() if row["rides"] >= 0]
    known = [row for row in left if public is None or row["city"] in public]
    with_unit = [row for row in known if row["user"] is not None]
    expected = counted(with_unit)
    assert preview.rows["in_the_table"] == table.num_rows
    assert preview.rows["after_where"] == len(left)
    assert preview.rows["without_unit"] == sum(row["user"] is None for row in left)
    assert preview.rows["with_a_unit" if public is None else "with_public_keys_and_a_unit"] == len(with_unit)
    assert preview.rows["dropped_by_max_groups_about"] == round(expected["lost"])
    assert preview.rows["beyond_max_rows_per_group"] == expected["beyond"]
    assert preview.units == {
        "in_all": expected["units"],
        "in_more_than_max_groups": expected["over"],
        "with_more_than_max_rows_in_a_group": expected["crowded"],
    }
    assert preview.groups_per_unit["most"] == max(expected["groups"])
    assert preview.rows_per_group["most"] == max(expected["sizes"])
    for q, name in ((0.5, "50%"), (0.9, "90%"), (0.99, "99%")):
        assert preview.groups_per_unit[name] == pytest.approx(np.quantile(expected["groups"], q), abs=1)
        assert preview.rows_per_group[name] == pytest.approx(np.quantile(expected["sizes"], q), abs=1)
    fares = [row["fare"] for row in with_unit]
    there = [fare for fare in fares if fare is not None and not math.isnan(fare)]
    assert preview.values["fare"] == {
        "missing": len(fares) - len(there),
        "below 0": sum(fare < LOW for fare in there),
        "above 50": sum(fare > HIGH for fare in there),
    }
    assert preview.values["rides"] == {
        "missing": 0,
        "below 2": sum(row["rides"] < 2 for row in with_unit),
        "above 8": sum(row["rides"] > 8 for row in with_unit),
    }


def test_without_groups_and_without_rows(table):
    preview = Dataset(table, "user").group_by(max_rows_per_group=MAX_ROWS).count().preview()
    assert preview.groups_per_unit == {}
    assert "dropped_by_max_groups_about" not in preview.rows
    empty = Dataset(table.slice(0, 0), "user").group_by("city", max_groups=1, max_rows_per_group=1)
    plain = empty.count().sum("fare", (0, 1)).preview().to_dict()
    assert set(plain["rows"].values()) == {0}
    assert set(plain["units"].values()) == {0}


def test_units_alone_have_no_rows_to_bound(table):
    preview = Dataset(table, "user").group_by("city", max_groups=1).count_units().preview()
    assert "beyond_max_rows_per_group" not in preview.rows
    assert set(preview.units) == {"in_all", "in_more_than_max_groups"}


def test_it_says_that_it_is_not_private(table):
    preview = Dataset(table, "user").group_by("city", max_groups=1, max_rows_per_group=1).count().preview()
    assert WARNING.startswith("NOT PRIVATE")
    assert str(preview).startswith(WARNING)
    assert json.loads(json.dumps(preview.to_dict()))["warning"] == WARNING


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
