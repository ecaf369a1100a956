"""A noisy histogram over units: where it ends, what it says about totals, and a smooth version of it."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from osgt.noise import IntegerLaw
from osgt.noise.combination import Combination
from osgt.tables.bounds.edges import SCALE
from osgt.tables.bounds.share import Share, share_of

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

#: The chance that noise alone makes any empty bins count as part of the histogram.
_FALSE_ALARM = 0.02
_NEVER = 1e-4

#: Bins that may be missing before the histogram goes on.
_GAP = 1

#: The same where there may be gaps; more may be missing before bins that are beyond doubt.
_NEAR = 4

#: Numbers of neighbouring bins that are looked at together: many units may be spread over bins with few in each.
_WINDOWS = (1, 2, 4, 8, 16)


@dataclass(frozen=True, eq=False)
class Histogram:
    """For each edge the units there, by parts (`edges.parts`), as whole numbers with noise.

    With several `layers`, each number is the sum of so many with noise of their own. With `gaps`, empty bins may lie
    between others, as between zero and the values of a column.
    """

    edges: tuple[float, ...]
    numbers: Integers
    noise: IntegerLaw
    layers: int = 1
    gaps: bool = False

    @cached_property
    def counts(self) -> Floats:
        """Units at each edge; any of them may be negative."""
        return np.asarray(self.numbers / SCALE)

    @cached_property
    def places(self) -> Floats:
        """The edges as floats."""
        return np.asarray(self.edges, dtype=np.float64)

    @property
    def std(self) -> float:
        """The standard deviation of each count."""
        return self.noise.std() / SCALE * math.sqrt(self.layers)

    @cached_property
    def ends(self) -> tuple[int, int] | None:
        """The first and the last bin of those that are clearly there; None if none is.

        Noise makes a bin far from all others look full now and then, and a far one does much harm: from some bins that
        are beyond doubt the histogram goes on as long as the next ones are clearly there, alone or together.
        """
        certain = np.flatnonzero(self.counts > self._enough(1, _NEVER))
        if not len(certain):
            certain = np.flatnonzero(self.counts > self._enough(1))
        if len(certain):
            first, last = int(certain[0]), int(certain[-1])
        elif (found := self._window(self.counts, len(self.counts))) is not None:
            first, last = found
        else:
            return None
        last += self._further(self.counts[last + 1 :])
        first -= self._further(self.counts[:first][::-1])
        return first, last

    def _further(self, counts: Floats) -> int:
        """How many of the bins beyond an end belong to the histogram as well."""
        total = 0
        while (found := self._next(counts[total:])) is not None:
            total += found[1] + 1
        return total

    def _next(self, counts: Floats) -> tuple[int, int] | None:
        """The next bins that are clearly there: beyond a gap, those that are beyond doubt."""
        if not self.gaps:
            return self._window(counts, _GAP)
        return self._window(counts, _NEAR) or self._window(counts, len(counts), _NEVER)

    def _window(self, counts: Floats, latest: int, false_alarm: float = _FALSE_ALARM) -> tuple[int, int] | None:
        """The first bins that are clearly there together, as few of them as suffice; they begin at the latest there."""
        cumulated = np.append(0.0, np.cumsum(counts))
        for length in _WINDOWS:
            if length > len(counts):
                break
            clear = np.flatnonzero(cumulated[length:] - cumulated[:-length] > self._enough(length, false_alarm))
            clear = clear[clear <= latest]
            if len(clear):
                start = int(clear[-1])
                # Up to where the most units are: what follows is as likely noise.
                return start, start + int(np.argmax(cumulated[start + 1 : start + length + 1] - cumulated[start]))
        return None

    def _enough(self, length: int, false_alarm: float = _FALSE_ALARM) -> float:
        """What noise alone reaches in any window of this length with a small probability."""
        tail = false_alarm / (len(_WINDOWS) * len(self.edges))
        return _upper(self.noise, length * self.layers, tail) / SCALE

    @property
    def least_seen(self) -> float:
        """How many units it takes in one bin to be told from noise."""
        return self._enough(1)

    def around(self, low: float, high: float) -> slice:
        """The bins that are clearly there and all between two values, and one more on either side."""
        first, last = self.ends or (0, 0)
        below, above = np.searchsorted(self.places, low), np.searchsorted(self.places, high, side="right")
        return slice(max(min(first, int(below)) - 1, 0), max(last, int(above)) + 2)

    @cached_property
    def smooth(self) -> Floats:
        """Counts that are not negative and sum up to the same: bins below zero are shared with their neighbours."""
        found = np.zeros(len(self.edges))
        if self.ends is None:
            return found
        first, last = self.ends
        found[first : last + 1] = pooled(self.counts[first : last + 1])
        return found

    def share(
        self,
        part: Callable[[Floats], Floats],
        whole: Callable[[Floats], Floats],
        confidence: float,
        cuts: tuple[float, float],
        *,
        sampled: bool = False,
    ) -> Share:
        """The share of a total over the units in another: `part` and `whole` of a unit's value, linear between edges.

        Units beyond the edges that are clearly there, and beyond the first one after the `cuts`, are taken not to
        exist: nobody could tell.
        """
        bins = self.around(*cuts)
        places = self.places[bins]
        return share_of(
            self.counts[bins],
            part(places),
            whole(places),
            self.noise,
            SCALE,
            confidence,
            sampled=sampled,
            layers=self.layers,
        )


@lru_cache(maxsize=256)
def _upper(noise: IntegerLaw, terms: int, tail: float) -> float:
    return Combination(((1.0, noise),) * terms).half_width(1.0 - 2.0 * tail)


def pooled(counts: Floats) -> Floats:
    """Neighbouring bins put together until none is negative, with the same sum: each gets an equal part of its pool."""
    pools = [[float(count), 1] for count in counts]
    while len(pools) > 1 and (least := min(range(len(pools)), key=lambda i: pools[i][0])) is not None:
        if pools[least][0] >= 0:
            break
        beside = [i for i in (least - 1, least + 1) if 0 <= i < len(pools)]
        other = max(beside, key=lambda i: pools[i][0] / pools[i][1])
        low, high = sorted((least, other))
        pools[low : high + 1] = [[pools[low][0] + pools[high][0], pools[low][1] + pools[high][1]]]
    return np.concatenate([np.full(int(size), max(total, 0.0) / size) for total, size in pools])
