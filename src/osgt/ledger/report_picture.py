"""The spending of a budget over time, drawn as SVG: the share that is used after each release."""

from datetime import datetime
from html import escape

from osgt.ledger.events import moment
from osgt.ledger.records import Overview
from osgt.ledger.wording import times
from osgt.shown_text import one_line

#: Sizes in pixels. Letters must be readable where the picture is shrunk to the width of a telephone.
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 480, 240, 52, 14, 14, 34
_FONT = 13


def spending_picture(overview: Overview, now: datetime) -> str:
    """An SVG element: the share of the budget in percent, from the opening to now."""
    moments = times(overview.releases)
    opened = moment(overview.events[0].time) or now
    first = min([opened, *moments[:1]])
    last = max([now, first, *moments[-1:]])
    span = (last - first).total_seconds() or 1.0

    def x(time: datetime) -> float:
        return round(_LEFT + (_WIDTH - _LEFT - _RIGHT) * (time - first).total_seconds() / span, 1)

    def y(share: float) -> float:
        return round(_HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * min(max(share, 0.0), 1.0), 1)

    # What falls on the same point need not be drawn twice: of ten thousand releases some hundreds are left.
    points = {x(time): y(release.share_after) for time, release in zip(moments, overview.releases, strict=True)}
    points[x(last)] = y(overview.spending.share)
    line = f"M{x(first)} {y(0.0)}" + "".join(f"H{across}V{up}" for across, up in points.items())
    area = f"{line}V{y(0.0)}Z"
    parts = []
    for percent in (0, 25, 50, 75, 100):
        at = y(percent / 100)
        look = "stroke='#c0392b' stroke-dasharray='5 4'" if percent == 100 else "stroke='#dcdcdc'"
        parts.append(f"<line x1='{_LEFT}' x2='{_WIDTH - _RIGHT}' y1='{at}' y2='{at}' {look}/>")
        parts.append(f"<text x='{_LEFT - 6}' y='{at + 4}' text-anchor='end'>{percent} %</text>")
    for event in overview.events[1:]:
        at = x(max(moment(event.time) or last, first))
        parts.append(
            f"<line x1='{at}' x2='{at}' y1='{_TOP}' y2='{y(0.0)}' stroke='#8e6c00' stroke-dasharray='2 3'>"
            f"<title>{escape(one_line(event.text))}</title></line>"
        )
    parts.append(f"<path d='{area}' fill='#cfe3f1'/><path d='{line}' fill='none' stroke='#0b3d5c' stroke-width='2'/>")
    for time, anchor in ((first, "start"), (last, "end")):
        parts.append(f"<text x='{x(time)}' y='{_HEIGHT - 10}' text-anchor='{anchor}'>{_day(time, span)}</text>")
    return (
        f"<svg viewBox='0 0 {_WIDTH} {_HEIGHT}' role='img' aria-label='Share of the budget that is used, over time' "
        f"font-family='system-ui, sans-serif' font-size='{_FONT}' fill='#444'>{''.join(parts)}</svg>"
    )


def _day(time: datetime, span: float) -> str:
    if span < 600:
        return f"{time:%Y-%m-%d %H:%M:%S}"
    return f"{time:%Y-%m-%d}" if span > 3 * 86_400 else f"{time:%Y-%m-%d %H:%M}"
