"""The least scale at which noise of a given shape meets a budget."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import scipy

from osgt.calibration.joint import JointNoise
from osgt.noise.error import Objective
from osgt.privacy.estimate import Estimate

#: Accuracy of the logarithm of the scale.
_TOLERANCE = 1e-6

#: While shapes are compared, a step of Newton's this small is not checked: its error is about its square.
_LINEAR_STEP = 7e-3
_LINEAR_EXCESS = 0.5

#: Next to the scale where the largest loss is ε, log δ bends within this part of the distance.
_LINEAR_TO_PURE = 0.1

#: Distance over which the steepness is taken before a scale is proved. Smaller ones would show the slack of δ.
_CHORD = 1e-3

#: Noise with a largest loss, as the Laplace has, is not calibrated closer to the scale where that is ε than this part
#: of it: nothing is left to gain.
_NEAREST_TO_PURE = 4.5e-4

#: Steps after which a search ends with what it has.
_MOST_STEPS = 100

#: If a bracket has not been halved by so many steps, the next one halves it.
_PATIENCE = 3

#: A Gaussian is found to this, in log μ.
_SAME_MU = 1e-6
_LOG_ROOT_2_PI = 0.5 * math.log(2.0 * math.pi)

#: Logarithm of about the least δ that a profile gives.
_LEAST_LOG_DELTA = -708.0


@dataclass
class ScaleSearch:
    """For each shape u the least scale whose δ(ε) is at most δ > 0: about, by an estimate, or proved.

    Newton's method on the log-odds of δ against the logarithm of the scale, kept inside the bracket found so far.
    Shapes solved before give the start, and the steepness there.
    """

    joint: JointNoise
    epsilon: float
    delta: float
    #: The search for noise of a shape that is shared out in the best way for an objective, where it was asked for.
    allocations: dict[tuple[float, Objective], "ScaleSearch"] = field(default_factory=dict)
    _solved: dict[float, tuple[float, float]] = field(default_factory=dict)
    _estimates: dict[tuple[float, float], float] = field(default_factory=dict)
    _proved: dict[float, float] = field(default_factory=dict)
    _pures: dict[float, float] = field(default_factory=dict)
    _tilt: float = 1.0

    def roughly(self, u: float) -> float:
        """The logarithm of about the least scale. Nothing is proved about it."""
        if u not in self._solved:
            self._solved[u] = self._roughly(u)
        return self._solved[u][0]

    def proved(self, u: float) -> float:
        """The logarithm of a scale that meets the budget, at most 1e-6 above the least (the Laplace: see above)."""
        if u not in self._proved:
            self._proved[u] = self._prove(u)
        return self._proved[u]

    def _prove(self, u: float) -> float:
        x, chord = self.roughly(u), _CHORD
        if self.joint.is_bounded(u):
            if x >= (pure := self._pure(u)):
                return pure
            chord = min(chord, 0.05 * (pure - x))  # the nearer, the steeper
        here, before = self._estimate(u, x), self._estimate(u, x - chord)
        slope = min((here - before) / chord, -0.1)
        start = x - here / slope if abs(here) <= _LINEAR_EXCESS else x  # δ may jump where noise is next to nothing
        return self._root(lambda at: self._excess(u, at), u, start, slope, proved=True)[0]

    def start_from(self, other: "ScaleSearch", u: float) -> None:
        """Begin with shape u where a search for nearly the same distributions has ended."""
        self._tilt = other._tilt
        x, slope = other._solved[u]
        self._solved[u] = self._roughly(u, (x + self._size(u) - other._size(u), slope))

    def _roughly(self, u: float, start: tuple[float, float] | None = None) -> tuple[float, float]:
        x, slope = start or self._start(u)
        if self.joint.is_bounded(u) and self._estimate(u, self._pure(u) - _NEAREST_TO_PURE) > 0:
            return self._pure(u), slope
        return self._root(lambda at: self._estimate(u, at), u, x, slope, proved=False)

    def _size(self, u: float) -> float:
        """Estimate by how much the logarithm of the scale differs from that of noise shared out otherwise."""
        gaussian, laplace = 0.5 * math.log(self.joint.gaussian_cost(u)), math.log(self.joint.laplace_cost(u))
        return (1.0 - u) * gaussian + u * laplace

    def _pure(self, u: float) -> float:
        """The logarithm of the scale whose largest loss is ε, and a little: rounding must not fall below it."""
        if u not in self._pures:
            self._pures[u] = math.log(pure_scale(self.joint, u, self.epsilon)) + 1e-13
        return self._pures[u]

    def _excess(self, u: float, x: float) -> float:
        """log-odds of δ(ε) of the distributions less those of the budget's δ; ≤ 0 where the budget is met."""
        return float(
            scipy.special.logit(float(self.joint.profile(u, math.exp(x)).delta(self.epsilon)))
            - scipy.special.logit(self.delta)
        )

    def _estimate(self, u: float, x: float) -> float:
        """Estimate the excess."""
        if (u, x) not in self._estimates:
            pairs, counts = self.joint.profile(u, math.exp(x)).pairs()
            estimate = Estimate(pairs, counts, math.log(self.delta), self._tilt)
            log_delta = min(max(estimate.log_delta(self.epsilon), _LEAST_LOG_DELTA), -1e-15)
            self._tilt = estimate.tilt
            self._estimates[u, x] = (
                log_delta - math.log(-math.expm1(log_delta)) - float(scipy.special.logit(self.delta))
            )
        return self._estimates[u, x]

    def _root(
        self, excess: Callable[[float], float], u: float, x: float, slope: float, *, proved: bool
    ) -> tuple[float, float]:
        """The root of the excess, from above and to the tolerance if it is to be `proved`, and the slope there."""
        pure = self._pure(u) if self.joint.is_bounded(u) else math.inf
        bracket = _Bracket(high=pure, pure=pure)
        x = min(x, pure - _NEAREST_TO_PURE)
        last: tuple[float, float] | None = None
        for _ in range(_MOST_STEPS):
            value = excess(x)
            bracket.narrow(x, value)
            if value > 0 and bracket.is_next_to_pure():
                return bracket.high, slope
            if last is not None and math.isfinite(value - last[1]) and not (proved and abs(x - last[0]) < _CHORD):
                slope = min((value - last[1]) / (x - last[0]), -0.1)
            step = -value / slope
            if not proved and _is_linear(step, value, pure - x, first=last is None) and x + step in bracket:
                return x + step, slope
            if value <= 0 and -step <= _TOLERANCE:
                return x, slope
            if bracket.widths[-1] <= _TOLERANCE:
                return bracket.high, slope
            last = x, value
            x = bracket.next(x, step + 0.5 * _TOLERANCE)
        return bracket.high, slope

    def _start(self, u: float) -> tuple[float, float]:
        """The line through the two nearest shapes solved before, and the slope at the nearest."""
        nearest = sorted(self._solved, key=lambda v: abs(u - v))[:2]
        if not nearest:
            return first_guess(self.joint, self.epsilon, self.delta)
        x, slope = self._solved[nearest[0]]
        if len(nearest) == 2:
            first, second = nearest
            x += (self._solved[second][0] - x) / (second - first) * (u - first)
        return x, slope


