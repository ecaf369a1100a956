"""The memory of a user's own processes: checkpoints of a long chain, and the last entry that they have charged.

Both are files in the user's own folder for state, which only this user can write: nobody else's word is believed. Each
begins with a checksum, without which nothing in it is looked at. A file that is not as it was written says nothing.

A *checkpoint* stands for all entries up to one that has a given hash, which covers all entries before it, so that the
next process need not check them again. That of another version of this software is not used. From a checkpoint on every
entry is checked as ever. `verify` never uses one.

The *last entry seen* proves that the chain once went so far: if it is not there any more, charges were forgotten.
"""

import hashlib
import json
import os
import stat
import threading
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from osgt.ledger.store.chain import Head
from osgt.ledger.store.database import turn
from osgt.ledger.subject import Owners, Table
from osgt.privacy.filters import parts
from osgt.privacy.filters.budget import Budget
from osgt.privacy.filters.parts import States

#: Entries after which a checkpoint is written. Shorter chains are read from the first entry on.
EVERY = 1000

#: The form of a checkpoint, and of the file of the last entry seen.
_FORMAT, _SEEN_FORMAT = 3, 1

#: Bytes; a larger file is not ours.
_LARGEST = 2**22

#: Seconds to wait for other processes of this user that write such a file.
_PATIENCE = 1.0

#: What reading a file that we have not written may raise.
_ODD = (OSError, KeyError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)


@dataclass(frozen=True)
class Checkpoint:
    """An account after an entry, without its single charges."""

    name: str
    sequence: int
    hash: str
    budget: Budget
    state: States | None  # None for a plan, of which no checkpoint is kept
    owners: Owners
    releases: int
    changes: int
    lost: str | None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        owners = {**self.owners.to_dict(), "flags": [self.owners.declared, self.owners.tables_declared]}
        return {
            "format": _FORMAT,
            "version": version("osgt"),
            "name": self.name,
            "sequence": self.sequence,
            "hash": self.hash,
            "budget": self.budget.to_dict(),
            "state": None if self.state is None else self.state.to_dict(),
            "owners": owners,
            "releases": self.releases,
            "changes": self.changes,
            "lost": self.lost,
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "Checkpoint":
        """Read what `to_dict` wrote; KeyError, TypeError or ValueError if it did not."""
        if (plain["format"], plain["version"]) != (_FORMAT, version("osgt")):
            raise ValueError("another form, or made by other rules")
        owners = plain["owners"]
        tables = tuple(Table.of(table) for table in owners["tables"])
        budget = Budget.from_dict(plain["budget"])
        if budget.shares is None:
            raise ValueError("of a plan, of which no checkpoint is kept")
        return cls(
            str(plain["name"]),
            int(plain["sequence"]),
            str(plain["hash"]),
            budget,
            parts.read(plain["state"], budget.partition, budget.shares),
            Owners(owners["unit"], owners["neighbours"], tables, *map(bool, owners["flags"])),
            int(plain["releases"]),
            int(plain["changes"]),
            plain["lost"],
        )


def load(ledger: str, dataset: int) -> Checkpoint | None:
    """The checkpoint of a data set, by the name of its ledger and its number; None where there is no sound one."""
    with suppress(*_ODD):
        return Checkpoint.from_dict(_read(_place(ledger, dataset, "json")))
    return None


def save(ledger: str, dataset: int, checkpoint: Checkpoint) -> None:
    """Write a checkpoint in the place of the last one. Where there is no place for it, there is none."""
    with suppress(OSError):
        _write(_place(ledger, dataset, "json", make_folder=True), checkpoint.to_dict())


def last_seen(ledger: str, dataset: int) -> Head | None:
    """The end of a chain when processes of this user last looked; None where no sound file says so."""
    with suppress(*_ODD):
        plain = _read(_place(ledger, dataset, "head"))
        if plain["format"] == _SEEN_FORMAT:
            return Head(dataset, str(plain["name"]), int(plain["sequence"]), str(plain["hash"]))
    return None


def see(ledger: str, head: Head) -> None:
    """Remember an entry that is committed, unless a later one is known. Where there is no place for it, it is not."""
    with suppress(OSError), ExitStack() as stack:
        place = _place(ledger, head.number, "head", make_folder=True)
        with suppress(TimeoutError):  # whoever holds the lock was stopped: an older entry may then replace a later one
            stack.enter_context(turn(f"{place.parent}/lock", _PATIENCE))
        known = last_seen(ledger, head.number)
        if known is None or known.sequence < head.sequence:
            _write(place, {"format": _SEEN_FORMAT, "name": head.name, "sequence": head.sequence, "hash": head.hash})


def _place(ledger: str, dataset: int, suffix: str, *, make_folder: bool = False) -> Path:
    folder = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(folder):
        folder = os.path.expanduser("~/.local/state")
    if not os.path.isabs(folder):
        raise FileNotFoundError("this user has no home")
    # The name of a ledger is text that somebody else may have written.
    plain = "".join(letter for letter in ledger if letter.isascii() and letter.isalnum())[:64]
    place = Path(f"{folder}/osgt/ledgers/{plain}-{dataset}.{suffix}")
    if make_folder and not place.parent.is_dir():
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return place


def _read(place: Path) -> Any:
    """Read what `_write` wrote; OSError or ValueError where a file is not as it was written, or is not this user's."""
    # Neither waits for whoever might write to a pipe, nor goes where a link leads.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(place, flags)
    try:
        status = os.fstat(descriptor)
        # Nobody but this user can have written a file that is its own.
        others = hasattr(os, "getuid") and (status.st_uid != os.getuid() or status.st_mode & 0o022)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST or others:
            raise ValueError("this is not a file of ours")
        checksum, _, text = os.read(descriptor, status.st_size).partition(b"\n")
    finally:
        os.close(descriptor)
    if checksum != _checksum(place, text):
        raise ValueError("this is not what was written")
    return json.loads(text)


def _write(place: Path, content: dict[str, Any]) -> None:
    """Put a file in the place of the last one, all of it or nothing."""
    text = json.dumps(content).encode("ascii")
    new = f"{place.parent}/.{place.name}.{os.getpid()}-{threading.get_ident()}"
    with suppress(FileNotFoundError):
        os.unlink(new)  # of a process that was stopped
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.write(_checksum(place, text) + b"\n" + text)
        os.replace(new, place)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(new)
        raise


def _checksum(place: Path, text: bytes) -> bytes:
    """The checksum of a text in the file of this name, without a key: against accidents, not against this user."""
    return hashlib.sha256(place.name.encode() + b"\n" + text).hexdigest().encode()
