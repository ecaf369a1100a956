"""Cards: what a notebook shows of an object. A title, facts, tables, a curve, and what is promised or warned of."""

from collections.abc import Sequence
from dataclasses import dataclass

from osgt.pages.rendering import fragment

#: The box of a curve in its picture: left, right, top and bottom.
_BOX = (48.0, 312.0, 8.0, 124.0)


@dataclass(frozen=True)
class Cell:
    """A text, and a smaller one beside it."""

    text: str
    beside: str = ""


@dataclass(frozen=True)
class CardTable:
    """A table: so many columns of keys, then numbers; one row may be marked as chosen."""

    heads: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    keys: int = 1
    caption: str = ""
    chosen: int | None = None


@dataclass(frozen=True)
class Curve:
    """A line in a small picture, with texts at places across and up, and all of it in words."""

    path: str
    across: Sequence[tuple[float, str]]
    up: Sequence[tuple[float, str]]
    alternative: str


@dataclass(frozen=True)
class Card:
    """All that can stand on a card. Texts may hold anything: they are escaped."""

    title: str
    line: str = ""
    alarm: str = ""
    warnings: Sequence[str] = ()
    facts: Sequence[tuple[str, str]] = ()
    tables: Sequence[CardTable] = ()
    curve: Curve | None = None
    lines: Sequence[str] = ()
    promise: str = ""

    def html(self) -> str:
        """A piece of HTML for a notebook. It runs no script and loads nothing."""
        return fragment("notebook.html", card=self)


def curve(
    points: Sequence[tuple[float, float]],
    across: Sequence[tuple[float, str]],
    up: Sequence[tuple[float, str]],
    alternative: str,
) -> Curve:
    """A curve through points; the texts on both axes are within the picture, and so is the curve."""
    left, right, top, bottom = _BOX
    xs, ys = [at for at, _ in (*across, *points)], [at for at, _ in up]

    def x(value: float) -> float:
        return round(left + (right - left) * (value - min(xs)) / ((max(xs) - min(xs)) or 1.0), 1)

    def y(value: float) -> float:
        inside = min(max(value, min(ys)), max(ys))
        return round(bottom - (bottom - top) * (inside - min(ys)) / ((max(ys) - min(ys)) or 1.0), 1)

    path = "M" + "L".join(f"{x(at)} {y(value)}" for at, value in points)
    return Curve(path, [(x(at), text) for at, text in across], [(y(at), text) for at, text in up], alternative)
