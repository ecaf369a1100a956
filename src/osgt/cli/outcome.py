"""The outcome of a release after its charge, told truthfully: in place, kept elsewhere, printed, settled, or nothing.

From the charge on an error is never "refused, nothing was charged" any more. Once noise was added, errors depend on
nothing but what may be published, so they can be shown; before that they cannot.

Below stands what is printed of a release: the first rows, the statement, and where the files are.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from osgt.cli.shared import LEFT_TO_DO, NOTHING_RELEASED, complain, say, terminal, warn
from osgt.facts import wording
from osgt.support.files import words_of
from osgt.support.numbers import percent, with_interval
from osgt.support.text import printable

if TYPE_CHECKING:
    from osgt.api.publish import Outcome, UnwrittenError
    from osgt.api.release import AnyRelease, Release
    from osgt.query.about import About
    from osgt.query.file.model import QueryFile


@contextmanager
def charging(show: str | None) -> Iterator[None]:
    """Around the charge and the reading of the data: if it fails after the charge, nothing comes out.

    `show` is the command that shows the ledger; None if there is none.
    """
    from osgt.release.limits import TooFewUnitsError  # noqa: PLC0415 - the extra "tables"
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


#: Most rows that are printed.
_PRINTED = 20


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


def _show(console: Console, made: "AnyRelease", file: "QueryFile", about: "About") -> None:
    from osgt.render.csvw import SUFFIX, has_escaped_text  # noqa: PLC0415 - the extra "tables"

    output = file.output
    for name, table in made.tables.items():
        if name:
            say(console, f"{name}:")
        _show_table(console, table, about)
    say(console, made.statement)
    for what, path in (("Table" if "" in made.tables else "Tables", output.out), ("Report", output.report)):
        if path is not None:
            say(console, f"{what}: {path}")
    if not (output.out or "").lower().endswith(".csv"):
        return
    say(console, f"Columns and the statement, for programs: {output.out}{SUFFIX}")
    if any(has_escaped_text(each.table) for each in made.tables.values()):
        console.print(wording.ESCAPED, highlight=False, soft_wrap=True)


def _show_table(console: Console, made: "Release", about: "About") -> None:
    console.print(_table(made, about))
    if len(made) == 0:
        console.print(
            f"No group reached the threshold of {made.plan.threshold:,} {made.plan.chosen_by}: use coarser groups, "
            "public keys or a larger ε.",
            highlight=False,
            soft_wrap=True,
        )
    if len(made) > _PRINTED:
        console.print(f"… and {len(made) - _PRINTED:,} more rows.", highlight=False)
    for text in made.mostly_noise.sentences:
        say(console, text)


def _table(made: "Release", about: "About") -> Table:
    """The first rows for the terminal, with no more digits than the noise leaves."""
    keys = made.query.groups.by
    names = [name for aggregate in made.plan.aggregates for name in aggregate.names]
    levels = made.query.groups.levels
    what = "rows with totals" if levels else "groups"
    shown = Table(title=f"{len(made):,} {what}, {percent(made.plan.confidence)} intervals", title_justify="left")
    for key in keys:
        shown.add_column(escape(printable(about.labels.get(key, key))), overflow="fold")
    for name in names:
        shown.add_column(
            escape(printable(about.labels.get(name, name))), justify="right", overflow="fold"
        )  # a number that is cut off is another number
    for row in made.rows(_PRINTED):
        cells = [escape(printable(about.key_words(row, key, missing="(null)"))) for key in keys]
        for name in names:
            number = with_interval(*(row[name + suffix] for suffix in ("", "_low", "_high")))
            cells.append(f"[bold]{number.value}[/]" + (f" [dim]({number.interval})[/]" if number.interval else ""))
        shown.add_row(*cells)
    return shown
