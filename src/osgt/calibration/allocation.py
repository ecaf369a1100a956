"""How a calibration shares the noise out among unequal parts."""

import math

from osgt.calibration.scale import ScaleSearch
from osgt.noise.error import Objective


def allocated(search: ScaleSearch, u: float, objective: Objective) -> ScaleSearch:
    """The search for noise of shape u that is shared out in the way that has the least error.

    No formula knows the exponent: near the Laplace end, too, it is that of the Gaussian where very many coordinates
    make the sum of their losses normal. So it is searched for between those of the two ends, with estimates of δ.
    The error is flat around its optimum: a parabola through three exponents finds it closely enough.
    """
    if search.joint.is_uniform or search.joint.is_gaussian(u):
        return search
    if (u, objective) not in search.allocations:
        search.allocations[u, objective] = _allocated(search, u, objective)
    return search.allocations[u, objective]


def _allocated(search: ScaleSearch, u: float, objective: Objective) -> ScaleSearch:
    search.roughly(u)
    found: dict[float, tuple[float, ScaleSearch]] = {}

    def error(exponent: float) -> float:
        if exponent not in found:
            one = search
            if exponent != search.joint.exponent_at(u):
                one = ScaleSearch(search.joint.with_exponent(exponent), search.epsilon, search.delta)
                one.start_from(search, u)
            found[exponent] = one.joint.rough_error(u, math.exp(one.roughly(u)), objective), one
        return found[exponent][0]

    low, high = search.joint.exponents
    middle = 0.5 * (low + high)
    left, centre, right = error(low), error(middle), error(high)
    bend = left - 2.0 * centre + right
    if bend > 0:
        vertex = middle + 0.25 * (high - low) * (left - right) / bend
        error(min(max(vertex, low), high))
    return min(found.values(), key=lambda each: each[0])[1]