@dataclass
class _Bracket:
    """The logarithms of scales between which a root lies: the excess is above 0 at `low`, and at most 0 at `high`.

    `pure` is the one at which the largest loss is ε, infinite where there is none.
    """

    high: float
    pure: float
    low: float = -math.inf
    widths: list[float] = field(default_factory=list)

    def __contains__(self, x: float) -> bool:
        return self.low < x < self.high

    def narrow(self, x: float, excess: float) -> None:
        """Take in the excess at a point."""
        self.low, self.high = (x, self.high) if excess > 0 else (self.low, x)
        self.widths.append(self.high - self.low)

    def is_next_to_pure(self) -> bool:
        """Whether nothing is left to gain for noise with a largest loss."""
        return self.pure < math.inf and self.widths[-1] <= _NEAREST_TO_PURE

    def next(self, x: float, step: float) -> float:
        """The next point to try: Newton's, or one inside the bracket where that leaves it or is too slow."""
        # Where log δ falls off a cliff, no slope is right for long.
        if len(self.widths) > _PATIENCE and math.inf > self.widths[-1] > 0.5 * self.widths[-1 - _PATIENCE]:
            return 0.5 * (self.low + self.high)
        target = x + min(max(step, -1.0), 1.0)
        if target in self:
            return target
        if self.pure < math.inf and target >= self.high:
            return self.high - 0.2 * (self.high - x)  # log δ falls like the logarithm of the distance to the pure loss
        return 0.5 * (max(self.low, x - 1.0) + min(self.high, x + 1.0))


