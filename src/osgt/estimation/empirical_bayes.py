"""Empirical Bayes: better estimates of many numbers at once, out of noisy ones whose noise is known exactly.

How large the numbers without noise are is estimated from all noisy ones together: the distribution of most likelihood
among mixtures of uniform distributions on ranges of whole numbers from 0 on. The ranges are narrow near 0 and each is
half as long again as the one before, so that small numbers are drawn together and large ones stay as they are. An
estimate is the mean of a number given its noisy value, an interval holds it with the confidence asked for, on average
over the numbers (docs/estimates.md).

How much smaller the error becomes is estimated without bias, whatever the numbers are: each fifth of them is estimated
by the distribution that the others have.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from osgt.estimation.cells import CellNoise, cell_width
from osgt.estimation.sums import NoiseSum
from osgt.support.numeric import Floats, Integers

#: Each range is so many times as long as the one before: with 2 errors are as small and intervals hold less often; with
#: 1.25 they are narrower and hold less often (measured on the tables of benchmarks/estimates_truth.py).
_GROWTH = 1.5

#: Numbers that each range has beforehand, so that no range is thought impossible: half a number (Jeffreys).
_BEFOREHAND = 0.5

#: Rounds of expectation and maximisation, and the change of a weight at which they end.
_ROUNDS, _SETTLED = 2_000, 1e-6

#: In standard deviations: a number so large is left as it is, since ranges are far wider than the noise there.
_LARGE = 64.0

#: The parts in which the risk is estimated, and the fewest numbers for which it is.
_PARTS, _FEWEST = 5, 20

#: The share of the root mean square error that must be saved, for certain by so many standard errors.
_LEAST_GAIN, _CERTAIN = 0.2, 2.0

#: Least likelihood of a noisy number: one beyond the reach of all ranges is as the farthest within.
_LEAST = 1e-300


@dataclass(frozen=True, eq=False)
class NoisyNumbers:
    """Some noisy numbers, in steps, with noise of one distribution."""

    values: Integers
    noise: NoiseSum


@dataclass(frozen=True)
class Risk:
    """The mean square error of noisy numbers, an unbiased estimate of that of the estimates, and its standard error."""

    noisy: float
    estimated: float
    std_error: float

    @property
    def gain(self) -> float:
        """The share of the root mean square error that is saved, less a standard error; below 0 if none is."""
        if not self.noisy > 0:
            return 0.0
        return 1.0 - math.sqrt(max(self.estimated + self.std_error, 0.0) / self.noisy)

    @property
    def helps(self) -> bool:
        """Whether at least a fifth of the error is saved, and certainly some of it."""
        return self.gain >= _LEAST_GAIN and self.estimated + _CERTAIN * self.std_error < self.noisy


@dataclass(frozen=True, eq=False)
class Estimated:
    """For each number an estimate, the ends of its interval, and the variance of what is not known of it."""

    values: Floats
    low: Floats
    high: Floats
    variances: Floats


@dataclass(frozen=True, eq=False)
class Ranges:
    """Ranges of cells from 0 on, by their first cells and the end of the last."""

    edges: Integers

    @classmethod
    def up_to(cls, largest: int) -> "Ranges":
        """Ranges that hold all cells up to this one: 0 alone, 1 alone, 2 alone, 3 to 4, …"""
        edges = [0, 1]
        while edges[-1] <= largest:
            edges.append(max(edges[-1] + 1, math.ceil(edges[-1] * _GROWTH)))
        return cls(np.array(edges))

    @property
    def first(self) -> Integers:
        """The first cell of each."""
        return self.edges[:-1]

    @property
    def last(self) -> Integers:
        """The last cell of each."""
        return self.edges[1:] - 1

    @property
    def sizes(self) -> Integers:
        """The number of cells in each."""
        return np.diff(self.edges)

    def likelihoods(self, noise: CellNoise, cells: Integers) -> Floats:
        """The probability of each noisy cell if the number is anywhere in a range: cells by ranges."""
        inside, _ = noise.between(cells[:, None] - self.last, cells[:, None] - self.first)
        return inside / self.sizes


def fit_weights(likelihoods: Floats, times: Floats) -> Floats:
    """The weights of ranges with the most likelihood, by expectation and maximisation.

    `likelihoods` are those of the noisy numbers (each occurs so many `times`) in each range.
    """
    ranges = likelihoods.shape[1]
    weights, total = np.full(ranges, 1.0 / ranges), times.sum() + _BEFOREHAND * ranges
    for _ in range(_ROUNDS):
        shares = likelihoods.T @ (times / np.maximum(likelihoods @ weights, _LEAST))
        renewed = (weights * shares + _BEFOREHAND) / total
        done = np.abs(renewed - weights).max() < _SETTLED
        weights = renewed / renewed.sum()
        if done:
            break
    return weights


@dataclass(frozen=True, eq=False)
class Posterior:
    """The distribution of a number given its noisy cell."""

    ranges: Ranges
    weights: Floats
    noise: CellNoise

    def moments(self, cells: Integers) -> tuple[Floats, Floats]:
        """The mean and the variance of the number, for each noisy cell."""
        parts = self.noise.between(cells[:, None] - self.ranges.last, cells[:, None] - self.ranges.first)
        density = self.weights / self.ranges.sizes
        total = np.maximum(parts[0] @ density, _LEAST)
        mean_noise = parts[1] @ density / total
        squares = self._squares(cells) @ density / total
        return cells - mean_noise, np.maximum(squares - mean_noise**2, 0.0)

    def _squares(self, cells: Integers) -> Floats:
        """E[X²; the number is in the range], for each noisy cell and range."""
        sums = np.concatenate([[0.0], np.cumsum(self.noise.places**2 * self.noise.masses)])
        reach = self.noise.reach
        last, first = (cells[:, None] - ends for ends in (self.ranges.first, self.ranges.last))
        after, before = (np.clip(at + reach + 1, 0, len(sums) - 1) for at in (last, first - 1))
        return np.asarray(sums[after] - sums[before])

    def interval(self, cells: Integers, confidence: float) -> tuple[Integers, Integers]:
        """The ends of an interval that holds the number with this probability, for each noisy cell.

        As much is left out on either side, unless 0 is so likely that the interval begins there.
        """
        left = (1.0 - confidence) / 2
        from_zero = self._at_most(cells, np.zeros(len(cells), np.int64)) >= left
        low = np.where(from_zero, 0, self._quantile(cells, np.full(len(cells), left)))
        return low, self._quantile(cells, np.where(from_zero, confidence, 1.0 - left))

    def _at_most(self, cells: Integers, most: Integers) -> Floats:
        """The probability that the number is at most so many cells, for each noisy cell."""
        density, noisy = self.weights / self.ranges.sizes, cells[:, None]
        ends = np.minimum(most[:, None], self.ranges.last)
        part, _ = self.noise.between(noisy - ends, noisy - self.ranges.first)
        whole, _ = self.noise.between(noisy - self.ranges.last, noisy - self.ranges.first)
        return np.asarray((part @ density) / np.maximum(whole @ density, _LEAST))

    def _quantile(self, cells: Integers, shares: Floats) -> Integers:
        """The least number of cells that the number exceeds with at most the rest of the probability."""
        low, high = np.full(len(cells), -1), np.full(len(cells), int(self.ranges.edges[-1]) - 1)
        while np.any(high - low > 1):
            middle = (low + high) // 2
            enough = (middle >= 0) & (self._at_most(cells, np.maximum(middle, 0)) >= shares)
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        return high


@dataclass(frozen=True, eq=False)
class Shrinkage:
    """Noisy numbers of one kind, with noise of one or several distributions, and what is estimated of them together."""

    parts: Sequence[NoisyNumbers]

    @cached_property
    def _width(self) -> int:
        return cell_width([part.noise for part in self.parts])

    @cached_property
    def _noises(self) -> list[CellNoise]:
        return [CellNoise.of(part.noise, self._width) for part in self.parts]

    @cached_property
    def _cells(self) -> list[Integers]:
        return [np.rint(part.values / self._width).astype(np.int64) for part in self.parts]

    @cached_property
    def _large(self) -> int:
        """The cell from which on numbers are left as they are."""
        return math.ceil(_LARGE * math.sqrt(max(noise.var for noise in self._noises)))

    @cached_property
    def _ranges(self) -> Ranges:
        return Ranges.up_to(self._large + max(noise.reach for noise in self._noises))

    def _weights(self, chosen: Sequence[NDArray[np.bool_]]) -> Floats:
        """Fit the weights of the ranges to the numbers that are chosen and not large."""
        rows, times = [], []
        for noise, cells, some in zip(self._noises, self._cells, chosen, strict=True):
            distinct, numbers = np.unique(cells[some & (cells <= self._large)], return_counts=True)
            rows.append(self._ranges.likelihoods(noise, distinct))
            times.append(numbers.astype(np.float64))
        return fit_weights(np.concatenate(rows), np.concatenate(times))

    @cached_property
    def risk(self) -> Risk:
        """The error without and with estimates; infinite with them if there are too few numbers to tell."""
        sizes = [len(cells) for cells in self._cells]
        variances = np.repeat([noise.var for noise in self._noises], sizes)
        noisy = float(variances.mean()) * self._width**2 if sum(sizes) else 0.0
        if sum(sizes) < _FEWEST or not noisy > 0:
            return Risk(noisy, math.inf, math.inf)
        # Any split serves that does not look at the numbers; the same one each time gives the same answer.
        part_of = np.random.default_rng(0).permutation(sum(sizes)) % _PARTS
        folds = np.split(part_of, np.cumsum(sizes)[:-1])
        result = np.concatenate([np.empty(size) for size in sizes])
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        for held_out in range(_PARTS):
            weights = self._weights([fold != held_out for fold in folds])
            for noise, cells, fold, start in zip(self._noises, self._cells, folds, starts, strict=True):
                own = np.flatnonzero(fold == held_out)
                if len(own):
                    result[start + own] = self._risks(Posterior(self._ranges, weights, noise), cells[own])
        error = float(result.std(ddof=1)) / math.sqrt(len(result))
        return Risk(noisy, float(result.mean()) * self._width**2, error * self._width**2)

    def _risks(self, posterior: Posterior, cells: Integers) -> Floats:
        """Estimate the square error of each estimate without bias: (δ(z) - z)² - var + 2·h(z), in cells.

        The square error is (δ(z) - z)² + 2·X·(δ(z) - z) + X², where z is the noisy number and X its noise.
        """
        noise = posterior.noise
        low, high = min(int(cells.min()), 0) - noise.reach, self._large + noise.reach
        grid = np.arange(low, high + 2)
        estimates = self._estimates(posterior, grid)
        # The variance of the noise comes out of h for δ(z) = z, up to the same bias: it is not taken twice.
        products, _ = noise.product_with_noise(np.diff(estimates))
        at = np.clip(cells, low, high) - low
        shifts = np.where(cells > self._large, 0.0, estimates[at] - grid[at])
        return np.asarray(shifts**2 - noise.var + 2.0 * products[at])

    def _estimates(self, posterior: Posterior, grid: Integers) -> Floats:
        """The estimate for each noisy cell: the cell itself where it is large."""
        return np.where(grid > self._large, grid, posterior.moments(grid)[0])

    def estimate(self, confidence: float) -> list[Estimated]:
        """Estimate all numbers, in steps."""
        weights = self._weights([np.ones(len(cells), bool) for cells in self._cells])
        result = []
        for part, noise, cells in zip(self.parts, self._noises, self._cells, strict=True):
            posterior = Posterior(self._ranges, weights, noise)
            distinct, back = np.unique(np.minimum(cells, self._large), return_inverse=True)
            means, variances = posterior.moments(distinct)
            ends = posterior.interval(distinct, confidence)
            width, half, large = self._width, part.noise.half_width(confidence), cells > self._large
            # A number is estimated as its cell is, and by as much off the middle of that.
            exact = part.values.astype(np.float64)
            off = exact - width * cells
            mean, low, high = (
                np.where(large, plain, np.maximum(width * own[back] + shift, 0.0))
                for plain, own, shift in (
                    (exact, means, off),
                    (exact - half, ends[0], np.minimum(off, 0.0)),
                    (exact + half, ends[1], np.maximum(off, 0.0)),
                )
            )
            unknown = np.where(large, noise.var, variances[back]) * width**2
            result.append(Estimated(mean, low, high, unknown))
        return result


def keep_sums(values: Floats, variances: Floats, parents: NDArray[np.intp], totals: Floats) -> Floats:
    """The nearest numbers from 0 on that add up to the totals of their parents, measured in standard deviations.

    What a sum is off is shared out in proportion to the variances; numbers that would fall below 0 are 0, and the
    others share what that leaves. Where nothing is uncertain, all share alike.

    Examples
    --------
    >>> keep_sums(np.array([4.0, 1.0]), np.array([3.0, 1.0]), np.zeros(2, np.intp), np.array([9.0])).tolist()
    [7.0, 2.0]
    """
    totals = np.maximum(totals, 0.0)
    size, free = len(totals), np.ones(len(values), bool)
    result = values.astype(np.float64)
    uncertain = np.bincount(parents, variances, size) > 0
    shares = np.where(uncertain[parents], variances, 1.0)
    for _ in range(len(values) + 1):
        sums = np.bincount(parents, np.where(free, values, 0.0), size)
        spread = np.bincount(parents, np.where(free, shares, 0.0), size)
        part = np.divide(totals - sums, spread, out=np.zeros(size), where=spread > 0)
        result = np.where(free, values + shares * part[parents], 0.0)
        below = free & (result < 0)
        if not np.any(below):
            break
        free &= ~below
    return result
