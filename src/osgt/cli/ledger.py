"""`osgt ledger`: budgets and what has been spent of them."""

import json
import math
from dataclasses import asdict
from decimal import ROUND_CEILING, Context, Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from osgt.cli.shared import PICTURES, Overwrite, Shift, clear_errors, command_target, one_line
from osgt.files import written

if TYPE_CHECKING:
    from collections.abc import Iterable

    from osgt.ledger import Ledger, Release, Spending

_BARS = "▁▂▃▄▅▆▇█"
_WIDTH = 60
_FOUR_DIGITS = Context(prec=4, rounding=ROUND_CEILING)

ledger = typer.Typer(name="ledger", help="Budgets of data sets, and what has been spent of them.", no_args_is_help=True)

Location = Annotated[str, typer.Argument(metavar="LEDGER", help="Path of the ledger, sqlite:///… or postgresql://…")]
DatasetName = Annotated[str, typer.Argument(metavar="DATASET", help="Name of the data set.")]
Epsilon = Annotated[float, typer.Option(help="ε that all releases together may give away.")]
BudgetDelta = Annotated[float, typer.Option(help="δ of all releases together; 0 allows pure noise only.")]
Reason = Annotated[str, typer.Option(help="Why: recorded for ever.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]


def _at(location: str) -> "Ledger":
    from osgt.ledger import Ledger  # noqa: PLC0415 - SQLAlchemy is an extra

    return Ledger(location)


@ledger.command("open")
def open_(
    location: Location,
    dataset: DatasetName,
    epsilon: Epsilon,
    delta: BudgetDelta,
    unit: Annotated[
        str | None, typer.Option(help="Whom the budget protects: the privacy unit. Releases about others are refused.")
    ] = None,
    table: Annotated[
        list[str] | None,
        typer.Option(
            help="Table about these people, as NAME or NAME:COLUMN (the unit's column there); may be repeated. Other "
            "tables are refused."
        ),
    ] = None,
    neighbours: Annotated[
        str | None, typer.Option(help="Neighbour relation: add_remove (the default with --unit) or change_one.")
    ] = None,
    composition: Annotated[
        str,
        typer.Option(
            help="adaptive holds for every analyst. planned adds up exactly, but is proved only if the noise of all "
            "releases was fixed before the first answer was seen; for budgets chosen as one goes it is refuted."
        ),
    ] = "adaptive",
    selection_share: Annotated[
        float | None,
        typer.Option(
            help="Share of δ for the choice of groups (adaptive); 0 where all keys are public [default: 0.2]."
        ),
    ] = None,
) -> None:
    """Declare the budget of a data set, once. Makes the ledger if there is none.

    Example: osgt ledger open budget.db health --epsilon 3 --delta 1e-6 --unit person --table visits --table bills
    """
    with clear_errors(), _at(location) as book:
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


@ledger.command()
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
    with clear_errors(), _at(location) as book:
        told = book.change_budget(dataset, epsilon=epsilon, delta=delta, reason=reason)
        typer.echo(f"{dataset}: ε = {epsilon:g}, δ = {delta:g} in {book.name}. {told}.")


@ledger.command()
def table(
    location: Location,
    dataset: DatasetName,
    add: Annotated[
        list[str] | None,
        typer.Option(help="Table about the same people, as NAME or NAME:COLUMN (the unit's column there)."),
    ] = None,
    changed: Annotated[
        list[str] | None, typer.Option(help="Table whose columns have other names or types than before.")
    ] = None,
    reason: Annotated[str | None, typer.Option(help="Why: recorded for ever.")] = None,
) -> None:
    """Let further tables about the same people share a budget, or accept that a table has other columns now.

    Example: osgt ledger table budget.db health --add prescriptions:patient
    """
    with clear_errors(), _at(location) as book:
        book.change_tables(dataset, add=add or [], changed=changed or [], reason=reason)
        names = ", ".join(one_line(name or "a frame in memory") for name in book.spent(dataset).tables)
        typer.echo(f"{dataset}: {names}")


@ledger.command()
def remaining(
    location: Location,
    dataset: DatasetName,
    max_groups: Annotated[int, typer.Option(help="The most values of that release that one person can change.")] = 1,
    shift: Shift = 1,
    delta: Annotated[float | None, typer.Option(help="δ of that release; by default that of the budget.")] = None,
    selection_share: Annotated[
        float, typer.Option(help="Share of δ that the choice of the groups to be shown takes.")
    ] = 0.0,
    as_json: AsJson = False,
) -> None:
    """Show the largest ε with which one more release of a shape would fit. Spends nothing.

    Example: osgt ledger remaining budget.db flights --max-groups 8
    """
    with clear_errors(), _at(location) as book:
        left = book.remaining(
            dataset, delta=delta, shift=shift, coordinates=max_groups, selection_share=selection_share
        )
        if as_json:
            typer.echo(json.dumps({"dataset": dataset, "epsilon": left, "delta": delta}))
        else:
            typer.echo(f"{dataset}: one more release fits with ε up to {math.floor(left * 1e4) / 1e4:g}")


@ledger.command()
def verify(
    location: Location,
    heads: Annotated[
        Path | None,
        typer.Option(help="An earlier export, or the JSON of an earlier verify: notices what is missing at the end."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check every entry and every decision, from the entries alone.

    Exit code 0: all is well; 1: the ledger was tampered with or is damaged; 2: it could not be checked.

    Example: osgt ledger verify budget.db --heads yesterday.json
    """
    from osgt.ledger import DamagedLedgerError  # noqa: PLC0415 - SQLAlchemy is an extra

    with clear_errors(), _at(location) as book:
        known = None if heads is None else read_heads(heads)
        try:
            found = book.verify(known)
        except DamagedLedgerError as error:
            _print_problems([str(error)])
            raise typer.Exit(1) from None
        if as_json:
            typer.echo(json.dumps(found.to_dict(), indent=2))
        elif found.ok:
            sets = "data set" if len(found.heads) == 1 else "data sets"
            typer.echo(f"All is well: {found.entries:,} entries of {len(found.heads):,} {sets}.")
        else:
            _print_problems(found.problems)
    if not found.ok:
        raise typer.Exit(1)


def read_heads(path: Path) -> Any:
    """The heads in a file, or an error that says what is wrong with it."""
    from osgt.ledger.verification import checked_heads  # noqa: PLC0415 - SQLAlchemy is an extra

    try:
        return checked_heads(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise FileNotFoundError(f"--heads: there is no file {str(path)!r}") from None
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError):
        raise ValueError(f"--heads: {str(path)!r} is not JSON") from None
    except ValueError as error:
        raise ValueError(f"--heads: {str(path)!r}: {error}") from None


def _print_problems(problems: "Iterable[str]") -> None:
    console = Console(stderr=True)
    for problem in problems:
        console.print(f"[bold red]Problem:[/] {escape(one_line(problem))}", highlight=False, soft_wrap=True)


@ledger.command()
def backup(
    location: Location,
    out: Annotated[Path, typer.Argument(metavar="BACKUP", help="File to write; never replaced.")],
) -> None:
    """Copy a ledger (SQLite) to a file while it is in use, and check the copy.

    Example: osgt ledger backup budget.db budget-today.db
    """
    with clear_errors(), _at(location) as book:
        found = book.backup(out)
        typer.echo(f"{out}: {found.entries:,} entries")
        _print_problems(found.problems)
    if not found.ok:
        raise typer.Exit(1)


@ledger.command()
def restore(
    location: Location,
    source: Annotated[Path, typer.Argument(metavar="BACKUP", help="File that `osgt ledger backup` wrote.")],
    reason: Reason,
    heads: Annotated[
        Path | None,
        typer.Option(help="The latest heads of the ledger that is replaced: JSON of verify or export."),
    ] = None,
    charges_unknown: Annotated[
        bool,
        typer.Option("--charges-unknown", help="Nobody knows what was charged since: every budget counts as spent."),
    ] = False,
) -> None:
    """Put a backup in the place of a ledger (SQLite). Budgets of which charges were lost count as spent.

    What is replaced is kept under another name.

    Example: osgt ledger restore budget.db budget-today.db --heads latest.json --reason "the disk failed"
    """
    with clear_errors(), _at(location) as book:
        known = None if heads is None else read_heads(heads)
        lost = book.restore(source, heads=known, charges_unknown=charges_unknown, reason=reason)
        typer.echo(f"{book.name}: restored from {source}")
        for name in lost:
            typer.echo(f"{one_line(name)}: charges were lost, so its budget counts as spent")


@ledger.command()
def grants(
    role: Annotated[str, typer.Argument(help="A user (role) of the PostgreSQL server.")],
    read: Annotated[bool, typer.Option("--read", help="Only to read: show, verify, export.")] = False,
) -> None:
    """Print the SQL that gives a user the least rights it needs in a ledger on PostgreSQL: to charge, or only to read.

    Example: osgt ledger grants ann
    """
    from osgt.ledger import Ledger  # noqa: PLC0415 - SQLAlchemy is an extra

    typer.echo(Ledger.grants(role, charge=not read))


@ledger.command()
def export(
    location: Location,
    out: Annotated[Path | None, typer.Option(help="File to write; standard output if not given.")] = None,
    overwrite: Overwrite = False,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, which is the only form there is.")] = True,
) -> None:
    """Write all entries and the heads of the chains, as JSON. Kept elsewhere, it lets `verify` notice more.

    Example: osgt ledger export budget.db --json --out today.json
    """
    with clear_errors(), _at(location) as book:
        text = json.dumps(book.export(), indent=2)
        if out is None:
            typer.echo(text)
        else:
            with written(command_target("--out", out, overwrite=overwrite, apart=[location])) as place:
                place.write_text(text + "\n", encoding="utf-8")


@ledger.command()
def show(
    location: Location,
    dataset: Annotated[str | None, typer.Argument(metavar="[DATASET]", help="Only this data set.")] = None,
    last: Annotated[int, typer.Option(help="The number of releases to show, from the latest back.", min=0)] = 20,
    plot: Annotated[Path | None, typer.Option(help="Write a picture of the spending: .png, .svg or .pdf.")] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Show what has been spent of each budget, by which releases.

    Example: osgt ledger show budget.db flights --plot spending.png
    """
    with clear_errors(), _at(location) as book:
        names = [dataset] if dataset is not None else book.datasets()
        spendings = [book.spent(name) for name in names]
        histories = {name: book.history(name) for name in names}
        if plot is not None:
            from osgt.cli.ledger_picture import draw_spending  # noqa: PLC0415 - matplotlib is an extra

            target = command_target("--plot", plot, overwrite=overwrite, suffixes=PICTURES, apart=[location])
            with written(target) as place:
                draw_spending(place, plot.suffix, spendings, histories)
        if as_json:
            typer.echo(json.dumps([_as_dict(one, histories[one.dataset], last) for one in spendings], indent=2))
            return
        console = Console()
        _print_budgets(console, spendings, histories)
        for name, history in histories.items():
            if history and last:
                _print_releases(console, name, history, last)
        if plot is not None:
            typer.echo(f"Picture: {plot}")


def _as_dict(spending: "Spending", history: "list[Release]", last: int) -> dict[str, Any]:
    plain = asdict(spending)
    plain["epsilon"] = spending.epsilon if math.isfinite(spending.epsilon) else None
    shown = [_release(release) for release in history[max(len(history) - last, 0) :]]
    return {**plain, "history": shown}


def _release(release: "Release") -> dict[str, Any]:
    return release.to_dict()


def _print_budgets(console: Console, spendings: "list[Spending]", histories: "dict[str, list[Release]]") -> None:
    table = Table(title="Budgets", title_justify="left")
    for column in ("data set", "used", "ε spent", "of ε", "at δ", "releases"):
        table.add_column(column, justify="left" if column == "data set" else "right")
    table.add_column("spending over time")
    for one in spendings:
        table.add_row(
            escape(one_line(one.dataset)),
            percent(one.share),
            f"{_up(one.epsilon)}",
            f"{one.budget_epsilon:g}",
            f"{one.budget_delta:g}",
            f"{one.releases:,}",
            sparkline(histories[one.dataset]),
        )
    console.print(table)


def _print_releases(console: Console, name: str, history: "list[Release]", last: int) -> None:
    first = max(len(history) - last, 0)
    more = f", the latest {last} of {len(history):,}" if first else ""
    table = Table(title=f"Releases of {escape(one_line(name))}{more}", title_justify="left")
    for column in ("entry", "time (UTC)", "actor", "query", "used after", "status"):
        table.add_column(column, justify="right" if column in ("entry", "used after") else "left")
    for release in history[first:]:
        table.add_row(
            f"{release.sequence}",
            release.time[:19].replace("T", " "),
            escape(one_line(release.actor)),
            escape(_short(release.title or release.query)),
            percent(release.share_after),
            release.status,
        )
    console.print(table)


def sparkline(history: "list[Release]") -> str:
    """The share used after each release as a row of bars, full at 100 %; where there are many, several share a bar."""
    values = [release.share_after for release in history]
    width = min(_WIDTH, len(values))
    groups = [values[i * len(values) // width : (i + 1) * len(values) // width] for i in range(width)]
    heights = (min(max(group), 1.0) for group in groups)
    return "".join(_BARS[min(int(height * len(_BARS)), len(_BARS) - 1)] for height in heights)


def percent(share: float) -> str:
    """A share, never rounded down."""
    return f"{min(math.ceil(share * 1000) / 10, 100):g} %"


def _short(text: str, length: int = 60) -> str:
    line = one_line(text)
    return line if len(line) <= length else line[: length - 1] + "…"


def _up(value: float) -> str:
    """Four digits, never rounded down."""
    if not math.isfinite(value):
        return "∞"
    return f"{float(Decimal(value).normalize(_FOUR_DIGITS)):.4g}"
