"""A budget in, the best noise out.

The members of the family are searched by shape, from the Gaussian (u = 0) to the Laplace (u = 1), each at the least
scale that meets the budget. An estimate of δ is enough to find the shape, since the error is flat around its optimum;
the scale is then set with the rigorous accounting. `calibrate_roughly` leaves that last step out: it only steers.
"""

import math
from collections.abc import Callable, Mapping, Sequence

import scipy

from osgt.calibration.joint import Column, Part, budget, joint_noise
from osgt.calibration.scale import ScaleSearch, allocated, pure_scale
from osgt.noise import Distribution, Family
from osgt.noise.error import Objective

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
    scipy.optimize.minimize_scalar(recorded, bounds=bounds, method="bounded", options={"xatol": _TOLERANCE})
    return costs


_LARGE_DELTA = 0.3

#: Errors that differ by less than this part are not told apart by estimates.
_ROUGH_ERROR = 2e-3

#: The error is flat around its optimum, the tail is not: of shapes within this part of the least error the one nearest
#: to the Gaussian is taken, in steps of this factor.
_AS_GOOD = 2e-4
_STEP_TO_GAUSSIAN = 0.95
_NEARLY_GAUSSIAN = 0.1


def calibrate(
    epsilon: float,
    delta: float,
    *,
    shift: float = 1,
    coordinates: int = 1,
    objective: Objective = "variance",
    discrete: bool = True,
    family: str | Family = "osgt",
) -> Distribution:
    """The noise of least error whose privacy is (ε, δ), among all members of the family, Gaussian and Laplace included.

    Parameters
    ----------
    epsilon, delta
        The budget; ε > 0 and 0 ≤ δ < 1. δ = 0 gives Laplace noise.
    shift, coordinates
        One person changes at most `coordinates` values, each by at most `shift` (an integer if `discrete`).
    objective
        What to minimise: "variance", "mean_abs", ("quantile", p) of |Y|, or ("max", n), the expected largest of n.
    discrete
        Noise on the integers (True) or on the reals (False).
    family
        The name of a registered noise family, or a `Family`.

    Examples
    --------
    >>> calibrate(1, 1e-6, coordinates=8)
    DiscreteOSGT(m=..., sigma=...)
    """
    part = Part(shift, coordinates)
    return calibrate_parts(epsilon, delta, [part], objective=objective, discrete=discrete, family=family)[0]


def calibrate_parts(
    epsilon: float,
    delta: float,
    parts: Sequence[Part],
    *,
    objective: Objective = "variance",
    discrete: bool = True,
    family: str | Family = "osgt",
    columns: Sequence[Column] | None = None,
) -> tuple[Distribution, ...]:
    """Noise for several kinds of values that are released together under one budget, all of one shape.

    What is minimised is the weighted sum of the squared errors of the `columns`, which are combinations of the parts,
    or of the parts themselves; the other arguments are those of `calibrate`.
    """
    joint = joint_noise(parts, discrete=discrete, family=family, objective=objective, columns=columns)
    return calibrate_joint(ScaleSearch(joint, *budget(epsilon, delta)), objective)


def calibrate_joint(search: ScaleSearch, objective: Objective, *, proved: bool = True) -> tuple[Distribution, ...]:
    """The noise of least error among all that there is to choose from.

    If it need not be `proved` to meet the budget, it does so up to an estimate, but for shapes with a largest loss:
    next to that, estimates say little.
    """
    if search.delta == 0:
        joint, end = search.joint, search.joint.bounded_end()
        return joint.distributions(end, pure_scale(joint, end, search.epsilon))
    candidates = []
    for u in best_shapes(search, objective):
        best = allocated(search, u, objective)
        scale = math.exp(best.proved(u) if proved or best.joint.is_bounded(u) else best.roughly(u))
        candidates.append((best.joint.error(u, scale, objective), best.joint.distributions(u, scale)))
    return min(candidates, key=lambda candidate: candidate[0])[1]


def best_shapes(search: ScaleSearch, objective: Objective) -> list[float]:
    """The shape with the least error at its least scale, as far as estimates can tell.

    An end of the family that is as good, at this accuracy, comes with it.
    """

    def error(u: float) -> float:
        return search.joint.rough_error(u, math.exp(search.roughly(u)), objective)

    errors = costs_over_shapes(error)
    least = min(errors.values())
    best = nearest_to_gaussian(errors, error)
    # With a large δ the noise is next to nothing and log δ tells little: there the ends are always looked at closely.
    shapes = [end for end in (0.0, 1.0) if errors[end] <= least * (1.0 + _ROUGH_ERROR) or search.delta > _LARGE_DELTA]
    return shapes if best in shapes else [*shapes, best]


def nearest_to_gaussian(errors: Mapping[float, float], error: Callable[[float], float]) -> float:
    """Of the shapes whose error is as good as the least, the one nearest to the Gaussian."""
    best = min(errors, key=lambda u: errors[u])
    most = errors[best] * (1.0 + _AS_GOOD)
    while best > _NEARLY_GAUSSIAN and error(_STEP_TO_GAUSSIAN * best) <= most:
        best *= _STEP_TO_GAUSSIAN
    return best


def calibrate_roughly(epsilon: float, delta: float, parts: Sequence[Part]) -> tuple[Distribution, ...]:
    """For each part noise on the integers that is about (ε, δ)-private, of about the best shape."""
    epsilon, delta = budget(epsilon, delta)
    search = ScaleSearch(joint_noise(parts, discrete=True, family="osgt"), epsilon, delta)
    best = best_shapes(search, "variance")[-1]
    return search.joint.distributions(best, math.exp(search.roughly(best)))
