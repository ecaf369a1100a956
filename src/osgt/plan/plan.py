"""Plan: all that a release will do, settled before any data are read."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from osgt.calibration import Part
from osgt.data.unit import Neighbours
from osgt.estimation.sums import NoiseSum
from osgt.limits.left_out import LeftOutMeasures
from osgt.noise import IntegerDistribution, written
from osgt.noise.error import Objective, objective_text
from osgt.plan.agreement import SharedNoise, TableNoise, TableSet
from osgt.plan.choice import LimitChoice
from osgt.plan.inputs import Noise, Planning, profile_of_all
from osgt.plan.reconciled import LevelNoises, Reconciled, asked_numbers
from osgt.plan.selection import Selection, select, shown_size
from osgt.plan.total_rows import ChosenGroups
from osgt.privacy import Charge
from osgt.privacy.filters.budget import USUAL_DELTA, budget_warnings, pure_cautions
from osgt.query.aggregates.base import Aggregate, Column, Noisy, OpenLimit
from osgt.query.groups import Groups, Level
from osgt.query.measures import Measure
from osgt.support.errors import PLANNED, Familiar
from osgt.support.text import DisplayedInText, views

#: A group must be this large to be shown with this probability: said in plans and statements.
SHOWN = 0.99

#: The limits of which a plan shows what they would mean, where some are open.
HANDFUL = (1, 3, 10, 30, 100)

#: No table is about more people than there are.
_MOST_PEOPLE = 8e9


class AnyPlan(Protocol):
    """A plan of one table or of several, which have one budget."""

    @property
    def epsilon(self) -> float:
        """ε, in total."""

    @property
    def delta(self) -> float:
        """δ, in total."""

    @property
    def noise_delta(self) -> float:
        """The δ that the noise may use."""

    @property
    def selection_delta(self) -> float:
        """The chance that a group of one unit alone is shown, over all tables."""

    @property
    def charge(self) -> Charge:
        """The charge that a ledger takes out of a budget."""

    @property
    def confidence(self) -> float:
        """The probability of each interval."""

    @property
    def objective(self) -> Objective:
        """The error that was made small."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """The reasons why a release is worth little; empty as a rule."""

    @property
    def cautions(self) -> tuple[str, ...]:
        """The warnings, and advice for whoever chooses the budget."""

    @property
    def tables(self) -> "Mapping[str, Plan]":
        """The plans of the tables by their names; a table alone has none."""

    @property
    def blocks(self) -> "tuple[Plan, ...]":
        """The plans of what the engine computes at once: tables with the same rows, groups and limits share one."""

    @property
    def block_of(self) -> Mapping[str, int]:
        """The place of the block of each table."""

    @property
    def sets(self) -> tuple[tuple[int, ...], ...]:
        """The places of blocks of tables that agree, each set together."""

    @property
    def agreeing(self) -> list[list[str]]:
        """The names of tables that agree, each set together."""

    @property
    def choice(self) -> LimitChoice | None:
        """The choice of limits that comes first; None if all are given."""

    @property
    def gains(self) -> dict[str, float]:
        """The part of the error that is saved against each alternative noise."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""


