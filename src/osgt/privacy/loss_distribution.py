"""The distribution of a composed loss, and what it says about δ: tilted on a grid, from below, or by listing all sums.

With the tilted composed masses t(l), the factor exp(Λ) that was divided out, and u = l - ε,

    δ(ε) = exp(Λ - θε) · Σ over u > 0 of t(l)·exp(-θu)(1 - exp(-u)).

A distribution on a grid that loses no more than the true one gives a lower bound. Outcomes that are told apart no more
("gathered") lose less, and so does a mechanism that forgets some outcomes altogether. An outcome of loss l may be cut
into several of the same loss. So outcomes are gone through from the lowest loss up, and of the one at which a group's
loss log(P/Q) would pass a grid point only such a part is taken that the group comes to lie on the point exactly. What a
group spans is about a step, and δ falls by O(step²).

Where the losses of integer noise have few atoms there is nothing to be put on a grid. The coordinates are dealt out to
two groups, the sums of each group are listed, equal ones as one, and

    δ(ε) = Σ over the sums a of the one group of P(a)·δ'(ε - a),   δ'(t) = Σ over b > t of (P(b) - exp(t)·Q(b)),

with δ' of the other group read from running sums of its P-masses and Q-masses. The cost grows with the number of sums
in a group, not with their product.
"""

import math
import sys
from dataclasses import dataclass

import numpy as np
import scipy

from osgt.privacy.grid import UNIT, GridLoss, dot
from osgt.privacy.pair import POSITION_ERROR, Pair, atoms, integers, log_differences
from osgt.support.numeric import Floats

#: Cells for each step of the grid: the finer they are, the less a group spans.
_CELLS_PER_STEP = 2

#: Outcomes whose masses are known less exactly than this are forgotten.
_EXACT = 1e-6

#: Tails are lowered by this for their rounding, relative.
_ROUNDED = 1e-13

#: Integers that are taken one by one.
_MOST_ATOMS = 2**16


def cut_below(pair: Pair, step: float, theta: float, low: float, high: float) -> tuple[GridLoss, float, float]:
    """Put one coordinate's loss on the grid between `low` and `high`, dominated by the true one.

    Returns
    -------
    loss, log_factor, loss_error
        `masses · exp(log_factor)` are tilted P-masses; losses may be too large by `loss_error`.
    """
    error = POSITION_ERROR * (pair.kink + max(abs(low), abs(high)))
    log_p, losses = _outcomes(pair, step / _CELLS_PER_STEP, low, high)
    # An outcome on the grid, as far as floats can tell, stays there.
    on_grid = np.rint(losses / step) * step
    losses = np.where(np.abs(losses - on_grid) <= error, on_grid, losses)
    loss, log_factor = gather(log_p, losses, step, theta)
    return loss, log_factor, 2.0 * error


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


def gather(log_p: Floats, losses: Floats, step: float, theta: float) -> tuple[GridLoss, float]:
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
    result = np.asarray(masses)
    total = float(np.sum(result))
    return GridLoss(step, first, result / total, 0.0, 0.0), top + math.log(total)


def coarsen_below(loss: GridLoss, theta: float) -> GridLoss:
    """A distribution on a grid of twice the step, dominated by the one given."""
    present = np.flatnonzero(loss.masses)
    losses = np.asarray((loss.start + present) * loss.step, dtype=np.float64)
    coarse, log_factor = gather(np.log(loss.masses[present]) - theta * losses, losses, 2 * loss.step, theta)
    # A mass that is too large by rounding may have been moved up by two steps of the coarser grid.
    lost = loss.lost * math.exp(4.0 * theta * loss.step)
    return GridLoss(coarse.step, coarse.start, coarse.masses * math.exp(log_factor), lost, 0.0)


