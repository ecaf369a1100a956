"""What a release left out: the shares that it tells hold the truth as often as they say, on every engine."""

import json
import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from goodness import FALSE_ALARM
from scipy import stats

from osgt import Dataset, DiscreteOSGT
from osgt.tables.bounds.edges import SCALE
from osgt.tables.left_out import LeftOut, left_out_measures
from osgt.tables.measures import Values
from osgt.tables.reading import compiled, fetched
from osgt.tables.release import prepared_rows

SALT = 11
SCHEMA = pa.schema([("person", pa.string()), ("town", pa.string()), ("fare", pa.float64()), ("row", pa.int64())])


def made(people, seed=5):
    """Rows (person, town, fare): people in 1 to 5 towns, with 1 to 9 rows in each, a tenth of the fares above 100."""
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(people):
        for town in rng.choice(["a", "b", "c", "d", "e"], size=rng.integers(1, 6), replace=False):
            rows += [(f"p{i}", str(town), float(rng.choice([5.0, 50.0, 500.0, np.nan], p=[0.6, 0.2, 0.1, 0.1])))] * int(
                rng.integers(1, 10)
            )
    return rows


def table_of(rows):
    person, town, fare = zip(*rows, strict=True)
    return pa.table([person, town, fare, range(len(rows))], schema=SCHEMA)


def asked(dataset):
    return dataset.group_by("town", max_groups=3, max_rows_per_group=4).count().sum("fare", bounds=(0, 100))


def exact(query):
    measured = left_out_measures(query.groups, query.aggregates)
    rows, keys, values = prepared_rows(query, [Values(column) for column in measured.columns])
    return measured, measured.exact(fetched(compiled(measured.numbers(rows, keys, values, SALT))))


def plain(rows, *, max_groups=3, max_rows=4):
    """The shares of rows left out, as far as the choice of groups does not matter, and of values beyond the bounds."""
    sizes = {}
    for person, town, _ in rows:
        sizes.setdefault(person, {}).setdefault(town, 0)
        sizes[person][town] += 1
    fares = [fare for _, _, fare in rows if not math.isnan(fare)]
    return {
        "rows": len(rows),
        "more": sum(len(towns) > max_groups for towns in sizes.values()),
        "units": len(sizes),
        "least": sum(sum(sorted(towns.values())[: max(len(towns) - max_groups, 0)]) for towns in sizes.values()),
        "most": sum(sum(sorted(towns.values())[::-1][: max(len(towns) - max_groups, 0)]) for towns in sizes.values()),
        "beyond": sum(fare > 100 for fare in fares) / len(fares),
        "crowd": sum(max(n - max_rows, 0) for towns in sizes.values() for n in towns.values()),
    }


def test_the_numbers_are_those_of_the_rows(engine):
    rows = made(60)
    truth = plain(rows)
    measured, numbers = exact(asked(engine.put(table_of(rows))))
    noiseless = dict.fromkeys(measured.names, DiscreteOSGT.laplace(1e-2))
    found = LeftOut.of(measured, numbers, noiseless, "person", 0.95)
    assert numbers["units"].sum() == truth["units"]
    assert found.units_by_max_groups.value == pytest.approx(truth["more"] / truth["units"])
    assert truth["least"] - 1 <= found.by_max_groups.value * truth["rows"] <= truth["most"] + 1
    assert 0 < found.by_max_rows_per_group.value * truth["rows"] <= truth["crowd"] + 1
    assert found.values["fare"].value == pytest.approx(truth["beyond"], rel=1e-4)


def test_one_unit_moves_each_histogram_by_one_at_most(engine):
    rows = made(15) + [("crowd", town, 1e300) for town in "abcde" for _ in range(300)]
    measured, whole = exact(asked(engine.put(table_of(rows))))
    parts = measured.parts("add_remove")
    for person in ("crowd", "p0", "p7"):
        _, less = exact(asked(engine.put(table_of([row for row in rows if row[0] != person]))))
        for name, part in parts.items():
            moved = whole[name] - less[name]
            assert moved.min() >= 0
            assert 0 < moved.sum() <= part.shift * part.coordinates, name


def test_the_same_groups_are_left_out_as_by_the_release(engine):
    """With one row of each person in a town: what is kept of all rows is what the table counts."""
    from osgt.tables.measures import Rows  # noqa: PLC0415
    from osgt.tables.release import exact_sums  # noqa: PLC0415

    rows = [(f"p{i}", town, 1.0) for i in range(40) for town in "abcde"[: 1 + i % 5] for _ in range(1 + i % 3)]
    query = engine.put(table_of(rows)).group_by("town", max_groups=2, max_rows_per_group=9).count()
    _, numbers = exact(query)
    noiseless = DiscreteOSGT.laplace(1e-2)
    measured = left_out_measures(query.groups, query.aggregates)
    found = LeftOut.of(measured, numbers, dict.fromkeys(measured.names, noiseless), "person", 0.95)
    sums = fetched(compiled(exact_sums(query, [Rows()], SALT, None)))
    kept = sum(sums["sum_0_0"].to_pylist())
    assert found.by_max_groups.value == pytest.approx(1 - kept / len(rows), abs=1e-5)


