"""Ledger: what has been spent of each data set's budget, whatever happens. Each method is carried out elsewhere:

`accounts` reads, checks and appends; `reservation` and `changes` are what can be appended; `headroom` says what still
fits; `history` tells what happened; `snapshot` is for keepers.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from osgt.calibration import Part
from osgt.ledger import changes, snapshot
from osgt.ledger.accounts import Accounts
from osgt.ledger.errors import LedgerError
from osgt.ledger.headroom import Headroom, Plannable, Shape, largest_epsilon
from osgt.ledger.history import Event, Overview, ReleaseRecord, Spending, overview, read_history
from osgt.ledger.instalments import Instalment, Status, hand_out, record_published, standing_series
from osgt.ledger.reservation import NewCharge, Reservation, add_note, check_fits, end_charge
from osgt.ledger.snapshot import Restored, Verification
from osgt.ledger.store import chain, schema
from osgt.ledger.store.database import Database
from osgt.ledger.subject import (
    LONGEST_QUERY,
    Owners,
    Subject,
    Table,
    name_of,
    optional_name,
    optional_text,
    recorded_text,
    text_of,
)
from osgt.privacy import Charge
from osgt.privacy.filters.budget import Partition, new_budget
from osgt.support.errors import KEPT, ArgumentError, Familiar
from osgt.support.numeric import real_number
from osgt.support.text import Displayed, views


class Ledger(Familiar, Displayed):
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
    >>> ledger.spent("flights").more_like_last
    2
    >>> ledger.verify().ok
    True
    >>> ledger.close()
    >>> folder.cleanup()
    """

    _called = "a ledger"
    _advice = KEPT
    _for_users = (
        "open datasets spent remaining how_many overview history events note settle void change_budget change_tables "
        "reserve check verify export backup restore record_loss grants name close"
    )

    def __init__(self, location: str | os.PathLike[str]) -> None:
        self._database = Database(location)
        self._accounts = Accounts(self._database)

    @property
    def name(self) -> str:
        """The place of the ledger: a path, or a URL without its password."""
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
        parts: Mapping[str, str] | None = None,
        max_parts: int = 1,
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
        parts, max_parts
            Disjoint parts of these people, by name, each with the condition on the rows of the first table that makes
            it: `{"north": "region = 'north'", "south": "region = 'south'"}`. Releases about parts are charged as the
            largest of them, or as the two largest for the relation "change_one" (`Dataset.parts`). A unit counts in the
            first `max_parts` parts in which it has rows. They cannot be changed later.
        actor
            Who does it; by default the user and the machine.
        """
        owners, actor = Owners.of(unit, neighbours, tables), optional_name(actor, "actor")
        partition = None
        if parts is not None:
            if owners.neighbours is None:
                raise ArgumentError("unit must be given with parts: who is in one of them alone", argument="unit")
            partition = Partition.of(parts, max_parts, owners.neighbours)
        budget = new_budget(epsilon, delta, composition, selection_share, partition=partition)
        name = name_of(dataset)
        changes.open_dataset(self._accounts, name, budget, owners, actor)

    def change_budget(
        self, dataset: str, *, epsilon: float, delta: float, reason: str, actor: str | None = None
    ) -> str:
        """Set another budget for a data set. The change and its reason are recorded permanently.

        What stands is added up anew under the new budget, whose δ is divided as at the opening. The promise for
        analysts who choose budgets as they go is made for a budget that is fixed beforehand: if answers were seen
        before the change, it does not cover what was released before and after together. The text that is returned
        says so.
        """
        name, actor = name_of(dataset), optional_name(actor, "actor")
        why = recorded_text(reason, "reason", "why the budget is changed")
        return changes.change_budget(self._accounts, name, epsilon=epsilon, delta=delta, reason=why, actor=actor)

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
            Why, and who: recorded permanently.
        """
        changes.change_tables(
            self._accounts,
            name_of(dataset),
            add=[Table.of(table, "add") for table in add],
            changed={name_of(table, "changed") for table in changed},
            reason=optional_text(reason, "reason"),
            actor=optional_name(actor, "actor"),
        )

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
        part: str | None = None,
        parts: Mapping[str, str] | None = None,
        max_parts: int = 1,
        title: str | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
        series: Mapping[str, Any] | None = None,
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
        part, parts, max_parts
            The part of the people whom alone it is about, and how it tells parts apart: must agree with the budget's.
        title, epsilon, delta
            How people may call the release, and the budget that it was asked for with: only told.
        series
            The name and the periods of a series, if the charge is for its instalments. If a series of this name was
            charged before, that charge is returned.

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
        values: dict[str, Any] = {
            "query": text_of(query, "query", LONGEST_QUERY),
            "title": optional_text(title, "title"),
            "epsilon": None if epsilon is None else real_number("epsilon", epsilon, positive=False),
            "delta": None if delta is None else real_number("delta", delta, positive=False),
        }
        if series is not None:
            values["series"] = dict(series)
        subject = Subject.of(unit, neighbours, table, parts, max_parts)
        return NewCharge(self._accounts, name, _about(charge, part), subject, values, actor).reserve()

    def check(
        self,
        dataset: str,
        charge: Charge,
        *,
        unit: str | None = None,
        neighbours: str | None = None,
        table: str | Mapping[str, str | None] | None = None,
        part: str | None = None,
        parts: Mapping[str, str] | None = None,
        max_parts: int = 1,
    ) -> None:
        """Raise what `reserve` would raise now, if it would refuse this charge. Nothing is charged or kept free."""
        subject = Subject.of(unit, neighbours, table, parts, max_parts)
        check_fits(self._accounts, name_of(dataset), _about(charge, part), subject)

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
            Who does it, recorded permanently; by default the user and the machine.

        Returns
        -------
        bool
            False if the entry was settled before: nothing is recorded then.
        """
        name, actor = name_of(dataset), optional_name(actor, "actor")
        values = {"statement_hash": statement_hash, "output": output, "output_hashes": output_hashes}
        return end_charge(self._accounts, name, entry, actor, "settle", values)

    def note(self, dataset: str, entry: int, text: str, *, actor: str | None = None) -> None:
        """Record a remark about a release permanently: where else it went, that it was withdrawn, who was told."""
        name, actor, remark = name_of(dataset), optional_name(actor, "actor"), recorded_text(text, "text", "something")
        add_note(self._accounts, name, entry, remark, actor)

    def hand_out(self, dataset: str, entry: int, period: str, secret: str, *, actor: str | None = None) -> Status:
        """Hand out an instalment of a series to the holder of a secret, once; "published" if it is out.

        Raises HandedOutError if somebody else has it. The holder may ask again.
        """
        return hand_out(self._accounts, name_of(dataset), entry, period, secret, optional_name(actor, "actor"))

    def record_published(
        self, dataset: str, entry: int, period: str, secret: str, told: Mapping[str, Any], *, actor: str | None = None
    ) -> None:
        """Record that an instalment of a series is out: `told` has its output, its hashes and the mark of what is
        remembered."""
        record_published(self._accounts, name_of(dataset), entry, period, secret, told, optional_name(actor, "actor"))

    def instalments(self, dataset: str, series: str) -> tuple[int | None, Mapping[str, Instalment], Charge | None]:
        """The entry of the charge of a series, its instalments by period, and that charge; None where it has none."""
        with self._accounts.lock:
            account = self._accounts.now(name_of(dataset), needs=1)
            entry = standing_series(account, series)
            if entry is None:
                return None, {}, None
            return entry, dict(account.instalments.get(entry, {})), account.charges[entry].charge

    def void(
        self,
        dataset: str,
        entries: Sequence[int],
        *,
        reason: str,
        although_settled: bool = False,
        actor: str | None = None,
    ) -> None:
        """Declare, as the owner, that entries released nothing. What stands is added up anew without them.

        The way out where somebody who may charge has spent a budget for nothing, or has added entries that nobody can
        read. The entries stay where they are; that they are void, why, and who said so is recorded permanently. On
        PostgreSQL only the owner of the tables can do this. A charge of a release that is out, or that is still under
        way, must not be declared void: the budget would be exceeded without anybody knowing.

        Parameters
        ----------
        dataset, entries
            The data set, and the numbers of the entries.
        reason, actor
            How it is known that nothing was released, and who says so: recorded permanently.
        although_settled
            Also a charge of which it was recorded that its release is out, if that is not true.
        """
        name, actor = name_of(dataset), optional_name(actor, "actor")
        why = recorded_text(reason, "reason", "how it is known that nothing was released")
        changes.void(self._accounts, name, list(entries), reason=why, although_settled=although_settled, actor=actor)

    def spent(self, dataset: str) -> Spending:
        """Compute the spending: how much of the budget is used."""
        name = name_of(dataset)
        with self._accounts.lock:
            account = self._accounts.now(name)
            if account.releases and account.last is None:  # it begins after the last release
                account = self._accounts.now(name, needs=1)
            return Spending.of(account)

    def remaining(
        self,
        dataset: str,
        *,
        query: Plannable | None = None,
        delta: float | None = None,
        shift: float = 1,
        coordinates: int = 1,
        parts: Sequence[Part] | None = None,
        selection_share: float = 0.0,
    ) -> float:
        """The largest ε that one more release may use, to about 1.5 percent; 0 if none fits.

        Parameters
        ----------
        dataset
            Name of the data set.
        query
            The query of that release, as `Dataset.group_by` begins it, or a publication. Its plan says the rest.
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
        with self._accounts.lock:
            account = self._accounts.now(name)
            part = None
            if query is not None:
                data = query.dataset
                account.owners.check(name, Subject.of(data.privacy_unit, data.neighbours, data.identity))
                part = data.part_name
            left = Headroom.of(account, part)
        at = left.budget.delta if delta is None else real_number("delta", delta, positive=False)
        if at >= 1:
            raise ArgumentError(f"delta must be below 1, got {delta!r}", argument="delta")
        if query is not None:
            return largest_epsilon(left, Shape.of_query(query, at))
        chosen = tuple(parts) if parts is not None else (Part(shift, coordinates),)
        return largest_epsilon(left, Shape.of(chosen, at, selection_share))

    def how_many(self, dataset: str, charge: Charge, *, most: int = 1000) -> int:
        """Count how many more releases with this charge fit, one after the other; up to `most`."""
        with self._accounts.lock:
            left = Headroom.of(self._accounts.now(name_of(dataset)), charge.part)
        return left.how_many(replace(charge, part=None), most)

    def history(self, dataset: str) -> list[ReleaseRecord]:
        """The releases that were charged, in the order in which they were."""
        return read_history(self._accounts.fetch(name_of(dataset)))[1]

    def events(self, dataset: str) -> list[Event]:
        """List the other events: the opening, changes of the budget and of the tables, restored backups."""
        return read_history(self._accounts.fetch(name_of(dataset)))[2]

    def overview(self, dataset: str) -> Overview:
        """Return `spent`, `history` and `events` together, all from one look at the ledger, and as it is written there.

        Only the chain of hashes is checked: `verify` checks the decisions.
        """
        return overview(self._accounts.fetch(name_of(dataset)))

    def datasets(self) -> list[str]:
        """The names of the data sets, in the order in which they were opened."""
        return [head.name for head in self._database.read(chain.heads)]

    def verify(self, heads: Mapping[str, Any] | None = None) -> Verification:
        """Check every entry and every decision, from the entries alone.

        Parameters
        ----------
        heads
            The "heads" of an earlier `export` or `verify`, kept elsewhere. With them it is also noticed when the last
            entries are missing or all were written anew.
        """
        known = None if heads is None else snapshot.parse_heads(heads)
        return snapshot.verify(self._database.read(snapshot.fetch), known)

    def export(self) -> dict[str, Any]:
        """Export all entries and the heads of the chains, as plain values for JSON."""
        return snapshot.export(self._database.read(snapshot.fetch))

    def backup(self, path: str | os.PathLike[str]) -> Verification:
        """Copy an SQLite ledger to a new file while it is in use, and check the copy."""
        return snapshot.backup(self._database, path)

    def restore(
        self,
        backup: str | os.PathLike[str],
        *,
        heads: Mapping[str, Any] | None = None,
        charges_unknown: bool = False,
        reason: str,
        actor: str | None = None,
    ) -> Restored:
        """Put a backup in the place of this SQLite ledger, and record that in each chain.

        A data set counts as spent from now on if the backup lacks entries that are known of: from the heads, from the
        ledger that is replaced, or from what your own processes have charged. Another ledger is not replaced.

        Parameters
        ----------
        backup
            The file that `backup` made.
        heads
            The latest heads of the ledger that is replaced (`verify`, `export`).
        charges_unknown
            Instead of heads: nobody knows what was charged since the backup. Every data set counts as spent.
        reason, actor
            Why, and who: recorded permanently.

        Returns
        -------
        Restored
            The data sets that count as spent, with the reasons.
        """
        known = None if heads is None else snapshot.parse_heads(heads)
        actor, why = optional_name(actor, "actor"), recorded_text(reason, "reason", "why the ledger is restored")
        with self._accounts.lock:
            self._accounts.forget()
            return snapshot.restore(
                self._database, backup, heads=known, charges_unknown=charges_unknown, reason=why, actor=actor
            )

    def record_loss(self, dataset: str, *, reason: str, actor: str | None = None) -> None:
        """Record that charges of a data set were lost, and why: its budget counts as spent from now on.

        For the owner of a ledger that was put back to an earlier state, or of which a copy was charged.
        """
        name, actor = name_of(dataset), optional_name(actor, "actor")
        why = recorded_text(reason, "reason", "why charges were lost")
        changes.record_loss(self._accounts, name, reason=why, actor=actor)

    @staticmethod
    def grants(role: str, *, charge: bool = True) -> str:
        """SQL that gives a PostgreSQL user the least that it needs: to charge releases and read, or only to read."""
        return schema.grants(role, charge=charge)

    def close(self) -> None:
        """Close the connections to the database. The ledger can be used again afterwards."""
        with self._accounts.lock:
            self._accounts.forget()
            self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Ledger({self.name!r})"

    def __str__(self) -> str:
        """The budgets, and how much of each is used; why not, if the ledger cannot be read."""
        try:
            return str(views().card(self).text())
        except LedgerError as error:
            return f"{self!r}: {error}"


def _about(charge: Charge, part: str | None) -> Charge:
    """The charge of a release about a part of the people."""
    return charge if part is None else replace(charge, part=optional_name(part, "part"))