#: Upper bounds below this are returned as this: the smallest normal float.
TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class Composed:
    """The tilted distribution of the composed loss, and what it says about δ."""

    loss: GridLoss
    theta: float
    log_factor: float
    log_beyond: float
    loss_error: float

    def delta(self, epsilon: float) -> float:
        """Upper bound on δ(ε)."""
        log_bound = self.log_delta(epsilon)
        return min(max(math.exp(min(log_bound, 0.0)), TINY), 1.0)

    def log_delta(self, epsilon: float) -> float:
        """Logarithm of the upper bound on δ(ε); may exceed 0."""
        loss, theta = self.loss, self.theta
        epsilon -= self.loss_error  # losses are exact to this: the true ones may be so much higher
        first = min(max(math.floor(epsilon / loss.step) + 1 - loss.start, 0), len(loss.masses))
        last = min(len(loss.masses), first + math.ceil(60.0 / (max(theta, 1e-300) * loss.step)) + 1)
        u = (loss.start + np.arange(first, last)) * loss.step - epsilon
        weights = np.exp(-theta * u) * -np.expm1(-u)
        inside = dot(loss.masses[first:last], weights)
        beyond = float(np.sum(loss.masses[last:])) * math.exp(-60.0)
        total = inside + beyond + loss.lost * largest_weight(theta)
        if total <= 0:
            return self.log_beyond
        log_total = math.log(total) + self.log_factor - theta * epsilon
        # The factor is a sum of logarithms: its own rounding, and that of the product with θ.
        log_total += 8 * UNIT * (abs(self.log_factor) + theta * abs(epsilon) + 8.0)
        bound = float(np.logaddexp(log_total, self.log_beyond))
        return 0.0 if math.isnan(bound) else bound  # losses beyond all floats: δ ≤ 1 is what remains

    def serves(self, epsilon: float, slack: float) -> bool:
        """Whether the bound at ε is as close as the slack asks."""
        log_lost = math.log(max(self.loss.lost, TINY) * largest_weight(self.theta))
        log_lost += self.log_factor - self.theta * epsilon
        log_delta = self.log_delta(epsilon)
        return max(log_lost, self.log_beyond) - log_delta < math.log(0.1 * slack) and self.slack(epsilon) < slack

    def slack(self, epsilon: float) -> float:
        """Estimate of (bound - δ)/δ.

        A mass at distance u from ε that the grid spreads by the variance v raises δ by E[max(u + spread, 0)] less
        max(u, 0). For a smooth loss that comes to half of v times the density at ε, next to an atom to more.
        """
        loss, theta = self.loss, self.theta
        deviation = math.sqrt(loss.spread)
        reach = max(4.0 * deviation, loss.step)
        centre = epsilon / loss.step - loss.start
        low, high = (math.floor(centre - reach / loss.step), math.ceil(centre + reach / loss.step))
        near = np.arange(max(low, 0), min(high + 1, len(loss.masses)))
        if len(near) == 0 or deviation == 0:
            return 0.0
        u = (loss.start + near) * loss.step - epsilon
        if deviation > loss.step:
            x = np.abs(u) / deviation
            raised = deviation * (np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi) - x * scipy.special.ndtr(-x))
        else:
            raised = 0.5 * loss.spread / (np.hypot(u, deviation) + np.abs(u))  # the most for a given variance
        excess = dot(loss.masses[near] * np.exp(-theta * u), raised)
        log_excess = math.log(excess) + self.log_factor - theta * epsilon if excess > 0 else -math.inf
        return math.exp(min(log_excess - self.log_delta(epsilon), 300.0))


@dataclass(frozen=True)
class ComposedBelow:
    """The tilted distribution of a composed loss that is dominated by the true one, and what it says about δ."""

    loss: GridLoss
    theta: float
    log_factor: float
    loss_error: float

    def delta(self, epsilon: float) -> float:
        """Lower bound on δ(ε): 0 where nothing is known."""
        loss, theta = self.loss, self.theta
        epsilon += self.loss_error  # losses are exact to this: the true ones may be so much lower
        first = min(max(math.floor(epsilon / loss.step) + 1 - loss.start, 0), len(loss.masses))
        u = np.maximum((loss.start + np.arange(first, len(loss.masses))) * loss.step - epsilon, 0.0)
        inside = dot(loss.masses[first:], np.exp(-theta * u) * -np.expm1(-u)) * (1.0 - 1e-12)
        total = inside - loss.lost * largest_weight(theta)
        if not total > 0:
            return 0.0
        log_total = math.log(total) + self.log_factor - theta * epsilon
        log_total -= 8 * UNIT * (abs(self.log_factor) + theta * abs(epsilon) + 8.0)
        return math.exp(min(log_total, 0.0))


