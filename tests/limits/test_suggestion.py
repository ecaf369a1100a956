"""`suggest_bounds`: queries with open bounds, what a suggestion says, and that it is charged like any release."""

import json

import numpy as np
import pyarrow as pa
import pytest

from osgt import Dataset, Ledger
from osgt.api.query import Query
from osgt.api.suggestion.open_query import OpenQuery


@pytest.fixture(scope="module")
def visits():
    """2,000 people in 1 to 6 of 12 months, with 1 to 4 rows in each and fares up to 90."""
    rng = np.random.default_rng(1)
    person, month = [], []
    for i in range(2000):
        for m in rng.choice(12, size=rng.integers(1, 7), replace=False):
            rows = int(rng.integers(1, 5))
            person += [i] * rows
            month += [int(m)] * rows
    return pa.table({"person": person, "month": month, "fare": rng.uniform(0, 90, len(person))})


@pytest.fixture
def by_month(visits):
    return Dataset(visits, privacy_unit="person").group_by("month", public_keys=list(range(12)))


def test_a_query_with_open_bounds_is_not_released(by_month):
    for query, missing in (
        (by_month.count_units(), "max_groups"),
        (by_month.count(), "max_groups"),
        (by_month.count().completed(3, 2, {}).sum("fare"), "bounds must be given for column 'fare'"),
    ):
        for end in (query.plan, query.release):
            with pytest.raises(ValueError, match=missing):
                end(epsilon=1, delta=1e-6)


def test_wrong_columns_are_refused_when_they_are_asked_for(by_month):
    with pytest.raises(ValueError, match="there is no column 'fair'"):
        by_month.sum("fair")
    with pytest.raises(ValueError, match="there is a column 'count' already"):
        by_month.count().sum("fare", name="count")
    with pytest.raises(ValueError, match="must ask for something"):
        by_month.suggest_bounds(1)


@pytest.mark.usefixtures("quiet_noise")
def test_the_recommended_bounds_fit_the_data(by_month):
    made = by_month.count().sum("fare").suggest_bounds(20, 0, release_epsilon=20, release_delta=1e-6)
    assert 5 <= made.max_groups <= 7
    assert 3 <= made.max_rows_per_group <= 5
    low, high = made.bounds["fare"]
    assert low == 0
    assert 70 <= high <= 150
    query = made.apply()
    assert isinstance(query, Query)
    assert (query.groups.max_groups, query.groups.max_rows) == (made.max_groups, made.max_rows_per_group)
    assert query.release(epsilon=1, delta=1e-6).to_arrow().num_rows == 12


def test_bounds_that_were_given_stay(visits):
    data = Dataset(visits, privacy_unit="person")
    query = data.group_by("month", max_groups=2, max_rows_per_group=9, public_keys=list(range(12)))
    made = query.sum("fare", bounds=(5, 10)).count().suggest_bounds(5)
    assert (made.max_groups, made.max_rows_per_group, made.bounds) == (2, 9, {})
    assert [each.to_dict() for each in made.apply().aggregates] == [
        each.to_dict() for each in query.sum("fare", bounds=(5, 10)).count().aggregates
    ]
    open_rows = data.group_by("month", max_groups=2, public_keys=list(range(12))).count()
    assert isinstance(open_rows, OpenQuery)
    made = open_rows.suggest_bounds(5)
    assert made.max_groups == 2
    assert made.max_rows_per_group in range(2, 9)


@pytest.mark.parametrize("aim", ["error", "coverage"])
@pytest.mark.parametrize("kind", ["sum", "mean", "variance"])
def test_limits_are_recommended_where_bounds_of_values_are_given(by_month, kind, aim):
    """Nothing is measured of these values: they are taken to lie evenly between their bounds."""
    query = by_month.count().count_units()
    made = getattr(query, kind)("fare", bounds=(0, 90)).suggest_bounds(
        20, 0, release_epsilon=20, release_delta=1e-6, aim=aim
    )
    assert made.bounds == {}
    assert 5 <= made.max_groups <= 7
    assert 3 <= made.max_rows_per_group <= 5
    assert isinstance(made.apply(), Query)


def test_the_curve_holds_the_truth(visits, by_month):
    made = by_month.count_units().suggest_bounds(50, 0, confidence=1 - 1e-10)
    groups = visits.group_by(["person", "month"]).aggregate([]).group_by("person").aggregate([("month", "count")])
    sizes = np.asarray(groups["month_count"])
    for each in made.choices:
        truth = np.maximum(sizes - each.max_groups, 0).sum() / sizes.sum()
        assert each.pairs_lost.low <= truth <= each.pairs_lost.high


def test_private_groups_are_measured_behind_a_threshold(visits):
    made = Dataset(visits, privacy_unit="person").group_by("month").count_units().suggest_bounds(1, 1e-6)
    plan = made.noise_plan
    assert plan.threshold is not None
    assert 0 < plan.selection_delta <= 1e-7 * (1 + 1e-9)
    assert (made.evidence.sizes.numbers >= plan.threshold).all()
    assert plan.charge.profile.delta(1) + plan.selection_delta <= 1e-6
    # Without δ no group can be chosen, and none is looked at.
    pure = Dataset(visits, privacy_unit="person").group_by("month").count_units().suggest_bounds(1, 0)
    assert pure.evidence.sizes is None
    assert "No group was large enough" in str(pure)


@pytest.mark.parametrize(("neighbours", "coordinates"), [("add_remove", 1), ("change_one", 2)])
def test_one_unit_is_in_one_place_of_each_histogram(visits, neighbours, coordinates):
    data = Dataset(visits, privacy_unit="person", neighbours=neighbours)
    made = data.group_by("month", public_keys=[1, 2]).mean("fare").suggest_bounds(1, 1e-6)
    assert set(made.noise_plan.parts) == {"groups", "rows", "sizes", "values of fare"}
    assert {part.coordinates for part in made.noise_plan.parts.values()} == {coordinates}
    assert made.noise_plan.charge.profile.delta(1) <= 1e-6


