"""The cost of one release as each filter counts it: its loss on a grid, its ε at a share of δ, its Rényi divergence.

*The loss on a grid* is a distribution that dominates the true one, right relative to each mass. Coordinates are cut on
a grid so that each cell keeps its P-mass and its Q-mass, as in `osgt.privacy.grid`, and are then added up by direct
convolution. All terms are positive, so that every mass, however small, is right to a few hundred rounding errors
relative to itself, which a Fourier transform would not give; these are added on top. While the number of coordinates
doubles twice, the grid becomes twice as coarse, so that rows stay short.

*Basic composition with geometrically shrinking δ* is the filter for the first few releases. A budget should take one
release that uses its whole ε, or two that use half of it each; there the other filters are too strict. The first
release is taken at half of the δ that is set aside for this filter, the second at a quarter, and so on. Σ ε at most ε
and Σ δ at most δ is basic composition, which holds for every analyst.

*Rényi divergences* of one order, fixed when a budget is opened, are added up. Σ D_α ≤ B on every path makes
exp((α - 1)(L - Σ D_α)) a supermartingale, however the releases are chosen, so that E[exp((α - 1)·L)] ≤
exp((α - 1)·B) for the loss L of the whole (Feldman and Zrnic 2021), from which δ follows as for one release. Orders are
given as `order` = α - 1.
"""

import math
import sys
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from osgt.privacy import Charge, NoisyPart, PrivacyProfile
from osgt.privacy.estimate import epsilon_roughly
from osgt.privacy.grid import UNIT, GridLoss, coarsen, split
from osgt.privacy.pair import POSITION_ERROR, Pair, pair_of
from osgt.privacy.renyi import gaussian_divergence, log_delta, log_moment
from osgt.support.numeric import Floats, grow

#: Steps of the grid in the standard deviation of the loss of the release, and of one coordinate.
_STEPS = 32.0
_STEPS_OF_ONE = 20.0

#: P-mass at the lower end that may be moved up to the end of the row.
_LOW = 1e-17

#: The most by which one coordinate is cut finer than the release, as a power of two, and the longest row.
_FINEST = 12
_LONGEST = 8192

#: Releases with larger losses than this leave nothing to any budget that has a residue.
_LARGEST_LOSS = 300.0

#: Points on each side at which a coordinate is looked at first.
_POINTS = 128

#: Relative error of a tail probability, as `osgt.privacy.grid` has it, with room to spare.
_TAIL_ERROR = 1e-12


@dataclass(frozen=True)
class ReleaseLoss:
    """P-masses at the losses (start + i)·step; `beyond` has infinite loss; losses may be too low by `error`."""

    step: float
    start: int
    masses: Floats
    beyond: float
    error: float

    @property
    def losses(self) -> Floats:
        """The losses at which there is mass."""
        return self.step * (self.start + np.arange(len(self.masses), dtype=np.float64))

    @property
    def mean(self) -> float:
        """Mean of the loss, half of μ² for a Gaussian release."""
        return float(np.sum(self.masses * self.losses))

    @property
    def total_variation(self) -> float:
        """δ at ε = 0, from above."""
        return float(np.sum(self.masses * -np.expm1(-np.maximum(self.losses, 0.0)))) + self.beyond


