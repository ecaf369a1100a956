"""Ledger: what has been spent of each data set's budget, whatever happens."""

import hashlib
import os
from collections.abc import Sequence
from functools import partial
from types import TracebackType
from typing import Any, Self

import sqlalchemy as sa

from osgt.calibrate import Part
from osgt.ledger import book, chain, headroom, verification
from osgt.ledger.account import Account
from osgt.ledger.book import Head
from osgt.ledger.budget import Budget, new_budget
from osgt.ledger.database import Database
from osgt.ledger.decision import decide, figures
from osgt.ledger.errors import BudgetExceeded
from osgt.ledger.records import Release, Spending, releases
from osgt.ledger.reservation import Reservation
from osgt.ledger.schema import datasets, entries
from osgt.ledger.verification import Verification
from osgt.privacy import Charge
from osgt.sampling.entropy import token


class Ledger:
    """The budgets of data sets and all that was charged to them, in a database that survives crashes.

    A release is charged before its data are read, in one transaction that refuses it if the composition of all that
    stands would exceed the budget. Any number of processes, and with PostgreSQL machines, can use a ledger at once.

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
    >>> ledger.open("flights", epsilon=3, delta=1e-6)
    >>> mechanism = Mechanism(epsilon=1, delta=1e-6, coordinates=8)
    >>> reservation = ledger.reserve("flights", Charge(mechanism.profile), query="flights by month")
    >>> reservation.reading()
    >>> noisy = mechanism.release([1204, 87, 0, 3511])
    >>> reservation.settle("hash of what was published")
    >>> round(ledger.spent("flights").epsilon, 3)
    1.0
    >>> ledger.verify().ok
    True
    >>> ledger.close()
    >>> folder.cleanup()
    """

    def __init__(self, location: str | os.PathLike[str]) -> None:
        self._database = Database(location)

    @property
    def name(self) -> str:
        """Where the ledger is: a path, or a URL without its password."""
        return self._database.name

    def open(
        self, dataset: str, *, epsilon: float, delta: float, composition: str = "exact", actor: str | None = None
    ) -> None:
        """Declare the budget of a data set, once. To do it again with the same figures changes nothing.

        Parameters
        ----------
        dataset
            Name of the data set.
        epsilon, delta
            All releases about it together are to be (ε, δ)-differentially private. δ = 0 allows pure noise only.
        composition
            "exact" adds releases up without any loss, which is proved if the noise of each release does not depend on
            what earlier ones showed. "renyi" needs no such condition and takes a little more; it is fixed for ever.
        actor
            Who does it; by default the user and the machine.
        """
        name, budget = book.name_of(dataset), new_budget(epsilon, delta, composition)

        def work(connection: sa.Connection) -> None:
            book.lock_openings(connection)
            head = book.lock(connection, name)
            if head is not None:
                _check_same(name, book.load(connection, head).account.budget, budget)
                return
            number = int(connection.execute(sa.select(sa.func.count()).select_from(datasets)).scalar_one()) + 1
            head = Head(number, name, 0, book.first_link(connection, number))
            connection.execute(datasets.insert().values(number=number, name=name, head_sequence=0, head_hash=head.hash))
            head = book.append(connection, head, "open", {"budget": budget.to_dict()}, actor=actor)
            book.store(connection, head, Account(budget))

        self._database.write(work, create=True)

    def change_budget(
        self, dataset: str, *, epsilon: float, delta: float, reason: str, actor: str | None = None
    ) -> None:
        """Set another budget for a data set. The change and its reason are recorded for ever."""
        name = book.name_of(dataset)
        if not isinstance(reason, str) or not reason.strip():
            raise ValueError("reason must say why the budget is changed: it is recorded for ever")

        def work(connection: sa.Connection) -> None:
            head = self._locked(connection, name)
            old = book.load(connection, head).account.budget
            checked = new_budget(epsilon, delta, old.composition)
            budget = Budget(checked.epsilon, checked.delta, old.composition, old.rate)
            values = {"budget": budget.to_dict(), "reason": reason}
            head = book.append(connection, head, "budget", values, actor=actor)
            # Another budget has another grid. Built here, so that no release has to wait for it.
            book.store(connection, head, book.load(connection, head, anew=True).account)

        self._database.write(work)

    def reserve(self, dataset: str, charge: Charge, *, query: str, actor: str | None = None) -> Reservation:
        """Charge a release, before its data are read.

        Raises
        ------
        BudgetExceeded
            If the composition of all that stands and this charge would exceed the budget. Nothing is charged then.
        """
        name = book.name_of(dataset)
        if not isinstance(charge, Charge):
            raise TypeError(f"charge must be a Charge, got {charge!r}")
        if not isinstance(query, str):
            raise TypeError(f"query must be the text of the query, got {query!r}")
        secret = token(16)

        def work(connection: sa.Connection) -> Head | Account:
            head = self._locked(connection, name)
            loaded = book.load(connection, head)
            decision = decide(loaded.account.charged(head.sequence + 1, charge))
            since = loaded.entries_since + 1
            if decision.worth_rebuilding:
                loaded = book.load(connection, head, anew=True)
                book.store(connection, head, loaded.account)
                decision = decide(loaded.account.charged(head.sequence + 1, charge))
                since = 1
            if not decision.fits:
                return loaded.account
            values = {
                "query": query,
                "charge": charge.to_dict(),
                "token_hash": _hashed(secret),
                "epsilon_after": _finite(decision.epsilon),
                "delta_after": decision.delta,
            }
            head = book.append(connection, head, "charge", values, actor=actor)
            if since > book.FOLD_AFTER:
                book.store(connection, head, decision.account)
            return head

        result = self._database.write(work)
        if isinstance(result, Account):
            # The lock is released: what would fit is looked for at leisure.
            factor = headroom.noise_factor(result, charge)
            message = headroom.refusal(name, result, charge, factor)
            raise BudgetExceeded(message, dataset=name, noise_factor=factor)
        return Reservation(name, result.sequence, charge, secret, partial(self._end, name, result.sequence, actor))

    def _end(self, name: str, sequence: int, actor: str | None, kind: str, values: dict[str, str]) -> None:
        """Settle or cancel the charge with this sequence number."""

        def work(connection: sa.Connection) -> None:
            head = self._locked(connection, name)
            where = (entries.c.dataset == head.number, entries.c.refers_to == sequence)
            ends = connection.execute(sa.select(entries.c.kind).where(*where)).scalars().all()
            if list(ends) == [kind]:
                return  # an earlier attempt was committed, though its answer was lost
            if ends:
                raise ValueError(f"the charge {sequence} of data set {name!r} already has its end: {ends[0]}")
            more: dict[str, Any] = dict(values)
            if kind == "cancel":
                at = (entries.c.dataset == head.number, entries.c.sequence == sequence)
                content = chain.Entry(*connection.execute(sa.select(entries).where(*at)).one()).values
                more["charge"] = content["charge"]
            book.append(connection, head, kind, more, actor=actor, refers_to=sequence)

        self._database.write(work)

    def spent(self, dataset: str) -> Spending:
        """How much of the budget is used: upper bounds on ε at the declared δ and on δ at the declared ε."""
        name = book.name_of(dataset)
        account = self._account(name)
        epsilon, delta = figures(account)
        return Spending(
            name,
            epsilon,
            delta,
            account.budget.epsilon,
            account.budget.delta,
            account.budget.composition,
            account.charges,
        )

    def remaining(
        self,
        dataset: str,
        *,
        delta: float | None = None,
        shift: float = 1,
        coordinates: int = 1,
        parts: Sequence[Part] | None = None,
        selection_share: float = 0.0,
    ) -> float:
        """The largest ε with which one more release of this shape would fit; 0 if none would.

        Parameters
        ----------
        dataset
            Name of the data set.
        delta
            δ of that release; by default the whole δ of the budget.
        shift, coordinates, parts
            The shape, as for `calibrate`: the noise is calibrated to it.
        selection_share
            The share of δ that the choice of the groups to be shown takes.
        """
        name = book.name_of(dataset)
        shape = tuple(parts) if parts is not None else (Part(shift, coordinates),)
        account = self._account(name)
        return headroom.largest_epsilon(account, shape, delta=delta, selection_share=selection_share)

    def history(self, dataset: str) -> list[Release]:
        """The releases that were charged, in the order in which they were."""
        name = book.name_of(dataset)
        return self._database.read(lambda c: releases(list(chain.read_entries(c, self._found(c, name).number))))

    def datasets(self) -> list[str]:
        """The names of the data sets, in the order in which they were opened."""
        return self._database.read(
            lambda c: list(c.execute(sa.select(datasets.c.name).order_by(datasets.c.number)).scalars())
        )

    def verify(self, heads: dict[str, Any] | None = None) -> Verification:
        """Check every entry, the chain, and the stored accounts.

        Parameters
        ----------
        heads
            The "heads" of an earlier `export` or `verify`, kept elsewhere. With them it is also noticed when the last
            entries are missing or all were written anew.
        """
        return self._database.read(lambda connection: verification.verify(connection, heads))

    def export(self) -> dict[str, Any]:
        """All entries and the heads of the chains, as plain values for JSON."""
        return self._database.read(verification.export)

    def close(self) -> None:
        """Close the connections to the database. The ledger can be used again afterwards."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Ledger({self.name!r})"

    def _account(self, name: str) -> Account:
        """The account as it is now, without the losses of cancelled charges."""
        account = self._database.read(lambda c: book.load(c, self._found(c, name)).account)
        if account.cancelled_inside:
            account = self._database.read(lambda c: book.load(c, self._found(c, name), anew=True).account)
        return account

    def _found(self, connection: sa.Connection, name: str) -> Head:
        return self._known(book.find(connection, name), connection, name)

    def _locked(self, connection: sa.Connection, name: str) -> Head:
        return self._known(book.lock(connection, name), connection, name)

    def _known(self, head: Head | None, connection: sa.Connection, name: str) -> Head:
        if head is not None:
            return head
        names = connection.execute(sa.select(datasets.c.name).order_by(datasets.c.number).limit(8)).scalars().all()
        known = f"it has {', '.join(map(repr, names))}" if names else "it has none yet"
        raise ValueError(
            f"the ledger {self.name} has no data set {name!r} ({known}): declare its budget first, with "
            "Ledger.open or `osgt ledger open`"
        )


def _check_same(name: str, old: Budget, new: Budget) -> None:
    figures = (old.epsilon, old.delta, old.composition)
    if figures != (new.epsilon, new.delta, new.composition):
        raise ValueError(
            f"data set {name!r} is open already with ε = {old.epsilon:g}, δ = {old.delta:g} and composition "
            f"{old.composition!r}; asked for were ε = {new.epsilon:g}, δ = {new.delta:g} and {new.composition!r}. To "
            "change the budget, say so and why: Ledger.change_budget, `osgt ledger budget`"
        )


def _hashed(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _finite(value: float) -> float | None:
    return value if value < float("inf") else None
