"""The accounts that a process has read and checked, and the one way to add an entry to them."""

import threading
from collections.abc import Callable
from contextlib import suppress

import sqlalchemy as sa

from osgt.ledger import book, checkpoint
from osgt.ledger.account import Account, OlderNeededError
from osgt.ledger.book import Head
from osgt.ledger.chain import Entry, damaged
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
        self._places: dict[str, tuple[str, int]] = {}  # of checkpoints: name of the ledger, number of the data set
        self._saved: dict[str, int] = {}  # entries of the last checkpoints

    def forget(self) -> None:
        """Read everything anew next time."""
        for each in (self._known, self._places, self._saved):
            each.clear()

    def now(self, name: str, *, needs: int | None = None) -> Account:
        """The account as it is now, with the charges from the entry `needs` on, at least.

        The transaction only fetches; what it found is checked afterwards.
        """
        account = self._checked(
            lambda whole: self.database.read(lambda c: self._fetch(c, self.head(c, name), whole=whole)), needs
        )
        self._save(account)
        return account

    def brought_up(self, connection: sa.Connection, head: Head, *, needs: int | None = None) -> Account:
        """The account at the head, inside a transaction."""
        return self._checked(lambda whole: self._fetch(connection, head, whole=whole), needs)

    def fetched(self, name: str) -> book.Fetched:
        """All entries of a data set, unchecked."""
        return self.database.read(lambda c: book.fetch(c, self.head(c, name)))

    def append(self, name: str, work: Work, *, needs: int | None = None) -> int | None:
        """Bring the account up to date and append what `work` decides on it, in one transaction.

        `needs`: an earlier entry that `work` looks at.
        """
        with self.lock:
            if name not in self._known:
                self.now(name, needs=needs)  # a long chain is checked before it is locked: nobody has to wait for that

            def locked(connection: sa.Connection) -> Appended | None:
                head = self.head(connection, name, lock=True)
                return work(connection, head, self.brought_up(connection, head, needs=needs))

            result = self.database.write(locked)
            if result is None:
                return None
            entry, state = result
            self._known[name].apply(entry, own=state)
            self._save(self._known[name])
            return entry.sequence

    def append_once(
        self,
        name: str,
        work: Work,
        find: Callable[[Account], int | None],
        lost: LostAnswerError | None = None,
        *,
        needs: int | None = None,
    ) -> int | None:
        """Append what `work` decides on so that it stands once, though answers may be lost; the sequence number.

        `find` is its sequence number, or anything but None, in an account in which it stands.
        """

        def locked(connection: sa.Connection) -> int | None:
            # Locked: an attempt whose answer was lost may still be under way on the server.
            # It may have been written long before: all entries are looked at.
            return find(self.brought_up(connection, self.head(connection, name, lock=True), needs=1))

        def look() -> int | None:
            with self.lock:
                return self.database.write(locked)

        return written_once(lambda: self.append(name, work, needs=needs), look, lost=lost)

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

    def _fetch(self, connection: sa.Connection, head: Head, *, whole: bool) -> tuple[Account | None, book.Fetched]:
        """An account to go on from, if there is one, and the entries after it; `whole`: all of them."""
        name, known = head.name, self._known.get(head.name)
        if name not in self._places:
            self._places[name] = book.ledger_name(connection), head.number
        if whole:
            # Entries that this process has seen cannot disappear.
            if known is not None and not book.is_there(connection, head, known.sequence, known.hash):
                raise damaged(name, f"entry {known.sequence} is gone, or was replaced")
            return None, book.fetch(connection, head)
        if known is None:
            found = checkpoint.load(*self._places[name])
            if found is not None and found.name == name and book.is_there(connection, head, found.sequence, found.hash):
                known = Account(found, is_whole=False)
        return known, book.fetch(connection, head, 0 if known is None else known.sequence)

    def _checked(
        self, fetch: Callable[[bool], tuple[Account | None, book.Fetched]], needs: int | None = None
    ) -> Account:
        """What `fetch` finds, checked: from the first entry on if that is needed."""
        with suppress(OlderNeededError):
            account = self._followed(*fetch(False))
            if needs is None or needs > account.begins_at:
                return account
        return self._followed(*fetch(True))

    def _followed(self, account: Account | None, fetched: book.Fetched) -> Account:
        # If that fails what is known stays: entries which this process has seen cannot disappear.
        account = book.brought_up(account, fetched)
        self._known[fetched.head.name] = account
        return account

    def _save(self, account: Account) -> None:
        """Write a checkpoint if the last one is far behind."""
        if account.sequence - self._saved.get(account.name, account.begins_at) >= checkpoint.EVERY:
            made = account.checkpoint()
            if made is not None:
                checkpoint.save(*self._places[account.name], made)
            self._saved[account.name] = account.sequence
