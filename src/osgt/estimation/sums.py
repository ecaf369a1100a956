"""Sums of many independent noises, X = Σ coefficient·(Y₁ + … + Yₙ): how far they are from zero, by a rigorous bound.

The characteristic function of X is a product of known ones. Its values at the frequencies 2πk/P, k ≤ K, give the mean
of any trigonometric polynomial of degree K on a circle of circumference P, and Selberg's polynomial (Montgomery, Ten
Lectures, 1994, chapter 1) lies below the indicator of an interval everywhere: a finite sum is a lower bound on the
probability of [-h, h], about that of an interval that is shorter by P/(K + 1). What lies outside the circle is bounded
by Chernoff's inequality. `Combination` is better for a few noises: it is exact where it can be.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
import scipy

from osgt.noise.error import Coefficient, Combination, reach_of, rounded
from osgt.noise.family import Distribution
from osgt.noise.integer import IntegerDistribution
from osgt.support.errors import ArgumentError
from osgt.support.numeric import Floats

#: A coefficient, the noise, and how many independent noises have them.
ManyTerm = tuple[Coefficient, Distribution, int]

#: Noises up to which a sum is convolved term by term.
_FEW = 4

#: Degree of the polynomials.
_DEGREE = 3072

#: Probability beyond which the far ends of a noise count as outside.
_FAR = 1e-17

#: Multiples of a step on either side of zero as which a noise is taken.
_CELLS = 1 << 13

#: Places that are enough for a moment-generating function.
_FEW_PLACES = 512

#: More than the error of a characteristic function: that of its interpolation, and as much again for rounding.
_INTERPOLATION = 1e-12
_ERROR = 2.0 * _INTERPOLATION

#: Part of a tail for what lies outside the circle, and for noises that are rounded to steps.
_OUTSIDE = 1e-4

#: In standard deviations: exponents for Chernoff's inequality, of a noise and of the sum.
_EXPONENTS = 16.0 * np.linspace(0.0, 1.0, 65) ** 2
_TRIED = np.geomspace(0.25, 16.0, 97)

#: Below, a product of characteristic functions makes no difference.
_NOTHING = 1e-18

#: A half-width is found to this many binary digits of its bracket.
_HALVINGS = 14


@dataclass(frozen=True)
class ManySum:
    """The noise Σ coefficient·(Y₁ + … + Yₙ) of a number that is put together from very many.

    Examples
    --------
    >>> from osgt.noise import DiscreteOSGT
    >>> noise = ManySum(((1, DiscreteOSGT.gaussian(10), 100), (0.25, DiscreteOSGT.laplace(4), 400)))
    >>> round(noise.std(), 2)
    103.9
    >>> round(noise.half_width(0.95) / noise.std(), 2)
    1.96
    """

    terms: tuple[ManyTerm, ...]

    def var(self) -> float:
        """Variance."""
        return math.fsum(number * float(c) ** 2 * _variance(noise) for c, noise, number in self.terms)

    def std(self) -> float:
        """Standard deviation."""
        return math.sqrt(self.var())

    def half_width(self, confidence: float) -> float:
        """An h with P[|X| ≤ h] ≥ confidence, above the least one by about one percent of a standard deviation.

        Where less than 1e-5 is left, by up to ten percent.
        """
        if not self._merged:
            return 0.0
        if len(self._merged) == 1 and self._merged[0][2] == 1:
            [(coefficient, noise, _)] = self._merged
            return coefficient * float(noise.isf((1.0 - confidence) / 2))
        tail = 1.0 - confidence
        if tail * (1.0 - 2.0 * _OUTSIDE) <= 2.0 * self._lost:
            raise ArgumentError(
                f"confidence must leave more than {4.0 * self._lost:.1g} for this noise, got {confidence!r}",
                argument="confidence",
            )
        inside = tail * (1.0 - 2.0 * _OUTSIDE) - self._lost
        off = self._rounding(_OUTSIDE * tail)
        # Chernoff's bound serves alone where a tail is too small for floats.
        high = self._beyond(inside)
        circle = high + self._beyond(_OUTSIDE * tail)
        values, error = self._characteristic(circle)
        least_inside, low = _least_inside(values), 0.0
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            covered = least_inside(middle / circle) - error >= 1.0 - inside
            low, high = (low, middle) if covered else (middle, high)
        return high * (1.0 + 1e-12) + off

    def excess(self, confidence: float, target: Fraction) -> float:
        """log(h/target): ≤ 0 where the half-width h is ≤ target."""
        return math.log(max(self.half_width(confidence), 1e-300)) - math.log(max(float(target), 1e-300))

    @cached_property
    def _merged(self) -> list[tuple[float, Distribution, int]]:
        """Positive coefficients, each once for each noise; what decides the sum most comes first."""
        result: dict[tuple[float, Distribution], int] = {}
        for c, noise, number in self.terms:
            if c and number and _variance(noise) > (_FAR if noise.discrete else 0.0):
                result[abs(float(c)), noise] = result.get((abs(float(c)), noise), 0) + number
        merged = [(c, noise, number) for (c, noise), number in result.items()]
        return sorted(merged, key=lambda term: -term[2] * term[0] ** 2 * _variance(term[1]))

    @property
    def _lost(self) -> float:
        """At least the probability that any of the noises is beyond its table.

        Noise on the integers with a variance so small that it is left out is other than zero with at most that chance.
        """
        return 2.0 * _FAR * sum(number for _, _, number in self.terms)

    def _rounding(self, tail: float) -> float:
        """Bound the distance of the sum from that of the rounded noises, except with this probability.

        Noises are symmetric, and so are the errors of rounding: they are independent, zero on average and at most half
        a step each, to which Hoeffding's inequality applies.
        """
        squares = math.fsum(
            n * (c * _table(noise).step) ** 2 for c, noise, n in self._merged if not _table(noise).exact
        )
        return math.sqrt(0.5 * squares * math.log(2.0 / tail))

    def _beyond(self, tail: float) -> float:
        """An r with P[|X| > r] ≤ tail for the noises as in their tables, by Chernoff's inequality."""
        tried = _TRIED / self.std()
        # Logarithms of moment-generating functions are convex: chords lie above them.
        logs = [
            number * np.interp(tried * c * math.sqrt(_variance(noise)), _EXPONENTS, _table(noise).log_moments)
            for c, noise, number in self._merged
        ]
        return float(np.min((np.sum(logs, axis=0) + math.log(2.0 / tail)) / tried))

    def _characteristic(self, circle: float) -> tuple[Floats, float]:
        """E cos(2πkX/circle) for k = 1 … K, and a bound on the error that they lead to in a probability."""
        frequencies = (2.0 * math.pi / circle) * np.arange(1.0, _DEGREE + 1.0)
        values = np.ones(_DEGREE)
        for c, noise, number in self._merged:
            seen = np.flatnonzero(np.abs(values) > _NOTHING)
            values[seen] *= _table(noise).characteristic(c * frequencies[seen]) ** number
        # An error of one value counts with at most 2/(πk) + 2/(K + 1).
        together = (2.0 / math.pi) * (1.0 + math.log(_DEGREE)) + 2.0
        return values, together * (_ERROR * sum(number for _, _, number in self._merged) + _NOTHING)


