"""The chain of custody: a published statement is the one that was charged, and all releases together keep the budget.

An export is enough, since an entry's hash is that of its values: who has it needs no access to the database.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from osgt.ledger import snapshot
from osgt.ledger.account import stored_charge
from osgt.ledger.history import ReleaseRecord, Spending, read_history
from osgt.ledger.snapshot import Snapshot
from osgt.ledger.store import chain
from osgt.ledger.store.chain import Entry, Fetched, Head
from osgt.privacy import Charge

#: What stands between the entry of a series and the period of an instalment, where a statement names its entry.
INSTALMENT = ", instalment "


@dataclass(frozen=True)
class Custody:
    """The evidence of a ledger on a published file: `problems` is empty if it is the one that was charged."""

    problems: tuple[str, ...]
    facts: tuple[str, ...]


def read_export(plain: Any) -> Snapshot:
    """Turn what `osgt ledger export` wrote into a snapshot; ValueError if it is something else."""
    try:
        if plain["format"] != snapshot.FORMAT:
            raise ValueError
        heads, entries = [], {}
        for number, dataset in enumerate(plain["datasets"], 1):
            head = plain["heads"][dataset["name"]]
            heads.append(Head(number, str(dataset["name"]), int(head["sequence"]), str(head["hash"])))
            entries[number] = [_entry(number, values) for values in dataset["entries"]]
        return Snapshot(str(plain["ledger"]), heads, entries, [], "", [], None)
    except (LookupError, TypeError, ValueError, AttributeError):
        raise ValueError("this is no export of a ledger: expected what `osgt ledger export` wrote") from None


def _entry(number: int, values: Mapping[str, Any]) -> Entry:
    """The entry as it was stored; of one that nobody can read, the text stands in place of its values."""
    content = {name: value for name, value in values.items() if name not in ("previous_hash", "hash")}
    text = content["content"] if set(content) == {"sequence", "kind", "content"} else chain.canonical(content)
    links = str(values["previous_hash"]), str(values["hash"])
    return Entry(number, int(values["sequence"]), str(values["kind"]), content.get("refers_to"), str(text), *links)


def trace(book: Snapshot, statement: Mapping[str, Any], digest: str, file_hash: str | None) -> Custody:
    """Compare a statement, its hash and that of its file with the ledger, and check the whole ledger.

    Raises ValueError where there is nothing to compare: the release was charged to no ledger, or to another one.
    """
    charged = statement["ledger"]
    if charged is None:
        raise ValueError("this release was charged to no ledger, as its statement says")
    name, number = str(charged["dataset"]), str(charged["reservation"])
    head = next((head for head in book.heads if head.name == name), None)
    if head is None:
        raise ValueError(f"the ledger has no data set {name!r}: the release was charged to another one")
    checked = snapshot.verify(book)
    if not checked.ok:
        return Custody(tuple(f"the ledger is not what was written: {problem}" for problem in checked.problems), ())
    account, releases, _ = read_history(Fetched(head, book.chain_of(head), _first_link(book, head)))
    sequence, _, period = number.partition(INSTALMENT)
    release = next((charged for charged in releases if str(charged.sequence) == sequence), None)
    if release is None:
        return Custody((f"entry {number} of data set {name!r} is no release",), ())
    entries, copies = book.chain_of(head), 1
    if period:
        release, copies = _instalment(release, entries, period)
    problems = _differences(release, entries, statement, digest, copies)
    spending = Spending.of(account)
    used = (
        f"all {spending.releases:,} releases of {name!r} together keep its budget, ε = {spending.budget_epsilon:.15g} "
        f"and δ = {spending.budget_delta:.15g}: {100 * spending.share:.3g} % is used, and every entry was checked"
    )
    facts = [f"it is entry {number} of data set {name!r}, of {release.time[:10]}"]
    if file_hash is None:
        facts.append("a statement alone was checked, which has no numbers")
    elif not release.output_hashes:
        facts.append("the ledger was not told of any files, so that nobody knows whether these are the numbers")
    elif file_hash in release.output_hashes:
        facts.append("the file is, byte for byte, one that was written")
    else:
        problems.append(
            "the file is none of those that were written: it was converted, saved anew or changed, and the ledger "
            "cannot say which. Check the file as it was published"
        )
    return Custody(tuple(problems), (*facts, used))


def _instalment(release: ReleaseRecord, entries: Sequence[Entry], period: str) -> tuple[ReleaseRecord, int]:
    """Find the instalment of a series in its notes, and how many instalments the series charged."""
    charged = next(entry for entry in entries if entry.sequence == release.sequence)
    notes = [entry.values.get("instalment") for entry in entries if entry.refers_to == release.sequence]
    own = [note for note in notes if note is not None and note["period"] == period]
    told: Mapping[str, Any] = next((note for note in own if note["status"] == "published"), {})
    record = replace(
        release,
        status="settled" if told else "reserved",
        statement_hash=told.get("statement_hash"),
        output_hashes=tuple(told.get("output_hashes", ())),
    )
    return record, int((charged.values.get("series") or {"together": 1})["together"])


def _differences(
    release: ReleaseRecord, entries: Sequence[Entry], statement: Mapping[str, Any], digest: str, copies: int
) -> list[str]:
    """List what the entry of a release says otherwise than a statement; of a series, it charged so many copies."""
    at = f"entry {release.sequence}"
    problems = []
    stated = stored_charge(dict(statement["privacy"]["charge"]))
    if release.charge != Charge.compose([stated] * copies):
        problems.append(f"{at} charged for other noise than the statement says was added")
    if (release.epsilon, release.delta) != (statement["epsilon"], statement["delta"]):
        problems.append(f"{at} was asked for with ε = {release.epsilon} and δ = {release.delta}")
    if release.status == "reserved":
        problems.append(f"{at} does not know of any output: `osgt ledger settle` records it")
    elif release.status != "settled":
        problems.append(f"{at} is {release.status}: nothing was released under it, as the ledger says")
    elif release.statement_hash is not None and release.statement_hash != digest:
        problems.append(f"{at} was settled with another statement than that of this file")
    known = statement.get("ledger_entry_hash")
    if known is not None and all(entry.hash != known for entry in entries if entry.sequence == release.sequence):
        problems.append(f"{at} was written anew since the file was published")
    return problems


def _first_link(book: Snapshot, head: Head) -> str:
    """The hash that the first entry of a data set follows."""
    before = [other for other in book.heads if other.number == head.number - 1]
    return book.chain_of(before[0])[0].hash if before else chain.genesis(book.ledger)
