"""Pages in a real browser: nothing overflows, nothing is logged, links work, and the accessibility check is clean."""

import shutil

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from html_pages import HOSTILE
from osgt import Dataset, Ledger, Mechanism, Publication
from osgt.cli import app

playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
accessibility = pytest.importorskip("accessibility", reason="pip install axe-playwright-python")

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium on the PATH: apt-get install chromium")

WIDTHS = (390, 768, 1280)
LONG, TURNED = "W" * 150, "abc\u202e\u2066def"


def plain(folder):
    """Two keys, the second with an order; everything that can be said is said."""
    generator = np.random.default_rng(3)
    users, months = np.arange(6000), np.arange(6000) % 12 + 1
    towns = generator.choice(["Bern", "Oslo", "Rome"], 6000)
    rows = pa.table({"user": users, "town": towns, "month": months, "delay": generator.normal(5, 9, 6000)})
    keys = {"town": ["Bern", "Oslo", "Rome"], "month": list(range(1, 13))}
    query = Dataset(rows, "user", noun="passenger").group_by(
        "town", "month", max_groups=1, max_rows_per_group=1, public_keys=keys
    )
    release = query.count().mean("delay", (-60, 120)).sum("delay", (-60, 120)).count_units().release(1, 1e-8)
    texts = {"title": "Trips", "subtitle": "By town and month", "publisher": "Office", "contact": "a@example.org"}
    labels = {"town": "Town", "month": "Month", "delay_mean": "Mean delay"}
    release.write(
        out=folder / "plain.parquet",
        report=folder / "plain.html",
        **texts,
        source="https://example.org/",
        labels=labels,
        units={"delay_mean": "minutes"},
    )


def hostile(folder):
    """One key with names of all sorts, in labels as well."""
    keys = [*HOSTILE, LONG, TURNED, "x", "y"]
    rows = pa.table({LONG: np.arange(500), "<b>": ["x"] * 500, "'\"><i>": np.arange(500) % 9})
    query = Dataset(rows, LONG).group_by("<b>", max_groups=1, max_rows_per_group=1, public_keys=keys)
    release = query.count(name=HOSTILE[0]).sum("'\"><i>", (0, 9e9), name=LONG + "2").release(1, 1e-6)
    release.report(folder / "hostile.html", title=LONG, subtitle=TURNED, publisher=HOSTILE[1], contact=HOSTILE[9])


