"""The reverse questions: the error is given, and the budget that it takes is asked for."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from scipy.optimize import brentq

from osgt.calibration.family import Family, Part, family_of, probability
from osgt.calibration.shapes import costs_over_shapes
from osgt.noise.error import Law
from osgt.noise.parameters import real_number
from osgt.privacy import PrivacyProfile

#: Relative slack of δ while the shape is searched.
_COARSE_SLACK = 1e-2


@dataclass(frozen=True)
class Calibration:
    """A budget and the noise that meets it."""

    epsilon: float
    delta: float
    noise: Law


def calibrate_epsilon(
    delta: float,
    *,
    target_std: float | None = None,
    target_interval: float | None = None,
    confidence: float = 0.95,
    shift: float = 1,
    coordinates: int = 1,
    discrete: bool = True,
) -> Calibration:
    """The least ε at which the error is no larger than the target, and the noise.

    Parameters
    ----------
    delta
        δ of the budget, 0 ≤ δ < 1.
    target_std, target_interval
        One of them: the standard deviation of the noise, or the half-width of its interval at `confidence`.
    shift, coordinates, discrete
        As for `calibrate`.
    """
    delta = probability("delta", delta)
    family = family_of([Part(shift, coordinates)], discrete=discrete)
    fits = _target(target_std, target_interval, confidence, discrete=discrete)

    def epsilon(u: float, scale: float, slack: float | None) -> float:
        profile = family.profile(u, scale)
        return float(profile.epsilon(delta) if slack is None else profile.epsilon(delta, slack=slack))

    best, noise = _least(family, fits, epsilon, pure=delta == 0)
    return Calibration(best, delta, noise)


def calibrate_delta(
    epsilon: float,
    *,
    target_std: float | None = None,
    target_interval: float | None = None,
    confidence: float = 0.95,
    shift: float = 1,
    coordinates: int = 1,
    discrete: bool = True,
) -> Calibration:
    """The least δ at ε with an error no larger than the target, and the noise. Arguments as in `calibrate_epsilon`."""
    epsilon = real_number("epsilon", epsilon, positive=True)
    family = family_of([Part(shift, coordinates)], discrete=discrete)
    fits = _target(target_std, target_interval, confidence, discrete=discrete)

    def log_delta(u: float, scale: float, slack: float | None) -> float:
        profile = family.profile(u, scale)
        delta = float(profile.delta(epsilon) if slack is None else profile.delta(epsilon, slack=slack))
        return math.log(delta) if delta > 0 else -math.inf

    _, noise = _least(family, fits, log_delta, pure=False)
    # The bound itself, not the exponential of its logarithm, which may round below it.
    return Calibration(epsilon, float(PrivacyProfile(noise, shift, coordinates).delta(epsilon)), noise)


def _target(
    target_std: float | None, target_interval: float | None, confidence: float, *, discrete: bool
) -> Callable[[Law], float]:
    """A function of the law that is ≤ 0 where the target is met and grows with the scale."""
    if (target_std is None) == (target_interval is None):
        raise ValueError("give one of target_std and target_interval: the error that you can accept")
    if target_std is not None:
        std = real_number("target_std", target_std, positive=True)
        return lambda law: math.log(max(law.std(), 1e-300) / std)
    half_width = real_number("target_interval", target_interval, positive=not discrete)
    tail = 0.5 * (1.0 - probability("confidence", confidence))
    if tail == 0.5:
        raise ValueError(f"confidence must be above 0 and below 1, got {confidence!r}")
    # A hair below the tail asked for, so that rounding does not push the quantile to the next integer.
    return lambda law: float(law.logsf(half_width)) - math.log(tail) + 1e-9


def _least(
    family: Family,
    fits: Callable[[Law], float],
    cost: Callable[[float, float, float | None], float],
    *,
    pure: bool,
) -> tuple[float, Law]:
    """The least cost over all shapes, each at the largest scale that fits, and its law."""

    def scale(u: float) -> float:
        return math.exp(_largest_log_scale(lambda x: fits(family.laws(u, math.exp(x))[0])))

    if pure:
        shapes = [1.0]
    else:
        costs = costs_over_shapes(lambda u: cost(u, scale(u), _COARSE_SLACK))
        shapes = [0.0, 1.0, min(costs, key=lambda u: costs[u])]
    least, best = min((cost(u, scale(u), None), u) for u in shapes)
    return least, family.laws(best, scale(best))[0]


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
    root = float(brentq(excess, low, high, xtol=1e-13, rtol=1e-15))
    while excess(root) > 0:
        root -= 1e-12
    return root
