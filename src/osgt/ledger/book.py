"""What is done to a data set's chain inside one transaction: find it, lock it, fetch from it, append to it."""

import getpass
import os
import socket
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from typing import Any

import sqlalchemy as sa

from osgt.ledger import chain
from osgt.ledger.account import Account
from osgt.ledger.chain import Entry, damaged
from osgt.ledger.faults import Fault
from osgt.ledger.schema import datasets, entries, schema


@dataclass(frozen=True)
class Head:
    """A data set and the end of its chain."""

    number: int
    name: str
    sequence: int
    hash: str


@dataclass(frozen=True)
class Fetched:
    """A data set as it was in one transaction: its head, and its entries after one that is known already."""

    head: Head
    entries: list[Entry]
    first_link: str


def find(connection: sa.Connection, name: str, *, lock: bool = False) -> Head | None:
    """The data set; `lock`: held against other writers until the transaction ends (SQLite holds the file already)."""
    chosen = sa.select(datasets).where(datasets.c.name == name)
    row = connection.execute(chosen.with_for_update() if lock else chosen).one_or_none()
    return Head(*row) if row is not None else None


def heads(connection: sa.Connection) -> list[Head]:
    """All data sets, in the order in which they were opened."""
    return [Head(*row) for row in connection.execute(sa.select(datasets).order_by(datasets.c.number))]


def lock_openings(connection: sa.Connection) -> None:
    """Hold all others that would open a data set, so that openings have an order."""
    connection.execute(sa.select(schema).with_for_update())


def fetch(connection: sa.Connection, head: Head, after: int = 0) -> Fetched:
    """The entries of a data set after a sequence number."""
    link = first_link(connection, head.number) if after == 0 else ""
    return Fetched(head, chain.read_entries(connection, head.number, after), link)


def ledger_name(connection: sa.Connection) -> str:
    """The ledger's own name."""
    return str(connection.execute(sa.select(schema.c.ledger)).scalar_one())


def is_there(connection: sa.Connection, head: Head, sequence: int, hash_: str) -> bool:
    """Whether a data set has this entry, with a content that leads to this hash."""
    place = sa.select(entries).where(entries.c.dataset == head.number, entries.c.sequence == sequence)
    row = connection.execute(place).one_or_none()
    if row is None:
        return False
    entry = Entry(*row)
    return hash_ == entry.hash == chain.hash_of(entry.previous_hash, entry.content)


def first_link(connection: sa.Connection, number: int) -> str:
    """What the first entry of a data set follows: the first entry of the data set opened before it."""
    if number == 1:
        return chain.genesis(ledger_name(connection))
    first = sa.select(entries.c.hash).where(entries.c.dataset == number - 1, entries.c.sequence == 1)
    return str(connection.execute(first).scalar_one_or_none())


def brought_up(account: Account | None, fetched: Fetched) -> Account:
    """The account at the head, or DamagedLedgerError if the chain does not lead there."""
    head = fetched.head
    try:
        return follow(account, fetched.entries, fetched.first_link, head)
    except Fault as fault:
        raise damaged(head.name, str(fault)) from None


@chain.many_records()
def follow(
    account: Account | None, found: Iterable[Entry], first_link: str, head: Head, *, strict: bool = False
) -> Account:
    """Check that entries follow each other from an account, or from the first one, to the head."""
    sequence, hash_ = (0, first_link) if account is None else (account.sequence, account.hash)
    is_new = account is None or not account.charges
    for entry in linked(found, sequence, hash_, head):
        if account is None:
            account = Account.opened(entry, strict=strict)
        else:
            account.apply(entry)
    assert account is not None
    account.check_plan()
    if is_new and not strict:
        account.prove_some()
    return account


def linked(found: Iterable[Entry], sequence: int, hash_: str, head: Head) -> Iterator[Entry]:
    """The entries, one after the other; Fault where one does not follow, and if they do not end at the head."""
    for entry in found:
        try:
            fault = entry.fault(sequence, hash_, head.name)
        except (ValueError, RecursionError) as error:
            fault = f"entry {entry.sequence} cannot be read: {error}"
        if fault is not None:
            raise Fault(fault)
        yield entry
        sequence, hash_ = entry.sequence, entry.hash
    if sequence == 0 or (sequence, hash_) != (head.sequence, head.hash):
        if head.sequence < sequence:
            raise Fault(f"there were {sequence} entries, and its head says {head.sequence}: the last ones were removed")
        raise Fault(f"its entries end at {sequence}, and its head says {head.sequence}: some were removed or added")


def append(
    connection: sa.Connection,
    head: Head,
    kind: str,
    values: dict[str, Any],
    *,
    actor: str | None,
    refers_to: int | None = None,
) -> Entry:
    """Write one more entry after the head."""
    entry = chain.entry(
        {
            **values,
            "dataset": head.name,
            "number": head.number,
            "sequence": head.sequence + 1,
            "kind": kind,
            "refers_to": refers_to,
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "actor": actor if actor is not None else this_actor(),
            "session_user": connection.info.get("osgt_user") or this_user(),
            "software": software(),
        },
        head.hash,
    )
    connection.execute(entries.insert().values(asdict(entry)))
    connection.execute(
        datasets.update()
        .where(datasets.c.number == head.number)
        .values(head_sequence=entry.sequence, head_hash=entry.hash)
    )
    return entry


def this_actor() -> str:
    """Who runs this process, and where."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as in some containers
        user = this_user()
    return f"{user}@{socket.gethostname()}"


def this_user() -> str:
    """The user as the operating system knows it, where the database knows none."""
    return _user(os.getuid()) if hasattr(os, "getuid") else getpass.getuser()


@cache
def _user(number: int) -> str:
    import pwd  # noqa: PLC0415 - not on Windows

    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


@cache
def software() -> str:
    """Name and version of this software."""
    return f"osgt {version('osgt')}"
