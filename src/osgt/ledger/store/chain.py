"""The chain of a data set: its entries, the hashes that tie each to all before it, and their rows in the database.

The hash of an entry covers its content and the hash of the entry before. The first entry of a data set follows, in that
sense, the first entry of the data set that was opened before it. Order comes from the chain; times are only told.
"""

import gc
import getpass
import hashlib
import json
import os
import socket
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, cached_property
from importlib.metadata import version
from itertools import starmap
from typing import Any

import sqlalchemy as sa

from osgt.ledger.errors import DamagedLedgerError
from osgt.ledger.store.schema import OWNERS_KINDS, datasets, entries, schema


def genesis(ledger: str) -> str:
    """Compute the hash that the first entry of the first data set of a ledger follows."""
    return hashlib.sha256(f"osgt ledger {ledger}".encode()).hexdigest()


def canonical(content: dict[str, Any]) -> str:
    """Write equal contents as one text: sorted keys, no spaces, ASCII, floats that are read back exactly."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def hash_of(previous_hash: str, content: str) -> str:
    """The hash of the entry with this content after the entry with that hash."""
    return hashlib.sha256(f"{previous_hash}\n{content}".encode()).hexdigest()


@dataclass(frozen=True)
class Entry:
    """A row of the ledger as it is stored."""

    dataset: int
    sequence: int
    kind: str
    refers_to: int | None
    content: str
    previous_hash: str
    hash: str

    @cached_property
    def values(self) -> dict[str, Any]:
        """The content, read."""
        values = json.loads(self.content)
        if not isinstance(values, dict):
            raise ValueError("the content is not an object")
        return values

    def link_fault(self, previous_sequence: int, previous_hash: str) -> str | None:
        """Find the fault of this entry as the successor of another; None if there is none."""
        if self.sequence != previous_sequence + 1:
            return f"entry {self.sequence} follows entry {previous_sequence}: what was between them is missing"
        if self.previous_hash != previous_hash:
            return f"entry {self.sequence} does not follow the entry before it: one of them was replaced"
        if hash_of(self.previous_hash, self.content) != self.hash:
            return f"entry {self.sequence} was edited: its hash is not that of its content"
        return None

    def content_fault(self, name: str) -> str | None:
        """Find the fault in the content of this entry of a data set; None if there is none."""
        try:
            values = self.values
        except (ValueError, RecursionError) as error:
            return f"entry {self.sequence} cannot be read: {error}"
        columns = (values.get("number"), values.get("sequence"), values.get("kind"), values.get("refers_to"))
        if columns != (self.dataset, self.sequence, self.kind, self.refers_to):
            return f"entry {self.sequence} was edited: its columns are not those of its content"
        if values.get("dataset") != name:
            return f"entry {self.sequence} says that it belongs to {values.get('dataset')!r}"
        return None


@contextmanager
def many_records() -> Iterator[None]:
    """Suspend Python's search for garbage: a third of the time where many records are made and all kept."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


# Statements are built once: that takes longer than to run them.
_ENTRIES_AFTER = (
    sa.select(entries)
    .where(entries.c.dataset == sa.bindparam("dataset"), entries.c.sequence > sa.bindparam("after"))
    .order_by(entries.c.sequence)
)
_HEAD = sa.select(datasets).where(datasets.c.name == sa.bindparam("wanted"))
_HEAD_LOCKED = _HEAD.with_for_update()
_INSERT = entries.insert()
_MOVE_HEAD = (
    datasets.update()
    .where(datasets.c.number == sa.bindparam("of"))
    .values(head_sequence=sa.bindparam("to"), head_hash=sa.bindparam("at"))
)


class Fault(Exception):  # noqa: N818 - what is wrong with an entry
    """A fault of an entry, in words."""


@contextmanager
def faults_of(name: str) -> Iterator[None]:
    """Turn a fault into the error for a ledger that is not what was written, at this data set."""
    try:
        yield
    except Fault as fault:
        raise DamagedLedgerError(
            f"the ledger is damaged at data set {name!r}: {fault}. Nothing may be released. See `osgt ledger verify`. "
            "The owner declares an entry that should not be there void (`osgt ledger void`); a file that is damaged "
            "otherwise is restored from a backup (`osgt ledger restore`)"
        ) from None


