"""δ of Gauss(μ), two unit normal distributions μ apart, at every real ε, with its derivatives.

With y = ε/μ - μ/2, φ the normal density and R(x) = Q(x)/φ(x) Mills' ratio,

    δ(ε) = φ(y)·(R(y) - R(y + μ)),    -δ' = B = φ(y)·R(y + μ),    δ'' = C - B,  C = φ(y)/μ,

and C' = -C·y/μ. Nothing cancels: R(y) - R(y + μ) is the integral of 1 - x·R(x) where μ is small.
"""

import math

import numpy as np
from scipy.special import erfcx, ndtr

from osgt.noise.mills import Floats

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(7)

#: From this μ on R(y) - R(y + μ) is taken as it stands.
_WIDE = 0.7

_HALF_PI = math.sqrt(0.5 * math.pi)


def curve(mu: float, epsilon: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """δ(ε) and its first three derivatives, to about 1e-14 relative to δ and to the sizes of B and C."""
    size = np.abs(epsilon)
    y = size / mu - 0.5 * mu
    density = _density(y)
    if mu < _WIDE:
        gap = np.zeros_like(y)
        for node, weight in zip(_NODES, _WEIGHTS, strict=True):
            x = y + (0.5 + 0.5 * node) * mu
            gap += (0.5 * weight * mu) * (1.0 - x * _mills(x))
        delta = density * gap
    else:
        tail = density * _mills(np.maximum(y + mu, 0.0))
        near = np.maximum(y, 0.0)
        delta = np.where(y < 0, ndtr(-y) - tail, density * (_mills(near) - _mills(near + mu)))
    # δ(-ε) = 1 - exp(-ε) + exp(-ε)·δ(ε): the pair is symmetric.
    delta = np.where(epsilon < 0, -np.expm1(-size) + np.exp(-size) * delta, delta)
    b, c, y = _rates(mu, epsilon)
    c_slope = -c * y / mu
    return delta, -b, c - b, c + c_slope - b


def fourth(mu: float, epsilon: Floats, reach: float) -> Floats:
    """Upper bound on |δ''''| = |C + C' + C'' - B| within `reach` of each ε."""
    y = epsilon / mu - 0.5 * mu
    step = reach / mu
    far = np.abs(y) + step
    c = _density(np.maximum(np.abs(y) - step, 0.0)) / mu
    b = np.exp(epsilon + reach) * ndtr(step - y - mu)
    return np.asarray((b + c * (1.0 + far / mu + np.maximum(far * far, 1.0) / mu**2)) * (1.0 + 1e-9))


def _rates(mu: float, epsilon: Floats) -> tuple[Floats, Floats, Floats]:
    y = epsilon / mu - 0.5 * mu
    return np.exp(epsilon) * ndtr(-y - mu), _density(y) / mu, y


def _density(y: Floats) -> Floats:
    return np.asarray(np.exp(-0.5 * y * y) / math.sqrt(2.0 * math.pi), dtype=np.float64)


def _mills(x: Floats) -> Floats:
    return np.asarray(_HALF_PI * erfcx(x / math.sqrt(2.0)), dtype=np.float64)
