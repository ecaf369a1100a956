"""Values that do not fit their declared types: what a release tells of them, with noise, on every engine with such."""

import json
from collections import Counter
from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from goodness import FALSE_ALARM
from osgt import Dataset, DiscreteOSGT, Publication, month
from osgt.limits.left_out import NOTHING, LeftOut
from osgt.query.groups import STEPS
from osgt.release.measuring import exact_numbers, prepare

TYPES = {"person": "int64", "fare": "float64", "day": "date", "rides": "int64", "town": "string"}
TOWNS = ["a", "b", "c"]


@cache
def made(people, seed=3):
    """Rows of text (person, town, fare, day, rides); some of the fares have a comma, and some of the days a point."""
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(people):
        for _ in range(int(rng.integers(1, 6))):
            fare = str(rng.choice(["12.5", "12,5", "n/a", "", "  "], p=[0.5, 0.2, 0.1, 0.1, 0.1]))
            day = str(rng.choice(["2024-12-31", "31.12.2024"], p=[0.6, 0.4]))
            rows.append((str(i), str(rng.choice(TOWNS)), fare, day, "1"))
    return tuple(rows)


def shares(rows, places, *, of_units=True):
    """The share of values that do not fit, of those that there are, in plain Python; by column. Units weigh alike."""
    wrong = {2: lambda text: text in ("12,5", "n/a"), 3: lambda text: "." in text, 4: lambda text: text != "1"}
    rows = [row for row in rows if row[0].isdigit()]
    of_unit = Counter(row[0] for row in rows)
    found = []
    for place in places:
        there = [(row[place], 1 / of_unit[row[0]] if of_units else 1) for row in rows if row[place].strip()]
        found.append(sum(w for text, w in there if wrong[place](text)) / sum(w for _, w in there))
    return found


@pytest.fixture(params=["duckdb", "spark", "frame"])
def put(request, tmp_path):
    """A data set of rows of text: CSV files on every engine that reads them, and a frame."""
    if request.param == "spark":
        request.getfixturevalue("spark")

    def data(rows, unit="person", name="rows.csv", **more):
        columns = ["person", "town", "fare", "day", "rides"]
        if request.param == "frame":
            return Dataset(
                pa.table(dict(zip(columns, zip(*rows, strict=True), strict=True))), unit, types=TYPES, **more
            )
        path = tmp_path / name
        path.write_text("\n".join([";".join(columns), *(";".join(row) for row in rows)]) + "\n")
        return Dataset(str(path), unit, types=TYPES, delimiter=";", engine=request.param, **more)

    return data


def asked(data):
    """By month, of which a day that does not fit has none: such rows are in no group."""
    groups = data.derive(month=month("day")).where("rides > 0").group_by("month", max_groups=2, max_rows_per_group=2)
    return groups.count().sum("fare", bounds=(0, 100))


def exact(query):
    plan = query.plan(1, 1e-6)
    return plan.left_out, exact_numbers(query, plan, prepare(query, plan)).left_out


def told(measured, numbers, laws=None):
    laws = laws or dict.fromkeys(measured.parts("add_remove"), DiscreteOSGT.laplace(1e-2))
    return LeftOut.of(measured, numbers, laws, 0.95, TYPES)


def test_the_numbers_are_those_of_the_rows(put):
    rows = [*made(60), ("nobody", "a", "12,5", "31.12.2024", "x"), ("7", "a", "1.5", "31.12.2024", "x")]
    measured, numbers = exact(asked(put(rows)))
    assert measured.misfits == ("fare", "day", "rides")
    found = told(measured, numbers).misfits
    assert [found[name].value for name in measured.misfits] == pytest.approx(shares(rows, (2, 3, 4)), abs=1e-5)


def test_one_unit_moves_each_histogram_by_one_at_most(put):
    rows = [*made(15), *[("99", "a", "12,5", "31.12.2024", "x")] * 700]
    measured, whole = exact(asked(put(rows)))
    parts = measured.parts("add_remove")
    assert {parts[name].moves for name in measured.names_of_misfits} == {((STEPS, 1),)}
    for person in ("99", "7"):
        _, less = exact(asked(put([row for row in rows if row[0] != person], name="less.csv")))
        for name in measured.names_of_misfits:
            moved = whole[name] - less[name]
            assert moved.min() >= 0
            assert 0 < moved.sum() <= STEPS


def test_rows_that_are_units(put):
    rows = made(20)
    measured, numbers = exact(put(rows, "row").group_by("town", public_keys=TOWNS).mean("fare", bounds=(0, 100)))
    assert measured.misfits == ("fare",)
    [name] = measured.names_of_misfits
    assert numbers[name].sum() == sum(bool(row[2].strip()) for row in rows)
    assert told(measured, numbers).misfits["fare"].value == pytest.approx(
        shares(rows, (2,), of_units=False)[0], abs=1e-5
    )


