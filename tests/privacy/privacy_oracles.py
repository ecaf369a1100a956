"""Other ways to the same numbers: none of them shares code with the accounting."""

import math

import mpmath as mp
import numpy as np
from flint import arb, arb_poly, ctx
from scipy.special import wofz


def normal_tail(x):
    """Q(x) of the standard normal distribution."""
    return mp.erfc(x / mp.sqrt(2)) / 2


def gaussian_delta(mu, epsilon):
    """The analytic Gaussian mechanism with sensitivity/σ = mu."""
    with mp.workdps(50):
        mu, epsilon = mp.mpf(mu), mp.mpf(epsilon)
        return normal_tail(epsilon / mu - mu / 2) - mp.exp(epsilon) * normal_tail(epsilon / mu + mu / 2)


def theorem_1(noise, shift, epsilon):
    """Theorem 1 of the paper as it stands, with digits to spare; the Laplace end by its own formula."""
    with mp.workdps(60):
        a, c = mp.mpf(noise.slope), mp.mpf(noise.curvature)
        shift, epsilon = mp.mpf(shift), mp.mpf(epsilon)
        if c == 0:
            return 1 - mp.exp((epsilon - a * shift) / 2) if epsilon < a * shift else mp.mpf(0)
        m, sigma = a / c, 1 / mp.sqrt(c)
        if sigma**2 * epsilon / shift <= shift / 2 + m:
            b = sigma / (2 * m + shift)
            inner = normal_tail(1 / (2 * b) - b * epsilon) + mp.exp(epsilon) * normal_tail(1 / (2 * b) + b * epsilon)
            return 1 - inner / (2 * normal_tail(m / sigma))
        b = sigma / shift
        inner = normal_tail(b * epsilon - 1 / (2 * b)) - mp.exp(epsilon) * normal_tail(b * epsilon + 1 / (2 * b))
        return inner / (2 * normal_tail(m / sigma))


def renyi_by_quadrature(noise, shift, alpha):
    """Rényi divergence of one continuous coordinate by numerical integration of its definition."""
    with mp.workdps(30):
        a, c = mp.mpf(noise.slope), mp.mpf(noise.curvature)
        shift, alpha = mp.mpf(shift), mp.mpf(alpha)

        def potential(y):
            return a * abs(y) + c * y * y / 2

        scale = 1 / (a + mp.sqrt(c))
        centre = max((alpha - 1) * shift - a / c, 0) if c else mp.mpf(0)
        breaks = {mp.mpf(0), -shift, -shift / 2, centre}
        for k in (1, 3, 8, 20, 50, 120):
            breaks |= {-shift - k * scale, centre + k * scale, k * scale}
            breaks |= {centre - k * scale} if centre > k * scale else set()
        breaks = sorted(breaks)
        top = (alpha - 1) * (potential(centre + shift) - potential(centre)) - potential(centre)
        total = mp.quad(
            lambda y: mp.exp((alpha - 1) * (potential(y + shift) - potential(y)) - potential(y) - top), breaks
        )
        norm = 2 * mp.quad(lambda y: mp.exp(-potential(y)), [0, scale, 3 * scale, 8 * scale, 30 * scale, 120 * scale])
        return (mp.log(total / norm) + top) / (alpha - 1)


def moment(noise, shift, s):
    """E_P[exp(s·loss)] at complex s: the three integrals of Appendix E, by the Faddeeva function."""
    a, c = noise.slope, noise.curvature
    step = a * shift + c * shift**2 / 2

    def half_line(b):
        return math.sqrt(math.pi / (2 * c)) * wofz(1j * b / math.sqrt(2 * c))

    b = a + s * (2 * a + c * shift)
    above = np.exp(s * step) * half_line(a - s * c * shift)
    between = np.exp(s * step) * (half_line(b) - np.exp(-(1 + 2 * s) * step) * half_line(b + c * shift))
    below = np.exp(-(1 + s) * step) * half_line(a + (1 + s) * c * shift)
    return (above + between + below) / (2 * half_line(a))


