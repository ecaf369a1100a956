"""The page's fields as a query file, and back: at every moment the page is a query file, complete or not.

Both are plain values. What a query file can say and the page has no field for is carried along in one field, as TOML,
so that a file which was loaded loses nothing.
"""

import csv
import datetime
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, get_origin

from osgt.data.unit import Noun
from osgt.query.file import as_list, plain_type
from osgt.query.file.model import DataFile, QueryFile, TextsTable
from osgt.query.file.text import query_file_text
from osgt.support.locations import holds_secret, shown
from osgt.web.entries import Entries, Problems, as_text, number, read_aggregate, text, whole, written_aggregate

#: The field that holds what others do not.
REST = "rest"


def _keys_of_type(*kinds: Any) -> dict[str, dict[str, Any]]:
    """The keys of a query file whose value is of one of some types, with it, by part."""
    return {
        part: {
            name: plain_type(field.annotation)
            for name, field in QueryFile.model_fields[part].annotation.model_fields.items()  # type: ignore[union-attr]
            if (get_origin(plain_type(field.annotation)) or plain_type(field.annotation)) in kinds
        }
        for part in ("data", "groups", "budget", "output", "report")
    }


#: Fields that hold a text as it is, and those that hold a number, by the part of the query file.
TEXTS = _keys_of_type(str, Literal)
NUMBERS = _keys_of_type(int, float)

#: The names of totals on the page, and what a query file says for them.
TOTALS = {"rollup": "rollup", "cube": "cube", "all": [[]]}

#: The choice that stands for what a file has said and the page has no fields for.
LOADED = "loaded"

#: Public keys that are said in a word: all values that are known, or none.
_WORDS_FOR_KEYS = ("all", "none")

#: The choices of who is protected: every row by itself, or each person named in a column.
BY_ROW, BY_COLUMN = "row", "column:"

#: The budget and the number that a page begins with.
_BUDGET, _NUMBERS = {"epsilon": 1, "delta": 1e-8}, [{"kind": "count"}]


def plain_of(entries: Entries) -> tuple[dict[str, Any], Problems]:
    """Read the fields as a query file in plain values, and tell what cannot be read, by field."""
    problems: Problems = {}
    plain = _rest(entries)
    for key, field in (("public_keys", "keys.kind"), ("totals", "totals")):
        if entries.one(field) != LOADED:
            plain.get("groups", {}).pop(key, None)
    loaded = as_list(plain.get("data", {}).get("where"))
    for part, names in TEXTS.items():
        _add(plain, part, {name: text(entries, f"{part}.{name}", problems) for name in names})
    read = {int: whole, float: number}
    for part, kinds in NUMBERS.items():
        _add(plain, part, {name: read[kind](entries, f"{part}.{name}", problems) for name, kind in kinds.items()})
    _add(plain, "data", _read_data(entries, loaded, problems))
    _add(plain, "groups", _read_groups(entries, problems))
    _add(plain, "output", _read_output(entries, problems))
    _add(plain, "report", {key: entries.below(f"report.{key}") or None for key in ("labels", "units")})
    rows = [read_aggregate(entries, f"aggregates.{row}", problems) for row in entries.rows("aggregates")]
    aggregates = [aggregate for aggregate in rows if aggregate is not None]
    for name in plain.get("data", {}).get("types", {}):  # which is said in one place
        plain.get("columns", {}).get(name, {}).pop("type", None)
    return plain | ({"aggregates": aggregates} if aggregates else {}), problems


def _read_data(entries: Entries, loaded: list[str], problems: Problems) -> dict[str, Any]:
    """The keys of [data] that are more than a text; `loaded` are conditions of a file that have no field."""
    return {
        "privacy_unit": _unit(entries),
        "noun": _noun(entries),
        "types": {name: kind for name, kind in entries.below("data.types").items() if kind != "string"} or None,
        "derive": _derived(entries, problems) or None,
        "where": [*loaded, *_lines(entries.raw("data.where"))] or None,
    }


def _read_groups(entries: Entries, problems: Problems) -> dict[str, Any]:
    """The keys of [groups] that are more than a number."""
    by = entries.all("groups.by")
    keys = _keys(entries, by, problems)
    return {"by": by or None, "public_keys": keys, "totals": TOTALS.get(entries.one("totals"))}


