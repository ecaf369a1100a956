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
from osgt.limits.left_out_measures import LeftOutMeasures
from osgt.noise import IntegerDistribution, written
from osgt.noise.error import Objective, objective_text
from osgt.noise.many import NoiseSum
from osgt.plan.inputs import Noise, Planning, profile_of_all, profile_of_pairs
from osgt.plan.joint import JointPlanning, Noises, with_left_out
from osgt.plan.reconciled import LevelNoises, Reconciled, asked_numbers
from osgt.plan.selection import Selection, chance_alone, chance_apart, chosen_delta, shown_size, threshold
from osgt.plan.total_rows import ChosenGroups
from osgt.privacy import Charge
from osgt.privacy.charge import CHOICE_SHARE
from osgt.privacy.filters.budget import USUAL_DELTA, budget_warnings, pure_cautions
from osgt.query.aggregates.base import Aggregate, Column, Noisy
from osgt.query.groups import Groups, Level
from osgt.query.measures import Measure
from osgt.support.arrays import can_be_drawn
from osgt.support.display import Displayed, views
from osgt.support.errors import ArgumentError
from osgt.support.search import root_within

#: A group must be this large to be shown with this probability: said in plans and statements.
SHOWN = 0.99

#: How far above the exact value the δ of what a unit still moves may lie, relative: it is far below that of the budget.
_SLACK_WITHOUT = 1e-2

#: No table is about more people than there are.
_MOST_PEOPLE = 8e9

#: Beyond, a logarithm of chances says no more than "far off".
_STEEP = 60.0


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
        return None if self.selection is None else self.selection.threshold

    @property
    def selection_delta(self) -> float:
        """The chance that a group of one unit alone is shown, over all its groups."""
        return 0.0 if self.selection is None else self.selection.delta

    @property
    def noise_delta(self) -> float:
        """The δ that the noise may use: all of it, unless a ledger adds up the choice of groups apart."""
        apart = self.selection is not None and self.selection.charged_separately
        return self.delta - (self.selection_delta if apart else 0.0)

    @cached_property
    def charge(self) -> Charge:
        """The charge to a ledger: the noise in all groups, and the choice of groups apart.

        Together that is (ε, δ) if the plan was made for a ledger. Else noise and choice are (ε, δ) together, and a
        ledger, which cannot account for that, would take more.
        """
        return Charge(profile_of_all([self.noise]), self.selection_delta)

    @property
    def shown_size(self) -> int | None:
        """The least size at which a group is shown with 99 % probability; None if all groups are shown."""
        if self.selector is None or self.threshold is None:
            return None
        return shown_size(self.laws[self.selector], self.threshold, SHOWN)

    @property
    def chosen_by(self) -> str | None:
        """The name of what is counted to choose the groups that are shown: "units", "rows" or "values of …"."""
        return None if self.selector is None else self.selector.counted

    @property
    def warnings(self) -> tuple[str, ...]:
        """The reasons why this release is worth little, as a promise or as a table; empty as a rule."""
        found = budget_warnings(self.epsilon, self.delta)
        if self.selector is None or self.shown_size is None:
            return found
        # A δ far below one over the number of units says how many of them there can be.
        units, most = self.shown_size / self.groups.max_contribution(self.selector), min(1.0 / self.delta, _MOST_PEOPLE)
        if units <= most:
            return found
        return (
            *found,
            f"The table will probably be empty: only groups of about {self.shown_size:,} {self.chosen_by} are "
            f"published, and δ = {self.delta:.15g} is meant for fewer than {most:,.0f} units. Use a larger ε, smaller "
            "limits (max_groups, max_rows_per_group), coarser groups or public_keys.",
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
        found = {}
        for i, level in enumerate(self.groups.levels):
            if isinstance(self.levels, ChosenGroups):
                found[level] = self._planned(self.levels.total_noises(), self.levels.distinct_noises())
            else:
                found[level] = self._planned(*self.levels.noisiest(len(self.groups.levels) - 1 - i))
        return found

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
            "max_groups": self.groups.max_groups if self.groups.by else 1,
            "max_rows_per_group": self.groups.max_rows,
            "threshold": self.threshold,
            "chosen_by": self.chosen_by,
            "shown_size": self.shown_size,
            "confidence": self.confidence,
            "objective": objective_text(self.objective),
            "columns": [column.to_dict() for column in self.columns],
            "alternatives": {
                name: [column.to_dict() for column in columns] for name, columns in self.alternatives.items()
            },
            "totals": [
                {"by": list(level.by), "columns": [column.to_dict() for column in columns]}
                for level, columns in self.totals.items()
            ],
            "gains": self.gains,
            "measures": {measure.words: written(law) for measure, law in self.laws.items()},
            "numbers": self.noise.scheme.in_words(),
            "charge": self.charge.to_dict(),
            "measures_left_out": self.left_out is not None,
            "bounds_cut_off": list(self.limit_notes),
            "warnings": list(self.cautions),
        }

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


