"""How releases, events and budgets are told to people, on a terminal and on a page. All texts are safe to print."""

import math
from collections.abc import Iterable
from datetime import UTC, datetime

from osgt.ledger.events import Event, moment
from osgt.ledger.records import ReleaseRecord, Spending
from osgt.pages.numbers import rounded_up
from osgt.shown_text import one_line, shortened

#: Characters of a query that stands in for a title.
_LONGEST = 120

#: e^ε is told as a number up to this ε.
_LARGEST_FACTOR = 14.0


def who(record: ReleaseRecord | Event) -> str:
    """Who it says it was, and who it was for the database or the operating system where that is somebody else."""
    actor, user = one_line(record.actor), one_line(record.session_user)
    return actor if actor == user or actor.startswith(f"{user}@") else f"{actor} (signed in as {user})"


def what(release: ReleaseRecord) -> str:
    """The title of a release, or its query."""
    return one_line(release.title) if release.title else shortened(release.query, _LONGEST)


def about(release: ReleaseRecord) -> str:
    """The privacy unit and the table of a release, as far as they are known."""
    unit = "" if release.unit is None else f"unit {one_line(release.unit)}"
    table = "" if release.table is None else f"table {one_line(release.table)}"
    return ", ".join(filter(None, (unit, table)))


def outcome(release: ReleaseRecord) -> str:
    """Where the output of a release went; that it may be out where nobody has told the ledger."""
    if release.output:
        return f"→ {one_line(release.output)}"
    return "no output is known: it may be out" if release.status == "reserved" else ""


def when(record: ReleaseRecord | Event) -> str:
    """The date and the time, to the second."""
    return one_line(record.time)[:19].replace("T", " ")


def figure(value: object) -> str:
    """A number that was told with a release, if it was."""
    return f"{value:.4g}" if isinstance(value, int | float) else "–"


def used(share: float) -> str:
    """A share of a budget that is used, never rounded down."""
    return f"{_percent(share):g} %"


def left(share: float) -> str:
    """What is left of a budget when this share is used, never rounded up."""
    return f"{round(100 - _percent(share), 1):g} %"


def _percent(share: float) -> float:
    return min(math.ceil(share * 1000) / 10, 100)


def times(releases: Iterable[ReleaseRecord]) -> list[datetime]:
    """When the releases were charged. Clocks may be wrong: the order of the chain is the one that counts."""
    found: list[datetime] = []
    for release in releases:
        latest = found[-1] if found else datetime(1970, 1, 1, tzinfo=UTC)
        found.append(max(moment(release.time) or latest, latest))
    return found


def owners(spending: Spending) -> str:
    """Whom a budget protects, and the tables that are about them."""
    if spending.unit is None:
        return "not declared yet"
    tables = ", ".join(one_line(name or "a frame in memory") for name in spending.tables)
    where = f"; {'table' if len(spending.tables) == 1 else 'tables'}: {tables}" if tables else ""
    return f"{one_line(spending.unit)} ({spending.neighbours}){where}"


def promise(spending: Spending, changes: Iterable[Event]) -> str:
    """What a budget promises about all releases together, in plain words."""
    unit = "privacy unit" if spending.unit is None else one_line(spending.unit)
    change = (
        f"Replacing all rows of one {unit} by others"
        if spending.neighbours == "change_one"
        else f"Adding or removing all rows of one {unit}"
    )
    epsilon, delta = spending.budget_epsilon, spending.budget_delta
    factor = f"{rounded_up(math.exp(epsilon))} (e^ε)" if epsilon <= _LARGEST_FACTOR else f"e^ε with ε = {epsilon:g}"
    but = f", except with a probability of about δ = {delta:g}" if delta > 0 else ""
    sentences = [
        f"{change} changes the probability of any result of all releases together by at most a factor of {factor}{but}."
    ]
    if spending.composition == "adaptive":
        sentences.append(
            "This holds for every analyst, who may choose each query and its budget after seeing all earlier answers."
        )
    else:
        sentences.append("This holds if the noise of all releases was fixed before the first answer was seen.")
    if any(event.after_outputs for event in changes):
        sentences.append(
            "The budget was changed after answers had been seen: the promise does not cover what was released before "
            "and after that change together."
        )
    return " ".join(sentences)
