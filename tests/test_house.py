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

#: How much there is to read: files, lines of a file (the checker is one on purpose), and lines of the trusted core. The
#: aims are 190, 400 and 8,500.
MOST_FILES, LONGEST_FILE, LARGEST_CORE = 235, 560, 8520

#: What privacy rests on: mathematics without data, files and words for users.
CORE = ("noise", "sampling", "privacy", "calibration", "mechanism.py")

#: Loops whose variable is called "each": the name of an element says more. The number only shrinks.
MOST_CALLED_EACH = 17

#: The largest set of modules that all depend on each other may have this many.
LARGEST_CIRCLE = 3

#: A function has at most so many ways to go, and so many lines beside its docstring.
MOST_WAYS, MOST_LINES = 15, 60


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


def test_there_is_not_too_much_to_read():
    lines = {path: path.read_text(encoding="utf-8").count("\n") for path in PACKAGE.rglob("*.py")}
    core = sum(count for path, count in lines.items() if path.relative_to(PACKAGE).parts[0] in CORE)
    assert len(lines) <= MOST_FILES
    assert [path for path, count in lines.items() if count > LONGEST_FILE and path.name != "check.py"] == []
    assert 0 < core <= LARGEST_CORE


def called_each(text):
    """The number of loops and comprehensions in a module whose variable is called "each"."""
    loops = [node.target for node in ast.walk(ast.parse(text)) if isinstance(node, ast.For | ast.comprehension)]
    return sum(any(isinstance(name, ast.Name) and name.id == "each" for name in ast.walk(loop)) for loop in loops)


def test_loop_variables_are_called_after_their_elements():
    assert sum(called_each(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py")) <= MOST_CALLED_EACH
    assert (
        called_each(
            "for i, each in enumerate(a):\n    b = [each for each in c if d]\nfor group in groups:\n    each = 1\n"
        )
        == 2
    )


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


#: Nodes at which a function goes one way or another.
FORKS = ast.If | ast.IfExp | ast.For | ast.AsyncFor | ast.While | ast.ExceptHandler | ast.match_case

#: Docstrings that users read: models of query files, whose first lines stand in the reference.
USERS = {"query/file/model.py", "query/file/aggregates.py"}


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


#: Participles that say neither what a function does nor what it gives: functions are verbs.
PARTICIPLES = {*("asked", "told", "made", "found", "kept"), *("moved", "reserved", "prepared", "measured", "compiled")}


def test_functions_are_not_bare_participles():
    names = [
        name
        for name, node in functions()
        if node.name.strip("_") in PARTICIPLES
        and not any("property" in ast.unparse(decorator) for decorator in node.decorator_list)
    ]
    assert names == []


def unexplained(text):
    """The lines of numbers that a module names and that stand under no comment, of their own or of those just above."""
    lines, told, end, result = text.splitlines(), False, 0, []
    for node in ast.parse(text).body:
        between = lines[end : node.lineno - 1]
        named = isinstance(node, ast.Assign | ast.AnnAssign)
        told = any(line.startswith("#") for line in between) or (told and named and all(between))
        end = node.end_lineno
        kinds = ast.Constant | ast.BinOp | ast.UnaryOp | ast.Tuple | ast.Call
        if named and isinstance(node.value, kinds) and not told and "#" not in lines[node.lineno - 1]:
            values = [each.value for each in ast.walk(node.value) if isinstance(each, ast.Constant)]
            if any(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
                result.append(lines[node.lineno - 1])
    return result


def test_constants_say_where_they_come_from():
    found = {path: unexplained(path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}
    assert {path: lines for path, lines in found.items() if lines} == {}


def test_unexplained_constants_are_found():
    assert unexplained("import a\n\nX = 3\n#: Why.\nY = 4\nZ = 5\n\nV = 2**6\nNAME = 'a'\nW = 1  # why\n") == [
        "X = 3",
        "V = 2**6",
    ]


def own_nodes(function):
    """The nodes of a function, without those of functions and classes inside it."""
    for node in ast.iter_child_nodes(function):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node
            yield from own_nodes(node)


def ways(function):
    """Cyclomatic complexity: one more for each condition, loop, handler, boolean operator and comprehension."""
    number = 1
    for node in own_nodes(function):
        if isinstance(node, FORKS):
            number += 1
        elif isinstance(node, ast.BoolOp):
            number += len(node.values) - 1
        elif isinstance(node, ast.comprehension):
            number += 1 + len(node.ifs)
    return number


def lines(function):
    """The lines of a function from its name on, beside those of its docstring."""
    text = ast.get_docstring(function, clean=False)
    return function.end_lineno - function.lineno + 1 - (0 if text is None else text.count("\n") + 1)


def functions():
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{path.relative_to(PACKAGE).as_posix()}:{node.name}", node


def test_functions_are_short_and_straight():
    sizes = [(name, ways(function), lines(function)) for name, function in functions()]
    assert len(sizes) > 2000
    assert [size for size in sizes if size[1] > MOST_WAYS or size[2] > MOST_LINES] == []


def test_ways_and_lines_are_counted():
    text = """
def f(a, b):
    '''Text
    in two lines.'''
    if a and b or [c for c in a if c]:
        return 1
    try:
        return 2 if a else 3
    except ValueError:
        def g():
            return 1 if a else 2
    for c in b:
        while c:
            break
"""
    [function] = ast.parse(text).body
    assert ways(function) == 1 + 1 + 2 + 2 + 1 + 1 + 2
    assert lines(function) == 11
