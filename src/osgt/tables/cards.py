"""What a notebook shows of a data set, a query, its plan, its preview, a suggestion and a release."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from osgt.pages.cards import Card, CardTable, Cell, Curve, curve
from osgt.pages.numbers import counted, factor, listed, percent, rounded, with_interval
from osgt.shown_text import shortened
from osgt.tables.about import About
from osgt.tables.aggregates.kinds import Asking
from osgt.tables.report_details import asked, width
from osgt.tables.report_summary import promise
from osgt.tables.report_table import key_text

if TYPE_CHECKING:
    from osgt.tables.bounds.suggestion import Outcome, Suggestion
    from osgt.tables.dataset import Dataset
    from osgt.tables.plan import Plan
    from osgt.tables.preview import Preview
    from osgt.tables.publication_release import PublicationRelease
    from osgt.tables.release import Release

#: Rows of a release and columns of a data set that a card shows, and characters of a key.
_ROWS, _COLUMNS, _LONGEST = 10, 30, 60


@dataclass(frozen=True)
class StillOpen:
    """What is open in a query: limits (None if open), aggregates without bounds (by their place), and it in words."""

    limits: Mapping[str, int | None]
    unbounded: Collection[int]
    words: Sequence[str]


def dataset_line(data: "Dataset") -> str:
    """A data set in a line: where it is, and whom it protects. No data."""
    where = f", where={len(data.filters)}" if data.filters else ""
    name = shortened(data.identity["name"] or data.origin, _LONGEST)
    return f"Dataset({name!r}, privacy_unit={data.unit.plain!r}{where})"


def dataset_card(data: "Dataset") -> Card:
    """Where the rows are, whom they are about, and the types of the columns. No data."""
    schema = data.table.schema()
    columns = [[Cell(name), Cell(str(dtype))] for name, dtype in list(schema.items())[:_COLUMNS]]
    facts = [
        ("Protects", f"each {data.privacy_unit} ({data.unit.in_words})"),
        ("Engine", data.engine.title),
        *((f"Column {name}", f"of each row: {made.text}") for name, made in data.derived.items()),
        *(("Only rows with", condition.text) for condition in data.filters),
        ("Ledger", "none: every release weakens the protection" if data.ledger is None else str(data.dataset)),
    ]
    more = f"… and {len(schema) - _COLUMNS} more" if len(schema) > _COLUMNS else ""
    table = CardTable(["Column", "Type"], columns, keys=2)
    return Card(
        _name(data),
        "No rows are shown here: they are private.",
        facts=facts,
        tables=[table],
        lines=[more] if more else [],
    )


def _name(data: "Dataset") -> str:
    return f"Data set {data.identity['name'] or data.origin}"


def query_line(query: Asking, kind: str, open_: StillOpen | None = None) -> str:
    """A query in a line: what is asked by which keys, and the limits."""
    by = f" by {', '.join(query.groups.by)}" if query.groups.by else ""
    what = ", ".join(aggregate.title for aggregate in query.aggregates) or "nothing yet"
    limits = [f"{name}={'open' if limit is None else limit}" for name, limit in _limits(query, open_).items()]
    return f"{kind}({'; '.join([what + by, *limits])})"


def _limits(query: Asking, open_: StillOpen | None) -> dict[str, int | None]:
    """The limits of what one unit counts for; None where one is open."""
    groups = query.groups
    if groups.each_row:
        return {}
    if open_ is not None:
        return {name: limit for name, limit in open_.limits.items() if name != "max_groups" or groups.by}
    found = {"max_groups": groups.max_groups if groups.by else None, "max_rows_per_group": groups.max_rows}
    return {name: limit for name, limit in found.items() if limit is not None}


def query_card(query: Asking, open_: StillOpen | None = None) -> Card:
    """What is asked, by which keys, and what is limited or still open."""
    groups = query.groups
    words = {"max_groups": "Most groups that one counts in", "max_rows_per_group": "Most rows of one in a group"}
    public = "those that are large enough" if groups.public is None else f"{groups.public.num_rows:,} given beforehand"
    facts = [
        ("Data", _name(query.dataset)),
        ("Protects", f"each {query.dataset.privacy_unit}"),
        ("Groups by", listed(groups.by) or "none: all rows together"),
        *([("Groups that are published", public)] if groups.by else []),
        *((words[name], "open" if limit is None else f"{limit:,}") for name, limit in _limits(query, open_).items()),
    ]
    unbounded = () if open_ is None else open_.unbounded
    rows = [
        [Cell(listed(each.names)), Cell(asked(each, is_open=i in unbounded))] for i, each in enumerate(query.aggregates)
    ]
    lines = [] if open_ is None else [f"Open: {text}." for text in open_.words]
    title = "Query with open bounds" if lines else "Query"
    return Card(title, facts=facts, tables=[CardTable(["Column", "What"], rows, keys=2)], lines=lines)


def plan_line(plan: "Plan") -> str:
    """A plan in a line: the budget and the intervals."""
    widths = ", ".join(f"{column.name} {width(column)}" for column in plan.columns[:4])
    more = ", …" if len(plan.columns) > 4 else ""
    return f"Plan(epsilon={plan.epsilon:.15g}, delta={plan.delta:.15g}; {widths}{more})"


def plan_card(plan: "Plan") -> Card:
    """The intervals beside those of Gaussian and Laplace noise, and what would be charged."""
    names = list(plan.alternatives)
    rows = [
        [Cell(column.name), *(Cell(width(each)) for each in (column, *(plan.alternatives[name][i] for name in names)))]
        for i, column in enumerate(plan.columns)
    ]
    heads = ["Column", f"{percent(plan.confidence)} noise interval", *(f"with {name.capitalize()}" for name in names)]
    shown = []
    if plan.threshold is not None:
        shown.append(
            f"A group is published if its noisy number of {plan.chosen_by} is at least {plan.threshold:,}; a group of "
            f"{plan.shown_size:,} nearly always is."
        )
    return Card(
        "Plan",
        f"ε = {plan.epsilon:.15g}, δ = {plan.delta:.15g} would be charged, in all. No data were read.",
        warnings=plan.warnings,
        tables=[CardTable(heads, rows)],
        lines=[plan.gains_in_words(), *shown],
    )


def preview_card(preview: "Preview", warning: str) -> Card:
    """Exact figures under a red bar."""
    tables = [
        CardTable(
            [text or "in percent" for text in head],
            [[Cell(text) for text in row] for row in rows],
            caption=f"What {head[0]} cuts off; * is what was given",
        )
        for head, rows in preview.curves()
    ]
    return Card("What the bounds cut off", alarm=warning, tables=tables)


def suggestion_line(suggestion: "Suggestion") -> str:
    """The recommended bounds in a line."""
    found = {"max_groups": suggestion.max_groups, "max_rows_per_group": suggestion.max_rows_per_group}
    limits = [f"{name}={limit}" for name, limit in found.items() if limit is not None]
    return f"Suggestion({', '.join([*limits, *(f'{name} in {pair}' for name, pair in suggestion.bounds.items())])})"


def suggestion_card(suggestion: "Suggestion") -> Card:
    """The recommended bounds, and what others would lead to."""
    facts = [
        *([("max_groups", f"{suggestion.max_groups:,}")] if suggestion.max_groups is not None else []),
        *([("max_rows_per_group", f"{limit:,}")] if (limit := suggestion.max_rows_per_group) is not None else []),
        *((f"bounds of {name}", f"{low:,} to {high:,}") for name, (low, high) in suggestion.bounds.items()),
    ]
    tables = []
    for name, outcomes in (("max_groups", suggestion.choices), ("max_rows_per_group", suggestion.row_choices)):
        if len(outcomes) > 1:
            tables.append(_outcomes(name, outcomes, suggestion.query.aggregates[0].name))
    return Card(
        "Recommended bounds",
        suggestion.sure,
        warnings=suggestion.recommendation.cautions,
        facts=facts,
        curve=_error_curve(suggestion),
        tables=tables,
        promise=suggestion.statement,
    )


def _error_curve(suggestion: "Suggestion") -> Curve | None:
    """The error to expect in a typical group against the limit, both on logarithmic scales; None for one limit."""
    for name, outcomes in (("max_groups", suggestion.choices), ("max_rows_per_group", suggestion.row_choices)):
        places = [(each.max_groups if name == "max_groups" else each.max_rows, each.typical) for each in outcomes]
        if len(places) < 2 or min(error for _, error in places) <= 0:
            continue
        best = next((each for each, outcome in zip(places, outcomes, strict=True) if outcome.recommended), places[0])
        limits, errors = [limit for limit, _ in places], [error for _, error in places]
        across = [(math.log(limit), f"{limit:,}") for limit in sorted({limits[0], best[0], limits[-1]})]
        up = [(math.log(error), _short(error)) for error in sorted({min(errors), max(errors)})]
        words = (
            f"Error to expect in a typical group against {name}: {_short(errors[0])} at {limits[0]:,}, "
            f"{_short(best[1])} at {best[0]:,}, which is recommended, {_short(errors[-1])} at {limits[-1]:,}"
        )
        return curve([(math.log(limit), math.log(error)) for limit, error in places], across, up, words)
    return None


def _outcomes(name: str, outcomes: "tuple[Outcome, ...]", column: str) -> CardTable:
    rows, chosen = [], None
    for i, each in enumerate(outcomes):
        limit = each.max_groups if name == "max_groups" else each.max_rows
        numbers = [
            f"{100 * max(each.rows_lost, 0.0):.3g} %",
            *(_short(number) for number in (each.noise, each.typical)),
        ]
        rows.append([Cell(f"{limit:,}"), *(Cell(number) for number in numbers)])
        chosen = i if each.recommended else chosen
    heads = [name, "rows cut off, about", "noise, standard deviation", "expected error in a typical group"]
    return CardTable(heads, rows, caption=f"Errors of {column}; the recommended row is bold", chosen=chosen)


def _short(number: float) -> str:
    """Four digits of a number."""
    return rounded(number, math.floor(math.log10(number)) - 3) if number > 0 else "0"


def release_line(release: "Release") -> str:
    """A release in a line: what is in it, and its budget."""
    by = f" by {', '.join(release.query.groups.by)}" if release.query.groups.by else ""
    what = ", ".join(aggregate.title for aggregate in release.plan.aggregates)
    budget = f"epsilon={release.plan.epsilon:.15g}, delta={release.plan.delta:.15g}"
    return f"Release({what}{by}; {counted(len(release), 'row')}; {budget})"


def release_card(release: "Release") -> Card:
    """The first rows with their intervals, and the promise in a line."""
    more = f"… and {counted(len(release) - _ROWS, 'more row')}." if len(release) > _ROWS else ""
    return Card(
        f"{counted(len(release), 'row')}, each number with its noise interval",
        warnings=[*release.plan.warnings, *([] if release.left_out is None else release.left_out.warnings)],
        tables=[release_table(release)],
        lines=[more] if more else [],
        promise=promise(release, About())[0],
    )


def publication_card(made: "PublicationRelease") -> Card:
    """The first rows of each table, and what is promised about all of them together."""
    plan, first = made.plan, next(iter(made.tables.values()))
    but = f", except with a probability of about δ = {plan.delta:.15g}" if plan.delta > 0 else ""
    return Card(
        f"{counted(len(made), 'table')} from one budget",
        warnings=made.left_out_warnings,
        tables=[
            release_table(release, f"{name}: {counted(len(release), 'row')}") for name, release in made.tables.items()
        ],
        promise=f"Every {first.query.dataset.privacy_unit} is protected by differential privacy, in all tables "
        f"together: the probability of any result changes by at most a factor of {factor(plan.epsilon)}{but}.",
    )


def release_table(release: "Release", caption: str = "") -> CardTable:
    """The first rows of a release."""
    keys = release.query.groups.by
    names = [name for aggregate in release.plan.aggregates for name in aggregate.names]
    shown = release.rows(_ROWS)
    texts = [[Cell(shortened(key_text(row, [key], About()), _LONGEST)) for key in keys] for row in shown]
    rows = [[*keyed, *(_number(row, name) for name in names)] for keyed, row in zip(texts, shown, strict=True)]
    return CardTable([*keys, *names], rows, keys=len(keys), caption=caption)


def _number(row: dict[str, Any], name: str) -> Cell:
    shown = with_interval(*(row[name + end] for end in ("", "_low", "_high")))
    return Cell(shown.value, shown.interval)