def _read_output(entries: Entries, problems: Problems) -> dict[str, Any]:
    """The keys of [output] that are more than a text or a number."""
    return {
        "marks": _marks(entries.one("output.marks"), problems),
        "nonnegative": True if entries.one("output.nonnegative") else None,
        "measure_left_out": None if entries.one("output.measure_left_out") else False,
    }


def _marks(chosen: str, problems: Problems) -> bool | list[float] | None:
    """Whether there are quality marks, or the shares that a file has loaded."""
    try:
        return chosen == "yes" or [float(share) for share in chosen.split(",")] if chosen else None
    except ValueError:
        problems["output.marks"] = "This must be yes, or two shares such as 0.1, 0.25."
        return None


def without_leftovers(entries: Entries) -> Entries:
    """Drop fields that the page had for an earlier choice, and has no more for this one."""
    left = [] if entries.all("groups.by") else ["groups.max_groups", "keys", "totals"]
    if entries.one("unit") == BY_ROW:
        left += ["data.units", *(f"groups.{name}" for name in NUMBERS["groups"])]
    return entries.without(*left)


def normalised(entries: Entries) -> Entries:
    """Number the rows of aggregates and derived columns from 0 on, without empty rows."""
    fields = entries.without("aggregates", "derive").fields
    for prefix in ("aggregates", "derive"):
        rows = [row for row in entries.rows(prefix) if _is_entered(entries, f"{prefix}.{row}")]
        for new, row in enumerate(rows):
            start = f"{prefix}.{row}."
            for name, values in entries.fields.items():
                if name.startswith(start):
                    fields[f"{prefix}.{new}.{name.removeprefix(start)}"] = values
    return Entries(fields)


def _is_entered(entries: Entries, row: str) -> bool:
    """Whether a row holds something: of an aggregate its kind, of a derived column its name or expression."""
    names = ("kind",) if row.startswith("aggregates") else ("name", "sql")
    return any(entries.one(f"{row}.{name}") for name in names)


