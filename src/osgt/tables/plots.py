"""Pictures of a plan and of a release, on axes of Matplotlib."""

from typing import TYPE_CHECKING, Any

import numpy as np

from osgt.pages.numbers import counted
from osgt.pages.plots import COLOURS, INK, axes_for
from osgt.shown_text import shortened
from osgt.tables.about import About
from osgt.tables.plain_rows import plain_rows
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


def plot_release(release: "Release", about: About, column: str | None, axes: Any) -> Any:
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
        axes.set_xlabel(about.heading(keys[0]), parse_math=False)
        axes.set_ylabel(about.heading(name), parse_math=False)
        if keys[0] in about.values:
            axes.set_xticks(order, [shortened(text, _LONGEST) for text in _texts(release, about)], parse_math=False)
            axes.tick_params(axis="x", rotation=45)
        return _titled(axes, about)
    drawn = np.sort(np.argsort(-np.abs(np.nan_to_num(value)), kind="stable")[:_GROUPS])
    axes = axes_for(axes, height=1.0 + 0.28 * max(len(drawn), 4))
    labels = [shortened(text, _LONGEST) for text in _texts(release, about, drawn)] if keys else ["all rows"]
    axes.hlines(range(len(drawn)), low[drawn], high[drawn], color=COLOURS["gaussian"], alpha=0.5, linewidth=6)
    axes.plot(value[drawn], range(len(drawn)), "o", color=INK, markersize=4)
    axes.set_yticks(range(len(drawn)), labels[: len(drawn)], parse_math=False)
    axes.invert_yaxis()
    which = f", the {len(drawn)} largest of {counted(len(release), 'group')}" if len(drawn) < len(release) else ""
    axes.set_xlabel(f"{about.heading(name)}{which}", parse_math=False)
    return _titled(axes, about)


def _texts(release: "Release", about: About, at: Any = None) -> list[str]:
    """The keys of the rows in words: of all, or of some."""
    table = release.table if at is None else release.table.take(at)
    return [key_text(row, release.query.groups.by, about) for row in plain_rows(table)]


def _titled(axes: Any, about: About) -> Any:
    if about.title:
        axes.set_title(about.title, fontsize=11, parse_math=False)
    return axes
