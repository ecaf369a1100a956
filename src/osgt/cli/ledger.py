"""`osgt ledger`: budgets and whose they are, and what became of a release whose own process could not say."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from osgt.cli.shared import Overwrite, clear_errors, command_target
from osgt.support.errors import ArgumentError
from osgt.support.files import written_together
from osgt.support.text import names_in_words, one_line

if TYPE_CHECKING:
    from osgt.ledger import Ledger

Location = Annotated[
    str,
    typer.Argument(metavar="LEDGER", help="The ledger: a file, a URL (postgresql://…), or a data file that names it."),
]
DatasetName = Annotated[str, typer.Argument(metavar="DATASET", help="Name of the data set.")]
Epsilon = Annotated[float, typer.Option(metavar="NUMBER", help="ε that all releases together may use.")]
BudgetDelta = Annotated[
    float, typer.Option(metavar="NUMBER", help="δ of all releases together; 0 allows pure noise only.")
]
Reason = Annotated[str, typer.Option(metavar="TEXT", help="Why: recorded permanently.")]
EntryNumber = Annotated[int, typer.Argument(metavar="ENTRY", help="Number of the release: see `osgt ledger show`.")]
Actor = Annotated[
    str | None, typer.Option(metavar="NAME", help="Who says so: recorded permanently (user and machine, if not given).")
]


def ledger_at(location: str) -> "Ledger":
    """The ledger that a command names, itself or by a data file."""
    from osgt.ledger import Ledger  # noqa: PLC0415 - SQLAlchemy is an extra

    if location.lower().endswith(".toml"):
        location = _of_data_file(location)[0]
    return Ledger(location)


def dataset_in(book: "Ledger", location: str, dataset: str | None) -> str:
    """The data set that a command names: itself, by a data file, or as the only one of the ledger."""
    if dataset is None and location.lower().endswith(".toml"):
        dataset = _of_data_file(location)[1]
    if dataset is not None:
        return dataset
    names = book.datasets()
    if len(names) != 1:
        raise ValueError(f"DATASET must be given: the ledger has the budgets of {names_in_words(names)}")
    return names[0]


def _of_data_file(path: str) -> tuple[str, str | None]:
    """The ledger that a data file names, and the name of the data set there."""
    from osgt.query.file.reading import read_data_file  # noqa: PLC0415 - the extra "tables"

    data = read_data_file(path).data
    if data.ledger is None:
        raise ValueError(f"{path} names no ledger")
    return data.ledger, data.dataset


def read_json(option: str, path: Path) -> Any:
    """The content of a file, or an error that says what is wrong with it."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileNotFoundError(f"{option}: there is no file {str(path)!r}") from None
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError):
        raise ValueError(f"{option}: {str(path)!r} is not JSON") from None


Parts = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PART",
        help="Disjoint part of these people, as NAME:CONDITION on rows of the first table; in their order. "
        "Releases about parts are charged as the largest of them.",
    ),
]
MaxParts = Annotated[
    int, typer.Option(metavar="NUMBER", help="The most parts in which one unit counts, the first ones.")
]


def _parts(texts: list[str]) -> dict[str, str]:
    """The names and conditions of parts, as they are typed."""
    parts: dict[str, str] = {}
    for text in texts:
        name, colon, condition = text.partition(":")
        if not colon or name in parts:
            raise ArgumentError(f"part must be NAME:CONDITION, each name once, got {text!r}", argument="part")
        parts[name] = condition.strip()
    return parts


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
    part: Parts = None,
    max_parts: MaxParts = 1,
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
            parts=_parts(part) if part else None,
            max_parts=max_parts,
        )
        typer.echo(f"{dataset}: ε = {epsilon:g}, δ = {delta:g} in {book.name}")


