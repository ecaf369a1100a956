"""What the page makes of its fields: plans as everywhere else, words where something is wrong, charged releases."""

import html
import math
import re
import threading
import time
from decimal import ROUND_CEILING, Context

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from asgi import Browser

from osgt import Dataset, Ledger
from osgt.api.query_file import build_single_query
from osgt.query.file.model import query_file_of
from osgt.web import jobs
from osgt.web.app import Web
from osgt.web.checking import accepted_epsilon
from osgt.web.form import fields_of
from osgt.web.pages import Ids

PORT = 8124
#: Half-widths are shown with three digits, rounded up.
UP = Context(prec=3, rounding=ROUND_CEILING)
ROWS = [(person, city, 10.0 * (person % 3)) for person in range(300) for city in ("Bern", "Rome")]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    people, cities, fares = zip(*ROWS, strict=True)
    pq.write_table(pa.table({"person": people, "city": cities, "fare": fares}), "rides.parquet")
    (tmp_path / "rides.csv").write_text("person,city,fare\n" + "".join(f"{p},{c},{f}\n" for p, c, f in ROWS))
    with Ledger("budget.db") as ledger:
        ledger.open("rides", epsilon=2, delta=1e-6, unit="person")
    return tmp_path


@pytest.fixture
def browser(folder):
    web = Web(PORT, {})
    yield Browser(web, PORT)
    web.opened.close()


def asked(**changed):
    """The fields of a complete page."""
    plain = {
        "data": {"source": "rides.parquet", "privacy_unit": ["person"], "ledger": "budget.db", "dataset": "rides"},
        "groups": {"by": ["city"], "max_groups": 2, "max_rows_per_group": 1, "public_keys": {"city": ["Bern", "Rome"]}},
        "aggregates": [{"kind": "count"}, {"kind": "sum", "column": "fare", "bounds": [0, 20]}],
        "budget": {"epsilon": 1, "delta": 1e-7},
        "output": {"out": "release.parquet", "report": "release.html"},
    }
    return fields_of(plain).fields | changed


#: A key such as every page has.
KEY = "k" * 22


def once(answer):
    return re.search(r'name="once" value="([^"]+)"', answer.text)[1]


def problem_at(answer, field):
    """What the page says at a field."""
    found = re.search(rf'id="{Ids.of(field)}-problem" data-live>(.*?)</p>', answer.text, re.DOTALL)
    return html.unescape(found[1])


def text_of(answer):
    return html.unescape(re.sub(r"<[^>]+>", " ", answer.text))


def finished(browser, answer):
    """The page of a job, once it has ended."""
    assert answer.status == 303, text_of(answer)[:2000]
    for _ in range(12_000):  # ten minutes
        page = browser.get(answer.headers["location"].removeprefix(browser.web.gate.root))
        if "data-poll" not in page.text:
            return page
        time.sleep(0.05)
    raise AssertionError("the job does not end")


class TestDeltaZero:
    def test_is_no_advice_and_the_plan_says_what_it_costs(self, browser):
        many = fields_of({"groups": {"by": ["city"], "public_keys": {"city": [f"city {i}" for i in range(12)]}}}).fields
        page = browser.post("/", asked(**many, **{"budget.delta": ["0"], "groups.max_groups": ["12"]}))
        assert "δ = 0 makes intervals up to" in text_of(page)
        assert "0 where all groups are given" not in text_of(page)
        usual = browser.post("/", asked(**many, **{"budget.delta": ["1e-8"], "groups.max_groups": ["12"]}))
        assert "δ = 0 makes" not in text_of(usual)


class TestStart:
    def test_is_empty(self, browser):
        page = browser.get("/")
        assert "Still needed for a plan" in page.text
        for field in ("data.privacy_unit", "groups.max_groups", "budget.epsilon", "budget.delta"):
            values = re.findall(rf'name="{re.escape(field)}"[^>]*value="([^"]*)"', page.text)
            assert all(value == "" for value in values)
        assert not re.search(r'name="unit.kind"[^>]*checked', page.text)

    def test_with_a_query_file(self, folder):
        web = Web(PORT, {"data": {"source": "rides.parquet"}})
        page = Browser(web, PORT).get("/")
        assert 'value="rides.parquet"' in page.text
        assert "fare" in page.text
        web.opened.close()


