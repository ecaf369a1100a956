"""Replay: the query on neighbouring tables, with the same salt. Nothing is left to chance.

Numbers may move between two tables as far as one unit may move them, and nothing else may differ at all: no column,
type, grid, noise, SQL text or statement, and no table may be an error. Beside made rows there are rows of the data set
itself, of the units that are most likely to show something.
"""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from osgt.auditing.neighbours import Maker, Pair
from osgt.auditing.result import Check, Finding, Progress
from osgt.auditing.stage import ByGroup, Play, Played, Row, Stage, text_of
from osgt.calibration import Part
from osgt.data.engines.query import compile_query, fetch
from osgt.data.sql import LOOSE, Table, Value
from osgt.limits.contribution import UNIT, fresh_salt
from osgt.release.measuring import prepared_rows
from osgt.support.text import counted


def compute_moves(before: ByGroup, after: ByGroup) -> dict[Any, list[int]]:
    """Compute by how much each number of each group moved; a group that is not there has zeros. Others are left out."""
    result = {}
    for key in before.keys() | after.keys():
        old, new = before.get(key), after.get(key)
        there = old if old is not None else new
        assert there is not None
        # As Python's integers: the difference of two 64-bit numbers need not be one.
        olds, news = ([0] * len(there) if numbers is None else numbers.tolist() for numbers in (old, new))
        if olds != news:
            result[key] = [b - a for a, b in zip(olds, news, strict=True)]
    return result


def together(steps: Mapping[Any, Sequence[int]], norm: Literal[1, 2]) -> dict[Any, list[int]]:
    """Gather the moves of all groups in one place: all of them, or the root of the sum of their squares, rounded up."""
    every = [step for own in steps.values() for step in own]
    if norm == 2 and every:
        every = [math.isqrt(sum(step * step for step in every) - 1) + 1]
    return {(): every} if every else {}


def pieces(steps: Mapping[Any, Sequence[int]], *, exchanged: bool) -> list[int]:
    """List the moves that count as one coordinate each, largest first.

    The numbers of one group (bins) move together by what one of them may move, since that is dominated by one of them
    moving as far; where a unit is exchanged, what it takes away and what it brings are two such moves.
    """
    result = []
    for step in steps.values():
        up, down = sum(max(s, 0) for s in step), sum(max(-s, 0) for s in step)
        result += [up, down] if exchanged and len(step) > 1 else [up + down]
    return sorted((piece for piece in result if piece), reverse=True)


def beyond(moves: Sequence[int], part: Part | None, *, exchanged: bool) -> str | None:
    """Find numbers that moved further, or in more places, than the noise is made for; None if none did.

    Each piece needs a coordinate of its own that may move as far. Where a unit is exchanged for another, several pieces
    may share a coordinate that may move as far as all of them: one number that moves by k dominates several that move
    by k in all, and shifts are doubled for that (`Groups.moves`). Without a part nothing may move at all.

    Parameters
    ----------
    moves
        The pieces, largest first.
    """
    allowed = () if part is None else part.moves
    room = sorted((shift for shift, n in allowed for _ in range(n)), reverse=True)
    largest, places = max(room, default=0), len(room)
    for piece in moves:
        at = next((i for i, left in enumerate(room) if piece <= left), None)
        if at is None:
            return (
                f"moved in {len(moves):,} places by up to {moves[0]:,}; the noise is made for {places:,} places and "
                f"{largest:,.0f}"
            )
        room[at] -= piece if exchanged else math.inf
    return None


#: Rows that are looked at, units of each kind, and rows where each is a unit.
_MOST_REAL, _UNITS, _FEW = 2000, 3, 40


def real_rows(stage: Stage) -> tuple[list[Row], str]:
    """Rows of a few units, and a note if there are none: those with most rows, in most groups, alone, and others."""
    query, columns = stage.query, stage.columns
    table, engine = query.dataset.rows(), query.dataset.engine
    wanted = {name: table[name] for name in columns}
    if query.dataset.unit.each_row:
        return _as_rows(table.select("some_rows", "Some rows.", wanted, limit=_FEW))
    rows, keys, _ = prepared_rows(query, [], with_totals=False)
    pairs = rows.select("pairs", "The rows of units in groups.", {"number": rows.count()}, group_by=[UNIT, *keys])
    units = pairs.select(
        "units",
        "The groups and rows of units.",
        {"number_1": pairs.count(), "number_2": pairs["number"].sum()},
        group_by=[UNIT],
    )
    ranked = [_first(units, "number_2 DESC"), _first(units, "number_1 DESC"), _first(units)]
    if keys:
        members = pairs.count().over([pairs[key] for key in keys])
        shared = pairs.select("shared", "Units with the units in their groups.", {UNIT: pairs[UNIT], "number": members})
        fewest = shared.select("fewest", "The most of these.", {"number_1": shared["number"].max()}, group_by=[UNIT])
        ranked.append(_first(fewest, "number_1"))
    unit = query.dataset.unit.value(engine, table)
    chosen = [f"{unit.sql} IN (\n{query.sql}\n)" for query in ranked]
    among = Value(" OR ".join(chosen), engine.boolean, engine, LOOSE)
    return _as_rows(table.select("some_rows", "Rows of these units.", wanted, where=[among], limit=_MOST_REAL))