@lru_cache(maxsize=1024)
def loss_of(parts: tuple[NoisyPart, ...], tail: float) -> ReleaseLoss | None:
    """The loss of a release, with a P-mass of about `tail` beyond the row; None if it is too large for one."""
    pairs = [pair_of(part.noise, part.shift) for part in parts]
    counts = [part.coordinates for part in parts]
    tail /= 4.0 * len(parts)
    reaches = [_reach(pair, tail / n) for pair, n in zip(pairs, counts, strict=True)]
    variance = sum(n * reach[2] for n, reach in zip(counts, reaches, strict=True))
    step = math.sqrt(variance) / _STEPS
    if not 0 < step < math.inf:
        return None
    if max(counts) * _TAIL_ERROR > 1:
        return None  # the margins for rounding alone would make masses without limit
    # Near the Laplace end most of the loss sits at ±kink. On the grid exactly, it is not spread.
    kink = max(zip(counts, pairs, strict=True), key=lambda item: item[0] * item[1].kink ** 2)[1].kink
    if kink > step:
        step = kink / math.ceil(kink / step)
    total: GridLoss | None = None
    error = 0.0
    for pair, n, (low, high, square) in zip(pairs, counts, reaches, strict=True):
        level = min(math.ceil(math.log2(max(_STEPS_OF_ONE * step / math.sqrt(square), 1.0))), _FINEST)
        if (high - low) / step * 2.0**level > _LONGEST or max(high, -low) > _LARGEST_LOSS:
            return None
        one = _cut(pair, step / 2.0**level, low, high)
        added = _times(one, n, level, tail)
        total = added if total is None else _sum(total, added, tail)
        error += n * POSITION_ERROR * (pair.kink + max(abs(low), abs(high)))
        if len(total.masses) > _LONGEST:
            return None
    assert total is not None
    loss = ReleaseLoss(total.step, total.start, total.masses, total.lost, error)
    return loss if np.max(np.abs(loss.losses)) <= _LARGEST_LOSS else None


def _reach(pair: Pair, tail: float) -> tuple[float, float, float]:
    """Losses between which one coordinate is cut, and the mean square of its loss. Only steers: nothing is cut off."""
    potential = pair.noise.potential
    deepest = -math.log(min(tail, _LOW)) + 5.0
    start = 1.0 / float(potential.hazard(np.asarray(0.0)))
    reach = grow(start, lambda w: bool(potential(np.asarray(w)) < deepest), 1.25)
    w = reach * np.linspace(-1.0, 1.0, 2 * _POINTS + 1)
    p = np.exp(-potential(np.abs(w)))
    p /= np.sum(p)
    loss = pair.loss(w)
    low = float(loss[np.searchsorted(np.cumsum(p), _LOW)])
    high = float(loss[-1 - np.searchsorted(np.cumsum(p[::-1]), tail)])
    return min(low, -pair.kink), max(high, pair.kink), float(np.sum(p * loss**2))


def _cut(pair: Pair, step: float, low: float, high: float) -> GridLoss:
    """Put one coordinate's loss on the grid; `lost` is the P-mass above it."""
    first, last = math.floor(low / step), math.ceil(high / step) + 1
    bounded = last * step >= pair.largest_loss
    if bounded:
        last = max(math.ceil(pair.largest_loss / step * (1.0 - POSITION_ERROR)), first + 1)
    grid = step * np.arange(first, last + 1, dtype=np.float64)
    edges = pair.edges(grid)
    if bounded:
        edges[-1] = np.inf  # the largest loss may exceed the last grid point by its rounding
    # Differences of tails have a relative error near 1e-15/step in the split: too much on a very fine grid.
    log_p, share = split(pair, edges, grid, precise=step < 1e-4)
    p = np.exp(log_p) * (1.0 + _TAIL_ERROR)
    masses = np.zeros(len(grid))
    masses[:-1] = p * (1.0 - share)
    masses[1:] += p * share
    lowest, highest = (math.exp(t) * (1.0 + _TAIL_ERROR) for t in pair.log_tails(edges[[0, -1]]))
    masses[0] += lowest if edges[0] < 0 else 1.0
    return GridLoss(step, first, masses, 0.0 if bounded else highest, 0.0)


def _times(one: GridLoss, n: int, level: int, tail: float) -> GridLoss:
    """The sum of n independent copies, made coarser `level` times in all."""
    copies, result, doubled = one, None, 0
    while True:
        if n & 1:
            result = copies if result is None else _sum(result, copies, tail)
        n >>= 1
        if n == 0:
            break
        copies = _sum(copies, copies, tail)
        doubled += 1
        if doubled % 2 == 0 and level > 0:
            copies, result = _coarser(copies), None if result is None else _coarser(result)
            level -= 1
    assert result is not None
    for _ in range(level):
        result = _coarser(result)
    return result


