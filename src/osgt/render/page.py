"""Pages from templates, and pictures: in pages, with places in percent of the width, and on axes of Matplotlib.

In a page every text is escaped, and characters that turn or hide text become marks. The `plot` methods draw on axes
that are handed over, or on new ones. Matplotlib and Jinja are extras.
"""

import base64
import hashlib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from osgt.support.errors import missing
from osgt.support.text import Shown, one_line, printable

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

#: What may become a link: everything else stays text.
_MAIL, _WEB = re.compile(r"[\w.+-]+@[\w-]+(\.[\w-]+)+", re.ASCII), re.compile(r"https?://[\w.-]+(:\d+)?(/[!-~]*)?")


def render(template: str, **values: Any) -> str:
    """The page as text."""
    from markupsafe import Markup  # noqa: PLC0415 - the extra "tables"

    style = resources.files("osgt.render").joinpath("style.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    result = environment().get_template(template)
    return result.render(style=Markup(style), policy=policy, **values)


def fragment(template: str, **values: Any) -> str:
    """A piece of a page of others, with a style that touches nothing else there."""
    from markupsafe import Markup  # noqa: PLC0415 - the extra "tables"

    style = resources.files("osgt.render").joinpath("notebook.css").read_text(encoding="utf-8")
    return environment().get_template(template).render(style=Markup(style), **values)


@cache
def environment(*packages: str) -> "Environment":
    """The templates of this package, and of others that build on them."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined  # noqa: PLC0415 - takes a while

    made = Environment(
        loader=ChoiceLoader([PackageLoader(package) for package in (*packages, "osgt.render")]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters |= {"one_line": one_line, "link": link, "exact": exact, "together": together}
    return made


def exact(text: str) -> "Markup":
    """Text for the value of a field, which comes back as it is: escaped, with no marks in it."""
    from markupsafe import escape  # noqa: PLC0415 - the extra "tables"

    return escape(text)


def _shown(value: Any) -> Any:
    from markupsafe import Markup  # noqa: PLC0415 - the extra "tables"

    return value if isinstance(value, Markup) else printable(value)


def together(text: str) -> str:
    """A sentence in which no line ends between a number and its percent sign."""
    return text.replace(" %", "\u00a0%")


def link(text: str) -> str | None:
    """The address that a text is: of a web page or for mail; None if it is anything else."""
    if _MAIL.fullmatch(text):
        return f"mailto:{text}"
    return text if _WEB.fullmatch(text) else None


def data_uri(kind: str, content: bytes) -> str:
    """A file inside the page."""
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


@dataclass(frozen=True)
class Tick:
    """A place on an axis and what stands there."""

    at: float
    text: str
    is_zero: bool


@dataclass(frozen=True)
class Point:
    """A value with its noise interval: in numbers for the picture, in words beside it."""

    label: str
    value: float
    low: float
    high: float
    shown: Shown

    @property
    def text(self) -> str:
        """The value and its interval in words."""
        return f"{self.shown.value} ({self.shown.interval})"


@dataclass(frozen=True)
class Dot:
    """A point on a line of its own."""

    point: Point
    at: float
    start: float
    length: float


@dataclass(frozen=True)
class Dots:
    """A line for each group: a dot and a bar for its interval; under headings, if there are several keys."""

    caption: str
    groups: tuple[tuple[str, tuple[Dot, ...]], ...]
    ticks: tuple[Tick, ...]


@dataclass(frozen=True)
class Panel:
    """A line with a band for the intervals, in percent of its box."""

    title: str
    alternative: str
    line: str
    band: str
    dots: str


@dataclass(frozen=True)
class Lines:
    """Panels on one scale, one for each value of the first key."""

    caption: str
    panels: tuple[Panel, ...]
    ticks: tuple[Tick, ...]
    first: str
    last: str


def dots(caption: str, groups: Sequence[tuple[str, Sequence[Point]]]) -> Dots:
    """The picture of points under headings."""
    axis = _Axis([point for _, points in groups for point in points], 4)
    placed = tuple((title, tuple(_dot(axis, point) for point in points)) for title, points in groups)
    return Dots(caption, placed, axis.ticks)


def _dot(axis: "_Axis", point: Point) -> Dot:
    start, end = axis.at(point.low), axis.at(point.high)
    return Dot(point, axis.at(point.value), start, round(end - start, 2))


def lines(caption: str, panels: Sequence[tuple[str, Sequence[tuple[float, Point | None]]]]) -> Lines:
    """The picture of panels; each has the same places, in order, and a point or none at each of them."""
    axis = _Axis([point for _, places in panels for _, point in places if point is not None], 4)
    places = panels[0][1]
    least, span = places[0][0], (places[-1][0] - places[0][0]) or 1.0
    labels = [next((p[i][1].label for _, p in panels if p[i][1] is not None), "") for i in (0, -1)]  # type: ignore[union-attr]
    drawn = []
    for title, row in panels:
        stretches = _stretches([(round(100 * (x - least) / span, 2), point) for x, point in row])
        told = [point for _, point in row if point is not None]
        words = f"{title}: " if title else ""
        words += f"from {told[0].label}: {told[0].text} to {told[-1].label}: {told[-1].text}" if told else "no values"
        drawn.append(Panel(title, words, *(_paths(axis, stretches))))
    return Lines(caption, tuple(drawn), axis.ticks[::-1], labels[0], labels[1])


def _stretches(row: Sequence[tuple[float, Point | None]]) -> list[list[tuple[float, Point]]]:
    """Points that follow each other without a gap."""
    result: list[list[tuple[float, Point]]] = [[]]
    for x, point in row:
        if point is None:
            result.append([])
        else:
            result[-1].append((x, point))
    return [stretch for stretch in result if stretch]


def _paths(axis: "_Axis", stretches: Sequence[Sequence[tuple[float, Point]]]) -> tuple[str, str, str]:
    """The line, the band around it and the dots on it."""

    def y(value: float) -> float:
        return round(100 - axis.at(value), 2)

    line, band, dots = "", "", ""
    for stretch in stretches:
        line += "M" + "L".join(f"{x} {y(point.value)}" for x, point in stretch)
        above = [f"{x} {y(point.high)}" for x, point in stretch]
        below = [f"{x} {y(point.low)}" for x, point in reversed(stretch)]
        band += f"M{'L'.join(above + below)}Z"
        dots += "".join(f"M{x} {y(point.value)}h.01" for x, point in stretch)
    return line, band, dots


class _Axis:
    """Round numbers from below the least to above the largest, zero among them."""

    def __init__(self, points: Sequence[Point], most: int) -> None:
        low = min(0.0, *(point.low for point in points), 0.0)
        high = max(0.0, *(point.high for point in points), 0.0)
        if low == high:
            high = low + 1.0
        span = high - low
        step = 10.0 ** math.floor(math.log10(span / most))
        step *= next(factor for factor in (1, 2, 5, 10) if span / (step * factor) <= most)
        numbers = [step * i for i in range(math.floor(low / step), math.ceil(high / step) + 1)]
        self._first, self._span = numbers[0], numbers[-1] - numbers[0]
        self.ticks = tuple(Tick(self.at(number), _short(number), number == 0) for number in numbers)

    def at(self, value: float) -> float:
        """The place of a value, in percent."""
        return round(100 * (value - self._first) / self._span, 2)


def _short(number: float) -> str:
    """A round number in few letters: 1,500,000 is 1.5 million."""
    for size, word in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if abs(number) >= size:
            return f"{number / size:,.6g} {word}"
    return f"{number:,.6g}"


#: Colours that people who see colours differently can tell apart.
INK, COLOURS = "#111111", {"gaussian": "#0072B2", "laplace": "#D55E00", "osgt": "#111111"}


def new_figure(width: float, height: float) -> Any:
    """An empty figure, or an error that says what to install."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - an extra
    except ImportError:
        raise missing("a picture", "Matplotlib", "plots") from None
    return Figure(figsize=(width, height), layout="constrained")


def axes_for(axes: Any, width: float = 7.0, height: float = 4.2) -> Any:
    """The axes that were given; else those of a new figure, which a notebook shows at the end of the cell."""
    if axes is None:
        try:
            from matplotlib import pyplot  # noqa: PLC0415 - an extra
        except ImportError:
            raise missing("a picture", "Matplotlib", "plots") from None
        _, axes = pyplot.subplots(figsize=(width, height), layout="constrained")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    return axes
