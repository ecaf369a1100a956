"""Planning: which whole numbers to measure for what a query asks for, at a budget.

Schemes are ranked by a formula, for noise of any shape and for each end of the family by itself. `plan.joint` has
the noise.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice

from osgt.calibration import Column, JointNoise, Part
from osgt.calibration.joint import error_of, joint_noise, noise_of, profile_of
from osgt.calibration.scale import ScaleSearch
from osgt.data.unit import Neighbours
from osgt.noise import Distribution, Family, IntegerDistribution, on_integers
from osgt.noise.error import Objective, measure
from osgt.plan.known import Known, known_totals
from osgt.plan.schemes import Alternatives, Option, RoughCost, Scheme, is_alike
from osgt.plan.structure import adds_up, measured_levels
from osgt.privacy import PrivacyProfile
from osgt.query.aggregates.base import Aggregate, Error
from osgt.query.groups import Groups, Level, Total, UnitsAt
from osgt.query.measures import Measure, Rows, Units, Values
from osgt.query.quantiles import QuantileDraw
from osgt.support.errors import ArgumentError
from osgt.support.numeric import LARGEST_SHIFT, confidence_level

#: Of schemes whose rough cost is so near to the least, this many are compared by their real error.
_NEAR, _COMPARED = 1.15, 3

#: The scheme that measures every number as it is comes with them, unless its rough cost is so much larger.
_FAR = 2.0

#: A shape half-way between the ends.
_MIDDLE = 0.5


@dataclass(frozen=True)
class Noise:
    """A scheme, and the noise of each number that is measured."""

    scheme: Scheme
    parts: dict[Measure, Part]
    laws: dict[Measure, IntegerDistribution]
    #: Σ weight·(error/unit)² over the columns.
    error: float
    #: Noise and parts of what is measured over all units, whatever groups they are in.
    extra_noise: "dict[str, tuple[IntegerDistribution, Part]]" = field(default_factory=dict)

    def with_limits(self, groups: Groups, before: Groups, measures: Mapping[Measure, Measure]) -> "Noise":
        """The noise of the same numbers under other limits: as large in steps, which mean something else.

        `measures` has those of the query with the limits in place of those of the query without.
        """

        def renewed(measure: Measure) -> Measure:
            if isinstance(measure, Total):
                return replace(measure, base=renewed(measure.base))
            return measures.get(measure, measure)

        scheme = self.scheme.with_steps({m: (renewed(m), before.step(m), groups.step(renewed(m))) for m in self.parts})
        return replace(
            self,
            scheme=replace(scheme, combined={renewed(asked): parts for asked, parts in scheme.combined.items()}),
            parts={renewed(measure): part for measure, part in self.parts.items()},
            laws={renewed(measure): law for measure, law in self.laws.items()},
        )

    @property
    def pairs(self) -> "list[tuple[IntegerDistribution, Part]]":
        """The pairs of a noise and its part, for all that is measured."""
        return [*((self.laws[measure], part) for measure, part in self.parts.items()), *self.extra_noise.values()]


def profile_of_pairs(pairs: Iterable[tuple[Distribution, Part]]) -> PrivacyProfile:
    """The privacy loss of noise on parts."""
    every = list(pairs)
    return profile_of([law for law, _ in every], [part for _, part in every])


def profile_of_all(noises: Iterable[Noise]) -> PrivacyProfile:
    """The privacy loss of all the noise of tables that are released together."""
    return profile_of_pairs(pair for noise in noises for pair in noise.pairs)


@dataclass(frozen=True)
class Planning:
    """The aggregates and limits to plan for. `interval` is the confidence of the intervals that are shown."""

    groups: Groups
    neighbours: Neighbours
    aggregates: tuple[Aggregate, ...]
    complete: frozenset[str]
    asked_objective: Objective
    interval: float
    family: Family
    #: What every column counts for beside its own weight: where several tables have one budget, that of its table.
    share: float = 1.0
    #: The ways in which numbers are measured that a table shares with others; None for a table that shares none.
    ways: Mapping[Measure, Option] | None = field(default=None, hash=False, compare=False)

    def with_share(self, share: float) -> "Planning":
        """Set what every column counts for beside its weight; which schemes are good does not depend on it."""
        other = replace(self, share=share)
        other.__dict__.update({name: getattr(self, name) for name in ("alternatives", "_cost")})
        return other

    @property
    def objective(self) -> Objective:
        """The error that is to be small: of intervals, the quantile at their confidence."""
        return ("quantile", self.interval) if self.asked_objective == "interval" else self.asked_objective

    @cached_property
    def draws(self) -> bool:
        """Whether quantiles are drawn: that stands for Laplace noise, which all of a release has then."""
        return any(isinstance(m, QuantileDraw) for aggregate in self.aggregates for m in aggregate.measures)

    @cached_property
    def selector(self) -> Measure | None:
        """The count by which groups are chosen; None if all groups are shown.

        The one that a unit moves least: of units if it is asked for, else of rows or values. It is measured as it is.
        """
        if self.groups.shows_all:
            return None
        asked = [self._same(measure) for aggregate in self.aggregates for measure in aggregate.measures]
        counts = [measure for measure in asked if measure.counted is not None]
        return min(
            counts,
            key=lambda measure: (self.groups.max_contribution(measure), isinstance(measure, Values)),
            default=self.groups.canonical(Rows()) if self.groups.max_groups is None else Units(),
        )

    def shared_with(self, others: "Sequence[Planning]") -> "Planning":
        """Join what this table and others ask for and can share, as of one table."""
        asked = [aggregate for table in (self, *others) for aggregate in table.aggregates]
        alike = [a for a in asked if all(is_alike(self.groups, self._same(measure)) for measure in a.measures)]
        complete = frozenset().union(*(table.complete for table in (self, *others)))
        groups = replace(self.groups, levels=())
        return replace(self, groups=groups, aggregates=tuple(dict.fromkeys(alike)), complete=complete, ways={})

    def with_ways(self, ways: Mapping[Measure, Option]) -> "Planning":
        """Settle how numbers are measured that are shared with other tables."""
        return replace(self, ways={asked: way for asked, way in ways.items() if is_alike(self.groups, asked)})

    def _same(self, measure: Measure) -> Measure:
        return self.alternatives_of((), frozenset()).same(measure)

    @cached_property
    def errors(self) -> tuple[Error, ...]:
        """The errors that are to be small. A count that groups are chosen by alone counts like a column.

        Where units count in each of several groups and rows in all groups together, one step of a count of units takes
        as much of the budget as several of the rows: errors of rows weigh more, so that neither has to pay for the
        other. (Between the square, which is right for Laplace noise, and the number itself, for Gaussian noise.)
        """
        result = [error for aggregate in self.aggregates for error in aggregate.errors(self.groups)]
        asked = {self._same(measure) for aggregate in self.aggregates for measure in aggregate.measures}
        if self.selector is not None and self.selector not in asked:
            result.append(Error({self.selector: 1.0}, float(self.groups.max_contribution(self.selector)), 1.0))
        in_all = [any(self.groups.limits_in_all(measure) for measure in error.coefficients) for error in result]
        if all(in_all) or not any(in_all):
            return tuple(result)
        factor = self.groups.max_groups_per_unit**1.5
        return tuple(
            replace(error, weight=error.weight * factor) if is_in_all else error
            for error, is_in_all in zip(result, in_all, strict=True)
        )

    @cached_property
    def known(self) -> Known:
        """The known totals, which are public, of the counts that they are about: these are measured as they are."""
        return known_totals(self.groups, self.aggregates) if self.groups.levels else {}

    @cached_property
    def alternatives(self) -> Alternatives:
        """The schemes that there are."""
        asked = [measure for aggregate in self.aggregates for measure in aggregate.measures]
        chosen = (*self.known, *(() if self.selector is None else (self.selector,)))
        return self.alternatives_of(tuple(dict.fromkeys([*asked, *chosen])), frozenset(chosen))

    def alternatives_of(self, asked: tuple[Measure, ...], direct: frozenset[Measure]) -> Alternatives:
        """The schemes for some numbers, of which some must be measured as they are."""
        return Alternatives(asked, self.groups, self.neighbours, self.complete, direct, self.ways)

    def checked(self) -> None:
        """Raise if there is nothing to measure, or if numbers get too large."""
        confidence_level(self.interval)
        if self.asked_objective != "interval":
            measure(self.asked_objective)
        if not self.aggregates:
            raise ValueError("the query must ask for something, such as a count, a sum or a mean")
        if self.draws and self.family.name != "osgt":
            raise ArgumentError('family must be "osgt" where quantiles have no interval', argument="family")
        if not self._fits(self.alternatives.directly()):
            raise ValueError("bounds are too wide: one unit could move a sum by more than 2**50 steps")

    def _fits(self, scheme: Scheme) -> bool:
        moves = [self.groups.sensitivity(measure, self.neighbours) for measure in scheme.measured]
        most = (
            self.groups.max_groups_per_unit if self.groups.levels else 1
        )  # a total may move by what a unit adds to all its groups
        return all(shift * most <= LARGEST_SHIFT for changes in moves for shift, _ in changes)

    def part(self, measure: Measure) -> Part:
        """The part that a unit moves."""
        first, *rest = self.groups.sensitivity(measure, self.neighbours)
        return Part(*first, also=tuple(rest), euclidean=self.groups.limits_length(measure))

    def joint(self, scheme: Scheme, factors: Sequence[float] = ()) -> JointNoise:
        """Set up the joint calibration of a scheme: its parts, its columns, the family and the objective.

        `factors` has for each aggregate how many times more it counts than otherwise.
        """
        parts = [self.part(measure) for measure in scheme.measured]
        columns = []
        for error, factor in self._counted(scheme, factors or [1.0] * len(self.aggregates)):
            coefficients = scheme.coefficients(error)
            columns.append(
                Column(
                    tuple(coefficients.get(measure, 0) for measure in scheme.measured),
                    error.unit,
                    error.weight * self.share * factor,
                )
            )
        return joint_noise(
            parts,
            discrete=True,
            family=self.family,
            objective=self.objective,
            columns=columns,
        )

    def _counted(self, scheme: Scheme, factors: Sequence[float]) -> list[tuple[Error, float]]:
        """The errors of what a scheme measures, each with the factor of its aggregate; of others, with the largest."""
        own = [f for a, f in zip(self.aggregates, factors, strict=True) for _ in a.errors(self.groups)]
        errors = [*self.errors, *self._errors_of_totals(scheme)]
        return list(zip(errors, [*own, *[max(factors)] * (len(errors) - len(own))], strict=True))

    def scheme(self, epsilon: float, delta: float) -> Scheme:
        """The scheme that is best with noise of the best shape."""
        cost = self._cost.at(epsilon, delta)
        first = self._first(cost, _COMPARED)
        near = [scheme for scheme in first if cost(scheme) <= _NEAR * cost(first[0])]
        direct = self.alternatives.directly()
        near += [direct] if cost(direct) <= _FAR * cost(first[0]) else []
        near += [self._first(end, 1)[0] for end in (self._cost.gaussian, self._cost.laplace)]
        different = {scheme.key: scheme for scheme in near}
        return self._least([self.with_totals(scheme) for scheme in different.values()], epsilon, delta)

    def scheme_at(self, end: str) -> Scheme:
        """The scheme that is best with noise of one end of the family."""
        cost = self._cost.gaussian if end == self.family.ends[0].name else self._cost.laplace
        return self.with_totals(self._first(cost, 1)[0])

    def with_totals(self, scheme: Scheme) -> Scheme:
        """The scheme with the totals that are worth measuring, of the numbers that add up, and all distinct units."""
        levels = self.groups.levels
        if not levels:
            return scheme
        distinct: list[Measure] = []
        if any(not aggregate.adds_up(self.groups) for aggregate in self.aggregates):
            distinct = [Total(UnitsAt(level.by), level) for level in levels]
        totals = [*distinct, *self._totals_worth_measuring(scheme, distinct)]
        return scheme.with_totals({total: self.groups.step(total) for total in totals})

    def _totals_worth_measuring(self, scheme: Scheme, distinct: list[Measure]) -> list[Measure]:
        """The totals of the numbers that add up, on the levels where a measurement helps."""
        numbers = self._numbers_that_add_up(scheme)
        if not numbers:
            return []
        rest = [measure for measure in scheme.measured if measure not in numbers] + distinct
        moves = [move for measure in rest for move in self.groups.sensitivity(measure, self.neighbours)]
        others = math.fsum(math.sqrt(coordinates) for _, coordinates in moves)
        counts: dict[frozenset[Level], list[Measure]] = {}
        for number in numbers:
            counts.setdefault(frozenset(self.known.get(number, ())), []).append(number)
        result: list[Measure] = []
        for known, alike in counts.items():
            worth = measured_levels(
                self.groups, self.neighbours, alike[0], measures=len(numbers), others=others, known=known
            )
            result += [Total(number, level) for number in alike for level in worth]
        return result

    def _numbers_that_add_up(self, scheme: Scheme) -> list[Measure]:
        """The measured numbers whose totals may be measured too."""
        adding = [aggregate for aggregate in self.aggregates if aggregate.adds_up(self.groups)]
        used = {own for aggregate in adding for asked in aggregate.measures for own in scheme.combined[asked]}
        # A limit on the length of what a unit adds to groups is none on what it adds to their totals.
        return [
            measure
            for measure in scheme.measured
            if adds_up(measure) and measure in used and not self.groups.limits_length(measure)
        ]

    def _errors_of_totals(self, scheme: Scheme) -> list[Error]:
        """Weigh the totals: each counts as much as the heaviest column of its groups, times what its level says."""
        result = []
        for total in scheme.measured:
            if isinstance(total, Total):
                base = Units() if isinstance(total.base, UnitsAt) else total.base
                weights = [error.weight for error in self.errors if base in scheme.coefficients(error)]
                weight = max(weights, default=1.0) * total.level.weight
                result.append(Error({total: 1.0}, float(self.groups.max_contribution(total)), weight))
        return result

    def rough_scheme(self, epsilon: float, delta: float) -> Scheme:
        """The scheme that looks best, by the formula alone."""
        return self.with_totals(self._first(self._cost.at(epsilon, delta), 1)[0])

    @cached_property
    def _cost(self) -> RoughCost:
        return RoughCost(self.groups, self.neighbours, self.errors)

    def _first(self, cost: Callable[[Scheme], float], number: int) -> list[Scheme]:
        """The best schemes by a cost, of those that measure nothing too large."""
        return list(islice(filter(self._fits, self.alternatives.ranked(cost)), number))

    def _least(self, schemes: Sequence[Scheme], epsilon: float, delta: float) -> Scheme:
        """The best of some schemes, by an estimate for a shape between the ends."""
        if len(schemes) == 1 or delta == 0:
            return schemes[0]

        def error(scheme: Scheme) -> float:
            joint = self.joint(scheme)
            scale = math.exp(ScaleSearch(joint, epsilon, delta).roughly(_MIDDLE))
            return joint.rough_error(_MIDDLE, scale, "variance")

        return min(schemes, key=error)

    def noise(self, scheme: Scheme, laws: Sequence[Distribution]) -> Noise:
        """The noise of what a scheme measures, given its distributions in order."""
        joint = self.joint(scheme)
        named = {measure: on_integers(law) for measure, law in zip(scheme.measured, laws, strict=True)}
        parts = dict(zip(scheme.measured, joint.parts, strict=True))
        error = error_of(list(named.values()), joint.columns, self.objective)
        return Noise(scheme, parts, named, error)

    def as_shown(self, noise: Noise) -> tuple[float, float]:
        """The error, by the intervals as they will be shown if these are what is to be small."""
        if self.asked_objective != "interval":
            return noise.error, noise.error
        laws = list(noise.laws.values())
        widths = [
            column.weight * (noise_of(laws, column).half_width(self.interval) / column.unit) ** 2
            for column in self.joint(noise.scheme).columns
        ]
        return math.fsum(widths), noise.error
