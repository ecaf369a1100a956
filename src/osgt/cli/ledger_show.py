"""`osgt ledger show` and `osgt ledger report`: what was published about these data, by whom, and what is left."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from osgt.cli.ledger import AsJson, Location, ledger_at
from osgt.cli.shared import PICTURES, Overwrite, check_matplotlib, clear_errors, command_target
from osgt.support.files import written

if TYPE_CHECKING:
    from collections.abc import Sequence

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
        from osgt.cli import ledger_print  # noqa: PLC0415 - SQLAlchemy is an extra

        if as_json and as_csv:
            raise ValueError("give one of --json and --csv")
        chosen = Choice.of(since, until, actor, last)
        target = None if plot is None else _picture_target(plot, location, overwrite=overwrite)
        overviews = [book.overview(name) for name in ([dataset] if dataset is not None else book.datasets())]
        if target is not None and plot is not None:
            with written(target) as place:
                _draw_spending(place, plot.suffix, overviews)
        if as_json:
            typer.echo(ledger_print.as_json([chosen.of_overview(overview) for overview in overviews]))
        elif as_csv:
            typer.echo(ledger_print.as_csv([chosen.of_overview(overview) for overview in overviews]), nl=False)
        else:
            ledger_print.print_overviews(overviews, [chosen.of_overview(overview, _PRINTED) for overview in overviews])
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
    from osgt.render.pictures import new_figure  # noqa: PLC0415 - matplotlib is an extra

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
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{option} must be a day or a time as in 2026-05-03 or 2026-05-03T14:30, got {text!r}"
        ) from None
    begin = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
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
        found = book.verify()
        with written(target) as place:
            place.write_text(page(book.name, overviews, found, datetime.now(UTC)), encoding="utf-8")
        typer.echo(f"Report: {out}")
        if not found.ok:
            typer.echo("The check found problems, which the report lists: see `osgt ledger verify`.", err=True)
    if not found.ok:
        raise typer.Exit(1)
