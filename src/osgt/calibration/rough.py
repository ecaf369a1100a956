"""About the noise that `calibrate` finds, in a fraction of the time. It only steers: nothing is proved about it."""

import math
from collections.abc import Sequence

from osgt.calibration.joint import Part, budget, joint_noise
from osgt.calibration.scale import ScaleSearch
from osgt.calibration.search import best_shapes
from osgt.noise import Law
from osgt.privacy import PrivacyProfile
from osgt.privacy.estimate import Estimate


def calibrate_roughly(epsilon: float, delta: float, parts: Sequence[Part]) -> tuple[Law, ...]:
    """For each part noise on the integers that is about (ε, δ)-private, of about the best shape."""
    epsilon, delta = budget(epsilon, delta)
    search = ScaleSearch(joint_noise(parts, discrete=True, family="osgt"), epsilon, delta)
    best = best_shapes(search, "variance")[-1]
    return search.joint.laws(best, math.exp(search.roughly(best)))


def epsilon_roughly(profile: PrivacyProfile, delta: float) -> float:
    """About the ε at δ > 0."""
    pairs, counts = profile.pairs()
    return min(Estimate(pairs, counts, math.log(delta)).epsilon(math.log(delta)), float(profile.epsilon(0.0)))
