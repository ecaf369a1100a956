"""The instalments of a series: charged once, each handed out once.

A series is one charge. That an instalment was handed out, and later that it is published, are notes about that charge,
which anybody reads from the chain: an instalment whose holder is another, or that is published, is never handed out
again. Its holder is whoever has the secret of which the note has the hash.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from osgt.ledger.store import chain
from osgt.ledger.store.chain import Entry, Fault
from osgt.support.errors import OsgtError

if TYPE_CHECKING:
    import sqlalchemy as sa

    from osgt.ledger.account import Account, State
    from osgt.ledger.accounts import Accounts
    from osgt.ledger.store.chain import Head

Status = Literal["handed out", "published"]


class HandedOutError(OsgtError, ValueError):
    """An instalment was handed out to somebody else, or is published: it is not made a second time."""


@dataclass(frozen=True)
class Instalment:
    """An instalment that was handed out: to whom, by the hash of a secret, and what became of it."""

    holder: str
    status: Status
    actor: str
    mark: str | None = None  # of what is remembered beside the ledger, once it is published


def series_of(charge: Entry) -> Mapping[str, Any] | None:
    """The series that a charge is for; None for a single release."""
    series = charge.values.get("series")
    if series is not None and (
        not isinstance(series, Mapping)
        or not isinstance(series.get("name"), str)
        or not all(isinstance(period, str) for period in series["periods"])
    ):
        raise TypeError("its series cannot be read")
    return series


def follow(known: dict[str, Instalment], note: Entry, periods: Sequence[str]) -> None:
    """Add what a note says of an instalment to what is known of a series; Fault if that cannot be."""
    told = note.values.get("instalment")
    if told is None:
        return
    period, before = told["period"], known.get(told["period"])
    after = Instalment(str(told["holder"]), told["status"], str(note.values["actor"]), told.get("mark"))
    if period not in periods:
        raise Fault(f"entry {note.sequence} hands out {period!r}, which is no instalment of its series")
    if after.status == "handed out" and before is not None:
        raise Fault(f"entry {note.sequence} hands out the instalment {period} a second time")
    if after.status == "published" and (before is None or before.status != "handed out"):
        raise Fault(f"entry {note.sequence} publishes the instalment {period}, which was not handed out, or is out")
    if after.status not in ("handed out", "published") or (before is not None and before.holder != after.holder):
        raise Fault(f"entry {note.sequence} is about an instalment of somebody else, or cannot be read")
    known[period] = after


def hand_out(accounts: "Accounts", name: str, sequence: int, period: str, secret: str, actor: str | None) -> Status:
    """Hand out an instalment to the holder of a secret, once; "published" if it is out.

    The holder may ask again, after a crash. Nobody else gets it.
    """
    holder = _hash(secret)

    def decide(connection: "sa.Connection", head: "Head", account: "Account") -> "tuple[Entry, State | None] | None":
        if period in _instalments(account, sequence, period):
            return None  # whose it is, is asked below, of whatever stands
        if account.lost is not None:
            raise HandedOutError(
                f"an earlier copy of the ledger was put back at {account.lost}, which may not know that the instalment "
                f"{period} of entry {sequence} of {name!r} was handed out: it is not handed out any more"
            )
        told = {"period": period, "holder": holder, "status": "handed out"}
        values = {"text": f"instalment {period}: handed out", "instalment": told}
        return chain.append(connection, head, "note", values, actor=actor, refers_to=sequence), None

    def find(account: "Account") -> int | None:
        return sequence if period in account.instalments.get(sequence, {}) else None

    accounts.append_once(name, decide, find, needs=sequence)
    with accounts.lock:
        one = accounts.now(name, needs=sequence).instalments[sequence][period]
    _check_holder(one, holder, period, name, sequence)
    return one.status


def record_published(
    accounts: "Accounts", name: str, sequence: int, period: str, secret: str, told: Mapping[str, Any], actor: str | None
) -> None:
    """Record that an instalment is out, with the hashes of its files; once."""
    holder = _hash(secret)

    def decide(connection: "sa.Connection", head: "Head", account: "Account") -> "tuple[Entry, State | None] | None":
        before = _instalments(account, sequence, period).get(period)
        if before is None:
            raise ValueError(f"the instalment {period} of entry {sequence} of {name!r} was not handed out")
        _check_holder(before, holder, period, name, sequence)
        if before.status == "published":
            return None
        values = {
            "text": f"instalment {period}: published as {told['output']}",
            "instalment": {"period": period, "holder": holder, "status": "published", **told},
        }
        return chain.append(connection, head, "note", values, actor=actor, refers_to=sequence), None

    def find(account: "Account") -> int | None:
        one = account.instalments.get(sequence, {}).get(period)
        return sequence if one is not None and one.status == "published" else None

    accounts.append_once(name, decide, find, needs=sequence)


def standing_series(account: "Account", series: str) -> int | None:
    """The charge of a series of this name that stands; None if there is none."""
    return next((number for number, one in account.standing.items() if (one.series or {}).get("name") == series), None)


def _instalments(account: "Account", sequence: int, period: str) -> dict[str, Instalment]:
    one = account.standing.get(sequence)
    if one is None or one.series is None:
        raise ValueError(f"entry {sequence} of data set {account.name!r} is no series that stands")
    if period not in one.series["periods"]:
        raise ValueError(f"the series of entry {sequence} of {account.name!r} has no instalment {period!r}")
    return account.instalments.get(sequence, {})


def _check_holder(before: Instalment, holder: str, period: str, name: str, sequence: int) -> None:
    if before.holder != holder:
        raise HandedOutError(
            f"the instalment {period} of entry {sequence} of {name!r} was handed out to {before.actor} and is made in "
            "another place: publish it there. If that place is lost, it stays unpublished: nobody can know whether it "
            "was seen"
        )


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
