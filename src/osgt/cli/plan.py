"""`osgt plan`: the noise of a table, or of numbers, at a budget; or the budget that an error takes. Reads no data."""

import json
import math
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from osgt.calibration import calibrate_epsilon, compare
from osgt.cli.plan_noise import as_dict, print_noises
from osgt.cli.shared import (
    PICTURES,
    QueryPath,
    clear_errors,
    command_target,
    say,
    terminal,
    warn,
)
from osgt.cli.table_options import BUDGET, OUTPUT, Asked, takes_a_table
from osgt.files import written
from osgt.noise.error import objective_of
from osgt.privacy.cautions import budget_warnings
from osgt.shown_text import printable

_NUMBERS = "Numbers rather than a table"


@takes_a_table
def plan(
    asked: Asked,
    query: QueryPath = None,
    epsilon: Annotated[
        float | None, typer.Option(metavar="NUMBER", help="ε of the budget. Or give --error.", rich_help_panel=BUDGET)
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option(
            metavar="NUMBER",
            help="δ of the budget: far below one over the number of people; 0 for pure ε.",
            rich_help_panel=BUDGET,
        ),
    ] = None,
    error: Annotated[
        float | None,
        typer.Option(
            metavar="NUMBER",
            help="Instead of --epsilon: the half-width of the noise interval that you can accept.",
            rich_help_panel=BUDGET,
        ),
    ] = None,
    confidence: Annotated[
        float | None,
        typer.Option(metavar="NUMBER", help="Confidence of the noise intervals (0.95).", rich_help_panel=OUTPUT),
    ] = None,
    shift: Annotated[
        int | None,
        typer.Option(
            metavar="NUMBER", help="The most by which one person can change a number (1).", rich_help_panel=_NUMBERS
        ),
    ] = None,
    cells: Annotated[
        int | None,
        typer.Option(metavar="NUMBER", help="How many numbers there are (10,000).", min=1, rich_help_panel=_NUMBERS),
    ] = None,
    objective: Annotated[
        str | None,
        typer.Option(
            metavar="OBJECTIVE",
            help="What to minimise: for tables interval (what is shown; the default), else variance (the default), "
            "mean_abs, quantile:P (of the error) or max:N (largest of N).",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write a picture of the noises: .png, .svg or .pdf.", rich_help_panel=_NUMBERS
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON for a program to read.", rich_help_panel=OUTPUT)
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the picture if it exists.", rich_help_panel=_NUMBERS)
    ] = False,
) -> None:
    """Show the noise and the intervals of a release before it is made. Reads no data and spends nothing.

    Example: osgt plan --query query.toml

    Without a table, the error of each noise: osgt plan --epsilon 1 --delta 1e-8 --max-groups 8
    """
    with clear_errors():
        numbers = {"--shift": shift, "--cells": cells, "--plot": plot}
        if query is not None or asked:
            if given := [option for option, value in numbers.items() if value is not None]:
                raise ValueError(f"{given[0]} is for numbers rather than a table: leave it out")
            _plan_table(asked, query, epsilon, delta, error, confidence, objective, as_json=as_json)
            return
        max_groups = asked.parts["max_groups"]
        if delta is None or max_groups is None:
            raise ValueError(f"{'--delta' if delta is None else '--max-groups'} must be given, or --query")
        if (epsilon is None) == (error is None):
            raise ValueError("give one of --epsilon (the budget) and --error (the error that you can accept)")
        target = None if plot is None else command_target("--plot", plot, overwrite=overwrite, suffixes=PICTURES)
        if target is not None:
            target.checked()
        each = {"shift": 1 if shift is None else shift, "coordinates": max_groups}
        noise = None
        if epsilon is None:
            at = 0.95 if confidence is None else confidence
            found = calibrate_epsilon(delta, target_interval=error, confidence=at, **each)
            # A budget that people can write down, and the noise that was found for the error.
            epsilon, noise = math.ceil(found.epsilon * 1e6) / 1e6, found.noise
        cells = 10_000 if cells is None else cells
        least = objective_of(objective or "variance")
        comparison = compare(epsilon, delta, **each, objective=least, cells=cells, noise=noise)
        budget = {"epsilon": epsilon, "delta": delta, "max_groups": max_groups, "shift": each["shift"]}
        warn(budget_warnings(epsilon, delta))
        if target is not None:
            from osgt.cli.plan_picture import draw_plan  # noqa: PLC0415 - matplotlib is an extra

            with written(target) as place:
                draw_plan(place, Path(target.path).suffix, comparison, budget)
        if as_json:
            typer.echo(json.dumps(as_dict(comparison, budget, cells), indent=2))
        else:
            print_noises(comparison, budget, cells)
            if plot is not None:
                typer.echo(f"Picture: {plot}")


def _plan_table(
    asked: Asked,
    path: Path | None,
    epsilon: float | None,
    delta: float | None,
    error: float | None,
    confidence: float | None,
    objective: str | None,
    *,
    as_json: bool,
) -> None:
    """The plan of a table release, or of several; options stand in for what the query file says."""
    from osgt.tables.plan import Plan  # noqa: PLC0415 - the extra "tables"

    budget = {"epsilon": epsilon, "delta": delta}
    file = asked.query_file(path, budget=budget, output={"confidence": confidence, "objective": objective})
    given = file.budget.given()
    if error is not None:
        given = {"interval": error, "delta": given.get("delta")}
    if error is not None and file.table:
        raise ValueError("--error is for one table: give --epsilon for several")
    query = file.asked()
    with closing(query.dataset):
        found = query.plan(
            **given,
            confidence=file.output.confidence,
            objective=objective_of(file.output.objective),
            measure_left_out=file.output.measure_left_out,
            charged=file.data.ledger is not None,
        )
    if as_json:
        warn(found.warnings)
        typer.echo(json.dumps(found.to_dict(), indent=2))
        return
    console = terminal()
    tables = {"": found} if isinstance(found, Plan) else found.tables
    first = ["column"] if isinstance(found, Plan) else ["table", "column"]
    table = Table(title=f"{100 * found.confidence:.10g} % noise intervals", title_justify="left")
    for name in (*first, "used", *found.gains):
        table.add_column(name, justify="left" if name in first else "right")
    for title, one in tables.items():
        for i, column in enumerate(one.columns):
            others = [columns[i].width_in_words() for columns in one.alternatives.values()]
            named = [escape(printable(text)) for text in (title if i == 0 else "", column.name)]
            table.add_row(*named[-len(first) :], column.width_in_words(), *others)
        for level, columns in one.totals.items():
            for column in columns:
                named = ["", escape(printable(f"{column.name} {level.words}"))]
                table.add_row(*named[-len(first) :], column.width_in_words())
    console.print(table)
    say(console, found)
