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
from osgt.tables.left_out import LeftOut
from osgt.tables.left_out_measures import left_out_measures
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
    return measured, measured.exact(fetched(compiled(measured.numbers(rows, keys, values))))


def noiseless(measured, numbers):
    return LeftOut.of(measured, numbers, dict.fromkeys(measured.names, DiscreteOSGT.laplace(1e-2)), "person", 0.95)


def plain(rows, *, max_groups=3, max_rows=4):
    """The shares that are left out, in plain Python."""
    sizes = {}
    for person, town, _ in rows:
        sizes.setdefault(person, {}).setdefault(town, 0)
        sizes[person][town] += 1
    fares = [fare for _, _, fare in rows if not math.isnan(fare)]
    kept = {person: min(max_groups / len(towns), 1) for person, towns in sizes.items()}
    crowd = {person: sum(max(n - max_rows, 0) for n in towns.values()) for person, towns in sizes.items()}
    return {
        "groups": sum((1 - kept[person]) * sum(towns.values()) for person, towns in sizes.items()) / len(rows),
        "rows": sum(kept[person] * crowd[person] for person in sizes) / len(rows),
        "units by groups": sum(part < 1 for part in kept.values()) / len(sizes),
        "units by rows": sum(number > 0 for number in crowd.values()) / len(sizes),
        "values": sum(fare > 100 for fare in fares) / len(fares),
    }


def told(found):
    return {
        "groups": found.by_max_groups,
        "rows": found.by_max_rows_per_group,
        "units by groups": found.units_by_max_groups,
        "units by rows": found.units_by_max_rows_per_group,
        "values": found.values["fare"],
    }


def test_the_numbers_are_those_of_the_rows(engine):
    rows = made(60)
    measured, numbers = exact(asked(engine.put(table_of(rows))))
    assert numbers["units"].sum() == 60
    shares = {name: share.value for name, share in told(noiseless(measured, numbers)).items()}
    assert shares == pytest.approx(plain(rows), abs=1e-5)


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


def test_as_much_is_left_out_as_by_the_release(engine):
    """Everybody is in four towns, with three rows in each: of two of them two rows each are kept, whoever is chosen."""
    from osgt.tables.measures import Rows  # noqa: PLC0415
    from osgt.tables.release import exact_sums  # noqa: PLC0415

    rows = [(f"p{i}", town, 1.0) for i in range(40) for town in "abcd" for _ in range(3)]
    query = engine.put(table_of(rows)).group_by("town", max_groups=2, max_rows_per_group=2).count()
    found = noiseless(*exact(query))
    sums = fetched(compiled(exact_sums(query, [Rows()], SALT, None)))
    kept = sum(sums["sum_0_0"].to_pylist()) / len(rows)
    assert found.by_max_groups.value == pytest.approx(1 / 2, abs=1e-5)
    assert found.by_max_rows_per_group.value == pytest.approx(1 / 6, abs=1e-5)
    assert 1 - found.by_max_groups.value - found.by_max_rows_per_group.value == pytest.approx(kept, abs=1e-5)


#: Shapes of the noise: what a release uses lies between these.
LAWS = {
    "laplace": DiscreteOSGT.laplace,
    "between": lambda scale: DiscreteOSGT.from_rates(0.5 / scale, 0.5 / scale**2),
    "gaussian": lambda scale: DiscreteOSGT.gaussian(1.5 * scale),
}


def few_and_many():
    """Most people with one row, a few with tens, whose rows are most of what is left out."""
    rows = [(f"p{i}", "abc"[i % 3], 5.0 + 200.0 * (i % 20 == 0)) for i in range(3000)]
    return rows + [(f"q{i}", town, 50.0) for i in range(300) for town in "abcde" for _ in range(10 + i % 5)]


TABLES = {"even": lambda: made(1500, seed=8), "unequal": few_and_many}


class TestCoverage:
    """Over many runs of the noise alone: exact numbers once, then noise on them."""

    RUNS = 1500
    CONFIDENCE = 0.9

    def hits(self, table, law, noise, claimed):
        rows = TABLES[table]()
        truth = plain(rows)
        measured, numbers = exact(asked(Dataset(table_of(rows), privacy_unit="person")))
        made_law = LAWS[law]
        drawn = {name: made_law(noise * (1 if name == "units" else SCALE)) for name in measured.names}
        laws = {name: made_law(claimed * (1 if name == "units" else SCALE)) for name in measured.names}
        draws = {name: drawn[name].sample((self.RUNS, *number.shape)) for name, number in numbers.items()}
        count = dict.fromkeys(truth, 0)
        for i in range(self.RUNS):
            noisy = {name: number + draws[name][i] for name, number in numbers.items()}
            for name, share in told(LeftOut.of(measured, noisy, laws, "person", self.CONFIDENCE)).items():
                count[name] += share.low <= truth[name] <= share.high
        return count

    @pytest.mark.parametrize("law", LAWS)
    @pytest.mark.parametrize("table", TABLES)
    def test_intervals_hold_as_often_as_they_say(self, table, law):
        for name, hits in self.hits(table, law, 5.0, 5.0).items():
            assert stats.binom.cdf(hits, self.RUNS, self.CONFIDENCE) >= FALSE_ALARM, name

    def test_units_too_few_to_be_seen_are_said_to_be(self):
        """Ten people with 1,000 rows each have most of the rows, and noise hides them: the figures tell that it may."""
        rows = [(f"p{i}", "a", 5.0) for i in range(2000)]
        rows += [(f"q{i}", town, 5.0) for i in range(10) for town in "abcde" for _ in range(200)]
        measured, numbers = exact(asked(Dataset(table_of(rows), privacy_unit="person")))
        laws = {name: LAWS["laplace"](5.0 * (1 if name == "units" else SCALE)) for name in measured.names}
        noisy = {name: number + laws[name].sample(number.shape) for name, number in numbers.items()}
        found = LeftOut.of(measured, noisy, laws, "person", 0.95)
        number, size = found.unseen
        assert number > 10
        assert size < 1000
        assert (
            f"more than {size:,} rows, unless there are at least about {number:,} of that kind" in found.sentences[-1]
        )

    def test_they_would_not_with_more_noise_than_they_say(self):
        for name, hits in self.hits("even", "laplace", 5.0, 2.5).items():
            assert stats.binom.cdf(hits, self.RUNS, self.CONFIDENCE) < FALSE_ALARM, name


