"""`osgt preview`: what bounds cut off, exactly. Not private."""

import json
from contextlib import closing
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from osgt.cli.progress import progress
from osgt.cli.shared import QueryPath, clear_errors, say, terminal
from osgt.cli.table_options import Asked, takes_a_table
from osgt.shown_text import printable

if TYPE_CHECKING:
    from osgt.tables.preview import Preview
    from osgt.tables.publication_preview import PublicationPreview


@takes_a_table
def preview(
    asked: Asked,
    query: QueryPath = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")] = False,
) -> None:
    """Show what bounds cut off: those that are given, and others. NOT PRIVATE: for whoever may see the data.

    Example: osgt preview --query query.toml
    """
    with clear_errors():
        found = asked.query_file(query).asked()
        with closing(found.dataset), progress(found, "counting what the bounds cut off"):
            shown = found.preview()
        if as_json:
            typer.echo(json.dumps(shown.to_dict(), indent=2, ensure_ascii=False))
        else:
            _print(shown)


def _print(shown: "Preview | PublicationPreview") -> None:
    from osgt.tables.preview import WARNING, Preview  # noqa: PLC0415 - the extra "tables"

    console = terminal()
    console.print(WARNING, style="bold")
    if isinstance(shown, Preview):
        _print_one(console, shown)
        return
    for name, each in shown.tables.items():
        console.print(f"{escape(printable(name))}:", style="bold")
        _print_one(console, each)


def _print_one(console: Console, shown: "Preview") -> None:
    for line in shown.lines():
        say(console, line)
    for head, rows in shown.curves():
        table = Table(title=None)
        for name in head:
            table.add_column(escape(printable(name)), justify="right", overflow="fold")
        for row in rows:
            table.add_row(*row, style="bold" if row[0].endswith("*") else None)
        console.print(table)
