"""The wording of tables and their plans: columns, groups, totals, noise, and all of it in lines for a terminal.

Which columns are mostly noise is counted in what is published: nothing is charged for it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from osgt.facts import wording
from osgt.plan.joint import LEFT_OUT_SHARE
from osgt.plan.plan import SHOWN, AnyPlan, Plan
from osgt.query.about import About
from osgt.query.aggregates import AGGREGATES, Aggregate
from osgt.query.aggregates.base import Column, QuerySpec
from osgt.query.groups import OTHER, SUMMED_OVER, Groups, groups_alone
from osgt.support.numbers import counted, half_width, listed, percent

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


def columns_of(query: QuerySpec, plan: Plan) -> list[dict[str, Any]]:
    """The columns in plain values, for the statement: `of` is the column whose label and unit a column shares."""
    group = "The group that the row is about."
    result = [{"name": key, "role": "key", "of": key, "words": group} for key in query.groups.by]
    if query.groups.levels:
        over = f'The keys that a total is summed over; missing for groups. "{OTHER}" are those that are not shown.'
        result.append({"name": SUMMED_OVER, "role": "total", "of": SUMMED_OVER, "words": over})
    for aggregate in plan.aggregates:
        words = _words(aggregate)
        for i, name in enumerate(aggregate.names):
            which = f" Number {i + 1:,} of {len(aggregate.names):,}." if len(aggregate.names) > 1 else ""
            result.append({"name": name, "role": "value", "of": name, "words": words + which})
            for end, place in (("low", "Lower"), ("high", "Upper")):
                about = f"{place} end of the {percent(plan.confidence)} noise interval of {name}."
                result.append({"name": f"{name}_{end}", "role": end, "of": name, "words": about})
    return result


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


def publishing_facts(about: About) -> list[tuple[str, str]]:
    """The period, the publisher and so on, as far as they were told."""
    texts = [(name, getattr(about, name.lower())) for name in ("Period", "Publisher", "Contact", "Source", "Licence")]
    return [(name, text) for name, text in texts if text]


def aggregate_in_words(aggregate: Aggregate, *, is_open: bool = False) -> str:
    """An aggregate in words: "mean of arr_delay; limits of a value: -60 to 120"."""
    arguments = aggregate.arguments() | ({"bounds": "open"} if is_open else {})
    words = [aggregate.kind.replace("_", " ")]
    if "column" in arguments:
        words[0] += f" of {arguments.pop('column')}"
    for name, value in arguments.items():
        told = listed([_plain(level) for level in value]) if name == "levels" else _plain(value)
        words.append(f"{_NAMES.get(name, name.replace('_', ' '))}: {told}")
    if aggregate.weight != 1:
        words.append(f"weight: {aggregate.weight:g}")
    return "; ".join(words)


def _plain(value: Any) -> str:
    if isinstance(value, list | tuple):
        return " to ".join(_plain(end) for end in value) if len(value) == 2 else listed([_plain(v) for v in value])
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
        numbers = {aggregate.name: int(np.count_nonzero(aggregate.mostly_noise(alone))) for aggregate in aggregates}
        return cls(alone.num_rows, numbers, bool(groups.by))

    @property
    def sentences(self) -> list[str]:
        """The sentences that tell it; none if there are no such groups."""
        return wording.mostly_noise(self.groups, self.numbers, has_keys=self.has_keys)

    @property
    def warnings(self) -> list[str]:
        """A warning where that is more than half of the groups."""
        return wording.mostly_noise_warnings(self.groups, self.numbers, has_keys=self.has_keys)


def published_groups(plan: Plan, unit: str | None = None) -> list[str]:
    """Say which groups are published, if not all rows are one group; a unit by the name that people have for it."""
    if plan.threshold is not None:
        assert plan.chosen_by is not None
        assert plan.shown_size is not None
        return [wording.threshold(plan.chosen_by, plan.threshold, plan.shown_size, SHOWN, unit)]
    return [] if plan.groups.public is None else [wording.GIVEN_GROUPS]


def choice(plan: Plan) -> list[str]:
    """Say what the choice of groups has to do with δ, where groups are chosen."""
    if plan.selection is None:
        return []
    return [wording.choice(plan.selection_delta, apart=plan.selection.charged_separately)]


def totals(plan: Plan) -> list[str]:
    """Say how totals come about, if there are any."""
    if not plan.groups.levels:
        return []
    if plan.groups.public is None:
        return [wording.total_of_chosen_groups(OTHER)]
    return [wording.totals([level.words for level in plan.groups.levels])]


def gains(plan: AnyPlan) -> str:
    """Say how much smaller the error is than with the other noises."""
    over = "root mean square over the tables, of each over its columns in units of their shifts"
    if isinstance(plan, Plan):
        over = "root mean square over the columns" if len(plan.columns) > 1 else ""
    return wording.gains(plan.objective, plan.gains, over)


def half_width_of(column: Column) -> tuple[float, str]:
    """The half-width of a column's interval, and words: in a large group for a ratio, in ranks for a quantile."""
    if column.half_width is not None:
        return column.half_width, ""
    if column.ranks is not None:
        return column.ranks, " ranks"
    size, half = max((column.by_size or {0: 0.0}).items())
    return half, f" with {counted(size, 'value')}"


def width(column: Column) -> str:
    """The half-width of a column's interval in words."""
    number, where = half_width_of(column)
    return f"{half_width(number)}{where}"


def accuracy(column: Column) -> str:
    """The half-widths of a column's interval, how often they hold, and the standard deviation if there is one."""
    widths, often = width(column), f"{percent(column.confidence)} of the time"
    if column.std is not None:
        return f"{widths} ({often}; standard deviation {column.std:,.4g})"
    if column.by_size is not None:
        sizes = column.by_size.items()
        widths = ", ".join(f"{half_width(half)} in a group of {counted(size, 'value')}" for size, half in sizes)
    return f"{widths} ({often})"


def plan_text(plan: AnyPlan) -> str:
    """A plan in lines."""
    lines = [wording.cost(plan.epsilon, plan.delta, len(plan.tables))]
    if isinstance(plan, Plan):
        lines += [f"  {line}" for line in (*_noise(plan), gains(plan), *_limits(plan))]
    else:
        for name, table in plan.tables.items():
            lines += [f"{name}:", *(f"  {line}" for line in (*_noise(table), *_limits(table)))]
        lines.append(gains(plan))
    return "\n".join([*lines, *(f"Warning: {warning}" for warning in plan.cautions)])


def _noise(plan: Plan) -> list[str]:
    """The noise of each column."""
    lines = [f"{column.name}: {accuracy(column)}" for column in plan.columns]
    for level, columns in plan.totals.items():
        lines += [f"{column.name} {level.words}: {accuracy(column)}" for column in columns]
    return lines


def _limits(plan: Plan) -> list[str]:
    """Say which groups are chosen, and what the limits do."""
    lines = [] if plan.threshold is None else [" ".join([*published_groups(plan), *choice(plan)])]
    if (beside := plan.left_out) is not None:
        misfits = bool(beside.misfits)
        lines.append(wording.measured_beside(LEFT_OUT_SHARE, by_limits=beside.by_limits, misfits=misfits))
    return [*lines, *plan.limit_notes]
