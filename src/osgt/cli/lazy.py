"""Commands that are imported when they run. Until then help knows them by what their source says about them."""

import re
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from inspect import cleandoc
from pathlib import Path
from typing import Any

import typer

from osgt.cli.help import Command, Group

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
        """What the function is documented with."""
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
