"""The pictures of a release and of a plan: in pages, and on axes of Matplotlib.

Those of a release are dots with intervals, or lines where a key has an order, in the order of the keys.
"""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from osgt.data.rows import plain_rows
from osgt.facts import wording
from osgt.facts.statement import ReleasedTable
from osgt.plan.plan import Plan
from osgt.query.about import About
from osgt.render.page import COLOURS, INK, Dots, Lines, Point, axes_for, dots, lines
from osgt.render.table import ENDS, column_names, heading, interval, key_text, numbers
from osgt.support.text import counted, shortened, with_interval

#: Most lines with a dot, panels and points in a panel that are drawn.
_DOTS, _PANELS, _POINTS = 40, 12, 400

#: Fewer values than this of an ordered key are better told by dots: alone, and as the second key.
_FEWEST_ALONE, _FEWEST = 13, 3

#: Characters of a key in a picture; the table has all of them.
_LONGEST = 60


def pictures(release: ReleasedTable, about: About) -> list[Dots | Lines]:
    """Make one picture for each column, of the groups without totals; none if there are no groups."""
    release = release.without_totals()
    return [_picture(release, about, name) for name in column_names(release)] if len(release) else []


def _picture(release: ReleasedTable, about: About, name: str) -> Dots | Lines:
    keys = release.query.groups.by
    if 1 <= len(keys) <= 2:
        order = places(release.table[keys[-1]])
        fewest = _FEWEST if len(keys) == 2 else _FEWEST_ALONE
        if order is not None and fewest <= len(np.unique(order)) <= _POINTS:
            return _lines(release, about, name, order)
    return _dots(release, about, name)


def places(column: pa.ChunkedArray) -> Any:
    """The places of the values of a key on an axis; None if they have no order that people expect."""
    dtype = column.type
    if column.null_count or pa.types.is_boolean(dtype):
        return None
    if pa.types.is_date32(dtype):
        column = column.cast(pa.int32())
    elif pa.types.is_date64(dtype) or pa.types.is_timestamp(dtype):
        column = column.cast(pa.int64())
    elif not (pa.types.is_integer(dtype) or pa.types.is_floating(dtype) or pa.types.is_decimal(dtype)):
        return None
    result = np.array(column.to_pylist(), dtype=float)
    return result if np.isfinite(result).all() else None


def _dots(release: ReleasedTable, about: About, name: str) -> Dots:
    keys = release.query.groups.by
    rows = _rows(release, largest(numbers(release, name), _DOTS))
    points = [
        (heading(row, keys, about), _point(row, name, key_text(row, keys[1:] or keys, about) or "all rows"))
        for row in rows
    ]
    caption = about.heading(name)
    if len(rows) < len(release):
        caption += f": the {len(rows)} largest of {counted(len(release), 'group')}"
    if len({title for title, _ in points}) > len(points) / 2:  # hardly two under a heading: all in one list
        rows_of = zip(rows, (point for _, point in points), strict=True)
        flat = [replace(point, label=shortened(key_text(row, keys, about), _LONGEST)) for row, point in rows_of]
        return dots(caption, [("", flat if keys else [point for _, point in points])])
    grouped = itertools.groupby(points, lambda titled: titled[0])
    return dots(caption, [(title.text, [point for _, point in some]) for title, some in grouped])


def _lines(release: ReleasedTable, about: About, name: str, order: Any) -> Lines:
    """A panel for each value of the first key, over the second; one panel if there is one key."""
    keys = release.query.groups.by
    titles = [heading(row, keys, about) for row in _rows(release, np.arange(len(release)), list(keys))]
    rank = {title: i for i, title in enumerate(dict.fromkeys(titles))}
    panel_of = np.array([rank[title] for title in titles])
    size = np.zeros(len(rank))
    np.maximum.at(size, panel_of, np.abs(np.nan_to_num(numbers(release, name))))
    kept = largest(size, _PANELS)
    at = np.flatnonzero(np.isin(panel_of, kept))
    rows = _rows(release, at)
    places = sorted(set(order.tolist()))
    result: dict[int, dict[float, Point]] = {int(i): {} for i in kept}
    for i, row in zip(at, rows, strict=True):
        if row[name] is None:
            continue
        result[int(panel_of[i])][float(order[i])] = _point(row, name, key_text(row, keys[-1:], about))
    caption = f"{about.heading(name)} by {about.heading(keys[-1])}"
    if len(keys) == 2:
        caption += f", for each {about.label(keys[0])}"
        if len(kept) < len(rank):
            caption += f": those with the largest values, {len(kept)} of {len(rank):,}"
    by_rank = list(rank)
    panels = [(by_rank[i].text, [(place, some.get(place)) for place in places]) for i, some in result.items()]
    return lines(caption, panels)


