"""`osgt plan` and `osgt ledger remaining` read no data and spend nothing.

The noise of a table, or of numbers, at a budget; the budget that an error takes; what still fits into a budget.
"""

import json
import math
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from osgt.cli.ledger import Location, dataset_in, ledger_at
from osgt.cli.noise import as_dict, print_noises
from osgt.cli.options import BUDGET, OUTPUT, Asked, TableAsJson, takes_a_table
from osgt.cli.shared import (
    PICTURES,
    AsJson,
    QueryPath,
    check_matplotlib,
    clear_errors,
    command_target,
    option,
    print_plan,
    switch,
    terminal,
    warn,
)
from osgt.support.files import Target, written
from osgt.support.text import one_line

if TYPE_CHECKING:
    from osgt.calibration import Comparison
    from osgt.ledger import Ledger
    from osgt.query.file.model import QueryFile

_NUMBERS = "Numbers rather than a table"

Error = Annotated[
    float | None,
    option("NUMBER", "Instead of --epsilon: the half-width of the noise interval that you can accept.", panel=BUDGET),
]
RelativeError = Annotated[
    float | None,
    option(
        "SHARE",
        "Instead of --epsilon: the half-width of the noise interval of a count that you can accept, as a share of the "
        "count of a group of --group-size: 0.1 for 10 %.",
        panel=BUDGET,
    ),
]
GroupSize = Annotated[
    float | None, option("NUMBER", "The size of the group that --relative-error is about.", panel=BUDGET)
]


