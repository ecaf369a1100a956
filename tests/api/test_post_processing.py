"""Estimates, differences and ratios of releases: what they say, what they keep, and what they refuse."""

import math

import numpy as np
import pyarrow as pa
import pytest

from osgt import Dataset, Publication
from osgt.noise.integer import IntegerDistribution
from osgt.release.numbers import PublishedTable
from osgt.support.errors import OsgtError

WARDS, WEEKS = list(range(6)), list(range(50))

KEYS = {"ward": WARDS, "week": WEEKS}

pytestmark = pytest.mark.filterwarnings("ignore::osgt.support.errors.OsgtWarning")


@pytest.fixture(scope="module", autouse=True)
def same_noise():
    """The same noise in every run: no test here depends on chance."""
    rng = np.random.default_rng(12)

    def sample(law, size=None):
        return np.asarray(law.ppf(rng.random(size))).astype(np.int64)[()]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(IntegerDistribution, "sample", sample)
        yield


@pytest.fixture(scope="module")
def visits():
    """People of whom most are in few of many groups."""
    rng = np.random.default_rng(1)
    size = 600
    table = {
        "id": np.arange(size),
        "ward": rng.choice(WARDS, size),
        "week": np.minimum(rng.geometric(0.35, size) - 1, WEEKS[-1]),
        "cost": rng.integers(0, 50, size),
    }
    return Dataset(pa.table(table), privacy_unit="id")


def counted(visits, totals=None, **more):
    keys = {"ward": WARDS, "week": WEEKS}
    return visits.group_by("ward", "week", max_rows=1, public_keys=keys, totals=totals, **more).count()


@pytest.fixture(scope="module")
def sparse(visits):
    return counted(visits).release(epsilon=0.1, delta=0, intervals="noise")


@pytest.fixture(scope="module")
def nested(visits):
    return counted(visits, "rollup").release(epsilon=0.2, delta=1e-8, intervals="noise")


def test_estimates_stand_beside_the_published_numbers(sparse):
    result = sparse.estimates()
    names = ["ward", "week", *(f"count{end}" for end in ("", "_low", "_high"))]
    assert result.table.column_names == [*names, *(f"count_estimate{end}" for end in ("", "_low", "_high"))]
    assert result.table.select(names).equals(sparse.table)
    assert 0.2 < result.gains["count"] < 1
    best, low, high = (result[f"count_estimate{end}"] for end in ("", "_low", "_high"))
    assert best.sum() == pytest.approx(max(sparse["count"].sum(), 0))
    assert np.all((low >= 0) & (low <= best) & (best <= high))
    assert np.mean(high - low) < np.mean(sparse["count_high"] - sparse["count_low"])
    assert "smaller" in str(result)
    assert len(result.to_pandas()) == len(result) == 300


def test_estimates_of_totals_add_up(nested):
    result = nested.estimates().to_pandas()
    assert nested.estimates().gains["count"] > 0.2
    groups = result[result["summed_over"].isna()].groupby("ward")["count_estimate"].sum()
    wards = result[result["summed_over"] == "week"].set_index("ward")["count_estimate"]
    [whole] = result[result["summed_over"] == "ward, week"][["count", "count_estimate"]].to_numpy()
    assert groups.to_numpy() == pytest.approx(wards.to_numpy())
    assert wards.sum() == pytest.approx(whole[1])
    assert whole[1] == whole[0]
    alone = nested.without_totals().estimates()
    assert len(alone) == 300
    assert alone["count_estimate"].sum() == pytest.approx(nested.without_totals()["count"].sum())


def test_dense_numbers_stay_as_published(visits):
    query = visits.group_by("ward", max_rows=1, public_keys=WARDS).count()
    result = query.release(epsilon=1, delta=0).estimates()
    assert result.gains == {"count": None}
    assert np.array_equal(result["count_estimate"], result["count"])
    assert np.array_equal(result["count_estimate_high"], result["count_high"])
    assert "left as published" in str(result)


def test_estimates_need_the_noise_as_it_was(visits):
    with pytest.raises(OsgtError, match="nonnegative must be left out"):
        counted(visits).release(epsilon=1, delta=0, nonnegative=True).estimates()
    chosen = visits.group_by("ward", max_rows=1).count().release(epsilon=1, delta=1e-6)
    with pytest.raises(OsgtError, match="public_keys"):
        chosen.estimates()
    means = visits.group_by("ward", max_rows=1, public_keys=WARDS).mean("cost", bounds=(0, 50))
    with pytest.raises(OsgtError, match="counts and sums"):
        means.release(epsilon=1, delta=1e-6).estimates()


