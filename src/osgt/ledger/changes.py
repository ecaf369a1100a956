"""A budget is opened once, changed, given tables and ended. Reasons are recorded permanently.

Whose budget it is, and for which tables, is declared here too.
"""

from collections.abc import Sequence, Set
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from osgt.ledger.account import Account, replay
from osgt.ledger.accounts import Accounts, Appended
from osgt.ledger.errors import LedgerError, NoLedgerError
from osgt.ledger.store import chain
from osgt.ledger.store.chain import Head, faults_of
from osgt.ledger.store.schema import OWNERS_KINDS, datasets
from osgt.ledger.subject import Owners, Table, skeleton
from osgt.privacy.filters import parts
from osgt.privacy.filters.budget import Budget, new_budget
from osgt.privacy.filters.parts import States
from osgt.support.errors import ArgumentError


def open_dataset(accounts: Accounts, name: str, budget: Budget, owners: Owners, actor: str | None) -> None:
    """Declare a budget. If the data set is open with the same figures nothing changes; others are refused."""

    def work(connection: sa.Connection) -> None:
        chain.lock_openings(connection)
        head = chain.find(connection, name)
        if head is not None:
            _check_same(accounts.bring_up(connection, head), budget, owners)
            return
        known = chain.heads(connection)
        _check_look(name, [head.name for head in known])
        number = len(known) + 1
        head = Head(number, name, 0, chain.first_link(connection, number))
        connection.execute(datasets.insert().values(number=number, name=name, head_sequence=0, head_hash=head.hash))
        state = None if budget.shares is None else parts.start(budget.partition, budget.shares).to_dict()
        values = {"budget": budget.to_dict(), "owners": owners.to_dict(), "state": state}
        chain.append(connection, head, "open", values, actor=actor)

    with accounts.lock:
        # Who may only charge, or read, can ask for what is there.
        if not _is_open(accounts, name, budget, owners):
            accounts.database.write(work, create=True)


def _is_open(accounts: Accounts, name: str, budget: Budget, owners: Owners) -> bool:
    """Whether a data set is open, with these figures: others are refused."""
    try:
        if accounts.database.read(lambda c: chain.find(c, name)) is None:
            return False
    except NoLedgerError:
        return False
    _check_same(accounts.now(name), budget, owners)
    return True


def _check_same(account: Account, new: Budget, owners: Owners) -> None:
    """Refuse to open a data set again with another budget, unit, relation or tables than it has."""
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
    names = "" if budget.partition is None else f", parts {', '.join(budget.partition.names)} by their conditions"
    return f"ε = {budget.epsilon:g}, δ = {budget.delta:g} and composition {budget.composition!r}{share}{names}"


def _check_look(name: str, others: list[str]) -> None:
    """Refuse a name that people cannot tell from another: it would be a second budget for what they take for one."""
    for other in others:
        if skeleton(other) == skeleton(name):
            raise ArgumentError(
                f"dataset: {name!r} looks like {other!r}, which is open already (they differ in case, width or letters "
                "of another script). Use that one, or a name that can be told apart",
                argument="dataset",
            )


#: How often what is prepared is prepared again because others were quicker.
_ATTEMPTS = 5

#: What a change of the budget means for the promise, wherever one is made.
AFTER_OUTPUTS = (
    "If answers were seen before this change, the promise for analysts who choose their budgets as they go no longer "
    "covers what was released before and after it together: what stands was added up anew under the new budget"
)


def change_budget(
    accounts: Accounts, name: str, *, epsilon: float, delta: float, reason: str, actor: str | None
) -> str:
    """Set another budget and add up anew what stands; what that means for the promise."""

    def changed(account: Account) -> tuple[Budget, States | None]:
        old = account.budget
        budget = new_budget(epsilon, delta, old.composition, old.selection_share, partition=old.partition)
        return budget, account.state_under(budget)

    with accounts.lock:
        account = accounts.now(name, needs=1)
        seen, prepared_at, prepared = account.releases > 0, account.sequence, changed(account)

        def work(connection: sa.Connection, head: Head, account: Account) -> Appended:
            # Prepared before the data set was locked, unless others were quicker.
            budget, state = prepared if prepared_at == account.sequence else changed(account)
            values = {
                "budget": budget.to_dict(),
                "reason": reason,
                "state": None if state is None else state.to_dict(),
                "after_outputs": account.releases > 0,
            }
            return chain.append(connection, head, "budget", values, actor=actor), state

        accounts.append(name, work, needs=1)
    return AFTER_OUTPUTS if seen else "Nothing was released before this change"


