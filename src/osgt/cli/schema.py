"""`osgt schema`: the JSON Schema of query files, for editors."""

import json
from pathlib import Path
from typing import Annotated

import typer

from osgt.cli.shared import Overwrite, clear_errors, command_target
from osgt.files import written


def schema(
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File to write; standard output if not given.")
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Print the JSON Schema of query files: with it, editors complete keys and mark mistakes.

    Example: osgt schema --out query.schema.json, and as the first line of the query file: #:schema query.schema.json
    """
    with clear_errors():
        from osgt.tables.file_schema import query_file_schema  # noqa: PLC0415 - the extra "tables"

        text = json.dumps(query_file_schema(), indent=2, ensure_ascii=False) + "\n"
        if out is None:
            typer.echo(text, nl=False)
            return
        target = command_target("--out", out, overwrite=overwrite, suffixes=(".json",))
        with written(target) as place:
            place.write_text(text, encoding="utf-8")
