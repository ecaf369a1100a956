"""log E_P[exp(s·loss)] of one coordinate, for any even, convex potential, on the reals and on the integers.

P and Q are mirror images, which gives a form without cancellation: with α = 1 + s,

    E_P[exp(s·loss)] - 1 = ∫ over w > -shift/2 of P(w)·exp(s·loss)·(1 - exp(-α·loss))·(1 - exp(-s·loss)) dw.

All terms are positive, however small the loss and however large s. On the integers the integral is a sum.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osgt.noise.mills import Floats
from osgt.privacy.pair import Pair

#: Terms below exp(-_DEPTH) of the largest are left out.
_DEPTH = 50.0

#: Integers up to which a sum is taken term by term.
_SUMMED = 40_000

_X, _W = np.polynomial.legendre.leggauss(16)
_PANELS = 24

#: Where the exponent is looked at, in units of the mean of |Y|: peaks may lie anywhere between.
_SCAN = 2.0 ** np.arange(-8.0, 72.25, 0.25)


def log_moment(pair: Pair, s: float) -> float:
    """log E_P[exp(s·loss)] for s > 0, accurate relative to itself."""
    log_excess = _log_sum([_lower_piece(pair, s), _upper_piece(pair, s)])
    return float(np.logaddexp(0.0, log_excess))


def _log_terms(pair: Pair, s: float, w: Floats) -> Floats:
    loss = pair.loss(w)
    with np.errstate(divide="ignore"):
        factors = np.log(-np.expm1(-(1.0 + s) * loss)) + np.log(-np.expm1(-s * loss))
    return np.asarray(pair.log_peak - pair.noise.potential(np.abs(w)) + s * loss + factors, dtype=np.float64)


def _exponent(pair: Pair, s: float) -> Callable[[float], float]:
    potential = pair.noise.potential

    def value(w: float) -> float:
        return float(s * pair.loss(np.asarray(w)) - potential(np.asarray(abs(w))))

    return value


def _lower_piece(pair: Pair, s: float) -> float:
    """log of the part with -shift/2 < w < 0, where the terms grow with w."""
    exponent, start = _exponent(pair, s), -0.5 * pair.shift
    low = _edge(lambda w: exponent(w) < exponent(0.0) - _DEPTH, 0.0, start)
    if pair.discrete and -low <= _SUMMED:
        first = math.floor(low) + 1 if low > start else math.floor(start) + 1  # the loss at -shift/2 is zero
        k = np.arange(first, 0.0)
        return _log_sum(_log_terms(pair, s, k)) if len(k) else -math.inf
    integral = _log_integral(pair, s, low, 0.0)
    return _with_end(pair, s, integral, -1.0) if pair.discrete else integral


def _upper_piece(pair: Pair, s: float) -> float:
    """log of the part with w ≥ 0; infinite where no end of the rise is found.

    Where U' is log-concave, as for OSGT, the terms rise to one peak, at 0 or further out, and fall from there on. In
    other families they may fall, rise and fall again: a scan finds the last peak.
    """
    exponent = _exponent(pair, s)

    def falls(w: float) -> bool:
        return not _rises(pair, s, np.asarray(w))

    scale = 1.0 / float(pair.noise.potential.hazard(np.asarray(0.0)))
    points = np.concatenate([[0.0], scale * _SCAN])
    rises = _rises(pair, s, points)
    if rises[-1]:
        return math.inf
    last = len(points) - 1 - int(np.argmax(rises[::-1])) if np.any(rises) else None
    peak = 0.0 if last is None else _edge(falls, float(points[last]), float(points[last + 1]))
    is_single = last is None or bool(np.all(rises[: last + 1]))
    if not is_single and exponent(peak) < exponent(0.0) - _DEPTH:
        peak, is_single = 0.0, True  # nothing is left of it there
    top = max(exponent(peak), exponent(0.0))
    far = scale
    while exponent(peak + far) > top - _DEPTH:
        far *= 2.0
    high = _edge(lambda w: exponent(w) < top - _DEPTH, peak, peak + far)
    low = _edge(lambda w: exponent(w) < top - _DEPTH, peak, 0.0) if exponent(0.0) < top - _DEPTH else 0.0
    if pair.discrete and high - low <= _SUMMED:
        return _log_sum(_log_terms(pair, s, np.arange(math.ceil(low), math.ceil(high) + 1.0)))
    integral = _log_integral(pair, s, low, high, also=() if is_single else points)
    return _with_end(pair, s, integral, 1.0) if pair.discrete and low == 0.0 else integral


def _rises(pair: Pair, s: float, w: Floats) -> NDArray[np.bool_]:
    """Whether s·loss(w) - U(w) grows with w ≥ 0."""
    with np.errstate(over="ignore", invalid="ignore"):
        slope = pair.slope(w)
        # Beyond all floats nothing is known: it counts as rising.
        return np.asarray(~(s * (pair.slope(w + pair.shift) - slope) <= slope))


def _with_end(pair: Pair, s: float, log_integral: float, side: float) -> float:
    """Euler–Maclaurin at the kink w = 0, which is counted with the upper side.

    At the other ends the terms are negligible, or even about -shift/2, and nothing is to be added.
    """
    log_value = float(_log_terms(pair, s, np.asarray(0.0)))
    loss = pair.kink
    outward = side * float(pair.slope(np.asarray(0.0)))
    loss_slope = float(pair.slope(np.asarray(pair.shift))) - outward
    rate = -outward + s * loss_slope
    rate += loss_slope * ((1.0 + s) / math.expm1(min((1.0 + s) * loss, 700.0)) + s / math.expm1(min(s * loss, 700.0)))
    correction = side * (0.5 - rate / 12.0)
    return log_integral + math.log1p(correction * math.exp(log_value - log_integral))


def _log_integral(pair: Pair, s: float, low: float, high: float, also: ArrayLike = ()) -> float:
    """log of the integral of the terms, in equal panels that are cut at the points of `also` as well."""
    edges = np.linspace(low, high, _PANELS + 1)
    more = np.asarray(also, dtype=np.float64)
    edges = np.union1d(edges, more[(more > low) & (more < high)])
    half = 0.5 * np.diff(edges)[:, None]
    w = edges[:-1, None] + half * (1.0 + _X)
    return _log_sum((_log_terms(pair, s, w) + np.log(half * _W)).ravel()) if high > low else -math.inf


def _log_sum(values: Floats | list[float]) -> float:
    top = float(np.max(values))
    return top + math.log(float(np.sum(np.exp(np.asarray(values) - top)))) if math.isfinite(top) else top


def _edge(beyond: Callable[[float], bool], near: float, far: float) -> float:
    """The point between near (not beyond) and far where `beyond` turns true, roughly; far if it never does."""
    if not beyond(far):
        return far
    for _ in range(50):
        middle = 0.5 * (near + far)
        near, far = (near, middle) if beyond(middle) else (middle, far)
        if abs(far - near) <= 1e-3 * abs(far):
            break
    return far


def symmetrised_divergence(pair: Pair) -> float:
    """Σ (P - Q)·loss over the integers: the divergence of P from Q and of Q from P together."""
    scale = pair.noise.std()
    if scale <= _SUMMED / 100:
        # The terms are even about -shift/2: twice those above it, where the loss is positive.
        k = np.arange(math.floor(-0.5 * pair.shift) + 1.0, math.ceil(40 * scale) + 41.0)
        loss = pair.loss(k)
        return 2.0 * float(np.sum(np.exp(pair.log_peak - pair.noise.potential(np.abs(k))) * -np.expm1(-loss) * loss))
    # d/ds log E[exp(s·loss)] between its zeros at s = -1 and s = 0 is flat for small losses: E = s(1 + s)·J/2 + …
    s = 1e-3
    return 2.0 * log_moment(pair, s) / (s * (1.0 + s))
