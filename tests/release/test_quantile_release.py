"""Medians, quantiles and proportions in releases: in Python, query files and commands, with every type of column."""

import json
import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from scipy import stats
from typer.testing import CliRunner

from goodness import FALSE_ALARM
from osgt import Dataset
from osgt.cli import app

#: Much budget: next to no noise, and intervals that no draw leaves.
EXACT = {"epsilon": 1000, "delta": 1e-6, "confidence": 1 - 1e-9}

#: Far more than the noise of a share of some hundred rows then is: about 1e-5.
NEAR = 1e-3

PEOPLE = 900
RNG = np.random.default_rng(8)
FARES = np.round(RNG.gamma(2.0, 20.0, PEOPLE), 2)
CITY = np.where(np.arange(PEOPLE) % 3 == 0, "Bern", "Rome")


@pytest.fixture(scope="module")
def rides(tmp_path_factory):
    path = tmp_path_factory.mktemp("rides") / "rides.parquet"
    table = pa.table(
        {
            "user": np.arange(PEOPLE),
            "city": CITY,
            "fare": FARES,
            "cents": pa.array([Decimal(str(fare)) for fare in FARES], pa.decimal128(9, 2)),
            "whole": pa.array([None if i % 9 == 0 else int(fare) for i, fare in enumerate(FARES)], pa.int32()),
        }
    )
    pyarrow.parquet.write_table(table, path)
    return path


def by_city(path, **options):
    groups = {"max_groups": 1, "max_rows_per_group": 1, "public_keys": ["Bern", "Rome", "Oslo"]} | options
    return Dataset(path, privacy_unit="user").group_by("city", **groups)


