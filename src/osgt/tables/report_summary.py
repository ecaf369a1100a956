"""The three points that come first: what is shown and how exactly, what was left out, and what is promised to whom."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from osgt.pages.numbers import counted, factor, half_width, listed, misses, percent
from osgt.tables.about import About
from osgt.tables.left_out_measures import left_out_measures
from osgt.tables.plan import SHOWN

if TYPE_CHECKING:
    from osgt.tables.publication_release import PublicationRelease
    from osgt.tables.release import Release


def shows(release: "Release", about: About) -> list[str]:
    """What the table shows, and how exact it is."""
    what, exact = shown_in(release, about)
    return [
        f"The table shows {what}.",
        f"Random noise was added to every number. It is usually within these limits: {exact}.",
        about_intervals(release.plan.confidence),
    ]


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


def about_intervals(confidence: float) -> str:
    """What intervals tell, and what they do not."""
    return (
        f"Each interval contains the value without noise with a probability of at least {percent(confidence)}. "
        f"{misses(confidence)} Intervals tell about the noise alone: neither about data that were left out nor about "
        "errors in the data."
    )


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
    if release.left_out is not None:
        first = "This was measured with noise of its own; intervals in brackets:"
        return [first, *replace(release.left_out, unit=unit).sentences, *published_from(release)]
    if left_out_measures(release.query.groups, release.plan.aggregates) is None:
        return ["The limits could leave nothing out of what was counted.", *published_from(release)]
    first = "How much the limits left out was not measured. They work like this:"
    return [first, *limits_in_words(release, unit), *published_from(release)]


def published_from(release: "Release") -> list[str]:
    """From which size on groups are published, if they are chosen by it."""
    plan = release.plan
    if plan.threshold is None:
        return []
    return [
        f"A group is published if its noisy number of {plan.chosen_by} is at least {plan.threshold:,}. A group of "
        f"{plan.shown_size:,} is published {percent(SHOWN)} of the time."
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
    whole = "" if dataset.unit.each_row else " with all their rows"
    change = (
        f"Replacing {rows}one {unit} by others"
        if dataset.neighbours == "change_one"
        else f"Adding or removing one {unit}{whole}"
    )
    but = f", except with a probability of about δ = {plan.delta:.15g}" if plan.delta > 0 else ""
    return [
        f"Every {unit} is protected by differential privacy. {change} changes the probability of any result by at "
        f"most a factor of {factor(plan.epsilon)}{but}.",
        "This release was charged to a ledger, which limits what all releases from these data reveal together."
        if release.statement.to_dict()["ledger"] is not None
        else "This release was not charged to a ledger. Every further release from the same data weakens the "
        "protection.",
    ]
