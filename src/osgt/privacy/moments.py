"""log E_P[exp(s·loss)] of one coordinate, for any even, convex potential, on the reals and on the integers.

P and Q are mirror images, which gives a form without cancellation: with α = 1 + s,

    E_P[exp(s·loss)] - 1 = ∫ over w > -shift/2 of P(w)·exp(s·loss)·(1 - exp(-α·loss))·(1 - exp(-s·loss)) dw.

All terms are positive, however small the loss and however large s. On the integers the integral is a sum.

The cumulant function of a composition, K(θ) = Σ coordinates·log E_P[exp(θ·loss)], tells how far to tilt, how wide to
look and roughly what δ will be. It only steers: a few hundred cells a part, never part of a bound.
"""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from osgt.privacy.pair import Pair
from osgt.support.numeric import Floats, bracket, grow

#: Terms below exp(-_DEPTH) of the largest are left out.
_DEPTH = 50.0

#: Of exponents up to this the sum is right to 1e-14 of its logarithm (tests/privacy/test_privacy_renyi.py).
_LARGEST = 2.0**70

#: Integers up to which a sum is taken term by term.
_SUMMED = 40_000

#: Gauss-Legendre with sixteen nodes, in so many panels.
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
    return lambda w: float(s * pair.loss(np.asarray(w)) - potential(np.asarray(abs(w))))


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
    """log of the part with w ≥ 0; infinite where no end of the rise is found, or floats cannot tell terms apart.

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
    if top > _LARGEST:
        return math.inf
    far = grow(scale, lambda distance: exponent(peak + distance) > top - _DEPTH)
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
        if abs(far - near) <= 1e-6 * abs(far):
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


#: The sketch of a loss: how fine, how far out, and up to which tilt.
_CELLS_PER_SIDE = 60
_DEEPEST = 1000.0  # tails are followed down to exp(-1000)
_LARGEST_LOG_TILT = 80.0

#: Tilted mass of an atom that is called heavy.
_HEAVY = 1e-3


@lru_cache(maxsize=4096)
def sketch(pair: Pair) -> tuple[Floats, Floats, Floats, Floats]:
    """Cells of one coordinate's loss, lowest loss first: log P-mass, loss as seen from afar, least and largest loss."""
    potential = pair.noise.potential
    scale = 1.0 / float(potential.hazard(np.asarray(0.0)))
    reach = grow(scale, lambda w: bool(potential(np.asarray(w)) < _DEEPEST), 1.5)
    outward = scale * np.sinh(np.linspace(0.0, math.asinh(reach / scale), _CELLS_PER_SIDE))
    middle = np.linspace(-pair.shift, 0.0, _CELLS_PER_SIDE)
    near = pair.shift * np.geomspace(1e-12, 1.0, 50)  # below the kink, where bounded losses pile up under a strong tilt
    edges = np.unique(np.concatenate([-pair.shift - outward, middle, -near, outward, -outward, outward - pair.shift]))
    if pair.discrete:
        edges = np.unique(np.floor(edges))
    largest = pair.loss(edges[1:])
    least = pair.loss(edges[:-1] + 1.0 if pair.discrete else edges[:-1])
    log_p, log_q = pair.log_masses(edges)
    with np.errstate(invalid="ignore"):
        seen = np.clip(log_p - log_q, least, largest)
    keep = np.isfinite(log_p) & np.isfinite(seen)
    return log_p[keep], seen[keep], least[keep], largest[keep]


