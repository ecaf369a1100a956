"""Mutation testing of the code that carries the promise: change one thing in it, and see whether a test notices.

    python tests/mutants.py                             a new random sample; its seed is printed
    python tests/mutants.py --seed 7 --count 300        the same sample again, and a longer one
    python tests/mutants.py --seed 7 --count 300 --skip 40  the rest of it
    python tests/mutants.py --mutant privacy/renyi.py:57    one mutant, by the number that was printed
    python tests/mutants.py --only privacy/filters      a sample of some modules

Each mutant runs in a copy of the package with the tests that cover its module, up to the first that fails. What no test
notices is printed as a difference, for somebody to judge: many a change weakens nothing (`<` for `<=` where equality
cannot be, a finer grid, a larger margin). One that weakens the promise deserves a test.
"""

import argparse
import ast
import compileall
import contextlib
import difflib
import importlib
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "osgt"

_PROFILE = (
    "privacy/test_conservation.py privacy/test_privacy_single.py privacy/test_privacy_composition.py "
    "privacy/test_privacy_atoms.py privacy/test_privacy_intervals.py privacy/test_privacy_laplace_end.py "
    "privacy/test_large_losses.py"
)
_FILTERS = (
    "privacy/test_conservation.py privacy/test_residue.py privacy/test_filters.py ledger/test_plausible.py "
    "privacy/test_filter_adversary.py"
)
_SUMS = "release/test_engine_sums.py release/test_engine_values.py"
_LEDGER = (
    "ledger/test_ledger_basics.py ledger/test_ledger_chain.py ledger/test_ledger_void.py ledger/test_checkpoint.py "
    "ledger/test_ledger_lost_answers.py ledger/test_ledger_subject.py "
    "ledger/test_simulator.py::test_the_ledger_keeps_its_promise[0]"
)

#: Modules, and the tests that cover them: the quickest first. The first line that fits holds.
TESTS = {
    "noise/potential.py": "noise/test_potential.py noise/test_continuous.py",
    "noise/osgt.py": "noise/test_parameters.py noise/test_continuous.py noise/test_discrete.py",
    "estimation/sums.py": "estimation/test_sums.py noise/test_combination.py",
    "noise/family.py": "noise privacy/test_privacy_renyi.py",
    "noise/*.py": "noise",
    "sampling/*.py": "sampling noise/test_discrete.py",
    "privacy/renyi.py": "privacy/test_privacy_renyi.py privacy/test_filters.py",
    "privacy/moments.py": "privacy/test_privacy_renyi.py",
    "privacy/estimate.py": "privacy/test_estimate.py calibration/test_rough.py calibration/test_calibrate.py",
    "privacy/l2.py": (
        "privacy/test_rounded_gaussian.py privacy/test_privacy_renyi.py privacy/test_privacy_composition.py"
    ),
    "privacy/filters/part*.py": "privacy/test_parts.py ledger/test_ledger_parts.py",
    "privacy/filters/*.py": _FILTERS,
    "privacy/dp_accounting.py": "privacy/test_privacy_renyi.py",
    "privacy/*.py": _PROFILE,
    "calibration/*.py": "calibration",
    "mechanism.py": "mechanism",
    "limits/contribution.py": f"limits {_SUMS}",
    "limits/choice.py": "limits",
    "limits/distinct.py": f"{_SUMS} limits/test_left_out.py",
    "plan/selection.py": "plan/test_selection.py plan/test_thresholds.py",
    "query/measures.py": f"query/test_aggregates.py {_SUMS} release/test_engine_rounding.py",
    "release/exponential_mechanism.py": "release/test_drawn_quantiles.py",
    "release/measuring.py": "release/test_release.py release/test_totals.py release/test_quantile_release.py",
    "ledger/account.py": _LEDGER,
    "ledger/reservation.py": _LEDGER,
    "ledger/instalments.py": "api/test_series.py",
    "api/memory.py": "api/test_series.py",
    "api/series.py": "api/test_series.py",
    "data/parts.py": "data/test_engine_parts.py api/test_series.py",
    "data/joins.py": "data/test_engine_joins.py",
    "check.py": "check/test_check.py",
}

