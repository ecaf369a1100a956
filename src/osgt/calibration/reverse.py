"""The reverse questions: the error is given, and the budget that it needs is asked for."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from osgt.calibration.joint import JointNoise, Part, joint_noise, probability
from osgt.calibration.search import costs_over_shapes
from osgt.noise import Distribution, Family
from osgt.noise.arguments import confidence_level, real_number
from osgt.privacy import PrivacyProfile
from osgt.privacy.profile import SLACK
from osgt.support.errors import ArgumentError
from osgt.support.search import root_within

#: Relative slack of δ while the shape is searched.
_COARSE_SLACK = 1e-2


@dataclass(frozen=True)
class Calibration:
    """A budget and the noise that meets it."""

    epsilon: float
    delta: float
    noise: Distribution


def calibrate_epsilon(
    delta: float,
    *,
    target_std: float | None = None,
    target_interval: float | None = None,
    confidence: float = 0.95,
    shift: float = 1,
    coordinates: int = 1,
    discrete: bool = True,
    family: str | Family = "osgt",
) -> Calibration:
    """The least ε at which the error is no larger than the target, and the noise.

    Parameters
    ----------
    delta
        δ of the budget, 0 ≤ δ < 1.
    target_std, target_interval
        One of them: the standard deviation of the noise, or the half-width of its interval at `confidence`.
    shift, coordinates, discrete, family
        As for `calibrate`.
    """
    delta = probability("delta", delta)
    joint = joint_noise([Part(shift, coordinates)], discrete=discrete, family=family)
    fits = _target(target_std, target_interval, confidence, discrete=discrete)
    ends = (joint.bounded_end(),) if delta == 0 else None
    noise = _best(joint, fits, lambda profile, slack: float(profile.epsilon(delta, slack=slack)), ends)
    return Calibration(float(PrivacyProfile(noise, shift, coordinates).epsilon(delta)), delta, noise)


def calibrate_delta(
    epsilon: float,
    *,
    target_std: float | None = None,
    target_interval: float | None = None,
    confidence: float = 0.95,
    shift: float = 1,
    coordinates: int = 1,
    discrete: bool = True,
    family: str | Family = "osgt",
) -> Calibration:
    """The least δ at ε with an error no larger than the target, and the noise. Arguments as in `calibrate_epsilon`."""
    epsilon = real_number("epsilon", epsilon, positive=True)
    joint = joint_noise([Part(shift, coordinates)], discrete=discrete, family=family)
    fits = _target(target_std, target_interval, confidence, discrete=discrete)

    def log_delta(profile: PrivacyProfile, slack: float) -> float:
        delta = float(profile.delta(epsilon, slack=slack))
        return math.log(delta) if delta > 0 else -math.inf

    noise = _best(joint, fits, log_delta)
    return Calibration(epsilon, float(PrivacyProfile(noise, shift, coordinates).delta(epsilon)), noise)


def _target(
    target_std: float | None, target_interval: float | None, confidence: float, *, discrete: bool
) -> Callable[[Distribution], float]:
    """A function of the noise that is ≤ 0 where the target is met and grows with the scale."""
    if (target_std is None) == (target_interval is None):
        raise ValueError("give one of target_std and target_interval: the error that you can accept")
    if target_std is not None:
        std = real_number("target_std", target_std, positive=True)
        return lambda noise: math.log(max(noise.std(), 1e-300) / std)
    half_width = real_number("target_interval", target_interval, positive=not discrete)
    tail = 0.5 * (1.0 - confidence_level(confidence))
    if tail == 0.5:
        raise ArgumentError(f"confidence must be above 0 and below 1, got {confidence!r}", argument="confidence")
    # A hair below the tail asked for, so that rounding does not push the quantile to the next integer.
    return lambda noise: float(noise.logsf(half_width)) - math.log(tail) + 1e-9


def _best(
    joint: JointNoise,
    fits: Callable[[Distribution], float],
    cost: Callable[[PrivacyProfile, float], float],
    shapes: tuple[float, ...] | None = None,
) -> Distribution:
    """The noise of least cost over all shapes (or those given), each at the largest scale that fits."""

    def scale(u: float) -> float:
        return math.exp(_largest_log_scale(lambda x: fits(joint.distributions(u, math.exp(x))[0])))

    def cost_of(u: float, slack: float) -> float:
        return cost(joint.profile(u, scale(u)), slack)

    if shapes is None:
        costs = costs_over_shapes(lambda u: cost_of(u, _COARSE_SLACK))
        shapes = (0.0, 1.0, min(costs, key=lambda u: costs[u]))
    best = min(shapes, key=lambda u: (cost_of(u, SLACK), u))
    return joint.distributions(best, scale(best))[0]


def _largest_log_scale(excess: Callable[[float], float]) -> float:
    """The largest x with excess(x) ≤ 0, for an increasing function, to a relative accuracy of 1e-12 from below."""
    low = high = 0.0
    step = 1.0
    while excess(low) > 0:
        low, high, step = low - step, low, 2 * step
        if low < -600:
            raise ValueError("the target is too small: no noise of this family meets it")
    step = 1.0
    while excess(high) <= 0:
        low, high, step = high, high + step, 2 * step
    return root_within(excess, low, high, inward=lambda x: x - 1e-12, xtol=1e-13, rtol=1e-15)
