"""From Rényi divergence to (ε, δ): Section IV-C of the paper, minimised over the order."""

import math
import sys
from collections.abc import Callable

from scipy.optimize import minimize_scalar

_LOG_ORDERS = (-18.0, 18.0)  # of α - 1

#: Bounds below this are returned as this: the smallest normal float.
_SMALLEST = sys.float_info.min


def log_delta(log_moment: float, s: float, epsilon: float) -> float:
    """log of (1 - 1/α)^α/(α - 1)·exp((α - 1)(D_α - ε)) with α = 1 + s and log_moment = s·D_α, rounded up."""
    terms = (log_moment, -s * epsilon, -(1.0 + s) * math.log1p(1.0 / s), -math.log(s))
    return sum(terms) + 2.0**-51 * sum(abs(term) for term in terms)


def delta(log_moment: Callable[[float], float], epsilon: float) -> float:
    """The least bound over all orders. Any order gives a valid one, so the search need not be exact."""

    def objective(log_s: float) -> float:
        s = math.exp(log_s)
        return log_delta(log_moment(s), s, epsilon)

    # The exponent is convex in s; a coarse scan brackets the minimum whatever its scale.
    low, high = _LOG_ORDERS
    grid = [low + (high - low) * i / 24 for i in range(25)]
    values = [objective(x) for x in grid]
    best = min(range(25), key=values.__getitem__)
    bounds = (grid[max(best - 1, 0)], grid[min(best + 1, 24)])
    found = minimize_scalar(objective, bounds=bounds, method="bounded", options={"xatol": 1e-7})
    least = min(float(found.fun), values[best])
    return min(max(math.exp(min(least, 0.0)) * (1.0 + 1e-12), _SMALLEST), 1.0)
