"""Differences and ratios of two noisy numbers, with intervals from the joint noise of both.

A ratio ρ from 0 on is in the interval if |first - ρ·second| ≤ q(ρ), where q(ρ) is the half-width of X₁ - ρ·X₂: at the
true ratio that difference is this noise itself (Fieller). Half-widths are found at ratios that are a hundredth apart,
and lie on or below chords between these:

- of independent noises each stands for all ratios up to the next place, so that this holds to the last step;
- noises that have something in common are symmetric and log-concave together, but for their steps. Then q is convex
  (half-widths of projections are a norm: Meyer and Reisner, 1991).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from osgt.estimation.intervals import half_width_up_to
from osgt.estimation.sums import ManySum, ManyTerm, NoiseSum, many_terms
from osgt.noise.error import Combination
from osgt.support.numeric import Floats

#: The ratios at which half-widths are found: so many for each doubling, from 2⁻³⁰ to 2³⁰.
_EACH, _DOUBLINGS = 64, 30
_LAST = 2 * _EACH * _DOUBLINGS

#: Noises up to which a sum is convolved term by term.
_FEW = 4


def sum_of(terms: Sequence[ManyTerm]) -> NoiseSum:
    """The sum of noises: one that is convolved where they are few."""
    if sum(n for _, _, n in terms) <= _FEW:
        return Combination(tuple((c, law) for c, law, n in terms for _ in range(n)))
    return ManySum(tuple(terms))


class PairNoise(Protocol):
    """The noise of two numbers together."""

    def of_difference(self, confidence: float) -> float:
        """The half-width of X₁ - X₂."""

    def half_width(self, ratio: float, following: float, confidence: float) -> float:
        """A half-width of X₁ - ratio·X₂, one of a row of which chords are bounds; `following` is the next ratio."""


@dataclass(frozen=True)
class IndependentNoise:
    """The independent noises of two numbers; the second is in steps of `scale` of the first."""

    first: NoiseSum
    second: NoiseSum
    scale: float = 1.0

    def of_difference(self, confidence: float) -> float:
        """The half-width of X₁ - X₂."""
        scaled = [(c if self.scale == 1 else float(c) * self.scale, law, n) for c, law, n in many_terms(self.second)]
        return sum_of([*many_terms(self.first), *scaled]).half_width(confidence)

    def half_width(self, ratio: float, following: float, confidence: float) -> float:
        """A half-width for all ratios up to the following one."""
        return half_width_up_to(self.first, self.second, following * self.scale, confidence)


@dataclass(frozen=True)
class CommonNoise:
    """The noise of two numbers that have some of it in common: `joint` gives that of X₁ - ratio·X₂."""

    joint: Callable[[float], NoiseSum]

    def of_difference(self, confidence: float) -> float:
        """The half-width of X₁ - X₂."""
        return self.joint(1.0).half_width(confidence)

    def half_width(self, ratio: float, following: float, confidence: float) -> float:
        """The half-width at this ratio."""
        return self.joint(ratio).half_width(confidence)


@dataclass(eq=False)
class Contrasts:
    """Differences and ratios of pairs of numbers that have the same noise together.

    Published numbers may be rounded: the first by at most `rounding[0]`, the second by at most `rounding[1]`.
    """

    noise: PairNoise
    confidence: float
    rounding: tuple[float, float] = (0.0, 0.0)
    _known: dict[int, float] = field(default_factory=dict, init=False, repr=False)

    def difference(self, first: Floats, second: Floats) -> tuple[Floats, Floats]:
        """The ends of intervals for first - second."""
        half = self.noise.of_difference(self.confidence) + sum(self.rounding)
        return first - second - half, first - second + half

    def ratio(self, first: Floats, second: Floats, half_of_second: float) -> tuple[Floats, Floats]:
        """The ends of intervals for first/second, of numbers from 0 on; infinite where the second may be 0.

        `half_of_second` is the half-width of the second number. With s the sign of an end, s·(ρ·second - first) - q(ρ)
        is concave in ρ: where the second number is above its half-width, it is above 0 beyond one root (the upper end)
        or before one (the lower end).
        """
        known = second > half_of_second
        high = np.where(known, self._root(first, second, 1.0), np.inf)
        low = np.where(second > -half_of_second, self._root(first, second, -1.0), 0.0)
        return low, np.maximum(high, low)

    def _root(self, first: Floats, second: Floats, sign: float) -> Floats:
        """The ratio at which the set ends: the last that is in it, with the sign -1 the first."""

        def over(place: NDArray[np.int_]) -> Floats:
            distinct, back = np.unique(place, return_inverse=True)
            halves = np.array([self._half_width(int(each)) for each in distinct])[back]
            return np.asarray(sign * (_ratio(place) * second - first) - halves)

        zero, far = np.zeros(len(first), np.int_), np.full(len(first), _LAST + 1)
        refused = over(zero) > 0
        if sign > 0:
            inside, outside = zero, np.where(refused, zero, far)
        else:
            inside, outside = np.where(refused, far, zero), zero
        while np.any(np.abs(outside - inside) > 1):
            middle = (inside + outside) // 2
            beyond = over(middle) > 0
            inside, outside = np.where(beyond, inside, middle), np.where(beyond, middle, outside)
        within, without = np.minimum(over(inside), 0.0), np.maximum(over(outside), 0.0)
        gap = without - within
        part = np.where(gap > 0, -within / np.where(gap > 0, gap, 1.0), 0.0)
        result = _ratio(inside) + part * (_ratio(outside) - _ratio(inside))
        return np.where((sign > 0) & (outside > _LAST), np.inf, result)

    def _half_width(self, place: int) -> float:
        if place not in self._known:
            ratio, following = _ratio(np.array([place, place + 1])).tolist()
            half = self.noise.half_width(ratio, following, self.confidence)
            self._known[place] = half + self.rounding[0] + ratio * self.rounding[1]
        return self._known[place]


def _ratio(place: NDArray[np.int_]) -> Floats:
    """The ratio at a place: 0 at 0, then geometrically."""
    return np.where(place == 0, 0.0, 2.0 ** ((np.asarray(place) - 1) / _EACH - _DOUBLINGS))
