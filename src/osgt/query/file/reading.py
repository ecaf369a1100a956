"""Query files and data files as they are read: TOML, checked, with relative paths taken from the folder of the file.

A query file may name a data file, and then has what that says as well. Errors name the key.
"""

import inspect
import operator
import os
import re
import tomllib
import types
from collections.abc import Mapping, Sequence
from datetime import date, time
from functools import cache, reduce
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

from pydantic import BaseModel, Field, ValidationError, create_model
from pydantic.fields import FieldInfo

from osgt.query.file import FileTable, Words, as_list
from osgt.query.file.aggregates import AGGREGATES, Kind
from osgt.query.file.model import DataFile, OneOfSeveral, QueryFile
from osgt.query.file.text import relative_paths
from osgt.support.errors import ArgumentError, about
from osgt.support.text import names_in_words, nearest, shortened

F = TypeVar("F", bound=FileTable)

#: The ending of data files and query files.
SUFFIX = ".toml"

#: The parts that only query files have.
_OF_QUERIES = tuple(name for name in QueryFile.model_fields if name not in DataFile.model_fields)

#: Keys of [data] that say which data are meant: with a data file, it says them.
_WHICH_DATA = ("source", "privacy_unit")


def query_file_model() -> type[QueryFile]:
    """The model of a query file with all aggregates that there are."""
    return _model(tuple(AGGREGATES.values()))


@cache
def _model(kinds: tuple[Kind, ...]) -> type[QueryFile]:
    each: Any = Annotated[reduce(operator.or_, (kind.arguments for kind in kinds)), Field(discriminator="kind")]

    def with_kinds(model: type[FileTable], **more: Any) -> Any:
        described = model.model_fields["aggregates"].description
        aggregates: Any = (list[each], Field(default=[], description=described))
        return create_model(model.__name__, __base__=model, __doc__=model.__doc__, aggregates=aggregates, **more)

    several = QueryFile.model_fields["table"].description
    tables: Any = (list[with_kinds(OneOfSeveral)], Field(default=[], description=several))  # type: ignore[misc]
    made: type[QueryFile] = with_kinds(QueryFile, table=tables)
    return made


def query_file_of(plain: Mapping[str, Any]) -> QueryFile:
    """The query file that plain values describe, or a ValueError that names each key that is wrong."""
    return _checked(query_file_model(), _with_data_file(plain, Path()))


def data_file_of(plain: Mapping[str, Any]) -> DataFile:
    """The data file that plain values describe, or a ValueError that names each key that is wrong."""
    return _checked(DataFile, plain)


def _checked(model: type[F], plain: Mapping[str, Any]) -> F:
    try:
        return model.model_validate(plain)
    except ValidationError as error:
        raise ValueError(in_words(error, model, plain)) from None


def with_parts(file: QueryFile, parts: Mapping[str, Mapping[str, Any]], aggregates: list[dict[str, Any]]) -> QueryFile:
    """Make a copy with other values of some keys, by part, and with other aggregates if there are any."""
    values: dict[str, Any] = {part: getattr(file, part) for part in file.model_fields_set}
    values |= {part: getattr(file, part).model_copy(update=keys) for part, keys in parts.items()}
    return _checked(query_file_model(), values | ({"aggregates": aggregates} if aggregates else {}))


def read_query_file(path: str | Path) -> QueryFile:
    """The query file at a path. Relative paths in it are relative to its folder."""
    path = Path(path)
    plain = _read_toml(path, "query")
    try:
        return _checked(query_file_model(), _with_data_file(plain, path.parent)).beside(path.parent)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def read_data_file(path: str | os.PathLike[str]) -> DataFile:
    """The data file at a path. Relative paths in it are relative to its folder."""
    path = Path(path)
    plain = _read_toml(path, "file")
    for part in _OF_QUERIES:
        if part in plain:
            raise ArgumentError(
                f"file: {str(path)!r} is a query file, since it has {part}: give it as `--query {path}`; a data file "
                "has [data], [columns], [budget] and [report]",
                argument="file",
            )
    try:
        if "file" in _table(plain, "data"):
            raise ValueError("data.file is for query files; a data file has source and privacy_unit")
        return _checked(DataFile, plain).beside(path.parent)
    except ValueError as error:
        raise ArgumentError(f"{path}: {error}", argument="file") from None


