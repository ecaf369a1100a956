"""What becomes of a release after its charge, told truthfully: in place, kept elsewhere, printed, settled, or nothing.

From the charge on an error is never "refused, nothing was charged" any more. Once noise was added, errors depend on
nothing but what may be published, so they can be shown; before that they cannot.
"""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from osgt.cli.shared import LEFT_TO_DO, NOTHING_RELEASED, complain, warn
from osgt.files import words_of

if TYPE_CHECKING:
    from osgt.tables.about import About
    from osgt.tables.publication_release import PublicationRelease
    from osgt.tables.release import Release

    Made = Release | PublicationRelease


@contextmanager
def charging(show: str | None) -> Iterator[None]:
    """Around the charge and the reading of the data: if it fails after the charge, nothing comes out.

    `show` is the command that shows the ledger; None if there is none.
    """
    from osgt.tables.errors import NothingReleasedError  # noqa: PLC0415 - the extra "tables"

    try:
        yield
    except NothingReleasedError as error:
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


def kept(
    made: "Made", what: str, reason: BaseException, *, out: Sequence[Path] = (), about: "About | None" = None
) -> typer.Exit:
    """Keep finished tables that could not be written or printed, and say where. `out` is where they were to be."""
    from osgt.tables.publishing import kept_elsewhere  # noqa: PLC0415 - the extra "tables"

    is_kept, words = kept_elsewhere(made, what, reason, out=out, about=about)
    if not is_kept:
        return _nothing(words)
    complain(words)
    return typer.Exit(LEFT_TO_DO)


def finish(made: "Made", files: list[Path], text: Callable[[], str]) -> None:
    """Settle and print a release whose files are in place; one without files is out when it was printed."""
    unsettled = _settled(made, files) if files else None
    try:
        _print(text())
    except (Exception, KeyboardInterrupt) as error:
        if not files:
            raise kept(made, "the table could not be printed, or not all of it", error) from None
        warn([f"The table is in place, but it could not be printed: {_why(error)}."])
    if not files:
        unsettled = _settled(made, files)
    if unsettled is not None:
        warn([unsettled])
        raise typer.Exit(LEFT_TO_DO)


def _settled(made: "Made", files: list[Path]) -> str | None:
    """Tell the ledger that a release is out; what to say and do if that fails."""
    from osgt.tables.errors import NotSettledError  # noqa: PLC0415 - the extra "tables"
    from osgt.tables.settling import settle_command  # noqa: PLC0415 - the extra "tables"

    try:
        made.settle(*files, place=None if files else "standard output")
    except NotSettledError as error:
        return str(error)
    except KeyboardInterrupt:
        if made.reservation is None:
            return None
        options = [word for file in files for word in ("--out", os.path.abspath(file))]
        return str(NotSettledError("interrupted", command=settle_command(made, *options)))
    return None


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
