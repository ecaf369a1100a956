"""The checker as a page: it agrees with the one in Python, reads files from disk and looks right, all offline."""

import itertools
import json
import math
import shutil

import numpy as np
import openpyxl
import pyarrow as pa
import pytest
from test_check import FORGERIES, statement_of
from typer.testing import CliRunner

from osgt import Dataset, Publication
from osgt.check import NotCheckedError, check
from osgt.cli import app
from osgt.facts.measured import choice_values, measured_values
from osgt.facts.statement import public_query

playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
accessibility = pytest.importorskip("accessibility", reason="pip install axe-playwright-python")

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium on the PATH: apt-get install chromium")

TOWNS = ["Bern", "Oslo", "Rome, Lazio", 'Tu"rin']


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The page, and published tables of every kind."""
    folder = tmp_path_factory.mktemp("page")
    assert CliRunner().invoke(app, ["check", "--page", str(folder / "check.html")]).exit_code == 0
    generator = np.random.default_rng(2)
    rows = pa.table(
        {"user": np.arange(9000) % 3000, "town": generator.choice(TOWNS, 9000), "year": [2024, 2025] * 4500}
    )
    rows = rows.append_column("cost", pa.array(generator.integers(0, 500, 9000)))
    data = Dataset(rows, "user", noun="passenger")
    query = data.group_by("town", public_keys=TOWNS, max_rows=5, totals="rollup").count().mean("cost", (0, 500))
    alone = query.release(1, 1e-6)
    for name in ("a.parquet", "a.csv", "a.xlsx"):
        alone.write(out=folder / name)
    (folder / "a.json").write_text(json.dumps(alone.statement.to_dict()))
    both = Publication(towns=query, years=data.group_by("year", max_rows=5).count()).release(1, 1e-6)
    for name, release in both.tables.items():
        release.write(out=folder / f"{name}.parquet")
    both.to_excel(folder / "both.xlsx")
    workbook = openpyxl.load_workbook(folder / "a.xlsx")
    workbook.worksheets[0].cell(1, 20, "salary")
    workbook.save(folder / "more.xlsx")
    broken = json.loads(json.dumps(alone.statement.to_dict()))
    broken["privacy"]["measures"][0]["noise"]["slope"] *= 1.5
    (folder / "broken.json").write_text(json.dumps(broken))
    (folder / "none.xlsx").write_bytes((folder / "a.xlsx").read_bytes()[:-30])
    return folder


@pytest.fixture(scope="module")
def chromium():
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(chromium, folder):
    """The page from disk in a browser without a network, which logs nothing."""
    context = chromium.new_context(offline=True, color_scheme="dark", viewport={"width": 390, "height": 800})
    page, told = context.new_page(), []
    page.on("console", lambda message: told.append(message.text))
    page.on("pageerror", lambda error: told.append(str(error)))
    page.on("request", lambda request: None if request.url.startswith(("file:", "data:")) else told.append(request.url))
    page.goto((folder / "check.html").as_uri())
    yield page
    assert told == []
    context.close()


def made_plans(number, seed=8):
    """Random queries and their plans, without any data."""
    generator = np.random.default_rng(seed)
    empty = {"user": pa.array([], pa.int64()), "town": pa.array([], pa.string()), "cost": pa.array([], pa.int64())}
    keys = [f"t{i}" for i in range(12)]
    limits = [{"max_rows": 7}, {"max_groups": 3, "max_rows_per_group": 2}, {"max_length": 3, "max_groups": 5}]
    kinds = itertools.product(("add_remove", "change_one"), ("user", ["user", "town"], "row"), limits)
    for neighbours, unit, limited in itertools.islice(itertools.cycle(kinds), number):
        public = keys[: int(generator.integers(2, 12))] if generator.random() < 0.6 else None
        totals = "rollup" if public and generator.random() < 0.3 else None
        data = Dataset(pa.table(empty), unit, neighbours=neighbours)
        query = data.group_by("town", public_keys=public, totals=totals, **({} if unit == "row" else limited))
        query = query.count()
        for ask in (
            lambda q: q.sum("cost", (0, 90)),
            lambda q: q.mean("cost", (-5, 90)),
            lambda q: q.median("cost", (0, 90), bins=8),
            lambda q: q.variance("cost", (0, 90)),
        ):
            query = ask(query) if generator.random() < 0.25 else query
        yield query, query.plan(float(10 ** generator.uniform(-1, 0.7)), float(10 ** generator.uniform(-10, -4)))


def made_statements(plans, each):
    """What the checker reads of statements: of every plan, and with its noise and its budget changed."""
    generator = np.random.default_rng(9)
    for query, plan in made_plans(plans):
        for i in range(each):
            factor = 1.0 if i == 0 else float(generator.uniform(0.8, 1.2))
            epsilon = plan.epsilon * (1.0 if i < 3 else float(generator.uniform(0.7, 1.5)))
            privacy = {"choice_of_limits": choice_values(plan.choice), "charge": plan.charge.to_dict()}
            privacy |= {"unit": query.dataset.privacy_unit, "neighbours": query.dataset.neighbours}
            plain = {"privacy": privacy | measured_values(plan), "query": public_query(query)}
            plain = json.loads(json.dumps(plain | {"columns": [], "groups_shown": 0}))
            for noise in [part["noise"] for part in (*plain["privacy"]["measures"], *privacy["charge"]["parts"])]:
                noise |= {name: noise[name] * factor for name in ("slope", "curvature") if name in noise}
            plain["privacy"]["charge"] = privacy["charge"]
            words = f"ε = {epsilon!r} and δ = {plan.delta!r}"
            yield plain | {"epsilon": epsilon, "delta": plan.delta, "statement": words}


def outcome(plain):
    try:
        result = check(plain)
    except NotCheckedError:
        return None
    return result.noise_delta, result.selection_delta, len(result.problems), len(result.trusted)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("plans", "each"), [(10, 4), pytest.param(50, 8, marks=pytest.mark.long)])
def test_it_agrees_with_python(page, plans, each):
    """The page takes half a second for a statement."""
    script = """statement => { try { const r = check(statement);
        return [r.noiseDelta, r.selectionDelta, r.problems.length, r.trusted.length]; }
        catch (error) { if (error instanceof NotChecked) return null; throw error; } }"""
    some = 0
    for plain in made_statements(plans, each):
        own, theirs = outcome(plain), page.evaluate(script, plain)
        assert (own is None) == (theirs is None)
        if own is not None:
            assert own[2:] == tuple(theirs[2:])
            assert all(math.isclose(a, b, rel_tol=1e-9) for a, b in zip(own[:2], theirs[:2], strict=True)), (
                own,
                theirs,
            )
            some += own[0] > 0
    assert some > 0.7 * plans * each


@pytest.mark.filterwarnings("ignore")
def test_it_refuses_what_python_refuses(page):
    statements = {of: statement_of(of) for of, _ in FORGERIES.values()}
    script = """text => { try { const r = check(JSON.parse(text)); return [r.problems.length, r.trusted.length]; }
        catch (error) { if (error instanceof NotChecked) return null; throw error; } }"""
    for name, (of, change) in FORGERIES.items():
        assert page.evaluate(script, json.dumps(statements[of])) == [0, len(check(statements[of]).trusted)]
        plain = json.loads(json.dumps(statements[of]))
        change(plain)
        text = json.dumps(plain).replace("NaN", "null")
        answer = page.evaluate(script, text)
        assert answer is None or answer[0] > 0, name


OPENED = {
    "parquet": ["a.parquet"],
    "csv": ["a.csv", "a.csv-metadata.json"],
    "description": ["a.csv-metadata.json"],
    "json": ["a.json"],
    "one of several tables": ["towns.parquet"],
    "another of them": ["years.parquet"],
    "a workbook": ["a.xlsx"],
    "a workbook with several tables": ["both.xlsx"],
}


@pytest.mark.parametrize("name", OPENED)
def test_it_opens_files(page, folder, name):
    page.set_input_files("#file", [folder / each for each in OPENED[name]])
    page.wait_for_selector("#answer section")
    assert page.inner_text("#answer h2") == "The promise holds, if what is below is true"
    assert "ε = 1 and δ = 1e-6" in page.inner_text("#answer")
    assert "for every passenger (column user)" in page.inner_text("#answer")


def test_it_shows_the_table_and_explains_a_number(page, folder):
    page.set_input_files("#file", [folder / "a.csv", folder / "a.csv-metadata.json"])
    page.wait_for_selector("#table table")
    assert page.locator("#table tbody tr").count() == 5
    assert "Rome, Lazio" in page.inner_text("#table")
    assert 'Tu"rin' in page.inner_text("#table")
    page.locator("#table tbody button").first.click()
    told = page.inner_text("#number")
    assert "count of Bern" in told
    assert "With a probability of at least 95 %" in told
    assert "factor of 2.72 at most" in told


@pytest.mark.parametrize(
    ("files", "words"),
    [
        (["broken.json"], "The promise does not hold"),
        (["a.csv"], "open it together with the -metadata.json beside it"),
        (["check.html"], "cannot be checked"),
        (["more.xlsx"], "the statement does not say what the column 'salary' is"),
        (["none.xlsx"], "it is not an Excel file, or not a whole one"),
    ],
)
def test_it_says_what_is_wrong(page, folder, files, words):
    page.set_input_files("#file", [folder / each for each in files])
    page.wait_for_selector("#answer section")
    assert words in page.inner_text("#answer")


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_and_is_accessible(page, folder, width, scheme):
    page.set_viewport_size({"width": width, "height": 800})
    page.emulate_media(color_scheme=scheme)
    page.set_input_files("#file", [folder / "a.csv", folder / "a.csv-metadata.json"])
    page.wait_for_selector("#table table")
    page.locator("#table tbody button").first.click()
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert accessibility.violations(page) == []
    page.screenshot(path=str(folder / f"{width}-{scheme}.png"), full_page=True)
