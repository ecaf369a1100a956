"""A small part of the budget for what is measured beside the groups: the columns get a little more noise for it."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from osgt.calibration import Part
from osgt.noise import IntegerLaw, on_integers, scaled
from osgt.tables.planning import Noise, profile_with

#: How much larger the variance of every column gets by measuring what is left out.
LEFT_OUT_SHARE = 0.02

#: The logarithm of the noise is found to this.
_CLOSE = 0.02


def with_left_out(
    noise: Noise, ends: Mapping[str, Noise], parts: Mapping[str, Part], epsilon: float, delta: float
) -> tuple[Noise, dict[str, Noise]]:
    """The noise a little larger, and beside it the least noise for other parts with which all of it is (ε, δ)."""
    larger = {name: _larger(end) for name, end in ends.items()}
    found = _larger(noise)
    shift = max(part.shift for part in noise.parts.values())
    model = next(law for measure, law in found.laws.items() if noise.parts[measure].shift == shift)

    def beside(log_factor: float) -> dict[str, tuple[IntegerLaw, Part]]:
        factor = math.exp(log_factor) / shift
        return {name: (on_integers(scaled(model, factor * part.shift)), part) for name, part in parts.items()}

    laws, own = list(found.laws.values()), [found.parts[measure] for measure in found.laws]

    def fits(log_factor: float) -> bool:
        profile = profile_with(laws, own, beside(log_factor))
        return profile.epsilon(0.0) <= epsilon if delta == 0 else float(profile.delta(epsilon, slack=1e-3)) <= delta

    return replace(found, beside=beside(_least(fits, math.log(10.0)))), larger


def _larger(noise: Noise) -> Noise:
    factor = math.sqrt(1.0 + LEFT_OUT_SHARE)
    laws = {measure: on_integers(scaled(law, factor)) for measure, law in noise.laws.items()}
    return replace(noise, laws=laws, error=noise.error * (1.0 + LEFT_OUT_SHARE))


def _least(fits: Callable[[float], bool], start: float) -> float:
    """The least number, to within a small distance, that fits; all larger ones do."""
    low, high = start, start
    while not fits(high):
        low, high = high, high + 1.0
        if high > math.log(1e9):
            raise ValueError("the budget is too small to measure what is left out: use measure_left_out=False")
    while low == high or fits(low):
        low, high = low - 1.0, low
    while high - low > _CLOSE:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high
