"""Parts of the people on every engine: who is in several counts in the first alone, and nobody moves another part."""

import random
from dataclasses import replace

import pyarrow as pa
import pytest

from engines import rows_of
from osgt import Dataset, Ledger, Publication
from osgt.data import parts as module
from osgt.ledger import OtherSubjectError
from osgt.release.measuring import exact_numbers, prepare
from osgt.support.errors import ArgumentError

PARTS = {"north": "region = 'n'", "south": "region IN ('s', 'n')", "late": "day >= 20"}
PEOPLE = ["a", "b", "c", "d", "e", None]


def made(seed, size=40):
    chosen = random.Random(seed)
    rows = [
        (chosen.choice(PEOPLE), chosen.choice(["n", "s", "w", None]), chosen.randrange(30), chosen.choice(["x", "y"]))
        for _ in range(size)
    ]
    schema = pa.schema([("person", pa.string()), ("region", pa.string()), ("day", pa.int64()), ("ward", pa.string())])
    return pa.table([list(column) for column in zip(*rows, strict=True)], schema=schema)


def place(row):
    """The part of a row, by Python alone."""
    if row["region"] == "n":
        return "north"
    if row["region"] == "s":
        return "south"
    return "late" if row["day"] >= 20 else None


def expected(table, part, most):
    """The rows of a part, by Python alone."""
    rows = [row for row in table.to_pylist() if row["person"] is not None]
    order = list(PARTS)
    own = {}
    for row in rows:
        if place(row) is not None:
            own.setdefault(row["person"], set()).add(order.index(place(row)))
    counting = {person: {order[i] for i in sorted(places)[:most]} for person, places in own.items()}
    return [row for row in rows if place(row) == part and part in counting[row["person"]]]


def in_order(rows):
    return sorted(tuple(map(str, row.values())) for row in rows)


@pytest.mark.parametrize("most", [1, 2])
def test_a_part_has_the_rows_that_the_rule_says(engine, most):
    for seed in range(2):
        table = made(seed)
        data = engine.put(table, "person")
        counted = {}
        for name, part in data.parts(PARTS, max_parts=most).items():
            rows = rows_of(part.table, *table.column_names).to_pylist()
            assert in_order(rows) == in_order(expected(table, name, most))
            for row in rows:
                counted.setdefault(row["person"], set()).add(name)
        assert max(map(len, counted.values())) == most


def numbers(data, name):
    """All that is measured of a part: sums, and what limits cut off."""
    query = (
        data.parts(PARTS)[name]
        .derive(week="day / 7 > 1")
        .where("ward = 'x'")
        .group_by("week", public_keys=[True, False], max_rows=2)
        .count()
        .count_units()
        .sum("day", max_total=30)
    )
    plan = query.plan(epsilon=1, delta=1e-6)
    exact = exact_numbers(query, plan, prepare(query, plan, salt=1))
    return [array.tolist() for array in (*exact.numbers.values(), *exact.left_out.values())]


def test_one_person_changes_the_numbers_of_one_part_alone(engine):
    """The theorem rests on this: without a person, all that is measured of other parts is the same."""
    moved = 0
    for seed in range(1):
        table = made(seed)
        everybody = {name: numbers(engine.put(table, "person"), name) for name in PARTS}
        for person in PEOPLE[:2]:
            rest = table.filter(pa.array([value != person for value in table["person"].to_pylist()]))
            fewer = engine.put(rest, "person")
            changed = [name for name in PARTS if numbers(fewer, name) != everybody[name]]
            assert len(changed) <= 1
            moved += len(changed)
    assert moved > 0


def people_by_part(table):
    parts = Dataset(table, privacy_unit="person").parts(PARTS)
    return [set(rows_of(part.table, "person")["person"].to_pylist()) for part in parts.values()]


def test_a_weaker_rule_lets_a_person_into_two_parts(monkeypatch):
    """The power of the tests above: a rule that looks at the rows of a unit in one region alone."""
    north, south, _ = people_by_part(made(1))
    assert north
    assert not north & south

    def weaker(table, unit, part):
        return module.rows_of_part(table, replace(unit, columns=("person", "region")), part)

    monkeypatch.setattr("osgt.data.rows.rows_of_part", weaker)
    north, south, _ = people_by_part(made(1))
    assert north & south


