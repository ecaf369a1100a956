"""`osgt plan` and `osgt ledger remaining` read no data and spend nothing.

The noise of a table, or of numbers, at a budget; the budget that an error takes; what still fits into a budget.
"""

import json
import math
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from osgt.calibration import Comparison, calibrate_epsilon, compare
from osgt.cli.ledger import AsJson, DatasetName, Location, ledger_at
from osgt.cli.noise import as_dict, numbers, print_noises
from osgt.cli.options import BUDGET, OUTPUT, Asked, takes_a_table
from osgt.cli.shared import (
    PICTURES,
    QueryPath,
    check_matplotlib,
    clear_errors,
    command_target,
    print_plan,
    terminal,
    warn,
)
from osgt.facts import wording
from osgt.noise.error import objective_of
from osgt.privacy.filters.budget import USUAL_DELTA, budget_warnings, pure_cautions
from osgt.render.pictures import new_figure
from osgt.support.files import written
from osgt.support.text import one_line

if TYPE_CHECKING:
    from osgt.ledger import Ledger
    from osgt.query.file.model import QueryFile


_COLOURS = {"gaussian": "#0072B2", "laplace": "#D55E00", "osgt": "#111111"}
_LABELS = {"gaussian": "Gaussian", "laplace": "Laplace", "osgt": "OSGT"}


