"""Replay: honest queries pass whatever they ask for; every planted fault is found. Nothing here is left to chance."""

import dataclasses
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from replays import (
    AGAIN,
    AS_MANY,
    LOWER,
    NOBODY,
    ONE_MORE,
    REAL,
    RIDES,
    STRANGE,
    UPPER,
    compared,
    found,
    furthest,
    rides,
)
from typer.testing import CliRunner

from engines import rows_of
from osgt import Dataset, audit
from osgt.auditing.replay import beyond, compute_moves, pieces, replay, together
from osgt.auditing.stage import ReleasePlay, Stage, numbered, strange
from osgt.calibration import Part
from osgt.cli import app
from osgt.data.engines import engine_named
from osgt.data.engines.duckdb import DuckDB
from osgt.data.unit import PrivacyUnit
from osgt.limits import contribution
from osgt.limits.contribution import UNIT, UNIT_ROWS
from osgt.query import measures
from osgt.query.groups import STEPS, Level, Total
from osgt.release import measuring


def chosen(**options):
    query = rides(**options).group_by("city", "month", max_groups=2, max_rows_per_group=2)
    return query.count().sum("fare", bounds=(0, 10))


def in_all(**options):
    query = rides(**options).group_by("city", max_rows=5, public_keys=["Bern", "Rome", "x", "y", "z"])
    return query.count().sum("fare", max_total=10)


def of_length():
    return rides().group_by("city", max_length=3, public_keys=["Bern", "Rome", "x"]).count()


def units():
    return rides().group_by("city", max_groups=2, public_keys=["Bern", "Rome", "x"]).count_units()


def public():
    return rides().group_by("city", max_groups=2, max_rows_per_group=2, public_keys=["Bern", "Rome", "x"])


def alone():
    return rides().where("month > 1").group_by(max_rows_per_group=2)


def each_row():
    return Dataset(RIDES, "row").group_by("city").count().sum("fare", bounds=(0, 10))


def of_two_columns():
    return Dataset(RIDES, ["user", "month"]).group_by("city", max_groups=1, max_rows_per_group=1).count()


QUERIES = {
    "every row a unit": each_row,
    "a unit of two columns": of_two_columns,
    "chosen groups": chosen,
    "exchange": lambda: chosen(neighbours="change_one").histogram("tip", edges=[0, 2, 5]),
    "public groups": lambda: public().count().count_units().mean("tip", bounds=(0, 5)),
    "rows in all": in_all,
    "rows in all, exchange": lambda: in_all(neighbours="change_one"),
    "rows in all, chosen groups": lambda: rides().group_by("city", "month", max_rows=3).count(),
    "length": of_length,
    "units": units,
    "one group": lambda: alone().count().variance("fare", bounds=(-1, 3)),
}


@pytest.mark.parametrize("name", QUERIES)
def test_honest_queries_pass(name):
    query = QUERIES[name]()
    made = compared(query, real=True, pairs=(UPPER, AS_MANY, ONE_MORE, STRANGE, NOBODY, "a unit exchanged", REAL))
    assert found(made) == ""
    # The limits are reached: the tables are such that a fault could be seen.
    assert all(share >= 0.5 for share in furthest(made).values()), furthest(made)


def test_a_whole_replay():
    query = chosen()
    check = replay(Stage(query), ReleasePlay(query.plan(1, 1e-6)), seconds=2)
    assert check.passed, str(check)
    assert check.false_alarm == 0
    assert check.details["real_rows"] > 0
    assert "nothing else differed" in check.words


def all_steps(of):
    return of.engine.whole(STEPS)


def the_larger(number, limit):
    return number.at_least(limit)


def with_totals_by(
    monkeypatch, total=the_larger, worth=lambda most, limit: contribution.quotient(all_steps(most), most)
):
    """Plant how the totals of a unit follow from what they are and their limits, or from its rows what one is worth."""

    def planted(rows, totals):
        numbers = {name: of(rows, [rows[UNIT]]) for name, (of, _) in totals.items()}
        added = {name: total(number, totals[name][1]) for name, number in numbers.items()}
        rows = rows.select("planted", "Planted.", added, keeps_all=True)
        if UNIT_ROWS not in totals:
            return rows
        added = {"worth": worth(rows[UNIT_ROWS], totals[UNIT_ROWS][1])}
        return rows.select("planted", "Planted.", added, keeps_all=True)

    monkeypatch.setattr(measuring, "with_unit_totals", planted)


