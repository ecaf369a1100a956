"""The Gaussian residue: a number μ such that all that may still follow is dominated by Gauss(μ).

Gauss(μ) is the pair of unit normal distributions μ apart. A release with dominating pair g moves μ to a μ' for which
g ⊗ Gauss(μ') is dominated by Gauss(μ), at every ε. Backward from the last round: if whatever follows is dominated by
Gauss(μ'), then the release and what follows are dominated by g ⊗ Gauss(μ'), hence by Gauss(μ). Any such μ' is valid;
the larger the better. For Gaussian noise on the reals μ² - μ'² is exactly the square of its own μ.

A price μ² - μ'² that is right at μ is right at every larger μ, since both sides may be composed with one more Gaussian.
So the prices of small releases are computed for a row of μ, each μ uses that of the next smaller one, and equal
releases share them.
"""

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq

from osgt.ledger import gauss
from osgt.ledger.comparison import MOST, ROUNDING, Comparison
from osgt.ledger.release_loss import loss_of
from osgt.privacy import NoisyPart
from osgt.privacy.closed_forms import is_gaussian

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
        reached = float(gauss.curve(math.exp(log_mu), np.array([epsilon]))[0][0])
        return math.log(max(reached, 1e-300)) + 2 * ROUNDING - target

    low, high = math.log(epsilon) - 9.0, math.log(_LARGEST_MU)
    if not (low < high and excess(low) < 0 < excess(high)):
        return None
    log_mu = brentq(excess, low, high, xtol=1e-13)
    while excess(log_mu) > 0:
        log_mu -= 1e-13 * (1.0 + abs(log_mu))
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
    """What a release takes of μ²: proved, and close to the least; None if it is too much."""
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
