"""`osgt ledger show`: what was published about these data, what is left, and who did it."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from osgt.cli.ledger import AsJson, Location, ledger_at
from osgt.cli.pictures import PICTURES, check_matplotlib
from osgt.cli.shared import Overwrite, clear_errors, command_target
from osgt.files import written

if TYPE_CHECKING:
    from osgt.ledger import Event, Overview, ReleaseRecord

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
        if last is not None and last < 0:
            raise ValueError(f"last must be at least 0, got {last}")
        chosen = Choice.of(since, until, actor)
        target = None
        if plot is not None:
            target = command_target("--plot", plot, overwrite=overwrite, suffixes=PICTURES, apart=[location])
            target.checked()
            check_matplotlib()
        overviews = [book.overview(name) for name in ([dataset] if dataset is not None else book.datasets())]
        if target is not None and plot is not None:
            from osgt.cli.ledger_picture import draw_spending  # noqa: PLC0415 - matplotlib is an extra

            with written(target) as place:
                draw_spending(place, plot.suffix, overviews)
        if as_json:
            typer.echo(ledger_print.as_json([chosen.of_overview(each, last) for each in overviews]))
        elif as_csv:
            typer.echo(ledger_print.as_csv([chosen.of_overview(each, last) for each in overviews]), nl=False)
        else:
            ledger_print.print_budgets(overviews)
            for each in overviews:
                limit = _PRINTED if last is None else last
                ledger_print.print_overview(each, chosen.of_overview(each, limit))
            if plot is not None:
                typer.echo(f"Picture: {plot}")


@dataclass(frozen=True)
class Choice:
    """Which releases and events are shown."""

    since: datetime | None
    until: datetime | None  # not included
    actor: str | None

    @classmethod
    def of(cls, since: str | None, until: str | None, actor: str | None) -> "Choice":
        """The choice that the options describe."""
        start, end = _span("--since", since)[0], _span("--until", until)[1]
        if start is not None and end is not None and start >= end:
            raise ValueError(f"--since must not be after --until, got {since!r} and {until!r}")
        return cls(start, end, actor)

    def of_overview(self, overview: "Overview", last: int | None) -> "Overview":
        """The overview with the releases and events that are chosen, and of these releases the last ones."""
        releases = [release for release in overview.releases if self._has(release)]
        if last is not None:
            releases = releases[max(len(releases) - last, 0) :]
        return replace(overview, releases=releases, events=[event for event in overview.events if self._has(event)])

    def _has(self, record: "ReleaseRecord | Event") -> bool:
        from osgt.ledger.events import moment  # noqa: PLC0415 - SQLAlchemy is an extra

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
