"""Opening a data set: its budget is declared once, and whose it is."""

import sqlalchemy as sa

from osgt.ledger import book
from osgt.ledger.account import Account
from osgt.ledger.accounts import Accounts
from osgt.ledger.book import Head
from osgt.ledger.budget import Budget
from osgt.ledger.errors import NoLedgerError
from osgt.ledger.filter_state import FilterState
from osgt.ledger.schema import datasets
from osgt.ledger.subject import Owners
from osgt.ledger.texts import skeleton


def open_dataset(accounts: Accounts, name: str, budget: Budget, owners: Owners, actor: str | None) -> None:
    """Declare a budget. If the data set is open with the same figures nothing changes; others are refused."""

    def work(connection: sa.Connection) -> None:
        book.lock_openings(connection)
        head = book.find(connection, name)
        if head is not None:
            _check_same(accounts.brought_up(connection, head), budget, owners)
            return
        known = book.heads(connection)
        _check_look(name, [head.name for head in known])
        number = len(known) + 1
        head = Head(number, name, 0, book.first_link(connection, number))
        connection.execute(datasets.insert().values(number=number, name=name, head_sequence=0, head_hash=head.hash))
        state = None if budget.shares is None else FilterState.start(budget.shares).to_dict()
        values = {"budget": budget.to_dict(), "owners": owners.to_dict(), "state": state}
        book.append(connection, head, "open", values, actor=actor)

    with accounts.lock:
        # Who may only charge, or read, can ask for what is there.
        if not _is_open(accounts, name, budget, owners):
            accounts.database.write(work, create=True)


def _is_open(accounts: Accounts, name: str, budget: Budget, owners: Owners) -> bool:
    """Whether a data set is open, with these figures: others are refused."""
    try:
        if accounts.database.read(lambda c: book.find(c, name)) is None:
            return False
    except NoLedgerError:
        return False
    _check_same(accounts.now(name), budget, owners)
    return True


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
