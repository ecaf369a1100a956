"""`osgt statement`: what a file of a release promises, in words, as JSON, as CSV on the Web, or for a registry."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from osgt.cli.shared import Overwrite, clear_errors, command_target, say, terminal
from osgt.files import written

if TYPE_CHECKING:
    from osgt.tables.published import Published


def statement(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Table of `osgt release`: .parquet, or .csv with its description.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print every parameter as JSON.")] = False,
    csvw: Annotated[
        bool, typer.Option("--csvw", help="Print the description of the table as CSV: CSV on the Web (W3C).")
    ] = False,
    registry: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write an entry for the Differential Privacy Deployments Registry: .yaml. What only you know is left "
            "as marked blanks.",
        ),
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Show what a release promises, from its file alone.

    Example: osgt statement release.parquet --registry entry.yaml
    """
    with clear_errors():
        if as_json + csvw + (registry is not None) > 1:
            raise ValueError("give one of --json, --csvw and --registry")
        from osgt.tables.published import read_published  # noqa: PLC0415 - the extra "tables"

        found = read_published(file)
        if as_json:
            typer.echo(json.dumps(found.statement.to_dict(), indent=2, ensure_ascii=False))
        elif csvw:
            typer.echo(found.description or found.metadata(f"{file.stem}.csv"), nl=False)
        elif registry is not None:
            _write_entry(found, file, registry, overwrite=overwrite)
        else:
            _say(found)


def _say(found: "Published") -> None:
    from osgt.tables.columns import notes  # noqa: PLC0415 - the extra "tables"

    console = terminal()
    if found.about.title is not None:
        say(console, f"{found.about.title}\n")
    say(console, found.statement)
    say(console, "\nColumns:")
    for note in notes(found.statement.to_dict(), found.about):
        unit = "" if note.unit is None else f" In {note.unit}."
        say(console, f"  {note.name}: {note.words}{unit}")


def _write_entry(found: "Published", file: Path, registry: Path, *, overwrite: bool) -> None:
    from osgt.tables.registry import BLANK, registry_yaml  # noqa: PLC0415 - the extra "tables"

    suffixes = (".yaml", ".yml")
    target = command_target("--registry", registry, overwrite=overwrite, suffixes=suffixes, apart=[str(file)])
    text = registry_yaml(found.statement, found.about)
    with written(target) as place:
        place.write_text(text, encoding="utf-8")
    blanks = sum(line.count(f"{BLANK}:") for line in text.splitlines())
    say(terminal(), f"{registry}: {blanks} blanks are left for you, each marked {BLANK!r}.")
