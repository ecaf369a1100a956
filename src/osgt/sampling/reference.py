"""The reference sampler: slow, and obviously right.

Everything in this module is exact: integers and `Fraction`s only, and every random bit comes from `uniform_below`.
Parameters are rational numbers; a float stands for the rational number that it is.

The building blocks follow Canonne, Kamath and Steinke, *The Discrete Gaussian for Differential Privacy* (2020), and
Karney, *Sampling Exactly from the Normal Distribution* (2016).
"""

from fractions import Fraction
from math import floor, isqrt

from osgt.sampling.entropy import ByteSource, system_entropy


def uniform_below(n: int, source: ByteSource = system_entropy) -> int:
    """Return an integer that is uniform on 0, …, n-1."""
    if n < 1:
        raise ValueError(f"n must be an integer ≥ 1, got {n!r}")
    bits = (n - 1).bit_length()
    while True:
        value = int.from_bytes(source.read((bits + 7) // 8).tobytes(), "big") >> (-bits % 8)
        if value < n:
            return value


def bernoulli(p: Fraction, source: ByteSource = system_entropy) -> bool:
    """Return True with probability p, for a rational 0 ≤ p ≤ 1."""
    if not 0 <= p <= 1:
        raise ValueError(f"p must be a probability, got {p!r}")
    return uniform_below(p.denominator, source) < p.numerator


def bernoulli_exp(x: Fraction, source: ByteSource = system_entropy) -> bool:
    """Return True with probability exp(-x), for a rational x ≥ 0."""
    while x > 1:
        if not bernoulli_exp(Fraction(1), source):
            return False
        x -= 1
    # The first k with a failure among Bernoulli(x/1), Bernoulli(x/2), … is odd with probability exp(-x).
    k = 1
    while bernoulli(x / k, source):
        k += 1
    return k % 2 == 1


def geometric_exp(x: Fraction, source: ByteSource = system_entropy) -> int:
    """Return k ≥ 0 with probability (1 - exp(-x))·exp(-k·x), for a rational x > 0."""
    # With x = s/t: k = ⌊(u + t·v)/s⌋, where u is uniform on 0, …, t-1 and kept with probability exp(-u/t).
    s, t = x.numerator, x.denominator
    while True:
        u = uniform_below(t, source)
        if bernoulli_exp(Fraction(u, t), source):
            break
    v = 0
    while bernoulli_exp(Fraction(1), source):
        v += 1
    return (u + t * v) // s


def discrete_laplace(rate: Fraction, source: ByteSource = system_entropy) -> int:
    """Return an integer y with probability proportional to exp(-rate·|y|), for a rational rate > 0."""
    while True:
        magnitude = geometric_exp(rate, source)
        negative = uniform_below(2, source) == 1
        if not (negative and magnitude == 0):  # zero must not count twice
            return -magnitude if negative else magnitude


def discrete_osgt(slope: float | Fraction, curvature: float | Fraction, source: ByteSource = system_entropy) -> int:
    """Return an integer y with probability proportional to exp(-slope·|y| - curvature·y²/2).

    A discrete Laplace proposal of rate r is kept with probability exp(-(slope - r)·|y| - curvature·y²/2 - K), where K
    makes the largest such probability at most one: completing the square, the exponent is
    curvature/2·(|y| - (r - slope)/curvature)² if r > slope, and needs no K otherwise.
    """
    a, c = Fraction(slope), Fraction(curvature)
    if a < 0 or c < 0 or a + c == 0:
        raise ValueError(f"slope and curvature must be ≥ 0 and not both zero, got {slope!r} and {curvature!r}")
    if c == 0:
        return discrete_laplace(a, source)
    sigma = isqrt(floor(1 / c)) + 1
    rate = max(a, Fraction(1, sigma))
    while True:
        y = discrete_laplace(rate, source)
        exponent = (a - rate) * abs(y) + c * y * y / 2 + (rate - a) ** 2 / (2 * c)
        if bernoulli_exp(exponent, source):
            return y


class _Bits:
    """A number uniform on [low, low + width), at first on [0, 1): more of its bits are drawn when they are needed."""

    def __init__(self, source: ByteSource) -> None:
        self._source, self.low, self.width = source, Fraction(0), Fraction(1)

    def draw(self) -> None:
        self.width /= 256
        self.low += uniform_below(256, self._source) * self.width


def _bernoulli_exp_at(x: _Bits, k: int, source: ByteSource) -> bool:
    """Return True with probability exp(-x·(2k + x)/(2k + 2)), an exponent below 1, as `bernoulli_exp` does."""
    n, u = 1, _Bits(source)
    while True:
        least, most = (v * (2 * k + v) / (2 * k + 2) for v in (x.low, x.low + x.width))
        if n * (u.low + u.width) <= least:
            n, u = n + 1, _Bits(source)
        elif n * u.low >= most:
            return n % 2 == 1
        else:
            u.draw()
            x.draw()


def rounded_gaussian(curvature: float | Fraction, source: ByteSource = system_entropy) -> int:
    """Return round(X/√curvature) for a standard normal X, by Karney's algorithm N.

    |X| = k + x with k ≥ 0, proposed with probability ∝ exp(-k²/2), and x uniform on [0, 1); they are kept with
    probability exp(-x·(2k + x)/2), in k + 1 equal factors.
    """
    while True:
        k, x = geometric_exp(Fraction(1, 2), source), _Bits(source)
        if not bernoulli_exp(Fraction(k * (k - 1), 2), source):
            continue
        if all(_bernoulli_exp_at(x, k, source) for _ in range(k + 1)):
            break
    while True:
        # The integer nearest to √q is ⌊(1 + ⌊√4q⌋)/2⌋.
        low, high = ((isqrt(floor(4 * (k + v) ** 2 / Fraction(curvature))) + 1) // 2 for v in (x.low, x.low + x.width))
        if low == high:
            return -low if uniform_below(2, source) else low
        x.draw()
