"""Series: each instalment once, whoever is killed or comes twice, and no unit in more of them than it may."""

import contextlib
import datetime
import itertools
import json
import random
import shutil
import subprocess
import sys
import threading
import tomllib
from pathlib import Path
from pkgutil import resolve_name
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

import leakage
import ways
from osgt import Ledger
from osgt.api import publish as publishing
from osgt.api import series as module
from osgt.api.memory import ForgottenError, Memory
from osgt.api.periods import longer_periods, periods_between
from osgt.api.series import OtherNoiseError, Series
from osgt.cli import app
from osgt.ledger import BudgetExceeded, HandedOutError, OtherSubjectError
from osgt.ledger.instalments import follow, series_of
from osgt.ledger.store.chain import Fault
from osgt.privacy import Charge
from osgt.query.file.reading import query_file_of, read_query_file
from osgt.release.measuring import NothingReleasedError
from osgt.support.errors import ArgumentError

MONTHS = [f"2026-{month:02}" for month in range(1, 7)]
LATER = datetime.date(2027, 5, 1)

TEXT = """
[data]
source = "births.parquet"
privacy_unit = "child"
ledger = "budget.db"
dataset = "births"
[groups]
by = "canton"
public_keys = ["BE", "ZH"]
[[aggregates]]
kind = "count_units"
[budget]
epsilon = 0.5
delta = 1e-9
[series]
column = "registered"
from = "2026-01"
until = "2026-06"
[output]
out = "births-{period}.csv"
"""


def write_rows(folder, rows):
    """Rows of (child, canton, date)."""
    names = ["child", "canton", "registered"]
    types = [pa.string(), pa.string(), pa.date32()]
    columns = [pa.array([row[i] for row in rows], dtype) for i, dtype in enumerate(types)]
    pa.parquet.write_table(pa.table(columns, names=names), folder / "births.parquet")


def made_rows(count=300, seed=1):
    chosen = random.Random(seed)
    return [
        (
            f"child number {i}",
            chosen.choice(["BE", "ZH"]),
            datetime.date(2026, chosen.randrange(1, 7), chosen.randrange(1, 29)),
        )
        for i in range(count)
    ]