def _is_linear(step: float, excess: float, to_pure: float, *, first: bool) -> bool:
    """Whether one more step of Newton's is exact enough to compare shapes.

    With the slope of another shape a `first` step is right to a tenth or so, with one of this shape to its square.
    """
    linear = min(_LINEAR_STEP, _LINEAR_TO_PURE * to_pure)
    return abs(step) <= (0.1 * linear if first else linear) and abs(excess) <= _LINEAR_EXCESS


def first_guess(joint: JointNoise, epsilon: float, delta: float) -> tuple[float, float]:
    """The logarithm of the scale of Gaussian noise, or of pure noise if it is less; the slope of log δ there."""
    mu, slope = gaussian_mu(epsilon, delta)
    guess = 0.5 * math.log(joint.gaussian_cost(0.0)) - math.log(mu)
    pure = math.log(pure_scale(joint, 1.0, epsilon)) if joint.is_bounded(1.0) else math.inf
    return min(guess, pure), -slope


def gaussian_mu(epsilon: float, delta: float) -> tuple[float, float]:
    """About the μ = sensitivity/σ at which Gaussian noise has δ(ε) = δ, and d log δ/d log μ there.

    With y = ε/μ - μ/2, δ = Φ(-y) - exp(ε)·Φ(-y - μ), and its derivative in μ is the normal density at y.
    """
    log_inverse, low, high = -math.log(delta), 0.0, math.inf
    mu = math.sqrt(2.0) * (math.sqrt(log_inverse + epsilon) - math.sqrt(log_inverse))  # by zCDP
    for _ in range(_MOST_STEPS):
        y = epsilon / mu - 0.5 * mu
        log_p, log_q = float(scipy.special.log_ndtr(-y)), epsilon + float(scipy.special.log_ndtr(-y - mu))
        log_delta = log_p + math.log(max(-math.expm1(log_q - log_p), 1e-300))
        slope = mu * math.exp(min(-0.5 * y * y - _LOG_ROOT_2_PI - log_delta, 300.0))
        over = log_delta + log_inverse
        low, high = (low, mu) if over > 0 else (mu, high)
        moved = mu * math.exp(min(max(-over / slope, -1.0), 1.0))
        if abs(over) <= _SAME_MU * slope:
            break
        mu = moved if low < moved < high else (0.5 * (low + high) if high < math.inf else 2.0 * mu)
    return mu, slope


def pure_scale(joint: JointNoise, u: float, epsilon: float) -> float:
    """The scale at which noise of a shape that has a largest loss has ε at δ = 0 on all parts, rounded up."""
    if not joint.is_bounded(u):
        raise ValueError(f"the privacy loss of these parts has no limit at shape {u:g}: delta must be above 0")
    scale = joint.family.unit(u).largest_slope * joint.laplace_cost(u) / epsilon
    while float(joint.profile(u, scale).epsilon(0.0)) > epsilon:
        scale *= 1.0 + 1e-15
    return scale


def allocated(search: ScaleSearch, u: float, objective: Objective) -> ScaleSearch:
    """The search for noise of shape u that is shared out in the way that has the least error.

    No formula knows the exponent: near the Laplace end, too, it is that of the Gaussian where very many coordinates
    make the sum of their losses normal. So it is searched for between those of the two ends, with estimates of δ.
    The error is flat around its optimum: a parabola through three exponents finds it closely enough.
    """
    if search.joint.is_uniform or search.joint.is_gaussian(u):
        return search
    if (u, objective) not in search.allocations:
        search.allocations[u, objective] = _allocated(search, u, objective)
    return search.allocations[u, objective]


def _allocated(search: ScaleSearch, u: float, objective: Objective) -> ScaleSearch:
    search.roughly(u)
    result: dict[float, tuple[float, ScaleSearch]] = {}

    def error(exponent: float) -> float:
        if exponent not in result:
            one = search
            if exponent != search.joint.exponent_at(u):
                one = ScaleSearch(search.joint.with_exponent(exponent), search.epsilon, search.delta)
                one.start_from(search, u)
            result[exponent] = one.joint.rough_error(u, math.exp(one.roughly(u)), objective), one
        return result[exponent][0]

    low, high = search.joint.exponents
    middle = 0.5 * (low + high)
    left, centre, right = error(low), error(middle), error(high)
    bend = left - 2.0 * centre + right
    if bend > 0:
        vertex = middle + 0.25 * (high - low) * (left - right) / bend
        error(min(max(vertex, low), high))
    return min(result.values(), key=lambda each: each[0])[1]
