"""Distributions of the privacy loss on a grid, tilted: cut from a pair, composed, made coarser.

A distribution here is a row of P-masses at the losses (start + i)·step, each multiplied by exp(θ·loss) and divided by a
common factor, so that the whole is near 1. Masses are never lost without a trace: what a step may have lost, or
computed too small, is added up in `lost` as tilted mass. A tilted mass m counts at most m·C(θ) in the tilted δ, with
C(θ) = max over u ≥ 0 of exp(-θu)(1 - exp(-u)), wherever it lies.

"Connecting the dots": the mass p of a cell between two losses goes to the cell's two ends so that P-mass and Q-mass are
kept,

    share = (1 - exp(low)·q/p) / (1 - exp(low - high)).

Two ways to the masses. Differences of tails always work; their rounding error is relative to the tail. Over very many
coordinates that is not enough, and cells across which the density hardly changes are integrated instead.

Without tilt, on a grid that somebody asks for, it is the distribution in the terms of Google's dp-accounting library.
"""

import math
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from osgt.privacy.pair import POSITION_ERROR, Pair, atoms, integers, log_differences
from osgt.support.numeric import Floats

#: The largest relative error of one rounding of a float.
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


#: Error of an FFT of length n, relative in the Euclidean norm: this times the unit roundoff times log2 n.
_FFT_ERROR = 8.0

#: The tilt raises masses by at most exp(_TAIL_CELL) across a cell above the window, by exp(_DEPTH) over all of them.
_TAIL_CELL = 1.0
_DEPTH = 760.0

#: Atoms that are cheaper than cells, however few these are.
_FEW_ATOMS = 512


@dataclass(frozen=True)
class GridLoss:
    """Tilted masses of a loss at (start + i)·step."""

    step: float
    start: int
    masses: Floats
    lost: float
    spread: float  # variance that the grid has added to the loss

    def centred(self) -> tuple[Floats, float, float]:
        """Losses less their mean; the mean; the variance."""
        offsets = self.step * np.arange(len(self.masses), dtype=np.float64)
        total = float(np.sum(self.masses))
        shift = dot(self.masses, offsets) / total
        offsets -= shift
        return offsets, self.start * self.step + shift, dot(self.masses, offsets**2) / total


def cut(
    pair: Pair, step: float, theta: float, low: float, high: float, *, precise: bool
) -> tuple[GridLoss, float, float]:
    """Put one coordinate's loss on the grid between `low` and `high`, dominating the true one.

    Each atom of the loss, or each cell between neighbouring grid losses where there are fewer of these, hands its
    P-mass to the two grid points around it so that its P-mass and its Q-mass are kept ("connecting the dots"). δ of any
    composition is E[g(loss)] with g convex in exp(-loss), so that moving mass outward at constant mean of exp(-loss)
    can only raise it.

    Returns
    -------
    loss, log_factor, log_beyond
        `masses · exp(log_factor)` are the tilted P-masses; the P-mass exp(log_beyond) is taken to have infinite loss.
    """
    first = math.floor(low / step)
    last = max(math.ceil(high / step), first + 1)
    if (last + 0.5) * step >= pair.largest_loss:
        last = math.ceil(pair.largest_loss / step * (1.0 - POSITION_ERROR))
        first = min(first, last - 1)  # next to all mass may be in the largest loss itself
    inside = last - first
    result = _from_atoms(pair, step, theta, first, last) or _from_cells(pair, step, theta, first, last, precise=precise)
    lower = (first + result.place) * step
    with np.errstate(divide="ignore"):
        to_lower = result.log_p + np.log1p(-result.share) + theta * lower
        to_upper = result.log_p + np.log(result.share) + theta * (lower + step)
    # Mass below the window moves up to its lower end.
    below = result.log_below + theta * (first * step)
    top = max(float(np.max(to_lower)), float(np.max(to_upper)), below)
    kept, lifted = np.exp(to_lower - top), np.exp(to_upper - top)
    masses = np.bincount(result.place, kept, inside + 1)
    masses += np.bincount(result.place + 1, lifted, inside + 1)
    masses[0] += math.exp(below - top)
    total = float(np.sum(masses))
    spread = dot(kept, result.share) * result.unevenness * step**2 / total
    lost = float(np.sum(np.exp(np.minimum(result.tail - top, 700.0)))) / total
    return GridLoss(step, first, masses / total, lost, spread), top + math.log(total), result.log_beyond