#: Libraries that the tests import anyway.
LIBRARIES = (
    *("numpy", "scipy.fft", "scipy.integrate", "scipy.optimize", "scipy.special", "scipy.stats", "flint", "mpmath"),
    *("sqlalchemy", "pyarrow", "duckdb", "pandas", "pydantic", "jinja2"),
)

#: Seconds that the tests of a mutant may take: of the processor, and on the clock. One that takes longer counts as
#: found, since whoever runs the tests would notice.
CPU_LIMIT, TIME_LIMIT = 120, 3600

_COMPARED: dict[type[ast.cmpop], tuple[str, ...]] = {
    ast.Lt: ("<=", ">="),
    ast.LtE: ("<", ">"),
    ast.Gt: (">=", "<="),
    ast.GtE: (">", "<"),
    ast.Eq: ("!=",),
    ast.NotEq: ("==",),
    ast.Is: ("is not",),
    ast.IsNot: ("is",),
    ast.In: ("not in",),
    ast.NotIn: ("in",),
}
_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "/",
    ast.Div: "*",
    ast.FloorDiv: "/",
    ast.LShift: ">>",
    ast.RShift: "<<",
    ast.BitAnd: "|",
}
_SCALED = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow)

#: Names that are taken for each other: the other end, or the other direction of rounding.
_PAIRS = "max/min maximum/minimum floor/ceil any/all argmax/argmin inf/-inf left/right float_above/float_below"
_TWINS = {one: other for pair in _PAIRS.split() for one, other in (pair.split("/"), pair.split("/")[::-1])}
_TWINS |= {"lower": "upper", "upper": "lower", "float_above": "float", "-inf": "inf"}

#: Calls whose arguments are words for people, or only save time.
_LEFT_ALONE = {"lru_cache", "cast", "TypeVar"}


@dataclass(frozen=True)
class Mutant:
    """A change of one place of a module: these bytes are replaced."""

    module: str
    number: int
    start: int
    end: int
    replacement: str

    @property
    def name(self) -> str:
        """The name by which it can be run again."""
        return f"{self.module}:{self.number}"

    def applied(self) -> str:
        """Return the text of the module with the change."""
        source = (PACKAGE / self.module).read_bytes()
        return (source[: self.start] + self.replacement.encode() + source[self.end :]).decode()

    def difference(self) -> str:
        """Show what is changed."""
        before = (PACKAGE / self.module).read_text().splitlines()
        lines = difflib.unified_diff(before, self.applied().splitlines(), n=1, lineterm="")
        return "\n".join([f"--- {self.name}", *list(lines)[2:]])


def mutants_of(module: str) -> list[Mutant]:
    """List every change of a module, in the order in which the places stand in it."""
    source = (PACKAGE / module).read_bytes()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    places = []
    for node, replacement in _changes(ast.parse(source)):
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        places.append((start, end, replacement))
    return [Mutant(module, number, *place) for number, place in enumerate(sorted(set(places)))]


