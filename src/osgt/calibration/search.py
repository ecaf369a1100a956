"""A budget in, the best noise out.

The members of the family are searched by shape, from the Gaussian (u = 0) to the Laplace (u = 1), each at the least
scale that meets the budget. An estimate of δ is enough to find the shape, since the error is flat around its optimum;
the scale is then set with the rigorous accounting. `calibrate_roughly` leaves that last step out: it only steers.

The reverse questions are here too: the error is given, and the budget that it needs is asked for; and the noises side
by side at one budget.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import scipy

from osgt.calibration.joint import Column, JointNoise, Part, budget, is_bounded, joint_noise, probability
from osgt.calibration.scale import ScaleSearch, allocated, pure_scale
from osgt.noise import Distribution, Family, family_of, written
from osgt.noise.error import Objective, expected_maximum
from osgt.privacy import PrivacyProfile
from osgt.privacy.profile import SLACK
from osgt.support.errors import ArgumentError
from osgt.support.numeric import bracket, confidence_level, count, real_number, root_within

#: First look at these, then search between the neighbours of the best: errors have one minimum in the shape.
_FIRST_LOOK = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
_TOLERANCE = 0.015


def costs_over_shapes(cost: Callable[[float], float]) -> dict[float, float]:
    """The cost of all shapes that were looked at: both ends of the family, and the least between them, among them."""
    costs: dict[float, float] = {}

    def recorded(u: float) -> float:
        costs[float(u)] = cost(float(u))
        return costs[float(u)]

    for u in _FIRST_LOOK:
        recorded(u)
    place = min(range(len(_FIRST_LOOK)), key=lambda i: costs[_FIRST_LOOK[i]])
    bounds = (_FIRST_LOOK[max(place - 1, 0)], _FIRST_LOOK[min(place + 1, len(_FIRST_LOOK) - 1)])
    scipy.optimize.minimize_scalar(recorded, bounds=bounds, method="bounded", options={"xatol": _TOLERANCE})
    return costs


#: Above this δ both ends are always looked at closely.
_LARGE_DELTA = 0.3

#: Errors that differ by less than this part are not told apart by estimates.
_ROUGH_ERROR = 2e-3

#: The error is flat around its optimum, the tail is not: of shapes within this part of the least error the one nearest
#: to the Gaussian is taken, in steps of this factor.
_AS_GOOD = 2e-4
_STEP_TO_GAUSSIAN = 0.95
_NEARLY_GAUSSIAN = 0.1


def calibrate(
    epsilon: float,
    delta: float,
    *,
    shift: float = 1,
    coordinates: int = 1,
    objective: Objective = "variance",
    discrete: bool = True,
    family: str | Family = "osgt",
) -> Distribution:
    """The noise of least error whose privacy is (ε, δ), among all members of the family, Gaussian and Laplace included.

    Parameters
    ----------
    epsilon, delta
        The budget; ε > 0 and 0 ≤ δ < 1. δ = 0 gives Laplace noise.
    shift, coordinates
        One person changes at most `coordinates` values, each by at most `shift` (an integer if `discrete`).
    objective
        What to minimise: "variance", "mean_abs", ("quantile", p) of |Y|, or ("max", n), the expected largest of n.
    discrete
        Noise on the integers (True) or on the reals (False).
    family
        The name of a registered noise family, or a `Family`.

    Examples
    --------
    >>> calibrate(1, 1e-6, coordinates=8)
    DiscreteOSGT(m=..., sigma=...)
    """
    part = Part(shift, coordinates)
    return calibrate_parts(epsilon, delta, [part], objective=objective, discrete=discrete, family=family)[0]


def calibrate_parts(
    epsilon: float,
    delta: float,
    parts: Sequence[Part],
    *,
    objective: Objective = "variance",
    discrete: bool = True,
    family: str | Family = "osgt",
    columns: Sequence[Column] | None = None,
) -> tuple[Distribution, ...]:
    """Noise for several kinds of values that are released together under one budget, all of one shape.

    What is minimised is the weighted sum of the squared errors of the `columns`, which are combinations of the parts,
    or of the parts themselves; the other arguments are those of `calibrate`.
    """
    joint = joint_noise(parts, discrete=discrete, family=family, objective=objective, columns=columns)
    return calibrate_joint(ScaleSearch(joint, *budget(epsilon, delta)), objective)


def calibrate_joint(search: ScaleSearch, objective: Objective, *, proved: bool = True) -> tuple[Distribution, ...]:
    """The noise of least error among all that there is to choose from.

    If it need not be `proved` to meet the budget, it does so up to an estimate, but for shapes with a largest loss:
    next to that, estimates say little.
    """
    if search.delta == 0:
        joint, end = search.joint, search.joint.bounded_end()
        return joint.distributions(end, pure_scale(joint, end, search.epsilon))
    candidates = []
    for u in best_shapes(search, objective):
        best = allocated(search, u, objective)
        scale = math.exp(best.proved(u) if proved or best.joint.is_bounded(u) else best.roughly(u))
        candidates.append((best.joint.error(u, scale, objective), best.joint.distributions(u, scale)))
    return min(candidates, key=lambda candidate: candidate[0])[1]


def best_shapes(search: ScaleSearch, objective: Objective) -> list[float]:
    """The shape with the least error at its least scale, as far as estimates can tell.

    An end of the family that is as good, at this accuracy, comes with it.
    """

    def error(u: float) -> float:
        return search.joint.rough_error(u, math.exp(search.roughly(u)), objective)

    errors = costs_over_shapes(error)
    least = min(errors.values())
    best = nearest_to_gaussian(errors, error)
    # With a large δ the noise is next to nothing and log δ tells little: there the ends are always looked at closely.
    shapes = [end for end in (0.0, 1.0) if errors[end] <= least * (1.0 + _ROUGH_ERROR) or search.delta > _LARGE_DELTA]
    return shapes if best in shapes else [*shapes, best]


def nearest_to_gaussian(errors: Mapping[float, float], error: Callable[[float], float]) -> float:
    """Of the shapes whose error is as good as the least, the one nearest to the Gaussian."""
    best = min(errors, key=lambda u: errors[u])
    most = errors[best] * (1.0 + _AS_GOOD)
    while best > _NEARLY_GAUSSIAN and error(_STEP_TO_GAUSSIAN * best) <= most:
        best *= _STEP_TO_GAUSSIAN
    return best


def calibrate_roughly(epsilon: float, delta: float, parts: Sequence[Part]) -> tuple[Distribution, ...]:
    """For each part noise on the integers that is about (ε, δ)-private, of about the best shape."""
    epsilon, delta = budget(epsilon, delta)
    search = ScaleSearch(joint_noise(parts, discrete=True, family="osgt"), epsilon, delta)
    best = best_shapes(search, "variance")[-1]
    return search.joint.distributions(best, math.exp(search.roughly(best)))


#: Relative slack of δ while the shape is searched.
_COARSE_SLACK = 1e-2


@dataclass(frozen=True)
class Calibration:
    """A budget and the noise that meets it."""

    epsilon: float
    delta: float
    noise: Distribution


def calibrate_epsilon(
    delta: float,
    *,
    target_std: float | None = None,
    target_interval: float | None = None,
    confidence: float = 0.95,
    shift: float = 1,
    coordinates: int = 1,
    discrete: bool = True,
    family: str | Family = "osgt",
) -> Calibration:
    """The least ε at which the error is no larger than the target, and the noise.

    Parameters
    ----------
    delta
        δ of the budget, 0 ≤ δ < 1.
    target_std, target_interval
        One of them: the standard deviation of the noise, or the half-width of its interval at `confidence`.
    shift, coordinates, discrete, family
        As for `calibrate`.
    """
    delta = probability("delta", delta)
    joint = joint_noise([Part(shift, coordinates)], discrete=discrete, family=family)
    fits = _target(target_std, target_interval, confidence, discrete=discrete)
    ends = (joint.bounded_end(),) if delta == 0 else None
    noise = _best(joint, fits, lambda profile, slack: float(profile.epsilon(delta, slack=slack)), ends)
    return Calibration(float(PrivacyProfile(noise, shift, coordinates).epsilon(delta)), delta, noise)


def calibrate_delta(
    epsilon: float,
    *,
    target_std: float | None = None,
    target_interval: float | None = None,
    confidence: float = 0.95,
    shift: float = 1,
    coordinates: int = 1,
    discrete: bool = True,
    family: str | Family = "osgt",
) -> Calibration:
    """The least δ at ε with an error no larger than the target, and the noise. Arguments as in `calibrate_epsilon`."""
    epsilon = real_number("epsilon", epsilon, positive=True)
    joint = joint_noise([Part(shift, coordinates)], discrete=discrete, family=family)
    fits = _target(target_std, target_interval, confidence, discrete=discrete)

    def log_delta(profile: PrivacyProfile, slack: float) -> float:
        delta = float(profile.delta(epsilon, slack=slack))
        return math.log(delta) if delta > 0 else -math.inf

    noise = _best(joint, fits, log_delta)
    return Calibration(epsilon, float(PrivacyProfile(noise, shift, coordinates).delta(epsilon)), noise)


def _target(
    target_std: float | None, target_interval: float | None, confidence: float, *, discrete: bool
) -> Callable[[Distribution], float]:
    """A function of the noise that is ≤ 0 where the target is met and grows with the scale."""
    if (target_std is None) == (target_interval is None):
        raise ValueError("give one of target_std and target_interval: the error that you can accept")
    if target_std is not None:
        std = real_number("target_std", target_std, positive=True)
        return lambda noise: math.log(max(noise.std(), 1e-300) / std)
    half_width = real_number("target_interval", target_interval, positive=not discrete)
    tail = 0.5 * (1.0 - confidence_level(confidence))
    if tail == 0.5:
        raise ArgumentError(f"confidence must be above 0 and below 1, got {confidence!r}", argument="confidence")
    # A hair below the tail asked for, so that rounding does not push the quantile to the next integer.
    return lambda noise: float(noise.logsf(half_width)) - math.log(tail) + 1e-9


def _best(
    joint: JointNoise,
    fits: Callable[[Distribution], float],
    cost: Callable[[PrivacyProfile, float], float],
    shapes: tuple[float, ...] | None = None,
) -> Distribution:
    """The noise of least cost over all shapes (or those given), each at the largest scale that fits."""

    def scale(u: float) -> float:
        return math.exp(_largest_log_scale(lambda x: fits(joint.distributions(u, math.exp(x))[0])))

    def cost_of(u: float, slack: float) -> float:
        return cost(joint.profile(u, scale(u)), slack)

    if shapes is None:
        costs = costs_over_shapes(lambda u: cost_of(u, _COARSE_SLACK))
        shapes = (0.0, 1.0, min(costs, key=lambda u: costs[u]))
    best = min(shapes, key=lambda u: (cost_of(u, SLACK), u))
    return joint.distributions(best, scale(best))[0]


def _largest_log_scale(excess: Callable[[float], float]) -> float:
    """The largest x with excess(x) ≤ 0, for an increasing function, to a relative accuracy of 1e-12 from below."""
    low, high = bracket(excess, 0.0, 1.0, lowest=-600.0)
    if low == high:
        raise ValueError("the target is too small: no noise of this family meets it")
    return root_within(excess, low, high, inward=lambda x: x - 1e-12, xtol=1e-13, rtol=1e-15)


#: Percent of the variance that are told as 0.0 %.
_NOTHING_SAVED = 0.05


@dataclass(frozen=True)
class Row:
    """One noise at the budget. Intervals are half-widths, at 95 % and at 99.9999 % confidence."""

    name: str
    noise: Distribution
    std: float
    mean_abs: float
    interval_95: float
    interval_999999: float
    expected_max: float
    #: Part of the variance that the best noise saves against this one.
    gain: float

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for tables and JSON."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return values | {"noise": written(self.noise)}


@dataclass(frozen=True)
class Comparison:
    """A row for each end of the family and one for the family itself; which of the ends is better, and why.

    The rows are "gaussian", "laplace", "laplace (pure)" and "osgt" unless another family is compared. Iterates over its
    rows; `comparison["osgt"]` is one of them.
    """

    rows: tuple[Row, ...]
    better_end: str
    reason: str

    def __repr__(self) -> str:
        return f"Comparison({', '.join(f'{row.name}: std {row.std:.4g}' for row in self.rows)})"

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, name: str | int) -> Row:
        if isinstance(name, int):
            return self.rows[name]
        for row in self.rows:
            if row.name == name:
                return row
        raise KeyError(f"no row {name!r}; there are {', '.join(row.name for row in self.rows)}")


def compare(
    epsilon: float,
    delta: float,
    *,
    shift: float = 1,
    coordinates: int = 1,
    objective: Objective = "variance",
    discrete: bool = True,
    family: str | Family = "osgt",
    cells: int = 10_000,
    noise: Distribution | None = None,
) -> Comparison:
    """The error of Gaussian, Laplace and OSGT noise at the budget (ε, δ); arguments as for `calibrate`.

    The Gaussian and the Laplace are accounted for as tightly as the OSGT ("laplace (pure)" is the usual ε/coordinates
    for each coordinate). `cells` is the number of cells over which the expected largest error is taken. With δ = 0
    there is no Gaussian. `noise` is a distribution of your own in place of the calibrated one.
    """
    chosen, cells = family_of(family), count("cells", cells)
    best = noise or calibrate(
        epsilon, delta, shift=shift, coordinates=coordinates, objective=objective, discrete=discrete, family=chosen
    )
    ends = ends_of_family(epsilon, delta, [Part(shift, coordinates)], discrete, chosen)
    noises = {name: noises[0] for name, noises in ends.items()}
    rows = {name: _row(name, one, best, cells) for name, one in (noises | {chosen.name: best}).items()}
    return Comparison(tuple(rows.values()), *_verdict(chosen, rows))


def ends_of_family(
    epsilon: float, delta: float, parts: Sequence[Part], discrete: bool = True, family: str | Family = "osgt"
) -> dict[str, tuple[Distribution, ...]]:
    """The ends of the family at a budget, a distribution for each part: "gaussian", "laplace" and "laplace (pure)"."""
    search = ScaleSearch(joint_noise(parts, discrete=discrete, family=family), epsilon, delta)
    return {name: end_of_family(name, search) for name in names_of_ends(search.joint.family, delta, parts)}


def names_of_ends(family: Family, delta: float, parts: Sequence[Part] = ()) -> list[str]:
    """The ends that there are at a δ; those with a largest privacy loss on all parts have a second name, with "(pure)".

    The first are accounted for as tightly as what is between them and need δ > 0; the last are the usual sum of losses.
    """
    tight = [end.name for end in family.ends] if delta > 0 else []
    bounded = [end for u, end in enumerate(family.ends) if is_bounded(family, float(u))]
    return tight + [f"{end.name} (pure)" for end in bounded if not any(part.euclidean for part in parts)]


def end_of_family(
    name: str, search: ScaleSearch, objective: Objective = "variance", *, proved: bool = True
) -> tuple[Distribution, ...]:
    """The noise of an end at a budget, shared out among the parts as well as it can be.

    Noise that nobody will use need not be `proved` to meet the budget: estimated, it takes a tenth of the time.
    """
    joint = search.joint
    u = float(next(u for u, end in enumerate(joint.family.ends) if end.name == name.removesuffix(" (pure)")))
    if name.endswith(" (pure)"):
        return joint.distributions(u, pure_scale(joint, u, search.epsilon))
    result = allocated(search, u, objective)
    return result.joint.distributions(u, math.exp(result.proved(u) if proved else result.roughly(u)))


def _row(name: str, noise: Distribution, best: Distribution, cells: int) -> Row:
    return Row(
        name=name,
        noise=noise,
        std=noise.std(),
        mean_abs=noise.mean_abs(),
        interval_95=float(noise.isf(0.025)),
        interval_999999=float(noise.isf(0.5e-6)),
        expected_max=expected_maximum(noise, cells),
        gain=1.0 - best.var() / noise.var(),
    )


def _verdict(family: Family, rows: dict[str, Row]) -> tuple[str, str]:
    """The better end and the reason, in words."""
    ends = [end for end in family.ends if end.name in rows]
    if not ends:
        bounded = next(end.name for end in family.ends if f"{end.name} (pure)" in rows)
        return bounded, f"δ = 0 is pure differential privacy, which only the {_title(bounded)} end of the family gives."
    better = min(reversed(ends), key=lambda end: rows[end.name].std)
    name, saved = _title(better.name), 100 * rows[better.name].gain
    if saved < _NOTHING_SAVED:
        number = "many" if better == family.ends[0] else "few"
        return better.name, f"One person changes so {number} coordinates for this δ that the {name} itself is the best."
    return (
        better.name,
        f"Of the two ends the {name} is better ({better.better_with}); between them {saved:.1f} % more is saved.",
    )


def _title(name: str) -> str:
    return name.capitalize()
