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


def test_every_name_is_in_its_file():
    """What stands in brackets behind a file, as in `mechanism.py` (`Mechanism`), is defined there."""
    places = [
        (file, name)
        for page in PAGES
        for file, names in re.findall(r"`([\w/]+\.py)` \(((?:`\w+`(?:, )?)+)\)", page.read_text(encoding="utf-8"))
        for name in re.findall(r"\w+", names)
    ]
    assert len(places) >= 30

    def is_defined(file, name):
        return re.search(rf"^ *(?:def|class) {name}\b", (PACKAGE / file).read_text(encoding="utf-8"), re.MULTILINE)

    assert [place for place in places if not is_defined(*place)] == []


def test_every_package_is_in_the_picture():
    picture = PAGES[0].read_text(encoding="utf-8").partition("```text")[2].partition("```")[0]
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert packages <= set(re.findall(r"\w+", picture))
