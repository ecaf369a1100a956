"""Backups of an SQLite ledger, and putting one back: a backup has forgotten what was charged after it."""

import os
import sqlite3
import tempfile
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from osgt.ledger import verification
from osgt.ledger.errors import DamagedLedgerError, LedgerError, NoLedgerError
from osgt.ledger.store import chain, checkpoint, schema
from osgt.ledger.store.chain import Head
from osgt.ledger.store.database import Database
from osgt.ledger.verification import Snapshot, Verification


def backup(database: Database, path: str | os.PathLike[str]) -> Verification:
    """Copy a ledger that may be in use to a new file, and check the copy."""
    _check_is_file(database)
    target = Path(path)
    if target.exists():
        raise FileExistsError(f"there is a file {str(target)!r} already: a backup never replaces one")
    temporary = _copy_beside(database, target)
    try:
        checked = verification.verify(_fetch_file(temporary))
        os.link(temporary, target)  # unlike a rename it never replaces a file
    except FileExistsError:
        raise FileExistsError(f"there is a file {str(target)!r} already: a backup never replaces one") from None
    finally:
        temporary.unlink()
    _sync(target.parent)
    return checked


@dataclass(frozen=True)
class Restored:
    """The consequences of restoring a backup.

    `spent` has the data sets that count as spent from now on, each with the reason; `remarks` is what else to know.
    """

    spent: dict[str, str]
    remarks: tuple[str, ...]


def restore(
    database: Database,
    source: str | os.PathLike[str],
    *,
    heads: Mapping[str, Mapping[str, Any]] | None,
    charges_unknown: bool,
    reason: str,
    actor: str | None,
) -> Restored:
    """Put a backup in the place of a ledger. What it may have forgotten counts as spent; each chain says so."""
    _check_is_file(database)
    if (heads is None) != charges_unknown:
        raise ValueError(
            "give heads, the latest ones of the ledger that is replaced (`osgt ledger verify --json`, `osgt ledger "
            "export`), or charges_unknown (--charges-unknown): then every data set counts as spent"
        )
    if not Path(source).is_file():
        raise FileNotFoundError(f"there is no backup {str(source)!r}")
    target = database.path
    temporary = _copy_beside(Database(os.fspath(source)), target)
    try:
        backup = _fetch_file(temporary)
        checked = verification.verify(backup)
        if not checked.entries_ok:
            raise DamagedLedgerError(f"the backup {str(source)!r} cannot be used: {checked.problems[0]}")
        database.close()
        with database.turn():  # nobody charges what is replaced once its heads were read
            replaced = _Replaced.at(target, backup.ledger)
            restored = _compare(backup, replaced, heads)
            with closing(Database(temporary)) as copy:
                copy.write(lambda connection: _record(connection, restored, reason, actor))
            for suffix in ("-lock", "-lock-next"):
                Path(f"{temporary}{suffix}").unlink(missing_ok=True)
            _set_aside(target)
            temporary.rename(target)
        _sync(target.parent)
    finally:
        temporary.unlink(missing_ok=True)
    return restored


def _check_is_file(database: Database) -> None:
    if not database.is_sqlite:
        raise LedgerError(
            "a ledger in PostgreSQL is backed up and restored with the tools of the server (pg_dump, pg_restore), with "
            "its heads kept beside it: `osgt ledger verify --json`"
        )


def _copy_beside(database: Database, target: Path) -> Path:
    """A complete copy in a new file beside the target."""
    if not target.absolute().parent.is_dir():
        raise FileNotFoundError(f"there is no folder {str(target.absolute().parent)!r}")
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}-", dir=target.absolute().parent)
    os.close(descriptor)
    temporary = Path(name)
    try:
        temporary.chmod(0o644 if not target.exists() else target.stat().st_mode & 0o777)

        def copy(connection: sa.Connection) -> None:
            driver: Any = connection.connection.driver_connection
            with closing(sqlite3.connect(temporary)) as other:
                driver.backup(other)

        with closing(database):
            database.read(copy)
        _sync(temporary)
    except BaseException:
        temporary.unlink()
        raise
    return temporary


def _fetch_file(path: Path) -> Snapshot:
    with closing(Database(path)) as database:
        return database.read(verification.fetch)


