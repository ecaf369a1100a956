"""The house: packages import downward only, folders stay small, and modules do not depend on each other in circles."""

import ast
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import grimp
import pytest

import osgt

SOURCE = Path(osgt.__file__).parents[1]
PACKAGE = SOURCE / "osgt"

#: Folders that are still too full, with how many modules they may have: the numbers only shrink.
FULL: dict[str, int] = {}
MOST_MODULES = 15

#: The largest set of modules that all depend on each other may have this many.
LARGEST_CIRCLE = 3


@pytest.fixture(scope="module")
def graph():
    """Which module imports which, those for types alone and those inside functions included."""
    return grimp.build_graph("osgt", cache_dir=None)


def test_nothing_imports_upward():
    """The contract in pyproject.toml."""
    command = [Path(sys.executable).with_name("lint-imports"), "--no-cache", "--config", "pyproject.toml"]
    environment = os.environ | {"PYTHONPATH": str(SOURCE)}
    done = subprocess.run(
        command, env=environment, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_folder_is_a_hall():
    sizes = Counter(path.parent.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))
    full = {folder: count for folder, count in sizes.items() if count - 1 > FULL.get(folder, MOST_MODULES)}
    assert full == {}


def circles(graph):
    """Sets of modules that depend on each other in circles, by Tarjan's algorithm."""
    number, low, path, result = {}, {}, [], []

    def visit(module):
        number[module] = low[module] = len(number)
        path.append(module)
        for other in graph.find_modules_directly_imported_by(module):
            if other not in number:
                visit(other)
            if other in path:
                low[module] = min(low[module], low[other])
        if low[module] == number[module]:
            start = path.index(module)
            result.append(path[start:])
            del path[start:]

    for module in graph.modules:
        if module not in number:
            visit(module)
    return [circle for circle in result if len(circle) > 1]


def test_circles_are_small(graph):
    largest = max(circles(graph), key=len)
    assert len(largest) <= LARGEST_CIRCLE, sorted(largest)


def test_circles_are_found():
    graph = grimp.ImportGraph()
    for importer, imported in [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")]:
        for module in (importer, imported):
            graph.add_module(module)
        graph.add_import(importer=importer, imported=imported)
    assert [set(circle) for circle in circles(graph)] == [{"a", "b", "c"}]


#: Docstrings that users read: models of query files, whose first lines stand in the reference.
USERS = {"query/file/model.py", "query/aggregates/kinds.py"}


def first_lines():
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node)
                if text is not None:
                    yield path.relative_to(PACKAGE).as_posix(), text.partition("\n")[0]


def test_docstrings_begin_with_a_verb_or_a_noun():
    clause = re.compile(r"(What|Those|The same|All that)\b")
    lines = [(path, line) for path, line in first_lines() if path not in USERS]
    assert len(lines) > 1000
    assert [(path, line) for path, line in lines if clause.match(line)] == []
