"""Noise intervals of means and variances: sound for ratios of noisy numbers, whatever the true ones are."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from osgt.estimation.sums import ManySum, NoiseSum, many_terms
from osgt.noise.error import ROUNDING, Combination, GridSum, grid_step, grid_sum, spectrum
from osgt.support.numeric import LARGEST_VALUE, Floats, Integers

#: A quantile of a ratio that is so many times the 64th part of the largest.
Quantiles = Callable[[int], float]
Places = NDArray[np.int_]

#: Values of the ratio at which the quantile can be found; for sums of many noises it is at every fourth.
_RATIOS, _APART = 64, 4


#: Parts of one in which numbers are given on that are not whole: fixed-point numbers.
PARTS_OF_ONE = 1 << 10


class Quotient(NamedTuple):
    """Whole numbers, one row for each group, and what they are to be divided by.

    `is_fraction` says that the numbers without noise need not be whole, and that all are rounded to 1/of.
    """

    values: Integers
    of: int
    is_fraction: bool = False


@dataclass(frozen=True)
class Numbers:
    """A number for each group, with noise: `values` divided by `of`, and the distribution of the noise.

    The numbers themselves are whole unless they are fractions; their noise is a multiple of 1/of, or rounded to one
    where numbers to be `shown` are given.
    """

    values: Integers
    noise: NoiseSum
    of: int = 1
    shown: Integers | None = None
    is_fraction: bool = False

    @property
    def floats(self) -> Floats:
        """The numbers with their noise."""
        return np.asarray(self.values / self.of)

    def whole(self, confidence: float) -> tuple[Integers, Integers, Integers]:
        """The numbers to be shown, or the nearest whole ones, and the ends of the noise interval.

        The ends are the least and the largest whole number within it; of fractions, those just outside of it. Halves go
        to even.
        """
        half = math.floor(self.noise.half_width(confidence) * self.of * (1.0 + 1e-12) + 1e-9)
        half += self.is_fraction or self.shown is not None  # numbers were rounded to parts of one
        half = min(half, LARGEST_VALUE - 1)  # 64 bits hold the ends
        quotient, rest = np.divmod(self.values, self.of)
        up = (2 * rest > self.of) | ((2 * rest == self.of) & (quotient % 2 == 1))
        nearest = quotient + up if self.shown is None else self.shown
        outward = self.of - 1 if self.is_fraction else 0
        return nearest, -((half + outward - self.values) // self.of), (self.values + half + outward) // self.of


def ratio_interval(numerator: Numbers, denominator: Numbers, largest: int, confidence: float) -> tuple[Floats, Floats]:
    """Fieller's interval for a ratio between -largest and largest of two numbers that both carry noise.

    It holds the ratios ρ with |numerator - ρ·denominator| ≤ q(ρ), q(ρ) being the quantile of |Y₁ - ρ·Y₂| at this
    confidence. For the true ratio that difference *is* Y₁ - ρ·Y₂, so the interval covers it with at least this
    probability, however small the group. Where the set has gaps, its hull is taken; where it is empty, the numerator
    is taken as the nearest that fits the denominator.
    """
    quantile = _quantiles(numerator.noise, denominator.noise, largest, confidence)
    top, bottom = numerator.floats, denominator.floats
    furthest, most = largest * np.abs(bottom), _bound(quantile, _RATIOS)
    top = np.where(np.abs(top) > furthest + most, np.clip(top, -furthest, furthest), top)
    # But for the steps of the noise q is convex, so that for each sign the ratios with
    # sign·(numerator - ρ·denominator) > q(ρ) lie between two roots: seen from an end that is not in the set, the set
    # begins at the one root there is between the two ends.
    return _end(quantile, top, bottom, largest, -1), _end(quantile, top, bottom, largest, 1)


def half_width_up_to(numerator: NoiseSum, denominator: NoiseSum, ratio: float, confidence: float) -> float:
    """An h with P[|X₁ - r·X₂| ≤ h] ≥ confidence for all r from 0 to a ratio; the noises are independent."""
    if isinstance(numerator, Combination) and isinstance(denominator, Combination):
        return _quantiles_of_few(numerator, denominator, ratio, confidence)(_RATIOS)
    return _quantiles_of_many(numerator, denominator, ratio, confidence)(_RATIOS)


def std_of_interval(value: Floats, low: Floats, high: Floats, confidence: float) -> Floats:
    """Estimate the standard deviation of the noise of a number from its interval, rather too large than too small.

    The longer side of the interval counts, since the other may end at a bound. It is divided by its length at a
    standard deviation of 1: that of Gaussian or that of Laplace noise, between which ours is, whichever is shorter.
    """
    gaussian, laplace = scipy.special.ndtri((1.0 + confidence) / 2), -math.log1p(-confidence) / math.sqrt(2.0)
    return np.asarray(np.maximum(value - low, high - value) / min(gaussian, laplace))


def _end(quantile: Quantiles, top: Floats, bottom: Floats, largest: int, side: int) -> Floats:
    """The least or the largest ratio that fits, by the side: that at which the excess over q is 0.

    Between neighbouring places q is taken as a line, so that the root there has a formula.
    """

    def over(place: Places) -> Floats:
        distinct, back = np.unique(np.abs(place), return_inverse=True)
        bounds = np.array([_bound(quantile, int(each)) for each in distinct])[back]
        return np.asarray(sign * (top - place * unit * bottom) - bounds)

    unit, end = largest / _RATIOS, np.full(len(top), side * _RATIOS)
    sign = np.sign(top - side * float(largest) * bottom)
    # q is at least that at 0 and at most that at the end: the root is between where these are reached.
    with np.errstate(divide="ignore", invalid="ignore"):
        outer, inner = ((top - sign * _bound(quantile, place)) / (bottom * unit) for place in (_RATIOS, 0))
    refused, accepted = _places(side * np.ceil(side * outer)), _places(side * np.floor(side * inner))
    refused, accepted = np.where(over(refused) > 0, refused, end), np.where(over(accepted) <= 0, accepted, -end)
    reaches = over(end) <= 0
    refused, accepted = np.where(reaches, end, refused), np.where(reaches, end, accepted)
    while np.any(np.abs(refused - accepted) > 1):
        middle = (refused + accepted) // 2
        good = over(middle) <= 0
        refused, accepted = np.where(good, refused, middle), np.where(good, middle, accepted)
    short, rest = np.maximum(over(refused), 0.0), np.maximum(-over(accepted), 0.0)
    part = short / np.where(short > 0, short + rest, 1.0) * (1.0 - 1e-12)
    return np.asarray((refused + (accepted - refused) * part) * unit)


def _places(numbers: Floats) -> Places:
    """Whole numbers as places within the ends, 0 where there are none."""
    return np.clip(np.nan_to_num(numbers), -_RATIOS, _RATIOS).astype(np.int_)


def _bound(quantile: Quantiles, place: int) -> float:
    """Choose the value that q is taken to have at a place.

    Quantiles grow with the ratio: between two ratios that of the larger one holds. So each stands one place before.
    """
    if place < _RATIOS:
        return quantile(place + 1)
    return 2.0 * quantile(_RATIOS) - quantile(_RATIOS - 1)


@lru_cache(maxsize=256)
def _quantiles(numerator: NoiseSum, denominator: NoiseSum, largest: int, confidence: float) -> Quantiles:
    """For ratios ρ from 0 to the largest a q with P[|X₁ - r·X₂| ≤ q] ≥ confidence for all r ≤ ρ, nearly the least.

    Each is found when it is asked for: intervals of large groups need few of them.
    """
    if isinstance(numerator, Combination) and isinstance(denominator, Combination):
        return cache(_quantiles_of_few(numerator, denominator, largest, confidence))
    return _quantiles_of_many(numerator, denominator, largest, confidence)


def _quantiles_of_many(numerator: NoiseSum, denominator: NoiseSum, largest: float, confidence: float) -> Quantiles:
    """Find `_quantiles` for sums of many noises: few are found, and chords lie above what is convex."""
    above, below = many_terms(numerator), many_terms(denominator)

    @cache
    def result(place: int) -> float:
        ratio = largest * place / _RATIOS
        return ManySum((*above, *((ratio * float(c), noise, n) for c, noise, n in below))).half_width(confidence)

    def quantile(place: int) -> float:
        rest = place % _APART
        if not rest:
            return result(place)
        return result(place - rest) + (result(place - rest + _APART) - result(place - rest)) * rest / _APART

    return quantile


def _quantiles_of_few(numerator: Combination, denominator: Combination, largest: float, confidence: float) -> Quantiles:
    """Find `_quantiles` for few noises, on a grid.

    The noises must be independent. X₁ is taken as spread evenly over the unit around each of its terms, which makes a
    difference of half these units at most. Then its density is symmetric and falls on either side, so that the
    probability of an interval is the less the farther it is from zero: smaller ratios are inside more often.
    """
    tail = 1.0 - confidence
    below = grid_sum(denominator.terms, tail)
    step = grid_step([*numerator.terms, *((largest * float(c), noise) for c, noise in denominator.terms)], tail)
    above = grid_sum(numerator.terms, tail, step=step)
    units = [abs(float(c)) for c, _ in numerator.terms]
    parts = [above.masses, *(_even(unit / step) for unit in units if unit > step)]
    fixed = above.off + 0.5 * math.fsum(units) + step * (0.5 * (len(units) + 1))
    size = scipy.fft.next_fast_len(
        2 * (sum(len(part) for part in parts) + int(largest * below.reach / step) + 2), real=True
    )
    transform = np.prod([spectrum(part, size) for part in parts], axis=0)
    multiples = np.arange(len(below.masses)) * below.step

    def quantile(place: int) -> float:
        ratio = largest * place / _RATIOS
        places = np.rint(ratio * multiples / step).astype(np.int64)
        masses = np.asarray(np.bincount(places, below.masses), dtype=np.float64)
        # What is rounded to 0 comes from both sides.
        masses[0] += np.sum(below.masses[1:][places[1:] == 0])
        together = scipy.fft.irfft(transform * spectrum(masses, size), size)[: size // 2]
        total = GridSum(step, together, 0.0, above.lost + below.lost + ROUNDING)
        return total.first_within(tail) * step + fixed + ratio * below.off

    return quantile


def _even(width: float) -> Floats:
    """Probabilities of the multiples 0, 1, … that are nearest to a number spread evenly over this width around 0."""
    last = math.floor(0.5 * width + 0.5)
    masses = np.full(last + 1, 1.0 / width)
    masses[last] = (0.5 * width - (last - 0.5)) / width
    return masses


def variance_interval(
    count: Numbers, first: Numbers, second: Numbers, largest: int, confidence: float
) -> tuple[Floats, Floats]:
    """The least and largest variance for all means and mean squares within Fieller's intervals for these.

    Sums and squares are centred, with distances between -largest and largest: `first` is the sum of the distances z,
    and `second` that of 2z² - largest². Mean and mean square are both within their intervals with at least the
    confidence asked for: each misses with at most half the probability that is left.
    """
    each, square = (1.0 + confidence) / 2, float(largest) ** 2
    mean_low, mean_high = ratio_interval(first, count, largest, each)
    square_low, square_high = ratio_interval(second, count, largest**2, each)
    away = np.maximum(np.abs(mean_low), np.abs(mean_high))
    near = np.maximum(np.maximum(mean_low, -mean_high), 0.0)
    return (
        np.clip((square_low + square) / 2 - away**2, 0.0, square),
        np.clip((square_high + square) / 2 - near**2, 0.0, square),
    )
