"""Plan: all that a release will do, settled before any data are read."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from osgt.calibration import Part
from osgt.calibration.joint import budget
from osgt.limits import can_be_drawn
from osgt.noise import IntegerLaw, written
from osgt.noise.error import Objective, objective_text
from osgt.noise.many import NoiseSum
from osgt.privacy import Charge
from osgt.privacy.cautions import budget_warnings
from osgt.tables.aggregates.base import Aggregate, Column, Noisy
from osgt.tables.groups import Groups, Neighbours
from osgt.tables.joint_planning import JointPlanning
from osgt.tables.left_out_measures import LeftOutMeasures
from osgt.tables.levels import Level
from osgt.tables.measures import Measure
from osgt.tables.planning import Noise, Planning, profile_of_all, profile_of_pairs
from osgt.tables.reconciled import LevelNoises, Reconciled, asked_numbers
from osgt.tables.selection import Selection, chance_alone, chance_apart, chosen_delta, shown_size, threshold
from osgt.tables.sharing import LEFT_OUT_SHARE, with_left_out
from osgt.tables.total_rows import ChosenGroups

#: Part of δ that is set aside for choosing groups where a ledger adds it up apart. The threshold grows slowly as it
#: shrinks, and so does the noise with what is left.
SELECTION_SHARE = 0.1

#: A group must be this large to be shown with this probability: said in plans and statements.
SHOWN = 0.99

#: How far above the exact value the δ of what a unit still moves may lie, relative: it is far below that of the budget.
_SLACK_WITHOUT = 1e-2

#: No table is about more people than there are.
_MOST_PEOPLE = 8e9

#: Beyond, a logarithm of chances says no more than "far off".
_STEEP = 60.0


@dataclass(frozen=True, eq=False)
class Plan:
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
    cuts: tuple[str, ...]
    left_out: LeftOutMeasures | None = None

    @property
    def laws(self) -> Mapping[Measure, IntegerLaw]:
        """The noise of each number that is measured."""
        return self.noise.laws

    @property
    def parts(self) -> Mapping[Measure, Part]:
        """How far one unit moves each number that is measured."""
        return self.noise.parts

    @property
    def objective(self) -> Objective:
        """What was made small."""
        return self.planning.asked_objective

    @property
    def selector(self) -> Measure | None:
        """The count by which groups are chosen; None if all groups are shown."""
        return self.planning.selector

    @property
    def threshold(self) -> int | None:
        """From which noisy count on a group is shown; None if all groups are."""
        return None if self.selection is None else self.selection.threshold

    @property
    def selection_delta(self) -> float:
        """The chance that a group of one unit alone is shown, over all its groups."""
        return 0.0 if self.selection is None else self.selection.delta

    @property
    def noise_delta(self) -> float:
        """The δ that the noise may use: all of it, unless a ledger adds up the choice of groups apart."""
        apart = self.selection is not None and self.selection.apart
        return self.delta - (self.selection_delta if apart else 0.0)

    @cached_property
    def charge(self) -> Charge:
        """What a ledger takes out of a budget: the noise in all groups, and the choice of groups apart.

        Together that is (ε, δ) if the plan was made for a ledger. Else noise and choice are (ε, δ) together, and a
        ledger, which cannot account for that, would take more.
        """
        return Charge(profile_of_all([self.noise]), self.selection_delta)

    @property
    def shown_size(self) -> int | None:
        """How large a group must be to be shown with 99 % probability; None if all groups are shown."""
        if self.selector is None or self.threshold is None:
            return None
        return shown_size(self.laws[self.selector], self.threshold, SHOWN)

    @property
    def chosen_by(self) -> str | None:
        """What is counted to choose the groups that are shown: "units", "rows" or "values of …"."""
        return None if self.selector is None else self.selector.counted

    @property
    def warnings(self) -> tuple[str, ...]:
        """What makes this release worth little, as a promise or as a table; empty as a rule."""
        found = budget_warnings(self.epsilon, self.delta)
        if self.selector is None or self.shown_size is None:
            return found
        # A δ far below one over the number of units says how many of them there can be.
        units, most = self.shown_size / self.groups.most_of(self.selector), min(1.0 / self.delta, _MOST_PEOPLE)
        if units <= most:
            return found
        return (
            *found,
            f"The table will probably be empty: only groups of about {self.shown_size:,} {self.chosen_by} are "
            f"published, and δ = {self.delta:.15g} is meant for fewer than {most:,.0f} units. Use a larger ε, smaller "
            "limits (max_groups, max_rows_per_group), coarser groups or public_keys.",
        )

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the release and their noise."""
        return self._columns(self.noise)

    @cached_property
    def alternatives(self) -> dict[str, tuple[Column, ...]]:
        """The same columns with Gaussian and with Laplace noise at the same budget, each planned in the same way."""
        return {name: self._columns(noise) for name, noise in self.ends.items()}

    @property
    def gains(self) -> dict[str, float]:
        """The part of the error that is saved against each alternative: of the variance, if that was to be small."""
        return saved(self.objective, self.noise.error, {name: noise.error for name, noise in self.ends.items()})

    @cached_property
    def totals(self) -> dict[Level, tuple[Column, ...]]:
        """For each level of totals its columns and their noise, where it is largest."""
        found = {}
        for i, level in enumerate(self.groups.levels):
            if isinstance(self.levels, ChosenGroups):
                found[level] = self._planned(self.levels.total_noises(), self.levels.distinct_noises())
            else:
                found[level] = self._planned(*self.levels.noisiest(len(self.groups.levels) - 1 - i))
        return found

    @cached_property
    def levels(self) -> Reconciled | ChosenGroups:
        """How the numbers of all levels come about."""
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
            for column in aggregate.planned(added if aggregate.adds_up(self.groups) else apart)
        )

    def noisy(self, measured: Mapping[Measure, NDArray[np.int64]], *, nonnegative: bool) -> Noisy:
        """What aggregates see of a release: the numbers that they ask for, out of those measured with noise."""
        scheme = self.noise.scheme
        return Noisy(
            scheme.values(measured),
            scheme.noises(self.laws),
            self.confidence,
            nonnegative,
            scheme.trees(self.laws, measured),
        )

    def gains_in_words(self) -> str:
        """How much smaller the error is than with the other noises."""
        over = "root mean square over the columns" if len(self.columns) > 1 else None
        return gains_in_words(self.objective, self.gains, over)

    def choice_in_words(self) -> str:
        """What the choice of groups has to do with δ."""
        if self.selection is not None and self.selection.apart:
            return f"δ = {self.selection_delta:.3g} of the total is charged for that choice."
        return "Noise and choice together keep within ε and δ."

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
            "bounds_cut_off": list(self.cuts),
            "warnings": list(self.warnings),
        }

    def plot(self, axes: Any = None) -> Any:
        """Draw the intervals beside those with Gaussian and Laplace noise. Returns the axes of Matplotlib."""
        from osgt.tables.plots import plot_plan  # noqa: PLC0415 - it uses this class

        return plot_plan(self, axes)

    def __repr__(self) -> str:
        from osgt.tables.cards import plan_line  # noqa: PLC0415 - it uses this class

        return plan_line(self)

    def _repr_html_(self) -> str:
        from osgt.tables.cards import plan_card  # noqa: PLC0415 - it uses this class

        return plan_card(self).html()

    def __str__(self) -> str:
        lines = [f"ε = {self.epsilon:.15g}, δ = {self.delta:.15g} would be charged, in all. No data were read."]
        lines += [f"  {line}" for line in (*self.noise_in_words(), self.gains_in_words(), *self.bounds_in_words())]
        lines += [f"Warning: {warning}" for warning in self.warnings]
        return "\n".join(lines)

    def noise_in_words(self) -> list[str]:
        """The noise of each column."""
        lines = [f"{column.name}: {column.in_words()}" for column in self.columns]
        for level, columns in self.totals.items():
            lines += [f"{column.name} {level.words}: {column.in_words()}" for column in columns]
        return lines

    def bounds_in_words(self) -> list[str]:
        """Which groups are published, and what the bounds do."""
        lines = []
        if self.threshold is not None:
            lines.append(
                f"A group is published if its noisy number of {self.chosen_by} is at least {self.threshold:,}. A "
                f"group of {self.shown_size:,} is published {100 * SHOWN:g} % of the time. {self.choice_in_words()}"
            )
        if self.left_out is not None:
            share = f"{100 * LEFT_OUT_SHARE:g} %"
            lines.append(f"What the bounds leave out is measured too, which makes every variance {share} larger.")
        return [*lines, *self.cuts]


