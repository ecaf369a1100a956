"""The privacy loss of one coordinate: the pair of distributions that an observer has to tell apart.

Take the noise with its sign turned, W = -Y. Without the person W follows the distribution itself (P), with the person
the same moved down by the shift (Q). The log-likelihood ratio, the privacy loss

    loss(w) = log dP/dQ (w) = U(|w + shift|) - U(|w|),

is nondecreasing in w because the potential U is even and convex, and odd about w = -shift/2. Everything that the
accounting needs follows from the loss and from the tails of the distribution.

δ(ε) of one coordinate has a closed form. The best event for telling P from Q is a half line (the loss is monotone), so
with w the point where the loss is ε

    δ(ε) = P[W > w] - exp(ε)·Q[W > w] = Σ or ∫ over w' > w of P(w')·(1 - exp(ε - loss(w'))).

The difference of tails is used where it keeps its digits. Where the noise is large against the shift the two tails
nearly cancel, and the second form, whose terms are all positive, is summed or integrated instead.
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from osgt.noise import Distribution
from osgt.noise.osgt import OffsetPotential
from osgt.support.numeric import Floats, grow

#: Far out, but far enough from overflow.
_FAR = 1e300

#: `position` is exact to this, relative to the loss asked for plus the kink; who uses it must allow for it.
POSITION_ERROR = 4e-15

#: exp(-_DEEPEST) is far below the smallest normal float.
_DEEPEST = 760.0

#: The table of losses reaches to where the potential exceeds this.
_DEEP = 4000.0
_TABLE = 96
_NEWTON_STEPS = 40


@dataclass(frozen=True)
class Pair:
    """A pair: one coordinate of noise, and the most by which a person can move it."""

    noise: Distribution
    shift: float

    @property
    def discrete(self) -> bool:
        """Whether W lives on the integers."""
        return self.noise.discrete

    @cached_property
    def log_peak(self) -> float:
        """log of the density or probability at 0, the largest there is."""
        return self.noise.log_peak

    def slope(self, y: Floats) -> Floats:
        """U'(y) for y ≥ 0 (at 0: from the right)."""
        return np.asarray(self.noise.potential.derivatives(y)[0], dtype=np.float64)

    def loss(self, w: Floats) -> Floats:
        """The privacy loss at w, accurate relative to itself however small it is."""
        w = np.asarray(w, dtype=np.float64)
        gap = np.clip(2.0 * w + self.shift, -self.shift, self.shift)  # |w + shift| - |w|
        near = np.minimum(np.abs(w), np.abs(w + self.shift))
        with np.errstate(over="ignore"):
            size = self.noise.potential.rise(near, np.abs(gap))
        return np.asarray(np.copysign(size, gap), dtype=np.float64)

    def loss_slope(self, w: Floats) -> Floats:
        """Derivative of the loss in w."""
        return np.sign(w + self.shift) * self.slope(np.abs(w + self.shift)) - np.sign(w) * self.slope(np.abs(w))

    @cached_property
    def kink(self) -> float:
        """The loss at w = 0: U(shift). Near the Laplace end nearly half of P sits just above it."""
        return float(self.loss(np.asarray(0.0)))

    @cached_property
    def atoms_per_kink(self) -> int:
        """The least q for which the losses at the central integers are multiples of kink/q; 1 if there is none."""
        if not self.discrete:
            return 1
        reach = math.floor(0.5 * self.shift) + 4
        losses = self.loss(np.arange(-min(reach, 8), 5.0)) / self.kink
        q = np.arange(1, 1025)[:, np.newaxis]
        off = np.max(np.abs(q * losses - np.round(q * losses)), axis=1)
        result = np.flatnonzero(off < 1e-10)
        return int(result[0]) + 1 if len(result) else 1

    @cached_property
    def largest_loss(self) -> float:
        """Supremum of the loss: finite only where U grows linearly in the end (the Laplace end)."""
        return self.noise.potential.largest_slope * self.shift

    @cached_property
    def deepest(self) -> float:
        """A w beyond which P has less mass than any δ that is told: the potential is above 760 there."""
        potential = self.noise.potential
        start = 1.0 / float(potential.hazard(np.asarray(0.0)))
        return grow(start, lambda w: bool(potential(np.asarray(w)) < _DEEPEST), 1.25)

    def reach(self, log_mass: float) -> float:
        """A w ≥ 0 with log P[W > w] at most this (down to -760), and not much larger than need be.

        P[W > w] ≤ ½·exp(-U(w)), because U is convex and U(0) = 0.
        """
        w = self.deepest * np.linspace(0.0, 1.0, _TABLE * 4)
        enough = int(np.searchsorted(self.noise.potential(w), -math.log(2.0) - log_mass))
        return float(w[min(enough, len(w) - 1)])

    def position(self, loss: Floats) -> Floats:
        """The largest w with loss(w) ≤ `loss`; ±inf beyond the range of the loss."""
        loss = np.asarray(loss, dtype=np.float64)
        size = np.abs(loss)
        if isinstance(self.noise.potential, OffsetPotential):
            w = self._linear_position(size, self.noise.potential.curvature)
        else:
            w = self._upper_position(size)
        mirrored = np.where(np.isinf(w), -w, -self.shift - w)
        return np.where(loss >= 0, w, mirrored)

    def _linear_position(self, size: Floats, curvature: float) -> Floats:
        """`position` for losses ≥ 0 where U has no third derivative: the loss is linear on either side of the kink."""
        below = 0.5 * self.shift * (size / self.kink - 1.0)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            above = (size - self.kink) / (curvature * self.shift)
        w = np.where(size < self.kink, below, above)
        return np.where(size < self.largest_loss, w, np.inf)

    @cached_property
    def _table(self) -> tuple[Floats, Floats]:
        """Points from the centre of symmetry on, the kink among them, and the losses there."""
        potential = self.noise.potential
        start = max(self.shift, 1.0 / float(potential.hazard(np.asarray(0.0))))
        reach = grow(start, lambda w: bool(potential(np.asarray(w)) < _DEEP))
        lower, upper = np.linspace(-0.5 * self.shift, 0.0, _TABLE), reach * np.linspace(0.0, 1.0, _TABLE) ** 2
        table = np.concatenate([lower, upper[1:]])
        return table, np.maximum.accumulate(self.loss(table))

    def _upper_position(self, size: Floats) -> Floats:
        """`position` for losses ≥ 0: interpolation in a table, then Newton's steps inside the table's cell."""
        inside = size < self.largest_loss
        target = np.where(inside, size, 0.0)
        table, losses = self._table
        most = float(np.max(target, initial=0.0))
        while losses[-1] < most and table[-1] < _FAR:
            table = np.append(table, 2.0 * table[-1])
            losses = np.append(losses, max(float(self.loss(table[-1])), float(losses[-1])))
        cell = np.clip(np.searchsorted(losses, target, side="right"), 1, len(table) - 1)
        low, high = table[cell - 1], table[cell]
        rise = losses[cell] - losses[cell - 1]
        share = (target - losses[cell - 1]) / np.where(rise > 0, rise, 1.0)
        w = low + np.clip(share, 0.0, 1.0) * (high - low)
        for _ in range(_NEWTON_STEPS):
            residual = target - self.loss(w)
            if np.all(np.abs(residual) <= POSITION_ERROR * (target + self.kink)):
                break
            slope = self.loss_slope(w)
            step = np.where(slope > 0, residual / np.where(slope > 0, slope, 1.0), 0.0)
            moved = np.clip(w + step, low, high)
            if np.array_equal(moved, w):
                break
            w = moved
        return np.where(inside, w, np.inf)

    def edges(self, losses: Floats) -> Floats:
        """Cell edges: W in (edge, next edge] has its loss between the two given losses."""
        w = self.position(losses)
        return np.floor(w) if self.discrete else w

    def log_tails(self, w: Floats) -> Floats:
        """log P[W > w] for w ≥ 0, log P[W ≤ w] for w < 0: the smaller side, where nothing cancels."""
        w = np.asarray(w, dtype=np.float64)
        if not self.discrete:
            return np.asarray(self.noise.logsf(np.abs(w)), dtype=np.float64)
        outward, where = np.unique(np.where(w >= 0, w, -w - 1.0), return_inverse=True)  # many edges share an integer
        return np.asarray(self.noise.logsf(outward), dtype=np.float64)[where.reshape(w.shape)]

    def log_masses(self, edges: Floats) -> tuple[Floats, Floats]:
        """Logarithms of the P-mass and of the Q-mass of each cell (edge, next edge]."""
        below = edges + self.shift
        return log_differences(edges, self.log_tails(edges)), log_differences(below, self.log_tails(below))