@takes_a_table
def plan(
    asked: Asked,
    query: QueryPath = None,
    error: Error = None,
    relative_error: RelativeError = None,
    group_size: GroupSize = None,
    shift: Annotated[
        int | None,
        option("NUMBER", "The most by which one person can change a number (1 if not given).", panel=_NUMBERS),
    ] = None,
    coordinates: Annotated[
        int | None, option("NUMBER", "The most numbers that one person can change.", panel=_NUMBERS)
    ] = None,
    cells: Annotated[
        int | None, option("NUMBER", "How many numbers there are (10,000 if not given).", panel=_NUMBERS)
    ] = None,
    plot: Annotated[
        Path | None, option("FILE", "Write a picture of the noises: .png, .svg or .pdf.", panel=_NUMBERS)
    ] = None,
    as_json: TableAsJson = False,
    as_sql: Annotated[
        bool,
        switch(
            "--sql",
            "Print the SQL that a release would send to the engine, with a comment for each step.",
            panel=OUTPUT,
        ),
    ] = False,
    overwrite: Annotated[bool, switch("--overwrite", "Replace the picture if it exists.", panel=_NUMBERS)] = False,
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
            wanted = {"interval": error, "relative_error": relative_error, "group_size": group_size}
            _plan_table(asked, query, wanted, as_json=as_json, as_sql=as_sql)
            return
        if relative_error is not None or group_size is not None:
            raise ValueError("--relative-error and --group-size are for a table: give a file or --query")
        if as_sql:
            raise ValueError("--sql is for a table: give a file or --query")
        target = None if plot is None else command_target("--plot", plot, overwrite=overwrite, suffixes=PICTURES)
        cells = 10_000 if cells is None else cells
        comparison, budget = _compare(asked.options, error, shift, coordinates, cells, target)
        if as_json:
            typer.echo(json.dumps(as_dict(comparison, budget, cells), indent=2))
        else:
            print_noises(comparison, budget, cells)
            if plot is not None:
                typer.echo(f"Picture: {plot}")


def _compare(
    options: Mapping[str, Any],
    error: float | None,
    shift: int | None,
    coordinates: int | None,
    cells: int,
    target: Target | None,
) -> tuple["Comparison", dict[str, Any]]:
    """Compare the noises for numbers at a budget, and draw them if that was asked for."""
    if options["delta"] is None or coordinates is None:
        missing = "--delta" if options["delta"] is None else "--coordinates"
        raise ValueError(f"{missing} must be given; or a table: a file or --query")
    if (options["epsilon"] is None) == (error is None):
        raise ValueError("give one of --epsilon (the budget) and --error (the error that you can accept)")
    if target is not None:
        target.checked()
        check_matplotlib()
    each: dict[str, Any] = {"shift": 1 if shift is None else shift, "coordinates": coordinates}
    comparison, budget = _compare_noises(options, error, each, cells)
    if target is not None:
        from osgt.render.cards import draw_noises  # noqa: PLC0415 - takes a while

        with written(target) as place:
            draw_noises(place, Path(target.path).suffix, comparison, budget)
    return comparison, budget


def _compare_noises(
    options: Mapping[str, Any], error: float | None, each: dict[str, Any], cells: int
) -> tuple["Comparison", dict[str, Any]]:
    """Compare the noises at a budget, or at the one that an error takes; `each` says what one person can change."""
    from osgt.calibration import calibrate_epsilon, compare  # noqa: PLC0415 - takes a while
    from osgt.noise.error import objective_of  # noqa: PLC0415 - takes a while
    from osgt.privacy.filters.budget import USUAL_DELTA, budget_warnings, pure_cautions  # noqa: PLC0415 - takes a while

    epsilon, delta, confidence = (options[name] for name in ("epsilon", "delta", "confidence"))
    noise = None
    if epsilon is None:
        at = 0.95 if confidence is None else confidence
        result = calibrate_epsilon(delta, target_interval=error, confidence=at, **each)
        # A budget that people can write down, and the noise that was found for the error.
        epsilon, noise = math.ceil(result.epsilon * 1e6) / 1e6, result.noise
    least = objective_of(options["objective"] or "variance")
    comparison = compare(epsilon, delta, **each, objective=least, cells=cells, noise=noise)
    warn(budget_warnings(epsilon, delta))
    if delta == 0:
        usual = compare(epsilon, USUAL_DELTA, **each, objective=least, cells=cells)
        warn(pure_cautions(comparison["osgt"].interval_95 / max(usual["osgt"].interval_95, 1.0)))
    return comparison, {"epsilon": epsilon, "delta": delta, **each}


def _plan_table(
    asked: Asked, path: Path | None, wanted: Mapping[str, float | None], *, as_json: bool, as_sql: bool
) -> None:
    """The plan of a table release, or of several; options stand in for what the query file says."""
    file = asked.query_file(path)
    given: dict[str, Any] = file.budget.given()
    if errors := {name: value for name, value in wanted.items() if value is not None}:
        named = "--error" if "interval" in errors else "--relative-error"
        if len(errors) != (1 if named == "--error" else 2):
            raise ValueError("give --error alone, or --relative-error together with --group-size")
        if file.table:
            raise ValueError(f"{named} is for one table: give --epsilon for several")
        if asked.options["epsilon"] is not None:
            raise ValueError(f"give one of --epsilon (the budget) and {named} (the error that you can accept)")
        given = {**errors, "delta": given.get("delta")}
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
    dataset: Annotated[
        str | None,
        typer.Argument(metavar="DATASET", help="Name of the data set, if the ledger has several.", show_default=False),
    ] = None,
    query: QueryPath = None,
    coordinates: Annotated[
        int | None, option("NUMBER", "Without a table: the most values that one person can change (1 if not given).")
    ] = None,
    shift: Annotated[
        int | None,
        option("NUMBER", "Without a table: the most by which one person can change a value (1 if not given)."),
    ] = None,
    selection_share: Annotated[
        float | None, option("NUMBER", "Without a table: share of δ for the choice of groups (0 if not given).")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the largest ε that one more release may use. Spends nothing and reads no data.

    δ is that of --delta, of the query file, or of the budget. With --epsilon, also how many releases like it fit.

    Example: osgt ledger remaining data.toml --by department --count
    """
    with clear_errors(), ledger_at(location) as book:
        dataset, delta = dataset_in(book, location, dataset), asked.options["delta"]
        if asked and asked.options["source"] is None and location.lower().endswith(".toml"):
            asked = replace(asked, options={**asked.options, "source": location})
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
    return (
        f"{text}, or {many} with ε = {own['epsilon']:g}, δ = {own['delta']:g} each, as in this query" if left else text
    )
