"""`osgt ledger report`: one page for an auditor."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from osgt.cli.ledger import Location, ledger_at
from osgt.cli.shared import Overwrite, clear_errors, command_target
from osgt.files import written


def report(
    location: Location,
    out: Annotated[Path, typer.Option(metavar="FILE", help="File to write: .html.")],
    dataset: Annotated[str | None, typer.Argument(metavar="DATASET", help="Only this data set.")] = None,
    overwrite: Overwrite = False,
) -> None:
    """Write one page for an auditor: budgets, spending over time, all releases and events, and a check of the ledger.

    Exit code 1 if the check finds that the ledger was tampered with or is damaged: the page says so.

    Example: osgt ledger report budget.db flights --out report.html
    """
    with clear_errors(), ledger_at(location) as book:
        from osgt.ledger.report import page  # noqa: PLC0415 - SQLAlchemy is an extra

        target = command_target("--out", out, overwrite=overwrite, suffixes=(".html",), apart=[location])
        target.checked()
        overviews = [book.overview(name) for name in ([dataset] if dataset is not None else book.datasets())]
        found = book.verify()
        with written(target) as place:
            place.write_text(page(book.name, overviews, found, datetime.now(UTC)), encoding="utf-8")
        typer.echo(f"Report: {out}")
        if not found.ok:
            typer.echo("The check found problems, which the report lists: see `osgt ledger verify`.", err=True)
    if not found.ok:
        raise typer.Exit(1)