@dataclass(frozen=True, eq=False, repr=False)
class Plan(Familiar, DisplayedInText):
    """The noise of a release, its intervals and what would be charged. Made without reading data."""

    _called, _advice = "a plan", PLANNED
    _for_users = (
        "epsilon delta confidence objective columns totals threshold shown_size chosen_by open_limits choice charge "
        "alternatives gains warnings to_dict plot"
    )

    groups: Groups
    aggregates: tuple[Aggregate, ...]
    neighbours: Neighbours
    epsilon: float
    delta: float
    confidence: float
    planning: Planning
    noise: Noise
    ends: Mapping[str, Noise]
    selection: Selection | None
    limit_notes: tuple[str, ...]
    left_out: LeftOutMeasures | None = None
    #: The choice of limits that comes first, where some are open.
    choice: LimitChoice | None = None
    #: The limits that are open: what stands for them has no meaning.
    open_limits: tuple[OpenLimit, ...] = ()
    #: The same plan with another δ.
    with_delta: "Callable[[float], Plan] | None" = None
    #: For a table that agrees with others, the noise of all of them, and its place.
    shared: tuple[TableSet, int] | None = None

    #: Tables that agree: a table alone has none.
    sets: ClassVar[tuple[tuple[int, ...], ...]] = ()
    agreeing: ClassVar[list[list[str]]] = []

    @property
    def tables(self) -> "dict[str, Plan]":
        """The plans of all tables: this one, without a name."""
        return {"": self}

    @property
    def blocks(self) -> "tuple[Plan, ...]":
        """The plans of what the engine computes: this one."""
        return (self,)

    @property
    def block_of(self) -> dict[str, int]:
        """The place of the block of each table."""
        return {"": 0}

    def with_limits(self, asked: "Asked") -> "Plan":
        """The plan of the query in which open limits are chosen: the noise in steps is the same."""
        planning = asked.planning
        measures = {
            old: new
            for before, after in zip(self.aggregates, planning.aggregates, strict=True)
            for old, new in zip(before.measures, after.measures, strict=True)
        }

        def limited(noise: Noise) -> Noise:
            return noise.with_limits(planning.groups, self.groups, measures)

        noise = limited(self.noise)
        _check_parts(noise, planning, asked.left_out)
        selection = None if self.selection is None else threshold_of(planning, noise, self.selection.delta)
        return replace(
            self,
            groups=planning.groups,
            aggregates=planning.aggregates,
            planning=planning,
            noise=noise,
            ends={name: limited(end) for name, end in self.ends.items()},
            selection=selection,
            limit_notes=asked.limit_notes,
            left_out=asked.left_out if self.left_out is not None else None,
            open_limits=asked.open_limits,
            shared=None,  # the others have other limits, too
        )

    def at_limit(self, size: int) -> "Plan":
        """The plan with so many rows and groups as limits in place of those that are open."""
        if self.shared is not None:
            every = [plan.at_limit(size) for plan in self.shared[0].plans]
            return replace(linked(every, [range(len(every))])[self.shared[1]], aggregates=self.aggregates)
        limits: dict[str, Any] = {limit.argument: size for limit in self.open_limits if limit.column is None}
        planning = replace(self.planning, groups=replace(self.groups, **limits))
        of_values = tuple(limit for limit in self.open_limits if limit.column is not None)
        return self.with_limits(Asked(planning, self.limit_notes, self.left_out, of_values))

    @property
    def laws(self) -> Mapping[Measure, IntegerDistribution]:
        """The noise of each number that is measured."""
        return self.noise.laws

    @property
    def parts(self) -> Mapping[Measure, Part]:
        """The sensitivity of each number that is measured: how far one unit moves it."""
        return self.noise.parts

    @property
    def objective(self) -> Objective:
        """The error that was made small."""
        return self.planning.asked_objective

    @property
    def selector(self) -> Measure | None:
        """The count by which groups are chosen; None if all groups are shown."""
        return self.planning.selector

    @property
    def threshold(self) -> int | None:
        """The noisy count from which on a group is shown; None if all groups are."""
        return None if self.selection is None else self._counted(self.selection.threshold)

    def _counted(self, steps: int) -> int:
        """The count of units, rows or values that so many steps of the selector's number are."""
        assert self.selector is not None
        return math.ceil(steps * self.groups.step(self.selector))

    @property
    def selection_delta(self) -> float:
        """The chance that a group of one unit alone is shown, over all its groups."""
        return 0.0 if self.selection is None else self.selection.delta

    @property
    def noise_delta(self) -> float:
        """The δ that the noise may use: all but that of the choice of groups."""
        return self.delta - self.selection_delta

    @cached_property
    def charge(self) -> Charge:
        """The charge to a ledger: the choice of limits, the noise in all groups, and the choice of groups apart."""
        noise = Charge(profile_of_all([self.noise]), self.selection_delta)
        return noise if self.choice is None else Charge.compose([self.choice.charge, noise])

    @cached_property
    def shown_size(self) -> int | None:
        """The least size at which a group is shown with 99 % probability; None if all groups are shown."""
        if self.selector is None or self.selection is None:
            return None
        return self._counted(shown_size(self.laws[self.selector], self.selection.threshold, SHOWN))

    @property
    def chosen_by(self) -> str | None:
        """The name of what is counted to choose the groups that are shown: "units", "rows" or "values of …"."""
        return None if self.selector is None else self.selector.counted

    @property
    def warnings(self) -> tuple[str, ...]:
        """The reasons why this release is worth little, as a promise or as a table; empty as a rule."""
        result = budget_warnings(self.epsilon, self.delta)
        if self.selector is None or self.shown_size is None:
            return result
        # A δ far below one over the number of units says how many of them there can be.
        units, most = self.shown_size / self.groups.max_contribution(self.selector), min(1.0 / self.delta, _MOST_PEOPLE)
        if units <= most:
            return result
        return (
            *result,
            f"The table will probably be empty: only groups of about {self.shown_size:,} "
            f"{self.groups.counted_in_words(self.chosen_by)} are published, and δ = {self.delta:.15g} is meant for "
            f"fewer than {most:,.0f} {self.groups.noun.many}. Use a larger ε, smaller "
            "limits, coarser groups or public_keys.",
        )

    @property
    def cautions(self) -> tuple[str, ...]:
        """The warnings, and what δ = 0 costs: for whoever chooses the budget."""
        return (*self.warnings, *pure_cautions(self.times_as_wide))

    @cached_property
    def times_as_wide(self) -> float:
        """The largest factor by which intervals are wider than with a δ in ordinary use; 1 where δ is above 0."""
        if self.delta > 0 or self.with_delta is None:
            return 1.0
        other = replace(self.with_delta(USUAL_DELTA), aggregates=self.aggregates)
        pairs = zip(self.columns, other.columns, strict=True)
        return max([1.0, *(mine.width / theirs.width for mine, theirs in pairs if theirs.width > 0)])

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the release and their noise."""
        return self._columns(self.noise)

    @cached_property
    def alternatives(self) -> dict[str, tuple[Column, ...]]:
        """The columns with Gaussian and with Laplace noise at the same budget, each planned in the same way."""
        return {name: self._columns(noise, name) for name, noise in self.ends.items()}

    @property
    def gains(self) -> dict[str, float]:
        """The part of the error that is saved against each alternative: of the variance, if that was to be small."""
        return saved(self.objective, self.noise.error, {name: noise.error for name, noise in self.ends.items()})

    @cached_property
    def totals(self) -> dict[Level, tuple[Column, ...]]:
        """The columns of each level of totals and their noise, where it is largest."""
        result = {}
        for i, level in enumerate(self.groups.levels):
            if isinstance(self.levels, ChosenGroups):
                result[level] = self._planned(self.levels.total_noises(), self.levels.distinct_noises())
            else:
                result[level] = self._planned(*self.levels.noisiest(len(self.groups.levels) - 1 - i))
        return result

    @cached_property
    def levels(self) -> Reconciled | ChosenGroups:
        """The way in which the numbers of all levels come about."""
        return self._levels(self.noise)

    def _levels(self, noise: Noise, end: str | None = None) -> Reconciled | ChosenGroups:
        asked = asked_numbers(self.aggregates, noise.scheme)
        if self.shared is not None:
            shared, place = self.shared
            return Reconciled(shared.noise if end is None else shared.ends[end], place, asked)
        if self.groups.public is None:
            return ChosenGroups(self.groups, noise.scheme, noise.laws, asked, self.selector)
        return Reconciled(
            SharedNoise((TableNoise(self.groups, noise.scheme, noise.laws, self.planning.known),)), 0, asked
        )

    @property
    def is_reconciled(self) -> bool:
        """Whether least squares reconcile its numbers with totals, or with those of other tables."""
        return (self.groups.public is not None and bool(self.groups.levels)) or self.shared is not None

    def _columns(self, noise: Noise, end: str | None = None) -> tuple[Column, ...]:
        levels = self._levels(noise, end)
        if self.is_reconciled and isinstance(levels, Reconciled):
            return self._planned(levels.noisiest(-1)[0])
        return self._planned(LevelNoises(noise.scheme.noises(noise.laws), noise.scheme.trees(noise.laws)))

    def _planned(self, noise: LevelNoises, distinct: Mapping[Measure, NoiseSum] | None = None) -> tuple[Column, ...]:
        added = Noisy({}, noise.numbers, self.confidence, nonnegative=False, trees=noise.trees)
        apart = replace(added, noises={**noise.numbers, **(distinct or {})})
        return tuple(
            column
            for aggregate in self.aggregates
            for column in aggregate.plan_columns(added if aggregate.adds_up(self.groups) else apart)
        )

    def noisy(self, measured: Mapping[Measure, NDArray[np.int64]], *, nonnegative: bool) -> Noisy:
        """Gather what aggregates see of a release: the numbers that they ask for, out of those measured with noise."""
        scheme = self.noise.scheme
        return Noisy(
            scheme.values(measured),
            scheme.noises(self.laws),
            self.confidence,
            nonnegative,
            scheme.trees(self.laws, measured),
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "noise_delta": self.noise_delta,
            "selection_delta": self.selection_delta,
            "neighbours": self.neighbours,
            "chosen_by": self.chosen_by,
            "confidence": self.confidence,
            "objective": objective_text(self.objective),
            **(self._at_given_limits() if not self.open_limits else self._at_open_limits()),
            "gains": self.gains,
            "measures": {measure.words: written(law) for measure, law in self.laws.items()},
            "numbers": self.noise.scheme.in_words(),
            "charge": self.charge.to_dict(),
            "choice_of_limits": None if self.choice is None else self.choice.to_dict(),
            "measures_left_out": self.left_out is not None,
            "bounds_cut_off": list(self.limit_notes),
            "warnings": list(self.cautions),
        }

    def _at_given_limits(self) -> dict[str, Any]:
        """The limits and what follows from them, in plain values."""
        return {
            "max_rows": self.groups.max_rows,
            "max_groups": self.groups.max_groups,
            "max_rows_per_group": self.groups.max_rows_per_group,
            "threshold": self.threshold,
            "shown_size": self.shown_size,
            "columns": [column.to_dict() for column in self.columns],
            "alternatives": {
                name: [column.to_dict() for column in columns] for name, columns in self.alternatives.items()
            },
            "totals": [
                {"by": list(level.by), "columns": [column.to_dict() for column in columns]}
                for level, columns in self.totals.items()
            ],
        }

    def _at_open_limits(self) -> dict[str, Any]:
        """The open limits, and what some of them would mean, in plain values: of columns without open bounds."""
        bounded = [aggregate.open_limit is None for aggregate in self.aggregates for _ in aggregate.names]
        at_limits = {}
        for size in HANDFUL:
            plan = self.at_limit(size)
            known = [column.to_dict() for column, is_known in zip(plan.columns, bounded, strict=True) if is_known]
            at_limits[str(size)] = {"threshold": plan.threshold, "shown_size": plan.shown_size, "columns": known}
        return {"open_limits": [limit.words for limit in self.open_limits], "at_limits": at_limits}

    def plot(self, axes: Any = None) -> Any:
        """Draw the intervals beside those with Gaussian and Laplace noise. Returns the axes of Matplotlib."""
        return views().plot(self, axes)


def saved(objective: Objective, error: float, others: Mapping[str, float]) -> dict[str, float]:
    """The part of the error that is saved against each of some others: of the variance, if that was to be small."""
    power = 1.0 if objective == "variance" else 0.5
    # At a huge budget there is no noise at all, and nothing to save.
    return {name: 1.0 - (error / other) ** power if other else 0.0 for name, other in others.items()}


@dataclass(frozen=True)
class Asked:
    """The input of a plan: the numbers of a table, what its bounds cut off, and whether that is measured."""

    planning: Planning
    limit_notes: tuple[str, ...]
    left_out: LeftOutMeasures | None = None
    open_limits: tuple[OpenLimit, ...] = ()
    #: The tables that this is measured for: the number of aggregates of each, in order, and its weight.
    tables: tuple[tuple[int, float], ...] = ((0, 1.0),)


def linked(plans: "Sequence[Plan]", sets: Sequence[Sequence[int]]) -> "list[Plan]":
    """Plans in which those of tables that agree, given by their places, know of each other's noise."""
    result = [*plans]
    for places in sets:
        own = [replace(plans[i], shared=None) for i in places]
        ends = {name: SharedNoise(tuple(_noise_of(plan, plan.ends[name]) for plan in own)) for name in own[0].ends}
        shared = TableSet(SharedNoise(tuple(_noise_of(plan, plan.noise) for plan in own)), ends, tuple(own))
        for at, i in enumerate(places):
            result[i] = replace(plans[i], shared=(shared, at))
    return result


