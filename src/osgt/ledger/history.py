"""The history of a data set, as people see it: releases, other events, and the spending of a budget."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from osgt.ledger.account import Account, replay, stored_charge
from osgt.ledger.headroom import Headroom
from osgt.ledger.store.chain import Entry, Fetched, faults_of, many_records, readable
from osgt.ledger.store.schema import OWNERS_KINDS
from osgt.privacy import Charge
from osgt.privacy.profile import float_above
from osgt.support.text import Displayed, views


@dataclass(frozen=True)
class Event:
    """An event: its kind, time and actor. `kind` is "open", "budget", "tables" or "restore"; `text` says it in words.

    `epsilon` and `delta` are the budget from then on, where it was set; `after_outputs` is True if it was changed after
    something had been released. `voided` are the entries that were declared void, which is of the kind "budget", too.
    """

    sequence: int
    time: str
    actor: str
    session_user: str
    kind: str
    text: str
    reason: str | None
    epsilon: float | None
    delta: float | None
    after_outputs: bool
    voided: tuple[int, ...] = ()


def moment(time: object) -> datetime | None:
    """The time of an entry. Times are only told: None if it is not one."""
    try:
        result = datetime.fromisoformat(str(time))
    except ValueError:
        return None
    return result if result.tzinfo is not None else result.replace(tzinfo=UTC)


def _event(entry: Entry) -> Event:
    with readable(entry):
        values = entry.values
        budget = values.get("budget") or {}
        return Event(
            sequence=entry.sequence,
            time=values["time"],
            actor=values["actor"],
            session_user=values["session_user"],
            kind=entry.kind,
            text=_words(entry.kind, values),
            reason=values.get("reason"),
            epsilon=budget.get("epsilon"),
            delta=budget.get("delta"),
            after_outputs=bool(values.get("after_outputs")),
            voided=tuple(values.get("void") or ()),
        )


def _words(kind: str, values: dict[str, Any]) -> str:
    match kind:
        case "open":
            unit = values["owners"]["unit"]
            whose = "" if unit is None else f", for {unit}"
            return f"opened with {_figures(values)}{whose}{_tables(values['owners'])}"
        case "budget" if values.get("void"):
            what = "entry" if len(values["void"]) == 1 else "entries"
            return f"declared void, since nothing was released: {what} {', '.join(map(str, values['void']))}"
        case "budget":
            seen = "after answers had been seen" if values["after_outputs"] else "before anything was released"
            return f"budget changed to {_figures(values)}, {seen}"
        case "tables":
            return f"tables declared{_tables(values)}"
        case _:
            lost = "charges were lost, so the budget counts as spent"
            if not values.get("from_backup", True):
                return lost
            return (
                f"restored from a backup: {lost if values['charges_unknown'] else 'it has all charges that are known'}"
            )


def _figures(values: dict[str, Any]) -> str:
    budget = values["budget"]
    return f"ε = {budget['epsilon']:g}, δ = {budget['delta']:g} ({budget['composition']})"


def _tables(values: dict[str, Any]) -> str:
    names = [str(table["name"] or "a frame in memory") for table in values["tables"]]
    return f"; {'table' if len(names) == 1 else 'tables'}: {', '.join(names)}" if names else ""


#: Releases like the last one are counted up to this.
MOST_COUNTED = 1000

_STATUS = {None: "reserved", "settle": "settled", "cancel": "cancelled", "void": "void"}


@dataclass(frozen=True)
class ReleaseRecord:
    """A release that was charged, and what became of it.

    `status` is "reserved" (charged, no output known), "settled" (its output is durable), "cancelled" (nothing was read,
    and the charge was taken back) or "void" (the owner has declared that it released nothing). `epsilon` and `delta`
    are those that the release was asked for with, if it said them. `share_after` is the share of the budget that was
    used when it was charged, this release included.
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
        """The charge that it took out of the budget."""
        return stored_charge(self.stored_charge)

    def __repr__(self) -> str:
        what = f", {self.title!r}" if self.title else ""
        return f"ReleaseRecord({self.sequence}, {self.time[:19]}{what}, {self.status})"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**plain, "charge": plain.pop("stored_charge")}


