"""The wording of tables and their plans: columns, groups, totals, noise, and all of it in lines for a terminal.

Which columns are mostly noise is counted in what is published: nothing is charged for it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from osgt.facts import wording
from osgt.plan.plan import HANDFUL, SHOWN, AnyPlan, Plan
from osgt.query.about import About
from osgt.query.aggregates import Aggregate
from osgt.query.aggregates.base import Column, QuerySpec, counts_units, rate_names
from osgt.query.aggregates.marks import MARK, Marks
from osgt.query.groups import OTHER, SUMMED_OVER, Groups, groups_alone
from osgt.support.text import aligned, counted, half_width, in_digits, listed, percent, percentiles

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


def drawn_quantiles(names: Sequence[str]) -> str:
    """Say that quantiles have no noise that was added, and no interval."""
    return (
        f"To {listed(names)} no noise was added: a value was drawn, as private as a rank with noise, but no interval."
    )


def columns_of(query: QuerySpec, plan: Plan, marks: Marks | None = None) -> list[dict[str, Any]]:
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
            result += _ends_of(name, plan)
            if marks is not None:
                about = wording.marks_of(name, marks.good, marks.caution)
                result.append({"name": name + MARK, "role": "mark", "of": name, "words": about})
            if query.groups.rates is not None and (rate := rate_names(query).get(name)):
                about = wording.rate_of(name, query.groups.rates.per_how_many)
                result += [{"name": rate, "role": "value", "of": rate, "words": about}, *_ends_of(rate, plan)]
    return result


def _ends_of(name: str, plan: Plan) -> list[dict[str, Any]]:
    """The columns with the ends of the intervals of another one."""
    interval = f"end of the {percent(plan.confidence)} noise interval of {name}."
    ends = (("low", "Lower"), ("high", "Upper"))
    return [{"name": f"{name}_{end}", "role": end, "of": name, "words": f"{place} {interval}"} for end, place in ends]


def _words(aggregate: Aggregate) -> str:
    """Describe an aggregate in the words of the reference, and say what was asked for."""
    from osgt.query.file.aggregates import AGGREGATES  # noqa: PLC0415 - pydantic takes a while

    first = (AGGREGATES[aggregate.kind].arguments.__doc__ or "").partition("\n")[0]
    here = f" Here: {aggregate_in_words(aggregate)}." if aggregate.arguments() else ""
    return f"{first}{here} Noise was added."


def notes(values: Mapping[str, Any], about: About) -> list[ColumnNote]:
    """The columns of a statement, with the names and units that people know."""
    ends = {"low": ", lower end", "high": ", upper end", "mark": ", quality mark"}
    return [
        ColumnNote(
            column["name"],
            about.label(column["of"]) + ends.get(column["role"], ""),
            None if column["role"] == "mark" else about.units.get(column["of"]),
            column["words"],
            column["role"] == "key",
        )
        for column in values["columns"]
    ]


def publishing_facts(about: About) -> list[tuple[str, str]]:
    """The period, the publisher and so on, as far as they were told."""
    texts = [(name, getattr(about, name.lower())) for name in ("Period", "Publisher", "Contact", "Source", "Licence")]
    return [(name, text) for name, text in texts if text]


def aggregate_in_words(aggregate: Aggregate) -> str:
    """An aggregate in words: "mean of arr_delay; limits of a value: -60 to 120"."""
    arguments = aggregate.arguments() | ({aggregate.open_limit: "open"} if aggregate.open_limit else {})
    words = [aggregate.kind.replace("_", " ")]
    if "column" in arguments:
        words[0] += f" of {arguments.pop('column')}"
    for name, value in arguments.items():
        levels = isinstance(value, list) and name == "levels"
        told = listed([_plain(level) for level in value]) if levels else _plain(value)
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


def published_groups(plan: Plan) -> list[str]:
    """Say which groups are published, if not all rows are one group."""
    if plan.threshold is not None:
        assert plan.shown_size is not None
        counted = plan.groups.counted_in_words(plan.chosen_by)
        return [wording.threshold(counted, plan.threshold, plan.shown_size, SHOWN)]
    return [] if plan.groups.public is None else [wording.GIVEN_GROUPS]


def choice(plan: Plan) -> list[str]:
    """Say what the choice of groups has to do with δ, where groups are chosen."""
    if plan.selection is None:
        return []
    return [wording.choice(plan.selection_delta)]


def totals(plan: Plan) -> list[str]:
    """Say how totals come about, if there are any."""
    if not plan.groups.levels:
        return []
    if plan.groups.public is None:
        return [wording.total_of_chosen_groups(OTHER)]
    names = {
        measure: [name for aggregate in plan.aggregates if measure in aggregate.measures for name in aggregate.names]
        for measure in plan.planning.known
    }
    return [
        wording.totals([level.words for level in plan.groups.levels]),
        *(
            wording.known_totals(names[measure], [level.words for level in known])
            for measure, known in plan.planning.known.items()
        ),
    ]


def gains(plan: AnyPlan) -> list[str]:
    """Say how much smaller the error is than with the other noises."""
    columns = sum(len(table.columns) for table in plan.tables.values())
    return wording.gains(plan.objective, plan.gains, on_average=columns > 1)


#: The size of a group in which the accuracy of quantiles is told.
_LARGE = 10_000


def width(column: Column) -> str:
    """The half-width of a column's interval in words: in a large group for a ratio, in percentiles for a quantile."""
    if column.is_known:
        return wording.KNOWN
    if column.half_width is not None:
        return half_width(column.half_width, whole=column.is_count)
    if column.ranks is not None and column.level is not None:
        return percentiles(column.level, column.ranks, _LARGE)
    size, half = max((column.by_size or {0: 0.0}).items())
    return f"{half_width(half)} with {counted(size, 'value')}"


