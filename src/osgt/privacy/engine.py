"""δ and ε of a composition: rigorous upper bounds from tilted laws of the privacy loss on a grid.

With the tilted composed masses t(l), the factor exp(Λ) that was divided out, and u = l - ε,

    δ(ε) = exp(Λ - θε) · Σ over u > 0 of t(l)·exp(-θu)(1 - exp(-u)).

The tilt θ is the saddle point at which losses near ε are typical, so that window and rounding errors are relative to δ
itself, whatever its size. Coordinates that give little away are cut on a finer grid, composed four at a time and
handed to the grid of twice the step, so that the cost grows with the logarithm of their number.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from osgt.noise.mills import Floats
from osgt.privacy.cells import UNIT
from osgt.privacy.cumulant import Cumulant
from osgt.privacy.grid import GridLaw, coarsen, compose, cut, dot
from osgt.privacy.pair import POSITION_ERROR, Pair

#: Upper bounds below this are returned as this: the smallest normal float.
TINY = float(np.finfo(np.float64).tiny)

#: Tilted mass that a coordinate may leave outside its window, over all coordinates.
_CUT_TOLERANCE = 1e-10

#: Coordinates that differ in spread by less than this share a grid.
_SHARED_GRID = 4.0

#: coordinates·θ beyond which the rounding of differences of tails would be felt in δ.
_PRECISE = 1e6

#: Parts up to which an ε is checked by a second composition.
_CHECKED = 8

#: Sum of the losses at the kinks beyond which nothing is computed.
_LARGEST_LOSS = 1e9

#: The most by which the tilt may change a mass from one grid point to the next, as a logarithm.
_STEEPEST = 20.0

_GROUP = 4
_MOST_CELLS = 2**17
_REFINEMENTS = 2


@dataclass(frozen=True)
class Composed:
    """The tilted law of the composed loss, and what it says about δ."""

    law: GridLaw
    theta: float
    log_factor: float
    log_beyond: float
    loss_error: float

    def delta(self, epsilon: float) -> float:
        """Upper bound on δ(ε)."""
        log_bound = self.log_delta(epsilon)
        return min(max(math.exp(min(log_bound, 0.0)), TINY), 1.0)

    def log_delta(self, epsilon: float) -> float:
        """Logarithm of the upper bound on δ(ε); may exceed 0."""
        law, theta = self.law, self.theta
        epsilon -= self.loss_error  # losses are exact to this: the true ones may be so much higher
        first = min(max(math.floor(epsilon / law.step) + 1 - law.start, 0), len(law.masses))
        last = min(len(law.masses), first + math.ceil(60.0 / (max(theta, 1e-300) * law.step)) + 1)
        u = (law.start + np.arange(first, last)) * law.step - epsilon
        weights = np.exp(-theta * u) * -np.expm1(-u)
        inside = dot(law.masses[first:last], weights)
        beyond = float(np.sum(law.masses[last:])) * math.exp(-60.0)
        total = inside + beyond + law.lost * largest_weight(theta)
        if total <= 0:
            return self.log_beyond
        log_total = math.log(total) + self.log_factor - theta * epsilon
        # The factor is a sum of logarithms: its own rounding, and that of the product with θ.
        log_total += 8 * UNIT * (abs(self.log_factor) + theta * abs(epsilon) + 8.0)
        bound = float(np.logaddexp(log_total, self.log_beyond))
        return 0.0 if math.isnan(bound) else bound  # losses beyond all floats: δ ≤ 1 is what remains

    def serves(self, epsilon: float, slack: float) -> bool:
        """Whether the bound at ε is as close as the slack asks."""
        log_lost = math.log(max(self.law.lost, TINY) * largest_weight(self.theta))
        log_lost += self.log_factor - self.theta * epsilon
        log_delta = self.log_delta(epsilon)
        return max(log_lost, self.log_beyond) - log_delta < math.log(0.1 * slack) and self.slack(epsilon) < slack

    def slack(self, epsilon: float) -> float:
        """Estimate of (bound - δ)/δ: half the variance that the grid has added times the density of the loss at ε."""
        law, theta = self.law, self.theta
        reach = max(3.0 * math.sqrt(law.spread), law.step)
        centre = epsilon / law.step - law.start
        low, high = (math.floor(centre - reach / law.step), math.ceil(centre + reach / law.step))
        near = np.arange(max(low, 0), min(high + 1, len(law.masses)))
        if len(near) == 0:
            return 0.0
        u = (law.start + near) * law.step - epsilon
        density = dot(law.masses[near], np.exp(-theta * u)) / ((high - low) * law.step)
        log_density = math.log(density) + self.log_factor - theta * epsilon if density > 0 else -math.inf
        return 0.5 * law.spread * math.exp(min(log_density - self.log_delta(epsilon), 300.0))


def largest_weight(theta: float) -> float:
    """max over u ≥ 0 of exp(-θu)(1 - exp(-u)) = θ^θ/(1 + θ)^(1 + θ)."""
    if theta == 0:
        return 1.0
    return math.exp(-theta * math.log1p(1.0 / theta)) / (1.0 + theta)


def _most_cells(slack: float) -> float:
    """Length of the longest row: time and memory are bounded, also where the slack is then not reached."""
    return _MOST_CELLS * min(max(math.sqrt(1e-4 / slack), 1.0), 16.0)


def composed(
    cumulant: Cumulant,
    pairs: list[Pair],
    coordinates: list[int],
    *,
    theta: float,
    epsilon: float,
    slack: float,
) -> Composed:
    """The composed loss around ε, on a grid fine enough for the slack."""
    result, cells = _composed(cumulant, pairs, coordinates, theta, slack)
    fineness = 1.0
    for _ in range(_REFINEMENTS):
        excess = result.slack(epsilon) / slack
        if not (excess > 0.8 and cells * math.sqrt(2.0 * excess) <= _most_cells(slack)):
            break
        fineness *= 0.5 / excess
        finer, cells = _composed(cumulant, pairs, coordinates, theta, slack * fineness)
        result = min(result, finer, key=lambda run: run.log_delta(epsilon))  # both are upper bounds
    return result


def _composed(
    cumulant: Cumulant, pairs: list[Pair], coordinates: list[int], theta: float, slack: float
) -> tuple[Composed, int]:
    _, _, variances = cumulant.tilted(theta)
    variances = np.maximum(variances, (1e-9 * cumulant.kinks) ** 2)  # a single atom has none
    counts = np.asarray(coordinates, dtype=np.float64)
    variance = float(counts @ variances)
    deviation = math.sqrt(variance)
    # Grid steps in proportion to each part's share of the deviation. A cut adds step²/6 of variance a coordinate, a
    # coarser grid half a step² a law, and δ rises by half the added variance times θ(1 + θ).
    own = np.maximum(np.sqrt(variances), deviation / np.sqrt(8 * counts * len(pairs)))
    finer = deviation / own
    levels = np.where(finer <= _SHARED_GRID, 0, np.ceil(np.log2(0.5 * finer))).astype(int)
    curvature = theta * (1.0 + theta) + 1.0 / variance
    added = curvature * float(np.sum(counts * 0.25**levels * (1 / 12 + levels / 16)))
    step = min(math.sqrt(0.5 * slack / added), 0.05 * deviation)
    tolerance = _CUT_TOLERANCE / float(np.sum(counts))
    windows = [cumulant.window(i, theta, tolerance) for i in range(len(pairs))]
    widest = max((high - low) / step * 2.0**level for (low, high), level in zip(windows, levels, strict=True))
    widest = max(widest, 14 * deviation / step)
    step *= max(widest / _most_cells(slack), 1.0)
    if theta * step > _STEEPEST:
        # Next to the largest of bounded losses: a tilt that the grid cannot follow. A smaller one serves as well.
        return _composed(cumulant, pairs, coordinates, 0.5 * _STEEPEST / step, slack)
    step = _aligned(step, pairs, counts * variances, levels)
    law = on_grid(pairs, coordinates, step=step, theta=theta, levels=levels, windows=windows, tolerance=tolerance)
    return law, int(widest)


def on_grid(
    pairs: list[Pair],
    coordinates: list[int],
    *,
    step: float,
    theta: float,
    levels: Floats,
    windows: list[tuple[float, float]],
    tolerance: float,
    outside: float = _CUT_TOLERANCE,
) -> Composed:
    """The composed loss on the grid of this step; each part is cut in its window, 2^level times as fine.

    Parts of a composition may leave the tilted mass `tolerance` outside their windows, the composition `outside`.
    """
    pools: list[list[tuple[GridLaw, int]]] = [[] for _ in range(int(np.max(levels)) + 1)]
    log_factor, log_beyond, loss_error = 0.0, -math.inf, 0.0
    for pair, n, level, (low, high) in zip(pairs, coordinates, levels, windows, strict=True):
        law, factor, beyond = cut(pair, step / 2.0**level, theta, low, high, precise=n * theta > _PRECISE)
        pools[level].append((law, n))
        log_factor += n * factor
        log_beyond = float(np.logaddexp(log_beyond, math.log(n) + beyond))
        loss_error += n * POSITION_ERROR * (pair.kink + max(abs(low), abs(high)))
    for level in range(len(pools) - 1, 0, -1):
        pools[level - 1] += _merged(pools[level], theta, tolerance)
    laws, copies = zip(*pools[0], strict=True)
    law = compose(list(laws), list(copies), outside)
    return Composed(law, theta, log_factor, log_beyond, loss_error)


def _aligned(step: float, pairs: list[Pair], weights: Floats, levels: Floats) -> float:
    """A step not larger than the one given that puts the kink of the weightiest part on the grid.

    Near the Laplace end most of the loss sits at ±kink. On the grid exactly, it is not spread.
    """
    heaviest = int(np.argmax(weights))
    pair, level = pairs[heaviest], int(levels[heaviest])
    fine = step / 2.0**level
    if not pair.kink > fine:
        return step
    number = math.ceil(pair.kink / fine)
    # Coarser grids keep what lies on them, and an integer law's other atoms may be commensurate with the kink.
    for multiple in (pair.atoms_per_kink * 2**level, 2**level):
        if multiple <= 2 * number:
            number = math.ceil(number / multiple) * multiple
            break
    return step * (pair.kink / number) / fine


def _merged(pool: list[tuple[GridLaw, int]], theta: float, tolerance: float) -> list[tuple[GridLaw, int]]:
    """The laws of a pool, composed in fours and put on the grid of twice the step."""
    coarser: list[tuple[GridLaw, int]] = []
    rest: list[tuple[GridLaw, int]] = []
    for law, copies in pool:
        fours, ones = divmod(copies, _GROUP)
        if fours:
            coarser.append((coarsen(compose([law], [_GROUP], tolerance), theta), fours))
        if ones:
            rest.append((law, ones))
    while rest:
        group: list[tuple[GridLaw, int]] = []
        while rest and sum(n for _, n in group) < _GROUP:
            group.append(rest.pop())
        laws, copies_ = zip(*group, strict=True)
        coarser.append((coarsen(compose(list(laws), list(copies_), tolerance), theta), 1))
    return coarser


@np.errstate(over="ignore", invalid="ignore", divide="ignore")  # losses of 1e9 and more, where δ = 1
def deltas(pairs: list[Pair], coordinates: list[int], epsilons: Floats, slack: float) -> Floats:
    """Upper bounds on δ for a row of ε, sharing the composed loss between neighbours."""
    if _hopeless(pairs, coordinates):
        return np.ones(len(epsilons))
    cumulant = Cumulant(pairs, np.asarray(coordinates, dtype=np.float64))
    result = np.empty(len(epsilons))
    run: Composed | None = None
    for i in np.argsort(epsilons):
        epsilon = float(epsilons[i])
        if run is None or not run.serves(epsilon, slack):
            theta = cumulant.tilt_for_epsilon(epsilon)
            if cumulant.log_delta_estimate(theta)[1] < -750 and cumulant.chernoff(theta, epsilon) < math.log(TINY):
                result[i] = TINY
                continue
            run = composed(cumulant, pairs, coordinates, theta=theta, epsilon=epsilon, slack=slack)
        result[i] = run.delta(epsilon)
    return result


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def epsilon(pairs: list[Pair], coordinates: list[int], delta: float, slack: float, largest: float) -> float:
    """An ε whose `deltas` bound is at most δ, and hardly larger than need be; never above `largest`, where δ = 0."""
    if _hopeless(pairs, coordinates):
        return largest
    cumulant = Cumulant(pairs, np.asarray(coordinates, dtype=np.float64))
    # `deltas` will cut a slightly different grid: aim so much lower that its bound, too, is at most δ.
    log_target = math.log(delta) - slack
    theta = cumulant.tilt_for_delta(log_target)
    estimate = max(cumulant.log_delta_estimate(theta)[0], 0.0)
    estimate = min(estimate, largest)
    for _ in range(_REFINEMENTS):
        run = composed(cumulant, pairs, coordinates, theta=theta, epsilon=estimate, slack=slack)
        found = min(crossing(run, log_target, estimate), largest)
        if math.isinf(found):
            return found
        if run.serves(found, slack):
            break
        theta, estimate = cumulant.tilt_for_epsilon(found), found
    boost = 1.0
    while found < largest and len(pairs) <= _CHECKED:
        reached = float(deltas(pairs, coordinates, np.array([found]), slack)[0])
        if reached <= delta:
            break
        found += boost * (math.log(reached / delta) + slack) / theta + 4 * UNIT * found
        boost *= 2.0
    return min(found, largest)


def _hopeless(pairs: list[Pair], coordinates: list[int]) -> bool:
    """Whether the loss is so large (a billion) that floats cannot follow it; what is left to say is δ ≤ 1."""
    return sum(n * pair.kink for pair, n in zip(pairs, coordinates, strict=True)) > _LARGEST_LOSS


def crossing(run: Composed, log_target: float, estimate: float) -> float:
    """The ε ≥ 0 at which the bound of one composed loss meets the target."""
    stride = 1.0 / run.theta
    low = high = estimate
    while low > 0 and run.log_delta(low) < log_target:
        low, stride = max(low - stride, 0.0), 2 * stride
    if run.log_delta(low) <= log_target:
        return low
    stride = 1.0 / run.theta
    while run.log_delta(high) > log_target:
        high, stride = high + stride, 2 * stride
        if high > 1e300:
            return math.inf
    return float(brentq(lambda e: max(run.log_delta(e), -1e4) - log_target, low, high, xtol=1e-12 * high, rtol=1e-14))