@dataclass(frozen=True)
class Spending(Displayed):
    """The spending of a budget: how much of it is used.

    `epsilon` (at the declared δ) and `delta` (at the declared ε) are what is proved of all releases together: of an
    adaptive budget by its filters, for every analyst; of a planned one by exact composition, for releases that were
    fixed in advance. `share` is the share of the budget that is used, as the ledger decides by it: at 1 nothing fits
    any more.
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
    headroom: Headroom = field(repr=False, compare=False)

    @classmethod
    def of(cls, account: Account) -> "Spending":
        """Compute the spending of a budget from the charges that stand against it."""
        headroom, owners = Headroom.of(account), account.owners
        epsilon, delta = headroom.figures()
        return cls(
            dataset=account.name,
            epsilon=epsilon,
            delta=delta,
            share=headroom.share(),
            selection_delta=float_above(headroom.state.selection),
            budget_epsilon=headroom.budget.epsilon,
            budget_delta=headroom.budget.delta,
            composition=headroom.budget.composition,
            releases=headroom.releases,
            unit=owners.unit,
            neighbours=owners.neighbours,
            tables=tuple(table.name for table in owners.tables),
            headroom=headroom,
        )

    @cached_property
    def more_like_last(self) -> int | None:
        """The number of further releases like the last one that fit, up to `MOST_COUNTED`; None before the first."""
        last = self.headroom.last
        return None if last is None else self.headroom.how_many(last, MOST_COUNTED)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; None in place of an infinite ε."""
        plain = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "headroom"}
        epsilon = self.epsilon if math.isfinite(self.epsilon) else None
        return {**plain, "epsilon": epsilon, "more_like_last": self.more_like_last}

    def __repr__(self) -> str:
        spent = f"ε = {self.epsilon:.4g} of {self.budget_epsilon:.15g} at δ = {self.budget_delta:.15g}"
        return f"Spending({self.dataset!r}; {spent}; share used: {self.share:.4g}; releases: {self.releases:,})"

    def plot(self, axes: Any = None) -> Any:
        """Draw what is used of the budget, and what is left. Returns the axes of Matplotlib."""
        return views().plot(self, axes)


@dataclass(frozen=True)
class Overview(Displayed):
    """A data set at one moment: its budget and what is used of it, all releases and all other events."""

    spending: Spending
    releases: list[ReleaseRecord]
    events: list[Event]

    def plot(self, axes: Any = None) -> Any:
        """Draw the share of the budget that is used over time. Returns the axes of Matplotlib."""
        return views().plot(self, axes)

    def __repr__(self) -> str:
        used = f"share used: {self.spending.share:.4g}"
        return f"Overview({self.spending.dataset!r}; releases: {len(self.releases):,}; {used})"


def overview(fetched: Fetched) -> Overview:
    """Make the overview from the entries of a data set; DamagedLedgerError if they do not lead to its head.

    What is written is believed. Whether each decision was right is for `verify` to find out, and each process that
    charges checks it for itself.
    """
    account, releases, events = read_history(fetched)
    return Overview(Spending.of(account), releases, events)


def read_history(fetched: Fetched) -> tuple[Account, list[ReleaseRecord], list[Event]]:
    """Replay all entries of a data set: its account, the releases that were charged and the other events."""
    later: dict[int, list[Entry]] = {}  # entries about each charge
    with faults_of(fetched.head.name):
        account = replay(fetched, checks="none")
        with many_records():
            for entry in fetched.entries:
                if entry.refers_to is not None and entry.sequence not in account.voided:
                    later.setdefault(entry.refers_to, []).append(entry)
            charges = [(fetched.entries[sequence - 1], account.ends.get(sequence)) for sequence in account.charges]
            releases = [_release(entry, end, later.get(entry.sequence, ())) for entry, end in charges]
        return account, releases, [_event(entry) for entry in fetched.entries if entry.kind in OWNERS_KINDS]


def _release(entry: Entry, end: str | None, later: Sequence[Entry]) -> ReleaseRecord:
    """The record of a release, from its charge and what was added about it."""
    settled: dict[str, Any] = next((one.values for one in reversed(later) if one.kind != "note"), {})
    notes = [one.values for one in later if one.kind == "note"]
    with readable(entry):
        values, subject = entry.values, entry.values["subject"]
        table = subject["table"] or {}
        return ReleaseRecord(
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
            status=_STATUS[end],
            settled_at=settled.get("time"),
            settled_by=settled.get("actor"),
            statement_hash=settled.get("statement_hash"),
            output=settled.get("output"),
            output_hashes=tuple(settled.get("output_hashes") or ()),
            notes=tuple(f"{note['text']} ({note['actor']}, {note['time'][:10]})" for note in notes),
            software=values["software"],
            share_after=_share(values["share"]),
        )


def _share(stored: float) -> float:
    """A share as an entry tells it; what cannot be one counts as all."""
    return min(max(float(stored), 0.0), 1.0) if math.isfinite(stored) else 1.0