def budget(
    location: Location,
    dataset: DatasetName,
    epsilon: Epsilon,
    delta: BudgetDelta,
    reason: Reason,
) -> None:
    """Change the budget of a data set. The change and its reason are recorded permanently.

    The promise for analysts who choose budgets as they go is made for a budget that is fixed beforehand. If answers
    were seen before the change, it does not cover what was released before and after it together.

    Example: osgt ledger budget budget.db flights --epsilon 4 --delta 1e-6 --reason "agreed on 3 May"
    """
    with clear_errors(), ledger_at(location) as book:
        meaning = book.change_budget(dataset, epsilon=epsilon, delta=delta, reason=reason)
        typer.echo(f"{dataset}: ε = {epsilon:g}, δ = {delta:g} in {book.name}. {meaning}.")


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
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="Why: recorded permanently.")] = None,
) -> None:
    """Let further tables about the same people share a budget, or accept that a table has other columns now.

    Example: osgt ledger table budget.db health --add prescriptions:patient
    """
    with clear_errors(), ledger_at(location) as book:
        book.change_tables(dataset, add=add or [], changed=changed or [], reason=reason)
        names = ", ".join(one_line(name or "a frame in memory") for name in book.spent(dataset).tables)
        typer.echo(f"{dataset}: {names}")


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
        from osgt.api.charge import check_released  # noqa: PLC0415 - the extra "tables"

        files, moved = out or [], kept or []
        if moved and len(files) != len(moved):
            raise ValueError("each --kept needs one --out: the file that it becomes")
        check_released(book, dataset, entry)
        told = _statement(statement, moved or files)
        digest = statement_hash if told is None else _hash(told, dataset, entry, statement_hash)
        if moved:
            files = _put_in_place(dict(zip(moved, files, strict=True)), location, overwrite=overwrite)
        text = _settle(book, dataset, entry, digest, files, actor, corrects=(told or {}).get("corrects"))
        for file in moved:
            file.unlink()
        typer.echo(f"{dataset}: entry {entry} {text}")


def _settle(
    book: "Ledger",
    dataset: str,
    entry: int,
    digest: str | None,
    files: list[Path],
    actor: str | None,
    *,
    corrects: int | None,
) -> str:
    """Record the files of a release, and at the one that it corrects by which; say whether that was done before."""
    from osgt.api.charge import correction_note, file_hash, places  # noqa: PLC0415 - the extra "tables"

    hashes, output = [file_hash(file) for file in files], places(files)
    if book.settle(dataset, entry, statement_hash=digest, output=output or None, output_hashes=hashes, actor=actor):
        if corrects is not None:
            book.note(dataset, corrects, correction_note(entry), actor=actor)
        return f"is settled{': ' * bool(files)}{output}"
    return "was settled before, and nothing was recorded now. To say where else it went, use `osgt ledger note`"


def note(
    location: Location,
    dataset: DatasetName,
    entry: EntryNumber,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What is worth knowing: recorded permanently.")],
    actor: Actor = None,
) -> None:
    """Record a remark about a release permanently, with who made it: where else it went, that it was withdrawn.

    Example: osgt ledger note budget.db flights 7 "sent to the press office"
    """
    with clear_errors(), ledger_at(location) as book:
        book.note(dataset, entry, text, actor=actor)
        typer.echo(f"{dataset}: noted at entry {entry}")


def _statement(file: Path | None, tables: list[Path]) -> dict[str, Any] | None:
    """The statement in a file of its own, or in the first Parquet file that has one."""
    if file is not None:
        plain = read_json("--statement", file)
        if not isinstance(plain, dict) or "statement" not in plain:
            raise ValueError(f"--statement: {str(file)!r} holds no statement of a release")
        return {name: value for name, value in plain.items() if name != "table"}
    import pyarrow.parquet as pq  # noqa: PLC0415 - the extra "tables"

    for table in tables:
        if table.suffix.lower() == ".parquet":
            text = (pq.read_schema(table).metadata or {}).get(b"osgt")
            if text is not None:
                statement: dict[str, Any] = json.loads(text)
                return statement
    return None


def _hash(told: dict[str, Any], dataset: str, entry: int, expected: str | None) -> str:
    """The hash of a statement, if it is that of this entry."""
    from osgt.api.charge import statement_hash  # noqa: PLC0415 - the extra "tables"

    charged = told.get("ledger")
    if charged != {"dataset": dataset, "reservation": str(entry)}:
        raise ValueError(f"the statement is that of another release, and not of entry {entry} of {dataset!r}")
    result = statement_hash(told)
    if expected not in (None, result):
        raise ValueError("--statement-hash is not the hash of the statement that was given")
    return result


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
