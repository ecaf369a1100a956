"""The Gaussian residue: a number μ such that all that may still follow is dominated by Gauss(μ).

Gauss(μ) is the pair of unit normal distributions μ apart. A release with dominating pair g moves μ to a μ' for which
g ⊗ Gauss(μ') is dominated by Gauss(μ), at every ε. Backward from the last round: if whatever follows is dominated by
Gauss(μ'), then the release and what follows are dominated by g ⊗ Gauss(μ'), hence by Gauss(μ). Any such μ' is valid;
the larger the better. For Gaussian noise on the reals μ² - μ'² is exactly the square of its own μ.
"""

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq

from osgt.noise import OSGT
from osgt.privacy import Part, single
from osgt.privacy.closed_forms import is_gaussian
from osgt.privacy.pair import pair_of


@lru_cache(maxsize=256)
def start(epsilon: float, delta: float) -> float | None:
    """The largest μ with δ of Gauss(μ) at ε at most δ, rounded down; None where there is no use for one."""
    if delta <= 0:
        return None

    def excess(log_mu: float) -> float:
        reached = float(single.delta(pair_of(OSGT.gaussian(1.0), math.exp(log_mu)), np.asarray(epsilon)))
        return math.log(max(reached, 1e-320)) - math.log(delta)

    low, high = math.log(epsilon) - 9.0, math.log(4.0 * math.sqrt(epsilon) + 2.0 * epsilon + 10.0)
    if not excess(low) < 0 < excess(high):
        return None
    log_mu = brentq(excess, low, high, xtol=1e-12)
    while excess(log_mu) > 0:
        log_mu -= 1e-12 * (1.0 + abs(log_mu))
    return math.exp(log_mu) * (1.0 - 1e-12)


def after(mu: float, parts: tuple[Part, ...], epsilon: float, delta: float) -> float | None:
    """The μ' that is left of μ with a release of these parts, for a budget that began at `start(ε, δ)`; None: dead."""
    gaussian = [part for part in parts if is_gaussian(part.noise)]
    square = Fraction(mu) ** 2
    for part in gaussian:
        square -= part.coordinates * Fraction(part.shift) ** 2 * Fraction(part.noise.curvature)
    if len(gaussian) < len(parts) or square <= 0:
        return None
    return math.nextafter(math.sqrt(float(square)), 0.0) * (1.0 - 2.0**-52)
