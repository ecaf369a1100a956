"""The database of a ledger, and transactions on it: all or nothing, one writer at a time for a data set.

Writers of an SQLite file wait in a queue: a lock beside it, which the kernel hands on in the order of asking. SQLite
itself lets waiting writers try again after pauses of their own, so that whoever never pauses wins. The queue only makes
waiting fair: what keeps the ledger right are SQLite's own locks.
"""

import logging
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from osgt.ledger.errors import LedgerError, LostAnswerError, NoLedgerError, explain
from osgt.ledger.store import postgres, schema
from osgt.support.locations import shown, without_secrets

try:
    import fcntl
except ImportError:  # Windows: SQLite's own locks alone
    fcntl = None  # type: ignore[assignment]


@contextmanager
def turn(path: str, seconds: float) -> Iterator[None]:
    """Hold the lock `path`; raise TimeoutError after so many seconds of waiting for it.

    Whoever is next holds a second lock while waiting for the first: a process that comes back at once cannot overtake.
    """
    end = time.monotonic() + seconds
    with _held(f"{path}-next", end) as release_next, _held(path, end):
        release_next()
        yield


@contextmanager
def _held(path: str, end: float) -> Iterator[Callable[[], None]]:
    """Hold a lock until the end of the block, or until the function that is given is called."""
    descriptor = _open_lock(path)
    if descriptor is not None and not _Waiting(descriptor).done(max(end - time.monotonic(), 0.0)):
        raise TimeoutError
    with ExitStack() as stack:
        if descriptor is not None:
            stack.callback(os.close, descriptor)
        yield stack.close


def _open_lock(path: str) -> int | None:
    """The lock file, which nobody needs to write to; None where there cannot be one."""
    if fcntl is None:
        return None
    try:
        return os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError:
        return None


class _Waiting:
    """Waiting for a lock with an end: in a thread of its own, which lets go of the lock if it comes too late."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._guard = threading.Lock()
        self._got = self._given_up = False

    def done(self, seconds: float) -> bool:
        """Wait for the lock; return whether it was had in time. If not, the descriptor is closed by the thread."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            pass
        except OSError:  # a file system without such locks
            return True
        thread = threading.Thread(target=self._wait, daemon=True)
        thread.start()
        try:
            thread.join(seconds)
        except BaseException:
            if not self._gave_up():
                os.close(self._descriptor)
            raise
        return not self._gave_up()

    def _gave_up(self) -> bool:
        with self._guard:
            self._given_up = not self._got
            return self._given_up

    def _wait(self) -> None:
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        with self._guard:
            self._got = True
            if self._given_up:
                os.close(self._descriptor)


Result = TypeVar("Result")

#: Seconds to wait for others that write to the same SQLite file.
PATIENCE = 120

_LOG = logging.getLogger("osgt")