@dataclass(frozen=True)
class _Shares:
    """P-masses between the grid points `first + place` and the next, and the share of each that goes to the upper."""

    place: NDArray[np.intp]
    log_p: Floats
    share: Floats
    unevenness: float  # what a mass adds to the variance, over share·(1 - share)·step²
    log_below: float  # P-mass below the window
    tail: Floats  # logarithms of the tilted masses above the window
    log_beyond: float  # P-mass that is taken to have infinite loss


def _from_atoms(pair: Pair, step: float, theta: float, first: int, last: int) -> _Shares | None:
    """The atoms of an integer distribution; None where cells are fewer."""
    if not pair.discrete or (bounds := integers(pair, first * step, last * step)) is None:
        return None
    lowest, highest = bounds
    farthest = highest
    if last * step < pair.largest_loss * (1.0 - 2 * POSITION_ERROR):
        w = float(pair.position(np.asarray(last * step + _DEPTH / theta)))
        farthest = max(math.ceil(min(w, pair.deepest)), highest)
    if farthest - lowest > 2 * (last - first) + _FEW_ATOMS:
        return None
    result = atoms(pair, lowest, farthest)
    inside = highest - lowest + 1
    losses, log_p = result.losses[:inside], result.log_p[:inside]
    place = np.clip(np.floor(losses / step).astype(np.intp) - first, 0, last - first - 1)
    above = losses - (first + place) * step
    # An atom on the grid, as far as floats can tell, stays there.
    above[above < 0.5 * POSITION_ERROR * (pair.kink + np.abs(losses))] = 0.0
    share = np.minimum(np.expm1(-above) / math.expm1(-step) * (1.0 + 8 * UNIT), 1.0)
    tail = result.log_p[inside:] + theta * result.losses[inside:]
    return _Shares(place, log_p, share, 1.0, -math.inf, tail, result.log_beyond)


def _from_cells(pair: Pair, step: float, theta: float, first: int, last: int, *, precise: bool) -> _Shares:
    """Cells between the grid points."""
    grid = np.arange(first, last + 1, dtype=np.float64) * step
    end, inside = last * step, last - first
    bounded = end >= pair.largest_loss * (1.0 - 2 * POSITION_ERROR)
    if not bounded:
        # Above the window: cells across which the tilt does not quite double. What lies above them counts in full.
        width = _TAIL_CELL / theta
        farthest = min(float(pair.loss(np.asarray(pair.deepest))) - end, _DEPTH / theta)
        beyond = np.arange(1.0, max(math.ceil(farthest / width), 0) + 1.0)
        grid = np.asarray(np.concatenate([grid, end + width * beyond]), dtype=np.float64)
    edges = pair.edges(grid)
    if bounded:
        edges[-1] = np.inf  # the largest loss may exceed the last grid point by its rounding
    log_p, share = split(pair, edges, grid, precise=precise)
    log_lowest, log_highest = (float(t) for t in pair.log_tails(edges[[0, -1]]))
    log_below = log_lowest if edges[0] < 0 else math.log1p(-math.exp(log_lowest))
    lower, upper = theta * grid[inside:-1], theta * grid[inside + 1 :]
    with np.errstate(divide="ignore"):
        tail = log_p[inside:] + np.logaddexp(np.log1p(-share[inside:]) + lower, np.log(share[inside:]) + upper)
    place = np.arange(inside)
    return _Shares(place, log_p[:inside], share[:inside], 2 / 3, log_below, tail, -math.inf if bounded else log_highest)


