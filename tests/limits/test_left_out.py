"""What a release left out: the shares that it tells hold the truth as often as they say, on every engine."""

import json
import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

from engines import sums
from goodness import FALSE_ALARM
from osgt import Dataset, DiscreteOSGT
from osgt.data.reading import compile_query, fetch, split_tables
from osgt.limits.histogram import SCALE
from osgt.limits.left_out import LeftOut
from osgt.limits.left_out_measures import PLACES, left_out_measures
from osgt.query.measures import ClippedSum, Rows
from osgt.query.values import ValueGrid
from osgt.release.exact_sums import exact_sums

SALT = 11
SCHEMA = pa.schema([("person", pa.string()), ("town", pa.string()), ("fare", pa.float64()), ("row", pa.int64())])

#: People that a mark tells apart, with up to seven rows each; and columns of marks.
DIGITS, MARKS = 10, 6
WITH_MARKS = pa.schema([*SCHEMA, *((f"mark_{c}", pa.int64()) for c in range(MARKS))])


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
    """The rows, and marks by which the people in them are told apart: the digits of a few whole numbers."""
    person, town, fare = zip(*rows, strict=True)
    people = {each: i for i, each in enumerate(dict.fromkeys(person)) if i < DIGITS * MARKS}
    places = [people.get(each) for each in person]
    marks = [[0 if i is None or i // DIGITS != c else 8 ** (i % DIGITS) for i in places] for c in range(MARKS)]
    return pa.table([person, town, fare, range(len(rows)), *marks], schema=WITH_MARKS)


def asked(dataset):
    return dataset.group_by("town", max_groups=3, max_rows_per_group=4).count().sum("fare", bounds=(0, 100))


def exact(query, salt=SALT, order="row"):
    measured = left_out_measures(query.groups, query.aggregates)
    _, told = split_tables(fetch(compile_query(exact_sums(query, [Rows()], salt, order, measured))))
    return measured, measured.exact(told)


def chosen(query, people, salt=SALT):
    """The towns that each of the first people counts in, as the marks in the sums tell."""
    marks = [ClippedSum(f"mark_{c}", ValueGrid("integer", 1, 0, 8**DIGITS)) for c in range(MARKS)]
    found = sums(query, marks, salt=salt)
    return {
        person: {town for (town,), numbers in found.items() if numbers[i // DIGITS][0] >> 3 * (i % DIGITS) & 7}
        for i, person in enumerate(people)
    }


def noiseless(measured, numbers):
    return LeftOut.of(measured, numbers, dict.fromkeys(measured.names, DiscreteOSGT.laplace(1e-2)), "person", 0.95)


def plain(rows, towns, *, max_rows=4):
    """The shares that are left out, in plain Python; `towns` are those that each person counts in."""
    sizes = {}
    for person, town, _ in rows:
        sizes.setdefault(person, {}).setdefault(town, 0)
        sizes[person][town] += 1
    fares = [fare for person, town, fare in rows if town in towns[person] and not math.isnan(fare)]
    lost = {p: sum(n for town, n in each.items() if town not in towns[p]) for p, each in sizes.items()}
    crowd = {p: sum(max(each[town] - max_rows, 0) for town in towns[p]) for p, each in sizes.items()}
    return {
        "groups": sum(lost.values()) / len(rows),
        "rows": sum(crowd.values()) / len(rows),
        "units by groups": sum(number > 0 for number in lost.values()) / len(sizes),
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
    rows = made(DIGITS * MARKS)
    query = asked(engine.put(table_of(rows)))
    measured, numbers = exact(query)
    assert numbers["units"].sum() == DIGITS * MARKS
    towns = chosen(query, dict.fromkeys(person for person, _, _ in rows))
    of_each = {person: {town for p, town, _ in rows if p == person} for person in towns}
    assert all(towns[p] <= each and len(towns[p]) == min(len(each), 3) for p, each in of_each.items())
    shares = {name: share.value for name, share in told(noiseless(measured, numbers)).items()}
    assert shares == pytest.approx(plain(rows, towns), abs=1e-5)
    # The same with rows in random order, as in a release: which rows are kept makes no difference to how many.
    _, again = exact(query, order=None)
    assert all(np.array_equal(again[name], each) for name, each in numbers.items())


def test_appearances_are_counted_where_rows_are_not(engine):
    rows = made(40)
    query = engine.put(table_of(rows)).group_by("town", max_groups=2).count_units()
    measured, numbers = exact(query)
    groups = {}
    for person, town, _ in rows:
        groups.setdefault(person, set()).add(town)
    found, number = noiseless(measured, numbers), sum(map(len, groups.values()))
    lost = sum(max(len(each) - 2, 0) for each in groups.values())
    assert found.by_max_groups.value == pytest.approx(lost / number, abs=1e-5)
    assert found.units_by_max_groups.value == pytest.approx(np.mean([len(g) > 2 for g in groups.values()]), abs=1e-5)


def test_rows_without_groups(engine):
    rows = [(f"p{i}", "a", 5.0) for i in range(30) for _ in range(1 + i % 6)]
    measured, numbers = exact(engine.put(table_of(rows)).group_by(max_rows_per_group=2).count())
    found = noiseless(measured, numbers)
    assert found.by_max_groups.value == 0
    assert found.by_max_rows_per_group.value == pytest.approx(5 * (1 + 2 + 3 + 4) / len(rows), abs=1e-5)
    assert found.units_by_max_rows_per_group.value == pytest.approx(4 / 6, abs=1e-5)


def test_a_unit_with_more_rows_than_any_place_is_one_unit():
    size = PLACES[-1] + 500_000
    table = pa.table({"person": np.zeros(size, int), "town": np.arange(size) % 4, "fare": np.full(size, 500.0)})
    _, numbers = exact(asked(Dataset(table, "person")), order=None)
    assert numbers["units"].tolist() == [0, 0, 0, 1]
    for name in ("rows", "values of fare"):
        assert 0.9 * SCALE < numbers[name][-1].sum() <= SCALE
        assert numbers[name][:-1].sum() == 0
    assert numbers["rows"][-1, 0] == pytest.approx(numbers["rows"][-1].sum() / 4, rel=1e-3)


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
    rows = [(f"p{i}", town, 1.0) for i in range(40) for town in "abcd" for _ in range(3)]
    query = engine.put(table_of(rows)).group_by("town", max_groups=2, max_rows_per_group=2).count()
    found = noiseless(*exact(query))
    kept = sum(numbers[0][0] for numbers in sums(query, [Rows()]).values()) / len(rows)
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
#: Every table and every shape are among the others.
LATER = [("even", "between"), ("unequal", "laplace"), ("unequal", "gaussian")]


class TestCoverage:
    """Over many runs of the noise alone: exact numbers once, then noise on them."""

    RUNS = 1500
    CONFIDENCE = 0.9

    def hits(self, table, law, noise, claimed):
        rows = TABLES[table]()
        measured, numbers = exact(asked(Dataset(table_of(rows), privacy_unit="person")))
        truth = {name: share.value for name, share in told(noiseless(measured, numbers)).items()}
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

    @pytest.mark.parametrize(
        ("table", "law"),
        [
            ("even", "laplace"),
            ("even", "gaussian"),
            ("unequal", "between"),
            *(pytest.param(*each, marks=pytest.mark.long) for each in LATER),
        ],
    )
    def test_intervals_hold_as_often_as_they_say(self, table, law):
        for name, hits in self.hits(table, law, 5.0, 5.0).items():
            assert stats.binom.cdf(hits, self.RUNS, self.CONFIDENCE) >= FALSE_ALARM, name

    @pytest.mark.usefixtures("quiet_noise")
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
            f"Up to about {number:,} cases of a person with more than {size:,} rows can go unseen"
            in found.sentences[-1]
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
        assert set(with_it.noise.extra_noise) == {"rows", "units", "values of fare"}
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
@pytest.mark.usefixtures("quiet_noise")
def test_pure_budgets_and_exchanges(delta, neighbours):
    data = Dataset(table_of(made(50)), privacy_unit="person", neighbours=neighbours)
    query = data.group_by("town", max_groups=2, public_keys=["a", "b", "c"]).count_units()
    plan = query.plan(epsilon=1, delta=delta)
    assert plan.charge.profile.delta(1) <= max(delta, 1e-300)
    assert {part.coordinates for _, part in plan.noise.extra_noise.values()} == {1 if neighbours == "add_remove" else 2}
    vague = query.release(1, delta).left_out
    assert vague.sentences == ["The noise is too large to say how much the limits left out."]
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
    assert plan.noise.extra_noise == {}


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
