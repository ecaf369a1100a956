"""Totals of quarters and years of a series: sums of what was published, with intervals from the noise of all of it."""

import datetime
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from scipy import stats
from typer.testing import CliRunner

import osgt
from osgt import Dataset, Ledger
from osgt.api.series import Series
from osgt.check import check, read
from osgt.cli import app
from osgt.limits.left_out import missing_together
from osgt.query.file.reading import read_query_file
from osgt.release.measuring import Presentation, exact_numbers, noisy_table, prepare, with_noise
from osgt.release.numbers import add_tables

LATER = datetime.date(2027, 5, 1)
QUARTERS = ["2026-Q1", "2026-Q2"]

HEAD = """
[data]
source = "births.parquet"
privacy_unit = "child"
ledger = "budget.db"
dataset = "births"
"""
TABLE = """
[groups]
by = "canton"
public_keys = ["BE", "ZH"]
max_rows = 1
max_groups = 1
[[aggregates]]
kind = "count_units"
[[aggregates]]
kind = "sum"
column = "weight"
bounds = [0, 8]
[[aggregates]]
kind = "mean"
column = "weight"
bounds = [0, 8]
"""
TABLES = """
[[table]]
name = "by_canton"
[table.groups]
by = "canton"
public_keys = ["BE", "ZH"]
max_rows = 1
[[table.aggregates]]
kind = "count"
[[table]]
name = "all"
[table.groups]
max_rows = 1
[[table.aggregates]]
kind = "count"
"""
TAIL = """
[budget]
epsilon = 0.5
delta = 1e-9
[series]
column = "registered"
from = "2026-01"
until = "2026-06"
totals = ["quarter"]
[output]
out = "births-{period}.csv"
"""


def ask(*, table=TABLE, series="", output="", **changed):
    """Write the query file, with other keys."""
    text = HEAD + table + TAIL.replace("[output]", f"{series}\n[output]") + output
    for old, new in changed.items():
        text = text.replace(old, new)
    Path("births.toml").write_text(text)


def publish(until=LATER, **options):
    return {one.period: one.status for one in osgt.publish("births.toml", today=until, **options)}


def table_of(period, suffix=".csv"):
    return pa.csv.read_csv(f"births-{period}{suffix}")