def with_defaults(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Add the budget and the number that a page begins with, where a file says nothing about them."""
    begun = {**plain, "budget": {**_BUDGET, **plain.get("budget", {})}}
    return begun if plain.get("aggregates") or plain.get("table") else {**begun, "aggregates": _NUMBERS}


def fields_of(plain: Mapping[str, Any]) -> Entries:
    """The fields that hold a query file in plain values."""
    rest = {key: dict(value) if isinstance(value, Mapping) else value for key, value in plain.items()}
    fields: dict[str, list[str]] = {}
    for part in TEXTS:
        for name in (*TEXTS[part], *NUMBERS[part]):
            value = rest.get(part, {}).pop(name, None)
            if value is not None:
                fields[f"{part}.{name}"] = [as_text(value)]
    fields |= _data_fields(rest.get("data", {}))
    fields |= _groups_fields(rest.get("groups", {}))
    fields |= _output_fields(rest.get("output", {}))
    for key in ("labels", "units"):
        for name, value in (rest.get("report", {}).pop(key, None) or {}).items():
            fields[f"report.{key}.{name}"] = [value]
    for row, aggregate in enumerate(rest.pop("aggregates", ())):
        fields |= written_aggregate(aggregate, f"aggregates.{row}")
    left = {key: value for key, value in rest.items() if value not in ({}, [], None)}
    return Entries(fields | ({REST: [query_file_text(left, Path.cwd())]} if left else {}))


def _data_fields(data: dict[str, Any]) -> dict[str, list[str]]:
    """The fields of [data] that are more than a text; what has no field stays."""
    fields = _unit_fields(data.pop("privacy_unit", None))
    if (noun := as_list(data.pop("noun", None))) and not any("," in word for word in noun):
        fields["data.noun"] = [", ".join(noun)]
    fields |= {f"data.types.{name}": [kind] for name, kind in (data.pop("types", None) or {}).items()}
    for row, (name, sql) in enumerate((data.pop("derive", None) or {}).items()):
        fields |= {f"derive.{row}.name": [name], f"derive.{row}.sql": [sql]}
    conditions = as_list(data.get("where"))
    if all(len(condition.splitlines()) == 1 for condition in conditions):
        data.pop("where", None)
        fields["data.where"] = ["\n".join(conditions)]
    return fields


def _groups_fields(groups: dict[str, Any]) -> dict[str, list[str]]:
    """The fields of [groups] that are more than a number; what has no field stays."""
    by = as_list(groups.pop("by", None))
    fields = {"groups.by": by}
    if groups.get("public_keys") is not None:
        result = _key_fields(groups["public_keys"], by)
        fields |= {"keys.kind": [LOADED]} if result is None else result
        if result is not None:
            del groups["public_keys"]
    if groups.get("totals") is not None:
        name = next((name for name, value in TOTALS.items() if groups["totals"] == value), LOADED)
        fields["totals"] = [name]
        if name != LOADED:
            del groups["totals"]
    return fields


def _output_fields(output: dict[str, Any]) -> dict[str, list[str]]:
    """The fields of [output] that are more than a text or a number."""
    usual = {"nonnegative": False, "measure_left_out": True}
    fields = {f"output.{name}": ["yes"] for name, value in usual.items() if output.pop(name, value)}
    if marks := output.pop("marks", False):
        fields["output.marks"] = ["yes" if marks is True else ", ".join(map(as_text, marks))]
    return fields


def step_words(plain: Mapping[str, Any]) -> dict[str, str]:
    """The choices of each step, in a line."""
    data, groups = plain.get("data", {}), plain.get("groups", {})
    aggregates = plain.get("aggregates", [])
    unit, by = data.get("privacy_unit", ()), groups.get("by")
    given = data.get("noun")
    noun = unit if unit == "row" else (Noun.of(given) if given else Noun.from_columns(unit)).one if unit else ""
    named = [shown(data.get("source", "")), f"protects each {noun}" if noun else ""]
    numbers = [
        aggregate["kind"] + (f" of {aggregate['column']}" if aggregate.get("column") else "")
        for aggregate in aggregates
    ]
    limits = [f"{name} = {value}" for name, value in groups.items() if name.startswith("max_")]
    own = {"bounds", "max_total", "max_distinct"}
    limits += [f"of {aggregate.get('column')}" for aggregate in aggregates if aggregate.keys() & own]
    return {
        "data": ", ".join(filter(None, [*named, data.get("dataset", "")])),
        "table": ", ".join(numbers) + (f" by {', '.join(by)}" if by else ""),
        "limits": ", ".join(limits) or "chosen by the release",
        "report": plain.get("report", {}).get("title", ""),
    }


def data_file_text(plain: Mapping[str, Any]) -> str:
    """The data file: what the entries say about the data, and nothing of the table."""
    known = {part: plain[part] for part in DataFile.model_fields if part in plain}
    texts = {key: text for key, text in plain.get("report", {}).items() if key in TextsTable.model_fields}
    return query_text(known | ({"report": texts} if texts else {}))[0]


def query_text(plain: Mapping[str, Any]) -> tuple[str, bool]:
    """The query file, with paths as seen from the folder of the server; whether a password was left out of it."""
    safe = without_passwords(plain)
    return query_file_text(safe, Path.cwd()), safe != plain


def without_passwords(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Replace the URLs in the values of a query file by those that may be shown."""
    data = dict(plain.get("data", {}))
    for key in ("source", "ledger"):
        if holds_secret(data.get(key, "")):
            data[key] = shown(data[key])
    return {**plain, "data": data} if "data" in plain else dict(plain)


def _add(plain: dict[str, Any], part: str, values: Mapping[str, Any]) -> None:
    said = {name: value for name, value in values.items() if value is not None}
    if said:
        plain[part] = {**plain.get(part, {}), **said}


def _rest(entries: Entries) -> dict[str, Any]:
    try:
        rest = tomllib.loads(entries.raw(REST))
    except (ValueError, RecursionError):
        return {}  # it is not a field that people type into
    return {part: value for part, value in rest.items() if isinstance(value, list if part == "table" else dict)}


def _unit(entries: Entries) -> str | list[str] | None:
    chosen = entries.all("unit")
    if BY_ROW in chosen:
        return "row"
    return [choice.removeprefix(BY_COLUMN) for choice in chosen if choice.startswith(BY_COLUMN)] or None


def _noun(entries: Entries) -> str | list[str] | None:
    """The noun of the unit; singular and plural have a comma between them."""
    words = [word.strip() for word in entries.one("data.noun").split(",")]
    return words if len(words) > 1 else words[0] or None


def _unit_fields(unit: str | list[str] | None) -> dict[str, list[str]]:
    if unit is None:
        return {}
    return {"unit": [BY_ROW] if unit == "row" else [BY_COLUMN + column for column in as_list(unit)]}


def _derived(entries: Entries, problems: Problems) -> dict[str, str]:
    derived: dict[str, str] = {}
    for row in entries.rows("derive"):
        name, sql = entries.one(f"derive.{row}.name"), entries.one(f"derive.{row}.sql")
        if name and sql and name not in derived:
            derived[name] = sql
        elif name and sql:
            problems[f"derive.{row}.name"] = "There is a column of this name above."
        elif name or sql:
            problems[f"derive.{row}.{'name' if sql else 'sql'}"] = "Give a name and an expression."
    return derived


def _keys(entries: Entries, by: list[str], problems: Problems) -> Any:
    """The public keys that the fields say; None if there are none, or if they are those of the file that was loaded."""
    kind = entries.one("keys.kind")
    if kind == "file":
        result = entries.one("keys.file")
        if not result:
            problems["keys.file"] = "Give the path of a CSV or Parquet file with the groups."
        return result or None
    if kind in _WORDS_FOR_KEYS:
        return kind
    if kind != "lists" or not by:
        return None
    return {name: _values(entries, name, problems) for name in by}


def _values(entries: Entries, column: str, problems: Problems) -> list[Any]:
    """The values of a key, between commas or line ends, in the type of the column."""
    field, read = f"keys.list.{column}", KEY_TYPES.get(entries.one(f"keys.type.{column}"), str)
    try:
        texts = split_values(entries.raw(field))
    except csv.Error:
        problems[field] = 'Write "…" around all of a value with a comma in it, and "" for a quotation mark in it.'
        return []
    if not texts:
        problems[field] = f"Give the values of {column} to publish, with commas between them or one on each line."
    try:
        return [read(text) for text in texts]
    except ValueError:
        problems[field] = f"Each value must be {_KEY_WORDS[read]}."
        return texts


def split_values(text: str) -> list[str]:
    """The values between commas and line ends; one with a comma in it stands between quotation marks, as in CSV."""
    rows = (csv.reader([line.strip()], skipinitialspace=True, strict=True) for line in text.splitlines())
    return [value.strip() for row in rows for values in row for value in values if value.strip()]


def typed_value(value: str) -> str:
    """A value as it is typed among others."""
    return '"' + value.replace('"', '""') + '"' if "," in value or value.startswith('"') else value


def _truth(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError
    return text == "true"


#: How the values of a key are read, by the name of the kind of its column.
KEY_TYPES: dict[str, Callable[[str], Any]] = {
    "text": str,
    "whole": int,
    "date": datetime.date.fromisoformat,
    "truth": _truth,
}
_KEY_WORDS = {int: "a whole number", datetime.date.fromisoformat: "a date, as 2026-01-31", _truth: "true or false"}


def _key_fields(keys: Any, by: list[str]) -> dict[str, list[str]] | None:
    """The fields of public keys, if they are of a form that the page has; None if they are not."""
    if isinstance(keys, str):
        return {"keys.kind": [keys]} if keys in _WORDS_FOR_KEYS else {"keys.kind": ["file"], "keys.file": [keys]}
    if isinstance(keys, list) and len(by) == 1:
        keys = {by[0]: keys}
    if not (isinstance(keys, dict) and set(keys) == set(by)):
        return None
    fields = {"keys.kind": ["lists"]}
    for name, values in keys.items():
        kinds = {_key_kind(value) for value in values} if isinstance(values, list) else {None}
        if len(kinds) != 1 or None in kinds:
            return None
        [kind] = kinds
        lines = [str(value).lower() if kind == "truth" else str(value) for value in values]
        fields |= {f"keys.list.{name}": ["\n".join(map(typed_value, lines))], f"keys.type.{name}": [str(kind)]}
    return fields


def _key_kind(value: Any) -> str | None:
    kinds = {int: "whole", datetime.date: "date", bool: "truth"}
    if isinstance(value, str):
        return "text" if value and value.strip() == value and len(value.splitlines()) == 1 else None
    return kinds.get(type(value))


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]
