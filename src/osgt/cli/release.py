"""`osgt release`: a private table from a file, a database or a cluster."""

import glob
import os
import shlex
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from osgt.cli import outcome
from osgt.cli.progress import progress
from osgt.cli.released import release_text
from osgt.cli.shared import QueryPath, clear_errors, command_target, warn
from osgt.cli.table_options import BUDGET, OUTPUT, Asked, takes_a_table
from osgt.files import Target, written_together
from osgt.noise.error import objective_of

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
    epsilon: Annotated[
        float | None, typer.Option(metavar="NUMBER", help="ε of the release, in total.", rich_help_panel=BUDGET)
    ] = None,
    delta: Annotated[
        float | None, typer.Option(metavar="NUMBER", help="δ of the release, in total.", rich_help_panel=BUDGET)
    ] = None,
    ledger: Annotated[
        str | None,
        typer.Option(metavar="LEDGER", help="Ledger to charge: a file or a database URL.", rich_help_panel=BUDGET),
    ] = None,
    dataset: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Name of the data set in the ledger.", rich_help_panel=BUDGET),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the table: .parquet, .csv or .xlsx.", rich_help_panel=OUTPUT),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a page for people: .html.", rich_help_panel=OUTPUT)
    ] = None,
    title: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="Title of the report. Publisher, labels, … are keys of [report] in a query file.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    confidence: Annotated[
        float | None,
        typer.Option(metavar="NUMBER", help="Confidence of the noise intervals (0.95).", rich_help_panel=OUTPUT),
    ] = None,
    objective: Annotated[
        str | None,
        typer.Option(
            metavar="OBJECTIVE",
            help="What to minimise: interval (the default), variance, mean_abs, quantile:P or max:N.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    measure_left_out: Annotated[
        bool | None,
        typer.Option(
            "--measure-left-out/--no-measure-left-out",
            help="Whether to measure what the bounds left out, and tell it, for 2 % of the variance.",
            rich_help_panel=OUTPUT,
            show_default=False,
        ),
    ] = None,
    nonnegative: Annotated[
        bool,
        typer.Option(
            "--nonnegative",
            help="Show no negative counts, which makes small groups too large on average; totals stay.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
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
        file = asked.query_file(
            query,
            data={"ledger": ledger, "dataset": dataset},
            budget={"epsilon": epsilon, "delta": delta},
            output={
                "out": None if out is None else os.fspath(out),
                "report": None if report is None else os.fspath(report),
                "confidence": confidence,
                "objective": objective,
                "nonnegative": nonnegative or None,
                "measure_left_out": measure_left_out,
            },
            report={"title": title},
        )
        targets = _targets(file, overwrite=overwrite, query_file=query)
        made = _run(file, targets)
        paths = [Path(target.path) for target in targets.values()]
        outcome.finish(made, paths, lambda: release_text(made, file.output, as_json=as_json))
        warn(made.left_out_warnings)


def _run(file: "QueryFile", targets: dict[str, Target]) -> "Release | PublicationRelease":
    """The release of a query file, written to its files. What can be checked is checked before data are read."""
    for name, value in (("epsilon", file.budget.epsilon), ("delta", file.budget.delta)):
        if value is None:
            raise ValueError(f"{name} must be given")
    for target in targets.values():
        target.checked()
    query = file.asked(ledger_of(file))
    try:
        return _released(file, query, targets)
    finally:
        with suppress(Exception):  # whatever it is, it says nothing about the release
            query.dataset.close()


def _targets(file: "QueryFile", *, overwrite: bool, query_file: Path | None) -> dict[str, Target]:
    """The files that a release writes; not even --overwrite replaces what it reads or charges."""
    from osgt.tables.output import SUFFIXES  # noqa: PLC0415 - the extra "tables"
    from osgt.tables.published import with_descriptions  # noqa: PLC0415 - the extra "tables"

    keys = [file.groups.public_keys, *(table.groups.public_keys for table in file.table)]
    read = [file.data.source, file.data.ledger, *keys]
    apart = [text for text in read if isinstance(text, str)]
    if query_file is not None:
        apart.append(glob.escape(os.fspath(query_file)))
    out, report = file.output.out, file.output.report
    files: dict[str, str | Path] = {} if report is None else {"report": report}
    if out is not None:
        files = {**(_table_files(file, out) if file.table else {"out": out}), **files}
    targets = {
        key: command_target(_option(key), Path(path), overwrite=overwrite, suffixes=SUFFIXES[_option(key)], apart=apart)
        for key, path in files.items()
    }
    return with_descriptions(targets)


def _table_files(file: "QueryFile", out: str) -> dict[str, Path]:
    from osgt.tables.output import out_key  # noqa: PLC0415 - the extra "tables"
    from osgt.tables.publication_release import table_files  # noqa: PLC0415 - the extra "tables"

    return {out_key(name): path for name, path in table_files([table.name for table in file.table], out).items()}


def _option(key: str) -> str:
    return "report" if key == "report" else "out"


def _released(
    file: "QueryFile", query: "Query | Publication", targets: dict[str, Target]
) -> "Release | PublicationRelease":
    budget, output = file.budget.given(), file.output
    options: dict[str, Any] = {
        "confidence": output.confidence,
        "objective": objective_of(output.objective),
        "measure_left_out": output.measure_left_out,
    }
    plan = query.plan(**budget, **options)
    engine = query.dataset.table.get_backend().name
    from osgt.tables.output import check_writable, out_key  # noqa: PLC0415 - the extra "tables"

    if file.output.out is not None:
        for each in query.tables.values():
            check_writable(each, file.output.out)
    about = query.about(file.report.texts())
    warn(plan.warnings)
    show = None if query.dataset.ledger is None else shlex.join(["osgt", "ledger", "show", *_charged(query)])
    # The files are begun first: what cannot be written is not charged.
    made = None
    try:
        with written_together(targets) as places:
            title = f"{engine}: bounding and adding up, then noise of ε = {plan.epsilon:g}"
            with outcome.charging(show), progress(query, title):
                made = query.release(**budget, **options, nonnegative=output.nonnegative)
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