@lru_cache(maxsize=4096)
def pair_of(noise: Distribution, shift: float) -> Pair:
    """The pair, kept with what it has worked out about itself."""
    return Pair(noise, shift)


def log_differences(w: Floats, tails: Floats) -> Floats:
    """Logarithms of the masses between neighbouring points, from `Pair.log_tails` there."""
    upper = w >= 0
    across = upper[1:] & ~upper[:-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        larger = np.maximum(tails[:-1], tails[1:])
        smaller = np.minimum(tails[:-1], tails[1:])
        mass = larger + np.log(-np.expm1(smaller - larger))
        mass[across] = np.log1p(-np.minimum(np.exp(tails[:-1][across]) + np.exp(tails[1:][across]), 1.0))
    mass[np.isneginf(larger) & ~across] = -np.inf
    return np.asarray(mass, dtype=np.float64)


@dataclass(frozen=True)
class Atoms:
    """Losses of neighbouring integers, in ascending order, and their log P-masses, rounded up.

    The first atom holds all mass below it, too. The P-mass exp(log_beyond) above the last is not among them.
    """

    losses: Floats
    log_p: Floats
    log_beyond: float


def integers(pair: Pair, low: float, high: float) -> tuple[int, int] | None:
    """The integers whose losses span `low` to `high`, as far as the loss goes; None where they are beyond counting.

    The loss of the first is at most `low`, or the least that there is; that of the last is the largest up to `high`,
    or the largest that there is.
    """
    bounds = []
    for loss in (low, high):
        if abs(loss) < pair.largest_loss * (1.0 - 2 * POSITION_ERROR):
            w = float(pair.position(np.asarray(loss)))
        else:
            # The first integer with the largest loss, or the last with the least.
            end = float(pair.position(np.asarray(pair.largest_loss * (1.0 - 2 * POSITION_ERROR))))
            w = math.ceil(end) if loss > 0 else -pair.shift - math.ceil(end)
        if not abs(w) < 2.0**40:
            return None
        bounds.append(math.floor(w))
    return bounds[0], max(bounds[1], bounds[0] + 1)


def atoms(pair: Pair, first: int, last: int) -> Atoms:
    """The atoms at the integers from `first` to `last`."""
    w = np.arange(first, last + 1, dtype=np.float64)
    losses = pair.loss(w)
    log_p = pair.log_peak - pair.noise.potential(np.abs(w))
    # In one call: P[W ≤ first] = P[W > -first - 1].
    log_p[0], from_last, log_beyond = (float(x) for x in pair.noise.logsf([-first - 1.0, last - 1.0, last]))
    if losses[-1] >= pair.largest_loss * (1.0 - 4 * POSITION_ERROR):
        losses[-1], log_p[-1], log_beyond = pair.largest_loss, from_last, -math.inf
    # Error of the logarithm of a probability p, up to a factor 1 - log p.
    error = 2.0 * pair.noise.potential.tail_error
    return Atoms(losses, _up(log_p, error), float(_up(log_beyond, error)))


def _up(log_p: Floats | float, error: float) -> Floats:
    """Logarithms of probabilities, raised by their error."""
    return np.asarray(np.where(np.isneginf(log_p), log_p, log_p + error * (1.0 - np.maximum(log_p, -1e300))))


#: Results are raised by this: float errors of the tails, the quadrature and the sums stay below it.
_MARGIN = 1e-12

#: Losses are exact to this, relative: δ is read at an ε that is smaller by as much.
_LOSS_ERROR = 1e-15

#: Exp(ε)·Q[W > w] / P[W > w] up to which the difference of tails is taken.
_NO_CANCELLATION = 0.9

#: Mean residual life up to which an integer distribution is summed term by term.
_SUMMED = 400.0

#: Gauss-Legendre with sixteen nodes, on [0, 1] and on panels that grow into a tail.
_X, _W = np.polynomial.legendre.leggauss(16)
_UNIT_NODES, _UNIT_WEIGHTS = 0.5 + 0.5 * _X, 0.5 * _W
_PANELS = np.array([0.0, 0.5, 1.5, 3.0, 6.0, 12.0, 24.0, 48.0])
_TAIL_NODES = (_PANELS[:-1, None] + np.diff(_PANELS)[:, None] * _UNIT_NODES).ravel()
_TAIL_WEIGHTS = (np.diff(_PANELS)[:, None] * _UNIT_WEIGHTS).ravel()


def pair_delta(pair: Pair, epsilon: Floats) -> Floats:
    """δ(ε), rounded up, for an array of ε ≥ 0."""
    shape = np.shape(epsilon)
    epsilon = np.ravel(np.asarray(epsilon, dtype=np.float64)) * (1.0 - _LOSS_ERROR)
    result = np.zeros_like(epsilon)
    finite = epsilon < pair.largest_loss
    if np.any(finite):
        at = epsilon[finite]
        w = pair.position(at)
        w = np.maximum(np.floor(w), math.ceil(-0.5 * pair.shift) - 1.0) if pair.discrete else w
        result[finite] = _from_position(pair, at, w)
    return np.minimum(result * (1.0 + _MARGIN), 1.0).reshape(shape)


def pair_delta_below(pair: Pair, epsilon: float) -> float:
    """Lower bound on δ(ε): `pair_delta` at an ε that is larger by the error of the losses, less its margin."""
    upper = float(pair_delta(pair, np.asarray(epsilon * (1.0 + 4 * _LOSS_ERROR))))
    return max(upper * (1.0 - 3 * _MARGIN), 0.0)


def _from_position(pair: Pair, epsilon: Floats, w: Floats) -> Floats:
    """δ(ε) given the w beyond which (strictly) the loss exceeds ε."""
    tail = pair.log_tails(w)
    log_q = epsilon + np.asarray(pair.noise.logsf(w + pair.shift), dtype=np.float64)
    upper = w >= 0
    with np.errstate(over="ignore"):
        ratio = np.exp(np.minimum(log_q - tail, 700.0))
        difference = np.where(
            upper, np.exp(tail) * -np.expm1(np.minimum(log_q - tail, 0.0)), 1.0 - np.exp(tail) - np.exp(log_q)
        )
    cancels = np.where(upper, ratio > _NO_CANCELLATION, difference < 0.05)
    if np.any(cancels):
        difference[cancels] = _positive_terms(pair, epsilon[cancels], w[cancels])
    return np.maximum(difference, 0.0)


def _positive_terms(pair: Pair, epsilon: Floats, w: Floats) -> Floats:
    if not pair.discrete:
        return _tail_integral(pair, epsilon, np.maximum(w, 0.0)) + _integral(pair, epsilon, np.minimum(w, 0.0))
    return np.array([_sum(pair, e, k + 1.0) for e, k in zip(epsilon, w, strict=True)])


def _terms(pair: Pair, epsilon: Floats, w: Floats) -> Floats:
    """P(w)·(1 - exp(ε - loss(w)))."""
    density = np.exp(pair.log_peak - pair.noise.potential(np.abs(w)))
    return np.asarray(density * -np.expm1(np.minimum(epsilon - pair.loss(w), 0.0)), dtype=np.float64)


def _tail_integral(pair: Pair, epsilon: Floats, start: Floats) -> Floats:
    """∫ of the terms from start ≥ 0 on, in units of the mean residual life, which falls with w."""
    life = 1.0 / pair.noise.potential.hazard(start)
    w = start[:, None] + life[:, None] * _TAIL_NODES
    values = _terms(pair, epsilon[:, None], w)
    return np.asarray(life * np.sum(values * _TAIL_WEIGHTS, axis=1), dtype=np.float64)


def _integral(pair: Pair, epsilon: Floats, start: Floats) -> Floats:
    """∫ of the terms from start ≤ 0 to 0."""
    values = _terms(pair, epsilon[:, None], start[:, None] * (1.0 - _UNIT_NODES))
    return np.asarray(-start * np.sum(values * _UNIT_WEIGHTS, axis=1), dtype=np.float64)


def _sum(pair: Pair, epsilon: float, first: float) -> float:
    """Σ of the terms over the integers from `first` on."""
    start = max(first, 0.0)
    life = 1.0 / float(pair.noise.potential.hazard(np.asarray(start)))
    if life <= _SUMMED:
        total = float(np.sum(_terms(pair, np.asarray(epsilon), start + np.arange(math.ceil(60 * life) + 60.0))))
    else:
        # Euler–Maclaurin; the next term is relatively below 1/(720·life⁴).
        total = float(_tail_integral(pair, np.array([epsilon]), np.array([start]))[0])
        total += _ends(pair, epsilon, start, above=True)
    if first < 0:
        if -first <= 10 * _SUMMED or life <= _SUMMED:
            return total + float(np.sum(_terms(pair, np.asarray(epsilon), np.arange(first, 0.0))))
        total += float(_integral(pair, np.array([epsilon]), np.array([first]))[0])
        total += _ends(pair, epsilon, first, above=True)
        total += _ends(pair, epsilon, -0.0, above=False)
        total -= float(_terms(pair, np.asarray(epsilon), np.asarray(0.0)))
    return total


def _ends(pair: Pair, epsilon: float, k: float, *, above: bool) -> float:
    """Half the term at an end of the range, and the first derivative: the Euler–Maclaurin terms of one end."""
    side = 1.0 if k > 0 or (k == 0 and above) else -1.0  # which branch of the potential at its kink
    value = float(_terms(pair, np.asarray(epsilon), np.asarray(k)))
    log_density = pair.log_peak - float(pair.noise.potential(np.asarray(abs(k))))
    excess = float(pair.loss(np.asarray(k))) - epsilon
    slope = side * float(pair.slope(np.asarray(abs(k))))
    loss_slope = float(pair.slope(np.asarray(k + pair.shift))) - slope
    derivative = -slope * value + math.exp(log_density - excess) * loss_slope
    return 0.5 * value + (-1.0 if above else 1.0) * derivative / 12.0


def pair_epsilon(pair: Pair, target: float) -> float:
    """The least ε ≥ 0 with δ(ε) ≤ target, rounded up: `pair_delta` of it is at most the target."""

    log_target = math.log(target)

    def excess(at: float) -> float:
        return math.log(max(float(pair_delta(pair, np.asarray(at))), 1e-320)) - log_target

    if (start := excess(0.0)) <= 0:
        return 0.0
    # Newton's steps on log δ, whose slope is -exp(ε)·Q[W > w]/δ, kept between the bounds found so far.
    low, high, at, over = 0.0, math.inf, 0.0, start
    for _ in range(80):
        log_q = float(pair.noise.logsf(pair.edges(np.asarray(at)) + pair.shift))
        step = over * math.exp(min(over + log_target - at - log_q, 300.0))
        moved = min(at + step, max(2.0 * at, 2.0 * pair.kink)) if math.isinf(high) else at + step
        if high < math.inf and not low < moved < high:
            moved = 0.5 * (low + high)
        if moved >= pair.largest_loss:
            moved = high = min(high, pair.largest_loss)
        if moved == at or (high < math.inf and high - low <= 4e-16 * high):
            break
        at, over = moved, excess(moved)
        low, high = (at, high) if over > 0 else (low, at)
        if abs(over) < 1e-13:
            break
    stride = 2e-16 * at + 1e-300
    while float(pair_delta(pair, np.asarray(at))) > target:
        at, stride = at + stride, 2 * stride
    return at
