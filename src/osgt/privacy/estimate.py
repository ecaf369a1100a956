"""About δ of a composition, in a fraction of a millisecond. It only steers: what it finds is proved elsewhere.

With K(s) = Σ coordinates·log E_P[exp(s·loss)] and g(s) = K(s) - s·ε - log s(1 + s), δ(ε) is a contour integral of
exp(g(s)). At its saddle point t, where the derivative of g is 0, losses near ε are typical under the tilt exp(t·loss).
A few hundred losses stand for each coordinate; tilted, they are composed on one short grid by Fourier transforms. Where
there are too many coordinates for it, the expansion at the saddle point is as good: with the derivatives gₙ there,

    δ(ε) ≈ exp(g)/√(2π·g₂) · (1 + g₄/8g₂² - 5g₃²/24g₂³).

As a rule log δ is right to 1e-3.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy

from osgt.privacy.pair import Pair, pair_delta, pair_epsilon
from osgt.privacy.profile import PrivacyProfile
from osgt.support.numeric import Floats

#: Tails are followed down to exp(-_MARGIN) of δ, in so many panels of so many nodes.
_MARGIN = 40.0
_PANELS = 12
_X, _W = np.polynomial.legendre.leggauss(8)
_NODES, _LOG_WEIGHTS = 0.5 + 0.5 * _X, np.log(0.5 * _W)
_PLACES, _FEW_PLACES = np.linspace(0.0, 1.0, _PANELS + 1), np.linspace(1.0, 0.0, 4)

#: Reaches that are tried, in units of the mean of |Y|.
_FARTHER = 1.25 ** np.arange(40.0)

#: Mean of |Y| from which on noise on the integers is as smooth as on the reals, and integers that are summed below it.
_SMOOTH = 8.0
_SUMMED = 1024

#: Steps of Newton's, and what may be left to gain by a further one, in log δ.
_STEPS = 40
_CLOSE = 1e-6
_LARGEST_LOG_TILT = 60.0

#: The grid: its length, its reach in standard deviations and in 1/tilt, and by what log δ may be raised at most.
_CELLS = 4096
_DEVIATIONS, _WEIGHTS_REACH = 16.0, 30.0
_TOO_COARSE = 0.05
_FINEST = 2.0**-44

#: An ε is sought to this, in log δ.
_EPSILON_STEPS = 60
_SAME_DELTA = 1e-4


class Estimate:
    """About δ and ε of a composition, for δ of about the size that is given. Exact for one coordinate."""

    def __init__(self, pairs: Sequence[Pair], coordinates: Sequence[int], log_delta: float, tilt: float = 1.0) -> None:
        #: The saddle point that was found last: the search for the next begins there.
        self.tilt = tilt
        self._single = pairs[0] if sum(coordinates) == 1 else None
        if self._single is not None:
            return
        points = [_points(pair, _MARGIN - log_delta) for pair in pairs]
        self._weights = np.asarray(coordinates, dtype=np.float64)
        self._heads = np.cumsum([0] + [len(losses) for _, losses in points[:-1]])
        self._part = np.repeat(np.arange(len(points)), [len(losses) for _, losses in points])
        self._log_p = np.concatenate([log_p for log_p, _ in points])
        self._losses = np.concatenate([losses for _, losses in points])
        self._largest = float(self._weights @ np.maximum.reduceat(self._losses, self._heads))

    @np.errstate(over="ignore", invalid="ignore", divide="ignore")  # far from where δ has the given size
    def log_delta(self, epsilon: float) -> float:
        """About log δ(ε); minus infinity where no loss is above ε."""
        if self._single is not None:
            delta = float(pair_delta(self._single, np.asarray(epsilon)))
            return math.log(delta) if delta > 0 else -math.inf
        if epsilon >= self._largest:
            return -math.inf
        x, low, high = math.log(self.tilt), -math.inf, math.inf
        for _ in range(_STEPS):
            t = math.exp(x)
            value, mean, variance = self._cumulants(t)
            slope = mean - epsilon - 1.0 / t - 1.0 / (1.0 + t)
            curvature = variance + t**-2 + (1.0 + t) ** -2
            if slope**2 <= 2.0 * _CLOSE * curvature:
                break
            low, high = (low, x) if slope > 0 else (x, high)
            moved = x + min(max(-slope / (t * curvature), -2.0), 2.0)
            x = moved if low < moved < high else 0.5 * (low + high)
            if abs(x) > _LARGEST_LOG_TILT:
                return -math.inf if x > 0 else 0.0
        self.tilt = t
        on_grid = self._on_grid(t, mean, math.sqrt(variance), epsilon)
        if on_grid is not None:
            return value - t * epsilon + on_grid
        third, fourth = self._higher_cumulants()
        third -= 2.0 * (t**-3 + (1.0 + t) ** -3)
        fourth += 6.0 * (t**-4 + (1.0 + t) ** -4)
        correction = fourth / (8.0 * curvature**2) - 5.0 * third**2 / (24.0 * curvature**3)
        height = value - t * epsilon - math.log(t) - math.log1p(t)
        return height - 0.5 * math.log(2 * math.pi * curvature) + math.log1p(min(max(correction, -0.5), 0.5))

    def epsilon(self, log_delta: float) -> float:
        """About the ε ≥ 0 at which log δ is `log_delta`."""
        if self._single is not None:
            return pair_epsilon(self._single, math.exp(log_delta))
        at, low, high = 0.0, 0.0, math.inf
        for _ in range(_EPSILON_STEPS):
            over = self.log_delta(at) - log_delta
            if abs(over) <= _SAME_DELTA or (at == 0 and over < 0):
                break
            low, high = (at, high) if over > 0 else (low, at)
            moved = at + max(over, -1e3) / self.tilt  # log δ falls at about the rate of the tilt
            at = moved if low < moved < high else 0.5 * (low + high)
            if high < math.inf and high - low <= 1e-12 * high:
                break
        return at

    def _cumulants(self, t: float) -> tuple[float, float, float]:
        """K(t) and its first two derivatives."""
        exponent = self._log_p + t * self._losses
        top = np.maximum.reduceat(exponent, self._heads)
        mass = np.exp(exponent - top[self._part])
        total = np.add.reduceat(mass, self._heads)
        self._tilted = mass / total[self._part]
        mean = np.add.reduceat(self._tilted * self._losses, self._heads)
        self._off = self._losses - mean[self._part]
        self._variances = np.add.reduceat(self._tilted * self._off**2, self._heads)
        weights = self._weights
        return float(weights @ (top + np.log(total))), float(weights @ mean), float(weights @ self._variances)

    def _higher_cumulants(self) -> tuple[float, float]:
        """The third and the fourth derivative where `_cumulants` was called last."""
        third, fourth = (np.add.reduceat(self._tilted * self._off**n, self._heads) for n in (3, 4))
        return float(self._weights @ third), float(self._weights @ (fourth - 3.0 * self._variances**2))

    def _on_grid(self, t: float, mean: float, deviation: float, epsilon: float) -> float | None:
        """log E[exp(-t·u)(1 - exp(-u)); u = loss - ε > 0] under the tilt; None where no grid serves."""
        step = (_DEVIATIONS * deviation + _WEIGHTS_REACH / t) / _CELLS
        if not step > _FINEST * (abs(mean) + abs(epsilon)):
            return None  # next to the largest of bounded losses
        place = np.floor(self._losses / step)
        above = self._losses - place * step
        share = np.expm1(-above) / math.expm1(-step)
        kept = self._tilted * (1.0 - share) * np.exp(-t * above)
        lifted = self._tilted * share * np.exp(t * (step - above))
        added = 0.5 * t * (1.0 + t) * float(np.sum(self._weights[self._part] * kept * share)) * step**2
        if not added < _TOO_COARSE:
            return None
        index = place.astype(np.int64) % _CELLS
        ends = [*self._heads[1:], len(index)]
        masses = [
            np.bincount(index[of], kept[of], _CELLS) + np.bincount((index[of] + 1) % _CELLS, lifted[of], _CELLS)
            for of in map(slice, self._heads, ends)
        ]
        product: Any = 1.0
        for transform, n in zip(scipy.fft.rfft(masses), self._weights, strict=True):
            product = product * transform ** int(n)
        base = math.floor(mean / step) - _CELLS // 2
        composed = np.roll(scipy.fft.irfft(product, _CELLS), -base)
        first = max(math.floor(epsilon / step) + 1 - base, 0)
        u = (base + np.arange(first, _CELLS)) * step - epsilon
        total = float(np.sum(composed[first:] * np.exp(-t * u) * -np.expm1(-u)))
        return math.log(total) - added if total > 0 else None


def _points(pair: Pair, depth: float) -> tuple[Floats, Floats]:
    """Logarithms of masses, which sum to 1, and losses that stand for one coordinate, down to exp(-depth).

    The losses are odd about -shift/2: one of l and mass p comes with one of -l and mass p·exp(-l).
    """
    potential, half = pair.noise.potential, 0.5 * pair.shift
    scale = reach = 1.0 / float(potential.hazard(np.zeros(())))
    while not np.any(deep := potential(reach * _FARTHER) >= depth):
        reach *= _FARTHER[-1]
    reach *= float(_FARTHER[np.argmax(deep)])
    if pair.discrete and scale <= _SMOOTH and reach <= _SUMMED:
        w, log_weights = _integers(half, math.ceil(reach))
    else:
        w, log_weights = _quadrature(scale * np.sinh(_PLACES * math.asinh(reach / scale)))
        if pair.discrete and half <= _SUMMED:
            inner, log_inner = _integers(half, 0)
            log_inner[-1] -= math.log(2.0)  # Euler–Maclaurin: half of the first term beside the integral
        elif half > scale:
            inner, log_inner = _quadrature(-scale * np.sinh(_PLACES[::-1] * math.asinh(half / scale)))
        else:
            inner, log_inner = _quadrature(-half * _FEW_PLACES)
        w, log_weights = np.concatenate([inner, w]), np.concatenate([log_inner, log_weights])
    log_p = log_weights - potential(np.abs(w))
    losses = pair.loss(w)
    log_p, losses = np.concatenate([log_p, log_p - losses]), np.concatenate([losses, -losses])
    return log_p - math.log(float(np.sum(np.exp(log_p)))), losses


def _integers(half: float, last: int) -> tuple[Floats, Floats]:
    """The integers from the centre of symmetry on, and logarithms of weights; the centre is its own counterpart."""
    w = np.arange(math.ceil(-half), last + 1.0)
    log_weights = np.zeros(len(w))
    if w[0] == -half:
        log_weights[0] = -math.log(2.0)
    return w, log_weights


def _quadrature(edges: Floats) -> tuple[Floats, Floats]:
    """Nodes in the panels between the edges, and logarithms of their weights."""
    width = np.diff(edges)[:, np.newaxis]
    return (edges[:-1, np.newaxis] + width * _NODES).ravel(), (np.log(width) + _LOG_WEIGHTS).ravel()


def epsilon_roughly(profile: PrivacyProfile, delta: float) -> float:
    """About the ε at δ > 0."""
    pairs, counts = profile.pairs()
    return min(Estimate(pairs, counts, math.log(delta)).epsilon(math.log(delta)), float(profile.epsilon(0.0)))
