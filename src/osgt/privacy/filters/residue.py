"""The Gaussian residue: a number μ such that all that may still follow is dominated by Gauss(μ).

Gauss(μ) is the pair of unit normal distributions μ apart. A release with dominating pair g moves μ to a μ' for which
g ⊗ Gauss(μ') is dominated by Gauss(μ), at every ε. Backward from the last round: if whatever follows is dominated by
Gauss(μ'), then the release and what follows are dominated by g ⊗ Gauss(μ'), hence by Gauss(μ). Any such μ' is valid;
the larger the better. For Gaussian noise on the reals μ² - μ'² is exactly the square of its own μ. A price μ² - μ'²
that is right at μ is right at every larger μ, since both sides may be composed with one more Gaussian. So the prices
of small releases are computed for a row of μ, each μ uses that of the next smaller one, and equal releases share
them.

Is a release, followed by Gauss(μ'), dominated by Gauss(μ) at every ε?

With g the loss of the release, δ of g ⊗ Gauss(μ') at ε is the mean of δ of Gauss(μ') at ε - loss. It is compared with δ
of Gauss(μ) on a grid of ε from 0 on, and between the grid's points by bounds on fourth derivatives. Negative ε need not
be looked at: all noise here is symmetric, and δ(-ε) = 1 - exp(-ε) + exp(-ε)·δ(ε) holds on both sides.

Every step errs on the safe side: g is a distribution that dominates the true loss (`costs`); losses within a bin
are expanded to the third order and the rest is bounded; rounding errors are added. Beyond the last ε, and for the
P-mass beyond the row of g, δ itself is charged to a leftover that is set aside for it.

The δ of Gauss(μ) is known at every real ε, with its derivatives: with y = ε/μ - μ/2, φ the normal density
and R(x) = Q(x)/φ(x) Mills' ratio,

    δ(ε) = φ(y)·(R(y) - R(y + μ)),    -δ' = B = φ(y)·R(y + μ),    δ'' = C - B,  C = φ(y)/μ,

and C' = -C·y/μ. Nothing cancels: R(y) - R(y + μ) is the integral of 1 - x·R(x) where μ is small.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
import scipy

from osgt.noise.osgt import mills_ratio
from osgt.privacy import NoisyPart
from osgt.privacy.filters.costs import ReleaseLoss, loss_of
from osgt.privacy.renyi import is_gaussian
from osgt.support.numeric import Floats, root_within

#: Gauss-Legendre with seven nodes.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(7)

#: From this μ on R(y) - R(y + μ) is taken as it stands.
_WIDE = 0.7


def curve(mu: float, epsilon: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """δ(ε) and its first three derivatives, to about 1e-14 relative to δ and to the sizes of B and C."""
    size = np.abs(epsilon)
    y = size / mu - 0.5 * mu
    density = _density(y)
    if mu < _WIDE:
        gap = np.zeros_like(y)
        for node, weight in zip(_NODES, _WEIGHTS, strict=True):
            x = y + (0.5 + 0.5 * node) * mu
            gap += (0.5 * weight * mu) * (1.0 - x * mills_ratio(x))
        delta = density * gap
    else:
        tail = density * mills_ratio(np.maximum(y + mu, 0.0))
        near = np.maximum(y, 0.0)
        delta = np.where(y < 0, scipy.special.ndtr(-y) - tail, density * (mills_ratio(near) - mills_ratio(near + mu)))
    # δ(-ε) = 1 - exp(-ε) + exp(-ε)·δ(ε): the pair is symmetric.
    delta = np.where(epsilon < 0, -np.expm1(-size) + np.exp(-size) * delta, delta)
    b, c, y = _rates(mu, epsilon)
    c_slope = -c * y / mu
    return delta, -b, c - b, c + c_slope - b


def bound_fourth(mu: float, epsilon: Floats, reach: float) -> Floats:
    """Upper bound on |δ''''| = |C + C' + C'' - B| within `reach` of each ε."""
    y = epsilon / mu - 0.5 * mu
    step = reach / mu
    far = np.abs(y) + step
    c = _density(np.maximum(np.abs(y) - step, 0.0)) / mu
    b = np.exp(epsilon + reach) * scipy.special.ndtr(step - y - mu)
    return np.asarray((b + c * (1.0 + far / mu + np.maximum(far * far, 1.0) / mu**2)) * (1.0 + 1e-9))


def _rates(mu: float, epsilon: Floats) -> tuple[Floats, Floats, Floats]:
    y = epsilon / mu - 0.5 * mu
    return np.exp(epsilon) * scipy.special.ndtr(-y - mu), _density(y) / mu, y


def _density(y: Floats) -> Floats:
    return np.asarray(np.exp(-0.5 * y * y) / math.sqrt(2.0 * math.pi), dtype=np.float64)


#: The most that one release may take of μ².
MOST = 1.0 - 1.0 / 64

#: Step of ε as a share of the smaller of μ' and 10.
_STEP = 0.0125

#: The longest table.
_LONGEST = 2**17

#: Rounding errors, relative: those of `curve` and of sums of positive terms are below 1e-12.
ROUNDING = 2e-12


@dataclass(frozen=True)
class Comparison:
    """A release and a μ, with all that does not depend on the μ' that is tried."""

    mu: float
    step: float  # of ε
    count: int  # ε goes from 0 to count·step
    first_bin: int
    stride: int  # of the bins
    bins: tuple[Floats, ...]  # of losses: Σ masses·(-rest)^k/k!, k = 0 … 3, or k = 0 alone if nothing rests
    thirds: Floats  # Σ masses·|rest|³/6
    fourths: Floats  # Σ masses·rest⁴/24
    error: float
    beyond: float
    leftover: float  # δ for what lies beyond the windows, for each unit of μ²
    goal: tuple[Floats, Floats]  # δ of Gauss(μ) and its derivative at the ε
    goal_fourth: Floats
    likely: float  # about the price

    @classmethod
    def of(cls, loss: ReleaseLoss, mu: float, leftover: float) -> "Comparison | None":
        """None if the release is too large, even alone, or too large to be compared on a grid."""
        likely = 2.0 * loss.mean
        if loss.total_variation > 2.0 * float(scipy.special.ndtr(0.5 * mu)) - 1.0:
            return None
        least = math.sqrt(max(mu**2 - 1.5 * likely, mu**2 / 16))
        step = _STEP * min(least, 10.0)
        aligned = loss.step > 0.5 * step
        stride = math.ceil(loss.step / step) if aligned else 1
        if aligned:
            step = loss.step / stride
        target = min(0.2 * leftover * min(likely, mu**2), 0.01)
        reach = mu * (0.5 * mu - float(scipy.special.ndtri(target)))
        count = math.ceil(reach / step)
        if count + len(loss.masses) * stride > _LONGEST:
            return None
        where = np.arange(len(loss.masses)) + loss.start if aligned else np.round(loss.losses / step).astype(np.int64)
        rest = np.zeros(len(where)) if aligned else loss.losses - where * step
        first, size = int(where[0]), int(where[-1] - where[0]) + 1

        def binned(weights: Floats) -> Floats:
            return np.asarray(np.bincount(where - first, weights=weights, minlength=size), dtype=np.float64)

        powers = range(1 if aligned else 4)
        bins = tuple(binned(loss.masses * (-rest) ** k / math.factorial(k)) for k in powers)
        epsilon = step * np.arange(count + 1, dtype=np.float64)
        delta, slope, _, _ = curve(mu, epsilon)
        return cls(
            mu,
            step,
            count,
            first * stride,
            stride,
            bins,
            binned(loss.masses * np.abs(rest) ** 3 / 6.0),
            binned(loss.masses * rest**4 / 24.0),
            loss.error,
            loss.beyond,
            leftover,
            (delta, slope),
            bound_fourth(mu, epsilon, step),
            likely,
        )

    def _table(self) -> Floats:
        """ε less losses, wherever one is needed; losses may be too low by `error`."""
        size = (len(self.bins[0]) - 1) * self.stride + 1
        first = 1 - size - self.first_bin
        return self.step * np.arange(first, self.count - self.first_bin + 1, dtype=np.float64) - self.error

    def _averaged(self, values: Floats, weights: Floats) -> Floats:
        """E[value at ε - loss] for each ε, of values on the table."""
        if self.stride == 1:
            return np.convolve(values, weights, mode="valid")
        result = np.empty(self.count + 1)
        for offset in range(min(self.stride, self.count + 1)):
            row = np.convolve(values[offset :: self.stride], weights, mode="valid")
            result[offset :: self.stride] = row[: len(result[offset :: self.stride])]
        return result

    def missing(self, taken: float) -> float:
        """Estimate how much must be added to a price for it to be proved; if none, or less than none, it is proved.

        Proved is that g ⊗ Gauss(√(μ² - taken)) is dominated by Gauss(μ), up to the leftover that it may use. At the
        grid's ε both sides and their slopes are known up to small errors. Between two of them the difference is a cubic
        up to step⁴/384 times its fourth derivative, and the cubic is not below its least Bernstein coefficient.
        """
        left = math.sqrt(self.mu**2 - taken) * (1.0 + 4e-16)
        table, step = self._table(), self.step
        curves = curve(left, table)
        fourths = bound_fourth(left, table, 1.5 * step * (1.0 + 1e-9))  # ε moves by a step, a loss in its bin by half
        averaged = self._averaged
        value = np.sum([averaged(c, w) for c, w in zip(curves, self.bins, strict=False)], axis=0)
        slope = np.sum([averaged(c, w) for c, w in zip(curves[1:], self.bins, strict=False)], axis=0)
        bend = averaged(fourths, self.bins[0])
        slope_error = np.zeros_like(bend)
        if len(self.bins) > 1:
            value = value + averaged(fourths, self.fourths)
            slope_error = averaged(fourths, self.thirds)
        goal, goal_slope = self.goal
        slope_error = slope_error + ROUNDING * (np.abs(goal_slope) + np.abs(slope))
        above = goal - value - ROUNDING * goal
        tilt = (step / 3.0) * (goal_slope - slope)
        unsure = (step / 3.0) * slope_error
        least = np.minimum(
            np.minimum(above[:-1], above[1:]),
            np.minimum((above + tilt - unsure)[:-1], (above - tilt - unsure)[1:]),
        )
        needed = step**4 / 384.0 * (bend + self.goal_fourth)[:-1] * (1.0 + 1e-9)
        allowed = self.leftover * taken * (1.0 - 1e-9)
        outside = float(value[-1]) * (1.0 + ROUNDING) + self.beyond
        # The derivative in `taken` of δ of Gauss(√(μ² - taken)) is -C/2, with C = δ'' - δ'.
        rate = np.maximum(0.5 * (averaged(curves[2], self.bins[0]) - slope), 1e-300)
        missing = float(np.max((needed - least) / rate[:-1]))
        return max(missing, (outside - allowed) / (self.leftover + float(rate[-1])))

    def proves(self, taken: float) -> bool:
        """Whether a price is proved."""
        return 0 < taken <= MOST * self.mu**2 * (1.0 + 1e-9) and self.missing(taken) <= 0


#: Share of δ₁ for what lies beyond the windows. Releases use it in proportion to their prices: it is never exceeded.
_LEFTOVER = 1e-3

#: P-mass of a release beyond its row, as a share of δ₁; what is cheaper to leave out is left out.
TAIL = 1e-17

#: Budgets outside of this have no residue: the others serve them.
_SMALLEST_DELTA = 1e-200
_LARGEST_MU = 20.0
_LARGEST_EPSILON = 600.0

#: The row of μ: so many for each factor of two. Below this share of the first μ nothing more is allowed.
_PER_OCTAVE = 128
_LEAST = 2.0**-10

#: Releases that take about this share of μ² or more are priced at μ itself.
_LARGE = 0.1

#: A price is sought to this, relative, in so many rounds at most.
_ACCURACY = 1e-4
_ROUNDS = 12

#: The first μ is smaller than need be by this, relative.
_START_MARGIN = 1e-9

#: Added to a price that was proved, so that others who prove it again do so in spite of their rounding errors.
_EXTRA = 1e-6


@lru_cache(maxsize=256)
def start(epsilon: float, delta: float) -> float | None:
    """The largest μ with δ of Gauss(μ) at ε at most δ, rounded down; None where there is no use for one."""
    if delta < _SMALLEST_DELTA or epsilon > _LARGEST_EPSILON:
        return None
    target = math.log(delta) + math.log1p(-_LEFTOVER)

    def excess(log_mu: float) -> float:
        reached = float(curve(math.exp(log_mu), np.array([epsilon]))[0][0])
        return math.log(max(reached, 1e-300)) + 2 * ROUNDING - target

    low, high = math.log(epsilon) - 9.0, math.log(_LARGEST_MU)
    if not (low < high and excess(low) < 0 < excess(high)):
        return None
    log_mu = root_within(excess, low, high, inward=lambda x: x - 1e-13 * (1.0 + abs(x)), xtol=1e-13)
    return math.exp(log_mu) * (1.0 - _START_MARGIN)


def is_valid_start(mu: float | None, epsilon: float, delta: float) -> bool:
    """Whether a budget may begin with this μ: not above `start`, but for another machine's rounding errors."""
    first = start(epsilon, delta)
    return mu is None or (first is not None and 0 < mu <= first * (1.0 + 0.1 * _START_MARGIN))


def after(mu: float, parts: tuple[NoisyPart, ...], epsilon: float, delta: float) -> float | None:
    """The μ' that is left of μ with a release of these parts, for a budget that began at `start(ε, δ)`; None: dead."""
    square = _less_gaussian(mu, parts)
    others = _others(parts)
    if others and square > 0:
        taken = _price_at(square, others, epsilon, delta)
        square = square - Fraction(taken) if taken is not None else Fraction(0)
    return _root(square) if square > 0 else None


def is_valid(mu: float, left: float, parts: tuple[NoisyPart, ...], epsilon: float, delta: float) -> bool:
    """Whether μ' = `left` is proved to be valid after μ: by the price that `after` takes, or by a proof of its own."""
    square = _less_gaussian(mu, parts)
    others = _others(parts)
    taken = square - Fraction(left) ** 2
    if not others or square <= 0:
        return square > 0 and left > 0 and taken >= 0
    price = _price_at(square, others, epsilon, delta)
    if price is not None and taken >= Fraction(price) * (1 - Fraction(1, 10**9)):
        return True
    comparison = _comparison(others, epsilon, delta, _anchor(square, others, epsilon, delta))
    return comparison is not None and left > 0 and comparison.proves(float(taken) * (1.0 - 1e-12))


def _others(parts: tuple[NoisyPart, ...]) -> tuple[NoisyPart, ...]:
    return tuple(part for part in parts if not is_gaussian(part.noise))


def _less_gaussian(mu: float, parts: tuple[NoisyPart, ...]) -> Fraction:
    """μ² less that of the Gaussian parts, exactly."""
    square = Fraction(mu) ** 2
    for part in parts:
        if is_gaussian(part.noise):
            square -= part.coordinates * Fraction(part.shift) ** 2 * Fraction(part.noise.curvature)
    return square


def _root(square: Fraction) -> float:
    """The square root, rounded down."""
    root = math.sqrt(float(square))
    while root > 0 and Fraction(root) ** 2 > square:
        root = math.nextafter(root, 0.0)
    return root


def _anchor(square: Fraction, parts: tuple[NoisyPart, ...], epsilon: float, delta: float) -> float:
    """The μ, not above the one with this square, at which a release is priced; 0 where nothing is allowed any more."""
    first = start(epsilon, delta)
    loss = loss_of(parts, TAIL * delta)
    mu = _root(square)
    if first is None or loss is None or mu < first * _LEAST:
        return 0.0
    if 2.0 * loss.mean > _LARGE * mu**2:
        return mu
    place = max(math.ceil(_PER_OCTAVE * math.log2(first / mu)) - 1, 0)
    while first * 2.0 ** (-place / _PER_OCTAVE) > mu:
        place += 1
    return float(first * 2.0 ** (-place / _PER_OCTAVE))


def _price_at(square: Fraction, parts: tuple[NoisyPart, ...], epsilon: float, delta: float) -> float | None:
    return price(parts, epsilon, delta, _anchor(square, parts, epsilon, delta))


@lru_cache(maxsize=65536)
def price(parts: tuple[NoisyPart, ...], epsilon: float, delta: float, mu: float) -> float | None:
    """Find the price of a release in μ²: proved, and close to the least; None if it is too much."""
    comparison = _comparison(parts, epsilon, delta, mu)
    if comparison is None:
        return None
    # Newton's steps, from about the right price on. Whatever is proved is valid: they need not be exact.
    most = MOST * mu**2
    candidate, proved = min(comparison.likely, most), None
    for _ in range(_ROUNDS):
        missing = comparison.missing(candidate)
        if missing <= 0:
            proved = candidate
            candidate += missing
            if proved - candidate <= _ACCURACY * proved:
                break
            candidate += 0.2 * _ACCURACY * proved
        elif proved is not None or candidate >= most:
            break
        else:
            candidate = min(candidate + missing * (1.0 + 1e-3) + 0.2 * _ACCURACY * candidate, most)
    return proved * (1.0 + _EXTRA) if proved is not None else None


@lru_cache(maxsize=64)
def _comparison(parts: tuple[NoisyPart, ...], epsilon: float, delta: float, mu: float) -> Comparison | None:
    first, loss = start(epsilon, delta), loss_of(parts, TAIL * delta)
    if first is None or loss is None or mu <= 0:
        return None
    return Comparison.of(loss, mu, _LEFTOVER * delta / first**2)
