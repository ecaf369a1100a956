"""`osgt ledger settle` and `note` record what became of a release, after its own process could not.

`verify`, `export`, `backup`, `restore` and `lost`: is the ledger what was written, and copies of it.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from osgt.cli.ledger import AsJson, DatasetName, Location, Reason, ledger_at
from osgt.cli.shared import Overwrite, clear_errors, command_target, terminal
from osgt.support.files import written, written_together
from osgt.support.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from osgt.ledger import Ledger

EntryNumber = Annotated[int, typer.Argument(metavar="ENTRY", help="Number of the release: see `osgt ledger show`.")]
Actor = Annotated[
    str | None, typer.Option(metavar="NAME", help="Who says so: recorded for ever (user and machine, if not given).")
]


def settle(
    location: Location,
    dataset: DatasetName,
    entry: EntryNumber,
    out: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="File of the release: its name and SHA-256 are recorded. May be repeated."),
    ] = None,
    statement: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The statement as JSON, as `osgt release --json` printed it.")
    ] = None,
    statement_hash: Annotated[
        str | None, typer.Option(metavar="HASH", help="The hash of the statement, if it is known.")
    ] = None,
    kept: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Table that `osgt release` kept: it is put in place as --out, and removed here. May be repeated, with "
            "as many --out in the same order.",
        ),
    ] = None,
    overwrite: Overwrite = False,
    actor: Actor = None,
) -> None:
    """Record that a release is out, and where, when its own process could not. Changes no budget.

    Everybody who may charge the budget may do this; who did is recorded. A release is settled once: what comes later
    is a note.

    Example: osgt ledger settle budget.db flights 7 --out release.parquet
    """
    with clear_errors(), ledger_at(location) as book:
        files, moved = out or [], kept or []
        if moved and len(files) != len(moved):
            raise ValueError("each --kept needs one --out: the file that it becomes")
        _check_entry(book, dataset, entry)
        told = _statement(statement, moved or files)
        digest = statement_hash if told is None else _hash(told, dataset, entry, statement_hash)
        if moved:
            files = _put_in_place(dict(zip(moved, files, strict=True)), location, overwrite=overwrite)
        text = _settle(book, dataset, entry, digest, files, actor)
        for file in moved:
            file.unlink()
        typer.echo(f"{dataset}: entry {entry} {text}")


def _settle(book: "Ledger", dataset: str, entry: int, digest: str | None, files: list[Path], actor: str | None) -> str:
    """Record the files of a release, and say whether that was done before."""
    from osgt.api.charge import file_hash, places  # noqa: PLC0415 - the extra "tables"

    hashes, output = [file_hash(file) for file in files], places(files)
    if book.settle(dataset, entry, statement_hash=digest, output=output or None, output_hashes=hashes, actor=actor):
        return f"is settled{': ' * bool(files)}{output}"
    return "was settled before, and nothing was recorded now. To say where else it went, use `osgt ledger note`"


def note(
    location: Location,
    dataset: DatasetName,
    entry: EntryNumber,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What is worth knowing: recorded for ever.")],
    actor: Actor = None,
) -> None:
    """Record a remark about a release for ever, with who made it: where else it went, that it was withdrawn.

    Example: osgt ledger note budget.db flights 7 "sent to the press office"
    """
    with clear_errors(), ledger_at(location) as book:
        book.note(dataset, entry, text, actor=actor)
        typer.echo(f"{dataset}: noted at entry {entry}")


def _check_entry(book: "Ledger", dataset: str, entry: int) -> None:
    """Before a file is written: there must be such a release, and it must stand."""
    found = {release.sequence: release.status for release in book.history(dataset)}
    if entry not in found:
        known = ", ".join(map(str, list(found)[-8:])) or "it has none"
        raise ValueError(f"entry {entry} of {dataset!r} is not a release; the latest ones: {known}")
    if found[entry] == "void":
        raise ValueError(f"entry {entry} of {dataset!r} was declared void by the owner. If it is out, tell the owner")
    if found[entry] == "cancelled":
        raise ValueError(f"entry {entry} of {dataset!r} was cancelled before data were read: nothing can be out")


def _statement(file: Path | None, tables: list[Path]) -> dict[str, Any] | None:
    """The statement in a file of its own, or in the first Parquet file that has one."""
    if file is not None:
        try:
            plain = json.loads(file.read_text(encoding="utf-8"))
        except (json.JSONDecodeError, UnicodeDecodeError, RecursionError):
            raise ValueError(f"--statement: {str(file)!r} is not JSON") from None
        if not isinstance(plain, dict) or "statement" not in plain:
            raise ValueError(f"--statement: {str(file)!r} holds no statement of a release")
        return {name: value for name, value in plain.items() if name != "table"}
    import pyarrow.parquet as pq  # noqa: PLC0415 - the extra "tables"

    for table in tables:
        if table.suffix.lower() == ".parquet":
            text = (pq.read_schema(table).metadata or {}).get(b"osgt")
            if text is not None:
                found: dict[str, Any] = json.loads(text)
                return found
    return None


def _hash(told: dict[str, Any], dataset: str, entry: int, expected: str | None) -> str:
    """The hash of a statement, if it is that of this entry."""
    from osgt.api.charge import statement_hash  # noqa: PLC0415 - the extra "tables"

    charged = told.get("ledger")
    if charged != {"dataset": dataset, "reservation": str(entry)}:
        raise ValueError(f"the statement is that of another release, and not of entry {entry} of {dataset!r}")
    found = statement_hash(told)
    if expected not in (None, found):
        raise ValueError("--statement-hash is not the hash of the statement that was given")
    return found


def _put_in_place(moved: dict[Path, Path], ledger: str, *, overwrite: bool) -> list[Path]:
    """Write the files that were wanted, and what belongs beside them, from those that were kept, all or none."""
    from osgt.render.published import (  # noqa: PLC0415 - the extra "tables"
        SUFFIXES,
        read_published,
        with_descriptions,
    )

    apart = [ledger, *map(str, moved)]
    targets = with_descriptions(
        {
            str(kept): command_target("--out", out, overwrite=overwrite, suffixes=SUFFIXES["out"], apart=apart)
            for kept, out in moved.items()
        }
    )
    with written_together(targets) as places:
        for kept in moved:
            read_published(kept).write(str(kept), targets, places)
    return [Path(target.path) for target in targets.values()]


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
            if found.mending:
                typer.echo("To put the triggers back, the owner of the database runs these lines in it:", err=True)
                typer.echo(found.mending, nl=False)
    if not found.ok:
        raise typer.Exit(1)


def read_heads(path: Path) -> Any:
    """The heads in a file, or an error that says what is wrong with it."""
    from osgt.ledger.verification import parse_heads  # noqa: PLC0415 - SQLAlchemy is an extra

    try:
        return parse_heads(json.loads(path.read_text(encoding="utf-8")))
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

    A charge counts as lost if the heads know it, or the ledger that is replaced, and the backup does not. What is
    replaced is kept under another name.

    Example: osgt ledger restore budget.db budget-today.db --heads latest.json --reason "the disk failed"
    """
    with clear_errors(), ledger_at(location) as book:
        known = None if heads is None else read_heads(heads)
        restored = book.restore(source, heads=known, charges_unknown=charges_unknown, reason=reason)
        typer.echo(f"{book.name}: restored from {source}")
        for remark in restored.remarks:
            typer.echo(one_line(f"Note: {remark}"))
        for name, why in restored.spent.items():
            typer.echo(f"{one_line(name)}: charges were lost, so its budget counts as spent ({one_line(why)})")


def lost(location: Location, dataset: DatasetName, reason: Reason) -> None:
    """Record that charges of a data set were lost. Its budget counts as spent from now on.

    For a ledger that was put back to an earlier state, or of which a copy was charged, where the later state is gone.

    Example: osgt ledger lost budget.db flights --reason "the server went back to the copy of last night"
    """
    with clear_errors(), ledger_at(location) as book:
        book.record_loss(dataset, reason=reason)
        typer.echo(f"{one_line(dataset)}: charges were lost, so its budget counts as spent")
