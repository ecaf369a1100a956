"""`osgt preview`: what the bounds of a query cut off. Not private."""

import json
from contextlib import closing
from typing import Annotated

import typer

from osgt.cli.progress import progress
from osgt.cli.shared import QueryPath, clear_errors, say, terminal
from osgt.cli.table_options import Asked, takes_a_table


@takes_a_table
def preview(
    asked: Asked,
    query: QueryPath = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")] = False,
) -> None:
    """Show what the bounds of a query cut off. NOT PRIVATE: exact figures, for whoever may see the data.

    Example: osgt preview --query query.toml
    """
    with clear_errors():
        found = asked.query_file(query).asked()
        with closing(found.dataset), progress(found, "counting what the bounds cut off"):
            shown = found.preview()
        if as_json:
            typer.echo(json.dumps(shown.to_dict(), indent=2, ensure_ascii=False))
        else:
            say(terminal(), shown)
