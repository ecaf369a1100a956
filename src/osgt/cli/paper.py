"""`osgt paper`: every figure and number of the paper, recomputed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import Progress, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from osgt.cli.shared import clear_errors

if TYPE_CHECKING:
    from osgt.paper import Results
    from osgt.paper.report import Stage


def paper(
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder for the pictures and tables; made if it does not exist.")
    ],
    full: Annotated[
        bool, typer.Option("--full", help="Measure δ on 10⁹ applications of the mechanism: a few minutes.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the files of an earlier run in that folder.")
    ] = False,
    as_json_text: Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")] = False,
) -> None:
    """Recompute every figure and number of the paper, and say where they differ.

    Ends with exit code 1 if a number that should agree does not, or if the experiment contradicts the theory.

    Example: osgt paper --out paper
    """
    with clear_errors():
        from osgt.paper import recompute  # noqa: PLC0415 - takes a while
        from osgt.paper.report import as_json  # noqa: PLC0415 - takes a while

        with _watched() as stage:
            results = recompute(out, full=full, overwrite=overwrite, stage=stage)
        if as_json_text:
            typer.echo(as_json(results))
        else:
            _print(results, out)
        if not results.as_expected:
            raise typer.Exit(1)


@contextmanager
def _watched() -> Iterator["Stage"]:
    """A progress bar on standard error for each stage, so that standard output stays clean."""
    columns = (*Progress.get_default_columns()[:-1], TimeRemainingColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:

        def stage(name: str, total: int) -> Callable[[int], object]:
            task = progress.add_task(name, total=total)
            return lambda done: progress.advance(task, done)

        yield stage


def _print(results: "Results", out: Path) -> None:
    console = Console()
    table = Table(title="The paper's numbers and ours", title_justify="left")
    for column in ("where", "what", "paper", "ours", "difference", "verdict"):
        table.add_column(column, justify="right" if column in ("paper", "ours", "difference") else "left")
    for row in results.numbers:
        sign = "" if row.relation == "≈" else f"{row.relation} "
        table.add_row(
            row.place,
            row.what,
            f"{sign}{row.printed}",
            f"{row.ours:.6g}",
            f"{row.ours - row.paper:+.2g}",
            row.verdict,
            style=None if row.expected else "bold red",
        )
    console.print(table)
    agree = sum(row.agrees for row in results.numbers)
    explained = sum(row.expected and not row.agrees for row in results.numbers)
    wrong = len(results.numbers) - agree - explained
    console.print(
        f"{agree} of {len(results.numbers)} agree to the printed digits, {explained} differ for a known reason, "
        f"{wrong} without one.",
        highlight=False,
    )
    for words, value in results.added.items():
        console.print(f"added: {words} = {value:.4g}", highlight=False)
    for picture in results.pictures:
        for words, value in picture.turns.items():
            console.print(f"{picture.name}: {words} = {value:.4g}", highlight=False)
    from osgt.paper.experiment import CONFIDENCE  # noqa: PLC0415 - takes a while

    measured = results.measurement
    verdict = "agrees with" if measured.agrees else "contradicts"
    console.print(
        f"Experiment: {measured.on_data.applications + measured.on_neighbour.applications:,} applications of the "
        f"eight-dimensional mechanism; the measured δ(ε) {verdict} the theory "
        f"(intervals at {CONFIDENCE:.1%} confidence in the picture). An audit of these: {measured.audit.words}",
        highlight=False,
        soft_wrap=True,
    )
    console.print(f"Written to {out}: {len(results.files)} files.", highlight=False, soft_wrap=True)
