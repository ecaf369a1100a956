"""The reference of the command line, option by option, made from the commands.

`python -m osgt.cli.command_reference FOLDER` writes the page into a folder of the docs.
"""

import inspect
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import typer

from osgt.cli import app

PAGE = "options.md"

_INTRODUCTION = """# Options of the commands

<!-- Made by `python -m osgt.cli.command_reference docs/reference`, from the code: change it there. -->

What `--help` says, for all commands. [The commands at a glance, and their exit codes](commands.md).
"""


def reference() -> str:
    """The page in Markdown."""
    root = typer.main.get_command(app)
    return "\n".join([_INTRODUCTION, *_of_all(root, typer.Context(root, info_name="osgt"))])


def _of_all(group: Any, context: Any) -> Iterator[str]:
    for name, command in group.commands.items():
        alone = command.make_context(name, [], parent=context, resilient_parsing=True)
        if hasattr(command, "commands"):
            yield from _of_all(command, alone)
        else:
            yield _of_one(alone)


def _of_one(context: Any) -> str:
    command = context.command
    words, _, example = inspect.cleandoc(command.help or "").partition("Example: ")
    call, _, rest = example.partition("\n\n")
    text = f"## `{context.command_path}`\n\n{words.strip()}\n"
    if call:
        text += f"\n```\n{call.strip()}\n```\n"
    if rest:
        text += f"\n{rest.strip()}\n"
    shown = [each for each in command.get_params(context) if not getattr(each, "hidden", False) and each.name != "help"]
    order = list(dict.fromkeys(map(_panel, shown)))
    for panel, parameters in groupby(sorted(shown, key=lambda each: order.index(_panel(each))), key=_panel):
        rows = "".join(f"| {_name(each)} | {_meaning(each)} |\n" for each in parameters)
        text += f"\n| {panel.lower()} | meaning |\n|---|---|\n{rows}"
    return text


def _panel(parameter: Any) -> str:
    return getattr(parameter, "rich_help_panel", None) or f"{parameter.param_type_name}s"


def _name(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"`{parameter.name.upper()}`"
    flags = ", ".join([*parameter.opts, *parameter.secondary_opts])
    return f"`{flags} {parameter.metavar or ''}".rstrip() + "`"


def _meaning(parameter: Any) -> str:
    words = " ".join((parameter.help or "").split()).replace("|", r"\|").replace("<", "&lt;")
    return f"{words} Required." if parameter.required else words


def main(folder: str) -> None:
    """Write the page into a folder."""
    (Path(folder) / PAGE).write_text(reference(), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