class TestPlan:
    @pytest.mark.parametrize("epsilon", [0.1, 1, 2.5])
    def test_is_that_of_the_query(self, browser, epsilon):
        page = text_of(browser.post("/", asked(**{"budget.epsilon": [str(epsilon)]})))
        query = (
            Dataset("rides.parquet", privacy_unit="person")
            .group_by("city", max_groups=2, max_rows_per_group=1, public_keys=["Bern", "Rome"])
            .count()
            .sum("fare", bounds=(0, 20))
        )
        plan = query.plan(epsilon, 1e-7, charged=True)
        for columns in (plan.columns, *plan.alternatives.values()):
            for column in columns:
                assert f"±{float(UP.create_decimal_from_float(column.half_width)):,g}" in page
        query.dataset.close()

    def test_says_what_is_left_in_the_ledger(self, browser):
        assert "ε = 2, δ = 1e-06" in text_of(browser.post("/", asked()))

    def test_says_that_the_ledger_would_refuse(self, browser):
        page = text_of(browser.post("/", asked(**{"budget.epsilon": ["50"]})))
        assert "The ledger would refuse this release" in page

    def test_by_the_error_that_is_accepted(self, browser):
        fields = asked(**{"budget.by": ["interval"], "budget.interval": ["10"], "budget.column": ["count"]})
        page = browser.post("/", fields)
        [found] = re.findall(r"This error needs <strong>ε = ([\d.]+)</strong>", page.text)
        file = query_file_of(PLAIN)
        query = build_single_query(file)
        here, below = (query.plan(epsilon, 1e-7, charged=True).columns[0].half_width for epsilon in near(float(found)))
        assert here <= 10 < below
        assert f"epsilon = {float(found):g}" in page.text
        query.dataset.close()


def near(epsilon):
    """A number of two digits and the one before it."""
    step = 10.0 ** (math.floor(math.log10(epsilon)) - 1)
    return epsilon, round(epsilon - step, 10)


PLAIN = {
    "data": {"source": "rides.parquet", "privacy_unit": ["person"]},
    "groups": {"by": ["city"], "max_groups": 2, "max_rows_per_group": 1, "public_keys": {"city": ["Bern", "Rome"]}},
    "aggregates": [{"kind": "count"}, {"kind": "sum", "column": "fare", "bounds": [0, 20]}],
}


class Widths:
    """Plans whose first column has a width that is a function of ε."""

    def __init__(self, width):
        self.width, self.asked = width, []

    def __call__(self, epsilon):
        self.asked.append(epsilon)
        column = type("Column", (), {"name": "count", "noise": 1, "half_width": self.width(epsilon)})
        return type("Plan", (), {"columns": [column]})


class TestAcceptedError:
    @pytest.mark.parametrize("guess", [1e-3, 1.0, 50.0])
    @pytest.mark.parametrize("target", [0.37, 3.0, 10.0, 123.0])
    @pytest.mark.parametrize(
        "width", [lambda e: 10 / e, lambda e: 10 / e**0.6, lambda e: 10 / e + 0.1, lambda e: math.ceil(10 / e)]
    )
    def test_is_met_by_the_least_round_epsilon(self, width, target, guess):
        if width(1e5) > target:
            pytest.skip("no ε reaches it")
        plans = Widths(width)
        epsilon = accepted_epsilon(plans, target, None, guess)
        here, below = near(epsilon)
        assert width(here) <= target < width(below)

    def test_is_found_with_few_plans(self):
        plans = Widths(lambda e: 10 / e)
        accepted_epsilon(plans, 4.0, None, 2.0)
        assert len(set(plans.asked)) <= 4

    def test_too_small(self):
        with pytest.raises(ValueError, match="too small"):
            accepted_epsilon(Widths(lambda e: 1 + 1 / e), 0.5, None, 1.0)

    def test_without_a_count_or_sum(self):
        column = type("Column", (), {"name": "mean", "noise": None})
        with pytest.raises(ValueError, match="counts and sums"):
            accepted_epsilon(lambda e: type("Plan", (), {"columns": [column]}), 1.0, None, 1.0)


