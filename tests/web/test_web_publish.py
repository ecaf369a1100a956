"""The whole way in a real browser: from a CSV file or a database to a charged release and its report."""

import signal

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from planner_page import Planner, Server, served, until
from typer.testing import CliRunner

from osgt import Ledger
from osgt.cli import app
from postgres_server import new_schema

CITIES, PEOPLE = ("Bern", "Oslo", "Rome"), 3_000


def rides():
    generator = np.random.default_rng(7)
    people = np.repeat(np.arange(PEOPLE), 2)
    return pa.table(
        {
            "person": people,
            "city": generator.choice(CITIES, len(people)),
            "fare": generator.integers(1, 50, len(people)),
        }
    )


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("publish")
    pyarrow.csv.write_csv(rides(), folder / "rides.csv")
    with Ledger(folder / "budget.db") as ledger:
        ledger.open("rides", epsilon=8, delta=1e-5, unit="person")
        ledger.open("people", epsilon=8, delta=1e-5)
    with served(folder, "rides.csv", "--ledger", "budget.db") as running:
        yield running


@pytest.fixture
def planner(chromium, server):
    made = Planner(chromium, server.link())
    yield made
    # A page with problems comes as an error, which the browser notes.
    assert [text for text in made.told if "status of 422" not in text] == []
    assert [url for url in made.asked if not url.startswith(f"{made.origin}/")] == []
    made.close()


def assert_near(table, rows):
    """The numbers lie near the truth: bounds cut off nothing here, so only noise is between them."""
    assert sorted(table["city"].to_pylist()) == sorted(CITIES)
    for row in table.to_pylist():
        of_city = rows.filter(pc.equal(rows["city"], row["city"]))
        truth = {"count": of_city.num_rows, "fare_mean": pc.mean(of_city["fare"]).as_py()}
        for name, value in truth.items():
            half = (row[f"{name}_high"] - row[f"{name}_low"]) / 2
            assert half > 0
            assert abs(row[name] - value) <= 10 * half


def fill(planner):
    """Everything but the data: two numbers for each city."""
    planner.choose("unit", "column:person")
    planner.choose("groups.by", "city")
    planner.choose("aggregates.1.kind", "mean")
    planner.choose("aggregates.1.column", "fare")
    planner.type("groups.max_groups", "2")
    planner.type("groups.max_rows_per_group", "2")
    planner.type("aggregates.1.bounds.low", "0")
    planner.type("aggregates.1.bounds.high", "50")
    planner.type("budget.epsilon", "1.5")
    planner.type("budget.delta", "1e-7")


def check_published(planner, folder, dataset, name):
    """What stands on the page, on the disk and in the ledger."""
    words = planner.words()
    assert "Published" in words
    assert f"ε = 1.5, δ = 1e-07, charged to '{dataset}'" in words
    assert_near(pq.read_table(folder / f"{name}.parquet"), rides())
    assert planner.download("a[download]") == (folder / f"{name}.parquet").read_bytes()
    with planner.context.expect_page() as opening:
        planner.page.click("text=Open the report")
    report = opening.value
    report.wait_for_load_state()
    assert "Rome" in report.inner_text("body")
    assert planner.context.request.get(report.url).text() == (folder / f"{name}.html").read_text(encoding="utf-8")
    report.close()
    with Ledger(folder / "budget.db") as ledger:
        [entry] = ledger.overview(dataset).releases
        assert (entry.epsilon, entry.delta, entry.status) == (1.5, 1e-7, "settled")
        assert ledger.verify().ok


def test_from_a_csv_file(planner, server):
    """Nobody is protected before somebody says who; the last click charges and publishes."""
    for name in ("unit", "groups.max_rows", "data.dataset"):
        assert planner.field(name).input_value() == ""
    planner.choose("data.dataset", "rides")
    fill(planner)
    planner.publish("csv.parquet", "csv.html")
    check_published(planner, server.folder, "rides", "csv")


def test_from_postgresql(planner, server, postgres_url):
    """The same from a table of a database; its password is written down nowhere."""
    with new_schema(postgres_url) as url:
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE rides (person bigint, city text, fare double precision)")
            with connection.cursor().copy("COPY rides FROM STDIN") as copy:
                for row in rides().to_pylist():
                    copy.write_row(tuple(row.values()))
        planner.type("data.source", url)
        planner.type("data.table", "rides")
        with planner.updating():
            planner.page.get_by_role("button", name="Connect").click()
        planner.choose("data.dataset", "people")
        fill(planner)
        password = url.partition("@")[0].rpartition(":")[2]
        for text in (planner.query_file(), planner.page.text_content("#python")):
            assert "postgresql://127.0.0.1" in text
            assert password not in text
        planner.publish("postgres.parquet", "postgres.html")
        check_published(planner, server.folder, "people", "postgres")
    assert password not in planner.words()
    for name in ("postgres.parquet", "postgres.html", "budget.db"):
        assert password.encode() not in (server.folder / name).read_bytes()