@dataclass(frozen=True)
class _Replaced:
    """The ends of the chains of the ledger that is replaced, and what is to be said of it."""

    heads: dict[str, Head]
    is_whole: bool
    remarks: tuple[str, ...] = ()

    @classmethod
    def at(cls, target: Path, ledger: str) -> "_Replaced":
        """Read the ledger that a restored one will replace. Another ledger is not replaced."""
        if not target.exists():
            return cls({}, is_whole=False)
        try:
            replaced = _fetch_file(target)
        except (DamagedLedgerError, NoLedgerError, TypeError, ValueError):
            remark = f"{target} could not be read, so the backup was not compared with it"
            return cls({}, is_whole=False, remarks=(remark,))
        except LedgerError as error:
            text = str(error).rstrip(".")
            raise LedgerError(f"{text}. If it is damaged, move it to another name and restore again") from error
        if replaced.ledger != ledger:
            raise ValueError(
                f"{target} is another ledger than that of the backup, and would be forgotten: check both paths. To "
                "restore there all the same, move it to another name first"
            )
        ends = {head.name: chain.end_of(head, replaced.chain_of(head)) for head in replaced.heads}
        if verification.verify(replaced).entries_ok:
            return cls(ends, is_whole=True)
        remark = f"{target} was damaged: of its entries only the numbers were compared with those of the backup"
        return cls(ends, is_whole=False, remarks=(remark,))


def _compare(backup: Snapshot, replaced: _Replaced, given: Mapping[str, Mapping[str, Any]] | None) -> Restored:
    """Compare a backup with the entries that are known of: which it lacks, or may lack."""
    held = {head.name: head for head in backup.heads}
    missing = [name for name in {**replaced.heads, **(given or {})} if name not in held]
    if missing and given is not None:
        raise ValueError(f"the backup has no data set {', '.join(map(repr, missing))}: use a later one")
    gone = tuple(f"the backup has no data set {name!r}: do not open it again with a new budget" for name in missing)
    remarks = (*replaced.remarks, *gone)
    if given is None:
        return Restored(dict.fromkeys(held, "nobody knows what was charged since the backup"), remarks)
    spent = {}
    for name, head in held.items():
        hashes = {entry.sequence: entry.hash for entry in backup.chain_of(head)}
        why = _lacking(backup.ledger, head, hashes, given.get(name), replaced)
        if why is not None:
            spent[name] = why
    return Restored(spent, remarks)


def _lacking(
    ledger: str, held: Head, hashes: Mapping[int, str], given: Mapping[str, Any] | None, replaced: _Replaced
) -> str | None:
    """Find the reason why a data set of a backup lacks, or may lack, entries; None if it has all that are known of."""
    there, seen = replaced.heads.get(held.name), checkpoint.last_seen(ledger, held.number)
    ends = f"the backup ends at entry {held.sequence}"
    if given is None:
        return "the heads that were given do not name it"
    if given["sequence"] <= held.sequence and hashes[given["sequence"]] != given["hash"]:
        raise ValueError(f"data set {held.name!r}: these heads are not of the ledger that the backup was taken from")
    if max(given["sequence"], there.sequence if there else 0) < held.sequence:
        raise ValueError(f"data set {held.name!r}: these heads are older than the backup; give the latest ones")
    if there is not None and there.sequence > max(held.sequence, given["sequence"]):
        return f"{ends}, and the ledger that it replaces went on to entry {there.sequence}"
    if given["sequence"] > held.sequence:
        return f"{ends}, and the heads that were given are of entry {given['sequence']}"
    if there is not None and replaced.is_whole and hashes.get(there.sequence) != there.hash:
        return f"the ledger that it replaces has another entry {there.sequence}"
    if seen is not None and hashes.get(seen.sequence) != seen.hash:
        return f"{ends}, and your processes have seen another entry {seen.sequence}"
    return None


def _record(connection: sa.Connection, restored: Restored, reason: str, actor: str | None) -> None:
    """Say in each chain that it was restored, and put back what is not an entry."""
    connection.exec_driver_sql("REINDEX")
    schema.restore_guards(connection)
    for head in chain.heads(connection):
        lost = restored.spent.get(head.name)
        values = {"charges_unknown": lost is not None, "lost": lost, "reason": reason}
        chain.append(connection, head, "restore", values, actor=actor)


def _set_aside(target: Path) -> None:
    """Keep what is replaced, under another name, with the journal that belongs to it."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
    for suffix in ("", "-journal"):
        old = Path(f"{target}{suffix}")
        if old.exists():
            old.rename(f"{target}.replaced-{stamp}{suffix}")


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