def the_smaller_of_number_and_limit(monkeypatch):
    with_totals_by(monkeypatch, total=lambda number, limit: number.at_most(limit))


def limited_one_row_too_late(monkeypatch):
    with_totals_by(monkeypatch, total=lambda number, limit: (number > limit + 1).then(number, limit))


def worth_rounded_up(monkeypatch):
    with_totals_by(monkeypatch, worth=lambda most, limit: contribution.quotient(most + (STEPS - 1), most))


def one_step_more_of_heavy_units(monkeypatch):
    with_totals_by(
        monkeypatch, worth=lambda most, limit: contribution.quotient(all_steps(most), most) + (most > limit).then(1, 0)
    )


def worth_of_a_smaller_limit(monkeypatch):
    with_totals_by(
        monkeypatch,
        worth=lambda most, limit: contribution.quotient(all_steps(most), (most > limit).then(most, limit - 1)),
    )


def rounded_away_from_zero(monkeypatch):
    """Values below 0 are rounded down, as `//` does in Python."""
    honest = contribution._steps

    def planted(measure, number, ranked, groups, values):
        if measure.own_limit is None:
            return honest(measure, number, ranked, groups, values)
        steps, of = number.abs() * STEPS, ranked.rows[f"total_{values[measure]}"]
        up, down = (contribution.quotient(numerator, of) for numerator in (steps + of - 1, steps))
        return (number < 0).then(0 - up, down)

    monkeypatch.setattr(contribution, "_steps", planted)


def worth_rounded_up_in_a_group(monkeypatch):
    honest = contribution.quotient
    monkeypatch.setattr(contribution, "quotient", lambda steps, rows: honest(steps + rows - 1, rows))


def root_too_large(monkeypatch):
    honest = contribution._worth_of_length
    monkeypatch.setattr(contribution, "_worth_of_length", lambda square: honest(square) + 1)


def unclipped(monkeypatch):
    def planted(self, rows, place):
        column = rows[self.column]
        near = column.or_else(0).at_least(-100).at_most(100)
        return [column.not_null().then(self._of((near * 2.0**17).cast(column.engine.int64)), 0)]

    monkeypatch.setattr(measures.ClippedSum, "contributions", planted)


def limits_one_larger(monkeypatch, *names):
    """Plant limits that are larger than what was planned, all of them or some."""
    honest = contribution.weighted_sums

    def planted(rows, keys, values, measured, groups, **options):
        larger = {name: limit + 1 for name, limit in groups.limits.items() if not names or name in names}
        return honest(rows, keys, values, measured, dataclasses.replace(groups, **larger), **options)

    monkeypatch.setattr(measuring, "weighted_sums", planted)


def one_group_too_many(monkeypatch):
    limits_one_larger(monkeypatch, "max_groups")


def counts_rows_of_nobody(monkeypatch):
    monkeypatch.setattr(PrivacyUnit, "named", lambda unit, table: [])


def fails_for_many_rows(monkeypatch):
    honest = DuckDB.fetch

    def planted(self, connection, sql, schema):
        found = honest(self, connection, sql, schema)
        if found.num_rows > 4:
            raise MemoryError("too many groups")
        return found

    monkeypatch.setattr(DuckDB, "fetch", planted)


def number_of_rows(query):
    return rows_of(query.dataset.table).num_rows


def type_follows_values(monkeypatch):
    honest = measuring.shown_keys

    def planted(query, keys):
        found = honest(query, keys)
        columns = [column.cast(pa.large_string()) if pa.types.is_string(column.type) else column for column in found]
        return pa.table(columns, names=found.column_names) if number_of_rows(query) > 40 else found

    monkeypatch.setattr(measuring, "shown_keys", planted)


def salt_follows_rows(monkeypatch):
    """The query text depends on the data: here, on how many rows there are."""
    honest = measuring.exact_sums

    def planted(query, measured, salt, *others):
        return honest(query, measured, salt + number_of_rows(query) % 7, *others)

    monkeypatch.setattr(measuring, "exact_sums", planted)