QUERY = """
[data]
source = "rides.csv"
privacy_unit = "person"
ledger = "budget.db"
dataset = "{dataset}"
[groups]
by = ["city"]
max_groups = 2
max_rows_per_group = 2
public_keys = ["Bern", "Oslo", "Rome"]
[[aggregates]]
kind = "count"
[budget]
epsilon = {epsilon}
delta = 1e-7
[output]
out = "{name}.parquet"
report = "{name}.html"
"""


def opened_data_set(server, name, epsilon):
    """A data set of a test's own in the ledger."""
    with Ledger(server.folder / "budget.db") as ledger:
        ledger.open(name, epsilon=epsilon, delta=1e-6)
    return name


def charged(server, dataset):
    """What was charged, with what became of it."""
    with Ledger(server.folder / "budget.db") as ledger:
        assert ledger.verify().ok
        return [(entry.epsilon, entry.status) for entry in ledger.overview(dataset).releases]


@pytest.mark.parametrize(("budget", "entries"), [(1.5, 1), (2.5, 2)])
def test_two_tabs_at_once(planner, server, budget, entries):
    """A budget for two is charged twice; one for a single release is charged once, and the other is told so."""
    dataset = opened_data_set(server, f"tabs {budget}", budget)
    tabs = [planner.page, planner.context.new_page()]
    tabs[1].goto(f"{planner.root}/")
    for number, tab in enumerate(tabs):
        planner.page = tab
        planner.load(QUERY.format(dataset=dataset, epsilon=1, name=f"{dataset} {number}"))
    for tab in tabs:
        tab.evaluate("document.querySelector('button.main').click()")
    told = []
    for tab in tabs:
        planner.page = tab
        planner.finished()
        told.append(tab.inner_text("#main"))
    assert charged(server, dataset) == [(1, "settled")] * entries
    made = [(server.folder / f"{dataset} {number}.parquet").exists() for number in range(2)]
    assert sum(made) == entries
    for is_made, words in zip(made, told, strict=True):
        assert ("Published" in words) == is_made
        assert ("nothing was charged" in words.lower()) != is_made
    planner.page = tabs[0]


def test_a_double_click_publishes_once(planner, server):
    """Nor does the page publish again when it is sent or loaded again; and nobody is told that nothing was charged."""
    dataset = opened_data_set(server, "clicks", 10)
    planner.load(QUERY.format(dataset=dataset, epsilon=1, name="clicks"))
    fields = planner.page.evaluate("[...new FormData(document.getElementById('planner'))]")
    planner.page.dblclick("button.main")
    planner.finished()
    assert "Published" in planner.words()
    planner.page.reload()
    planner.finished()
    again = planner.page.evaluate(
        """async ([address, fields]) => {
            const answers = [0, 1].map(() => fetch(address, {method: "POST", body: new URLSearchParams(fields)}));
            return Promise.all((await Promise.all(answers)).map(async (each) => [each.url, await each.text()]));
        }""",
        [f"{planner.root}/publish", fields],
    )
    for url, text in again:
        assert url == planner.page.url
        assert "Published" in text
    assert charged(server, dataset) == [(1, "settled")]


def test_the_same_page_twice_at_once_publishes_once(planner, server):
    """The second answer is about the same job, not about a file that the first is writing."""
    dataset = opened_data_set(server, "at once", 1.5)
    planner.load(QUERY.format(dataset=dataset, epsilon=1, name="at once"))
    fields = planner.page.evaluate("[...new FormData(document.getElementById('planner'))]")
    answers = planner.page.evaluate(
        """async ([address, fields]) => {
            const answers = [0, 1, 2].map(() => fetch(address, {method: "POST", body: new URLSearchParams(fields)}));
            return (await Promise.all(answers)).map((each) => [each.status, each.url]);
        }""",
        [f"{planner.root}/publish", fields],
    )
    [(status, url)] = {tuple(each) for each in answers}
    assert status == 200
    planner.page.goto(url)
    planner.finished()
    assert "Published" in planner.words()
    assert charged(server, dataset) == [(1, "settled")]