def _changes(node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    """Find the places below a node that can be changed, with their new texts. Types, and texts for people, are not."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or _is_left_alone(child):
                continue
            if isinstance(child, ast.Raise):
                yield child, "pass"  # and nothing within: it is a message
                continue
            if name in ("test", "ifs") and not isinstance(node, ast.While):
                yield from ((child, text) for text in ("True", "False"))
            if isinstance(child, ast.expr | ast.stmt):
                yield from ((child, text) for text in _replacements(child))
                if isinstance(child, ast.BinOp) and isinstance(child.op, _SCALED) and not isinstance(node, ast.BinOp):
                    yield from ((child, f"({factor} * ({ast.unparse(child)}))") for factor in (0.99, 1.01))
            yield from _changes(child)


def _is_left_alone(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in _LEFT_ALONE
    if isinstance(node, ast.keyword):
        return node.arg in ("strict", "slots", "frozen")
    if isinstance(node, ast.Expr):  # docstrings
        return isinstance(node.value, ast.Constant)
    return isinstance(node, ast.JoinedStr | ast.Import | ast.ImportFrom | ast.Assert)


def _replacements(node: ast.expr | ast.stmt) -> Iterator[str]:  # noqa: PLR0912 - one case for each form of the language
    match node:
        case ast.Compare(left=left, ops=operators, comparators=others):
            for i, operator in enumerate(operators):
                for text in _COMPARED[type(operator)]:
                    parts = [_inner(left)]
                    for j, (same, other) in enumerate(zip(operators, others, strict=True)):
                        parts += [text if i == j else _symbol(same), _inner(other)]
                    yield f"({' '.join(parts)})"
        case ast.BoolOp(op=operator, values=values):
            word = "and" if isinstance(operator, ast.And) else "or"
            yield f"({(' or ' if word == 'and' else ' and ').join(map(_inner, values))})"
            for i in range(len(values)):
                yield f"({f' {word} '.join(_inner(value) for j, value in enumerate(values) if i != j)})"
        case ast.BinOp(left=left, op=operator, right=right):
            if type(operator) in _OPERATORS:
                yield f"({_inner(left)} {_OPERATORS[type(operator)]} {_inner(right)})"
            if isinstance(operator, ast.FloorDiv):
                yield f"(-(-{_inner(left)} // {_inner(right)}))"
        case ast.UnaryOp(operand=operand):
            yield _inner(operand)
        case ast.Constant(value=bool() as value):
            yield str(not value)
        case ast.Constant(value=int() as value):
            yield from (f"({value + step})" for step in (1, -1))
        case ast.Constant(value=float() as value) if value:
            yield from (f"({value!r} * {factor})" for factor in (0.99, 1.01))
        case ast.Constant(value=str() as value) if value in _TWINS:
            yield repr(_TWINS[value])
        case ast.Name(id=name, ctx=ast.Load()) if name in _TWINS:
            yield _TWINS[name]
        case ast.Attribute(value=owner, attr=name, ctx=ast.Load()) if name in _TWINS:
            twin = _TWINS[name]
            yield f"(-{ast.unparse(owner)}.inf)" if twin == "-inf" else f"{ast.unparse(owner)}.{twin}"
        case ast.AugAssign(target=target, op=operator, value=value):
            yield "pass"
            if type(operator) in _OPERATORS:
                yield f"{ast.unparse(target)} {_OPERATORS[type(operator)]}= {ast.unparse(value)}"
        case ast.Expr(value=ast.Call()) | ast.Continue() | ast.Break():
            yield "pass"


def _inner(node: ast.expr) -> str:
    text = ast.unparse(node)
    return text if isinstance(node, ast.Name | ast.Constant | ast.Call | ast.Attribute | ast.Subscript) else f"({text})"


def _symbol(operator: ast.cmpop) -> str:
    return ast.unparse(ast.Compare(ast.Name("a"), [operator], [ast.Name("b")]))[2:-2]


def modules() -> dict[str, str]:
    """The modules that are changed, and the tests of each."""
    result: dict[str, str] = {}
    for glob, tests in TESTS.items():
        for path in sorted(PACKAGE.glob(glob)):
            result.setdefault(str(path.relative_to(PACKAGE)), tests)
    return result


class Runner:
    """Runs tests on copies of the package, in forked processes that find the libraries imported already."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for name in LIBRARIES:
            importlib.import_module(name)
        self._whole = folder / "whole" / "osgt"
        shutil.copytree(PACKAGE, self._whole, ignore=shutil.ignore_patterns("__pycache__"))
        compileall.compile_dir(self._whole, quiet=1)

    def start(self, tests: str, mutant: Mutant | None = None) -> int:
        """Start the tests in a process of its own; return its number."""
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            os.setpgid(0, 0)
            resource.setrlimit(resource.RLIMIT_CPU, (CPU_LIMIT, CPU_LIMIT + 1))
            signal.alarm(TIME_LIMIT)
            code = 1
            try:
                code = self._test(tests, mutant)
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        return pid

    def _test(self, tests: str, mutant: Mutant | None) -> int:
        folder = self._folder / str(os.getpid())
        shutil.copytree(self._whole, folder / "osgt", copy_function=os.link)
        if mutant is not None:
            path = folder / "osgt" / mutant.module
            path.unlink()
            path.write_text(mutant.applied())
        sys.path.insert(0, str(folder))
        # For processes that the tests start; "CI": the same examples every time.
        os.environ |= {"PYTHONPATH": str(folder), "XDG_STATE_HOME": f"{folder}/state", "CI": "1"}
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        os.chdir(ROOT)
        with open(folder / "output", "w") as output:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
            options = ["-x", "-q", "--tb=short", "-p", "no:cacheprovider", f"--basetemp={folder}/tmp"]
            return int(
                pytest.main([*options, "-m", "not long and not server", *(f"tests/{test}" for test in tests.split())])
            )

    def end(self) -> tuple[int, str, float, str]:
        """Wait for the next process that ends: its number, its fate, its seconds and the output of the tests."""
        pid, status, used = os.wait4(-1, 0)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)  # what the tests have started
        folder = self._folder / str(pid)
        output = (folder / "output").read_text(errors="replace") if (folder / "output").exists() else ""
        shutil.rmtree(folder, ignore_errors=True)
        fates = {0: "survived", -signal.SIGALRM: "late", -signal.SIGXCPU: "late", -signal.SIGKILL: "late"}
        return pid, fates.get(os.waitstatus_to_exitcode(status), "killed"), used.ru_utime + used.ru_stime, output


