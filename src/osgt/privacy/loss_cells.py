"""Cells of a pair between given losses: their P-mass, and the share of it that goes to the upper end.

"Connecting the dots": the mass p of a cell goes to the cell's two ends so that P-mass and Q-mass are kept,

    share = (1 - exp(low)·q/p) / (1 - exp(low - high)).

Two ways to the masses. Differences of tails always work; their rounding error is relative to the tail. Over very many
coordinates that is not enough, and cells across which the density hardly changes are integrated instead.
"""

import numpy as np
from numpy.typing import NDArray

from osgt.noise.mills import Floats
from osgt.privacy.pair import Pair, log_differences

UNIT = 2.0**-53

#: Change of the potential across a cell up to which three nodes integrate it to _SMOOTH_ERROR.
_SMOOTH = 0.04
_SMOOTH_ERROR = 1e-14
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(3)

#: Integer distributions are integrated, with the first Euler–Maclaurin correction, where U' is below this.
_GENTLE = 2e-3


def split(pair: Pair, edges: Floats, grid: Floats, *, precise: bool) -> tuple[Floats, Floats]:
    """For the cells (edge, next edge] between neighbouring grid losses: log P-mass and share, both rounded up."""
    low, high = grid[:-1], grid[1:]
    below = edges + pair.shift
    # In one call: the two rows of an integer distribution have most of their points in common.
    tails_p, tails_q = np.split(pair.log_tails(np.concatenate([edges, below])), 2)
    log_p, log_q = log_differences(edges, tails_p), log_differences(below, tails_q)
    drop = np.expm1(low - high)
    with np.errstate(invalid="ignore", over="ignore"):
        share = np.expm1(np.minimum(log_q - log_p + low, 0.0)) / drop
        error = _tail_error(pair, tails_p, log_p) + _tail_error(pair, tails_q, log_q)
    share_error = error / -drop
    if precise and _is_quadratic(pair):
        smooth = _smooth(pair, edges)
        if np.any(smooth):
            inside = edges[:-1][smooth], edges[1:][smooth]
            log_p[smooth], share[smooth] = _integrated(pair, *inside, low[smooth], high[smooth])
            error[smooth] = _SMOOTH_ERROR
            loss = np.maximum(np.abs(low), np.abs(high))[smooth]
            share_error[smooth] = _SMOOTH_ERROR + 16 * UNIT * loss / (high - low)[smooth]
    with np.errstate(invalid="ignore"):
        log_p = log_p + np.log1p(error)
        share = np.clip(share + share_error, 0.0, 1.0)
    empty = ~(log_p > -np.inf)
    return np.where(empty, -np.inf, log_p), np.where(empty, 0.0, share)


def _tail_error(pair: Pair, tails: Floats, log_mass: Floats) -> Floats:
    """Rounding error of differences of tails, relative to them."""
    largest = np.maximum(tails[:-1], tails[1:])
    # That of a tail S is tail_error, up to a factor 1 - log S.
    return (
        pair.noise.potential.tail_error
        * (1.0 - np.maximum(largest, -1e3))
        * np.exp(np.minimum(largest - log_mass, 600.0))
    )


def _smooth(pair: Pair, edges: Floats) -> NDArray[np.bool_]:
    """Cells without a kink of either distribution inside, across which both densities hardly change."""
    a, b = edges[:-1], edges[1:]
    kinks = (a < 0) & (b > 0) | (a < -pair.shift) & (b > -pair.shift)
    finite = np.isfinite(a) & np.isfinite(b) & (b > a)
    a, b = np.where(finite, a, 0.0), np.where(finite, b, 0.0)
    farthest = np.maximum(np.abs(a), np.abs(b)) + pair.shift
    slope = pair.slope(farthest)
    smooth = finite & ~kinks & (slope * (b - a) < _SMOOTH)
    if pair.discrete:
        # The midpoint rule reaches half a step beyond both ends, which must not touch a kink either.
        smooth &= (slope < _GENTLE) & (a != 0) & (b != 0) & (a != -pair.shift) & (b != -pair.shift)
        smooth &= (a != -1) & (a != -pair.shift - 1)
    return np.asarray(smooth, dtype=np.bool_)


def _integrated(pair: Pair, a: Floats, b: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Log P-mass and share of smooth cells by quadrature of the density around the middle of the cell."""
    half = 0.5 if pair.discrete else 0.0
    width = b - a
    middle = a + half + 0.5 * width
    side = np.sign(middle)
    potential = pair.noise.potential(np.abs(middle))
    bend = _second(pair, np.abs(middle + pair.shift)) - _second(pair, np.abs(middle))
    loss, loss_slope = pair.loss(middle) - low, pair.loss_slope(middle)

    def density(t: Floats) -> Floats:
        return np.exp(potential - pair.noise.potential(np.abs(middle + t)))

    def gain(t: Floats) -> Floats:
        return -np.expm1(-(loss + t * (loss_slope + 0.5 * bend * t)))

    mass, gained = np.zeros_like(width), np.zeros_like(width)
    for node, weight in zip(_NODES, _WEIGHTS, strict=True):
        t = 0.5 * node * width
        value = 0.5 * weight * width * density(t)
        mass += value
        gained += value * gain(t)
    if pair.discrete:
        # Σ over a < k ≤ b = ∫ from a + ½ to b + ½ - (G'(b + ½) - G'(a + ½))/24 + …
        for sign in (-1.0, 1.0):
            t = 0.5 * sign * width
            value, share = density(t), gain(t)
            fall = -side * pair.slope(np.abs(middle + t)) * value
            mass -= sign * fall / 24.0
            gained -= sign * (fall * share + value * (1.0 - share) * (loss_slope + bend * t)) / 24.0
    return pair.log_peak - potential + np.log(mass), gained / mass / -np.expm1(low - high)


def _is_quadratic(pair: Pair) -> bool:
    """Whether `_integrated` is exact for the potential: it has no third derivative."""
    return len(pair.noise.potential.derivatives(np.ones(1))) <= 2


def _second(pair: Pair, y: Floats) -> Floats:
    """U''(y)."""
    derivatives = pair.noise.potential.derivatives(y)
    return np.asarray(derivatives[1], dtype=np.float64) if len(derivatives) > 1 else np.zeros_like(y)