class Cumulant:
    """K and its first two derivatives for a composition of pairs."""

    def __init__(self, pairs: list[Pair], coordinates: Floats) -> None:
        cells = [sketch(pair) for pair in pairs]
        self.coordinates = coordinates
        self.cells = cells
        self.kinks = np.array([pair.kink for pair in pairs])
        self.starts = np.cumsum([0] + [len(cell[0]) for cell in cells])
        self.log_p = np.concatenate([cell[0] for cell in cells])
        self.loss = np.concatenate([cell[1] for cell in cells])
        self.largest = np.concatenate([cell[3] for cell in cells])
        self.part = np.repeat(np.arange(len(cells)), np.diff(self.starts))

    def tilted(self, theta: float) -> tuple[Floats, Floats, Floats]:
        """For each part: log E[exp(θ·loss)], tilted mean, tilted variance."""
        heads = self.starts[:-1]
        exponent = self.log_p + theta * self.loss
        top = np.maximum.reduceat(exponent, heads)
        mass = np.exp(exponent - top[self.part])
        total = np.add.reduceat(mass, heads)
        mass /= total[self.part]
        mean = np.add.reduceat(mass * self.loss, heads)
        variance = np.add.reduceat(mass * (self.loss - mean[self.part]) ** 2, heads)
        return top + np.log(total), mean, variance

    def heaviest_atoms(self, part: int, theta: float) -> tuple[Floats, Floats]:
        """Losses of a part that hold a tilted mass by themselves, the heaviest of them, and their masses."""
        log_p, loss, least, largest = self.cells[part]
        exponent = log_p + theta * loss
        mass = np.exp(exponent - np.max(exponent))
        result = np.flatnonzero((least == largest) & (mass > _HEAVY * np.sum(mass)))
        return loss[result], mass[result] / np.sum(mass)

    def summary(self, theta: float) -> tuple[float, float, float]:
        """K(θ), K'(θ), K''(θ) of the whole composition."""
        value, mean, variance = self.tilted(theta)
        weight = self.coordinates
        return float(weight @ value), float(weight @ mean), float(weight @ variance)

    def chernoff(self, theta: float, epsilon: float) -> float:
        """A bound on log δ(ε), for once a rigorous one: every cell at its largest loss, over several tilts up to θ."""
        best = math.inf
        for tilt in theta * 0.5 ** np.arange(12.0):
            exponent = self.log_p + tilt * self.largest
            top = np.maximum.reduceat(exponent, self.starts[:-1])
            total = np.add.reduceat(np.exp(exponent - top[self.part]), self.starts[:-1])
            best = min(best, float(self.coordinates @ (top + np.log(total))) - tilt * epsilon)
        # What lies beyond the sketch has P-mass below exp(-_DEEPEST) a coordinate and counts in full.
        return float(np.logaddexp(best, math.log(float(np.sum(self.coordinates))) - _DEEPEST)) + 1e-6

    def window(self, part: int, theta: float, tolerance: float) -> tuple[float, float]:
        """Losses outside which a part has little tilted mass, also when all mass below is moved up to the lower one."""
        log_p, loss, least, largest = self.cells[part]
        exponent = log_p + theta * loss
        top = float(np.max(exponent))
        mass = np.exp(exponent - top)
        total = float(np.sum(mass))
        above = np.cumsum(mass[::-1])
        with np.errstate(divide="ignore"):
            below = np.log(np.concatenate([[0.0], np.cumsum(np.exp(log_p))[:-1]]))
        most = math.log(tolerance * total) + top  # what the mass below may come to, moved up to the lower end
        too_much = below + theta * least > most
        first = int(np.argmax(too_much))
        low = max((most - below[first]) / theta, least[first - 1]) if np.any(too_much) else least[-1]
        high = largest[min(len(largest) - int(np.searchsorted(above, tolerance * total)), len(largest) - 1)]
        return float(low), float(high)

    def tilt_for_epsilon(self, epsilon: float) -> float:
        """The saddle point of exp(K(θ) - θε)/(θ(1 + θ)) on θ > 0: the tilt at which ε is typical."""
        return self._moderate(_increasing_root(lambda theta: self._epsilon_at(theta) - epsilon))

    def tilt_for_delta(self, log_delta: float) -> float:
        """The tilt at whose ε the saddle-point estimate of log δ is `log_delta`."""
        return self._moderate(_increasing_root(lambda theta: log_delta - self.log_delta_estimate(theta)[1]))

    def log_delta_estimate(self, theta: float) -> tuple[float, float]:
        """ε that belongs to the tilt, and the saddle-point estimate of log δ(ε)."""
        value, mean, variance = self.summary(theta)
        epsilon = mean - 1.0 / theta - 1.0 / (1.0 + theta)
        curvature = variance + theta**-2 + (1.0 + theta) ** -2
        log_delta = value - theta * epsilon - math.log(theta) - math.log1p(theta)
        return epsilon, log_delta - 0.5 * math.log(2 * math.pi * curvature)

    def _moderate(self, theta: float) -> float:
        """A smaller tilt where the given one leaves nothing but the largest of bounded losses."""

        theta = min(theta, 1e9 / float(np.max(self.coordinates * self.kinks)))  # beyond, θ·loss has no digits left

        rounding = float(self.coordinates @ (1e-13 * self.kinks) ** 2)

        def relative_variance(at: float) -> float:
            return at**2 * max(self.summary(at)[2] - rounding, 0.0)

        while (now := relative_variance(theta)) < 1e-4 and relative_variance(0.5 * theta) >= now and theta > 1e-30:
            theta *= 0.5
        return theta

    def _epsilon_at(self, theta: float) -> float:
        return self.summary(theta)[1] - 1.0 / theta - 1.0 / (1.0 + theta)


def _increasing_root(function: Callable[[float], float]) -> float:
    """θ > 0 where the increasing function changes sign, or the end of the range that is nearest to it."""

    def by_logarithm(log_theta: float) -> float:
        return function(math.exp(log_theta))

    low, high = bracket(by_logarithm, 0.0, 1.0, lowest=-_LARGEST_LOG_TILT, largest=_LARGEST_LOG_TILT)
    return math.exp(low if low == high else scipy.optimize.brentq(by_logarithm, low, high, xtol=1e-2))
