"""Snapshots of a whole ledger: verified, exported, backed up and put back.

Every entry and every decision is checked, from the entries alone. A backup has forgotten what was charged after it, so
that putting it back records what is lacking.
"""

import os
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from osgt.ledger.account import replay
from osgt.ledger.errors import DamagedLedgerError, LedgerError, NoLedgerError
from osgt.ledger.store import chain, checkpoint, schema
from osgt.ledger.store.chain import Entry, Fault, Fetched, Head
from osgt.ledger.store.database import Database
from osgt.ledger.store.schema import entries
from osgt.support.text import Displayed

FORMAT = "osgt ledger"


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
            "format": FORMAT,
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
    ours = value.get("format") == FORMAT
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
        "format": FORMAT,
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


def backup(database: Database, path: str | os.PathLike[str]) -> Verification:
    """Copy a ledger that may be in use to a new file, and check the copy."""
    _check_is_file(database)
    target = Path(path)
    if target.exists():
        raise FileExistsError(f"there is a file {str(target)!r} already: a backup never replaces one")
    temporary = _copy_beside(database, target)
    try:
        checked = verify(_fetch_file(temporary))
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
        checked = verify(backup)
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
        return database.read(fetch)


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
        if verify(replaced).entries_ok:
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
