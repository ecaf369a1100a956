"""What happened to a budget besides releases: it was opened, changed, given tables, or restored."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from osgt.ledger.chain import Entry

_KINDS = ("open", "budget", "tables", "restore")


@dataclass(frozen=True)
class Event:
    """What was done, when and by whom. `kind` is "open", "budget", "tables" or "restore"; `text` says it in words.

    `epsilon` and `delta` are the budget from then on, where it was set; `after_outputs` is True if it was changed after
    something had been released.
    """

    sequence: int
    time: str
    actor: str
    session_user: str
    kind: str
    text: str
    reason: str | None
    epsilon: float | None
    delta: float | None
    after_outputs: bool


def events(entries: Iterable[Entry]) -> list[Event]:
    """The events among the entries of a data set, in order."""
    return [_event(entry) for entry in entries if entry.kind in _KINDS]


def moment(time: object) -> datetime | None:
    """The time of an entry. Times are only told: None if it is not one."""
    try:
        found = datetime.fromisoformat(str(time))
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _event(entry: Entry) -> Event:
    values = entry.values
    budget = values.get("budget") or {}
    return Event(
        sequence=entry.sequence,
        time=values["time"],
        actor=values["actor"],
        session_user=values["session_user"],
        kind=entry.kind,
        text=_words(entry.kind, values),
        reason=values.get("reason"),
        epsilon=budget.get("epsilon"),
        delta=budget.get("delta"),
        after_outputs=bool(values.get("after_outputs")),
    )


def _words(kind: str, values: dict[str, Any]) -> str:
    match kind:
        case "open":
            unit = values["owners"]["unit"]
            whose = "" if unit is None else f", for {unit}"
            return f"opened with {_figures(values)}{whose}{_tables(values['owners'])}"
        case "budget":
            seen = "after answers had been seen" if values["after_outputs"] else "before anything was released"
            return f"budget changed to {_figures(values)}, {seen}"
        case "tables":
            return f"tables declared{_tables(values)}"
        case _:
            lost = "charges were lost, so the budget counts as spent"
            return f"restored from a backup: {lost if values['charges_unknown'] else 'no charge was lost'}"


def _figures(values: dict[str, Any]) -> str:
    budget = values["budget"]
    return f"ε = {budget['epsilon']:g}, δ = {budget['delta']:g} ({budget['composition']})"


def _tables(values: dict[str, Any]) -> str:
    names = [str(table["name"] or "a frame in memory") for table in values["tables"]]
    return f"; {'table' if len(names) == 1 else 'tables'}: {', '.join(names)}" if names else ""
