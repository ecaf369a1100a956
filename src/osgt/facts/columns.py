"""The columns of a release: what each holds, in a sentence, and in how many groups it is mostly noise.

The second is counted in what is published: nothing is charged for it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from osgt.facts import wording
from osgt.query.about import About
from osgt.query.aggregates import AGGREGATES, Aggregate
from osgt.query.aggregates.base import QuerySpec
from osgt.query.groups import OTHER, SUMMED_OVER, Groups, groups_alone
from osgt.support.numbers import listed, percent

if TYPE_CHECKING:
    from osgt.plan.plan import Plan

#: Names of arguments of aggregates that are not words.
_NAMES = {"missing": "missing values", "column": "of", "bounds": "limits of a value", "edges": "edges of the bins"}


@dataclass(frozen=True)
class ColumnNote:
    """A column under the name that it has in the table: its label, its unit of measurement and what it holds."""

    name: str
    label: str
    unit: str | None
    words: str
    is_key: bool


def columns_of(query: QuerySpec, plan: "Plan") -> list[dict[str, Any]]:
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
    """Describe an aggregate in the words of the reference, and say what was asked for."""
    first = (AGGREGATES[aggregate.kind].arguments.__doc__ or "").partition("\n")[0]
    here = f" Here: {aggregate_in_words(aggregate)}." if aggregate.arguments() else ""
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


def aggregate_in_words(aggregate: Aggregate) -> str:
    """An aggregate in words: "mean of arr_delay; limits of a value: -60 to 120"."""
    arguments = aggregate.arguments() | ({aggregate.open_limit: "open"} if aggregate.open_limit else {})
    words = [aggregate.kind.replace("_", " ")]
    if "column" in arguments:
        words[0] += f" of {arguments.pop('column')}"
    for name, value in arguments.items():
        told = listed([_plain(each) for each in value]) if name == "levels" else _plain(value)
        words.append(f"{_NAMES.get(name, name.replace('_', ' '))}: {told}")
    if aggregate.weight != 1:
        words.append(f"weight: {aggregate.weight:g}")
    return "; ".join(words)


def _plain(value: Any) -> str:
    if isinstance(value, list | tuple):
        return " to ".join(_plain(each) for each in value) if len(value) == 2 else listed([_plain(v) for v in value])
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,.15g}" if isinstance(value, int | float) else str(value)


@dataclass(frozen=True)
class MostlyNoise:
    """The number of groups, totals not among them, and in how many of them each aggregate is mostly noise.

    That is where an interval contains 0 or is wider than the number; for means and the like, where there is no number
    since the interval is all that the bounds allow.
    """

    groups: int
    numbers: Mapping[str, int]
    has_keys: bool

    @classmethod
    def of(cls, table: pa.Table, groups: Groups, aggregates: Sequence[Aggregate]) -> "MostlyNoise":
        """Count the groups of a published table, and for each aggregate those that are mostly noise."""
        alone = groups_alone(table, groups.levels)
        numbers = {each.name: int(np.count_nonzero(each.mostly_noise(alone))) for each in aggregates}
        return cls(alone.num_rows, numbers, bool(groups.by))

    @property
    def sentences(self) -> list[str]:
        """The sentences that tell it; none if there are no such groups."""
        return wording.mostly_noise(self.groups, self.numbers, has_keys=self.has_keys)

    @property
    def warnings(self) -> list[str]:
        """A warning where that is more than half of the groups."""
        return wording.mostly_noise_warnings(self.groups, self.numbers, has_keys=self.has_keys)