def is_data_file(source: object) -> bool:
    """Whether a source is the path of a data file, rather than of the data."""
    return isinstance(source, str | os.PathLike) and os.fspath(source).lower().endswith(SUFFIX)


def _with_data_file(plain: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
    """A query file with what its data file says, if it names one; paths are relative to the folder."""
    own = _table(plain, "data")
    if not isinstance(own.get("file"), str):
        return plain
    for key in _WHICH_DATA:
        if key in own:
            raise ValueError(f"data.{key} must be left out with data.file: the data file says it")
    known = relative_paths(read_data_file(folder / own["file"]).given(), folder)
    data = _table(known, "data")
    both: dict[str, Any] = {
        key: {**data.get(key, {}), **own[key]} for key in ("types", "derive") if isinstance(own.get(key), Mapping)
    }
    if "where" in own and "where" in data:
        both["where"] = [*as_list(data["where"]), *as_list(own["where"])]
    columns = _columns(known, plain)
    return {
        **plain,
        "data": {**data, **own, **both},
        **({"tables": {**_table(known, "tables"), **_table(plain, "tables")}} if "tables" in known else {}),
        **({"columns": columns} if columns else {}),
        **{
            part: {**_table(known, part), **_table(plain, part)}
            for part in ("budget", "report")
            if part in known and isinstance(plain.get(part, {}), Mapping)
        },
    }


def _columns(known: Mapping[str, Any], plain: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the facts about columns: those of the query file take the place of those of the data file."""
    types = _table(_table(plain, "data"), "types")
    columns: dict[str, Any] = {
        name: {key: value for key, value in column.items() if key != "type" or name not in types}
        for name, column in _table(known, "columns").items()
    }
    for name, column in _table(plain, "columns").items():
        columns[name] = {**columns.get(name, {}), **column} if isinstance(column, Mapping) else column
    return columns


def _table(plain: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A part of a file; nothing if it is none."""
    part = plain.get(name)
    return part if isinstance(part, Mapping) else {}


def _read_toml(path: Path, argument: str) -> dict[str, Any]:
    """The contents of a file; errors begin with the argument that names it."""
    named = f"{argument}: {str(path)!r}"
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        hint = "; `osgt start` writes a data file" if argument == "file" else ""
        raise about(argument, FileNotFoundError(f"{argument}: there is no file {str(path)!r}{hint}")) from None
    except IsADirectoryError:
        raise about(argument, IsADirectoryError(f"{named} is a folder; give the name of a file")) from None
    except UnicodeDecodeError:
        raise ArgumentError(f"{named} is not TOML: it is not text in UTF-8", argument=argument) from None
    except tomllib.TOMLDecodeError as error:
        # The parser names a table by a tuple of Python.
        words = re.sub(r"\('([^)]*)',?\)", lambda names: "[" + names[1].replace("', '", ".") + "]", str(error))
        raise ArgumentError(f"{named} is not TOML: {words}", argument=argument) from None
    except RecursionError:
        raise ArgumentError(f"{named} has lists or tables too deep inside each other", argument=argument) from None


#: Most characters of a wrong value that a message repeats.
_SHOWN = 60

#: Most problems that one message tells.
_MOST = 10


def in_words(error: ValidationError, model: type[BaseModel], plain: Mapping[str, Any]) -> str:
    """Put the problems into words, each key once; of very many the first ones."""
    problems = list(dict.fromkeys(_problem(one, model, plain) for one in error.errors(include_url=False)))
    more = [f"and {len(problems) - _MOST} more"] if len(problems) > _MOST else []
    return "; ".join([*problems[:_MOST], *more])


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
