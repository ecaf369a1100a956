"""The points about a release: what is shown and how accurately, what was left out, and what is promised to whom.

In sentences for the report, and in five lines for a terminal and a notebook.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from osgt.facts import wording
from osgt.facts.plan_wording import MostlyNoise, limits_in_words, published_groups
from osgt.facts.statement import Released, ReleasedTable, hold_truth, promise_to
from osgt.limits.left_out import NOTHING, LeftOut, can_cut_off
from osgt.plan.plan import AnyPlan
from osgt.query.about import About
from osgt.query.aggregates.base import counts_units
from osgt.render.table import column_names, interval, key_text, numbers
from osgt.support.text import counted, half_width, listed, shortened, with_interval

#: Characters of the keys in the example.
_LONGEST = 60


@dataclass(frozen=True)
class Point:
    """One of the points: its title, texts of which the first comes with the title, and texts about single tables."""

    title: str
    texts: list[str]
    by_table: list[tuple[str, str]]


def points(release: Released, about: About, titles: Mapping[str, str]) -> list[Point]:
    """The three points about a table, or about several under their titles."""
    alone = release.tables.get("")
    if alone is not None:
        shown, lost = shows(alone, about), left_out(alone, about)
        exact, cut = [], []
    else:
        tables = release.tables.items()
        shown, lost = _shows_tables(release), _left_out_of_tables(release, about)
        exact = [(titles[name], _exact(table, about, own=name in about.labels)) for name, table in tables]
        common, rest = _parted({name: _left_out(table, about) for name, table in tables})
        cut = [("All tables", " ".join(common)), *((titles[name], " ".join(own)) for name, own in rest.items())]
    return [
        Point("What it shows and how accurate it is.", shown, exact),
        Point("What was left out.", lost, cut),
        Point("What is promised.", promise(release, about), []),
    ]


def _shows_tables(release: Released) -> list[str]:
    """Say what is true of the numbers of all tables."""
    sentences = [
        f"This page has {counted(len(release.tables), 'table')}.",
        "Random noise was added to every number; the list has the limits that it is usually within.",
        *wording.intervals(
            release.plan.confidence,
            hold_truth=hold_truth(release.tables.values(), release.statement.values["intervals"]),
        ),
    ]
    return [" ".join(sentences)]


def _exact(table: ReleasedTable, about: About, *, own: bool) -> str:
    """Describe how exact a table is; what it shows as well, if its title is one of its own."""
    what, exact = shown_in(table, about)
    return " ".join([f"{what if own else groups_in(table)}; {exact}.", *mostly_noise(table, about)])


def _left_out_of_tables(release: Released, about: About) -> list[str]:
    """Introduce what was left out of several tables."""
    if any(table.left_out is not None for table in release.tables.values()):
        return [wording.measured_limits(release.dataset.unit.noun)]
    return [wording.NOT_MEASURED]


def _left_out(table: ReleasedTable, about: About) -> list[str]:
    told = left_out(table, about)
    return told[1:] if told[0] != NOTHING else told


def shows(release: ReleasedTable, about: About) -> list[str]:
    """Describe what the table shows, and how exact it is."""
    what, exact = shown_in(release, about)
    return [
        f"The table shows {what}. Random noise was added to every number. It is usually within these limits: {exact}.",
        *example(release, about),
        *mostly_noise(release, about),
        *wording.intervals(
            release.plan.confidence, hold_truth=hold_truth([release], release.statement.values["intervals"])
        ),
    ]


def mostly_noise(release: ReleasedTable, about: About) -> list[str]:
    """Tell how many groups are mostly noise, under the names that people have for the columns."""
    return _label(release, about).sentences


def _label(release: ReleasedTable, about: About) -> MostlyNoise:
    noisy = release.mostly_noise
    return replace(noisy, numbers={about.label(name): number for name, number in noisy.numbers.items()})


def warnings_in(release: Released, about: About, titles: Mapping[str, str]) -> list[str]:
    """Collect the warnings to read before the tables are relied on, those about one of several under its title."""
    warnings = list(release.plan.warnings)
    for name, table in release.tables.items():
        lost = [] if table.left_out is None else _with_labels(table, about).warnings
        texts = [*lost, *_label(table, about).warnings]
        warnings += [f"{titles[name]}: {text}" if name else text for text in texts]
    return warnings


def _with_labels(release: ReleasedTable, about: About) -> LeftOut:
    """Label what was left out with the names that people have."""
    assert release.left_out is not None
    return replace(release.left_out, labels=about.labels)


def example(release: ReleasedTable, about: About) -> list[str]:
    """Explain how to read a number: the first of the table that has an interval and a value."""
    name = column_names(release)[0]
    for row in release.without_totals().rows(20):
        ends = interval(row, name)
        if None in ends:
            continue
        shown = with_interval(*ends)
        where = key_text(row, release.query.groups.by, about)
        what = f"{about.label(name)}, {shortened(where, _LONGEST)}" if where else about.label(name)
        number = "the true number is" if _allows_for_cut_off(release) else "without the noise it is"
        return [
            f"An example: “{what}” is published as {shown.value}; {number} most likely between {shown.low} and "
            f"{shown.high}."
        ]
    return []


def _allows_for_cut_off(release: ReleasedTable) -> bool:
    """Whether the intervals of the first column allow for what limits cut off."""
    first, told = release.plan.aggregates[0], release.left_out
    is_counted = told is not None and first.counted(release.plan.groups) in told.missing
    return is_counted and hold_truth([release], release.statement.values["intervals"])


def groups_in(release: ReleasedTable) -> str:
    """Count the groups of a table, in words."""
    totals = " with totals" if release.query.groups.levels else ""
    return f"{counted(len(release.without_totals()), 'group')}{totals}" if release.query.groups.by else "all rows"


def shown_in(release: ReleasedTable, about: About) -> tuple[str, str]:
    """Describe what a table shows, and how exact each column is."""
    query, names = release.query, column_names(release)
    what = listed([about.heading(name) for name in names[:8]]) + (" and more" if len(names) > 8 else "")
    where = ""
    if query.groups.by:
        by = listed([about.label(key) for key in query.groups.by])
        totals = " with totals" if query.groups.levels else ""
        where = f" for {counted(len(release.without_totals()), 'group')}, by {by}{totals}"
    return what + where, "; ".join(f"{about.label(name)} {_exactness(release, name)}" for name in names[:8])


def _exactness(release: ReleasedTable, name: str) -> str:
    column = next(column for column in release.plan.columns if column.name == name)
    if column.half_width is not None:
        return half_width(column.half_width, whole=column.is_count)
    lengths = half_widths(release, name)
    return f"{half_width(float(np.median(lengths)))} in half of the groups" if len(lengths) else "depends on the group"


def half_widths(release: ReleasedTable, name: str) -> Any:
    """Half the length of each interval of a column, where there is one."""
    lengths = (numbers(release, f"{name}_high") - numbers(release, f"{name}_low")) / 2
    return lengths[np.isfinite(lengths)]


def left_out(release: ReleasedTable, about: About) -> list[str]:
    """Tell how much was left out as far as it was measured; else what can be."""
    chosen = published_groups(release.plan) if release.plan.selection is not None else []
    if release.left_out is not None:
        return [
            *([wording.measured_limits(release.query.groups.noun)] if release.left_out.by_limits else []),
            *_with_labels(release, about).sentences,
            *chosen,
        ]
    if not can_cut_off(release.query.groups, release.plan.aggregates):
        return [NOTHING, *chosen]
    return [wording.NOT_MEASURED, *explain_limits(release), *chosen]


def explain_limits(release: ReleasedTable) -> list[str]:
    """Explain what each limit does, in plain words."""
    groups = release.query.groups
    result = wording.limits(groups, counts_units=counts_units(release.plan.aggregates))
    limits = {limit.words: limit for aggregate in release.plan.aggregates for limit in aggregate.limits}
    result += [words[:1].upper() + words[1:] + "." for words in limits]
    if groups.public is not None:
        result.append("Rows that belong to none of the groups of the table are ignored.")
    return result


def promise(release: Released, about: About) -> list[str]:
    """State what is promised to whom, with e^ε as a number."""
    plan, data, charged = release.plan, release.dataset, release.statement.to_dict()["ledger"]
    unit = data.unit.noun
    return [
        f"{wording.protected(unit, tables=len(release.tables))} {promise_to(data, plan)}",
        wording.guess(unit, plan.epsilon, plan.delta, change_one=data.neighbours == "change_one"),
        wording.ledger(
            "release" if "" in release.tables else "publication",
            *((None, None) if charged is None else charged.values()),
        ),
    ]


def brief(release: Released) -> list[str]:
    """The lines; of several tables, what is true of all is told once, and the rest under their names."""
    plan, data, values = release.plan, release.dataset, release.statement.values
    tables = list(release.tables.values())
    charged = values["ledger"]
    held = hold_truth(tables, values["intervals"])
    limits = _of_each(release, lambda table: limits_in_words(table.plan)) or "none"
    return [
        wording.brief_promise(data.unit.noun, plan.epsilon, plan.delta, tables=len(tables)),
        f"Limits: {limits}{wording.chosen(_names_of_chosen(plan))}.",
        f"Left out: {_of_each(release, _brief_left_out) or 'nothing'}.",
        wording.brief_intervals(plan.confidence, hold_truth=held),
        wording.brief_ledger(*((None, None) if charged is None else charged.values())),
    ]


def _names_of_chosen(plan: AnyPlan) -> list[str]:
    return [] if plan.choice is None else [draw.limit.words for draw in plan.choice.draws]


def _of_each(release: Released, words: Callable[[ReleasedTable], list[str]]) -> str:
    """Tell what is true of all tables once, and the rest of each under its name."""
    common, rest = _parted({name: words(table) for name, table in release.tables.items()})
    return "; ".join([*common, *(f"{name}: {', '.join(parts)}" for name, parts in rest.items() if parts)])


def _parted(told: Mapping[str, list[str]]) -> tuple[list[str], dict[str, list[str]]]:
    """Part what is told of every table from the rest of each."""
    first, *others = told.values()
    common = [part for part in first if all(part in parts for parts in others)]
    return common, {name: [part for part in parts if part not in common] for name, parts in told.items()}


def _brief_left_out(table: ReleasedTable) -> list[str]:
    """Tell how much limits and the threshold left out of a table."""
    left_out, plan = table.left_out, table.plan
    if left_out is not None:
        parts = left_out.brief
    elif not can_cut_off(table.query.groups, plan.aggregates):
        parts = []
    else:
        parts = ["not measured what the limits cut off"]
    if plan.threshold is not None:
        counted = plan.groups.counted_in_words(plan.chosen_by)
        parts.append(f"groups below a noisy {plan.threshold:,} {counted}")
    return parts
