"""Exact draws from a finite list of weights and its tail, nearly always by one look-up from two random bytes.

[0, 1) is cut at the cumulative probabilities of the entries. A uniform number falls between two cuts, and that is the
entry drawn. Its first 16 bits are one of 2¹⁶ cells, and a cell without a cut has one answer, which a table holds. In
the others 48 further bits are compared with the cuts, each known as its first 64 bits. Where these are equal, the
number and the cut are computed further until they differ. Beyond the last cut lies the tail, which has an exact
sampler of its own. So no probability is rounded and nothing is cut off.

Comparisons of uniform random numbers with real numbers are decided without error. A real number is given by a function
that computes a ball around it at Arb's working precision. A uniform number is known to as many bits as were needed so
far. Both are refined until they are apart.
"""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Protocol

import flint
import numpy as np
from flint import arb
from numpy.typing import NDArray

from osgt.sampling.entropy import ByteSource
from osgt.support.numeric import Floats, Integers, first_that_fits

#: Bits by which a uniform number gets longer where those drawn do not decide.
_REFINEMENT_BITS = 64

# Arb's precision is one setting for the whole process, so the threads take turns.
_precision_lock = threading.RLock()


def _renew_lock() -> None:
    """Renew the lock in a forked child: nobody is left to release one that another thread of the parent held."""
    global _precision_lock  # noqa: PLW0603
    _precision_lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


@contextmanager
def working_precision(bits: int) -> Iterator[None]:
    """Compute balls with this many bits inside the `with` block."""
    with _precision_lock, flint.ctx.workprec(bits):
        yield


