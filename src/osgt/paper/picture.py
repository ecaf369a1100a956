"""What a picture shows, as plain arrays: computed here and there, drawn in `drawing`."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Curve:
    """One line or set of points. `noise` chooses the colour, `style` is line, dashed, dotted, points, bars or area."""

    label: str
    noise: str
    x: Floats
    y: Floats
    style: str = "line"
    #: Lower and upper ends of error bars, for points.
    low: Floats | None = None
    high: Floats | None = None


@dataclass(frozen=True)
class Mark:
    """A point of a curve with words beside it, placed `offset` points away."""

    x: float
    y: float
    text: str
    offset: tuple[float, float] = (8.0, 8.0)


@dataclass(frozen=True)
class Panel:
    """One pair of axes. `added` says that it is ours and not in the paper."""

    title: str
    xlabel: str
    ylabel: str
    curves: tuple[Curve, ...]
    marks: tuple[Mark, ...] = ()
    xlim: tuple[float, float] | None = None
    ylim: tuple[float, float] | None = None
    xlog: bool = False
    ylog: bool = False
    added: bool = False
    legend: str = "best"

    def curve(self, label: str) -> Curve:
        """The curve with this label."""
        for curve in self.curves:
            if curve.label == label:
                return curve
        raise KeyError(f"no curve {label!r}; there are {', '.join(repr(c.label) for c in self.curves)}")


@dataclass(frozen=True)
class Picture:
    """A figure: its panels from left to right, what it shows, and where the comparisons in it turn."""

    name: str
    title: str
    panels: tuple[Panel, ...]
    #: Where a comparison turns: words to the abscissa.
    turns: dict[str, float] = field(default_factory=dict)
