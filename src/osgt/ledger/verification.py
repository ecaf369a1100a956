"""Verification of a ledger: every entry and every decision is checked, from the entries alone."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from osgt.ledger.account import replay
from osgt.ledger.store import chain, schema
from osgt.ledger.store.chain import Entry, Fault, Fetched, Head
from osgt.ledger.store.schema import entries
from osgt.support.display import Displayed

_FORMAT = "osgt ledger"


@dataclass(frozen=True)
class Verification(Displayed):
    """The result of a check. Keep `heads` elsewhere: with them the next check notices a shortened ledger, too.

    `entries_ok` is False if an entry, a chain or a decision is wrong, and not only an index or a trigger. `mending` is
    the SQL with which the owner of the database puts triggers back; empty if none is missing.
    """

    problems: tuple[str, ...]
    entries: int
    heads: dict[str, dict[str, Any]]
    ledger: str
    entries_ok: bool
    mending: str = ""

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def __repr__(self) -> str:
        return (
            f"Verification({'ok' if self.ok else 'NOT ok'}; entries: {self.entries:,}; problems: {len(self.problems)})"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "format": _FORMAT,
            "ledger": self.ledger,
            "ok": self.ok,
            "problems": list(self.problems),
            "mending": self.mending,
            "entries": self.entries,
            "heads": self.heads,
        }


@dataclass(frozen=True)
class Snapshot:
    """The whole of a ledger, as it was in one transaction."""

    ledger: str
    heads: list[Head]
    entries: dict[int, list[Entry]]  # by the number of the data set
    guards: list[str]  # triggers that are missing
    mending: str  # the SQL that puts them back
    structure: list[str]  # what the database says is wrong with its file
    owners: frozenset[str] | None  # who may do all; None where the database knows no users

    def chain_of(self, head: Head) -> list[Entry]:
        """The entries of a data set, in order."""
        return self.entries.get(head.number, [])


def fetch(connection: sa.Connection) -> Snapshot:
    """Read everything. Others may be waiting: it is judged afterwards."""
    structure = []
    if connection.dialect.name == "sqlite":
        texts = connection.exec_driver_sql("PRAGMA integrity_check(20)").scalars()
        structure = [text for text in texts if text != "ok"]
    chains: dict[int, list[Entry]] = {}
    # No condition and no order: an index that is damaged would leave entries out.
    for row in connection.execute(sa.select(entries)):
        entry = Entry(*row)
        chains.setdefault(entry.dataset, []).append(entry)
    for entries_of_one in chains.values():
        entries_of_one.sort(key=lambda entry: entry.sequence)
    guards = schema.missing_guards(connection)
    return Snapshot(
        ledger=chain.ledger_name(connection),
        heads=chain.heads(connection),
        entries=chains,
        guards=guards,
        mending=schema.mending(connection, guards),
        structure=structure,
        owners=schema.owners(connection),
    )


def verify(snapshot: Snapshot, heads: Mapping[str, Mapping[str, Any]] | None = None) -> Verification:
    """Check the whole ledger; with `heads`, also that it still has the entries that it had when they were taken."""
    problems = list(_wrong_entries(snapshot))
    problems += _compare_heads(snapshot, heads or {})
    entries_ok = not problems
    problems += [f"the file is damaged: {text}" for text in snapshot.structure]
    problems += _by_others(snapshot)
    problems += [
        f"the trigger {name} that keeps entries from being changed is missing or was altered"
        for name in snapshot.guards
    ]
    count = sum(map(len, snapshot.entries.values()))
    return Verification(
        tuple(problems), count, _plain_heads(snapshot.heads), snapshot.ledger, entries_ok, snapshot.mending
    )


def _wrong_entries(snapshot: Snapshot) -> Iterator[str]:
    numbers = [head.number for head in snapshot.heads]
    if numbers != list(range(1, len(numbers) + 1)):
        yield "a data set is missing: the numbers of the others do not follow each other"
    strays = sum(len(stray) for number, stray in snapshot.entries.items() if number not in numbers)
    if strays:
        yield f"{strays:,} entries belong to no data set"
    previous = chain.genesis(snapshot.ledger)
    for head in snapshot.heads:
        own = snapshot.chain_of(head)
        try:
            replay(Fetched(head, own, previous), checks="all")
        except Fault as fault:
            yield f"data set {head.name!r}: {fault}"
        previous = own[0].hash if own else ""


def _by_others(snapshot: Snapshot) -> Iterator[str]:
    """Find entries that only the owner may add, but somebody else has, since the owner last set the budget."""
    if snapshot.owners is None:
        return
    for head in snapshot.heads:
        for entry in reversed(snapshot.chain_of(head)):
            if entry.kind not in schema.OWNERS_KINDS:
                continue
            user = _user(entry)
            if user not in snapshot.owners:
                yield (
                    f"data set {head.name!r}: entry {entry.sequence} ({entry.kind}) was made by {user!r}, who is not "
                    "the owner of the tables, or no longer. Find out how; then the owner sets the budget as it should "
                    "be (`osgt ledger budget`), which answers for all before it"
                )
            elif entry.kind == "budget":
                break


def _user(entry: Entry) -> str | None:
    try:
        return str(entry.values.get("session_user"))
    except (ValueError, RecursionError):
        return None


def _compare_heads(snapshot: Snapshot, known: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Look for the entries at which the chains ended when the heads were taken."""
    present = {head.name: head for head in snapshot.heads}
    for name, head in known.items():
        if name not in present:
            yield f"data set {name!r} is gone: it was there when the heads were taken"
            continue
        at = {entry.sequence: entry.hash for entry in snapshot.chain_of(present[name])}
        now = at.get(head["sequence"])
        if now is None:
            yield (
                f"data set {name!r}: its last entries were cut off: it ends at {max(at, default=0)}, and there were "
                f"{head['sequence']} when the heads were taken"
            )
        elif now != head["hash"]:
            yield f"data set {name!r}: its entries were written anew since the heads were taken"


