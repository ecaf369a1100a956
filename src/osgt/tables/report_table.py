"""The table as a page shows it: rounded by its noise, grouped by the first key, unreliable numbers marked."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from osgt.pages.numbers import Shown, with_interval
from osgt.tables.about import About
from osgt.tables.aggregates.base import Aggregate
from osgt.tables.levels import key_words

if TYPE_CHECKING:
    from osgt.tables.release import Release

#: Most cells and rows of the table in a page, which should open quickly.
_CELLS, _ROWS = 6_000, 2_000

#: A number is unreliable where its interval reaches this far, in parts of the number itself; a mean or a quantile,
#: where it reaches this far in parts of the distance between its bounds.
_OF_ITSELF, _OF_BOUNDS = 0.5, 0.25


@dataclass(frozen=True)
class Cell:
    """A number with its interval, and whether the noise may be as large as what it tells."""

    shown: Shown
    weak: bool


@dataclass(frozen=True)
class Row:
    """The keys that are not in the heading, and the numbers."""

    keys: tuple[str, ...]
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class ShownTable:
    """The first rows, under headings of the first key if there are several."""

    keys: tuple[str, ...]
    columns: tuple[str, ...]
    groups: tuple[tuple[str | None, tuple[Row, ...]], ...]
    listed: int
    rows: int
    has_weak: bool
    confidence: float


def table_of(release: "Release", about: About) -> ShownTable:
    """What the page lists."""
    keys = release.query.groups.by
    columns = {name: aggregate for aggregate in release.plan.aggregates for name in aggregate.names}
    most = max(50, min(_ROWS, _CELLS // max(1, len(columns))))
    rows = [(heading(row, keys, about), _row(row, keys, columns, about)) for row in release.rows(most)]
    grouped = [(title, [row for _, row in some]) for title, some in itertools.groupby(rows, lambda each: each[0])]
    return ShownTable(
        keys=tuple(about.heading(key) for key in keys),
        columns=tuple(about.heading(name) for name in columns),
        groups=tuple((title.text if len(keys) > 1 else None, tuple(some)) for title, some in grouped),
        listed=len(rows),
        rows=len(release),
        has_weak=any(cell.weak for _, row in rows for cell in row.cells),
        confidence=release.plan.confidence,
    )


def _row(row: dict[str, Any], keys: Sequence[str], columns: dict[str, Aggregate], about: About) -> Row:
    own = keys[1:] if len(keys) > 1 else keys
    cells = []
    for name, aggregate in columns.items():
        numbers = [row[name + end] for end in ("", "_low", "_high")]
        cells.append(Cell(with_interval(*numbers), is_weak(aggregate, *numbers)))
    return Row(tuple(key_text(row, [key], about) for key in own) or ("all rows",), tuple(cells))


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
    """What a row stands under; the same for all if there is one key or none."""
    if len(keys) < 2:
        return Heading("", (False, ""))
    return Heading(key_text(row, keys[:1], about), (row[keys[0]] is None, key_words(row, keys[0], missing="")))


def key_text(row: dict[str, Any], keys: Sequence[str], about: About) -> str:
    """The keys of a row in words; what was summed over several keys is said once."""
    found: list[str] = []
    for key in keys:
        words = about.key_words(row, key, missing="(none)") or "(empty)"
        if row[key] is not None or words not in found:
            found.append(words)
    return ", ".join(found)