def void(
    accounts: Accounts, name: str, numbers: Sequence[int], *, reason: str, although_settled: bool, actor: str | None
) -> None:
    """Declare that entries released nothing, and add up anew what stands without them."""
    if not numbers or any(type(number) is not int for number in numbers):
        raise ValueError(f"entries must be the numbers of entries, got {numbers!r}; `osgt ledger show` lists them")
    named = frozenset(numbers)
    for _ in range(_ATTEMPTS):
        with accounts.lock:
            fetched = accounts.fetch(name)
            _check_can_be_void(fetched, named)
            end = chain.end_of(fetched.head, fetched.entries)
            left_out = [entry for entry in fetched.entries if entry.sequence > fetched.head.sequence]
            values = _without(fetched, end, named, although_settled=although_settled)
            values["reason"] = reason

            def work(connection: sa.Connection) -> bool:
                if accounts.head(connection, name, lock=True) != fetched.head:  # noqa: B023 - it is called here
                    return False
                for entry in left_out:  # noqa: B023
                    chain.move_head(connection, entry)
                chain.append(connection, end, "budget", values, actor=actor)  # noqa: B023
                return True

            done = accounts.database.write(work)
            accounts.forget()
        if done:
            return
    raise LedgerError(f"others added entries to {name!r} again and again meanwhile. Nothing was changed: try again")


def _check_can_be_void(fetched: chain.Fetched, numbers: Set[int]) -> None:
    """Refuse what is not there, what is void already, and what only the owner can have added."""
    kinds = {entry.sequence: entry.kind for entry in fetched.entries}
    before = chain.find_voided(fetched.entries)
    for number in sorted(numbers):
        if number not in kinds:
            raise ValueError(f"data set {fetched.head.name!r} has no entry {number}; its last one is {max(kinds)}")
        if number in before:
            raise ValueError(f"entry {number} of data set {fetched.head.name!r} was declared void before")
        if kinds[number] in OWNERS_KINDS:
            raise ValueError(
                f"entry {number} of data set {fetched.head.name!r} is the owner's own ({kinds[number]}) and cannot be "
                "void: change the budget or the tables back (`osgt ledger budget`, `osgt ledger table`)"
            )


def _without(fetched: chain.Fetched, end: Head, numbers: Set[int], *, although_settled: bool) -> dict[str, Any]:
    """Make the content of the entry that declares others void."""
    with faults_of(end.name):
        account = replay(replace(fetched, head=end), voided=numbers)
    settled = sorted(number for number in numbers if account.ends.get(number) == "settle")
    if settled and not although_settled:
        raise ValueError(
            f"entry {settled[0]} of data set {end.name!r} was settled: somebody has recorded that its release is out. "
            "Only if that is not true, say so: although_settled (--although-settled)"
        )
    account.declare_void(numbers)
    state = account.state_under(account.budget)
    return {
        "budget": account.budget.to_dict(),
        "state": None if state is None else state.to_dict(),
        "after_outputs": False,
        "void": sorted(numbers),
    }


def change_tables(
    accounts: Accounts, name: str, *, add: list[Table], changed: set[str], reason: str | None, actor: str | None
) -> None:
    """Add tables about the same people; take the columns of `changed` from their next release."""
    if not add and not changed:
        raise ValueError("add or changed must name a table")

    def work(connection: sa.Connection, head: Head, account: Account) -> Appended:
        known = {table.name: table for table in account.owners.tables}
        missing = changed - set(known)
        if missing:
            raise ArgumentError(
                f"changed: data set {name!r} has no table {', '.join(sorted(missing))}", argument="changed"
            )
        for table in add:
            if table.name in known:
                raise ArgumentError(f"add: data set {name!r} has the table {table.name!r} already", argument="add")
        kept = [replace(table, schema=None, types={}) if table.name in changed else table for table in known.values()]
        values = {"tables": [table.to_dict() for table in (*kept, *add)], "reason": reason}
        return chain.append(connection, head, "tables", values, actor=actor), None

    accounts.append(name, work)


def record_loss(accounts: Accounts, name: str, *, reason: str, actor: str | None) -> None:
    """Record that charges were lost: the budget counts as spent from then on."""

    def work(connection: sa.Connection, head: Head, account: Account) -> Appended:
        values = {"charges_unknown": True, "from_backup": False, "reason": reason}
        return chain.append(connection, head, "restore", values, actor=actor), None

    accounts.append(name, work, accepts_loss=True)
