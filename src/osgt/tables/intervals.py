"""Noise intervals of means and variances: sound for ratios of noisy numbers, whatever the true ones are."""

import numpy as np
from numpy.typing import NDArray

from osgt.noise import DiscreteOSGT
from osgt.noise.mills import Floats

Integers = NDArray[np.int64]

#: Cells for the noise of the denominator, values of the ratio for which the quantile is found, steps of a bisection.
_CELLS, _RATIOS, _HALVINGS = 400, 33, 40

#: Part of 1 - confidence that is given away to the far tail of the denominator's noise.
_FAR_TAIL = 1e-3


def half_width(law: DiscreteOSGT, confidence: float) -> int:
    """The least h with P[|Y| ≤ h] ≥ confidence."""
    return int(law.isf((1.0 - confidence) / 2))


def ratio_interval(
    numerator: Integers,
    denominator: Integers,
    noise: tuple[DiscreteOSGT, DiscreteOSGT],
    largest: int,
    confidence: float,
) -> tuple[Floats, Floats]:
    """Fieller's interval for a ratio between -largest and largest of two numbers that both carry noise.

    It holds the ratios ρ with |numerator - ρ·denominator| ≤ q(ρ), q(ρ) being the quantile of |Y₁ - ρ·Y₂| at this
    confidence. For the true ratio that difference *is* Y₁ - ρ·Y₂, so the interval covers it with at least this
    probability, however small the group. Where the set has gaps, its hull is taken.
    """
    ratios = np.linspace(0.0, float(largest), _RATIOS)
    quantiles = _quantiles(noise, ratios, confidence)
    top, bottom = numerator.astype(np.float64), denominator.astype(np.float64)
    estimate = np.clip(top / np.maximum(bottom, 1.0), -largest, largest)

    def inside(ratio: Floats) -> NDArray[np.bool_]:
        return np.asarray(np.abs(top - ratio * bottom) <= np.interp(np.abs(ratio), ratios, quantiles))

    ends = []
    for end in (-float(largest), float(largest)):
        accepted, refused = estimate.copy(), np.full_like(estimate, end)
        reaches = inside(refused)
        for _ in range(_HALVINGS):
            middle = (accepted + refused) / 2
            good = inside(middle)
            accepted, refused = np.where(good, middle, accepted), np.where(good, refused, middle)
        ends.append(np.where(reaches, end, refused))
    return ends[0], ends[1]


def _quantiles(noise: tuple[DiscreteOSGT, DiscreteOSGT], ratios: Floats, confidence: float) -> Floats:
    """For each ratio ρ a q with P[|Y₁ - ρ·Y₂| ≤ q] ≥ confidence, nearly the least.

    Y₂ is put into cells, each represented by its end farther from zero: since Y₁ is symmetric and unimodal this makes
    the probability smaller and q larger. The far tail of Y₂ counts as never inside.
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
        upper = first.cdf(np.floor(centres + middle[:, None]))
        lower = first.cdf(np.ceil(centres - middle[:, None]) - 1.0)
        enough = (upper - lower) @ weights >= confidence
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return np.asarray(high)


def variance_interval(
    sums: tuple[Integers, Integers, Integers],
    half_widths: tuple[int, int, int],
    largest: int,
) -> tuple[Floats, Floats]:
    """The least and largest variance for all counts, sums and sums of squares within their half-widths.

    Sums and squares are centred, with distances between -largest and largest: `sums` are the count n, the sum of the
    distances z, and the sum of 2z² - largest². Where the count may be 0, the variance may be anything.
    """
    count, first, second = (array.astype(np.float64) for array in sums)
    square = float(largest) ** 2
    least, most = np.maximum(count - half_widths[0], 0.0), np.maximum(count + half_widths[0], 1.0)
    near = np.maximum(np.abs(first) - half_widths[1], 0.0)
    away = np.abs(first) + half_widths[1]
    latest, earliest = 1.0 / np.maximum(least, 1.0), 1.0 / most

    def extreme(top: Floats, distance: Floats, sign: int) -> Floats:
        """Largest (sign 1) or least (-1) of top·t - (distance·t)² for t between 1/most and 1/least."""

        def at(t: Floats) -> Floats:
            return np.asarray(top * t - (distance * t) ** 2)

        ends = at(latest), at(earliest)
        if sign < 0:
            return np.minimum(*ends)
        vertex = np.clip(top / np.maximum(2.0 * distance**2, 1e-9), earliest, latest)  # distances are whole
        return np.maximum(np.maximum(*ends), at(vertex))

    high = square / 2 + extreme((second + half_widths[2]) / 2, near, 1)
    low = square / 2 + extreme((second - half_widths[2]) / 2, away, -1)
    known = least > 0
    return (
        np.where(known, np.clip(low, 0.0, square), 0.0),
        np.where(known, np.clip(high, 0.0, square), square),
    )
