"""Quantiles: the number of values in bins and in ranges of bins, and estimates and intervals out of noisy ones.

The bins are made from the bounds alone. All bins of a group move together by no more than one number would
(docs/dominance.md), and so do the ranges of one level. Levels of fewer, wider ranges make the number of values below an
edge a sum of fewer noises, but each level takes a part of the budget: how many are best depends on the noise.

Let G(e) be the number of values below the edge e less p times the number of all values; least squares over the levels
estimate it without bias, with noise whose distribution is known. The least p-quantile lies in a bin at whose upper edge
G ≥ 0, the largest in one at whose lower edge G ≤ 0 (docs/quantiles.md). The interval begins with the first bin whose
upper edge is not clearly below (estimate ≥ -h) and ends with the last one whose lower edge is not clearly above
(estimate ≤ h), where |noise| ≤ h with the confidence asked for. It misses the least quantile only if the noise at one
certain edge is below -h, and the largest only if it is above h at another: together no more often than allowed.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from osgt.data.sql import Table, Value
from osgt.estimation.intervals import Quotient
from osgt.estimation.sums import ManySum, ManyTerm, NoiseSum, many_terms
from osgt.estimation.totals import Tree
from osgt.query.measures import ColumnMeasure, Measure, Place
from osgt.query.values import ValueGrid, one_if, present
from osgt.support.numeric import Floats, Integers

#: How many ranges make one of the level above.
_FAN_OUTS = (16, 8, 4, 2)

#: Edges that stand for those in the middle half, and rounds by which the best shares of the budget are found.
_EDGES, _ROUNDS = 128, 12


@dataclass(frozen=True)
class Leaves(ColumnMeasure):
    """The number of values in each of at most `most` equally wide bins, which hold all steps between the bounds."""

    grid: ValueGrid
    most: int

    @property
    def edges(self) -> Integers:
        """The first step of each bin, and the end of the last one, which is the upper bound itself for floats."""
        steps = self.grid.width + (self.grid.kind != "float")
        size = -(-steps // self.most)
        starts = self.grid.low + size * np.arange(-(-steps // size), dtype=np.int64)
        return np.append(starts, self.grid.low + steps)

    @property
    def numbers(self) -> int:
        return len(self.edges) - 1

    @property
    def words(self) -> str:
        return f"values of {self.column} in each of {self.numbers:,} bins"

    def derived(self, rows: Table) -> Value:
        column = rows[self.column]
        return present(column).then(self.grid.steps(column))

    def contributions(self, rows: Mapping[Any, Value], place: Place) -> list[Any]:
        steps, lasts = rows[self], [*(self.edges[1:-1] - 1), self.grid.high]
        # Nothing is between two steps for a missing value, and every step between the bounds is in one bin.
        return [
            one_if(steps.between(int(first), int(last))) for first, last in zip(self.edges[:-1], lasts, strict=True)
        ]


@dataclass(frozen=True)
class Ranges(Measure):
    """The number of values in ranges of `width` neighbouring bins."""

    leaves: Leaves
    width: int

    @property
    def numbers(self) -> int:
        return -(-self.leaves.numbers // self.width)

    @property
    def columns(self) -> tuple[str, ...]:
        return self.leaves.columns

    @property
    def words(self) -> str:
        return f"values of {self.leaves.column} in each of {self.numbers:,} ranges"

    @property
    def summed(self) -> tuple[Measure, ...]:
        return (self.leaves,)

    def exact(self, sums: Mapping[Measure, Integers]) -> Integers:
        starts = np.arange(self.numbers) * self.width
        return np.asarray(np.add.reduceat(sums[self.leaves], starts, axis=1))


@dataclass(frozen=True)
class QuantileDraw(Measure):
    """The bin of one quantile, drawn by its rank from the exact numbers of values in all bins.

    The draw is in `release.exponential_mechanism`. Nothing is added to these numbers: a unit moves the costs of bins by
    no more than Laplace noise on one rank hides. Both signs occur, since what a unit brings may draw the quantile
    either way.
    """

    leaves: Leaves
    level: float

    low = -1

    @property
    def share(self) -> Fraction:
        """Which quantile it is, as the number that was written."""
        return Fraction(str(self.level))

    @property
    def numbers(self) -> int:
        return self.leaves.numbers

    @property
    def columns(self) -> tuple[str, ...]:
        return self.leaves.columns

    @property
    def words(self) -> str:
        return (
            f"{self.level:.10g} quantile of {self.leaves.column}, drawn among {self.numbers:,} bins: it tells no more "
            "than a rank with this noise"
        )

    @property
    def summed(self) -> tuple[Measure, ...]:
        return (self.leaves,)

    def exact(self, sums: Mapping[Measure, Integers]) -> Integers:
        return sums[self.leaves]

    def rank_error(self, slope: float, confidence: float) -> float:
        """The steps of rank that the bin is off at most, with a probability: B·exp(-a·t/(2·max(p, 1 - p))) for t."""
        farthest = 2.0 * max(self.level, 1.0 - self.level)
        return farthest * math.log(self.numbers / (1.0 - confidence)) / slope


@dataclass(frozen=True)
class Layout:
    """The levels that are measured for the quantiles of a column, each of ranges of `fan_out` ranges of the next.

    `total` is the number of all values, where that is measured anyway.
    """

    leaves: Leaves
    fan_out: int
    total: Measure | None

    @cached_property
    def levels(self) -> tuple[Measure, ...]:
        """The measures of the levels, from the widest ranges to the bins."""
        widths = [1]
        while -(-self.leaves.numbers // widths[-1]) > self.fan_out:
            widths.append(widths[-1] * self.fan_out)
        return tuple(self.leaves if width == 1 else Ranges(self.leaves, width) for width in reversed(widths))

    def tree(self, total: float | None, variances: list[float]) -> Tree:
        """The tree with these variances of noise on the total, if it is measured, and on each level."""
        return _tree(self.leaves.numbers, self.fan_out, total, variances)

    @property
    def coefficients(self) -> tuple[list[Fraction], Fraction]:
        """The coefficients of the noise of each level, and of the total, in the rank of an edge in the middle half.

        The rank is the number of values below the edge less half of all, by least squares. The noises of a level come
        to as much as one of them times its coefficient: the root of the mean sum of squared weights.
        """
        levels, total = _coefficients(self.leaves.numbers, self.fan_out, self.total is not None)
        return [Fraction(c).limit_denominator(10_000) for c in levels], Fraction(total).limit_denominator(10_000)


def layouts(leaves: Leaves, total: Measure | None) -> list[Layout]:
    """List the layouts that differ; the first has one level. How many there are does not tell two bins apart."""
    total = total if leaves.numbers > 2 else None
    flat = Layout(leaves, leaves.numbers, total)
    return [flat, *(Layout(leaves, fan_out, total) for fan_out in _FAN_OUTS if fan_out < leaves.numbers)]


def least_rank_error(leaves: Leaves) -> float:
    """The standard deviation of a rank with Gaussian noise, in units of one count with the same budget."""
    return min(float(sum(layout.coefficients[0])) for layout in layouts(leaves, None))


def rank_weights(bins: int, edges: Integers, share: float) -> Floats:
    """Compute for each edge the weights of the bins in the number of values below it, less a share of all of them."""
    return np.asarray((np.arange(bins)[:, None] < edges) - share)


def _tree(bins: int, fan_out: int, total: float | None, variances: list[float]) -> Tree:
    sizes = [-(-bins // fan_out**i) for i in range(len(variances))]
    parents = [np.arange(size) // fan_out for size in sizes]
    return Tree(parents[::-1], [total, *variances])


@lru_cache(maxsize=256)
def _coefficients(bins: int, fan_out: int, with_total: bool) -> tuple[list[float], float]:
    """Compute the coefficients of the levels and the total, for the budget shares that are best with Gaussian noise."""
    golden = np.mod(np.arange(_EDGES) * 0.6180339887498949, 1.0)
    edges = np.unique(np.clip(np.rint(bins * (0.25 + 0.5 * golden)), 1, max(bins - 1, 1))).astype(np.int64)
    asked = rank_weights(bins, edges, 0.5)
    levels = 1
    while -(-bins // fan_out ** (levels - 1)) > fan_out:
        levels += 1
    variances = np.ones(levels)
    for _ in range(_ROUNDS):
        # With Gaussian noise of variance v on a level that counts for c², Σ c²·v is least under a limit on Σ 1/v where
        # v is in proportion to 1/c. The total is measured as exactly as a count that is alone.
        tree = _tree(bins, fan_out, 1.0 if with_total else None, variances.tolist())
        weights = tree.weights([*([None] * levels), asked])
        squares = [float(np.mean(np.sum(level**2, axis=0))) for level in weights]
        roots = np.sqrt(np.maximum(squares[1:], 1e-12))
        variances = np.sqrt(variances * np.sum(roots) / roots)
    return roots.tolist(), math.sqrt(squares[0]) if with_total else 0.0


# Estimates

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

    def with_values(self, numbers: Sequence[Numbers], totals: Quotient | None) -> "NoisyTree":
        """Attach numbers with this noise, and the number of all values with what that is to be divided by."""
        of_all = None if totals is None else np.asarray(totals.values[:, 0] / totals.of)
        return replace(self, numbers=tuple(numbers), totals=of_all)

    @property
    def _known(self) -> "NoisyTree":
        """The noise alone: what bands depend on."""
        return NoisyTree(self.layout, self.noises, self.total)

    @property
    def tree(self) -> Tree:
        """The tree of the levels, with the variances of their noise."""
        return self.layout.tree(
            None if self.total is None else self.total.var(), [noise.var() for noise in self.noises]
        )

    def rank_noise(self, share: float) -> list[ManySum]:
        """The noise of G at each inner edge."""
        weights = self._weights(share)
        return [self._sum(weights, i) for i in range(self.layout.leaves.numbers - 1)]

    def _weights(self, share: float) -> list[Floats]:
        """The weights of the measured numbers in G, by level: numbers by inner edges."""
        bins = self.layout.leaves.numbers
        asked = rank_weights(bins, np.arange(1, bins), share)
        return self.tree.weights([*([None] * len(self.noises)), asked])

    def _sum(self, weights: Sequence[Floats], edge: int) -> ManySum:
        return ManySum(tuple(self._terms([level[:, edge] for level in weights])))

    def _terms(self, weights: Sequence[Floats]) -> Iterator[ManyTerm]:
        if self.total is not None:
            weight = round(abs(float(weights[0][0])), _DIGITS)
            yield from ((float(c) * weight, law, n) for c, law, n in many_terms(self.total))
        for level, noise in zip(weights[1:], self.noises, strict=True):
            result, numbers = np.unique(np.round(np.abs(level), _DIGITS), return_counts=True)
            for weight, number in zip(result, numbers, strict=True):
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
        result = [self._some(slice(i, i + _AT_A_TIME), shares, bands) for i in range(0, max(groups, 1), _AT_A_TIME)]
        return [
            Quantiles(*(np.concatenate([part[i][j] for part in result]) for j in range(3))) for i in range(len(shares))
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
    """Compute for each inner edge an h with |noise of G| ≤ h with this confidence."""
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