def test_without_javascript(chromium, server):
    """From a query file that is loaded to a release, by buttons alone."""
    dataset = opened_data_set(server, "no script", 10)
    planner = Planner(chromium, server.link(), java_script_enabled=False)
    page = planner.page
    page.click("#file > summary")
    page.click("#fold-load > summary")
    page.fill("[name=query]", QUERY.format(dataset=dataset, epsilon="1", name="plain"))
    page.click("button[value=load]")
    assert "The query file is loaded" in planner.words()
    page.click("#fold-options > summary")
    page.check("#by-interval")
    page.locator("[name='budget.delta']").press("Enter")  # updates the page
    page.fill("[name='budget.interval']", "20")
    page.click("button.main")
    # What the error needs has not been seen yet: it is shown first.
    needed = float(page.text_content("#numbers p strong").removeprefix("ε = "))
    assert f"This would charge ε = {needed:g}" in planner.words("#plan")
    assert charged(server, dataset) == []
    page.click("button.main")
    page.wait_for_url("**/jobs/**")
    planner.finished()
    assert "Published" in planner.words()
    assert charged(server, dataset) == [(needed, "settled")]
    assert (server.folder / "plain.parquet").exists()
    page.click("text=Back to the plan")
    assert planner.field("output.out").input_value() == "plain.parquet"
    planner.close()


def test_with_the_keyboard_alone(planner, server):
    """Tab reaches every field and button in the order of the page; arrows move the slider; Enter publishes."""
    dataset = opened_data_set(server, "keys", 10)
    planner.load(QUERY.format(dataset=dataset, epsilon=1, name="keyboard"))
    page = planner.page
    page.evaluate("document.querySelector('h1').setAttribute('tabindex', '-1')")
    page.focus("h1")
    reached = []
    for _ in range(200):
        page.keyboard.press("Tab")
        here = page.evaluate("[document.activeElement.name || '', document.activeElement.outerHTML.slice(0, 200)]")
        reached.append(here[0])
        if 'type="range"' in here[1]:
            before = page.input_value("[name='budget.epsilon']")
            with planner.updating():
                page.keyboard.press("ArrowRight")
            assert (before, page.input_value("[name='budget.epsilon']")) == ("1", "1.2")
        if 'class="main"' in here[1]:
            break
    names = planner.page.eval_on_selector_all(
        "#planner :is(input, select, textarea):not([type=hidden], [type=file])",
        "all => all.filter(each => each.checkVisibility()).map(each => each.name)",
    )
    wanted = [name for name in dict.fromkeys(names) if name]
    assert [name for name in dict.fromkeys(reached) if name in wanted] == wanted
    page.keyboard.press("Enter")
    planner.finished()
    assert charged(server, dataset) == [(1.2, "settled")]


@pytest.fixture
def held(postgres_url):
    """The URL of a view that nobody can read while a connection holds a lock, and that connection."""
    with new_schema(postgres_url) as url:
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE rides AS SELECT g AS person, 'Rome' AS city FROM generate_series(1, 99) g")
            waits = "(SELECT pg_advisory_lock_shared(7)::text) = ''"
            connection.execute(f"CREATE VIEW held AS SELECT * FROM rides WHERE {waits}")
        with psycopg.connect(url, autocommit=True) as holder:
            holder.execute("SELECT pg_advisory_lock(7)")
            yield url, holder


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)]
)
def test_the_server_is_ended_in_the_middle(chromium, tmp_path, held, number):
    """Killed, it leaves a charge that is reserved; told to end, it finishes what has begun."""
    with Ledger(tmp_path / "budget.db") as ledger:
        ledger.open("people", epsilon=2, delta=1e-6)
    url, holder = held
    finished = number != signal.SIGKILL
    server = Server(tmp_path, url, "--ledger", "budget.db")
    text = QUERY.format(dataset="people", epsilon=1, name="held").replace('"rides.csv"', f'"{url}"\ntable = "held"')

    def let_it_finish():
        until(lambda: "Finishing what has begun" in "".join(server.said) or server.process.poll() is not None)
        holder.execute("SELECT pg_advisory_unlock(7)")

    try:
        planner = Planner(chromium, server.link())
        planner.load(text)
        with planner.updating():
            planner.page.get_by_role("button", name="Connect").click()
        planner.publish("held.parquet", "held.html", finished=False)
        planner.page.wait_for_selector("[data-poll]")
        with Ledger(tmp_path / "budget.db") as ledger:
            until(lambda: ledger.overview("people").releases)
    finally:
        server.end(number, let_it_finish if finished else lambda: None)
    planner.close()
    [(epsilon, status)] = charged(server, "people")
    assert (epsilon, status) == (1, "settled" if finished else "reserved")
    assert (tmp_path / "held.parquet").exists() == finished
    assert ("Finishing what has begun" in "".join(server.said)) == finished
    told = CliRunner().invoke(app, ["ledger", "verify", str(tmp_path / "budget.db")])
    assert told.exit_code == 0, told.output
