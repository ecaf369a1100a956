"""Backups of an SQLite ledger, and putting one back: a backup has forgotten what was charged after it."""

import os
import sqlite3
import tempfile
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from osgt.ledger import book, schema, verification
from osgt.ledger.database import PATIENCE, Database
from osgt.ledger.errors import DamagedLedgerError, LedgerError
from osgt.ledger.queue import turn
from osgt.ledger.verification import Verification


def backup(database: Database, path: str | os.PathLike[str]) -> Verification:
    """Copy a ledger that may be in use to a new file, and check the copy."""
    _check_is_file(database)
    target = Path(path)
    if target.exists():
        raise FileExistsError(f"there is a file {str(target)!r} already: a backup never replaces one")
    temporary = _copied(database, target)
    try:
        found = verification.verify(_fetched(temporary))
        os.link(temporary, target)  # unlike a rename it never replaces a file
    except FileExistsError:
        raise FileExistsError(f"there is a file {str(target)!r} already: a backup never replaces one") from None
    finally:
        temporary.unlink()
    _sync(target.parent)
    return found


def restore(
    database: Database,
    source: str | os.PathLike[str],
    *,
    heads: Mapping[str, Mapping[str, Any]] | None,
    charges_unknown: bool,
    reason: str,
    actor: str | None,
) -> list[str]:
    """Put a backup in the place of a ledger. What it may have forgotten counts as spent; each chain says so."""
    _check_is_file(database)
    if (heads is None) != charges_unknown:
        raise ValueError(
            "give heads, the latest ones of the ledger that is replaced (`osgt ledger verify --json`, `osgt ledger "
            "export`), or charges_unknown (--charges-unknown): then every data set counts as spent"
        )
    if not reason.strip():
        raise ValueError("reason must say why the ledger is restored: it is recorded for ever")
    if not Path(source).is_file():
        raise FileNotFoundError(f"there is no backup {str(source)!r}")
    target = database.path
    temporary = _copied(Database(os.fspath(source)), target)
    try:
        found = _fetched(temporary)
        checked = verification.verify(found)
        if not checked.entries_ok:
            raise DamagedLedgerError(f"the backup {str(source)!r} cannot be used: {checked.problems[0]}")
        lost = _forgotten(checked.heads, heads)
        with closing(Database(temporary)) as copy:
            copy.write(lambda connection: _record(connection, lost, reason, actor))
        for suffix in ("-lock", "-lock-next"):
            Path(f"{temporary}{suffix}").unlink(missing_ok=True)
        database.close()
        with turn(f"{target}-lock", PATIENCE):
            _set_aside(target)
            temporary.rename(target)
        _sync(target.parent)
    finally:
        temporary.unlink(missing_ok=True)
    return lost


def _check_is_file(database: Database) -> None:
    if not database.is_sqlite:
        raise LedgerError(
            "a ledger in PostgreSQL is backed up and restored with the tools of the server (pg_dump, pg_restore), with "
            "its heads kept beside it: `osgt ledger verify --json`"
        )


def _copied(database: Database, target: Path) -> Path:
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


def _fetched(path: Path) -> verification.Fetched:
    with closing(Database(path)) as database:
        return database.read(verification.fetch)


def _forgotten(held: Mapping[str, Mapping[str, Any]], heads: Mapping[str, Mapping[str, Any]] | None) -> list[str]:
    """The data sets of a backup that lack, or may lack, entries."""
    if heads is None:
        return list(held)
    missing = [name for name in heads if name not in held]
    if missing:
        raise ValueError(f"the backup has no data set {', '.join(map(repr, missing))}: use a later one")
    for name, head in heads.items():
        if head["sequence"] < held[name]["sequence"]:
            raise ValueError(f"data set {name!r}: these heads are older than the backup; give the latest ones")
        if head["sequence"] == held[name]["sequence"] and head["hash"] != held[name]["hash"]:
            raise ValueError(f"data set {name!r}: these heads are not of the ledger that the backup was taken from")
    return [name for name in held if name not in heads or heads[name]["sequence"] > held[name]["sequence"]]


def _record(connection: sa.Connection, lost: list[str], reason: str, actor: str | None) -> None:
    """Say in each chain that it was restored, and put back what is not an entry."""
    connection.exec_driver_sql("REINDEX")
    schema.restore_guards(connection)
    for head in book.heads(connection):
        values = {"charges_unknown": head.name in lost, "reason": reason}
        book.append(connection, head, "restore", values, actor=actor)


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
