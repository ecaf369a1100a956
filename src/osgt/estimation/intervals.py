"""Noise intervals of means and variances, and of differences and ratios of two noisy numbers, true whatever they are.

A ratio ρ from 0 on is in its interval if |first - ρ·second| ≤ q(ρ), where q(ρ) is the half-width of X₁ - ρ·X₂: at the
true ratio that difference is this noise itself (Fieller). Half-widths are found at ratios that are a hundredth apart,
and lie on or below chords between these:

- of independent noises each stands for all ratios up to the next place, so that this holds to the last step;
- noises that have something in common are symmetric and log-concave together, but for their steps. Then q is convex
  (half-widths of projections are a norm: Meyer and Reisner, 1991).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import NamedTuple, Protocol

import numpy as np
import scipy
from numpy.typing import NDArray

from osgt.estimation.sums import ManySum, NoiseSum, many_terms, sum_of
from osgt.noise.error import ROUNDING, Combination, GridSum, grid_step, grid_sum, spectrum
from osgt.support.numeric import LARGEST_VALUE, Floats, Integers

#: A quantile of a ratio that is so many times the 64th part of the largest.
Quantiles = Callable[[int], float]
Places = NDArray[np.int_]

#: Values of the ratio at which the quantile can be found; for sums of many noises it is at every fourth.
_RATIOS, _APART = 64, 4


#: Parts of one in which numbers are given on that are not whole: fixed-point numbers.
PARTS_OF_ONE = 1 << 10


def whole_half_width(half: float) -> int:
    """The whole numbers within a half-width, which may be whole but for the rounding of floats."""
    return math.floor(half * (1.0 + 1e-12) + 1e-9)


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
        half = whole_half_width(self.noise.half_width(confidence) * self.of)
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
        bounds = np.array([_bound(quantile, int(place)) for place in distinct])[back]
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


#: The ratios at which half-widths are found: so many for each doubling, from 2⁻³⁰ to 2³⁰.
_EACH, _DOUBLINGS = 64, 30
_LAST = 2 * _EACH * _DOUBLINGS


class PairNoise(Protocol):
    """The noise of two numbers together."""

    def of_difference(self, confidence: float) -> float:
        """The half-width of X₁ - X₂."""

    def half_width(self, ratio: float, following: float, confidence: float) -> float:
        """A half-width of X₁ - ratio·X₂, one of a row of which chords are bounds; `following` is the next ratio."""


@dataclass(frozen=True)
class IndependentNoise:
    """The independent noises of two numbers; the second is in steps of `scale` of the first."""

    first: NoiseSum
    second: NoiseSum
    scale: float = 1.0

    def of_difference(self, confidence: float) -> float:
        """The half-width of X₁ - X₂."""
        scaled = [(c if self.scale == 1 else float(c) * self.scale, law, n) for c, law, n in many_terms(self.second)]
        return sum_of([*many_terms(self.first), *scaled]).half_width(confidence)

    def half_width(self, ratio: float, following: float, confidence: float) -> float:
        """A half-width for all ratios up to the following one."""
        return half_width_up_to(self.first, self.second, following * self.scale, confidence)


@dataclass(frozen=True)
class CommonNoise:
    """The noise of two numbers that have some of it in common: `joint` gives that of X₁ - ratio·X₂."""

    joint: Callable[[float], NoiseSum]

    def of_difference(self, confidence: float) -> float:
        """The half-width of X₁ - X₂."""
        return self.joint(1.0).half_width(confidence)

    def half_width(self, ratio: float, following: float, confidence: float) -> float:
        """The half-width at this ratio."""
        return self.joint(ratio).half_width(confidence)


@dataclass(eq=False)
class Contrasts:
    """Differences and ratios of pairs of numbers that have the same noise together.

    Published numbers may be rounded: the first by at most `rounding[0]`, the second by at most `rounding[1]`.
    """

    noise: PairNoise
    confidence: float
    rounding: tuple[float, float] = (0.0, 0.0)
    _known: dict[int, float] = field(default_factory=dict, init=False, repr=False)

    def difference(self, first: Floats, second: Floats) -> tuple[Floats, Floats]:
        """The ends of intervals for first - second."""
        half = self.noise.of_difference(self.confidence) + sum(self.rounding)
        return first - second - half, first - second + half

    def ratio(self, first: Floats, second: Floats, half_of_second: float) -> tuple[Floats, Floats]:
        """The ends of intervals for first/second, of numbers from 0 on; infinite where the second may be 0.

        `half_of_second` is the half-width of the second number. With s the sign of an end, s·(ρ·second - first) - q(ρ)
        is concave in ρ: where the second number is above its half-width, it is above 0 beyond one root (the upper end)
        or before one (the lower end).
        """
        known = second > half_of_second
        high = np.where(known, self._root(first, second, 1.0), np.inf)
        low = np.where(second > -half_of_second, self._root(first, second, -1.0), 0.0)
        return low, np.maximum(high, low)

    def _root(self, first: Floats, second: Floats, sign: float) -> Floats:
        """The ratio at which the set ends: the last that is in it, with the sign -1 the first."""

        def over(place: NDArray[np.int_]) -> Floats:
            distinct, back = np.unique(place, return_inverse=True)
            halves = np.array([self._half_width(int(place)) for place in distinct])[back]
            return np.asarray(sign * (_ratio(place) * second - first) - halves)

        zero, far = np.zeros(len(first), np.int_), np.full(len(first), _LAST + 1)
        refused = over(zero) > 0
        if sign > 0:
            inside, outside = zero, np.where(refused, zero, far)
        else:
            inside, outside = np.where(refused, far, zero), zero
        while np.any(np.abs(outside - inside) > 1):
            middle = (inside + outside) // 2
            beyond = over(middle) > 0
            inside, outside = np.where(beyond, inside, middle), np.where(beyond, middle, outside)
        within, without = np.minimum(over(inside), 0.0), np.maximum(over(outside), 0.0)
        gap = without - within
        part = np.where(gap > 0, -within / np.where(gap > 0, gap, 1.0), 0.0)
        result = _ratio(inside) + part * (_ratio(outside) - _ratio(inside))
        return np.where((sign > 0) & (outside > _LAST), np.inf, result)

    def _half_width(self, place: int) -> float:
        if place not in self._known:
            ratio, following = _ratio(np.array([place, place + 1])).tolist()
            half = self.noise.half_width(ratio, following, self.confidence)
            self._known[place] = half + self.rounding[0] + ratio * self.rounding[1]
        return self._known[place]


def _ratio(place: NDArray[np.int_]) -> Floats:
    """The ratio at a place: 0 at 0, then geometrically."""
    return np.where(place == 0, 0.0, 2.0 ** ((np.asarray(place) - 1) / _EACH - _DOUBLINGS))
