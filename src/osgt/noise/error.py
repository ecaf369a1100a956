"""The error of a noise distribution, in the measures that people choose noise by."""

import math
from collections.abc import Callable
from numbers import Real

import numpy as np

from osgt.noise.family import Distribution
from osgt.noise.real import RealDistribution
from osgt.support.arrays import Floats
from osgt.support.errors import ArgumentError

Objective = str | tuple[str, float]

#: Beyond this many integers their sum is taken in equal steps; P[max > y] is smooth at that scale.
_LONGEST_SUM = 20_000
_STEPS = 4_000


def measure(objective: Objective) -> Callable[[Distribution], float]:
    """The function from a distribution to its error that an objective names.

    "variance", "mean_abs", ("quantile", p): the p-quantile of |Y|, or ("max", n): the expected largest |Y| of n cells.
    On the integers the quantile is interpolated between its two neighbours, so that it varies with the distribution.
    """
    if objective == "variance":
        return lambda noise: noise.var()
    if objective == "mean_abs":
        return lambda noise: noise.mean_abs()
    if isinstance(objective, tuple) and len(objective) == 2 and isinstance(objective[1], Real):
        name, number = objective[0], float(objective[1])
        if name == "quantile" and 0 < number < 1:
            return lambda noise: absolute_quantile(noise, number)
        if name == "max" and 1 <= number < math.inf:
            return lambda noise: expected_maximum(noise, number)
    raise ArgumentError(
        'objective must be "variance", "mean_abs", ("quantile", p) with 0 < p < 1 or ("max", n) with n ≥ 1, '
        f"got {objective!r}",
        argument="objective",
    )


def objective_of(text: str, *more: str) -> Objective:
    """`variance`, `mean_abs`, `quantile:0.99` or `max:10000`, or one of `more`."""
    if text in more:
        return text
    name, colon, number = text.partition(":")
    try:
        result = (name, float(number)) if colon else name
        measure(result)
    except ValueError:
        names = ", ".join((*more, "variance", "mean_abs"))
        raise ArgumentError(
            f"objective must be {names}, quantile:P with P between 0 and 1, or max:N with N at least 1, got {text!r}",
            argument="objective",
        ) from None
    return result


def objective_text(objective: Objective) -> str:
    """The text that `objective_of` reads."""
    return objective if isinstance(objective, str) else f"{objective[0]}:{objective[1]:.15g}"


def absolute_quantile(noise: Distribution, p: float) -> float:
    """The y with P[|Y| ≤ y] = p; on the integers between the two where it crosses p."""
    tail = (1.0 - p) / 2
    y = float(noise.isf(tail))
    if isinstance(noise, RealDistribution):
        return y
    above, below = (float(tail) for tail in noise.logsf([y - 1, y]))
    if not below < above:
        return y
    return max(y - (math.log(tail) - below) / (above - below), 0.0)


def expected_maximum(noise: Distribution, cells: float) -> float:
    """E max |Y| over independent cells: the integral (sum, on the integers) of P[max > y] from 0."""
    if isinstance(noise, RealDistribution):
        end = float(noise.isf(1e-14 / cells))
        nodes, weights = np.polynomial.legendre.leggauss(16)
        panels = np.linspace(0.0, end, _STEPS // 16 + 1)
        half = 0.5 * np.diff(panels)[:, np.newaxis]
        y = panels[:-1, np.newaxis] + half * (1.0 + nodes)
        return float(np.sum(half * weights * _exceeds(noise, y, cells)))
    end = float(noise.isf(1e-14 / cells))
    if end <= _LONGEST_SUM:
        return float(np.sum(_exceeds(noise, np.arange(end + 1), cells)))
    step = math.ceil(end / _STEPS)
    return float(step * np.sum(_exceeds(noise, np.arange((step - 1) // 2, end + step, step), cells)))


def _exceeds(noise: Distribution, y: Floats, cells: float) -> Floats:
    """P[max |Y| > y] over the cells."""
    return -np.expm1(cells * np.log1p(-np.minimum(2.0 * noise.sf(y), 1.0 - 1e-16)))
