"""Changes of a budget, or of the tables that it is for. They and their reasons are recorded for ever."""

import sqlalchemy as sa

from osgt.ledger import book
from osgt.ledger.account import Account
from osgt.ledger.accounts import Accounts, Appended
from osgt.ledger.book import Head
from osgt.ledger.budget import Budget, new_budget
from osgt.ledger.chain import Entry
from osgt.ledger.filter_state import FilterState
from osgt.ledger.subject import Table

#: What a change of the budget means for the promise, wherever one is made.
AFTER_OUTPUTS = (
    "If answers were seen before this change, the promise for analysts who choose their budgets as they go no longer "
    "covers what was released before and after it together: what stands was added up anew under the new budget"
)


def change_budget(
    accounts: Accounts, name: str, *, epsilon: float, delta: float, reason: str, actor: str | None
) -> str:
    """Set another budget and add up anew what stands; what that means for the promise."""
    if not reason.strip():
        raise ValueError("reason must say why the budget is changed: it is recorded for ever")

    def changed(account: Account) -> tuple[Budget, FilterState | None]:
        old = account.budget
        budget = new_budget(epsilon, delta, old.composition, old.selection_share)
        return budget, account.rebudgeted(budget)

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
            return book.append(connection, head, "budget", values, actor=actor), state

        accounts.append(name, work, needs=1)
    return AFTER_OUTPUTS if seen else "Nothing was released before this change"


def change_tables(
    accounts: Accounts, name: str, *, add: list[Table], changed: set[str], reason: str | None, actor: str | None
) -> None:
    """Add tables about the same people; take the columns of `changed` from their next release."""
    if not add and not changed:
        raise ValueError("add or changed must name a table")

    def work(connection: sa.Connection, head: Head, account: Account) -> tuple[Entry, None]:
        known = {table.name: table for table in account.owners.tables}
        missing = changed - set(known)
        if missing:
            raise ValueError(f"changed: data set {name!r} has no table {', '.join(sorted(missing))}")
        for table in add:
            if table.name in known:
                raise ValueError(f"add: data set {name!r} has the table {table.name!r} already")
        kept = [
            Table(table.name, table.unit, None if table.name in changed else table.schema, table.source)
            for table in known.values()
        ]
        values = {"tables": [table.to_dict() for table in (*kept, *add)], "reason": reason}
        return book.append(connection, head, "tables", values, actor=actor), None

    accounts.append(name, work)
