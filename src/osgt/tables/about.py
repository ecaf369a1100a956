"""What a report says beside the numbers: title, publisher, …, and names and units of measurement that people know."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypedDict

from osgt.pages.numbers import listed

if TYPE_CHECKING:
    from osgt.tables.query import Query


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


@dataclass(frozen=True)
class About:
    """The texts of a report. Labels and units are by the name of a key or column; the privacy unit can have a label."""

    title: str | None = None
    subtitle: str | None = None
    publisher: str | None = None
    contact: str | None = None
    period: str | None = None
    source: str | None = None
    licence: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, query: "Query", texts: ReportTexts) -> "About":
        """The texts, checked: each is text, and labels and units are of what the query publishes."""
        names = published_names(query)
        return cls.checked(texts, units=names, labels=[*names, query.dataset.privacy_unit])

    @classmethod
    def checked(cls, texts: ReportTexts, *, units: list[str], labels: list[str]) -> "About":
        """The texts, if each is text and names that have units or labels are known."""
        known = {each.name for each in fields(cls)}
        names = {"units": units, "labels": labels}
        found: dict[str, Any] = {}
        for key, value in texts.items():
            if key not in known:
                raise TypeError(f"a report has no {key!r}; it may have {', '.join(sorted(known))}")
            if value is None:
                continue
            if key in names:
                found[key] = _by_name(key, value, names[key])
            elif isinstance(value, str):
                found[key] = value
            else:
                raise TypeError(f"{key} must be text, got {value!r}")
        return cls(**found)

    @classmethod
    def from_json(cls, text: str | bytes) -> "About":
        """The texts that `to_json` has written."""
        return cls(**json.loads(text))

    def to_json(self) -> str:
        """All texts there are, to be kept with a table."""
        return json.dumps({each.name: getattr(self, each.name) for each in fields(self) if getattr(self, each.name)})

    def label(self, name: str) -> str:
        """What people call a key, a column or the privacy unit."""
        return self.labels.get(name, name.replace("_", " "))

    def heading(self, name: str) -> str:
        """The label with the unit of measurement, if there is one."""
        return f"{self.label(name)} ({self.units[name]})" if name in self.units else self.label(name)


def published_names(query: "Query") -> list[str]:
    """The keys and columns of a table."""
    return [*query.groups.by, *(name for aggregate in query.aggregates for name in aggregate.names)]


def default_title(query: "Query", about: About) -> str:
    """What is published, in a few words: "count and mean delay by month"."""
    columns = listed([about.label(name) for aggregate in query.aggregates for name in aggregate.names[:1]])
    title = f"{columns} by {listed([about.label(key) for key in query.groups.by])}" if query.groups.by else columns
    return title[:1].upper() + title[1:]


def _by_name(key: str, texts: object, known: list[str]) -> dict[str, str]:
    if not isinstance(texts, Mapping):
        raise TypeError(f"{key} must be a table of names and texts, got {texts!r}")
    for name, text in texts.items():
        if name not in known:
            raise ValueError(f"{key}: the table has no {name!r}; it has {', '.join(known)}")
        if not isinstance(text, str):
            raise TypeError(f"{key}: {name} must be text, got {text!r}")
    return dict(texts)