def draw_plan(path: Path, suffix: str, comparison: Comparison, budget: dict[str, Any]) -> None:
    """Write the picture in the format of a suffix: .png, .svg or .pdf."""
    names = [name for name in _LABELS if any(row.name == name for row in comparison)]
    figure = new_figure(12, 3.9)
    density, tail, against = figure.subplots(1, 3)
    reach = max(comparison[name].interval_999999 for name in names)
    middle = int(max(comparison[name].std for name in names) * 3.5) + 1
    near = np.arange(-middle, middle + 1, max(1, middle // 400))
    far = np.unique(np.linspace(0, 1.3 * reach, 600).astype(np.int64))
    for name in names:
        law = comparison[name].noise
        style = {"color": _COLOURS[name], "label": _LABELS[name], "linewidth": 2.0 if name == "osgt" else 1.4}
        probability = getattr(law, "pmf", None) or law.pdf  # type: ignore[union-attr]
        density.plot(near, probability(near), **style)
        tail.semilogy(far, 2 * law.sf(far), **style)
    _draw_errors(against, names, budget)
    density.set(title="Noise", xlabel="error of a value", ylabel="probability")
    tail.set(title="How often a value is off by more", xlabel="error", ylabel="probability", ylim=(1e-9, 1.5))
    density.legend(frameon=False)
    for axes in (density, tail, against):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
    figure.suptitle(
        f"{wording.budget(budget['epsilon'], budget['delta'])}, one person changes at most "
        f"{numbers(budget['coordinates'])}, each by at most {budget['shift']:,}",
        fontsize=11,
    )
    figure.savefig(path, format=suffix[1:].lower(), dpi=160)


def _draw_errors(axes: Any, names: list[str], budget: dict[str, Any]) -> None:
    """Standard deviation against the number of groups, relative to the better end of the family."""
    groups = budget["coordinates"]
    counts = sorted({max(1, round(groups * factor)) for factor in (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0)})
    rows = [
        compare(budget["epsilon"], budget["delta"], shift=budget["shift"], coordinates=count, cells=1)
        for count in counts
    ]
    best = np.array([min(comparison[name].std for name in names if name != "osgt") for comparison in rows])
    for name in names:
        values = np.array([comparison[name].std for comparison in rows]) / best
        style = {"color": _COLOURS[name], "linewidth": 2.0 if name == "osgt" else 1.4}
        axes.semilogx(counts, values, marker="o", markersize=3, **style)
    axes.axvline(groups, color="0.6", linestyle=":", linewidth=1)
    axes.set(
        title="Error against the number of groups",
        xlabel="groups that one person can be in",
        ylabel="std / better of Gaussian and Laplace",
        ylim=(0.9, min(1.6, axes.get_ylim()[1])),
        xticks=counts,
        xticklabels=[str(count) for count in counts],
    )
    axes.minorticks_off()


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
    as_sql: Annotated[
        bool,
        typer.Option(
            "--sql",
            help="Print the SQL that a release would send to the engine, with a comment for each step.",
            rich_help_panel=OUTPUT,
        ),
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
            _plan_table(asked, query, error, as_json=as_json, as_sql=as_sql)
            return
        if as_sql:
            raise ValueError("--sql is for a table: give a file or --query")
        epsilon, delta, confidence = (asked.options[name] for name in ("epsilon", "delta", "confidence"))
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
        least = objective_of(asked.options["objective"] or "variance")
        comparison = compare(epsilon, delta, **each, objective=least, cells=cells, noise=noise)
        budget = {"epsilon": epsilon, "delta": delta, **each}
        warn(budget_warnings(epsilon, delta))
        if delta == 0:
            usual = compare(epsilon, USUAL_DELTA, **each, objective=least, cells=cells)
            warn(pure_cautions(comparison["osgt"].interval_95 / max(usual["osgt"].interval_95, 1.0)))
        if target is not None:
            with written(target) as place:
                draw_plan(place, Path(target.path).suffix, comparison, budget)
        if as_json:
            typer.echo(json.dumps(as_dict(comparison, budget, cells), indent=2))
        else:
            print_noises(comparison, budget, cells)
            if plot is not None:
                typer.echo(f"Picture: {plot}")


def _plan_table(asked: Asked, path: Path | None, error: float | None, *, as_json: bool, as_sql: bool) -> None:
    """The plan of a table release, or of several; options stand in for what the query file says."""
    file = asked.query_file(path)
    given = file.budget.given()
    if error is not None:
        if file.table:
            raise ValueError("--error is for one table: give --epsilon for several")
        if asked.options["epsilon"] is not None:
            raise ValueError("give one of --epsilon (the budget) and --error (the error that you can accept)")
        given = {"interval": error, "delta": given.get("delta")}
    from osgt.api.query_file import build_query  # noqa: PLC0415 - the extra "tables"

    query = build_query(file)
    with closing(query.dataset):
        found = query.plan(**given, **file.plan_options())
        if as_sql:
            typer.echo(query.sql(found))
            return
    if as_json:
        warn(found.cautions)
        typer.echo(json.dumps(found.to_dict(), indent=2))
        return
    print_plan(terminal(), found)


#: Releases like one are counted up to this.
_COUNTED = 1000


@takes_a_table
def remaining(
    asked: Asked,
    location: Location,
    dataset: DatasetName,
    query: QueryPath = None,
    coordinates: Annotated[
        int | None,
        typer.Option(
            metavar="NUMBER", help="Without a table: the most values that one person can change (1 if not given)."
        ),
    ] = None,
    shift: Annotated[
        int | None,
        typer.Option(
            metavar="NUMBER", help="Without a table: the most by which one person can change a value (1 if not given)."
        ),
    ] = None,
    selection_share: Annotated[
        float | None,
        typer.Option(metavar="NUMBER", help="Without a table: share of δ for the choice of groups (0 if not given)."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the largest ε that one more release may use. Spends nothing and reads no data.

    δ is that of --delta, of the query file, or of the budget. With --epsilon, also how many releases like it fit.

    Example: osgt ledger remaining budget.db flights --query query.toml
    """
    with clear_errors(), ledger_at(location) as book:
        delta = asked.options["delta"]
        if query is not None or asked:
            if (coordinates, shift, selection_share) != (None, None, None):
                raise ValueError("a table has its own groups: leave out --coordinates, --shift and --selection-share")
            answer = _left_for(book, dataset, asked.query_file(query))
        else:
            left = book.remaining(
                dataset,
                delta=delta,
                coordinates=1 if coordinates is None else coordinates,
                shift=1 if shift is None else shift,
                selection_share=0.0 if selection_share is None else selection_share,
            )
            answer = {"epsilon": left, "delta": delta}
        if answer["delta"] is None:
            answer["delta"] = book.spent(dataset).budget_delta
        if as_json:
            typer.echo(json.dumps({"dataset": dataset, **answer}))
        else:
            typer.echo(f"{one_line(dataset)}: {_in_words(answer)}")


def _left_for(book: "Ledger", dataset: str, file: "QueryFile") -> dict[str, Any]:
    """Compute what is left for the query of a file, and how many more releases fit at its own budget, if it has one."""
    from osgt.api.query_file import build_query  # noqa: PLC0415 - the extra "tables"

    query = build_query(file)
    own = file.budget.given()
    at = own.get("delta")
    with closing(query.dataset):
        answer: dict[str, Any] = {"epsilon": book.remaining(dataset, query=query, delta=at), "delta": at}
        if {"epsilon", "delta"} <= set(own):
            count = book.how_many(dataset, query.plan(**own, **file.plan_options()).charge, most=_COUNTED)
            answer["own"] = {**own, "releases": count, "or_more": count == _COUNTED}
    return answer


def _in_words(answer: dict[str, Any]) -> str:
    left = answer["epsilon"]
    text = f"one more release fits with ε up to {left:.4g} at δ = {answer['delta']:g}" if left else "no release fits"
    if "own" not in answer:
        return text
    own, count = answer["own"], answer["own"]["releases"]
    many = f"{count:,} or more" if answer["own"]["or_more"] else f"{count:,}" if count else "none"
    fit = "fits" if count == 1 else "fit"
    return f"{text}. Of releases like it at its own ε = {own['epsilon']:g}, δ = {own['delta']:g}, {many} more {fit}"
