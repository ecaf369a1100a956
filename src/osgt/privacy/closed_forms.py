"""What is known in closed form for OSGT alone: its Rényi divergence, the bound of Theorem 2, and the Gaussian end.

Write U = U(shift), α = 1 + s and J(b) = ∫₀^∞ exp(-b·x - curvature·x²/2) dx. The three integrals of the paper's
Appendix E, with equal exponents merged, are

    E_P[exp(s·loss)] = [exp(sU)·(J(slope - s·c·Δ) + J(slope + s(2·slope + cΔ)))
                        + exp(-αU)·(J(slope + αcΔ) - J(slope + αcΔ + 2s·slope))] / 2J(slope)

where nothing overflows or cancels but for moments near 1, which `moments.log_moment` gives.
"""

import math
from typing import TypeGuard

import numpy as np
from scipy.special import log_ndtr

from osgt.noise import OSGT, DiscreteOSGT, Law
from osgt.noise.mills import Floats, hazard


def log_moment(noise: OSGT, shift: Floats, s: Floats) -> Floats:
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
        result = np.where(b < 0, 0.5 * math.log(2 * math.pi / c) + 0.5 * x * x + log_ndtr(-x), result)
    return np.asarray(result, dtype=np.float64)


def theorem_2(noise: Law, shift: float, alpha: Floats) -> Floats:
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
    log_integral = math.log(2.0) + 0.5 * math.log(2 * math.pi / noise.curvature) + 0.5 * z * z + float(log_ndtr(z))
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
    return max(-math.log(2.0) - float(log_ndtr(-z)), 0.0)


def euclidean_log_moment(noise: Law, radius: float, dimensions: int, s: float) -> float | None:
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
