"""What a release tells about one unit, computed from exact numbers of two tables and the planned noise alone.

Independent of the accounting: cells of each noise are counted with and without the shift that the unit makes, and the
losses are convolved on a grid. Both steps forget something, so that δ is a lower bound, near to the exact one.
"""

import math

import numpy as np

#: The grid of losses, and the cells of a noise.
_STEP, _CELLS = 1 / 512, 4000

#: δ from coarse cells is too small by less than this part.
CLOSE = 0.02


class Losses:
    """The distribution of the privacy loss P against Q: on a grid, and the mass that Q does not have."""

    def __init__(self, masses, start, lost=0.0):
        self.masses, self.start, self.lost = masses, start, lost

    @classmethod
    def nothing(cls):
        return cls(np.ones(1), 0)

    @classmethod
    def of_shift(cls, law, shift):
        """The loss of a noise that is moved by a whole number."""
        reach = float(law.isf(1e-15)) + abs(shift)
        edges = np.unique(np.linspace(-reach, reach, _CELLS).round())
        here, there = (np.diff(np.concatenate([[0.0], law.cdf(edges - s), [1.0]])) for s in (0, shift))
        both = (here > 1e-300) & (there > 1e-300)
        loss = np.floor(np.log(here[both] / there[both]) / _STEP).astype(int)
        masses = np.bincount(loss - loss.min(), here[both])
        return cls(masses, int(loss.min()), float(here[~both].sum()))

    def and_then(self, other):
        """The loss of two independent releases."""
        size = len(self.masses) + len(other.masses) - 1
        n = 1 << (size - 1).bit_length()
        masses = np.fft.irfft(np.fft.rfft(self.masses, n) * np.fft.rfft(other.masses, n), n)[:size]
        lost = self.lost + other.lost - self.lost * other.lost
        return Losses(np.maximum(masses - 1e-17, 0.0), self.start + other.start, lost)

    def delta(self, epsilon):
        """Σ max(P - e^ε·Q, 0)."""
        losses = (self.start + np.arange(len(self.masses))) * _STEP
        gains = np.where(losses > epsilon, -np.expm1(np.minimum(epsilon - losses, 0.0)), 0.0)
        return float(np.sum(self.masses * gains)) + self.lost


def of_moves(moves):
    """The loss of numbers that each move by a whole number, under their noises: pairs (noise, how far)."""
    found = Losses.nothing()
    for (law, shift), times in _counted(moves).items():
        one = Losses.of_shift(law, shift)
        for _ in range(times):
            found = found.and_then(one)
    return found


def _counted(moves):
    counts = {}
    for law, shift in moves:
        if shift:
            counts[law, int(shift)] = counts.get((law, int(shift)), 0) + 1
    return counts


def delta_of(plan, one, other, epsilon):
    """δ of a block's release of one table against another: noise, the choice of groups, and what was cut off.

    `one` and `other` are the exact numbers of both. A group that only one of them has is hidden in the other.
    """
    alone, moves, hidden_in_other = [], [], []
    first, second = ({_key(row): i for i, row in enumerate(each.keys.to_pylist())} for each in (one, other))
    public = plan.selector is None
    for measure, law in plan.laws.items():
        mine, theirs = one.numbers[measure], other.numbers[measure]
        if measure.for_table or public:
            moves += [(law, int(a) - int(b)) for a, b in zip(mine.ravel(), theirs.ravel(), strict=True)]
            continue
        for key in first.keys() & second.keys():
            pairs = zip(mine[first[key]], theirs[second[key]], strict=True)
            moves += [(law, int(a) - int(b)) for a, b in pairs]
    if not public:
        law, tau = plan.laws[plan.selector], plan.selection.threshold
        counts = one.numbers[plan.selector], other.numbers[plan.selector]
        alone = [float(law.cdf(tau - 1 - int(counts[0][first[key]][0]))) for key in first.keys() - second.keys()]
        hidden_in_other = [
            float(law.cdf(tau - 1 - int(counts[1][second[key]][0]))) for key in second.keys() - first.keys()
        ]
    for name, (law, _) in plan.noise.extra_noise.items():
        pairs = zip(one.left_out[name].ravel(), other.left_out[name].ravel(), strict=True)
        moves += [(law, int(a) - int(b)) for a, b in pairs]
    return moves, math.prod(alone), math.prod(hidden_in_other)


def _key(row):
    return tuple(map(repr, row.values()))


def delta(plans, ones, others, epsilon):
    """δ of all blocks of a release of one table against another."""
    moves, hidden, hidden_in_other = [], 1.0, 1.0
    for plan, one, other in zip(plans, ones, others, strict=True):
        own, q, r = delta_of(plan, one, other, epsilon)
        moves, hidden, hidden_in_other = moves + own, hidden * q, hidden_in_other * r
    # Groups of the one table alone tell it apart if any is shown. If none is, that was less likely than in the other.
    return 1 - hidden + hidden * of_moves(moves).delta(epsilon - math.log(hidden) + math.log(hidden_in_other))


def too_far(plans, ones, others, neighbours):
    """The numbers that moved further than their noise is made for, in words: exact, in whole numbers."""
    wrong = []
    for plan, one, other in zip(plans, ones, others, strict=True):
        first, second = ({_key(row): i for i, row in enumerate(each.keys.to_pylist())} for each in (one, other))
        pairs = [
            (m, p, one.numbers[m], other.numbers[m], m.for_table or plan.selector is None)
            for m, p in plan.parts.items()
        ]
        for name, (_, part) in plan.noise.extra_noise.items():
            pairs.append((name, part, one.left_out[name], other.left_out[name], True))
        for what, part, mine, theirs, in_place in pairs:
            if in_place:
                far = np.abs(mine.astype(object) - theirs).ravel().tolist()
            else:
                zero = np.zeros(mine.shape[1], dtype=object)
                far = [
                    abs(step)
                    for key in first.keys() | second.keys()
                    for step in (
                        (mine[first[key]] if key in first else zero) - (theirs[second[key]] if key in second else zero)
                    )
                ]
            allowed = sum(shift * n for shift, n in part.moves)
            if sum(far) > allowed or max(far, default=0) > max(shift for shift, _ in part.moves):
                wrong.append(f"{what} moved by {sum(far):,}, at most {max(far):,}, where {part.moves} is allowed")
    return wrong