class TestProblems:
    @pytest.mark.parametrize(
        ("field", "entry", "at", "words"),
        [
            ("data.source", "nothing.parquet", "data.source", "There is no file"),
            ("data.privacy_unit", "persom", "data.privacy_unit", "no column"),
            ("data.engine", "oracle", "data.engine", "This must be duckdb"),
            ("data.dataset", "other", "data.dataset", "no data set"),
            ("data.where", "fare > (SELECT 1)", "data.where", "row alone"),
            ("groups.by", "town", "groups.by", "no column"),
            ("groups.max_groups", "0", "groups.max_groups", "This must be"),
            ("groups.max_groups", "two", "groups.max_groups", "whole number"),
            ("groups.max_rows_per_group", "-1", "groups.max_rows_per_group", "This must be"),
            ("keys.list.city", "", "keys.list.city", "with commas between them"),
            ("aggregates.1.column", "fair", "aggregates.1.column", "no column"),
            ("aggregates.1.bounds.low", "30", "aggregates.1.bounds.low", "30"),
            ("aggregates.1.bounds.low", "", "aggregates.1.bounds.low", "both"),
            ("aggregates.1.weight", "0", "aggregates.1.weight", "This must be"),
            ("budget.epsilon", "0,5", "budget.epsilon", "Write 0.5"),
            ("budget.epsilon", "-1", "budget.epsilon", "This must be"),
            ("budget.delta", "2", "budget.delta", "This must be"),
            ("output.confidence", "95", "output.confidence", "This must be"),
        ],
    )
    def test_are_told_at_their_field(self, browser, field, entry, at, words):
        page = browser.post("/", asked(**{field: [entry]}))
        assert words in problem_at(page, at), problem_at(page, at)

    def test_of_a_derived_column(self, browser):
        page = browser.post("/", asked(**{"derive.0.name": ["x"], "derive.0.sql": ["sum(fare)"]}))
        assert problem_at(page, "derive.0.sql")

    def test_of_a_type_that_is_not_declared(self, browser):
        page = browser.post("/", asked(**{"data.source": ["rides.csv"]}))
        assert "declared with the data above" in problem_at(page, "aggregates.1.column")

    def test_of_a_file_that_is_no_query_file(self, browser):
        for text, words in (("x =", "not a query file"), ("[data]\nsauce = 1", "sauce"), ("", "Choose a file")):
            page = browser.post("/", {"do": ["load"], "query": [text]})
            assert words in problem_at(page, "query")

    def test_no_traceback_for_whatever_is_sent(self, browser):
        for field in asked():
            for entry in ("", "\x00'\"<>", "9" * 400, "[[]]"):
                assert browser.post("/", asked(**{field: [entry]})).status == 200, (field, entry)


class TestPublish:
    def test_charges_writes_and_settles(self, browser, folder):
        fields = asked(**{"once": [KEY], "publish.confirm": ["yes"]})
        page = finished(browser, browser.post("/publish", fields))
        assert "Published" in page.text
        table = pq.read_table("release.parquet").to_pylist()
        for row in table:
            assert abs(row["count"] - 300) <= 40
            assert abs(row["fare_sum"] - 3000) <= 800
        with Ledger("budget.db") as ledger:
            [entry] = ledger.history("rides")
        assert (entry.status, entry.epsilon, entry.delta) == ("settled", 1, 1e-7)
        assert browser.get(f"/jobs/{KEY}/files/0").body == (folder / "release.parquet").read_bytes()
        report = browser.get(f"/jobs/{KEY}/files/1")
        assert report.body == (folder / "release.html").read_bytes()
        assert "sandbox" in report.headers["content-security-policy"]
        assert browser.get(f"/jobs/{KEY}/files/2").status == 404

    def test_the_same_page_twice_is_one_release(self, browser):
        fields = asked(**{"once": [KEY], "publish.confirm": ["yes"]})
        answers = [browser.post("/publish", fields) for _ in range(3)]
        assert {answer.headers["location"] for answer in answers} == {f"{browser.web.gate.root}/jobs/{KEY}"}
        finished(browser, answers[0])
        with Ledger("budget.db") as ledger:
            assert len(ledger.history("rides")) == 1

    @pytest.mark.parametrize(
        ("changed", "at", "words"),
        [
            ({"publish.confirm": [""]}, "publish.confirm", "Tick this"),
            ({"output.out": [""]}, "output.out", "name of a file"),
            ({"output.out": ["rides.parquet"]}, "output.out", "in use"),
            ({"output.out": ["release.txt"]}, "output.out", "This must end in"),
            ({"output.out": ["nowhere/release.csv"]}, "output.out", "There is no folder"),
            ({"output.report": ["there.html"]}, "output.report", "exists"),
            ({"groups.max_groups": [""]}, "publish.confirm", ""),
            ({"budget.epsilon": ["50"]}, "publish.confirm", ""),
            ({"report.labels.nothing": ["x"]}, "publish.confirm", ""),
        ],
    )
    def test_what_can_be_refused_is_refused_before_the_charge(self, browser, folder, changed, at, words):
        (folder / "there.html").write_text("mine")
        answer = browser.post("/publish", asked(**{"once": [KEY], "publish.confirm": ["yes"], **changed}))
        assert answer.status == 422
        assert "nothing was charged" in text_of(answer)
        assert words in problem_at(answer, at)
        with Ledger("budget.db") as ledger:
            assert ledger.history("rides") == []
        assert not (folder / "release.parquet").exists()
        assert (folder / "there.html").read_text() == "mine"

    def test_without_a_ledger(self, browser, folder):
        fields = asked(**{"once": [KEY], "publish.confirm": ["yes"], "data.ledger": [""], "data.dataset": [""]})
        assert "no ledger" in text_of(finished(browser, browser.post("/publish", fields)))
        assert (folder / "release.parquet").exists()


