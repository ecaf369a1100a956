"""The page in a real browser: its numbers, its words at wrong entries, its files; accessible, and of any width."""

import json
import math
import re
import tomllib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from planner_page import Planner, served, until
from typer.testing import CliRunner

from osgt import Dataset, Ledger
from osgt.api.query_file import build_query
from osgt.cli import app
from osgt.query.file.reading import query_file_of
from osgt.render.table_cards import width

WIDTHS = (390, 768, 1280)
#: A width and colours: what is wrong with the layout depends on the one, with the contrast on the other.
LOOKS = ((390, "light"), (1280, "dark"))

QUERY = """
[data]
source = "rides.parquet"
privacy_unit = "person"
ledger = "budget.db"
dataset = "rides"
[groups]
by = ["city"]
max_groups = 2
max_rows_per_group = 3
[[aggregates]]
kind = "count"
[[aggregates]]
kind = "sum"
column = "fare"
bounds = [0, 40]
[budget]
epsilon = 1
delta = 1e-7
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    rows = {"person": range(600), "city": ["Bern", "Rome", "Oslo"] * 200, "fare": [1.5, 2.5] * 300}
    pq.write_table(pa.table(rows), folder / "rides.parquet")
    (folder / "rides.csv").write_text("person,city,fare\n1,Rome,2.5\n")
    (folder / "keys.csv").write_text("city\nBern\nRome\n")
    (folder / "taken.parquet").write_text("taken")
    with Ledger(folder / "budget.db") as ledger:
        ledger.open("rides", epsilon=3, delta=1e-5, unit="person")
    with served(folder) as running:
        yield running


@pytest.fixture(scope="module")
def shared(chromium, server):
    """One page for all tests that load a file first."""
    made = Planner(chromium, server.link())
    yield made
    assert [text for text in made.told if "status of 422" not in text] == []
    made.close()


@pytest.fixture
def planner(shared):
    shared.page.goto(f"{shared.root}/")
    return shared


@pytest.fixture(scope="module")
def query(server):
    data = Dataset(server.folder / "rides.parquet", "person")
    yield data.group_by("city", max_groups=2, max_rows_per_group=3).count().sum("fare", (0, 40))
    data.close()


def planned(query, epsilon):
    """The rows of the table that the page must show: each column with each noise."""
    plan = query.plan(epsilon, 1e-7)
    return [
        [column.name, width(column), *(width(others[i]) for others in plan.alternatives.values())]
        for i, column in enumerate(plan.columns)
    ]


class TestBudget:
    def test_the_slider_and_typed_values_show_what_the_plan_says(self, planner, query):
        """With Gaussian and Laplace noise beside it."""
        planner.load(QUERY)
        slider = planner.page.locator("input[type=range]")
        seen = []
        for key, epsilon in (("ArrowRight", 1.2), ("ArrowRight", 1.5), ("Home", 0.01), ("End", 10.0)):
            with planner.updating():
                slider.press(key)
            assert float(planner.field("budget.epsilon").input_value()) == epsilon
            assert slider.get_attribute("aria-valuetext") == f"{epsilon:g}"
            seen.append(planner.intervals())
            assert seen[-1] == planned(query, epsilon)
        planner.type("budget.epsilon", "0.37")
        assert planner.intervals() == planned(query, 0.37)
        assert "ε = 0.37" in planner.words("#charge")
        assert "epsilon = 0.37" in planner.query_file()
        assert len({str(rows) for rows in seen}) == 4

    @pytest.mark.parametrize(("column", "target"), [("count", 25), ("fare_sum", 300.5)])
    def test_by_the_error_it_is_the_least_round_epsilon(self, planner, query, column, target):
        planner.load(QUERY)
        planner.tick("#by-interval")
        planner.choose("budget.column", column)
        planner.type("budget.interval", str(target))
        told = float(planner.page.text_content("#numbers p strong").removeprefix("ε = "))
        step = 10.0 ** (len(str(int(told))) - 2) if told >= 1 else 0.01
        assert round(told / step) == pytest.approx(told / step)
        half = [
            next(each.half_width for each in query.plan(at, 1e-7).columns if each.name == column)
            for at in (told, round(told - step, 3))
        ]
        assert half[0] <= target < half[1]
        assert planner.intervals() == planned(query, told)
        assert f"ε = {told:g}" in planner.words("#charge")


WRONG = [
    ("budget.epsilon", "0,5", "Write 0.5"),
    ("budget.epsilon", "-1", "> 0"),
    ("budget.delta", "0", "above 0 where groups are chosen by their size"),
    ("groups.max_groups", "1.5", "whole number"),
    ("groups.max_rows_per_group", "0", "≥ 1"),
    ("data.where", "fare > (SELECT avg(fare) FROM rides)", "one row alone"),
    ("data.where", "fair > 3", "fair"),
    ("derive.0.sql", "city || no_such", "no_such"),
    ("data.source", "nothing.parquet", "no file"),
]


class TestWrongEntries:
    def test_are_told_at_their_field(self, planner):
        """And taken back when they are mended; the page says meanwhile why there is no plan."""
        planner.load(QUERY)
        planner.unfold()
        for name, value, words in WRONG:
            before = planner.field(name).input_value()
            if name == "derive.0.sql":
                planner.type("derive.0.name", "more")
            planner.type(name, value)
            told = planner.problem(name)
            assert told is not None, name
            assert words in told
            assert told in planner.words("#numbers")
            assert planner.page.locator("#numbers table").count() == 0
            planner.type(name, before)
            if name == "derive.0.sql":
                planner.type("derive.0.name", "")
            assert planner.problem(name) is None
            assert planner.page.locator("#numbers table").count() == 1

    def test_bounds_that_are_reversed(self, planner):
        planner.load(QUERY)
        planner.type("aggregates.1.bounds.low", "50")
        assert "Bounds of 'fare' must be" in planner.problem("aggregates.1.bounds.low")

    def test_a_type_that_does_not_fit(self, planner):
        """Numbers are decimal ones if nothing is said; types are asked for only of columns that are used."""
        planner.load(QUERY.replace("rides.parquet", "rides.csv"))
        assert planner.field("data.types.fare").input_value() == "float64"
        assert planner.field("data.types.person").count() == 0
        planner.choose("data.types.fare", "date")
        assert "must hold numbers" in planner.problem("aggregates.1.column")
        planner.choose("data.types.fare", "int64")
        assert planner.problem("aggregates.1.column") is None
        planner.type("data.where", "person > 3")
        assert planner.field("data.types.person").count() == 1

    @pytest.mark.parametrize(
        ("out", "words"),
        [
            ("taken.parquet", "exists"),
            ("nowhere/a.parquet", "no folder"),
            ("a.txt", "end in"),
            ("rides.parquet", "in use"),
        ],
    )
    def test_a_file_that_cannot_be_written(self, planner, server, out, words):
        planner.load(QUERY)
        planner.publish(out, "report.html", finished=False)
        planner.page.wait_for_selector("#notice")
        assert words in planner.problem("output.out")
        assert "nothing was charged" in planner.words("#notice")
        assert (server.folder / "taken.parquet").read_text() == "taken"

    def test_more_than_the_budget(self, planner, server):
        """It is told before anybody asks for it, and refused when somebody does."""
        planner.load(QUERY)
        planner.type("budget.epsilon", "4")
        assert "The ledger would refuse this release" in planner.words("#charge")
        planner.publish("more.parquet", "more.html", finished=False)
        planner.page.wait_for_selector("#notice")
        assert "nothing was charged" in planner.words("#notice")
        assert not (server.folder / "more.parquet").exists()

    def test_nothing_was_charged_by_any_of_them(self, planner, server):
        with Ledger(server.folder / "budget.db") as ledger:
            assert ledger.overview("rides").releases == []


EVERYTHING = """
[data]
source = "rides.parquet"
privacy_unit = ["person"]
ledger = "budget.db"
dataset = "rides"
neighbours = "change_one"
where = ["fare > 0", "city <> 'Paris'"]
[data.derive]
band = "cut(fare, 0.0, 2, 5)"
half = "fare / 2"
[groups]
by = ["city", "band"]
max_groups = 3
max_rows_per_group = 2
public_keys = {city = ["Bern", "it's \\"Rome\\""], band = "all"}
totals = [{by = ["city"], weight = 2.5}, []]
[[aggregates]]
kind = "count"
weight = 2
[[aggregates]]
kind = "quantile"
column = "half"
bounds = [0, 2.5]
levels = [0.25, 0.5]
[[aggregates]]
kind = "histogram"
column = "fare"
edges = [0, 1, 2.5]
[budget]
epsilon = 0.12345678901234567
delta = 1e-7
[output]
out = "all.csv"
confidence = 0.9
objective = "quantile:0.9"
nonnegative = true
measure_left_out = false
[report]
title = "Rides"
[report.labels]
city = "Town"
[report.units]
count = "rides"
[report.values.city]
Bern = "Berne"
"""

SEVERAL = """
[data]
source = "rides.parquet"
privacy_unit = "person"
[[table]]
name = "a-b"
weight = 2
[table.groups]
by = "city"
max_groups = 1
max_rows_per_group = 1
public_keys = "keys.csv"
[[table.aggregates]]
kind = "count"
[[table]]
name = "a_b"
where = "fare > 2"
[table.groups]
max_rows_per_group = 2
[[table.aggregates]]
kind = "sum"
column = "fare"
bounds = [0, 3]
[budget]
epsilon = 1
delta = 1e-7
[report.labels]
"a-b" = "All"
"""


class TestFiles:
    @pytest.mark.parametrize("text", [QUERY, EVERYTHING, SEVERAL], ids=["small", "everything", "several"])
    def test_what_is_downloaded_is_what_was_loaded_and_plans_the_same(self, planner, server, text, monkeypatch):
        monkeypatch.chdir(server.folder)
        planner.load(text)
        assert planner.page.locator(".problem:not(:empty)").count() == 0
        downloaded = planner.download("button[formaction$='/query.toml']").decode()
        assert meaning(downloaded) == meaning(text)
        assert meaning(planner.query_file()) == meaning(text)
        told = []
        for name, content in (("saved.toml", downloaded), ("loaded.toml", text)):
            (server.folder / name).write_text(content)
            planned = CliRunner().invoke(app, ["plan", "--query", name, "--json"])
            assert planned.exit_code == 0, planned.output
            told.append(json.loads(planned.stdout))
        assert told[0] == told[1]
        tables = told[0].get("tables", {"": told[0]}).values()
        half_widths = {each["name"]: each["half_width"] for table in tables for each in table["columns"]}
        shown = {row[0]: row[1] for row in planner.intervals()}
        assert shown.keys() == half_widths.keys()
        for name, half in half_widths.items():
            if half is not None:
                number = float(shown[name].lstrip("±").replace(",", ""))
                assert number == math.ceil(half) or number == pytest.approx(half, rel=5e-3)  # of counts, whole numbers

    @pytest.mark.parametrize("text", [QUERY, EVERYTHING, SEVERAL], ids=["small", "everything", "several"])
    def test_the_program_plans_the_same(self, planner, server, text, monkeypatch):
        """It is run up to the release, which would be charged."""
        monkeypatch.chdir(server.folder)
        planner.load(text)
        planner.unfold()
        program = planner.download("button[formaction$='/release.py']").decode()
        start, _, release = program.partition("release = query.release(")
        arguments = re.split(r"\)\n", release, maxsplit=1)[0].replace("nonnegative=True,", "")
        found = {}
        exec(compile(f"{start}plan = query.plan({arguments})", "release.py", "exec"), found)
        file = query_file_of(tomllib.loads(text))
        query = build_query(file, file.data.ledger)
        expected = query.plan(**file.budget.given(), **file.plan_options())
        assert str(found["plan"]) == str(expected)
        for each in (found["query"], query):
            each.dataset.close()


def meaning(text):
    """A query file in plain values, with all that is usual left out."""
    plain = query_file_of(tomllib.loads(text)).model_dump(exclude_defaults=True)
    return {**plain, "data": {**plain["data"], "privacy_unit": str(plain["data"]["privacy_unit"]).strip("[]'")}}


def states(planner):
    """The page as it looks at different times, one after the other."""
    yield "empty"
    planner.load(QUERY)
    yield "filled"
    planner.unfold()
    planner.type("aggregates.1.bounds.low", "x")
    planner.type("data.where", "nothing")
    yield "with problems"
    planner.load(QUERY)
    planner.unfold()
    planner.tick("[name='preview.confirm']")
    with planner.updating():
        planner.page.click("button[value=preview]")
    assert planner.page.locator(".alarm").count() == 1
    yield "with exact figures"
    planner.load(QUERY.replace("max_groups = 2\nmax_rows_per_group = 3\n", ""))
    assert "chooses it privately" in planner.page.inner_text("#numbers")
    yield "with open limits"
    planner.page.goto(f"{planner.root}/help")
    yield "help"


class TestBeforeTheScript:
    def test_nothing_that_was_entered_is_lost(self, chromium, server):
        """On a slow machine people type before the script of the page is there."""
        planner = Planner(chromium, server.link())
        held = []

        def hold(route):
            held.append(route)

        planner.context.route("**/script.js", hold)
        planner.page.goto(f"{planner.root}/", wait_until="commit")
        planner.field("data.source").fill("rides.parquet")
        planner.field("budget.delta").fill("1e-7")
        until(lambda: held)
        held[0].continue_()
        until(lambda: "delta = 1e-07" in planner.query_file())
        planner.choose("unit", "column:person")
        wanted = {"source": "rides.parquet", "privacy_unit": ["person"]}
        until(lambda: tomllib.loads(planner.query_file())["data"] == wanted)
        planner.close()


class TestLooks:
    def test_it_is_accessible_and_fits(self, chromium, server):
        accessibility = pytest.importorskip("accessibility", reason="pip install axe-playwright-python")
        planner = Planner(chromium, server.link(), viewport={"width": 390, "height": 800})
        page, seen = planner.page, []
        for state in states(planner):
            seen.append(state)
            planner.unfold()
            for wide in WIDTHS:
                page.set_viewport_size({"width": wide, "height": 800})
                assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, (state, wide)
            for wide, scheme in LOOKS:
                page.set_viewport_size({"width": wide, "height": 800})
                page.emulate_media(color_scheme=scheme)
                assert accessibility.violations(page) == [], (state, wide, scheme)
        assert len(seen) == 6
        assert planner.told == []
        planner.close()

    def test_the_published_page_too(self, planner, server):
        accessibility = pytest.importorskip("accessibility", reason="pip install axe-playwright-python")
        planner.load(QUERY.replace('ledger = "budget.db"\ndataset = "rides"\n', ""))
        planner.publish("looks.csv", "looks.html")
        assert "charged to no ledger" in planner.words()
        assert planner.download("a[download='looks.csv']") == (server.folder / "looks.csv").read_bytes()
        for wide, scheme in LOOKS:
            planner.page.set_viewport_size({"width": wide, "height": 800})
            planner.page.emulate_media(color_scheme=scheme)
            assert planner.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
            assert accessibility.violations(planner.page) == []

    def test_a_page_that_is_loaded_again_keeps_what_was_entered(self, planner):
        """Of this tab, also in a field that was not left."""
        planner.load(QUERY)
        planner.type("budget.epsilon", "0.7")
        planner.choose("keys.kind", "lists")
        planner.type("keys.list.city", "Bern, Rome")
        with planner.page.expect_response("**/keep"):
            planner.reach(planner.field("data.table")).fill("not left")
        other = planner.context.new_page()
        other.goto(f"{planner.root}/")
        planner.page.reload()
        assert planner.field("budget.epsilon").input_value() == "0.7"
        assert planner.field("keys.list.city").input_value() == "Bern, Rome"
        assert planner.field("data.table").input_value() == "not left"
        planner.type("data.table", "")
        assert planner.page.locator(".chips li").all_text_contents() == ["Bern", "Rome"]
        assert planner.intervals()
        assert other.input_value("[name='data.source']") == ""
        other.close()
        planner.page.goto(f"{planner.root}/")
        assert planner.field("budget.epsilon").input_value() == "1"
        assert planner.field("data.source").input_value() == ""

    def test_the_server_is_gone(self, chromium, tmp_path):
        """The page says so, in words."""
        with served(tmp_path) as server:
            planner = Planner(chromium, server.link())
        planner.page.fill("[name='budget.delta']", "1e-6")
        until(lambda: "No answer from the server" in planner.page.inner_text("#lost"))
        planner.close()
