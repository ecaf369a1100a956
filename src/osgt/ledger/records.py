"""What a ledger tells about a data set."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

from osgt.ledger.chain import Entry, many_records
from osgt.ledger.charges import stored_charge
from osgt.ledger.events import Event
from osgt.ledger.headroom import Headroom
from osgt.ledger.rounding import rounded_up
from osgt.ledger.subject import Owners
from osgt.privacy import Charge

_STATUS = {"settle": "settled", "cancel": "cancelled"}


@dataclass(frozen=True)
class ReleaseRecord:
    """A release that was charged, and what became of it.

    `status` is "reserved" (charged, no output known), "settled" (its output is durable) or "cancelled" (nothing was
    read, and the charge was taken back). `epsilon` and `delta` are those that the release was asked for with, if it
    said them. `share_after` is the share of the budget that was used when it was charged, this release included.
    `actor` is who it says it was, `session_user` is who it was for the database or the operating system. `output` says
    where the output went and `output_hashes` are the SHA-256 hashes of its files, in that order; `settled_by` is who
    said so. Each note ends with who made it, and when.
    """

    sequence: int
    time: str
    actor: str
    session_user: str
    query: str
    title: str | None
    epsilon: float | None
    delta: float | None
    unit: str | None
    neighbours: str | None
    table: str | None
    source: str | None
    stored_charge: dict[str, Any]
    status: str
    settled_at: str | None
    settled_by: str | None
    statement_hash: str | None
    output: str | None
    output_hashes: tuple[str, ...]
    notes: tuple[str, ...]
    software: str
    share_after: float

    @cached_property
    def charge(self) -> Charge:
        """What it took out of the budget."""
        return stored_charge(self.stored_charge)

    def __repr__(self) -> str:
        what = f", {self.title!r}" if self.title else ""
        return f"ReleaseRecord({self.sequence}, {self.time[:19]}{what}, {self.status})"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**plain, "charge": plain.pop("stored_charge")}


@dataclass(frozen=True)
class Spending:
    """How much of a budget is used.

    `epsilon` (at the declared δ) and `delta` (at the declared ε) bound the exact composition of what stands. `share` is
    the share of the budget that is used, as the ledger decides by it: at 1 nothing fits any more.
    """

    dataset: str
    epsilon: float
    delta: float
    share: float
    selection_delta: float
    budget_epsilon: float
    budget_delta: float
    composition: str
    releases: int
    unit: str | None
    neighbours: str | None
    tables: tuple[str | None, ...]

    def __repr__(self) -> str:
        spent = f"ε = {self.epsilon:.4g} of {self.budget_epsilon:.15g} at δ = {self.budget_delta:.15g}"
        return f"Spending({self.dataset!r}; {spent}; share used: {self.share:.4g}; releases: {self.releases:,})"

    def plot(self, axes: Any = None) -> Any:
        """Draw what is used of the budget, and what is left. Returns the axes of Matplotlib."""
        from osgt.ledger.cards import plot_spending  # noqa: PLC0415 - it uses this class

        return plot_spending(self, axes)

    def _repr_html_(self) -> str:
        from osgt.ledger.cards import spending_card  # noqa: PLC0415 - it uses this class

        return spending_card(self).html()


@dataclass(frozen=True)
class Overview:
    """A data set at one moment: its budget and what is used of it, all releases and all other events."""

    spending: Spending
    releases: list[ReleaseRecord]
    events: list[Event]

    def plot(self, axes: Any = None) -> Any:
        """Draw the share of the budget that is used over time. Returns the axes of Matplotlib."""
        from osgt.ledger.cards import plot_overview  # noqa: PLC0415 - it uses this class

        return plot_overview(self, axes)

    def __repr__(self) -> str:
        used = f"share used: {self.spending.share:.4g}"
        return f"Overview({self.spending.dataset!r}; releases: {len(self.releases):,}; {used})"

    def _repr_html_(self) -> str:
        from osgt.ledger.cards import overview_card  # noqa: PLC0415 - it uses this class

        return overview_card(self).html()


@many_records()
def releases(entries: Iterable[Entry]) -> list[ReleaseRecord]:
    """The releases among the entries of a data set, in order."""
    entries = list(entries)
    ends: dict[int, dict[str, Any]] = {}
    notes: dict[int, list[str]] = {}
    for entry in entries:
        if entry.refers_to is None:
            continue
        if entry.kind == "note":
            note = entry.values
            notes.setdefault(entry.refers_to, []).append(f"{note['text']} ({note['actor']}, {note['time'][:10]})")
        else:
            ends[entry.refers_to] = entry.values
    found = []
    for entry in entries:
        if entry.kind != "charge":
            continue
        values, end, subject = entry.values, ends.get(entry.sequence, {}), entry.values["subject"]
        table = subject["table"] or {}
        found.append(
            ReleaseRecord(
                sequence=entry.sequence,
                time=values["time"],
                actor=values["actor"],
                session_user=values["session_user"],
                query=values["query"],
                title=values["title"],
                epsilon=values["epsilon"],
                delta=values["delta"],
                unit=subject["unit"],
                neighbours=subject["neighbours"],
                table=table.get("name"),
                source=table.get("source"),
                stored_charge=values["charge"],
                status=_STATUS.get(end.get("kind", ""), "reserved"),
                settled_at=end.get("time"),
                settled_by=end.get("actor"),
                statement_hash=end.get("statement_hash"),
                output=end.get("output"),
                output_hashes=tuple(end.get("output_hashes", ())),
                notes=tuple(notes.get(entry.sequence, ())),
                software=values["software"],
                share_after=_share(values["share"]),
            )
        )
    return found


def _share(told: object) -> float:
    """A share as an entry tells it; what cannot be one counts as all."""
    return min(max(float(told), 0.0), 1.0) if isinstance(told, int | float) and math.isfinite(told) else 1.0


def spending(name: str, headroom: Headroom, owners: Owners) -> Spending:
    """How much of a budget is used, from what stands against it."""
    epsilon, delta = headroom.figures()
    return Spending(
        dataset=name,
        epsilon=epsilon,
        delta=delta,
        share=headroom.share(),
        selection_delta=rounded_up(headroom.selection),
        budget_epsilon=headroom.budget.epsilon,
        budget_delta=headroom.budget.delta,
        composition=headroom.budget.composition,
        releases=headroom.releases,
        unit=owners.unit,
        neighbours=owners.neighbours,
        tables=tuple(table.name for table in owners.tables),
    )
