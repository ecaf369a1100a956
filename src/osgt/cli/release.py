"""`osgt release`: a private table from a file, a database or a cluster. `osgt preview`: what its bounds cut off."""

import glob
import json
import math
import os
import shlex
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from osgt.cli import outcome
from osgt.cli.shared import QueryFile, clear_errors, command_target, warn
from osgt.files import Target, written_together
from osgt.noise.error import objective_of

if TYPE_CHECKING:
    from osgt.tables.job import Job
    from osgt.tables.query import Query
    from osgt.tables.release import Release

#: Most rows that are printed.
_PRINTED = 20

#: Seconds between looks at how far the engine is.
_LOOK = 0.2


def _engine_names() -> str:
    try:
        from osgt.tables.engines import engine_names  # noqa: PLC0415 - not without the extra "tables"
    except ImportError:
        return "none is installed"
    return ", ".join(engine_names())


_OPTIONS = "Data", "Groups and bounds", "Aggregates", "Budget", "Output"


def release(
    source: Annotated[
        str | None, typer.Argument(help="Parquet, CSV or database file, or a glob of files; or use --query.")
    ] = None,
    query: QueryFile = None,
    unit: Annotated[
        str | None, typer.Option(help="Column that names who is protected.", rich_help_panel=_OPTIONS[0])
    ] = None,
    where: Annotated[
        list[str] | None, typer.Option(help="Condition in SQL on each row.", rich_help_panel=_OPTIONS[0])
    ] = None,
    types: Annotated[
        list[str] | None,
        typer.Option(
            "--type",
            help="COLUMN:TYPE of a CSV file, as age:int64; int64, float64, decimal(p, s), boolean, date, timestamp or "
            "string (what is not declared); may be repeated.",
            rich_help_panel=_OPTIONS[0],
        ),
    ] = None,
    delimiter: Annotated[
        str | None, typer.Option(help="What separates the fields of a CSV file (,).", rich_help_panel=_OPTIONS[0])
    ] = None,
    table: Annotated[str | None, typer.Option(help="Table of a database.", rich_help_panel=_OPTIONS[0])] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            help=f"What reads files, if not the first of these: {_engine_names()}.",
            rich_help_panel=_OPTIONS[0],
        ),
    ] = None,
    master: Annotated[
        str | None,
        typer.Option(help="Where the engine runs, as local[4] or the URL of a cluster.", rich_help_panel=_OPTIONS[0]),
    ] = None,
    url: Annotated[
        str | None, typer.Option(help="URL of a database, in place of a file.", rich_help_panel=_OPTIONS[0])
    ] = None,
    neighbours: Annotated[
        str | None, typer.Option(help="add_remove (the default) or change_one.", rich_help_panel=_OPTIONS[0])
    ] = None,
    by: Annotated[
        list[str] | None, typer.Option(help="Column to group by; may be repeated.", rich_help_panel=_OPTIONS[1])
    ] = None,
    max_groups: Annotated[
        int | None, typer.Option(help="Most groups that one unit counts in.", rich_help_panel=_OPTIONS[1])
    ] = None,
    max_rows_per_group: Annotated[
        int | None, typer.Option(help="Most rows of one unit that count in a group.", rich_help_panel=_OPTIONS[1])
    ] = None,
    public_keys: Annotated[
        Path | None, typer.Option(help="CSV or Parquet file with the groups to show.", rich_help_panel=_OPTIONS[1])
    ] = None,
    count: Annotated[bool, typer.Option("--count", help="Number of rows.", rich_help_panel=_OPTIONS[2])] = False,
    count_units: Annotated[
        bool, typer.Option("--count-units", help="Number of units.", rich_help_panel=_OPTIONS[2])
    ] = False,
    sums: Annotated[
        list[str] | None, typer.Option("--sum", help="COLUMN:LOW:HIGH", rich_help_panel=_OPTIONS[2])
    ] = None,
    means: Annotated[
        list[str] | None, typer.Option("--mean", help="COLUMN:LOW:HIGH", rich_help_panel=_OPTIONS[2])
    ] = None,
    variances: Annotated[
        list[str] | None, typer.Option("--variance", help="COLUMN:LOW:HIGH", rich_help_panel=_OPTIONS[2])
    ] = None,
    histograms: Annotated[
        list[str] | None, typer.Option("--histogram", help="COLUMN:EDGE:EDGE:…", rich_help_panel=_OPTIONS[2])
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="ε of the release, in total.", rich_help_panel=_OPTIONS[3])
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="δ of the release, in total.", rich_help_panel=_OPTIONS[3])
    ] = None,
    ledger: Annotated[
        str | None, typer.Option(help="Ledger to charge: a file or a database URL.", rich_help_panel=_OPTIONS[3])
    ] = None,
    dataset: Annotated[
        str | None, typer.Option(help="Name of the data set in the ledger.", rich_help_panel=_OPTIONS[3])
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write the table: .parquet or .csv.", rich_help_panel=_OPTIONS[4])
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write a page for people: .html.", rich_help_panel=_OPTIONS[4])
    ] = None,
    confidence: Annotated[
        float | None, typer.Option(help="Confidence of the noise intervals (0.95).", rich_help_panel=_OPTIONS[4])
    ] = None,
    objective: Annotated[
        str | None,
        typer.Option(
            help="What to minimise: interval (the default), variance, mean_abs, quantile:P or max:N.",
            rich_help_panel=_OPTIONS[4],
        ),
    ] = None,
    clamp: Annotated[
        bool, typer.Option("--clamp", help="Show negative counts as 0.", rich_help_panel=_OPTIONS[4])
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace files that exist.", rich_help_panel=_OPTIONS[4])
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the table and the statement as JSON.", rich_help_panel=_OPTIONS[4])
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
        from osgt.tables.job import Job, read_job  # noqa: PLC0415 - the extra "tables"

        job = Job.of({"data": {"source": "", "privacy_unit": ""}}) if query is None else read_job(query)
        given: dict[str, dict[str, Any]] = {
            "data": {
                "source": source if url is None else url,
                "privacy_unit": unit,
                "where": where,
                "types": _types(job, types),
                "delimiter": delimiter,
                "table": table,
                "engine": engine,
                "master": master,
                "neighbours": neighbours,
                "ledger": ledger,
                "dataset": dataset,
            },
            "groups": {
                "by": by,
                "max_groups": max_groups,
                "max_rows_per_group": max_rows_per_group,
                "public_keys": None if public_keys is None else os.fspath(public_keys),
            },
            "budget": {"epsilon": epsilon, "delta": delta},
            "output": {
                "out": None if out is None else os.fspath(out),
                "report": None if report is None else os.fspath(report),
                "confidence": confidence,
                "objective": objective,
                "clamp": clamp or None,
            },
        }
        aggregates = _aggregates(count, count_units, sums, means, variances, histograms)
        if url is not None and source is not None:
            raise ValueError("give a source or --url, not both")
        job = _joined(job, given, aggregates)
        targets = _targets(job, overwrite=overwrite, query_file=query)
        made = run(job, targets)
        outcome.finish(
            made, [Path(target.path) for target in targets.values()], lambda: _text(made, job, as_json=as_json)
        )


def preview(query: Annotated[Path, typer.Option(help="Query file in TOML.")]) -> None:
    """Show what the bounds of a query cut off. NOT PRIVATE: exact figures, for whoever may see the data.

    Example: osgt preview --query query.toml
    """
    with clear_errors():
        from osgt.tables.job import read_job  # noqa: PLC0415 - the extra "tables"

        found = read_job(query).query()
        with closing(found.dataset), _progress(found, "counting what the bounds cut off"):
            shown = found.preview()
        Console().print(str(shown), highlight=False, soft_wrap=True)


def run(job: "Job", targets: dict[str, Target]) -> "Release":
    """The release that a job describes, written to its files. What can be checked is checked before data are read."""
    for name in ("epsilon", "delta"):
        if name not in job.budget:
            raise ValueError(f"{name} must be given")
    for target in targets.values():
        target.checked()
    query = job.query(_ledger(job))
    try:
        return _released(job, query, targets)
    finally:
        with suppress(Exception):  # whatever it is, it says nothing about the release
            query.dataset.close()


def _targets(job: "Job", *, overwrite: bool, query_file: Path | None) -> dict[str, Target]:
    """The files that a job writes; not even --overwrite replaces what it reads or charges."""
    from osgt.tables.output import SUFFIXES  # noqa: PLC0415 - the extra "tables"

    read = [job.data["source"], job.data.get("ledger"), job.groups.get("public_keys")]
    apart = [text for text in read if isinstance(text, str)]
    if query_file is not None:
        apart.append(glob.escape(os.fspath(query_file)))
    return {
        name: command_target(name, Path(job.output[name]), overwrite=overwrite, suffixes=SUFFIXES[name], apart=apart)
        for name in SUFFIXES
        if name in job.output
    }


def _released(job: "Job", query: "Query", targets: dict[str, Target]) -> "Release":
    options = {name: job.output[name] for name in ("confidence", "objective") if name in job.output}
    if "objective" in options:
        options["objective"] = objective_of(options["objective"])
    plan = query.plan(**job.budget, **options)
    engine = query.dataset.table.get_backend().name
    from osgt.tables.output import check_writable  # noqa: PLC0415 - the extra "tables"

    if "out" in job.output:
        check_writable(query, job.output["out"])
    warn(plan.warnings)
    show = None if query.dataset.ledger is None else shlex.join(["osgt", "ledger", "show", *_charged(query)])
    # The files are begun first: what cannot be written is not charged.
    made = None
    try:
        with written_together(targets) as places:
            title = f"{engine}: bounding and adding up, then noise of ε = {plan.epsilon:g}"
            with outcome.charging(show), _progress(query, title):
                made = query.release(**job.budget, **options, clamp=job.output.get("clamp", False))
            made.fill(targets, places)
    except (Exception, KeyboardInterrupt) as error:
        if made is None:
            raise
        out = Path(targets["out"].path) if "out" in targets else None
        raise outcome.kept(made, "the files could not be written", error, out=out) from error
    return made


def _charged(query: "Query") -> tuple[str, str]:
    """The ledger and the data set that a query charges."""
    return query.dataset.ledger.name, str(query.dataset.dataset)


def _ledger(job: "Job") -> Any:
    if "ledger" not in job.data:
        if "dataset" in job.data:
            raise ValueError("dataset is the name in a ledger: give ledger as well")
        return None
    if "dataset" not in job.data:
        raise ValueError("dataset must be given with ledger: the name of the data set there")
    from osgt.ledger import Ledger  # noqa: PLC0415 - the extra "tables"

    return Ledger(job.data["ledger"])


def _types(job: "Job", texts: list[str] | None) -> dict[str, str] | None:
    """The declared types of the file with those of the command line."""
    declared = dict(job.data.get("types", {}))
    for text in texts or []:
        column, colon, dtype = text.rpartition(":")
        if not (colon and column):
            raise ValueError(f"--type must be COLUMN:TYPE, as in age:int64, got {text!r}")
        declared[column] = dtype
    return declared or None


def _aggregates(
    count: bool,
    count_units: bool,
    sums: list[str] | None,
    means: list[str] | None,
    variances: list[str] | None,
    histograms: list[str] | None,
) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if count:
        found.append({"kind": "count"})
    if count_units:
        found.append({"kind": "count_units"})
    for kind, texts in (("sum", sums), ("mean", means), ("variance", variances)):
        for text in texts or []:
            column, *bounds = text.rsplit(":", 2)
            if len(bounds) != 2:
                raise ValueError(f"--{kind} must be COLUMN:LOW:HIGH, got {text!r}")
            found.append({"kind": kind, "column": column, "bounds": [_number(f"--{kind}", bound) for bound in bounds]})
    for text in histograms or []:
        column, *edges = text.split(":")
        numbers = [_number("--histogram", edge) for edge in edges]
        found.append({"kind": "histogram", "column": column, "edges": numbers})
    return found


def _number(option: str, text: str) -> float:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{option}: {text!r} is not a number") from None


def _joined(job: "Job", given: dict[str, dict[str, Any]], aggregates: Sequence[Mapping[str, Any]]) -> "Job":
    """The job of the file with what was given on the command line in place of what it says."""
    from osgt.tables.job import Job  # noqa: PLC0415 - the extra "tables"

    parts: dict[str, Any] = {}
    for part, values in given.items():
        parts[part] = {**getattr(job, part), **{name: v for name, v in values.items() if v not in (None, [])}}
    for name, option in (("source", "SOURCE (a file), --url or --query"), ("privacy_unit", "--unit")):
        if not parts["data"][name]:
            raise ValueError(f"{option} must be given")
    return Job.of({**parts, "aggregates": list(aggregates or job.aggregates)})


def _text(made: "Release", job: "Job", *, as_json: bool) -> str:
    """What is printed of a release."""
    if as_json:
        plain = {"table": made.rows(len(made)), **made.statement.to_dict()}
        return json.dumps(plain, indent=2, default=str, ensure_ascii=False) + "\n"
    console = Console()
    with console.capture() as captured:
        _show(console, made, job)
    return captured.get()


def _show(console: Console, made: "Release", job: "Job") -> None:
    from osgt.tables.output import has_escaped_text  # noqa: PLC0415 - the extra "tables"

    console.print(release_table(made))
    if len(made) == 0:
        console.print(
            f"No group reached the threshold of {made.plan.threshold:,} {made.plan.chosen_by}: use coarser groups, "
            "public keys or a larger ε.",
            highlight=False,
            soft_wrap=True,
        )
    if len(made) > _PRINTED:
        console.print(f"… and {len(made) - _PRINTED:,} more rows.", highlight=False)
    console.print(str(made.statement), highlight=False, soft_wrap=True)
    for name in ("out", "report"):
        if name in job.output:
            what = "Table" if name == "out" else "Report"
            console.print(f"{what}: {job.output[name]}", highlight=False, soft_wrap=True)
    if str(job.output.get("out", "")).lower().endswith(".csv") and has_escaped_text(made.table):
        console.print(
            "In that file, text that a spreadsheet could take for a formula begins with an apostrophe (').",
            highlight=False,
            soft_wrap=True,
        )


def release_table(made: "Release") -> Table:
    """The first rows for the terminal, with no more digits than the noise leaves."""
    keys = made.query.groups.by
    names = [name for aggregate in made.plan.aggregates for name in aggregate.names]
    shown = Table(title=f"{len(made):,} groups, {made.plan.confidence:.15g} noise intervals", title_justify="left")
    for key in keys:
        shown.add_column(key, overflow="fold")
    for name in names:
        shown.add_column(name, justify="right", overflow="fold")  # a number that is cut off is another number
    for row in made.rows(_PRINTED):
        cells = ["(null)" if row[key] is None else escape(str(row[key])) for key in keys]
        for name in names:
            value, low, high = (row[name + suffix] for suffix in ("", "_low", "_high"))
            digits = _digits(float(high) - float(low))
            cells.append(f"[bold]{value:,.{digits}f}[/] [dim]{low:,.{digits}f} to {high:,.{digits}f}[/]")
        shown.add_row(*cells)
    return shown


def _digits(length: float) -> int:
    """Digits after the point that an interval of this length gives a meaning to."""
    return 0 if length <= 0 else max(0, 2 - math.ceil(math.log10(length)))


@contextmanager
def _progress(query: "Query", title: str) -> Iterator[None]:
    """A bar while the engine works, if it says how far it is; otherwise only the clock moves."""
    engine, backend = query.dataset.engine, query.dataset.table.get_backend()
    columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    done = threading.Event()

    def watch(task: Any) -> None:
        while not done.wait(_LOOK):
            percent = engine.progress(backend)
            if percent is not None:
                bar.update(task, total=100, completed=percent)

    with bar:
        task = bar.add_task(title, total=None)
        watcher = threading.Thread(target=watch, args=(task,), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()
