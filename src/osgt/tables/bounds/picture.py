"""The picture of a suggestion: error against the limit of groups, and what it is made of."""

from typing import TYPE_CHECKING, Any

from osgt.pages.plots import axes_for

if TYPE_CHECKING:
    from osgt.tables.bounds.suggestion import Suggestion


def draw(suggestion: "Suggestion", axes: Any) -> Any:
    """Draw the curve: for limits of groups, or of rows where there are no groups, noise and expected errors."""
    by_groups = len(suggestion.choices) > 1
    outcomes = suggestion.choices if by_groups else suggestion.row_choices
    limits = [each.max_groups if by_groups else each.max_rows for each in outcomes]
    axes = axes_for(axes)
    for name, values, style in (
        ("noise alone", [each.noise for each in outcomes], "--"),
        ("small group", [each.small for each in outcomes], "-"),
        ("typical group", [each.typical for each in outcomes], "-"),
        ("large group", [each.large for each in outcomes], "-"),
    ):
        axes.plot(limits, values, style, marker="o", markersize=3, label=name)
    for limit, each in zip(limits, outcomes, strict=True):
        if each.recommended:
            axes.axvline(limit, color="grey", linewidth=1, label=f"recommended: {limit:,}")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(limits, [f"{limit:,}" for limit in limits])
    axes.set_xticks([], minor=True)
    axes.yaxis.set_major_formatter("{x:,g}")
    axes.set_xlabel("max_groups" if by_groups else "max_rows_per_group")
    axes.set_ylabel(f"expected error of {suggestion.query.aggregates[0].name}", parse_math=False)
    axes.legend(frameon=False)
    return axes
