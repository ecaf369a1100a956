"""Where a ledger lives, and transactions on it: all or nothing, one writer at a time for a data set."""

import os
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from osgt.ledger import schema
from osgt.ledger.errors import DamagedLedgerError, LedgerError
from osgt.locations import shown, without_secrets

Result = TypeVar("Result")

#: Seconds to wait for others that write to the same SQLite file, or for a PostgreSQL server to answer.
_PATIENCE = 120
_CONNECT_SECONDS = 15

#: PostgreSQL: serialisation failure, deadlock. The transaction did nothing and can be tried again.
_TRANSIENT = {"40001", "40P01"}
_ATTEMPTS = 20

#: Engines that came through a fork. Closing their connections would disturb the parent, so they are kept for ever.
_PARENTS_ENGINES: list[sa.Engine] = []


def url_of(location: str | os.PathLike[str]) -> sa.URL:
    """The database that a path or a URL names."""
    text = os.fspath(location)
    if not isinstance(text, str) or not text:
        raise ValueError(f"a ledger is given by a path, sqlite:///path or postgresql://…, got {location!r}")
    if "://" not in text and shown(text) != text:
        raise ValueError(
            f"a ledger is given by a path, sqlite:///path or postgresql://…, got something else: {shown(text)}"
        )
    if "://" not in text:
        return sa.URL.create("sqlite", database=str(Path(text).expanduser().absolute()))
    try:
        url = sa.make_url(text)
    except (ArgumentError, ValueError):
        raise ValueError("this is not a URL of a database: expected sqlite:///path or postgresql://…") from None
    if url.drivername == "sqlite":
        if not url.database or url.database == ":memory:" or url.database.startswith("file:"):
            raise ValueError("a ledger must survive the process: give sqlite:/// the path of a file")
        return sa.URL.create("sqlite", database=str(Path(url.database).absolute()))
    if url.drivername in ("postgresql", "postgres", "postgresql+psycopg"):
        return url.set(drivername="postgresql+psycopg")
    raise ValueError(
        f"a ledger is kept in SQLite (a path or sqlite:///path) or PostgreSQL (postgresql://…), got {url.drivername}://"
    )


class Database:
    """A database that may hold a ledger. Nothing is opened before the first transaction, and nothing crosses a fork."""

    def __init__(self, location: str | os.PathLike[str]) -> None:
        self.url = url_of(location)
        self._location = os.fspath(location)
        self.name = str(self.url.database) if self.is_sqlite else shown(self._location)
        self._engine: sa.Engine | None = None
        self._process = os.getpid()
        self._finalizer: Any = None
        self._ready = False

    @property
    def is_sqlite(self) -> bool:
        """Whether it is a file."""
        return self.url.drivername == "sqlite"

    def engine(self) -> sa.Engine:
        """The engine of this process."""
        if self._process != os.getpid():
            if self._engine is not None:
                self._finalizer.detach()
                _PARENTS_ENGINES.append(self._engine)
            self._engine, self._process = None, os.getpid()
        if self._engine is None:
            self._engine = _sqlite_engine(self.url) if self.is_sqlite else _postgresql_engine(self.url)
            self._finalizer = weakref.finalize(self, _dispose, self._engine, self._process)
        return self._engine

    def close(self) -> None:
        """Close the connections; the next transaction opens new ones."""
        if self._engine is not None and self._process == os.getpid():
            self._finalizer()
            self._engine = None

    def write(self, work: Callable[[sa.Connection], Result], *, create: bool = False) -> Result:
        """Run `work` in a transaction that is committed before this returns, and not at all if anything fails."""
        return self._run(work, read_only=False, create=create)

    def read(self, work: Callable[[sa.Connection], Result]) -> Result:
        """Run `work` on one consistent state of the ledger."""
        return self._run(work, read_only=True, create=False)

    def _run(self, work: Callable[[sa.Connection], Result], *, read_only: bool, create: bool) -> Result:
        if self.is_sqlite and not create and not Path(str(self.url.database)).exists():
            raise LedgerError(
                f"there is no ledger at {self.name}: check the path, or make one by opening a data set in it "
                "(Ledger.open, `osgt ledger open`)"
            )
        for attempt in range(_ATTEMPTS):
            try:
                with self._connected(read_only=read_only) as connection, connection.begin():
                    self._prepare(connection, read_only=read_only, create=create)
                    result = work(connection)
                self._ready = True
                return result
            except DBAPIError as error:
                if getattr(error.orig, "sqlstate", None) in _TRANSIENT and attempt + 1 < _ATTEMPTS:
                    time.sleep(0.005 * 2 ** min(attempt, 6))
                    continue
                raise self._explained(error) from error
            except SQLAlchemyError as error:
                said = without_secrets(str(error), self._location)
                raise LedgerError(f"the ledger {self.name} cannot be used: {said}") from error
        raise AssertionError("the last attempt returns or raises")

    def _connected(self, *, read_only: bool) -> sa.Connection:
        connection = self.engine().connect()
        if self.is_sqlite:
            return connection.execution_options(osgt_read_only=read_only)
        # Writers are ordered by a lock on the data set; what they read after it must be what the last one committed.
        return connection.execution_options(isolation_level="REPEATABLE READ" if read_only else "READ COMMITTED")

    def _prepare(self, connection: sa.Connection, *, read_only: bool, create: bool) -> None:
        """See that there is a ledger of a version that we know."""
        if not self.is_sqlite and not read_only:
            # As with SQLite: a commit has reached the disk before anything is released, whatever the server's default.
            connection.exec_driver_sql("SET LOCAL synchronous_commit = on")
        # Asked each time: a newer osgt may have migrated the ledger while this process was running.
        version = schema.version_of(connection, known_to_exist=self._ready)
        schema.check(version, self.name)
        if version == 0 and not create:
            raise LedgerError(
                f"{self.name} is a database, but there is no ledger in it: check the address, or make one by opening "
                "a data set in it (Ledger.open, `osgt ledger open`)"
            )
        if version < len(schema.STEPS) and not read_only:
            schema.migrate(connection, self.name)
        elif version < len(schema.STEPS):
            raise LedgerError(
                f"the ledger {self.name} has the older schema version {version}: opening a data set in it, also one "
                "that is open already, brings it to the present version (Ledger.open, `osgt ledger open`)"
            )

    def _explained(self, error: DBAPIError) -> LedgerError:
        """What a failure of the database means for whoever wanted to charge a release."""
        text = without_secrets(str(error.orig), self._location)
        lowered = text.lower()
        for signs, kind, advice in _CAUSES:
            if any(sign in lowered for sign in signs):
                return kind(f"{advice.format(name=self.name)} Nothing may be released. (The database says: {text})")
        return LedgerError(
            f"the ledger {self.name} cannot be used. Nothing may be released. (The database says: {text})"
        )