def largest_weight(theta: float) -> float:
    """max over u ≥ 0 of exp(-θu)(1 - exp(-u)) = θ^θ/(1 + θ)^(1 + θ)."""
    if theta == 0:
        return 1.0
    return math.exp(-theta * math.log1p(1.0 / theta)) / (1.0 + theta)


#: Coordinates beyond which a grid is quicker.
_MOST_COORDINATES = 32

#: Part of δ, as a share of the slack, that may be left out at both ends of all losses together.
_LEFT_OUT = 1e-2

#: Masses below this are not followed.
_SMALLEST = 1e-290


@dataclass(frozen=True)
class Sums:
    """Sums of losses in ascending order, their P-masses, and the P-mass above them, taken as infinite loss."""

    losses: Floats
    masses: Floats
    beyond: float
    rounding: float  # relative error of the masses

    def plus(self, other: "Sums") -> "Sums":
        """The sums of both. Equal ones, up to rounding, become one: the largest of them."""
        losses = np.add.outer(self.losses, other.losses).ravel()
        masses = np.multiply.outer(self.masses, other.masses).ravel()
        order = np.argsort(losses)
        losses, masses = losses[order], masses[order]
        width = 16 * UNIT * max(abs(float(losses[0])), abs(float(losses[-1])))
        is_last = np.append(np.diff(losses) > width, True)
        last = np.flatnonzero(is_last)
        masses = np.add.reduceat(masses, np.concatenate([[0], last[:-1] + 1]))
        rounding = self.rounding + other.rounding + UNIT * (1.0 + float(np.max(np.diff(last, prepend=-1))))
        return Sums(losses[last], masses, self.beyond + other.beyond, rounding)

    def trimmed(self, least: float) -> "Sums":
        """Trim the mass `least` at either end: the lowest sums move up, the highest count as infinite."""
        low = int(np.searchsorted(np.cumsum(self.masses), least))
        high = len(self.masses) - int(np.searchsorted(np.cumsum(self.masses[::-1]), least))
        if low == 0 and high == len(self.masses):
            return self
        masses = self.masses[low:high].copy()
        masses[0] += float(np.sum(self.masses[:low]))
        beyond = self.beyond + float(np.sum(self.masses[high:]))
        return Sums(self.losses[low:high], masses, beyond, self.rounding + 64 * UNIT)


@dataclass(frozen=True)
class Enumerated:
    """The sums of two groups of coordinates, and what they say about δ."""

    sums: Sums
    others: Sums
    above: tuple[Floats, Floats]  # P-mass and Q-mass of `others` from each of its sums on; Q rounded down
    theta: float
    moved: float  # P-mass that was moved to a larger loss, or taken as infinite
    loss_error: float

    def log_delta(self, epsilon: float) -> float:
        """Logarithm of the upper bound on δ(ε); may exceed 0."""
        t = (epsilon - self.loss_error) - self.sums.losses
        place = np.searchsorted(self.others.losses, t, side="right")
        p, q = (row[place] for row in self.above)
        with np.errstate(divide="ignore", invalid="ignore"):
            # exp(t)·q ≤ p but for rounding; t itself is rounded, as is the logarithm.
            exponent = t + np.log(q / p)
            margin = 4 * UNIT * (np.abs(t) + np.abs(exponent) + 4.0)
            excess = np.where(p > 0, p * -np.expm1(np.minimum(exponent - margin, 0.0)), 0.0)
        total = float(np.sum(self.sums.masses * excess)) + self.sums.beyond + self.others.beyond
        total *= 1.0 + self.sums.rounding + self.others.rounding + 128 * UNIT
        return math.log(total) if total > 0 else -math.inf

    def delta(self, epsilon: float) -> float:
        """Upper bound on δ(ε)."""
        return min(max(math.exp(min(self.log_delta(epsilon), 0.0)), sys.float_info.min), 1.0)

    def serves(self, epsilon: float, slack: float) -> bool:
        """Whether the bound at ε is as close as the slack asks."""
        return self.moved <= 0.1 * slack * math.exp(min(self.log_delta(epsilon), 0.0))


