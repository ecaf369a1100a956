"""`osgt ledger`: budgets, and whose they are."""

from typing import TYPE_CHECKING, Annotated

import typer

from osgt.cli.shared import clear_errors
from osgt.support.text import one_line

if TYPE_CHECKING:
    from osgt.ledger import Ledger

Location = Annotated[
    str, typer.Argument(metavar="LEDGER", help="The ledger: a file, or a URL (sqlite:///… or postgresql://…).")
]
DatasetName = Annotated[str, typer.Argument(metavar="DATASET", help="Name of the data set.")]
Epsilon = Annotated[float, typer.Option(metavar="NUMBER", help="ε that all releases together may use.")]
BudgetDelta = Annotated[
    float, typer.Option(metavar="NUMBER", help="δ of all releases together; 0 allows pure noise only.")
]
Reason = Annotated[str, typer.Option(metavar="TEXT", help="Why: recorded for ever.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]


def ledger_at(location: str) -> "Ledger":
    """The ledger that a command names."""
    from osgt.ledger import Ledger  # noqa: PLC0415 - SQLAlchemy is an extra

    return Ledger(location)


def open_(
    location: Location,
    dataset: DatasetName,
    epsilon: Epsilon,
    delta: BudgetDelta,
    unit: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Whom the budget protects: the privacy unit. Releases about other units are refused."
        ),
    ] = None,
    table: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TABLE",
            help="Table about these people, as NAME or NAME:COLUMN (the unit's column there); may be repeated. Other "
            "tables are refused.",
        ),
    ] = None,
    neighbours: Annotated[
        str | None,
        typer.Option(
            metavar="RELATION", help="Neighbour relation: add_remove (the default with --unit) or change_one."
        ),
    ] = None,
    composition: Annotated[
        str,
        typer.Option(
            metavar="METHOD",
            help="adaptive holds for every analyst. planned adds up exactly, but holds only if the noise of all "
            "releases was fixed before the first answer was seen.",
        ),
    ] = "adaptive",
    selection_share: Annotated[
        float | None,
        typer.Option(
            metavar="NUMBER",
            help="Share of δ for the choice of groups (adaptive); 0 where all keys are public (0.2 if not given).",
        ),
    ] = None,
) -> None:
    """Declare the budget of a data set, once. Makes the ledger if there is none.

    Example: osgt ledger open budget.db health --epsilon 3 --delta 1e-6 --unit person --table visits --table bills
    """
    with clear_errors(), ledger_at(location) as book:
        book.open(
            dataset,
            epsilon=epsilon,
            delta=delta,
            composition=composition,
            selection_share=selection_share,
            unit=unit,
            neighbours=neighbours,
            tables=table,
        )
        typer.echo(f"{dataset}: ε = {epsilon:g}, δ = {delta:g} in {book.name}")


def budget(
    location: Location,
    dataset: DatasetName,
    epsilon: Epsilon,
    delta: BudgetDelta,
    reason: Reason,
) -> None:
    """Change the budget of a data set. The change and its reason are recorded for ever.

    The promise for analysts who choose budgets as they go is made for a budget that is fixed beforehand. If answers
    were seen before the change, it does not cover what was released before and after it together.

    Example: osgt ledger budget budget.db flights --epsilon 4 --delta 1e-6 --reason "agreed on 3 May"
    """
    with clear_errors(), ledger_at(location) as book:
        told = book.change_budget(dataset, epsilon=epsilon, delta=delta, reason=reason)
        typer.echo(f"{dataset}: ε = {epsilon:g}, δ = {delta:g} in {book.name}. {told}.")


def void(
    location: Location,
    dataset: DatasetName,
    entries: Annotated[list[int], typer.Argument(metavar="ENTRY…", help="Numbers of the entries.")],
    reason: Annotated[
        str, typer.Option(metavar="TEXT", help="How it is known that nothing was released: recorded for ever.")
    ],
    although_settled: Annotated[
        bool,
        typer.Option("--although-settled", help="Also a charge whose release is said to be out, if that is not true."),
    ] = False,
) -> None:
    """Declare, as the owner, that entries released nothing, and add up what stands without them.

    The way out where somebody has charged a budget for nothing, or added entries that nobody can read. Never for a
    release that is out or still under way. The entries stay, and that they are void is recorded for ever.

    Example: osgt ledger void postgresql://owner@server/budgets flights 57 58 --reason "ann's program went wrong"
    """
    with clear_errors(), ledger_at(location) as book:
        book.void(dataset, entries, reason=reason, although_settled=although_settled)
        share = book.spent(dataset).share
        numbers = ", ".join(map(str, sorted(set(entries))))
        typer.echo(f"{dataset}: void from now on: {numbers}. {share:.0%} of the budget is used.")


def table(
    location: Location,
    dataset: DatasetName,
    add: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TABLE", help="Table about the same people, as NAME or NAME:COLUMN (the unit's column there)."
        ),
    ] = None,
    changed: Annotated[
        list[str] | None,
        typer.Option(metavar="TABLE", help="Table whose columns have other names or types than before."),
    ] = None,
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="Why: recorded for ever.")] = None,
) -> None:
    """Let further tables about the same people share a budget, or accept that a table has other columns now.

    Example: osgt ledger table budget.db health --add prescriptions:patient
    """
    with clear_errors(), ledger_at(location) as book:
        book.change_tables(dataset, add=add or [], changed=changed or [], reason=reason)
        names = ", ".join(one_line(name or "a frame in memory") for name in book.spent(dataset).tables)
        typer.echo(f"{dataset}: {names}")


def grants(
    role: Annotated[str, typer.Argument(metavar="ROLE", help="A user (role) of the PostgreSQL server.")],
    read: Annotated[bool, typer.Option("--read", help="Only to read: show, verify, export.")] = False,
) -> None:
    """Print the SQL that gives a user the least rights it needs in a ledger on PostgreSQL: to charge, or only to read.

    Example: osgt ledger grants ann
    """
    with clear_errors():
        from osgt.ledger import Ledger  # noqa: PLC0415 - SQLAlchemy is an extra

        typer.echo(Ledger.grants(role, charge=not read))