_CAUSES: list[tuple[tuple[str, ...], type[LedgerError], str]] = [
    (
        ("readonly database", "read-only", "permission denied"),
        LedgerError,
        "the ledger {name} cannot be written: this user may not change it, or its folder (in which SQLite keeps files "
        "beside it). Grant that, or name another ledger.",
    ),
    (
        ("unable to open database file",),
        LedgerError,
        "the ledger {name} cannot be opened: its folder does not exist, or this user may not use the folder or the "
        "file. Make the folder, grant that, or name another path.",
    ),
    (
        ("disk is full", "no space left", "could not extend file", "disk i/o error"),
        LedgerError,
        "the ledger {name} cannot be written: the disk is full, or fails. Make room and try again; what was charged "
        "before still stands.",
    ),
    (
        ("not a database", "malformed", "corrupt", "invalid page", "encrypted"),
        DamagedLedgerError,
        "{name} is not a database, or is damaged. Check the path; if it is right, restore the ledger from a back-up "
        "and run `osgt ledger verify`.",
    ),
    (
        ("database is locked", "database table is locked"),
        LedgerError,
        f"the ledger {{name}} was in use by others for {_PATIENCE} seconds. Try again; if nobody uses it, the file may "
        "be on a network drive, which SQLite cannot share: use PostgreSQL there.",
    ),
    (
        ("never changed",),
        LedgerError,
        "entries of the ledger {name} are never changed or deleted.",
    ),
    (
        ("connection", "could not translate host", "authentication", "does not exist"),
        LedgerError,
        "the ledger {name} cannot be reached. Check the address, the user and the password, and that the server runs.",
    ),
]


def _dispose(engine: sa.Engine, process: int) -> None:
    """Close the connections, in the process that opened them."""
    if os.getpid() == process:
        engine.dispose()


def _sqlite_engine(url: sa.URL) -> sa.Engine:
    engine = sa.create_engine(url, connect_args={"timeout": _PATIENCE})

    @sa.event.listens_for(engine, "connect")
    def _connected(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # transactions begin where we say, below
        cursor = connection.cursor()
        cursor.execute("PRAGMA journal_mode = WAL")
        cursor.execute("PRAGMA synchronous = FULL")  # a commit has reached the disk before anything is released
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.close()

    @sa.event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        read_only = connection.get_execution_options().get("osgt_read_only", False)
        # IMMEDIATE: the state on which a charge is decided cannot change before the charge is written.
        connection.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")

    return engine


def _postgresql_engine(url: sa.URL) -> sa.Engine:
    try:
        return sa.create_engine(
            url, pool_size=2, pool_pre_ping=True, connect_args={"connect_timeout": _CONNECT_SECONDS}
        )
    except ModuleNotFoundError as error:
        raise ImportError('a ledger in PostgreSQL needs psycopg: pip install "osgt[postgres]"') from error
