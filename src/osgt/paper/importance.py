"""Importance sampling for δ(ε) too small to be met by chance: exact draws from a shifted distribution, weighted back.

Noise that gives the person away is negative in every coordinate. There the OSGT is a piece of a Gaussian with the same
σ, so the proposal is that Gaussian on the integers, moved to -s: P/proposal is exp(-θ·L) times a constant with
θ = m + s as long as all coordinates are ≤ 0, and less than that where some are not. Hence

    weight·max(1 - exp(ε - L), 0) ≤ constant·exp(-θ·ε)·θ^θ/(1 + θ)^(1 + θ):

a bounded variable, whose mean has rigorous limits from the empirical Bernstein inequality. The shift s is the integer
for which that bound is least.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from osgt.noise import DiscreteOSGT
from osgt.paper.experiment import BATCH, Estimate, empirical_bernstein, loss
from osgt.paper.picture import Floats


@dataclass(frozen=True)
class Proposal:
    """The discrete Gaussian `sampler` moved to -shift, and what is needed to weight its draws back to `law`."""

    law: DiscreteOSGT
    sampler: DiscreteOSGT
    coordinates: int
    epsilon: float
    shift: int
    #: log P/proposal of a coordinate at 0.
    log_weight_at_zero: float

    @property
    def largest(self) -> float:
        """A bound on the weighted variable."""
        theta = self.law.m + self.shift
        at_zero = self.law.slope + 0.5 * self.law.curvature  # L of a coordinate at 0
        exponent = self.coordinates * (self.log_weight_at_zero + theta * at_zero) - theta * self.epsilon
        return math.exp(exponent + theta * math.log(theta) - (1 + theta) * math.log1p(theta))

    def draw(self, size: int) -> Floats:
        """`size` independent values of the weighted variable, whose mean is δ(ε)."""
        draws = np.asarray(self.sampler.sample((self.coordinates, size)))
        draws -= self.shift
        total = draws.sum(axis=0)
        losses = loss(self.law, self.coordinates, total, (draws > 0).sum(axis=0))
        log_weight = self.coordinates * self.log_weight_at_zero + self.law.curvature * self.shift * total
        log_weight -= self.law.slope * np.abs(draws).sum(axis=0)
        return np.asarray(np.exp(log_weight) * -np.expm1(np.minimum(self.epsilon - losses, 0.0)))


def proposal(law: DiscreteOSGT, coordinates: int, epsilon: float) -> Proposal:
    """The proposal with the least bound."""
    if not 0 < law.m < math.inf:
        raise ValueError(f"law must lie between the Gaussian and the Laplace, got {law!r}")
    sampler = DiscreteOSGT.from_rates(0.0, law.curvature)
    shifts = np.arange(math.ceil(10 * law.sigma))
    weights = law.logpmf(0) - sampler.logpmf(shifts)
    candidates = (
        Proposal(law, sampler, coordinates, epsilon, int(shift), float(weight))
        for shift, weight in zip(shifts, weights, strict=True)
    )
    return min(candidates, key=lambda candidate: candidate.largest)


@dataclass(frozen=True)
class WeightedSums:
    """Mean and mean square of the weighted variables, in units of their bounds, at each ε."""

    applications: int
    epsilon: Floats
    mean: Floats
    square: Floats
    largest: Floats

    def estimate(self, error: float) -> Estimate:
        """δ at each ε; the limits hold together with confidence 1 - `error`."""
        ones = np.ones(len(self.epsilon))
        low, high = empirical_bernstein(self.mean, self.square, self.applications, ones, error / len(self.epsilon))
        return Estimate(
            "weighted",
            self.applications,
            1 - error,
            self.epsilon,
            self.mean * self.largest,
            low * self.largest,
            high * self.largest,
        )


def weighted(
    law: DiscreteOSGT,
    coordinates: int,
    epsilon: Floats,
    applications: int,
    progress: Callable[[int], object] = lambda done: None,
) -> WeightedSums:
    """Draw `applications` weighted outcomes for each ε."""
    mean, square, largest = np.zeros(len(epsilon)), np.zeros(len(epsilon)), np.zeros(len(epsilon))
    for i, e in enumerate(epsilon):
        chosen = proposal(law, coordinates, float(e))
        largest[i] = chosen.largest
        for start in range(0, applications, BATCH):
            size = min(BATCH, applications - start)
            values = chosen.draw(size) / largest[i]  # in units of the bound: the square of 1e-200 would be 0
            mean[i] += values.sum()
            square[i] += values @ values
            progress(size)
    return WeightedSums(applications, epsilon, mean / applications, square / applications, largest)