#: A sum of few noises, or of many.
NoiseSum = Combination | ManySum


def many_terms(noise: NoiseSum) -> tuple[ManyTerm, ...]:
    """The terms of a sum of few noises or of many, with how many there are of each."""
    return noise.terms if isinstance(noise, ManySum) else tuple((c, one, 1) for c, one in noise.terms)


def _least_inside(values: Floats) -> Callable[[float], float]:
    """A lower bound on P[|X| ≤ h] for an h that is a part of the circle: the mean of Selberg's polynomial."""
    degree = len(values) + 1
    seen = np.flatnonzero(np.abs(values) > _NOTHING)
    k, weights = seen + 1.0, 2.0 / degree * values[seen]
    u = k / degree
    of_sine = ((1.0 - u) / np.tan(math.pi * u) + 1.0 / math.pi) * weights
    of_cosine = (1.0 - u) * weights

    def at(part: float) -> float:
        angle = 2.0 * math.pi * part * k
        return 2.0 * part + float(np.sin(angle) @ of_sine - np.cos(angle) @ of_cosine) - 1.0 / degree

    return at


@dataclass(frozen=True)
class _Table:
    """A noise as multiples of `step`, rounded unless `exact`, and what is needed of its transforms."""

    step: float
    exact: bool
    #: The characteristic function and its first three derivatives at even distances from 0 to π.
    derivatives: tuple[Floats, Floats, Floats, Floats]
    #: Logarithms of the moment-generating function at `_EXPONENTS`.
    log_moments: Floats

    def characteristic(self, frequencies: Floats) -> Floats:
        """The characteristic function, by the polynomial of degree seven that has its derivatives at both ends."""
        last = len(self.derivatives[0]) - 1
        folded = np.mod(frequencies * self.step, 2.0 * math.pi)
        place = np.minimum(folded, 2.0 * math.pi - folded) * (last / math.pi)
        left = np.minimum(place.astype(np.int64), last - 1)
        t, width = place - left, math.pi / last
        f, g, h, k = (width**n * derivative[left] for n, derivative in enumerate(self.derivatives))
        # What the cubic at the left end is short of at the right one, in the same order.
        after = (width**n * derivative[left + 1] for n, derivative in enumerate(self.derivatives))
        cubic = f + g + h / 2 + k / 6, g + h + k / 2, h + k, k
        a, b, c, d = (there - here for there, here in zip(after, cubic, strict=True))
        rest = 35 * a - 15 * b + 5 / 2 * c - d / 6
        rest = rest + t * (-84 * a + 39 * b - 7 * c + d / 2)
        rest = rest + t**2 * (70 * a - 34 * b + 13 / 2 * c - d / 2)
        rest = rest + t**3 * (-20 * a + 10 * b - 2 * c + d / 6)
        return np.asarray(f + t * (g + t * (h / 2 + t * (k / 6 + t * rest))))


