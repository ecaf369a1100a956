"""The page on the architecture names files, functions and tests that exist."""

import re
from pathlib import Path

import osgt

PACKAGE = Path(osgt.__file__).parent
ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "docs" / "architecture.md", ROOT / "CONTRIBUTING.md"]


def test_every_file_is_there():
    for page in PAGES:
        names = re.findall(r"`([\w/]+\.py)`", page.read_text(encoding="utf-8"))
        assert len(names) >= 10
        assert [name for name in names if not (PACKAGE / name).is_file() and not (ROOT / name).is_file()] == []


def test_every_package_is_in_the_picture():
    picture = PAGES[0].read_text(encoding="utf-8").partition("```text")[2].partition("```")[0]
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert packages <= set(re.findall(r"\w+", picture))