def enumerate_sums(
    pairs: list[Pair], coordinates: list[int], *, theta: float, log_delta: float, slack: float, most_pairs: int
) -> Enumerated | None:
    """The sums that matter for a δ of about this size; None where one step would form more than `most_pairs`."""
    total = sum(coordinates)
    if total > _MOST_COORDINATES or not all(pair.discrete for pair in pairs):
        return None
    least = _LEFT_OUT * slack * math.exp(min(log_delta, 0.0)) / total
    if least < _SMALLEST:
        return None
    groups: list[Sums | None] = [None, None]
    moved = loss_error = 0.0
    dealt = _deal(pairs, coordinates, least, math.isqrt(most_pairs) if total > 2 else most_pairs)
    if dealt is None:
        return None
    for one, side, n in dealt:
        for _ in range(n):
            group = groups[side]
            if group is None:
                groups[side] = one
                continue
            if len(group.losses) * len(one.losses) > most_pairs:
                return None
            groups[side] = group.plus(one).trimmed(least)
        moved += 4 * n * least
    for pair, n in zip(pairs, coordinates, strict=True):
        reach = max(float(np.max(np.abs(one.losses))) for one, _, _ in dealt)
        loss_error += n * POSITION_ERROR * (pair.kink + reach)
    nothing = Sums(np.zeros(1), np.ones(1), 0.0, 0.0)
    sums, others = (group or nothing for group in groups)
    return Enumerated(sums, others, _from_each_on(others), theta, moved, loss_error)


def _deal(pairs: list[Pair], coordinates: list[int], least: float, most: int) -> list[tuple[Sums, int, int]] | None:
    """For each part its atoms, the group and the number of coordinates that go there."""
    ones = []
    for pair in pairs:
        one = _one(pair, least, most)
        if one is None:
            return None
        ones.append(one)
    if len(pairs) == 1:
        half = coordinates[0] // 2
        return [(ones[0], 0, coordinates[0] - half), (ones[0], 1, half)]
    # Equal coordinates have many equal sums: they stay together. The larger parts first, each to the smaller group.
    sizes = [n * math.log(len(one.losses)) for one, n in zip(ones, coordinates, strict=True)]
    filled, dealt = [0.0, 0.0], []
    for i in sorted(range(len(pairs)), key=lambda i: -sizes[i]):
        side = int(filled[1] < filled[0])
        filled[side] += sizes[i]
        dealt.append((ones[i], side, coordinates[i]))
    return dealt


def _one(pair: Pair, least: float, most: int) -> Sums | None:
    """The atoms of one coordinate, but for the mass `least` at either end; None if they are more than `most`."""
    reach = math.ceil(min(pair.reach(math.log(least)), 2.0**60))
    first, last = -reach - 1, reach
    bounds = integers(pair, -math.inf, math.inf) if math.isfinite(pair.largest_loss) else None
    if bounds is not None:
        first, last = max(first, bounds[0]), min(last, bounds[1])
    if last - first > most:
        return None
    result = atoms(pair, first, max(last, first + 1))
    return Sums(result.losses, np.exp(result.log_p), math.exp(result.log_beyond), UNIT)


def _from_each_on(sums: Sums) -> tuple[Floats, Floats]:
    """P-mass (rounded up) and Q-mass (rounded down) from each sum on, and after the last."""
    with np.errstate(divide="ignore"):
        log_q = np.log(sums.masses) - sums.losses
    q = np.exp(log_q) * (1.0 - 4 * UNIT * (2.0 + np.abs(log_q) + np.abs(sums.losses)))
    rows = []
    for masses, sign in ((sums.masses, 1.0), (np.maximum(q, 0.0), -1.0)):
        # In the widest floats there are: the two rows nearly cancel where the losses are small.
        wide = np.concatenate([np.cumsum(masses[::-1].astype(np.longdouble))[::-1], np.zeros(1)])
        error = 2.0 * float(np.finfo(np.longdouble).eps) * len(masses) + UNIT
        rows.append(np.asarray(wide * (1.0 + sign * error), dtype=np.float64))
    return rows[0], rows[1]
