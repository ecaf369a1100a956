"""The accounts that a process has read and checked, and the one way to add an entry to them."""

import threading
from collections.abc import Callable

import sqlalchemy as sa

from osgt.ledger import book
from osgt.ledger.account import Account
from osgt.ledger.book import Head
from osgt.ledger.chain import Entry
from osgt.ledger.database import Database
from osgt.ledger.errors import LostAnswerError
from osgt.ledger.filter_state import FilterState
from osgt.ledger.lost import written_once
from osgt.ledger.planned import Planned

#: An entry that was appended, and the state that it leaves where this process computed it; None: nothing to append.
Appended = tuple[Entry, FilterState | Planned | None]
Work = Callable[[sa.Connection, Head, Account], Appended | None]


class Accounts:
    """The data sets of a ledger as this process knows them, brought up to date before each use.

    Hold `lock` while an account is used: other threads may bring it up to date.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        self.lock = threading.RLock()
        self._known: dict[str, Account] = {}

    def forget(self) -> None:
        """Read everything anew next time."""
        self._known.clear()

    def now(self, name: str) -> Account:
        """The account as it is now. The transaction only fetches; what it found is checked afterwards."""
        after = self._known[name].sequence if name in self._known else 0
        return self._checked(self.database.read(lambda c: book.fetch(c, self.head(c, name), after)))

    def brought_up(self, connection: sa.Connection, head: Head) -> Account:
        """The account at the head, inside a transaction."""
        after = self._known[head.name].sequence if head.name in self._known else 0
        return self._checked(book.fetch(connection, head, after))

    def fetched(self, name: str) -> book.Fetched:
        """All entries of a data set, unchecked."""
        return self.database.read(lambda c: book.fetch(c, self.head(c, name)))

    def append(self, name: str, work: Work) -> int | None:
        """Bring the account up to date and append what `work` decides on it, in one transaction."""
        with self.lock:
            if name not in self._known:
                self.now(name)  # a long chain is checked before it is locked, so that nobody has to wait for that

            def locked(connection: sa.Connection) -> Appended | None:
                head = self.head(connection, name, lock=True)
                return work(connection, head, self.brought_up(connection, head))

            result = self.database.write(locked)
            if result is None:
                return None
            entry, state = result
            self._known[name].apply(entry, own=state)
            return entry.sequence

    def append_once(
        self,
        name: str,
        work: Work,
        find: Callable[[Account], int | None],
        lost: LostAnswerError | None = None,
    ) -> int | None:
        """Append what `work` decides on so that it stands once, though answers may be lost; the sequence number.

        `find` is its sequence number, or anything but None, in an account in which it stands.
        """

        def locked(connection: sa.Connection) -> int | None:
            # Locked: an attempt whose answer was lost may still be under way on the server.
            return find(self.brought_up(connection, self.head(connection, name, lock=True)))

        def look() -> int | None:
            with self.lock:
                return self.database.write(locked)

        return written_once(lambda: self.append(name, work), look, lost=lost)

    def head(self, connection: sa.Connection, name: str, *, lock: bool = False) -> Head:
        """The data set and the end of its chain; `lock`: held against other writers until the transaction ends."""
        head = book.find(connection, name, lock=lock)
        if head is not None:
            return head
        names = [known.name for known in book.heads(connection)]
        shown = f"it has {', '.join(map(repr, names[:8]))}" if names else "it has none yet"
        raise ValueError(
            f"the ledger {self.database.name} has no data set {name!r} ({shown}): declare its budget first, with "
            "Ledger.open or `osgt ledger open`"
        )

    def _checked(self, fetched: book.Fetched) -> Account:
        name = fetched.head.name
        # If that fails the account stays as it was, so that entries which this process has seen cannot disappear.
        account = book.brought_up(self._known.get(name), fetched)
        self._known[name] = account
        return account
