"""`osgt ledger verify`, `export`, `backup` and `restore`: is the ledger what was written, and copies of it."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from osgt.cli.ledger import AsJson, Location, Reason, ledger_at
from osgt.cli.shared import Overwrite, clear_errors, command_target, terminal
from osgt.files import written
from osgt.shown_text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable


def verify(
    location: Location,
    heads: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="An earlier export, or the JSON of an earlier verify: notices what is missing at the end.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check every entry and every decision, from the entries alone.

    Exit code 0: all is well; 1: the ledger was tampered with or is damaged; 2: it could not be checked.

    Example: osgt ledger verify budget.db --heads yesterday.json
    """
    from osgt.ledger import DamagedLedgerError  # noqa: PLC0415 - SQLAlchemy is an extra

    with clear_errors(), ledger_at(location) as book:
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
    console = terminal(stderr=True)
    for problem in problems:
        console.print(f"[bold red]Problem:[/] {escape(one_line(problem))}", highlight=False, soft_wrap=True)


def export(
    location: Location,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File to write; standard output if not given.")
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Write all entries and the heads of the chains, as JSON. Kept elsewhere, it lets `verify` notice more.

    Example: osgt ledger export budget.db --out today.json
    """
    with clear_errors(), ledger_at(location) as book:
        text = json.dumps(book.export(), indent=2)
        if out is None:
            typer.echo(text)
        else:
            with written(command_target("--out", out, overwrite=overwrite, apart=[location])) as place:
                place.write_text(text + "\n", encoding="utf-8")


def backup(
    location: Location,
    out: Annotated[Path, typer.Argument(metavar="BACKUP", help="File to write; never replaced.")],
) -> None:
    """Copy a ledger (SQLite) to a file while it is in use, and check the copy.

    Example: osgt ledger backup budget.db budget-today.db
    """
    with clear_errors(), ledger_at(location) as book:
        found = book.backup(out)
        typer.echo(f"{out}: {found.entries:,} entries")
        _print_problems(found.problems)
    if not found.ok:
        raise typer.Exit(1)


def restore(
    location: Location,
    source: Annotated[Path, typer.Argument(metavar="BACKUP", help="File that `osgt ledger backup` wrote.")],
    reason: Reason,
    heads: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The latest heads of the ledger that is replaced: JSON of verify or export."),
    ] = None,
    charges_unknown: Annotated[
        bool,
        typer.Option("--charges-unknown", help="Nobody knows what was charged since: every budget counts as spent."),
    ] = False,
) -> None:
    """Put a backup in the place of a ledger (SQLite). A budget whose charges were lost counts as spent.

    What is replaced is kept under another name.

    Example: osgt ledger restore budget.db budget-today.db --heads latest.json --reason "the disk failed"
    """
    with clear_errors(), ledger_at(location) as book:
        known = None if heads is None else read_heads(heads)
        lost = book.restore(source, heads=known, charges_unknown=charges_unknown, reason=reason)
        typer.echo(f"{book.name}: restored from {source}")
        for name in lost:
            typer.echo(f"{one_line(name)}: charges were lost, so its budget counts as spent")
