"""A small part of the budget for what is measured beside the groups: the columns get a little more noise for it."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from osgt.calibration import Part
from osgt.limits import can_be_drawn
from osgt.noise import IntegerLaw, on_integers, scaled
from osgt.privacy.estimate import Estimate
from osgt.tables.joint_planning import Noises
from osgt.tables.planning import Noise, profile_of_all

#: How much larger the variance of every column gets by measuring what is left out.
LEFT_OUT_SHARE = 0.02

#: The logarithm of the noise is found to this.
_CLOSE = 0.02

#: The largest logarithm that is tried.
_LARGEST = math.log(1e9)


def with_left_out(
    noises: Noises, ends: Mapping[str, Noises], parts: Sequence[Mapping[str, Part]], epsilon: float, delta: float
) -> tuple[Noises, dict[str, Noises]] | None:
    """The noise of tables a little larger, and the least noise for other parts with which all of it is (ε, δ).

    Each table has a mapping of such parts, which may be empty. None if that would be more noise than can be drawn.
    """
    larger = {name: tuple(_larger(noise) for noise in end) for name, end in ends.items()}
    found = [_larger(noise) for noise in noises]
    model, shift = max(
        ((law, noise.parts[measure].shift) for noise in found for measure, law in noise.laws.items()),
        key=lambda each: each[1],
    )

    def beside(log_factor: float) -> Noises:
        factor = math.exp(log_factor) / shift

        def law(part: Part) -> IntegerLaw:
            return on_integers(scaled(model, factor * part.shift / math.sqrt(part.weight)))

        return tuple(
            replace(noise, beside={name: (law(part), part) for name, part in own.items()})
            for noise, own in zip(found, parts, strict=True)
        )

    def fits(log_factor: float) -> bool:
        profile = profile_of_all(beside(log_factor))
        return profile.epsilon(0.0) <= epsilon if delta == 0 else float(profile.delta(epsilon, slack=1e-3)) <= delta

    tilt = 1.0

    def seems_to_fit(log_factor: float) -> bool:
        nonlocal tilt  # each search for a saddle point begins where the last one ended
        estimate = Estimate(*profile_of_all(beside(log_factor)).pairs(), math.log(delta), tilt)
        fits = estimate.log_delta(epsilon) <= math.log(delta)
        tilt = estimate.tilt
        return fits

    # With Gaussian noise what is free is a part of Σ moved²/variance. That of a histogram falls with its factor.
    free = LEFT_OUT_SHARE * math.fsum(_cost(law, part) for noise in found for law, part in noise.pairs)
    start = 0.5 * math.log(
        math.fsum(_cost(law, part) for noise in beside(0.0) for law, part in noise.beside.values()) / free
    )
    # Proved where it matters, which is nearly always at the first place that the estimate leads to.
    least = _least(seems_to_fit if delta > 0 else fits, start)
    while least is not None and not fits(least):
        least = least + _CLOSE if least < _LARGEST else None
    if least is None:
        return None
    shared = beside(least)
    if not all(can_be_drawn(law.potential) for noise in shared for law, _ in noise.beside.values()):
        return None
    return shared, larger


def _larger(noise: Noise) -> Noise:
    factor = math.sqrt(1.0 + LEFT_OUT_SHARE)
    laws = {measure: on_integers(scaled(law, factor)) for measure, law in noise.laws.items()}
    return replace(noise, laws=laws, error=noise.error * (1.0 + LEFT_OUT_SHARE))


def _cost(law: IntegerLaw, part: Part) -> float:
    return part.equivalent(2.0) * float(part.shift) ** 2 / law.potential.moments()[1]


def _least(fits: Callable[[float], bool], start: float) -> float | None:
    """The least number, to within a small distance, that fits; all larger ones do. None if it is very large."""
    low = high = start
    step = 2.0 * _CLOSE
    if fits(start):
        while low == high or fits(low):
            low, high, step = low - step, low, 2.0 * step
    else:
        while low == high or not fits(high):
            low, high, step = high, high + step, 2.0 * step
            if high > _LARGEST:
                return None
    while high - low > _CLOSE:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high
