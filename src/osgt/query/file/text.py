"""Query files written out: as TOML for people to review, and as the program in Python that makes the same release."""

import datetime
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from osgt.data.engines import engine_named, engine_names

#: The keys that may hold paths, by part.
_PATHS = {
    "data": ("source", "ledger"),
    "tables": ("source",),
    "groups": ("public_keys", "per"),
    "output": ("out", "report"),
}


#: The parts that come first, in this order.
_FIRST = ("data", "tables", "columns", "groups", "aggregates", "table", "budget", "output")


def query_file_text(plain: Mapping[str, Any], folder: str | Path) -> str:
    """The text of a query file that is to stand in a folder: paths are written relative to it."""
    lines: list[str] = []
    plain = relative_paths(plain, folder)
    for part in dict.fromkeys([*(part for part in _FIRST if part in plain), *plain]):
        values = plain[part]
        if part == "aggregates":
            for aggregate in values:
                lines += _table("[[aggregates]]", aggregate)
        elif part == "table":
            for table in values:
                lines += _one_of_several(table)
        elif values:
            lines += _part(part, values)
    return "\n".join(lines).strip() + "\n"


def relative_paths(plain: Mapping[str, Any], folder: str | Path) -> dict[str, Any]:
    """A query file or data file in plain values, with paths relative to a folder."""
    result = dict(plain)
    for part in (*_PATHS, "columns", "table"):
        values = plain.get(part)
        if part in ("tables", "columns") and values:
            result[part] = {name: _beside(part, column, folder) for name, column in values.items()}
        elif part == "table" and values:
            result[part] = [
                {**table, "groups": _beside("groups", table["groups"], folder)} if table.get("groups") else table
                for table in values
            ]
        elif values:
            result[part] = _beside(part, values, folder)
    return result


def _one_of_several(table: Mapping[str, Any]) -> list[str]:
    lines = _table("[[table]]", {key: value for key, value in table.items() if key not in ("groups", "aggregates")})
    if table.get("groups"):
        lines += _part("table.groups", table["groups"])
    for aggregate in table.get("aggregates", ()):
        lines += _table("[[table.aggregates]]", aggregate)
    return lines


def _beside(part: str, values: Mapping[str, Any], folder: str | Path) -> dict[str, Any]:
    """The part with the paths of files that are there, or are to be written, taken from the folder."""
    result = dict(values)
    for key in _PATHS.get(part, ("values",)):
        value = result.get(key)
        if isinstance(value, str) and "://" not in value and _is_path(part, key, value, values.get("engine")):
            result[key] = os.path.relpath(value, os.fspath(folder))
    if part == "groups" and isinstance(result.get("totals"), list):
        result["totals"] = [_level_beside(level, folder) for level in result["totals"]]
    return result


def _level_beside(level: Any, folder: str | Path) -> Any:
    """A level of totals; the path of a file that has public ones is taken from the folder."""
    if not isinstance(level, Mapping) or not isinstance(level.get("known"), str):
        return level
    return {**level, "known": os.path.relpath(level["known"], os.fspath(folder))}


def _is_path(part: str, key: str, value: str, engine: str | None) -> bool:
    """Whether it is the path of a file, rather than the name of a table or "all"."""
    if key == "source" and engine in engine_names():
        return engine_named(str(engine)).is_path(value)
    return part == "output" or key in ("source", "ledger") or bool(os.path.splitext(value)[1])


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
        return f"[{', '.join(_value(item) for item in value)}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_key(key)} = {_value(item)}' for key, item in value.items())}}}"
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return repr(value)


#: Keys of [data] that are no arguments of `Dataset`, or come first.
_APART = ("file", "source", "privacy_unit", "derive", "where")

#: Where a call is broken into lines.
_WIDTH = 88

#: The arguments of aggregates that may be given by place, in this order.
_BY_PLACE = ("column", "condition")


