"""Replay: honest queries pass whatever they ask for; every planted fault is found. Nothing here is left to chance."""

import dataclasses
import json

import ibis
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from replays import NOBODY, REAL, RIDES, STRANGE, UPPER, compared, found, furthest, rides
from typer.testing import CliRunner

from osgt import Dataset, audit
from osgt.auditing.made_rows import numbered, strange
from osgt.auditing.replay import beyond, compute_moves, pieces, replay
from osgt.auditing.stage import ReleasePlay, Stage
from osgt.calibration import Part
from osgt.cli import app
from osgt.data.engines.duckdb import DuckDB
from osgt.limits import bounding
from osgt.query import measures
from osgt.query.groups import Level, Total
from osgt.release import exact_sums, measuring


def chosen(**options):
    query = rides(**options).group_by("city", "month", max_groups=2, max_rows_per_group=2)
    return query.count().sum("fare", bounds=(0, 10))


def public():
    return rides().group_by("city", max_groups=2, max_rows_per_group=2, public_keys=["Bern", "Rome", "x"])


def alone():
    return rides().where("month > 1").group_by(max_rows_per_group=2)


def each_row():
    return Dataset(RIDES, "row").group_by("city").count().sum("fare", bounds=(0, 10))


def together():
    return Dataset(RIDES, ["user", "month"]).group_by("city", max_groups=1, max_rows_per_group=1).count()


QUERIES = {
    "every row a unit": each_row,
    "a unit of two columns": together,
    "chosen groups": chosen,
    "exchange": lambda: chosen(neighbours="change_one").histogram("tip", edges=[0, 2, 5]),
    "public groups": lambda: public().count().count_units().mean("tip", bounds=(0, 5)),
    "one group": lambda: alone().count().variance("fare", bounds=(-1, 3)),
}


@pytest.mark.parametrize("name", QUERIES)
def test_honest_queries_pass(name):
    query = QUERIES[name]()
    made = compared(query, real=True, pairs=(UPPER, STRANGE, NOBODY, "a unit exchanged", REAL))
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


def one_row_more(monkeypatch):
    honest = bounding.bounded_sums
    monkeypatch.setattr(
        exact_sums, "bounded_sums", lambda *a, max_rows, **options: honest(*a, max_rows=max_rows + 1, **options)
    )


def unclipped(monkeypatch):
    def planted(self, rows, place):
        column = rows[self.column]
        return [column.notnull().ifelse(self._of((column.fill_null(0).clip(-100, 100) * 2.0**17).cast("int64")), 0)]

    monkeypatch.setattr(measures.ClippedSum, "contributions", planted)


def one_group_too_many(monkeypatch):
    honest = bounding.bounded_sums
    monkeypatch.setattr(
        exact_sums, "bounded_sums", lambda *a, max_groups, **options: honest(*a, max_groups=max_groups + 1, **options)
    )


def counts_rows_of_nobody(monkeypatch):
    honest = exact_sums.prepared_rows

    def planted(*arguments, **options):
        rows, keys, values = honest(*arguments, **options)
        return rows.mutate(unit=rows["unit"].fill_null(-1)), keys, values

    monkeypatch.setattr(exact_sums, "prepared_rows", planted)


def fails_for_many_rows(monkeypatch):
    honest = DuckDB.fetched

    def planted(self, backend, sql, schema):
        found = honest(self, backend, sql, schema)
        if found.num_rows > 4:
            raise MemoryError("too many groups")
        return found

    monkeypatch.setattr(DuckDB, "fetched", planted)


def type_follows_values(monkeypatch):
    honest = measuring.shown_keys

    def planted(query, keys):
        found = honest(query, keys)
        columns = [column.cast(pa.large_string()) if pa.types.is_string(column.type) else column for column in found]
        return pa.table(columns, names=found.column_names) if query.dataset.table.count().execute() > 40 else found

    monkeypatch.setattr(measuring, "shown_keys", planted)


def salt_follows_rows(monkeypatch):
    """The query text depends on the data: here, on how many rows there are."""
    honest = measuring.exact_sums

    def planted(query, measured, salt, *others):
        return honest(query, measured, salt + query.dataset.table.count().execute() % 7, *others)

    monkeypatch.setattr(measuring, "exact_sums", planted)


FAULTS = {
    one_group_too_many: (UPPER, ("groups moved, at most 2 may", "moved in 3 places")),
    one_row_more: (UPPER, ("moved in 2 places by up to 3; the noise is made for 2 places and 2",)),
    unclipped: (UPPER, ("sum of fare", "the noise is made for")),
    counts_rows_of_nobody: (NOBODY, ("rows of nobody: rows moved",)),
    fails_for_many_rows: (STRANGE, ("an error: MemoryError: too many groups",)),
    type_follows_values: (STRANGE, ("columns and types differs",)),
    salt_follows_rows: (UPPER, ("SQL text differs",)),
}


@pytest.mark.parametrize("plant", FAULTS, ids=lambda plant: plant.__name__)
def test_planted_faults_are_found(plant, monkeypatch):
    pairs, expected = FAULTS[plant]
    query = chosen()
    plant(monkeypatch)
    seen = found(compared(query, pairs=(pairs,)))
    for words in expected:
        assert words in seen


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
    backend = ibis.duckdb.connect()
    for dtype in map(
        ibis.dtype,
        ("int8", "uint16", "int64", "float64", "decimal(5, 2)", "decimal(38, 0)", "boolean", "string", "date",
         "timestamp", "timestamp('UTC')", "uuid"),
    ):  # fmt: skip
        texts = [*strange(dtype), *(numbered(dtype, i) for i in range(3))]
        table = ibis.memtable(pa.table({"x": pa.array(texts, pa.string())})).cast({"x": dtype})
        values = backend.to_pyarrow(table)["x"]
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