def sample(count: int, seed: int, only: str) -> list[Mutant]:
    """Draw mutants at random: a module, all alike, and then a place in it."""
    places = {module: mutants_of(module) for module in modules() if module.startswith(only)}
    places = {module: mutants for module, mutants in places.items() if mutants}
    total = sum(map(len, places.values()))
    print(f"{count} of {total:,} mutants in {len(places)} modules, seed {seed}", flush=True)
    generator, drawn = random.Random(seed), dict[Mutant, None]()
    while len(drawn) < min(count, total):
        drawn[generator.choice(places[generator.choice([*places])])] = None
    return list(drawn)


def find(name: str) -> Mutant:
    """The mutant of that name."""
    module, _, number = name.rpartition(":")
    return mutants_of(module)[int(number)]


def run(mutants: list[Mutant], jobs: int) -> Counter[str]:
    """Run mutants, and print what becomes of each. Tests that nothing survives must pass on the code as it is."""
    tests, fates, running = modules(), Counter[str](), dict[int, Mutant]()
    waiting, sound = list(reversed(mutants)), set[str]()
    with tempfile.TemporaryDirectory(prefix="osgt-mutants-") as folder:
        runner = Runner(Path(folder))
        while waiting or running:
            while waiting and len(running) < jobs:
                mutant = waiting.pop()
                running[runner.start(tests[mutant.module], mutant)] = mutant
            pid, fate, seconds, _ = runner.end()
            mutant = running.pop(pid)
            fates[fate] += 1
            print(f"{fate:9}{seconds:6.1f} s  {mutant.name}", flush=True)
            if fate == "survived":
                print(mutant.difference(), flush=True)
                sound.add(tests[mutant.module])
        for wanted in {tests[mutant.module] for mutant in mutants} - sound:
            runner.start(wanted)
            _, fate, _, output = runner.end()
            if fate != "survived":
                raise SystemExit(f"these tests fail, or take too long, without any change ({wanted}):\n{output}")
    print(f"{fates['killed']} killed, {fates['late']} took too long, {fates['survived']} survived")
    return fates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=40, help="how many mutants")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="which sample")
    parser.add_argument("--skip", type=int, default=0, help="how many of the sample were run before")
    parser.add_argument("--only", default="", help="modules whose path in src/osgt begins so")
    parser.add_argument("--mutant", action="append", help="run this one: the name that was printed")
    parser.add_argument("--jobs", type=int, default=2, help="how many at once")
    options = parser.parse_args()
    if options.mutant:
        mutants = [find(name) for name in options.mutant]
    else:
        mutants = sample(options.count, options.seed, options.only)[options.skip :]
    if os.nice(0) == 0:
        os.nice(10)
    run(mutants, options.jobs)


if __name__ == "__main__":
    main()
