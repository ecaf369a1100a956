"""The common parts of the commands: options, messages, files, pictures and the bar while an engine works."""

import os
import textwrap
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from osgt.cli import as_typed, name_of
from osgt.support.errors import USER_ERRORS, argument_of, message_naming
from osgt.support.files import Target, words_of, written
from osgt.support.locations import holds_secret
from osgt.support.text import printable

if TYPE_CHECKING:
    from osgt.api.publish import AnyQuery
    from osgt.plan.plan import AnyPlan
    from osgt.query.file.model import QueryFile


def option(metavar: str, words: str, *flags: str, panel: str | None = None) -> Any:
    """An option with a value: how that is written, and its help."""
    return typer.Option(*flags, metavar=metavar, help=words, rich_help_panel=panel)


def switch(flag: str, words: str, *, panel: str | None = None) -> Any:
    """An option without a value."""
    return typer.Option(flag, help=words, rich_help_panel=panel)


Delta = Annotated[
    float, option("NUMBER", "δ of the budget: far below 1 divided by the number of people; 0 for pure ε.")
]
Coordinates = Annotated[int, option("NUMBER", "The most values that one person can change.")]
Overwrite = Annotated[bool, switch("--overwrite", "Replace the file if it exists.")]
QueryPath = Annotated[
    Path | None, option("FILE", "Query file (TOML), which holds the whole query; options change it.", "--query")
]
ObjectiveText = Annotated[
    str,
    option(
        "OBJECTIVE",
        "What to minimise: variance, mean_abs, quantile:P (of the error) or max:N (the largest of N errors).",
    ),
]
AS_JSON = "Print JSON for a program to read."
AsJson = Annotated[bool, switch("--json", AS_JSON)]


#: Exit codes: refused, with nothing charged; charged (or perhaps), and nothing came out; the table is made, but it is
#: kept elsewhere or the ledger does not know of it yet.
REFUSED, NOTHING_RELEASED, LEFT_TO_DO = 2, 3, 4


#: Most characters of a line of prose.
_WIDEST = 100


def terminal(*, stderr: bool = False) -> Console:
    """A console that shows text as it is: nothing between colons becomes a picture, no number gets a colour."""
    return Console(stderr=stderr, emoji=False, highlight=False)


def say(console: Console, text: object) -> None:
    """Print text that may quote names, conditions and paths: no brackets in it are instructions."""
    console.print(printable(text), markup=False, soft_wrap=True)


def say_wrapped(console: Console, text: str) -> None:
    """Print a line, wrapped to the terminal but not within "3 %" or "ε = 1"; what does not fit is set in below it."""
    wide = min(console.width, _WIDEST) if console.is_terminal or "COLUMNS" in os.environ else _WIDEST
    whole = printable(text).replace(" %", "\N{NO-BREAK SPACE}%").replace(" = ", "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}")
    lines = textwrap.fill(whole, wide, subsequent_indent="  ", break_on_hyphens=False)
    say(console, lines.replace("\N{NO-BREAK SPACE}", " "))


def complain(message: str) -> None:
    """Say on standard error what went wrong."""
    terminal(stderr=True).print(f"[bold red]Error:[/] {escape(printable(as_typed(message)))}", soft_wrap=True)


def warn(messages: Iterable[str]) -> None:
    """Say on standard error what is worth knowing before a result is relied on."""
    for message in messages:
        terminal(stderr=True).print(f"[bold yellow]Warning:[/] {escape(printable(as_typed(message)))}", soft_wrap=True)


#: Arguments that are a part of an option's value or have no option: what is wrong with them says what they are.
_WITHOUT_OPTION = ("column", "file")


@contextmanager
def clear_errors() -> Iterator[None]:
    """Turn an error of this library, or of an engine, into a message on standard error and the exit code 2.

    What Python raises by itself is a mistake in here, and comes with its traceback.
    """
    try:
        yield
    except (typer.Exit, typer.Abort):
        raise
    except USER_ERRORS as error:
        argument = argument_of(error) or ""
        own, words = name_of(argument), words_of(error)
        if argument in _WITHOUT_OPTION:
            words = words.removeprefix(f"{argument}: ")
        complain(words if own is None else message_naming(error, own))
        raise typer.Exit(REFUSED) from None
    except Exception as error:
        if type(error).__module__.partition(".")[0] in ("builtins", "osgt", "typer", "click"):
            raise
        from osgt.data.engines.query import first_line  # noqa: PLC0415 - the extra "tables"

        complain(f"the data cannot be read: {first_line(error)}")
        raise typer.Exit(REFUSED) from None


def command_target(
    option: str, path: Path, *, overwrite: bool, suffixes: tuple[str, ...] = (), apart: Iterable[str | None] = ()
) -> Target:
    """The file that an option of a command names; `apart` are files that the command reads or charges."""
    used = tuple(text for text in apart if text is not None)
    return Target(path, suffixes, overwrite=overwrite, apart=used, name=option, option="--overwrite")


#: Pictures that Matplotlib can write and people can open.
PICTURES = (".png", ".svg", ".pdf")


def check_matplotlib() -> None:
    """Refuse a picture that could not be drawn, before anything is charged for it."""
    from osgt.render.page import new_figure  # noqa: PLC0415 - the extra "plots"

    new_figure(1, 1)


#: Seconds between looks at how far the engine is.
_LOOK = 0.2


@contextmanager
def progress(query: "AnyQuery", title: str) -> Iterator[None]:
    """A bar while the engine works, if it says how far it is; otherwise only the clock moves."""
    from rich.progress import (  # noqa: PLC0415 - takes a while
        BarColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
    )

    engine, connection = query.dataset.engine, query.dataset.table.connection
    columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    console = Console(stderr=True)
    bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    done = threading.Event()

    def watch(task: Any) -> None:
        while not done.wait(_LOOK):
            percent = engine.progress(connection)
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


@contextmanager
def saved(
    option: str, file: "QueryFile", path: Path | None, *, apart: list[str], overwrite: bool
) -> Iterator[Callable[["QueryFile"], None]]:
    """Write the query file once what happens inside has succeeded; that it can be written is checked before.

    Inside, it can be replaced by another one, with limits that were chosen.
    """
    if path is None:
        yield lambda other: None
        return
    for key, location in (("source", file.data.source), ("ledger", file.data.ledger)):
        if location is not None and holds_secret(location):
            raise ValueError(
                f"{option} would write the user and password of the {key} into the file: leave them out of the "
                "URL and keep them in ~/.pgpass and PGUSER"
            )
    from osgt.query.file.text import query_file_text  # noqa: PLC0415 - the extra "tables"

    target = command_target(option, path, overwrite=overwrite, suffixes=(".toml",), apart=apart)
    with written(target) as place:

        def replace(other: "QueryFile") -> None:
            place.write_text(query_file_text(other.given(), path.parent), encoding="utf-8")

        replace(file)
        yield replace


def print_plan(console: Console, found: "AnyPlan") -> None:
    """Print the plan of a table, or of several."""
    for line in str(found).splitlines():
        say(console, line) if line.startswith(" ") or len(line) <= console.width else say_wrapped(console, line)
