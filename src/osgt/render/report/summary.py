"""The three points that come first: what is shown and how exactly, what was left out, and what is promised to whom."""

from dataclasses import replace
from typing import Any

import numpy as np

from osgt.facts import wording
from osgt.facts.columns import MostlyNoise
from osgt.facts.plan_wording import published_groups
from osgt.facts.released import Released, ReleasedTable
from osgt.facts.statement import hold_truth, promise_to
from osgt.limits.left_out import NOTHING, LeftOut, left_out_measures
from osgt.query.about import About
from osgt.render.report.table import key_text
from osgt.support.numbers import counted, half_width, listed, with_interval
from osgt.support.text import shortened

#: Characters of the keys in the example.
_LONGEST = 60


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
    return _labelled(release, about).sentences


def _labelled(release: ReleasedTable, about: About) -> MostlyNoise:
    found = release.mostly_noise
    return replace(found, numbers={about.label(name): number for name, number in found.numbers.items()})


def data_warnings(release: ReleasedTable, about: About) -> list[str]:
    """Warn where much was left out, and where most groups are mostly noise."""
    lost = [] if release.left_out is None else _told(release, about).warnings
    return [*lost, *_labelled(release, about).warnings]


def warnings_in(release: ReleasedTable, about: About) -> list[str]:
    """Collect the warnings that are worth knowing before the table is relied on."""
    return [*release.plan.warnings, *data_warnings(release, about)]


def _told(release: ReleasedTable, about: About) -> LeftOut:
    """Label what was left out with the names that people have."""
    assert release.left_out is not None
    return replace(release.left_out, unit=about.label(release.query.dataset.privacy_unit), labels=about.labels)


def example(release: ReleasedTable, about: About) -> list[str]:
    """Explain how to read a number: the first of the table that has an interval and a value."""
    name = next(name for aggregate in release.plan.aggregates for name in aggregate.names)
    for row in release.without_totals().rows(20):
        numbers = [row[name + end] for end in ("", "_low", "_high")]
        if None in numbers:
            continue
        shown = with_interval(*numbers)
        where = key_text(row, release.query.groups.by, about)
        what = f"{about.label(name)}, {shortened(where, _LONGEST)}" if where else about.label(name)
        return [
            f"An example: “{what}” is published as {shown.value}; without the noise it is most likely between "
            f"{shown.low} and {shown.high}."
        ]
    return []


def groups_in(release: ReleasedTable) -> str:
    """Count the groups of a table, in words."""
    totals = " with totals" if release.query.groups.levels else ""
    return f"{counted(len(release.without_totals()), 'group')}{totals}" if release.query.groups.by else "all rows"


def shown_in(release: ReleasedTable, about: About) -> tuple[str, str]:
    """Describe what a table shows, and how exact each column is."""
    query, plan = release.query, release.plan
    names = [name for aggregate in plan.aggregates for name in aggregate.names]
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
        return half_width(column.half_width)
    lengths = half_widths(release, name)
    return f"{half_width(float(np.median(lengths)))} in half of the groups" if len(lengths) else "depends on the group"


def half_widths(release: ReleasedTable, name: str) -> Any:
    """Half the length of each interval of a column, where there is one."""
    ends = [np.array(release.table[name + end].to_pylist(), dtype=float) for end in ("_low", "_high")]
    lengths = (ends[1] - ends[0]) / 2
    return lengths[np.isfinite(lengths)]


def left_out(release: ReleasedTable, about: About) -> list[str]:
    """Tell how much was left out as far as it was measured; else what can be."""
    unit = about.label(release.query.dataset.privacy_unit)
    chosen = published_groups(release.plan, unit) if release.plan.selection is not None else []
    if release.left_out is not None:
        return [
            *([wording.measured_limits(unit)] if release.left_out.by_limits else []),
            *_told(release, about).sentences,
            *chosen,
        ]
    if left_out_measures(release.query.groups, release.plan.aggregates) is None:
        return [NOTHING, *chosen]
    return [wording.NOT_MEASURED, *limits_in_words(release, unit), *chosen]


def limits_in_words(release: ReleasedTable, unit: str) -> list[str]:
    """Explain what each limit does, in plain words."""
    groups = release.query.groups
    counts_units = any(measure.per_unit for aggregate in release.plan.aggregates for measure in aggregate.measures)
    result = wording.limits(groups, unit, counts_units=counts_units)
    limits = {limit.words: limit for aggregate in release.plan.aggregates for limit in aggregate.limits}
    result += [words[:1].upper() + words[1:] + "." for words in limits]
    if groups.public is not None:
        result.append("Rows that belong to none of the groups of the table are ignored.")
    return result


def promise(release: Released, about: About) -> list[str]:
    """State what is promised to whom, with e^ε as a number."""
    plan, data, charged = release.plan, release.dataset, release.statement.to_dict()["ledger"]
    unit = about.label(data.privacy_unit)
    return [
        f"{wording.protected(unit, tables=len(release.tables))} {promise_to(data, plan, unit)}",
        wording.guess(unit, plan.epsilon, plan.delta, change_one=data.neighbours == "change_one"),
        wording.ledger(
            "release" if "" in release.tables else "publication",
            *((None, None) if charged is None else charged.values()),
        ),
    ]
