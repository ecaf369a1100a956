"""The privacy of a change of which only the Euclidean norm is known.

There is no single worst change then: concentrated ones are worst at some ε, spread ones at others. For each Rényi
order α the divergence of a change d is Σ D_α(|dᵢ|), and its largest value under Σ dᵢ² ≤ radius² over `dimensions`
coordinates is bounded by a linear programme: cut [0, radius] into cells, charge a coordinate the square of its cell's
lower edge and credit it with D_α at the upper edge (D_α grows with the change). With one budget and one count the
optimum is dimensions times the upper concave envelope of (charge, credit), read at radius²/dimensions.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from osgt.noise import Distribution
from osgt.noise.family import check_noise
from osgt.privacy import renyi
from osgt.privacy.profile import NoisyPart, PrivacyProfile, before_rounding
from osgt.support import numeric
from osgt.support.numeric import Floats, grow, root_within

#: How finely changes are tried.
_CELLS_PER_FACTOR = 200  # cells for each factor e of the change: charge and credit differ by 1 %
_MOST_INTEGERS = 400


@dataclass(frozen=True)
class EuclideanProfile:
    """Noise on `dimensions` numbers, one person's change of which has Euclidean norm at most `radius`.

    Rigorous, but from Rényi divergence: not tight, except for Gaussian noise, where it is the analytic Gaussian
    mechanism. Under such a bound, over many dimensions, the Gaussian is the better noise.
    """

    noise: Distribution
    radius: float
    dimensions: int

    def __post_init__(self) -> None:
        check_noise(self.noise)
        object.__setattr__(self, "noise", before_rounding(self.noise))
        object.__setattr__(self, "radius", numeric.positive("radius", self.radius))
        object.__setattr__(self, "dimensions", numeric.count("dimensions", self.dimensions))
        if self.noise.discrete and self.radius < 1:
            raise ValueError(
                f"radius must be ≥ 1 for noise on the integers (changes are integers), got {self.radius!r}"
            )

    def renyi(self, alpha: ArrayLike) -> Any:
        """Upper bound on the Rényi divergence of order α > 1 over all such changes."""
        orders = numeric.orders(alpha)
        values = [self._log_moment(float(a) - 1.0) / (float(a) - 1.0) for a in orders.ravel()]
        return np.array(values, dtype=np.float64).reshape(orders.shape)[()]

    def delta(self, epsilon: ArrayLike) -> Any:
        """A δ for which (ε, δ)-differential privacy is proved."""
        exact = self._exact()
        if exact is not None:
            return exact.delta(epsilon)
        values = numeric.epsilons(epsilon)
        result = [renyi.delta(self._log_moment, float(e)) for e in values.ravel()]
        return np.array(result, dtype=np.float64).reshape(values.shape)[()]

    def epsilon(self, delta: ArrayLike) -> Any:
        """An ε for which (ε, δ)-differential privacy is proved: `self.delta` of it is at most δ."""
        exact = self._exact()
        if exact is not None:
            return exact.epsilon(delta)
        values = numeric.deltas(delta)
        return np.array([self._epsilon(float(d)) for d in values.ravel()]).reshape(values.shape)[()]

    def _epsilon(self, target: float) -> float:
        # Σ |dᵢ| ≤ radius·√dimensions by Cauchy and Schwarz, and the loss is at most the largest slope times Σ |dᵢ|.
        pure = self.noise.potential.largest_slope * self.radius * math.sqrt(self.dimensions) * (1.0 + 1e-15)
        if target == 0:
            return pure

        def excess(at: float) -> float:
            return math.log(max(float(self.delta(at)), 1e-320)) - math.log(target)

        if excess(0.0) <= 0:
            return 0.0
        high = grow(1.0, lambda at: at < pure and excess(at) > 0)
        if high >= pure and excess(pure) > 0:
            return pure
        return root_within(excess, 0.0, high, inward=lambda at: at * (1.0 + 1e-9), xtol=1e-9 * high, rtol=1e-9)

    def _exact(self) -> PrivacyProfile | None:
        """The profile that this is exactly, where there is one."""
        if renyi.is_gaussian(self.noise):
            return PrivacyProfile(self.noise, self.radius)
        if self.dimensions == 1:
            whole = math.floor(self.radius) if self.noise.discrete else self.radius
            return PrivacyProfile.of([NoisyPart(self.noise, whole, 1)])
        return None

    def _log_moment(self, s: float) -> float:
        """Bound on s·D: the least of what is proved."""
        if renyi.is_gaussian(self.noise):
            return s * (1.0 + s) * 0.5 * self.noise.curvature * self.radius**2
        bounds = [self._programme(s)]
        if (known := renyi.euclidean_log_moment(self.noise, self.radius, self.dimensions, s)) is not None:
            bounds.append(known)
        return min(bounds)

    def _programme(self, s: float) -> float:
        lower, upper = self._cells()
        credit = renyi.log_moments(self.noise, upper, s)
        return self.dimensions * _envelope(lower**2, credit, self.radius**2 / self.dimensions)

    def _cells(self) -> tuple[Floats, Floats]:
        """Lower and upper edges of the cells of one coordinate's change."""
        if self.noise.discrete:
            whole = math.floor(self.radius)
            d = np.unique(np.round(np.geomspace(1, whole, _MOST_INTEGERS))) if whole > 1 else np.ones(1)
            lower = np.concatenate([d[:1], d[:-1] + 1.0])
            return np.concatenate([[0.0], lower]), np.concatenate([[0.0], d])
        # The first cell is free of charge: so small that `dimensions` of them do not matter.
        smallest = 1e-2 * self.radius / math.sqrt(self.dimensions)
        edges = np.geomspace(smallest, self.radius, math.ceil(_CELLS_PER_FACTOR * math.log(self.radius / smallest)) + 2)
        return np.concatenate([[0.0], edges[:-1]]), edges


def _envelope(charge: Floats, credit: Floats, at: float) -> float:
    """Upper concave envelope of the points (charge, credit), at one charge.

    By duality the envelope is the least over slopes λ ≥ 0 of max(credit - λ·charge) + λ·at, and every λ gives an upper
    bound. The function of λ is convex and piecewise linear; its kinks lie at slopes between points.
    """

    def dual(slope: float) -> float:
        return float(np.max(credit - slope * charge)) + slope * at

    if not np.any(charge > at) or np.isinf(np.max(credit)):
        return float(np.max(credit))
    # The best λ joins a point to the left of `at` with one to the right: follow the maximiser from either side.
    low, high = 0.0, float(np.max(credit)) / at * 2.0 + 1e-300
    for _ in range(200):
        i = int(np.argmax(credit - low * charge))
        j = int(np.argmax(credit - high * charge))
        if charge[i] <= charge[j]:
            break
        slope = (credit[i] - credit[j]) / (charge[i] - charge[j])
        k = int(np.argmax(credit - slope * charge))
        if credit[k] - slope * charge[k] <= credit[i] - slope * charge[i] + 1e-15 * abs(credit[i]):
            return min(dual(float(slope)), dual(low), dual(high))
        low, high = (slope, high) if charge[k] > at else (low, slope)
    return min(dual(low), dual(high))
