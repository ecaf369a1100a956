"""The Mills ratio and what follows from it, in forms that neither overflow nor cancel.

Everything about the half line density g(x) = exp(-a·x - c·x²/2), x ≥ 0, follows from its hazard rate
h = g(0) / ∫₀^∞ g. With z = a/√c and the Mills ratio R of the standard normal distribution, h = √c / R(z).
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx

Floats = NDArray[np.float64]

#: From here on R(x) = 1/x to double precision.
_MILLS_IS_RECIPROCAL = 1e8

#: Above this shape moments come from the continued fraction, below it from the recurrence.
_CONTINUED_FRACTION_SHAPE = 2.0
_CONTINUED_FRACTION_TERMS = 100


def mills_ratio(x: Floats) -> Floats:
    """R(x) = Q(x)/φ(x) of the standard normal distribution, for x ≥ 0."""
    return np.asarray(math.sqrt(math.pi / 2) * erfcx(x / math.sqrt(2)), dtype=np.float64)


def hazard(slope: Floats, curvature: float) -> Floats:
    """1 / ∫₀^∞ exp(-slope·x - curvature·x²/2) dx, for slope ≥ 0 and curvature ≥ 0, not both zero."""
    if curvature == 0:
        return np.asarray(slope, dtype=np.float64)
    root = math.sqrt(curvature)
    with np.errstate(divide="ignore", over="ignore"):
        x = slope / root
    nearly_laplace = x > _MILLS_IS_RECIPROCAL
    return np.where(nearly_laplace, slope, root / mills_ratio(np.minimum(x, _MILLS_IS_RECIPROCAL)))


def half_line_moments(slope: float, curvature: float) -> tuple[float, float]:
    """First and second moment of the distribution on x ≥ 0 with density ∝ exp(-slope·x - curvature·x²/2).

    Write Jₙ = ∫ xⁿ g. Integration by parts gives slope·Jₙ + curvature·Jₙ₊₁ = n·Jₙ₋₁, from which both moments
    follow, but for z ≫ 1 by differences of nearly equal numbers. There the ratios
    ρₙ = slope·Jₙ/Jₙ₋₁ = n / (1 + ρₙ₊₁·curvature/slope²) are a continued fraction of positive terms.
    """
    root = math.sqrt(curvature)
    if slope < _CONTINUED_FRACTION_SHAPE * root:
        first = (float(hazard(np.asarray(slope), curvature)) - slope) / curvature
        return first, (1.0 - slope * first) / curvature
    inverse_shape_squared = (root / slope) ** 2
    ratio = 0.0
    for n in range(_CONTINUED_FRACTION_TERMS, 1, -1):
        ratio = n / (1.0 + ratio * inverse_shape_squared)
    second_ratio = ratio
    first_ratio = 1.0 / (1.0 + second_ratio * inverse_shape_squared)
    return first_ratio / slope, (first_ratio / slope) * (second_ratio / slope)
