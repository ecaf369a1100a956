"""`osgt audit`: evidence that a query keeps its promise. `osgt check`: what published files promise, recomputed."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from osgt.cli.ledger import ledger_at, read_json
from osgt.cli.options import BUDGET, OUTPUT, Asked, TableAsJson, takes_a_table
from osgt.cli.shared import Overwrite, QueryPath, clear_errors, command_target, option, say, switch, terminal
from osgt.support.files import Target, written
from osgt.support.text import printable

if TYPE_CHECKING:
    from osgt.auditing import Audit
    from osgt.check import Result
    from osgt.ledger.custody import Custody

#: Fewer draws than this are refused.
FEWEST = 1000


_Pair = Annotated[
    tuple[Path, Path] | None,
    option("FILE FILE", "With --function: two neighbouring inputs (.parquet, .csv, .npy)."),
]
_Function = Annotated[
    str | None,
    option(
        "NAME",
        "Audit this function, MODULE:NAME: it is called in this process, with made frames like the table (or arrays, "
        "if SOURCE is a .npy file).",
    ),
]
_NoMissing = Annotated[bool, switch("--no-missing-values", "With --function: no missing values, NaN and infinities.")]


@takes_a_table
def audit(
    asked: Asked,
    query: QueryPath = None,
    epsilon: Annotated[float | None, option("NUMBER", "ε of the promise.", panel=BUDGET)] = None,
    delta: Annotated[float | None, option("NUMBER", "δ of the promise.", panel=BUDGET)] = None,
    coordinates: Annotated[
        int | None, option("NUMBER", "Without a table: the most values that one person can change.")
    ] = None,
    function: _Function = None,
    pair: _Pair = None,
    no_missing_values: _NoMissing = False,
    made_rows: Annotated[bool, switch("--made-rows", "Try made rows alone: no row of the data is read.")] = False,
    minutes: Annotated[float | None, option("NUMBER", "Use so many minutes: as many draws as fit in.")] = None,
    draws: Annotated[int | None, option("NUMBER", "Make so many draws of each noise; fewer if time runs out.")] = None,
    report: Annotated[Path | None, option("FILE", "Write a page with pictures: .html.", panel=OUTPUT)] = None,
    overwrite: Annotated[bool, switch("--overwrite", "Replace the page if it exists.", panel=OUTPUT)] = False,
    as_json: TableAsJson = False,
) -> None:
    """Test whether a query keeps its privacy promise. Nothing is released or charged.

    What is found may tell about the data: it is for people who may see them.

    Where limits are not all given, their private choice is audited too.

    Exit codes: 0 nothing was found; 1 the promise is broken; 2 refused.

    Example: osgt audit --query query.toml --minutes 2 --report audit.html

    Without a table, the noise alone: osgt audit --epsilon 1 --delta 1e-8 --coordinates 8

    Any function: osgt audit --query query.toml --function release:counts
    """
    with clear_errors():
        if minutes is not None and not minutes > 0:
            raise ValueError(f"--minutes must be above 0, got {minutes:g}")
        if draws is not None and draws < FEWEST:
            raise ValueError(f"--draws must be at least {FEWEST:,}, got {draws:,}: fewer say nothing")
        target = None
        if report is not None:
            target = command_target("--report", report, overwrite=overwrite, suffixes=(".html",))
            target.checked()
        if function is not None:
            limits: Any = {"real_rows": not made_rows, "missing_values": not no_missing_values}
            limits |= {"minutes": minutes, "draws": draws}
            result = _of_function(function, asked, query, epsilon, delta, pair, **limits)
        elif pair is not None:
            raise ValueError("--pair must be left out without --function, which is called with the two files")
        elif query is not None or asked:
            result = _of_table(asked, query, epsilon, delta, made_rows=made_rows, minutes=minutes, draws=draws)
        else:
            result = _of_noise(epsilon, delta, coordinates, minutes=minutes, draws=draws)
        _hand_out(result, target, as_json=as_json)
        if not result.passed:
            raise typer.Exit(1)


def _hand_out(result: "Audit", target: Target | None, *, as_json: bool) -> None:
    """Write the page, if one is wanted, and print what was found."""
    if target is not None:
        from osgt.auditing.result import page  # noqa: PLC0415 - the extra "tables"

        with written(target) as place:
            place.write_text(page(result), encoding="utf-8")
    if as_json:
        typer.echo(json.dumps(result.to_dict(), indent=2, ensure_ascii=False))
        return
    _print(result)
    if target is not None:
        typer.echo(f"Page: {target.path}")


def _of_table(
    asked: Asked,
    path: Path | None,
    epsilon: float | None,
    delta: float | None,
    *,
    made_rows: bool,
    **limits: Any,
) -> "Audit":
    """The audit of a query; options stand in for what the query file says."""
    file = asked.query_file(path, budget={"epsilon": epsilon, "delta": delta})
    if file.series.given():
        raise ValueError(
            "a series is not audited as a whole: leave [series] out, to audit the query of one instalment, with its "
            "limits and its noise"
        )
    from osgt.api.query_file import build_query  # noqa: PLC0415 - the extra "tables"

    query = build_query(file)
    with closing(query.dataset):
        promise = _given("--epsilon", file.budget.epsilon), _given("--delta", file.budget.delta)
        from osgt.auditing import audit as audited  # noqa: PLC0415 - takes a while

        with _watched() as progress:
            return audited(
                query,
                *promise,
                real_rows=not made_rows,
                measure_left_out=file.output.measure_left_out,
                progress=progress,
                **limits,
            )


def _of_function(
    reference: str,
    asked: Asked,
    path: Path | None,
    epsilon: float | None,
    delta: float | None,
    pair: tuple[Path, Path] | None,
    **limits: Any,
) -> "Audit":
    """The audit of a function on two files, or on pairs that are made for a query or an array."""
    from osgt.auditing import audit as audited  # noqa: PLC0415 - takes a while
    from osgt.auditing.functions import load, read_input  # noqa: PLC0415 - takes a while

    function, source = load(reference), asked.options.get("source")
    if pair is not None or (source or "").endswith(".npy"):
        promise = _given("--epsilon", epsilon), _given("--delta", delta)
        neighbours: Any = asked.options.get("neighbours") or "add_remove"
        data, neighbour = map(read_input, pair) if pair is not None else (read_input(Path(str(source))), None)
        with _watched() as progress:
            return audited(
                function, *promise, data=data, neighbour=neighbour, neighbours=neighbours, progress=progress, **limits
            )
    file = asked.query_file(path, budget={"epsilon": epsilon, "delta": delta})
    from osgt.api.query_file import build_query  # noqa: PLC0415 - the extra "tables"

    query = build_query(file)
    with closing(query.dataset), _watched() as progress:
        promise = _given("--epsilon", file.budget.epsilon), _given("--delta", file.budget.delta)
        return audited(function, *promise, data=query, progress=progress, **limits)


def _given(option: str, value: float | None) -> float:
    if value is None:
        raise ValueError(f"{option} must be given, here or in the query file: the promise that is audited")
    return value


def _of_noise(epsilon: float | None, delta: float | None, coordinates: int | None, **limits: Any) -> "Audit":
    """The audit of the noise that a budget leads to."""
    for name, value in (("--epsilon", epsilon), ("--delta", delta), ("--coordinates", coordinates)):
        if value is None:
            raise ValueError(
                f"{name} must be given: --epsilon, --delta and --coordinates for noise alone; or a table, or --query"
            )
    from osgt.auditing import audit as audited  # noqa: PLC0415 - takes a while
    from osgt.mechanism import Mechanism  # noqa: PLC0415

    with _watched() as progress:
        return audited(Mechanism(epsilon, delta, coordinates=coordinates), progress=progress, **limits)  # type: ignore[arg-type]


@contextmanager
def _watched() -> Iterator[Callable[[str, float], None]]:
    """A bar on standard error, so that standard output stays clean."""
    columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda what, done: bar.update(task, description=escape(printable(what)), completed=done)


def _print(result: "Audit") -> None:
    console = terminal()
    say(console, f"Audit of {result.subject}")
    table = Table("check", "result", "what was seen")
    for check in result.checks:
        told = "\n".join([check.words, *(f"• {finding}" for finding in check.findings[:5])])
        table.add_row(
            check.name,
            "passed" if check.passed else "[bold red]FAILED[/]",
            escape(printable(told)),
            style=None if check.passed else "bold",
        )
    console.print(table)
    say(console, result.verdict)


def check(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE…", help="Published tables (.parquet, .csv, .xlsx) or statements (.json)."),
    ] = None,
    ledger: Annotated[
        str | None,
        typer.Option(
            metavar="LEDGER",
            help="Also show that each file is one that this ledger charged: LEDGER, or its `osgt ledger export`.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")] = False,
    page: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write the checker as a page for any browser: .html, which needs no network."
        ),
    ] = None,
    script: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the checker as one Python file: .py, which needs NumPy alone."),
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Recompute what published tables promise, from their files alone.

    Which noise was added to what stands in each file. The checker shares no code with the software that made it. It
    ends with exit code 1 if a promise does not hold, and 2 if a file cannot be checked.

    Example: osgt check release.parquet
    """
    with clear_errors():
        if not (files or page or script):
            raise ValueError("give a file to check, or write the checker with --page or --script")
        for option, path in (("--page", page), ("--script", script)):
            if path is not None:
                _write_checker(option, path, overwrite=overwrite)
        if files and not _check_files(files, ledger, as_json=as_json):
            raise typer.Exit(1)


