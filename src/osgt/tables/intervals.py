"""Noise intervals of means and variances: sound for ratios of noisy numbers, whatever the true ones are."""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len

from osgt.limits import LARGEST_VALUE
from osgt.noise.combination import ROUNDING, Combination, GridSum, grid_sum, spectrum
from osgt.noise.many import ManySum, NoiseSum, many_terms
from osgt.noise.mills import Floats

Integers = NDArray[np.int64]

#: Values of the ratio for which the quantile is found, for few noises and for many, and steps of a bisection.
_RATIOS, _RATIOS_OF_MANY, _HALVINGS = 64, 16, 40


@dataclass(frozen=True)
class Numbers:
    """A number for each group, with noise: `values` divided by `of`, and the distribution of the noise.

    The numbers themselves are whole; their noise is a multiple of 1/of, or rounded to one where numbers to be `shown`
    are given.
    """

    values: Integers
    noise: NoiseSum
    of: int = 1
    shown: Integers | None = None

    @property
    def floats(self) -> Floats:
        """The numbers with their noise."""
        return np.asarray(self.values / self.of)

    def whole(self, confidence: float) -> tuple[Integers, Integers, Integers]:
        """The numbers to be shown, or the nearest whole ones, and the least and largest ones within the noise interval.

        Halves go to even.
        """
        half = math.floor(self.noise.half_width(confidence) * self.of * (1.0 + 1e-12) + 1e-9)
        half += self.shown is not None  # numbers were rounded to parts of one
        half = min(half, LARGEST_VALUE - 1)  # 64 bits hold the ends
        quotient, rest = np.divmod(self.values, self.of)
        up = (2 * rest > self.of) | ((2 * rest == self.of) & (quotient % 2 == 1))
        nearest = quotient + up if self.shown is None else self.shown
        return nearest, -((half - self.values) // self.of), (self.values + half) // self.of


def ratio_interval(numerator: Numbers, denominator: Numbers, largest: int, confidence: float) -> tuple[Floats, Floats]:
    """Fieller's interval for a ratio between -largest and largest of two numbers that both carry noise.

    It holds the ratios ρ with |numerator - ρ·denominator| ≤ q(ρ), q(ρ) being the quantile of |Y₁ - ρ·Y₂| at this
    confidence. For the true ratio that difference *is* Y₁ - ρ·Y₂, so the interval covers it with at least this
    probability, however small the group. Where the set has gaps, its hull is taken; where it is empty, the numerator
    is taken as the nearest that fits the denominator.
    """
    ratios = np.linspace(0.0, float(largest), _RATIOS + 1)
    # Quantiles grow with the ratio: between two ratios that of the larger one holds. So each stands one place before.
    quantiles = _quantiles(numerator.noise, denominator.noise, largest, confidence)
    quantiles = np.append(quantiles, 2.0 * quantiles[-1] - quantiles[-2])
    top, bottom = numerator.floats, denominator.floats
    furthest = largest * np.abs(bottom)
    top = np.where(np.abs(top) > furthest + quantiles[-1], np.clip(top, -furthest, furthest), top)
    # But for the steps of the noise q is convex, so that for each sign the ratios with
    # sign·(numerator - ρ·denominator) > q(ρ) lie between two roots: seen from an end that is not in the set, the set
    # begins at the one root there is between the two ends.
    ends = []
    for end in (-float(largest), float(largest)):
        excess = top - end * bottom
        sign, reaches = np.sign(excess), np.abs(excess) <= quantiles[-1]
        refused, accepted = np.full_like(top, end), np.full_like(top, -end)
        for _ in range(_HALVINGS):
            middle = (accepted + refused) / 2
            good = sign * (top - middle * bottom) <= np.interp(np.abs(middle), ratios, quantiles)
            accepted, refused = np.where(good, middle, accepted), np.where(good, refused, middle)
        ends.append(np.where(reaches, end, refused))
    return ends[0], ends[1]


def _quantiles(numerator: NoiseSum, denominator: NoiseSum, largest: int, confidence: float) -> Floats:
    """For ratios ρ from 0 to the largest a q with P[|X₁ - r·X₂| ≤ q] ≥ confidence for all r ≤ ρ, nearly the least."""
    if isinstance(numerator, Combination) and isinstance(denominator, Combination):
        return _quantiles_of_few(numerator, denominator, largest, confidence)
    return _quantiles_of_many(numerator, denominator, largest, confidence)


@lru_cache(maxsize=256)
def _quantiles_of_many(numerator: NoiseSum, denominator: NoiseSum, largest: int, confidence: float) -> Floats:
    """The same for sums of many noises, which rise with the ratio but for a hair."""
    above, below = many_terms(numerator), many_terms(denominator)
    some = np.linspace(0.0, float(largest), _RATIOS_OF_MANY + 1)
    found = [
        ManySum((*above, *((ratio * float(c), law, n) for c, law, n in below))).half_width(confidence) for ratio in some
    ]
    # Quantiles are convex in the ratio, so that chords lie above them.
    return np.maximum.accumulate(np.interp(np.linspace(0.0, float(largest), _RATIOS + 1)[1:], some, found))


@lru_cache(maxsize=256)
def _quantiles_of_few(numerator: Combination, denominator: Combination, largest: int, confidence: float) -> Floats:
    """The same for few noises, on a grid.

    The noises must be independent. X₁ is taken as spread evenly over the unit around each of its terms, which makes a
    difference of half these units at most. Then its density is symmetric and falls on either side, so that the
    probability of an interval is the less the farther it is from zero: smaller ratios are inside more often.
    """
    ratios = np.linspace(0.0, float(largest), _RATIOS + 1)[1:]
    tail = 1.0 - confidence
    below = grid_sum(denominator.terms, tail)
    whole = grid_sum([*numerator.terms, *((largest * float(c), law) for c, law in denominator.terms)], tail)
    step = whole.step
    above = grid_sum(numerator.terms, tail, step=step)
    units = [abs(float(c)) for c, _ in numerator.terms]
    parts = [above.masses, *(_even(unit / step) for unit in units if unit > step)]
    fixed = above.off + 0.5 * math.fsum(units) + step * (0.5 * (len(units) + 1))
    size = next_fast_len(2 * (sum(len(part) for part in parts) + int(largest * below.reach / step) + 2), real=True)
    transform = np.prod([spectrum(part, size) for part in parts], axis=0)
    multiples = np.arange(len(below.masses)) * below.step
    found = np.empty(len(ratios))
    for i, ratio in enumerate(ratios):
        places = np.rint(ratio * multiples / step).astype(np.int64)
        masses = np.asarray(np.bincount(places, below.masses), dtype=np.float64)
        # What is rounded to 0 comes from both sides.
        masses[0] += np.sum(below.masses[1:][places[1:] == 0])
        together = irfft(transform * spectrum(masses, size), size)[: size // 2]
        total = GridSum(step, together, 0.0, above.lost + below.lost + ROUNDING)
        found[i] = total.first_within(tail) * step + fixed + ratio * below.off
    return np.asarray(found)


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
