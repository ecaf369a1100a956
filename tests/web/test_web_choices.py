"""Choices that are changed, typed in another way or come late: nothing is kept, charged or told that is not so."""

import html
import re
import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from asgi import Browser

from osgt import Ledger
from osgt.web.app import Web
from osgt.web.entries import Entries, number
from osgt.web.form import fields_of, plain_of
from osgt.web.jobs import Job, Jobs

PORT = 8125


@pytest.fixture
def page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pq.write_table(
        pa.table({"person": range(90), " city ": ["Bern", "Rome", "Oslo"] * 30, " fare\n.": [1.5] * 90}), "a.parquet"
    )
    web = Web(PORT, {})
    yield Browser(web, PORT)
    web.opened.close()


def fields(**changed):
    plain = {
        "data": {"source": "a.parquet", "privacy_unit": ["person"]},
        "groups": {"by": [" city "], "max_groups": 2, "max_rows_per_group": 3},
        "aggregates": [{"kind": "count"}, {"kind": "sum", "column": " fare\n.", "bounds": [0, 5]}],
        "budget": {"epsilon": 1, "delta": 1e-6},
        "output": {"out": "out.parquet", "report": "out.html"},
    }
    return {**fields_of(plain).fields, **changed}


def told(answer):
    """What the page says is wrong or missing, and the query file that it shows."""
    text = html.unescape(answer.text)
    assert answer.status in (200, 422)
    wrong = re.findall(r'<div class="box wrong"><strong>Please.*?</div>', text, re.DOTALL)
    return "".join(wrong), re.search(r'<pre id="query-file".*?</pre>', text, re.DOTALL)[0]


class TestLeftovers:
    @pytest.mark.parametrize(
        ("changed", "gone"),
        [
            ({"unit": ["row"]}, ["max_rows", "max_groups", "max_rows_per_group", "units"]),
            ({"groups.by": [""]}, ["max_groups ="]),
            ({"groups.by": [""], "keys.kind": ["all"], "totals": ["cube"]}, ["max_groups", "public_keys", "totals"]),
        ],
    )
    def test_what_has_no_field_any_more_does_not_count(self, page, changed, gone):
        wrong, file = told(page.post("/", fields(**changed)))
        assert wrong == ""
        assert [name for name in gone if name in file] == []

    def test_limits_may_be_typed_before_it_is_known_who_is_protected(self, page):
        wrong, file = told(page.post("/", fields(**{"unit": []})))
        assert wrong == ""
        assert "max_groups = 2" in file

    def test_a_loaded_condition_of_several_lines_stays_beside_a_typed_one(self):
        entries = fields_of({"data": {"where": ["a > 1\nAND b > 2"]}})
        plain, _ = plain_of(entries.updated({"data.where": ["c > 3"]}))
        assert plain["data"]["where"] == ["a > 1\nAND b > 2", "c > 3"]


class TestNumbers:
    @pytest.mark.parametrize(
        ("typed", "words"),
        [
            ("1,000", "Write 1000, without commas, or 1.000, with a point."),
            ("1,000,000", "Write 1000000, without commas."),
            ("1,000.5", "Write 1000.5, without commas."),
            ("0,005", "Write 0.005, with a point in place of the comma."),
            ("2,5", "Write 2.5, with a point in place of the comma."),
        ],
    )
    def test_thousands_are_not_taken_for_decimals(self, typed, words):
        problems = {}
        assert number(Entries({"a": [typed]}), "a", problems) is None
        assert problems == {"a": words}


class TestNames:
    def test_blanks_and_lines_in_names_stay(self, page):
        """Browsers end the lines of names and values in their own way."""
        sent = {name: [value.replace("\n", "\r\n") for value in values] for name, values in fields().items()}
        wrong, file = told(page.post("/", sent))
        assert wrong == ""
        assert '" fare\\n."' in file
        assert '[" city "]' in file
        entries = Entries.of_pairs([("keys.list.a\r\nb", "1\r\n2")])
        assert entries.fields == {"keys.list.a\nb": ["1\n2"]}


