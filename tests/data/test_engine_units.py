"""Units that are rows, and units that several columns name together: exact sums and sensitivity on every engine."""

import pyarrow as pa
import pytest
from test_engine_sensitivity import beyond_part

import made_tables
import plain_tables
from engines import ROW, steps, sums
from osgt import Dataset
from osgt.query.groups import Groups
from osgt.query.measures import Rows, Units

BY = ("town", "number")

#: Pairs that would be one if their texts were joined, and rows in which a part of the name is missing.
NAMES = [("a", "bc"), ("ab", "c"), ("", "abc"), ("abc", ""), ("a", None), (None, "a"), (None, None), ("A", "bc"),
         ("a,b", "c"), ("a", "b,c"), ('a"', '"c'), ("a\\", "bc")]  # fmt: skip


def of_rows(rows):
    """The rows without the column that the tests put in order by, whose name is that of a unit."""
    return made_tables.table_of(rows).rename_columns(
        [{ROW: "place"}.get(name, name) for name in made_tables.SCHEMA.names]
    )


def row_sums(engine, rows, **keys):
    dataset = Dataset(engine.store(of_rows(rows)), "row")
    query = dataset.group_by(*BY, **keys)
    measures = made_tables.made_measures(dataset)
    return query, measures, steps(query, measures)


def test_every_row_is_a_unit(engine):
    """Each row counts once, whoever it is about, also those of nobody."""
    rng = made_tables.same_every_time(21)
    rows = made_tables.made_rows(rng, people=20)
    _, measures, found = row_sums(engine, rows)
    groups = plain_tables.by_group([row | {"each": i} for i, row in enumerate(rows)], BY)
    assert plain_tables.differences(found, plain_tables.row_sums(groups, "each", measures), measures) == []
    assert sum(numbers[0][0] for numbers in found.values()) == len(rows)


@pytest.mark.parametrize("tried", [1, pytest.param(3, marks=pytest.mark.long)])
def test_one_row_moves_no_more_than_its_part(engine, tried):
    rng = made_tables.same_every_time(22)
    rows = made_tables.made_rows(rng, people=8)
    keys = {"public_keys": sorted({(row["town"], row["number"]) for row in rows}, key=str)[::2]}
    for given in ({}, keys)[: 1 if engine.slow else 2]:
        query, measures, whole = row_sums(engine, rows, **given)
        assert query.groups.max_groups_per_unit == 1
        for at in rng.sample(range(len(rows)), 1 if engine.slow else tried):
            *_, less = row_sums(engine, rows[:at] + rows[at + 1 :], **given)
            *_, other = row_sums(engine, [*rows[:at], made_tables.made_row(rng, "x", 0), *rows[at + 1 :]], **given)
            assert beyond_part(whole, less, query.groups, measures, "add_remove") == []
            assert beyond_part(whole, other, query.groups, measures, "change_one") == []


def test_a_row_is_in_one_group_also_where_two_public_keys_are_one_to_the_engine():
    """The text of a UUID may have large and small letters."""
    import duckdb  # noqa: PLC0415

    connection = duckdb.connect()
    name = "00000000-0000-0000-0000-00000000000a"
    connection.execute(f"CREATE TABLE people AS SELECT '{name}'::UUID AS key, 1 AS v")
    query = Dataset(connection, "row", table="people").group_by("key", public_keys=[name, name.upper()])
    assert sums(query, [Rows()]) == {(0,): [[1]]}


def named_rows(seed, people=NAMES):
    rng = made_tables.same_every_time(seed)
    rows = []
    for household, person in people:
        for _ in range(rng.choice([1, 3, 6])):
            row = {"household": household, "person": person, ROW: len(rows), "town": rng.choice("xyz")}
            rows.append(row)
    rng.shuffle(rows)
    return rows


def table_of(rows):
    fields = [("household", pa.string()), ("person", pa.string()), (ROW, pa.int64()), ("town", pa.string())]
    return pa.Table.from_pylist(rows, schema=pa.schema(fields))