def totals(folder):
    """Totals over both of two keys, and labels of values."""
    rows = pa.table({"user": np.arange(4000), "town": ["Rome", "Oslo"] * 2000, "month": np.arange(4000) // 2 % 12 + 1})
    keys = {"town": ["Rome", "Oslo"], "month": list(range(1, 13))}
    query = Dataset(rows, "user").group_by(
        "town", "month", max_groups=1, max_rows_per_group=1, public_keys=keys, totals="cube"
    )
    values = {"town": {"Rome": LONG}, "month": {1: HOSTILE[0], 12: "December"}}
    query.count().count_units().release(1, 1e-6).report(folder / "totals.html", values=values)


def chosen(folder):
    """Many groups that are chosen by their size, of two keys without an order; medians, shares and other groups."""
    generator = np.random.default_rng(3)
    towns = [f"Commune {i:04d} {'of the upper valley ' * (i % 3)}" for i in generator.integers(0, 150, 20_000)]
    rows = pa.table(
        {"user": np.arange(20_000), "town": towns, "kind": ["x", "y"] * 10_000, "fare": np.arange(20_000) % 50}
    )
    query = Dataset(rows, "user", noun="passenger").group_by(
        "town", "kind", max_groups=1, max_rows_per_group=1, totals=[()]
    )
    release = query.count_units().median("fare", (0, 50)).proportion("fare > 20", name="dear").release(1, 1e-6)
    release.report(folder / "chosen.html", labels={"fare": "Fare"})


def several(folder):
    """Tables of one publication, one of them with a hostile title."""
    rows = pa.table({"user": np.arange(3000), "town": ["Rome", "Oslo"] * 1500, "month": np.arange(3000) % 12 + 1})
    data = Dataset(rows, "user")
    towns = data.group_by("town", max_groups=1, max_rows_per_group=1, public_keys=["Rome", "Oslo"]).count()
    months = data.group_by("month", max_groups=1, max_rows_per_group=1).count().count_units()
    everyone = data.group_by(max_rows_per_group=1).count()
    publication = Publication(towns=towns, months=months, everyone=everyone)
    release = publication.release(1, 1e-6, measure_left_out=True)
    release.write(folder, report=folder / "several.html", labels={"towns": LONG, "months": HOSTILE[0]})


def auditor(folder):
    """The page of a ledger with two releases."""
    with Ledger(folder / "budget.db") as ledger:
        ledger.open(HOSTILE[0], epsilon=4, delta=1e-6)
        rows = pa.table({"user": np.arange(50), "town": ["Rome"] * 50})
        data = Dataset(rows, "user", ledger=ledger, dataset=HOSTILE[0])
        for _ in range(2):
            query = data.group_by("town", max_groups=1, max_rows_per_group=1, public_keys=["Rome", "Oslo"])
            query.count().release(1, 1e-8)
    made = CliRunner().invoke(
        app, ["ledger", "report", str(folder / "budget.db"), "--out", str(folder / "auditor.html")]
    )
    assert made.exit_code == 0, made.output


def notebook(folder):
    """What a notebook shows, one below the other: it brings its own style and works with that of the page."""
    ledger = Ledger(folder / "notebook.db")
    ledger.open(HOSTILE[0], epsilon=4, delta=1e-6)
    rows = pa.table({"user": np.arange(900), "<b>": [LONG, "x", TURNED] * 300, "v": np.arange(900) % 9})
    data = Dataset(rows, "user", ledger=ledger, dataset=HOSTILE[0])
    query = data.group_by("<b>", max_groups=1, max_rows_per_group=1).count().mean("v", (0, 9))
    shown = [data, query, query.plan(1, 1e-8), query.preview(), query.release(1, 1e-8), Mechanism(1, 1e-6)]
    shown += [Mechanism(1, 1e-6).profile, ledger, ledger.overview(HOSTILE[0]), ledger.verify()]
    body = "\n".join(each._repr_html_() for each in shown)
    ledger.close()
    head = '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Notebook</title>'
    head += "<style>:root { color-scheme: light dark; }</style></head>"
    (folder / "notebook.html").write_text(f"{head}<body><main><h1>Notebook</h1>{body}</main></body></html>", "utf-8")


PAGES = {
    "plain": plain,
    "hostile": hostile,
    "totals": totals,
    "chosen": chosen,
    "auditor": auditor,
    "notebook": notebook,
    "several": several,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("pages")
    for make in PAGES.values():
        make(made)
    return made


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        running = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture
def opened(browser, folder):
    """Opens a page and keeps what it logs and asks for."""
    contexts = []

    def open_page(name, **options):
        context = browser.new_context(accept_downloads=True, **options)
        contexts.append(context)
        page = context.new_page()
        page.told, page.asked = [], []
        page.on("console", lambda message: page.told.append(message.text))
        page.on("pageerror", lambda error: page.told.append(str(error)))
        page.on("dialog", lambda dialog: (page.told.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: page.asked.append(request.url))
        page.goto((folder / f"{name}.html").as_uri())
        page.wait_for_load_state()
        return page

    yield open_page
    for context in contexts:
        context.close()


def unfold(page):
    page.eval_on_selector_all("details", "all => all.forEach(each => each.open = true)")


def overflow(page):
    return page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")


@pytest.mark.parametrize("name", PAGES)
def test_nothing_overflows_and_nothing_is_logged(opened, name):
    for width in WIDTHS:
        page = opened(name, viewport={"width": width, "height": 800})
        assert overflow(page) <= 0, width
        unfold(page)
        assert overflow(page) <= 0, width
        assert page.told == []
        assert len(page.asked) == 1  # the page itself


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_it_is_accessible(opened, name, scheme):
    page = opened(name, viewport={"width": 390, "height": 800}, color_scheme=scheme)
    unfold(page)
    assert accessibility.violations(page) == []


def test_the_checks_can_fail(opened):
    """Power: a page that is wrong is found."""
    page = opened("plain", viewport={"width": 390, "height": 800})
    page.evaluate("""() => {
        document.querySelector('h1').setAttribute('style', 'width: 900px; color: #aaa');
        document.querySelector('caption').remove();
        document.querySelector('html').removeAttribute('lang');
    }""")
    assert page.told != []  # the policy refuses the style
    page.evaluate("document.querySelector('h1').style.width = '900px'")
    assert overflow(page) > 0
    assert "html-has-lang" in {rule for rule, _ in accessibility.violations(page)}


def test_the_schemes_differ(opened):
    colours = {
        scheme: opened("plain", color_scheme=scheme).evaluate("getComputedStyle(document.body).backgroundColor")
        for scheme in ("light", "dark")
    }
    assert colours == {"light": "rgb(255, 255, 255)", "dark": "rgb(21, 25, 29)"}


def test_the_style_is_applied(opened):
    """The hash in the policy is that of the style."""
    page = opened("plain", viewport={"width": 1280, "height": 800})
    assert page.evaluate("getComputedStyle(document.querySelector('.values')).borderCollapse") == "collapse"
    heights = page.eval_on_selector_all(".plot svg", "all => all.map(each => each.getBoundingClientRect().height)")
    assert heights
    assert set(heights) == {120}


def test_dots_share_one_axis(opened):
    for width in WIDTHS:
        page = opened("hostile", viewport={"width": width, "height": 800})
        lefts = page.eval_on_selector_all(
            "figure:first-of-type .track svg", "all => all.map(e => [e.getBoundingClientRect().left, e.clientWidth])"
        )
        assert len({tuple(each) for each in lefts}) == 1
        assert lefts[0][1] >= 200


def test_links_work(opened, folder, tmp_path):
    page = opened("plain")
    names = page.eval_on_selector_all("a[download]", "all => all.map(each => each.download)")
    assert names == ["table.csv", "table.parquet", "statement.json", "check.html"]
    for name in names:
        with page.expect_download() as saving:
            page.click(f"a[download='{name}']")
        saving.value.save_as(tmp_path / name)
    table = pa.parquet.read_table(tmp_path / "table.parquet")
    assert table == pa.parquet.read_table(folder / "plain.parquet")
    assert (tmp_path / "table.csv").read_text(encoding="utf-8").count("\n") == 37
    others = page.eval_on_selector_all("a:not([download])", "all => all.map(each => each.getAttribute('href'))")
    assert others == ["mailto:a@example.org", "https://example.org/", "plain.parquet"]
    assert page.told == []


def test_hostile_names_are_text(opened):
    page = opened("hostile")
    words = page.inner_text("body")
    for text in (*HOSTILE[:6], LONG):
        assert text in words
    assert page.locator("b, i, img, script").count() == 0
    assert "\u202e" not in page.content()
    assert page.title() == LONG


def test_paper_has_the_folds_and_no_buttons(opened):
    page = opened("plain", color_scheme="dark")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.is_visible("a[download]")
    assert page.locator("details:not(.print-not) table").first.bounding_box()["height"] > 100
    for title in ("The query that the engine ran", "Every number with its 95 % interval"):
        assert page.get_by_text(title).count() == 1
        assert not page.get_by_text(title).is_visible(), title