class TestPromise:
    @pytest.mark.parametrize(
        ("neighbours", "unit", "words"),
        [
            ("", "column:person", "Adding or removing all rows of one person"),
            ("change_one", "column:person", "Replacing all rows of one person by others"),
            ("", "row", "Adding or removing one row"),
            ("change_one", "row", "Replacing one row by another"),
        ],
    )
    def test_says_what_is_exchanged(self, page, neighbours, unit, words):
        answer = page.post("/", fields(**{"data.neighbours": [neighbours], "unit": [unit]}))
        assert f"{words} changes the probability" in answer.text


class TestPasswords:
    @pytest.mark.parametrize("location", ["postgresql://h/town?password=s3cret", "postgresql://ann:s3cret@h/town"])
    def test_are_left_out_of_what_is_shown_and_downloaded(self, page, location):
        sent = {"data.ledger": [location], "aggregates.0.kind": ["count"]}
        shown = page.post("/", sent)
        _, file = told(shown)
        for text in (file, page.post("/query.toml", sent).text, page.post("/release.py", sent).text):
            assert "s3cret" not in text
            assert "postgresql://h/town" in text
        assert "The password is left out" in shown.text


class TestFilesThatChange:
    def test_the_columns_are_those_of_now(self, page):
        sent = {"data.source": ["a.parquet"]}
        assert " city " in page.post("/", sent).text
        pq.write_table(pa.table({"person": [1], "town": ["Rome"]}), "a.parquet")
        answer = page.post("/", sent).text
        assert "town" in answer
        assert " city " not in answer


class TestPreview:
    def test_is_not_made_for_nobody(self, page):
        """Until it is known who is protected, there is nothing that bounds could cut off."""
        sent = fields(**{"unit": [], "do": ["preview"], "preview.confirm": ["yes"]})
        assert "Complete the data and the table first" in page.post("/", sent).text


class TestAcceptedError:
    def test_is_charged_once_its_epsilon_was_seen(self, page, tmp_path):
        with Ledger("budget.db") as ledger:
            ledger.open("a", epsilon=9, delta=1e-5)
        sent = fields(
            **{"data.ledger": ["budget.db"], "data.dataset": ["a"], "budget.by": ["interval"], "once": ["k" * 22]},
            **{
                "budget.interval": ["20"],
                "budget.epsilon": ["0.1"],
                "charge": ["ε = 0.1, δ = 1e-06 to 'a' in budget.db"],
            },
        )
        first = page.post("/publish", sent)
        assert first.status == 422
        [needed] = re.findall(r"This error needs <strong>ε = ([\d.]+)", first.text)
        charge = re.search(r'name="charge" value="([^"]+)"', first.text)[1]
        assert f"This would charge ε = {needed}, δ = 1e-06" in html.unescape(first.text)
        assert f"epsilon = {needed}" in page.post("/query.toml", sent).text
        with Ledger("budget.db") as ledger:
            assert not ledger.overview("a").releases
        assert page.post("/publish", {**sent, "charge": [html.unescape(charge)]}).status == 303
        [job] = page.web.jobs.running() or [page.web.jobs.get("k" * 22)]
        job.thread.join()
        with Ledger("budget.db") as ledger:
            assert [each.epsilon for each in ledger.overview("a").releases] == [float(needed)]


class TestJobs:
    def test_a_key_is_good_for_one_job_even_when_it_is_forgotten(self):
        jobs, done = Jobs(), threading.Event()
        done.set()
        for number_ in range(60):
            job = Job(str(number_), "release", "", Entries({}))
            jobs.begin(job, lambda job: done.wait())
            job.thread.join()
        assert jobs.get("0") is None
        assert jobs.has_begun("0")
        with pytest.raises(ValueError, match="begun before"):
            jobs.begin(Job("0", "release", "", Entries({})), lambda job: None)

    @pytest.mark.parametrize("key", ["", "x", "../../help", "a b", "k" * 23, "é" * 22])
    def test_a_key_that_was_not_made_here_begins_nothing(self, page, key):
        answer = page.post("/publish", fields(**{"once": [key]}))
        assert answer.status == 422
        assert page.web.jobs.running() == []
