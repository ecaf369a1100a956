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
        """Say what is wrong with a number, and which option was probably meant."""
        words = list(args)
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            if any(word in error.message for word in ("integer", "number", "float")):
                typed, _, _ = self.make_parser(ctx).parse_args(args=words)
                error.message = _no_number(str(typed[error.param.name]), whole="integer" in error.message)  # type: ignore[union-attr]
            raise
        except Exception as error:
            if hasattr(error, "possibilities"):  # there is no such option
                from osgt.near_names import nearest  # noqa: PLC0415 - rarely needed

                options = [option for each in self.get_params(ctx) for option in each.opts]
                error.message += nearest(error.option_name, options)  # type: ignore[attr-defined]
                error.possibilities = None
            raise

    def invoke(self, ctx: Any) -> Any:
        """Run it."""
        with named_as_in(ctx):
            return super().invoke(ctx)


def _no_number(text: str, *, whole: bool) -> str:
    """Why a text is no number, and how it is written."""
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