@pytest.fixture
def births(tmp_path, monkeypatch):
    """A folder with data, a ledger and a query file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    write_rows(tmp_path, made_rows())
    (tmp_path / "births.toml").write_text(TEXT)
    with Ledger("budget.db") as ledger:
        ledger.open("births", epsilon=1, delta=1e-6, unit="child")
    return tmp_path


def series(changes=None, ledger=None):
    plain = tomllib.loads(TEXT)
    for part, keys in (changes or {}).items():
        plain[part] |= keys
    return Series.of(query_file_of(plain), Ledger("budget.db") if ledger is None else ledger)


def published(found, today=LATER, **options):
    return [one.period for one in found.publish(today, **options) if one.status == "published now"]


def tables():
    """The bytes of what is published, by name."""
    return {path.name: path.read_bytes() for path in sorted(Path().glob("births-*"))}


def counts(period):
    return pa.csv.read_csv(f"births-{period}.csv")["count_units"].to_pylist()


class TestPublishing:
    def test_all_instalments_cost_what_one_costs(self, births):
        assert published(series()) == MONTHS
        with Ledger("budget.db") as ledger:
            assert ledger.spent("births").epsilon == pytest.approx(0.5, rel=1e-3)
            assert ledger.spent("births").releases == 1
            [record] = ledger.history("births")
            assert record.status == "settled"
            assert len(record.notes) == 12
            assert ledger.verify().ok
        # Month by month it would be refused after the second.
        with Ledger("budget.db") as ledger:
            ledger.open("months", epsilon=1, delta=1e-6, unit="child")
            charge = record.charge
            fitting = ledger.how_many("months", charge)
        assert fitting == 2

    def test_each_is_published_once_when_its_period_is_over(self, births):
        assert published(series(), datetime.date(2026, 3, 31)) == ["2026-01", "2026-02"]
        before = tables()
        assert published(series(), datetime.date(2026, 3, 31)) == []
        assert published(series(), datetime.date(2026, 4, 1)) == ["2026-03"]
        assert published(series(), only="2026-05") == ["2026-05"]
        # The clock is set back, and forward again.
        assert published(series(), datetime.date(2020, 1, 1)) == []
        assert published(series(), datetime.date(2026, 4, 1)) == []
        assert {name: tables()[name] for name in before} == before
        assert published(series()) == [
            month for month in MONTHS if month not in ("2026-01", "2026-02", "2026-03", "2026-05")
        ]
        with Ledger("budget.db") as ledger:
            assert ledger.spent("births").releases == 1

    def test_unused_instalments_stay_charged(self, births):
        published(series(), datetime.date(2026, 2, 1))
        with Ledger("budget.db") as ledger:
            assert ledger.spent("births").epsilon == pytest.approx(0.5, rel=1e-3)
            [record] = ledger.history("births")
            assert record.status == "reserved"

    def test_so_many_instalments_are_charged_as_a_unit_can_be_in(self, births):
        with Ledger("budget.db") as ledger:
            ledger.open("more", epsilon=2, delta=1e-6, unit="child", neighbours="change_one")
        changes = {"series": {"max_periods": 2}, "data": {"dataset": "more", "neighbours": "change_one"}}
        found = series(changes)
        assert found.together == 4
        published(found, datetime.date(2026, 2, 1))
        with Ledger("budget.db") as ledger:
            [record] = ledger.history("more")
        query = found._query("2026-01", None)
        single = query.plan(epsilon=0.5, delta=1e-9).charge
        assert record.charge == Charge.compose([single] * 4)

    def test_a_budget_that_is_too_small_publishes_nothing(self, births):
        with pytest.raises(BudgetExceeded):
            published(series({"budget": {"epsilon": 1.5}}))
        assert tables() == {}
        with Ledger("budget.db") as ledger:
            assert ledger.spent("births").releases == 0

    def test_a_file_and_plain_values_are_one_series(self, births):
        assert Series.of(read_query_file("births.toml"), Ledger("budget.db")).name == series().name
        changed = {"groups": {"public_keys": ["BE"]}, "budget": {"epsilon": 0.4}, "series": {"max_periods": 2}}
        names = {series({part: keys}).name for part, keys in changed.items()}
        assert len(names | {series().name}) == 4
        assert series({"output": {"out": "other/{period}.csv"}}).name == series().name

    def test_the_command(self, births):
        run = CliRunner().invoke(app, ["publish", "births.toml", "--json"])
        assert run.exit_code == 0, run.output
        due = [one for one in json.loads(run.stdout) if one["status"] == "published now"]
        assert [one["period"] for one in due] == MONTHS
        run = CliRunner().invoke(app, ["publish", "births.toml", "--due"])
        assert (run.exit_code, run.stdout) == (0, "")
        run = CliRunner().invoke(app, ["release", "--query", "births.toml"])
        assert run.exit_code == 2
        assert "osgt publish" in run.output
        run = CliRunner().invoke(app, ["audit", "--query", "births.toml"])
        assert run.exit_code == 2
        assert "leave [series] out" in " ".join(run.output.split())


class TestWhoCounts:
    """With next to no noise: in how many instalments is one child, whatever becomes of its rows?"""

    EXACT = {"budget": {"epsilon": 60.0, "delta": 1e-9}}

    @pytest.fixture
    def open_budget(self, births):
        with Ledger("budget.db") as ledger:
            ledger.open("wide", epsilon=1000, delta=1e-6, unit="child")
        return births

    def of(self, **keys):
        return series({**self.EXACT, "series": keys, "data": {"dataset": "wide"}})

    def total(self, months):
        return sum(sum(counts(month)) for month in months)

    @pytest.mark.parametrize("most", [1, 2])
    @pytest.mark.parametrize("seed", range(2))
    def test_rows_that_come_late_move_or_go(self, open_budget, most, seed):
        chosen = random.Random(seed)
        others = [("other", "ZH", datetime.date(2026, month, 3)) for month in (2, 5)]
        rows = []
        for end in range(2, 8):
            rows = [row for row in rows if chosen.random() < 0.5]
            rows += [("x", "BE", datetime.date(2026, chosen.randrange(1, end), 5)) for _ in range(2)]
            write_rows(open_budget, rows + others)
            published(self.of(max_periods=most), datetime.date(2026, end, 1))
        months = MONTHS[:6]
        assert 1 <= sum(counts(month)[0] for month in months) <= most
        assert [counts(month)[1] for month in months] == [0, 1, 0, 0, int(most == 2), 0]

    def test_without_memory_they_are_let_in_again(self, open_budget):
        """The power of the test above."""
        for month in (1, 2, 3):
            write_rows(open_budget, [("x", "BE", datetime.date(2026, month, 5))])
            published(self.of(remember=False), datetime.date(2026, month + 1, 1))
        assert self.total(MONTHS[:3]) == 3
        text = Path("births-2026-01.csv-metadata.json").read_text(encoding="utf-8")
        assert "as long as earlier rows do not change" in text

    @pytest.mark.parametrize("remember", [True, False])
    def test_who_is_in_several_months_counts_in_the_first(self, open_budget, remember):
        rows = [("x", "BE", datetime.date(2026, month, 5)) for month in (4, 2, 6)]
        write_rows(
            open_budget, [*rows, ("y", "ZH", datetime.date(2026, 6, 1)), (None, "ZH", datetime.date(2026, 1, 1))]
        )
        published(self.of(remember=remember))
        assert [counts(month) for month in ("2026-02", "2026-04", "2026-06")] == [[1, 0], [0, 0], [0, 1]]
        assert self.total(MONTHS) == 2
        text = Path("births-2026-01.csv-metadata.json").read_text(encoding="utf-8")
        assert ("Who was counted is remembered" in text) == remember

    def test_months_may_come_in_any_order(self, open_budget):
        write_rows(open_budget, [("x", "BE", datetime.date(2026, 4, 5))])
        published(self.of(), only="2026-04")
        write_rows(open_budget, [("x", "BE", datetime.date(2026, month, 5)) for month in (1, 4)])
        published(self.of())
        assert self.total(MONTHS) == 1


#: A step at which a process is killed: what it calls next, and whether it is killed before or after that.
STEPS = [
    ("osgt.api.series.Memory.secret", "after"),
    ("osgt.ledger.ledger.Ledger.hand_out", "after"),
    ("osgt.api.series.Memory.count", "after"),
    ("osgt.api.series.fill", "after"),
    ("osgt.api.series.Memory.finish", "before"),
    ("osgt.api.series.Memory.finish", "after"),
    ("osgt.ledger.ledger.Ledger.record_published", "before"),
    ("osgt.ledger.ledger.Ledger.record_published", "after"),
    ("osgt.api.series._copy", "after"),
]

KILLED = """
import datetime, os, sys
from unittest import mock
from pkgutil import resolve_name
from osgt import Ledger
from osgt.api.series import Series
from osgt.query.file.reading import read_query_file
day, period, *steps = sys.argv[1:]
for step in steps:
    name, when = step.split("/")
    owner, _, attribute = name.rpartition(".")
    owner = resolve_name(owner)
    real = getattr(owner, attribute)
    def killed(*given, real=real, when=when, **more):
        if when == "after":
            real(*given, **more)
        os._exit(9)
    setattr(owner, attribute, killed)
    file = read_query_file("births.toml")
    pid = os.fork()
    if pid == 0:
        list(Series.of(file, Ledger("budget.db")).publish(datetime.date.fromisoformat(day), only=period or None))
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 9, (step, status)
    setattr(owner, attribute, real)
    seen = {name: open(name, "rb").read() for name in os.listdir() if name.startswith("births-")}
    print(step, sorted(seen), flush=True)
    os.makedirs("seen", exist_ok=True)
    for name, content in seen.items():
        place = f"seen/{name}"
        if os.path.exists(place):
            assert open(place, "rb").read() == content, (step, name)
        else:
            open(place, "wb").write(content)
