"""`osgt audit`: evidence that a query keeps its promise. Nothing is released or charged."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from osgt.cli.shared import QueryPath, clear_errors, say, terminal
from osgt.cli.table_options import BUDGET, OUTPUT, Asked, takes_a_table
from osgt.shown_text import printable

if TYPE_CHECKING:
    from osgt.auditing import Audit


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
    made_rows: Annotated[
        bool, typer.Option("--made-rows", help="Try made rows alone: no row of the data is read.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON for a program to read.", rich_help_panel=OUTPUT)
    ] = False,
) -> None:
    """Look for evidence against the promise of a query. Nothing is released or charged.

    What is found may tell about the data: it is for people who may see them.

    Exit codes: 0 nothing was found; 1 the promise is broken; 2 refused.

    Example: osgt audit --query query.toml
    """
    with clear_errors():
        file = asked.query_file(query, budget={"epsilon": epsilon, "delta": delta})
        budget = file.budget
        for option, value in (("--epsilon", budget.epsilon), ("--delta", budget.delta)):
            if value is None:
                raise ValueError(f"{option} must be given, here or in the query file: the promise that is audited")
        from osgt.auditing import audit as audited  # noqa: PLC0415 - takes a while

        found = file.query()
        with closing(found.dataset), _watched() as progress:
            result = audited(
                found,
                budget.epsilon,
                budget.delta,
                real_rows=not made_rows,
                measure_left_out=file.output.measure_left_out,
                progress=progress,
            )
        if as_json:
            typer.echo(json.dumps(result.to_dict(), indent=2, ensure_ascii=False))
        else:
            _print(result)
        if not result.passed:
            raise typer.Exit(1)


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
