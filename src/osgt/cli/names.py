"""What the arguments of the library are called where a user came in: options, or keys of a query file."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

#: Arguments whose option has another name.
_OPTIONS = {"privacy_unit": "unit", "group_by": "by"}

#: The keys of each part of a query file.
_KEYS = {
    "data": "source privacy_unit table engine master types delimiter neighbours derive where ledger dataset",
    "groups": "by max_groups max_rows_per_group public_keys totals",
    "budget": "epsilon delta",
    "output": "out report confidence objective nonnegative measure_left_out",
}
_PARTS = {key: part for part, keys in _KEYS.items() for key in keys.split()}

#: A name at the beginning of a message.
_SUBJECT = re.compile(r"^[a-z_]+(?=:| must | is for | are for )")

#: Names that are no words of English, wherever they stand; between quotes they are the user's own.
_ANYWHERE = re.compile(r"(?<![\w'.\[-])([a-z]+(?:_[a-z]+)+)(\(\))?(?![\w'\]])")

#: The names of columns are the user's own.
_COLUMNS = "; the table has "

_DOOR: ContextVar[tuple[Mapping[str, str], Mapping[str, Any]] | None] = ContextVar("door", default=None)


@contextmanager
def at_the_door(options: Mapping[str, str], given: Mapping[str, Any]) -> Iterator[None]:
    """While a command runs: its options by the names of their parameters, and the values that were typed."""
    token = _DOOR.set((options, given))
    try:
        yield
    finally:
        _DOOR.reset(token)


def as_typed(message: str) -> str:
    """A message of the library with the names that the user knows."""
    door = _DOOR.get()
    if door is None:
        return message
    text, found, columns = message.partition(_COLUMNS)
    text = _SUBJECT.sub(lambda name: _name(name[0], *door), text)
    return _ANYWHERE.sub(lambda name: _name(name[1], *door), text) + found + columns


def _name(argument: str, options: Mapping[str, str], given: Mapping[str, Any]) -> str:
    parameter = _OPTIONS.get(argument, argument)
    option = options.get(parameter) or options.get(f"aggregate_{parameter}")
    if option is None:
        return argument
    key = "by" if argument == "group_by" else argument
    if given.get("query") is not None and not _is_typed(given, parameter):
        return f"{_PARTS[key]}.{key}" if key in _PARTS else argument
    return option


def _is_typed(given: Mapping[str, Any], parameter: str) -> bool:
    values = given.get(parameter), given.get(f"aggregate_{parameter}")
    return any(value is not False and value not in (None, [], ()) for value in values)