FAULTS = {
    limits_one_larger: (chosen, UPPER, ("groups moved, at most 2 may", "moved in 3 places")),
    one_group_too_many: (units, UPPER, ("units moved in 3 places", "3 groups moved, at most 2 may")),
    the_smaller_of_number_and_limit: (in_all, UPPER, ("rows moved", "sum of fare")),
    limited_one_row_too_late: (in_all, ONE_MORE, ("rows moved in 1 places",)),
    worth_of_a_smaller_limit: (in_all, AS_MANY, ("rows moved in 1 places",)),
    worth_rounded_up: (
        in_all,
        ONE_MORE,
        ("rows moved in 1 places by up to 1,073,741,826", "1 places and 1,073,741,824"),
    ),
    one_step_more_of_heavy_units: (in_all, ONE_MORE, ("rows moved in 1 places",)),
    rounded_away_from_zero: (
        in_all,
        (LOWER, AGAIN),
        ("sum of fare", "the noise is made for 1 places and 1,073,741,824"),
    ),
    worth_rounded_up_in_a_group: (chosen, ONE_MORE, ("rows moved in 1 places by up to 1,073,741,826",)),
    root_too_large: (of_length, UPPER, ("rows moved in 1 places",)),
    unclipped: (chosen, UPPER, ("sum of fare", "the noise is made for")),
    counts_rows_of_nobody: (chosen, NOBODY, ("rows of nobody: rows moved",)),
    fails_for_many_rows: (chosen, STRANGE, ("an error: MemoryError: too many groups",)),
    type_follows_values: (chosen, STRANGE, ("columns and types differs",)),
    salt_follows_rows: (chosen, UPPER, ("SQL text differs",)),
}


@pytest.mark.parametrize("plant", FAULTS, ids=lambda plant: plant.__name__)
def test_planted_faults_are_found(plant, monkeypatch):
    make, pairs, expected = FAULTS[plant]
    query = make()
    assert found(compared(query, pairs=pairs)) == ""
    plant(monkeypatch)
    seen = found(compared(query, pairs=pairs))
    for words in expected:
        assert words in seen


def test_a_larger_limit_on_rows_shows_more_groups_alone(monkeypatch):
    """Whatever the limit, a unit has as many steps; of groups that are chosen by their size it is in more."""
    by_size = rides().group_by("city", "month", max_rows=3).count()
    limits_one_larger(monkeypatch, "max_rows")
    assert found(compared(in_all(), pairs=(UPPER, AS_MANY, ONE_MORE))) == ""
    assert "4 groups moved, at most 3 may" in found(compared(by_size, pairs=(UPPER,)))


@pytest.mark.usefixtures("without_checker")
def test_noise_for_half_the_coordinates_is_found():
    query = chosen()
    plan = query.plan(1, 1e-6, measure_left_out=False)
    halved = {measure: dataclasses.replace(part, coordinates=1) for measure, part in plan.parts.items()}
    wrong = dataclasses.replace(plan, noise=dataclasses.replace(plan.noise, parts=halved))
    assert "moved in 2 places" in found(compared(query, ReleasePlay(wrong), pairs=(UPPER,)))


def with_totals(**options):
    keys = {"city": ["Bern", "Rome"], "month": [1, 2, 3]}
    grouped = rides(**options).group_by(
        "city", "month", max_groups=1, max_rows_per_group=1, public_keys=keys, totals="cube"
    )
    return grouped.count()


@pytest.mark.parametrize("relation", ["add_remove", "change_one"])
def test_every_total_of_a_level_is_compared(relation, monkeypatch):
    """Honest totals pass; totals of which all but the first of a level move too far are found."""
    query = with_totals(neighbours=relation)
    plan = query.plan(1, 1e-6, measure_left_out=False)
    assert any(isinstance(measure, Total) and measure.level.by for measure in plan.parts)
    pairs = (UPPER, REAL)
    assert found(compared(query, ReleasePlay(plan), pairs=pairs, real=True)) == ""
    summed = Level.summed
    factor = np.array([[1], [3], [3]])
    monkeypatch.setattr(Level, "summed", lambda self, numbers: summed(self, numbers) * factor[: self.size])
    assert found(compared(query, ReleasePlay(plan), pairs=pairs, real=True)) != ""