def _noise_of(plan: "Plan", noise: Noise) -> TableNoise:
    return TableNoise(plan.groups, noise.scheme, noise.laws)


def _check_parts(noise: Noise, planning: Planning, left_out: LeftOutMeasures | None) -> None:
    """Raise if a unit could move anything further under chosen limits than the noise was made and charged for."""
    pairs = [(planning.part(measure), most) for measure, most in noise.parts.items()]
    beside = {} if left_out is None else left_out.parts(planning.neighbours)
    pairs += [(part, noise.extra_noise[name][1]) for name, part in beside.items()]
    if not all(_is_within(part, most) for part, most in pairs):
        raise ValueError("a limit that was chosen lets a unit count for more than the noise was made for")


def _is_within(part: Part, most: Part) -> bool:
    """Whether a part moves no further than another: number by number, or all together no further than one number.

    Of a sum around 0 an exchange of units moves one number by 2K; of a sum from 0 on, two numbers by K. One change that
    is spread over several numbers is dominated by the change in one (docs/dominance.md).
    """
    if part.euclidean != most.euclidean:
        return False
    in_all = sum(shift * coordinates for shift, coordinates in part.moves)
    if not part.euclidean and in_all <= most.shift:
        return True
    return part.shift <= most.shift and part.coordinates <= most.coordinates and part.also == most.also


def threshold_of(planning: Planning, noise: Noise, delta: float) -> Selection | None:
    """Set the threshold from which on groups are shown, at the δ of the choice; None if all are."""
    groups, selector = planning.groups, planning.selector
    if selector is None:
        return None
    in_all = groups.limits_in_all(selector)
    return select(noise.laws[selector], groups.shift(selector), groups.max_groups_per_unit, delta, in_all=in_all)
