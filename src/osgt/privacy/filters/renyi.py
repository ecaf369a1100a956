"""The Rényi filter: divergences of one order, fixed when a budget is opened, added up.

Σ D_α ≤ B on every path makes exp((α - 1)(L - Σ D_α)) a supermartingale, however the releases are chosen, so that
E[exp((α - 1)·L)] ≤ exp((α - 1)·B) for the loss L of the whole (Feldman and Zrnic 2021), from which δ follows as for one
release. Orders are given as `order` = α - 1.
"""

import math
import sys
from functools import lru_cache

from osgt.privacy import NoisyPart
from osgt.privacy.renyi import gaussian_divergence, log_delta, log_moment

#: Rényi divergences, and the conversion to δ, are computed to far better than this, relative.
_MARGIN = 1e-9

#: Larger than any ε of a budget: divergences beyond are as good as this.
_LARGEST = 2.0**40


@lru_cache(maxsize=4096)
def divergence(parts: tuple[NoisyPart, ...], order: float) -> float:
    """D_α of a release, rounded up."""
    total = math.fsum(part.coordinates * _of_one(part, order) for part in parts) * (1.0 + _MARGIN)
    return min(max(total, sys.float_info.min), _LARGEST) if not math.isnan(total) else _LARGEST


def _of_one(part: NoisyPart, order: float) -> float:
    known = gaussian_divergence(part.noise, part.shift, order)
    return log_moment(part.noise, part.shift, order) / order if known is None else known


@lru_cache(maxsize=256)
def limit(epsilon: float, delta: float, order: float) -> float:
    """The largest Σ D_α that converts to (ε, δ), rounded down; negative where nothing does."""
    return -_log_excess(delta, order) / order + epsilon - _MARGIN * (1.0 + epsilon)


def epsilon(total: float, delta: float, order: float) -> float:
    """The ε at δ to which Σ D_α converts, rounded up."""
    return max(total + _log_excess(delta, order) / order, 0.0) * (1.0 + _MARGIN) + _MARGIN


def _log_excess(delta: float, order: float) -> float:
    """log of the δ at ε = 0 and Σ D_α = 0, over the δ given."""
    return log_delta(0.0, order, 0.0) - math.log(delta)


@lru_cache(maxsize=256)
def best_order(epsilon: float, delta: float) -> float:
    """The order at which the budget allows most Gaussian noise, whose divergences are α·μ²/2."""

    def affordable(order: float) -> float:
        return limit(epsilon, delta, order) / (1.0 + order)

    return max((math.exp(0.02 * i) for i in range(-700, 1200)), key=affordable)
