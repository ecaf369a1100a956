"""Trade-off curves (f-DP): the least type II error of a test for a person's presence, given its type I error."""

import math
from typing import TYPE_CHECKING

import numpy as np

from osgt.noise import Law, RealLaw
from osgt.noise.mills import Floats

if TYPE_CHECKING:
    from osgt.privacy.profile import PrivacyProfile

_POINTS = 200


def tradeoff_of_one(noise: Law, shift: float, type_1_error: Floats) -> Floats:
    """One coordinate: the best test rejects above a threshold (Neyman and Pearson)."""
    threshold = np.asarray(noise.isf(type_1_error), dtype=np.float64)
    certain = type_1_error >= 1
    if isinstance(noise, RealLaw):
        return np.where(certain, 0.0, noise.cdf(np.where(certain, 0.0, threshold) - shift))
    # On the integers the test rejects at the threshold itself with the probability that uses up the type I error.
    finite = np.isfinite(threshold)
    k = np.where(finite, threshold, 0.0)
    log_at = np.asarray(noise.logpmf(k), dtype=np.float64)
    share = np.clip((type_1_error - noise.sf(k)) / np.exp(log_at), 0.0, 1.0)
    error = noise.cdf(k - shift) - share * noise.pmf(k - shift)
    return np.where(finite, np.maximum(error, 0.0), np.where(type_1_error > 0, 0.0, 1.0))


def tradeoff(profile: "PrivacyProfile", type_1_error: Floats) -> Floats:
    """Any composition, from below: each (ε, δ) that is proved is a pair of lines below the curve."""
    smallest = float(np.min(type_1_error[type_1_error > 0], initial=1e-3))
    farthest = profile.epsilon(max(min(1e-3 * smallest, 1e-6), 1e-290))
    epsilons = farthest * np.linspace(0.0, 1.0, _POINTS)
    lines = np.column_stack([epsilons, profile.delta(epsilons)])
    alpha = type_1_error[..., np.newaxis]
    best = np.zeros(type_1_error.shape)
    for block in np.array_split(lines, max(1, math.ceil(len(lines) * alpha.size / 10**6))):
        with np.errstate(over="ignore"):
            growth, delta = np.exp(block[:, 0]), block[:, 1]  # infinite where the lines say nothing
        grown = np.where(alpha > 0, growth * np.where(alpha > 0, alpha, 1.0), 0.0)
        below = np.maximum(1.0 - delta - grown, (1.0 - delta - alpha) / growth)
        best = np.maximum(best, np.max(below, axis=-1))
    return best
