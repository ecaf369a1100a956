"""Every module of the package in one line, as CONTRIBUTING.md has it: the first line of its documentation.

`python tests/module_tables.py` writes the tables again after a module was added, removed or described anew.
"""

import ast
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILE = ROOT / "CONTRIBUTING.md"
PACKAGE = ROOT / "src" / "osgt"
HEADING = "## Every module\n"


def modules():
    """All modules, those of a package together, outer packages first."""
    paths = PACKAGE.rglob("*.py")
    return sorted(paths, key=lambda path: (path.parent.relative_to(PACKAGE).parts, path.name))


def summary(path):
    """The first line of a module's documentation."""
    words = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return words.partition("\n")[0].removesuffix(".").removesuffix(":").replace("|", r"\|")


def tables():
    """The section of CONTRIBUTING.md."""
    text = f"{HEADING}\nTheir first lines. `python tests/module_tables.py` writes this section, a test reads it.\n"
    for folder, paths in groupby(modules(), key=lambda path: path.parent):
        rows = [f"| `{path.name}` | {summary(path)} |\n" for path in paths]
        text += f"\n### `{folder.relative_to(ROOT)}/`\n\n| module | what it is |\n|---|---|\n{''.join(rows)}"
    return text


if __name__ == "__main__":
    before, _, _ = FILE.read_text(encoding="utf-8").partition(HEADING)
    FILE.write_text(before + tables(), encoding="utf-8")