#: Where a limit on values is open: what widths are told in multiples or percent of, its power, and the sign.
_IN_LIMITS = {
    "sum": ("in multiples of max_total", 1, ""),
    "mean": ("% of the largest value", 1, " %"),
    "variance": ("% of the square of the largest value", 2, " %"),
    "count_distinct": ("in multiples of max_distinct", 1, ""),
}


@dataclass(frozen=True)
class Widths:
    """The half-widths of a column at a handful of limits, and what they are in, or for how large a group."""

    name: str
    widths: list[str]
    remarks: tuple[str, ...] = ()


def widths_at_limits(plan: Plan) -> list[Widths]:
    """The half-widths of each column at a handful of limits in place of those that are open.

    Those of a column whose limit on values is open are told by that. Where groups are chosen by their size, the
    least noisy number of one that is shown comes last.
    """
    plans = [plan.at_limit(size) for size in HANDFUL]
    lines = []
    owners: list[Any] = [aggregate for aggregate in plan.aggregates for _ in aggregate.names]
    for i, (owner, column) in enumerate(zip(owners, plan.columns, strict=True)):
        scale, sign, remarks = 1.0, "", list[str]()
        if owner.open_limit is not None:
            in_what, power, sign = _IN_LIMITS[owner.kind]
            remarks, scale = [in_what], float(owner.grid.bounds[1]) ** power / (100 if sign else 1)
        if column.ranks is not None:
            remarks, scale = [f"in percentiles of {counted(_LARGE, 'value')}"], _LARGE / 100
        if column.by_size is not None:
            remarks.append(f"with {counted(max(column.by_size), 'value')}")
        halves = [at.columns[i].width / scale for at in plans]
        widths = [half_width(half, whole=column.is_count, digits=2 if sign else 3) + sign for half in halves]
        lines.append(Widths(column.name, widths, tuple(remarks)))
    if plan.selection is not None:
        counted_by = plan.groups.counted_in_words(plan.chosen_by)
        lines.append(Widths(f"{counted_by} of a shown group", [f"≥ {at.threshold or 0:,}" for at in plans]))
    return lines


def limits_to_choose(plan: AnyPlan) -> list[str]:
    """Say which limits are chosen privately first; nothing if all are given."""
    if plan.choice is None:
        return []
    names, choice = [draw.limit.words for draw in plan.choice.draws], plan.choice
    return [wording.limits_to_choose(names, choice.epsilon, plan.epsilon, choice.counting_epsilon)]


