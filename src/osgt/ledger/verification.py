"""Is the ledger what was once written? Every entry, the chain, the heads and the stored accounts are checked."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from osgt.ledger import book, chain, schema
from osgt.ledger.account import Account, Replay, digest
from osgt.ledger.book import Head
from osgt.ledger.chain import Entry
from osgt.ledger.schema import datasets, entries, states

_FORMAT = "osgt ledger"


@dataclass(frozen=True)
class Verification:
    """What a check has found. Keep `heads` elsewhere: with them the next check notices a shortened ledger, too."""

    problems: tuple[str, ...]
    entries: int
    heads: dict[str, dict[str, Any]]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


def verify(connection: sa.Connection, heads: dict[str, Any] | None = None) -> Verification:
    """Check the whole ledger."""
    found = [Head(*row) for row in connection.execute(sa.select(datasets).order_by(datasets.c.number))]
    problems: list[str] = []
    count = 0
    if [head.number for head in found] != list(range(1, len(found) + 1)):
        problems.append("a data set is missing: the numbers of the others do not follow each other")
    for head in found:
        seen, faults = _check_dataset(connection, head)
        count += seen
        problems += [f"data set {head.name!r}: {fault}" for fault in faults]
    total = int(connection.execute(sa.select(sa.func.count()).select_from(entries)).scalar_one())
    if total != count:
        problems.append(f"there are {total} entries, but only {count} belong to the chains of the data sets")
    problems += _compare_heads(connection, found, heads)
    return Verification(tuple(problems), count, _heads(found))


def _check_dataset(connection: sa.Connection, head: Head) -> tuple[int, list[str]]:
    """How many entries a data set has, and what is wrong with them. After the first break the rest is not judged."""
    sequence, hash_ = 0, book.first_link(connection, head.number)
    charges: dict[int, dict[str, Any]] = {}
    ended: set[int] = set()
    stored = connection.execute(sa.select(states).where(states.c.dataset == head.number)).one_or_none()
    replay: Replay | None = None
    count = 0
    faults: list[str] = []
    for item in chain.read_entries(connection, head.number):
        count += 1
        if faults:
            continue
        fault = _fault(item, sequence, hash_, head, charges, ended)
        if fault is not None:
            faults.append(fault)
            continue
        if replay is None:
            replay = Replay(item)
        else:
            replay.apply(item)
        sequence, hash_ = item.sequence, item.hash
        if item.kind == "charge" and charges[sequence]["delta_after"] > replay.budget.delta:
            faults.append(f"entry {sequence} exceeds the budget of its time")
        if stored is not None and stored.sequence == item.sequence:
            faults += _check_stored(stored, item, replay.account())
    if not faults and (sequence, hash_) != (head.sequence, head.hash):
        faults.append(f"its entries end at {sequence}, and its head says {head.sequence}: some were removed or added")
    if not faults and stored is not None and stored.sequence > sequence:
        faults.append(f"an account is stored for entry {stored.sequence}, which is not there")
    return count, faults


def _fault(
    item: Entry, sequence: int, hash_: str, head: Head, charges: dict[int, dict[str, Any]], ended: set[int]
) -> str | None:
    """What is wrong with an entry, in the chain or in what it says; None if nothing is."""
    try:
        fault = item.fault(sequence, hash_)
        values = item.values
    except ValueError as error:
        return f"entry {item.sequence} cannot be read: {error}"
    if fault is not None:
        return fault
    if values.get("dataset") != head.name:
        return f"entry {item.sequence} says that it belongs to {values.get('dataset')!r}"
    if (item.kind == "open") != (item.sequence == 1):
        return f"entry {item.sequence} is of the kind {item.kind!r}, which cannot stand there"
    if item.kind == "charge":
        charges[item.sequence] = values
    return _fault_of_end(item, values, charges, ended) if item.kind in ("settle", "cancel") else None


def _fault_of_end(
    item: Entry, values: dict[str, Any], charges: dict[int, dict[str, Any]], ended: set[int]
) -> str | None:
    """What is wrong with an entry that settles or cancels a charge."""
    sequence = item.refers_to or 0
    charge = charges.get(sequence)
    if charge is None or sequence in ended:
        return f"entry {item.sequence} ends charge {sequence}, which is not open"
    ended.add(sequence)
    if item.kind == "cancel":
        proved = hashlib.sha256(str(values.get("token")).encode()).hexdigest() == charge["token_hash"]
        if not proved or values.get("charge") != charge["charge"]:
            return f"entry {item.sequence} cancels charge {sequence}, but not by its owner"
    return None


def _check_stored(stored: Any, item: Entry, replayed: Account) -> Iterator[str]:
    """Compare a stored account with the entries that it stands for."""
    if stored.hash != item.hash or digest(stored.body, stored.hash) != stored.digest:
        yield f"the account that is stored for entry {stored.sequence} was edited (the next charge builds it anew)"
        return
    account = Account.from_bytes(stored.body)
    sums = ("budget", "charges", "selection", "pure", "unbounded", "moment")
    wrong = [name for name in sums if getattr(account, name) != getattr(replayed, name)]
    if account.counts is not None and replayed.counts is not None and account.counts != replayed.counts:
        wrong.append("parts")
    if wrong:
        yield f"the account that is stored for entry {stored.sequence} is not the sum of the entries: {wrong}"


def _compare_heads(connection: sa.Connection, found: list[Head], heads: dict[str, Any] | None) -> Iterator[str]:
    """Look for the entries at which the chains ended when `heads` were taken."""
    known = heads.get("heads", heads) if heads is not None else {}
    numbers = {head.name: head.number for head in found}
    for name, head in known.items():
        if name not in numbers:
            yield f"data set {name!r} is gone: it was there when the heads were taken"
            continue
        at = (entries.c.dataset == numbers[name], entries.c.sequence == head["sequence"])
        now = connection.execute(sa.select(entries.c.hash).where(*at)).scalar_one_or_none()
        if now is None:
            yield f"data set {name!r}: its last entries are missing; there were {head['sequence']} of them"
        elif now != head["hash"]:
            yield f"data set {name!r}: its entries were written anew since the heads were taken"


def _heads(found: list[Head]) -> dict[str, dict[str, Any]]:
    return {head.name: {"sequence": head.sequence, "hash": head.hash} for head in found}


def export(connection: sa.Connection) -> dict[str, Any]:
    """All entries, as plain values."""
    found = [Head(*row) for row in connection.execute(sa.select(datasets).order_by(datasets.c.number))]
    return {
        "format": _FORMAT,
        "schema": schema.version_of(connection),
        "heads": _heads(found),
        "datasets": [
            {
                "name": head.name,
                "entries": [
                    {**item.values, "previous_hash": item.previous_hash, "hash": item.hash}
                    for item in chain.read_entries(connection, head.number)
                ],
            }
            for head in found
        ],
    }