def _coarser(loss: GridLoss) -> GridLoss:
    coarse = coarsen(loss, 0.0)
    return GridLoss(coarse.step, coarse.start, coarse.masses * (1.0 + 16 * UNIT), loss.lost, 0.0)


def _sum(a: GridLoss, b: GridLoss, tail: float) -> GridLoss:
    """The distribution of the sum; a little of its upper end becomes infinite loss, of its lower end moves up."""
    masses = np.convolve(a.masses, b.masses)
    masses *= 1.0 + 2 * UNIT * (min(len(a.masses), len(b.masses)) + 2)
    above = np.cumsum(masses[::-1])
    cut_above = int(np.searchsorted(above, tail / 64.0))
    below = np.cumsum(masses)
    cut_below = min(int(np.searchsorted(below, _LOW)), len(masses) - 1)
    lost = a.lost + b.lost + 1e-300  # products that underflow
    if cut_above:
        lost += float(above[cut_above - 1])
    kept = masses[cut_below : len(masses) - cut_above].copy()
    if cut_below:
        kept[0] += float(below[cut_below - 1])
    return GridLoss(a.step, a.start + b.start + cut_below, kept, lost * (1.0 + 4 * UNIT), 0.0)


#: Releases after which basic composition is of no use any more.
MOST_FEW = 20

#: The ε of a release that takes this share of the whole or more, and that may fit, is computed exactly: the row of its
#: loss gives up to a few hundredths too much.
_LARGE = 0.15
_NEARLY = 0.95
_SLACK = 1e-3
_PROVED_PARTS = 8

#: δ of a release that is nearer to its share than this, relative, is left in doubt.
_DOUBT = 5e-3

#: ε is raised by this, relative and absolute: more than all rounding errors.
_MARGIN = 1e-8
_LEAST_MARGIN = 1e-13


@lru_cache(maxsize=4096)
def release_epsilon(parts: tuple[NoisyPart, ...], delta: float, tail: float, earlier: int) -> float:
    """ε of a release at δ/2 if it is the first, at δ/4 if one came earlier, …; rounded up, or infinite."""
    share = math.ldexp(delta, -1 - earlier)
    loss = loss_of(parts, tail) if earlier < MOST_FEW else None
    if loss is None or loss.beyond >= share:
        return math.inf
    # With S = Σ over losses ≥ l of mass·exp(l - loss), δ at l, less a step or part of it, is δ(l) + S·(1 - exp(-step)).
    losses = loss.losses
    above = np.cumsum((loss.masses * np.exp(-losses))[::-1])[::-1] * np.exp(losses)
    deltas = np.append(np.cumsum((-math.expm1(-loss.step) * above)[:0:-1])[::-1], 0.0) + loss.beyond
    first = int(np.argmax(deltas <= share))
    back = min((share - float(deltas[first])) / float(above[first]), -math.expm1(-loss.step))
    result = float(losses[first]) + math.log1p(-back)
    return max(result + loss.error, 0.0) * (1.0 + _MARGIN) + _LEAST_MARGIN


@lru_cache(maxsize=4096)
def largest_loss(charge: Charge) -> Fraction | None:
    """The largest loss that a release can have, exactly; None where there is none."""
    return charge.profile._pure_loss()


def add_release(total: Fraction, charge: Charge, shares: tuple[float, float, float], earlier: int) -> Fraction | None:
    """Σ ε with one more release; None if that is more than ε.

    `shares` are ε and δ of this filter, and the P-mass that the loss of a release may leave out.
    """
    limit, delta, tail = shares
    pure = largest_loss(charge)
    result = release_epsilon(charge.profile.parts, delta, tail, earlier)
    if _is_worth_a_proof(total, result, pure, limit):
        result = min(result, _exact(charge.profile, math.ldexp(delta, -1 - earlier)))
    more = pure if pure is not None and pure <= result else Fraction(result) if result < math.inf else None
    return total + more if more is not None and total + more <= limit else None


