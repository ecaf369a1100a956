"""Values with their noise intervals, drawn as SVG: a dot and a bar for each group."""

import math
from collections.abc import Sequence
from html import escape

#: Sizes in pixels.
_ROW, _LEFT, _WIDTH, _TOP, _BOTTOM = 20, 230, 640, 30, 34
_TICKS = 6
_LONGEST_LABEL, _LABEL_END = 34, 16


def interval_picture(
    title: str, labels: Sequence[str], values: Sequence[float], lows: Sequence[float], highs: Sequence[float]
) -> str:
    """An SVG element with one line for each label, from its low to its high end with a dot at the value."""
    ticks = _ticks(min(0.0, *lows), max(0.0, *highs))
    first, last = ticks[0], ticks[-1]

    def x(value: float) -> float:
        return round(_LEFT + _WIDTH * (value - first) / (last - first), 1)

    bottom = _TOP + _ROW * len(labels)
    parts = [f"<text x='{_LEFT}' y='18' font-weight='bold'>{escape(title)}</text>"]
    for tick in ticks:
        colour = "#888" if tick == 0 else "#e4e4e4"
        parts.append(f"<line x1='{x(tick)}' x2='{x(tick)}' y1='{_TOP}' y2='{bottom}' stroke='{colour}'/>")
        parts.append(f"<text x='{x(tick)}' y='{bottom + 18}' text-anchor='middle' fill='#555'>{tick:,.10g}</text>")
    for i, (label, value, low, high) in enumerate(zip(labels, values, lows, highs, strict=True)):
        y = _TOP + _ROW * i + _ROW / 2
        shown = label if len(label) <= _LONGEST_LABEL else f"{label[:_LABEL_END]}…{label[-_LABEL_END:]}"
        parts.append(f"<text x='{_LEFT - 10}' y='{y + 4}' text-anchor='end'>{escape(shown)}</text>")
        parts.append(f"<line x1='{x(low)}' x2='{x(high)}' y1='{y}' y2='{y}' stroke='#7fb3d5' stroke-width='5'/>")
        parts.append(
            f"<circle cx='{x(value)}' cy='{y}' r='3.5' fill='#0b3d5c'><title>{escape(label)}: {value:,.10g} "
            f"({low:,.10g} to {high:,.10g})</title></circle>"
        )
    width, height = _LEFT + _WIDTH + 40, bottom + _BOTTOM
    return (
        f"<svg viewBox='0 0 {width} {height}' width='{width}' height='{height}' role='img' "
        f"aria-label='{escape(title, quote=True)}' font-family='system-ui, sans-serif' font-size='12'>"
        f"{''.join(parts)}</svg>"
    )


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers from below `low` to above `high`."""
    if low == high:
        high = low + 1.0
    span = high - low
    step = 10.0 ** math.floor(math.log10(span / _TICKS))
    step *= next(factor for factor in (1, 2, 5, 10) if span / (step * factor) <= _TICKS)
    return [step * i for i in range(math.floor(low / step), math.ceil(high / step) + 1)]
