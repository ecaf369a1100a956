"""`osgt plan`: the noise of a table, or of numbers, at a budget; or the budget that an error takes. Reads no data."""

import json
import math
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer

from osgt.calibration import calibrate_epsilon, compare
from osgt.cli.pictures import PICTURES, check_matplotlib
from osgt.cli.plan_noise import as_dict, print_noises
from osgt.cli.planned import print_plan
from osgt.cli.release_options import BUDGET, OUTPUT
from osgt.cli.shared import QueryPath, clear_errors, command_target, terminal, warn
from osgt.cli.table_options import Asked, takes_a_table
from osgt.files import written
from osgt.noise.error import objective_of
from osgt.privacy.cautions import budget_warnings

_NUMBERS = "Numbers rather than a table"


@takes_a_table
def plan(
    asked: Asked,
    query: QueryPath = None,
    error: Annotated[
        float | None,
        typer.Option(
            metavar="NUMBER",
            help="Instead of --epsilon: the half-width of the noise interval that you can accept.",
            rich_help_panel=BUDGET,
        ),
    ] = None,
    shift: Annotated[
        int | None,
        typer.Option(
            metavar="NUMBER",
            help="The most by which one person can change a number (1 if not given).",
            rich_help_panel=_NUMBERS,
        ),
    ] = None,
    coordinates: Annotated[
        int | None,
        typer.Option(metavar="NUMBER", help="The most numbers that one person can change.", rich_help_panel=_NUMBERS),
    ] = None,
    cells: Annotated[
        int | None,
        typer.Option(
            metavar="NUMBER", help="How many numbers there are (10,000 if not given).", rich_help_panel=_NUMBERS
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

    Without a table, the error of each noise: osgt plan --epsilon 1 --delta 1e-8 --coordinates 8
    """
    with clear_errors():
        numbers = {"--shift": shift, "--coordinates": coordinates, "--cells": cells, "--plot": plot}
        if query is not None or asked:
            if given := [option for option, value in numbers.items() if value is not None]:
                raise ValueError(f"{given[0]} is for numbers rather than a table: leave it out")
            _plan_table(asked, query, error, as_json=as_json)
            return
        epsilon, delta, confidence = (asked.release[name] for name in ("epsilon", "delta", "confidence"))
        if delta is None or coordinates is None:
            missing = "--delta" if delta is None else "--coordinates"
            raise ValueError(f"{missing} must be given; or a table: a file or --query")
        if (epsilon is None) == (error is None):
            raise ValueError("give one of --epsilon (the budget) and --error (the error that you can accept)")
        target = None if plot is None else command_target("--plot", plot, overwrite=overwrite, suffixes=PICTURES)
        if target is not None:
            target.checked()
            check_matplotlib()
        each: dict[str, Any] = {"shift": 1 if shift is None else shift, "coordinates": coordinates}
        noise = None
        if epsilon is None:
            at = 0.95 if confidence is None else confidence
            found = calibrate_epsilon(delta, target_interval=error, confidence=at, **each)
            # A budget that people can write down, and the noise that was found for the error.
            epsilon, noise = math.ceil(found.epsilon * 1e6) / 1e6, found.noise
        cells = 10_000 if cells is None else cells
        least = objective_of(asked.release["objective"] or "variance")
        comparison = compare(epsilon, delta, **each, objective=least, cells=cells, noise=noise)
        budget = {"epsilon": epsilon, "delta": delta, **each}
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


def _plan_table(asked: Asked, path: Path | None, error: float | None, *, as_json: bool) -> None:
    """The plan of a table release, or of several; options stand in for what the query file says."""
    file = asked.query_file(path)
    given = file.budget.given()
    if error is not None:
        if file.table:
            raise ValueError("--error is for one table: give --epsilon for several")
        if asked.release["epsilon"] is not None:
            raise ValueError("give one of --epsilon (the budget) and --error (the error that you can accept)")
        given = {"interval": error, "delta": given.get("delta")}
    query = file.asked()
    with closing(query.dataset):
        found = query.plan(**given, **file.plan_options(), charged=file.data.ledger is not None)
    if as_json:
        warn(found.warnings)
        typer.echo(json.dumps(found.to_dict(), indent=2))
        return
    print_plan(terminal(), found)
