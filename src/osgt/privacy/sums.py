"""δ of a few coordinates of integer noise, by going through all sums of their losses.

Where the losses have few atoms there is nothing to be put on a grid. The coordinates are dealt out to two groups, the
sums of each group are listed, equal ones as one, and

    δ(ε) = Σ over the sums a of the one group of P(a)·δ'(ε - a),   δ'(t) = Σ over b > t of (P(b) - exp(t)·Q(b)),

with δ' of the other group read from running sums of its P-masses and Q-masses. The cost grows with the number of sums
in a group, not with their product.
"""

import math
import sys
from dataclasses import dataclass

import numpy as np

from osgt.privacy.grid import UNIT
from osgt.privacy.pair import POSITION_ERROR, Pair, atoms, integers
from osgt.support.arrays import Floats

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
