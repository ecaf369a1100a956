"""The columns of a release, each in a sentence: for the notes beside a table and for programs that read them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from osgt.pages.numbers import percent
from osgt.tables.about import About
from osgt.tables.aggregates import AGGREGATES, Aggregate
from osgt.tables.levels import OTHER, SUMMED_OVER
from osgt.tables.report_details import asked

if TYPE_CHECKING:
    from osgt.tables.plan import Plan
    from osgt.tables.query import Query


@dataclass(frozen=True)
class ColumnNote:
    """A column under the name that it has in the table: its label, its unit of measurement and what it holds."""

    name: str
    label: str
    unit: str | None
    words: str
    is_key: bool


def columns_of(query: "Query", plan: "Plan") -> list[dict[str, Any]]:
    """The columns in plain values, for the statement: `of` is the column whose label and unit a column shares."""
    group = "The group that the row is about."
    found = [{"name": key, "role": "key", "of": key, "words": group} for key in query.groups.by]
    if query.groups.levels:
        over = f'The keys that a total is summed over; missing for groups. "{OTHER}" are those that are not shown.'
        found.append({"name": SUMMED_OVER, "role": "total", "of": SUMMED_OVER, "words": over})
    for aggregate in plan.aggregates:
        words = _words(aggregate)
        for i, name in enumerate(aggregate.names):
            which = f" Number {i + 1:,} of {len(aggregate.names):,}." if len(aggregate.names) > 1 else ""
            found.append({"name": name, "role": "value", "of": name, "words": words + which})
            for end, place in (("low", "Lower"), ("high", "Upper")):
                about = f"{place} end of the {percent(plan.confidence)} noise interval of {name}."
                found.append({"name": f"{name}_{end}", "role": end, "of": name, "words": about})
    return found


def _words(aggregate: Aggregate) -> str:
    """What an aggregate is, in the words of the reference, and what was asked for."""
    first = (AGGREGATES[aggregate.kind].arguments.__doc__ or "").partition("\n")[0]
    here = f" Here: {asked(aggregate)}." if aggregate.arguments() else ""
    return f"{first}{here} Noise was added."


def notes(values: Mapping[str, Any], about: About) -> list[ColumnNote]:
    """The columns of a statement, with the names and units that people know."""
    ends = {"low": ", lower end", "high": ", upper end"}
    return [
        ColumnNote(
            column["name"],
            about.label(column["of"]) + ends.get(column["role"], ""),
            about.units.get(column["of"]),
            column["words"],
            column["role"] == "key",
        )
        for column in values["columns"]
    ]
