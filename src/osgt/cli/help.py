"""Help without the types of Python: an option has a metavar, a flag and an argument have nothing."""

from typing import Any

from typer.core import TyperCommand, TyperGroup


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
    """A command that shows metavars."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))


class Group(TyperGroup):
    """A group of commands that does."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))