class readable:  # noqa: N801 - it reads as a word
    """Turn what an entry lacks into a Fault."""

    def __init__(self, entry: Entry) -> None:
        self._entry = entry

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, KeyError | TypeError | ValueError | AttributeError | ArithmeticError | ImportError):
            what = f"it has no {error}" if isinstance(error, KeyError) else error
            raise Fault(f"entry {self._entry.sequence} cannot be read: {what}") from None


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


def end_of(head: Head, chain: Sequence[Entry]) -> Head:
    """The end of a chain: its head, or a later entry that was added without it."""
    is_longer = chain and chain[-1].sequence > head.sequence
    return replace(head, sequence=chain[-1].sequence, hash=chain[-1].hash) if is_longer else head


def find(connection: sa.Connection, name: str, *, lock: bool = False) -> Head | None:
    """The data set; `lock`: held against other writers until the transaction ends (SQLite holds the file already)."""
    row = connection.execute(_HEAD_LOCKED if lock else _HEAD, {"wanted": name}).one_or_none()
    return Head(*row) if row is not None else None


def heads(connection: sa.Connection) -> list[Head]:
    """List all data sets, in the order in which they were opened."""
    return [Head(*row) for row in connection.execute(sa.select(datasets).order_by(datasets.c.number))]


def lock_openings(connection: sa.Connection) -> None:
    """Hold all others that would open a data set, so that openings have an order."""
    connection.execute(sa.select(schema).with_for_update())


@many_records()
def fetch(connection: sa.Connection, head: Head, after: int = 0) -> Fetched:
    """Fetch the entries of a data set after a sequence number, in order."""
    link = first_link(connection, head.number) if after == 0 else ""
    rows = connection.execute(_ENTRIES_AFTER, {"dataset": head.number, "after": after})
    return Fetched(head, list(starmap(Entry, rows.all())), link)


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
    return hash_ == entry.hash == hash_of(entry.previous_hash, entry.content)


def first_link(connection: sa.Connection, number: int) -> str:
    """Find the hash that a data set's first entry follows: that of the first entry of the data set opened before it."""
    if number == 1:
        return genesis(ledger_name(connection))
    first = sa.select(entries.c.hash).where(entries.c.dataset == number - 1, entries.c.sequence == 1)
    return str(connection.execute(first).scalar_one_or_none())


def find_voided(chain: Iterable[Entry]) -> frozenset[int]:
    """The entries that the owner has declared void, as far as that is told among these; Fault if they cannot be."""
    kinds: dict[int, str] = {}
    voided: set[int] = set()
    for entry in chain:
        if entry.kind == "budget":
            with suppress(ValueError, RecursionError):  # what cannot be read is told when it is its turn
                named = entry.values.get("void") or ()
                if not isinstance(named, list | tuple) or not all(
                    type(number) is int and 1 < number < entry.sequence and kinds.get(number) not in OWNERS_KINDS
                    for number in named
                ):
                    raise Fault(f"entry {entry.sequence} declares void what cannot be")
                voided.update(named)
        kinds[entry.sequence] = entry.kind
    return frozenset(voided)


def follow_links(chain: Iterable[Entry], sequence: int, hash_: str, head: Head, voided: Set[int]) -> Iterator[Entry]:
    """The entries, one after the other; Fault where one does not follow, and if they do not end at the head.

    What those that are `voided` hold does not matter.
    """
    for entry in chain:
        fault = entry.link_fault(sequence, hash_)
        if fault is None and entry.sequence not in voided:
            fault = entry.content_fault(head.name)
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
    sequence = head.sequence + 1
    content = canonical(
        {
            **values,
            "dataset": head.name,
            "number": head.number,
            "sequence": sequence,
            "kind": kind,
            "refers_to": refers_to,
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "actor": actor if actor is not None else _this_actor(),
            "session_user": connection.info.get("osgt_user") or this_user(),
            "software": software(),
        }
    )
    entry = Entry(head.number, sequence, kind, refers_to, content, head.hash, hash_of(head.hash, content))
    connection.execute(_INSERT, {column: getattr(entry, column) for column in entries.c.keys()})  # noqa: SIM118
    move_head(connection, entry)
    return entry


def move_head(connection: sa.Connection, entry: Entry) -> None:
    """Let a data set end at an entry."""
    connection.execute(_MOVE_HEAD, {"of": entry.dataset, "to": entry.sequence, "at": entry.hash})


def _this_actor() -> str:
    """Name the user who runs this process, and the computer."""
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