def _check_files(files: list[Path], ledger: str | None, *, as_json: bool) -> bool:
    """Print the result for each file, and tell whether all promises hold."""
    from osgt import check as checker  # noqa: PLC0415 - loads numpy

    results = {str(file): checker.check(*checker.read(file)) for file in files}
    custody = {} if ledger is None else _custody(ledger, files)
    for name, traced in custody.items():
        results[name].problems += traced.problems
    if as_json:
        plain = {name: _plain_check(result, custody.get(name)) for name, result in results.items()}
        typer.echo(json.dumps(plain, ensure_ascii=False))
    for name, result in results.items() if not as_json else ():
        say(terminal(), f"{name}: {checker.explain(result)}")
        for fact in custody[name].facts if name in custody else ():
            say(terminal(), f"By the ledger: {fact}.")
    return not any(result.problems for result in results.values())


def _custody(ledger: str, files: list[Path]) -> dict[str, "Custody"]:
    """Compare files with a ledger, or with an export of it."""
    from osgt import check as checker  # noqa: PLC0415 - loads numpy
    from osgt.api.charge import file_hash, statement_hash  # noqa: PLC0415 - the extra "tables"
    from osgt.ledger.custody import read_export, trace  # noqa: PLC0415 - SQLAlchemy is an extra

    if ledger.endswith(".json"):
        plain = read_json("--ledger", Path(ledger))
    else:
        with ledger_at(ledger) as book:
            plain = book.export()
    book_now, result = read_export(plain), {}
    for file in files:
        statement = checker.read(file)[0]
        whole = statement.get("publication", statement)
        own = None if file.suffix.lower() == ".json" else file_hash(file)
        result[str(file)] = trace(book_now, whole, statement_hash(whole), own)
    return result


def _plain_check(result: "Result", custody: "Custody | None") -> dict[str, object]:
    """The result in plain values."""
    return {
        "holds": not result.problems,
        "problems": result.problems,
        "epsilon": result.statement["epsilon"],
        "delta": result.statement["delta"],
        "recomputed_delta": result.delta,
        "taken_on_trust": result.trusted,
        "by_the_ledger": None if custody is None else list(custody.facts),
    }


def _write_checker(option: str, path: Path, *, overwrite: bool) -> None:
    """Write the page or the script, which lie beside the package's other modules."""
    source = Path(__file__).parents[1] / ("check.html" if option == "--page" else "check.py")
    target = command_target(option, path, overwrite=overwrite, suffixes=(source.suffix,))
    with written(target) as place:
        place.write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
