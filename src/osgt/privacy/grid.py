"""Distributions of the privacy loss on a grid, tilted: cut from a pair, composed, made coarser.

A distribution here is a row of P-masses at the losses (start + i)·step, each multiplied by exp(θ·loss) and divided by a
common factor, so that the whole is near 1. Masses are never lost without a trace: what a step may have lost, or
computed too small, is added up in `lost` as tilted mass. A tilted mass m counts at most m·C(θ) in the tilted δ, with
C(θ) = max over u ≥ 0 of exp(-θu)(1 - exp(-u)), wherever it lies.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from osgt.noise.mills import Floats
from osgt.privacy.atoms import atoms, integers
from osgt.privacy.loss_cells import UNIT, split
from osgt.privacy.pair import POSITION_ERROR, Pair

#: Error of an FFT of length n, relative in the Euclidean norm: this times the unit roundoff times log2 n.
_FFT_ERROR = 8.0

#: The tilt raises masses by at most exp(_TAIL_CELL) across a cell above the window, by exp(_DEPTH) over all of them.
_TAIL_CELL = 1.0
_DEPTH = 760.0

#: Atoms that are cheaper than cells, however few these are.
_FEW_ATOMS = 512


@dataclass(frozen=True)
class GridLaw:
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
) -> tuple[GridLaw, float, float]:
    """One coordinate's loss on the grid between `low` and `high`, dominating the true one.

    Each atom of the loss, or each cell between neighbouring grid losses where there are fewer of these, hands its
    P-mass to the two grid points around it so that its P-mass and its Q-mass are kept ("connecting the dots"). δ of any
    composition is E[g(loss)] with g convex in exp(-loss), so that moving mass outward at constant mean of exp(-loss)
    can only raise it.

    Returns
    -------
    law, log_factor, log_beyond
        `masses · exp(log_factor)` are the tilted P-masses; the P-mass exp(log_beyond) is taken to have infinite loss.
    """
    first = math.floor(low / step)
    last = max(math.ceil(high / step), first + 1)
    if (last + 0.5) * step >= pair.largest_loss:
        last = math.ceil(pair.largest_loss / step * (1.0 - POSITION_ERROR))
        first = min(first, last - 1)  # next to all mass may be in the largest loss itself
    inside = last - first
    found = _from_atoms(pair, step, theta, first, last) or _from_cells(pair, step, theta, first, last, precise=precise)
    lower = (first + found.place) * step
    with np.errstate(divide="ignore"):
        to_lower = found.log_p + np.log1p(-found.share) + theta * lower
        to_upper = found.log_p + np.log(found.share) + theta * (lower + step)
    # Mass below the window moves up to its lower end.
    below = found.log_below + theta * (first * step)
    top = max(float(np.max(to_lower)), float(np.max(to_upper)), below)
    kept, lifted = np.exp(to_lower - top), np.exp(to_upper - top)
    masses = np.bincount(found.place, kept, inside + 1)
    masses += np.bincount(found.place + 1, lifted, inside + 1)
    masses[0] += math.exp(below - top)
    total = float(np.sum(masses))
    spread = dot(kept, found.share) * found.unevenness * step**2 / total
    lost = float(np.sum(np.exp(np.minimum(found.tail - top, 700.0)))) / total
    return GridLaw(step, first, masses / total, lost, spread), top + math.log(total), found.log_beyond


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
    found = atoms(pair, lowest, farthest)
    inside = highest - lowest + 1
    losses, log_p = found.losses[:inside], found.log_p[:inside]
    place = np.clip(np.floor(losses / step).astype(np.intp) - first, 0, last - first - 1)
    above = losses - (first + place) * step
    # An atom on the grid, as far as floats can tell, stays there.
    above[above < 0.5 * POSITION_ERROR * (pair.kink + np.abs(losses))] = 0.0
    share = np.minimum(np.expm1(-above) / math.expm1(-step) * (1.0 + 8 * UNIT), 1.0)
    tail = found.log_p[inside:] + theta * found.losses[inside:]
    return _Shares(place, log_p, share, 1.0, -math.inf, tail, found.log_beyond)


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


def compose(laws: list[GridLaw], copies: list[int], tolerance: float) -> GridLaw:
    """The distribution of the sum, by FFT, on a window that holds all but `tolerance` of the tilted mass."""
    step = laws[0].step
    centred = [law.centred() for law in laws]
    mean = sum(n * c[1] for n, c in zip(copies, centred, strict=True))
    variance = sum(n * c[2] for n, c in zip(copies, centred, strict=True))
    up, escaped = _reach(laws, copies, centred, variance, sign=+1.0, tolerance=tolerance)
    down, sunk = _reach(laws, copies, centred, variance, sign=-1.0, tolerance=tolerance)
    base = math.floor((mean - down) / step) - 1
    size = fft.next_fast_len(math.ceil((mean + up) / step) - base + 2, real=True)
    size = max(size, 16)
    product: Floats | None = None
    for law, n in zip(laws, copies, strict=True):
        factor = _power(fft.rfft(_fold(law.masses, size)), n)
        product = factor if product is None else product * factor
    start = sum(n * law.start for law, n in zip(laws, copies, strict=True))
    masses = np.roll(fft.irfft(product, size), start - base)
    # What wraps round lands elsewhere: from above at most `escaped`, from below at most `sunk` of the tilted mass.
    # Rounding of the transforms: Euclidean norms, then √size for the sum of absolute errors. All have total masses
    # near 1, by whose product an error in one of them may grow.
    totals = sum(max(n * math.log(float(np.sum(law.masses))), 0.0) for law, n in zip(laws, copies, strict=True))
    growth = math.exp(min(totals, 100.0))
    norms = sum(n * math.sqrt(dot(law.masses, law.masses)) for law, n in zip(laws, copies, strict=True))
    rounding = _FFT_ERROR * UNIT * math.log2(size) * (growth * norms + math.sqrt(dot(masses, masses)))
    log_lost = sum(n * math.log1p(law.lost) for law, n in zip(laws, copies, strict=True))
    lost = growth * math.expm1(min(log_lost, 600.0))
    spread = sum(n * law.spread for law, n in zip(laws, copies, strict=True))
    np.maximum(masses, 0.0, out=masses)
    return GridLaw(step, base, masses, lost + escaped + sunk + math.sqrt(size) * rounding, spread)


def _reach(
    laws: list[GridLaw],
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
        for law, n, c in zip(laws, copies, centred, strict=True):
            log_moment += n * math.log(dot(law.masses, np.exp((sign * rate) * c[0])))
        found = (log_moment + needed) / rate
        if found >= distance:
            break
        distance = found
        if distance <= 1.2 * math.sqrt(2.0 * needed * variance):
            break
        rate *= 0.6  # heavier than a normal distribution: a smaller rate is better, until it is not
    return (distance, tolerance) if distance < limit else (max(limit, 0.0), 0.0)


def coarsen(law: GridLaw, theta: float) -> GridLaw:
    """The same on a grid of twice the step: odd points go to both neighbours, P-mass and Q-mass kept as in `cut`."""
    masses, start, h = law.masses, law.start, law.step
    if start % 2:
        masses, start = np.concatenate([[0.0], masses]), start - 1
    if len(masses) % 2 == 0:
        masses = np.concatenate([masses, [0.0]])
    even, odd = masses[0::2].copy(), masses[1::2]
    up = 1.0 / (1.0 + math.exp(-h))
    even[1:] += odd * (up * math.exp(theta * h))
    even[:-1] += odd * ((1.0 - up) * math.exp(-theta * h))
    spread = law.spread + float(np.sum(odd)) / max(float(np.sum(masses)), 0.5) * h**2
    # A lost mass may have been moved like any other: allow for the largest growth of a tilted mass in this step.
    growth = max(up * math.exp(theta * h) + (1.0 - up) * math.exp(-theta * h), 1.0)
    return GridLaw(2 * h, start // 2, even, law.lost * growth, spread)


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
