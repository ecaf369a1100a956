"""OSGT on the reals: the distribution of the paper, for analysis, plots and simulation."""

import math
from dataclasses import dataclass

import numpy as np

from osgt.noise.mills import Floats
from osgt.noise.offset import OffsetLaw, OffsetPotential
from osgt.noise.real import RealLaw

Generator = np.random.Generator | np.random.RandomState


@dataclass(frozen=True, init=False, repr=False)
class OSGT(OffsetLaw, RealLaw):
    """Offset-symmetric Gaussian tails: the normalised product of a Laplace and a Gaussian density.

    Methods take arrays and return arrays (scalars stay scalars) and mean what they mean on a frozen
    `scipy.stats` distribution.

    Examples
    --------
    >>> noise = OSGT(m=3, sigma=40**0.5)
    >>> round(noise.var(), 4)
    27.7047
    >>> round(float(noise.isf(0.025)), 3)
    10.581
    """

    potential: OffsetPotential

    def entropy(self) -> float:
        """Differential entropy in nats."""
        mean_abs, variance = self.potential.moments()
        return self.slope * mean_abs + 0.5 * self.curvature * variance - math.log(self._peak())

    def fisher_information(self) -> float:
        """E[U'(Y)²]; at least 1/V, with equality for the Gaussian alone.

        What remains of the distribution when very many releases are composed: the noise with less of it wins there.
        """
        return self.slope * 2 * self._peak() + self.curvature

    def is_sub_gaussian(self) -> bool:
        """Whether P[Y ≥ y] ≤ exp(-y²/2σ²) for all y ≥ 0: true but for the Laplace end.

        The paper's Proposition 2 shows it for m/σ ≤ Q⁻¹(¼) ≈ 0.6745. That condition is not needed: the Mills
        ratio falls, so P[Y ≥ y] = ½·exp(-slope·y - y²/2σ²)·R(m/σ + y/σ)/R(m/σ) ≤ ½·exp(-y²/2σ²) for every m/σ.
        """
        return self.curvature > 0

    def rvs(self, size: int | tuple[int, ...] | None = None, random_state: object = None) -> Floats:
        """Floating-point draws for simulation. **Never for release**: the low bits of such noise reveal data.

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

    def _reaching(self, level: Floats) -> Floats:
        """Where U is `level`: the root of a quadratic."""
        root = self.slope + np.hypot(self.slope, math.sqrt(self.curvature) * np.sqrt(2 * level))
        return np.divide(2 * level, root, out=np.zeros_like(level), where=level > 0)


def _generator(random_state: object) -> Generator:
    if isinstance(random_state, np.random.Generator | np.random.RandomState):
        return random_state
    return np.random.default_rng(random_state)  # type: ignore[arg-type]
