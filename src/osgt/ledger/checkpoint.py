"""Checkpoints: what a user's own processes have checked of a long chain, so that the next one need not do it again.

A checkpoint stands for all entries up to one that has a given hash, which covers all entries before it. It is a file in
the user's own folder for state, which only this user can write: nobody else's word is believed, nor that of another
version of this software. From a checkpoint on every entry is checked as ever. `verify` never uses one.
"""

import json
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from osgt.ledger.budget import Budget
from osgt.ledger.filter_state import FilterState
from osgt.ledger.subject import Owners, Table
from osgt.privacy import Charge, PrivacyProfile

#: Entries after which a checkpoint is written. Shorter chains are read from the first entry on.
EVERY = 1000

#: The form of the file.
_FORMAT = 2


@dataclass(frozen=True)
class Checkpoint:
    """An account after an entry, without its single charges."""

    name: str
    sequence: int
    hash: str
    budget: Budget
    state: FilterState | None  # None for a plan, of which no checkpoint is kept
    owners: Owners
    releases: int
    profile: PrivacyProfile | None  # what stands, where it has few different parts
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
            "profile": None if self.profile is None else Charge(self.profile).to_dict(),
            "changes": self.changes,
            "lost": self.lost,
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "Checkpoint":
        """What `to_dict` wrote; KeyError, TypeError or ValueError if it did not."""
        if (plain["format"], plain["version"]) != (_FORMAT, version("osgt")):
            raise ValueError("another form, or made by other rules")
        owners, profile = plain["owners"], plain["profile"]
        tables = tuple(Table.of(table) for table in owners["tables"])
        return cls(
            str(plain["name"]),
            int(plain["sequence"]),
            str(plain["hash"]),
            Budget.from_dict(plain["budget"]),
            FilterState.from_dict(plain["state"]),
            Owners(owners["unit"], owners["neighbours"], tables, *map(bool, owners["flags"])),
            int(plain["releases"]),
            None if profile is None else Charge.from_dict(profile).profile,
            int(plain["changes"]),
            plain["lost"],
        )


def load(ledger: str, dataset: int) -> Checkpoint | None:
    """The checkpoint of a data set, by the name of its ledger and its number; None where there is no sound one."""
    with suppress(OSError, KeyError, TypeError, ValueError, AttributeError), _place(ledger, dataset).open("rb") as file:
        if _is_own(file.fileno()):
            return Checkpoint.from_dict(json.load(file))
    return None


def save(ledger: str, dataset: int, checkpoint: Checkpoint) -> None:
    """Write a checkpoint in the place of the last one. Where there is no place for it, there is none."""
    with suppress(OSError):
        place = _place(ledger, dataset)
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=f".{place.name}.", dir=place.parent)  # mode 0600
        try:
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                json.dump(checkpoint.to_dict(), file)
            Path(name).replace(place)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


def _place(ledger: str, dataset: int) -> Path:
    folder = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(folder):
        folder = os.path.expanduser("~/.local/state")
    if not os.path.isabs(folder):
        raise FileNotFoundError("this user has no home")
    # The name of a ledger is text that somebody else may have written.
    plain = "".join(letter for letter in ledger if letter.isascii() and letter.isalnum())[:64]
    return Path(folder) / "osgt" / "ledgers" / f"{plain}-{dataset}.json"


def _is_own(descriptor: int) -> bool:
    """Whether nobody but this user can have written a file."""
    found = os.fstat(descriptor)
    return not hasattr(os, "getuid") or (found.st_uid == os.getuid() and not found.st_mode & 0o022)
