"""Query files written as TOML: what a program has put together, for people to review."""

import datetime
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from osgt.tables.engines import engine_named, engine_names

#: The keys that may hold paths, by part.
_PATHS = {"data": ("source", "ledger"), "groups": ("public_keys",), "output": ("out", "report")}


#: The parts that come first, in this order.
_FIRST = ("data", "groups", "aggregates", "table", "budget")


def query_file_text(plain: Mapping[str, Any], folder: str | Path) -> str:
    """The text of a query file that is to stand in a folder: paths are written relative to it."""
    lines: list[str] = []
    for part in dict.fromkeys([*(part for part in _FIRST if part in plain), *plain]):
        values = plain[part]
        if part == "aggregates":
            for aggregate in values:
                lines += _table("[[aggregates]]", aggregate)
        elif part == "table":
            for table in values:
                lines += _one_of_several(table, folder)
        elif values:
            lines += _part(part, _beside(part, values, folder))
    return "\n".join(lines).strip() + "\n"


def _one_of_several(table: Mapping[str, Any], folder: str | Path) -> list[str]:
    lines = _table("[[table]]", {key: value for key, value in table.items() if key not in ("groups", "aggregates")})
    if table.get("groups"):
        lines += _part("table.groups", _beside("groups", table["groups"], folder))
    for aggregate in table.get("aggregates", ()):
        lines += _table("[[table.aggregates]]", aggregate)
    return lines


def _beside(part: str, values: Mapping[str, Any], folder: str | Path) -> dict[str, Any]:
    """The part with the paths of files that are there, or are to be written, taken from the folder."""
    found = dict(values)
    for key in _PATHS.get(part, ()):
        value = found.get(key)
        if isinstance(value, str) and "://" not in value and _is_path(part, key, value, values.get("engine")):
            found[key] = os.path.relpath(value, os.fspath(folder))
    return found


def _is_path(part: str, key: str, value: str, engine: str | None) -> bool:
    """Whether it is the path of a file, rather than the name of a table or "all"."""
    if key == "source" and engine in engine_names():
        return engine_named(str(engine)).is_path(value)
    return part == "output" or key == "ledger" or bool(os.path.splitext(value)[1])


def _part(part: str, values: Mapping[str, Any]) -> list[str]:
    plain = {key: value for key, value in values.items() if not isinstance(value, Mapping)}
    inner = {key: value for key, value in values.items() if isinstance(value, Mapping)}
    lines = _table(f"[{part}]", plain) if plain or not inner else []
    for key, value in inner.items():
        lines += _part(f"{part}.{_key(key)}", value)
    return lines


def _table(head: str, values: Mapping[str, Any]) -> list[str]:
    return [head, *(f"{_key(key)} = {_value(value)}" for key, value in values.items() if value is not None), ""]


def _key(key: str) -> str:
    bare = key.isascii() and key.replace("_", "").replace("-", "").isalnum()
    return key if bare else _value(key)


def _value(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(each) for each in value)}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_key(key)} = {_value(each)}' for key, each in value.items())}}}"
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return repr(value)
