"""What the limits of a release cut off: measured with noise, told with intervals that hold."""

import json
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

from goodness import FALSE_ALARM
from osgt import Dataset, DiscreteOSGT, Ledger
from osgt.limits.left_out import NOTHING, LeftOut
from osgt.limits.share import Share, in_brief
from osgt.query.groups import STEPS
from osgt.release.measuring import exact_numbers, prepare

TOWNS = ["a", "b", "c", "d"]


def visits(people=800, seed=5):
    """Rows of people, some of whom have many."""
    rng = np.random.default_rng(seed)
    rows = np.minimum(rng.geometric(0.25, people), 40)
    person = np.repeat(np.arange(people), rows)
    return pa.table(
        {
            "person": person,
            "town": rng.choice(TOWNS, len(person), p=[0.6, 0.2, 0.1, 0.1]),
            "fare": np.round(rng.lognormal(2, 1, len(person)), 2),
        }
    )


def exact(query, epsilon=1.0):
    plan = query.plan(epsilon, 1e-6)
    return plan.left_out, exact_numbers(query, plan, prepare(query, plan, 7)).left_out


def noiseless(measured, numbers):
    laws = dict.fromkeys(numbers, DiscreteOSGT.laplace(1e-2))
    return LeftOut.of(measured, numbers, laws, 0.95, {})


def rows_of(table):
    return np.unique(table["person"].to_numpy(), return_counts=True)[1]


class TestExactNumbers:
    def test_a_limit_on_rows(self):
        table = visits()
        measured, numbers = exact(Dataset(table, "person").group_by("town", max_rows=6, public_keys=TOWNS).count())
        counts = rows_of(table)
        lost = np.minimum(np.maximum(counts - 6, 0), 18).sum()  # of each at most three times the limit
        assert noiseless(measured, numbers).rows.value == pytest.approx(
            lost / (lost + np.minimum(counts, 6).sum()), rel=1e-5
        )

    def test_a_box(self):
        table = visits()
        query = Dataset(table, "person").group_by("town", max_groups=4, max_rows_per_group=2, public_keys=TOWNS).count()
        measured, numbers = exact(query)
        frame = table.to_pandas().groupby(["person", "town"]).size()
        kept, whole = np.minimum(frame, 2).sum(), frame.sum()
        assert noiseless(measured, numbers).rows.value == pytest.approx(1 - kept / whole, abs=0.02)

    def test_units_in_groups(self):
        table = visits()
        measured, numbers = exact(
            Dataset(table, "person").group_by("town", max_groups=1, public_keys=TOWNS).count_units()
        )
        groups = table.to_pandas().groupby("person")["town"].nunique()
        share = noiseless(measured, numbers).units.value
        assert share == pytest.approx(1 - len(groups) / groups.sum(), rel=1e-5)

    @pytest.mark.parametrize("left_out", [True, False])
    @pytest.mark.parametrize("public", [True, False])
    @pytest.mark.parametrize("limits", [{}, {"max_rows": 3}, {"max_rows_per_group": 2}, {"max_length": 4}], ids=str)
    def test_a_unit_counts_in_so_many_groups(self, left_out, public, limits):
        """Counts of units, exactly, whatever else limits its rows and whether or not what is left out is measured."""
        rooms = [f"room {i}" for i in range(30)]
        table = pa.table({"person": np.repeat(np.arange(20), 60), "room": [*rooms, *rooms] * 20})
        keys = {"public_keys": rooms} if public else {}
        by = Dataset(table, "person").group_by("room", max_groups=4, **limits, **keys)
        for query in (by.count_units(), by.count_units().count()) if limits else (by.count_units(),):
            plan = query.plan(1.0, 1e-6, measure_left_out=left_out)
            numbers = exact_numbers(query, plan, prepare(query, plan, 7)).numbers
            (units,) = (each for measure, each in numbers.items() if measure.per_unit)
            assert units.sum() == 20 * 4

    def test_a_limit_on_totals_from_zero(self):
        table = visits()
        query = Dataset(table, "person").group_by("town", public_keys=TOWNS).sum("fare", max_total=(0, 50))
        measured, numbers = exact(query)
        frame = table.to_pandas()
        totals = frame["fare"].clip(upper=50).groupby(frame["person"]).sum()  # one row counts as the limit at most
        lost = np.minimum(np.maximum(totals - 50, 0), 150).sum()
        expected = lost / (lost + np.minimum(totals, 50).sum())
        assert noiseless(measured, numbers).sums["fare"][0].value == pytest.approx(expected, abs=0.01)

    def test_values_outside_of_their_bounds(self):
        table = visits()
        query = Dataset(table, "person").group_by("town", max_rows=1000, public_keys=TOWNS).sum("fare", (0, 20))
        measured, numbers = exact(query)
        beyond = (table["fare"].to_numpy() > 20).mean()
        assert noiseless(measured, numbers).values["fare"].value == pytest.approx(beyond, rel=1e-5)

    @pytest.mark.parametrize(
        "limits", [{"max_rows": 3}, {"max_groups": 2, "max_rows_per_group": 2}, {"max_length": 3}], ids=str
    )
    def test_one_unit_moves_no_pair_further_than_its_part(self, limits):
        table = visits(60)
        heavy = pa.table({"person": [999] * 700, "town": TOWNS * 175, "fare": [30.0] * 700})
        whole = pa.concat_tables([table, heavy])

        def pairs(rows):
            return exact(
                Dataset(rows, "person").group_by("town", public_keys=TOWNS, **limits).count().sum("fare", (0, 9))
            )

        measured, with_unit = pairs(whole)
        _, without = pairs(table)
        parts = measured.parts("add_remove")
        assert set(parts) == set(with_unit) == {"rows", "values of fare"}
        for name, numbers in with_unit.items():
            moved = numbers - without[name]
            assert moved.min() >= 0
            assert 0 < moved.sum() <= parts[name].shift


