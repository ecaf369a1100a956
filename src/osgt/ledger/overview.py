"""A data set as its entries tell it: quickly, since nothing is decided by it.

The chain of hashes is followed to the head. Whether each decision was right is for `verify` to find out, and each
process that charges checks it for itself.
"""

from osgt.ledger import book
from osgt.ledger.budget import Budget
from osgt.ledger.chain import Entry, damaged
from osgt.ledger.charges import profile_of
from osgt.ledger.events import events
from osgt.ledger.faults import Fault
from osgt.ledger.filter_state import FilterState
from osgt.ledger.headroom import Headroom
from osgt.ledger.planned import Planned
from osgt.ledger.records import Overview, ReleaseRecord, releases, spending
from osgt.ledger.subject import Owners, Subject, Table

#: Entries that say what the filters are left with.
_WITH_STATE = ("open", "charge", "cancel", "budget")


def overview(fetched: book.Fetched) -> Overview:
    """What the entries of a data set tell; DamagedLedgerError if they do not lead to its head."""
    head = fetched.head
    try:
        entries = list(book.linked(fetched.entries, 0, fetched.first_link, head))
        found = releases(entries)
        told = spending(head.name, _headroom(entries, found), _owners(entries, found))
        return Overview(told, found, events(entries))
    except Fault as fault:
        raise damaged(head.name, str(fault)) from None
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise damaged(head.name, f"an entry cannot be read: {error!r}") from None


def _headroom(entries: list[Entry], found: list[ReleaseRecord]) -> Headroom:
    """The budget and what stands against it, as the last entries say."""
    budget = next(Budget.from_dict(e.values["budget"]) for e in reversed(entries) if e.kind in ("open", "budget"))
    charges = [release.charge for release in found if release.status != "cancelled"]
    if budget.shares is None:
        state: FilterState | Planned = Planned.of(budget, charges)
    else:
        state = FilterState.from_dict(next(e.values["state"] for e in reversed(entries) if e.kind in _WITH_STATE))
    lost = [str(e.values["time"]) for e in entries if e.kind == "restore" and e.values["charges_unknown"]]
    return Headroom(budget, state, profile_of(charges), len(charges), lost[-1] if lost else None)


def _owners(entries: list[Entry], found: list[ReleaseRecord]) -> Owners:
    """Whose budget it is: what was declared, and what the standing releases have said."""
    owners = Owners.from_dict(entries[0].values["owners"])
    standing = {release.sequence for release in found if release.status != "cancelled"}
    seen: set[tuple[str | None, ...]] = set()
    for entry in entries:
        if entry.kind == "tables":
            owners = owners.with_tables(entry.values["tables"])
            seen.clear()
        elif entry.sequence in standing:
            subject = entry.values["subject"]
            table = subject["table"] or {}
            key = (subject["unit"], subject["neighbours"], table.get("name"), table.get("schema"))
            if key not in seen:  # the same again says nothing new
                seen.add(key)
                known = None if subject["table"] is None else Table.of(subject["table"])
                owners = owners.bound(Subject(subject["unit"], subject["neighbours"], known))
    return owners
