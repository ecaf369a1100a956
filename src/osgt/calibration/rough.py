"""About the noise that `calibrate` finds, in a fraction of the time. It only steers: nothing is proved about it."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from scipy.optimize import brentq

from osgt.calibration.joint import Part, budget, joint_noise
from osgt.calibration.scale import ScaleSearch
from osgt.calibration.search import nearest_to_gaussian
from osgt.calibration.shapes import costs_over_shapes
from osgt.noise import Law
from osgt.privacy import PrivacyProfile
from osgt.privacy.cumulant import Cumulant

#: ε is sought to this, relative, and δ may be too large by this.
_ACCURACY = 1e-3
_SLACK = 5e-3


def calibrate_roughly(epsilon: float, delta: float, parts: Sequence[Part]) -> tuple[Law, ...]:
    """For each part noise on the integers that is about (ε, δ)-private, of about the best shape."""
    epsilon, delta = budget(epsilon, delta)
    smooth = joint_noise(parts, discrete=False, family="osgt")
    search = _RoughSearch(smooth, epsilon, delta)

    def error(u: float) -> float:
        return smooth.error(u, math.exp(search.coarse(u)), "variance")

    best = nearest_to_gaussian(costs_over_shapes(error), error)
    return replace(smooth, discrete=True).laws(best, math.exp(search.coarse(best)))


def epsilon_roughly(profile: PrivacyProfile, delta: float) -> float:
    """About the ε at δ > 0: by a saddle point, which does not tell for one coordinate, or next to a largest loss."""
    largest = float(profile.epsilon(0.0))
    if _is_one(profile) or largest < math.inf:
        return _root(lambda at: math.log(max(float(profile.delta(at, slack=_SLACK)), 1e-300) / delta), largest)
    cumulant = _cumulant(profile)
    return max(cumulant.log_delta_estimate(cumulant.tilt_for_delta(math.log(delta)))[0], 0.0)


class _RoughSearch(ScaleSearch):
    """For each shape about the least scale, by a saddle point instead of a proof where several losses add up."""

    def _excess(self, u: float, x: float, slack: float | None) -> float:
        profile = self.joint.profile(u, math.exp(x))
        if _is_one(profile):
            return super()._excess(u, x, slack)
        cumulant = _cumulant(profile)
        epsilon, log_delta = cumulant.log_delta_estimate(theta := cumulant.tilt_for_epsilon(self.epsilon))
        return log_delta + theta * (epsilon - self.epsilon) - math.log(self.delta)


def _is_one(profile: PrivacyProfile) -> bool:
    return sum(part.coordinates for part in profile.parts) == 1


def _root(excess: Callable[[float], float], largest: float) -> float:
    """Where a function of ε that falls, and is below 0 from `largest` on, is 0."""
    if excess(0.0) <= 0:
        return 0.0
    if largest < math.inf and excess(largest * (1.0 - _ACCURACY)) > 0:
        return largest
    low, high = 0.0, min(1.0, largest)
    while high < largest and excess(high) > 0:
        low, high = high, min(2.0 * high, largest)
    return float(brentq(excess, low, high, rtol=_ACCURACY, xtol=1e-12))


def _cumulant(profile: PrivacyProfile) -> Cumulant:
    pairs, counts = profile._pairs()
    return Cumulant(pairs, np.asarray(counts, dtype=np.float64))
