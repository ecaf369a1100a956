"""Distributions of the privacy loss on a grid that lose no more than the true ones: for lower bounds on δ.

Outcomes that are told apart no more ("gathered") lose less, and so does a mechanism that forgets some outcomes
altogether. An outcome of loss l may be cut into several of the same loss. So outcomes are gone through from the lowest
loss up, and of the one at which a group's loss log(P/Q) would pass a grid point only such a part is taken that the
group comes to lie on the point exactly. What a group spans is about a step, and δ falls by O(step²).
"""

import math

import numpy as np

from osgt.noise.mills import Floats
from osgt.privacy.grid import GridLaw
from osgt.privacy.loss_cells import UNIT
from osgt.privacy.pair import POSITION_ERROR, Pair, log_differences

#: Cells for each step of the grid: the finer they are, the less a group spans.
_CELLS_PER_STEP = 2

#: Outcomes whose masses are known less exactly than this are forgotten.
_EXACT = 1e-6

#: Tails are lowered by this for their rounding, relative.
_ROUNDED = 1e-13

#: Integers that are taken one by one.
_MOST_ATOMS = 2**16


def cut_below(pair: Pair, step: float, theta: float, low: float, high: float) -> tuple[GridLaw, float, float]:
    """One coordinate's loss on the grid between `low` and `high`, dominated by the true one.

    Returns
    -------
    law, log_factor, loss_error
        `masses · exp(log_factor)` are tilted P-masses; losses may be too large by `loss_error`.
    """
    error = POSITION_ERROR * (pair.kink + max(abs(low), abs(high)))
    log_p, losses = _outcomes(pair, step / _CELLS_PER_STEP, low, high)
    # An outcome on the grid, as far as floats can tell, stays there.
    on_grid = np.rint(losses / step) * step
    losses = np.where(np.abs(losses - on_grid) <= error, on_grid, losses)
    law, log_factor = gathered(log_p, losses, step, theta)
    return law, log_factor, 2.0 * error


def _outcomes(pair: Pair, width: float, low: float, high: float) -> tuple[Floats, Floats]:
    """Log P-masses, rounded down, and losses of what can be told apart between two losses."""
    first, last = (float(w) for w in pair.edges(np.array([low, high])))
    ends: list[tuple[float, float]] = []
    if pair.kink >= pair.largest_loss * (1.0 - 4 * POSITION_ERROR):
        # All of w ≥ 0 has the largest loss, all of w ≤ -shift the least.
        outward = (-1.0, pair.shift - 1.0) if pair.discrete else (0.0, pair.shift)
        log_tails = [float(tail) * (1.0 + 4 * UNIT) - _ROUNDED for tail in pair.noise.logsf(list(outward))]
        ends = [(log_tails[0], pair.largest_loss)]
        if low <= -pair.largest_loss * (1.0 - 4 * POSITION_ERROR):
            ends.append((log_tails[1], -pair.largest_loss))
        first, last = max(first, -pair.shift), min(last, -1.0 if pair.discrete else 0.0)
    if pair.discrete and last - first <= _MOST_ATOMS:
        w = np.arange(first + 1.0, last + 1.0)
        log_p, losses = pair.log_peak - pair.noise.potential(np.abs(w)), pair.loss(w)
        log_p -= 2.0 * pair.noise.potential.tail_error * (1.0 - log_p)
    else:
        log_p, losses = _cells(pair, width, first, last)
    return np.append(log_p, [log for log, _ in ends]), np.append(losses, [loss for _, loss in ends])


def _cells(pair: Pair, width: float, first: float, last: float) -> tuple[Floats, Floats]:
    """Log P-masses and losses log(P/Q) of cells of w between two points, about so wide in loss, both rounded down."""
    low, high = (float(loss) for loss in pair.loss(np.array([first, last])))
    grid = np.arange(math.ceil(low / width), math.floor(high / width) + 1.0) * width
    edges = np.unique(np.concatenate([[first], np.clip(pair.edges(grid), first, last), [last]]))
    below = edges + pair.shift
    tails_p, tails_q = pair.log_tails(edges), pair.log_tails(below)
    log_p, log_q = log_differences(edges, tails_p), log_differences(below, tails_q)
    with np.errstate(invalid="ignore", over="ignore"):
        error = _error(pair, tails_p, log_p) + _error(pair, tails_q, log_q)
        losses = log_p - log_q - error
        known = np.isfinite(losses) & (error <= _EXACT)
    return (log_p - error)[known], losses[known]


def _error(pair: Pair, tails: Floats, log_mass: Floats) -> Floats:
    """Rounding error of a difference of tails, relative to it."""
    larger = np.maximum(tails[:-1], tails[1:])
    error = pair.noise.potential.tail_error * (1.0 - np.maximum(larger, -1e3)) + 4 * UNIT
    return np.asarray(2.0 * error * np.exp(np.minimum(larger - log_mass, 600.0)))


def gathered(log_p: Floats, losses: Floats, step: float, theta: float) -> tuple[GridLaw, float]:
    """Outcomes, given by log P-masses and losses, as groups on a grid: tilted masses, the logarithm of their factor.

    A mass p of loss l is written as its tilted mass if it lay on the grid point in question, p·exp(θ·point). It is
    short of the point by p·(exp(point - l) - 1): a group lies on the point if this adds up to nothing.
    """
    order = np.argsort(losses)
    exponent = log_p[order] + theta * losses[order]
    top = float(np.max(exponent))
    first = math.floor(float(losses[order[0]]) / step)
    masses = [0.0] * (math.ceil(float(losses[order[-1]]) / step) - first + 1)
    place, mass, short = first, 0.0, 0.0

    def left_over() -> None:
        """A group that is short of its point: it counts at the next lower one, if it is not on the point after all."""
        if mass > 0:
            reached = place * step - math.log1p(short / mass)
            lower = min(max(math.floor(reached / step), first), place)
            masses[lower - first] += mass * math.exp(theta * step * (lower - place))

    for weight, loss in zip(np.exp(exponent - top).tolist(), losses[order].tolist(), strict=True):
        away = place * step - loss
        if away < 0 < mass and 0.5 * (1.0 + theta) * short * -away > step * mass - short:
            # Nothing lies near: to gather what is far off would lose more than to move the group down to a point.
            left_over()
            place = math.ceil(loss / step)
            mass = weight * math.exp(theta * (place * step - loss))
            short = mass * math.expm1(place * step - loss)
            continue
        p, missing = weight * math.exp(theta * away), math.expm1(away)
        if missing >= 0 or (part := short / -missing) > p:
            mass, short = mass + p, short + p * missing
            continue
        masses[place - first] += mass + part
        place = math.ceil(loss / step)
        mass = weight * (1.0 - part / p if p > 0 else 1.0) * math.exp(theta * (place * step - loss))
        short = mass * math.expm1(place * step - loss)
    left_over()
    found = np.asarray(masses)
    total = float(np.sum(found))
    return GridLaw(step, first, found / total, 0.0, 0.0), top + math.log(total)


def gathered_again(law: GridLaw, theta: float) -> GridLaw:
    """A distribution on a grid of twice the step, dominated by the one given."""
    present = np.flatnonzero(law.masses)
    losses = np.asarray((law.start + present) * law.step, dtype=np.float64)
    coarse, log_factor = gathered(np.log(law.masses[present]) - theta * losses, losses, 2 * law.step, theta)
    # A mass that is too large by rounding may have been moved up by two steps of the coarser grid.
    lost = law.lost * math.exp(4.0 * theta * law.step)
    return GridLaw(coarse.step, coarse.start, coarse.masses * math.exp(log_factor), lost, 0.0)
