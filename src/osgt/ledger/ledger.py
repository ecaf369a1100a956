"""Ledger: what has been spent of each data set's budget, whatever happens."""

import hashlib
import os
import shlex
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import sqlalchemy as sa

from osgt.calibration import Part
from osgt.ledger import book, copies, filters, headroom, schema, verification
from osgt.ledger.account import Account
from osgt.ledger.book import Head
from osgt.ledger.budget import Budget, new_budget
from osgt.ledger.chain import Entry
from osgt.ledger.database import Database
from osgt.ledger.errors import BudgetExceeded, LostAnswerError, NoLedgerError
from osgt.ledger.events import Event, events
from osgt.ledger.filters import FilterState
from osgt.ledger.headroom import Headroom
from osgt.ledger.lost import Again, nothing_charged, written_once
from osgt.ledger.overview import overview
from osgt.ledger.planned import Planned
from osgt.ledger.records import Overview, ReleaseRecord, Spending, releases, spending
from osgt.ledger.reservation import Reservation, end_of
from osgt.ledger.schema import datasets
from osgt.ledger.subject import Owners, Subject, Table
from osgt.ledger.texts import LONGEST_QUERY, name_of, optional_name, optional_text, skeleton, text_of
from osgt.ledger.verification import Verification
from osgt.noise.parameters import real_number
from osgt.privacy import Charge
from osgt.sampling.entropy import token

if TYPE_CHECKING:
    from osgt.tables.query import Query

#: What a change of the budget means for the promise, wherever one is made.
AFTER_OUTPUTS = (
    "If answers were seen before this change, the promise for analysts who choose their budgets as they go no longer "
    "covers what was released before and after it together: what stands was added up anew under the new budget"
)

Work = Callable[[sa.Connection, Head, Account], tuple[Entry, "FilterState | Planned | None"] | None]