def contour_delta(parts, epsilon, nodes=4000):
    """δ(ε) of a composition of (noise, shift, coordinates) by an integral along the saddle point's line."""

    def exponent(s):
        return sum(n * np.log(moment(noise, shift, s)) for noise, shift, n in parts) - s * epsilon

    def height(t):
        return float(np.real(exponent(t + 0j))) - math.log(t * (1 + t))

    ts = np.geomspace(1e-3, 1e5, 4000)
    with np.errstate(all="ignore"):
        heights = np.array([height(t) for t in ts])
    t = ts[np.nanargmin(np.where(np.isfinite(heights), heights, np.nan))]
    curvature = (height(t * 1.01) + height(t * 0.99) - 2 * height(t)) / (0.01 * t) ** 2
    step = 24 / math.sqrt(curvature) / nodes * 2
    omega = (np.arange(nodes) + 0.5) * step
    s = t + 1j * omega
    # log of the moment on the line, continued from the real axis
    phase = [n * np.log(np.abs(moment(z, d, s))) + 1j * n * np.unwrap(np.angle(moment(z, d, s))) for z, d, n in parts]
    values = np.exp(sum(phase) - s * epsilon - height(t)) / (s * (1 + s))
    return math.exp(height(t)) * float(np.sum(np.real(values))) * step / math.pi


def atoms(noise, shift, reach):
    """(loss, probability) of every integer in ±reach."""
    k = np.arange(-reach, reach + 1.0)
    potential = noise.slope * np.abs(k) + noise.curvature * k * k / 2
    moved = noise.slope * np.abs(k + shift) + noise.curvature * (k + shift) ** 2 / 2
    weights = np.exp(-potential)
    return moved - potential, weights / math.fsum(weights)


def enumerated_delta(parts, epsilon):
    """δ(ε) of a few discrete coordinates, by going through all their outcomes."""
    loss, mass = np.zeros(1), np.ones(1)
    for noise, shift, n in parts:
        one_loss, one_mass = atoms(noise, shift, int(noise.isf(1e-22)) + 10)
        for _ in range(n):
            loss = (loss[:, None] + one_loss).ravel()
            mass = (mass[:, None] * one_mass).ravel()
    above = loss > epsilon
    return math.fsum(mass[above] * -np.expm1(epsilon - loss[above]))


def arb_delta(m, curvature, shift, coordinates, epsilon):
    """A ball that contains δ(ε) of the discrete noise with an integer m: its losses are multiples of curvature/2.

    Direct convolution of polynomials with ball coefficients; what lies beyond the truncation widens the ball.
    """
    precision, ctx.prec = ctx.prec, 400
    try:
        c = arb(curvature)
        reach = math.ceil(math.sqrt(2 * 250 / curvature)) + shift

        def weight(k):
            return (-(c * m * abs(k) + c * k * k / 2)).exp()

        def index(k):  # loss / (c/2)
            return 2 * m * (abs(k + shift) - abs(k)) + (k + shift) ** 2 - k * k

        norm = sum((weight(k) for k in range(-reach, reach + 1)), arb(0))
        tail = weight(reach) * 4 / (1 - weight(1))  # more than both tails beyond the reach
        lowest = index(-reach)
        coefficients = [arb(0)] * (index(reach) - lowest + 1)
        for k in range(-reach, reach + 1):
            coefficients[index(k) - lowest] += weight(k) / norm
        total = arb_poly(coefficients) ** coordinates
        result = arb(0)
        for i, mass in enumerate(total.coeffs()):
            loss = c / 2 * (i + coordinates * lowest)
            if loss > epsilon:
                result += mass * (1 - (arb(epsilon) - loss).exp())
        error = coordinates * tail / norm * 2
        return float((result - error).lower()), float((result + error).upper())
    finally:
        ctx.prec = precision


def random_smaller(rng, shift, coordinates, *, whole):
    """Changes of at most `coordinates` coordinates by at most `shift`."""
    changed = int(rng.integers(1, coordinates + 1))
    if whole:
        return [int(d) for d in rng.integers(1, int(shift) + 1, changed)]
    return [float(d) for d in shift * rng.uniform(0.05, 1.0, changed)]


