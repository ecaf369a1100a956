"""The examples of the documentation run: Python blocks of every page, and the docstrings."""

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import osgt

ROOT = Path(__file__).parents[2]
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"])
MODULES = sorted(module.name for module in pkgutil.walk_packages(osgt.__path__, "osgt."))


def blocks(page):
    return re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_page(page, capsys):
    names = {}
    for number, block in enumerate(blocks(page), start=1):
        exec(compile(block, f"{page.name}, block {number}", "exec"), names)


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
