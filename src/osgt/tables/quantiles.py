"""Quantiles out of noisy numbers of values in ranges: estimates, and intervals that hold whatever the values are.

Let G(e) be the number of values below the edge e less p times the number of all values; least squares over the levels
estimate it without bias, with noise whose distribution is known. The least p-quantile lies in a bin at whose upper edge
G ≥ 0, the largest in one at whose lower edge G ≤ 0 (docs/quantiles.md). The interval begins with the first bin whose
upper edge is not clearly below (estimate ≥ -h) and ends with the last one whose lower edge is not clearly above
(estimate ≤ h), where |noise| ≤ h with the confidence asked for. It misses the least quantile only if the noise at one
certain edge is below -h, and the largest only if it is above h at another: together no more often than allowed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from osgt.noise.many import ManySum, ManyTerm, NoiseSum, many_terms
from osgt.noise.mills import Floats
from osgt.tables.measures import Integers
from osgt.tables.ranks import Layout, below
from osgt.tables.tree import Tree

#: Groups that are computed at a time.
_AT_A_TIME = 4096

#: Weights that differ by less are the same but for rounding.
_DIGITS = 12


#: Numbers of values in ranges, with noise: as measured, or estimated.
Numbers = Integers | Floats


@dataclass(frozen=True)
class Quantiles:
    """For each group, in steps: an estimate, and the least and the largest step within the noise interval."""

    values: Integers
    low: Integers
    high: Integers


@dataclass(frozen=True)
class NoisyTree:
    """The noise on the levels of a layout, and the numbers with this noise: groups by ranges, from the widest on."""

    layout: Layout
    noises: tuple[NoiseSum, ...]
    #: The noise on the number of all values, where that is measured.
    total: NoiseSum | None
    numbers: tuple[Numbers, ...] = ()
    totals: Floats | None = None

    def with_values(self, numbers: Sequence[Numbers], totals: tuple[Integers, int] | None) -> "NoisyTree":
        """The same noise on numbers, and on the number of all values and what that is to be divided by."""
        return replace(
            self, numbers=tuple(numbers), totals=None if totals is None else np.asarray(totals[0][:, 0] / totals[1])
        )

    @property
    def _known(self) -> "NoisyTree":
        """The noise alone: what bands depend on."""
        return NoisyTree(self.layout, self.noises, self.total)

    @property
    def tree(self) -> Tree:
        """How the levels hang together, and how exact they are."""
        return self.layout.tree(
            None if self.total is None else self.total.var(), [noise.var() for noise in self.noises]
        )

    def rank_noise(self, share: float) -> list[ManySum]:
        """The noise of G at each inner edge."""
        weights = self._weights(share)
        return [self._sum(weights, i) for i in range(self.layout.leaves.numbers - 1)]

    def _weights(self, share: float) -> list[Floats]:
        """How the measured numbers enter into G, by level: numbers by inner edges."""
        bins = self.layout.leaves.numbers
        asked = below(bins, np.arange(1, bins), share)
        return self.tree.weights([*([None] * len(self.noises)), asked])

    def _sum(self, weights: Sequence[Floats], edge: int) -> ManySum:
        return ManySum(tuple(self._terms([level[:, edge] for level in weights])))

    def _terms(self, weights: Sequence[Floats]) -> Iterator[ManyTerm]:
        if self.total is not None:
            weight = round(abs(float(weights[0][0])), _DIGITS)
            yield from ((float(c) * weight, law, n) for c, law, n in many_terms(self.total))
        for level, noise in zip(weights[1:], self.noises, strict=True):
            found, numbers = np.unique(np.round(np.abs(level), _DIGITS), return_counts=True)
            for weight, number in zip(found, numbers, strict=True):
                if weight > 0:
                    yield from ((float(c) * float(weight), law, n * int(number)) for c, law, n in many_terms(noise))

    def rank_error(self, share: float, confidence: float) -> float:
        """The half-width of G, in ranks, at the edge with the most noise."""
        if self.layout.leaves.numbers == 1:
            return 0.0
        weights = self._weights(share)
        variances = [0.0 if self.total is None else self.total.var(), *(noise.var() for noise in self.noises)]
        sums = [v * np.sum(level**2, axis=0) for v, level in zip(variances, weights, strict=True)]
        return self._sum(weights, int(np.argmax(np.sum(sums, axis=0)))).half_width(confidence)

    def quantiles(self, shares: Sequence[float], confidence: float) -> list[Quantiles]:
        """The quantiles of these shares, which ascend, for every group."""
        bands = [_bands(self._known, share, confidence) for share in shares]
        groups = len(self.numbers[0])
        found = [self._some(slice(i, i + _AT_A_TIME), shares, bands) for i in range(0, max(groups, 1), _AT_A_TIME)]
        return [
            Quantiles(*(np.concatenate([part[i][j] for part in found]) for j in range(3))) for i in range(len(shares))
        ]

    def _some(
        self, groups: slice, shares: Sequence[float], bands: Sequence[Floats]
    ) -> list[tuple[Integers, Integers, Integers]]:
        """The quantiles of some groups, and the ends of their intervals."""
        total = None if self.totals is None else self.totals[groups][None, :]
        bins = self.tree.estimates([total, *(level[groups].T for level in self.numbers)])[-1]
        under = np.concatenate([np.zeros((1, bins.shape[1])), np.cumsum(bins, axis=0)])
        edges, last = self.layout.leaves.edges, self.layout.leaves.grid.high
        lows, highs = [], []
        for share, band in zip(shares, bands, strict=True):
            ranks = (under - share * under[-1])[1:-1]
            # No edge needs to be tested at the bounds: no value is beyond them.
            may_begin = np.concatenate([ranks >= -band[:, None], np.ones((1, bins.shape[1]), bool)])
            may_end = np.concatenate([np.ones((1, bins.shape[1]), bool), ranks <= band[:, None]])
            lows.append(np.argmax(may_begin, axis=0))
            highs.append(len(bins) - 1 - np.argmax(may_end[::-1], axis=0))
        # Intervals of larger quantiles lie higher: the bands of different shares are not quite equal.
        begins, finishes = np.minimum.accumulate(lows[::-1])[::-1], np.maximum.accumulate(highs)
        ends = np.minimum(edges[1:] - (self.layout.leaves.grid.kind != "float"), last)
        values = [_crossing(under, share, edges) for share in shares]
        return [
            (np.clip(value, edges[low], ends[high]), edges[low], ends[high])
            for value, low, high in zip(values, begins, finishes, strict=True)
        ]


@lru_cache(maxsize=64)
def _bands(tree: NoisyTree, share: float, confidence: float) -> Floats:
    """For each inner edge an h with |noise of G| ≤ h with this confidence."""
    known: dict[ManySum, float] = {}
    noises = tree.rank_noise(share)
    for noise in noises:
        if noise not in known:
            known[noise] = noise.half_width(confidence)
    return np.array([known[noise] for noise in noises])


def _crossing(under: Floats, share: float, edges: Integers) -> Integers:
    """The step at which a distribution function reaches a share; inside a bin, values are taken as spread evenly.

    Noise makes the function fall in places. Half-way between its largest value so far and its least from there on, it
    does not.
    """
    most = np.maximum(under[-1], 0.0)
    inside = np.clip(under, 0.0, most)
    rising = 0.5 * (np.maximum.accumulate(inside, axis=0) + np.minimum.accumulate(inside[::-1], axis=0)[::-1])
    rising[-1] = most
    wanted = share * most
    # From the last edge that is not above to the first that is not below: equal where the function is level.
    left = len(under) - 1 - np.argmax((rising <= wanted)[::-1], axis=0)
    right = np.argmax(rising >= wanted, axis=0)
    columns = np.arange(under.shape[1])
    start, end = np.minimum(left, right), np.maximum(left, right)
    rise = rising[end, columns] - rising[start, columns]
    part = np.where(rise > 0, (wanted - rising[start, columns]) / np.where(rise > 0, rise, 1.0), 0.5)
    return np.asarray(np.floor(edges[start] + part * (edges[end] - edges[start])), dtype=np.int64)
