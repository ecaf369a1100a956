"""Rényi divergence, rounded up, and from it to (ε, δ); and what has a closed form for OSGT noise.

The conversion is Section IV-C of the paper, minimised over the order. The Fisher information is what is behind the
small-loss limit of the divergence.

Closed forms: write U = U(shift), α = 1 + s and J(b) = ∫₀^∞ exp(-b·x - curvature·x²/2) dx. The three integrals of the
paper's Appendix E, with equal exponents merged, are

    E_P[exp(s·loss)] = [exp(sU)·(J(slope - s·c·Δ) + J(slope + s(2·slope + cΔ)))
                        + exp(-αU)·(J(slope + αcΔ) - J(slope + αcΔ + 2s·slope))] / 2J(slope)

where nothing overflows or cancels but for moments near 1, which `moments.log_moment` gives.
"""

import math
import sys
from collections.abc import Callable
from typing import TypeGuard

import numpy as np
import scipy

from osgt.noise import OSGT, DiscreteOSGT, Distribution, RealDistribution
from osgt.noise.osgt import hazard
from osgt.privacy import moments
from osgt.privacy.pair import pair_of
from osgt.support.numeric import Floats

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
    result = scipy.optimize.minimize_scalar(objective, bounds=bounds, method="bounded", options={"xatol": 1e-7})
    least = min(float(result.fun), values[best])
    return min(max(math.exp(min(least, 0.0)) * (1.0 + 1e-12), _SMALLEST), 1.0)


#: Below this value the closed form of log E[exp(s·loss)] loses digits, and the integral of positive terms does not.
_CLOSED_FORM_FROM = 0.05

#: Moments are raised by this part. The closed form adds a few logarithms of at most 50 or so, each exact to 2⁻⁵³ of
#: itself, to a value of at least 0.05: its relative error stays below 3e-13. That of the sums and integrals of
#: positive terms stays below 1e-14.
_MARGIN = 1e-12

#: A product of a few floats is raised by this part.
_FEW_ROUNDINGS = 8 * 2.0**-53


def log_moment(noise: Distribution, shift: float, s: float) -> float:
    """log E_P[exp(s·loss)] for s > 0: an upper bound, at most 2e-12 of itself above the exact value."""
    if is_gaussian(noise):
        return s * (1.0 + s) * 0.5 * noise.curvature * shift**2 * (1.0 + _FEW_ROUNDINGS)
    if isinstance(noise, OSGT):
        value = float(_closed_log_moment(noise, np.asarray(shift), np.asarray(s)))
        if value > _CLOSED_FORM_FROM:
            return value * (1.0 + _MARGIN)
    return moments.log_moment(pair_of(noise, shift), s) * (1.0 + _MARGIN)


def log_moments(noise: Distribution, shifts: Floats, s: float) -> Floats:
    """Compute `log_moment` for many shifts ≥ 0."""
    if isinstance(noise, OSGT):
        return np.asarray(_closed_log_moment(noise, shifts, np.asarray(s)) * (1 + 1e-13) + 1e-14)
    return np.array([log_moment(noise, float(d), s) if d else 0.0 for d in shifts])


def divergence(noise: Distribution, shift: float, alpha: Floats) -> Floats:
    """Rényi divergence of order α, rounded up: log E_P[exp((α - 1)·loss)]/(α - 1)."""
    values = [log_moment(noise, shift, float(order) - 1.0) / (float(order) - 1.0) for order in alpha.ravel()]
    return np.array(values, dtype=np.float64).reshape(alpha.shape)


def information(noise: Distribution) -> float:
    """Fisher information; on the integers the symmetrised divergence Σ (p(y) - p(y + 1))·log(p(y)/p(y + 1))."""
    if isinstance(noise, RealDistribution):
        return noise.fisher_information()
    return moments.symmetrised_divergence(pair_of(noise, 1.0))


def _closed_log_moment(noise: OSGT, shift: Floats, s: Floats) -> Floats:
    """log E_P[exp(s·loss)] for arrays of shifts and of s > 0; the error is absolute, near 1e-15·(1 + value)."""
    a, c = noise.slope, noise.curvature
    shift, s = np.asarray(shift, dtype=np.float64), np.asarray(s, dtype=np.float64)
    alpha = 1.0 + s
    step = shift * (a + 0.5 * c * shift)
    outer = _log_half_line(np.asarray(a - s * c * shift), c)
    inner = _log_half_line(np.asarray(a + s * (2 * a + c * shift)), c)
    near = _log_half_line(np.asarray(a + alpha * c * shift), c)
    far = _log_half_line(np.asarray(a + alpha * c * shift + 2 * s * a), c)
    with np.errstate(divide="ignore"):
        mirrored = near - alpha * step + np.log(-np.expm1(np.minimum(far - near, 0.0)))
    total = np.logaddexp(np.logaddexp(outer, inner) + s * step, mirrored)
    return np.asarray(total - math.log(2.0) - _log_half_line(np.asarray(a), c), dtype=np.float64)


