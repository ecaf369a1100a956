"""A budget in, the best noise out.

The members of the family are searched by shape, from the Gaussian to the Laplace, each at the least scale that meets
the budget. An estimate of δ is enough to find the shape, since the error is flat around its optimum; the scale is then
set with the rigorous accounting.
"""

import math
from collections.abc import Callable, Mapping, Sequence

from osgt.calibration.allocation import allocated
from osgt.calibration.joint import Column, Part, budget, joint_noise
from osgt.calibration.scale import ScaleSearch, pure_scale
from osgt.calibration.shapes import costs_over_shapes
from osgt.noise import Family, Law
from osgt.noise.error import Objective

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
) -> Law:
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
) -> tuple[Law, ...]:
    """Noise for several kinds of values that are released together under one budget, all of one shape.

    What is minimised is the weighted sum of the squared errors of the `columns`, which are combinations of the parts,
    or of the parts themselves; the other arguments are those of `calibrate`.
    """
    joint = joint_noise(parts, discrete=discrete, family=family, objective=objective, columns=columns)
    return calibrate_joint(ScaleSearch(joint, *budget(epsilon, delta)), objective)


def calibrate_joint(search: ScaleSearch, objective: Objective, *, proved: bool = True) -> tuple[Law, ...]:
    """The noise of least error among all that there is to choose from.

    If it need not be `proved` to meet the budget, it does so up to an estimate, but for shapes with a largest loss:
    next to that, estimates say little.
    """
    if search.delta == 0:
        joint, end = search.joint, search.joint.bounded_end()
        return joint.laws(end, pure_scale(joint, end, search.epsilon))
    candidates = []
    for u in best_shapes(search, objective):
        best = allocated(search, u, objective)
        scale = math.exp(best.proved(u) if proved or best.joint.is_bounded(u) else best.roughly(u))
        candidates.append((best.joint.error(u, scale, objective), best.joint.laws(u, scale)))
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
