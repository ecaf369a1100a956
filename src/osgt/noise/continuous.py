"""OSGT on the reals: the law of the paper, for analysis, plots and simulation."""

import math

import numpy as np
from numpy.typing import ArrayLike

from osgt.noise.mills import Floats
from osgt.noise.parameters import OffsetLaw
from osgt.noise.symmetric import SymmetricLaw

Generator = np.random.Generator | np.random.RandomState

#: Quantiles whose probability is this close to ½ are solved for the mass between 0 and y.
_CENTRAL = 0.1
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)
_NEWTON_STEPS = 60


class OSGT(OffsetLaw, SymmetricLaw):
    """Offset-symmetric Gaussian tails: the normalised product of a Laplace and a Gaussian density.

    Methods take arrays and return arrays (scalars stay scalars) and mean what they mean on a frozen
    `scipy.stats` distribution.

    Examples
    --------
    >>> law = OSGT(m=3, sigma=40**0.5)
    >>> round(law.var(), 4)
    27.7047
    >>> round(float(law.isf(0.025)), 3)
    10.581
    """

    def logpdf(self, y: ArrayLike) -> Floats:
        """Logarithm of the density."""
        magnitude = np.abs(np.asarray(y, dtype=np.float64))
        return np.asarray(math.log(self._peak()) - self._potential(magnitude))[()]

    def pdf(self, y: ArrayLike) -> Floats:
        """Density."""
        magnitude = np.abs(np.asarray(y, dtype=np.float64))
        return (self._peak() * np.exp(-self._potential(magnitude)))[()]

    def logsf(self, y: ArrayLike) -> Floats:
        """Logarithm of P[Y > y], exact far into the tail."""
        y = np.asarray(y, dtype=np.float64)
        tail = self._log_tail(np.abs(y))
        return np.where(y >= 0, tail, np.log1p(-np.exp(tail)))[()]

    def logcdf(self, y: ArrayLike) -> Floats:
        """Logarithm of P[Y ≤ y], exact far into the tail."""
        return self.logsf(-np.asarray(y, dtype=np.float64))

    def sf(self, y: ArrayLike) -> Floats:
        """P[Y > y]."""
        y = np.asarray(y, dtype=np.float64)
        tail = np.exp(self._log_tail(np.abs(y)))
        return np.where(y >= 0, tail, 1.0 - tail)[()]

    def cdf(self, y: ArrayLike) -> Floats:
        """P[Y ≤ y]."""
        return self.sf(-np.asarray(y, dtype=np.float64))

    def isf(self, q: ArrayLike) -> Floats:
        """The y with P[Y > y] = q; NaN where q is not a probability."""
        q = np.asarray(q, dtype=np.float64)
        tail = np.where(q <= 0.5, q, 1.0 - q)
        return np.where(q <= 0.5, 1.0, -1.0)[()] * self._quantile(tail)[()]

    def ppf(self, q: ArrayLike) -> Floats:
        """The y with P[Y ≤ y] = q; NaN where q is not a probability."""
        return 0.0 - self.isf(q)

    def var(self) -> float:
        """Variance V(m, σ²) of the paper's Proposition 1."""
        return self.potential.moments()[1]

    def mean_abs(self) -> float:
        """E|Y|."""
        return self.potential.moments()[0]

    def entropy(self) -> float:
        """Differential entropy in nats."""
        mean_abs, variance = self.potential.moments()
        return self.slope * mean_abs + 0.5 * self.curvature * variance - math.log(self._peak())

    def fisher_information(self) -> float:
        """E[U'(Y)²]; at least 1/V, with equality for the Gaussian alone.

        What remains of the law when very many releases are composed: the noise with less of it wins there.
        """
        return self.slope * 2 * self._peak() + self.curvature

    def is_sub_gaussian(self) -> bool:
        """Whether P[Y ≥ y] ≤ exp(-y²/2σ²) for all y ≥ 0: true but for the Laplace end.

        The paper's Proposition 2 shows it for m/σ ≤ Q⁻¹(¼) ≈ 0.6745. That condition is not needed: the Mills
        ratio falls, so P[Y ≥ y] = ½·exp(-slope·y - y²/2σ²)·R(m/σ + y/σ)/R(m/σ) ≤ ½·exp(-y²/2σ²) for every m/σ.
        """
        return self.curvature > 0

    def rvs(self, size: int | tuple[int, ...] | None = None, random_state: object = None) -> Floats:
        """Floating-point draws for simulation. **Never for release**: the low bits of such noise give data away.

        For a release use `DiscreteOSGT.sample`, which is exact and takes its randomness from the system.
        """
        generator = _generator(random_state)
        count = 1 if size is None else int(np.prod(size))
        draws = np.concatenate([np.empty(0), *self._magnitudes(generator, count)])[:count]
        draws *= np.where(generator.random(count) < 0.5, -1.0, 1.0)
        return draws[0] if size is None else draws.reshape(size)

    def _magnitudes(self, generator: Generator, count: int) -> list[Floats]:
        """Batches of |Y|, at least `count` in all, by rejection from the nearer end of the family."""
        batches: list[Floats] = []
        while count > 0:
            batch = count + count // 2 + 16
            if self.shape < 0.8:
                proposal = np.abs(generator.standard_normal(batch)) * self.sigma
                exponent = self.slope * proposal
            else:
                proposal = generator.standard_exponential(batch) / self.slope
                exponent = 0.5 * self.curvature * proposal**2
            batches.append(proposal[generator.standard_exponential(batch) >= exponent])
            count -= len(batches[-1])
        return batches

    def _peak(self) -> float:
        """The density at 0."""
        return 0.5 * float(self.potential.hazard(np.zeros(())))

    def _potential(self, magnitude: Floats) -> Floats:
        with np.errstate(over="ignore", invalid="ignore"):
            value = self.potential(magnitude)
        return np.where(np.isinf(magnitude), np.inf, value)

    def _log_tail(self, y: Floats) -> Floats:
        """log P[Y > y] for y ≥ 0."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            hazards = self.potential.hazard(np.where(np.isinf(y), 0.0, y))
            return np.asarray(np.log(self._peak() / hazards) - self._potential(y))

    def _quantile(self, tail: Floats) -> Floats:
        """The y ≥ 0 with P[Y > y] = tail, for tail in [0, ½]; NaN elsewhere.

        log P[Y > y] is concave and lies below -log 2 - U(y). Newton's steps from the root of the latter come
        down to the root without ever passing it.
        """
        valid = (tail > 0) & (tail <= 0.5)
        level = -np.log(np.where(valid, 2 * tail, 1.0))
        root = self.slope + np.hypot(self.slope, math.sqrt(self.curvature) * np.sqrt(2 * level))
        y = np.divide(2 * level, root, out=np.zeros_like(level), where=level > 0)
        for _ in range(_NEWTON_STEPS):
            excess = -math.log(2) - level - self._log_tail(y)
            step = np.maximum(excess, 0.0) / self.potential.hazard(y)
            y = np.maximum(y - step, 0.0)
            if np.all(step <= 1e-15 * y):
                break
        y, central = np.asarray(y), valid & (tail > 0.5 - _CENTRAL)
        y[central] = self._central_quantile(y[central], 0.5 - tail[central])
        return np.where(valid, y, np.where(tail == 0, np.inf, np.nan))

    def _central_quantile(self, y: Floats, mass: Floats) -> Floats:
        """Refine y ≥ 0 until P[0 < Y < y] = mass, which keeps full accuracy as y → 0."""
        for _ in range(3):
            half = 0.5 * y
            points = half[..., np.newaxis] * (1.0 + _NODES)
            y = y - (half * (self.pdf(points) @ _WEIGHTS) - mass) / self.pdf(y)
        return y


def _generator(random_state: object) -> Generator:
    if isinstance(random_state, np.random.Generator | np.random.RandomState):
        return random_state
    return np.random.default_rng(random_state)  # type: ignore[arg-type]
