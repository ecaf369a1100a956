"""Search in the documentation works on pages that are read from disk, without a server and without a network."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("material", reason='pip install -e ".[docs]"')
playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright")

ROOT = Path(__file__).parents[2]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium on the PATH: apt-get install chromium")

#: The settings of the site for two of its pages, whose examples need not run.
CONFIG = """
INHERIT: {settings}
docs_dir: docs
site_dir: site
hooks: [{hook}]
plugins: [search, offline]
nav: [index.md, glossary.md]
validation: {{links: {{not_found: info, anchors: info}}}}
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("search")
    (folder / "docs").mkdir()
    for name in ("index.md", "glossary.md", "iframe-worker.js", "style.css"):
        shutil.copy(ROOT / "docs" / name, folder / "docs")
    shutil.copytree(ROOT / "docs" / "images", folder / "docs" / "images")
    (folder / "mkdocs.yml").write_text(
        CONFIG.format(settings=ROOT / "mkdocs.yml", hook=ROOT / "examples" / "llms.py"), encoding="utf-8"
    )
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--config-file", folder / "mkdocs.yml"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "site"


def test_a_search_finds_a_page(site):
    told, asked = [], []
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.on("console", lambda message: told.append(message.text))
        page.on("pageerror", lambda error: told.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto((site / "index.html").as_uri())
        page.click("[data-md-component=search-query]")
        page.keyboard.type("threshold")
        page.wait_for_selector(".md-search-result__item a", timeout=360_000)
        found = page.eval_on_selector_all(".md-search-result__item a", "all => all.map(each => each.href)")
        assert any("glossary.html" in address for address in found), found
        page.goto(next(address for address in found if "glossary.html" in address))
        assert "Threshold" in page.inner_text("article")
        browser.close()
    assert told == []
    assert [address for address in asked if not address.startswith(("file:", "data:", "blob:"))] == []


def test_pages_are_listed_for_programs(site):
    lines = (site / "llms.txt").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "# osgt"
    assert lines[2].startswith("> Publish statistics")
    [glossary] = [line for line in lines if "glossary.html" in line]
    assert (
        glossary
        == "- [Glossary](glossary.html): The words of this documentation, of the command line and of the reports."
    )
