"""The page for an auditor: what was promised, what was spent when by whom, and whether the ledger is what was written.

One file of HTML that needs nothing else. All texts are escaped, and the page may run no script and load nothing,
whatever they hold.
"""

import base64
import hashlib
from collections.abc import Iterable, Sequence
from datetime import datetime
from html import escape

from osgt.ledger.book import software
from osgt.ledger.events import Event
from osgt.ledger.records import Overview, ReleaseRecord
from osgt.ledger.report_picture import spending_picture
from osgt.ledger.verification import Verification
from osgt.ledger.wording import about, figure, left, outcome, owners, promise, rounded_up, used, what, when, who
from osgt.shown_text import one_line

_STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff; max-width: 76rem; margin: 1.5rem auto;
  padding: 0 1rem; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; margin: 0 0 .2rem; } h2 { font-size: 1.3rem; margin: 2.4rem 0 .6rem; }
h3 { font-size: 1.05rem; margin: 1.6rem 0 .4rem; } .meta { color: #555; margin-top: 0; }
.box { background: #f3f6f9; border-left: 4px solid #0072b2; padding: .6rem .9rem; margin: .8rem 0; }
.well { border-color: #1e8449; background: #f0f8f3; } .wrong { border-color: #c0392b; background: #fdf1ef; }
dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: .7rem; margin: .8rem 0; }
dl div { border: 1px solid #ddd; border-radius: 6px; padding: .5rem .7rem; }
dt { color: #555; font-size: .85rem; } dd { margin: 0; font-size: 1.15rem; font-variant-numeric: tabular-nums; }
svg { display: block; width: 100%; max-width: 44rem; height: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .6rem; border-bottom: 1px solid #e3e3e3; text-align: left; vertical-align: top; }
th { border-bottom: 2px solid #999; } td.number, th.number { text-align: right; white-space: nowrap; }
td.time { white-space: nowrap; } td p { margin: 0; color: #555; font-size: .9rem; }
code { font-size: .85rem; } span { white-space: nowrap; }
@media (max-width: 44rem) {
  thead { display: none; } table, tbody, tr, td { display: block; width: 100%; }
  tr { border: 1px solid #ddd; border-radius: 6px; margin: .6rem 0; padding: .3rem .6rem; }
  td { border: 0; padding: .12rem 0; } td.number { text-align: left; }
  td[data-label]::before { content: attr(data-label) ": "; color: #555; }
}
"""


def page(ledger: str, overviews: Sequence[Overview], checked: Verification, now: datetime) -> str:
    """The page as text."""
    title = "Privacy budgets" if len(overviews) != 1 else f"Privacy budget of {_safe(overviews[0].spending.dataset)}"
    digest = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    body = [
        f"<h1>{title}</h1><p class='meta'>Ledger {_safe(ledger)} · {now:%Y-%m-%d %H:%M} UTC · {_safe(software())}</p>",
        _check(checked),
        *(_budget(overview, now) for overview in overviews),
        _heads(checked),
    ]
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f"<title>{title}</title><style>{_STYLE}</style></head><body>{''.join(body)}</body></html>\n"
    )


def _safe(text: object) -> str:
    """A text for the page: control characters become marks, and nothing is markup."""
    return escape(one_line(text))


def _check(checked: Verification) -> str:
    sets = "data set" if len(checked.heads) == 1 else "data sets"
    entries = "entry" if checked.entries == 1 else "entries"
    checks = f"{checked.entries:,} {entries} of {len(checked.heads):,} {sets}"
    if checked.ok:
        return (
            f"<p class='box well'><b>The ledger was checked: all is well.</b> Every decision was computed again from "
            f"{checks}. Compare the heads below with those that were kept elsewhere: only that shows whether the end "
            "was cut off or everything was written anew.</p>"
        )
    problems = "".join(f"<li>{_safe(problem)}</li>" for problem in checked.problems)
    return (
        f"<div class='box wrong'><b>The ledger was tampered with or is damaged.</b> {checks} were checked; do not rely "
        f"on the figures below.<ul>{problems}</ul></div>"
    )


def _budget(overview: Overview, now: datetime) -> str:
    spending = overview.spending
    facts = {
        "Budget": f"ε = {spending.budget_epsilon:g}, <span>δ = {spending.budget_delta:g}</span>",
        "Used": used(spending.share),
        "Left": left(spending.share),
        "Spent": f"ε = {rounded_up(spending.epsilon)}",
        "Releases": f"{spending.releases:,}",
        "Protects": _safe(owners(spending)),
    }
    tiles = "".join(f"<div><dt>{name}</dt><dd>{text}</dd></div>" for name, text in facts.items())
    return (
        f"<h2>{_safe(spending.dataset)}</h2><p class='box'>{_safe(promise(spending, overview.events))}</p>"
        f"<dl>{tiles}</dl><h3>Share of the budget that is used, over time</h3>{spending_picture(overview, now)}"
        f"<h3>Releases</h3>{_releases(overview.releases)}"
        f"<h3>The budget and what else happened</h3>{_events(overview.events)}"
    )


def _releases(releases: Sequence[ReleaseRecord]) -> str:
    if not releases:
        return "<p>Nothing was released.</p>"
    rows = []
    for release in releases:
        more = [about(release), outcome(release)]
        more += [f"note: {note}" for note in release.notes]
        told = "".join(f"<p>{_safe(text)}</p>" for text in more if text)
        rows.append(
            f"<tr><td class='number' data-label='Entry'>{release.sequence}</td><td class='time'>{_safe(when(release))}"
            f"</td><td><b>{_safe(what(release))}</b>{told}</td><td data-label='By'>{_safe(who(release))}</td>"
            f"<td class='number' data-label='ε'>{figure(release.epsilon)}</td>"
            f"<td class='number' data-label='δ'>{figure(release.delta)}</td>"
            f"<td class='number' data-label='Left'>{left(release.share_after)}</td>"
            f"<td data-label='Status'>{release.status}</td></tr>"
        )
    head = "<th class='number'>entry</th><th>time (UTC)</th><th>release</th><th>by</th><th class='number'>ε</th>"
    head += "<th class='number'>δ</th><th class='number'>left</th><th>status</th>"
    return (
        "<p class='meta'>ε and δ are those that each release was made with; “left” is what was left of the budget "
        "after it. Reserved: charged, and no output is known. Settled: the output is in place. Cancelled: nothing was "
        f"read, and the charge was taken back.</p>{_table(head, rows)}"
    )


def _events(events: Sequence[Event]) -> str:
    rows = [
        f"<tr><td class='number' data-label='Entry'>{event.sequence}</td><td class='time'>{_safe(when(event))}</td>"
        f"<td>{_safe(event.text)}{'' if not event.reason else f'<p>reason: {_safe(event.reason)}</p>'}</td>"
        f"<td data-label='By'>{_safe(who(event))}</td></tr>"
        for event in events
    ]
    return _table("<th class='number'>entry</th><th>time (UTC)</th><th>event</th><th>by</th>", rows)


def _heads(checked: Verification) -> str:
    rows = [
        f"<tr><td data-label='Data set'>{_safe(name)}</td><td class='number' data-label='Entries'>{head['sequence']:,}"
        f"</td><td><code>{_safe(head['hash'])}</code></td></tr>"
        for name, head in checked.heads.items()
    ]
    table = _table("<th>data set</th><th class='number'>entries</th><th>hash of the last entry</th>", rows)
    return (
        f"<h2>Heads of the ledger</h2><p class='meta'>Ledger {_safe(checked.ledger)}. Keep this page elsewhere: an "
        "entry with this number and this hash must be found in the ledger for ever (<code>osgt ledger export</code> "
        f"lists them).</p>{table}"
    )


def _table(head: str, rows: Iterable[str]) -> str:
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