def _first(units: Table, *order: str) -> Table:
    """The first few units in an order."""
    return units.select("first_units", "The first units.", {UNIT: units[UNIT]}, order_by=[*order, UNIT], limit=_UNITS)


def _as_rows(table: Table) -> tuple[list[Row], str]:
    """The rows of a table as text; or none, and why."""
    try:
        rows = fetch(compile_query(table)).to_pylist()
    except (ValueError, OverflowError, pa.ArrowInvalid) as error:
        return [], f" No real rows were used, since they cannot be carried over ({type(error).__name__})."
    return [{name: text_of(value) for name, value in row.items()} for row in rows], ""


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
    rows, note = real_rows(stage) if real else ([], "")
    pairs = list(Maker(stage, rows).pairs())
    results: list[Compared] = []
    for i, compared in enumerate(comparisons(stage, play, pairs, salt)):
        results.append(compared)
        progress(f"{name}: {compared.name}", (i + 1) / len(pairs))
        if time.monotonic() - started > seconds:
            break
    if all(compared.errors for compared in results):
        raise ValueError(f"the query fails on every table: {results[0].findings[0].what}")
    findings = tuple(finding for compared in results for finding in compared.findings)
    words = (
        f"{counted(len(results), 'pair')} of neighbouring tables on {stage.query.dataset.engine.title}, "
        f"{sum(sum(compared.rows) for compared in results):,} rows, {counted(len(play.allowed), 'measure')}. "
    )
    if len(results) < len(pairs):
        words += f"Time was too short for {counted(len(pairs) - len(results), 'further pair')}. "
    words += (
        "No number moved further than its noise is made for, and nothing else differed."
        if not findings
        else f"{counted(len(findings), 'difference')} that may not be."
    )
    words += _weakest(play, results) + note
    details = {
        "engine": stage.query.dataset.engine.name,
        "salt": salt,
        "real_rows": len(rows),
        "pairs": [compared.to_dict() for compared in results],
        "compared": sorted({form for compared in results for form in compared.form}),
    }
    return Check(name, words, findings, 0.0, details)


@dataclass(frozen=True)
class Compared:
    """The differences between two tables: what was found, and how far numbers moved."""

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
    """Compare each pair in turn. A table that is in several of them is played once."""
    known: dict[tuple[int, ...], Played] = {}

    def once(table: tuple[Row, ...]) -> Played:
        key = tuple(map(id, table))
        if key not in known:
            known[key] = _run(stage, play, table, salt)
        return known[key]

    for pair in pairs:
        yield _compare(stage, play, pair, once(pair.before), once(pair.after))


def _run(stage: Stage, play: Play, rows: tuple[Row, ...], salt: int) -> Played:
    """Play these rows. An error is an outcome as well."""
    try:
        query, _ = stage.query_on(rows)
        return play.played(query, salt)
    except Exception as error:  # whatever it is, it came with this table
        cause = error.__cause__ or error
        return Played(error=f"{type(cause).__name__}: {str(cause).splitlines()[0][:200] if str(cause) else ''}")


def _compare(stage: Stage, play: Play, pair: Pair, before: Played, after: Played) -> Compared:
    size = len(pair.before), len(pair.after)
    if before.error or after.error:
        errors = [f"an error: {error}" for error in dict.fromkeys((before.error, after.error)) if error]
        return Compared(pair.name, size, tuple(Finding(pair.name, error) for error in errors))
    findings = _differences(pair, before, after)
    exchanged = stage.query.dataset.neighbours == "change_one"
    places: set[Any] = set()
    told = []
    for name, allowed in play.allowed.items():
        steps, part = compute_moves(before.numbers[name], after.numbers[name]), allowed.part
        places |= steps.keys() if allowed.in_groups else set()
        result = pieces(steps if allowed.norm is None else together(steps, allowed.norm), exchanged=exchanged)
        wrong = beyond(result, None if pair.of_nobody else part, exchanged=exchanged)
        findings += [Finding(pair.name, f"{name} {wrong}")] if wrong else []
        told.append(
            {
                "measure": name,
                "largest": max(result, default=0),
                "places": len(result),
                "allowed": part.shift,
                "allowed_places": sum(n for _, n in part.moves),
            }
        )
    most = stage.query.groups.max_groups_per_unit * (2 if exchanged else 1)
    if len(places) > most:
        findings.append(Finding(pair.name, f"{len(places):,} groups moved, at most {most:,} may"))
    return Compared(pair.name, size, tuple(findings), tuple(told), tuple(before.form))


def _differences(pair: Pair, before: Played, after: Played) -> list[Finding]:
    """List the properties of a release that differ between two neighbours: none may."""
    return [
        Finding(pair.name, f"{name} differs: {_first_difference(before.form[name], after.form[name])}")
        for name in before.form
        if before.form[name] != after.form[name]
    ]


def _weakest(play: Play, comparisons: list[Compared]) -> str:
    """A warning about numbers that no pair moved: nothing was tried there."""
    moving = {move["measure"] for compared in comparisons for move in compared.moved if move["largest"]}
    still = [name for name in play.allowed if name not in moving]
    if not still:
        return ""
    return f" But no pair moved {', '.join(still)}: the rows that were tried do not count there."


def _first_difference(one: str, other: str) -> str:
    at = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    start = max(0, at - 20)
    return f"{one[start : at + 40]!r} and {other[start : at + 40]!r}"
