"""A suggestion for people to read: in words, in a line and as a card."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from osgt.limits.histogram import Share
from osgt.render.cards import Card, CardTable, Cell, Curve, curve
from osgt.support.numbers import rounded

if TYPE_CHECKING:
    from osgt.api.suggestion.suggestion import Outcome, Suggestion


#: What is said of what a limit cuts off where nobody is seen beyond it: there may be somebody.
NONE_SEEN = "none seen"

#: Percents below this are told as less than that.
_LEAST = 0.05


def in_words(suggestion: "Suggestion") -> str:
    """The recommendation, what other choices would lead to, how sure it is, and what was charged."""
    lines = [recommended(suggestion)]
    if len(suggestion.choices) > 1:
        lines += ["", *lined(groups_table(suggestion))]
    if len(suggestion.row_choices) > 1:
        lines += ["", *lined(rows_table(suggestion))]
    for line in values_in_words(suggestion):
        lines += ["", line]
    told = (suggestion.sure, suggestion.unseen, *suggestion.recommendation.cautions, *suggestion.notes)
    lines += ["", *told, suggestion.statement]
    return "\n".join(lines)


def values_in_words(suggestion: "Suggestion") -> list[str]:
    """Say for each column with recommended bounds what is seen beyond them."""
    found = []
    for name, share in suggestion.values_beyond.items():
        low, high = suggestion.bounds[name]
        outside = f"outside {low:,.10g} to {high:,.10g}"
        if suggestion.evidence.sees_values_beyond(name, (low, high)):
            found.append(f"Of the values of {name}, {share_in_words(share)} are {outside}, as far as can be seen.")
        else:
            found.append(f"No values of {name} are seen {outside}.")
    return found


def share_in_words(share: Share) -> str:
    """A share of what can be seen, which is never nothing at all."""
    if 100 * share.value < _LEAST:
        return f"at most {max(100 * share.high, _LEAST):.2g} %"
    return f"about {share}"


def lost_in_words(share: float, *, seen: bool) -> str:
    """The share of rows that limits cut off, if any are seen beyond them."""
    if not seen:
        return NONE_SEEN
    return f"{100 * share:.0f} %" if share >= 0.005 else "< 0.5 %"


def recommended(suggestion: "Suggestion") -> str:
    """The recommended bounds on one line."""
    parts = []
    if suggestion.max_groups is not None:
        parts.append(f"max_groups = {suggestion.max_groups:,}")
    if suggestion.max_rows_per_group is not None:
        parts.append(f"max_rows_per_group = {suggestion.max_rows_per_group:,}")
    parts += [f"bounds of {name} = {low:,.10g} to {high:,.10g}" for name, (low, high) in suggestion.bounds.items()]
    return f"Recommended: {', '.join(parts)}."


Table = tuple[tuple[str, ...], list[tuple[str, ...]]]


def groups_table(suggestion: "Suggestion") -> Table:
    """Tabulate what limits of groups cut off, and the noise and the error that they lead to."""
    rows = suggestion.max_rows_per_group is not None
    head = ("max_groups", "(unit, group) pairs cut off", *(["rows cut off"] if rows else []), *_errors(suggestion))
    return head, [
        (
            _limit(each.max_groups, each),
            share_in_words(each.pairs_lost) if each.sees_groups else NONE_SEEN,
            *([lost_in_words(each.rows_lost, seen=each.sees_groups or each.sees_rows)] if rows else []),
            *_numbers(each),
        )
        for each in suggestion.choices
    ]


def rows_table(suggestion: "Suggestion") -> Table:
    """Tabulate what limits of rows cut off, and the noise and the error that they lead to."""
    head = ("max_rows_per_group", "rows beyond it, in one group of each unit", "rows cut off", *_errors(suggestion))
    return head, [
        (
            _limit(each.max_rows, each),
            share_in_words(each.rows_beyond) if each.sees_rows else NONE_SEEN,
            lost_in_words(each.rows_lost, seen=each.sees_groups or each.sees_rows),
            *_numbers(each),
        )
        for each in suggestion.row_choices
    ]


def _errors(suggestion: "Suggestion") -> tuple[str, ...]:
    name = suggestion.query.aggregates[0].name
    return (f"noise of {name}", "error in a small group", "typical", "large")


def _limit(limit: int, outcome: "Outcome") -> str:
    return f"{limit:,} *" if outcome.recommended else f"{limit:,}"


def _numbers(outcome: "Outcome") -> tuple[str, ...]:
    return tuple(_error(number) for number in (outcome.noise, outcome.small, outcome.typical, outcome.large))


def _error(number: float) -> str:
    """Three digits, as people write them."""
    rounded = float(f"{number:.3g}")
    return f"±{rounded:,.0f}" if rounded >= 100 else f"±{rounded:,.3g}"


def lined(table: Table) -> Sequence[str]:
    """The table in lines, its columns below each other."""
    head, rows = table
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in [head, *rows]]


def suggestion_line(suggestion: "Suggestion") -> str:
    """The recommended bounds in a line."""
    found = {"max_groups": suggestion.max_groups, "max_rows_per_group": suggestion.max_rows_per_group}
    limits = [f"{name}={limit}" for name, limit in found.items() if limit is not None]
    return f"Suggestion({', '.join([*limits, *(f'{name} in {pair}' for name, pair in suggestion.bounds.items())])})"


def suggestion_card(suggestion: "Suggestion") -> Card:
    """The recommended bounds, what others would lead to, and what cannot be seen."""
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
        lines=[*values_in_words(suggestion), suggestion.unseen, *suggestion.notes],
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
            lost_in_words(each.rows_lost, seen=each.sees_groups or each.sees_rows),
            *(_short(number) for number in (each.noise, each.typical)),
        ]
        rows.append([Cell(f"{limit:,}"), *(Cell(number) for number in numbers)])
        chosen = i if each.recommended else chosen
    heads = [name, "rows cut off, about", "noise, standard deviation", "expected error in a typical group"]
    return CardTable(heads, rows, caption=f"Errors of {column}; the recommended row is bold", chosen=chosen)


def _short(number: float) -> str:
    """Four digits of a number."""
    return rounded(number, math.floor(math.log10(number)) - 3) if number > 0 else "0"
