"""Differences and ratios: how often intervals hold, summed over all noise; the joint noise by hand."""

from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from osgt import DiscreteOSGT
from osgt.estimation.intervals import Contrasts, IndependentNoise
from osgt.noise.error import Combination

PAIRS = [
    (DiscreteOSGT(1, 2), DiscreteOSGT(1, 2)),
    (DiscreteOSGT.laplace(1.5), DiscreteOSGT.gaussian(4)),
    (DiscreteOSGT.gaussian(6), DiscreteOSGT.laplace(1)),
]
NUMBERS = [(20, 30), (100, 3), (0, 40), (55, 50), (7, 1), (400, 400)]


def alone(law):
    """The noise of a number that is measured as it is."""
    return Combination(((Fraction(1), law),))


def all_noise(first, second):
    """Every pair of noises, and its probability."""
    ranges = [np.arange(-int(law.isf(1e-9)), int(law.isf(1e-9)) + 1) for law in (first, second)]
    one, two = (each.ravel() for each in np.meshgrid(*ranges, indexing="ij"))
    return one, two, first.pmf(one) * second.pmf(two)


@cache
def contrasts_of(pair, confidence):
    """The same for all numbers: half-widths are found once."""
    return Contrasts(IndependentNoise(*map(alone, pair)), confidence)


def coverage(pair, numbers, what, confidence, narrower=1.0):
    """The exact probability that an interval holds."""
    one, two, masses = all_noise(*pair)
    contrasts = contrasts_of(pair, confidence)
    top, bottom = (numbers[0] + one).astype(float), (numbers[1] + two).astype(float)
    if what == "difference":
        low, high = contrasts.difference(top, bottom)
        true = numbers[0] - numbers[1]
        middle, half = (low + high) / 2, (high - low) / 2 * narrower
        return masses[np.abs(true - middle) <= half].sum()
    low, high = contrasts.ratio(top, bottom, alone(pair[1]).half_width(confidence))
    true = numbers[0] / numbers[1]
    return masses[(low <= true) & (true <= high)].sum()


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("numbers", NUMBERS)
@pytest.mark.parametrize("what", ["difference", "ratio"])
def test_intervals_hold(pair, numbers, what):
    held = coverage(pair, numbers, what, 0.95)
    assert held >= 0.95 - 1e-8


@pytest.mark.parametrize("pair", PAIRS)
def test_intervals_are_no_wider_than_need_be(pair):
    """The power of the test above: steps of the noise leave a little."""
    assert coverage(pair, (400, 400), "ratio", 0.95) < 0.985
    assert coverage(pair, (400, 400), "difference", 0.95, narrower=0.8) < 0.95


def test_a_ratio_of_large_numbers_is_narrow():
    noise = alone(DiscreteOSGT(1, 2))
    contrasts = Contrasts(IndependentNoise(noise, noise), 0.95)
    low, high = contrasts.ratio(np.array([10_000.0]), np.array([5_000.0]), noise.half_width(0.95))
    # By the delta method: √(1 + 2²)·1.96·σ/5,000.
    assert high[0] - low[0] == pytest.approx(2 * np.sqrt(5) * 1.96 * noise.std() / 5_000, rel=0.15)
    assert low[0] < 2 < high[0]


def test_a_ratio_to_what_may_be_nothing_has_no_upper_end():
    noise = alone(DiscreteOSGT(1, 2))
    contrasts = Contrasts(IndependentNoise(noise, noise), 0.95)
    first, second = np.array([50.0, 0.0, -20.0, 9.0]), np.array([2.0, 2.0, 60.0, -50.0])
    low, high = contrasts.ratio(first, second, noise.half_width(0.95))
    assert high.tolist()[:2] == [np.inf, np.inf]
    assert low[0] > 3
    assert (low[1], low[2], high[2]) == (0, 0, 0)
    assert (low[3], high[3]) == (0, np.inf)
