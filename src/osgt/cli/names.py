"""What the arguments of the library are called where a user came in: options, or keys of a query file."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

#: Arguments whose option has another name.
_OPTIONS = {"privacy_unit": "unit", "group_by": "by"}

#: What a message may name: an argument or a key at its beginning, or anywhere an argument that is no word of English.
#: What stands in quotes is the user's own.
_NAMES = re.compile(
    r"""(?<!\w)'[^']*' | "[^"]*" | ^(?:(?:data|groups|budget|output)\.)?([a-z_]+)(?=:|\ must\ |\ is\ for\ )
    | (?<![\w./-])([a-z]+(?:_[a-z]+)+)\b(?:\(\))?""",
    re.VERBOSE,
)

_CONTEXT: ContextVar[Any] = ContextVar("context", default=None)


@contextmanager
def named_as_in(context: Any) -> Iterator[None]:
    """While a command runs in this context, `as_typed` uses the names of its options and of its query file."""
    token = _CONTEXT.set(context)
    try:
        yield
    finally:
        _CONTEXT.reset(token)


def as_typed(message: str) -> str:
    """A message of the library with the names that the user knows."""
    context = _CONTEXT.get()
    if context is None:
        return message

    def name(found: re.Match[str]) -> str:
        argument = found[1] or found[2]
        return (argument and _name(argument, context)) or found[0]

    return _NAMES.sub(name, message)


def _name(argument: str, context: Any) -> str | None:
    """The option of an argument; its key, if a query file was given and the option was not; None if it has neither."""
    name = _OPTIONS.get(argument, argument)
    options = [each for each in context.command.params if each.name in (name, f"aggregate_{name}")]
    for option in options:
        if context.params.get("query") is None or context.get_parameter_source(option.name).name == "COMMANDLINE":
            return str(option.opts[0]) if option.param_type_name == "option" else None
    return _keys().get("by" if argument == "group_by" else argument) if options else None


def _keys() -> dict[str, str]:
    """The keys of a query file, each with its part: max_groups is groups.max_groups."""
    from osgt.tables.query_file import QueryFile  # noqa: PLC0415 - the extra "tables"

    parts = ("data", "groups", "budget", "output")
    return {key: f"{part}.{key}" for part in parts for key in QueryFile.model_fields[part].annotation.model_fields}  # type: ignore[union-attr]