class Ledger:
    """The budgets of data sets and all that was charged to them, in a database that survives crashes.

    A release is charged before its data are read, in one transaction that refuses it if all that stands would exceed
    the budget. Any number of processes, and with PostgreSQL machines, can use a ledger at once.

    Parameters
    ----------
    location
        Path of an SQLite file, `sqlite:///path`, or `postgresql://user@host/database`. Nothing is created before a
        data set is opened in it.

    Examples
    --------
    >>> import tempfile
    >>> from osgt import Mechanism
    >>> from osgt.privacy import Charge
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = Ledger(f"{folder.name}/budget.db")
    >>> ledger.open("flights", epsilon=3, delta=1e-6, unit="passenger")
    >>> mechanism = Mechanism(epsilon=1, delta=1e-7, coordinates=8)
    >>> charge = Charge(mechanism.profile)
    >>> reservation = ledger.reserve("flights", charge, query="flights by month", unit="passenger")
    >>> reservation.reading()
    >>> noisy = mechanism.release([1204, 87, 0, 3511])
    >>> reservation.settle("hash of what was published")
    >>> ledger.spent("flights").epsilon < 1
    True
    >>> ledger.verify().ok
    True
    >>> ledger.close()
    >>> folder.cleanup()
    """

    def __init__(self, location: str | os.PathLike[str]) -> None:
        self._database = Database(location)
        self._accounts: dict[str, Account] = {}  # what this process has read and checked
        self._lock = threading.RLock()

    @property
    def name(self) -> str:
        """Where the ledger is: a path, or a URL without its password."""
        return self._database.name

    def open(
        self,
        dataset: str,
        *,
        epsilon: float,
        delta: float,
        composition: str = "adaptive",
        selection_share: float | None = None,
        unit: str | None = None,
        neighbours: str | None = None,
        tables: Sequence[str] | Mapping[str, str] | None = None,
        actor: str | None = None,
    ) -> None:
        """Declare the budget of a data set, once. To do it again with the same figures changes nothing.

        Parameters
        ----------
        dataset
            Name of the data set.
        epsilon, delta
            All releases about it together are to be (ε, δ)-differentially private. δ = 0 allows pure noise only.
        composition
            "adaptive" holds for every analyst, who may choose each query and its budget after seeing all earlier
            answers. "planned" adds releases up exactly, and is proved only if the noise of all of them was fixed before
            the first answer was seen. It cannot be changed later.
        selection_share
            Of an adaptive budget the share of δ that is set aside for the choice of groups: 0 where all keys are
            public, 0.2 if not given.
        unit, neighbours, tables
            Whom the budget protects (the privacy unit), the neighbour relation ("add_remove" if a unit is given), and
            the tables that are about these people: names, or `name:column` where the unit's column has another name.
            Releases about others are refused. What is not declared is taken from the first release that says it.
        actor
            Who does it; by default the user and the machine.
        """
        name, budget = name_of(dataset), new_budget(epsilon, delta, composition, selection_share)
        owners, actor = Owners.of(unit, neighbours, tables), optional_name(actor, "actor")

        def work(connection: sa.Connection) -> None:
            book.lock_openings(connection)
            head = book.find(connection, name)
            if head is not None:
                _check_same(self._brought_up(connection, head), budget, owners)
                return
            known = book.heads(connection)
            _check_look(name, [head.name for head in known])
            number = len(known) + 1
            head = Head(number, name, 0, book.first_link(connection, number))
            connection.execute(datasets.insert().values(number=number, name=name, head_sequence=0, head_hash=head.hash))
            state = None if budget.shares is None else FilterState.start(budget.shares).to_dict()
            values = {"budget": budget.to_dict(), "owners": owners.to_dict(), "state": state}
            book.append(connection, head, "open", values, actor=actor)

        with self._lock:
            # Who may only charge, or read, can ask for what is there.
            if not self._is_open(name, budget, owners):
                self._database.write(work, create=True)

    def _is_open(self, name: str, budget: Budget, owners: Owners) -> bool:
        """Whether a data set is open, with these figures: others are refused."""
        try:
            if self._database.read(lambda c: book.find(c, name)) is None:
                return False
        except NoLedgerError:
            return False
        _check_same(self._account(name), budget, owners)
        return True

    def change_budget(
        self, dataset: str, *, epsilon: float, delta: float, reason: str, actor: str | None = None
    ) -> str:
        """Set another budget for a data set. The change and its reason are recorded for ever.

        What stands is added up anew under the new budget, whose δ is divided as at the opening. The promise for
        analysts who choose budgets as they go is made for a budget that is fixed beforehand: if answers were seen
        before the change, it does not cover what was released before and after together. The text that is returned
        says so.
        """
        name, actor = name_of(dataset), optional_name(actor, "actor")
        why = text_of(reason, "reason")
        if not why.strip():
            raise ValueError("reason must say why the budget is changed: it is recorded for ever")
        prepared: list[tuple[int, Budget, FilterState | None]] = []

        def changed(account: Account) -> tuple[Budget, FilterState | None]:
            old = account.budget
            budget = new_budget(epsilon, delta, old.composition, old.selection_share)
            return budget, account.rebudgeted(budget)

        def work(connection: sa.Connection, head: Head, account: Account) -> tuple[Entry, FilterState | Planned | None]:
            # Prepared before the data set was locked, unless others were quicker.
            at, budget, state = prepared[0]
            if at != account.sequence:
                budget, state = changed(account)
            values = {
                "budget": budget.to_dict(),
                "reason": why,
                "state": None if state is None else state.to_dict(),
                "after_outputs": account.releases > 0,
            }
            return book.append(connection, head, "budget", values, actor=actor), state

        with self._lock:
            account = self._account(name)
            prepared.append((account.sequence, *changed(account)))
            seen = account.releases > 0
            self._append(name, work)
        return AFTER_OUTPUTS if seen else "Nothing was released before this change"

    def change_tables(
        self,
        dataset: str,
        *,
        add: Sequence[str] = (),
        changed: Sequence[str] = (),
        reason: str | None = None,
        actor: str | None = None,
    ) -> None:
        """Say that further tables are about the same people, or that the columns of a table have changed.

        Parameters
        ----------
        dataset
            Name of the data set.
        add
            Tables that share the budget from now on: names, or `name:column` where the unit's column has another name.
        changed
            Tables whose columns have other names or types than before: the next release of each is taken as it is.
        reason, actor
            Why, and who: recorded for ever.
        """
        name, actor, why = name_of(dataset), optional_name(actor, "actor"), optional_text(reason, "reason")
        new = [Table.of(table, "add") for table in add]
        other = {name_of(table, "changed") for table in changed}
        if not new and not other:
            raise ValueError("add or changed must name a table")

        def work(connection: sa.Connection, head: Head, account: Account) -> tuple[Entry, None]:
            known = {table.name: table for table in account.owners.tables}
            missing = other - set(known)
            if missing:
                raise ValueError(f"changed: data set {name!r} has no table {', '.join(sorted(missing))}")
            for table in new:
                if table.name in known:
                    raise ValueError(f"add: data set {name!r} has the table {table.name!r} already")
            kept = [
                Table(table.name, table.unit, None if table.name in other else table.schema, table.source)
                for table in known.values()
            ]
            values = {"tables": [table.to_dict() for table in (*kept, *new)], "reason": why}
            return book.append(connection, head, "tables", values, actor=actor), None

        with self._lock:
            self._append(name, work)

    def reserve(
        self,
        dataset: str,
        charge: Charge,
        *,
        query: str,
        actor: str | None = None,
        unit: str | None = None,
        neighbours: str | None = None,
        table: str | Mapping[str, str | None] | None = None,
        title: str | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
    ) -> Reservation:
        """Charge a release, before its data are read.

        Parameters
        ----------
        dataset, charge
            The data set, and what the release takes out of its budget.
        query
            The text of the query. Whoever may read the ledger can read it.
        actor
            Who does it; by default the user and the machine.
        unit, neighbours, table
            What the release is about, as far as it is known: must agree with the budget's. `table` is a name, or a
            mapping with name, schema (a fingerprint of its columns) and source.
        title, epsilon, delta
            How people may call the release, and the budget that it was asked for with: only told.

        Raises
        ------
        BudgetExceeded
            If all that stands and this charge would exceed the budget. Nothing is charged then.
        OtherSubjectError
            If the release is about others than the budget is for. Nothing is charged then.
        LostAnswerError
            If it could not be found out whether the charge stands. `LostAnswerError.reserve` tries again later and
            does not charge twice.
        """
        name, actor = name_of(dataset), optional_name(actor, "actor")
        if not isinstance(charge, Charge):
            raise TypeError(f"charge must be a Charge, got {charge!r}")
        subject = Subject.of(unit, neighbours, table)
        secret = token(16)
        values: dict[str, Any] = {
            "query": text_of(query, "query", LONGEST_QUERY),
            "title": optional_text(title, "title"),
            "epsilon": None if epsilon is None else real_number("epsilon", epsilon, positive=False),
            "delta": None if delta is None else real_number("delta", delta, positive=False),
            "charge": charge.to_dict(),
            "subject": subject.to_dict(),
            "token_hash": _hashed(secret),
        }
        refused: list[Headroom] = []

        def work(
            connection: sa.Connection, head: Head, account: Account
        ) -> tuple[Entry, FilterState | Planned | None] | None:
            account.owners.check(name, subject)
            state = account.charged(charge)
            if state is None:
                refused.append(Headroom.of(account))
                return None
            after: dict[str, Any]
            if isinstance(state, Planned):
                after = {"state": None, "share": min(state.figures()[0] / account.budget.epsilon, 1.0)}
            else:
                assert account.budget.shares is not None
                after = {"state": state.to_dict(), "share": filters.spent(state, account.budget.shares).share}
            return book.append(connection, head, "charge", {**values, **after}, actor=actor), state

        def reserved(lost: LostAnswerError | None = None) -> Reservation:
            try:
                with nothing_charged():
                    sequence = self._append_once(name, work, partial(_charged_with, values["token_hash"]), lost)
            except LostAnswerError as error:
                told = str(error) if error is lost else self._may_stand(name, error)
                raise LostAnswerError(told, again=Again(reserved)) from error
            if sequence is None:
                # The lock is released: what would fit is looked for at leisure.
                factor = headroom.noise_factor(refused[-1], charge)
                message = headroom.refusal(name, refused[-1], charge, factor)
                raise BudgetExceeded(message, dataset=name, noise_factor=factor)
            return Reservation(name, sequence, charge, secret, partial(self._end, name, sequence, actor))

        return reserved()

    def _may_stand(self, name: str, error: LostAnswerError) -> str:
        reason = str(error).rstrip(".")
        show = f"osgt ledger show {shlex.quote(self.name)} {shlex.quote(name)}"
        return f"{reason}. The charge may stand: see `{show}`. Nothing was read, and nothing may be released."

    def settle(
        self,
        dataset: str,
        entry: int,
        *,
        statement_hash: str | None = None,
        output: str | None = None,
        output_hashes: Sequence[str] = (),
        actor: str | None = None,
    ) -> bool:
        """Record that the release of an entry is out, when its own process could not. Changes no budget.

        Parameters
        ----------
        dataset, entry
            The data set, and the number of the charge's entry.
        statement_hash, output, output_hashes
            The hash of the statement, where the output went, and the SHA-256 hashes of its files, as far as known.
        actor
            Who does it, recorded for ever; by default the user and the machine.

        Returns
        -------
        bool
            False if the entry was settled before: nothing is recorded then.
        """
        name, actor = name_of(dataset), optional_name(actor, "actor")
        return self._end(name, entry, actor, "settle", end_of(statement_hash, output, output_hashes))

    def note(self, dataset: str, entry: int, text: str, *, actor: str | None = None) -> None:
        """Record a remark about a release for ever: where else it went, that it was withdrawn, who was told."""
        name, actor, remark = name_of(dataset), optional_name(actor, "actor"), text_of(text, "text")
        if not remark.strip():
            raise ValueError("text must say something: it is recorded for ever")

        def work(connection: sa.Connection, head: Head, account: Account) -> tuple[Entry, None]:
            _check_charge(account, entry)
            return book.append(connection, head, "note", {"text": remark}, actor=actor, refers_to=entry), None

        with self._lock:
            self._append(name, work)

    def _end(self, name: str, sequence: int, actor: str | None, kind: str, values: dict[str, Any]) -> bool:
        """Settle or cancel the charge with this sequence number; False if that was done before."""
        before: list[bool] = []

        def work(
            connection: sa.Connection, head: Head, account: Account
        ) -> tuple[Entry, FilterState | Planned | None] | None:
            _check_charge(account, sequence)
            end = account.ends.get(sequence)
            if end == kind:
                before.append(True)
                return None  # an earlier attempt was committed, though its answer was lost
            if end is not None:
                raise ValueError(f"the charge {sequence} of data set {name!r} already has its end: {end}")
            more = dict(values)
            state = None
            if kind == "cancel":
                if _hashed(str(values["token"])) != account.charges[sequence].token_hash:
                    raise ValueError(f"the charge {sequence} of data set {name!r} can be cancelled by its owner only")
                state = account.cancelled(sequence)
                more["state"] = None if state is None else state.to_dict()
            return book.append(connection, head, kind, more, actor=actor, refers_to=sequence), state

        self._append_once(name, work, lambda account: sequence if account.ends.get(sequence) == kind else None)
        return not before

    def spent(self, dataset: str) -> Spending:
        """How much of the budget is used."""
        name = name_of(dataset)
        with self._lock:
            account = self._account(name)
            room, owners = Headroom.of(account), account.owners
        return spending(name, room, owners)

    def remaining(
        self,
        dataset: str,
        *,
        query: "Query | None" = None,
        delta: float | None = None,
        shift: float = 1,
        coordinates: int = 1,
        parts: Sequence[Part] | None = None,
        selection_share: float = 0.0,
    ) -> float:
        """The largest ε that one more release may use, to about half a percent; 0 if none fits.

        Parameters
        ----------
        dataset
            Name of the data set.
        query
            The query of that release, as `Dataset.group_by` begins it. Its plan says the rest.
        delta
            δ of that release; by default the whole δ of the budget.
        shift, coordinates, parts
            Instead of a query the shape, as for `calibrate`: the noise is calibrated to it.
        selection_share
            With a shape, the share of that δ that the choice of the groups to be shown takes.
        """
        name = name_of(dataset)
        if query is not None and (parts is not None or (shift, coordinates, selection_share) != (1, 1, 0)):
            raise ValueError("query has a shape of its own: leave out shift, coordinates, parts and selection_share")
        with self._lock:
            account = self._account(name)
            if query is not None:
                data = query.dataset
                account.owners.check(name, Subject.of(data.privacy_unit, data.neighbours, data.identity))
            room = Headroom.of(account)
        budget_delta = room.budget.delta if delta is None else real_number("delta", delta, positive=False)
        if budget_delta >= 1:
            raise ValueError(f"delta must be below 1, got {delta!r}")
        if query is not None:
            planned = query
            return headroom.largest_epsilon(
                room, lambda epsilon: planned.plan(epsilon=epsilon, delta=budget_delta).charge, budget_delta
            )
        shape = tuple(parts) if parts is not None else (Part(shift, coordinates),)
        charge_at = headroom.charge_of(shape, budget_delta, selection_share)
        return headroom.largest_epsilon(room, charge_at, budget_delta)

    def how_many(self, dataset: str, charge: Charge, *, most: int = 1000) -> int:
        """How many more releases with this charge fit, one after the other; counted up to `most`."""
        with self._lock:
            room = Headroom.of(self._account(name_of(dataset)))
        return headroom.how_many(room, charge, most)

    def history(self, dataset: str) -> list[ReleaseRecord]:
        """The releases that were charged, in the order in which they were."""
        return releases(self._entries(name_of(dataset)))

    def events(self, dataset: str) -> list[Event]:
        """What else happened: the opening, changes of the budget and of the tables, restored backups."""
        return events(self._entries(name_of(dataset)))

    def overview(self, dataset: str) -> Overview:
        """What `spent`, `history` and `events` tell, all from one look at the ledger, and as it is written there.

        Only the chain of hashes is checked: `verify` checks the decisions.
        """
        name = name_of(dataset)
        return overview(self._database.read(lambda c: book.fetch(c, self._known(book.find(c, name), c, name))))

    def datasets(self) -> list[str]:
        """The names of the data sets, in the order in which they were opened."""
        return [head.name for head in self._database.read(book.heads)]

    def verify(self, heads: Mapping[str, Any] | None = None) -> Verification:
        """Check every entry and every decision, from the entries alone.

        Parameters
        ----------
        heads
            The "heads" of an earlier `export` or `verify`, kept elsewhere. With them it is also noticed when the last
            entries are missing or all were written anew.
        """
        known = None if heads is None else verification.checked_heads(heads)
        return verification.verify(self._database.read(verification.fetch), known)

    def export(self) -> dict[str, Any]:
        """All entries and the heads of the chains, as plain values for JSON."""
        return verification.exported(self._database.read(verification.fetch))

    def backup(self, path: str | os.PathLike[str]) -> Verification:
        """Copy an SQLite ledger to a new file while it is in use, and check the copy."""
        return copies.backup(self._database, path)

    def restore(
        self,
        backup: str | os.PathLike[str],
        *,
        heads: Mapping[str, Any] | None = None,
        charges_unknown: bool = False,
        reason: str,
        actor: str | None = None,
    ) -> list[str]:
        """Put a backup in the place of this SQLite ledger, and record that in each chain.

        Parameters
        ----------
        backup
            The file that `backup` made.
        heads
            The latest heads of the ledger that is replaced (`verify`, `export`). A data set for which they show entries
            that the backup lacks counts as spent from now on.
        charges_unknown
            Instead of heads: nobody knows what was charged since the backup. Every data set counts as spent.
        reason, actor
            Why, and who: recorded for ever.

        Returns
        -------
        list of str
            The data sets that count as spent.
        """
        known = None if heads is None else verification.checked_heads(heads)
        actor, why = optional_name(actor, "actor"), text_of(reason, "reason")
        with self._lock:
            self._accounts.clear()
            return copies.restore(
                self._database, backup, heads=known, charges_unknown=charges_unknown, reason=why, actor=actor
            )

    @staticmethod
    def grants(role: str, *, charge: bool = True) -> str:
        """SQL that gives a PostgreSQL user the least that it needs: to charge releases and read, or only to read."""
        return schema.grants(role, charge=charge)

    def close(self) -> None:
        """Close the connections to the database. The ledger can be used again afterwards."""
        with self._lock:
            self._accounts.clear()
            self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Ledger({self.name!r})"

    def _append_once(
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
            head = self._known(book.find(connection, name, lock=True), connection, name)
            return find(self._brought_up(connection, head))

        def write() -> int | None:
            with self._lock:
                return self._append(name, work)

        def look() -> int | None:
            with self._lock:
                return self._database.write(locked)

        return written_once(write, look, lost=lost)

    def _append(self, name: str, work: Work) -> int | None:
        """Bring the account up to date and append what `work` decides on it, in one transaction."""
        self._account_if_new(name)

        def locked(connection: sa.Connection) -> tuple[Entry, Any] | None:
            head = self._known(book.find(connection, name, lock=True), connection, name)
            return work(connection, head, self._brought_up(connection, head))

        result = self._database.write(locked)
        if result is None:
            return None
        entry, state = result
        self._accounts[name].apply(entry, own=state)
        return entry.sequence

    def _account_if_new(self, name: str) -> None:
        """Read and check a long chain before it is locked, so that nobody has to wait for that."""
        if name not in self._accounts:
            self._account(name)

    def _account(self, name: str) -> Account:
        """The account as it is now. The transaction only fetches; what it found is checked afterwards."""
        after = self._accounts[name].sequence if name in self._accounts else 0
        fetched = self._database.read(lambda c: book.fetch(c, self._known(book.find(c, name), c, name), after))
        return self._checked(fetched)

    def _brought_up(self, connection: sa.Connection, head: Head) -> Account:
        after = self._accounts[head.name].sequence if head.name in self._accounts else 0
        return self._checked(book.fetch(connection, head, after))

    def _checked(self, fetched: book.Fetched) -> Account:
        name = fetched.head.name
        # If that fails the account stays as it was, so that entries which this process has seen cannot disappear.
        account = book.brought_up(self._accounts.get(name), fetched)
        self._accounts[name] = account
        return account

    def _entries(self, name: str) -> list[Entry]:
        return self._database.read(lambda c: book.fetch(c, self._known(book.find(c, name), c, name))).entries

    def _known(self, head: Head | None, connection: sa.Connection, name: str) -> Head:
        if head is not None:
            return head
        names = [known.name for known in book.heads(connection)]
        shown = f"it has {', '.join(map(repr, names[:8]))}" if names else "it has none yet"
        raise ValueError(
            f"the ledger {self.name} has no data set {name!r} ({shown}): declare its budget first, with "
            "Ledger.open or `osgt ledger open`"
        )


def _check_same(account: Account, new: Budget, owners: Owners) -> None:
    """Opening again must ask for what is there."""
    old, name = account.budget, account.name
    if old != new:
        raise ValueError(
            f"data set {name!r} is open already with {_shown(old)}; asked for was {_shown(new)}. To change the budget, "
            "say so and why: Ledger.change_budget, `osgt ledger budget`"
        )
    now = account.owners
    if owners.unit not in (None, now.unit) or (owners.unit and owners.neighbours != now.neighbours):
        raise ValueError(
            f"data set {name!r} is open already for the unit {now.unit!r} and the relation {now.neighbours!r}; asked "
            f"for were {owners.unit!r} and {owners.neighbours!r}. Open another budget for them"
        )
    missing = {table.name for table in owners.tables} - {table.name for table in now.tables}
    if missing:
        raise ValueError(
            f"data set {name!r} is open already without the tables {', '.join(map(repr, sorted(map(str, missing))))}. "
            "If they are about the same people, add them: Ledger.change_tables, `osgt ledger table`"
        )


def _shown(budget: Budget) -> str:
    share = "" if budget.selection_share is None else f", selection share {budget.selection_share:g}"
    return f"ε = {budget.epsilon:g}, δ = {budget.delta:g} and composition {budget.composition!r}{share}"


def _check_look(name: str, others: list[str]) -> None:
    """Names that people cannot tell apart would be two budgets for what they take for one."""
    for other in others:
        if skeleton(other) == skeleton(name):
            raise ValueError(
                f"dataset: {name!r} looks like {other!r}, which is open already (they differ in case, width or letters "
                "of another script). Use that one, or a name that can be told apart"
            )


def _charged_with(token_hash: str, account: Account) -> int | None:
    """The sequence number of the charge with this token, if it stands."""
    return next((number for number, one in account.charges.items() if one.token_hash == token_hash), None)


def _check_charge(account: Account, sequence: int) -> None:
    if sequence not in account.charges:
        raise ValueError(
            f"entry {sequence!r} of data set {account.name!r} is not a release; `osgt ledger show` lists their numbers"
        )


def _hashed(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
