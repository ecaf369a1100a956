"""`osgt release`: private tables from a query file or options, or with --dry-run all that it would refuse.

The outcome after the charge is told truthfully: in place, kept elsewhere, printed, settled, or nothing.
From the charge on an error is never "refused, nothing was charged" any more. Once noise was added, errors depend on
nothing but what may be published, so they can be shown; before that they cannot.

Below stands what is printed of a release: the first rows, the statement, and where the files are.
"""

import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from osgt.cli.options import OUTPUT, Asked, takes_a_table
from osgt.cli.shared import (
    LEFT_TO_DO,
    NOTHING_RELEASED,
    QueryPath,
    clear_errors,
    command_target,
    complain,
    print_plan,
    progress,
    saved,
    say,
    say_wrapped,
    terminal,
    warn,
)
from osgt.facts import wording
from osgt.support.errors import ArgumentError
from osgt.support.files import Target, words_of, written_together
from osgt.support.text import counted, listed, percent

if TYPE_CHECKING:
    from osgt.api.publish import AnyQuery, Outcome, UnwrittenError
    from osgt.api.query_file import Request
    from osgt.api.release import AnyRelease, Release
    from osgt.api.series import Instalment
    from osgt.query.about import About
    from osgt.query.file.model import OutputTable, QueryFile


@contextmanager
def charging(show: str | None) -> Iterator[None]:
    """Around the charge and the reading of the data: if it fails after the charge, nothing comes out.

    `show` is the command that shows the ledger; None if there is none.
    """
    from osgt.release.choice import TooFewUnitsError  # noqa: PLC0415 - the extra "tables"
    from osgt.release.measuring import NothingReleasedError  # noqa: PLC0415 - the extra "tables"

    try:
        yield
    except (NothingReleasedError, TooFewUnitsError) as error:
        raise _nothing(str(error)) from None
    except KeyboardInterrupt:
        if show is None:
            raise
        raise _nothing(
            f"Interrupted: nothing was released. If the budget was charged by then, the charge stands: see `{show}`."
        ) from None
    except OSError as error:
        if show is None or not _is_lost(error):
            raise
        raise _nothing(str(error)) from None


def _is_lost(error: OSError) -> bool:
    from osgt.ledger import LostAnswerError  # noqa: PLC0415 - the extra "tables"

    return isinstance(error, LostAnswerError)


def _nothing(message: str) -> typer.Exit:
    complain(message)
    return typer.Exit(NOTHING_RELEASED)


def unwritten(error: "UnwrittenError") -> typer.Exit:
    """Say where finished tables are kept that could not be written or printed."""
    complain(str(error))
    return typer.Exit(LEFT_TO_DO if error.is_kept else NOTHING_RELEASED)


def finish(published: "Outcome", text: Callable[[], str]) -> None:
    """Print a release whose files are in place; one without files is out, and settled, when it was printed."""
    from osgt.api.charge import settle_or_explain  # noqa: PLC0415 - the extra "tables"
    from osgt.api.publish import rescue_unwritten  # noqa: PLC0415 - the extra "tables"

    left_to_do = published.left_to_do
    try:
        _print(text())
    except (Exception, KeyboardInterrupt) as error:
        if not published.files:
            what = "the table could not be printed, or not all of it"
            raise unwritten(rescue_unwritten(published.release, what, error)) from None
        warn([f"The table is in place, but it could not be printed: {_why(error)}."])
    if not published.files:
        left_to_do = settle_or_explain(published.release, (), "standard output")
    if left_to_do is not None:
        warn([left_to_do])
        raise typer.Exit(LEFT_TO_DO)


def _why(reason: BaseException) -> str:
    return "interrupted" if isinstance(reason, KeyboardInterrupt) else words_of(reason)


