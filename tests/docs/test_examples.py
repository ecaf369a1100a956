"""The examples of the documentation run: Python and commands of every page, as in the build, and the docstrings."""

import doctest
import importlib
import importlib.util
import pkgutil
import re
import sys
from pathlib import Path

import pytest

import osgt

ROOT = Path(__file__).parents[2]
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"])
MODULES = sorted(module.name for module in pkgutil.walk_packages(osgt.__path__, "osgt."))


def blocks(page):
    return re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def pages():
    spec = importlib.util.spec_from_file_location("example_pages", ROOT / "examples" / "pages.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where its data classes look
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_page(page, pages):
    pages.run(page.read_text(encoding="utf-8"), page.stem)


class TestOutputs:
    """Outputs are put where a reader looks for them, and stand there once."""

    def test_they_take_the_place_of_earlier_ones(self, pages):
        page = "A\n\n```python\nprint(6 * 7)\n```\n\n```text\n41\n```\n\nB\n"
        again = pages.run(pages.run(page).text).text
        assert again == page.replace("41", "42")
        assert pages.run(page.replace("```text\n41\n```\n\n", "")).text == again

    def test_other_blocks_stay(self, pages):
        page = "```python\nx = 1\n```\n\nText.\n\n```text\nas it is\n```\n\n```py\nnot run\n```\n"
        assert pages.run(page).text == page

    def test_commands(self, pages):
        page = '```toml title="a.toml"\nx = 1\n```\n\n```console\n$ cat a.toml\nold\n$ pwd\n```\n'
        assert pages.run(page).text.endswith("```console\n$ cat a.toml\nx = 1\n\n$ pwd\n/data\n```\n")

    def test_what_fails_is_raised(self, pages):
        with pytest.raises(ZeroDivisionError):
            pages.run("```python\n1 / 0\n```\n")
        with pytest.raises(RuntimeError, match="ended with 3"):
            pages.run("```console\n$ exit 3\n```\n")
        assert pages.run("```console exit=3\n$ exit 3\n```\n").text == "```console\n$ exit 3\n```\n"

    def test_pictures(self, pages):
        draw = "from matplotlib import pyplot\npyplot.figure()"
        ran = pages.run(f"```python\n{draw}\n```\n", "name")
        assert ran.text.endswith("![What the example draws](name-1.png)\n")
        assert ran.pictures["name-1.png"].startswith(b"\x89PNG")
        assert pages.run(ran.text, "name").text == ran.text


def test_there_are_examples():
    assert sum(len(blocks(page)) for page in PAGES) >= 15


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    assert doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS).failed == 0


def test_pictures_are_there_and_small():
    shown = {
        (page.parent / target).resolve()
        for page in PAGES
        for target in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page.read_text(encoding="utf-8"))
    }
    assert len(shown) >= 9
    for picture in shown:
        assert picture.stat().st_size < 200_000
