"""The wording of releases, events and budgets, on a terminal and on a page. All texts are safe to print."""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from osgt.data.unit import ROW, TOGETHER, UNIT_NOUN, Noun
from osgt.facts import wording
from osgt.ledger.history import MOST_COUNTED, Event, ReleaseRecord, Spending, moment
from osgt.ledger.snapshot import Verification
from osgt.support.text import counted, one_line, rounded_up, shortened

#: Characters of a query that stands in for a title.
_LONGEST = 120


@dataclass(frozen=True)
class RecordLine:
    """A release or an event as a list shows it: its number, its time to the second, what it was, and who did it.

    `about` is the unit and the table of a release; `more` are its output and notes, or the reason of an event.
    """

    entry: int
    time: str
    what: str
    who: str
    more: tuple[str, ...] = ()
    about: str = ""
    epsilon: str = ""
    delta: str = ""
    left: str = ""
    status: str = ""


def release_line(release: ReleaseRecord) -> RecordLine:
    """The line of a release: its title, or its query; and what was left of the budget after it."""
    output = f"→ {one_line(release.output)}" if release.output else ""
    if not release.output and release.status == "reserved" and not any(map(_INSTALMENT.match, release.notes)):
        output = "no output is known: it may be out"
    unit = "" if release.unit is None else f"unit {one_line(release.unit)}"
    table = "" if release.table is None else f"table {one_line(release.table)}"
    return RecordLine(
        entry=release.sequence,
        time=_seconds(release.time),
        what=one_line(release.title) if release.title else shortened(release.query, _LONGEST),
        who=_who(release),
        more=tuple(filter(None, (output, *(f"note: {one_line(note)}" for note in _in_brief(release.notes))))),
        about=", ".join(filter(None, (unit, table))),
        epsilon=_figure(release.epsilon),
        delta=_figure(release.delta),
        left=left(release.share_after),
        status=one_line(release.status),
    )


#: A note about an instalment of a series: its period, and what became of it.
_INSTALMENT = re.compile(r"instalment (\S+): (handed out|published)")


def _in_brief(notes: Sequence[str]) -> list[str]:
    """The notes; where several instalments of a series are published, one about all of these."""
    about = [_INSTALMENT.match(note) for note in notes]
    published = {found[1]: note for found, note in zip(about, notes, strict=True) if found and found[2] == "published"}
    if len(published) < 2:
        return list(notes)
    others = [note for found, note in zip(about, notes, strict=True) if not found or found[1] not in published]
    first, *_, last = published
    return [f"{len(published)} instalments published, {first} to {last}; the last: {published[last]}", *others]


def event_line(event: Event) -> RecordLine:
    """The line of an event, with the reason that was given for it."""
    reason = (f"reason: {one_line(event.reason)}",) if event.reason else ()
    return RecordLine(event.sequence, _seconds(event.time), one_line(event.text), _who(event), reason)


def _who(record: ReleaseRecord | Event) -> str:
    """Name the actor that is told, and the user of the database or the operating system where that is another."""
    actor, user = one_line(record.actor), one_line(record.session_user)
    return actor if actor == user or actor.startswith(f"{user}@") else f"{actor} (signed in as {user})"


def _seconds(time: object) -> str:
    """The date and the time, to the second."""
    return one_line(time)[:19].replace("T", " ")


def _figure(value: object) -> str:
    """A number that was told with a release, if it was."""
    return f"{value:.4g}" if isinstance(value, int | float) else "–"


def used(share: float) -> str:
    """A share of a budget that is used, never rounded down."""
    return f"{_percent(share):g} %"


def left(share: float) -> str:
    """Write the share that is left of a budget when this one is used, never rounded up."""
    return f"{round(100 - _percent(share), 1):g} %"


def _percent(share: float) -> float:
    return min(math.ceil(share * 1000) / 10, 100)


def times(releases: Iterable[ReleaseRecord]) -> list[datetime]:
    """List the times of the charges. Clocks may be wrong: the order of the chain is the one that counts."""
    moments: list[datetime] = []
    for release in releases:
        latest = moments[-1] if moments else datetime(1970, 1, 1, tzinfo=UTC)
        moments.append(max(moment(release.time) or latest, latest))
    return moments


def budget(spending: Spending) -> str:
    """The declared budget."""
    return f"ε = {spending.budget_epsilon:g}, δ = {spending.budget_delta:g}"


def proved(spending: Spending) -> str:
    """The ε that is proved of all releases so far together, and under which condition."""
    if math.isinf(spending.epsilon):
        return "no ε is proved"
    planned = spending.composition == "planned" and spending.releases > 0
    return f"ε = {rounded_up(spending.epsilon)}{' if fixed in advance' if planned else ''}"


def room(spending: Spending) -> str:
    """Say how many more releases like the last one fit."""
    count = spending.more_like_last
    if count is None:
        return "–"
    if count == 0:
        return "no more release like the last one"
    least = "at least " if count >= MOST_COUNTED else ""
    return f"{least}{count:,} more {'release' if count == 1 else 'releases'} like the last one"


def so_far(spending: Spending) -> str:
    """Say what is proved of the releases so far, and how many more fit, in sentences."""
    if spending.releases == 0:
        return "Nothing was released yet."
    condition = "if they were fixed in advance" if spending.composition == "planned" else "whatever was seen in between"
    what = "no ε is" if math.isinf(spending.epsilon) else f"ε = {rounded_up(spending.epsilon)} is"
    return f"For all releases so far {what} proved, {condition}. There is room for {room(spending)}."


def owners(spending: Spending) -> str:
    """Name the units that a budget protects, and the tables that are about them."""
    if spending.unit is None:
        return "not declared yet"
    tables = ", ".join(one_line(name or "a frame in memory") for name in spending.tables)
    where = f"; {'table' if len(spending.tables) == 1 else 'tables'}: {tables}" if tables else ""
    relation = {"change_one": "replacing one"}.get(str(spending.neighbours), "adding or removing one")
    return f"{one_line(spending.unit)} ({relation}){where}"


def budget_facts(spending: Spending) -> list[tuple[str, str]]:
    """The facts about a budget, each with its name."""
    return [
        ("Budget", budget(spending)),
        ("Used", used(spending.share)),
        ("Left", left(spending.share)),
        ("Spent", proved(spending)),
        ("Room for", room(spending)),
        ("Releases", f"{spending.releases:,}"),
        ("Protects", owners(spending)),
    ]


def checks(verification: Verification) -> str:
    """Say how much a check has looked at."""
    entries, sets = counted(verification.entries, "entry", "entries"), counted(len(verification.heads), "data set")
    return f"{entries} of {sets}"


def promise(spending: Spending, changes: Iterable[Event]) -> str:
    """Say in plain words what a budget promises about all releases together."""
    unit = spending.unit
    noun = UNIT_NOUN if unit is None else Noun.from_columns([] if unit == ROW else one_line(unit).split(TOGETHER))
    sentences = [
        wording.promise(
            noun,
            spending.budget_epsilon,
            spending.budget_delta,
            change_one=spending.neighbours == "change_one",
            each_row=unit == ROW,
            of="any result of all releases together",
        )
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
