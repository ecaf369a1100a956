"""Joint planning: the noise with the least error for one table or several that have one budget.

Each table measures what is best for it. One calibration then sets the noise of all that is measured. The same is done
for each end of the family by itself, and the best of all is used: over all columns of all tables the error is never
larger than with Gaussian or Laplace noise planned as well as that. An end that is not used is estimated, not proved.

What limits cut off is measured beside the groups, for a small part of the budget. `make_plans` makes the plans of all
tables with this noise; `epsilon_for` looks for the ε that an interval needs.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache, partial
from typing import Any

from osgt.calibration import Column, JointNoise, Part, calibrate_joint
from osgt.calibration.joint import budget, error_of
from osgt.calibration.scale import ScaleSearch
from osgt.calibration.search import end_of_family, names_of_ends
from osgt.limits.choice import share_for_cut_off
from osgt.noise import DiscreteOSGT, Distribution, IntegerDistribution, on_integers, scaled
from osgt.plan.allocation import Allocation, Factors
from osgt.plan.choice import LimitChoice
from osgt.plan.inputs import Noise, Planning, profile_of_all
from osgt.plan.plan import Asked, Plan, linked, threshold_of
from osgt.plan.schemes import Scheme
from osgt.privacy.estimate import Estimate
from osgt.privacy.profile import CHOICE_SHARE
from osgt.support.errors import ArgumentError
from osgt.support.numeric import can_be_drawn, least_that_fits, root_within

#: The noise of each table, in order.
Noises = tuple[Noise, ...]

#: Rounds in which tables are made to count for more; noise goes like one over the third or fourth root of that.
_ROUNDS, _MARGIN, _POWER = 8, 1.002, 4.0

#: The part of ε that composing the losses of tables exactly may spare, beside adding them up.
_MOST_SPARED = 0.9

#: Beyond, a logarithm of chances says no more than "far off".
_STEEP = 60.0

#: The first step from where an ε is sought, of its logarithm.
_FIRST_STEP = 0.1


class TooMuchNoiseError(ArgumentError):
    """A budget is so small that its noise cannot be drawn."""


@dataclass(frozen=True)
class Guarantee:
    """A table that must not be wider than alone with a part of the budget: some aggregates of what is measured."""

    table: int
    planning: Planning
    scheme: Scheme
    aggregates: range
    part: float
    #: The part of the error that least squares over several tables leave.
    narrowed: float

    @cached_property
    def _columns(self) -> list[Column]:
        numbers = [len(aggregate.errors(self.planning.groups)) for aggregate in self.planning.aggregates]
        first = sum(numbers[: self.aggregates.start])
        whole = len(self.aggregates) == len(numbers)
        columns = self.planning.joint(self.scheme).columns
        return list(columns if whole else columns[first : first + sum(numbers[i] for i in self.aggregates)])

    def error(self, noises: Noises) -> float:
        """The error of its columns."""
        laws = [*noises[self.table].laws.values()]
        return self.narrowed * error_of(laws, self._columns, self.planning.objective)

    def alone(self, epsilon: float, delta: float) -> float:
        """The error of the table that is released by itself with its part of the budget."""
        own = replace(self.planning, aggregates=tuple(self.planning.aggregates[i] for i in self.aggregates))
        scheme = self.scheme
        if len(self.aggregates) < len(self.planning.aggregates):
            scheme = own.rough_scheme(self.part * epsilon, self.part * delta)
        search = ScaleSearch(own.joint(scheme), self.part * epsilon, self.part * delta)
        return own.noise(scheme, calibrate_joint(search, own.objective, proved=False)).error


@dataclass(frozen=True)
class JointPlanning:
    """Tables that are released together, all with the same objective, confidence and family.

    Parameters
    ----------
    sets
        The places of tables that agree: they share what they measure.
    parts
        Of each of the tables, those that it is measured for: the number of their aggregates, and the part of the budget
        with which each alone must not have narrower intervals. Nothing is guaranteed without.
    """

    tables: tuple[Planning, ...]
    sets: tuple[tuple[int, ...], ...] = ()
    parts: tuple[tuple[tuple[int, float], ...], ...] = ()

    def best(self, epsilon: float, delta: float) -> tuple[Noises, dict[str, Noises]]:
        """The noise with the least error, of all shapes; and that of each end of the family.

        Where a table is wider than alone with its part of the budget, it counts for more, until none is.
        """
        result = self._best(epsilon, delta, ())
        if sum(map(len, self.parts)) < 2:
            return result
        alone = [own.alone(epsilon, delta) for own in self._guarantees(result[0])]
        factors, least, best = [[1.0] * len(table.aggregates) for table in self.tables], math.inf, result
        for _ in range(_ROUNDS):
            errors = [own.error(result[0]) for own in self._guarantees(result[0])]
            wider = [math.sqrt(own / most) if most else 1.0 for own, most in zip(errors, alone, strict=True)]
            if max(wider) < least:
                least, best = max(wider), result
            if least <= _MARGIN:
                return best
            for own, times in zip(self._guarantees(result[0]), wider, strict=True):
                for i in own.aggregates:
                    factors[own.table][i] *= max(times * _MARGIN, 1.0) ** _POWER
            result = self._best(epsilon, delta, factors)
        return best if any(len(own) > 1 for own in self.parts) else self._apart(epsilon, delta)

    def _guarantees(self, noises: Noises) -> "list[Guarantee]":
        """List what each table is sure of; least squares leave a part of its error."""
        narrowed, result = self._allocation.narrowed(noises), []
        for i, (table, parts) in enumerate(zip(self.tables, self.parts, strict=True)):
            first = 0
            for number, part in parts:
                result.append(Guarantee(i, table, noises[i].scheme, range(first, first + number), part, narrowed[i]))
                first += number
        return result

    def _apart(self, epsilon: float, delta: float) -> tuple[Noises, dict[str, Noises]]:
        """The noise of each table alone with its part of the budget, made smaller as far as all of it fits.

        Tables that are best with noise of different shapes may need this: otherwise all noise has one shape.
        """
        own = zip(self._with_settled_ways(lambda table: table.scheme(epsilon, delta)), self.parts, strict=True)
        every = [JointPlanning((table,)).best(part * epsilon, part * delta) for table, [(_, part)] in own]
        noises = tuple(noise for (noise,), _ in every)
        names = set.intersection(*(set(ends) for _, ends in every))
        ends = {name: tuple(own_ends[name][0] for _, own_ends in every) for name in names}
        return with_left_out(noises, ends, [{}] * len(noises), epsilon, delta, _MOST_SPARED)

    def _best(self, epsilon: float, delta: float, factors: Factors) -> tuple[Noises, dict[str, Noises]]:
        """Calibrate with these factors of what aggregates count for."""
        family, objective = self.tables[0].family, self.tables[0].objective
        searches: dict[Any, ScaleSearch] = {}
        power = 2.0 if delta else 1.0

        def search(schemes: Sequence[Scheme]) -> ScaleSearch:
            """Share one search among the schemes that come to the same."""
            key = tuple((scheme.key, scheme.measured) for scheme in schemes)
            if key not in searches:
                searches[key] = ScaleSearch(self._joint(schemes, factors, power), epsilon, delta)
            return searches[key]

        def end(name: str, *, proved: bool) -> Noises:
            """The noise with the least error at one end of the family, with schemes of its own."""
            return self._noises(own[name], end_of_family(name, search(own[name]), objective, proved=proved))

        schemes = self._schemes(lambda table: table.scheme(epsilon, delta))
        joint = self._joint(schemes, factors, power)
        names = names_of_ends(family, delta, joint.parts)
        draws = any(table.draws for table in self.tables)
        if not delta:
            joint.bounded_end()  # refused where there is none
        if draws:
            names = [name for name in names if name.startswith(family.ends[1].name)]
        own = {name: self._schemes(partial(_scheme_at, end=name)) for name in names}
        if draws:
            ends = {name: end(name, proved=True) for name in own}
            return min(ends.values(), key=self._as_shown), ends
        best = self._noises(schemes, calibrate_joint(search(schemes), objective))
        ends = {name: end(name, proved=False) for name in own}
        for name, noises in ends.items():
            if self._as_shown(noises) < self._as_shown(best):
                ends[name] = end(name, proved=True)
                best = min(best, ends[name], key=self._as_shown)
        return best, ends

    def rough_parts(self, epsilon: float, delta: float) -> tuple[Part, ...]:
        """List the parts that a unit moves in the schemes that look best, weighted as the noise is shared out."""
        schemes = self._schemes(lambda table: table.rough_scheme(epsilon, delta))
        joint = self._joint(schemes, (), 2.0 if delta else 1.0)
        return tuple(replace(part, weight=weight) for part, weight in zip(joint.parts, joint.weights, strict=True))

    def _joint(self, schemes: Sequence[Scheme], factors: Factors, power: float) -> JointNoise:
        if len(self.tables) == 1:
            return self.tables[0].joint(schemes[0], *factors)
        return self._allocation.joint(schemes, factors, power)

    @cached_property
    def _allocation(self) -> Allocation:
        return Allocation(self.tables, self.sets)

    def _schemes(self, scheme_of: Callable[[Planning], Scheme]) -> list[Scheme]:
        """The scheme of each table."""
        return [scheme_of(table) for table in self._with_settled_ways(scheme_of)]

    def _with_settled_ways(self, scheme_of: Callable[[Planning], Scheme]) -> list[Planning]:
        """The tables; those that agree measure what they share in one way, the best for all of them."""
        tables = [*self.tables]
        for places in self.sets:
            first, *others = (tables[i] for i in places)
            ways = scheme_of(first.shared_with(others)).ways
            for i in places:
                tables[i] = tables[i].with_ways(ways)
        return tables

    def _noises(self, schemes: Sequence[Scheme], laws: Sequence[Distribution]) -> Noises:
        """Give each table its own part of the distributions."""
        left = iter(laws)
        return tuple(
            table.noise(scheme, [next(left) for _ in scheme.measured])
            for table, scheme in zip(self.tables, schemes, strict=True)
        )

    def _as_shown(self, noises: Noises) -> tuple[float, float]:
        each = [table.as_shown(noise) for table, noise in zip(self.tables, noises, strict=True)]
        return math.fsum(shown for shown, _ in each), math.fsum(error for _, error in each)


def _scheme_at(table: Planning, end: str) -> Scheme:
    return table.scheme_at(end)


#: The logarithm of the noise is found to this.
_CLOSE = 0.005


def cut_off_share(tables: Iterable[Planning]) -> float:
    """The part of ε for measuring what limits cut off: more where intervals allow for it."""
    return max(
        share_for_cut_off(
            table.groups.public_group_count,
            moves_intervals=any(aggregate.counted(table.groups) is not None for aggregate in table.aggregates),
        )
        for table in tables
    )


def with_left_out(
    noises: Noises,
    ends: Mapping[str, Noises],
    parts: Sequence[Mapping[str, Part]],
    epsilon: float,
    delta: float,
    share: float,
) -> tuple[Noises, dict[str, Noises]]:
    """Add Laplace noise for further parts to the noise of tables, and make that smaller as far as both keep (ε, δ).

    The Laplace noise is ε'-differentially private, ε' being the `share` of ε, and the noise of the tables was
    calibrated for the rest: together they keep (ε, δ), and composed exactly there is some to spare.
    """
    tables = _Shrinking(noises, parts, epsilon, delta, share)
    if delta > 0:
        least = least_that_fits(
            tables.seems_to_fit, 0.0, step=_CLOSE, accuracy=_CLOSE, lowest=-tables.most, largest=0.0
        )
        factor = 0.0 if least is None else least
        while not tables.fits(factor):
            factor += _CLOSE
        tables.factor = factor
    scale = math.exp(tables.factor)
    return tables.at(tables.factor), {name: tuple(_scale(noise, scale) for noise in end) for name, end in ends.items()}


@dataclass
class _Shrinking:
    """The noise of tables, which is made smaller, beside Laplace noise for further parts."""

    noises: Noises
    parts: Sequence[Mapping[str, Part]]
    epsilon: float
    delta: float
    #: The part of ε for the further parts.
    share: float
    #: The logarithm of what the noise is multiplied by.
    factor: float = 0.0
    #: Where the last search for a saddle point ended; the next one begins there.
    tilt: float = 1.0

    @property
    def most(self) -> float:
        """The most that the logarithm may fall by: what the part of ε would make of Laplace noise."""
        return -math.log1p(-self.share)

    def at(self, factor: float) -> Noises:
        """The noises, made smaller by this, with that of the further parts."""
        return tuple(
            replace(_scale(noise, math.exp(factor)), extra_noise=extra)
            for noise, extra in zip(self.noises, self.extra, strict=True)
        )

    @cached_property
    def extra(self) -> list[dict[str, tuple[IntegerDistribution, Part]]]:
        """The Laplace noise of the further parts: the part of ε is shared out among them by their weights."""
        every = [part for own in self.parts for part in own.values()]
        whole = math.fsum(part.weight for part in every)

        def law(part: Part) -> IntegerDistribution:
            epsilon = self.share * self.epsilon * part.weight / whole * (1.0 - 1e-9)  # sums of these are rounded
            return DiscreteOSGT.laplace(part.equivalent(1.0) * part.shift / epsilon)

        return [{name: (law(part), part) for name, part in own.items()} for own in self.parts]

    def fits(self, factor: float) -> bool:
        """Whether all of it keeps (ε, δ): proved."""
        return float(profile_of_all(self.at(factor)).delta(self.epsilon, slack=1e-3)) <= self.delta

    def seems_to_fit(self, factor: float) -> bool:
        """Whether all of it keeps (ε, δ), by an estimate."""
        estimate = Estimate(*profile_of_all(self.at(factor)).pairs(), math.log(self.delta), self.tilt)
        fits = estimate.log_delta(self.epsilon) <= math.log(self.delta)
        self.tilt = estimate.tilt
        return fits


def _scale(noise: Noise, factor: float) -> Noise:
    """Make noise so many times as large."""
    laws = {measure: on_integers(scaled(law, factor)) for measure, law in noise.laws.items()}
    return replace(noise, laws=laws, error=noise.error * factor**2)


def make_plans(
    tables: Sequence[Asked],
    epsilon: float,
    delta: float,
    choice: LimitChoice | None = None,
    sets: tuple[tuple[int, ...], ...] = (),
) -> list[Plan]:
    """Calibrate all that is measured in tables that are released together at once, and make a plan for each.

    A choice of limits takes its part of ε, and where groups are chosen, a part of δ is set aside for that. What is cut
    off is measured for a small part of the budget. `sets` has the places of tables that agree.
    """
    epsilon, delta = budget(epsilon, delta)
    for table in tables:
        table.planning.checked()
    choosing = sum(not table.planning.groups.shows_all for table in tables)
    if delta == 0 and choosing:
        raise ArgumentError(
            "delta must be above 0 where groups are chosen by their size; or give public_keys", argument="delta"
        )
    choice_delta = CHOICE_SHARE * delta / max(choosing, 1)
    left = epsilon if choice is None else epsilon - choice.epsilon
    noises, ends = _noises(tuple(tables), sets, left, delta * (1.0 - CHOICE_SHARE) if choosing else delta)

    @cache
    def with_delta(other: float) -> list[Plan]:
        return make_plans(tables, epsilon, other, choice, sets)

    def plan(i: int, table: Asked) -> Plan:
        planning = table.planning
        return Plan(
            groups=planning.groups,
            aggregates=planning.aggregates,
            neighbours=planning.neighbours,
            epsilon=epsilon,
            delta=delta,
            confidence=planning.interval,
            planning=planning,
            noise=noises[i],
            ends={name: blocks[i] for name, blocks in ends.items()},
            left_out=table.left_out,
            selection=threshold_of(planning, noises[i], choice_delta),
            limit_notes=table.limit_notes,
            choice=choice,
            open_limits=table.open_limits,
            with_delta=lambda other: with_delta(other)[i],
        )

    return linked([plan(i, table) for i, table in enumerate(tables)], sets)


@lru_cache(maxsize=32)
def _noises(
    tables: tuple[Asked, ...], sets: tuple[tuple[int, ...], ...], epsilon: float, delta: float
) -> tuple[Noises, Mapping[str, Noises]]:
    """Calibrate the noise of all tables, and that of each end of the family; for equal queries once."""
    # A table has its equal part of the budget for itself, or less if its weight says so.
    weights = [weight for table in tables for _, weight in table.tables]
    parts = tuple(
        tuple((number, min(1 / len(weights), weight / math.fsum(weights))) for number, weight in table.tables)
        for table in tables
    )
    joint = JointPlanning(tuple(table.planning for table in tables), sets, parts)
    beside = [{} if table.left_out is None else table.left_out.parts(table.planning.neighbours) for table in tables]
    if any(beside):
        share = cut_off_share(joint.tables)
        noises, ends = with_left_out(*joint.best((1.0 - share) * epsilon, delta), beside, epsilon, delta, share)
    else:
        noises, ends = joint.best(epsilon, delta)
    if not all(can_be_drawn(law.potential) for noise in noises for law, _ in noise.pairs):
        without = "" if all(noise.extra_noise == {} for noise in noises) else " or measure_left_out=False"
        raise TooMuchNoiseError(
            f"epsilon = {epsilon:.15g} needs more noise than can be drawn as 64-bit integers: use a larger epsilon, "
            f"narrower bounds{without}",
            argument="epsilon",
        )
    return noises, ends


def epsilon_for(target: float, excess: Callable[[float], float], start: float = 1.0) -> float:
    """The least ε, to about 1e-5 of itself, at which a noise interval is as narrow as the target.

    `excess` of ε is ≤ 0 there: the logarithm of the chance to be outside the target, less that of the chance allowed.
    `start` is an ε that is not far off.
    """

    @cache
    def limited(log_epsilon: float) -> float:
        try:
            return min(max(excess(math.exp(log_epsilon)), -_STEEP), _STEEP)
        except TooMuchNoiseError:
            return math.inf

    low = high = min(max(math.log(start), math.log(1e-8)), math.log(1e5))
    step = _FIRST_STEP
    while limited(high) > 0:
        if high >= math.log(1e5):
            raise ValueError(f"interval {target:g} is too small for this query: not even ε = 100,000 reaches it")
        low, high, step = high, min(high + step, math.log(1e5)), 2 * step
    step = _FIRST_STEP
    while limited(low) <= 0:
        if low <= math.log(1e-8):
            raise ValueError(f"interval {target:g} is wide enough for any ε")
        low, high, step = max(low - step, math.log(1e-8)), low, 2 * step
    if math.isinf(limited(low)):
        raise ValueError(f"interval {target:g} is wide enough for any ε whose noise can be drawn")
    epsilon = math.exp(root_within(limited, low, high, inward=lambda x: x + 1e-5, xtol=1e-5))
    digits = 4 - math.floor(math.log10(epsilon))
    rounded = round(math.ceil(epsilon * 10.0**digits) / 10.0**digits, max(digits, 0))  # one that people can write down
    return rounded if rounded >= epsilon and excess(rounded) <= 0 else epsilon
