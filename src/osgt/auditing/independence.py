"""Independence: the draws of releases against each other. None is made of another one, in any place of any release.

If draws are independent, each with its distribution, then the chance that a draw is what an earlier one was, or that
with the other sign, is known once the earlier one is: it is the probability of this value. For a part λ,

    E = Π (1 - λ + λ·[the draw is the copy]/P[the copy])

over draws and earlier ones is a nonnegative martingale that begins at 1: the likelihood ratio of software in which a
part λ of the draws are copies. Pairs may overlap: only what came before matters. In the same way cells of values are
bet on by the cell of an earlier draw. The mean of all of these is the evidence, as in `evidence`. Besides, no run of
draws comes again that is so long that it does so by chance with less than a given probability.

The salts that decide who counts where are judged as well: no salt repeats, and every bit of them is even.
"""

import itertools
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osgt.auditing.evidence import Counts, log_against, log_against_cells, log_mean, p_value
from osgt.auditing.result import Check, Finding
from osgt.noise import IntegerDistribution
from osgt.support.numeric import Floats, Integers

#: The noise of what is drawn at once: its distribution, and the draws by groups (rows) and numbers of a group.
Drawn = tuple[IntegerDistribution, NDArray[np.int64]]

#: Small releases, as most are; and large ones, whose draws are made in another way: how many, and their groups at most.
_SMALL, _LARGE = (256, 64), (2, 8192)

#: Draws of a small release and of a large one, about; all of them together at most, unless these are too few releases.
_SMALL_DRAWS, _LARGE_DRAWS, _MOST_DRAWS, _FEWEST = 256, 40_000, 400_000, 16

#: Places of a release, and columns, of which all pairs are tried.
_PLACES, _COLUMNS = 256, 12

#: Earlier draws that a draw is compared with: this many before it at most, then powers of two.
_LAGS = 64

#: Parts of the draws that are copies, in the bets.
_PARTS = (0.5, 0.1, 0.01, 0.001)

#: Cells of equal probability.
_CELLS = 8

#: Multiplies the hash of a run before the next draw is added.
_FACTOR = np.uint64(0x9E3779B97F4A7C15)

#: The text of a query for the engine, prepared with this salt, or as for a release if it is None.
SaltedText = Callable[[int | None], str]

#: Releases that are prepared, of all tables together and of each at least; salts that are drawn besides; bits of one.
_PREPARED, _OF_EACH, _DRAWN, _BITS = 4, 2, 2048, 62

#: A salt to find the place of the salt in the text of a query: no other number there is this.
_KNOWN = 3074457345618258603


@dataclass(frozen=True, eq=False)
class _Releases:
    """Releases of one shape. `columns` have their distribution, and draws by release and group."""

    drawn: Sequence[Sequence[Drawn]]

    @property
    def columns(self) -> list[tuple[IntegerDistribution, Integers]]:
        """The numbers of groups, each by itself: not more than `_COLUMNS`, from first to last."""
        shapes = [(i, j) for i, (_, numbers) in enumerate(self.drawn[0]) for j in range(numbers.shape[1])]
        return [
            (self.drawn[0][i][0], np.stack([release[i][1][:, j] for release in self.drawn]))
            for i, j in _spread(shapes, _COLUMNS)
        ]

    def streams(self) -> dict[IntegerDistribution, Integers]:
        """For each distribution its draws, in their order."""
        result: dict[IntegerDistribution, list[Integers]] = {}
        for noise, numbers in itertools.chain.from_iterable(self.drawn):
            result.setdefault(noise, []).append(numbers.ravel())
        return {noise: np.concatenate(pieces) for noise, pieces in result.items()}

    def places(self) -> tuple[Integers, Floats]:
        """By release and place the draws and their -log P: not more than `_PLACES`, from first to last."""
        flat = np.stack([np.concatenate([numbers.ravel() for _, numbers in release]) for release in self.drawn])
        noises = [noise for noise, numbers in self.drawn[0] for _ in range(numbers.size)]
        kept = np.array(_spread(range(len(noises)), _PLACES))
        draws, unlikely = flat[:, kept], np.zeros((len(flat), len(kept)))
        for noise in dict.fromkeys(noises):
            at = np.array([noises[i] == noise for i in kept])
            unlikely[:, at] = -noise.logpmf(draws[:, at])
        return draws, unlikely


