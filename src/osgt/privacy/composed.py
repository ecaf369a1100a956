"""The tilted distribution of a composed loss, and what it says about δ.

With the tilted composed masses t(l), the factor exp(Λ) that was divided out, and u = l - ε,

    δ(ε) = exp(Λ - θε) · Σ over u > 0 of t(l)·exp(-θu)(1 - exp(-u)).
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from osgt.privacy.grid import GridLaw, dot
from osgt.privacy.loss_cells import UNIT

#: Upper bounds below this are returned as this: the smallest normal float.
TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class Composed:
    """The tilted distribution of the composed loss, and what it says about δ."""

    law: GridLaw
    theta: float
    log_factor: float
    log_beyond: float
    loss_error: float

    def delta(self, epsilon: float) -> float:
        """Upper bound on δ(ε)."""
        log_bound = self.log_delta(epsilon)
        return min(max(math.exp(min(log_bound, 0.0)), TINY), 1.0)

    def log_delta(self, epsilon: float) -> float:
        """Logarithm of the upper bound on δ(ε); may exceed 0."""
        law, theta = self.law, self.theta
        epsilon -= self.loss_error  # losses are exact to this: the true ones may be so much higher
        first = min(max(math.floor(epsilon / law.step) + 1 - law.start, 0), len(law.masses))
        last = min(len(law.masses), first + math.ceil(60.0 / (max(theta, 1e-300) * law.step)) + 1)
        u = (law.start + np.arange(first, last)) * law.step - epsilon
        weights = np.exp(-theta * u) * -np.expm1(-u)
        inside = dot(law.masses[first:last], weights)
        beyond = float(np.sum(law.masses[last:])) * math.exp(-60.0)
        total = inside + beyond + law.lost * largest_weight(theta)
        if total <= 0:
            return self.log_beyond
        log_total = math.log(total) + self.log_factor - theta * epsilon
        # The factor is a sum of logarithms: its own rounding, and that of the product with θ.
        log_total += 8 * UNIT * (abs(self.log_factor) + theta * abs(epsilon) + 8.0)
        bound = float(np.logaddexp(log_total, self.log_beyond))
        return 0.0 if math.isnan(bound) else bound  # losses beyond all floats: δ ≤ 1 is what remains

    def serves(self, epsilon: float, slack: float) -> bool:
        """Whether the bound at ε is as close as the slack asks."""
        log_lost = math.log(max(self.law.lost, TINY) * largest_weight(self.theta))
        log_lost += self.log_factor - self.theta * epsilon
        log_delta = self.log_delta(epsilon)
        return max(log_lost, self.log_beyond) - log_delta < math.log(0.1 * slack) and self.slack(epsilon) < slack

    def slack(self, epsilon: float) -> float:
        """Estimate of (bound - δ)/δ.

        A mass at distance u from ε that the grid spreads by the variance v raises δ by E[max(u + spread, 0)] less
        max(u, 0). For a smooth loss that comes to half of v times the density at ε, next to an atom to more.
        """
        law, theta = self.law, self.theta
        deviation = math.sqrt(law.spread)
        reach = max(4.0 * deviation, law.step)
        centre = epsilon / law.step - law.start
        low, high = (math.floor(centre - reach / law.step), math.ceil(centre + reach / law.step))
        near = np.arange(max(low, 0), min(high + 1, len(law.masses)))
        if len(near) == 0 or deviation == 0:
            return 0.0
        u = (law.start + near) * law.step - epsilon
        if deviation > law.step:
            x = np.abs(u) / deviation
            raised = deviation * (np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi) - x * ndtr(-x))
        else:
            raised = 0.5 * law.spread / (np.hypot(u, deviation) + np.abs(u))  # the most for a given variance
        excess = dot(law.masses[near] * np.exp(-theta * u), raised)
        log_excess = math.log(excess) + self.log_factor - theta * epsilon if excess > 0 else -math.inf
        return math.exp(min(log_excess - self.log_delta(epsilon), 300.0))


@dataclass(frozen=True)
class ComposedBelow:
    """The tilted distribution of a composed loss that is dominated by the true one, and what it says about δ."""

    law: GridLaw
    theta: float
    log_factor: float
    loss_error: float

    def delta(self, epsilon: float) -> float:
        """Lower bound on δ(ε): 0 where nothing is known."""
        law, theta = self.law, self.theta
        epsilon += self.loss_error  # losses are exact to this: the true ones may be so much lower
        first = min(max(math.floor(epsilon / law.step) + 1 - law.start, 0), len(law.masses))
        u = np.maximum((law.start + np.arange(first, len(law.masses))) * law.step - epsilon, 0.0)
        inside = dot(law.masses[first:], np.exp(-theta * u) * -np.expm1(-u)) * (1.0 - 1e-12)
        total = inside - law.lost * largest_weight(theta)
        if not total > 0:
            return 0.0
        log_total = math.log(total) + self.log_factor - theta * epsilon
        log_total -= 8 * UNIT * (abs(self.log_factor) + theta * abs(epsilon) + 8.0)
        return math.exp(min(log_total, 0.0))


def largest_weight(theta: float) -> float:
    """max over u ≥ 0 of exp(-θu)(1 - exp(-u)) = θ^θ/(1 + θ)^(1 + θ)."""
    if theta == 0:
        return 1.0
    return math.exp(-theta * math.log1p(1.0 / theta)) / (1.0 + theta)