def make_plans(tables: Sequence[Asked], epsilon: float, delta: float, *, charged: bool) -> list[Plan]:
    """Calibrate all that is measured in tables that are released together at once, and make a plan for each.

    Where groups are chosen, a part of δ is set aside for the choice if a ledger is `charged` or if several tables
    choose theirs. What is left out is measured for a small part of the variance.
    """
    epsilon, delta = budget(epsilon, delta)
    for table in tables:
        table.planning.checked()
    choosing = sum(not table.planning.groups.shows_all for table in tables)
    if delta == 0 and choosing:
        raise ArgumentError(
            "delta must be above 0 where groups are chosen by their size; or give public_keys", argument="delta"
        )
    separately = choosing > 1 or (charged and choosing == 1)
    choice_delta = CHOICE_SHARE * delta / choosing if separately else None
    noises, ends, left_out = _noises(tables, epsilon, delta * (1.0 - CHOICE_SHARE) if separately else delta)

    @cache
    def with_delta(other: float) -> list[Plan]:
        return make_plans(tables, epsilon, other, charged=charged)

    def plan(i: int, table: Asked) -> Plan:
        planning = table.planning
        others = [pair for other in (*noises[:i], *noises[i + 1 :]) for pair in other.pairs]
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
            left_out=left_out[i],
            selection=_selection(planning, noises[i], others, epsilon, delta, choice_delta),
            limit_notes=table.limit_notes,
            with_delta=lambda other: with_delta(other)[i],
        )

    return [plan(i, table) for i, table in enumerate(tables)]


def _noises(
    tables: Sequence[Asked], epsilon: float, delta: float
) -> tuple[Noises, Mapping[str, Noises], list[LeftOutMeasures | None]]:
    """Calibrate the noise of all tables, that of each end of the family, and what is measured of what is left out."""
    joint, left_out = JointPlanning(tuple(table.planning for table in tables)), [table.left_out for table in tables]
    shared = None
    if any(measures is not None for measures in left_out):
        parts = [{} if t.left_out is None else t.left_out.parts(t.planning.neighbours) for t in tables]
        shared = with_left_out(*joint.best(epsilon, delta, proved=False), parts, epsilon, delta)
    if shared is None:
        shared, left_out = joint.best(epsilon, delta), [None] * len(tables)
    noises, ends = shared
    if not all(can_be_drawn(law.potential) for noise in noises for law, _ in noise.pairs):
        without = "" if all(noise.extra_noise == {} for noise in noises) else " or measure_left_out=False"
        raise ValueError(
            f"epsilon = {epsilon:.15g} needs more noise than can be drawn as 64-bit integers: use a larger epsilon, "
            f"narrower bounds, a smaller max_rows_per_group{without}"
        )
    return noises, ends, left_out


def _selection(
    planning: Planning,
    noise: Noise,
    others: list[tuple[IntegerDistribution, Part]],
    epsilon: float,
    delta: float,
    choice_delta: float | None,
) -> Selection | None:
    """Set the threshold from which on groups are shown; None if all are.

    `choice_delta` is the δ that is set aside for the choice, None if noise and choice share one; `others` is the noise
    of the other tables.
    """
    if planning.selector is None:
        return None
    groups = planning.groups.max_groups_per_unit
    if choice_delta is None:
        chance = chance_alone(groups, delta, _delta_without(planning, noise, others, epsilon))
    else:
        chance = chance_apart(groups, choice_delta)
    law, most = noise.laws[planning.selector], planning.groups.max_contribution(planning.selector)
    tau = threshold(law, most, chance)
    return Selection(tau, chosen_delta(groups, float(law.sf(tau - most - 1))), choice_delta is not None)


def _delta_without(
    planning: Planning, noise: Noise, others: list[tuple[IntegerDistribution, Part]], epsilon: float
) -> Callable[[int], float]:
    """Compute the δ of all the noise that a unit still moves, given how many groups are the unit's alone."""

    def at(alone: int) -> float:
        parts = ((noise.laws[measure], planning.part(measure, alone)) for measure in noise.parts)
        left = [(law, part) for law, part in parts if part is not None]
        pairs = [*left, *noise.extra_noise.values(), *others]
        return float(profile_of_pairs(pairs).delta(epsilon, slack=_SLACK_WITHOUT)) if pairs else 0.0

    return at


def epsilon_for(target: float, excess: Callable[[float], float], start: float = 1.0) -> float:
    """The least ε, to about 1e-5 of itself, at which a noise interval is as narrow as the target.

    `excess` of ε is ≤ 0 there: the logarithm of the chance to be outside the target, less that of the chance allowed.
    `start` is an ε that is not far off.
    """

    @cache
    def limited(log_epsilon: float) -> float:
        return min(max(excess(math.exp(log_epsilon)), -_STEEP), _STEEP)

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
    epsilon = math.exp(root_within(limited, low, high, inward=lambda x: x + 1e-5, xtol=1e-5))
    digits = 4 - math.floor(math.log10(epsilon))
    rounded = round(math.ceil(epsilon * 10.0**digits) / 10.0**digits, max(digits, 0))  # one that people can write down
    return rounded if rounded >= epsilon and excess(rounded) <= 0 else epsilon