class TestShares:
    @pytest.mark.parametrize("claimed", [1.0, 0.4])
    @pytest.mark.parametrize("numbers", [(300, 9_000), (0, 4_000), (2_000, 2_000)])
    def test_intervals_hold_as_often_as_they_say(self, numbers, claimed):
        """And would not with more noise than they say."""
        truth, runs = numbers[0] / sum(numbers), 3000
        law, drawn = DiscreteOSGT.laplace(100 * claimed), DiscreteOSGT.laplace(100)
        hits = 0
        for noise in drawn.sample((runs, 1, 2)):
            share = Share.of(np.array([numbers]) + noise, law, 0.95)
            hits += share.low <= truth <= share.high
        enough = stats.binom.cdf(hits, runs, 0.95) >= FALSE_ALARM
        assert enough == (claimed == 1.0) or numbers[0] == 0  # a share of 0 is at the end of what there is

    def test_nothing_is_known_of_noise(self):
        share = Share.of(np.array([[5, 20]]), DiscreteOSGT.laplace(100), 0.95)
        assert (share.low, share.high) == (0.0, 1.0)
        assert share.is_vague


@pytest.fixture(scope="module")
def query():
    return Dataset(visits(4000), "person").group_by("town", max_rows=3, public_keys=TOWNS).count()


