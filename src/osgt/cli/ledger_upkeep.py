"""`osgt ledger` for owners and auditors: what happened, is the ledger what was written, and copies of it."""

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from osgt.cli.ledger import DatasetName, Location, Reason, ledger_at, read_json
from osgt.cli.shared import PICTURES, AsJson, Overwrite, check_matplotlib, clear_errors, command_target, terminal
from osgt.support.files import written
from osgt.support.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from osgt.ledger import Event, Overview, ReleaseRecord
    from osgt.support.files import Target


#: Releases that a terminal shows, unless told otherwise.
_PRINTED = 20


def show(
    location: Location,
    dataset: Annotated[str | None, typer.Argument(metavar="DATASET", help="Only this data set.")] = None,
    last: Annotated[
        int | None,
        typer.Option(
            metavar="NUMBER",
            help="How many of the latest releases to show (20 if not given; all with --json or --csv).",
        ),
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="From this day or time (UTC) on, as in 2026-05-03.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="Up to and including this day or time (UTC).")
    ] = None,
    actor: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only what this person or database user did.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a picture of the spending: .png, .svg or .pdf.")
    ] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV: a row for each release and event.")] = False,
) -> None:
    """Show what was published about a data set, what is left of its budget, and who did it.

    Example: osgt ledger show budget.db flights --since 2026-05-01 --actor ann
    """
    with clear_errors(), ledger_at(location) as book:
        from osgt.render import ledger as views  # noqa: PLC0415 - SQLAlchemy is an extra

        if as_json and as_csv:
            raise ValueError("give one of --json and --csv")
        chosen = Choice.of(since, until, actor, last)
        target = None if plot is None else _picture_target(plot, location, overwrite=overwrite)
        overviews = [book.overview(name) for name in ([dataset] if dataset is not None else book.datasets())]
        if target is not None and plot is not None:
            with written(target) as place:
                _draw_spending(place, plot.suffix, overviews)
        parts = [chosen.of_overview(one, None if as_json or as_csv else _PRINTED) for one in overviews]
        if as_json:
            typer.echo(views.as_json(parts))
        elif as_csv:
            typer.echo(views.as_csv(parts), nl=False)
        else:
            for view in views.terminal_lists(overviews, parts):
                terminal().print(view, soft_wrap=isinstance(view, str))
            if plot is not None:
                typer.echo(f"Picture: {plot}")


def _picture_target(plot: Path, location: str, *, overwrite: bool) -> "Target":
    """The checked place of the picture, before anything is read."""
    target = command_target("--plot", plot, overwrite=overwrite, suffixes=PICTURES, apart=[location])
    target.checked()
    check_matplotlib()
    return target


def _draw_spending(path: Path, suffix: str, overviews: "Sequence[Overview]") -> None:
    """Write the share of each budget that is used over time, as .png, .svg or .pdf."""
    from osgt.render.page import new_figure  # noqa: PLC0415 - matplotlib is an extra

    rows = max(len(overviews), 1)
    figure = new_figure(9, 0.6 + 2.4 * rows)
    panels = figure.subplots(rows, 1, squeeze=False)[:, 0]
    for axes, overview in zip(panels, overviews, strict=False):
        overview.plot(axes)
    figure.savefig(path, format=suffix[1:].lower(), dpi=160)


@dataclass(frozen=True)
class Choice:
    """The choice of the releases and events that are shown."""

    since: datetime | None
    until: datetime | None  # not included
    actor: str | None
    last: int | None  # of the releases

    @classmethod
    def of(cls, since: str | None, until: str | None, actor: str | None, last: int | None) -> "Choice":
        """The choice that the options describe."""
        if last is not None and last < 0:
            raise ValueError(f"--last must be at least 0, got {last}")
        start, end = _span("--since", since)[0], _span("--until", until)[1]
        if start is not None and end is not None and start >= end:
            raise ValueError(f"--since must not be after --until, got {since!r} and {until!r}")
        return cls(start, end, actor, last)

    def of_overview(self, overview: "Overview", usual: int | None = None) -> "Overview":
        """The overview with what is chosen, and of its releases the last ones: `usual` many unless told otherwise."""
        releases = [release for release in overview.releases if self._has(release)]
        last = usual if self.last is None else self.last
        if last is not None:
            releases = releases[max(len(releases) - last, 0) :]
        return replace(overview, releases=releases, events=[event for event in overview.events if self._has(event)])

    def _has(self, record: "ReleaseRecord | Event") -> bool:
        from osgt.ledger.history import moment  # noqa: PLC0415 - SQLAlchemy is an extra

        time = moment(record.time)
        if time is not None:  # what has no readable time is never hidden
            if self.since is not None and time < self.since:
                return False
            if self.until is not None and time >= self.until:
                return False
        names = (str(record.actor), str(record.actor).partition("@")[0], record.session_user)
        return self.actor is None or self.actor in names


