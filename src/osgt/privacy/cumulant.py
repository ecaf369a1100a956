"""Where the loss of a composition concentrates: the cumulant function, sketched.

K(θ) = Σ coordinates·log E_P[exp(θ·loss)] tells how far to tilt, how wide to look and roughly what δ will be. It only
steers: a few hundred cells a part, never part of a bound.
"""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq

from osgt.noise.mills import Floats
from osgt.privacy.pair import Pair

_CELLS_PER_SIDE = 60
_DEEPEST = 1000.0  # tails are followed down to exp(-1000)
_LARGEST_LOG_TILT = 80.0

#: Tilted mass of an atom that is called heavy.
_HEAVY = 1e-3


@lru_cache(maxsize=4096)
def sketch(pair: Pair) -> tuple[Floats, Floats, Floats, Floats]:
    """Cells of one coordinate's loss, lowest loss first: log P-mass, loss as seen from afar, least and largest loss."""
    potential = pair.noise.potential
    scale = reach = 1.0 / float(potential.hazard(np.asarray(0.0)))
    while potential(np.asarray(reach)) < _DEEPEST:
        reach *= 1.5
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
        found = np.flatnonzero((least == largest) & (mass > _HEAVY * np.sum(mass)))
        return loss[found], mass[found] / np.sum(mass)

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

    low, high, stride = 0.0, 0.0, 1.0
    if by_logarithm(0.0) < 0:
        while by_logarithm(high) < 0:
            low, high, stride = high, high + stride, 2 * stride
            if high > _LARGEST_LOG_TILT:
                return math.exp(_LARGEST_LOG_TILT)
    else:
        while by_logarithm(low) > 0:
            high, low, stride = low, low - stride, 2 * stride
            if low < -_LARGEST_LOG_TILT:
                return math.exp(-_LARGEST_LOG_TILT)
    return math.exp(brentq(by_logarithm, low, high, xtol=1e-2))