def gains_in_words(objective: Objective, gains: Mapping[str, float], over: str | None) -> str:
    """How much smaller the error is than with the other noises, and over what it is taken."""
    what = {"variance": "Variance", "interval": "Intervals"}.get(str(objective), "Error")
    less = "narrower" if objective == "interval" else "less"
    others = [f"{percent(gain)} {less} than with {noise_name(name)}" for name, gain in gains.items()]
    whole = "" if over is None else f" ({over})"
    return f"{what}{whole}: {', '.join(others)}."


def noise_name(name: str) -> str:
    """A noise beside that of a plan, by the name that people know: "Laplace noise of δ = 0"."""
    plain = name.removesuffix(" (pure)")
    return f"{plain[:1].upper()}{plain[1:]} noise" + (" of δ = 0" if plain != name else "")


def saved(objective: Objective, error: float, others: Mapping[str, float]) -> dict[str, float]:
    """The part of the error that is saved against each of some others: of the variance, if that was to be small."""
    power = 1.0 if objective == "variance" else 0.5
    # At a huge budget there is no noise at all, and nothing to save.
    return {name: 1.0 - (error / other) ** power if other else 0.0 for name, other in others.items()}


def percent(part: float) -> str:
    """A part in percent; what is next to nothing has no sign."""
    return f"{round(100 * part, 1) + 0.0:.1f} %"


