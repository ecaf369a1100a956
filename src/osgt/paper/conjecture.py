"""The conjecture of Section IV-A: is δ(ε) smaller with the OSGT than with the Gaussian in k > 1 dimensions?

Both have the same variance in each coordinate, and one person changes every coordinate by Δ = 1.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from osgt.noise import OSGT
from osgt.paper.figures import EIGHT, Trio, log_ratio, of_shape
from osgt.privacy import PrivacyProfile
from osgt.support.numeric import Floats

#: Variance of a coordinate, close to the paper's eight-dimensional example.
VARIANCE = 400.0
FIXED_EPSILON = 1.0
#: δ beyond these are of no practical use, or below what the map should spend its time on.
_SMALLEST = 1e-40
#: δ of the OSGT is a bound, above the exact value by at most this part. Near the Gaussian end the two δ are so close
#: that the usual slack would move the border (no cell of the maps changes its side).
_SLACK = 1e-5


@dataclass(frozen=True)
class ConjectureMap:
    """log₁₀(δ Gaussian/δ OSGT) over coordinates and ε, and over coordinates and m/σ: the conjecture holds where > 0.

    NaN where both δ are below 1e-40. The `laplace_…` maps are log₁₀(δ OSGT/δ Laplace) there: the Laplace of
    the same variance beats the OSGT where > 0.
    """

    variance: float
    coordinates: Floats
    epsilons: Floats
    shape: float
    by_epsilon: Floats
    laplace_by_epsilon: Floats
    shapes: Floats
    fixed_epsilon: float
    by_shape: Floats
    laplace_by_shape: Floats
    threshold_coordinates: Floats
    #: m/σ to the δ of the Gaussian below which the conjecture holds, for each of `threshold_coordinates`.
    thresholds: dict[float, Floats]


def conjecture(progress: Callable[[], object] = lambda: None, *, fine: bool = True) -> ConjectureMap:
    """Compute the maps. `progress` is called after each of `steps(fine)` parts."""
    counts = _counts(fine)
    epsilons = np.geomspace(0.03, 10, 40 if fine else 12)
    shape = EIGHT[0] / math.sqrt(EIGHT[1])
    shapes = np.geomspace(0.05, 8, 20 if fine else 5)
    by_epsilon, by_shape = [], []
    for count in counts:
        by_epsilon.append(_advantage(of_shape(shape, VARIANCE), int(count), epsilons))
        progress()
    for z in shapes:
        noise, at = of_shape(z, VARIANCE), np.array([FIXED_EPSILON])
        by_shape.append([np.ravel(_advantage(noise, int(count), at)) for count in counts])
        progress()
    over_epsilon, over_shape = np.moveaxis(np.array(by_epsilon), 1, 0), np.moveaxis(np.array(by_shape), 2, 0)
    few = np.array([1, 2, 4, 8, 16, 32, 64, 128] if fine else [1, 8], dtype=np.float64)
    thresholds = {}
    for z in (0.25, shape, 1.5):
        thresholds[z] = np.array([threshold(z, int(count))[1] for count in few])
        progress()
    return ConjectureMap(
        variance=VARIANCE,
        coordinates=counts,
        epsilons=epsilons,
        shape=shape,
        by_epsilon=over_epsilon[0],
        laplace_by_epsilon=over_epsilon[1],
        shapes=shapes,
        fixed_epsilon=FIXED_EPSILON,
        by_shape=over_shape[0],
        laplace_by_shape=over_shape[1],
        threshold_coordinates=few,
        thresholds=thresholds,
    )


def steps(fine: bool = True) -> int:
    """Count the times that `conjecture` reports progress."""
    return len(_counts(fine)) + (20 if fine else 5) + 3


def _counts(fine: bool) -> Floats:
    return np.unique(np.round(np.geomspace(1, 2048, 30 if fine else 8)))


def _advantage(noise: OSGT, coordinates: int, epsilons: Floats) -> tuple[Floats, Floats]:
    """log₁₀ of δ Gaussian/δ OSGT, and of δ OSGT/δ Laplace, where δ of the Gaussian is worth looking at."""
    osgt, gaussian, laplace = Trio.of(noise).profiles(coordinates)
    rival = np.asarray(gaussian.delta(epsilons))
    useful = rival > _SMALLEST
    first, second = np.full(len(epsilons), np.nan), np.full(len(epsilons), np.nan)
    if np.any(useful):
        at = epsilons[useful]
        own, pure = np.asarray(osgt.delta(at)), np.asarray(laplace.delta(at))
        first[useful] = log_ratio(rival[useful], own) / math.log(10)
        # Where the Laplace gives δ = 0 any large number does: only the sign is drawn.
        second[useful] = np.minimum(log_ratio(own, pure) / math.log(10), 10.0)
    return first, second


def threshold(shape: float, coordinates: int, variance: float = VARIANCE) -> tuple[float, float]:
    """The ε from which on the conjecture holds, and the δ of the Gaussian there; all smaller δ are on its side too.

    NaN where it does not turn before δ = 1e-250.
    """
    osgt, gaussian, _ = Trio.of(of_shape(shape, variance)).profiles(coordinates)
    end = float(gaussian.epsilon(1e-250))

    def difference(epsilon: float) -> float:
        return float(log_ratio(osgt.delta(epsilon, slack=_SLACK), gaussian.delta(epsilon)))

    low = float(gaussian.epsilon(min(0.3, 0.9 * float(gaussian.delta(0.0)))))
    if difference(low) < 0:
        return 0.0, float(gaussian.delta(0.0))
    if not difference(end) < 0:
        return math.nan, math.nan
    epsilon = float(brentq(difference, low, end, xtol=1e-6 * end, rtol=1e-8))
    return epsilon, float(gaussian.delta(epsilon))


def information_excess(shape: float) -> float:
    """V·I - 1 ≥ 0, I the Fisher information: how much more privacy the OSGT loses than the Gaussian as k → ∞."""
    noise = OSGT(shape, 1.0)
    return noise.var() * noise.fisher_information() - 1.0


def divergence_turn(shape: float) -> float:
    """The Δ, in standard deviations, beyond which the OSGT has the smaller Kullback–Leibler divergence.

    Below it the conjecture fails at every fixed δ for all large k; above it (noise hardly larger than what it hides)
    it does not.
    """
    noise = of_shape(shape, 1.0)
    gaussian = OSGT.gaussian(1.0)
    order = 1.0 + 1e-7  # so near to 1 that the divergence is Kullback and Leibler's to seven digits

    def difference(shift: float) -> float:
        return float(PrivacyProfile(noise, shift).renyi(order) / PrivacyProfile(gaussian, shift).renyi(order) - 1.0)

    return float(brentq(difference, 0.2, 20.0, xtol=1e-6))
