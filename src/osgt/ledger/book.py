"""What is done to a data set's chain inside one transaction: lock it, load its account, append to it."""

import getpass
import os
import socket
import unicodedata
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from typing import Any

import sqlalchemy as sa

from osgt.ledger import chain
from osgt.ledger.account import Account, Replay, digest
from osgt.ledger.chain import Entry, damaged
from osgt.ledger.schema import datasets, entries, schema, states

#: Entries after the stored account beyond which the account is stored again.
FOLD_AFTER = 16

_LONGEST_NAME = 200


@dataclass(frozen=True)
class Head:
    """A data set and the end of its chain."""

    number: int
    name: str
    sequence: int
    hash: str


@dataclass(frozen=True)
class Loaded:
    """The account at the head, and how many entries lie between it and the stored one."""

    account: Account
    entries_since: int


def name_of(dataset: object) -> str:
    """The name of a data set in its one form, or an error that says what is wrong with it."""
    if not isinstance(dataset, str):
        raise TypeError(f"dataset must be a text, got {dataset!r} of type {type(dataset).__name__}")
    # Two spellings of one name that look the same would be two budgets.
    name = unicodedata.normalize("NFC", dataset)
    if not name or name != name.strip() or len(name) > _LONGEST_NAME:
        raise ValueError(
            f"dataset must be a name of 1 to {_LONGEST_NAME} characters without spaces around it, got {dataset!r}"
        )
    if any(unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") for character in name):
        raise ValueError(f"dataset must not hold control or invisible characters, got {dataset!r}")
    return name


def lock(connection: sa.Connection, name: str) -> Head | None:
    """The data set, held against other writers until the transaction ends (SQLite holds the whole file already)."""
    row = connection.execute(sa.select(datasets).where(datasets.c.name == name).with_for_update()).one_or_none()
    return Head(*row) if row is not None else None


def find(connection: sa.Connection, name: str) -> Head | None:
    """The data set as it is now."""
    row = connection.execute(sa.select(datasets).where(datasets.c.name == name)).one_or_none()
    return Head(*row) if row is not None else None


def lock_openings(connection: sa.Connection) -> None:
    """Hold all others that would open a data set, so that openings have an order."""
    connection.execute(sa.select(schema).with_for_update())


def load(connection: sa.Connection, head: Head, *, anew: bool = False) -> Loaded:
    """The account at the head: the stored one and what came after it, or all entries from the first on.

    The stored account is used only if its digest is right and the entry that it names is in the chain; and the entries
    after it are checked link by link up to the head.
    """
    stored = None if anew else _stored(connection, head)
    if stored is not None:
        account, sequence, hash_ = stored
        found = list(chain.linked(chain.read_entries(connection, head.number, sequence), sequence, hash_, head.name))
        if not any(item.kind == "budget" for item in found):
            for item in found:
                account = account.apply(item)
            _check_end(head, found[-1] if found else None, sequence, hash_)
            return Loaded(account, len(found))
    return Loaded(_from_entries(connection, head), FOLD_AFTER + 1)


def _stored(connection: sa.Connection, head: Head) -> tuple[Account, int, str] | None:
    row = connection.execute(sa.select(states).where(states.c.dataset == head.number)).one_or_none()
    if row is None or digest(row.body, row.hash) != row.digest:
        return None
    at = sa.select(entries.c.hash).where(entries.c.dataset == head.number, entries.c.sequence == row.sequence)
    if connection.execute(at).scalar_one_or_none() != row.hash:
        return None
    return Account.from_bytes(row.body), row.sequence, row.hash


def _from_entries(connection: sa.Connection, head: Head) -> Account:
    found = chain.linked(chain.read_entries(connection, head.number), 0, first_link(connection, head.number), head.name)
    replay: Replay | None = None
    last: Entry | None = None
    for item in found:
        if replay is None:
            if item.kind != "open":
                raise damaged(head.name, "it does not begin with its opening")
            replay = Replay(item)
        else:
            replay.apply(item)
        last = item
    _check_end(head, last, 0, "")
    assert replay is not None
    return replay.account().rebuilt()


def _check_end(head: Head, last: Entry | None, sequence: int, hash_: str) -> None:
    end = (last.sequence, last.hash) if last is not None else (sequence, hash_)
    if end != (head.sequence, head.hash):
        raise damaged(
            head.name, f"its entries end at {end[0]}, and its head says {head.sequence}: some were removed or added"
        )


def first_link(connection: sa.Connection, number: int) -> str:
    """What the first entry of a data set follows: the first entry of the data set opened before it."""
    if number == 1:
        return chain.GENESIS
    first = sa.select(entries.c.hash).where(entries.c.dataset == number - 1, entries.c.sequence == 1)
    return str(connection.execute(first).scalar_one_or_none())


def store(connection: sa.Connection, head: Head, account: Account) -> None:
    """Keep the account after the head's entry, in place of the one that was stored before."""
    storable = account.storable()
    if storable is None:
        return
    body = storable.to_bytes()
    connection.execute(states.delete().where(states.c.dataset == head.number))
    connection.execute(
        states.insert().values(
            dataset=head.number, sequence=head.sequence, hash=head.hash, body=body, digest=digest(body, head.hash)
        )
    )


def append(
    connection: sa.Connection,
    head: Head,
    kind: str,
    values: dict[str, Any],
    *,
    actor: str | None,
    refers_to: int | None = None,
) -> Head:
    """Write one more entry, and return the head with it."""
    item = chain.entry(
        {
            **values,
            "dataset": head.name,
            "number": head.number,
            "sequence": head.sequence + 1,
            "kind": kind,
            "refers_to": refers_to,
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "actor": actor if actor is not None else this_actor(),
            "software": software(),
        },
        head.hash,
    )
    connection.execute(entries.insert().values(**vars(item)))
    moved = Head(head.number, head.name, item.sequence, item.hash)
    connection.execute(
        datasets.update()
        .where(datasets.c.number == head.number)
        .values(head_sequence=moved.sequence, head_hash=moved.hash)
    )
    return moved


def this_actor() -> str:
    """Who runs this process, and where."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as in some containers
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


@cache
def software() -> str:
    """Name and version of this software."""
    return f"osgt {version('osgt')}"