def parse_heads(value: object) -> dict[str, dict[str, Any]]:
    """The heads in what `verify` or `export` wrote, or in a part of it; ValueError if there are none."""
    wrong = ValueError(
        "these are no heads of a ledger: expected what `osgt ledger verify --json` or `osgt ledger export` wrote"
    )
    if not isinstance(value, Mapping):
        raise wrong
    ours = value.get("format") == _FORMAT
    heads = value.get("heads") if ours else value
    if not isinstance(heads, Mapping) or (not heads and not ours):
        raise wrong
    for name, head in heads.items():
        if not isinstance(name, str) or not isinstance(head, Mapping) or not {"sequence", "hash"} <= set(head):
            raise wrong
        if type(head["sequence"]) is not int or head["sequence"] < 1 or not isinstance(head["hash"], str):
            raise wrong
    return {name: dict(head) for name, head in heads.items()}


def _plain_heads(heads: list[Head]) -> dict[str, dict[str, Any]]:
    return {head.name: {"sequence": head.sequence, "hash": head.hash} for head in heads}


def _exported(entry: Entry) -> dict[str, Any]:
    """The values of an entry; one that cannot be read as it is stored."""
    try:
        return entry.values
    except (ValueError, RecursionError):
        return {"sequence": entry.sequence, "kind": entry.kind, "content": entry.content}


def export(snapshot: Snapshot) -> dict[str, Any]:
    """Turn all entries into plain values."""
    return {
        "format": _FORMAT,
        "schema": schema.VERSION,
        "ledger": snapshot.ledger,
        "heads": _plain_heads(snapshot.heads),
        "datasets": [
            {
                "name": head.name,
                "entries": [
                    {**_exported(item), "previous_hash": item.previous_hash, "hash": item.hash}
                    for item in snapshot.chain_of(head)
                ],
            }
            for head in snapshot.heads
        ],
    }
