"""The views of a ledger: the page for an auditor, notebook cards, pictures of the spending, lists for a terminal.

The page says what was promised, what was spent when by whom, and whether the ledger is what was written: one file of
HTML that needs nothing else.
"""

import csv
import io
import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rich import box
from rich.markup import escape
from rich.table import Table

from osgt.facts.ledger_wording import (
    RecordLine,
    budget,
    budget_facts,
    checks,
    event_line,
    left,
    owners,
    promise,
    release_line,
    so_far,
    times,
    used,
)
from osgt.ledger.history import Event, Overview, ReleaseRecord, Spending, moment
from osgt.ledger.snapshot import Verification
from osgt.ledger.store.chain import software
from osgt.render.cards import Card, CardTable, Cell
from osgt.render.page import INK, axes_for, render
from osgt.support.text import FORMULA, day, one_line, rounded_up, shortened

if TYPE_CHECKING:
    from osgt.ledger.ledger import Ledger


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
        "releases": [release_line(release) for release in overview.releases],
        "events": [event_line(event) for event in overview.events],
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
    line = release_line(release)
    return [Cell(text) for text in (str(line.entry), line.time, line.what, line.status, line.epsilon, line.left)]


def verification_card(checked: Verification) -> Card:
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


#: The bars of a curve on a terminal, and the most of them.
_BARS = "▁▂▃▄▅▆▇█"
_WIDTH = 60

#: Characters of a title, a place or a note on a terminal.
_LONGEST = 200

_CSV = (
    "dataset",
    "entry",
    "kind",
    "time",
    "actor",
    "session_user",
    "title",
    "unit",
    "neighbours",
    "table",
    "source",
    "epsilon",
    "delta",
    "status",
    "settled_at",
    "output",
    "left_after",
    "notes",
    "reason",
    "statement_hash",
    "software",
    "query",
)


def terminal_lists(wholes: Sequence[Overview], parts: Sequence[Overview]) -> Iterator[Table | str]:
    """All budgets, and of each data set the releases and events that were chosen, as a terminal shows them."""
    yield _budgets(wholes)
    for whole, chosen in zip(wholes, parts, strict=True):
        spending = whole.spending
        yield f"\n[bold]{escape(one_line(spending.dataset))}[/] protects {escape(owners(spending))}"
        yield so_far(spending)
        if chosen.releases:
            yield _releases(chosen.releases, len(whole.releases))
        elif whole.releases:
            yield f"No release of {len(whole.releases):,} was chosen."
        if chosen.events:
            yield _events(chosen.events)


def _budgets(overviews: Sequence[Overview]) -> Table:
    """Each budget, what is used of it and how that came about."""
    table = Table(title="Budgets", title_justify="left")
    table.add_column("data set", overflow="fold")
    for column in ("of ε", "at δ", "ε spent", "used", "left", "releases"):
        table.add_column(column, justify="right")
    table.add_column("spending over time")
    for one in overviews:
        spending = one.spending
        table.add_row(
            escape(one_line(spending.dataset)),
            f"{spending.budget_epsilon:g}",
            f"{spending.budget_delta:g}",
            rounded_up(spending.epsilon),
            used(spending.share),
            left(spending.share),
            f"{spending.releases:,}",
            sparkline(one.releases),
        )
    return table


def _releases(releases: Sequence[ReleaseRecord], of: int) -> Table:
    table = _list(f"{len(releases):,} of {of:,} releases" if len(releases) < of else "All releases", "release")
    for column in ("ε", "δ", "left"):
        table.add_column(column, justify="right")
    table.add_column("status")
    for line in map(release_line, releases):
        what = f"[bold]{escape(shortened(line.what, _LONGEST))}[/]"
        table.add_row(*_cells(line, what), line.epsilon, line.delta, line.left, line.status)
    return table


def _events(events: Sequence[Event]) -> Table:
    table = _list("Events", "event")
    for line in map(event_line, events):
        table.add_row(*_cells(line, escape(line.what)))
    return table


def _list(title: str, what: str) -> Table:
    """A list of entries, without its rows."""
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("entry", justify="right")
    table.add_column("time (UTC)")
    table.add_column(what, overflow="fold", ratio=1)
    return table


def _cells(line: RecordLine, what: str) -> tuple[str, str, str]:
    """The first cells of a row: number, time, and in lines below each other all that there is to say."""
    by = ", ".join(filter(None, (f"by {line.who}", line.about)))
    more = [escape(text) for text in (by, *(shortened(text, _LONGEST) for text in line.more))]
    return str(line.entry), line.time.replace(" ", "\n", 1), "\n".join((what, *more))


def sparkline(releases: Sequence[ReleaseRecord]) -> str:
    """The share used after each release as a row of bars, full at 100 %; where there are many, several share a bar."""
    values = [release.share_after for release in releases]
    width = min(_WIDTH, len(values))
    groups = [values[i * len(values) // width : (i + 1) * len(values) // width] for i in range(width)]
    heights = (min(max(group), 1.0) for group in groups)
    return "".join(_BARS[min(int(height * len(_BARS)), len(_BARS) - 1)] for height in heights)


def as_json(overviews: Sequence[Overview]) -> str:
    """Write the overviews for a program to read. ASCII only: no stored text reaches the terminal as it is."""
    return json.dumps([_plain(overview) for overview in overviews], indent=2)


def _plain(overview: Overview) -> dict[str, Any]:
    return {
        **overview.spending.to_dict(),
        "history": [release.to_dict() for release in overview.releases],
        "events": [vars(event) for event in overview.events],
    }


def as_csv(overviews: Sequence[Overview]) -> str:
    """A row for each release and each event, in their order; safe to open in a spreadsheet."""
    file = io.StringIO()
    writer = csv.DictWriter(file, _CSV, lineterminator="\n")
    writer.writeheader()
    for overview in overviews:
        records: list[ReleaseRecord | Event] = [*overview.releases, *overview.events]
        for record in sorted(records, key=lambda record: record.sequence):
            row = {"dataset": overview.spending.dataset, "entry": record.sequence, **vars(record)}
            if isinstance(record, ReleaseRecord):
                row |= {"kind": "release", "notes": "; ".join(map(str, record.notes))}
                row["left_after"] = left(record.share_after)
            else:
                row["title"] = record.text
            writer.writerow({name: _cell(row.get(name)) for name in _CSV})
    return file.getvalue()


def _cell(value: object) -> object:
    if value is None or isinstance(value, int | float):
        return "" if value is None else value
    text = one_line(value)
    return f"'{text}" if re.match(FORMULA, text) else text
