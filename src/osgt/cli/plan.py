"""`osgt plan`: what each noise would cost in error at a budget, or which budget an error takes. Reads no data."""

import json
import math
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from osgt.calibration import Comparison, calibrate_epsilon, compare
from osgt.cli.shared import (
    PICTURES,
    DeltaUnlessQuery,
    MaxGroupsUnlessQuery,
    Overwrite,
    QueryFile,
    Shift,
    TableObjective,
    clear_errors,
    command_target,
    warn,
)
from osgt.files import written
from osgt.noise import Law
from osgt.noise.error import objective_of
from osgt.privacy.cautions import budget_warnings

#: Chances that some cell is off by more, for which `plan` names the error.
_CHANCES = (0.5, 0.1, 0.01)


def plan(
    delta: DeltaUnlessQuery = None,
    max_groups: MaxGroupsUnlessQuery = None,
    query: QueryFile = None,
    epsilon: Annotated[float | None, typer.Option(help="ε of the budget. Give this or --error.")] = None,
    error: Annotated[
        float | None, typer.Option(help="Instead of --epsilon: the half-width of the noise interval you can accept.")
    ] = None,
    confidence: Annotated[float, typer.Option(help="Confidence of the interval that --error speaks of.")] = 0.95,
    shift: Shift = 1,
    cells: Annotated[int, typer.Option(help="Number of cells in the table to be released.", min=1)] = 10_000,
    objective: TableObjective = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Write a picture of the noises: .png, .svg or .pdf.")] = None,
    overwrite: Overwrite = False,
) -> None:
    """Show what each noise would cost in error at a budget. Reads no data and spends nothing.

    Example: osgt plan --epsilon 1 --delta 1e-8 --max-groups 8 --cells 10000

    Or the plan of a whole release: osgt plan --query query.toml
    """
    with clear_errors():
        if query is not None:
            if max_groups is not None or plot is not None:
                raise ValueError("--query has its own groups and no picture: leave out --max-groups and --plot")
            _plan_query(query, epsilon, delta, error, confidence, objective, as_json=as_json)
            return
        if delta is None or max_groups is None:
            raise ValueError(f"{'--delta' if delta is None else '--max-groups'} must be given, or --query")
        if (epsilon is None) == (error is None):
            raise ValueError("give one of --epsilon (the budget) and --error (the error that you can accept)")
        target = None if plot is None else command_target("--plot", plot, overwrite=overwrite, suffixes=PICTURES)
        if target is not None:
            target.checked()
        noise = None
        if epsilon is None:
            found = calibrate_epsilon(
                delta, target_interval=error, confidence=confidence, shift=shift, coordinates=max_groups
            )
            # A budget that people can write down, and the noise that was found for the error.
            epsilon, noise = math.ceil(found.epsilon * 1e6) / 1e6, found.noise
        comparison = compare(
            epsilon,
            delta,
            shift=shift,
            coordinates=max_groups,
            objective="variance" if objective is None else objective_of(objective),
            cells=cells,
            noise=noise,
        )
        budget = {"epsilon": epsilon, "delta": delta, "max_groups": max_groups, "shift": shift}
        warn(budget_warnings(epsilon, delta))
        if target is not None:
            from osgt.cli.plan_picture import draw_plan  # noqa: PLC0415 - matplotlib is an extra

            with written(target) as place:
                draw_plan(place, Path(target.path).suffix, comparison, budget)
        if as_json:
            typer.echo(json.dumps(_as_dict(comparison, budget, cells), indent=2))
        else:
            _print(comparison, budget, cells)
            if plot is not None:
                typer.echo(f"Picture: {plot}")


def _plan_query(
    path: Path,
    epsilon: float | None,
    delta: float | None,
    error: float | None,
    confidence: float,
    objective: str | None,
    *,
    as_json: bool,
) -> None:
    """The plan of a query file; a budget on the command line stands in for the one in the file."""
    from osgt.tables.job import read_job  # noqa: PLC0415 - the extra "tables"

    job = read_job(path)
    budget = {**job.budget, **{name: v for name, v in (("epsilon", epsilon), ("delta", delta)) if v is not None}}
    if error is not None:
        budget = {"interval": error, "delta": budget.get("delta")}
    query = job.query()
    with closing(query.dataset):
        found = query.plan(
            **budget,
            confidence=job.output.get("confidence", confidence),
            objective=objective_of(objective or job.output.get("objective", "interval")),
            charged="ledger" in job.data,
        )
    if as_json:
        warn(found.warnings)
        typer.echo(json.dumps(found.to_dict(), indent=2))
        return
    console = Console()
    table = Table(title=f"{found.confidence:.15g} noise intervals", title_justify="left")
    for name in ("column", "used", *found.alternatives):
        table.add_column(name, justify="left" if name == "column" else "right")
    for i, column in enumerate(found.columns):
        others = [columns[i].width_in_words() for columns in found.alternatives.values()]
        table.add_row(column.name, column.width_in_words(), *others)
    console.print(table)
    console.print(str(found), highlight=False, soft_wrap=True)


def largest_of(law: Law, cells: int, chance: float) -> float:
    """The least x such that any of the cells is off by more than x with at most this probability."""
    return float(law.isf(-0.5 * math.expm1(math.log1p(-chance) / cells)))


def _as_dict(comparison: Comparison, budget: dict[str, Any], cells: int) -> dict[str, Any]:
    best = comparison["osgt"].noise
    return {
        **budget,
        "cells": cells,
        "noises": [row.to_dict() for row in comparison],
        "better_end": comparison.better_end,
        "reason": comparison.reason,
        "any_cell_off_by_more": {str(chance): largest_of(best, cells, chance) for chance in _CHANCES},
    }


def _print(comparison: Comparison, budget: dict[str, Any], cells: int) -> None:
    console = Console()
    best = comparison["osgt"]
    table = Table(
        title=f"ε = {budget['epsilon']:g}, δ = {budget['delta']:g}: one person in at most {budget['max_groups']:,} "
        f"groups, each changed by at most {budget['shift']:,}",
        title_justify="left",
    )
    for column in ("noise", "std", "mean error", "95 %", "99.9999 %", f"largest of {cells:,}", "OSGT saves"):
        table.add_column(column, justify="left" if column == "noise" else "right")
    for row in comparison:
        table.add_row(
            row.name,
            f"{row.std:.4g}",
            f"{row.mean_abs:.4g}",
            f"±{row.interval_95:g}",
            f"±{row.interval_999999:g}",
            f"{row.expected_max:.4g}",
            "" if row is best else f"{100 * row.gain:.1f} %",
            style="bold" if row is best else None,
        )
    console.print(table)
    console.print(comparison.reason, highlight=False, soft_wrap=True)
    console.print(
        f"Use {best.noise!r}: 95 % of the cells are off by at most {best.interval_95:g}.",
        highlight=False,
        soft_wrap=True,
    )
    limits = ", ".join(f"{largest_of(best.noise, cells, chance):g} ({chance:.0%})" for chance in _CHANCES)
    console.print(f"Chance that any of {cells:,} cells is off by more than: {limits}.", highlight=False, soft_wrap=True)
