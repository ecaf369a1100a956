"""Noisy histograms over units: their edges, shares of totals, and where a histogram ends.

The bins are geometric, and units count in them by parts. A unit with the value x between two edges counts in both, the
more the nearer: a function that is linear between the edges then has the same total over the bins as over the units,
without any rounding to bins. All parts of a unit together are SCALE, in whole numbers. Moving one number by SCALE
reveals at least as much as moving several by SCALE in all (docs/dominance.md), so a histogram is one number that one
unit moves by SCALE. Intervals of shares hold whatever the exact totals are.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from osgt.noise import Distribution, IntegerDistribution
from osgt.noise.combination import Combination
from osgt.support.arrays import Floats, Integers

#: A unit as a whole number: its parts are exact to one in so many.
SCALE = 1 << 24

#: Numbers that people would choose; each is at most 1.5 times the one before.
_DIGITS = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0)

#: As close as makes a difference to the error.
_FINE_DIGITS = (1.0, 1.2, 1.5, 1.8, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0)

#: Limits that a table shows, around the one that was chosen.
_SHOWN = 9

#: More rows or groups than that count as so many: a unit with a million rows is one of its own kind.
MOST_COUNTED = 1_000_000

#: Values beyond count as this, and nearer to zero lie between zero and that.
LARGEST_VALUE = 1e12
SMALLEST_VALUE = 1e-3


def count_edges(most: int = MOST_COUNTED, factor: float = 1.0) -> tuple[int, ...]:
    """Whole numbers from 1 to `most`, each at most 1.5 times the one before, or double it where there is none between.

    With a factor, those are left out that are closer than this to the one before.
    """
    decades = range(len(str(most)))
    candidates = [
        int(digit * 10**decade) for decade in decades for digit in _DIGITS if (digit * 10**decade).is_integer()
    ]
    edges = [1]
    for edge in candidates:
        if factor * edges[-1] <= edge < most and edge > edges[-1]:
            edges.append(edge)
    return (*edges, max(most, 2)) if edges[-1] < max(most, 2) else tuple(edges)


def limits_up_to(most: int) -> list[int]:
    """Whole numbers from 1 to `most` that people would choose as a limit, closer to each other than the edges."""
    decades = range(len(str(most)))
    numbers = (digit * 10**decade for decade in decades for digit in _FINE_DIGITS)
    return sorted({int(number) for number in numbers if number.is_integer() and number < most} | {most})


def limits_around(limits: Sequence[int], chosen: int | None) -> list[int]:
    """Up to nine limits with the chosen one among them, spread over all of them and close to it."""
    if len(limits) <= _SHOWN:
        return list(limits)
    if chosen is None:
        return [limits[round(place)] for place in np.linspace(0, len(limits) - 1, _SHOWN)]
    at = limits.index(chosen) if chosen in limits else 0
    steps = (-9, -6, -3, -1, 0, 1, 3, 6, 9)
    places = {min(max(at + step, 0), len(limits) - 1) for step in steps}
    return [limits[place] for place in sorted(places)]


def value_edges(smallest: float = SMALLEST_VALUE, largest: float = LARGEST_VALUE) -> tuple[float, ...]:
    """Numbers from -largest to largest: zero, and from ±smallest on each at most 1.5 times the one before."""
    exponents = range(round(np.log10(smallest)), round(np.log10(largest)) + 1)
    sizes = [float(f"{digit}e{exponent}") for exponent in exponents for digit in _DIGITS]
    positive = [size for size in sizes if smallest <= size <= largest]
    return (*(-size for size in reversed(positive)), 0.0, *positive)


def parts(values: ArrayLike, edges: tuple[float, ...]) -> NDArray[np.int64]:
    """Compute what all the values together count at each edge: the same as the engines make."""
    edge = np.asarray(edges, dtype=np.float64)
    clipped = np.clip(np.asarray(values, dtype=np.float64), edge[0], edge[-1])
    below = np.clip(np.searchsorted(edge, clipped, side="right") - 1, 0, len(edge) - 2)
    upper = np.floor((clipped - edge[below]) / (edge[below + 1] - edge[below]) * SCALE).astype(np.int64)
    counts = np.zeros(len(edge), dtype=np.int64)
    np.add.at(counts, below, SCALE - upper)
    np.add.at(counts, below + 1, upper)
    return counts


# Shares of noisy totals

#: What parts of units are rounded by, and more: intervals are wider by this part of themselves.
_ROUNDING = 1e-6


@dataclass(frozen=True)
class Share:
    """A share between 0 and 1, and its noise interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{_percent(self.value)} % ({self.interval})"

    @property
    def interval(self) -> str:
        """The interval in words: "3 to 8 %"."""
        return f"{_percent(self.low)} to {_percent(self.high)} %"

    def to_dict(self) -> dict[str, float]:
        """Plain values."""
        return {"share": self.value, "low": self.low, "high": self.high}


