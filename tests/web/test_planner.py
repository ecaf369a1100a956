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
from osgt.api.query_file import build_query
from osgt.query.file.reading import query_file_of
from osgt.web import jobs
from osgt.web.app import Web
from osgt.web.checking import rounded_up
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


#: What the page says that publishing those fields charges.
CHARGE = "ε = 1, δ = 1e-07 to 'rides' in budget.db"


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
    def test_has_a_count_and_a_budget_and_nobody_who_is_protected(self, browser):
        page = browser.get("/")
        assert "Still needed for a plan" in page.text
        for field, value in (("data.source", ""), ("budget.epsilon", "1"), ("budget.delta", "1e-08")):
            assert re.findall(rf'name="{re.escape(field)}"[^>]*? value="([^"]*)"', page.text) == [value]
        assert '<option value="count" selected>' in page.text
        assert "max_rows" not in re.search(r'<pre id="query-file".*?</pre>', page.text, re.DOTALL)[0]

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
        plan = query.plan(epsilon, 1e-7)
        for columns in (plan.columns, *plan.alternatives.values()):
            for column in columns:
                width = column.half_width
                number = math.ceil(width) if column.is_count else float(UP.create_decimal_from_float(width))
                assert f"±{number:,g}" in page
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
        query = build_query(file)
        here, below = (query.plan(epsilon, 1e-7).columns[0].half_width for epsilon in near(float(found)))
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


class TestAcceptedError:
    @pytest.mark.parametrize(
        ("exact", "rounded"),
        [(1.0, 1.0), (0.1, 0.1), (0.37, 0.37), (0.3701, 0.38), (9.91, 10.0), (0.00123, 0.0013), (123.4, 130.0)],
    )
    def test_is_rounded_up_to_two_digits(self, exact, rounded):
        assert rounded_up(exact) == rounded

    @pytest.mark.parametrize(
        ("changed", "at", "words"),
        [
            ({"budget.interval": ["0"]}, "budget.interval", "> 0"),
            ({"budget.interval": ["ten"]}, "budget.interval", "must be a number"),
            ({"budget.column": ["fare_mean"]}, "budget.column", "fare_mean"),
            ({"groups.max_rows_per_group": [""], "groups.max_groups": [""]}, "budget.interval", "limits that are open"),
        ],
    )
    def test_that_no_plan_can_have_is_told_at_its_field(self, browser, changed, at, words):
        by_error = {"budget.by": ["interval"], "budget.interval": ["10"]}
        assert words in problem_at(browser.post("/", asked(**by_error | changed)), at)


class TestDataFile:
    TEXT = '[data]\nsource = "rides.csv"\nprivacy_unit = "person"\n[columns.fare]\ntype = "int64"\n[columns.city]\n'
    TEXT += 'values = ["Bern", "Rome", "Oslo"]\n[budget]\nepsilon = 0.5\ndelta = 1e-9\n'

    def test_fills_in_all_that_it_says(self, browser, folder):
        (folder / "data.toml").write_text(self.TEXT)
        for fields in ({"data.source": ["data.toml"]}, {"do": ["load"], "query": [self.TEXT]}):
            page = browser.post("/", fields)
            assert "file is loaded" in text_of(page)
            assert 'value="rides.csv"' in page.text
            assert 'value="column:person" selected' in page.text
            assert "Publishing charges ε = 0.5, δ = 1e-09" in " ".join(text_of(page).split())

    def test_the_type_that_is_chosen_on_the_page_counts(self, browser):
        page = browser.post("/", {"do": ["load"], "query": [self.TEXT]})
        rest = html.unescape(re.search(r'name="rest" value="([^"]*)"', page.text)[1])
        fields = asked(**{"data.source": ["rides.csv"], "rest": [rest], "data.types.fare": ["float64"]})
        plain = browser.post("/query.toml", fields).text
        assert 'fare = "float64"' in plain
        assert "int64" not in plain

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            (None, "There is no file"),
            ("x =", "is not TOML"),
            ("[data]\nsauce = 1", "sauce"),
            ('[data]\nsource = "rides.csv"\nprivacy_unit = "person"\n[groups]\nby = "city"', "is a query file"),
        ],
    )
    def test_that_is_none_is_told_at_its_field(self, browser, folder, text, words):
        if text is not None:
            (folder / "other.toml").write_text(text)
        page = browser.post("/", asked(**{"data.source": ["other.toml"]}))
        assert words in problem_at(page, "data.source")
        assert 'value="release.parquet"' in page.text  # other entries stay


