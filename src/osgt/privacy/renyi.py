"""Rényi divergence of one coordinate, rounded up, and the Fisher information behind its small-loss limit."""

import numpy as np

from osgt.noise import OSGT, Law, RealLaw
from osgt.noise.mills import Floats
from osgt.privacy import closed_forms, moments
from osgt.privacy.closed_forms import theorem_2
from osgt.privacy.pair import pair_of

#: Below this value the closed form of log E[exp(s·loss)] loses digits, and the integral of positive terms does not.
_CLOSED_FORM_FROM = 0.05

#: Moments are raised by this part. The closed form adds a few logarithms of at most 50 or so, each exact to 2⁻⁵³ of
#: itself, to a value of at least 0.05: its relative error stays below 3e-13. That of the sums and integrals of
#: positive terms stays below 1e-14.
_MARGIN = 1e-12

#: A product of a few floats is raised by this part.
_FEW_ROUNDINGS = 8 * 2.0**-53


def log_moment(noise: Law, shift: float, s: float) -> float:
    """log E_P[exp(s·loss)] for s > 0: an upper bound, at most 2e-12 of itself above the exact value."""
    if closed_forms.is_gaussian(noise):
        return s * (1.0 + s) * 0.5 * noise.curvature * shift**2 * (1.0 + _FEW_ROUNDINGS)
    if isinstance(noise, OSGT):
        value = float(closed_forms.log_moment(noise, np.asarray(shift), np.asarray(s)))
        if value > _CLOSED_FORM_FROM:
            return value * (1.0 + _MARGIN)
    return moments.log_moment(pair_of(noise, shift), s) * (1.0 + _MARGIN)


def log_moments(noise: Law, shifts: Floats, s: float) -> Floats:
    """As `log_moment`, for many shifts ≥ 0."""
    if isinstance(noise, OSGT):
        return np.asarray(closed_forms.log_moment(noise, shifts, np.asarray(s)) * (1 + 1e-13) + 1e-14)
    return np.array([log_moment(noise, float(d), s) if d else 0.0 for d in shifts])


def divergence(noise: Law, shift: float, alpha: Floats) -> Floats:
    """Rényi divergence of order α, rounded up: log E_P[exp((α - 1)·loss)]/(α - 1)."""
    values = [log_moment(noise, shift, float(order) - 1.0) / (float(order) - 1.0) for order in alpha.ravel()]
    return np.array(values, dtype=np.float64).reshape(alpha.shape)


def information(noise: Law) -> float:
    """Fisher information; on the integers the symmetrised divergence Σ (p(y) - p(y + 1))·log(p(y)/p(y + 1))."""
    if isinstance(noise, RealLaw):
        return noise.fisher_information()
    return moments.symmetrised_divergence(pair_of(noise, 1.0))


__all__ = ["divergence", "information", "log_moment", "log_moments", "theorem_2"]
