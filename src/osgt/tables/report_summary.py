"""The three points that come first: what is shown and how exactly, what was left out, and what is promised to whom."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from osgt.pages.numbers import (
    at_most_sure,
    counted,
    factor,
    half_width,
    listed,
    misses,
    one_in,
    percent,
    with_interval,
)
from osgt.shown_text import shortened
from osgt.tables.about import About
from osgt.tables.left_out_measures import left_out_measures
from osgt.tables.plan import SHOWN
from osgt.tables.report_table import key_text

if TYPE_CHECKING:
    from osgt.tables.publication_release import PublicationRelease
    from osgt.tables.release import Release


#: What is said where limits can cut off nothing.
NOTHING = "The limits could leave nothing out of what was counted."

#: Characters of the keys in the example.
_LONGEST = 60


def shows(release: "Release", about: About) -> list[str]:
    """What the table shows, and how exact it is."""
    what, exact = shown_in(release, about)
    return [
        f"The table shows {what}. Random noise was added to every number. It is usually within these limits: {exact}.",
        *example(release, about),
        *about_intervals(release.plan.confidence),
    ]


def example(release: "Release", about: About) -> list[str]:
    """How to read a number: the first of the table that has an interval and a value."""
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


def groups_in(release: "Release") -> str:
    """How many groups a table has."""
    totals = " with totals" if release.query.groups.levels else ""
    return f"{counted(len(release.without_totals()), 'group')}{totals}" if release.query.groups.by else "all rows"


def shown_in(release: "Release", about: About) -> tuple[str, str]:
    """What a table shows, and how exact each column is."""
    query, plan = release.query, release.plan
    names = [name for aggregate in plan.aggregates for name in aggregate.names]
    what = listed([about.heading(name) for name in names[:8]]) + (" and more" if len(names) > 8 else "")
    where = ""
    if query.groups.by:
        by = listed([about.label(key) for key in query.groups.by])
        totals = " with totals" if query.groups.levels else ""
        where = f" for {counted(len(release.without_totals()), 'group')}, by {by}{totals}"
    return what + where, "; ".join(f"{about.label(name)} {_exactness(release, name)}" for name in names[:8])


def about_intervals(confidence: float) -> list[str]:
    """What intervals tell, and what they do not."""
    return [
        f"Each interval contains the value without noise with a probability of at least {percent(confidence)}. "
        f"{misses(confidence)}",
        "Intervals tell about the noise alone: neither about data that were left out nor about errors in the data.",
    ]


def _exactness(release: "Release", name: str) -> str:
    column = next(column for column in release.plan.columns if column.name == name)
    if column.half_width is not None:
        return half_width(column.half_width)
    lengths = half_widths(release, name)
    return f"{half_width(float(np.median(lengths)))} in half of the groups" if len(lengths) else "depends on the group"


def half_widths(release: "Release", name: str) -> Any:
    """Half the length of each interval of a column, where there is one."""
    ends = [np.array(release.table[name + end].to_pylist(), dtype=float) for end in ("_low", "_high")]
    lengths = (ends[1] - ends[0]) / 2
    return lengths[np.isfinite(lengths)]


def left_out(release: "Release", about: About) -> list[str]:
    """How much was left out as far as it was measured; else what can be."""
    unit = about.label(release.query.dataset.privacy_unit)
    chosen = published_from(release, unit)
    if release.left_out is not None:
        first = measured_in_words(unit)
        return [first, *replace(release.left_out, unit=unit, labels=about.labels).sentences, *chosen]
    if left_out_measures(release.query.groups, release.plan.aggregates) is None:
        return [NOTHING, *chosen]
    first = "How much the limits left out was not measured. They work like this:"
    return [first, *limits_in_words(release, unit), *chosen]


def measured_in_words(unit: str) -> str:
    """What the shares of what was left out are."""
    return (
        f"So that no single {unit} counts too much, limits were set, and what exceeds them is left out. How much that "
        "is was estimated, with noise as well (intervals in brackets):"
    )


def published_from(release: "Release", unit: str) -> list[str]:
    """From which size on groups are published, if they are chosen by it."""
    plan = release.plan
    if plan.threshold is None:
        return []
    what = f"number, counting each {unit} once," if plan.chosen_by == "units" else f"number of {plan.chosen_by}"
    return [
        f"A group is published if its noisy {what} is at least {plan.threshold:,}. A group of {plan.shown_size:,} is "
        f"published {percent(SHOWN)} of the time."
    ]


def limits_in_words(release: "Release", unit: str) -> list[str]:
    """What each limit does, in plain words."""
    groups, found = release.query.groups, []
    if groups.each_row:
        found.append("Every row counts once; none is left out for having too many.")
    elif groups.by:
        found.append(
            f"Each {unit} in more than {counted(groups.max_groups, 'group')} is counted in "
            f"{groups.max_groups:,} of them, chosen at random."
        )
    if groups.max_rows is not None and not groups.each_row:
        where = " in each group" if groups.by else ""
        found.append(
            f"At most {counted(groups.max_rows, 'row')} of each {unit} {_verb(groups.max_rows)}{where}, "
            "chosen at random."
        )
    limits = {limit.words: limit for aggregate in release.plan.aggregates for limit in aggregate.limits}
    found += [words[:1].upper() + words[1:] + "." for words in limits]
    if groups.public is not None:
        found.append("Rows that belong to none of the groups of the table are ignored.")
    return found


def _verb(rows: int) -> str:
    return "counts" if rows == 1 else "count"


def promise(release: "Release | PublicationRelease", about: About) -> list[str]:
    """What is promised to whom, with e^ε as a number."""
    plan, dataset = release.plan, release.query.dataset
    unit = about.label(dataset.privacy_unit)
    rows = "" if dataset.unit.each_row else "all rows of "
    change = (
        f"Replacing {rows}one {unit} by others"
        if dataset.neighbours == "change_one"
        else f"Adding or removing {rows}one {unit}"
    )
    but = f", except with a probability of about {one_in(plan.delta)} (δ = {plan.delta:.15g})" if plan.delta > 0 else ""
    return [
        f"Every {unit} is protected by differential privacy. {change} changes the probability of any result by at "
        f"most a factor of {factor(plan.epsilon)}{but}.",
        guess(unit, plan.epsilon, plan.delta, exchanged=dataset.neighbours == "change_one"),
        "This release was charged to a ledger, which limits what all releases from these data reveal together."
        if release.statement.to_dict()["ledger"] is not None
        else "This release was not charged to a ledger. Every further release from the same data weakens the "
        "protection.",
    ]


def guess(unit: str, epsilon: float, delta: float, *, exchanged: bool) -> str:
    """The same in terms of what somebody can learn who found a thing about one unit as likely as not."""
    sure = at_most_sure(epsilon)
    if sure is None:
        return f"With such an ε this hardly limits what can be learned about a single {unit}."
    again = " (with the same exception)" if delta > 0 else ""
    if exchanged:
        return (
            f"In other words{again}: somebody who finds two versions of the data of one {unit} equally likely can be "
            f"at most {sure} sure afterwards which one is right, whatever else they know."
        )
    return (
        f"In other words{again}: somebody who finds it 50 % likely that a certain {unit} is in the data can be at most "
        f"{sure} sure afterwards, whatever else they know."
    )