@lru_cache(maxsize=1024)
def _variance(noise: Distribution) -> float:
    """The variance, which takes a while to compute."""
    return noise.var()


@lru_cache(maxsize=32)
def _table(noise: Distribution) -> _Table:
    reach = reach_of(noise, _FAR)
    exact = isinstance(noise, IntegerDistribution) and reach <= _CELLS
    step = 1.0 if exact else reach / _CELLS
    masses = rounded(1.0, noise, reach, step)
    places = np.arange(len(masses), dtype=np.float64)
    # The error of the interpolation is at most (width of a cell)⁸·E[Y⁸]/(2⁸·8!).
    eighth = 2.0 * float(places**8 @ masses)
    cells = math.ceil(math.pi * (eighth / (2**8 * math.factorial(8) * _INTERPOLATION)) ** (1 / 8))
    cells = scipy.fft.next_fast_len(max(cells, len(masses), 64), real=True)
    half = np.concatenate([[0.5 * masses[0]], masses[1:]])
    waves = [2.0 * scipy.fft.rfft(places**n * half, 2 * cells) for n in range(4)]
    derivatives = waves[0].real, waves[1].imag, -waves[2].real, -waves[3].imag
    coarse, every = _coarser(half)
    exponents = _EXPONENTS * (every * step / noise.std())
    logs = np.array([_log_moment(coarse, np.arange(len(coarse)) * exponent) for exponent in exponents])
    return _Table(step, exact, derivatives, logs)


def _coarser(half: Floats) -> tuple[Floats, int]:
    """Masses on a grid of some hundred places, and how many of the former are one of these.

    A mass between two places goes to both so that its mean stays. That of exp(s·Y) gets no smaller by it.
    """
    every = max(len(half) // _FEW_PLACES, 1)
    place, over = np.divmod(np.arange(len(half)), every)
    upper = over / every * half
    size = int(place[-1]) + 2
    result = np.bincount(place, half - upper, size) + np.bincount(place + 1, upper, size)
    return np.trim_zeros(np.asarray(result, dtype=np.float64), "b"), every


def _log_moment(half: Floats, exponents: Floats) -> float:
    """log E exp(exponent·Y) = log Σ half·(eˣ + e⁻ˣ), with half the mass of zero."""
    top = float(exponents[-1])
    return top + math.log(float((np.exp(exponents - top) + np.exp(-exponents - top)) @ half))


def sum_of(terms: Sequence[ManyTerm]) -> NoiseSum:
    """The sum of noises: one that is convolved where they are few."""
    if 0 < sum(n for _, _, n in terms) <= _FEW:
        return Combination(tuple((c, law) for c, law, n in terms for _ in range(n)))
    return ManySum(tuple(terms))
