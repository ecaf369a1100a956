"""What the commands have in common: their options and how they say what went wrong."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from osgt.cli.names import as_typed
from osgt.files import Target, words_of
from osgt.shown_text import printable

_DELTA = typer.Option(
    metavar="NUMBER", help="δ of the budget: far below 1 divided by the number of people; 0 for pure ε."
)
_COORDINATES = typer.Option(metavar="NUMBER", help="The most values that one person can change.")
Delta = Annotated[float, _DELTA]
Coordinates = Annotated[int, _COORDINATES]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the file if it exists.")]
QueryPath = Annotated[
    Path | None,
    typer.Option("--query", metavar="FILE", help="Query file (TOML), which holds the whole query; options change it."),
]
ObjectiveText = Annotated[
    str,
    typer.Option(
        metavar="OBJECTIVE",
        help="What to minimise: variance, mean_abs, quantile:P (of the error) or max:N (the largest of N errors).",
    ),
]


#: Exit codes: refused, with nothing charged; charged (or perhaps), and nothing came out; the table is made, but it is
#: kept elsewhere or the ledger does not know of it yet.
REFUSED, NOTHING_RELEASED, LEFT_TO_DO = 2, 3, 4


def terminal(*, stderr: bool = False) -> Console:
    """A console that shows text as it is: nothing between colons becomes a picture, no number gets a colour."""
    return Console(stderr=stderr, emoji=False, highlight=False)


def say(console: Console, text: object) -> None:
    """Print text that may quote names, conditions and paths: no brackets in it are instructions."""
    console.print(printable(text), markup=False, soft_wrap=True)


def complain(message: str) -> None:
    """Say on standard error what went wrong."""
    terminal(stderr=True).print(f"[bold red]Error:[/] {escape(printable(as_typed(message)))}", soft_wrap=True)


def warn(messages: Iterable[str]) -> None:
    """Say on standard error what is worth knowing before a result is relied on."""
    for message in messages:
        terminal(stderr=True).print(f"[bold yellow]Warning:[/] {escape(printable(as_typed(message)))}", soft_wrap=True)


@contextmanager
def clear_errors() -> Iterator[None]:
    """Turn an error of this library, or of an engine, into a message on standard error and the exit code 2.

    What Python raises by itself is a mistake in here, and comes with its traceback.
    """
    try:
        yield
    except (typer.Exit, typer.Abort):
        raise
    except (ValueError, TypeError, OverflowError, OSError, ImportError, RuntimeError) as error:
        complain(words_of(error))
        raise typer.Exit(REFUSED) from None
    except Exception as error:
        if type(error).__module__.partition(".")[0] in ("builtins", "osgt", "typer", "click"):
            raise
        from osgt.tables.reading import first_line  # noqa: PLC0415 - the extra "tables"

        complain(f"the data cannot be read: {first_line(error)}")
        raise typer.Exit(REFUSED) from None


def command_target(
    option: str, path: Path, *, overwrite: bool, suffixes: tuple[str, ...] = (), apart: Iterable[str | None] = ()
) -> Target:
    """The file that an option of a command names; `apart` are files that the command reads or charges."""
    used = tuple(text for text in apart if text is not None)
    return Target(path, suffixes, overwrite=overwrite, apart=used, name=option, option="--overwrite")
