"""`osgt audit`: evidence that a query keeps its promise. Nothing is released or charged."""

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

from osgt.cli.options import BUDGET, OUTPUT, Asked, takes_a_table
from osgt.cli.shared import QueryPath, clear_errors, command_target, say, terminal
from osgt.support.files import written
from osgt.support.text import printable

if TYPE_CHECKING:
    from osgt.auditing import Audit

#: Fewer draws than this are refused.
FEWEST = 1000


@takes_a_table
def audit(
    asked: Asked,
    query: QueryPath = None,
    epsilon: Annotated[
        float | None, typer.Option(metavar="NUMBER", help="ε of the promise.", rich_help_panel=BUDGET)
    ] = None,
    delta: Annotated[
        float | None, typer.Option(metavar="NUMBER", help="δ of the promise.", rich_help_panel=BUDGET)
    ] = None,
    coordinates: Annotated[
        int | None,
        typer.Option(metavar="NUMBER", help="Without a table: the most values that one person can change."),
    ] = None,
    made_rows: Annotated[
        bool, typer.Option("--made-rows", help="Try made rows alone: no row of the data is read.")
    ] = False,
    minutes: Annotated[
        float | None, typer.Option(metavar="NUMBER", help="Use so many minutes: as many draws as fit in.")
    ] = None,
    draws: Annotated[
        int | None, typer.Option(metavar="NUMBER", help="Make so many draws of each noise; fewer if time runs out.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a page with pictures: .html.", rich_help_panel=OUTPUT)
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the page if it exists.", rich_help_panel=OUTPUT)
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON for a program to read.", rich_help_panel=OUTPUT)
    ] = False,
) -> None:
    """Look for evidence against the promise of a query. Nothing is released or charged.

    What is found may tell about the data: it is for people who may see them.

    Where limits are not all given, their private choice is audited too.

    Exit codes: 0 nothing was found; 1 the promise is broken; 2 refused.

    Example: osgt audit --query query.toml --minutes 2 --report audit.html

    Without a table, the noise alone: osgt audit --epsilon 1 --delta 1e-8 --coordinates 8
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
        if query is not None or asked:
            result = _of_table(asked, query, epsilon, delta, made_rows=made_rows, minutes=minutes, draws=draws)
        else:
            result = _of_noise(epsilon, delta, coordinates, minutes=minutes, draws=draws)
        if target is not None:
            from osgt.auditing.page import page  # noqa: PLC0415 - the extra "tables"

            with written(target) as place:
                place.write_text(page(result), encoding="utf-8")
        if as_json:
            typer.echo(json.dumps(result.to_dict(), indent=2, ensure_ascii=False))
        else:
            _print(result)
            if report is not None:
                typer.echo(f"Page: {report}")
        if not result.passed:
            raise typer.Exit(1)


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


def _given(option: str, value: float | None) -> float:
    if value is None:
        raise ValueError(f"{option} must be given, here or in the query file: the promise that is audited")
    return value


def _of_noise(epsilon: float | None, delta: float | None, coordinates: int | None, **limits: Any) -> "Audit":
    """The audit of the noise that a budget leads to."""
    for option, value in (("--epsilon", epsilon), ("--delta", delta), ("--coordinates", coordinates)):
        if value is None:
            raise ValueError(
                f"{option} must be given: --epsilon, --delta and --coordinates for noise alone; or a table, or --query"
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