def _noise_at_limits(plan: Plan) -> list[str]:
    """The noise of each column at limits that may be chosen: a line for each column, below the limits."""
    names = [limit.argument for limit in plan.open_limits if limit.column is None]
    head = [f"{percent(plan.confidence)} noise intervals", *(f"{size}" for size in HANDFUL)]
    if names:
        head[1] = f"{' and '.join(names)} = {head[1]}"
    else:  # limits on values alone: widths are multiples of these
        head = head[:1] + [""] * len(HANDFUL)
    lines = widths_at_limits(plan)
    rows = [[f"{line.name} *" if line.remarks else line.name, *line.widths] for line in lines]
    if all(len(set(widths)) == 1 for _, *widths in rows):
        head, rows = head[:2], [row[:2] for row in rows]
    remarks = [f"* {line.name}: {', '.join(line.remarks)}" for line in lines if line.remarks]
    return [*aligned([head, *rows], left=1), *remarks]


def accuracy(column: Column) -> str:
    """The half-widths of a column's interval, how often they hold, and the standard deviation if there is one."""
    widths, often = width(column), f"{percent(column.confidence)} of the time"
    if column.std is not None:
        return f"{widths} ({often}; standard deviation {in_digits(column.std, 4)})"
    if column.by_size is not None:
        sizes = column.by_size.items()
        widths = ", ".join(f"{half_width(half)} in a group of {counted(size, 'value')}" for size, half in sizes)
    return f"{widths} ({often})"


def plan_text(plan: AnyPlan) -> str:
    """A plan in lines: its cost, its noise, the groups that are published and the limits."""
    lines = [wording.cost(plan.epsilon, plan.delta, len(plan.tables)), *limits_to_choose(plan)]
    for name, table in plan.tables.items():
        own = [*_noise(table), *_groups(table), *brief_limits(table)]
        lines += [f"{name}:", *(f"  {line}" for line in own)] if name else own
    lines += map(wording.agreement, plan.agreeing)
    return "\n".join([*lines, *gains(plan), *(f"Warning: {warning}" for warning in plan.cautions)])


def _noise(plan: Plan) -> list[str]:
    """The noise of each column."""
    if plan.open_limits:
        return _noise_at_limits(plan)
    rows = [[column.name, _widths(column)] for column in plan.columns]
    for level, columns in plan.totals.items():
        rows += [[f"{column.name} {level.words}", _widths(column)] for column in columns]
    return [f"{percent(plan.confidence)} noise intervals:", *(f"  {line.rstrip()}" for line in aligned(rows, left=2))]


def _widths(column: Column) -> str:
    """The half-width of a column's interval, by the size of the group where it depends on that."""
    if column.by_size is None:
        return width(column)
    return ", ".join(f"{half_width(half)} with {counted(size, 'value')}" for size, half in column.by_size.items())


def _groups(plan: Plan) -> list[str]:
    """Say which groups are chosen by their size."""
    return published_groups(plan) if plan.threshold is not None and not plan.open_limits else []


def brief_limits(plan: Plan) -> list[str]:
    """The limits that are given, in a line; none if there are none."""
    result = limits_in_words(plan)
    return [f"Limits: {'; '.join(result)}."] if result else []


def limits_in_words(plan: Plan) -> list[str]:
    """The limits that are given, in a few words each."""
    opened: dict[str, Any] = {limit.argument: None for limit in plan.open_limits if limit.column is None}
    groups = replace(plan.groups, **opened)
    result = (
        [] if opened and not groups.limits else wording.brief_limits(groups, counts_units=counts_units(plan.aggregates))
    )
    given = [aggregate for aggregate in plan.aggregates if aggregate.open_limit is None]
    own = [aggregate.arguments() for aggregate in given]
    result += list(dict.fromkeys(words for each in own for words in wording.brief_own_limit(each)))
    bounds = {limit.column: limit for aggregate in given for limit in aggregate.limits}
    return result + [f"{column} from {limit.low:,} to {limit.high:,}" for column, limit in bounds.items()]