def _rows(release: ReleasedTable, at: Any, columns: list[str] | None = None) -> list[dict[str, Any]]:
    table = release.table if columns is None else release.table.select(columns)
    return plain_rows(table.take(pa.array(at)))


def _point(row: dict[str, Any], name: str, label: str) -> Point:
    number, *ends = interval(row, name)
    low, high = (float(end or 0) for end in ends)
    value = (low + high) / 2 if number is None else float(number)
    return Point(shortened(label, _LONGEST), value, low, high, with_interval(number, *ends))


def largest(values: Any, most: int) -> Any:
    """The places of the numbers that are largest in size, at most so many, in the order of the table."""
    return np.sort(np.argsort(-np.abs(np.nan_to_num(values)), kind="stable")[:most])


#: Most groups that are drawn one below the other, and characters of a label.
_GROUPS, _LABEL = 40, 40


def plot_plan(plan: Plan, axes: Any) -> Any:
    """The intervals of each column beside those with Gaussian and Laplace noise, the plan's being 1."""
    chosen = [(column, column.width) for column in plan.columns]
    names = ["osgt", *plan.alternatives]
    bar = 0.8 / len(names)
    axes = axes_for(axes, height=1.2 + 0.8 * len(chosen))
    for at, name in enumerate(names):
        others = plan.columns if name == "osgt" else plan.alternatives[name]
        widths = [other.width / own if own else 1.0 for other, (_, own) in zip(others, chosen, strict=True)]
        label = "this plan" if name == "osgt" else name.capitalize()
        style = {"color": COLOURS.get(name.split()[0], INK), "alpha": 0.5 if "(" in name else 1.0}
        axes.barh(np.arange(len(widths)) + bar * (at - (len(names) - 1) / 2), widths, 0.9 * bar, label=label, **style)
    axes.set_yticks(range(len(chosen)), [column.name for column, _ in chosen], parse_math=False)
    axes.invert_yaxis()
    axes.set(xlabel="width of the noise interval, this plan = 1")
    axes.set_title(wording.budget(plan.epsilon, plan.delta), fontsize=11)
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return axes


def plot_release(release: ReleasedTable, about: About, column: str | None, axes: Any) -> Any:
    """A column with its intervals: over the key where that is one with an order, else a line for each group."""
    names = column_names(release)
    name = names[0] if column is None else column
    if name not in names:
        raise ValueError(f"column must be one of {', '.join(names)}, got {column!r}")
    keys = release.query.groups.by
    value, low, high = (numbers(release, name + end) for end in ENDS)
    order = places(release.table[keys[0]]) if len(keys) == 1 and len(release) else None
    if order is not None:
        axes = axes_for(axes)
        axes.fill_between(order, low, high, color=COLOURS["gaussian"], alpha=0.25, linewidth=0)
        axes.plot(order, value, color=INK, marker="o", markersize=4)
        axes.set_xlabel(about.heading(keys[0]), parse_math=False)
        axes.set_ylabel(about.heading(name), parse_math=False)
        if keys[0] in about.values:
            axes.set_xticks(order, [shortened(text, _LABEL) for text in _texts(release, about)], parse_math=False)
            axes.tick_params(axis="x", rotation=45)
        return _add_title(axes, about)
    drawn = largest(value, _GROUPS)
    axes = axes_for(axes, height=1.0 + 0.28 * max(len(drawn), 4))
    labels = [shortened(text, _LABEL) for text in _texts(release, about, drawn)] if keys else ["all rows"]
    axes.hlines(range(len(drawn)), low[drawn], high[drawn], color=COLOURS["gaussian"], alpha=0.5, linewidth=6)
    axes.plot(value[drawn], range(len(drawn)), "o", color=INK, markersize=4)
    axes.set_yticks(range(len(drawn)), labels[: len(drawn)], parse_math=False)
    axes.invert_yaxis()
    which = f", the {len(drawn)} largest of {counted(len(release), 'group')}" if len(drawn) < len(release) else ""
    axes.set_xlabel(f"{about.heading(name)}{which}", parse_math=False)
    return _add_title(axes, about)


def _texts(release: ReleasedTable, about: About, at: Any = None) -> list[str]:
    """The keys of the rows in words: of all, or of some."""
    table = release.table if at is None else release.table.take(at)
    return [key_text(row, release.query.groups.by, about) for row in plain_rows(table)]


def _add_title(axes: Any, about: About) -> Any:
    if about.title:
        axes.set_title(about.title, fontsize=11, parse_math=False)
    return axes