# Built once: that takes longer than to run it.
_VERSION = sa.select(schema.schema.c.version)

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
        self._file: tuple[int, int] | None = None  # device and inode of the SQLite file that is in use

    @property
    def is_sqlite(self) -> bool:
        """Whether it is a file."""
        return self.url.drivername == "sqlite"

    @property
    def path(self) -> Path:
        """The SQLite file."""
        return Path(str(self.url.database))

    def engine(self) -> sa.Engine:
        """The engine of this process."""
        if self._process != os.getpid():
            if self._engine is not None:
                self._finalizer.detach()
                _PARENTS_ENGINES.append(self._engine)
            self._engine, self._process = None, os.getpid()
        if self._engine is None:
            self._engine = _sqlite_engine(self.url) if self.is_sqlite else postgres.engine_for(self.url)
            self._finalizer = weakref.finalize(self, _dispose, self._engine, self._process)
        return self._engine

    def close(self) -> None:
        """Close the connections; the next transaction opens new ones."""
        if self._engine is not None and self._process == os.getpid():
            self._finalizer()
            self._engine = None
        self._file = None

    def write(self, work: Callable[[sa.Connection], Result], *, create: bool = False) -> Result:
        """Run `work` in a transaction that is committed before this returns, and not at all if anything fails."""
        return self._run(work, read_only=False, create=create)

    def read(self, work: Callable[[sa.Connection], Result]) -> Result:
        """Run `work` on one consistent state of the ledger. It should only fetch: others may be waiting."""
        return self._run(work, read_only=True, create=False)

    def _run(self, work: Callable[[sa.Connection], Result], *, read_only: bool, create: bool) -> Result:
        for attempt in range(_ATTEMPTS):
            begun = committing = False
            try:
                with self._begin_transaction(read_only=read_only, create=create) as connection:
                    begun = True
                    result = work(connection)
                    committing = not read_only
                return result
            except DBAPIError as error:
                state = getattr(error.orig, "sqlstate", None)
                if not begun and attempt == 0 and error.connection_invalidated:
                    continue  # an old connection of the pool that broke: nothing was done on it
                if state in _TRANSIENT and attempt + 1 < _ATTEMPTS:
                    _LOG.info("a transaction of the ledger is tried again: %s", state)
                    time.sleep(0.005 * 2 ** min(attempt, 6))
                    continue
                if committing and not _is_busy(error):
                    raise LostAnswerError(
                        f"the ledger {self.name} did not say whether it has written the entry. It may stand, or not: "
                        f"see `osgt ledger show`. (The database says: {self._message_of(error)})",
                        otherwise=self._explain(error),
                    ) from error
                raise self._explain(error) from error
            except SQLAlchemyError as error:
                said = without_secrets(str(error), self._location)
                raise LedgerError(f"the ledger {self.name} cannot be used: {said}") from error
        raise AssertionError("the last attempt returns or raises")

    @contextmanager
    def _begin_transaction(self, *, read_only: bool, create: bool) -> Iterator[sa.Connection]:
        """A transaction. What is checked on both sides of it holds inside it."""
        with ExitStack() as stack:
            if self.is_sqlite:
                self._check_file(create=create)
                if not read_only:
                    stack.enter_context(self.turn())
                    self._check_file(create=create)
            with self.engine().connect() as raw:
                connection = self._with_options(raw, read_only=read_only)
                if not self.is_sqlite:
                    stack.enter_context(postgres.bounded(connection))
                with connection.begin():
                    connection.info["osgt_user"] = (
                        None if self.is_sqlite else postgres.begin(connection, read_only=read_only)
                    )
                    self._prepare(connection, create=create)
                    yield connection
            self._ready = True
            if self.is_sqlite:
                self._check_file_after(read_only=read_only)

    def _check_file_after(self, *, read_only: bool) -> None:
        """Check that what was just written is in the file that is there."""
        try:
            self._check_file(create=False)
        except LedgerError as error:
            if read_only:
                raise
            raise LostAnswerError(f"{error}. What was just written may stand in the file that was there") from error

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Keep other writers of the SQLite file waiting."""
        with ExitStack() as stack:
            try:
                stack.enter_context(turn(f"{self.path}-lock", PATIENCE))
            except TimeoutError:
                raise LedgerError(
                    f"the ledger {self.name} was in use by others for {PATIENCE} seconds. Try again; a process that "
                    "was stopped while it wrote keeps others waiting"
                ) from None
            yield

    def _check_file(self, *, create: bool) -> None:
        """The file must be there, and the same as before: charges to one that was moved away would be lost."""
        try:
            status = self.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            status = None
        except OSError as error:
            raise LedgerError(f"the ledger {self.name} cannot be reached: {error.strerror}") from None
        if status is None and self._file is None:
            if create:
                return
            raise NoLedgerError(
                f"there is no ledger at {self.name}: check the path, or make one by opening a data set in it "
                "(Ledger.open, `osgt ledger open`)"
            )
        now = None if status is None else (status.st_dev, status.st_ino)
        if self._file is None:
            self._file = now
        elif now != self._file:
            raise LedgerError(
                f"the ledger {self.name} was {'removed' if now is None else 'replaced'} while this process used it. "
                "Find out why (see `osgt ledger verify`); then make a new Ledger, or close this one"
            )

    def _with_options(self, connection: sa.Connection, *, read_only: bool) -> sa.Connection:
        if self.is_sqlite:
            return connection.execution_options(osgt_read_only=read_only)
        # Writers are ordered by a lock on the data set; what they read after it must be what the last one committed.
        return connection.execution_options(isolation_level="REPEATABLE READ" if read_only else "READ COMMITTED")

    def _prepare(self, connection: sa.Connection, *, create: bool) -> None:
        """See that there is a ledger of a version that we know."""
        if not self._ready and not sa.inspect(connection).has_table(schema.schema.name):
            if not create:
                raise NoLedgerError(
                    f"{self.name} is a database, but there is no ledger in it: check the address, or make one by "
                    "opening a data set in it (Ledger.open, `osgt ledger open`)"
                )
            schema.create(connection)
        version = int(connection.execute(_VERSION).scalar_one())
        if version != schema.VERSION:
            other = "a newer" if version > schema.VERSION else "an older"
            raise LedgerError(
                f"the ledger {self.name} has schema version {version}, and this version of osgt knows version "
                f"{schema.VERSION}: {other} osgt wrote it. Install that one; nothing was changed"
            )

    def _message_of(self, error: DBAPIError) -> str:
        return " ".join(without_secrets(str(error.orig), self._location).split())

    def _explain(self, error: DBAPIError) -> LedgerError:
        """Explain a failure of the database to whoever wanted to charge a release."""
        return explain(self.name, self._message_of(error), patience=PATIENCE, lock=postgres.LOCK)


def _is_busy(error: DBAPIError) -> bool:
    """Whether SQLite could not lock its file. At COMMIT it does that before it writes: nothing stands then."""
    return getattr(error.orig, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY


def _dispose(engine: sa.Engine, process: int) -> None:
    """Close the connections, in the process that opened them."""
    if os.getpid() == process:
        engine.dispose()


def _sqlite_engine(url: sa.URL) -> sa.Engine:
    engine = sa.create_engine(url, connect_args={"timeout": PATIENCE})

    @sa.event.listens_for(engine, "connect")
    def _connected(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # transactions begin where we say, below
        cursor = connection.cursor()
        # Not a write-ahead log: the file itself holds every committed entry, and so does a copy of it.
        cursor.execute("PRAGMA journal_mode = DELETE")
        # A commit, and the end of its journal, have reached the disk before anything is released.
        cursor.execute("PRAGMA synchronous = EXTRA")
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.close()

    @sa.event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        read_only = connection.get_execution_options().get("osgt_read_only", False)
        # IMMEDIATE: the state on which a charge is decided cannot change before the charge is written.
        connection.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")

    return engine