class TestCoverage:
    """Over many runs of the noise alone: exact numbers once, then noise on them."""

    RUNS = 3000

    def hits(self, noise, claimed):
        rows = made(1500, seed=8)
        truth = plain(rows)["beyond"]
        measured, numbers = exact(asked(Dataset(table_of(rows), privacy_unit="person")))
        exact_shares = LeftOut.of(
            measured, numbers, dict.fromkeys(measured.names, DiscreteOSGT.laplace(1e-2)), "person", 0.9
        )
        wide, one = DiscreteOSGT.laplace(noise * SCALE), DiscreteOSGT.laplace(noise)
        laws = {name: DiscreteOSGT.laplace(claimed * (1 if name == "units" else SCALE)) for name in measured.names}
        draws = {
            name: (one if name == "units" else wide).sample((self.RUNS, *number.shape))
            for name, number in numbers.items()
        }
        count = dict.fromkeys(("groups", "rows", "units", "values"), 0)
        for i in range(self.RUNS):
            noisy = {name: number + draws[name][i] for name, number in numbers.items()}
            found = LeftOut.of(measured, noisy, laws, "person", 0.9)
            for name, share, true in (
                ("groups", found.by_max_groups, exact_shares.by_max_groups.value),
                ("rows", found.by_max_rows_per_group, exact_shares.by_max_rows_per_group.value),
                ("units", found.units_by_max_groups, exact_shares.units_by_max_groups.value),
                ("values", found.values["fare"], truth),
            ):
                count[name] += share.low <= true <= share.high
        return count

    def test_intervals_hold_as_often_as_they_say(self):
        for name, hits in self.hits(8.0, 8.0).items():
            assert stats.binom.cdf(hits, self.RUNS, 0.9) >= FALSE_ALARM, name

    def test_they_would_not_with_more_noise_than_they_say(self):
        for name, hits in self.hits(8.0, 5.0).items():
            assert stats.binom.cdf(hits, self.RUNS, 0.9) < FALSE_ALARM, name


@pytest.fixture(scope="module")
def released():
    query = asked(Dataset(table_of(made(3000)), privacy_unit="person"))
    return query, query.release(epsilon=30, delta=1e-6, measure_left_out=True)


class TestRelease:
    def test_the_budget_is_that_of_the_release(self, released):
        query, _ = released
        with_it = query.plan(epsilon=5, delta=1e-6, measure_left_out=True)
        without = query.plan(epsilon=5, delta=1e-6)
        for more, less in zip(with_it.laws.values(), without.laws.values(), strict=True):
            assert more.var() == pytest.approx(1.02 * less.var(), rel=1e-3)
        assert set(with_it.noise.beside) == {"rows", "units", "values of fare"}
        assert with_it.charge.profile.delta(5) <= 1e-6
        # Much less noise beside the groups would not fit.
        assert with_it.charge.profile.delta(5) > 0.5 * 1e-6

    def test_a_ledger_is_charged_for_all_of_it(self, released):
        query, _ = released
        plan = query.plan(epsilon=5, delta=1e-6, measure_left_out=True, charged=True)
        assert plan.charge.profile.delta(5) + plan.selection_delta <= 1e-6 * (1 + 1e-9)

    def test_it_is_told_everywhere(self, released, tmp_path):
        _, release = released
        first = release.left_out.sentences[0]
        assert "of the rows were left out because a person appears in more than 3 groups" in first
        assert first in str(release.statement)
        release.to_parquet(tmp_path / "t.parquet")
        told = json.loads(pq.read_schema(tmp_path / "t.parquet").metadata[b"osgt"])["left_out"]
        assert told == json.loads(json.dumps(release.left_out.to_dict()))
        release.report(tmp_path / "t.html")
        assert "appears in more than 3 groups" in (tmp_path / "t.html").read_text()

    def test_much_is_warned_about(self, released):
        _, release = released
        assert any("max_groups" in warning for warning in release.left_out.warnings)
        assert any("max_groups" in warning for warning in release.statement.to_dict()["warnings"])

    def test_without_it_nothing_is_said(self, released):
        query, _ = released
        release = query.release(epsilon=5, delta=1e-6)
        assert release.left_out is None
        assert release.statement.to_dict()["left_out"] is None


@pytest.mark.parametrize("delta", [0, 1e-6])
@pytest.mark.parametrize("neighbours", ["add_remove", "change_one"])
def test_pure_budgets_and_exchanges(delta, neighbours):
    data = Dataset(table_of(made(50)), privacy_unit="person", neighbours=neighbours)
    query = data.group_by("town", max_groups=2, public_keys=["a", "b", "c"]).count_units()
    plan = query.plan(epsilon=1, delta=delta, measure_left_out=True)
    assert plan.charge.profile.delta(1) <= max(delta, 1e-300)
    assert {part.coordinates for _, part in plan.noise.beside.values()} == {1 if neighbours == "add_remove" else 2}
    assert "appearances of a person in a group" in " ".join(
        query.release(1, delta, measure_left_out=True).left_out.sentences
    )


def test_means_of_groups_that_are_too_small_say_so(tmp_path):
    query = Dataset(table_of(made(3)), privacy_unit="person").group_by(
        "town", max_groups=2, max_rows_per_group=2, public_keys=["a", "nowhere"]
    )
    release = query.mean("fare", bounds=(0, 100)).release(epsilon=0.1, delta=1e-6)
    [mean] = release.plan.aggregates
    assert mean.tells_nothing(0.0, 100.0)
    assert not mean.tells_nothing(0.0, 99.0)
    release.report(tmp_path / "small.html")
    text = (tmp_path / "small.html").read_text()
    small = [mean.tells_nothing(row["fare_mean_low"], row["fare_mean_high"]) for row in release.rows(2)]
    assert all(small)
    assert text.count("too small to tell") == 2