def pairs(rows):
    """The unit of each row, as the documentation has it: none if a part is missing."""
    return [
        row | {"unit": None if None in (row["household"], row["person"]) else (row["household"], row["person"])}
        for row in rows
    ]


@pytest.mark.parametrize("max_rows", [1, 2])
def test_units_of_two_columns(engine, max_rows):
    rows = named_rows(31)
    dataset = Dataset(engine.store(table_of(rows)), ["household", "person"])
    measures = [Units(), Rows()]
    found = steps(dataset.group_by("town", max_rows=max_rows, public_keys=["x", "y", "z"]), measures)
    limits = plain_tables.Limits(max_rows=max_rows, public=(("x",), ("y",), ("z",)))
    expected = plain_tables.weighted_sums(pairs(rows), "unit", ("town",), limits, measures)
    expected = {(limits.public.index(key),): numbers for key, numbers in expected.items()}
    assert plain_tables.differences(found, expected, measures) == []


def test_one_unit_of_two_columns_moves_no_more_than_its_part(engine):
    rows = named_rows(32)
    groups = Groups(("town",), max_rows=2)
    measures = [Units(), Rows()]

    def answer(rows):
        dataset = Dataset(engine.store(table_of(rows)), ["person", "household"])
        return steps(dataset.group_by("town", max_rows=2), measures, salt=3)

    whole = answer(rows)
    for unit in NAMES[: 1 if engine.slow else 4]:
        less = answer([row for row in rows if (row["household"], row["person"]) != unit])
        assert beyond_part(whole, less, groups, measures, "add_remove") == []
        assert whole != less


def test_units_of_a_number_and_a_date(engine):
    import datetime  # noqa: PLC0415

    days = [datetime.date(2020, 1, day) for day in (1, 1, 2, 2, 2)]
    table = pa.table({"house": [1, 1, 1, 2, None], "born": days, ROW: range(5), "town": ["x"] * 5})
    dataset = Dataset(engine.store(table), ["house", "born"])
    assert sums(dataset.group_by(max_rows_per_group=9), [Units(), Rows()]) == {(): [[3], [4]]}


def test_the_rest_of_a_query_knows_such_units(engine):
    """Preview, what was left out, and the release itself."""
    rows = named_rows(33) * 3
    named = Dataset(engine.store(table_of(rows)), ["household", "person"])
    query = named.group_by("town", max_groups=2, max_rows_per_group=1, public_keys=["x", "y", "z"]).count()
    each = Dataset(engine.store(table_of(rows).rename_columns(["household", "person", "place", "town"])), "row")
    survey = each.group_by("town", public_keys=["x", "y", "z"]).count().sum("place", bounds=(0, 50))
    if engine.slow:
        assert len(query.release(epsilon=50, delta=1e-6)) == 3
        return
    for asked, units in ((query, len({row["unit"] for row in pairs(rows)} - {None})), (survey, len(rows))):
        preview = asked.preview()
        assert preview.units == units
        assert preview.rows["in_the_table"] - preview.rows["without_a_unit"] == sum(
            asked is survey or row["unit"] is not None for row in pairs(rows)
        )
        release = asked.release(epsilon=50, delta=1e-6)
        assert len(release) == 3
    assert sum(survey.release(50, 1e-6).to_arrow()["count"].to_pylist()) == pytest.approx(len(rows), abs=5)


def test_numbers_that_are_equal_are_one_unit_on_postgres(engine_of):
    """Numbers without a scale keep the zeros that were written."""
    engine = engine_of("postgres")
    data = engine.made({"person": "text", "house": "numeric"}, "('a', 1.0), ('a', 1.00), ('a', 1), ('a', 'NaN')")
    query = Dataset(data.table, ["person", "house"]).group_by(max_rows_per_group=9)
    assert sums(query, [Units(), Rows()]) == {(): [[2], [4]]}