def listed_losses(parts, least=1e-40):
    """(loss, probability) of every sum of losses of a few integer coordinates, with 50 digits; equal sums are one.

    Each loss of one part is a whole number of times two others of its own, so that equal sums are known exactly.
    """
    total = {(): mp.mpf(1)}
    with mp.workdps(50):
        values = []
        for noise, shift, n in parts:
            a, c = mp.mpf(noise.slope), mp.mpf(noise.curvature)
            reach = int(noise.isf(least)) + 2
            weights = {k: mp.exp(-(a * abs(k) + c * k * k / 2)) for k in range(-reach, reach + 1)}
            norm = mp.fsum(weights.values())
            one = {}
            for k, weight in weights.items():
                # |k + shift| - |k| times the slope, and (k + shift)² - k² times half the curvature
                key = (abs(k + shift) - abs(k), (k + shift) ** 2 - k * k if c else 0)
                one[key] = one.get(key, 0) + weight / norm
            values.append((a, c / 2))
            law = {(0, 0): mp.mpf(1)}
            for _ in range(n):
                grown = {}
                for (i, j), p in law.items():
                    for (x, y), q in one.items():
                        if p * q > least:
                            grown[i + x, j + y] = grown.get((i + x, j + y), 0) + p * q
                law = grown
            total = {(*key, *own): p * q for key, p in total.items() for own, q in law.items() if p * q > least}
        rates = [rate for pair in values for rate in pair]
        return [(mp.fdot(zip(key, rates, strict=True)), p) for key, p in total.items()]


def listed_delta(losses, epsilon):
    """δ(ε) from `listed_losses`."""
    with mp.workdps(50):
        epsilon = mp.mpf(epsilon)
        return mp.fsum(p * -mp.expm1(epsilon - loss) for loss, p in losses if loss > epsilon)


def sums_of_integer_losses(parts, floor=-90.0, most=10**6):
    """Losses in ascending order and log-probabilities of all sums, in floats; None where they are too many.

    Losses are told apart down to 1e-13 of themselves, and what has less than exp(floor) is left out.
    """
    loss, log_p = np.zeros(1), np.zeros(1)
    for noise, shift, n in parts:
        k = np.arange(-int(noise.isf(1e-60)) - 5, int(noise.isf(1e-60)) + 6.0)
        weights = -(noise.slope * np.abs(k) + noise.curvature * k * k / 2)
        one_p = weights - math.log(math.fsum(np.exp(weights)))
        gap, near = np.clip(2 * k + shift, -shift, shift), np.minimum(np.abs(k), np.abs(k + shift))
        one_loss = gap * (noise.slope + noise.curvature * (near + np.abs(gap) / 2))
        for _ in range(n):
            if len(loss) * len(one_loss) > most:
                return None
            loss, log_p = (loss[:, None] + one_loss).ravel(), (log_p[:, None] + one_p).ravel()
            kept = np.flatnonzero(log_p > floor)
            order = kept[np.argsort(loss[kept])]
            loss, log_p = loss[order], log_p[order]
            heads = np.flatnonzero(np.diff(loss, prepend=-np.inf) > 1e-13 * (1 + np.abs(loss)))
            loss, log_p = loss[heads], np.logaddexp.reduceat(log_p, heads)
    return loss, log_p


def renyi_exactly(noise, shift, s):
    """log E_P[exp(s·loss)] from the definition: Appendix E with 400 digits on the reals, a sum on the integers."""
    a, c, shift = mp.mpf(noise.slope), mp.mpf(noise.curvature), mp.mpf(shift)
    if hasattr(noise, "pmf"):
        with mp.workdps(50):
            s, whole = mp.mpf(s), int(shift)
            reach = int(noise.isf(1e-60)) + whole + 5
            far = reach + (int(max(0, s * shift - a / c)) if c else 0)
            potential = [a * k + c * k * k / 2 for k in range(far + reach + whole + 1)]
            norm = mp.fsum(mp.exp(-potential[abs(k)]) for k in range(-reach, reach + 1))
            terms = (
                mp.exp(s * potential[abs(k + whole)] - (1 + s) * potential[abs(k)]) for k in range(-reach, far + 1)
            )
            return mp.log(mp.fsum(terms) / norm)
    with mp.workdps(400):
        s = mp.mpf(s)

        def half_line(b):
            return mp.sqrt(mp.pi / (2 * c)) * mp.exp(b * b / (2 * c)) * mp.erfc(b / mp.sqrt(2 * c)) if c else 1 / b

        step = shift * (a + c * shift / 2)
        total = mp.exp(s * step) * (half_line(a - s * c * shift) + half_line(a + s * (2 * a + c * shift)))
        near = a + (1 + s) * c * shift
        total += mp.exp(-(1 + s) * step) * (half_line(near) - half_line(near + 2 * s * a))
        return mp.log(total / (2 * half_line(a)))
