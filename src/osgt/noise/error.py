"""The error of noise: of one distribution, in the measures that people choose noise by, and of weighted sums.

Of a sum of independent noises, X = Σ coefficient·Y, there is a rigorous bound on how far it is from zero. Every term is
rounded to the nearest multiple of one step, and the rounded terms are convolved. The sum is off by half a step a term
at most, which is added to every quantile, so no assumption about the shape of the noise is needed. Where the
coefficients have a common step and the noises are on the integers, nothing is rounded and quantiles are exact.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from numbers import Real

import numpy as np
import scipy

from osgt.noise.family import Distribution
from osgt.noise.integer import IntegerDistribution
from osgt.noise.potential import Potential, RealDistribution
from osgt.support.errors import ArgumentError
from osgt.support.numeric import Floats

Objective = str | tuple[str, float]

#: Beyond this many integers their sum is taken in equal steps; P[max > y] is smooth at that scale.
_LONGEST_SUM = 20_000
_STEPS = 4_000


def measure(objective: Objective) -> Callable[[Distribution], float]:
    """The function from a distribution to its error that an objective names.

    "variance", "mean_abs", ("quantile", p): the p-quantile of |Y|, or ("max", n): the expected largest |Y| of n cells.
    On the integers the quantile is interpolated between its two neighbours, so that it varies with the distribution.
    """
    if objective == "variance":
        return lambda noise: noise.var()
    if objective == "mean_abs":
        return lambda noise: noise.mean_abs()
    if isinstance(objective, tuple) and len(objective) == 2 and isinstance(objective[1], Real):
        name, number = objective[0], float(objective[1])
        if name == "quantile" and 0 < number < 1:
            return lambda noise: absolute_quantile(noise, number)
        if name == "max" and 1 <= number < math.inf:
            return lambda noise: expected_maximum(noise, number)
    raise ArgumentError(
        'objective must be "variance", "mean_abs", ("quantile", p) with 0 < p < 1 or ("max", n) with n ≥ 1, '
        f"got {objective!r}",
        argument="objective",
    )


def objective_of(text: str, *more: str) -> Objective:
    """`variance`, `mean_abs`, `quantile:0.99` or `max:10000`, or one of `more`."""
    if text in more:
        return text
    name, colon, number = text.partition(":")
    try:
        result = (name, float(number)) if colon else name
        measure(result)
    except ValueError:
        names = ", ".join((*more, "variance", "mean_abs"))
        raise ArgumentError(
            f"objective must be {names}, quantile:P with P between 0 and 1, or max:N with N at least 1, got {text!r}",
            argument="objective",
        ) from None
    return result


def objective_text(objective: Objective) -> str:
    """The text that `objective_of` reads."""
    return objective if isinstance(objective, str) else f"{objective[0]}:{objective[1]:.15g}"


def absolute_quantile(noise: Distribution, p: float) -> float:
    """The y with P[|Y| ≤ y] = p; on the integers between the two where it crosses p."""
    tail = (1.0 - p) / 2
    y = float(noise.isf(tail))
    if isinstance(noise, RealDistribution):
        return y
    above, below = (float(tail) for tail in noise.logsf([y - 1, y]))
    if not below < above:
        return y
    return max(y - (math.log(tail) - below) / (above - below), 0.0)


def expected_maximum(noise: Distribution, cells: float) -> float:
    """E max |Y| over independent cells: the integral (sum, on the integers) of P[max > y] from 0."""
    if isinstance(noise, RealDistribution):
        end = float(noise.isf(1e-14 / cells))
        nodes, weights = np.polynomial.legendre.leggauss(16)
        panels = np.linspace(0.0, end, _STEPS // 16 + 1)
        half = 0.5 * np.diff(panels)[:, np.newaxis]
        y = panels[:-1, np.newaxis] + half * (1.0 + nodes)
        return float(np.sum(half * weights * _exceeds(noise, y, cells)))
    end = float(noise.isf(1e-14 / cells))
    if end <= _LONGEST_SUM:
        return float(np.sum(_exceeds(noise, np.arange(end + 1), cells)))
    step = math.ceil(end / _STEPS)
    return float(step * np.sum(_exceeds(noise, np.arange((step - 1) // 2, end + step, step), cells)))


def _exceeds(noise: Distribution, y: Floats, cells: float) -> Floats:
    """P[max |Y| > y] over the cells."""
    return -np.expm1(cells * np.log1p(-np.minimum(2.0 * noise.sf(y), 1.0 - 1e-16)))


Coefficient = float | Fraction
Term = tuple[Coefficient, Distribution]

#: Multiples of the step on either side of zero: for what is shown, and where many sums are only compared.
CELLS = 1 << 13
_FEW_CELLS = 1 << 11

#: Part of a tail that the far ends of the terms may have; they count as outside.
_FAR_ENDS = 1e-4

#: Steps towards a reach, from above: where they end it is hardly larger than need be.
_NEWTON_STEPS = 4

#: A part of the standard deviation that tells the better from the worse where quantiles are 0.
_HAIR = 1e-6

#: Integers of a noise that are looked at one by one.
_ONE_BY_ONE = 1 << 15

#: More than the rounding errors of a convolution by Fourier transforms; smaller tails are convolved term by term.
ROUNDING = 1e-11
_SMALL_TAIL = 1e-7


@dataclass(frozen=True)
class GridSum:
    """The distribution of a sum as multiples of `step`: `masses[j]` is the probability of j, and of -j.

    The sum itself is at most `off` away from the multiple, except with the probability `lost`, which no mass counts.
    """

    step: float
    masses: Floats
    off: float
    lost: float

    @property
    def reach(self) -> float:
        """The largest multiple."""
        return (len(self.masses) - 1) * self.step

    def beyond(self) -> Floats:
        """Upper bounds on P[|multiple| > j] for j = 0, 1, …"""
        after = np.append(np.cumsum(self.masses[:0:-1])[::-1], 0.0)
        return np.asarray(2.0 * np.maximum(after, 0.0) + self.lost)

    def first_within(self, tail: float) -> int:
        """The least j with P[|multiple| > j] ≤ tail, as far as can be told; the last one is never exceeded."""
        within = self.beyond() <= tail
        return int(np.argmax(within)) if within[-1] else len(self.masses) - 1


@dataclass(frozen=True)
class Combination:
    """The noise Σ coefficient·Y of a number that is put together from several, each with independent noise of its own.

    Examples
    --------
    >>> from osgt.noise import DiscreteOSGT
    >>> Combination(((Fraction(1), DiscreteOSGT(3, 7)), (Fraction(2), DiscreteOSGT.laplace(3)))).half_width(0.95)
    21.0
    """

    terms: tuple[Term, ...]

    def var(self) -> float:
        """Variance."""
        return math.fsum(float(c) ** 2 * noise.var() for c, noise in self.terms)

    def std(self) -> float:
        """Standard deviation."""
        return math.sqrt(self.var())

    def half_width(self, confidence: float) -> float:
        """An h with P[|X| ≤ h] ≥ confidence: the least one, or above it by a few of the steps of a fine grid."""
        return _half_width(self.terms, confidence)

    def error(self, objective: Objective) -> float:
        """The error that an objective names, of |X|; the variance as its root.

        Where noise is so small that quantiles are 0, a hair of the standard deviation tells the better from the worse.
        """
        if objective == "variance":
            return self.std()
        return self._error(objective) + _HAIR * self.std()

    def _error(self, objective: Objective) -> float:
        if len(self.terms) == 1:
            [(coefficient, noise)] = self.terms
            return abs(float(coefficient)) * measure(objective)(noise)
        if isinstance(objective, tuple) and objective[0] == "quantile":
            return self.quantile(objective[1])
        cells = objective[1] if isinstance(objective, tuple) else 1.0  # E|X| is the expected largest of one
        total = grid_sum(self.terms, 1e-6 / cells, cells=_FEW_CELLS)
        return total.step * float(np.sum(-np.expm1(cells * np.log1p(-np.minimum(total.beyond(), 1.0 - 1e-16)))))

    def excess(self, confidence: float, target: Fraction) -> float:
        """log(h/target) for a half-width h that varies smoothly with the noises: ≤ 0 where `half_width` is ≤ target."""
        common = _common_step(self.terms)
        if common is not None and (len(self.terms) == 1 or grid_sum(self.terms, 1.0 - confidence).off == 0):
            # Half-widths are multiples of the common step.
            target = target // common * common
            reached = self.quantile(confidence, cells=CELLS)
        else:
            reached = self.half_width(confidence)
        return math.log(max(reached, 1e-300)) - math.log(max(float(target), 1e-300))

    def quantile(self, p: float, *, cells: int = _FEW_CELLS) -> float:
        """About the p-quantile of |X|, varying smoothly with the noises: for comparing them."""
        if len(self.terms) == 1:
            [(coefficient, noise)] = self.terms
            return abs(float(coefficient)) * absolute_quantile(noise, p)
        total = grid_sum(self.terms, 1.0 - p, cells=cells)
        beyond, j = total.beyond(), total.first_within(1.0 - p)
        place = 0.0
        if j > 0:
            above, below = math.log(beyond[j - 1]), math.log(beyond[j])
            place = j - (math.log(1.0 - p) - below) / (above - below)
        return total.step * (place + (0.5 if total.off else 0.0))


@lru_cache(maxsize=1024)
def _half_width(terms: tuple[Term, ...], confidence: float) -> float:
    """`Combination.half_width`: plan, statement and report ask for the same ones."""
    if len(terms) == 1:
        [(coefficient, noise)] = terms
        return float(abs(Fraction(coefficient)) * Fraction(float(noise.isf((1.0 - confidence) / 2))))
    total = grid_sum(terms, 1.0 - confidence)
    return total.first_within(1.0 - confidence) * total.step + total.off


def grid_sum(terms: Sequence[Term], tail: float, *, cells: int = CELLS, step: float | None = None) -> GridSum:
    """The sum on a grid for which tails of this size are told to a small part of themselves.

    `cells` says how fine the grid is, unless its `step` is given.
    """
    reaches = _reaches(terms, tail)
    common = _common_step(terms)
    exact = common is not None and sum(reaches) <= cells * common and (step is None or step == common)
    if exact:
        step = float(common or 1)
    elif step is None:
        step = sum(reaches) / cells
    # Equal terms are rounded once.
    different = {(abs(float(c)), noise): reach for (c, noise), reach in zip(terms, reaches, strict=True)}
    result = {(c, noise): rounded(c, noise, reach, step) for (c, noise), reach in different.items()}
    parts = [result[abs(float(c)), noise] for c, noise in terms]
    # A float more than half a step for each: the multiples themselves are rounded as well.
    off = 0.0 if exact else len(parts) * 0.5 * step * (1.0 + 1e-9)
    masses, error = convolved(parts, precise=tail < _SMALL_TAIL)
    return GridSum(step, masses, off, _FAR_ENDS * tail + error)


def grid_step(terms: Sequence[Term], tail: float) -> float:
    """The step of the grid that `grid_sum` takes for terms without a common step."""
    return sum(_reaches(terms, tail)) / CELLS


def _reaches(terms: Sequence[Term], tail: float) -> list[float]:
    """For each term how far it is looked at; beyond, all of them together have a small part of the tail."""
    return [abs(float(c)) * reach_of(noise, 0.5 * _FAR_ENDS * tail / len(terms)) for c, noise in terms]


def convolved(parts: Sequence[Floats], *, precise: bool = False) -> tuple[Floats, float]:
    """The masses of the sum of independent parts, all as in `GridSum`, and a bound on the error of any sum of them."""
    if len(parts) == 1:
        return parts[0], 0.0
    most = sum(len(part) - 1 for part in parts)
    if precise:
        whole = np.ones(1)
        for part in parts:
            whole = np.convolve(whole, np.concatenate([part[:0:-1], part]))
        return whole[most:], 1e-15 * len(parts) * float(whole[0] + whole[-1])
    size = scipy.fft.next_fast_len(2 * most + 1, real=True)
    spectra = {key: spectrum(part, size) for key, part in {id(part): part for part in parts}.items()}
    transform = np.ones(size // 2 + 1)
    for part in parts:
        transform = transform * spectra[id(part)]
    return scipy.fft.irfft(transform, size)[: most + 1], ROUNDING


def spectrum(masses: Floats, size: int) -> Floats:
    """The Fourier transform of symmetric masses on a circle of this size: real numbers."""
    circle = np.zeros(size)
    circle[: len(masses)] = masses
    circle[size - len(masses) + 1 :] = masses[:0:-1]
    return np.asarray(scipy.fft.rfft(circle).real)


def rounded(coefficient: float, noise: Distribution, reach: float, step: float) -> Floats:
    """Probabilities of the multiples 0, 1, … nearest to coefficient·Y, as far as the reach."""
    last = math.floor(reach / step + 0.5)
    if isinstance(noise, IntegerDistribution) and reach <= coefficient * _ONE_BY_ONE:
        y = np.arange(1.0, math.floor(reach / coefficient + 0.5) + 1.0)
        places = np.rint(coefficient * y / step).astype(np.int64)
        last = max(last, int(places[-1]) if len(places) else 0)
        masses: Floats = np.asarray(np.bincount(places, noise.pmf(y), minlength=last + 1), dtype=np.float64)
        # What is rounded to 0 comes from both sides.
        masses[0] = 2.0 * masses[0] + float(noise.pmf(0))
        return masses
    edges = (np.arange(last + 1) + 0.5) * (step / coefficient)
    after = np.asarray(noise.sf(edges))
    return np.concatenate([[1.0 - 2.0 * after[0]], after[:-1] - after[1:]])


@lru_cache(maxsize=1024)
def reach_of(noise: Distribution, tail: float) -> float:
    """A y, hardly larger than need be, with P[Y > y] ≤ tail; a whole number for noise on the integers.

    On the reals P[Y > y] = ½·exp(-U(y))·hazard(0)/hazard(y), and the hazard of a convex U does not fall: with that at
    any smaller y it is at least that. On the integers it is at most ½·exp(-U(y)), since U(y + x) ≥ U(y) + U(x) where U
    is 0 at 0, and no more than the integral from y on in place of the sum.
    """
    potential, level = noise.potential, -math.log(2.0 * tail)
    hazard = float(potential.hazard(np.zeros(())))
    near = far = _where_potential_is(potential, level, 1.0 / hazard)
    for _ in range(2):  # first too near, with the hazard of a larger y, then far enough with that of a smaller one
        grown = math.log(float(potential.hazard(np.asarray(near))) / hazard)
        near = _where_potential_is(potential, level - grown, far)
    if isinstance(noise, RealDistribution):
        return near
    y = np.asarray(float(math.ceil(near)))
    integral = noise.log_peak - float(potential(y)) - math.log(float(potential.hazard(y)))
    enough = integral <= math.log(tail) or float(noise.logsf(y)) <= math.log(tail)
    return math.ceil(near if enough else far)


def _where_potential_is(potential: Potential, level: float, start: float) -> float:
    """A y > 0 with U(y) at least the level, and hardly more."""
    y = np.asarray(start)[()]  # a number takes a tenth of the time of an array
    while potential(y) < level:
        y = 2.0 * y
    for _ in range(_NEWTON_STEPS):  # from above, where a convex function's steps do not pass the root
        onward = 1e-6 * y
        y = y - onward * (potential(y) - level) / potential.rise(y, onward)
    return float(y) * (1.0 + 1e-9)  # for the rounding


def _common_step(terms: Sequence[Term]) -> Fraction | None:
    """The largest number of which all terms are multiples; None if there is no such."""
    if any(not noise.discrete or not isinstance(c, Fraction | int) for c, noise in terms):
        return None
    common = Fraction(0)
    for c, _ in terms:
        one = Fraction(c)
        common = Fraction(
            math.gcd(common.numerator * one.denominator, one.numerator * common.denominator),
            common.denominator * one.denominator,
        )
    return common
