"""A suggestion for people to read."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from osgt.tables.bounds.suggestion import Outcome, Suggestion


def in_words(suggestion: "Suggestion") -> str:
    """The recommendation, what other choices would lead to, how sure it is, and what was charged."""
    lines = [recommended(suggestion)]
    if len(suggestion.choices) > 1:
        lines += ["", *lined(groups_table(suggestion))]
    if len(suggestion.row_choices) > 1:
        lines += ["", *lined(rows_table(suggestion))]
    for name, share in suggestion.values_beyond.items():
        low, high = suggestion.bounds[name]
        lines += ["", f"About {share} of the values of {name} are outside {low:,.10g} to {high:,.10g}."]
    lines += ["", suggestion.sure, *suggestion.recommendation.cautions, suggestion.statement]
    return "\n".join(lines)


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
    """For limits of groups what they cut off, and the noise and the error that they lead to."""
    rows = suggestion.max_rows_per_group is not None
    head = ("max_groups", "(unit, group) pairs cut off", *(["rows cut off"] if rows else []), *_errors(suggestion))
    return head, [
        (
            _limit(each.max_groups, each),
            str(each.pairs_lost),
            *([_whole(each.rows_lost)] if rows else []),
            *_numbers(each),
        )
        for each in suggestion.choices
    ]


def rows_table(suggestion: "Suggestion") -> Table:
    """The same for limits of rows."""
    head = ("max_rows_per_group", "rows beyond it, in one group of each unit", "rows cut off", *_errors(suggestion))
    return head, [
        (_limit(each.max_rows, each), str(each.rows_beyond), _whole(each.rows_lost), *_numbers(each))
        for each in suggestion.row_choices
    ]


def _errors(suggestion: "Suggestion") -> tuple[str, ...]:
    name = suggestion.query.aggregates[0].name
    return (f"noise of {name}", "error in a small group", "typical", "large")


def _whole(share: float) -> str:
    return f"{100 * share:.0f} %"


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
