"""The private memory of a series: who was counted in which period, and the instalments that are being made.

It is a folder that only its owner can read. Units are known by salted hashes of 256 bits, whose salt is in the folder
too: whoever has the folder and knows how units are named can find out who was counted, so it is as private as the data.

Each step is durable before the next one. A secret for an instalment is written before the ledger hands it out, and who
is counted is written, with a mark that the ledger is told of, before anything is made of their rows. So a folder that
is lost or put back to an earlier state is noticed: it lacks a secret or a mark that the ledger knows of.
"""

import hashlib
import hmac
import json
import os
import shutil
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from osgt.sampling.entropy import token
from osgt.support.errors import OsgtError
from osgt.support.files import Target, written

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_TABLES = """
CREATE TABLE IF NOT EXISTS salt (one INTEGER PRIMARY KEY CHECK (one = 1), salt TEXT NOT NULL, form TEXT);
CREATE TABLE IF NOT EXISTS instalments (period TEXT PRIMARY KEY, secret TEXT NOT NULL, mark TEXT);
CREATE TABLE IF NOT EXISTS counted (unit BLOB NOT NULL, period TEXT NOT NULL, PRIMARY KEY (unit, period)) WITHOUT ROWID;
"""


class ForgottenError(OsgtError, ValueError):
    """The memory of a series is not the one that the ledger knows of: it was lost, or put back to an earlier state."""


class Memory:
    """The folder of a series, held by one process at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def held(self) -> Iterator["Memory"]:
        """Hold the folder, which is made if there is none; wait for another process that has it."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o600), "rb+") as lock:
            if fcntl is not None:
                fcntl.flock(lock, fcntl.LOCK_EX)
            with closing(self._connect()) as self._database:
                yield self

    def _connect(self) -> sqlite3.Connection:
        path = self.folder / "counted.db"
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        database = sqlite3.connect(path, isolation_level=None)
        database.executescript(f"PRAGMA journal_mode = DELETE; PRAGMA synchronous = EXTRA; {_TABLES}")
        database.execute("INSERT OR IGNORE INTO salt VALUES (1, ?, NULL)", (token(32),))
        return database

    def secret(self, period: str) -> str:
        """The secret by which the ledger knows the holder of an instalment, made and kept at the first call."""
        self._database.execute("INSERT OR IGNORE INTO instalments VALUES (?, ?, NULL)", (period, token(32)))
        return self._secrets()[period][0]

    def _secrets(self) -> dict[str, tuple[str, str | None]]:
        rows = self._database.execute("SELECT period, secret, mark FROM instalments")
        return {period: (secret, mark) for period, secret, mark in rows}

    def check(self, known: Mapping[str, Any]) -> None:
        """Raise ForgottenError unless all that the ledger knows of the instalments is here."""
        own = self._secrets()
        for period, instalment in known.items():
            secret, mark = own.get(period, ("", None))
            if hashlib.sha256(secret.encode()).hexdigest() != instalment.holder:
                raise self.forgotten(period, f"was handed out to {instalment.actor}, and nothing is known of it here")
            if instalment.status == "published" and instalment.mark != mark:
                raise self.forgotten(period, "is published, and who was counted in it has been forgotten")

    def forgotten(self, period: str, what: str) -> ForgottenError:
        """The error for a folder that does not know of an instalment what the ledger knows."""
        return ForgottenError(
            f"the instalment {period} {what}: the folder {str(self.folder)!r} is another one, or was put back to an "
            "earlier state. Use the folder with which the series was begun ([series] store); if it is lost, nothing "
            "more can be published of this series"
        )

    def count(self, period: str, units: Iterable[bytes], form: str, most: int) -> list[bool]:
        """Remember that units are counted in a period; False for those that were counted in `most` other ones.

        Units are written in a form, text or numbers, which must stay: in another one nobody would be known.
        """
        [(salt, before)] = self._database.execute("SELECT salt, form FROM salt")
        if before not in (None, form):
            raise ForgottenError(f"the privacy unit was {before} when this series was begun, and is {form} now")
        hashes = [hmac.digest(salt.encode(), unit, "sha256") for unit in units]
        self._database.execute("BEGIN IMMEDIATE")
        with self._database:
            self._database.execute("UPDATE salt SET form = ?", (form,))
            others: dict[bytes, int] = {}
            for unit, number in self._database.execute(
                "SELECT unit, count(*) FROM counted WHERE period <> ? GROUP BY unit HAVING count(*) >= ?",
                (period, most),
            ):
                others[unit] = number
            allowed = [one not in others for one in hashes]
            rows = ((one, period) for one, may in zip(hashes, allowed, strict=True) if may)
            self._database.executemany("INSERT OR IGNORE INTO counted VALUES (?, ?)", rows)
            self._database.execute("UPDATE instalments SET mark = ? WHERE period = ?", (token(32), period))
        return allowed

    def mark(self, period: str) -> str | None:
        """The mark of what was remembered last of a period."""
        return self._secrets()[period][1]

    # Instalments that are made

    def begin(self, period: str) -> Path:
        """An empty folder for the files of an instalment, which count as made once `finish` was called."""
        place = self.folder / period
        if place.exists():
            shutil.rmtree(place)
        place.mkdir(mode=0o700)
        return place

    def numbers(self, period: str, table: str) -> Path:
        """The file with the numbers that an instalment has published in a table: they stay, to be added up."""
        folder = self.folder / f"{period}.numbers"
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder / f"{table or 'table'}.parquet"

    def finish(self, period: str, made: Mapping[str, Any]) -> None:
        """Say that an instalment is made: from here on nobody makes it again."""
        with written(Target(self._finished(period), overwrite=True)) as place:
            place.write_text(json.dumps(made), encoding="utf-8")

    def read_made(self, period: str) -> dict[str, Any] | None:
        """Read what was said of an instalment when it was made; None if it is not."""
        try:
            made: dict[str, Any] = json.loads(self._finished(period).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        return made

    def _finished(self, period: str) -> Path:
        return self.folder / f"{period}.made.json"
