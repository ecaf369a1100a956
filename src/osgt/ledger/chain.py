"""Entries and the chain of hashes that ties each to all before it.

The hash of an entry covers its content and the hash of the entry before. The first entry of a data set follows, in that
sense, the first entry of the data set that was opened before it. Order comes from the chain; times are only told.
"""

import gc
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import starmap
from typing import Any

import sqlalchemy as sa

from osgt.ledger.errors import DamagedLedgerError
from osgt.ledger.schema import entries


def genesis(ledger: str) -> str:
    """What the first entry of the first data set of a ledger follows."""
    return hashlib.sha256(f"osgt ledger {ledger}".encode()).hexdigest()


def canonical(content: dict[str, Any]) -> str:
    """One text for equal contents: sorted keys, no spaces, ASCII, floats that are read back exactly."""
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

    def fault(self, previous_sequence: int, previous_hash: str, name: str) -> str | None:
        """What is wrong with this entry as the successor of another; None if nothing is."""
        if self.sequence != previous_sequence + 1:
            return f"entry {self.sequence} follows entry {previous_sequence}: what was between them is missing"
        if self.previous_hash != previous_hash:
            return f"entry {self.sequence} does not follow the entry before it: one of them was replaced"
        if hash_of(self.previous_hash, self.content) != self.hash:
            return f"entry {self.sequence} was edited: its hash is not that of its content"
        values = self.values
        told = (values.get("number"), values.get("sequence"), values.get("kind"), values.get("refers_to"))
        if told != (self.dataset, self.sequence, self.kind, self.refers_to):
            return f"entry {self.sequence} was edited: its columns are not those of its content"
        if values.get("dataset") != name:
            return f"entry {self.sequence} says that it belongs to {values.get('dataset')!r}"
        return None


def entry(values: dict[str, Any], previous_hash: str) -> Entry:
    """The entry with these values, tied to the one before."""
    content = canonical(values)
    return Entry(
        values["number"],
        values["sequence"],
        values["kind"],
        values["refers_to"],
        content,
        previous_hash,
        hash_of(previous_hash, content),
    )


@contextmanager
def many_records() -> Iterator[None]:
    """Without Python's search for garbage, which takes a third of the time where many records are made and all kept."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@many_records()
def read_entries(connection: sa.Connection, dataset: int, after: int = 0) -> list[Entry]:
    """The entries of a data set after a sequence number, in order."""
    rows = connection.execute(
        sa.select(entries).where(entries.c.dataset == dataset, entries.c.sequence > after).order_by(entries.c.sequence)
    )
    return list(starmap(Entry, rows.all()))


def damaged(name: str, fault: str) -> DamagedLedgerError:
    """The error for a ledger that is not what was written."""
    return DamagedLedgerError(
        f"the ledger is damaged at data set {name!r}: {fault}. Nothing may be released. See `osgt ledger verify`, and "
        "restore it from a backup (`osgt ledger restore`)"
    )
