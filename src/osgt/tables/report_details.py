"""The folds of a report: all parameters under readable names, the noise compared, and where guidelines speak of it."""

from typing import TYPE_CHECKING, Any

from osgt.noise import IntegerLaw, written
from osgt.pages.numbers import counted, factor, half_width, listed, percent
from osgt.tables.about import About
from osgt.tables.aggregates.base import Aggregate, Column
from osgt.tables.plan import Plan

if TYPE_CHECKING:
    from osgt.tables.publication_plan import PublicationPlan
    from osgt.tables.release import Release

#: Names of arguments of aggregates that are not words.
_NAMES = {"missing": "missing values", "column": "of", "bounds": "limits of a value", "edges": "edges of the bins"}


def parameters(release: "Release", about: About) -> list[tuple[str, str]]:
    """Every parameter in words."""
    plan, query, values = release.plan, release.query, release.statement.to_dict()
    unit, groups = query.dataset.privacy_unit, query.groups
    rows = [
        ("Privacy loss ε, in total", f"{plan.epsilon:.15g}; a factor of at most {factor(plan.epsilon)}"),
        ("Probability δ, in total", f"{plan.delta:.15g}"),
        ("Who is protected", f"each {about.label(unit)} ({query.dataset.unit.in_words})"),
        ("What is compared", groups.neighbouring(plan.neighbours)),
        ("Groups by", listed([f"{about.label(key)} (column {key})" for key in groups.by]) or "none: all rows together"),
        ("Which groups are published", _published(plan)),
    ]
    if groups.levels:
        rows.append(("Totals", totals_in_words(plan)))
    if groups.by and not groups.each_row:
        rows.append(("Most groups that one counts in", f"{groups.max_groups:,}"))
    if groups.max_rows is not None and not groups.each_row:
        rows.append(("Most rows of one in a group", f"{groups.max_rows:,}"))
    plain = query.dataset.to_dict()
    rows += [(f"Column {name}, of each row", text) for name, text in plain["derive"].items()]
    rows += [("Only rows with", text) for text in plain["where"]]
    rows += [(f"Column {listed(aggregate.names)}", asked(aggregate)) for aggregate in plan.aggregates]
    rows += [(f"Noise of {about.label(column.name)}", _noise(column)) for column in plan.columns]
    for level, columns in plan.totals.items():
        rows += [(f"Noise of {about.label(column.name)} {level.words}", _noise(column)) for column in columns]
    rows += [(f"Measured: {measure.words}", _law(law)) for measure, law in plan.laws.items()]
    rows += [(f"Measured, for what was left out: {name}", _law(law)) for name, (law, _) in plan.noise.beside.items()]
    rows += [
        ("Made as small as possible", values["objective"].replace("_", " ")),
        ("Probability of each interval", f"at least {percent(plan.confidence)}"),
        ("Negative numbers", "shown as 0" if values["nonnegative"] else "shown as they are"),
        ("Ledger", "charged" if values["ledger"] else "none"),
        ("Groups in the table", f"{len(release.without_totals()):,}"),
        ("Time", values["date"].replace("T", " ").replace("+00:00", " UTC")),
        ("Software", values["software"]),
    ]
    return rows


def totals_in_words(plan: Plan) -> str:
    """Which totals there are, and how they come about."""
    levels = listed([level.words for level in plan.groups.levels])
    if plan.groups.public is None:
        return f"{levels}, measured with noise of its own; the groups that are not published are shown together"
    return f"{levels}; all levels were estimated together, by least squares, and add up exactly"


def _published(plan: Plan) -> str:
    if plan.threshold is not None:
        many = f"those with a noisy number of {plan.chosen_by} of at least {plan.threshold:,}"
        return f"{many}. {plan.choice_in_words()}"
    if plan.groups.public is not None:
        return f"{counted(plan.groups.public.num_rows, 'group')} given beforehand, also those without rows"
    return "all rows are one group"


def asked(aggregate: Aggregate, *, is_open: bool = False) -> str:
    """An aggregate in words: "mean of arr_delay; limits of a value: -60 to 120"."""
    arguments = aggregate.arguments() | ({"bounds": "open"} if is_open else {})
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


def _noise(column: Column) -> str:
    if column.half_width is not None:
        return f"{half_width(column.half_width)}, standard deviation {column.std:,.4g}"
    if column.ranks is not None:
        return f"{half_width(column.ranks)} ranks"
    return "; ".join(
        f"{half_width(half)} in a group of {counted(size, 'value')}" for size, half in (column.by_size or {}).items()
    )


def _law(law: IntegerLaw) -> str:
    """A distribution by its parameters."""
    told = written(law)
    numbers = [f"{name} {value:.6g}" for name, value in told.items() if isinstance(value, float)]
    return f"noise on whole numbers of the family {told['family']}: {listed(numbers)}"


def names_of_noises(plan: "Plan | PublicationPlan") -> list[str]:
    """The noises that a comparison has beside the one that is used."""
    return [name.capitalize() for name in plan.gains]


def compared(plan: Plan, about: About) -> list[tuple[str, list[str]]]:
    """The columns with the noise used and the two ends of the family beside it."""
    alternatives = list(plan.alternatives.values())
    return [
        (about.heading(column.name), [width(each) for each in (column, *(columns[i] for columns in alternatives))])
        for i, column in enumerate(plan.columns)
    ]


def width(column: Column) -> str:
    if column.half_width is not None:
        return half_width(column.half_width)
    if column.ranks is not None:
        return f"{half_width(column.ranks)} ranks"
    size, half = max((column.by_size or {0: 0.0}).items())
    return f"{half_width(half)} with {counted(size, 'value')}"


def guidelines(choice: str | None) -> list[tuple[str, str]]:
    """The questions of NIST SP 800-226 and where a page answers them; what it cannot answer is said as well.

    `choice` tells what the choice of groups has to do with δ; None if groups are not chosen.
    """
    chosen = choice or "Groups were not chosen by their size."
    return [
        ("Privacy parameters ε and δ", f"“In short”, third point; parameters. Stated in total. {chosen}"),
        ("Unit of privacy", "“In short”, third point; parameters: who is protected, and what is compared."),
        ("Several releases", "“In short”, third point: whether a ledger adds up all releases."),
        ("Algorithms: counts, sums and means", "Parameters: what was asked for, and the noise of each column."),
        ("Bounds on what one contributes", "“In short”, second point; parameters: groups, rows and limits of a value."),
        ("Utility and accuracy", "“In short”, first point; intervals in pictures and table; the noise compared."),
        ("Bias", "“In short”, second point; how it was made: what limits, thresholds and zeros for negatives do."),
        ("Implementation", "How it was made: whole numbers, an exact sampler, randomness of the operating system."),
        ("Trust and threat model", "Central model: the publisher holds the data, and only this table is published."),
        ("Security and collection of the data", "Not part of this page: please ask the publisher."),
    ]
