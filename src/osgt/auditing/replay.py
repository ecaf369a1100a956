"""Replay: the query on neighbouring tables, with the same salt and the same order of rows. Nothing is left to chance.

The exact whole numbers may differ by what the noise is made for, and nothing else may differ at all: no column, type,
grid, noise, SQL text or statement, and no table may be an error.
"""

import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from osgt.auditing.budget import Progress
from osgt.auditing.made_rows import Row
from osgt.auditing.moves import ByGroup, beyond, moved, pieces
from osgt.auditing.neighbours import Maker, Pair
from osgt.auditing.real_rows import real_rows
from osgt.auditing.result import Check, Finding
from osgt.auditing.stage import Stage
from osgt.calibration import Part
from osgt.tables.bounding import fresh_salt


@dataclass(frozen=True)
class Played:
    """All that came out for one table: numbers that may move, and a form that may not."""

    numbers: Mapping[str, ByGroup] = field(default_factory=dict)
    form: Mapping[str, str] = field(default_factory=dict)
    error: str | None = None


@dataclass(frozen=True)
class Allowed:
    """How far one unit may move some numbers; `in_groups` if only in its own groups, of which it has few."""

    part: Part
    in_groups: bool = False


class Play(Protocol):
    """What is played: a release or a suggestion."""

    @property
    def allowed(self) -> Mapping[str, Allowed]:
        """How far one unit may move the numbers, by their names."""

    def played(self, query: Any, salt: int, order: str) -> Played:
        """What comes out of a query on a made table."""


def replay(
    stage: Stage,
    play: Play,
    *,
    real: bool = True,
    seconds: float = math.inf,
    progress: Progress = lambda what, done: None,
    name: str = "replay",
) -> Check:
    """Play on pairs of neighbouring tables and compare all that comes out.

    Parameters
    ----------
    real
        Whether rows of the data set are used, besides made ones. The result then tells about the data.
    seconds
        No further pair is begun after so long.
    """
    started, salt = time.monotonic(), fresh_salt()
    rows, note = real_rows(stage.query) if real else ([], "")
    pairs = list(Maker(stage, rows).pairs())
    found: list[Compared] = []
    for i, compared in enumerate(comparisons(stage, play, pairs, salt)):
        found.append(compared)
        progress(f"{name}: {compared.name}", (i + 1) / len(pairs))
        if time.monotonic() - started > seconds:
            break
    if all(compared.errors for compared in found):
        raise ValueError(f"the query fails on every table: {found[0].findings[0].what}")
    findings = tuple(finding for compared in found for finding in compared.findings)
    words = (
        f"{_number_of(len(found), 'pair')} of neighbouring tables on {stage.query.dataset.engine.title}, "
        f"{sum(sum(compared.rows) for compared in found):,} rows, {_number_of(len(play.allowed), 'measure')}. "
    )
    if len(found) < len(pairs):
        words += f"Time was too short for {_number_of(len(pairs) - len(found), 'further pair')}. "
    words += (
        "No number moved further than its noise is made for, and nothing else differed."
        if not findings
        else f"{_number_of(len(findings), 'difference')} that may not be."
    )
    words += _weakest(play, found) + note
    details = {
        "engine": stage.query.dataset.engine.name,
        "salt": salt,
        "real_rows": len(rows),
        "pairs": [compared.to_dict() for compared in found],
        "compared": sorted({each for compared in found for each in compared.form}),
    }
    return Check(name, words, findings, 0.0, details)


@dataclass(frozen=True)
class Compared:
    """What two tables differ in: what was found, and how far numbers moved."""

    name: str
    rows: tuple[int, int]
    findings: tuple[Finding, ...]
    moved: tuple[Mapping[str, Any], ...] = ()
    form: tuple[str, ...] = ()

    @property
    def errors(self) -> bool:
        """Whether nothing could be compared."""
        return not self.form

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {"name": self.name, "rows": list(self.rows), "moved": list(self.moved)}


def comparisons(stage: Stage, play: Play, pairs: list[Pair], salt: int) -> Iterator[Compared]:
    """Each pair in turn. A table that is in several of them is played once."""
    known: dict[tuple[int, ...], Played] = {}

    def once(table: tuple[Row, ...]) -> Played:
        key = tuple(map(id, table))
        if key not in known:
            known[key] = _played(stage, play, table, salt)
        return known[key]

    for pair in pairs:
        yield _compared(stage, play, pair, once(pair.before), once(pair.after))


def _played(stage: Stage, play: Play, rows: tuple[Row, ...], salt: int) -> Played:
    """What comes out for these rows. An error is an outcome as well."""
    try:
        query, order = stage.asked(rows)
        return play.played(query, salt, order)
    except Exception as error:  # whatever it is, it came with this table
        cause = error.__cause__ or error
        return Played(error=f"{type(cause).__name__}: {str(cause).splitlines()[0][:200] if str(cause) else ''}")


def _compared(stage: Stage, play: Play, pair: Pair, before: Played, after: Played) -> Compared:
    size = len(pair.before), len(pair.after)
    if before.error or after.error:
        errors = [f"an error: {each}" for each in dict.fromkeys((before.error, after.error)) if each]
        return Compared(pair.name, size, tuple(Finding(pair.name, error) for error in errors))
    findings = [
        Finding(pair.name, f"{name} differs: {_first_difference(before.form[name], after.form[name])}")
        for name in before.form
        if before.form[name] != after.form[name]
    ]
    exchanged = stage.query.dataset.neighbours == "change_one"
    places: set[Any] = set()
    told = []
    for name, allowed in play.allowed.items():
        steps, part = moved(before.numbers[name], after.numbers[name]), allowed.part
        found = pieces(steps, exchanged=exchanged)
        wrong = beyond(found, None if pair.of_nobody else part, exchanged=exchanged)
        findings += [Finding(pair.name, f"{name} {wrong}")] if wrong else []
        places |= steps.keys() if allowed.in_groups else set()
        told.append(
            {
                "measure": name,
                "largest": max(found, default=0),
                "places": len(found),
                "allowed": part.shift,
                "allowed_places": sum(n for _, n in part.moves),
            }
        )
    most = stage.query.groups.most * (2 if exchanged else 1)
    if len(places) > most:
        findings.append(Finding(pair.name, f"{len(places):,} groups moved, at most {most:,} may"))
    return Compared(pair.name, size, tuple(findings), tuple(told), tuple(before.form))


def _weakest(play: Play, found: list[Compared]) -> str:
    """A warning about numbers that no pair moved: nothing was tried there."""
    moving = {each["measure"] for compared in found for each in compared.moved if each["largest"]}
    still = [name for name in play.allowed if name not in moving]
    if not still:
        return ""
    return f" But no pair moved {', '.join(still)}: the rows that were tried do not count there."


def _number_of(number: int, thing: str) -> str:
    return f"{number:,} {thing}" + ("" if number == 1 else "s")


def _first_difference(one: str, other: str) -> str:
    at = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    start = max(0, at - 20)
    return f"{one[start : at + 40]!r} and {other[start : at + 40]!r}"
