"""`osgt release`: a private table from a file, a database or a cluster."""

import glob
import os
import shlex
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from osgt.cli import outcome
from osgt.cli.dry_run import dry_run
from osgt.cli.planned import plan_options
from osgt.cli.progress import progress
from osgt.cli.release_options import OUTPUT
from osgt.cli.released import release_text
from osgt.cli.saved_query import saved
from osgt.cli.shared import QueryPath, clear_errors, command_target, warn
from osgt.cli.table_options import Asked, takes_a_table
from osgt.files import Target, written_together

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
        targets = _targets(file, overwrite=overwrite, query_file=query)
        with saved(file, save_query, apart=_used(file, query), overwrite=overwrite):
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
    from osgt.tables.output import SUFFIXES  # noqa: PLC0415 - the extra "tables"
    from osgt.tables.published import with_descriptions  # noqa: PLC0415 - the extra "tables"

    apart = _used(file, query_file)
    out, report = file.output.out, file.output.report
    files: dict[str, str | Path] = {} if report is None else {"report": report}
    if out is not None:
        files = {**(_table_files(file, out) if file.table else {"out": out}), **files}
    targets = {
        key: command_target(_option(key), Path(path), overwrite=overwrite, suffixes=SUFFIXES[_option(key)], apart=apart)
        for key, path in files.items()
    }
    return with_descriptions(targets)


def _used(file: "QueryFile", query_file: Path | None) -> list[str]:
    """What a release reads or charges."""
    keys = [file.groups.public_keys, *(table.groups.public_keys for table in file.table)]
    found = [text for text in (file.data.source, file.data.ledger, *keys) if isinstance(text, str)]
    return found if query_file is None else [*found, glob.escape(os.fspath(query_file))]


def _table_files(file: "QueryFile", out: str) -> dict[str, Path]:
    from osgt.tables.output import out_key  # noqa: PLC0415 - the extra "tables"
    from osgt.tables.publication_release import table_files  # noqa: PLC0415 - the extra "tables"

    return {out_key(name): path for name, path in table_files([table.name for table in file.table], out).items()}


def _option(key: str) -> str:
    return "report" if key == "report" else "out"


def _released(
    file: "QueryFile", query: "Query | Publication", targets: dict[str, Target], *, dry: bool, as_json: bool
) -> "Release | PublicationRelease | None":
    budget, options = file.budget.given(), plan_options(file)
    plan = query.plan(**budget, **options)
    engine = query.dataset.table.get_backend().name
    from osgt.tables.output import check_writable, out_key  # noqa: PLC0415 - the extra "tables"

    if file.output.out is not None:
        for each in query.tables.values():
            check_writable(each, file.output.out)
    about = query.about(file.report.texts())
    warn(plan.warnings)
    if dry:
        dry_run(query, plan, targets, as_json=as_json)
        return None
    show = None if query.dataset.ledger is None else shlex.join(["osgt", "ledger", "show", *_charged(query)])
    # The files are begun first: what cannot be written is not charged.
    made = None
    try:
        with written_together(targets) as places:
            title = f"{engine}: bounding and adding up, then noise of ε = {plan.epsilon:g}"
            with outcome.charging(show), progress(query, title):
                made = query.release(**budget, **options, nonnegative=file.output.nonnegative)
            made.fill(targets, places, about)
    except (Exception, KeyboardInterrupt) as error:
        if made is None:
            raise
        out = [Path(targets[key].path) for key in map(out_key, query.tables) if key in targets]
        raise outcome.kept(made, "the files could not be written", error, out=out, about=about) from error
    return made


def _charged(query: "Query | Publication") -> tuple[str, str]:
    """The ledger and the data set that a query charges."""
    return query.dataset.ledger.name, str(query.dataset.dataset)


def ledger_of(file: "QueryFile") -> Any:
    """The ledger that a query file names, opened; None if it names none."""
    if file.data.ledger is None:
        if file.data.dataset is not None:
            raise ValueError("dataset is the name in a ledger: give ledger as well")
        return None
    if file.data.dataset is None:
        raise ValueError("dataset must be given with ledger: the name of the data set there")
    from osgt.ledger import Ledger  # noqa: PLC0415 - the extra "tables"

    return Ledger(file.data.ledger)