def test_rows_that_are_their_own_units(engine):
    table = made(2).drop_columns("person")
    data = engine.put(table, "row")
    found = {name: rows_of(part.table, "region", "day").num_rows for name, part in data.parts(PARTS).items()}
    rows = table.to_pylist()
    assert found == {name: sum(place(row) == name for row in rows) for name in PARTS}


def test_values_that_do_not_fit_are_not_counted_beside(tmp_path):
    """They would be counted among all rows, whatever their part."""
    path = tmp_path / "visits.csv"
    path.write_text("person,region,cost\na,n,1\na,n,x\nb,s,y\n")
    data = Dataset(path, privacy_unit="person", types={"cost": "int64"})
    parts = {"north": "region = 'n'", "south": "region = 's'"}

    def measured(rows):
        query = rows.group_by(max_rows=2).sum("cost", max_total=5)
        left_out = query.plan(epsilon=1, delta=1e-6).left_out
        return left_out is not None and bool(left_out.misfits)

    assert measured(data)
    assert not measured(data.parts(parts)["north"])


class TestRefused:
    def test_conditions_that_other_releases_could_mean_otherwise(self):
        data = Dataset(made(0), privacy_unit="person").derive(old="day > 3")
        with pytest.raises(ArgumentError, match="old"):
            data.parts({"a": "old", "b": "region = 'n'"})

    def test_conditions_that_look_at_other_rows(self):
        data = Dataset(made(0), privacy_unit="person")
        with pytest.raises(ArgumentError, match="one row alone"):
            data.parts({"a": "day > (SELECT avg(day) FROM t)", "b": "region = 'n'"})

    def test_rows_that_were_left_out_before(self):
        data = Dataset(made(0), privacy_unit="person")
        with pytest.raises(ValueError, match="parts comes before where"):
            data.where("day > 3").parts(PARTS)
        with pytest.raises(ValueError, match="parts comes before where"):
            data.parts(PARTS)["north"].parts(PARTS)
        with pytest.raises(ValueError, match="before derive, parts and where"):
            data.parts(PARTS)["north"].join(made(1), on="ward")

    def test_one_publication_about_two_parts(self):
        parts = Dataset(made(0), privacy_unit="person").parts(PARTS)
        tables = {name: parts[name].group_by(max_rows=3).count() for name in ("north", "south")}
        with pytest.raises(ValueError, match="same people"):
            Publication(tables)

    @pytest.mark.parametrize("parts", [{"a": "day > 3"}, ["a"], {"": "day > 3", "b": "day < 3"}])
    def test_what_are_no_parts(self, parts):
        with pytest.raises(ArgumentError, match="parts"):
            Dataset(made(0), privacy_unit="person").parts(parts)


def test_releases_about_parts_are_charged_as_one(tmp_path):
    with Ledger(tmp_path / "budget.db") as ledger:
        ledger.open("health", epsilon=1, delta=1e-6, unit="person", parts=PARTS)
        data = Dataset(made(0), privacy_unit="person", ledger=ledger, dataset="health")
        for name, part in data.parts(PARTS).items():
            query = part.group_by(max_rows=3).count()
            assert ledger.remaining("health", query=query, delta=1e-8) > 0.9
            release = query.release(epsilon=0.9, delta=1e-8)
            assert f"about the part {name!r} of the people" in str(release.statement)
            assert release.statement.to_dict()["query"]["data"]["part"] == name
            assert ledger.remaining("health", query=query, delta=1e-8) < 0.2
        assert ledger.spent("health").epsilon == pytest.approx(0.9, rel=1e-3)
        other = data.parts({**PARTS, "north": "region <> 'n'"})["north"].group_by(max_rows=3).count()
        with pytest.raises(OtherSubjectError, match="tells its parts apart"):
            other.release(epsilon=0.01, delta=1e-9)
        assert ledger.verify().ok
