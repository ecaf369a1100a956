"""Pictures of a plan and of a release, on axes of Matplotlib."""

from typing import TYPE_CHECKING, Any

import numpy as np

from osgt.pages.numbers import counted
from osgt.pages.plots import COLOURS, INK, axes_for
from osgt.shown_text import shortened
from osgt.tables.report_pictures import places
from osgt.tables.report_table import key_text

if TYPE_CHECKING:
    from osgt.tables.plan import Plan
    from osgt.tables.release import Release

#: Most groups that are drawn one below the other, and characters of a label.
_GROUPS, _LONGEST = 40, 40


def plot_plan(plan: "Plan", axes: Any) -> Any:
    """The intervals of each column beside those with Gaussian and Laplace noise, the plan's being 1."""
    chosen = [(column, _half_width(column)) for column in plan.columns]
    names = ["osgt", *plan.alternatives]
    bar = 0.8 / len(names)
    axes = axes_for(axes, height=1.2 + 0.8 * len(chosen))
    for at, name in enumerate(names):
        others = plan.columns if name == "osgt" else plan.alternatives[name]
        widths = [_half_width(other) / own if own else 1.0 for other, (_, own) in zip(others, chosen, strict=True)]
        label = "this plan" if name == "osgt" else name.capitalize()
        style = {"color": COLOURS.get(name.split()[0], INK), "alpha": 0.5 if "(" in name else 1.0}
        axes.barh(np.arange(len(widths)) + bar * (at - (len(names) - 1) / 2), widths, 0.9 * bar, label=label, **style)
    axes.set_yticks(range(len(chosen)), [column.name for column, _ in chosen], parse_math=False)
    axes.invert_yaxis()
    axes.set(xlabel="width of the noise interval, this plan = 1")
    axes.set_title(f"ε = {plan.epsilon:g}, δ = {plan.delta:g}", fontsize=11)
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return axes


def _half_width(column: Any) -> float:
    """The half-width; of a mean that in the largest group that is told, of a quantile that in ranks."""
    if column.ranks is not None:
        return float(column.ranks)
    return float(max(column.by_size.items())[1] if column.half_width is None else column.half_width)


def plot_release(release: "Release", column: str | None, axes: Any) -> Any:
    """A column with its intervals: over the key where that is one with an order, else a line for each group."""
    names = [name for aggregate in release.plan.aggregates for name in aggregate.names]
    name = names[0] if column is None else column
    if name not in names:
        raise ValueError(f"column must be one of {', '.join(names)}, got {column!r}")
    keys = release.query.groups.by
    value, low, high = (np.array(release.table[name + end].to_pylist(), dtype=float) for end in ("", "_low", "_high"))
    order = places(release.table[keys[0]]) if len(keys) == 1 and len(release) else None
    if order is not None:
        axes = axes_for(axes)
        axes.fill_between(order, low, high, color=COLOURS["gaussian"], alpha=0.25, linewidth=0)
        axes.plot(order, value, color=INK, marker="o", markersize=4)
        axes.set(xlabel=keys[0], ylabel=name)
        return axes
    drawn = np.sort(np.argsort(-np.abs(np.nan_to_num(value)), kind="stable")[:_GROUPS])
    axes = axes_for(axes, height=1.0 + 0.28 * max(len(drawn), 4))
    rows = release.table.take(drawn).to_pylist() if keys else []
    labels = [shortened(key_text(row, keys), _LONGEST) for row in rows] or ["all rows"]
    axes.hlines(range(len(drawn)), low[drawn], high[drawn], color=COLOURS["gaussian"], alpha=0.5, linewidth=6)
    axes.plot(value[drawn], range(len(drawn)), "o", color=INK, markersize=4)
    axes.set_yticks(range(len(drawn)), labels[: len(drawn)], parse_math=False)
    axes.invert_yaxis()
    which = f", the {len(drawn)} largest of {counted(len(release), 'group')}" if len(drawn) < len(release) else ""
    axes.set_xlabel(f"{name}{which}", parse_math=False)
    return axes
