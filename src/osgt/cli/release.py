"""`osgt release`: private tables from a query file or options, or with --dry-run all that it would refuse."""

import json
import os
import shlex
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from osgt.cli import outcome
from osgt.cli.options import OUTPUT, Asked, takes_a_table
from osgt.cli.outcome import release_text
from osgt.cli.shared import QueryPath, clear_errors, command_target, print_plan, progress, saved, say, terminal, warn
from osgt.facts import wording
from osgt.support.errors import ArgumentError
from osgt.support.files import Target, words_of, written_together
from osgt.support.numbers import counted

if TYPE_CHECKING:
    from osgt.api.publish import AnyQuery, Outcome
    from osgt.api.query_file import Request
    from osgt.query.about import About
    from osgt.query.file.model import QueryFile


class _DryError(Exception):
    """Ends the files that were begun, to see whether they can be: none takes its place."""


def dry_run(request: "Request", *, as_json: bool) -> None:
    """Refuse what the release would refuse, or print what it would charge and write."""
    query, plan, targets = request.query, request.plan, request.targets
    query.check_release(plan)
    with suppress(_DryError), written_together(targets):
        raise _DryError
    data = query.dataset
    ledger = None if data.ledger is None else data.ledger.name
    files = [os.fspath(target.path) for target in targets.values()]
    if as_json:
        would: dict[str, Any] = {"dry_run": True, "ledger": ledger, "dataset": data.dataset, "files": files}
        typer.echo(json.dumps({**would, "plan": plan.to_dict()}, indent=2, ensure_ascii=False))
        return
    console = terminal()
    print_plan(console, plan)
    charged = "no ledger" if ledger is None else f"{data.dataset!r} in {ledger}, where it fits now"
    say(console, f"Would charge: {wording.budget(plan.epsilon, plan.delta)} to {charged}.")
    say(console, f"Would write: {', '.join(files) if files else 'no file; the table would be printed'}.")
    say(console, "This was a dry run: no data were read, nothing was charged and nothing was written.")


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
            help="Write all that was asked for as a query file, with the limits that were chosen, to repeat it with "
            "--query: .toml.",
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

    Example: osgt release flights.parquet --unit tailnum --units 4000 --by dest --by month --count --sum distance
    --epsilon 1 --delta 1e-8 --out release.parquet --report release.html

    Limits that are not given (--max-rows, --max-groups, the total of --sum) are chosen privately, within this budget.

    Exit codes: 0 the table is out; 2 refused, and nothing was charged; 3 nothing came out, and the budget was charged
    or may have been; 4 the table is made, but it is kept elsewhere or the ledger could not be told (the message says
    what to run).
    """
    with clear_errors():
        file = asked.query_file(query, reads=not dry)
        from osgt.api.query_file import files_used  # noqa: PLC0415 - the extra "tables"

        targets = _targets(file, overwrite=overwrite, query_file=query)
        with saved("--save-query", file, save_query, apart=files_used(file, query), overwrite=overwrite) as save:
            published, about = _run(file, targets, dry=dry, as_json=as_json)
            if published is not None:
                _save_limits(save, file, published)
        if published is not None:
            made = published.release
            outcome.finish(published, lambda: release_text(made, file, about, as_json=as_json))
            warn(made.data_warnings)
        if save_query is not None and not as_json:
            typer.echo(f"Query file: {save_query}")


def _save_limits(save: Callable[["QueryFile"], None], file: "QueryFile", published: "Outcome") -> None:
    """Write the limits that the release has chosen into the query file; the release is out, even if that fails."""
    from osgt.api.query_file import fill_limits  # noqa: PLC0415 - the extra "tables"

    try:
        save(fill_limits(file, {name: table.query for name, table in published.release.tables.items()}))
    except OSError as error:
        warn([f"The limits that were chosen could not be written into the query file: {words_of(error)}."])


def _run(file: "QueryFile", targets: dict[str, Target], *, dry: bool, as_json: bool) -> "tuple[Outcome | None, About]":
    """Release a query file into its files. What can be checked is checked before data are read."""
    from osgt.api.query_file import Request  # noqa: PLC0415 - the extra "tables"

    for name, value in (("epsilon", file.budget.epsilon), ("delta", file.budget.delta)):
        if value is None:
            raise ArgumentError(f"{name} must be given", argument=name)
    for target in targets.values():
        target.checked()
    request = Request.of(file, ledger_of(file), targets)
    try:
        warn(request.plan.cautions)
        _tell_steward(request.query, dry=dry)
        if dry:
            dry_run(request, as_json=as_json)
            return None, request.about
        return _publish(request), request.about
    finally:
        request.close()


def _targets(file: "QueryFile", *, overwrite: bool, query_file: Path | None) -> dict[str, Target]:
    """The files that a release writes; not even --overwrite replaces what it reads or charges."""
    from osgt.api.query_file import files_used, release_targets  # noqa: PLC0415 - the extra "tables"

    apart = files_used(file, query_file)
    return release_targets(
        file,
        lambda key, path, suffixes: command_target(key, path, overwrite=overwrite, suffixes=suffixes, apart=apart),
    )


def _publish(request: "Request") -> "Outcome":
    """Publish, with a bar while the engine works; say what became of it where it fails after the charge."""
    from osgt.api.publish import UnwrittenError  # noqa: PLC0415 - the extra "tables"

    query, data = request.query, request.query.dataset
    show = None if data.ledger is None else shlex.join(["osgt", "ledger", "show", data.ledger.name, str(data.dataset)])
    title = f"{data.engine.title}: adding up within limits, then noise of ε = {request.plan.epsilon:g}"
    try:
        with outcome.charging(show), ExitStack() as bar:

            def observe(step: str) -> None:
                if step == "charge":
                    bar.enter_context(progress(query, title))
                elif step == "write":
                    bar.close()

            return request.publish(observe)
    except UnwrittenError as error:
        raise outcome.unwritten(error) from error.__cause__


def _tell_steward(query: "AnyQuery", *, dry: bool) -> None:
    """Say how a CSV file is checked, and how many of its rows nobody can be found for: on standard error alone."""
    data = query.dataset
    if data.source.fields is None:
        return
    console = terminal(stderr=True)
    say(
        console,
        "What does not fit its declared type in a CSV file counts as missing. To check the file first, run "
        "`osgt preview` with the same options: it counts what cannot be read (NOT PRIVATE).",
    )
    if dry or data.unit.each_row:
        return
    from osgt.limits.misfits import without_unit  # noqa: PLC0415 - the extra "tables"

    with suppress(Exception):  # what goes wrong here may quote the data, and would go wrong in the release
        with progress(query, "counting rows without a unit"):
            missing, rows = without_unit(data)
        if missing:
            say(
                console,
                f"NOT PRIVATE, for you alone: {missing:,} of {counted(rows, 'row')} have no unit that can be read "
                f"({data.unit.in_words}), and are ignored. Do not publish this.",
            )


def ledger_of(file: "QueryFile") -> Any:
    """The ledger that a query file names, opened; None if it names none."""
    if file.data.ledger is None:
        if file.data.dataset is not None:
            raise ArgumentError(
                "ledger must be given where a data set is named: that name is the one in the ledger", argument="ledger"
            )
        return None
    if file.data.dataset is None:
        raise ArgumentError("dataset must be given with a ledger: the name of the data set there", argument="dataset")
    from osgt.ledger import Ledger  # noqa: PLC0415 - the extra "tables"

    return Ledger(file.data.ledger)