def independence(release: Callable[[int], Sequence[Drawn]], *, false_alarm: float = 1e-6) -> Check:
    """Judge the noise of releases by its draws against each other.

    Parameters
    ----------
    release
        The noise of one release with so many groups, in the order of its draws.
    """
    name = "independence"
    numbers = sum(drawn.shape[1] for _, drawn in release(1))
    shapes = _shapes(numbers)
    logs: dict[str, float] = {}
    runs: list[str] = []
    total = 0
    for times, groups in shapes:
        releases = _Releases([release(groups) for _ in range(times)])
        streams = releases.streams()
        total += sum(len(stream) for stream in streams.values())
        error = false_alarm / 2 / len(shapes) / len(streams)
        runs += [run for noise, stream in streams.items() if (run := _run(stream, noise, error))]
        every = {**_by_lag(streams, times), **_by_columns(releases.columns)}
        every |= _by_place(releases) if times >= _FEWEST else {}
        logs |= {f"{what} ({times} releases of {groups:,} groups)": log for what, log in every.items()}
    evidence = log_mean(list(logs.values()))
    details: dict[str, Any] = {"draws": total, "columns": numbers, "p_value": p_value(evidence), "runs": runs}
    findings = [Finding(name, run) for run in runs]
    if evidence >= -math.log(false_alarm / 2):
        findings += [Finding(name, f"{what}: p-value {p:.2g}") for what, p in _clearest(logs, false_alarm / 2).items()]
    words = (
        "Draws are made of other ones."
        if findings
        else f"{total:,} draws of {_in_words(shapes)} do not follow from each other: as copies, with the same sign "
        "or the other, or by size; from draw to draw, from group to group, from column to column, and as runs."
    )
    return Check(name, words, tuple(findings), false_alarm, details)