"""


def killed_at_every_step(day, period, steps):
    """One process after the other dies at the next step: the files that anybody has seen."""
    steps = ["/".join(step) for step in steps]
    command = [sys.executable, "-c", KILLED, day, period, *steps]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    return {path.name: path.read_bytes() for path in Path("seen").iterdir()}


def test_killed_at_every_step(births):
    """What anybody has seen once never becomes something else."""
    seen = killed_at_every_step("2026-03-01", "", STEPS)
    assert "births-2026-01.csv" in seen
    assert set(published(series(), datetime.date(2026, 3, 1))) <= {"2026-01", "2026-02"}
    after = tables()
    assert {name: after[name] for name in seen} == seen
    assert {"births-2026-01.csv", "births-2026-02.csv"} <= after.keys()
    assert not list(Path().glob(".*tmp"))
    with Ledger("budget.db") as ledger:
        assert ledger.spent("births").releases == 1
        assert ledger.verify().ok


def test_killed_while_a_total_is_made(births):
    totals = {"series": {"totals": ["quarter"]}}
    assert published(series(), datetime.date(2026, 4, 1)) == MONTHS[:3]
    (births / "births.toml").write_text(TEXT.replace("[series]", '[series]\ntotals = ["quarter"]'))
    steps = [("osgt.api.series.add_tables", "after") if "count" in name else (name, when) for name, when in STEPS]
    seen = killed_at_every_step("2026-04-01", "2026-Q1", steps)
    assert "births-2026-Q1.csv" in seen
    assert set(published(series(totals), datetime.date(2026, 4, 1))) <= {"2026-Q1"}
    assert {name: tables()[name] for name in seen} == seen
    assert counts("2026-Q1") == [sum(numbers) for numbers in zip(*map(counts, MONTHS[:3]), strict=True)]
    with Ledger("budget.db") as ledger:
        assert ledger.spent("births").releases == 1
        assert ledger.verify().ok


def test_two_that_publish_the_same_at_once(births):
    results, errors = [], []

    def run():
        try:
            results.append(published(series(), datetime.date(2026, 4, 1)))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert sorted(itertools.chain(*results)) == MONTHS[:3]
    with Ledger("budget.db") as ledger:
        assert ledger.spent("births").releases == 1
        assert ledger.verify().ok


def test_two_processes_that_publish_the_same_at_once(births):
    """Instalments and the totals of them."""
    (births / "births.toml").write_text(TEXT.replace("[series]", '[series]\ntotals = ["quarter"]'))
    command = [sys.executable, "-m", "osgt", "publish", "births.toml", "--json"]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(3)]
    told = [one.communicate() for one in running]
    assert [one.returncode for one in running] == [0] * 3, told
    status = [(one["period"], one["status"]) for out, _ in told for one in json.loads(out)]
    periods = [*MONTHS, "2026-Q1", "2026-Q2"]
    assert sorted(status) == sorted(
        (one, what) for one in periods for what in ["published before"] * 2 + ["published now"]
    )
    for quarter, months in zip(periods[-2:], (MONTHS[:3], MONTHS[3:]), strict=True):
        assert counts(quarter) == [sum(numbers) for numbers in zip(*map(counts, months), strict=True)]
    with Ledger("budget.db") as ledger:
        assert ledger.spent("births").releases == 1
        assert ledger.verify().ok


class TestPrivacyOfAll:
    """What all instalments of a series tell about one child, by a convolution of the losses of their exact numbers.

    Its rows come late, move and go, while those of others stay. Independent of the charge (`leakage`).
    """

    def instalments(self, folder, times, changes, monkeypatch):
        """The plans and the exact numbers of all instalments, where these are the rows from time to time."""
        folder.mkdir()
        monkeypatch.chdir(folder)
        seen = []

        def with_noise(query, plan, exact, real=publishing.with_noise):
            seen.append((plan, exact))
            return real(query, plan, exact)

        with Ledger("budget.db") as ledger, monkeypatch.context() as patched:
            patched.setattr(publishing, "with_noise", with_noise)
            neighbours = changes["data"]["neighbours"]
            ledger.open("births", epsilon=9, delta=1e-3, unit="child", neighbours=neighbours)
            for month, rows in enumerate(times, 2):
                write_rows(folder, rows)
                published(series(changes, ledger), datetime.date(2026, month, 1))
            [record] = ledger.history("births")
        assert len(seen) == len(times)
        return seen, record.charge

    def losses(self, births, monkeypatch, seed, most, neighbours, *, remember=True):
        """How many instalments differ, δ at two ε in the worse direction, and what was charged for these."""
        chosen = random.Random(f"{seed} {most} {neighbours}")
        others = made_rows(30, seed)

        def times(name):
            """A child that turns up everywhere in the end."""
            days = [datetime.date(2026, chosen.choice([month, month, 1, 2, 3]), 5) for month in (1, 2, 3)]
            return [[*others, *((name, "BE", day) for day in days[i : i + 1])] for i in range(3)]

        one, other = times("x"), times("y") if neighbours == "change_one" else [others] * 3
        about = {"until": "2026-03", "max_periods": most, "remember": remember}
        changes = {"series": about, "data": {"neighbours": neighbours}, "budget": {"epsilon": 0.4, "delta": 1e-4}}
        found = [
            self.instalments(births / f"{seed}{i}", rows, changes, monkeypatch) for i, rows in enumerate([one, other])
        ]
        (seen, charge), (theirs, _) = found
        plans, mine = zip(*seen, strict=True)
        theirs = [exact for _, exact in theirs]
        differ = sum(
            any(not np.array_equal(a.numbers[m], b.numbers[m]) for m in a.numbers)
            for a, b in zip(mine, theirs, strict=True)
        )
        pairs = [(mine, theirs), (theirs, mine)]
        return differ, [
            (max(leakage.delta(plans, *pair, epsilon) for pair in pairs), charge.delta(epsilon))
            for epsilon in (0.4, 0.8)
        ]

    @pytest.mark.parametrize(("most", "neighbours"), [(1, "add_remove"), (2, "add_remove"), (1, "change_one")])
    def test_no_child_loses_more_than_was_charged(self, births, monkeypatch, most, neighbours):
        together = most * (2 if neighbours == "change_one" else 1)
        results = [self.losses(births, monkeypatch, seed, most, neighbours) for seed in range(4)]
        assert max(differ for differ, _ in results) == together
        for _, deltas in results:
            assert all(lost <= charged * (1 + 1e-6) for lost, charged in deltas), results

    def test_without_memory_it_would(self, births, monkeypatch):
        """The power of the test above."""
        results = [self.losses(births, monkeypatch, seed, 1, "add_remove", remember=False) for seed in range(4)]
        assert max(differ for differ, _ in results) > 1
        assert any(lost > charged for _, deltas in results for lost, charged in deltas)


@pytest.mark.parametrize("way", ["postgres url", "spark file"])
def test_other_engines(births, request, way):
    """Who counts is asked of the engine, told to the memory and given back to the engine: with next to no noise."""
    rows = [(f"c{i % 7}", "BE" if i % 2 else "ZH", datetime.date(2026, 1 + i % 3, 1 + i)) for i in range(21)]
    write_rows(births, rows)
    started = request.getfixturevalue("spark" if way.startswith("spark") else "postgres_tables")
    source, options = ways.source(way, pa.parquet.read_table("births.parquet"), births, started, started)
    with Ledger("budget.db") as ledger:
        ledger.open("wide", epsilon=1000, delta=1e-6, unit="child")
    changes = {
        "data": {"source": source, "dataset": "wide", **options},
        "groups": {"max_groups": 1},
        "budget": {"epsilon": 60.0},
        "series": {"totals": ["quarter"]},
    }
    assert published(series(changes), datetime.date(2026, 4, 1)) == [*MONTHS[:3], "2026-Q1"]
    first = {}
    for child, _, day in sorted(rows, key=lambda row: row[2]):
        first.setdefault(child, day.month)
    numbers = [sum(counts(month)) for month in MONTHS[:3]]
    assert numbers == [list(first.values()).count(month) for month in (1, 2, 3)]
    assert sum(counts("2026-Q1")) == 7
    assert published(series(changes), datetime.date(2026, 4, 1)) == []


class TestAnotherPlace:
    """Who does not have the folder of the series does not get an instalment that somebody has."""

    def test_with_another_folder(self, births):
        published(series(), datetime.date(2026, 2, 1))
        before = tables()
        with pytest.raises(ForgottenError, match=r"the folder .* is another one"):
            published(series({"series": {"store": "elsewhere"}}))
        assert tables() == before

    def test_with_the_folder_of_an_earlier_day(self, births, monkeypatch):
        found = series()
        with monkeypatch.context() as patched:
            patched.setattr(module, "units_of", lambda *_: 1 / 0)
            with pytest.raises(NothingReleasedError):
                published(found, datetime.date(2026, 2, 1))
        earlier = (found.memory.folder / "counted.db").read_bytes()
        published(series(), datetime.date(2026, 2, 1))
        (found.memory.folder / "counted.db").write_bytes(earlier)
        with pytest.raises(ForgottenError, match="has been forgotten"):
            published(series())

    @pytest.mark.parametrize(
        "step", ["osgt.api.series._copy", "osgt.ledger.ledger.Ledger.record_published", "osgt.api.series.Memory.finish"]
    )
    def test_with_an_earlier_folder_after_a_run_was_cut_off(self, births, monkeypatch, step):
        """The folder is that of before the instalment was made, and its files have gone: nobody gets other numbers."""
        folder = series().memory.folder
        with monkeypatch.context() as patched:
            patched.setattr(module, "units_of", lambda *_: 1 / 0)
            with pytest.raises(NothingReleasedError):
                published(series(), datetime.date(2026, 2, 1))
        shutil.copytree(folder, "earlier")
        real = resolve_name(step)

        def cut_off(*given, **more):
            real(*given, **more)
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(step, cut_off)
            with pytest.raises(KeyboardInterrupt):
                published(series(), datetime.date(2026, 2, 1))
        seen = tables()
        for name in seen:
            Path(name).unlink()
        shutil.rmtree(folder)
        shutil.copytree("earlier", folder)
        with contextlib.suppress(ForgottenError):
            published(series(), datetime.date(2026, 2, 1))
        again = tables()
        assert not seen.keys() & again.keys() or seen == again
        assert step.endswith(("finish", "_published")) == (seen == {})

    @pytest.mark.parametrize("knows", [True, False])
    def test_with_an_earlier_copy_of_the_ledger(self, births, knows):
        """The copy does not know that January is out: another folder gets no other numbers for it."""
        with Ledger("budget.db") as ledger:
            published(series(ledger=ledger), datetime.date(2020, 1, 1))
            ledger.backup("earlier.db")
            published(series(ledger=ledger), datetime.date(2026, 2, 1))
            heads = ledger.verify().heads if knows else None
            ledger.restore("earlier.db", heads=heads, charges_unknown=not knows, reason="r")
        for name in tables():
            Path(name).rename(f"seen-{name}")
        for store in ("elsewhere", "budget.db.series"):
            with pytest.raises(HandedOutError, match="an earlier copy of the ledger was put back"):
                published(series({"series": {"store": store}}), datetime.date(2026, 2, 1))
            assert tables() == {}

    def test_what_is_handed_out_stays_with_its_holder(self, births):
        published(series(), datetime.date(2026, 2, 1))
        with Ledger("budget.db") as ledger:
            [record] = ledger.history("births")
            assert ledger.hand_out("births", record.sequence, "2026-05", "mine") == "handed out"
            assert ledger.hand_out("births", record.sequence, "2026-05", "mine") == "handed out"
            with pytest.raises(HandedOutError, match="was handed out to"):
                ledger.hand_out("births", record.sequence, "2026-05", "yours")
            with pytest.raises(HandedOutError):
                ledger.record_published("births", record.sequence, "2026-05", "yours", {"output": "x", "mark": "m"})
            with pytest.raises(ValueError, match="was not handed out"):
                ledger.record_published("births", record.sequence, "2026-06", "mine", {"output": "x", "mark": "m"})
            with pytest.raises(ValueError, match="no instalment '2027-01'"):
                ledger.hand_out("births", record.sequence, "2027-01", "mine")
        with pytest.raises(ForgottenError, match="2026-05 was handed out to"):
            published(series())

    def test_a_file_that_is_in_the_way_is_not_replaced(self, births):
        Path("births-2026-01.csv").write_text("mine")
        with pytest.raises(FileExistsError, match="move it away"):
            published(series(), datetime.date(2026, 2, 1))
        Path("births-2026-01.csv").unlink()
        made = {path.name: path.read_bytes() for path in Path("budget.db.series").rglob("births-2026-01.csv")}
        assert published(series(), datetime.date(2026, 2, 1)) == ["2026-01"]
        assert tables()["births-2026-01.csv"] == made["births-2026-01.csv"]

    @pytest.mark.parametrize("remember", [True, False])
    def test_another_table_is_not_read(self, births, remember):
        """Whoever was born and dies would count in two instalments without a memory; its own budget has each table."""
        changes = {"series": {"remember": remember}}
        published(series(changes), datetime.date(2026, 2, 1))
        shutil.copy("births.parquet", "deaths.parquet")
        with pytest.raises(OtherSubjectError, match="deaths"):
            published(series(changes | {"data": {"source": "deaths.parquet"}}))
        assert [*tables()] == ["births-2026-01.csv", "births-2026-01.csv-metadata.json"]
        (births / "moved").mkdir()
        shutil.move("births.parquet", "moved/births.parquet")
        moved = series(changes | {"data": {"source": "moved/births.parquet"}})
        assert published(moved, datetime.date(2026, 3, 1)) == ["2026-02"]

    def test_other_noise_is_refused(self, births, monkeypatch):
        published(series(), datetime.date(2026, 2, 1))
        real = Charge.compose
        monkeypatch.setattr(module.Charge, "compose", lambda charges: real([*charges, *charges]))
        with pytest.raises(OtherNoiseError, match="planned otherwise"):
            published(series())


def test_the_folder_is_private_and_holds_no_names(births):
    found = series()
    published(found, datetime.date(2026, 2, 1))
    assert found.memory.folder.stat().st_mode & 0o077 == 0
    database = found.memory.folder / "counted.db"
    assert database.stat().st_mode & 0o077 == 0
    content = database.read_bytes()
    child = next(row[0] for row in made_rows() if row[2].month == 1)
    assert child.encode() not in content
    with Memory(found.memory.folder).held() as memory:
        [(count,)] = memory._database.execute("SELECT count(*) FROM counted").fetchall()
    assert count == sum(row[2].month == 1 for row in made_rows())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"series": {"from": "2026"}}, 'from must name a month, as in "2027-01"'),
        ({"series": {"until": "2026-13"}}, "until must name a month"),
        ({"series": {"until": "2025-12"}}, "before the first"),
        ({"series": {"until": "2026-01"}}, "two periods or more"),
        ({"series": {"column": "canton"}}, "must be a date or a time"),
        ({"series": {"column": "day"}}, "no column 'day'"),
        ({"series": {"max_periods": 0}}, "max_periods"),
        ({"output": {"out": "births.csv"}}, "must have {period}"),
        ({"data": {"privacy_unit": "row"}}, "remember must be false"),
        ({"data": {"privacy_unit": ["child", "canton"]}}, "remember must be false"),
        ({"series": {"every": "month"}}, "every"),
        ({"series": {"totals": ["month"]}}, "make no whole month"),
    ],
)
def test_what_is_no_series(births, changes, message):
    with pytest.raises(ValueError, match=message):
        published(series(changes))
    assert tables() == {}
    with Ledger("budget.db") as ledger:
        assert ledger.spent("births").releases == 0


def test_a_series_is_not_audited_as_a_whole(births):
    result = CliRunner().invoke(app, ["audit", "--query", "births.toml"])
    assert result.exit_code == 2
    assert "leave [series] out" in " ".join(result.stderr.split())


def test_periods_follow_each_other():
    for length, first, last, count in [
        ("day", "2027-02-27", "2027-03-02", 4),
        ("week", "2026-W52", "2027-W02", 4),
        ("month", "2026-11", "2027-02", 4),
        ("quarter", "2026-Q3", "2027-Q2", 4),
        ("year", "2026", "2029", 4),
    ]:
        periods = periods_between(length, first, last)
        assert next(iter(periods)) == first
        assert [*periods][-1] == last
        assert len(periods) == count
        assert all(one[1] == other[0] for one, other in itertools.pairwise(periods.values()))
    with pytest.raises(ArgumentError, match="at most 1,000"):
        periods_between("day", "2000-01-01", "2027-01-01")


def test_longer_periods_have_whole_ones_alone():
    def longer(length, first, last, *names):
        periods = periods_between(length, first, last)
        return {name: made for one in names for name, made in longer_periods(length, periods, one).items()}

    found = longer("month", "2026-02", "2027-12", "quarter", "year")
    assert [*found] == [*(f"2026-Q{i}" for i in (2, 3, 4)), *(f"2027-Q{i}" for i in (1, 2, 3, 4)), "2027"]
    assert found["2026-Q2"] == ["2026-04", "2026-05", "2026-06"]
    assert found["2027"] == [f"2027-{month:02}" for month in range(1, 13)]
    assert [*longer("quarter", "2026-Q2", "2027-Q4", "year")] == ["2027"]
    assert longer("week", "2026-W01", "2027-W30", "month", "year") == {}
    assert {name: len(days) for name, days in longer("day", "2027-01-31", "2027-03-31", "month").items()} == {
        "2027-02": 28,
        "2027-03": 31,
    }
    weeks = longer("day", "2026-12-28", "2027-01-10", "week")
    assert {name: (days[0], days[-1]) for name, days in weeks.items()} == {
        "2026-W53": ("2026-12-28", "2027-01-03"),
        "2027-W01": ("2027-01-04", "2027-01-10"),
    }


def test_units_keep_the_form_in_which_they_are_remembered(tmp_path):
    """Nobody would be known in another one, and everybody would count again."""
    with Memory(tmp_path / "m").held() as memory:
        assert memory.count("2026-01", [b"1", b"2"], "text", 1) == [True, True]
        with pytest.raises(ForgottenError, match="was text when this series was begun, and is numbers now"):
            memory.count("2026-02", [b"3"], "numbers", 1)


def test_a_note_is_about_an_instalment_of_its_series():
    told = {"period": "2027-01", "holder": "h", "status": "handed out"}
    with pytest.raises(Fault, match="which is no instalment of its series"):
        follow({}, SimpleNamespace(values={"instalment": told, "actor": "a"}, sequence=3), ["2026-01"])


@pytest.mark.parametrize("told", ["births", {"name": 1, "periods": []}, {"name": "births", "periods": [1]}])
def test_a_series_that_cannot_be_read_is_none(told):
    with pytest.raises(TypeError, match="its series cannot be read"):
        series_of(SimpleNamespace(values={"series": told}))