def _span(option: str, text: str | None) -> tuple[datetime | None, datetime | None]:
    """The moments at which a day begins and ends; a time is as long as the ledger's clocks are precise."""
    if text is None:
        return None, None
    try:
        begin = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{option} must be a day or a time as in 2026-05-03 or 2026-05-03T14:30, got {text!r}"
        ) from None
    begin = begin if begin.tzinfo is not None else begin.replace(tzinfo=UTC)
    is_day = len(text) <= len("2026-05-03")
    try:
        return begin, begin + (timedelta(days=1) if is_day else timedelta(milliseconds=1))
    except OverflowError:
        return begin, None


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
        from osgt.render.ledger import page  # noqa: PLC0415 - SQLAlchemy is an extra

        target = command_target("--out", out, overwrite=overwrite, suffixes=(".html",), apart=[location])
        target.checked()
        overviews = [book.overview(name) for name in ([dataset] if dataset is not None else book.datasets())]
        checked = book.verify()
        with written(target) as place:
            place.write_text(page(book.name, overviews, checked, datetime.now(UTC)), encoding="utf-8")
        typer.echo(f"Report: {out}")
        if not checked.ok:
            typer.echo("The check found problems, which the report lists: see `osgt ledger verify`.", err=True)
            raise typer.Exit(1)


def verify(
    location: Location,
    heads: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="An earlier export, or the JSON of an earlier verify: notices what is missing at the end.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check every entry and every decision, from the entries alone.

    Exit code 0: all is well; 1: the ledger was tampered with or is damaged; 2: it could not be checked.

    Example: osgt ledger verify budget.db --heads yesterday.json
    """
    with clear_errors(), ledger_at(location) as book:
        from osgt.facts.ledger_wording import checks  # noqa: PLC0415 - SQLAlchemy is an extra
        from osgt.ledger import DamagedLedgerError  # noqa: PLC0415 - SQLAlchemy is an extra

        known = None if heads is None else _read_heads(heads)
        try:
            checked = book.verify(known)
        except DamagedLedgerError as error:
            _print_problems([str(error)])
            raise typer.Exit(1) from None
        if as_json:
            typer.echo(json.dumps(checked.to_dict(), indent=2))
        elif checked.ok:
            typer.echo(f"All is well: {checks(checked)}.")
        else:
            _print_problems(checked.problems)
            if checked.mending:
                typer.echo("To put the triggers back, the owner of the database runs these lines in it:", err=True)
                typer.echo(checked.mending, nl=False)
        if not checked.ok:
            raise typer.Exit(1)


def _read_heads(path: Path) -> Any:
    """The heads in a file, or an error that says what is wrong with it."""
    from osgt.ledger.snapshot import parse_heads  # noqa: PLC0415 - SQLAlchemy is an extra

    plain = read_json("--heads", path)
    try:
        return parse_heads(plain)
    except ValueError as error:
        raise ValueError(f"--heads: {str(path)!r}: {error}") from None


def _print_problems(problems: "Iterable[str]") -> None:
    console = terminal(stderr=True)
    for problem in problems:
        console.print(f"[bold red]Problem:[/] {escape(one_line(problem))}", highlight=False, soft_wrap=True)


def export(
    location: Location,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File to write; standard output if not given.")
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Write all entries and the heads of the chains, as JSON. Kept elsewhere, it lets `verify` notice more.

    Example: osgt ledger export budget.db --out today.json
    """
    with clear_errors(), ledger_at(location) as book:
        text = json.dumps(book.export(), indent=2)
        if out is None:
            typer.echo(text)
        else:
            with written(command_target("--out", out, overwrite=overwrite, apart=[location])) as place:
                place.write_text(text + "\n", encoding="utf-8")


def backup(
    location: Location,
    out: Annotated[Path, typer.Argument(metavar="BACKUP", help="File to write; never replaced.")],
) -> None:
    """Copy a ledger (SQLite) to a file while it is in use, and check the copy.

    Example: osgt ledger backup budget.db budget-today.db
    """
    with clear_errors(), ledger_at(location) as book:
        checked = book.backup(out)
        typer.echo(f"{out}: {checked.entries:,} entries")
        _print_problems(checked.problems)
        if not checked.ok:
            raise typer.Exit(1)


def restore(
    location: Location,
    source: Annotated[Path, typer.Argument(metavar="BACKUP", help="File that `osgt ledger backup` wrote.")],
    reason: Reason,
    heads: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The latest heads of the ledger that is replaced: JSON of verify or export."),
    ] = None,
    charges_unknown: Annotated[
        bool,
        typer.Option("--charges-unknown", help="Nobody knows what was charged since: every budget counts as spent."),
    ] = False,
) -> None:
    """Put a backup in the place of a ledger (SQLite). A budget whose charges were lost counts as spent.

    A charge counts as lost if the heads know it, or the ledger that is replaced, and the backup does not. What is
    replaced is kept under another name.

    Example: osgt ledger restore budget.db budget-today.db --heads latest.json --reason "the disk failed"
    """
    with clear_errors(), ledger_at(location) as book:
        known = None if heads is None else _read_heads(heads)
        restored = book.restore(source, heads=known, charges_unknown=charges_unknown, reason=reason)
        typer.echo(f"{book.name}: restored from {source}")
        for remark in restored.remarks:
            typer.echo(one_line(f"Note: {remark}"))
        for name, why in restored.spent.items():
            typer.echo(f"{one_line(name)}: charges were lost, so its budget counts as spent ({one_line(why)})")


