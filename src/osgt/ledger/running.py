"""The privacy loss of all releases so far, kept on a grid: one convolution for each further release.

An exact composition takes milliseconds for each *unlike* release that went before, which would be minutes after ten
thousand. Here the composed loss is a row of tilted masses (see `osgt.privacy.grid`) at multiples of one fixed step, and
a release is added by composing its own row with it. Every step errs upward, as in `osgt.privacy.engine`: mass is split
between grid points so that it dominates, whatever a window cuts off or a transform may have rounded is added up, and so
each δ that is read from it is an upper bound on δ of the exact composition.

How far above? A release adds about step²/6 to the variance of the loss, so that the bound is too large by a part of
about releases·step²·θ(1 + θ)/12. Tilt θ and step are set for the budget: a normal loss that just meets it has a
standard deviation of `STEPS` steps. docs/ledger.md has the figures that were measured.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq

from osgt.noise import OSGT
from osgt.privacy import NoisyPart, engine, single
from osgt.privacy.cumulant import Cumulant
from osgt.privacy.engine import Composed
from osgt.privacy.grid import compose
from osgt.privacy.loss_cells import UNIT
from osgt.privacy.pair import Pair, pair_of

#: LossGrid steps in the standard deviation of a loss that just meets the budget.
STEPS = 2400.0

#: Tilted mass that one release, or one convolution, may leave outside its window.
_TOLERANCE = 1e-13

#: A part that would need more cells than this is not put on the grid.
_MOST_CELLS = 2**18

#: An ε is only ever told, not decided by: so close is enough, and rounded up by more.
_EPSILON_ACCURACY = 1e-6

#: Rows that are multiplied in one go: bounds the memory.
_BATCH = 64


class TooCoarseError(ArithmeticError):
    """The losses of a release are too large for the grid of this budget."""


@dataclass(frozen=True)
class LossGrid:
    """Step of the grid and tilt of the masses; the same for all losses that are to be added."""

    step: float
    theta: float


@lru_cache(maxsize=256)
def grid_for(epsilon: float, delta: float) -> LossGrid:
    """The grid for a budget with δ > 0: as if the budget were met by very many small releases."""

    def excess(log_mu: float) -> float:
        reached = float(single.delta(pair_of(OSGT.gaussian(1.0), math.exp(log_mu)), np.asarray(epsilon)))
        return math.log(max(reached, engine.TINY)) - math.log(delta)

    # δ of a unit Gaussian moved by μ: next to nothing where μ is far below ε, next to 1 where μ² is far above it.
    low, high = math.log(epsilon) - 9.0, math.log(4.0 * math.sqrt(epsilon) + 2.0 * epsilon + 10.0)
    mu = math.exp(brentq(excess, low, high, xtol=1e-6)) if excess(low) < 0 < excess(high) else math.sqrt(epsilon)
    theta = brentq(lambda x: (math.exp(x) + 0.5) * mu**2 - math.exp(-x) - 1 / (1 + math.exp(x)) - epsilon, -60.0, 60.0)
    return LossGrid(mu / STEPS, math.exp(theta))


@lru_cache(maxsize=512)
def loss_of(parts: tuple[NoisyPart, ...], grid: LossGrid) -> Composed:
    """The loss of one release on the grid."""
    pairs = [pair_of(part.noise, part.shift) for part in parts]
    counts = [part.coordinates for part in parts]
    cumulant = Cumulant(pairs, np.asarray(counts, dtype=np.float64))
    # n equal coordinates are cut √n times as fine and composed by fours, so that together they add as much as one.
    levels = np.ceil(0.5 * np.log2(np.asarray(counts, dtype=np.float64))).astype(int)
    tolerance = _TOLERANCE / sum(counts)
    windows = [cumulant.window(i, grid.theta, tolerance) for i in range(len(pairs))]
    widths = [(high - low) / grid.step * 2.0**level for (low, high), level in zip(windows, levels, strict=True)]
    if not (max(widths) <= _MOST_CELLS and math.isfinite(_kinks(pairs, counts))):
        raise TooCoarseError("the losses of this release are too large for the grid of this budget")
    return engine.on_grid(
        pairs,
        counts,
        step=grid.step,
        theta=grid.theta,
        levels=levels,
        windows=windows,
        tolerance=tolerance,
        outside=_TOLERANCE,
    )


def _kinks(pairs: list[Pair], counts: list[int]) -> float:
    return sum(n * pair.kink for pair, n in zip(pairs, counts, strict=True))


def together(losses: Sequence[tuple[Composed, int]]) -> Composed:
    """The loss of all of them, each as often as the number beside it says. All are on one grid."""
    while len(losses) > _BATCH:
        batches = [losses[i : i + _BATCH] for i in range(0, len(losses), _BATCH)]
        losses = [(together(batch), 1) for batch in batches]
    if len(losses) == 1 and losses[0][1] == 1:
        return losses[0][0]
    law = compose([loss.law for loss, _ in losses], [n for _, n in losses], _TOLERANCE)
    log_factor = math.fsum(n * loss.log_factor for loss, n in losses)
    size = math.fsum(n * abs(loss.log_factor) for loss, n in losses)
    beyond = [math.log(n) + loss.log_beyond for loss, n in losses]
    return Composed(
        law,
        losses[0][0].theta,
        log_factor + 4 * UNIT * size,  # never smaller than the true sum
        float(np.logaddexp.reduce(beyond)) + 4 * UNIT * len(beyond),
        math.fsum(n * loss.loss_error for loss, n in losses) * (1.0 + 4 * UNIT),
    )


def add(running: Composed | None, releases: Iterable[tuple[NoisyPart, ...]], grid: LossGrid) -> Composed | None:
    """The running loss with these releases on top; None if there is neither."""
    counted = Counter(releases)
    losses = [(loss_of(parts, grid), n) for parts, n in counted.items()]
    if running is not None:
        losses.insert(0, (running, 1))
    return together(losses) if losses else None


def from_parts(counts: Iterable[tuple[NoisyPart, int]], grid: LossGrid) -> Composed | None:
    """The loss of these parts, each with its number of coordinates in all: built anew, more closely than by `add`."""
    losses: list[tuple[Composed, int]] = []
    for part, coordinates in counts:
        losses.append((loss_of((NoisyPart(part.noise, part.shift, coordinates),), grid), 1))
        if len(losses) >= _BATCH:
            losses = [(together(losses), 1)]
    return together(losses) if losses else None


def epsilon_at(loss: Composed, delta: float, start: float) -> float:
    """An ε at which the bound is at most δ: close to the least, unless δ is far from that of the budget."""
    if delta <= 0:
        return math.inf
    return float(engine.crossing(loss, math.log(delta), start, _EPSILON_ACCURACY)) * (1.0 + 4 * _EPSILON_ACCURACY)
