"""`osgt ledger settle` and `osgt ledger note`: what became of a release, recorded after its own process could not."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from osgt.cli.ledger import DatasetName, Location, ledger_at
from osgt.cli.shared import Overwrite, clear_errors, command_target
from osgt.files import written_together

if TYPE_CHECKING:
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
        from osgt.tables.settling import file_hash, places  # noqa: PLC0415 - the extra "tables"

        hashes = [file_hash(file) for file in files]
        new = book.settle(
            dataset,
            entry,
            statement_hash=digest,
            output=places(files) or None,
            output_hashes=hashes,
            actor=actor,
        )
        for file in moved:
            file.unlink()
        if new:
            typer.echo(f"{dataset}: entry {entry} is settled{': ' * bool(files)}{places(files)}")
        else:
            typer.echo(
                f"{dataset}: entry {entry} was settled before, and nothing was recorded now. To say where else it "
                "went, use `osgt ledger note`"
            )


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
    from osgt.tables.settling import statement_hash  # noqa: PLC0415 - the extra "tables"

    charged = told.get("ledger")
    if charged != {"dataset": dataset, "reservation": str(entry)}:
        raise ValueError(f"the statement is that of another release, and not of entry {entry} of {dataset!r}")
    found = statement_hash(told)
    if expected not in (None, found):
        raise ValueError("--statement-hash is not the hash of the statement that was given")
    return found


def _put_in_place(moved: dict[Path, Path], ledger: str, *, overwrite: bool) -> list[Path]:
    """Write the files that were wanted, and what belongs beside them, from those that were kept, all or none."""
    from osgt.tables.output import SUFFIXES  # noqa: PLC0415 - the extra "tables"
    from osgt.tables.published import read_published, with_descriptions  # noqa: PLC0415 - the extra "tables"

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