@pytest.mark.usefixtures("without_checker")
def test_what_is_left_out_is_played_too():
    query = chosen()
    plan = query.plan(1, 1e-6, measure_left_out=True)
    law, part = plan.noise.extra_noise["rows"]
    less = {**plan.noise.extra_noise, "rows": (law, dataclasses.replace(part, shift=part.shift // 2))}
    wrong = dataclasses.replace(plan, noise=dataclasses.replace(plan.noise, extra_noise=less))
    assert found(compared(query, ReleasePlay(plan), pairs=(UPPER,))) == ""
    assert "what is left out (rows) moved" in found(compared(query, ReleasePlay(wrong), pairs=(UPPER,)))


def test_moves():
    before = {"a": np.array([2**62, 0]), "b": np.array([1, 1])}
    after = {"a": np.array([-(2**62), 0]), "b": np.array([1, 1]), "c": np.array([1, -2])}
    steps = compute_moves(before, after)
    assert steps == {"a": [-(2**63), 0], "c": [1, -2]}
    assert pieces(steps, exchanged=False) == [2**63, 3]
    assert pieces(steps, exchanged=True) == [2**63, 2, 1]
    assert together({"a": [3, 0], "b": [-4]}, 1) == {(): [3, 0, -4]}
    assert together({"a": [3, 0], "b": [-4]}, 2) == {(): [5]}
    assert together({"a": [3, 1], "b": [-4]}, 2) == {(): [6]}
    assert together({}, 2) == {}
    assert beyond([3, 2], Part(3, 2), exchanged=False) is None
    assert beyond([3, 2, 1], Part(3, 2), exchanged=False) is not None
    assert beyond([4], Part(3, 2), exchanged=False) is not None
    assert beyond([3, 2, 1], Part(3, 1, also=((2, 1), (1, 1))), exchanged=False) is None
    assert beyond([3, 2, 2], Part(3, 1, also=((2, 1), (1, 1))), exchanged=False) is not None
    # An exchange: two moves by one shift share a coordinate that may move by two.
    assert beyond([2, 1, 1], Part(2, 2), exchanged=True) is None
    assert beyond([2, 1, 1, 1], Part(2, 2), exchanged=True) is not None
    assert beyond([1], None, exchanged=False) is not None
    assert beyond([], None, exchanged=False) is None


def test_made_values_are_of_their_type():
    """Every engine must read them; here DuckDB."""
    engine = engine_named("duckdb")
    connection = engine.connect()
    for name in ("TINYINT", "USMALLINT", "BIGINT", "DOUBLE", "DECIMAL(5, 2)", "DECIMAL(38, 0)", "BOOLEAN", "VARCHAR",
                 "DATE", "TIMESTAMP", "TIMESTAMPTZ", "UUID"):  # fmt: skip
        [(_, dtype)] = engine.describe(connection, f"SELECT CAST(NULL AS {name}) AS x")
        texts = [*strange(dtype), *(numbered(dtype, i) for i in range(3))]
        made = engine.small_table(connection, pa.table({"x": pa.array(texts, pa.string())}))
        values = rows_of(made.select("typed", "Typed.", {"x": made["x"].cast(dtype)}))["x"]
        assert values.null_count == texts.count(None), dtype


def test_what_cannot_be_audited():
    with pytest.raises(ValueError, match="epsilon and delta"):
        audit(chosen())
    with pytest.raises(ValueError, match="must ask for something"):
        audit(rides().group_by("city"), 1, 1e-6)
    with pytest.raises(ValueError, match="epsilon must be"):
        audit(chosen(), -1, 1e-6)


ARGUMENTS = ["--unit", "user", "--by", "city", "--max-groups", "1", "--count-units", "--delta", "1e-6"]


class TestCommand:
    @pytest.fixture
    def run(self, monkeypatch, tmp_path):
        pq.write_table(RIDES, tmp_path / "rides.parquet")
        monkeypatch.setenv("COLUMNS", "200")
        monkeypatch.setenv("NO_COLOR", "1")
        return lambda *more: CliRunner().invoke(app, ["audit", str(tmp_path / "rides.parquet"), *ARGUMENTS, *more])

    def test_passes(self, run):
        result = run("--epsilon", "1", "--json", "--minutes", "0.01")
        assert result.exit_code == 0, result.output
        answer = json.loads(result.stdout)
        assert answer["passed"]
        assert answer["checks"][0]["real_rows"] == 8 - 1

    def test_fails(self, run, monkeypatch):
        one_group_too_many(monkeypatch)
        result = run("--epsilon", "1", "--made-rows", "--minutes", "0.01")
        assert result.exit_code == 1
        assert "FAILED" in result.stdout
        assert "groups moved, at most 1 may" in result.stdout

    def test_noise_alone(self, tmp_path):
        page = tmp_path / "audit.html"
        options = ["--epsilon", "1", "--delta", "1e-6", "--coordinates", "50", "--minutes", "0.01", "--report"]
        result = CliRunner().invoke(app, ["audit", *options, str(page)])
        assert result.exit_code == 0, result.output
        assert "Page:" in result.stdout
        assert "</html>" in page.read_text()

    def test_refuses(self, run):
        result = run()
        assert result.exit_code == 2
        assert "--epsilon must be given" in result.stderr
