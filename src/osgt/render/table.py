"""The table as a page shows it: rounded by its noise, grouped by the first key, unreliable numbers marked."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from osgt.facts import wording
from osgt.facts.statement import ReleasedTable
from osgt.query.about import About
from osgt.query.aggregates.base import Aggregate, rate_names
from osgt.query.aggregates.marks import CAUTION, MARK, UNCERTAIN
from osgt.query.groups import key_words
from osgt.render.cross import cross_of
from osgt.support.text import Shown, percent, with_interval

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
        column: aggregate
        for aggregate in release.plan.aggregates
        for name in aggregate.names
        for column in (name, rates.get(name, name))
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
