"""What was published, what is left and who did it: `show` and `report` tell all of it, and nothing harmful."""

import csv
import io
import json
import math
import random
import re
import unicodedata
from datetime import UTC, datetime
from html.parser import HTMLParser

import pyarrow as pa
import pytest
from test_ledger_chain import written_anew
from typer.testing import CliRunner

from charges import gaussian, laplace, osgt
from osgt import Dataset, Ledger
from osgt.cli import app
from osgt.facts.ledger_wording import _in_brief
from osgt.ledger import BudgetExceeded, DamagedLedgerError
from osgt.ledger.history import moment
from osgt.ledger.store import chain, checkpoint
from osgt.ledger.store.schema import OWNERS_KINDS
from osgt.privacy import Charge
from osgt.privacy.filters import costs, residue
from osgt.web.pages import ledger_facts

ROWS = pa.table({"rider": [i % 40 for i in range(200)], "city": ["Bern", "Rome"] * 100, "fare": [1.5] * 200})

#: Clears the screen, sets the title of a terminal, is a script and a formula, ends an attribute, turns text around.
HOSTILE = (
    "=cmd()\x1b[2J\x1b]0;owned\x07\x9b31m<script>alert(1)</script>'\"><img src=x onerror=y>&\u202eevil\r\n\u2028$\\frac"
)


