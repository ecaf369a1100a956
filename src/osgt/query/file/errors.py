"""The problems of a query file, in words that name the key."""

import inspect
import types
from collections.abc import Mapping, Sequence
from datetime import date, time
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from osgt.query.file.aggregates import AGGREGATES
from osgt.query.file.types import Words
from osgt.support.text import names_in_words, nearest, shortened

#: Most characters of a wrong value that a message repeats.
_SHOWN = 60

#: Most problems that one message tells.
_MOST = 10


def in_words(error: ValidationError, model: type[BaseModel], plain: Mapping[str, Any]) -> str:
    """Put the problems into words, each key once; of very many the first ones."""
    found = list(dict.fromkeys(_problem(one, model, plain) for one in error.errors(include_url=False)))
    more = [f"and {len(found) - _MOST} more"] if len(found) > _MOST else []
    return "; ".join([*found[:_MOST], *more])


def _problem(error: Any, model: type[BaseModel], plain: Mapping[str, Any]) -> str:
    place = error["loc"]
    if place[0] == "table" and len(place) > 1:
        return _in_one_of_several(error, model, plain["table"][place[1]], place[1] + 1)
    if place[0] == "aggregates" and len(place) > 1:
        return _in_aggregate(error, plain["aggregates"][place[1]], place[1] + 1)
    if place[0] in ("columns", "tables") and len(place) > 1:
        return _in_named(error, model, plain[place[0]][place[1]], place[0], place[1])
    if len(place) == 1:
        return _in_table(error, model, plain, place[0], str(getattr(model, "named", "the query file")), "[{}]")
    table: Any = model.model_fields[place[0]].annotation
    return _in_table(error, table, plain[place[0]], place[1], f"[{place[0]}]", f"{place[0]}.{{}}")


def _in_one_of_several(error: Any, model: type[BaseModel], given: Any, number: int) -> str:
    """A wrong key of the table with this number, counted from 1."""
    if not isinstance(given, Mapping):
        return "table must be a list of tables, each under [[table]]"
    [table] = get_args(model.model_fields["table"].annotation)
    name = given.get("name")
    where = f"table {number}" + (f" ({name})" if isinstance(name, str) else "")
    inside = {**error, "loc": error["loc"][2:]}
    if len(inside["loc"]) == 1:
        key = inside["loc"][0]
        return _in_table(inside, table, given, key, where, "{} of " + where.replace("{", "{{").replace("}", "}}"))
    return f"{where}: {_problem(inside, table, given)}"


def _in_named(error: Any, model: type[BaseModel], given: Any, part: str, name: str) -> str:
    """A wrong key of what is said of a column, or of a table that is joined."""
    if not isinstance(given, Mapping):
        return f"{part}.{name} must be a table, under [{part}.{name}]"
    table = get_args(model.model_fields[part].annotation)[1]
    braced = name.replace("{", "{{").replace("}", "}}")
    return _in_table(error, table, given, error["loc"][2], f"[{part}.{name}]", f"{part}.{braced}.{{}}")


def _in_aggregate(error: Any, given: Any, number: int) -> str:
    """A wrong key of the aggregate with this number, counted from 1."""
    if not isinstance(given, Mapping):
        return "aggregates must be a list of tables, each under [[aggregates]]"
    kind = given.get("kind")
    if len(error["loc"]) == 2:
        expected = f"kind of aggregate {number} must be one of {', '.join(AGGREGATES)}"
        return expected if kind is None else f"{expected}; got {_shown(kind)}{nearest(str(kind), list(AGGREGATES))}"
    where = f"aggregate {number} ({kind})"
    return _in_table(error, AGGREGATES[str(kind)].arguments, given, error["loc"][3], where, f"{{}} of {where}")


def _in_table(error: Any, table: type[BaseModel], given: Mapping[str, Any], key: str, where: str, named: str) -> str:
    """A key of a table that is not known, missing, or has a value of another type."""
    name = named.format(key)
    if key not in table.model_fields:
        known = list(table.model_fields)
        return f"{where} has no {key!r}" + (nearest(key, known) or f"; it may have {names_in_words(known)}")
    field = table.model_fields[key]
    if error["type"] == "missing":
        what = " ".join((field.description or inspect.getdoc(field.annotation) or "").splitlines())
        return f"{name} must be given: {what[:1].lower()}{what[1:].rstrip('.')}"
    if get_origin(field.annotation) is list and isinstance(given[key], Mapping):
        return f"{key} must be a list of tables, each under [[{key}]]"
    return f"{name} must be {value_in_words(field)}, got {_shown(given[key])}"


def _shown(value: Any) -> str:
    """A wrong value, much as a query file has it."""
    if isinstance(value, bool | date | time):
        return str(value).lower() if isinstance(value, bool) else value.isoformat()
    return shortened(repr(value), _SHOWN)


def value_in_words(field: FieldInfo) -> str:
    """Describe the value that a key must have."""
    return _words(field.annotation, field.metadata)


def _words(annotation: Any, metadata: Sequence[Any] = ()) -> str:
    for note in metadata:
        if isinstance(note, Words):
            return note.text
    if hasattr(annotation, "__metadata__"):
        return _words(annotation.__origin__, annotation.__metadata__)
    if get_origin(annotation) is Literal:
        return " or ".join(f'"{choice}"' for choice in get_args(annotation))
    if get_origin(annotation) is list:
        return "a list of tables"
    for option in get_args(annotation):
        if option is not types.NoneType:
            return _words(option)
    return "a table of keys and values"
