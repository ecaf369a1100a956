"""The commands: parse, call, print.

A command is imported when it runs; until then help knows it by what its source says about it. Help is without the types
of Python, and messages name options.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib import import_module
from inspect import cleandoc
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

#: Arguments whose option has another name.
_OPTIONS = {"privacy_unit": "unit", "group_by": "by"}

#: Other arguments that a message mentions: none of them is a word of English. What stands in quotes is the user's own.
_MENTIONED = re.compile(r"""(?<!\w)'[^']*' | "[^"]*" | (?<![\w./-])([a-z]+(?:_[a-z]+)+)\b(?:\(\))?""", re.VERBOSE)

_CONTEXT: ContextVar[Any] = ContextVar("context", default=None)


@contextmanager
def named_as_in(context: Any) -> Iterator[None]:
    """While a command runs in this context, messages use the names of its options and of its query file."""
    token = _CONTEXT.set(context)
    try:
        yield
    finally:
        _CONTEXT.reset(token)


def as_typed(message: str) -> str:
    """A message whose mentions of arguments are those that the user knows."""
    return _MENTIONED.sub(lambda part: (part[1] and name_of(part[1])) or part[0], message)


def name_of(argument: str) -> str | None:
    """The option of an argument; its key, if a file has it and the option was not given; None if it has neither."""
    context = _CONTEXT.get()
    if context is None:
        return None
    name = _OPTIONS.get(argument, argument)
    if name == "public_keys" and context.params.get("keys"):
        name = "keys"
    options = [parameter for parameter in context.command.params if parameter.name in (name, f"aggregate_{name}")]
    if not options:
        return None
    is_given = any(context.get_parameter_source(option.name).name == "COMMANDLINE" for option in options)
    if not is_given and context.params.get("query") is not None:
        return _keys().get("by" if argument == "group_by" else argument)
    if not is_given and str(context.params.get("source")).lower().endswith(".toml"):  # a data file
        key = _keys().get(argument, "")
        if key.startswith(("data.", "budget.")):
            return key
    return str(options[0].opts[0]) if options[0].param_type_name == "option" else None


def _keys() -> dict[str, str]:
    """The keys of a query file, each with its part: max_groups is groups.max_groups."""
    from osgt.query.file.model import QueryFile  # noqa: PLC0415 - the extra "tables"

    parts = ("data", "groups", "budget", "output")
    return {key: f"{part}.{key}" for part in parts for key in QueryFile.model_fields[part].annotation.model_fields}  # type: ignore[union-attr]


def _without_types(parameters: list[Any]) -> list[Any]:
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
        elif parameter.param_type_name == "argument":
            parameter.display_type_rich = _nothing  # its name says what it is
    return parameters


def _nothing(ctx: Any) -> str:
    return ""


class Command(TyperCommand):
    """A command that shows metavars, whose paragraphs are as wide as the terminal, and whose messages name options."""

    def __init__(self, name: str | None, **options: Any) -> None:
        paragraphs = (options.get("help") or "").split("\n\n")
        options["help"] = "\n\n".join(" ".join(lines.split()) for lines in paragraphs)
        super().__init__(name, **options)

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Say what is wrong with a number, and which option was probably meant."""
        words = list(args)
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            if not error.message and "Example: " in (self.help or ""):  # an argument is missing
                error.message = str(self.help).partition("Example: ")[2].partition("\n\n")[0]
                error.message = f"As in: {error.message}"
            if any(word in error.message for word in ("integer", "number", "float")):
                typed, _, _ = self.make_parser(ctx).parse_args(args=words)
                error.message = _no_number(str(typed[error.param.name]), whole="integer" in error.message)  # type: ignore[union-attr]
            raise
        except Exception as error:
            if hasattr(error, "possibilities"):  # there is no such option
                error.message += self._advice(ctx, error.option_name)  # type: ignore[attr-defined]
                error.possibilities = None
            elif "unexpected extra" in getattr(error, "message", ""):
                error.message += "; an option with several values is repeated, and what has blanks stands in quotes"  # type: ignore[attr-defined]
            raise

    def _advice(self, ctx: Any, name: str) -> str:
        """Say which option was probably meant."""
        from osgt.support.errors import OPTIONS  # noqa: PLC0415 - rarely needed
        from osgt.support.text import nearest  # noqa: PLC0415 - rarely needed

        options = [option for parameter in self.get_params(ctx) for option in parameter.opts]
        close, advice = nearest(name, options), OPTIONS.get(name.lstrip("-"))
        return f": {advice}" if advice is not None and "--count" in options else close

    def invoke(self, ctx: Any) -> Any:
        """Run it."""
        with named_as_in(ctx):
            return super().invoke(ctx)


def _no_number(text: str, *, whole: bool) -> str:
    """Explain why a text is no number, and how it is written."""
    wrong = f"{text!r} is not a {'whole ' if whole else ''}number"
    point, percent = text.replace(",", "."), text.removesuffix("%").strip()
    if not whole and "," in text and _is_number(point):
        return f"{wrong}: write it with a decimal point, {point}"
    if not whole and text.endswith("%") and _is_number(percent):
        return f"{wrong}: write {text} as {float(percent) / 100:g}"
    return wrong


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


class Group(TyperGroup):
    """A group of commands that does."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))


