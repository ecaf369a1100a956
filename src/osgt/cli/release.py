"""`osgt release`: a private table from a file, a database or a cluster."""

import shlex
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from osgt.cli import outcome
from osgt.cli.dry_run import dry_run
from osgt.cli.progress import progress
from osgt.cli.release_options import OUTPUT
from osgt.cli.released import release_text
from osgt.cli.saved_query import saved
from osgt.cli.shared import QueryPath, clear_errors, command_target, warn
from osgt.cli.table_options import Asked, takes_a_table
from osgt.files import Target

if TYPE_CHECKING:
    from osgt.tables.publication import Publication
    from osgt.tables.publication_release import PublicationRelease
    from osgt.tables.query import Query
    from osgt.tables.query_file import QueryFile
    from osgt.tables.release import Release


@takes_a_table
def release(
    asked: Asked,
    query: QueryPath = None,
    dry: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Check everything and print the plan, what would be charged and what would be written; read no data, "
            "charge and write nothing.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    save_query: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write all that was asked for as a query file, to repeat it with --query: .toml.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace files that exist.", rich_help_panel=OUTPUT)
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the table and the statement as JSON.", rich_help_panel=OUTPUT)
    ] = False,
) -> None:
    """Publish a private table: charge the budget, read the data once, add the least noise that it allows.

    Example: osgt release flights.parquet --unit tailnum --by dest --by month --count --sum distance:0:5000
    --max-groups 8 --max-rows-per-group 3 --epsilon 1 --delta 1e-8 --out release.parquet --report release.html

    Exit codes: 0 the table is out; 2 refused, and nothing was charged; 3 nothing came out, and the budget was charged
    or may have been; 4 the table is made, but it is kept elsewhere or the ledger could not be told (the message says
    what to run).
    """
    with clear_errors():
        file = asked.query_file(query)
        from osgt.tables.publishing import files_used  # noqa: PLC0415 - the extra "tables"

        targets = _targets(file, overwrite=overwrite, query_file=query)
        with saved(file, save_query, apart=files_used(file, query), overwrite=overwrite):
            made = _run(file, targets, dry=dry, as_json=as_json)
        if made is not None:
            paths = [Path(target.path) for target in targets.values()]
            outcome.finish(made, paths, lambda: release_text(made, file, as_json=as_json))
            warn(made.left_out_warnings)
        if save_query is not None and not as_json:
            typer.echo(f"Query file: {save_query}")


def _run(
    file: "QueryFile", targets: dict[str, Target], *, dry: bool, as_json: bool
) -> "Release | PublicationRelease | None":
    """The release of a query file, written to its files. What can be checked is checked before data are read."""
    for name, value in (("epsilon", file.budget.epsilon), ("delta", file.budget.delta)):
        if value is None:
            raise ValueError(f"{name} must be given")
    for target in targets.values():
        target.checked()
    query = file.asked(ledger_of(file))
    try:
        return _released(file, query, targets, dry=dry, as_json=as_json)
    finally:
        with suppress(Exception):  # whatever it is, it says nothing about the release
            query.dataset.close()


def _targets(file: "QueryFile", *, overwrite: bool, query_file: Path | None) -> dict[str, Target]:
    """The files that a release writes; not even --overwrite replaces what it reads or charges."""
    from osgt.tables.publishing import files_used, release_targets  # noqa: PLC0415 - the extra "tables"

    apart = files_used(file, query_file)
    return release_targets(
        file,
        lambda key, path, suffixes: command_target(key, path, overwrite=overwrite, suffixes=suffixes, apart=apart),
    )


def _released(
    file: "QueryFile", query: "Query | Publication", targets: dict[str, Target], *, dry: bool, as_json: bool
) -> "Release | PublicationRelease | None":
    from osgt.tables.publishing import (  # noqa: PLC0415 - the extra "tables"
        UnwrittenError,
        check_files,
        out_paths,
        publish,
    )

    plan = query.plan(**file.budget.given(), **file.plan_options())
    engine = query.dataset.table.get_backend().name
    check_files(file, query, targets.values())
    about = query.about(file.report.texts())
    warn(plan.warnings)
    if dry:
        dry_run(query, plan, targets, as_json=as_json)
        return None
    show = None if query.dataset.ledger is None else shlex.join(["osgt", "ledger", "show", *_charged(query)])
    title = f"{engine}: bounding and adding up, then noise of ε = {plan.epsilon:g}"
    try:
        return publish(file, query, targets, about, _charging(query, show, title))
    except UnwrittenError as error:
        reason, out = error.__cause__ or error, out_paths(query, targets)
        raise outcome.kept(error.made, str(error), reason, out=out, about=about) from reason


@contextmanager
def _charging(query: "Query | Publication", show: str | None, title: str) -> Iterator[None]:
    with outcome.charging(show), progress(query, title):
        yield


def _charged(query: "Query | Publication") -> tuple[str, str]:
    """The ledger and the data set that a query charges."""
    return query.dataset.ledger.name, str(query.dataset.dataset)


def ledger_of(file: "QueryFile") -> Any:
    """The ledger that a query file names, opened; None if it names none."""
    if file.data.ledger is None:
        if file.data.dataset is not None:
            raise ValueError("ledger must be given where a data set is named: that name is the one in the ledger")
        return None
    if file.data.dataset is None:
        raise ValueError("dataset must be given with a ledger: the name of the data set there")
    from osgt.ledger import Ledger  # noqa: PLC0415 - the extra "tables"

    return Ledger(file.data.ledger)
