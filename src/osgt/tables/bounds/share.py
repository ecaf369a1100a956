"""Shares of noisy totals, with intervals that hold whatever the exact totals are."""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from osgt.noise import Law
from osgt.noise.combination import Combination

Floats = NDArray[np.float64]

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
    noise: Law,
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
def _factor(noise: Law, confidence: float) -> float:
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