#: The name of a function that returns nothing, as commands do, and what it is documented with.
_FUNCTION = re.compile(r'^def (\w+)\((?:(?!^def ).)*?\) -> None:\n    """(.*?)"""', re.MULTILINE | re.DOTALL)


class LazyCommand(Command):
    """Stands for the command that is a function of a module of this package, until that is needed."""

    def __init__(self, name: str, module: str, function: str) -> None:
        super().__init__(name)
        self._module, self._function = module, function

    def function(self) -> Any:
        """The command as its module has it."""
        return getattr(import_module(f"{__package__}.{self._module}"), self._function)

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """The context of the command itself: from here on this one is out of the way."""
        alone = typer.Typer(add_completion=False)
        alone.command(self.name, cls=Command)(self.function())
        return typer.main.get_command(alone).make_context(info_name, args, parent=parent, **extra)

    @property
    def help(self) -> str | None:
        """The docstring of the function."""
        return _documentation(self._module).get(self._function)

    @help.setter
    def help(self, value: str | None) -> None:
        """The constructor of all commands sets it: the source knows better."""


@cache
def _documentation(module: str) -> dict[str, str]:
    """The documentation of the commands in a module, without importing it."""
    source = (Path(__file__).parent / f"{module}.py").read_text(encoding="utf-8")
    return {name: cleandoc(words) for name, words in _FUNCTION.findall(source)}


def lazy_group(places: Mapping[str, str]) -> type[Group]:
    """A kind of group that has these commands: for each name "module:function"."""

    class LazyGroup(Group):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            lazy: dict[str, Any] = {name: LazyCommand(name, *place.split(":")) for name, place in places.items()}
            self.commands = {**lazy, **self.commands}

    return LazyGroup


#: Where each command is. They are imported when they run.
_COMMANDS = {
    "start": "start:start",
    "plan": "plan:plan",
    "sql": "sql:sql",
    "describe": "sql:describe",
    "release": "release:release",
    "publish": "release:publish",
    "limits": "limits:limits",
    "preview": "limits:preview",
    "statement": "documents:statement",
    "check": "audit:check",
    "audit": "audit:audit",
    "web": "web:web",
    "schema": "documents:schema",
    "noise": "noise:noise",
    "paper": "documents:paper",
}
_LEDGER_COMMANDS = {
    "open": "ledger:open_",
    "show": "ledger_upkeep:show",
    "remaining": "plan:remaining",
    "report": "ledger_upkeep:report",
    "settle": "ledger:settle",
    "note": "ledger:note",
    "void": "ledger_upkeep:void",
    "budget": "ledger:budget",
    "table": "ledger:table",
    "verify": "ledger_upkeep:verify",
    "export": "ledger_upkeep:export",
    "backup": "ledger_upkeep:backup",
    "restore": "ledger_upkeep:restore",
    "lost": "ledger_upkeep:lost",
    "grants": "ledger_upkeep:grants",
}


def _show_version(asked: bool) -> None:
    if asked:
        from osgt import __version__  # noqa: PLC0415 - takes a while

        typer.echo(f"osgt {__version__}")
        raise typer.Exit


# The values of variables, which a traceback could show, may be data.
app = typer.Typer(name="osgt", cls=lazy_group(_COMMANDS), no_args_is_help=True, pretty_exceptions_show_locals=False)
ledger = typer.Typer(name="ledger", cls=lazy_group(_LEDGER_COMMANDS), no_args_is_help=True)
app.add_typer(ledger)


@app.callback()
def _osgt(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Publish statistics about people with the least noise that a privacy budget allows."""


@ledger.callback()
def _ledger() -> None:
    """Budgets of data sets, and what has been spent of them."""


__all__ = ["app"]