def test_sums_that_may_be_negative_stay_as_published(visits):
    data = visits.group_by("ward", "week", max_rows=1, public_keys={"ward": WARDS, "week": WEEKS})
    result = data.sum("cost", max_total=50).release(epsilon=0.2, delta=0).estimates()
    assert result.gains == {"cost_sum": None}
    assert "may be negative" in str(result)


# Differences and ratios


def test_a_difference_of_two_groups(sparse):
    result = sparse.difference({"ward": 1, "week": 0}, {"ward": 2, "week": 0})
    table = sparse.to_pandas().set_index(["ward", "week"])["count"]
    assert result.value == table[1, 0] - table[2, 0]
    noise = sparse.plan.columns[0].noise
    # Two independent noises: √2 times as wide, and no wider than one noise after the other.
    half = (result.high - result.low) / 2
    assert 1.3 * noise.half_width(0.95) < half < 1.6 * noise.half_width(0.95)
    assert sparse.difference({"ward": 1, "week": 0}, {"ward": 2, "week": 0}, confidence=0.5).high < result.high


def test_a_group_differs_by_nothing_from_itself(nested):
    group = {"ward": 1, "week": 0}
    result = nested.difference(group, group)
    assert (result.value, result.high, result.low) == (0, 2, -2)  # the rounding of a table with totals


def test_the_joint_noise_of_a_part_and_its_total(nested):
    """Against the estimates that least squares make of one measured number at a time."""
    column = PublishedTable(nested.table, nested.plan).column("count")
    part, total = (column.of.row_of("first", group) for group in ({"ward": 1, "week": 0}, {"ward": 1}))
    levels, measure = nested.plan.levels, column.aggregate.measure
    _, _, where = column.classes
    estimator, sizes = levels.shared.estimator(measure, 0), levels.structure.sizes
    variance = 0.0
    for at, law in enumerate(estimator.laws):
        for place in range(sizes[at]) if law is not None else ():
            values = [np.zeros((size, 1)) for size in sizes]
            values[at][place] = 1.0
            estimates = estimator.squares.estimates(values)
            share = [float(estimates[level][number, 0]) for level, number in (where[part], where[total])]
            variance += (share[0] - share[1]) ** 2 * law.var()
    variance *= float(nested.plan.noise.scheme.combined[measure][measure]) ** 2
    noise = levels.joint_noise(measure, where[part], where[total])
    assert noise.joint(1.0).var() == pytest.approx(variance, rel=1e-4)
    # They have noise in common.
    assert abs(variance / (column.noise_of(part).var() + column.noise_of(total).var()) - 1) > 0.01
    share = nested.ratio({"ward": 1, "week": 0}, {"ward": 1})
    assert 0 <= share.low < share.value < share.high


def test_all_groups_of_two_releases(visits, sparse):
    later = counted(visits).release(epsilon=0.5, delta=0)
    result = later.difference(other=sparse)
    assert result.table.column_names == ["ward", "week", *(f"count_difference{end}" for end in ("", "_low", "_high"))]
    assert np.array_equal(result["count_difference"], later["count"] - sparse["count"])
    one = later.difference({"ward": 3, "week": 4}, other=sparse)
    row = result.to_pandas().query("ward == 3 and week == 4")
    assert row["count_difference_low"].item() == one.low
    ratios = later.ratio(other=sparse).to_pandas()
    assert np.all(ratios["count_ratio_low"] <= ratios["count_ratio_high"])
    assert np.isinf(ratios["count_ratio_high"]).any()
    assert len(later.ratio({"ward": 3, "week": 0}, {"ward": 3, "week": 1}, other=sparse)) == 1


def test_intervals_allow_for_what_limits_cut_off():
    rows = pa.table({"id": np.repeat(np.arange(400), 5), "town": np.tile([0, 1, 0, 1, 1], 400)})
    query = Dataset(rows, privacy_unit="id").group_by("town", max_rows=2, public_keys=[0, 1]).count()
    release = query.release(epsilon=20, delta=1e-6)
    missing = release.left_out.missing["rows"]
    assert missing > 0.5
    result = release.difference(1, 0)
    half = release.plan.columns[0].noise.half_width(0.95)
    assert result.high > result.value + missing * release["count"][1] + half
    assert result.low < result.value - missing * release["count"][0]
    ratio = release.ratio(1, 0)
    assert ratio.low < 1.5 < ratio.high