class Uniform:
    """A real number uniform on [0, 1), of which `length` bits are known: it lies in [prefix, prefix + 1)/2^length."""

    def __init__(self, source: ByteSource, prefix: int = 0, length: int = 0) -> None:
        self._source = source
        self._prefix = prefix
        self._length = length

    def below(self, real: Callable[[], arb]) -> bool:
        """Whether the number is below the real number that `real()` computes; exact for every real number."""
        while True:
            with working_precision(self._length + 2 * _REFINEMENT_BITS):
                scaled = real() * arb(2) ** self._length
                # A comparison of balls is true only if it holds for all their points.
                if scaled >= arb(self._prefix + 1):
                    return True
                if scaled <= arb(self._prefix):
                    return False
            more = int.from_bytes(self._source.read(_REFINEMENT_BITS // 8).tobytes(), "big")
            self._prefix = (self._prefix << _REFINEMENT_BITS) | more
            self._length += _REFINEMENT_BITS


def tail_sum(exponent: Callable[[int], arb], start: int) -> arb:
    """A ball around Σ_{j ≥ start} exp(-exponent(j)), for a convex exponent that increases from `start` on.

    The sum stops where terms are less than one, the weight of index 0, by more than the precision. Those that remain
    fall at least as fast as a geometric series, whose sum bounds theirs.
    """
    total = arb(0)
    enough = 0.7 * flint.ctx.prec  # log 2 < 0.7
    j = start
    while not (value := exponent(j)) > enough:
        total += (-value).exp()
        j += 1
    rest = (-value).exp() / -(value - exponent(j + 1)).expm1()
    return total + arb(0).union(rest)


def tail_index(exponent: Callable[[int], arb], start: int, source: ByteSource) -> int:
    """Return j ≥ start with probability proportional to exp(-exponent(j)), for a convex increasing exponent.

    By rejection from the geometric distribution through the first two terms: it bounds the others, since the exponent
    is convex.
    """

    while True:
        excess = 0
        while Uniform(source).below(partial(_first_ratio, exponent, start)):
            excess += 1
        if excess <= 1 or Uniform(source).below(partial(_acceptance, exponent, start, excess)):
            return start + excess


def _first_ratio(exponent: Callable[[int], arb], start: int) -> arb:
    return (exponent(start) - exponent(start + 1)).exp()


def _acceptance(exponent: Callable[[int], arb], start: int, excess: int) -> arb:
    """exp(-exponent(start + excess)) over the geometric term above it; 1 where `excess` is 0 or 1."""
    line = exponent(start) + excess * (exponent(start + 1) - exponent(start))
    return (line - exponent(start + excess)).exp()


Cells = NDArray[np.intp]

#: Bits that choose a cell, bits of all thresholds within cells, and of the first attempt to bound a weight.
_CELL_BITS = 16
_CUT_BITS = 64
_FIRST_PRECISION = 96

#: Entries are listed until they are exp(-34) ≈ 2⁻⁴⁹ of the first; what lies beyond is drawn by `tail_index`.
_LISTED_EXPONENT = 34.0

#: In the table of cells: look closer. (An index in the table is below 8,705: U is convex, so it reaches
#: `_LISTED_EXPONENT` within 68 times the length in which it reaches ½, which is at most 128.)
UNDECIDED = np.iinfo(np.int16).min


class Potential(Protocol):
    """The part of `osgt.noise.Potential` that draws need."""

    def __hash__(self) -> int: ...

    def __call__(self, y: Floats) -> Floats:
        """U(y), to a relative error below 2⁻⁵⁰."""

    def ball(self, y: int) -> arb:
        """A ball that contains U(y), as narrow as Arb's working precision allows."""


@dataclass(frozen=True)
class Weights:
    """Weights exp(-U(step·index)) for index = 0, 1, …; where `signed`, for index = 0, +1, -1, +2, -2, …

    An entry is the place of an index in that order.
    """

    potential: Potential
    step: int
    signed: bool

    def exponent(self, index: int) -> arb:
        return self.potential.ball(index * self.step)

    def _exponent(self, index: int) -> float:
        return float(self.potential(np.asarray(index * self.step, dtype=np.float64)))

    def indices(self, entries: Integers) -> Integers:
        """The index at each place."""
        if not self.signed:
            return entries
        magnitudes = (entries + 1) >> 1
        return np.where(entries & 1, magnitudes, -magnitudes)

    def listed(self) -> int:
        """Choose the number of magnitudes of the index to list. Any number is correct; this one is quick."""
        low, high = 0, 1
        while self._exponent(high) < _LISTED_EXPONENT:
            low, high = high, 2 * high
        return first_that_fits(lambda index: self._exponent(index) >= _LISTED_EXPONENT, low + 1, high)


class CellTable:
    """`fill(out)` puts independent indices into `out`, with probability exactly proportional to their weights."""

    def __init__(self, weights: Weights, source: ByteSource) -> None:
        self._weights = weights
        self._source = source
        #: Indices of lesser magnitude are listed, the others make the tail.
        self.listed = weights.listed()
        self._indices = weights.indices(np.arange(2 * self.listed - 1 if weights.signed else self.listed))
        self._cuts = self._certified_cuts()
        #: For each cell the index that all of it gives, or `UNDECIDED`.
        self.answers = self._cell_answers()

    @property
    def nbytes(self) -> int:
        """Memory of the tables."""
        return self._indices.nbytes + self._cuts.nbytes + self.answers.nbytes

    def fill(self, out: Integers) -> Cells:
        """Put independent indices into `out`; return the cells that they came from."""
        cells: Cells = self._source.read(2 * len(out)).view(np.uint16).astype(np.intp)
        answers = self.answers.take(cells)
        out[:] = answers
        undecided = np.flatnonzero(answers == UNDECIDED)
        if len(undecided):
            out[undecided] = self._look_closer(cells[undecided])
        return cells

    def _look_closer(self, cells: Cells) -> Integers:
        """The indices for uniform numbers that start with the 16 bits of `cells`."""
        rest = self._source.read(8 * len(cells)).view(np.uint64) >> np.uint64(_CELL_BITS)
        words = (cells.astype(np.uint64) << np.uint64(_CUT_BITS - _CELL_BITS)) | rest
        entries = np.searchsorted(self._cuts, words)  # the number of cuts whose first 64 bits are less
        last = len(self._cuts) - 1
        for i in np.flatnonzero(self._cuts[np.minimum(entries, last)] == words):
            entries[i] = self._refine(int(entries[i]), int(words[i]))
        indices = self._indices[np.minimum(entries, last)]
        for i in np.flatnonzero(entries > last):
            indices[i] = self._tail_index()
        return indices

    def _refine(self, entry: int, word: int) -> int:
        """The entry for a uniform number whose first 64 bits are those of the cut above `entry`."""
        number = Uniform(self._source, prefix=word, length=_CUT_BITS)
        while entry < len(self._cuts) and self._cuts[entry] == word and not number.below(self._cut(entry)):
            entry += 1
        return entry

    def _tail_index(self) -> int:
        weights = self._weights
        index = tail_index(weights.exponent, self.listed, self._source)
        if (index + 1) * weights.step > np.iinfo(np.int64).max:
            raise OverflowError(
                "a draw does not fit into a 64-bit integer: its scale is too large. Count in larger units"
            )
        return -index if weights.signed and self._source.read(1)[0] & 1 else index

    def _cut(self, entry: int) -> Callable[[], arb]:
        """The cumulative probability of the entries up to this one, to Arb's working precision."""
        return lambda: self._cuts_in_balls()[entry]

    def _cuts_in_balls(self) -> list[arb]:
        weights = self._weights
        terms = [(-weights.exponent(index)).exp() for index in range(self.listed)]
        cumulative = list(accumulate(terms[abs(index)] for index in self._indices.tolist()))
        tail = tail_sum(weights.exponent, self.listed)
        scale = 1 / (cumulative[-1] + (2 * tail if weights.signed else tail))
        return [part * scale for part in cumulative]

    def _certified_cuts(self) -> NDArray[np.uint64]:
        """The first 64 bits of every cut, with more precision until there is no doubt about any."""
        precision = _FIRST_PRECISION
        while True:
            with working_precision(precision):
                words = [_leading_bits(cut) for cut in self._cuts_in_balls()]
            if all(word is not None for word in words):
                return np.array(words, dtype=np.uint64)
            precision *= 2

    def _cell_answers(self) -> NDArray[np.int16]:
        first = np.arange(1 << _CELL_BITS, dtype=np.uint64) << np.uint64(_CUT_BITS - _CELL_BITS)
        last = first + np.uint64((1 << (_CUT_BITS - _CELL_BITS)) - 1)
        below = np.searchsorted(self._cuts, first, side="left")
        uncut = (below == np.searchsorted(self._cuts, last, side="right")) & (below < len(self._cuts))
        answers = self._indices[np.minimum(below, len(self._cuts) - 1)]
        return np.where(uncut, answers, UNDECIDED).astype(np.int16)


def _leading_bits(cut: arb) -> int | None:
    """⌊2⁶⁴·cut⌋ for a real number 0 < cut < 1 in the ball, or None where the ball is too wide to tell."""
    scaled = cut * arb(2) ** _CUT_BITS
    largest = (1 << _CUT_BITS) - 1
    if scaled >= arb(largest):  # a cut is below one, however close the ball comes to it
        return largest
    word = scaled.floor().unique_fmpz()
    return None if word is None else int(word)
