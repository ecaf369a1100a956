"""A budget in, the best law out.

The members of the family are searched by shape, from the Gaussian to the Laplace, each at the least scale that meets
the budget. A coarse accounting is enough to find the shape, since the error is flat around its optimum; the scale is
then set with the rigorous one.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import overload

from osgt.calibration.allocation import allocated
from osgt.calibration.family import Part, budget, family_of
from osgt.calibration.scale import ScaleSearch, first_guess, pure_scale
from osgt.calibration.shapes import costs_over_shapes
from osgt.noise.error import Law, Objective

#: Standard deviation from which on the shape is searched on the reals.
_SMOOTH_SCALE = 4.0

_LARGE_DELTA = 0.3

#: Errors that differ by less than this part are not told apart by the coarse search.
_COARSE_ERROR = 2e-3

#: The error is flat around its optimum, the tail is not: of shapes within this part of the least error the one nearest
#: to the Gaussian is taken, in steps of this factor.
_AS_GOOD = 2e-4
_STEP_TO_GAUSSIAN = 0.95
_NEARLY_GAUSSIAN = 0.1


@overload
def calibrate(
    epsilon: float,
    delta: float,
    *,
    shift: float = 1,
    coordinates: int = 1,
    objective: Objective = "variance",
    discrete: bool = True,
) -> Law: ...


@overload
def calibrate(
    epsilon: float,
    delta: float,
    *,
    parts: Sequence[Part],
    objective: Objective = "variance",
    discrete: bool = True,
) -> tuple[Law, ...]: ...


def calibrate(
    epsilon: float,
    delta: float,
    *,
    shift: float = 1,
    coordinates: int = 1,
    objective: Objective = "variance",
    discrete: bool = True,
    parts: Sequence[Part] | None = None,
) -> Law | tuple[Law, ...]:
    """The noise of least error whose privacy is (ε, δ), among all members of the family, Gaussian and Laplace included.

    Parameters
    ----------
    epsilon, delta
        The budget; ε > 0 and 0 ≤ δ < 1. δ = 0 gives the Laplace law.
    shift, coordinates
        One person changes at most `coordinates` values, each by at most `shift` (an integer if `discrete`).
    objective
        What to minimise: "variance", "mean_abs", ("quantile", p) of |Y|, or ("max", n), the expected largest of n.
    discrete
        The law on the integers (True) or on the reals (False).
    parts
        Instead of shift and coordinates: several kinds of them, released together under the one budget. The result is
        one law for each, all of one shape.

    Examples
    --------
    >>> calibrate(1, 1e-6, coordinates=8)
    DiscreteOSGT(m=..., sigma=...)
    """
    if parts is None:
        return calibrate(epsilon, delta, parts=[Part(shift, coordinates)], objective=objective, discrete=discrete)[0]
    family = family_of(parts, discrete=discrete, objective=objective)
    epsilon, delta = budget(epsilon, delta)
    if delta == 0:
        return family.laws(1.0, pure_scale(family, epsilon))
    search = ScaleSearch(family, epsilon, delta)
    candidates = []
    shapes, coarse = _best_shapes(search, objective)
    for u in shapes:
        best = allocated(search, coarse, u, objective)
        scale = math.exp(best.fine(u))
        candidates.append((best.family.error(u, scale, objective), best.family.laws(u, scale)))
    return min(candidates, key=lambda candidate: candidate[0])[1]


def _best_shapes(search: ScaleSearch, objective: Objective) -> tuple[list[float], ScaleSearch]:
    """The shape with the least error at its least scale, as far as a coarse search can tell.

    An end of the family that is as good, at this accuracy, comes with it, and so does the coarse search.
    """
    coarse, family = search, search.family
    guess = math.exp(first_guess(family, search.epsilon, search.delta))
    if guess * min(family.relative_scales(0.0)) > _SMOOTH_SCALE:
        # On the integers such a law is as good as on the reals, where it takes less time.
        family = replace(family, discrete=False)
        coarse = ScaleSearch(family, search.epsilon, search.delta)

    def error(u: float) -> float:
        return family.error(u, math.exp(coarse.coarse(u)), objective)

    errors = costs_over_shapes(error)
    least = min(errors.values())
    best = nearest_to_gaussian(errors, error)
    search.start_from(coarse)
    # With a large δ the noise is next to nothing and log δ tells little: there the ends are always looked at closely.
    shapes = [end for end in (0.0, 1.0) if errors[end] <= least * (1.0 + _COARSE_ERROR) or search.delta > _LARGE_DELTA]
    return (shapes if best in shapes else [*shapes, best]), coarse


def nearest_to_gaussian(errors: Mapping[float, float], error: Callable[[float], float]) -> float:
    """Of the shapes whose error is as good as the least, the one nearest to the Gaussian."""
    best = min(errors, key=lambda u: errors[u])
    most = errors[best] * (1.0 + _AS_GOOD)
    while best > _NEARLY_GAUSSIAN and error(_STEP_TO_GAUSSIAN * best) <= most:
        best *= _STEP_TO_GAUSSIAN
    return best