#: The first step from where an ε is sought, of its logarithm.
_FIRST_STEP = 0.1


@dataclass(frozen=True)
class Asked:
    """What a plan is made for: the numbers of a table, what its bounds cut off, and whether that is measured."""

    planning: Planning
    cuts: tuple[str, ...]
    left_out: LeftOutMeasures | None = None


def make_plans(tables: Sequence[Asked], epsilon: float, delta: float, *, charged: bool) -> list[Plan]:
    """One joint calibration of all that is measured in tables that are released together, a plan for each.

    Where groups are chosen, a part of δ is set aside for the choice if a ledger is `charged` or if several tables
    choose theirs. What is left out is measured for a small part of the variance.
    """
    epsilon, delta = budget(epsilon, delta)
    for table in tables:
        table.planning.checked()
    choosing = sum(not table.planning.groups.shows_all for table in tables)
    if delta == 0 and choosing:
        raise ValueError("delta must be above 0 where groups are chosen by their size; or give public_keys")
    apart = choosing > 1 or (charged and choosing == 1)
    noise_delta = delta * (1.0 - SELECTION_SHARE) if apart else delta
    joint, told = JointPlanning(tuple(table.planning for table in tables)), [table.left_out for table in tables]
    shared = None
    if any(left_out is not None for left_out in told):
        parts = [{} if t.left_out is None else t.left_out.parts(t.planning.neighbours) for t in tables]
        shared = with_left_out(*joint.best(epsilon, noise_delta, proved=False), parts, epsilon, noise_delta)
    if shared is None:
        shared, told = joint.best(epsilon, noise_delta), [None] * len(tables)
    noises, ends = shared
    if not all(can_be_drawn(law.potential) for noise in noises for law, _ in noise.pairs):
        beside = "" if all(noise.beside == {} for noise in noises) else " or measure_left_out=False"
        raise ValueError(
            f"epsilon = {epsilon:.15g} needs more noise than can be drawn as 64-bit integers: use a larger epsilon, "
            f"narrower bounds, a smaller max_rows_per_group{beside}"
        )
    plans = []
    for i, table in enumerate(tables):
        planning, chance = table.planning, 0.0
        if planning.selector is not None:
            most = planning.groups.most
            if apart:
                chance = chance_apart(most, SELECTION_SHARE * delta / choosing)
            else:
                others = [pair for other in (*noises[:i], *noises[i + 1 :]) for pair in other.pairs]
                chance = chance_alone(most, delta, _delta_without(planning, noises[i], others, epsilon))
        plans.append(
            Plan(
                groups=planning.groups,
                aggregates=planning.aggregates,
                neighbours=planning.neighbours,
                epsilon=epsilon,
                delta=delta,
                confidence=planning.interval,
                planning=planning,
                noise=noises[i],
                ends={name: each[i] for name, each in ends.items()},
                left_out=told[i],
                selection=_selection(planning, noises[i], chance, apart=apart),
                cuts=table.cuts,
            )
        )
    return plans


def _delta_without(
    planning: Planning, noise: Noise, others: list[tuple[IntegerLaw, Part]], epsilon: float
) -> Callable[[int], float]:
    """For a number of groups that are a unit's alone: the δ of all the noise that the unit still moves."""

    def at(alone: int) -> float:
        parts = ((noise.laws[measure], planning.part(measure, alone)) for measure in noise.parts)
        left = [(law, part) for law, part in parts if part is not None]
        pairs = [*left, *noise.beside.values(), *others]
        return float(profile_of_pairs(pairs).delta(epsilon, slack=_SLACK_WITHOUT)) if pairs else 0.0

    return at


def _selection(planning: Planning, noise: Noise, chance: float, *, apart: bool) -> Selection | None:
    """From which count on groups are shown, if one with a unit alone may be shown with this chance."""
    if planning.selector is None:
        return None
    law, most = noise.laws[planning.selector], planning.groups.most_of(planning.selector)
    tau = threshold(law, most, chance)
    return Selection(tau, chosen_delta(planning.groups.most, float(law.sf(tau - most - 1))), apart)


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
    found = float(brentq(limited, low, high, xtol=1e-5))
    while limited(found) > 0:
        found += 1e-5
    epsilon = math.exp(found)
    digits = 4 - math.floor(math.log10(epsilon))
    rounded = round(math.ceil(epsilon * 10.0**digits) / 10.0**digits, max(digits, 0))  # one that people can write down
    return rounded if rounded >= epsilon and excess(rounded) <= 0 else epsilon