class TestValues:
    @pytest.mark.parametrize(
        ("column", "dtype", "width"),
        [("fare", pa.float64(), 200 / 64), ("cents", pa.decimal128(38, 2), 3.13), ("whole", pa.int64(), 4)],
    )
    def test_every_type(self, rides, column, dtype, width):
        table = by_city(rides).quantile(column, [0.25, 0.5, 0.9], bounds=(0, 200), bins=64).release(**EXACT).table
        for level in (25, 50, 90):
            name = f"{column}_q{level}"
            assert table[name].type == table[f"{name}_low"].type == table[f"{name}_high"].type == dtype
            for city, value, low, high in zip(
                *(table[each].to_pylist() for each in ("city", name, f"{name}_low", f"{name}_high")), strict=True
            ):
                values = FARES[city == CITY]
                if column == "whole":
                    values = np.floor(FARES[(city == CITY) & (np.arange(PEOPLE) % 9 != 0)])
                if city == "Oslo":
                    assert (value, float(low), float(high)) == (None, 0, 200)
                    continue
                true = np.quantile(values, level / 100, method="inverted_cdf")
                assert float(low) <= true <= float(high)
                assert float(high) - float(low) <= 3 * width
                assert float(low) <= float(value) <= float(high)

    def test_small_integers_are_values(self, rides):
        """With a bin for each whole number, a median is one between the lower and the upper median."""
        table = by_city(rides).median("whole", bounds=(0, 200)).release(**EXACT).table
        found = table["whole_median"].to_pylist()
        for i, city in enumerate(("Bern", "Rome")):
            values = np.floor(FARES[(city == CITY) & (np.arange(PEOPLE) % 9 != 0)])
            assert np.quantile(values, 0.5, method="lower") <= found[i] <= np.quantile(values, 0.5, method="higher")

    @pytest.mark.usefixtures("quiet_noise")
    def test_values_beyond_the_bounds_count_as_the_bounds(self, rides):
        query = by_city(rides).quantile("fare", [0.01, 0.99], bounds=(30, 50), bins=20)
        assert "fare from 30 to 50" in str(query.plan(**EXACT))
        row = query.release(**EXACT).rows(1)[0]
        assert row["fare_q1_low"] == 30
        assert row["fare_q99_high"] == 50
        [cut] = query.preview().outside
        number = int(np.sum((FARES < 30) | (FARES > 50)))
        assert (cut.column, cut.low, cut.high, cut.number) == ("fare", 30, 50, number)
        told = query.release(**EXACT, measure_left_out=True).left_out.values["fare"]
        assert told.value == pytest.approx(np.mean((FARES < 30) | (FARES > 50)), abs=0.05)

    def test_intervals_hold_as_often_as_they_say(self):
        """All medians of groups of every size, also without rows, from a plan's own noise; two rows of a person."""
        sizes, runs = np.repeat([0, 1, 6, 60, 600], 200), 200
        groups = np.repeat(np.arange(len(sizes)), sizes)
        values = np.minimum(RNG.geometric(0.05, len(groups)), 50)
        # Each person is in two groups: rows of people are far apart in the table.
        person = np.arange(len(groups)) % (len(groups) // 2)
        table = pa.table({"person": person, "group": groups, "value": values})
        query = Dataset(table, privacy_unit="person").group_by(
            "group", max_groups=2, max_rows_per_group=1, public_keys=list(range(len(sizes)))
        )
        found = query.median("value", bounds=(0, 50)).release(epsilon=1, delta=1e-6, confidence=0.9).table
        low, high = (found[f"value_median_{end}"].to_numpy() for end in ("low", "high"))
        missed = np.zeros(len(sizes), bool)
        for i, size in enumerate(sizes):
            mine = values[groups == i]
            ends = [np.quantile(mine, 0.5, method=m) for m in ("lower", "higher")] if size else [0, 50]
            missed[i] = low[i] > ends[0] or high[i] < ends[1]
        for i in range(5):
            assert stats.binom.sf(missed[i * runs : (i + 1) * runs].sum() - 1, runs, 0.1) > FALSE_ALARM
        # Large groups are told to a few steps.
        assert np.mean((high - low)[-runs:]) < 12

    def test_names(self, rides):
        query = by_city(rides).quantile("fare", [0.999, 0.5], bounds=(0, 200), bins=8)
        query = query.quantile("fare", 0.025, bounds=(0, 200), bins=8, name="low").median("fare", (0, 200), bins=8)
        assert [name for each in query.aggregates for name in each.names] == [
            "fare_q50",
            "fare_q99_9",
            "low",
            "fare_median",
        ]
        with pytest.raises(ValueError, match="there is a column 'fare_q50' already"):
            query.quantile("fare", 0.5, bounds=(0, 100))

    @pytest.mark.parametrize(
        ("arguments", "error", "message"),
        [
            (("fare", 0.5), ValueError, "bounds of 'fare' must be given"),
            (("fare", 0.5, (5, 5)), ValueError, "the lower one and then the upper one"),
            (("fare", [], (0, 1)), TypeError, "levels must be numbers between 0 and 1"),
            (("fare", "0.5", (0, 1)), TypeError, "levels must be numbers between 0 and 1"),
            (("fare", [True], (0, 1)), TypeError, "levels must be numbers between 0 and 1"),
            (("fare", [0.5, 1], (0, 1)), ValueError, "levels must be above 0 and below 1"),
            (("fare", math.nan, (0, 1)), ValueError, "levels must be"),
            (("fare", [0.5, 0.5], (0, 1)), ValueError, "levels must differ"),
            (("city", 0.5, (0, 1)), TypeError, "column 'city' must hold numbers"),
            (("whole", 0.5, (0, 1)), ValueError, "too close to each other for quantiles"),
        ],
    )
    def test_errors(self, rides, arguments, error, message):
        with pytest.raises(error, match=message):
            by_city(rides).quantile(*arguments)

    @pytest.mark.parametrize("bins", [1, 0, 2000, 2.5, True])
    def test_bins(self, rides, bins):
        with pytest.raises((ValueError, TypeError), match="bins must be"):
            by_city(rides).median("fare", (0, 1), bins=bins)


class TestProportions:
    def test_shares_of_rows(self, rides):
        table = by_city(rides).proportion("fare > 40 AND whole IS NOT NULL", name="dear").release(**EXACT).table
        for i, city in enumerate(("Bern", "Rome")):
            holds = (FARES > 40) & (np.arange(PEOPLE) % 9 != 0)
            true = holds[city == CITY].mean()
            low, high = (table[f"dear_{end}"].to_pylist()[i] for end in ("low", "high"))
            assert low <= true <= high
            assert table["dear"].to_pylist()[i] == pytest.approx(true, abs=NEAR)
            assert high - low < 0.01

    def test_unknown_is_not_true(self, rides):
        """A condition on a missing value does not hold, and the row counts."""
        table = by_city(rides).proportion("whole >= 0").release(**EXACT).table
        bern = (np.arange(PEOPLE) % 9 != 0)[CITY == "Bern"].mean()
        assert table["proportion"].to_pylist()[0] == pytest.approx(bern, abs=NEAR)

    def test_intervals_hold_as_often_as_they_say(self, rides):
        """In groups of every size, also without rows; the numbers of people are made up, and the noise is real."""
        sizes, runs = np.repeat([0, 1, 5, 40, 400], 400), 400
        groups = np.repeat(np.arange(len(sizes)), sizes)
        holds = RNG.random(len(groups)) < 0.2
        table = pa.table({"user": np.arange(len(groups)), "group": groups, "holds": holds})
        query = Dataset(table, privacy_unit="user").group_by(
            "group", max_groups=1, max_rows_per_group=1, public_keys=list(range(len(sizes)))
        )
        made = query.proportion("holds").release(epsilon=1, delta=1e-6, confidence=0.9).table
        true = np.bincount(groups, holds, minlength=len(sizes)) / np.maximum(sizes, 1)
        low, high = (made[f"proportion_{end}"].to_numpy() for end in ("low", "high"))
        assert np.all((low >= 0) & (high <= 1))
        assert made["proportion"].is_null().to_numpy().tolist() == ((low == 0) & (high == 1)).tolist()
        missed = (low > true + 1e-12) | (high < true - 1e-12)
        for i in range(5):
            assert stats.binom.sf(missed[i * runs : (i + 1) * runs].sum() - 1, runs, 0.1) > FALSE_ALARM
        # They are not all there is: the largest groups are told apart.
        assert np.mean((high - low)[-runs:]) < 0.1

    def test_half_as_far_to_move(self, rides):
        plan = by_city(rides, max_rows_per_group=3).proportion("fare > 40").plan(epsilon=1, delta=1e-6)
        most = {measure.words: plan.groups.max_contribution(measure) for measure in plan.parts}
        # Three rows of a unit have all of its steps but for one: rounded up, that is a hair more than three.
        assert 3 <= most["rows with fare > 40, less all other rows"] < 3 * (1 + 1e-8)

    @pytest.mark.parametrize(
        ("condition", "message"),
        [
            ("fare > (SELECT avg(fare) FROM t)", "did not expect 'SELECT'"),
            ("fair > 40", "there is no column 'fair'"),
            ("fare > avg(fare)", "avg"),
        ],
    )
    def test_conditions_look_at_one_row(self, rides, condition, message):
        with pytest.raises(ValueError, match=message) as caught:
            by_city(rides).proportion(condition)
        assert str(caught.value).startswith("condition: ")


QUERY = """
[data]
source = "{path}"
privacy_unit = "user"
[groups]
by = "city"
max_groups = 1
max_rows_per_group = 1
[[aggregates]]
kind = "quantile"
column = "whole"
levels = [0.25, 0.75]
bounds = [0, 60]
bins = 64
[[aggregates]]
kind = "median"
column = "whole"
bounds = [0, 60]
[[aggregates]]
kind = "proportion"
condition = "fare > 40"
name = "dear"
"""


class TestWays:
    def test_a_query_file_and_the_command_line(self, rides, tmp_path):
        """The same plan, and releases with the same columns, by both ways."""
        path = tmp_path / "query.toml"
        path.write_text(QUERY.format(path=rides))
        typed = [str(rides), "--unit", "user", "--by", "city", "--max-groups", "1", "--max-rows-per-group", "1"]
        typed += ["--quantile", "whole:0:60:0.25,0.75", "--median", "whole:0:60", "--proportion", "dear = fare > 40"]
        names = ["whole_q25", "whole_q75", "whole_median", "dear"]
        for given in (typed, ["--query", str(path)]):
            done = CliRunner().invoke(app, ["plan", *given, "--epsilon", "50", "--delta", "1e-6", "--json"])
            assert done.exit_code == 0, done.output
            columns = json.loads(done.stdout)["columns"]
            assert sorted(column["name"] for column in columns) == sorted(names)
            done = CliRunner().invoke(app, ["release", *given, "--epsilon", "50", "--delta", "1e-6", "--json"])
            assert done.exit_code == 0, done.output
            rows = json.loads(done.stdout)["table"]
            assert [row["city"] for row in rows] == ["Bern", "Rome"]
            for row in rows:
                assert row["whole_q25_low"] <= row["whole_q25"] < row["whole_q75"] <= row["whole_q75_high"]
                assert 0 <= row["dear_low"] <= row["dear"] <= row["dear_high"] <= 1

    def test_in_the_terminal(self, rides):
        given = [str(rides), "--unit", "user", "--by", "city", "--max-groups", "1", "--max-rows-per-group", "1"]
        given += ["--median", "whole:0:60", "--epsilon", "2", "--delta", "1e-6"]
        planned = CliRunner().invoke(app, ["plan", *given])
        assert "percentile" in planned.output
        assert "whole_median" in CliRunner().invoke(app, ["release", *given]).output

    @pytest.mark.parametrize(
        ("option", "value", "message"),
        [
            ("--quantile", "fare:0:200", "--quantile must be COLUMN[:LOW:HIGH]:LEVEL,LEVEL"),
            ("--quantile", "fare:0:200:half", "'half' is not a number"),
            ("--median", "fare", "bounds of 'fare' must be given"),
            ("--proportion", "fare > 40", "--proportion must be NAME=CONDITION"),
        ],
    )
    def test_options_of_another_form(self, rides, option, value, message):
        given = [str(rides), "--unit", "user", "--by", "city", "--max-groups", "1", "--max-rows-per-group", "1"]
        done = CliRunner().invoke(app, ["plan", *given, option, value, "--epsilon", "1", "--delta", "1e-6"])
        assert done.exit_code != 0
        assert message in " ".join(done.output.split())

    def test_the_query_can_be_repeated_from_its_statement(self, rides):
        release = (
            by_city(rides)
            .quantile("fare", [0.5], (0, 200), bins=16)
            .median("fare", (0, 9), bins=9)
            .proportion("fare > 1")
        ).release(epsilon=1, delta=1e-6)
        asked = release.statement.to_dict()["query"]["aggregates"]
        query = by_city(rides)
        for each in asked:
            query = getattr(query, each.pop("kind"))(**each)
        assert [each.to_dict() for each in query.aggregates] == [each.to_dict() for each in release.query.aggregates]

    def test_the_report(self, rides, tmp_path):
        path = tmp_path / "report.html"
        empty = [f"nowhere {i}" for i in range(20)]  # about 95 % of them have an interval that is all of the bounds
        query = by_city(rides, public_keys=["Bern", *empty]).median("fare", (0, 200), bins=16)
        query.proportion("fare > 40").release(epsilon=1, delta=1e-6).report(path)
        text = path.read_text(encoding="utf-8")
        assert "percentile" in text
        assert "not enough data" in text