def can_add(total: Fraction, charge: Charge, shares: tuple[float, float, float], earlier: int) -> bool:
    """Whether `add_release` is not None, more quickly; in doubt not."""
    limit, delta, tail = shares
    pure = largest_loss(charge)
    if pure is not None and total + pure <= limit:
        return True
    result = release_epsilon(charge.profile.parts, delta, tail, earlier)
    if not _is_worth_a_proof(total, result, pure, limit) or len(charge.profile.parts) > _PROVED_PARTS:
        return result < math.inf and total + Fraction(result) <= limit
    left = float(limit - total) * (1.0 - 2 * _MARGIN)
    share = math.ldexp(delta, -1 - earlier)
    return left > 0 and float(charge.profile.delta(left, slack=_SLACK)) <= share * (1.0 - _DOUBT)


def _is_worth_a_proof(total: Fraction, result: float, pure: Fraction | None, limit: float) -> bool:
    """Whether a release that takes `result` by its row is large, and may fit though this may be too much."""
    if result <= _LARGE * limit or (pure is not None and total + pure <= limit):
        return False
    return total + Fraction(_NEARLY) * Fraction(min(result, 2.0 * limit)) <= limit


@lru_cache(maxsize=1024)
def _exact(profile: PrivacyProfile, share: float) -> float:
    """ε by exact accounting; infinite where that is not proved to the last digit."""
    if len(profile.parts) > _PROVED_PARTS:
        return math.inf
    if sum(part.coordinates for part in profile.parts) == 1:
        # One that is hardly larger, and proved, is found more quickly.
        larger = epsilon_roughly(profile, share) * (1.0 + 2 * _SLACK)
        if float(profile.delta(larger)) <= share:
            return larger * (1.0 + _MARGIN)
    return float(profile.epsilon(share, slack=_SLACK)) * (1.0 + _MARGIN)


#: Rényi divergences, and the conversion to δ, are computed to far better than this, relative.
_RENYI_MARGIN = 1e-9

#: Larger than any ε of a budget: divergences beyond are as good as this.
_LARGEST_DIVERGENCE = 2.0**40


@lru_cache(maxsize=4096)
def renyi_divergence(parts: tuple[NoisyPart, ...], order: float) -> float:
    """D_α of a release, rounded up."""
    total = math.fsum(part.coordinates * _of_one(part, order) for part in parts) * (1.0 + _RENYI_MARGIN)
    return min(max(total, sys.float_info.min), _LARGEST_DIVERGENCE) if not math.isnan(total) else _LARGEST_DIVERGENCE


def _of_one(part: NoisyPart, order: float) -> float:
    known = gaussian_divergence(part.noise, part.shift, order)
    return log_moment(part.noise, part.shift, order) / order if known is None else known


@lru_cache(maxsize=256)
def renyi_limit(epsilon: float, delta: float, order: float) -> float:
    """The largest Σ D_α that converts to (ε, δ), rounded down; negative where nothing does."""
    return -_log_excess(delta, order) / order + epsilon - _RENYI_MARGIN * (1.0 + epsilon)


def renyi_epsilon(total: float, delta: float, order: float) -> float:
    """The ε at δ to which Σ D_α converts, rounded up."""
    return max(total + _log_excess(delta, order) / order, 0.0) * (1.0 + _RENYI_MARGIN) + _RENYI_MARGIN


def _log_excess(delta: float, order: float) -> float:
    """log of the δ at ε = 0 and Σ D_α = 0, over the δ given."""
    return log_delta(0.0, order, 0.0) - math.log(delta)


@lru_cache(maxsize=256)
def best_order(epsilon: float, delta: float) -> float:
    """The order at which the budget allows most Gaussian noise, whose divergences are α·μ²/2."""

    def affordable(order: float) -> float:
        return renyi_limit(epsilon, delta, order) / (1.0 + order)

    return max((math.exp(0.02 * i) for i in range(-700, 1200)), key=affordable)