def _percent(share: float) -> str:
    """Whole percents; below 2 % one digit more."""
    percents = 100.0 * share
    return f"{percents:.0f}" if percents >= 1.95 or percents == 0 else f"{percents:.1f}"


def share_of(
    counts: Floats,
    part: Floats,
    whole: Floats,
    noise: Distribution,
    scale: int,
    confidence: float,
    *,
    sampled: bool = False,
    layers: int = 1,
) -> Share:
    """The share Σ part·x / Σ whole·x, where the x are known as `counts` with noise/scale on each.

    The interval is Fieller's: all θ for which Σ (part - θ·whole)·x could be 0. Where each unit was counted with one of
    several values, drawn at random (`sampled`), the counts vary by that as well, at most like those of a Poisson
    distribution. With several `layers`, each x has so many independent noises on it: nearer to a normal distribution.
    """
    estimate = float(part @ counts) / total if (total := float(whole @ counts)) > 0 else 0.0
    estimate = min(max(estimate, 0.0), 1.0)
    step = noise.std() / scale
    factor = _factor(noise, confidence)
    variances = layers * step**2 + (np.maximum(counts, step) if sampled else np.zeros(len(counts)))
    low, high = _fieller(counts, part, whole, variances, factor * (1.0 + _ROUNDING))
    return Share(estimate, max(min(low, estimate) - _ROUNDING, 0.0), min(max(high, estimate) + _ROUNDING, 1.0))


@lru_cache(maxsize=64)
def _factor(noise: Distribution, confidence: float) -> float:
    """At least the half-width of any weighted sum of such noises, in its standard deviations.

    A sum is nearer to the normal distribution than its terms: the larger of both serves, whatever the weights are.
    """
    alone, normal = Combination(((1.0, noise),)), float(ndtri((1.0 + confidence) / 2))
    # At a huge budget there is no noise at all.
    return max(alone.half_width(confidence) / alone.std(), normal) if alone.std() > 0 else normal


def _fieller(counts: Floats, part: Floats, whole: Floats, variances: Floats, factor: float) -> tuple[float, float]:
    """The ends of {θ in [0, 1]: |Σ (part - θ·whole)·count| ≤ factor·its standard deviation}."""
    a, b = float(part @ counts), float(whole @ counts)
    aa, ab, bb = (float((x * y) @ variances) * factor**2 for x, y in ((part, part), (part, whole), (whole, whole)))
    # b²θ² - 2abθ + a² ≤ bbθ² - 2·abθ + aa
    square, line, constant = b * b - bb, a * b - ab, a * a - aa
    if square <= 0:
        return 0.0, 1.0  # the whole may be anything
    root = line * line - square * constant
    if root < 0:
        return a / b, a / b
    return (line - math.sqrt(root)) / square, (line + math.sqrt(root)) / square


# Histograms

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
    """The units at each edge, by parts (`edges.parts`), as whole numbers with noise.

    With several `layers`, each number is the sum of so many with noise of their own. With `gaps`, empty bins may lie
    between others, as between zero and the values of a column.
    """

    edges: tuple[float, ...]
    numbers: Integers
    noise: IntegerDistribution
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
        """Count the bins beyond an end that belong to the histogram as well."""
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
        """Compute the count that noise alone reaches in any window of this length with a small probability."""
        tail = false_alarm / (len(_WINDOWS) * len(self.edges))
        return _upper(self.noise, length * self.layers, tail) / SCALE

    @property
    def seen(self) -> tuple[float, float]:
        """The first and the last edge where units are seen; 0 if none are."""
        return (0.0, 0.0) if self.ends is None else (self.edges[self.ends[0]], self.edges[self.ends[1]])

    @property
    def last_seen(self) -> float:
        """The last edge where units are seen."""
        return self.seen[1]

    @property
    def least_seen(self) -> float:
        """The number of units that it takes in one bin to be told from noise."""
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
def _upper(noise: IntegerDistribution, terms: int, tail: float) -> float:
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