def _print(text: str) -> None:
    """Print, and notice if that fails: nobody reads the pipe any more, or the disk behind it is full."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError:
        # What is left in the buffer would fail again when Python ends, with another exit code.
        with suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stdout.fileno())
            os.close(nowhere)
        raise


def release_text(made: "AnyRelease", file: "QueryFile", about: "About", *, as_json: bool) -> str:
    """Compose the text that is printed of a release."""
    if as_json:
        rows = {name: table.rows(len(table)) for name, table in made.tables.items()}
        plain = {"table": rows.get("", rows), **made.statement.to_dict()}
        return json.dumps(plain, indent=2, default=str, ensure_ascii=False) + "\n"
    console = terminal()
    with console.capture() as captured:
        _show(console, made, file, about)
    return captured.get()


def _files_of(path: str, tables: list[str]) -> str:
    """The files that a path with or without {table} stands for."""
    return listed(list(dict.fromkeys(path.replace("{table}", name) for name in tables)))


def _show(console: Console, made: "AnyRelease", file: "QueryFile", about: "About") -> None:
    from osgt.render.csvw import SUFFIX, has_escaped_text  # noqa: PLC0415 - the extra "tables"
    from osgt.render.summary import brief  # noqa: PLC0415 - the extra "tables"

    output = file.output
    for name, table in made.tables.items():
        if name:
            say(console, f"{name}:")
        _show_table(console, table, about)
    for line in brief(made):
        say_wrapped(console, line)
    _show_files(console, made, output)
    if (output.out or "").lower().endswith(".csv"):
        say(console, f"Columns and the statement, for programs: {output.out}{SUFFIX}")
        if any(has_escaped_text(released.table) for released in made.tables.values()):
            console.print(wording.ESCAPED, highlight=False, soft_wrap=True)


def _show_files(console: Console, made: "AnyRelease", output: "OutputTable") -> None:
    """Say where tables and report are."""
    for what, path in (("Table" if "" in made.tables else "Tables", output.out), ("Report", output.report)):
        if path is not None:
            say(console, f"{what}: {_files_of(path, list(made.tables))}")
    if output.out is not None and "" in made.tables and not output.out.lower().endswith(".xlsx"):
        say(console, f"The whole statement: osgt statement {shlex.quote(output.out)}")


def _show_table(console: Console, made: "Release", about: "About") -> None:
    """Print a table with no more digits than the noise leaves."""
    from osgt.render.table_cards import release_tables, signs_explained  # noqa: PLC0415 - the extra "tables"

    what = counted(len(made), "row with totals", "rows with totals") if made.query.groups.levels else None
    say(console, f"{what or counted(len(made), 'group')}, {percent(made.plan.confidence)} intervals")
    shown = release_tables(made, about, console.width)
    for table in shown if len(made) else ():
        say(console, "\n".join(["", *filter(None, [table.caption]), *table.lines()]))
    if len(made) == 0:
        say(
            console,
            f"No group reached the threshold of {made.plan.threshold:,} {made.plan.chosen_by}: use coarser groups, "
            "public keys or a larger ε.",
        )
    say(console, "")
    for text in (*signs_explained(made, shown), *made.mostly_noise.sentences):
        say(console, text)


class _DryError(Exception):
    """Ends the files that were begun, to see whether they can be: none takes its place."""


def dry_run(request: "Request", *, as_json: bool) -> None:
    """Refuse what the release would refuse, or print what it would charge and write."""
    from osgt.api.charge import check_corrected  # noqa: PLC0415 - the extra "tables"

    query, plan, targets = request.query, request.plan, request.targets
    check_corrected(query.dataset, request.presentation.corrects)
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
    say(console, "This was a dry run: no data was read, nothing was charged and nothing was written.")


DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Check everything and print the plan, what would be charged and what would be written; read no data, "
        "charge and write nothing.",
        rich_help_panel=OUTPUT,
    ),
]
SaveQuery = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Write all that was asked for as a query file, with the limits that were chosen, to repeat it with "
        "--query: .toml.",
        rich_help_panel=OUTPUT,
    ),
]
OverwriteFiles = Annotated[bool, typer.Option("--overwrite", help="Replace files that exist.", rich_help_panel=OUTPUT)]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print the table and the statement as JSON.", rich_help_panel=OUTPUT)
]


@takes_a_table
def release(
    asked: Asked,
    query: QueryPath = None,
    dry: DryRun = False,
    save_query: SaveQuery = None,
    overwrite: OverwriteFiles = False,
    as_json: AsJson = False,
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
        release_file(file, query, dry=dry, save_query=save_query, overwrite=overwrite, as_json=as_json)


def release_file(
    file: "QueryFile",
    query: Path | None,
    *,
    dry: bool,
    save_query: Path | None,
    overwrite: bool,
    as_json: bool,
    text: Callable[..., str] | None = None,
) -> None:
    """Release what a query file asks for, which may have been read from a path, and print it: `text` composes that."""
    from osgt.api.query_file import files_used  # noqa: PLC0415 - the extra "tables"

    targets = _targets(file, overwrite=overwrite, query_file=query)
    with saved("--save-query", file, save_query, apart=files_used(file, query), overwrite=overwrite) as save:
        published, about = _run(file, targets, dry=dry, as_json=as_json)
        if published is not None:
            _save_limits(save, file, published)
    if published is not None:
        made = published.release
        finish(published, lambda: (text or release_text)(made, file, about, as_json=as_json))
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
        with charging(show), ExitStack() as bar:

            def observe(step: str) -> None:
                if step == "charge":
                    bar.enter_context(progress(query, title))
                elif step == "write":
                    bar.close()

            return request.publish(observe)
    except UnwrittenError as error:
        raise unwritten(error) from error.__cause__


def _tell_steward(query: "AnyQuery", *, dry: bool) -> None:
    """Say how a CSV file is checked, and how many of its rows nobody can be found for: on standard error alone."""
    data = query.dataset
    if data.source.fields is None:
        return
    console = terminal(stderr=True)
    if data.texts is not None:
        say_wrapped(
            console,
            "Values that do not fit their declared types count as missing; `osgt preview` with the same options counts "
            "them (NOT PRIVATE).",
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


def publish(
    query: Annotated[Path, typer.Argument(metavar="FILE", help="Query file (TOML) of a series.")],
    due: Annotated[
        bool, typer.Option("--due", help="Print nothing if nothing is due: for cron, which sends what is printed.")
    ] = False,
    period: Annotated[
        str | None, typer.Option("--period", metavar="PERIOD", help="Only this instalment or total, if it is due.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the instalments as JSON.")] = False,
) -> None:
    """Publish what is due of a series: a table every month, from one plan and one charge.

    Example: osgt publish births.toml --due

    The first run charges the budget for all instalments. An instalment is due when its period is over, and is published
    once: run the same command again after a crash, and it goes on with the same numbers. Totals of longer periods, if
    the query file asks for them, follow once their instalments are out.

    Exit codes: 0 all that is due is out; 2 refused, and nothing new was charged; 3 an instalment could not be made.
    """
    with clear_errors():
        from osgt.api.series import Series  # noqa: PLC0415 - the extra "tables"
        from osgt.query.file.reading import read_query_file  # noqa: PLC0415 - the extra "tables"

        file = read_query_file(query)
        if not file.series.given():
            raise ArgumentError(
                "query: there is no [series] in this file: publish it with `osgt release --query`", argument="query"
            )
        instalments: list[Instalment] = []
        ledger = ledger_of(file)
        console = terminal()
        try:
            with charging(f"osgt ledger show {file.data.ledger} {file.data.dataset}"):
                for one in Series.of(file, ledger).publish(date.today(), only=period):
                    instalments.append(one)
                    if not as_json and (not due or one.status == "published now"):
                        say(console, _line(one))
        finally:
            if ledger is not None:
                ledger.close()
    now = [one for one in instalments if one.status == "published now"]
    if as_json:
        plain = [
            {**vars(one), "due": one.due.isoformat(), "files": list(map(os.fspath, one.files))} for one in instalments
        ]
        typer.echo(json.dumps(plain, indent=2, ensure_ascii=False))
    elif not due:
        say(console, f"{counted(len(now), 'instalment')} published now, of {len(instalments):,}.")


def _line(one: "Instalment") -> str:
    """Say what became of an instalment."""
    period, status, files = one.period, one.status, one.files
    if status == "not due":
        return f"{period}: due on {one.due}"
    if status == "incomplete":
        return f"{period}: some of its instalments are not published yet"
    return f"{period}: {status}{': ' if files else ''}{', '.join(map(os.fspath, files))}"