def compose(losses: list[GridLoss], copies: list[int], tolerance: float) -> GridLoss:
    """The distribution of the sum, by FFT, on a window that holds all but `tolerance` of the tilted mass."""
    step = losses[0].step
    centred = [loss.centred() for loss in losses]
    mean = sum(n * c[1] for n, c in zip(copies, centred, strict=True))
    variance = sum(n * c[2] for n, c in zip(copies, centred, strict=True))
    up, escaped = _reach(losses, copies, centred, variance, sign=+1.0, tolerance=tolerance)
    down, sunk = _reach(losses, copies, centred, variance, sign=-1.0, tolerance=tolerance)
    base = math.floor((mean - down) / step) - 1
    size = scipy.fft.next_fast_len(math.ceil((mean + up) / step) - base + 2, real=True)
    size = max(size, 16)
    product: Floats | None = None
    for loss, n in zip(losses, copies, strict=True):
        factor = _power(scipy.fft.rfft(_fold(loss.masses, size)), n)
        product = factor if product is None else product * factor
    start = sum(n * loss.start for loss, n in zip(losses, copies, strict=True))
    masses = np.roll(scipy.fft.irfft(product, size), start - base)
    # What wraps round lands elsewhere: from above at most `escaped`, from below at most `sunk` of the tilted mass.
    # Rounding of the transforms: Euclidean norms, then √size for the sum of absolute errors. All have total masses
    # near 1, by whose product an error in one of them may grow.
    totals = sum(max(n * math.log(float(np.sum(loss.masses))), 0.0) for loss, n in zip(losses, copies, strict=True))
    growth = math.exp(min(totals, 100.0))
    norms = sum(n * math.sqrt(dot(loss.masses, loss.masses)) for loss, n in zip(losses, copies, strict=True))
    rounding = _FFT_ERROR * UNIT * math.log2(size) * (growth * norms + math.sqrt(dot(masses, masses)))
    log_lost = sum(n * math.log1p(loss.lost) for loss, n in zip(losses, copies, strict=True))
    lost = growth * math.expm1(min(log_lost, 600.0))
    spread = sum(n * loss.spread for loss, n in zip(losses, copies, strict=True))
    np.maximum(masses, 0.0, out=masses)
    return GridLoss(step, base, masses, lost + escaped + sunk + math.sqrt(size) * rounding, spread)


def _reach(
    losses: list[GridLoss],
    copies: list[int],
    centred: list[tuple[Floats, float, float]],
    variance: float,
    *,
    sign: float,
    tolerance: float,
) -> tuple[float, float]:
    """A distance from the mean, and a bound on the tilted mass of the sum that lies further out on that side.

    Chernoff: for every rate λ the mass beyond (Σ log E[exp(λ·deviation)] + log(1/tolerance))/λ is below the tolerance.
    """
    limit = sum(n * float(np.max(sign * c[0])) for n, c in zip(copies, centred, strict=True))
    if not variance > 0:
        return max(limit, 0.0), 0.0
    needed = -math.log(tolerance)
    widest = max(float(np.max(np.abs(c[0]))) for c in centred)
    rate = min(math.sqrt(2.0 * needed / variance), 600.0 / widest)
    distance = math.inf
    for _ in range(60):
        log_moment = 0.0
        for loss, n, c in zip(losses, copies, centred, strict=True):
            log_moment += n * math.log(dot(loss.masses, np.exp((sign * rate) * c[0])))
        result = (log_moment + needed) / rate
        if result >= distance:
            break
        distance = result
        if distance <= 1.2 * math.sqrt(2.0 * needed * variance):
            break
        rate *= 0.6  # heavier than a normal distribution: a smaller rate is better, until it is not
    return (distance, tolerance) if distance < limit else (max(limit, 0.0), 0.0)


def coarsen(loss: GridLoss, theta: float) -> GridLoss:
    """Double the step of the grid: odd points go to both neighbours, P-mass and Q-mass kept as in `cut`."""
    masses, start, h = loss.masses, loss.start, loss.step
    if start % 2:
        masses, start = np.concatenate([[0.0], masses]), start - 1
    if len(masses) % 2 == 0:
        masses = np.concatenate([masses, [0.0]])
    even, odd = masses[0::2].copy(), masses[1::2]
    up = 1.0 / (1.0 + math.exp(-h))
    even[1:] += odd * (up * math.exp(theta * h))
    even[:-1] += odd * ((1.0 - up) * math.exp(-theta * h))
    spread = loss.spread + float(np.sum(odd)) / max(float(np.sum(masses)), 0.5) * h**2
    # A lost mass may have been moved like any other: allow for the largest growth of a tilted mass in this step.
    growth = max(up * math.exp(theta * h) + (1.0 - up) * math.exp(-theta * h), 1.0)
    return GridLoss(2 * h, start // 2, even, loss.lost * growth, spread)


def dot(a: Floats, b: Floats) -> float:
    """Σ a·b without BLAS, whose threads cost more than they save on rows of this length."""
    return float(np.sum(a * b))


def _fold(masses: Floats, size: int) -> Floats:
    """Masses with their index taken modulo `size`."""
    rows = -(-len(masses) // size)
    padded = np.zeros(rows * size)
    padded[: len(masses)] = masses
    return np.asarray(padded.reshape(rows, size).sum(axis=0), dtype=np.float64)


def _power(values: Floats, n: int) -> Floats:
    """values**n by repeated squaring."""
    result: Floats | None = None
    while n:
        if n & 1:
            result = values if result is None else result * values
        n >>= 1
        if n:
            values = values * values
    assert result is not None
    return result
