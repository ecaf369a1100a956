"""Evidence: the noisy histograms of a suggestion, and the model of the data that they lead to.

A part of it is the skew of groups, or how unequal they are: the mean square of their sizes over the square of the mean.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from osgt.limits.curve import Bounds, Model, Weighted
from osgt.limits.histogram import SCALE, Histogram, Share, count_edges, pooled
from osgt.noise import IntegerDistribution
from osgt.support.arrays import Floats

#: What is taken for granted as long as nothing else is measured: sizes of groups in real tables.
USUAL, _USUAL_STD = 2.0, 1.5

#: The fourth moment of noise is at most so many squared variances, that of the Laplace distribution.
_FOURTH = 6.0


@dataclass(frozen=True, eq=False)
class Sizes:
    """Noisy sizes of groups where every unit counts in one group of its own, drawn at random.

    `known` says whether these are all groups, which are public; otherwise those that reached a threshold.
    """

    numbers: NDArray[np.int64]
    noise: IntegerDistribution
    known: bool

    def share(self, units: float) -> float:
        """The part of the units that is in these groups."""
        return 1.0 if self.known or units <= 0 else min(max(float(self.numbers.sum()) / units, 0.0), 1.0)

    def skew(self, units: float) -> float:
        """The skew κ ≥ 1, between what was measured and what is usual, as far as the noise lets one tell.

        The squares of noisy sizes are too large by the variance of the noise, and by the units themselves, which are in
        one of their groups by chance.
        """
        n, inside = len(self.numbers), units * self.share(units)
        if n == 0 or inside <= 0:
            return USUAL
        variance = self.noise.var()
        squares = float(np.sum(self.numbers.astype(np.float64) ** 2)) - n * variance - inside
        measured = n * squares / inside**2
        error = n / inside**2 * math.sqrt((_FOURTH - 1.0) * n * variance**2 + 4.0 * variance * max(squares, 0.0))
        weight = _USUAL_STD**2 / (_USUAL_STD**2 + error**2)
        return max(weight * measured + (1.0 - weight) * USUAL, 1.0)


#: Units of which it takes so many standard deviations to count as much as all the others together.
_AS_MUCH = 4.0

#: Confidence of intervals whose upper ends stand for what limits may cut off.
_LIKELY = 0.68

#: Values that stand for all between two bounds.
_EVEN = 101


@dataclass(frozen=True, eq=False)
class RowsHistogram:
    """Units by the number of their groups (few edges) and by their rows in one group, drawn at random."""

    group_edges: tuple[int, ...]
    edges: tuple[int, ...]
    numbers: NDArray[np.int64]
    noise: IntegerDistribution

    def by_groups(self) -> list[Histogram]:
        """Split the histogram of rows by the edges of groups."""
        return [Histogram(self.edges, row, self.noise) for row in self.numbers]

    def all_units(self) -> Histogram:
        """The histogram of rows of all units: each count has as many noises on it as there are edges of groups."""
        return Histogram(self.edges, self.numbers.sum(axis=0), self.noise, layers=len(self.group_edges))

    def up_to(self, most: float) -> "RowsHistogram":
        """Drop the edges of groups that no unit reaches."""
        few = sum(edge < most for edge in self.group_edges) + 1
        return replace(self, group_edges=self.group_edges[:few], numbers=self.numbers[:few])

    def distribution(self) -> tuple[Weighted, Floats]:
        """Rows for each (unit, group) pair, and for each edge of groups the mean number of rows.

        Where few units are, their distribution is pulled towards that of all.
        """
        every = self.all_units()
        smooth = np.zeros(self.numbers.shape)
        if every.ends is not None:
            # Few units in a layer are told from noise only where those of all layers are.
            first, last = every.ends[0], min(every.ends[1] + 1, len(self.edges) - 1)
            for layer, histogram in zip(smooth, self.by_groups(), strict=True):
                layer[first : last + 1] = pooled(histogram.counts[first : last + 1])
        whole = Weighted.of(every.places, every.smooth)
        weights = smooth.sum(axis=1)
        pull = _AS_MUCH * self.noise.std() / SCALE
        rows = np.stack([(row + pull * whole.weights) / (row.sum() + pull) for row in smooth])
        edges = np.asarray(self.group_edges, dtype=np.float64)
        pairs = (edges * weights) @ rows if weights.sum() > 0 else whole.weights
        return Weighted.of(whole.places, pairs), rows @ whole.places


@dataclass(frozen=True, eq=False)
class Evidence:
    """The histograms that were measured, each with noise of its own; None where the query has no use for one.

    `known` is the number of groups as far as that is public. Of columns whose bounds are given, nothing is measured:
    `bounded` has them.
    """

    groups: Histogram | None
    rows: RowsHistogram | None
    values: Mapping[str, Histogram]
    sizes: Sizes | None
    known: int | None
    bounded: Mapping[str, Bounds] = field(default_factory=dict)

    @property
    def units(self) -> float:
        """The approximate number of units; at least one."""
        if self.groups is not None:
            return max(float(self.groups.smooth.sum()), 1.0)
        if self.rows is not None:
            return max(float(self.rows.all_units().counts.sum()), 1.0)
        return max((float(each.counts.sum()) for each in self.values.values()), default=1.0)

    @property
    def skew(self) -> float:
        """The skew of the groups: how unequal they are; 1 where there is one alone."""
        if self.groups is None:
            return 1.0
        return USUAL if self.sizes is None else self.sizes.skew(self.units)

    @cached_property
    def settled(self) -> RowsHistogram | None:
        """The rows, as far as units have groups."""
        if self.rows is None or self.groups is None or self.groups.ends is None:
            return self.rows
        return self.rows.up_to(self.groups.edges[self.groups.ends[1]])

    def model(self, noise: Callable[[int], float]) -> Model:
        """The data as far as this evidence tells."""
        one = Weighted(np.ones(1), np.ones(1))
        groups_of_units = one if self.groups is None else Weighted.of(self.groups.places, self.groups.smooth)
        rows, rows_of_groups = one, np.ones(len(groups_of_units.places))
        if self.settled is not None:
            rows, means = self.settled.distribution()
            rows_of_groups = np.interp(
                np.log(groups_of_units.places), np.log(np.asarray(self.settled.group_edges, dtype=np.float64)), means
            )
        groups, share = self.known, 1.0
        if groups is None and self.sizes is not None and len(self.sizes.numbers) > 0:
            groups, share = len(self.sizes.numbers), self.sizes.share(self.units)
        return Model(
            units=self.units,
            groups_of_units=groups_of_units,
            rows_of_groups=rows_of_groups,
            rows=rows,
            values={name: Weighted.of(each.places, each.smooth) for name, each in self.values.items()}
            | {name: _evenly(low, high) for name, (low, high) in self.bounded.items()},
            groups=groups,
            share=share,
            skew=self.skew,
            noise=noise,
            most_lost=cache(self._most_lost),
        )

    def _most_lost(self, max_groups: int, max_rows: int | None) -> float:
        """Estimate the most that limits cut off: no more than smaller ones, whose intervals have less noise in them."""

        def most(beyond: Callable[[int, float], Share], limit: int) -> float:
            limits = {limit, *(edge for edge in count_edges() if edge < limit)}
            return min(beyond(each, _LIKELY).high for each in limits)

        pairs = most(self.pairs_lost, max_groups)
        return pairs if max_rows is None else 1.0 - (1.0 - pairs) * (1.0 - most(self.rows_beyond, max_rows))

    def sees_groups_beyond(self, max_groups: int) -> bool:
        """Whether units are seen that have more groups than this."""
        return self.groups is not None and max_groups < self.groups.last_seen

    def sees_rows_beyond(self, max_rows: int) -> bool:
        """Whether units are seen that have more rows in a group than this."""
        return self.settled is not None and max_rows < self.settled.all_units().last_seen

    def sees_values_beyond(self, column: str, bounds: tuple[float, float]) -> bool:
        """Whether values are seen beyond the bounds."""
        low, high = self.values[column].seen
        return low < bounds[0] or bounds[1] < high

    @property
    def sees_all_groups(self) -> bool:
        """Whether no unit can be in more groups than are seen, as far as the number of groups is public."""
        return self.known is not None and self.groups is not None and self.known <= self.groups.last_seen

    def pairs_lost(self, max_groups: int, confidence: float) -> Share:
        """The share of (unit, group) pairs that `max_groups` cuts off."""
        if self.groups is None:
            return Share(0.0, 0.0, 0.0)
        return _beyond(self.groups, max_groups, confidence)

    def rows_beyond(self, max_rows: int, confidence: float) -> Share:
        """The share of rows that `max_rows` cuts off, of one group of each unit."""
        if self.settled is None:
            return Share(0.0, 0.0, 0.0)
        return _beyond(self.settled.all_units(), max_rows, confidence, sampled=True)

    def values_beyond(self, column: str, bounds: tuple[float, float], confidence: float) -> Share:
        """The share of values beyond the bounds, of one value of each unit."""
        low, high = bounds
        return self.values[column].share(
            lambda x: ((x < low) | (x > high)).astype(np.float64), np.ones_like, confidence, bounds, sampled=True
        )

    def again(self, times: int) -> "list[Evidence]":
        """Simulate the measurement several times more, with data as the model has them: for how sure one can be."""
        groups = [None] * times if self.groups is None else _again(self.groups, times)
        if self.rows is None:
            return [replace(self, groups=each) for each in groups]
        rows = self.rows
        layers = [_again(each, times) for each in rows.by_groups()]
        tables = [np.stack([layer[i].numbers for layer in layers]) for i in range(times)]
        return [
            replace(self, groups=each, rows=replace(rows, numbers=numbers))
            for each, numbers in zip(groups, tables, strict=True)
        ]


def _evenly(low: float, high: float) -> Weighted:
    """Values of which no more is known than their bounds."""
    return Weighted(np.linspace(low, high, _EVEN), np.full(_EVEN, 1.0 / _EVEN))


def _beyond(histogram: Histogram, limit: int, confidence: float, *, sampled: bool = False) -> Share:
    """The share of a total that is beyond a limit of each unit.

    It falls with the limit. A limit between two edges has an interval from those of both.
    """
    edges = histogram.edges
    below = max(edge for edge in edges if edge <= max(limit, edges[0]))
    above = min((edge for edge in edges if edge >= limit), default=limit)

    def at(edge: float) -> Share:
        return histogram.share(
            lambda x: np.maximum(x - edge, 0.0), lambda x: x, confidence, (edges[0], edge), sampled=sampled
        )

    if below == above:
        return at(below)
    more, less = at(below), at(above)
    part = (limit - below) / (above - below)
    return Share((1.0 - part) * more.value + part * less.value, min(less.low, more.low), max(less.high, more.high))


def _again(histogram: Histogram, times: int) -> list[Histogram]:
    noise = np.asarray(histogram.noise.sample((times, len(histogram.edges))))
    numbers = np.rint(histogram.smooth * SCALE).astype(np.int64) + noise
    return [replace(histogram, numbers=each) for each in numbers]
