"""The answers of `osgt ledger show`: tables for a terminal, JSON and CSV."""

import csv
import io
import json
import re
from collections.abc import Sequence
from typing import Any

from rich import box
from rich.markup import escape
from rich.table import Table

from osgt.cli.shared import terminal
from osgt.facts.ledger_wording import about, figure, left, outcome, owners, so_far, used, what, when, who
from osgt.ledger import Event, Overview, ReleaseRecord
from osgt.support.numbers import rounded_up
from osgt.support.text import FORMULA, one_line, shortened

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


def print_overviews(wholes: Sequence[Overview], parts: Sequence[Overview]) -> None:
    """Print all budgets, and of each data set the releases and events that were chosen."""
    _print_budgets(wholes)
    for whole, chosen in zip(wholes, parts, strict=True):
        _print_overview(whole, chosen)


def _print_budgets(overviews: Sequence[Overview]) -> None:
    """Print each budget, what is used of it and how that came about."""
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
    terminal().print(table)


def _print_overview(whole: Overview, chosen: Overview) -> None:
    """The releases and events of a data set that were asked for."""
    console = terminal()
    spending = whole.spending
    console.print(
        f"\n[bold]{escape(one_line(spending.dataset))}[/] protects {escape(owners(spending))}",
        highlight=False,
        soft_wrap=True,
    )
    console.print(so_far(spending), highlight=False, soft_wrap=True)
    if chosen.releases:
        console.print(_releases(chosen.releases, len(whole.releases)))
    elif whole.releases:
        console.print(f"No release of {len(whole.releases):,} was chosen.", highlight=False)
    if chosen.events:
        console.print(_events(chosen.events))


def _releases(releases: Sequence[ReleaseRecord], of: int) -> Table:
    many = f"{len(releases):,} of {of:,} releases" if len(releases) < of else "All releases"
    table = Table(title=many, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("entry", justify="right")
    table.add_column("time (UTC)")
    table.add_column("release", overflow="fold", ratio=1)
    for column in ("ε", "δ", "left"):
        table.add_column(column, justify="right")
    table.add_column("status")
    for release in releases:
        lines = [f"[bold]{escape(shortened(what(release), _LONGEST))}[/]"]
        lines.append(escape(", ".join(filter(None, (f"by {who(release)}", about(release))))))
        lines += [escape(shortened(outcome(release), _LONGEST))] if outcome(release) else []
        lines += [f"note: {escape(shortened(note, _LONGEST))}" for note in release.notes]
        table.add_row(
            f"{release.sequence}",
            when(release).replace(" ", "\n", 1),
            "\n".join(lines),
            figure(release.epsilon),
            figure(release.delta),
            left(release.share_after),
            release.status,
        )
    return table


def _events(events: Sequence[Event]) -> Table:
    table = Table(
        title="The budget and what else happened", title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0)
    )
    table.add_column("entry", justify="right")
    table.add_column("time (UTC)")
    table.add_column("event", overflow="fold", ratio=1)
    for event in events:
        lines = [escape(one_line(event.text)), escape(f"by {who(event)}")]
        lines += [escape(f"reason: {shortened(event.reason, _LONGEST)}")] if event.reason else []
        table.add_row(f"{event.sequence}", when(event).replace(" ", "\n", 1), "\n".join(lines))
    return table


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