@pytest.mark.usefixtures("quiet_noise")
def test_they_alone_are_measured_where_limits_leave_nothing_out(put):
    data = put(made(3000))
    query = data.where("fare > 1").count_units()
    assert list(query.plan(1, 1e-6).noise.extra_noise) == ["values of fare that do not fit"]
    with pytest.warns(match="of the values of fare, over all rows with a person, are not written as"):
        release = query.release(200, 1e-6)
    assert release.left_out.sentences[0] == NOTHING
    # Without such columns, nothing is measured.
    assert data.count_units().plan(1, 1e-6).left_out is None


def test_a_unit_with_many_rows_is_one_unit():
    size = 300_000
    frame = pa.table({"person": np.zeros(size, int), "fare": np.where(np.arange(size) % 4 == 0, "x", "1")})
    data = Dataset(frame, "person", types={"fare": "float64"})
    _, numbers = exact(data.group_by(max_rows=2).sum("fare", bounds=(0, 1)))
    [[wrong, fits]] = numbers["values of fare that do not fit"]
    assert 0.999 * STEPS < wrong + fits <= STEPS
    assert wrong == pytest.approx((wrong + fits) / 4, rel=1e-3)


@pytest.mark.parametrize("claimed", [5.0, 2.0])
def test_intervals_hold_as_often_as_they_say(tmp_path, claimed):
    """And would not with more noise than they say."""
    path, runs, confidence = tmp_path / "rows.csv", 1500, 0.95
    rows = made(1500, seed=9)
    path.write_text("\n".join(["person,town,fare,day,rides", *(",".join(f'"{x}"' for x in row) for row in rows)]))
    measured, numbers = exact(asked(Dataset(path, "person", types=TYPES)))
    truth = dict(zip(measured.misfits, shares(rows, (2, 3, 4)), strict=True))
    laws = dict.fromkeys(measured.parts("add_remove"), DiscreteOSGT.laplace(claimed * STEPS))
    drawn = DiscreteOSGT.laplace(5.0 * STEPS)
    hits = dict.fromkeys(truth, 0)
    for _ in range(runs):
        noisy = {name: each + drawn.sample(each.shape) for name, each in numbers.items()}
        for name, share in told(measured, noisy, laws).misfits.items():
            hits[name] += share.low <= truth[name] <= share.high
    for name in ("fare", "day"):
        enough = stats.binom.cdf(hits[name], runs, confidence) >= FALSE_ALARM
        assert enough == (claimed == 5.0), (name, hits[name])


@pytest.mark.usefixtures("quiet_noise")
class TestRelease:
    def test_many_are_told_loudly_and_everywhere(self, put, tmp_path):
        query = asked(put(made(8000)))
        with pytest.warns(match="of the values of day, over all rows with a person, are not written as the declared"):
            release = query.release(200, 1e-6)
        share = release.left_out.misfits["day"]
        width, truth = share.high - share.low, shares(made(8000), (3,))[0]
        assert share.low - 3 * width <= truth <= share.high + 3 * width
        assert any("values of fare" in text and "osgt preview" in text for text in release.left_out.warnings)
        release.report(tmp_path / "r.html")
        page = (tmp_path / "r.html").read_text()
        for text in (str(release.statement), page, release._repr_html_()):
            assert "are not written as the declared type says (date, as 2026-05-03), and count as missing" in text
        plain = json.loads(json.dumps(release.statement.to_dict()))
        assert plain["left_out"]["values_that_do_not_fit"]["day"]["low"] == share.low
        assert plain["privacy"]["measures"][-1]["measure"] == "what is left out: values of rides that do not fit"

    def test_the_charge_has_all_of_it(self, put):
        query = asked(put(made(50)))
        plan = query.plan(5, 1e-6)
        assert {"values of fare that do not fit", "values of day that do not fit"} <= set(plan.noise.extra_noise)
        assert plan.charge.profile.delta(5) + plan.selection_delta <= 1e-6 * (1 + 1e-9)

    def test_none_are_no_warning(self, put):
        rows = [(str(i), TOWNS[i % 3], "12.5", "2024-12-31", "1") for i in range(3000)]
        release = asked(put(rows)).release(200, 1e-6)
        assert release.left_out.warnings == []
        assert any("do not fit their declared types" in text for text in release.left_out.sentences)
        assert max(share.value for share in release.left_out.misfits.values()) < 0.05

    def test_tables_tell_of_their_own_columns(self, put):
        data = put(made(8000))
        towns = data.group_by("town", max_groups=3, max_rows_per_group=2, public_keys=TOWNS)
        both = Publication(fares=towns.sum("fare", bounds=(0, 100)), rows=towns.sum("rides", bounds=(0, 9)))
        with pytest.warns(match="Table fares: .* of the values of fare"):
            release = both.release(200, 1e-6)
        assert {name: list(each.misfits) for name, each in release.left_out.items()} == {
            "fares": ["fare"],
            "rows": ["rides"],
        }
