"""`osgt web`: plan and publish from a page."""

from pathlib import Path
from typing import Annotated, Any

import typer

from osgt.cli.shared import QueryPath, clear_errors, say, terminal
from osgt.support.errors import missing


def web(
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="SOURCE",
            help="A data.toml, or a Parquet, CSV or database file to begin with.",
        ),
    ] = None,
    query: QueryPath = None,
    ledger: Annotated[
        str | None, typer.Option(metavar="LOCATION", help="Ledger to begin with: a file or a database URL.")
    ] = None,
    port: Annotated[
        int, typer.Option(metavar="NUMBER", min=0, max=65535, help="Port on this computer; any free one if left out.")
    ] = 0,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the link, and open no browser.")] = False,
) -> None:
    """Plan and publish from a page in the browser, on this computer alone.

    The page always has an equivalent query file: it can be loaded, saved, and run with `osgt release --query`. The
    server listens on 127.0.0.1, and lets in only the browser that comes with the link of this start.

    Example: osgt web flights.parquet --ledger budget.db
    """
    with clear_errors():
        start = _start(source, query, ledger)
        try:
            from osgt.web.server import serve  # noqa: PLC0415 - the extra "web"
        except ImportError as error:
            if (error.name or "").split(".")[0] == "osgt":
                raise
            raise missing("osgt web", "Starlette and uvicorn", "web") from None
        console = terminal()
        serve(start, port=port, opens=not no_browser, say=lambda text: say(console, text))


def _start(source: str | None, query: Path | None, ledger: str | None) -> dict[str, Any]:
    """Collect the values that the page starts with: the query file, and what was typed in place of what it says."""
    plain: dict[str, Any] = {}
    if query is not None:
        from osgt.query.file.reading import read_query_file  # noqa: PLC0415 - the extra "tables"

        plain = read_query_file(query).given()
    if source is not None and source.lower().endswith(".toml"):
        from osgt.query.file.reading import read_data_file  # noqa: PLC0415 - the extra "tables"

        known = read_data_file(source).given()
        plain, source = {**plain, **known}, None
    typed = {key: value for key, value in (("source", source), ("ledger", ledger)) if value is not None}
    return {**plain, "data": {**plain.get("data", {}), **typed}} if typed else plain
