"""The accounts that a process has read and checked, and the one way to add an entry to them."""

import shlex
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import sqlalchemy as sa

from osgt.ledger.account import Account, OlderNeededError, State, replay
from osgt.ledger.errors import DamagedLedgerError, LedgerError, LostAnswerError
from osgt.ledger.store import chain, checkpoint
from osgt.ledger.store.chain import Entry, Fault, Fetched, Head, faults_of
from osgt.ledger.store.database import Database

#: An entry that was appended, and the state that it leaves where this process computed it; None: nothing to append.
Appended = tuple[Entry, State | None]
Decide = Callable[[sa.Connection, Head, Account], Appended | None]

#: Seconds before each look at what stands after a lost answer: a server that starts again needs some.
PAUSES = (0.0, 0.5, 1.5, 4.0)

#: Times that something is written before we give up, if it is known each time that it does not stand.
_WRITES = 2


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
        for memory in (self._known, self._places, self._saved):
            memory.clear()

    def now(self, name: str, *, needs: int | None = None) -> Account:
        """The account as it is now, with the charges from the entry `needs` on, at least.

        The transaction only fetches; what it found is checked afterwards.
        """
        account = self._check(
            lambda whole: self.database.read(lambda c: self._fetch(c, self.head(c, name), whole=whole)), needs
        )
        self._save(account)
        return account

    def bring_up(self, connection: sa.Connection, head: Head, *, needs: int | None = None) -> Account:
        """The account at the head, inside a transaction."""
        return self._check(lambda whole: self._fetch(connection, head, whole=whole), needs)

    def fetch(self, name: str) -> Fetched:
        """Fetch all entries of a data set, unchecked."""
        return self.database.read(lambda c: chain.fetch(c, self.head(c, name)))

    def append(self, name: str, decide: Decide, *, needs: int | None = None, accepts_loss: bool = False) -> int | None:
        """Bring the account up to date and append what `decide` adds to it, in one transaction; the sequence number.

        `needs`: an earlier entry that `decide` looks at. `accepts_loss`: also to a chain that has lost its end.
        """
        with self.lock:
            if name not in self._known:
                self.now(name, needs=needs)  # a long chain is checked before it is locked: nobody has to wait for that
            seen = self._last_seen(name)

            def locked(connection: sa.Connection) -> Appended | None:
                head = self.head(connection, name, lock=True)
                account = self.bring_up(connection, head, needs=needs)
                if not accepts_loss:
                    self._check_complete(connection, head, account, seen)
                return decide(connection, head, account)

            result = self.database.write(locked)
            if result is None:
                return None
            entry, state = result
            account = self._known[name]
            account.apply(entry, own=state)
            self._see(account)
            self._save(account)
            return entry.sequence

    def check_complete(self, account: Account) -> None:
        """Raise what `append` would raise if entries that this user has seen are gone."""
        seen = self._last_seen(account.name)
        self.database.read(lambda c: self._check_complete(c, self.head(c, account.name), account, seen))

    def append_once(
        self,
        name: str,
        decide: Decide,
        find: Callable[[Account], int | None],
        *,
        lost: LostAnswerError | None = None,
        needs: int | None = None,
    ) -> int | None:
        """Append what `decide` adds so that it stands once, also if answers are lost on the way; the sequence number.

        `find` gives its sequence number in an account in which it stands, and None in others. `lost` is that of an
        earlier call whose end is not known. Raises LostAnswerError if it cannot be found out what stands.
        """
        for _ in range(_WRITES):
            if lost is not None:
                sequence = self._look_for(name, find, lost)
                if sequence is not None:
                    return sequence
            try:
                return self.append(name, decide, needs=needs)
            except LostAnswerError as error:
                lost = error
        assert lost is not None
        sequence = self._look_for(name, find, lost)
        if sequence is None:
            raise lost.otherwise or lost
        return sequence

    def _look_for(self, name: str, find: Callable[[Account], int | None], lost: LostAnswerError) -> int | None:
        """Look for an entry that may have been written."""

        def locked(connection: sa.Connection) -> int | None:
            # Locked: an attempt whose answer was lost may still be under way on the server.
            # It may have been written long before: all entries are looked at.
            return find(self.bring_up(connection, self.head(connection, name, lock=True), needs=1))

        for pause in PAUSES:
            time.sleep(pause)
            try:
                with self.lock:
                    sequence = self.database.write(locked)
                    if sequence is not None:
                        self._see(self._known[name])
                    return sequence
            except LedgerError:
                continue
        raise lost

    def head(self, connection: sa.Connection, name: str, *, lock: bool = False) -> Head:
        """The data set and the end of its chain; `lock`: held against other writers until the transaction ends."""
        head = chain.find(connection, name, lock=lock)
        if head is not None:
            return head
        names = [known.name for known in chain.heads(connection)]
        shown = f"it has {', '.join(map(repr, names[:8]))}" if names else "it has none yet"
        raise ValueError(
            f"the ledger {self.database.name} has no data set {name!r} ({shown}): declare its budget first, with "
            "Ledger.open or `osgt ledger open`"
        )

    def _fetch(self, connection: sa.Connection, head: Head, *, whole: bool) -> tuple[Account | None, Fetched]:
        """Fetch the entries after an account to go on from, if there is one; `whole`: all entries."""
        name, known = head.name, self._known.get(head.name)
        if name not in self._places:
            self._places[name] = chain.ledger_name(connection), head.number
        if whole:
            # Entries that this process has seen cannot disappear.
            if known is not None and not chain.is_there(connection, head, known.sequence, known.hash):
                with faults_of(name):
                    raise Fault(f"entry {known.sequence} is gone, or was replaced")
            return None, chain.fetch(connection, head)
        if known is None:
            start = checkpoint.load(*self._places[name])
            if start and start.name == name and chain.is_there(connection, head, start.sequence, start.hash):
                known = Account(start, is_whole=False)
        return known, chain.fetch(connection, head, 0 if known is None else known.sequence)

    def _check(self, fetch: Callable[[bool], tuple[Account | None, Fetched]], needs: int | None = None) -> Account:
        """Check the entries that `fetch` finds: from the first entry on if that is needed."""
        with suppress(OlderNeededError):
            start, fetched = fetch(False)
            try:
                account = self._replay(start, fetched)
            except DamagedLedgerError:
                if start is None or start.is_whole:
                    raise
                # What is wrong may be the checkpoint: the ledger is judged from its own entries alone.
                return self._replay(*fetch(True))
            if needs is None or needs > account.begins_at:
                return account
        return self._replay(*fetch(True))

    def _replay(self, account: Account | None, fetched: Fetched) -> Account:
        # If that fails what is known stays: entries which this process has seen cannot disappear.
        with faults_of(fetched.head.name):
            account = replay(fetched, account)
        self._known[fetched.head.name] = account
        return account

    def _save(self, account: Account) -> None:
        """Write a checkpoint if the last one is far behind."""
        if account.sequence - self._saved.get(account.name, account.begins_at) >= checkpoint.EVERY:
            made = account.checkpoint()
            if made is not None:
                checkpoint.save(*self._places[account.name], made)
                self._see(account)
            self._saved[account.name] = account.sequence

    def _see(self, account: Account) -> None:
        """Remember the end of a chain, which is committed."""
        ledger, number = self._places[account.name]
        checkpoint.see(ledger, Head(number, account.name, account.sequence, account.hash))

    def _last_seen(self, name: str) -> Head | None:
        """The last entry that this user has seen. Ask before a transaction begins: what it says then is in its view."""
        return checkpoint.last_seen(*self._places[name])

    def _check_complete(self, connection: sa.Connection, head: Head, account: Account, seen: Head | None) -> None:
        """Raise DamagedLedgerError if an entry is gone that this user has seen, unless the budget counts as spent."""
        if seen is None or account.lost is not None or (seen.sequence, seen.hash) == (head.sequence, head.hash):
            return
        if not chain.is_there(connection, head, seen.sequence, seen.hash):
            raise _rolled_back(self.database, head, seen)


def _rolled_back(database: Database, head: Head, seen: Head) -> DamagedLedgerError:
    """The error for a ledger that was put back to an earlier state."""
    here = (
        f"it ends at entry {head.sequence}" if head.sequence < seen.sequence else "it has another entry in that place"
    )
    place, name = shlex.quote(database.name), shlex.quote(head.name)
    later = (
        f"restore it: `osgt ledger restore {place} COPY --heads HEADS --reason …`"
        if database.is_sqlite
        else "restore it with the tools of the server"
    )
    return DamagedLedgerError(
        f"the ledger {database.name} has forgotten charges: your processes have seen entry {seen.sequence} of data set "
        f"{seen.name!r}, and {here}. An older copy was put in its place, or a copy of it was charged. Nothing was "
        f"charged, and nothing may be released. If there is a copy of the later state, {later}. If not, its owner "
        f"records the loss, after which the budget counts as spent: `osgt ledger lost {place} {name} --reason …`"
    )
