"""The table as a page shows it: rounded by its noise, grouped by the first key, unreliable numbers marked.

Its pictures are dots with intervals, or lines where a key has an order, in the order of the keys.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from osgt.data.rows import plain_rows
from osgt.facts import wording
from osgt.facts.statement import ReleasedTable
from osgt.query.about import About
from osgt.query.aggregates.base import Aggregate, rate_names
from osgt.query.aggregates.marks import CAUTION, MARK, UNCERTAIN
from osgt.query.groups import key_words
from osgt.render.cross import cross_of
from osgt.render.page import Dots, Lines, Point, dots, lines
from osgt.support.text import Shown, counted, percent, shortened, with_interval

#: Most cells and rows of the table in a page, which should open quickly.
_CELLS, _ROWS = 6_000, 2_000

#: Most columns and rows of a cross table in a page, and columns of one that has room for intervals.
_HEADS, _SIDES, _BESIDE = 15, 200, 8

#: A number is unreliable where its interval reaches this far, in parts of the number itself; a mean or a quantile,
#: where it reaches this far in parts of the distance between its bounds.
_OF_ITSELF, _OF_BOUNDS = 0.5, 0.25


#: The ends of the names of a column and of the two ends of its intervals.
ENDS = ("", "_low", "_high")


def column_names(release: ReleasedTable) -> list[str]:
    """The names of the columns with published numbers."""
    return [name for aggregate in release.plan.aggregates for name in aggregate.names]


def interval(row: Mapping[str, Any], name: str) -> list[Any]:
    """The number of a column in a row, and the ends of its interval."""
    return [row[name + end] for end in ENDS]


def numbers(release: ReleasedTable, name: str) -> Any:
    """A column as floats; NaN where there is no number."""
    return np.array(release.table[name].to_pylist(), dtype=float)


def largest(values: Any, most: int) -> Any:
    """The places of the numbers that are largest in size, at most so many, in the order of the table."""
    return np.sort(np.argsort(-np.abs(np.nan_to_num(values)), kind="stable")[:most])


#: The signs of quality marks, and of numbers that are unreliable where there are no marks.
SIGNS, _UNRELIABLE = {CAUTION: "†", UNCERTAIN: "‡"}, "†"


@dataclass(frozen=True)
class Cell:
    """A number with its interval; one that is not reliable has a sign, and words for whoever listens to the page."""

    shown: Shown
    sign: str = ""
    words: str = ""


@dataclass(frozen=True)
class Row:
    """The keys that are not in the heading, and the numbers."""

    keys: tuple[str, ...]
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class ShownCross:
    """A column of the table by two keys: their headings, the values of the second and a row for each of the first.

    `beside` says whether there is room for intervals beside the numbers. A cell is None where no group is published.
    """

    caption: str
    keys: tuple[str, ...]
    heads: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell | None, ...]], ...]
    beside: bool


@dataclass(frozen=True)
class ShownTable:
    """The first rows, under headings of the first key if there are several; with two keys, crossed as well."""

    keys: tuple[str, ...]
    columns: tuple[str, ...]
    groups: tuple[tuple[str | None, tuple[Row, ...]], ...]
    listed: int
    rows: int
    legend: str
    confidence: str
    crosses: tuple[ShownCross, ...]


def table_of(release: ReleasedTable, about: About) -> ShownTable:
    """Make the table that the page lists."""
    keys = release.query.groups.by
    rates = rate_names(release.query)
    columns = {
        each: aggregate
        for aggregate in release.plan.aggregates
        for name in aggregate.names
        for each in (name, rates.get(name, name))
    }
    most = max(50, min(_ROWS, _CELLS // max(1, len(columns))))
    rows = [(heading(row, keys, about), _row(row, keys, columns, about)) for row in release.rows(most)]
    grouped = [(title, [row for _, row in some]) for title, some in itertools.groupby(rows, lambda titled: titled[0])]
    return ShownTable(
        keys=tuple(about.heading(key) for key in keys),
        columns=tuple(about.heading(name) for name in columns),
        groups=tuple((title.text if len(keys) > 1 else None, tuple(some)) for title, some in grouped),
        listed=len(rows),
        rows=len(release),
        legend=_legend(release) if any(cell.sign for _, row in rows for cell in row.cells) else "",
        confidence=percent(release.plan.confidence),
        crosses=tuple(_crosses(release, columns, about)),
    )


def _crosses(release: ReleasedTable, columns: dict[str, Aggregate], about: About) -> Iterator[ShownCross]:
    """The cross tables of a page: one for each column of a table with two keys, if they are easy to read."""
    cross = cross_of(release.table, release.query.groups.by, about)
    if cross is not None and len(cross.sides) <= _BESIDE < len(cross.heads):
        cross = cross.turned()
    if cross is None or len(cross.heads) > _HEADS or len(cross.sides) > _SIDES:
        return
    rows = release.rows(len(release))
    for name, aggregate in columns.items():
        cells = [_cell(row, name, aggregate) for row in rows]
        shown = (tuple(None if place is None else cells[place] for place in places) for places in cross.places)
        yield ShownCross(
            about.heading(name),
            tuple(about.heading(key) for key in cross.keys),
            cross.heads,
            tuple(zip(cross.sides, shown, strict=True)),
            beside=len(cross.heads) <= _BESIDE,
        )


def _cell(row: Mapping[str, Any], name: str, aggregate: Aggregate) -> Cell:
    ends = interval(row, name)
    if name + MARK in row:
        mark = row[name + MARK]
        return Cell(with_interval(*ends), SIGNS.get(mark, ""), mark if mark in SIGNS else "")
    weak = is_weak(aggregate, *ends)
    return Cell(with_interval(*ends), *((_UNRELIABLE, "unreliable") if weak else ()))


def _legend(release: ReleasedTable) -> str:
    """Say what the signs beside numbers mean."""
    marks = release.statement.values.get("marks")
    return wording.UNRELIABLE if marks is None else signs_of_marks(release)


def signs_of_marks(release: ReleasedTable) -> str:
    """Say what the signs of quality marks mean."""
    return wording.signs_of_marks(SIGNS, *release.statement.values["marks"].values())


def _row(row: dict[str, Any], keys: Sequence[str], columns: dict[str, Aggregate], about: About) -> Row:
    own = keys[1:] if len(keys) > 1 else keys
    cells = tuple(_cell(row, name, aggregate) for name, aggregate in columns.items())
    return Row(tuple(key_text(row, [key], about) for key in own) or ("all rows",), cells)


def is_weak(aggregate: Aggregate, value: Any, low: Any, high: Any) -> bool:
    """Whether the noise may be about as large as what the number tells."""
    if value is None or low is None or high is None:
        return False
    half = (float(high) - float(low)) / 2
    if aggregate.kind in ("mean", "median", "quantile") and aggregate.limits:
        return half > _OF_BOUNDS * (aggregate.limits[0].high - aggregate.limits[0].low)
    return half > _OF_ITSELF * abs(float(value))


@dataclass(frozen=True)
class Heading:
    """The first of several keys: as people read it, and as it is told from others, which may be read alike."""

    text: str
    value: tuple[bool, str]


def heading(row: dict[str, Any], keys: Sequence[str], about: About) -> Heading:
    """The heading that a row stands under; it is the same for all if there is one key or none."""
    if len(keys) < 2:
        return Heading("", (False, ""))
    return Heading(key_text(row, keys[:1], about), (row[keys[0]] is None, key_words(row, keys[0], missing="")))


def key_text(row: dict[str, Any], keys: Sequence[str], about: About) -> str:
    """The keys of a row in words; what was summed over several keys is said once."""
    result: list[str] = []
    for key in keys:
        words = about.key_words(row, key, missing="(none)") or "(empty)"
        if row[key] is not None or words not in result:
            result.append(words)
    return ", ".join(result)


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