@pytest.fixture
def births(tmp_path, monkeypatch):
    """A folder with data of half a year, in which children come again, and a ledger."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(5)
    days = np.datetime64("2026-01-01") + rng.integers(0, 181, 3000)
    table = {"child": [f"c{i % 2000}" for i in range(3000)], "canton": rng.choice(["BE", "ZH"], 3000)}
    pa.parquet.write_table(pa.table({**table, "weight": rng.uniform(2, 6, 3000), "registered": days}), "births.parquet")
    ask()
    with Ledger("budget.db") as ledger:
        ledger.open("births", epsilon=1, delta=1e-6, unit="child")
    return tmp_path


def allowances(months):
    """What the upper ends of each month allow for, by the column."""
    names = [next(Path("budget.db.series").glob(f"*/2026-{month:02}.made.json")) for month in months]
    told = [json.loads(name.read_text())["allowances"][""] for name in names]
    return [{"count_units": one["units"]} if "units" in one else {} for one in told]


class TestPublishing:
    def test_a_total_is_the_sum_of_what_was_published(self, births):
        assert list(publish().values()) == ["published now"] * 8
        for quarter, months in zip(QUARTERS, (range(1, 4), range(4, 7)), strict=True):
            parts, total = [table_of(f"2026-{month:02}") for month in months], table_of(quarter)
            assert total.column_names == [
                *("canton", "count_units", "count_units_low", "count_units_high"),
                *("weight_sum", "weight_sum_low", "weight_sum_high"),
            ]
            assert total["canton"].to_pylist() == ["BE", "ZH"]
            for name in ("count_units", "weight_sum"):
                assert total[name].to_numpy() == pytest.approx(sum(part[name].to_numpy() for part in parts), rel=1e-12)
                # Upper ends allow for what limits cut off as well.
                wide, *ones = (one[name].to_numpy() - one[f"{name}_low"].to_numpy() for one in (total, *parts))
                assert wide == pytest.approx(np.sqrt(3) * ones[0], rel=0.06)
                above, *others = (one[f"{name}_high"].to_numpy() - one[name].to_numpy() for one in (total, *parts))
                for other, half, part, allowed in zip(others, ones, parts, allowances(months), strict=True):
                    numbers = part[name].to_numpy() * allowed.get(name, [0.0])[0]
                    assert other == pytest.approx(half + np.ceil(np.maximum(numbers, 0)), abs=1e-3)
                together = [allowed[name] for allowed in allowances(months) if name in allowed]
                numbers = total[name].to_numpy() * (missing_together(together) if together else 0.0)
                assert above == pytest.approx(wide + np.ceil(np.maximum(numbers, 0)), abs=1e-3)

    def test_it_costs_nothing_and_is_in_the_ledger(self, births):
        publish()
        with Ledger("budget.db") as ledger:
            assert ledger.spent("births").epsilon == pytest.approx(0.5, rel=1e-3)
            [record] = ledger.history("births")
            assert record.status == "settled"
            assert ledger.verify().ok
        run = CliRunner().invoke(app, ["check", "births-2026-Q1.csv", "--ledger", "budget.db"])
        assert run.exit_code == 0, run.output
        text = " ".join(run.output.split())
        assert "This is the total of 3 of 6 instalments" in text
        assert "byte for byte" in text

    def test_the_statement_says_what_it_is(self, births):
        publish()
        run = CliRunner().invoke(app, ["statement", "births-2026-Q1.csv"])
        text = " ".join(run.output.split())
        assert "Each instalment is (ε, δ)-differentially private with ε = 0.5" in text
        assert "the total for 2026-Q1: the sums of what the 3 instalments 2026-01 to 2026-03 published" in text
        assert "costs no budget" in text
        assert "Of weight_mean there are no totals" in text
        assert "Each child counts in one month alone" in text
        assert "data set 'births', entry 2)" in text

    def test_of_another_instalment_it_is_none(self, births):
        publish()
        statement, columns, rows = read(Path("births-2026-Q1.csv"))
        assert check(statement, columns, rows).problems == []
        [problem] = check({**statement, "total_of": ["2026-01", "2025-12"]}, columns, rows).problems
        assert "not all instalments" in problem

    def test_once_all_its_instalments_are_out(self, births):
        status = publish(datetime.date(2026, 3, 31))
        assert (status["2026-02"], status["2026-03"], status["2026-Q1"]) == ("published now", "not due", "not due")
        assert publish(only := datetime.date(2026, 7, 1), period="2026-Q1") == {"2026-Q1": "incomplete"}
        assert publish(only, period="2026-03") == {"2026-03": "published now"}
        assert publish(only, period="2026-Q1") == {"2026-Q1": "published now"}
        before = Path("births-2026-Q1.csv").read_bytes()
        # The clock is set back, and forward again.
        assert publish(datetime.date(2020, 1, 1))["2026-Q1"] == "not due"
        assert publish()["2026-Q1"] == "published before"
        assert Path("births-2026-Q1.csv").read_bytes() == before

    def test_the_command_says_what_it_waits_for(self, births):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("osgt.cli.release.date", type("Day", (), {"today": lambda: LATER}))
            run = CliRunner().invoke(app, ["publish", "births.toml", "--period", "2026-Q1"])
        assert run.exit_code == 0, run.output
        assert "2026-Q1: some of its instalments are not published yet" in run.output

    def test_it_may_be_asked_for_later(self, births):
        ask(**{'totals = ["quarter"]': ""})
        assert "2026-Q1" not in publish()
        for file in Path().glob("births-*"):
            file.unlink()  # the files may be anywhere by now
        ask()
        status = publish()
        assert {name for name, one in status.items() if one == "published now"} == set(QUARTERS)
        with Ledger("budget.db") as ledger:
            assert ledger.spent("births").releases == 1
            assert ledger.verify().ok

    def test_person_months(self, births):
        """Where a child may be in two months it is counted in both."""
        ask(series="max_periods = 2")
        with Ledger("budget.db") as ledger:
            ledger.open("wide", epsilon=2, delta=1e-6, unit="child")
        Path("births.toml").write_text(Path("births.toml").read_text().replace('"births"', '"wide"'))
        publish()
        text = Path("births-2026-Q1.csv-metadata.json").read_text(encoding="utf-8")
        assert "a number of child-months: a child that counts in several months is counted in each" in text
        assert "that of 2 instalments" in text
        assert "counts in one month alone" not in text
        statement, columns, rows = read(Path("births-2026-Q1.csv"))
        result = check(statement, columns, rows)
        assert result.problems == []
        assert "together they keep ε = 1 " in result.series

    @pytest.mark.parametrize("out", ["births-{period}-{table}.parquet", "births-{period}.xlsx"])
    def test_several_tables(self, births, out):
        ask(table=TABLES, **{"births-{period}.csv": out})
        assert list(publish().values()) == ["published now"] * 8
        if out.endswith(".xlsx"):
            statement, _, _ = read(Path("births-2026-Q1.xlsx"))
            assert check(statement).problems == []
            assert statement["total_of"] == ["2026-01", "2026-02", "2026-03"]
            return
        for name in ("by_canton", "all"):
            path = Path(f"births-2026-Q2-{name}.parquet")
            assert check(*read(path)).problems == []
            months = [pa.parquet.read_table(f"births-2026-0{month}-{name}.parquet") for month in (4, 5, 6)]
            summed = sum(month["count"].to_numpy() for month in months)
            assert pa.parquet.read_table(path)["count"].to_numpy().tolist() == summed.tolist()
        total, groups = (pa.parquet.read_table(f"births-2026-Q2-{name}.parquet") for name in ("all", "by_canton"))
        assert total["count"].to_pylist() == [sum(groups["count"].to_pylist())]

    def test_rates_and_marks(self, births):
        per = "max_rows = 1\nper = { BE = 1000000, ZH = 1500000 }"
        ask(output="marks = true", **{"max_rows = 1": per})
        publish()
        total = table_of("2026-Q1")
        rates = total["count_units"].to_numpy() / [10, 15]
        assert total["count_units_rate"].to_numpy() == pytest.approx(rates)
        assert set(total["count_units_mark"].to_pylist()) == {"good"}
        assert check(*read(Path("births-2026-Q1.csv"))).problems == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({'"quarter"]': '"month"]'}, "make no whole month"),
        ({'"quarter"]': '"year"]'}, "make no whole year"),
        ({'"quarter"]': '"decade"]'}, "totals"),
        ({'out = "births-{period}.csv"': 'report = "births-{period}.html"'}, "out must be given"),
        ({"[output]": "[output]\nnonnegative = true"}, "nonnegative must be left out"),
        ({'public_keys = ["BE", "ZH"]\n': ""}, "need public_keys"),
        ({'"count_units"': '"median"\ncolumn = "weight"\nbounds = [0, 8]', '"sum"': '"mean"'}, "neither counts nor"),
    ],
)
def test_what_has_no_totals(births, changes, message):
    table = TABLE
    if "neither" in message:
        table = TABLE[: TABLE.index('[[aggregates]]\nkind = "mean"')]
    ask(table=table, **changes)
    with pytest.raises(ValueError, match=message):
        publish()
    with Ledger("budget.db") as ledger:
        assert ledger.spent("births").releases == 0


def test_it_can_be_made_again_from_what_was_published(births):
    """Byte for byte: whoever has the instalments has the totals."""
    publish()
    with Ledger("budget.db") as ledger:
        series = Series.of(read_query_file(Path("births.toml")), ledger)
        entry, _, _ = ledger.instalments("births", series.name)
        with series.memory.held() as memory:
            before = memory.read_made("2026-Q1")
            assert series._add_up(entry, "2026-Q1", series.totals["2026-Q1"]) == json.loads(
                json.dumps(before), object_hook=tuples
            )


def test_what_limits_cut_off_in_all_instalments():
    """Its noise partly cancels out, as that of the numbers does; what was cut off for certain adds up."""
    noisy = [(0.05, cut, 1000, 40.0) for cut in (30, -30, 20, -20)]
    assert missing_together(noisy) == pytest.approx(40 * 2 / 4000)
    assert missing_together([(0.1, 100, 900, 0.0)] * 3) == pytest.approx(1 / 9)
    assert missing_together([(0.0, 0, 0, 5.0), (0.2, 1, 2, 5.0)]) == 0.2


def tuples(files):
    return {name: tuple(value) if isinstance(value, list) else value for name, value in files.items()}


# The intervals: tables of one plan with noise of their own, and the sums without noise.

COPIES, TIMES = 4, 60
EXACT = {"a": 20, "b": 0, "c": 1000, "d": 41}


def one_plan(totals=None, **limits):
    rows = [(f"p{i}", key) for i, key in enumerate(key for key, n in EXACT.items() for _ in range(n))]
    data = Dataset(pa.table(list(zip(*rows, strict=True)), names=["person", "key"]), privacy_unit="person")
    query = data.group_by("key", public_keys=[*EXACT], totals=totals, **{"max_rows": 1, **limits}).count()
    return query, query.plan(epsilon=0.3, delta=1e-9, measure_left_out=False)


def made_tables(query, plan, exact, noisy=with_noise):
    """Tables of several instalments with the same exact numbers."""
    measured = [noisy(query, plan, exact) for _ in range(COPIES)]
    return [noisy_table(query, plan, one, Presentation(intervals="noise")) for one in measured]


def truth_of(query, plan, exact):
    """The table without noise: of the same estimates, from the exact numbers."""
    [without] = made_tables(query, plan, exact, lambda q, p, e: replace(with_noise(q, p, e), noisy=e.numbers))[:1]
    return without["count"].to_numpy()


ONCE = {"max_rows": None, "max_rows_per_group": 1, "max_groups": 1}
SHAPES = [{}, {"max_rows": 3}, ONCE, {"totals": [()]}, {**ONCE, "totals": [()]}]


def misses(query, plan, narrower=0.0):
    """How many sums are outside of their intervals, of how many; these may be made narrower on both sides."""
    exact = exact_numbers(query, plan, prepare(query, plan))
    expected = COPIES * truth_of(query, plan, exact)
    missed = total = 0
    for _ in range(TIMES):
        added = add_tables(made_tables(query, plan, exact), plan, None)
        low, high = (added[f"count_{end}"].to_numpy() for end in ("low", "high"))
        cut = narrower * (high - low) / 2
        missed += np.count_nonzero((expected < low + cut) | (expected > high - cut))
        total += len(expected)
    return missed, total


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_intervals_hold_the_sums(shape):
    """In at least 95 % of the cases; a false alarm in 10⁶ runs, as if rows of one table were one draw."""
    query, plan = one_plan(**shape)
    missed, total = misses(query, plan)
    rows = total // TIMES
    assert stats.binom(TIMES, 0.05).sf(missed / rows - 1) > 1e-6 / len(SHAPES)


def test_narrower_intervals_would_not_hold_them():
    """The power of the test above."""
    query, plan = one_plan(**ONCE)
    wide, total = misses(query, plan, 0.7)
    assert stats.binom(TIMES, 0.05).sf(wide * TIMES / total - 1) < 1e-6


def test_the_half_width_is_that_of_the_convolution():
    """Of the noise with itself, over and over."""
    query, plan = one_plan(**ONCE)
    added = add_tables(made_tables(query, plan, exact_numbers(query, plan, prepare(query, plan))), plan, None)
    [law] = plan.laws.values()
    reach = int(law.isf(1e-14))
    together = np.ones(1)
    for _ in range(COPIES):
        together = np.convolve(together, law.pmf(np.arange(-reach, reach + 1)))
    middle = len(together) // 2
    least = 1 + int(np.searchsorted(together[middle] + 2 * np.cumsum(together[middle + 1 :]), plan.confidence))
    for row in added.to_pylist():
        half = row["count_high"] - row["count"]
        assert least <= half == row["count"] - row["count_low"] <= least + 0.02 * law.std() + 1