def python_code(plain: Mapping[str, Any]) -> str:
    """The program that makes the release of a query file in plain values; what is not given yet is `...`."""
    several = plain.get("table") or []
    names = ["Dataset", "Publication"] if several else ["Dataset"]
    lines = [f"from osgt import {', '.join(names)}", "", *_dataset(plain.get("data", {}))]
    if several:
        tables = {table.get("name", f"table_{i + 1}"): table for i, table in enumerate(several)}
        variables = _variables(tables)
        for name, table in tables.items():
            lines += ["", *_query(variables[name], table)]
        keys = ", ".join(f"{name!r}: {variable}" for name, variable in variables.items())
        lines += ["", f"query = Publication({{{keys}}})"]
        weights = {name: table["weight"] for name, table in tables.items() if table.get("weight", 1) != 1}
        if weights:
            lines.append(f"query = query.weighted({weights!r})")
    else:
        lines += ["", *_query("query", plain)]
    return "\n".join([*lines, "", *_release(plain)]) + "\n"


def _dataset(data: Mapping[str, Any]) -> list[str]:
    first = [_given(data, "source"), f"privacy_unit={_given(data, 'privacy_unit')}"]
    named = [f"{name}={value!r}" for name, value in data.items() if name not in _APART and value is not None]
    lines = _call("data = Dataset", [*first, *named])
    if data.get("derive"):
        lines += _call("data = data.derive", [repr(dict(data["derive"]))])
    return lines + [f"data = data.where({condition!r})" for condition in _texts(data.get("where"))]


def _query(name: str, plain: Mapping[str, Any]) -> list[str]:
    groups = plain.get("groups", {})
    keys = [repr(column) for column in _texts(groups.get("by"))]
    named = [f"{key}={value!r}" for key, value in groups.items() if key != "by" and value is not None]
    conditions = "".join(f".where({condition!r})" for condition in _texts(plain.get("where")))
    steps = [f"data{conditions}.group_by({', '.join([*keys, *named])})"]
    steps += [_aggregate(aggregate) for aggregate in plain.get("aggregates", ())]
    one = f"{name} = {''.join(steps)}"
    return [one] if len(one) <= _WIDTH else [f"{name} = (", *(f"    {step}" for step in steps), ")"]


def _aggregate(aggregate: Mapping[str, Any]) -> str:
    placed = [repr(aggregate[key]) for key in _BY_PLACE if key in aggregate]
    named = [
        f"{key}={tuple(value) if key == 'bounds' else value!r}"
        for key, value in aggregate.items()
        if key not in (*_BY_PLACE, "kind") and value is not None
    ]
    return f".{aggregate['kind']}({', '.join([*placed, *named])})"


def _texts(value: str | list[str] | None) -> list[str]:
    return [value] if isinstance(value, str) else value or []


def _release(plain: Mapping[str, Any]) -> list[str]:
    budget, output = plain.get("budget", {}), dict(plain.get("output", {}))
    files = {key: output.pop(key) for key in ("out", "report") if output.get(key) is not None}
    options = [f"epsilon={_given(budget, 'epsilon')}", f"delta={_given(budget, 'delta')}"]
    options += [f"{key}={_option(key, value)}" for key, value in output.items() if value is not None]
    lines = _call("release = query.release", options)
    texts = [f"{key}={value!r}" for key, value in plain.get("report", {}).items() if value]
    if files:
        lines += _call("release.write", [*(f"{key}={value!r}" for key, value in files.items()), *texts])
    return lines


def _option(key: str, value: Any) -> str:
    """An argument of `release`; objectives with a number are pairs in Python."""
    if key == "objective" and isinstance(value, str):
        from osgt.noise.error import objective_of  # noqa: PLC0415 - for this alone

        return repr(objective_of(value))
    return repr(value)


def _given(values: Mapping[str, Any], key: str) -> str:
    return repr(values[key]) if values.get(key) is not None else "..."


def _call(start: str, arguments: list[str]) -> list[str]:
    one = f"{start}({', '.join(arguments)})"
    return [one] if len(one) <= _WIDTH else [f"{start}(", *(f"    {argument}," for argument in arguments), ")"]


def _variables(names: Iterable[str]) -> dict[str, str]:
    """A name of Python for each table, all different."""
    result: dict[str, str] = {}
    for name in names:
        variable = "table_" + "".join(c if c.isascii() and c.isalnum() else "_" for c in name)
        while variable in result.values():
            variable += "_"
        result[name] = variable
    return result