def _shapes(numbers: int) -> list[tuple[int, int]]:
    """The numbers of releases and of their groups, for small and for large ones with so many numbers in a group."""
    shapes = []
    for (times, most), draws in ((_SMALL, _SMALL_DRAWS), (_LARGE, _LARGE_DRAWS)):
        groups = max(2, min(most, draws // numbers))
        shapes.append((min(times, max(_FEWEST, _MOST_DRAWS // (groups * numbers))), groups))
    return shapes


def _clearest(logs: dict[str, float], error: float) -> dict[str, float]:
    """Select what is evidence enough by itself, or the clearest of all, with p-values.

    The mean of all evidence is at least each by itself, divided by how many there are.
    """
    parts = {what: log - math.log(len(logs)) for what, log in logs.items()}
    least = min(-math.log(error), max(parts.values()))
    return {what: p_value(part) for what, part in parts.items() if part >= least}


def _in_words(shapes: Sequence[tuple[int, int]]) -> str:
    """Describe the numbers of releases and of groups in words."""
    return " and ".join(f"{times:,} releases with {groups:,} groups" for times, groups in shapes)


def _by_lag(streams: dict[IntegerDistribution, Integers], times: int) -> dict[str, float]:
    """Evidence that draws of a distribution are copies of those so many draws before."""
    result = {}
    for noise, stream in streams.items():
        gained, size = _gained(-noise.logpmf(stream)), len(stream) // times
        lags = {*range(1, _LAGS + 1), size, 2 * size, *(1 << i for i in range(7, 20))}
        tried = sorted(lag for lag in lags if 2 * lag < len(stream))
        every = {lag: _of_copies(stream[:-lag], stream[lag:], gained[:, lag:]) for lag in tried}
        worst = max(every, key=lambda lag: every[lag])
        result[f"draws of {noise!r} follow from those {worst:,} before them"] = log_mean(list(every.values()))
    return result


def _by_columns(columns: Sequence[tuple[IntegerDistribution, Integers]]) -> dict[str, float]:
    """Evidence that a column follows from another one in the same group, or from itself in the group before."""
    every: dict[str, float] = {}
    sorted_out = [
        [(law_cells.of(draws), law_cells.probability) for law_cells in _cells(noise)] for noise, draws in columns
    ]
    gained = [_gained(-noise.logpmf(draws)) for noise, draws in columns]
    for i, j in itertools.combinations_with_replacement(range(len(columns)), 2):
        draws = columns[j][1]
        rows, back = min(draws.shape[1], columns[i][1].shape[1]), int(i == j)
        first, second = slice(0, rows - back), slice(back, rows)
        logs = [_of_copies(columns[i][1][:, first], draws[:, second], gained[j][..., second])] if i < j else []
        for (before, kinds), (now, probability) in zip(sorted_out[i], sorted_out[j], strict=True):
            pairs = before[:, first] * len(probability) + now[:, second]
            size = len(kinds) * len(probability)
            table = np.bincount(pairs.ravel(), minlength=size).reshape(len(kinds), -1)
            logs.append(_of_table(table, probability))
        what = (
            f"column {j + 1} follows from column {i + 1}" if i < j else f"column {i + 1} follows from the group before"
        )
        every[what] = log_mean(logs)
    return {max(every, key=lambda what: every[what]): log_mean(list(every.values()))}


def _by_place(releases: _Releases) -> dict[str, float]:
    """Evidence that a place of a release is a copy of another one: all pairs of places."""
    draws, unlikely = releases.places()
    times, number = draws.shape
    part, gained, every = _PARTS[0], _gained(unlikely)[0], []
    for sign in (1, -1):
        total = np.full((number, number), times * math.log1p(-part))
        for one, gain in zip(draws, gained, strict=True):
            total += (sign * one[:, np.newaxis] == one) * gain
        every.append(total[np.triu_indices(number, 1)])
    logs = np.concatenate(every)
    at = int(np.argmax(logs)) % len(every[0])
    i, j = (int(places[at]) + 1 for places in np.triu_indices(number, 1))
    return {f"place {j} of a release follows from place {i}, of {number} that were compared": log_mean(logs)}


def _of_copies(before: Integers, now: Integers, gained: Floats) -> float:
    """log E of draws against being copies of others, or copies with the other sign; `gained` is from `_gained`."""
    kept = now.size * np.log1p(-np.array(_PARTS))
    return log_mean([kept + gained[:, now == sign * before].sum(axis=1) for sign in (1, -1)])


def _gained(unlikely: Floats) -> Floats:
    """For each of the parts, what draws add to log E if they are copies, by their -log P; others add log(1 - λ)."""
    parts = np.array(_PARTS).reshape(-1, *([1] * unlikely.ndim))
    return np.asarray(np.logaddexp(np.log1p(-parts), np.log(parts) + unlikely) - np.log1p(-parts))


@dataclass(frozen=True, eq=False)
class _Partition:
    """Cells of values, or of their sizes: cell i holds edges[i-1] < y ≤ edges[i]."""

    edges: Integers
    probability: Floats
    sizes: bool = False

    def of(self, draws: Integers) -> Integers:
        """The cell of each draw."""
        return np.searchsorted(self.edges, np.abs(draws) if self.sizes else draws).astype(np.int64)


def _cells(noise: IntegerDistribution) -> list[_Partition]:
    """Partition the draws by sign, by size, and into cells of about equal probability."""
    zero = float(noise.pmf(0))
    half = int(noise.isf(0.25))
    beyond = min(1.0, 2.0 * float(noise.sf(half)))
    edges = np.unique(np.asarray(noise.ppf(np.arange(1, _CELLS) / _CELLS), dtype=np.float64)).astype(np.int64)
    below = np.concatenate([[0.0], np.asarray(noise.cdf(edges), dtype=np.float64), [1.0]])
    return [
        _Partition(np.array([-1, 0]), np.array([(1 - zero) / 2, zero, (1 - zero) / 2])),
        _Partition(np.array([half]), np.array([1.0 - beyond, beyond]), sizes=True),
        _Partition(edges, np.diff(below)),
    ]


def _of_table(table: Integers, probability: Floats) -> float:
    """log E of cells against their probabilities, bet on by the cell of another draw: one bet for each such cell."""
    nothing = np.zeros(len(probability), dtype=np.int64)
    return sum(log_against_cells(Counts(nothing, 0, row, int(row.sum())), probability) for row in table)


def _run(stream: Integers, noise: IntegerDistribution, false_alarm: float) -> str | None:
    """A run of draws that comes again, in words; None if there is none.

    A run of length n at one place is the one at another, the same with the other sign, or that backwards at a length of
    2n, with a probability of at most P[0]ⁿ: each draw is what an earlier one asks for with at most P[0], whatever came
    before; backwards, at least n pairs of different draws have to be equal.
    """
    pairs = len(stream) * (len(stream) + 1) / 2
    length = math.ceil(math.log(3 * pairs / false_alarm) / max(-noise.log_peak, 1e-9))
    if 4 * length > len(stream):
        return None  # too little noise to tell runs apart
    kinds = (
        ("", stream, length),
        (" with the other sign", -stream, length),
        (" backwards", stream[::-1], 2 * length),
    )
    for how, other, long in kinds:
        places = _same(stream, other, long, itself=other is stream)
        if places is not None:
            first, second = places
            if how == " backwards":
                second = len(stream) - long - second
            return (
                f"{long} draws of {noise!r}, from the {first + 1:,}th on, come again{how} from the {second + 1:,}th on"
            )
    return None


def _same(one: Integers, other: Integers, length: int, *, itself: bool) -> tuple[int, int] | None:
    """Find a run of this length that is in both; in one at two places if it is compared with itself."""
    hashes = _hashes(one, length)
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    if itself:
        again = np.flatnonzero(ordered[1:] == ordered[:-1])
        candidates = zip(order[again], order[again + 1], strict=True)
    else:
        others = _hashes(other, length)
        at = np.minimum(np.searchsorted(ordered, others), len(ordered) - 1)
        hits = np.flatnonzero(ordered[at] == others)
        candidates = zip(order[at[hits]], hits, strict=True)
    for i, j in candidates:
        if np.array_equal(one[i : i + length], other[j : j + length]):
            return int(i), int(j)
    return None


def _hashes(draws: Integers, length: int) -> NDArray[np.uint64]:
    """A hash of every run of this length."""
    words, number = draws.astype(np.uint64), len(draws) - length + 1
    result = np.zeros(number, dtype=np.uint64)
    for i in range(length):
        result *= _FACTOR
        result += words[i : i + number]
    return result


def _spread(every: Sequence[Any], most: int) -> list[Any]:
    """Select at most so many of them, from the first to the last."""
    return [every[i] for i in np.unique(np.linspace(0, len(every) - 1, min(most, len(every))).astype(int))]


def salts(tables: Sequence[SaltedText], draw: Callable[[], int], *, false_alarm: float = 1e-6) -> Check:
    """Judge salts as they stand in the queries that releases send to the engine, and as they are drawn.

    Parameters
    ----------
    tables
        Those whose units are limited to some groups, which is what a salt is for.
    draw
        The function that draws the salts of releases.
    """
    findings, read = [], []
    for i, text in enumerate(tables):
        where = "salts" if len(tables) == 1 else f"salts of table {i + 1}"
        result = _salts_in_queries(text, max(_OF_EACH, math.ceil(_PREPARED / len(tables))))
        if isinstance(result, str):
            findings.append(Finding(where, result))
        else:
            read += result
    drawn = [draw() for _ in range(_DRAWN)]
    for where, seen in (("salts of prepared releases", read), ("salts", drawn + read)):
        wrong = _fault_of_salts(seen, false_alarm / 2) if seen else None
        findings += [Finding(where, wrong)] if wrong else []
    details = {"prepared": len(read), "drawn": len(drawn)}
    if findings:
        return Check("salts", "Salts do not differ as they must.", tuple(findings), false_alarm, details)
    queries = f"{len(read):,} that were read from the queries of prepared releases, and " if tables else ""
    words = f"{queries}{_DRAWN:,} that were drawn differ from each other and have even bits."
    return Check("salts", words, (), false_alarm, details)


def _salts_in_queries(query: SaltedText, number: int) -> list[int] | str:
    """The salts of so many prepared releases, read from the text of their queries; or what is wrong with that."""
    before, *after = (re.escape(piece) for piece in query(_KNOWN).split(str(_KNOWN)))
    if not after:
        return "the query for the engine does not use the salt that it is given"
    text = re.compile(before + r"\(?(?P<salt>-?\d+)\)?" + r"\(?(?P=salt)\)?".join(after))
    result = []
    for _ in range(number):
        match = text.fullmatch(query(None))
        if match is None:
            return "the queries of two releases differ in more than their salt"
        result.append(int(match["salt"]))
    return result


def _fault_of_salts(seen: Sequence[int], false_alarm: float) -> str | None:
    """Find a fault of salts, which should be uniform and independent; None if there is none."""
    repeats = len(seen) - len(set(seen))
    by_chance = math.comb(len(seen), 2) / 2.0**_BITS
    if repeats and by_chance <= false_alarm / 2:
        return f"{repeats:,} of {len(seen):,} salts came before"
    if not all(0 <= salt < 1 << _BITS for salt in seen):
        return f"a salt has more than {_BITS} bits"
    bits = np.array([[salt >> i & 1 for i in range(_BITS)] for salt in seen], dtype=np.int64)
    nothing = np.zeros(_BITS, dtype=np.int64)
    logs: Floats = log_against(Counts(nothing, 0, bits.sum(axis=0), len(seen)), np.full(_BITS, 0.5))
    # The bits of a salt are independent of each other, so their evidence may be multiplied: of all, or of any half.
    every, half = float(logs.sum()), float(np.logaddexp(logs, 0.0).sum()) - _BITS * math.log(2)
    evidence = log_mean([log_mean(logs), every, half])
    if evidence < -math.log(false_alarm / 2):
        return None
    worst = np.flatnonzero(logs >= logs.max() - 1e-9)
    which = f"bit {worst[0]} is" if len(worst) == 1 else f"{len(worst)} bits, such as bit {worst[0]}, are"
    return f"{which} not even in {len(seen):,} salts: p-value {p_value(evidence):.2g}"
