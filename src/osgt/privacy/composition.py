"""δ and ε of a composition: rigorous upper bounds from tilted distributions of the privacy loss on a grid.

The tilt θ is the saddle point at which losses near ε are typical, so that window and rounding errors are relative to δ
itself, whatever its size. Coordinates that give little away are cut on a finer grid, composed four at a time and
handed to the grid of twice the step, so that the cost grows with the logarithm of their number.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy

from osgt.privacy.grid import UNIT, GridLoss, coarsen, compose, cut
from osgt.privacy.loss_distribution import (
    TINY,
    Composed,
    ComposedBelow,
    Enumerated,
    coarsen_below,
    cut_below,
    enumerate_sums,
)
from osgt.privacy.moments import Cumulant
from osgt.privacy.pair import POSITION_ERROR, Pair
from osgt.support.numeric import Floats, bracket

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

#: Bounds at smaller and smaller ε from which lines are drawn to the largest loss.
_CHORDS = 24

#: Slacks by which an ε that was searched for with some trouble may stay below its δ.
_CLOSE = 20.0

#: Pairs of losses that may be formed at once: where that is quicker than a grid, and where a grid is too coarse.
_FEW_PAIRS = 2**12
_MANY_PAIRS = 2**17

#: How many times as fine a grid must be to be tried.
_WORTH_WHILE = 1.2

#: Copies of a loss that are composed before the grid is made coarser; the cells of a grid at the usual slack.
_GROUP = 4
_MOST_CELLS = 2**17

#: Steps that are tried for the atoms that come to lie on the grid, and how much finer than need be they may get.
_STEPS_TRIED = 96
_FINER = 1.3
_REFINEMENTS = 4


def _most_cells(slack: float) -> float:
    """Length of the longest row: time and memory are bounded, also where the slack is then not reached."""
    return _MOST_CELLS * min(max(math.sqrt(1e-4 / slack), 1.0), 16.0)


def compose_around(
    cumulant: Cumulant,
    pairs: list[Pair],
    coordinates: list[int],
    *,
    theta: float,
    epsilon: float,
    slack: float,
) -> Composed | Enumerated:
    """The composed loss around ε: all sums of losses where they are few, else a grid fine enough for the slack."""

    def listed(most_pairs: int) -> Enumerated | None:
        log_delta = cumulant.log_delta_estimate(theta)[1]
        for _ in range(_REFINEMENTS):
            run = enumerate_sums(
                pairs, coordinates, theta=theta, log_delta=log_delta, slack=slack, most_pairs=most_pairs
            )
            if run is None or run.serves(epsilon, slack):
                return run
            log_delta = min(run.log_delta(epsilon), 2.0 * log_delta - 10.0)
        return None

    if (run := listed(_FEW_PAIRS)) is not None:
        return run
    result, cells = _compose_on_grid(cumulant, pairs, coordinates, theta, slack)
    fineness = 1.0
    for order in (0.5, 1.0, 1.0):
        excess = result.slack(epsilon) / slack
        if excess <= 0.8:
            break
        if order == 0.5 and (run := listed(_MANY_PAIRS)) is not None:
            return run
        # The excess falls with the square of the step; next to an atom with the step itself.
        finer = min((2.0 * excess) ** order, _most_cells(slack) / cells)
        if finer < _WORTH_WHILE:
            break
        fineness /= finer**2
        again, cells = _compose_on_grid(cumulant, pairs, coordinates, theta, slack * fineness)
        result = min(result, again, key=lambda one: one.log_delta(epsilon))  # both are upper bounds
    return result


def _compose_on_grid(
    cumulant: Cumulant, pairs: list[Pair], coordinates: list[int], theta: float, slack: float
) -> tuple[Composed, int]:
    grid = _grid(cumulant, pairs, coordinates, theta, slack)
    return on_grid(pairs, coordinates, grid), grid.widest


@dataclass(frozen=True)
class Grid:
    """The grid on which a composition is to be made: each part is cut in its window, 2^level times as fine.

    Parts may leave the tilted mass `tolerance` outside their windows, the composition `outside`.
    """

    step: float
    theta: float
    levels: Floats
    windows: list[tuple[float, float]]
    tolerance: float
    widest: int = 0  # cells of the longest row
    outside: float = _CUT_TOLERANCE


def _grid(cumulant: Cumulant, pairs: list[Pair], coordinates: list[int], theta: float, slack: float) -> Grid:
    """A grid that is fine enough for the slack, as far as its length allows."""
    _, _, variances = cumulant.tilted(theta)
    variances = np.maximum(variances, (1e-9 * cumulant.kinks) ** 2)  # a single atom has none
    counts = np.asarray(coordinates, dtype=np.float64)
    variance = float(counts @ variances)
    deviation = math.sqrt(variance)
    # Grid steps in proportion to each part's share of the deviation. A cut adds step²/6 of variance a coordinate, a
    # coarser grid half a step² a distribution, and δ rises by half the added variance times θ(1 + θ).
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
        return _grid(cumulant, pairs, coordinates, 0.5 * _STEEPEST / step, slack)
    step = _aligned(step, cumulant, pairs, theta, counts * variances, levels)
    return Grid(step, theta, levels, windows, tolerance, int(widest))


def on_grid(pairs: list[Pair], coordinates: list[int], grid: Grid) -> Composed:
    """The composed loss on a grid, dominating the true one."""
    cuts: list[GridLoss] = []
    log_factor, log_beyond, loss_error = 0.0, -math.inf, 0.0
    for pair, n, level, (low, high) in zip(pairs, coordinates, grid.levels, grid.windows, strict=True):
        precise = n * grid.theta > _PRECISE
        loss, factor, beyond = cut(pair, grid.step / 2.0**level, grid.theta, low, high, precise=precise)
        cuts.append(loss)
        log_factor += n * factor
        log_beyond = float(np.logaddexp(log_beyond, math.log(n) + beyond))
        loss_error += n * POSITION_ERROR * (pair.kink + max(abs(low), abs(high)))
    loss = _compose_levels(cuts, coordinates, grid, coarsen)
    return Composed(loss, grid.theta, log_factor, log_beyond, loss_error)


def _on_grid_below(pairs: list[Pair], coordinates: list[int], grid: Grid) -> ComposedBelow:
    """The composed loss on a grid, dominated by the true one. Another type: the two must never be mistaken."""
    cuts: list[GridLoss] = []
    log_factor, loss_error = 0.0, 0.0
    for pair, n, level, (low, high) in zip(pairs, coordinates, grid.levels, grid.windows, strict=True):
        loss, factor, error = cut_below(pair, grid.step / 2.0**level, grid.theta, low, high)
        cuts.append(loss)
        log_factor += n * factor
        loss_error += n * error
    loss = _compose_levels(cuts, coordinates, grid, coarsen_below)
    return ComposedBelow(loss, grid.theta, log_factor, loss_error)


def _compose_levels(
    cuts: list[GridLoss], coordinates: list[int], grid: Grid, coarsened: Callable[[GridLoss, float], GridLoss]
) -> GridLoss:
    """Compose the coordinates of all parts, from the finest level to that of the grid itself."""
    pools: list[list[tuple[GridLoss, int]]] = [[] for _ in range(int(np.max(grid.levels)) + 1)]
    for loss, n, level in zip(cuts, coordinates, grid.levels, strict=True):
        pools[level].append((loss, n))
    for level in range(len(pools) - 1, 0, -1):
        pools[level - 1] += _merge_pool(pools[level], grid.theta, grid.tolerance, coarsened)
    losses, copies = zip(*pools[0], strict=True)
    return compose(list(losses), list(copies), grid.outside)


def _aligned(
    step: float, cumulant: Cumulant, pairs: list[Pair], theta: float, weights: Floats, levels: Floats
) -> float:
    """A step not larger than the one given that puts the kink of the weightiest part on the grid.

    Near the Laplace end most of the loss sits at ±kink. On the grid exactly, it is not spread. Of the steps that do so,
    one is taken for which the other atoms, too, come to lie close to grid points.
    """
    heaviest = int(np.argmax(weights))
    pair, level = pairs[heaviest], int(levels[heaviest])
    fine = step / 2.0**level
    if not pair.kink > fine:
        return step
    number = math.ceil(pair.kink / fine)
    # Coarser grids keep what lies on them, and an integer distribution's other atoms may be commensurate with the kink.
    multiple = next((m for m in (pair.atoms_per_kink * 2**level, 2**level) if m <= 2 * number), 1)
    least = math.ceil(number / multiple)
    most = max(math.floor(_FINER * number / multiple), least)
    numbers = np.unique(np.linspace(least, most, _STEPS_TRIED).astype(int)) * multiple
    steps = step * (pair.kink / numbers) / fine
    if len(numbers) == 1 or len(pairs) > _CHECKED:
        return float(steps[0])
    added = np.zeros(len(steps))
    for i, one in enumerate(levels):
        losses, masses = cumulant.heaviest_atoms(i, theta)
        off = losses / (steps[:, np.newaxis] / 2.0 ** int(one))
        off -= np.floor(off)
        added += cumulant.coordinates[i] * ((off * (1.0 - off)) @ masses) * steps**2 / 4.0 ** int(one)
    return float(steps[int(np.argmin(added))])


def _merge_pool(
    pool: list[tuple[GridLoss, int]],
    theta: float,
    tolerance: float,
    coarsened: Callable[[GridLoss, float], GridLoss],
) -> list[tuple[GridLoss, int]]:
    """The distributions of a pool, composed in fours and put on the grid of twice the step."""
    coarser: list[tuple[GridLoss, int]] = []
    rest: list[tuple[GridLoss, int]] = []
    for loss, copies in pool:
        fours, ones = divmod(copies, _GROUP)
        if fours:
            coarser.append((coarsened(compose([loss], [_GROUP], tolerance), theta), fours))
        if ones:
            rest.append((loss, ones))
    while rest:
        group: list[tuple[GridLoss, int]] = []
        while rest and sum(n for _, n in group) < _GROUP:
            group.append(rest.pop())
        losses, copies_ = zip(*group, strict=True)
        coarser.append((coarsened(compose(list(losses), list(copies_), tolerance), theta), 1))
    return coarser


@np.errstate(over="ignore", invalid="ignore", divide="ignore")  # losses of 1e9 and more, where δ = 1
def deltas(
    pairs: list[Pair], coordinates: list[int], epsilons: Floats, slack: float, largest: float = math.inf
) -> Floats:
    """Upper bounds on δ for a row of ε, sharing the composed loss between neighbours. They do not rise with ε.

    No loss is above `largest`, which is the largest one or the float after it.
    """
    if _hopeless(pairs, coordinates):
        return np.ones(len(epsilons))
    cumulant = Cumulant(pairs, np.asarray(coordinates, dtype=np.float64))
    result = np.empty(len(epsilons))
    run: Composed | Enumerated | None = None
    least = 1.0
    for i in np.argsort(epsilons):
        epsilon = float(epsilons[i])
        if run is None or not run.serves(epsilon, slack):
            theta = cumulant.tilt_for_epsilon(epsilon)
            if cumulant.log_delta_estimate(theta)[1] < -750 and cumulant.chernoff(theta, epsilon) < math.log(TINY):
                result[i] = TINY
                continue
            run = compose_around(cumulant, pairs, coordinates, theta=theta, epsilon=epsilon, slack=slack)
        least = min(run.delta(epsilon), least)  # δ falls with ε: a bound holds from its ε on
        if largest < math.inf and not run.serves(epsilon, slack):
            least = min(_chord(run, epsilon, largest), least)
        result[i] = least
    return result


def _chord(run: Composed | Enumerated, epsilon: float, largest: float) -> float:
    """A bound on δ(ε) next to the largest loss, where a grid is too coarse: δ is convex in exp(ε), and 0 from there on.

    So it lies below the line from any bound at a smaller ε to that 0.
    """
    below, left, distance = math.nextafter(largest, 0.0), -math.expm1(epsilon - largest), largest - epsilon
    best = 1.0
    for _ in range(_CHORDS):
        distance *= 4.0
        at = largest - distance
        if at <= 0:
            break
        best = min(best, run.delta(at) * left / -math.expm1(at - below) * (1.0 + 16 * UNIT))
    return best


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def delta_below(pairs: list[Pair], coordinates: list[int], epsilon: float, slack: float, upper: float) -> float:
    """Lower bound on δ(ε); on a finer grid where it is not as near to the upper bound as the slack asks."""
    if _hopeless(pairs, coordinates):
        return 0.0
    cumulant = Cumulant(pairs, np.asarray(coordinates, dtype=np.float64))
    theta = cumulant.tilt_for_epsilon(epsilon)
    best = 0.0
    for fineness in (1.0, 1e-2):
        grid = _grid(cumulant, pairs, coordinates, theta, slack * fineness)
        best = max(best, _on_grid_below(pairs, coordinates, grid).delta(epsilon))
        if best >= upper * (1.0 - 2.0 * slack):
            break
    return best


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def epsilon(pairs: list[Pair], coordinates: list[int], delta: float, slack: float, largest: float) -> float:
    """An ε whose `deltas` bound is at most δ, and hardly larger than need be; never above `largest`, where δ = 0."""
    if _hopeless(pairs, coordinates):
        return largest
    cumulant = Cumulant(pairs, np.asarray(coordinates, dtype=np.float64))
    # `deltas` will cut a slightly different grid: aim so much lower that its bound, too, is at most δ.
    log_target = math.log(delta) - slack
    theta = cumulant.tilt_for_delta(log_target)
    result = min(max(cumulant.log_delta_estimate(theta)[0], 0.0), largest)
    serves = False
    for _ in range(_REFINEMENTS):
        before, run = result, compose_around(cumulant, pairs, coordinates, theta=theta, epsilon=result, slack=slack)
        result = min(crossing(run, log_target, result), largest)
        if math.isinf(result):
            return result
        serves = run.serves(result, slack)
        if serves or result == before:
            break
        theta = cumulant.tilt_for_epsilon(result)
    if serves and len(pairs) > _CHECKED:
        return result

    def excess(at: float) -> float:
        if at >= largest:
            return -math.inf
        return math.log(float(deltas(pairs, coordinates, np.array([at]), slack, largest)[0]) / delta)

    return min(_checked(excess, result, slack=slack, rate=theta, close=serves), largest)


def _checked(excess: Callable[[float], float], result: float, *, slack: float, rate: float, close: bool) -> float:
    """An ε near the one found at which the excess of log δ is at most 0.

    If the one found is not known to be `close`, the excess is not far below 0 either, or hardly any float lies between.
    """
    low, high, over, stride = 0.0, result, excess(result), slack / rate
    while over > 0:
        stride = max(2.0 * stride, (over + slack) / rate, 4 * UNIT * high)
        low, high, low_over = high, high + stride, over
        over = excess(high)
    if close:
        return high
    stride = max(stride, min(-over, 1.0) / rate)
    while low == 0 and high > 0 and over < -_CLOSE * slack:
        lower = max(high - stride, 0.0)
        stride *= 2.0
        if (value := excess(lower)) > 0:
            low, low_over = lower, value
            break
        high, over = lower, value
    while over < -_CLOSE * slack and high - low > 8 * UNIT * high:
        # From the largest loss down δ grows like the distance at first.
        share = 0.5 if over > -math.inf else min(0.5, math.exp(-low_over - slack))
        middle = high - share * (high - low)
        if middle > high - 4 * UNIT * high:
            break
        if (value := excess(middle)) > 0:
            low, low_over = middle, value
        else:
            high, over = middle, value
    return high


def _hopeless(pairs: list[Pair], coordinates: list[int]) -> bool:
    """Whether the loss is so large (a billion) that floats cannot follow it; what is left to say is δ ≤ 1."""
    return sum(n * pair.kink for pair, n in zip(pairs, coordinates, strict=True)) > _LARGEST_LOSS


def crossing(run: Composed | Enumerated, log_target: float, estimate: float, accuracy: float = 1e-12) -> float:
    """The ε ≥ 0 at which the bound of one composed loss meets the target, to a relative accuracy."""

    def below(epsilon: float) -> float:
        return log_target - run.log_delta(epsilon)

    low, high = bracket(below, estimate, 1.0 / run.theta, lowest=0.0, largest=1e300)
    if low == high:
        return low if low == 0 else math.inf
    xtol, rtol = accuracy * high, max(0.01 * accuracy, 1e-14)
    return float(scipy.optimize.brentq(lambda e: min(below(e), 1e4), low, high, xtol=xtol, rtol=rtol))