class TestGroups:
    @pytest.mark.parametrize(
        ("lists", "said"),
        [
            ({"city": "Bern, Rome"}, ["2 groups: Bern, Rome"]),
            ({"city": '"Bern, Rome"'}, ['1 group: "Bern, Rome"']),
            ({"city": ",".join(map(str, range(20)))}, ["20 groups: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 8 more"]),
            ({"city": "Bern, Rome", "person": "1, 2, 3"}, ["2 values: Bern", "3 values: 1, 2, 3", "6 groups in all"]),
        ],
    )
    def test_that_are_given_are_counted_and_shown(self, browser, lists, said):
        fields = {f"keys.list.{name}": [text] for name, text in lists.items()}
        page = text_of(browser.post("/", asked(**fields, **{"groups.by": list(lists)})))
        assert [words for words in said if words not in page] == []


class TestSuggest:
    def test_is_charged_and_fills_in_what_is_open(self, browser):
        fields = asked(
            **{
                "once": [KEY],
                "suggest.epsilon": ["0.5"],
                "suggest.confirm": ["yes"],
                "groups.max_groups": [""],
                "aggregates.1.bounds.low": [""],
                "aggregates.1.bounds.high": [""],
            }
        )
        page = finished(browser, browser.post("/suggest", fields))
        assert "Use these bounds" in page.text
        sent = re.findall(r'type="hidden" name="([^"]+)" value="([^"]*)"', page.text)
        filled = {html.unescape(name): html.unescape(value) for name, value in sent}
        assert int(filled["groups.max_groups"]) >= 1
        assert float(filled["aggregates.1.bounds.high"]) > 0
        with Ledger("budget.db") as ledger:
            [entry] = ledger.history("rides")
        assert entry.epsilon == 0.5

    def test_of_noise_alone_is_not_applied(self, browser):
        """As for a group that nobody is in, because its name is two names."""
        fields = asked(
            **{
                "once": [KEY],
                "suggest.epsilon": ["0.5"],
                "suggest.confirm": ["yes"],
                "groups.max_rows_per_group": [""],
                "aggregates.1.bounds.low": [""],
                "aggregates.1.bounds.high": [""],
                "keys.list.city": ['"Bern, Rome"'],
            }
        )
        page = finished(browser, browser.post("/suggest", fields))
        assert "Use these bounds" not in page.text
        assert "clear" not in text_of(page)
        assert "about max_rows_per_group and the bounds of fare, so no number is filled in" in text_of(page)
        sent = re.findall(r'type="hidden" name="([^"]+)" value="([^"]*)"', page.text)
        filled = {html.unescape(name): html.unescape(value) for name, value in sent}
        assert filled["groups.max_groups"] == "2"
        assert filled["groups.max_rows_per_group"] == filled["aggregates.1.bounds.high"] == ""

    @pytest.mark.parametrize(
        ("changed", "at"),
        [({"suggest.epsilon": [""]}, "suggest.epsilon"), ({"suggest.confirm": [""]}, "suggest.confirm")],
    )
    def test_needs_a_budget_and_a_word(self, browser, changed, at):
        fields = asked(**{"once": [KEY], "suggest.epsilon": ["0.5"], "suggest.confirm": ["yes"], **changed})
        answer = browser.post("/suggest", fields)
        assert answer.status == 422
        assert problem_at(answer, at)
        with Ledger("budget.db") as ledger:
            assert ledger.history("rides") == []


