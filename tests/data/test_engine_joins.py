"""Joins many to one: each row belongs to one person or to nobody, and nobody's rows depend on another's."""

import random
from collections import Counter

import pyarrow as pa
import pytest

from engines import rows_of, sums
from osgt import Dataset
from osgt.data import joins
from osgt.query.measures import Rows

PEOPLE = ["a", "b", "c", "d"]


def made(seed, size=14):
    """Stays, bills of stays and lines of bills, with keys that are missing, that nobody has, or that several have."""
    chosen = random.Random(seed)

    def keys(prefix, count):
        return [None if chosen.random() < 0.05 else f"{prefix}{chosen.randrange(count)}" for _ in range(size)]

    return {
        "stays": {"stay": keys("s", 10), "person": [chosen.choice([*PEOPLE, None]) for _ in range(size)]},
        "bills": {"bill": keys("b", 12), "stay": keys("s", 11)},
        "lines": {"bill": keys("b", 13), "cost": [chosen.randrange(9) for _ in range(size)]},
    }


def without(tables, person):
    """The tables without a person: their stays, the bills that join to a row that is gone, and the lines of these."""
    gone, result = None, {}
    for name, key in (("stays", "person"), ("bills", "stay"), ("lines", "bill")):
        columns = tables[name]
        lost = [value == person if gone is None else value is not None and value in gone for value in columns[key]]
        result[name] = {c: [v for v, out in zip(vs, lost, strict=True) if not out] for c, vs in columns.items()}
        own = {"stays": "stay", "bills": "bill", "lines": "cost"}[name]
        gone = {value for value, out in zip(columns[own], lost, strict=True) if out}
    return result


def joined(tables):
    """The joined rows of everybody, and how often each occurs."""
    types = {"stays": ("stay", "person"), "bills": ("bill", "stay"), "lines": ("bill", "cost")}
    arrow = {
        name: pa.table({c: pa.array(tables[name][c], pa.int64() if c == "cost" else pa.string()) for c in columns})
        for name, columns in types.items()
    }
    data = Dataset(arrow["stays"], "person").join(arrow["bills"], on="stay").join(arrow["lines"], on="bill")
    rows = rows_of(data.table, "person", "stay", "bill", "cost").to_pylist()
    return Counter(tuple(row.values()) for row in rows if row["person"] is not None)


def check_independence(seeds):
    for seed in seeds:
        tables = made(seed)
        everybody = joined(tables)
        for person in PEOPLE:
            others = Counter({row: n for row, n in everybody.items() if row[0] != person})
            assert joined(without(tables, person)) == others, (seed, person)


def test_a_person_changes_no_rows_of_others():
    check_independence(range(25))


@pytest.mark.parametrize("mutant", ["all", "first"])
def test_a_join_that_keeps_ambiguous_keys_is_found(monkeypatch, mutant):
    limit = 100 if mutant == "all" else 2
    monkeypatch.setattr(joins, "_is_single", lambda counted: counted[joins._KEY_ROWS] <= limit)
    with pytest.raises(AssertionError):
        check_independence(range(25))


STAYS = pa.table({"stay": ["1", "2", "3", "3", None, "5"], "person": ["a", "a", "b", "c", "d", None],
                  "ward": ["x", "y", "x", "x", "x", "y"]})  # fmt: skip
BILLS = pa.table({"stay": ["1", "1", "2", "3", "9", None, "5"], "cost": [1, 2, 3, 4, 5, 6, 7]})


def test_the_sums_of_joined_rows(engine):
    """Bills of a stay of two persons, of no stay and of nobody's stay count for nobody."""
    data = Dataset(engine.store(STAYS), "person").join(engine.store(BILLS), on="stay")
    query = data.group_by("ward", max_rows=5).count().sum("cost", bounds=(0, 9))
    [count, total] = [aggregate.measure for aggregate in query.aggregates]
    assert sums(query, [count, total]) == {("x",): [[2], [3]], ("y",): [[1], [3]]}
    assert "joined_rows" in query.sql()
    query.check_release(query.plan(1, 1e-6))  # rehearsed


def test_the_unit_in_both_tables(engine):
    """A row is joined to rows of its own person alone, and keeps its place where it is joined to none."""
    people = pa.table({"person": ["a", "b", "b"], "sex": ["f", "m", "f"]})
    visits = pa.table({"person": ["a", "a", "b", "c"], "cost": [1, 2, 3, 4]})
    data = Dataset(engine.store(people), "person").join(engine.store(visits), on="person")
    found = sorted(tuple(row.values()) for row in rows_of(data.table, "person", "cost").to_pylist())
    assert found == [("a", 1), ("a", 2), ("b", 3), ("c", 4)]
    sexes = {row["cost"]: row["sex"] for row in rows_of(data.table, "cost", "sex").to_pylist()}
    assert sexes == {1: "f", 2: "f", 3: None, 4: None}


def test_another_persons_row_is_never_joined():
    stays = pa.table({"stay": [1, 2], "person": ["a", "b"], "ward": ["x", "y"]})
    visits = pa.table({"stay": [1, 2, 2], "person": ["a", "a", "b"], "cost": [1, 2, 3]})
    data = Dataset(stays, "person").join(visits, on="stay")
    assert sorted(map(str, rows_of(data.table, "ward")["ward"].to_pylist())) == ["None", "x", "y"]


def test_files_and_the_question_in_sql(tmp_path):
    (tmp_path / "patients.csv").write_text("patient,sex\n1,f\n2,m\n")
    (tmp_path / "visits.csv").write_text("patient;cost\n1;10\n1;5\n2;7\n3;1\n")
    data = Dataset(tmp_path / "patients.csv", "patient")
    joined_data = data.join(tmp_path / "visits.csv", on="patient", types={"cost": "int64"}, delimiter=";")
    query = joined_data.sql("SELECT sex, COUNT(*) FROM visits WHERE cost > 5 GROUP BY sex", max_rows=3)
    assert sums(query, [Rows()]) == {("f",): [[1]], ("m",): [[1]]}
    assert joined_data.identity["name"] == "visits"
    assert joined_data.identity["schema"] not in (data.identity["schema"], Dataset(STAYS, "person").identity["schema"])
    assert {str(tmp_path / name) for name in ("patients.csv", "visits.csv")} <= set(joined_data.files)
    data.close()


@pytest.mark.parametrize(
    ("one", "many", "options", "message"),
    [
        ({}, {"town": ["x"]}, {"on": "stay"}, "on: there is no column 'stay'"),
        ({}, {"stay": [1]}, {"on": "stay"}, "must be of one type in both tables"),
        ({}, {"stay": ["1"], "WARD": ["x"]}, {"on": "stay"}, "both tables have a column 'WARD'"),
        ({}, {"stay": ["1"]}, {"on": []}, "on must name"),
        ({"ward": [1.5] * 6}, {"ward": [1.5]}, {"on": "ward"}, "cannot be a key"),
    ],
)
def test_what_is_refused(one, many, options, message):
    stays = STAYS if not one else pa.table({"person": STAYS["person"], **one})
    with pytest.raises((ValueError, TypeError), match=message):
        Dataset(stays, "person").join(pa.table(many), **options)


def test_what_cannot_be_joined_to():
    with pytest.raises(ValueError, match="before derive, parts and where"):
        Dataset(STAYS, "person").where("ward = 'x'").join(BILLS, on="stay")
    with pytest.raises(ValueError, match="names the privacy unit"):
        Dataset(STAYS, "row").join(BILLS, on="stay")
