"""The page for an auditor: what was promised, what was spent when by whom, and whether the ledger is what was written.

One file of HTML that needs nothing else; its parts are those of `osgt.pages`.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from osgt.ledger.book import software
from osgt.ledger.events import Event
from osgt.ledger.records import Overview, ReleaseRecord
from osgt.ledger.report_picture import spending_picture
from osgt.ledger.verification import Verification
from osgt.ledger.wording import about, figure, left, outcome, owners, promise, used, what, when, who
from osgt.pages.numbers import counted, day, rounded_up
from osgt.pages.rendering import render
from osgt.shown_text import one_line


def page(ledger: str, overviews: Sequence[Overview], checked: Verification, now: datetime) -> str:
    """The page as text."""
    name = f"Privacy budget of {one_line(overviews[0].spending.dataset)}" if len(overviews) == 1 else "Privacy budgets"
    entries, sets = counted(checked.entries, "entry", "entries"), counted(len(checked.heads), "data set")
    return render(
        "ledger.html",
        title=name,
        ledger=one_line(ledger),
        made=f"{day(now)}, {now:%H:%M} UTC",
        software=one_line(software()),
        check={
            "ok": checked.ok,
            "checks": f"{entries} of {sets}",
            "problems": [one_line(problem) for problem in checked.problems],
            "ledger": one_line(checked.ledger),
        },
        budgets=[_budget(overview, now) for overview in overviews],
        heads=[
            (one_line(name), f"{head['sequence']:,}", one_line(head["hash"])) for name, head in checked.heads.items()
        ],
    )


def _budget(overview: Overview, now: datetime) -> dict[str, Any]:
    spending = overview.spending
    return {
        "name": one_line(spending.dataset),
        "promise": promise(spending, overview.events),
        "tiles": [
            ("Budget", f"ε = {spending.budget_epsilon:g}, δ = {spending.budget_delta:g}"),
            ("Used", used(spending.share)),
            ("Left", left(spending.share)),
            ("Spent", f"ε = {rounded_up(spending.epsilon)}"),
            ("Releases", f"{spending.releases:,}"),
            ("Protects", owners(spending)),
        ],
        "picture": spending_picture(overview, now),
        "releases": [_release(release) for release in overview.releases],
        "events": [_event(event) for event in overview.events],
    }


def _release(release: ReleaseRecord) -> dict[str, Any]:
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


def _event(event: Event) -> dict[str, Any]:
    reason = one_line(event.reason) if event.reason else None
    return {
        "entry": event.sequence,
        "time": when(event),
        "what": one_line(event.text),
        "reason": reason,
        "who": who(event),
    }