class TestPreview:
    def test_is_shown_to_who_may_see_it(self, browser):
        page = text_of(browser.post("/", asked(**{"do": ["preview"], "preview.confirm": ["yes"]})))
        assert "600" in page
        assert "NOT PRIVATE" in page.upper()

    def test_is_not_shown_to_others(self, browser):
        page = browser.post("/", asked(**{"do": ["preview"]}))
        assert problem_at(page, "preview.confirm") == "Tick this first."
        assert "600" not in text_of(page)


class TestFiles:
    def test_the_query_file(self, browser):
        answer = browser.post("/query.toml", asked())
        assert "attachment" in answer.headers["content-disposition"]
        assert 'source = "rides.parquet"' in answer.text

    def test_no_password_is_written_down(self, browser):
        fields = asked(**{"data.source": ["postgresql://ann:secret@127.0.0.1:1/town"]})
        for path in ("/query.toml", "/release.py"):
            assert "secret" not in browser.post(path, fields).text
        shown = browser.post("/", fields).text
        assert shown.count("secret") == 1  # the field itself

    def test_the_ledger(self, browser):
        answer = browser.post("/ledger", asked())
        assert "Privacy budget of rides" in answer.text
        assert "sandbox" in answer.headers["content-security-policy"]
        assert browser.post("/ledger", asked(**{"data.ledger": ["nothing.db"]})).status in (200, 400)
        assert browser.post("/ledger", asked(**{"data.ledger": [""]})).status == 400


def wide(folder, columns):
    """A query file of one number for each of many columns."""
    pq.write_table(pa.table({"person": [1], **{f"c{i}": [1.0] for i in range(columns)}}), folder / "wide.parquet")
    sums = "".join(f'[[aggregates]]\nkind = "sum"\ncolumn = "c{i}"\nbounds = [0, {i + 1}]\n' for i in range(columns))
    limits = "[groups]\nmax_rows_per_group = 1\n[budget]\nepsilon = 1\ndelta = 1e-7\n"
    return f'[data]\nsource = "wide.parquet"\nprivacy_unit = "person"\n{limits}{sums}'


class TestPatience:
    # What is raised in a finaliser is lost, with a warning, and raised again a second later.
    @pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
    @pytest.mark.parametrize("query", ["wide", "long"])
    def test_a_page_that_takes_too_long_is_ended(self, browser, folder, monkeypatch, query):
        """Plans of hundreds of columns take hours; and so does a file of the largest size that is sent."""
        monkeypatch.setattr(jobs, "SECONDS", 2.0)
        text = wide(folder, 400)
        if query == "long":
            text += "".join(f'[[aggregates]]\nkind = "count"\nname = "n{i}"\n' for i in range(10_000))
        answer = browser.post("/", {"do": ["load"], "query": [text]})
        assert answer.status == 422
        assert "takes longer than 2 seconds" in answer.text
        # The next page is made as ever, by a thread that nothing is raised in any more.
        monkeypatch.setattr(jobs, "SECONDS", 600.0)
        assert browser.post("/", asked()).status == 200

    def test_stops_only_what_is_inside(self, monkeypatch):
        """Also if the time is over just when the work is done."""
        monkeypatch.setattr(jobs, "SECONDS", 0.0)
        ended = 0
        for turn in range(300):
            gone = threading.Event()
            try:
                jobs.patiently(gone, lambda turn=turn: sum(range(turn)) + sum(each for each in range(turn * 10)))
            except jobs.StoppedError:
                ended += 1
            finally:
                gone.set()
            assert sum(each for each in range(1_000)) == 499_500
        assert ended > 0
