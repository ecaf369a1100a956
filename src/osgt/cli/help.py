"""Help without the types of Python, numbers that were not understood, and the names by which a command knows them."""

from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from osgt.cli.names import named_as_in


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
        """Say what is wrong with a number."""
        typed = list(args)
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            value = _value_of(error.param, typed)
            if value is not None:
                error.message = _no_number(value, whole="integer" in error.message)
            raise

    def invoke(self, ctx: Any) -> Any:
        """Run it."""
        with named_as_in(ctx):
            return super().invoke(ctx)


def _value_of(parameter: Any, typed: list[str]) -> str | None:
    """What was typed for an option that takes a number; None if it takes none, or a number was typed."""
    if getattr(parameter, "metavar", None) != "NUMBER":
        return None
    for option in parameter.opts:
        for word, following in zip(typed, [*typed[1:], ""], strict=True):
            value = following if word == option else word.removeprefix(f"{option}=")
            if word != value and not _is_number(value):
                return value
            if word == option and "." in value:
                return value
    return None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _no_number(value: str, *, whole: bool) -> str:
    """Why a text is no number, and how it is written."""
    text = f"{value!r} is not a {'whole ' if whole else ''}number"
    comma = value.replace(",", ".")
    if comma != value and _is_number(comma):
        return f"{text}: write it with a decimal point, {comma}"
    if value.endswith("%") and _is_number(value[:-1].strip()):
        return f"{text}: write {value} as {float(value[:-1]) / 100:g}"
    return text


class Group(TyperGroup):
    """A group of commands that does."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))