def _log_half_line(b: Floats, c: float) -> Floats:
    """log J(b) for b of any sign (b ≥ 0 where c = 0)."""
    result = -np.log(hazard(np.maximum(b, 0.0), c))
    if c > 0 and np.any(b < 0):
        x = np.minimum(b, 0.0) / math.sqrt(c)
        result = np.where(b < 0, 0.5 * math.log(2 * math.pi / c) + 0.5 * x * x + scipy.special.log_ndtr(-x), result)
    return np.asarray(result, dtype=np.float64)


def theorem_2(noise: Distribution, shift: float, alpha: Floats) -> Floats:
    """Theorem 2 for one coordinate: α·Δ²/2σ² + log((1 - Q(m/σ))/Q(m/σ))/(α - 1) bounds the Rényi divergence."""
    if not isinstance(noise, OSGT | DiscreteOSGT):
        raise TypeError(f"Theorem 2 is about OSGT noise, got {noise!r}: use renyi(alpha), which holds for all noise")
    if noise.curvature == 0:
        return np.full_like(alpha, np.inf)
    return alpha * (0.5 * noise.curvature * shift**2) + log_offset(noise) / (alpha - 1.0)


def log_offset(noise: OSGT | DiscreteOSGT) -> float:
    """log of the sup over A of ∫ (or Σ) of exp(slope·|y - A| - curvature·(y - A)²/2), over its normaliser.

    On the reals it does not depend on A and equals (1 - Q(z))/Q(z). On the integers the terms have two peaks of
    height exp(z²/2) with a valley of height 1 between them, so that the sum exceeds the integral by at most
    2·exp(z²/2) - 1; with one peak (slope 0) Poisson's formula shows that the sum is largest at A = 0.
    """
    z = noise.shape
    log_integral = (
        math.log(2.0) + 0.5 * math.log(2 * math.pi / noise.curvature) + 0.5 * z * z + float(scipy.special.log_ndtr(z))
    )
    if isinstance(noise, OSGT):
        log_lower = math.log(2.0) + float(_log_half_line(np.asarray(noise.slope), noise.curvature))
        return max(log_integral - log_lower, 0.0)
    if noise.slope == 0:
        return 0.0
    log_peaks = 0.5 * z * z + math.log(2.0 - math.exp(-0.5 * z * z))
    return float(np.logaddexp(log_integral, log_peaks)) + float(noise.logpmf(0))


def log_gaussian_excess(noise: OSGT) -> float:
    """log(1/2Q(z)): D_α of a change d is at most α·d²/2σ² plus this over α - 1."""
    z = noise.shape
    return max(-math.log(2.0) - float(scipy.special.log_ndtr(-z)), 0.0)


def euclidean_log_moment(noise: Distribution, radius: float, dimensions: int, s: float) -> float | None:
    """Bound on log E_P[exp(s·loss)] for all changes of this Euclidean norm: the Gaussian's, and a constant a dimension.

    None for noise of another family, and for the Laplace.
    """
    if not isinstance(noise, OSGT | DiscreteOSGT) or noise.curvature == 0:
        return None
    offset = log_gaussian_excess(noise) if isinstance(noise, OSGT) else log_offset(noise)
    return s * (1.0 + s) * 0.5 * noise.curvature * radius**2 + dimensions * offset


def is_gaussian(noise: object) -> TypeGuard[OSGT]:
    """Whether the noise is the Gaussian on the reals: any number of coordinates is then one, by rotation."""
    return isinstance(noise, OSGT) and noise.slope == 0


def gaussian_divergence(noise: object, shift: float, order: float) -> float | None:
    """The Rényi divergence α·shift²/2σ² of order α = 1 + `order` for Gaussian noise; None for any other.

    Exact on the reals; on the integers an upper bound for integer shifts (Canonne, Kamath and Steinke 2020).
    """
    if isinstance(noise, OSGT | DiscreteOSGT) and noise.slope == 0:
        return 0.5 * (1.0 + order) * noise.curvature * shift**2
    return None