class TestRelease:
    def test_it_is_within_the_budget_and_charged(self, query, tmp_path):
        plan = query.plan(1, 1e-6)
        assert set(plan.noise.extra_noise) == {"rows"}
        assert plan.charge.delta(1) <= 1e-6
        with Ledger(tmp_path / "budget.db") as ledger:
            ledger.open("visits", epsilon=1, delta=1e-6)
            data = Dataset(visits(100), "person", ledger=ledger, dataset="visits")
            data.group_by("town", max_rows=3, public_keys=TOWNS).count().release(1, 1e-6, intervals="noise")
            assert ledger.spent("visits").releases == 1

    def test_it_is_told_everywhere_and_warned_about(self, query, tmp_path):
        with pytest.warns(match="of the rows are missing in the numbers: a person with more than 3 rows counts as 3"):
            release = query.release(200, 1e-6)
        release.report(tmp_path / "r.html")
        [sentence] = release.left_out.sentences
        for text in (str(release.statement), (tmp_path / "r.html").read_text(), release._repr_html_()):
            assert "a person with more than 3 rows counts as 3" in text
        assert sentence.startswith("About ")
        plain = json.loads(json.dumps(release.statement.to_dict()))
        assert plain["left_out"]["rows"]["share"] == release.left_out.rows.value

    def test_upper_ends_allow_for_it(self):
        """Of 160 intervals of 95 %, fewer than 125 hold their numbers by chance with a probability below 1e-9.

        Of somebody with more than four times the limit, not all that is cut off is told: here nobody has so many.
        """
        rows = visits(4000)
        query = Dataset(rows, "person").group_by("town", max_rows=10, public_keys=TOWNS).count()
        counts = np.array([rows["town"].to_pylist().count(town) for town in TOWNS])

        def held(kind):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tables = [query.release(1, 1e-6, intervals=kind).to_pandas() for _ in range(40)]
            return sum(((table["count_low"] <= counts) & (counts <= table["count_high"])).sum() for table in tables)

        assert held("truth") >= 125
        assert held("noise") < 60

    def test_without_it_nothing_is_said(self, query):
        release = query.release(1, 1e-6, measure_left_out=False)
        assert release.left_out is None
        assert "missing in the numbers" not in str(release.statement)

    def test_sums_that_may_be_negative_can_lose_something(self):
        """How much is not measured; that nothing was left out must not be said, nor that everybody counts once."""
        query = Dataset(visits(), "person").group_by("town", public_keys=TOWNS).sum("fare", max_total=5)
        release = query.release(1, 1e-6)
        assert release.left_out is None
        for words in (str(release), release.statement.words):
            assert NOTHING not in words
            assert "counts once" not in words

    def test_different_values_and_drawn_quantiles_are_told_as_what_they_are(self):
        query = Dataset(visits(), "person").group_by("town", public_keys=TOWNS, max_rows=5)
        words = (
            query.median("fare", (0, 50), interval="none").count_distinct("fare", 3).release(1, 1e-6).statement.words
        )
        assert "To fare_median no noise was added" in words
        assert "counts with at most 3 values of fare" in words
        assert "intervals do not allow for values that are missing" in words
        alone = Dataset(visits(), "person").group_by("town", public_keys=TOWNS).count_distinct("fare", 3)
        release = alone.release(20, 1e-6)
        assert release.left_out.pairs
        assert release.left_out.missing == {}
        assert "Intervals show the noise alone" in release.statement.words
        assert "counts once" not in release.statement.words + str(release)

    def test_of_the_heaviest_it_is_said_that_not_all_is_told(self):
        """Of a unit with more than four times the limit: the share is too small, and its interval too low."""
        rows = pa.table({"id": np.repeat(np.arange(1000), np.where(np.arange(1000) % 10, 1, 100))})
        release = Dataset(rows, "id").group_by(max_rows=2).count().release(20, 1e-6)
        assert release.left_out.rows.high < 0.6 < 9_800 / 10_900
        assert "rows of one beyond 8 are missing as well" in release.statement.words
        light = Dataset(rows, "id").group_by(max_rows=100).count().release(20, 1e-6)
        assert "beyond" not in light.statement.words

    def test_nothing_is_measured_where_nothing_can_be_cut_off(self):
        query = Dataset(visits(50), "person").group_by("town", public_keys=TOWNS).count_units()
        assert query.plan(1, 1e-6).left_out is None
        assert NOTHING in str(query.release(1, 1e-6).statement)

    @pytest.mark.parametrize(("delta", "neighbours"), [(0.0, "add_remove"), (1e-6, "change_one")])
    def test_pure_budgets_and_exchanges(self, delta, neighbours):
        data = Dataset(visits(50), "person", neighbours=neighbours)
        plan = data.group_by("town", max_rows=3, public_keys=TOWNS).count().plan(1, delta)
        assert plan.noise.extra_noise["rows"][1].shift == 4 * STEPS
        assert plan.charge.epsilon(delta) <= 1 + 1e-9


def test_means_of_groups_that_are_too_small_are_null(tmp_path):
    query = Dataset(visits(3), privacy_unit="person").group_by(
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
    assert (tmp_path / "small.html").read_text().count("not enough data") == 8  # in the table and in the pictures


def test_means_that_are_known_are_numbers():
    table = pa.table({"person": range(5000), "town": ["a"] * 5000, "fare": [20.0] * 5000})
    query = Dataset(table, "person").group_by("town", max_groups=1, max_rows_per_group=1, public_keys=["a", "nowhere"])
    release = query.mean("fare", bounds=(0, 100)).release(1, 1e-6, confidence=1 - 1e-9)
    known, empty = release.to_arrow().to_pylist()
    assert known["fare_mean"] == pytest.approx(20, abs=2)
    assert empty["fare_mean"] is None


@pytest.mark.parametrize(
    ("high", "words"), [(0.00001, "less than 0.01 % for any reason"), (0.004, "at most 0.4 % for any reason")]
)
def test_small_shares_are_told_together(high, words):
    assert in_brief([(Share(0.0, 0.0, high), "of the rows")]) == [words]