@pytest.fixture
def run(monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    return lambda *arguments: CliRunner().invoke(app, ["ledger", *(str(a) for a in arguments)])


@pytest.fixture
def published(location, tmp_path):
    """A ledger with a release of a table that was written, one that was not, and a change of the budget."""
    with Ledger(location) as ledger:
        ledger.open("rides", epsilon=3, delta=1e-6, unit="rider")
        data = Dataset(ROWS, privacy_unit="rider", ledger=ledger, dataset="rides")
        query = data.group_by("city", max_groups=2, max_rows_per_group=1).count().mean("fare", bounds=(0, 30))
        query.release(epsilon=0.5, delta=1e-8).to_csv(tmp_path / "by-city.csv")
        ledger.change_budget("rides", epsilon=4, delta=1e-6, reason="agreed on 3 May", actor="head of data")
        ledger.reserve("rides", laplace(0.1), query="total", unit="rider", actor="ann")
    return location


def test_one_command_says_what_who_when_where_and_what_is_left(run, published, tmp_path):
    shown = run("show", published, "rides")
    assert shown.exit_code == 0
    text = " ".join(shown.stdout.split())
    for part in ("count, mean(fare) by city", "unit rider", "0.5 1e-08", "settled", "reserved", "by-city.csv"):
        assert part in text
    for part in (
        "rides protects rider (adding or removing one)",
        "opened with ε = 3, δ = 1e-06 (adaptive)",
        "agreed on 3 May",
    ):
        assert part in text
    assert "after answers had been seen" in text
    assert "ann (signed in as " in text
    (told,) = json.loads(run("show", published, "--json").stdout)
    first, second = told["history"]
    assert (first["epsilon"], first["delta"], first["unit"]) == (0.5, 1e-8, "rider")
    files = [tmp_path / "by-city.csv", tmp_path / "by-city.csv-metadata.json"]
    assert first["output"] == ", ".join(map(str, files))
    assert json.loads(first["query"])["groups"]["by"] == ["city"]
    assert (second["actor"], second["status"], second["epsilon"]) == ("ann", "reserved", None)
    assert [event["kind"] for event in told["events"]] == ["open", "budget"]
    # left: of the budget, after each release, and rounded down
    left = 100 * (1 - told["share"])
    assert f"{left - left % 0.1:.1f} %" in text


def test_nothing_is_dropped_unless_told(run, sqlite_ledger):
    for i in range(25):
        sqlite_ledger.reserve("flights", gaussian(300), query=f"query {i}")
    path = sqlite_ledger.name
    assert "20 of 25 releases" in run("show", path).stdout
    assert "query 4 " not in run("show", path).stdout
    (told,) = json.loads(run("show", path, "--json").stdout)
    assert [release["query"] for release in told["history"]] == [f"query {i}" for i in range(25)]
    rows = list(csv.DictReader(io.StringIO(run("show", path, "--csv").stdout)))
    assert [row["kind"] for row in rows] == ["open"] + ["release"] * 25
    assert [row["query"] for row in rows[1:]] == [f"query {i}" for i in range(25)]
    (told,) = json.loads(run("show", path, "--json", "--last", 3).stdout)
    assert [release["query"] for release in told["history"]] == ["query 22", "query 23", "query 24"]
    assert run("show", path, "--json", "--csv").exit_code == 2


@pytest.fixture
def dated(sqlite_ledger, monkeypatch):
    """Releases on several days, by two people."""

    class Clock(datetime):
        @classmethod
        def now(cls, tz=None):
            return times.pop(0)

    times = [datetime(2026, 5, day, 12, tzinfo=UTC) for day in (2, 3, 4, 5)]
    monkeypatch.setattr(chain, "datetime", Clock)
    for day, actor in ((2, "ann@one"), (3, "bob"), (4, "ann@two"), (5, "annabel")):
        sqlite_ledger.reserve("flights", gaussian(300), query=f"day {day}", actor=actor)
    return sqlite_ledger.name


@pytest.mark.parametrize(
    ("options", "days"),
    [
        (["--since", "2026-05-03"], [3, 4, 5]),
        (["--until", "2026-05-03"], [2, 3]),
        (["--since", "2026-05-03", "--until", "2026-05-03"], [3]),
        (["--since", "2026-05-03T12:00:00"], [3, 4, 5]),
        (["--since", "2026-05-03T12:00:01"], [4, 5]),
        (["--until", "2026-05-03T12:00:00"], [2, 3]),
        (["--until", "2026-05-03T14:00:00+02:00"], [2, 3]),
        (["--until", "2026-05-03T13:59:59+02:00"], [2]),
        (["--actor", "ann"], [2, 4]),
        (["--actor", "ann@two"], [4]),
        (["--actor", "ann", "--since", "2026-05-03"], [4]),
        (["--actor", "nobody"], []),
    ],
)
def test_filters(run, dated, options, days):
    (told,) = json.loads(run("show", dated, "--json", *options).stdout)
    assert [release["query"] for release in told["history"]] == [f"day {day}" for day in days]
    shown = run("show", dated, *options).stdout
    assert [day for day in (2, 3, 4, 5) if f"day {day}" in shown] == days
    assert told["releases"] == 4  # what is spent is not filtered


@pytest.mark.parametrize("option", ["--since", "--until"])
@pytest.mark.parametrize("text", ["yesterday", "2026-13-01", "2026-05", "", "\x1b[2J"])
def test_wrong_days(run, sqlite_ledger, option, text):
    result = run("show", sqlite_ledger.name, option, text)
    assert result.exit_code == 2
    assert f"{option} must be a day or a time" in result.stderr
    assert "\x1b" not in result.stderr


def test_days_in_the_wrong_order(run, sqlite_ledger):
    result = run("show", sqlite_ledger.name, "--since", "2026-05-04", "--until", "2026-05-03")
    assert result.exit_code == 2
    assert "--since must not be after --until" in result.stderr


@pytest.fixture
def hostile(ledger, location):
    """A ledger to which somebody has written whatever they liked into every text that people see."""
    reservation = ledger.reserve("flights", laplace(0.1), query="q", title="t", epsilon=0.1, delta=0)
    reservation.settle("hash", output="there")
    ledger.change_budget("flights", epsilon=4, delta=1e-6, reason="r")
    ledger.change_tables("flights", add=["visits"], reason="r")
    ledger.reserve("flights", laplace(0.1), query="q")
    note = {"text": HOSTILE}
    ledger._accounts.append(
        "flights", lambda c, head, _: (chain.append(c, head, "note", note, actor=None, refers_to=2), None)
    )

    def change(values):
        texts = {"actor", "session_user", "title", "query", "output", "statement_hash", "reason", "software", "time"}
        if values["kind"] in OWNERS_KINDS:
            texts.remove("session_user")  # which is told as the entry of somebody else
        values.update({name: HOSTILE for name in texts & set(values) if values[name] is not None})
        if values["kind"] == "charge":
            values["epsilon"] = values["delta"] = HOSTILE
        if values["kind"] == "tables":
            values["tables"][0]["name"] = "<script>alert(2)</script>"

    written_anew(ledger, change)
    return location


def harmless(text, newlines=True):
    return all(unicodedata.category(c)[0] != "C" or (c == "\n" and newlines) for c in text)


@pytest.mark.parametrize("options", [[], ["--json"], ["--csv"], ["--actor", "ann"], ["--since", "2026-05-03"]])
def test_control_codes_never_reach_the_terminal(run, hostile, options):
    result = run("show", hostile, *options)
    assert result.exit_code == 0, result.stderr
    assert harmless(result.output)
    if options == ["--csv"]:
        rows = list(csv.DictReader(io.StringIO(result.stdout)))
        assert rows[1]["title"].startswith("'=cmd()")
        assert all(not cell.startswith(("=", "+", "-", "@")) for row in rows for cell in row.values())


def test_a_picture_with_hostile_times_and_names(run, hostile, tmp_path):
    pytest.importorskip("matplotlib")
    assert run("show", hostile, "--plot", tmp_path / "spending.svg").exit_code == 0


class Page(HTMLParser):
    """What is in a page: its elements, the attributes and the text."""

    def __init__(self, source):
        super().__init__()
        self.elements, self.attributes, self.text = set(), [], ""
        self.feed(source)

    def handle_starttag(self, tag, attrs):
        self.elements.add(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.text += data


def test_the_report_of_a_hostile_ledger(run, hostile, tmp_path):
    out = tmp_path / "report.html"
    assert run("report", hostile, "flights", "--out", out).exit_code == 0
    source = out.read_text(encoding="utf-8")
    page = Page(source)
    assert harmless(source)
    assert not page.elements & {"script", "img", "iframe", "link", "a", "form", "base", "object", "embed"}
    assert not [name for name, _ in page.attributes if name.startswith("on") or name in ("style", "href", "src")]
    assert "<script>alert(1)</script>" in page.text  # as text

    policies = [value for name, value in page.attributes if name == "content" and "default-src" in value]

    assert policies[0].startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policies[0]


def test_the_report_says_all_that_an_auditor_asks(run, published, tmp_path):
    out = tmp_path / "report.html"
    assert run("report", published, "--out", out).exit_code == 0
    page = Page(out.read_text(encoding="utf-8"))
    text = " ".join(page.text.split())
    for part in (
        "Privacy budget of rides",
        "Adding or removing all rows of one rider",
        "at most a factor of 55 (e^ε with ε = 4), except with a probability of about 1 in 1 million (δ = 1e-06)",
        "for every analyst",
        "does not cover what was released before and after that change together",
        "rider (adding or removing one)",
        "count, mean(fare) by city",
        "by-city.csv",
        "agreed on 3 May",
        "all is well",
    ):
        assert part in text
    with Ledger(published) as ledger:
        assert ledger.verify().heads["rides"]["hash"] in text
    assert {"svg", "path"} <= page.elements
    assert run("report", published, "--out", out).exit_code == 2  # it is there
    assert run("report", published, "--out", out, "--overwrite").exit_code == 0
    assert run("report", published, "--out", tmp_path / "report.txt").exit_code == 2
    assert run("report", published, "unknown", "--out", tmp_path / "other.html").exit_code == 2


def test_the_report_says_what_is_wrong_with_the_ledger(run, ledger, location, tmp_path):
    for _ in range(3):
        ledger.reserve("flights", laplace(0.1), query="q")

    def forge(values):
        if values["kind"] == "charge":
            values["share"] = 0.01

    written_anew(ledger, forge)
    result = run("report", location, "--out", tmp_path / "report.html")
    assert result.exit_code == 1
    source = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "tampered with or is damaged" in source
    assert "does not leave the share of the budget that it says" in source


@pytest.mark.parametrize("composition", ["adaptive", "planned"])
def test_an_overview_tells_what_the_account_says(tmp_path, composition):
    """The quick way and the checked way come to the same, after all kinds of entries."""
    generator = random.Random(5)
    with Ledger(tmp_path / "budget.db") as ledger:
        ledger.open("flights", epsilon=3, delta=1e-6, composition=composition)
        assert ledger.overview("flights").spending == ledger.spent("flights")
        for i in range(24):
            charge = generator.choice([laplace(0.02), gaussian(100), osgt(90, 100, 2)])
            told = {"unit": "rider", "table": {"name": "visits", "schema": "s" if i > 8 else None}} if i > 3 else {}
            reservation = ledger.reserve("flights", charge, query="q", **told)
            act = generator.choice(["settle", "cancel", "nothing"])
            if act == "settle":
                reservation.settle("hash")
            elif act == "cancel":
                reservation.cancel()
            if i == 10:
                ledger.change_budget("flights", epsilon=4, delta=1e-6, reason="r")
            if i == 15:
                ledger.change_tables("flights", add=["bills:payer"])
            if i % 4 == 0:
                with Ledger(tmp_path / "budget.db") as fresh:  # composed in the same order
                    overview = fresh.overview("flights")
                    assert overview.spending == fresh.spent("flights")
                assert overview.releases == ledger.history("flights")
                assert overview.events == ledger.events("flights")


def test_an_overview_computes_no_privacy_figure_again(sqlite_ledger, monkeypatch):
    for i in range(40):
        sqlite_ledger.reserve("flights", osgt(200 + i, 300 + i), query="q")
    expected = sqlite_ledger.spent("flights")

    def fail(*arguments):
        raise AssertionError("this takes milliseconds for each release")

    monkeypatch.setattr(residue, "after", fail)
    monkeypatch.setattr(residue, "is_valid", fail)
    monkeypatch.setattr(costs, "renyi_divergence", fail)
    assert sqlite_ledger.overview("flights").spending == expected
    assert len(sqlite_ledger.history("flights")) == 40


def test_an_overview_of_a_broken_chain(ledger):
    ledger.reserve("flights", laplace(0.1), query="q")
    written_anew(ledger, lambda values: values.pop("share", None))
    with pytest.raises(DamagedLedgerError, match="cannot be read"):
        ledger.overview("flights")


@pytest.mark.parametrize("text", ["", "soon", HOSTILE, None, 3])
def test_what_is_no_time(text):
    assert moment(text) is None


def test_times_have_a_zone():
    assert moment("2026-05-03") == datetime(2026, 5, 3, tzinfo=UTC)
    assert moment("2026-05-03T02:00+02:00") == datetime(2026, 5, 3, tzinfo=UTC)


def views(run, ledger, location, tmp_path):
    """The text of every place that tells how much of the budget of "flights" is spent."""
    yield run("show", location).stdout
    yield json.loads(run("show", location, "--json").stdout)[0]["epsilon"]
    assert run("report", location, "--out", tmp_path / "report.html", "--overwrite").exit_code == 0
    yield (tmp_path / "report.html").read_text(encoding="utf-8")
    yield ledger.spent("flights")._repr_html_()
    yield ledger.overview("flights")._repr_html_()
    yield repr(ledger.spent("flights"))
    yield dict(ledger_facts(ledger.spent("flights")))["Spent so far"]
    with pytest.raises(BudgetExceeded) as refused:
        ledger.reserve("flights", laplace(2.5), query="q")
    yield str(refused.value)


def test_the_spent_epsilon_is_what_the_filters_prove(run, ledger, location, tmp_path):
    """Exact composition comes to less, but that holds for releases that were fixed in advance alone."""
    charges = [gaussian(30)] * 25 + [laplace(0.1)]
    for charge in charges:
        ledger.reserve("flights", charge, query="q")
    exact = Charge.compose(charges).epsilon(1e-6)
    shares = ledger.spent("flights").headroom.budget.shares
    order, alpha = shares.order, shares.order + 1
    # Of integers two apart, a chance of 1/(1 + exp(-0.1)) for a loss of 0.1, and else of -0.1; α/(2σ²) of a Gaussian.
    up = 1 / (1 + math.exp(-0.1))
    divergence = (
        25 * alpha / (2 * 30**2) + math.log(up * math.exp(order / 10) + (1 - up) * math.exp(-order / 10)) / order
    )
    # Proposition 12 of Canonne, Kamath and Steinke (2020), at the share of δ that the Rényi filter has.
    proved = divergence + (math.log(1 / (alpha * shares.renyi)) / order) + math.log1p(-1 / alpha)
    assert exact < 0.75 * proved
    assert ledger.spent("flights").epsilon == pytest.approx(proved, rel=1e-6)
    assert ledger.spent("flights").epsilon >= proved
    for view in views(run, ledger, location, tmp_path):
        digits = f"{proved:.3g}"
        assert view == pytest.approx(proved, rel=1e-6) if isinstance(view, float) else digits[:3] in view
        shown = re.sub(r"<[^>]*>", "", str(view))  # pictures have many numbers, by the times of the releases
        assert f"{exact:.2g}" not in shown


def test_exact_composition_is_named(run, tmp_path):
    location = tmp_path / "budget.db"
    with Ledger(location) as ledger:
        ledger.open("flights", epsilon=2, delta=1e-6, composition="planned")
        for _ in range(4):
            ledger.reserve("flights", gaussian(10), query="q")
        exact = Charge.compose([gaussian(10)] * 4).epsilon(1e-6)
        assert ledger.spent("flights").epsilon == pytest.approx(exact, rel=1e-3)
        texts = [view for view in views(run, ledger, location, tmp_path) if isinstance(view, str)]
    named = ["fixed in advance" in text for text in texts if not text.startswith("Spending(")]
    assert len(named) == 6
    assert all(named)


@pytest.mark.parametrize("composition", ["adaptive", "planned"])
@pytest.mark.parametrize(
    "charge", [laplace(0.17), gaussian(20, 2), osgt(20, 30, 4)], ids=["laplace", "gaussian", "osgt"]
)
def test_so_many_more_like_the_last_one_fit(run, location, composition, charge):
    with Ledger(location) as ledger:
        ledger.open("flights", epsilon=1.1, delta=1e-6, composition=composition)
        assert ledger.spent("flights").more_like_last is None
        assert "Nothing was released yet." in run("show", location).stdout
        ledger.reserve("flights", gaussian(40), query="another one")
        ledger.reserve("flights", charge, query="q")
        ledger.reserve("flights", laplace(0.01), query="taken back").cancel()
        count = ledger.spent("flights").more_like_last
        assert 0 < count < 100
        assert ledger.overview("flights").spending.more_like_last == count
        text = f"{count:,} more {'release' if count == 1 else 'releases'} like the last one"
        assert f"There is room for {text}." in run("show", location).stdout
        assert json.loads(run("show", location, "--json").stdout)[0]["more_like_last"] == count
        assert text in ledger.spent("flights")._repr_html_()
        assert dict(ledger_facts(ledger.spent("flights")))["Room for"] == text
        for _ in range(count):
            ledger.reserve("flights", charge, query="q")
        with pytest.raises(BudgetExceeded):
            ledger.reserve("flights", charge, query="q")
        assert ledger.spent("flights").more_like_last == 0
        assert "There is room for no more release like the last one." in run("show", location).stdout


def test_many_more_are_counted_up_to_a_thousand(run, ledger, location):
    ledger.reserve("flights", gaussian(5000), query="q")
    assert "There is room for at least 1,000 more releases like the last one." in run("show", location).stdout


def test_the_last_release_is_known_after_a_checkpoint(sqlite_ledger, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "EVERY", 3)
    for charge in (laplace(0.1), laplace(0.1), laplace(0.4)):
        sqlite_ledger.reserve("flights", charge, query="q")
    sqlite_ledger.spent("flights")
    with Ledger(tmp_path / "budget.db") as fresh:
        assert fresh.spent("flights").more_like_last == sqlite_ledger.spent("flights").more_like_last == 6


def test_lost_charges_count_as_spent(sqlite_ledger, tmp_path):
    sqlite_ledger.reserve("flights", laplace(0.1), query="q")
    sqlite_ledger.backup(tmp_path / "backup.db")
    sqlite_ledger.restore(tmp_path / "backup.db", charges_unknown=True, reason="a disk failed")
    told = sqlite_ledger.spent("flights")
    assert (told.epsilon, told.delta, told.share, told.more_like_last) == (3, 1e-6, 1, 0)


def test_instalments_that_are_published_share_a_line():
    """A year of a series is a line, with what is not out yet and what people noted beside it."""
    told = [
        f"instalment 2026-{month:02}: {what}" for month in (1, 2, 3) for what in ("handed out", f"published as {month}")
    ]
    notes = ["sent to the press", *told, "instalment 2026-04: handed out"]
    assert _in_brief(notes) == [
        "3 instalments published, 2026-01 to 2026-03; the last: instalment 2026-03: published as 3",
        "sent to the press",
        "instalment 2026-04: handed out",
    ]
    assert _in_brief(notes[:3]) == notes[:3]