@pytest.fixture(scope="module")
def released():
    query = asked(Dataset(table_of(made(3000)), privacy_unit="person"))
    return query, query.release(epsilon=30, delta=1e-6)


class TestRelease:
    def test_the_budget_is_that_of_the_release(self, released):
        query, _ = released
        with_it = query.plan(epsilon=5, delta=1e-6)
        without = query.plan(epsilon=5, delta=1e-6, measure_left_out=False)
        for more, less in zip(with_it.laws.values(), without.laws.values(), strict=True):
            assert more.var() == pytest.approx(1.02 * less.var(), rel=1e-3)
        assert set(with_it.noise.beside) == {"rows", "units", "values of fare"}
        assert with_it.charge.profile.delta(5) <= 1e-6
        # Much less noise beside the groups would not fit.
        assert with_it.charge.profile.epsilon(1e-6) > 0.999 * 5

    def test_a_ledger_is_charged_for_all_of_it(self, released):
        query, _ = released
        plan = query.plan(epsilon=5, delta=1e-6, charged=True)
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
        release = query.release(epsilon=5, delta=1e-6, measure_left_out=False)
        assert release.left_out is None
        assert release.statement.to_dict()["left_out"] is None


@pytest.mark.parametrize("delta", [0, 1e-6])
@pytest.mark.parametrize("neighbours", ["add_remove", "change_one"])
def test_pure_budgets_and_exchanges(delta, neighbours):
    data = Dataset(table_of(made(50)), privacy_unit="person", neighbours=neighbours)
    query = data.group_by("town", max_groups=2, public_keys=["a", "b", "c"]).count_units()
    plan = query.plan(epsilon=1, delta=delta)
    assert plan.charge.profile.delta(1) <= max(delta, 1e-300)
    assert {part.coordinates for _, part in plan.noise.beside.values()} == {1 if neighbours == "add_remove" else 2}
    assert query.release(1, delta).left_out.sentences == ["The noise is too large to say how much the limits left out."]
    vague = query.release(1, delta).left_out
    assert "appearances of a person in a group" in " ".join(words for _, words, _ in vague._told)


def test_nothing_is_measured_where_nothing_can_be_left_out():
    data = Dataset(table_of(made(50)), privacy_unit="person")
    towns = ["a", "b", "c"]
    every = data.group_by("town", max_groups=3, public_keys=towns).count_units()
    assert every.plan(1, 1e-6).left_out is None
    assert "could leave nothing out" in every.release(1, 1e-6).statement.words
    # A limit of rows cuts nothing off where only units are counted.
    with_rows = data.group_by("town", max_groups=3, max_rows_per_group=2, public_keys=towns)
    assert with_rows.count_units().plan(1, 1e-6).left_out is None
    assert with_rows.count().plan(1, 1e-6).left_out is not None
    assert data.group_by("town", max_groups=2, public_keys=towns).count_units().plan(1, 1e-6).left_out is not None
    assert data.group_by("town", max_groups=3).count_units().plan(1, 1e-6).left_out is not None


def test_a_budget_too_small_for_it_is_no_error():
    data = Dataset(table_of(made(5)), privacy_unit="person")
    plan = data.group_by("town", max_groups=1, public_keys=["a", "b"]).count_units().plan(1e-9, 1e-20)
    assert plan.left_out is None
    assert plan.noise.beside == {}


def test_means_of_groups_that_are_too_small_are_null(tmp_path):
    query = Dataset(table_of(made(3)), privacy_unit="person").group_by(
        "town", max_groups=2, max_rows_per_group=2, public_keys=["a", "nowhere"]
    )
    release = (
        query.mean("fare", bounds=(0, 100)).variance("fare", bounds=(0, 100)).release(0.1, 1e-6, confidence=1 - 1e-9)
    )
    release.report(tmp_path / "small.html")
    release.to_parquet(tmp_path / "small.parquet")
    release.to_csv(tmp_path / "small.csv")
    for row in pq.read_table(tmp_path / "small.parquet").to_pylist():
        assert row["fare_mean"] is None
        assert (row["fare_mean_low"], row["fare_mean_high"]) == (0.0, 100.0)
        assert row["fare_variance"] is None
        assert (row["fare_variance_low"], row["fare_variance_high"]) == (0.0, 2500.0)
    assert (tmp_path / "small.csv").read_text().splitlines()[1].startswith('"a",,0,100,,0,2500')
    assert (tmp_path / "small.html").read_text().count("too small to tell") == 8  # in the table and in the pictures


def test_means_that_are_known_are_numbers():
    table = pa.table({"person": range(5000), "town": ["a"] * 5000, "fare": [20.0] * 5000})
    query = Dataset(table, "person").group_by("town", max_groups=1, max_rows_per_group=1, public_keys=["a", "nowhere"])
    release = query.mean("fare", bounds=(0, 100)).release(1, 1e-6, confidence=1 - 1e-9)
    known, empty = release.to_arrow().to_pylist()
    assert known["fare_mean"] == pytest.approx(20, abs=2)
    assert empty["fare_mean"] is None
