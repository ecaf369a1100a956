"""The texts of a report beside the numbers: title, publisher, …, names and units of measurement that people know."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypedDict

from osgt.data.rows import plain_rows
from osgt.query.aggregates.base import QuerySpec, rate_names
from osgt.query.groups import key_words, value_words
from osgt.support.errors import ArgumentError, ArgumentTypeError
from osgt.support.text import listed, names_in_words, nearest, ordinal, unknown


class ReportTexts(TypedDict, total=False):
    """The arguments of `Release.report`, which are the keys of `[report]` in a query file."""

    title: str | None
    subtitle: str | None
    publisher: str | None
    contact: str | None
    period: str | None
    source: str | None
    licence: str | None
    labels: Mapping[str, str] | None
    units: Mapping[str, str] | None
    values: Mapping[str, Mapping[Any, str]] | None


#: What stands before the column in the name of a number, by the ending that a column has unless it is named.
_BEFORE = {"mean": "mean", "median": "median", "sum": "sum of", "variance": "variance of"}

#: The aggregates that are measured in the unit of their column.
_IN_UNITS_OF_COLUMN = ("sum", "mean", "median", "quantile")


@dataclass(frozen=True)
class About:
    """The texts of a report.

    Labels and units are by the name of a key or column. `values` are labels of single values of a key, by the text
    that the value has in the table.
    """

    title: str | None = None
    subtitle: str | None = None
    publisher: str | None = None
    contact: str | None = None
    period: str | None = None
    source: str | None = None
    licence: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, queries: Iterable[QuerySpec], texts: ReportTexts, titles: Iterable[str] = ()) -> "About":
        """The texts, if each is text, and labels and units are of what the queries publish.

        `titles` are further names that may have a label.
        """
        queries = list(queries)
        published = list(dict.fromkeys(name for query in queries for name in published_names(query)))
        bounded = [limit.column for query in queries for aggregate in query.aggregates for limit in aggregate.limits]
        labelled = [*published, *titles, *bounded]
        names = {"units": published, "labels": list(dict.fromkeys(labelled))}
        known = [field.name for field in fields(cls)]
        result: dict[str, Any] = _from_data(queries)
        for key, value in texts.items():
            if key not in known:
                raise TypeError(f"a report has no {key!r}{nearest(key, known)}; it may have {names_in_words(known)}")
            if value is None:
                continue
            if key in names:
                _check_units(key, value, queries)
                result[key] = result[key] | _by_name(key, value, names[key])
            elif key == "values":
                own = _by_value(value, queries)
                result[key] |= {name: {**result[key].get(name, {}), **labels} for name, labels in own.items()}
            elif isinstance(value, str):
                result[key] = value
            else:
                raise ArgumentTypeError(f"{key} must be text, got {value!r}", argument=key)
        return cls(**result)

    @classmethod
    def from_json(cls, text: str | bytes) -> "About":
        """The texts that `to_json` has written."""
        return cls(**json.loads(text))

    def to_json(self) -> str:
        """Write the texts that are given as JSON, to be kept with a table."""
        return json.dumps({name: text for name, text in vars(self).items() if text})

    def label(self, name: str) -> str:
        """Look up the name that people have for a key or a column: without a label, "mean cost" for cost_mean."""
        return self.labels.get(name) or _in_words(name)

    def heading(self, name: str) -> str:
        """The label with the unit of measurement, if there is one."""
        return f"{self.label(name)} ({self.units[name]})" if name in self.units else self.label(name)

    def key_words(self, row: Mapping[str, Any], key: str, *, missing: str) -> str:
        """A key of a released row as people read it: its label, if it has one."""
        words = key_words(row, key, missing=missing)
        return words if row[key] is None else self.values.get(key, {}).get(words, words)


def _in_words(name: str) -> str:
    """The name of a column in words, the kind of number before what it is of."""
    column, _, kind = name.rpartition("_")
    plain = column.replace("_", " ")
    if column and kind in _BEFORE:
        return f"{_BEFORE[kind]} {plain}"
    if column and kind[:1] == "q" and kind[1:].isdecimal():
        return f"{ordinal(int(kind[1:]))} percentile of {plain}"
    return name.replace("_", " ")


def _from_data(queries: Sequence[QuerySpec]) -> dict[str, Any]:
    """The texts that the description of the data has: publisher and so on, labels and units of columns and values."""
    labels, units, values = dict[str, str](), dict[str, str](), dict[str, Mapping[str, str]]()
    for query in queries:
        names = {key: (key, key) for key in query.groups.by}
        for aggregate in query.aggregates:
            column = str(aggregate.arguments().get("column", ""))
            names |= dict.fromkeys((*aggregate.names, column), (column, aggregate.kind))
        for name, (column, kind) in names.items():
            known = query.dataset.known_column(column)
            ending = name.removeprefix(column)
            if known.label is not None and (not ending or ending.startswith("_")):
                labels[name] = known.label + ending.replace("_", ", ", 1).replace("_", " ")
            if known.unit is not None and (name == column or kind in _IN_UNITS_OF_COLUMN):
                units[name] = known.unit
        values |= {key: query.dataset.known_column(key).labels for key in query.groups.by}
    texts = dict(queries[0].dataset.report_texts) if queries else {}
    return {**texts, "labels": labels, "units": units, "values": {key: own for key, own in values.items() if own}}


def published_names(query: QuerySpec) -> list[str]:
    """The keys and columns of a table."""
    names = [name for aggregate in query.aggregates for name in aggregate.names]
    return [*query.groups.by, *names, *rate_names(query).values()]


def default_title(query: QuerySpec, about: About) -> str:
    """Make a title from the columns and the keys: "Count and mean delay by month"."""
    columns = listed([about.label(name) for aggregate in query.aggregates for name in aggregate.names[:1]])
    title = f"{columns} by {listed([about.label(key) for key in query.groups.by])}" if query.groups.by else columns
    return title[:1].upper() + title[1:]


def _by_value(labels: object, queries: Sequence[QuerySpec]) -> dict[str, dict[str, str]]:
    """Labels of the values of keys, by the text of each value."""
    keys = list(dict.fromkeys(key for query in queries for key in query.groups.by))
    if not isinstance(labels, Mapping):
        raise TypeError(f"values must be a table of keys, each with its values and their labels, got {labels!r}")
    result: dict[str, dict[str, str]] = {}
    for key, texts in labels.items():
        if key not in keys:
            raise ValueError(f"values: {unknown('key', str(key), keys)}")
        if not isinstance(texts, Mapping):
            raise TypeError(f"values: {key} must be a table of values and their labels, got {texts!r}")
        result[key] = {value_words(value): text for value, text in texts.items()}
        _check_values(key, result[key], [query for query in queries if key in query.groups.by])
    return result


def _check_values(key: str, labels: Mapping[str, object], queries: Sequence[QuerySpec]) -> None:
    """Raise unless each label is a text of its own, of a value that can occur as far as that is known."""
    for value, text in labels.items():
        if not isinstance(text, str):
            raise TypeError(f"values: {key}: the label of {value!r} must be text, got {text!r}")
        if not text.strip():
            raise ValueError(f"values: {key}: the label of {value!r} must not be empty")
    public = [plain_rows(query.groups.public.select([key])) for query in queries if query.groups.public is not None]
    known = list(dict.fromkeys(value_words(row[key]) for rows in public for row in rows if row[key] is not None))
    if len(public) == len(queries):
        for value in labels:
            if value not in known:
                raise ValueError(f"values: {value!r} is none of the public keys of {key}: {_some(known)}")
    shown = Counter(labels.get(value, value) for value in dict.fromkeys([*labels, *known]))
    for text, times in shown.items():
        if times > 1:
            raise ValueError(f"values: {times} values of {key} would all be shown as {text!r}; give each its own label")


def _some(values: list[str]) -> str:
    return listed([repr(value) for value in values[:8]]) + (f" and {len(values) - 8:,} more" if len(values) > 8 else "")


def _check_units(key: str, texts: object, queries: Sequence[QuerySpec]) -> None:
    """Raise if a privacy unit that is not published is given a label: it has a noun instead."""
    for query in queries:
        unit = query.dataset.privacy_unit
        if isinstance(texts, Mapping) and unit in texts and unit not in published_names(query):
            raise ArgumentError(
                f'{key}: {unit!r} is not published: it is the privacy unit. Say what one is called with noun="…" in '
                "Dataset(…), or in [data] of a query file",
                argument=key,
            )


def _by_name(key: str, texts: object, known: list[str]) -> dict[str, str]:
    if not isinstance(texts, Mapping):
        raise ArgumentTypeError(f"{key} must be a table of names and texts, got {texts!r}", argument=key)
    for name, text in texts.items():
        if name not in known:
            raise ArgumentError(f"{key}: {unknown('key or column', str(name), known)}", argument=key)
        if not isinstance(text, str):
            raise ArgumentTypeError(f"{key}: {name} must be text, got {text!r}", argument=key)
    return dict(texts)
