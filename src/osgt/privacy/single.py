"""δ(ε) of one coordinate, in closed form.

The best event for telling P from Q is a half line (the loss is monotone), so with w the point where the loss is ε

    δ(ε) = P[W > w] - exp(ε)·Q[W > w] = Σ or ∫ over w' > w of P(w')·(1 - exp(ε - loss(w'))).

The difference of tails is used where it keeps its digits. Where the noise is large against the shift the two tails
nearly cancel, and the second form, whose terms are all positive, is summed or integrated instead.
"""

import math

import numpy as np

from osgt.privacy.pair import Pair
from osgt.support.arrays import Floats

#: Results are raised by this: float errors of the tails, the quadrature and the sums stay below it.
_MARGIN = 1e-12

#: Losses are exact to this, relative: δ is read at an ε that is smaller by as much.
_LOSS_ERROR = 1e-15

#: Exp(ε)·Q[W > w] / P[W > w] up to which the difference of tails is taken.
_NO_CANCELLATION = 0.9

#: Mean residual life up to which an integer distribution is summed term by term.
_SUMMED = 400.0

_X, _W = np.polynomial.legendre.leggauss(16)
_UNIT_NODES, _UNIT_WEIGHTS = 0.5 + 0.5 * _X, 0.5 * _W
_PANELS = np.array([0.0, 0.5, 1.5, 3.0, 6.0, 12.0, 24.0, 48.0])
_TAIL_NODES = (_PANELS[:-1, None] + np.diff(_PANELS)[:, None] * _UNIT_NODES).ravel()
_TAIL_WEIGHTS = (np.diff(_PANELS)[:, None] * _UNIT_WEIGHTS).ravel()


def delta(pair: Pair, epsilon: Floats) -> Floats:
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


def delta_below(pair: Pair, epsilon: float) -> float:
    """Lower bound on δ(ε): `delta` at an ε that is larger by the error of the losses, less its margin."""
    upper = float(delta(pair, np.asarray(epsilon * (1.0 + 4 * _LOSS_ERROR))))
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


def epsilon(pair: Pair, target: float) -> float:
    """The least ε ≥ 0 with δ(ε) ≤ target, rounded up: `delta` of it is at most the target."""

    log_target = math.log(target)

    def excess(at: float) -> float:
        return math.log(max(float(delta(pair, np.asarray(at))), 1e-320)) - log_target

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
    while float(delta(pair, np.asarray(at))) > target:
        at, stride = at + stride, 2 * stride
    return at