def lost(location: Location, dataset: DatasetName, reason: Reason) -> None:
    """Record that charges of a data set were lost. Its budget counts as spent from now on.

    For a ledger that was put back to an earlier state, or of which a copy was charged, where the later state is gone.

    Example: osgt ledger lost budget.db flights --reason "the server went back to the copy of last night"
    """
    with clear_errors(), ledger_at(location) as book:
        book.record_loss(dataset, reason=reason)
        typer.echo(f"{one_line(dataset)}: charges were lost, so its budget counts as spent")


def void(
    location: Location,
    dataset: DatasetName,
    entries: Annotated[list[int], typer.Argument(metavar="ENTRY…", help="Numbers of the entries.")],
    reason: Annotated[
        str, typer.Option(metavar="TEXT", help="How it is known that nothing was released: recorded permanently.")
    ],
    although_settled: Annotated[
        bool,
        typer.Option("--although-settled", help="Also a charge whose release is said to be out, if that is not true."),
    ] = False,
) -> None:
    """Declare, as the owner, that entries released nothing, and add up what stands without them.

    The way out where somebody has charged a budget for nothing, or added entries that nobody can read. Never for a
    release that is out or still under way. The entries stay, and that they are void is recorded permanently.

    Example: osgt ledger void postgresql://owner@server/budgets flights 57 58 --reason "ann's program went wrong"
    """
    with clear_errors(), ledger_at(location) as book:
        book.void(dataset, entries, reason=reason, although_settled=although_settled)
        share = book.spent(dataset).share
        numbers = ", ".join(map(str, sorted(set(entries))))
        typer.echo(f"{dataset}: void from now on: {numbers}. {share:.0%} of the budget is used.")


def grants(
    role: Annotated[str, typer.Argument(metavar="ROLE", help="A user (role) of the PostgreSQL server.")],
    read: Annotated[bool, typer.Option("--read", help="Only to read: show, verify, export.")] = False,
) -> None:
    """Print the SQL that gives a user the least rights it needs in a ledger on PostgreSQL: to charge, or only to read.

    Example: osgt ledger grants ann
    """
    with clear_errors():
        from osgt.ledger import Ledger  # noqa: PLC0415 - SQLAlchemy is an extra

        typer.echo(Ledger.grants(role, charge=not read))
