"""Noise intervals of means and variances: sound for ratios of noisy numbers, whatever the true ones are."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from osgt.noise import IntegerLaw
from osgt.noise.mills import Floats

Integers = NDArray[np.int64]

#: Cells for the noise of the denominator, values of the ratio for which the quantile is found, steps of a bisection.
_CELLS, _RATIOS, _HALVINGS = 200, 64, 40

#: Part of 1 - confidence that is given away to the far tail of the denominator's noise.
_FAR_TAIL = 1e-3


@dataclass(frozen=True)
class Numbers:
    """A whole number for each group, with noise, and the distribution of the noise."""

    values: Integers
    noise: IntegerLaw


def half_width(law: IntegerLaw, confidence: float) -> int:
    """The least h with P[|Y| ≤ h] ≥ confidence."""
    return int(law.isf((1.0 - confidence) / 2))


def ratio_interval(numerator: Numbers, denominator: Numbers, largest: int, confidence: float) -> tuple[Floats, Floats]:
    """Fieller's interval for a ratio between -largest and largest of two numbers that both carry noise.

    It holds the ratios ρ with |numerator - ρ·denominator| ≤ q(ρ), q(ρ) being the quantile of |Y₁ - ρ·Y₂| at this
    confidence. For the true ratio that difference *is* Y₁ - ρ·Y₂, so the interval covers it with at least this
    probability, however small the group. Where the set has gaps, its hull is taken; where it is empty, the numerator
    is taken as the nearest that fits the denominator.
    """
    ratios = np.linspace(0.0, float(largest), _RATIOS + 1)
    # Quantiles grow with the ratio: between two ratios that of the larger one holds. So each stands one place before.
    quantiles = _quantiles((numerator.noise, denominator.noise), ratios[1:], confidence)
    quantiles = np.append(quantiles, 2.0 * quantiles[-1] - quantiles[-2])
    top, bottom = numerator.values.astype(np.float64), denominator.values.astype(np.float64)
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


def _quantiles(noise: tuple[IntegerLaw, IntegerLaw], ratios: Floats, confidence: float) -> Floats:
    """For each ratio ρ a q with P[|Y₁ - r·Y₂| ≤ q] ≥ confidence for all r up to ρ, nearly the least.

    Y₁ is taken as spread evenly over the unit around it, which makes a difference of ½ at most. Then its density is
    symmetric and falls on either side, so that the probability of an interval is the less the farther it is from zero:
    smaller ratios are inside more often, and Y₂ can be put into cells, each represented by its end farther from zero.
    The far tail of Y₂ counts as never inside.
    """
    first, second = noise
    far = int(second.isf(_FAR_TAIL * (1.0 - confidence) / 2))
    cells = np.unique(np.round(np.linspace(0, far, min(far, _CELLS) + 1)).astype(np.int64))
    beyond = np.concatenate([[1.0], 2.0 * np.asarray(second.sf(cells))])  # P[|Y₂| > end of the cell]
    weights = beyond[:-1] - beyond[1:]
    centres = ratios[:, None] * cells[None, :]
    low = np.zeros(len(ratios))
    high = np.full(len(ratios), 2.0 * (float(first.isf((1.0 - confidence) / 4)) + 1.0)) + ratios * far
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        upper, lower = (_spread_cdf(first, centres + sign * middle[:, None]) for sign in (1, -1))
        enough = (upper - lower) @ weights >= confidence
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return np.asarray(high + 0.5)


def _spread_cdf(law: IntegerLaw, x: Floats) -> Floats:
    """P[Y + U ≤ x] with U uniform between -½ and ½."""
    place = np.floor(x + 0.5)
    part = x + 0.5 - place
    return np.asarray((1.0 - part) * law.cdf(place - 1.0) + part * law.cdf(place))


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