def test_it_is_charged_by_itself(visits, tmp_path):
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.open("visits", epsilon=1, delta=1e-6)
    data = Dataset(visits, privacy_unit="person", ledger=ledger, dataset="visits")
    made = data.group_by("month", public_keys=list(range(12))).count_units().suggest_bounds(0.1)
    assert made.entry is not None
    assert f"entry {made.entry}" in made.statement
    made.apply().release(epsilon=0.8, delta=1e-7)
    with pytest.raises(Exception, match=r"[Rr]efused|budget"):
        made.apply().suggest_bounds(0.3)


def test_it_can_be_read_by_people_and_programs(by_month, tmp_path):
    made = by_month.count().mean("fare").suggest_bounds(2, 0, release_delta=1e-6)
    plain = json.loads(json.dumps(made.to_dict()))
    assert plain["recommended"]["max_groups"] == made.max_groups
    assert sum(each["recommended"] for each in plain["choices"]) == 1
    text = str(made)
    assert f"max_groups = {made.max_groups}" in text
    assert "ε = 2" in text
    made.plot().figure.savefig(tmp_path / "curve.png")
    assert (tmp_path / "curve.png").stat().st_size > 1000


def test_bounds_for_coverage_cut_off_little(by_month):
    """With much budget for the histograms and little for the release: the least error cuts off more than the noise."""
    query, budget = by_month.count(), {"release_epsilon": 0.3, "release_delta": 1e-6}
    made = {name: query.suggest_bounds(50, 0, aim=name, **budget) for name in ("error", "coverage")}
    [count] = query.wanted.wanted
    strains = {name: each.model.strain(count, each.recommendation.choice) for name, each in made.items()}
    assert strains["coverage"] <= 0.5 < strains["error"]
    assert made["coverage"].to_dict()["aim"] == "coverage"
    with pytest.raises(ValueError, match='aim must be "error" or "coverage"'):
        query.suggest_bounds(1, aim="interval")


@pytest.mark.usefixtures("quiet_noise")
def test_bounds_that_were_read_from_noise_alone_are_not_applied(visits):
    """Nobody is in month 77; what was given stays."""
    data = Dataset(visits, privacy_unit="person").group_by("month", public_keys=[77, 78], max_groups=1)
    made = data.count().sum("fare").suggest_bounds(1, 0, release_epsilon=1, release_delta=1e-6)
    assert made.without_signal == ("max_rows_per_group", "the bounds of fare")
    assert made.sure == made.refusal
    assert "stable" not in str(made)
    with pytest.raises(ValueError, match="about max_rows_per_group and the bounds of fare, so no number is filled in"):
        made.apply()
    plain = {"groups": {"by": ["month"], "max_groups": 1}, "aggregates": [{"kind": "sum", "column": "fare"}]}
    filled = made.filled(plain)
    assert (filled["groups"], filled["aggregates"]) == (plain["groups"], plain["aggregates"])


def test_far_values_that_are_noise_are_not_recommended(by_month):
    """Among hundreds of empty bins some look full by chance: far from the others, they must be beyond doubt.

    At either end one run in 10,000 is allowed to: three of twelve have a probability below 2e-9.
    """
    far = 0
    for _ in range(12):
        low, high = by_month.mean("fare").suggest_bounds(1, 0, aim="coverage", release_delta=1e-6).bounds["fare"]
        far += low < -1000 or high > 10_000
    assert far <= 2


@pytest.mark.usefixtures("quiet_noise")
class TestWhatCannotBeSeen:
    """Ten people with 1,000 rows each, in all months and with huge fares: nobody can tell them from noise."""

    @pytest.fixture
    def made(self, visits):
        few = pa.table(
            {
                "person": np.repeat(np.arange(10) + 10**6, 1000),
                "month": np.arange(10_000) % 12,
                "fare": np.full(10_000, 1e6),
            }
        )
        table = pa.concat_tables([visits, few.cast(visits.schema)])
        query = Dataset(table, privacy_unit="person").group_by("month", public_keys=list(range(12)))
        return query.count().sum("fare").suggest_bounds(0.5, 0, release_epsilon=5, release_delta=1e-6)

    def test_it_is_said_to_be_unknown(self, made):
        assert made.bounds["fare"][1] < 1000
        for text in (str(made), made._repr_html_(), json.dumps(made.to_dict())):
            assert "What lies beyond what is seen is unknown, and in none of these figures" in text
            assert "rows in a group" in text
            assert "with values of fare below" in text
        number = int(made.unseen.split("up to about ")[-1].split()[0].replace(",", ""))
        assert number > 10

    def test_it_is_never_said_to_be_nothing_or_clear(self, made):
        for text in (str(made), made._repr_html_()):
            assert " 0 %" not in text
            assert ">0 %" not in text
            assert "clear" not in text
            assert "none seen" in text
            assert "No values of fare are seen outside" in text
        assert made.to_dict()["sure"] in ("stable", "fair", "weak")
        last = made.row_choices[-1]
        assert last.to_dict()["seen_beyond"]["max_rows_per_group"] is False

    def test_where_there_can_be_no_more_groups_nothing_is_unknown_of_them(self, visits):
        table = visits.set_column(1, "month", pa.array(np.arange(len(visits)) % 2))
        query = Dataset(table, privacy_unit="person").group_by("month", public_keys=[0, 1]).count_units()
        assert query.suggest_bounds(5, 0).unseen == "All that there can be is seen."