class TestProblems:
    @pytest.mark.parametrize(
        ("field", "entry", "at", "words"),
        [
            ("data.source", "nothing.parquet", "data.source", "There is no file"),
            ("unit", "column:persom", "unit", "no column"),
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

    def test_a_column_of_text_that_is_added_up_holds_numbers(self, browser):
        """That follows from what is asked, and not from the data; other columns are not asked about."""
        page = browser.post("/", asked(**{"data.source": ["rides.csv"]}))
        assert problem_at(page, "aggregates.1.column") == ""
        assert 'fare = "float64"' in html.unescape(page.text)
        assert 'name="data.types.city"' in page.text
        assert 'name="data.types.person"' not in page.text
        whole = browser.post("/", asked(**{"data.source": ["rides.csv"], "data.types.fare": ["int64"]}))
        assert 'fare = "int64"' in html.unescape(whole.text)
        wrong = browser.post("/", asked(**{"data.source": ["rides.csv"], "data.types.fare": ["date"]}))
        assert "must hold numbers" in problem_at(wrong, "aggregates.1.column")

    def test_a_derived_column_of_text_is_no_number(self, browser):
        changed = {"derive.0.name": ["text"], "derive.0.sql": ["city || 'x'"], "aggregates.1.column": ["text"]}
        page = browser.post("/", asked(**{"data.source": ["rides.csv"]}, **changed))
        assert problem_at(page, "aggregates.1.column")

    def test_of_a_file_that_is_no_query_file(self, browser):
        for text, words in (("x =", "not a query file"), ("[data]\nsauce = 1", "sauce"), ("", "choose a file")):
            page = browser.post("/", {"do": ["load"], "query": [text]})
            assert words in problem_at(page, "query")

    def test_no_traceback_for_whatever_is_sent(self, browser):
        for field in asked():
            for entry in ("", "\x00'\"<>", "9" * 400, "[[]]"):
                assert browser.post("/", asked(**{field: [entry]})).status == 200, (field, entry)


class TestPublish:
    def test_charges_writes_and_settles(self, browser, folder):
        fields = asked(**{"once": [KEY], "charge": [CHARGE]})
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
        fields = asked(**{"once": [KEY], "charge": [CHARGE]})
        answers = [browser.post("/publish", fields) for _ in range(3)]
        assert {answer.headers["location"] for answer in answers} == {f"{browser.web.gate.root}/jobs/{KEY}"}
        finished(browser, answers[0])
        with Ledger("budget.db") as ledger:
            assert len(ledger.history("rides")) == 1

    @pytest.mark.parametrize(
        ("changed", "at", "words"),
        [
            ({"charge": [""]}, "publish", "has not shown"),
            ({"budget.epsilon": ["0.5"]}, "publish", "charge ε = 0.5, δ = 1e-07 to 'rides'"),
            ({"output.out": ["rides.parquet"]}, "output.out", "in use"),
            ({"output.out": ["release.txt"]}, "output.out", "This must end in"),
            ({"output.out": ["nowhere/release.csv"]}, "output.out", "There is no folder"),
            ({"output.report": ["there.html"]}, "output.report", "exists"),
            ({"groups.max_groups": [""]}, "groups.max_groups", "with max_rows_per_group"),
            ({"budget.epsilon": ["50"]}, "publish", ""),
            ({"report.labels.nothing": ["x"]}, "publish", ""),
        ],
    )
    def test_what_can_be_refused_is_refused_before_the_charge(self, browser, folder, changed, at, words):
        (folder / "there.html").write_text("mine")
        answer = browser.post("/publish", asked(**{"once": [KEY], "charge": [CHARGE], **changed}))
        assert answer.status == 422
        assert "nothing was charged" in text_of(answer)
        assert words in problem_at(answer, at)
        with Ledger("budget.db") as ledger:
            assert ledger.history("rides") == []
        assert not (folder / "release.parquet").exists()
        assert (folder / "there.html").read_text() == "mine"

    def test_without_a_ledger(self, browser, folder):
        fields = asked(**{"once": [KEY], "data.ledger": [""], "data.dataset": [""]})
        fields["charge"] = ["ε = 1, δ = 1e-07 to no ledger"]
        assert "no ledger" in text_of(finished(browser, browser.post("/publish", fields)))
        assert (folder / "release.parquet").exists()

    def test_names_of_files_that_were_left_empty_are_new(self, browser, folder):
        fields = asked(**{"output.out": [""], "output.report": [""], "budget.epsilon": ["0.5"]})
        fields["charge"] = [CHARGE.replace("1", "0.5", 1)]
        (folder / "rides-published-2.html").write_text("mine")
        for key, name in (("a" * 22, "rides-published"), ("b" * 22, "rides-published-3")):
            page = finished(browser, browser.post("/publish", fields | {"once": [key]}))
            assert f"Download {name}.csv" in page.text
            assert all((folder / f"{name}.{ending}").exists() for ending in ("csv", "html"))
        assert (folder / "rides-published-2.html").read_text() == "mine"


class TestGroups:
    @pytest.mark.parametrize(
        ("lists", "said"),
        [
            ({"city": "Bern, Rome"}, ["2 groups", "Bern", "Rome"]),
            ({"city": '"Bern, Rome"'}, ["1 group", "Bern, Rome"]),
            ({"city": ",".join(map(str, range(20)))}, ["20 groups", *map(str, range(12)), "and 8 more"]),
            (
                {"city": "B, R", "person": "1, 2, 3"},
                ["2 values", "B", "R", "3 values", "1", "2", "3", "6 groups in all"],
            ),
        ],
    )
    def test_that_are_given_are_chips_with_their_number(self, browser, lists, said):
        fields = {f"keys.list.{name}": [text] for name, text in lists.items()}
        page = browser.post("/", asked(**fields, **{"groups.by": list(lists)})).text
        shown = r"<strong>(\d+ (?:group|value)s?)</strong>|<li [^>]*>([^<]*)</li>|(\d+ groups in all)"
        assert ["".join(found) for found in re.findall(shown, page[page.index('id="table"') :])] == said


class TestOpenLimits:
    OPEN = {"groups.max_groups": [""], "groups.max_rows_per_group": [""], "aggregates.1.bounds.low": [""]}
    OPEN |= {"aggregates.1.bounds.high": [""], "budget.epsilon": ["2"], "data.units": ["600"]}

    def test_are_chosen_by_the_release_and_can_be_used_again(self, browser):
        fields = asked(**{"once": [KEY], "charge": [CHARGE.replace("1", "2", 1)], **self.OPEN})
        page = finished(browser, browser.post("/publish", fields))
        assert "with the limits that were chosen" in text_of(page)
        sent = re.findall(r'type="hidden" name="([^"]+)" value="([^"]*)"', page.text.split("Back to the plan<")[1])
        filled = {html.unescape(name): html.unescape(value) for name, value in sent}
        assert int(filled["groups.max_rows"]) >= 1
        assert filled["aggregates.1.max_total"].startswith("0, ") or float(filled["aggregates.1.max_total"]) > 0
        with Ledger("budget.db") as ledger:
            [entry] = ledger.history("rides")
        assert entry.epsilon == 2

    def test_the_plan_says_what_they_would_mean(self, browser):
        page = text_of(browser.post("/", asked(**self.OPEN)))
        assert "max_rows and max_total of fare are not given: the release chooses them privately" in page
        assert "max_rows = 1" in page

    def test_with_too_few_people_they_must_be_given(self, browser):
        page = browser.post("/", asked(**self.OPEN | {"data.units": ["20"]}))
        assert "with about 20 units" in problem_at(page, "groups.max_rows")

    def test_an_error_needs_limits(self, browser):
        fields = asked(**self.OPEN, **{"budget.by": ["interval"], "budget.interval": ["5"]})
        assert "Give epsilon, or max_rows and max_total of fare" in problem_at(
            browser.post("/", fields), "budget.interval"
        )


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
