"""How a calibration shares the noise out among unequal parts."""

import math
from dataclasses import replace

from osgt.calibration.scale import ScaleSearch
from osgt.noise.error import Objective


def allocated(search: ScaleSearch, coarse: ScaleSearch, u: float, objective: Objective) -> ScaleSearch:
    """The search for noise of shape u that is shared out in the way that has the least error.

    No formula knows the exponent: near the Laplace end, too, it is that of the Gaussian where very many coordinates
    make the sum of their losses normal. So it is searched for between those of the two ends, by `coarse` accounting.
    The error is flat around its optimum: a parabola through three exponents finds it closely enough.
    """
    if search.joint.is_uniform or search.joint.is_gaussian(u):
        return search
    found: dict[float, tuple[float, ScaleSearch]] = {}

    def error(exponent: float) -> float:
        one = ScaleSearch(replace(coarse.joint, exponent=exponent), search.epsilon, search.delta)
        one.start_from(found[next(reversed(found))][1] if found else coarse)
        value = one.joint.error(u, math.exp(one.solved_again(u)), objective)
        found[exponent] = value, one
        return value

    low, high = search.joint.exponents
    middle, half = 0.5 * (low + high), 0.5 * (high - low)
    left, centre, right = error(low), error(middle), error(high)
    bend = left - 2.0 * centre + right
    if bend > 0:
        vertex = min(max(0.5 * (left - right) / bend, -1.0), 1.0)
        error(middle + half * vertex)
    best = min(found, key=lambda exponent: found[exponent][0])
    result = ScaleSearch(replace(search.joint, exponent=best), search.epsilon, search.delta)
    result.start_from(found[best][1])
    return result
