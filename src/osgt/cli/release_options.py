"""Options that say what is released of a table and where it goes: budget, ledger, files, intervals."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

BUDGET, OUTPUT = "Budget", "Output"


def release_parts(
    epsilon: Annotated[
        float | None,
        typer.Option(metavar="NUMBER", help="Privacy budget ε of the release, in total.", rich_help_panel=BUDGET),
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option(
            metavar="NUMBER",
            help="δ of the release, in total: far below 1 divided by the number of people; 0 for pure ε.",
            rich_help_panel=BUDGET,
        ),
    ] = None,
    ledger: Annotated[
        str | None,
        typer.Option(metavar="LEDGER", help="Ledger to charge: a file or a database URL.", rich_help_panel=BUDGET),
    ] = None,
    dataset: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Name of the data set in the ledger.", rich_help_panel=BUDGET),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="File for the published table: .parquet, .csv or .xlsx.", rich_help_panel=OUTPUT
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File for the report, a page for people: .html.", rich_help_panel=OUTPUT),
    ] = None,
    title: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="Title of the report. A query file can also name the publisher, labels and more.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    confidence: Annotated[
        float | None,
        typer.Option(
            metavar="NUMBER", help="Confidence of the noise intervals (0.95 if not given).", rich_help_panel=OUTPUT
        ),
    ] = None,
    objective: Annotated[
        str | None,
        typer.Option(
            metavar="OBJECTIVE",
            help="What to minimise: interval (if not given), variance, mean_abs, quantile:P (of the error) or max:N "
            "(the largest of N errors).",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    measure_left_out: Annotated[
        bool | None,
        typer.Option(
            "--measure-left-out/--no-measure-left-out",
            help="Whether to measure how much the bounds left out, and say so, for 2 % more variance (it does).",
            rich_help_panel=OUTPUT,
            show_default=False,
        ),
    ] = None,
    nonnegative: Annotated[
        bool,
        typer.Option(
            "--nonnegative",
            help="Publish 0 instead of negative counts, which makes small groups too large on average; totals stay.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
) -> dict[str, dict[str, Any]]:
    """What the options say, in the parts and keys of a query file."""
    return {
        "data": {"ledger": ledger, "dataset": dataset},
        "budget": {"epsilon": epsilon, "delta": delta},
        "output": {
            "out": None if out is None else os.fspath(out),
            "report": None if report is None else os.fspath(report),
            "confidence": confidence,
            "objective": objective,
            "measure_left_out": measure_left_out,
            "nonnegative": nonnegative or None,
        },
        "report": {"title": title},
    }
