"""The views of a ledger: the page for an auditor, notebook cards, and pictures of the spending.

The page says what was promised, what was spent when by whom, and whether the ledger is what was written: one file of
HTML that needs nothing else.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from osgt.facts.ledger_wording import (
    about,
    budget,
    budget_facts,
    checks,
    figure,
    left,
    outcome,
    promise,
    times,
    used,
    what,
    when,
    who,
)
from osgt.ledger.history import Event, Overview, ReleaseRecord, Spending, moment
from osgt.ledger.store.chain import software
from osgt.ledger.verification import Verification
from osgt.render.cards import Card, CardTable, Cell
from osgt.render.pictures import INK, axes_for
from osgt.render.rendering import render
from osgt.support.numbers import day
from osgt.support.text import one_line

if TYPE_CHECKING:
    from osgt.ledger.ledger import Ledger
    from osgt.ledger.verification import Verification


@dataclass(frozen=True)
class SpendingPicture:
    """The picture of the spending: a line of steps, the area below it, other events, and the ends of the time."""

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
    begin, end = _moment_text(first, span), _moment_text(last, span)
    words = f"From {begin} to {end}, the share of the budget that is used grew to {used(overview.spending.share)}"
    return SpendingPicture(line, f"{line}V100Z", events, begin, end, words)


def _moment_text(time: datetime, span: float) -> str:
    if span > 3 * 86_400:
        return day(time)
    return f"{day(time)}, {time:%H:%M:%S}" if span < 600 else f"{day(time)}, {time:%H:%M}"


def page(ledger: str, overviews: Sequence[Overview], checked: Verification, now: datetime) -> str:
    """The page as text."""
    name = f"Privacy budget of {one_line(overviews[0].spending.dataset)}" if len(overviews) == 1 else "Privacy budgets"
    return render(
        "ledger.html",
        title=name,
        ledger=one_line(ledger),
        made=f"{day(now)}, {now:%H:%M} UTC",
        software=one_line(software()),
        check={
            "ok": checked.ok,
            "checks": checks(checked),
            "problems": [one_line(problem) for problem in checked.problems],
            "ledger": one_line(checked.ledger),
        },
        budgets=[_page_budget(overview, now) for overview in overviews],
        heads=[
            (one_line(name), f"{head['sequence']:,}", one_line(head["hash"])) for name, head in checked.heads.items()
        ],
    )


def _page_budget(overview: Overview, now: datetime) -> dict[str, Any]:
    spending = overview.spending
    return {
        "name": one_line(spending.dataset),
        "promise": promise(spending, overview.events),
        "tiles": budget_facts(spending),
        "picture": spending_picture(overview, now),
        "releases": [_page_release(release) for release in overview.releases],
        "events": [_page_event(event) for event in overview.events],
    }


def _page_release(release: ReleaseRecord) -> dict[str, Any]:
    notes = [f"note: {one_line(note)}" for note in release.notes]
    return {
        "entry": release.sequence,
        "time": when(release),
        "what": what(release),
        "more": [text for text in (about(release), outcome(release), *notes) if text],
        "who": who(release),
        "epsilon": figure(release.epsilon),
        "delta": figure(release.delta),
        "left": left(release.share_after),
        "status": one_line(release.status),
    }


def _page_event(event: Event) -> dict[str, Any]:
    reason = one_line(event.reason) if event.reason else None
    return {
        "entry": event.sequence,
        "time": when(event),
        "what": one_line(event.text),
        "reason": reason,
        "who": who(event),
    }


#: Releases that a card shows: the latest.
_LATEST = 10


def ledger_card(ledger: "Ledger") -> Card:
    """The budgets of all data sets, as they stand now."""
    budgets = [ledger.overview(name).spending for name in ledger.datasets()]
    rows = [
        [Cell(text) for text in (one_line(one.dataset), budget(one), used(one.share), f"{one.releases:,}")]
        for one in budgets
    ]
    table = CardTable(["Data set", "Budget", "Used", "Releases"], rows)
    name = ledger.name if "://" in ledger.name else os.path.basename(ledger.name)
    return Card(f"Ledger {name}", "" if rows else "No budget was opened yet.", tables=[table] if rows else [])


def spending_card(spending: Spending) -> Card:
    """Make the card of a budget: how much of it is used."""
    return Card(
        f"Budget of {one_line(spending.dataset)}", facts=budget_facts(spending), promise=promise(spending, changes=())
    )


def overview_card(overview: Overview) -> Card:
    """A budget and its latest releases."""
    spending = overview.spending
    rows = [_card_release(release) for release in overview.releases[-_LATEST:]]
    caption = f"The latest {_LATEST} releases" if len(overview.releases) > _LATEST else ""
    heads = ["Entry", "Time (UTC)", "Release", "Status", "ε", "Left"]
    return Card(
        f"Budget of {one_line(spending.dataset)}",
        facts=budget_facts(spending),
        tables=[CardTable(heads, rows, keys=4, caption=caption)] if rows else [],
        promise=promise(spending, overview.events),
    )


def _card_release(release: ReleaseRecord) -> list[Cell]:
    texts = [str(release.sequence), when(release), what(release), one_line(release.status)]
    return [Cell(text) for text in (*texts, figure(release.epsilon), left(release.share_after))]


def verification_card(checked: "Verification") -> Card:
    """Make the card of a check: whether the ledger is what was written."""
    looked_at = checks(checked)
    if checked.ok:
        return Card("The ledger was checked: all is well", f"Every decision was computed again from {looked_at}.")
    alarm = "The ledger was tampered with or is damaged"
    return Card(
        "What is wrong", f"{looked_at} were checked.", alarm=alarm, lines=[one_line(p) for p in checked.problems]
    )


def plot_overview(overview: Overview, axes: Any) -> Any:
    """The share of the budget that is used, over time."""
    axes, spending = axes_for(axes, height=2.8), overview.spending
    shares, moments = [100 * release.share_after for release in overview.releases], times(overview.releases)
    axes.step(moments, shares, where="post", color=INK, linewidth=1.8)
    axes.plot(moments, shares, ".", color=INK, markersize=4)
    axes.axhline(100, color="#D55E00", linestyle="--", linewidth=1.2)
    # A dollar sign in a name is no formula.
    axes.set_title(f"{one_line(spending.dataset)} (releases: {spending.releases:,})", parse_math=False)
    axes.set(ylabel=f"% of {budget(spending)}", ylim=(0, 110))
    axes.tick_params(axis="x", labelsize=8)
    return axes


def plot_spending(spending: Spending, axes: Any) -> Any:
    """Draw one bar: what is used of the budget, and what is left."""
    axes = axes_for(axes, height=1.4)
    axes.barh([0], [100 * spending.share], color=INK, height=0.6, label=f"used: {used(spending.share)}")
    axes.barh([0], [100], color="none", edgecolor="#D55E00", height=0.6)
    axes.set_title(f"{one_line(spending.dataset)}: {used(spending.share)} used", parse_math=False)
    axes.set(xlim=(0, 105), xlabel=f"% of {budget(spending)}", yticks=[])
    return axes
