"""`osgt ledger remaining`: what still fits into a budget."""

import json
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any

import typer

from osgt.cli.ledger import AsJson, DatasetName, Location, ledger_at
from osgt.cli.options import Asked, takes_a_table
from osgt.cli.shared import QueryPath, clear_errors
from osgt.support.text import one_line

if TYPE_CHECKING:
    from osgt.ledger import Ledger
    from osgt.query.file.model import QueryFile

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
