"""What a notebook shows of a ledger, a budget, a data set in it and a check; and the picture of the spending."""

import os
from typing import TYPE_CHECKING, Any

from osgt.ledger.records import Overview, ReleaseRecord, Spending
from osgt.ledger.wording import figure, left, owners, promise, times, used, what, when
from osgt.pages.cards import Card, CardTable, Cell
from osgt.pages.numbers import counted, rounded_up
from osgt.pages.plots import INK, axes_for
from osgt.shown_text import one_line

if TYPE_CHECKING:
    from osgt.ledger.ledger import Ledger
    from osgt.ledger.verification import Verification

#: Releases that a card shows: the latest.
_LATEST = 10


def ledger_card(ledger: "Ledger") -> Card:
    """The budgets of all data sets, as they stand now."""
    found = [ledger.overview(name).spending for name in ledger.datasets()]
    rows = [
        [
            Cell(one_line(each.dataset)),
            *(Cell(text) for text in (_budget(each), used(each.share), f"{each.releases:,}")),
        ]
        for each in found
    ]
    table = CardTable(["Data set", "Budget", "Used", "Releases"], rows)
    name = ledger.name if "://" in ledger.name else os.path.basename(ledger.name)
    return Card(f"Ledger {name}", "" if rows else "No budget was opened yet.", tables=[table] if rows else [])


def _budget(spending: Spending) -> str:
    return f"ε = {spending.budget_epsilon:g}, δ = {spending.budget_delta:g}"


def spending_card(spending: Spending) -> Card:
    """How much of a budget is used."""
    return Card(
        f"Budget of {one_line(spending.dataset)}", facts=_facts(spending), promise=promise(spending, changes=())
    )


def _facts(spending: Spending) -> list[tuple[str, str]]:
    return [
        ("Budget", _budget(spending)),
        ("Used", f"{used(spending.share)}: ε = {rounded_up(spending.epsilon)} so far"),
        ("Left", left(spending.share)),
        ("Releases", f"{spending.releases:,}"),
        ("Protects", owners(spending)),
    ]


def overview_card(overview: Overview) -> Card:
    """A budget and its latest releases."""
    spending = overview.spending
    rows = [_release(release) for release in overview.releases[-_LATEST:]]
    caption = f"The latest {_LATEST} releases" if len(overview.releases) > _LATEST else ""
    heads = ["Entry", "Time (UTC)", "Release", "Status", "ε", "Left"]
    return Card(
        f"Budget of {one_line(spending.dataset)}",
        facts=_facts(spending),
        tables=[CardTable(heads, rows, keys=4, caption=caption)] if rows else [],
        promise=promise(spending, overview.events),
    )


def _release(release: ReleaseRecord) -> list[Cell]:
    texts = [str(release.sequence), when(release), what(release), one_line(release.status)]
    return [Cell(text) for text in (*texts, figure(release.epsilon), left(release.share_after))]


def verification_card(checked: "Verification") -> Card:
    """Whether the ledger is what was written."""
    checks = f"{counted(checked.entries, 'entry', 'entries')} of {counted(len(checked.heads), 'data set')}"
    if checked.ok:
        return Card("The ledger was checked: all is well", f"Every decision was computed again from {checks}.")
    alarm = "The ledger was tampered with or is damaged"
    return Card("What is wrong", f"{checks} were checked.", alarm=alarm, lines=[one_line(p) for p in checked.problems])


def plot_overview(overview: Overview, axes: Any) -> Any:
    """The share of the budget that is used, over time."""
    axes, spending = axes_for(axes, height=2.8), overview.spending
    shares, moments = [100 * release.share_after for release in overview.releases], times(overview.releases)
    axes.step(moments, shares, where="post", color=INK, linewidth=1.8)
    axes.plot(moments, shares, ".", color=INK, markersize=4)
    axes.axhline(100, color="#D55E00", linestyle="--", linewidth=1.2)
    # A dollar sign in a name is no formula.
    axes.set_title(f"{one_line(spending.dataset)} (releases: {spending.releases:,})", parse_math=False)
    axes.set(ylabel=f"% of {_budget(spending)}", ylim=(0, 110))
    axes.tick_params(axis="x", labelsize=8)
    return axes


def plot_spending(spending: Spending, axes: Any) -> Any:
    """One bar: what is used of the budget, and what is left."""
    axes = axes_for(axes, height=1.4)
    axes.barh([0], [100 * spending.share], color=INK, height=0.6, label=f"used: {used(spending.share)}")
    axes.barh([0], [100], color="none", edgecolor="#D55E00", height=0.6)
    axes.set_title(f"{one_line(spending.dataset)}: {used(spending.share)} used", parse_math=False)
    axes.set(xlim=(0, 105), xlabel=f"% of {_budget(spending)}", yticks=[])
    return axes
