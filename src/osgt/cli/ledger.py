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

from osgt.cli.shared import PICTURES, Overwrite, Shift, clear_errors, command_target
from osgt.files import written

if TYPE_CHECKING:
    from osgt.ledger import Ledger, Release, Spending

_BARS = "▁▂▃▄▅▆▇█"
_WIDTH = 60
_FOUR_DIGITS = Context(prec=4, rounding=ROUND_CEILING)

ledger = typer.Typer(name="ledger", help="Budgets of data sets, and what has been spent of them.", no_args_is_help=True)

Location = Annotated[str, typer.Argument(metavar="LEDGER", help="Path of the ledger, sqlite:///… or postgresql://…")]
DatasetName = Annotated[str, typer.Argument(metavar="DATASET", help="Name of the data set.")]
Epsilon = Annotated[float, typer.Option(help="ε that all releases together may give away.")]
BudgetDelta = Annotated[float, typer.Option(help="δ of all releases together; 0 allows pure noise only.")]
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
    composition: Annotated[
        str,
        typer.Option(help="exact, or renyi where later releases may be sized by what earlier ones showed."),
    ] = "exact",
) -> None:
    """Declare the budget of a data set, once. Makes the ledger if there is none.

    Example: osgt ledger open budget.db flights --epsilon 3 --delta 1e-6
    """
    with clear_errors(), _at(location) as book:
        book.open(dataset, epsilon=epsilon, delta=delta, composition=composition)
        typer.echo(f"{dataset}: ε = {epsilon:g}, δ = {delta:g} in {book.name}")


@ledger.command()
def budget(
    location: Location,
    dataset: DatasetName,
    epsilon: Epsilon,
    delta: BudgetDelta,
    reason: Annotated[str, typer.Option(help="Why: recorded for ever.")],
) -> None:
    """Change the budget of a data set. The change and its reason are recorded for ever.

    Example: osgt ledger budget budget.db flights --epsilon 4 --delta 1e-6 --reason "agreed on 3 May"
    """
    with clear_errors(), _at(location) as book:
        book.change_budget(dataset, epsilon=epsilon, delta=delta, reason=reason)
        typer.echo(f"{dataset}: ε = {epsilon:g}, δ = {delta:g} in {book.name}")


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
    """Check every entry of the ledger. Exit code 0: all is well; 1: it was tampered with; 2: it cannot be read.

    Example: osgt ledger verify budget.db --heads yesterday.json
    """
    with clear_errors(), _at(location) as book:
        known = json.loads(heads.read_text(encoding="utf-8")) if heads is not None else None
        found = book.verify(known)
        if as_json:
            answer = {"ok": found.ok, "problems": found.problems, "entries": found.entries, "heads": found.heads}
            typer.echo(json.dumps(answer, indent=2))
        elif found.ok:
            typer.echo(f"All is well: {found.entries:,} entries of {len(found.heads):,} data sets.")
        else:
            for problem in found.problems:
                Console(stderr=True).print(f"[bold red]Problem:[/] {escape(problem)}", highlight=False, soft_wrap=True)
    if not found.ok:
        raise typer.Exit(1)


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
    shown = [{**asdict(release), "charge": release.charge.to_dict()} for release in history[len(history) - last :]]
    return {**plain, "history": shown}


def _print_budgets(console: Console, spendings: "list[Spending]", histories: "dict[str, list[Release]]") -> None:
    table = Table(title="Budgets", title_justify="left")
    for column in ("data set", "ε spent", "of ε", "at δ", "δ at that ε", "releases"):
        table.add_column(column, justify="left" if column == "data set" else "right")
    table.add_column("spending over time")
    for one in spendings:
        table.add_row(
            escape(one.dataset),
            f"{_up(one.epsilon)}",
            f"{one.budget_epsilon:g}",
            f"{one.budget_delta:g}",
            f"{_up(one.delta)}",
            f"{one.releases:,}",
            sparkline(histories[one.dataset], one.budget_epsilon),
        )
    console.print(table)


def _print_releases(console: Console, name: str, history: "list[Release]", last: int) -> None:
    first = max(len(history) - last, 0)
    more = f", the latest {last} of {len(history):,}" if first else ""
    table = Table(title=f"Releases of {escape(name)}{more}", title_justify="left")
    for column in ("entry", "time (UTC)", "actor", "query", "ε after", "status"):
        table.add_column(column, justify="right" if column in ("entry", "ε after") else "left")
    for release in history[first:]:
        table.add_row(
            f"{release.sequence}",
            release.time[:19].replace("T", " "),
            escape(release.actor),
            escape(_short(release.query)),
            _up(release.epsilon_after) if release.epsilon_after is not None else "∞",
            release.status,
        )
    console.print(table)


def sparkline(history: "list[Release]", limit: float) -> str:
    """ε after each release as a row of bars, full at the budget; neighbours share a bar where there are many."""
    values = [math.inf if release.epsilon_after is None else release.epsilon_after for release in history]
    width = min(_WIDTH, len(values))
    groups = [values[i * len(values) // width : (i + 1) * len(values) // width] for i in range(width)]
    heights = (min(max(group) / limit, 1.0) for group in groups)
    return "".join(_BARS[min(int(height * len(_BARS)), len(_BARS) - 1)] for height in heights)


def _short(text: str, length: int = 60) -> str:
    line = " ".join(text.split())
    return line if len(line) <= length else line[: length - 1] + "…"


def _up(value: float) -> str:
    """Four digits, never rounded down."""
    if not math.isfinite(value):
        return "∞"
    return f"{float(Decimal(value).normalize(_FOUR_DIGITS)):.4g}"
