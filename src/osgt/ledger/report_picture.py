"""The spending of a budget over time: the share that is used after each release, as a line in percent of a box."""

from dataclasses import dataclass
from datetime import datetime

from osgt.ledger.events import moment
from osgt.ledger.records import Overview
from osgt.ledger.wording import times, used
from osgt.pages.numbers import day
from osgt.shown_text import one_line


@dataclass(frozen=True)
class SpendingPicture:
    """What is drawn: a line of steps, the area below it, other events, and the ends of the time."""

    line: str
    area: str
    events: tuple[tuple[float, str], ...]
    first: str
    last: str
    alternative: str


def spending_picture(overview: Overview, now: datetime) -> SpendingPicture:
    """The share of the budget, from the opening to now."""
    moments = times(overview.releases)
    opened = moment(overview.events[0].time) or now
    first = min([opened, *moments[:1]])
    last = max([now, first, *moments[-1:]])
    span = (last - first).total_seconds() or 1.0

    def x(time: datetime) -> float:
        return round(100 * (time - first).total_seconds() / span, 2)

    def y(share: float) -> float:
        return round(100 - 100 * min(max(share, 0.0), 1.0), 2)

    # What falls on the same point need not be drawn twice: of ten thousand releases some hundreds are left.
    points = {x(time): y(release.share_after) for time, release in zip(moments, overview.releases, strict=True)}
    points[x(last)] = y(overview.spending.share)
    line = "M0 100" + "".join(f"H{across}V{up}" for across, up in points.items())
    events = tuple((x(max(moment(event.time) or last, first)), one_line(event.text)) for event in overview.events[1:])
    begin, end = _time(first, span), _time(last, span)
    words = f"From {begin} to {end}, the share of the budget that is used grew to {used(overview.spending.share)}"
    return SpendingPicture(line, f"{line}V100Z", events, begin, end, words)


def _time(time: datetime, span: float) -> str:
    if span > 3 * 86_400:
        return day(time)
    return f"{day(time)}, {time:%H:%M:%S}" if span < 600 else f"{day(time)}, {time:%H:%M}"
