"""The search over the shape of noise, from one end of its family (u = 0, the Gaussian) to the other (u = 1)."""

from collections.abc import Callable

from scipy.optimize import minimize_scalar

#: First look at these, then search between the neighbours of the best: errors have one minimum in the shape.
_FIRST_LOOK = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
_TOLERANCE = 0.015


def costs_over_shapes(cost: Callable[[float], float]) -> dict[float, float]:
    """The cost of all shapes that were looked at: both ends of the family, and the least between them, among them."""
    costs: dict[float, float] = {}

    def recorded(u: float) -> float:
        costs[float(u)] = cost(float(u))
        return costs[float(u)]

    for u in _FIRST_LOOK:
        recorded(u)
    place = min(range(len(_FIRST_LOOK)), key=lambda i: costs[_FIRST_LOOK[i]])
    bounds = (_FIRST_LOOK[max(place - 1, 0)], _FIRST_LOOK[min(place + 1, len(_FIRST_LOOK) - 1)])
    minimize_scalar(recorded, bounds=bounds, method="bounded", options={"xatol": _TOLERANCE})
    return costs
