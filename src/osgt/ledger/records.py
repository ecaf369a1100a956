"""What a ledger tells about a data set."""

from dataclasses import dataclass
from typing import Any

from osgt.ledger.chain import Entry
from osgt.privacy import Charge


@dataclass(frozen=True)
class Release:
    """A release that was charged, and what became of it.

    `status` is "reserved" (charged, no output known), "settled" (its output is durable) or "cancelled" (nothing was
    read, and the charge was taken back). `epsilon_after` and `delta_after` are upper bounds on what stood when it was
    charged, this release included: ε at the δ and δ at the ε of the budget of that time.
    """

    sequence: int
    time: str
    actor: str
    query: str
    charge: Charge
    status: str
    statement_hash: str | None
    software: str
    epsilon_after: float | None
    delta_after: float


@dataclass(frozen=True)
class Spending:
    """How much of a budget is used: `epsilon` at the declared δ, `delta` at the declared ε, both upper bounds."""

    dataset: str
    epsilon: float
    delta: float
    budget_epsilon: float
    budget_delta: float
    composition: str
    releases: int


def releases(entries: list[Entry]) -> list[Release]:
    """The releases among the entries of a data set, in order."""
    ends: dict[int, dict[str, Any]] = {}
    for entry in entries:
        if entry.refers_to is not None:
            ends[entry.refers_to] = entry.values()
    found = []
    for entry in entries:
        if entry.kind != "charge":
            continue
        values, end = entry.values(), ends.get(entry.sequence, {})
        found.append(
            Release(
                entry.sequence,
                values["time"],
                values["actor"],
                values["query"],
                Charge.from_dict(values["charge"]),
                {"settle": "settled", "cancel": "cancelled"}.get(end.get("kind", ""), "reserved"),
                end.get("statement_hash"),
                values["software"],
                values["epsilon_after"],
                values["delta_after"],
            )
        )
    return found