def test_tables_of_a_publication(visits):
    wards = visits.group_by("ward", max_rows=1, public_keys=WARDS)
    young = visits.where("cost < 25").group_by("ward", max_rows=1, public_keys=WARDS).count()
    release = Publication(all=wards.count(), same=wards.count(name="n").sum("cost", max_total=(0, 50)), young=young)
    tables = release.release(epsilon=1, delta=1e-6)
    share = tables["young"].ratio(2, other=tables["all"])
    assert 0 < share.low < share.high < 2
    with pytest.raises(OsgtError, match="have the same noise"):
        tables["all"].difference(2, other=tables["same"])


def test_a_publication_that_was_released_twice(visits):
    """Tables that agree have their noise in common; those of another release of the same plan do not."""
    queries = {name: visits.group_by(name, max_rows=1, public_keys=keys) for name, keys in KEYS.items()}
    both = Publication({name: query.count() for name, query in queries.items()})
    first, second = (both.release(epsilon=1, delta=1e-6) for _ in range(2))
    with pytest.raises(OsgtError, match="have the same noise"):
        first["ward"].difference(2, 3, other=first["week"])
    same = first["ward"].difference(2, other=second["ward"])
    assert same.low < 0 < same.high
    half = first["ward"].plan.columns[0].half_width
    assert half < (same.high - same.low) / 2 < 2 * half + 20  # with the rounding of tables that agree


def test_what_cannot_be_compared(visits, sparse):
    with pytest.raises(OsgtError, match="this table itself"):
        sparse.difference({"ward": 1, "week": 2}, {"ward": 1, "week": 3}, other=sparse)
    median = visits.group_by("ward", max_rows=1, public_keys=WARDS).median("cost", bounds=(0, 50), interval="none")
    with pytest.raises(OsgtError, match="the release has none"):
        median.release(epsilon=1, delta=0).difference(1, 2)
    with pytest.raises(OsgtError, match="second must be given"):
        sparse.difference({"ward": 1, "week": 2})
    with pytest.raises(OsgtError, match="must have a value for each of ward, week"):
        sparse.difference({"ward": 1}, {"ward": 2})
    with pytest.raises(OsgtError, match="no group"):
        sparse.difference({"ward": 77, "week": 0}, {"ward": 2, "week": 0})
    with pytest.raises(OsgtError, match="did you mean 'week'"):
        sparse.difference({"ward": 1, "weak": 0}, {"ward": 2, "week": 0})
    with pytest.raises(OsgtError, match="other must be a release"):
        sparse.difference({"ward": 1, "week": 0}, other="last year")
    with pytest.raises(ValueError, match="there are 300 rows"):
        _ = sparse.ratio(other=counted(visits).release(epsilon=0.5, delta=0)).value
    means = visits.group_by("ward", max_rows=1, public_keys=WARDS).mean("cost", bounds=(0, 50)).count()
    with pytest.raises(OsgtError, match="is a mean"):
        means.release(epsilon=1, delta=1e-6).ratio(1, 2, column="cost_mean")
    signed = visits.group_by("ward", max_rows=1, public_keys=WARDS).sum("cost", max_total=50)
    with pytest.raises(OsgtError, match="use difference"):
        signed.release(epsilon=1, delta=0).ratio(1, 2)


def test_a_ratio_to_an_empty_group_is_open(sparse):
    result = sparse.ratio({"ward": 1, "week": 0}, {"ward": 1, "week": 49})
    assert result.high == math.inf
    assert result.value is None or result.value > 0


def test_tables_that_agree_are_compared_with_those_of_another_release(visits):
    wards = visits.group_by("ward", max_rows=1, public_keys=WARDS).count()
    publication = Publication(wards=wards, weeks=counted(visits))
    first, second = (publication.release(epsilon=1, delta=1e-6) for _ in range(2))
    assert first["wards"].plan.shared[0] is first["weeks"].plan.shared[0]
    with pytest.raises(OsgtError, match="some of it in common"):
        first["wards"].difference(1, {"ward": 1, "week": 0}, other=first["weeks"])
    second["wards"].statement.values["publication"]["date"] = "later"  # both may be of one second
    result = first["wards"].difference(1, other=second["wards"])
    assert result.low < result.value < result.high
