"""Plan: all that a release will do, settled before any data are read."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from osgt.calibration import Part
from osgt.calibration.joint import budget
from osgt.data.unit import Neighbours
from osgt.limits.left_out import LeftOutMeasures
from osgt.noise import IntegerDistribution, written
from osgt.noise.error import Objective, objective_text
from osgt.noise.many import NoiseSum
from osgt.plan.choice import LimitChoice
from osgt.plan.inputs import Noise, Planning, profile_of_all
from osgt.plan.joint import JointPlanning, Noises, cut_off_share, with_left_out
from osgt.plan.reconciled import LevelNoises, Reconciled, asked_numbers
from osgt.plan.selection import Selection, select, shown_size
from osgt.plan.total_rows import ChosenGroups
from osgt.privacy import Charge
from osgt.privacy.charge import CHOICE_SHARE
from osgt.privacy.filters.budget import USUAL_DELTA, budget_warnings, pure_cautions
from osgt.query.aggregates.base import Aggregate, Column, Noisy
from osgt.query.groups import Groups, Level
from osgt.query.measures import Measure
from osgt.query.open_limits import OpenLimit
from osgt.support.arrays import can_be_drawn
from osgt.support.display import Displayed, views
from osgt.support.errors import ArgumentError
from osgt.support.search import root_within

#: A group must be this large to be shown with this probability: said in plans and statements.
SHOWN = 0.99

#: The limits of which a plan shows what they would mean, where some are open.
HANDFUL = (1, 3, 10, 30, 100)

#: No table is about more people than there are.
_MOST_PEOPLE = 8e9

#: Beyond, a logarithm of chances says no more than "far off".
_STEEP = 60.0


class TooMuchNoiseError(ArgumentError):
    """A budget is so small that its noise cannot be drawn."""


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
    def choice(self) -> LimitChoice | None:
        """The choice of limits that comes first; None if all are given."""

    @property
    def gains(self) -> dict[str, float]:
        """The part of the error that is saved against each alternative noise."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""


@dataclass(frozen=True, eq=False)
class Plan(Displayed):
    """The noise of a release, its intervals and what would be charged. Made without reading data."""

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
        selection = None if self.selection is None else _selection(planning, noise, self.selection.delta)
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
        )

    def at_limit(self, size: int) -> "Plan":
        """The plan with so many rows and groups as limits in place of those that are open."""
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

    @property
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
            f"The table will probably be empty: only groups of about {self.shown_size:,} {self.chosen_by} are "
            f"published, and δ = {self.delta:.15g} is meant for fewer than {most:,.0f} units. Use a larger ε, smaller "
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
        return {name: self._columns(noise) for name, noise in self.ends.items()}

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

    def _levels(self, noise: Noise) -> Reconciled | ChosenGroups:
        asked = asked_numbers(self.aggregates, noise.scheme)
        if self.groups.public is None:
            return ChosenGroups(self.groups, noise.scheme, noise.laws, asked, self.selector)
        return Reconciled(self.groups, noise.scheme, noise.laws, asked)

    def _columns(self, noise: Noise) -> tuple[Column, ...]:
        levels = self._levels(noise)
        if self.groups.levels and isinstance(levels, Reconciled):
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

    def __repr__(self) -> str:
        text: str = views().line(self)
        return text

    def __str__(self) -> str:
        text: str = views().text(self)
        return text


def saved(objective: Objective, error: float, others: Mapping[str, float]) -> dict[str, float]:
    """The part of the error that is saved against each of some others: of the variance, if that was to be small."""
    power = 1.0 if objective == "variance" else 0.5
    # At a huge budget there is no noise at all, and nothing to save.
    return {name: 1.0 - (error / other) ** power if other else 0.0 for name, other in others.items()}


#: The first step from where an ε is sought, of its logarithm.
_FIRST_STEP = 0.1


@dataclass(frozen=True)
class Asked:
    """The input of a plan: the numbers of a table, what its bounds cut off, and whether that is measured."""

    planning: Planning
    limit_notes: tuple[str, ...]
    left_out: LeftOutMeasures | None = None
    open_limits: tuple[OpenLimit, ...] = ()


def make_plans(tables: Sequence[Asked], epsilon: float, delta: float, choice: LimitChoice | None = None) -> list[Plan]:
    """Calibrate all that is measured in tables that are released together at once, and make a plan for each.

    A choice of limits takes its part of ε, and where groups are chosen, a part of δ is set aside for that. What is cut
    off is measured for a small part of the budget.
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
    noises, ends = _noises(tables, left, delta * (1.0 - CHOICE_SHARE) if choosing else delta)

    @cache
    def with_delta(other: float) -> list[Plan]:
        return make_plans(tables, epsilon, other, choice)

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
            ends={name: each[i] for name, each in ends.items()},
            left_out=table.left_out,
            selection=_selection(planning, noises[i], choice_delta),
            limit_notes=table.limit_notes,
            choice=choice,
            open_limits=table.open_limits,
            with_delta=lambda other: with_delta(other)[i],
        )

    return [plan(i, table) for i, table in enumerate(tables)]


def _noises(tables: Sequence[Asked], epsilon: float, delta: float) -> tuple[Noises, Mapping[str, Noises]]:
    """Calibrate the noise of all tables, and that of each end of the family."""
    joint = JointPlanning(tuple(table.planning for table in tables))
    parts = [{} if table.left_out is None else table.left_out.parts(table.planning.neighbours) for table in tables]
    if any(parts):
        share = cut_off_share(joint.tables)
        noises, ends = with_left_out(*joint.best((1.0 - share) * epsilon, delta), parts, epsilon, delta, share)
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


def _selection(planning: Planning, noise: Noise, delta: float) -> Selection | None:
    """Set the threshold from which on groups are shown, at the δ of the choice; None if all are."""
    groups, selector = planning.groups, planning.selector
    if selector is None:
        return None
    in_all = groups.limits_in_all(selector)
    return select(noise.laws[selector], groups.shift(selector), groups.max_groups_per_unit, delta, in_all=in_all)


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
