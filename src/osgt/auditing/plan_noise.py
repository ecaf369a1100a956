"""The noise of a plan as the release draws it: one unit moves every number as far as it may, and may be seen by it.

The choice of groups: one unit's own group must stay hidden but for the chance that δ allows. Which of the others are
shown, and the count that is published, are one draw: at the threshold, where a second one would tell most, the two
together keep to what is promised of one.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from osgt.auditing.curve import curve
from osgt.auditing.evidence import Claim, Counts, log_against, p_value
from osgt.auditing.independence import Drawn
from osgt.auditing.result import Budget, Check, Finding
from osgt.calibration import Part
from osgt.data.unit import Neighbours
from osgt.limits import choice as choosing
from osgt.noise import IntegerDistribution
from osgt.plan.choice import LimitChoice
from osgt.plan.inputs import profile_of_all, profile_of_pairs
from osgt.plan.plan import Plan
from osgt.privacy import PrivacyProfile
from osgt.release import measuring
from osgt.support.numeric import Floats

#: A count that is so many standard deviations above the threshold is never hidden.
_SURE = 60

#: Of very many coordinates as many draws are made as fit into so many numbers.
_NUMBERS = 40_000_000

#: Groups of one unit that are tried, and groups at the threshold.
_GROUPS, AT_THRESHOLD = 1_000_000, 200_000

#: Numbers of groups with nobody else that are tried one by one.
_ALONE = 12

#: Probabilities below this count as this in a score.
_LEAST = 1e-300

#: Groups that are tried before anything is left to chance.
_TRIED = 10_000

#: Relative error of figures that are computed in two ways.
_ROUNDING = 1e-6

Outputs = NDArray[np.int64]
#: Noise of which the probabilities are added up one by one.
_ONE_BY_ONE = 1e5

Pairs = Sequence[tuple[IntegerDistribution, Part]]


class Noisy(Protocol):
    """Noise on numbers that are all zero in one table, and in its neighbour each moved by its shift."""

    @property
    def pairs(self) -> Pairs:
        """The noise and what it is for, in the order of the outputs."""

    def outputs(self, moved: int, size: int) -> Outputs:
        """`size` releases of all the numbers, through the release's own code."""

    def drawn(self, groups: int) -> list[Drawn]:
        """The noise of one release with so many groups, through the release's own code, in the order of its draws."""


@dataclass(frozen=True, eq=False)
class OfTable:
    """The noise of a release."""

    plan: Plan

    @property
    def pairs(self) -> Pairs:
        """The noise and what it is for."""
        return self.plan.noise.pairs

    def outputs(self, moved: int, size: int) -> Outputs:
        """Releases of all the numbers."""
        plan, shown = self.plan, self._shown
        groups = max(sum(n for _, n in part.moves) for part in plan.parts.values())
        exact = {}
        for measure, part in plan.parts.items():
            shifts = _shifts(part) * moved
            width = len(shifts) if measure.for_table else groups
            numbers = np.zeros((size, width, measure.numbers), dtype=np.int64)
            numbers[:, : len(shifts), 0] = shifts
            numbers += shown if measure == plan.selector else 0
            exact[measure] = numbers.reshape(size * width, measure.numbers)
        _, noisy = measuring.noisy_numbers(plan, exact)
        columns = []
        for measure, part in plan.parts.items():
            result = noisy[measure][:, 0].reshape(size, -1)[:, : len(_shifts(part))]
            columns.append(result - (shown if measure == plan.selector else 0))
        beside = {name: _repeat_shifts(part, moved, size) for name, (_, part) in plan.noise.extra_noise.items()}
        columns += measuring.noisy_left_out(plan, beside).values()
        return np.concatenate(columns, axis=1)

    def drawn(self, groups: int) -> list[Drawn]:
        """The noise of one release."""
        plan, shown = self.plan, self._shown
        exact = {
            measure: np.full((groups, measure.numbers), shown if measure == plan.selector else 0, dtype=np.int64)
            for measure in plan.parts
        }
        _, noisy = measuring.noisy_numbers(plan, exact)
        result = [(plan.laws[measure], numbers - exact[measure]) for measure, numbers in noisy.items()]
        nothing = {name: np.zeros((groups, 1), dtype=np.int64) for name in plan.noise.extra_noise}
        beside = measuring.noisy_left_out(plan, nothing)
        return result + [(plan.noise.extra_noise[name][0], numbers) for name, numbers in beside.items()]

    @property
    def _shown(self) -> int:
        """A count of groups that are never hidden."""
        if self.plan.selector is None or self.plan.selection is None:
            return 0
        return abs(self.plan.selection.threshold) + int(_SURE * self.plan.laws[self.plan.selector].std()) + 1000


@dataclass(frozen=True, eq=False)
class WorstCase:
    """The worst case: one unit that moves all numbers of all tables. Its claim is the whole curve, and the budget."""

    noises: Sequence[Noisy]
    epsilon: float
    #: The δ that the noise may use.
    delta: float

    @classmethod
    def of(cls, plans: Sequence[Plan], delta: float) -> "WorstCase":
        """Take the worst case of tables that are released together."""
        return cls([OfTable(plan) for plan in plans], plans[0].epsilon, delta)

    @cached_property
    def columns(self) -> list[tuple[IntegerDistribution, float]]:
        """The noise and the shift of each number, in the order of the outputs."""
        pairs = [pair for noise in self.noises for pair in noise.pairs]
        return [(law, shift) for law, part in pairs for shift in _shifts(part).tolist()]

    @cached_property
    def profile(self) -> PrivacyProfile:
        """The privacy loss of all noise together."""
        return profile_of_pairs(pair for noise in self.noises for pair in noise.pairs)

    @property
    def claim(self) -> Claim:
        """The whole curve, and the budget."""
        return Claim.of(self.epsilon, self.delta, self.profile)

    @property
    def draws(self) -> int:
        """The number of draws that there is room for."""
        return max(1000, min(1_000_000, _NUMBERS // len(self.columns)))

    def outputs(self, moved: Any, size: int) -> Outputs:
        """`size` releases of all the numbers."""
        return np.concatenate([noise.outputs(int(moved), size) for noise in self.noises], axis=1)

    def drawn(self, groups: int) -> list[Drawn]:
        """The noise of one release with so many groups in each table."""
        return [draws for noise in self.noises for draws in noise.drawn(groups)]

    def loss(self) -> Callable[[NDArray[np.generic]], Floats]:
        """The privacy loss of outputs: Σ log P[y | 0]/P[y | shift]."""
        columns = self.columns

        def of(outputs: NDArray[np.generic]) -> Floats:
            total = np.zeros(len(outputs))
            for column, (law, shift) in zip(outputs.astype(np.float64).T, columns, strict=True):
                total += law.potential(np.abs(column - shift)) - law.potential(np.abs(column))
            return total

        return of


def _shifts(part: Part) -> NDArray[np.int64]:
    return np.array([math.ceil(shift) for shift, n in part.moves for _ in range(n)], dtype=np.int64)


def _repeat_shifts(part: Part, moved: int, size: int) -> Outputs:
    return np.tile(_shifts(part) * moved, (size, 1))


@dataclass(frozen=True, eq=False)
class Chosen:
    """Groups that are shown by a noisy count: what one unit adds to it, its noise, and the software that chooses."""

    law: IntegerDistribution
    most: int
    threshold: int
    #: The most groups that one unit is in.
    groups: int
    #: Whether it adds at most that to all its groups together.
    in_all: bool
    #: For an exact count, and a number of groups that all have it: the noisy counts of those that are shown.
    shown: Callable[[int, int], NDArray[np.int64]]

    @property
    def chance(self) -> float:
        """P[most + Y ≥ threshold] for the most that one unit adds to the count."""
        return self._chance_with(self.most)

    def _chance_with(self, count: int) -> float:
        """P[count + Y ≥ threshold], added up term by term unless these are too many."""
        first = self.threshold - count
        if self.law.std() > _ONE_BY_ONE:
            return float(self.law.sf(first - 1))
        terms = self.law.pmf(np.arange(first, max(first, 0) + int(60 * self.law.std()) + 800))
        return float(min(1.0, math.fsum(np.asarray(terms).tolist())))

    @property
    def delta(self) -> float:
        """The probability that any group of a unit alone is shown: in all but one it may have added hardly anything."""
        other = self._chance_with(0) if self.in_all else self.chance
        return -math.expm1(math.log1p(-self.chance) + (self.groups - 1) * math.log1p(-other))

    @classmethod
    def of(cls, plan: Plan) -> "Chosen | None":
        """The choice of a release; None if all groups are shown."""
        if plan.selector is None or plan.selection is None:
            return None
        most, selector = plan.groups.shift(plan.selector), plan.selector

        def shown(count: int, number: int) -> NDArray[np.int64]:
            exact: dict[Any, Any] = {
                measure: np.zeros((1 if measure.for_table else number, measure.numbers), dtype=np.int64)
                for measure in plan.parts
            }
            exact[selector][:] = count
            return np.asarray(measuring.noisy_numbers(plan, exact)[1][selector][:, 0])

        groups, in_all = plan.groups.max_groups_per_unit, plan.groups.limits_in_all(plan.selector)
        return cls(plan.laws[plan.selector], most, plan.selection.threshold, groups, in_all, shown)

    @property
    def _others(self) -> int:
        """The count of a group at the threshold without the unit: there is somebody in it."""
        return max(1, self.threshold)

    def outputs(self, moved: int, size: int) -> NDArray[np.int64]:
        """Draw whether groups at the threshold are shown, and their count if they are: without a unit, or with it."""
        counts = self.shown(self._others + self.most * int(moved), size)
        result = np.zeros((size, 2), dtype=np.int64)
        result[: len(counts), 0], result[: len(counts), 1] = 1, counts
        return result

    def loss(self) -> Callable[[NDArray[np.generic]], Floats]:
        """Score outputs by their loss if choice and count were two draws: each for itself, added up."""
        law, without, most = self.law, float(self._others), float(self.most)
        hidden, shown = self.threshold - 1 - without, without - self.threshold
        # P[n + Y ≤ τ - 1], and P[n + Y ≥ τ], which is P[Y ≤ n - τ]: Y is symmetric.
        if_hidden = _log_ratio(law.cdf(hidden), law.cdf(hidden - most))
        if_shown = _log_ratio(law.cdf(shown), law.cdf(shown + most))

        def of(outputs: NDArray[np.generic]) -> Floats:
            noise = outputs[:, 1].astype(np.float64) - without
            told = if_shown + law.potential(np.abs(noise - most)) - law.potential(np.abs(noise))
            return np.where(outputs[:, 0] == 1, told, if_hidden)

        return of


def choice(chosen: Sequence[Chosen], spent: float, delta: float, *, false_alarm: float = 1e-6) -> Check:
    """Judge thresholds and δ: by adding up probabilities, and by what the software does.

    Parameters
    ----------
    spent
        δ of noise and choice together.
    delta
        The δ that is promised.
    """
    findings: list[Finding] = []
    details: dict[str, Any] = {"delta_spent": spent, "delta": delta, "chosen": []}
    words = ""
    if spent > delta * (1 + _ROUNDING):
        what = f"noise and choice take δ = {spent:.6g} together, {delta:.6g} is promised"
        findings.append(Finding("threshold" if chosen else "noise", what))
    for selection in chosen:
        chance = selection.chance
        hits = len(selection.shown(selection.most, _GROUPS))
        details["chosen"].append(
            {"threshold": selection.threshold, "chance_alone": chance, "of": _GROUPS, "shown": hits}
        )
        # Nothing is learned; more than the chance says is what counts.
        counts = Counts(np.array([0]), 0, np.array([hits]), _GROUPS)
        evidence = float(log_against(counts, np.array([chance]))[0]) if hits > chance * _GROUPS else 0.0
        if evidence >= -math.log(false_alarm / len(chosen)):
            what = f"{hits:,} of {_GROUPS:,} groups of one unit were shown; p-value {p_value(evidence):.2g}"
            findings.append(Finding("groups of one unit", what))
        words += f"A group of one unit is shown with a probability of {chance:.2g}; {hits:,} of {_GROUPS:,} were. "
    words += f"{'Noise and choice take' if chosen else 'The noise takes'} δ = {spent:.3g} of {delta:.3g}."
    by_chance = false_alarm if chosen else 0.0
    return Check("choice of groups" if chosen else "δ", words, tuple(findings), by_chance, details)


def at_threshold(chosen: Chosen, budget: Budget) -> Check:
    """Judge a group at the threshold, with a unit and without it, by whether it is shown and with which count."""
    name = "at the threshold"
    counts = chosen.shown(chosen.threshold, _TRIED)
    below = int(np.count_nonzero(counts < chosen.threshold))
    if below:
        what = (
            f"{below:,} of {len(counts):,} groups that were shown have a count below the threshold "
            f"{chosen.threshold:,}: they are chosen by another draw than the one that is published"
        )
        return Check(name, "Choice and count are not one draw.", (Finding(name, what),), budget.false_alarm)
    claim = Claim.of(None, None, PrivacyProfile(chosen.law, chosen.most))
    return curve(chosen.outputs, 0, 1, claim, budget, loss=chosen.loss(), name=name)


def spent_by(plans: Sequence[Plan], choice: LimitChoice | None) -> float:
    """δ of the choice of limits, of noise and of the choice of groups together, of tables with one budget."""
    noise = profile_of_all([plan.noise for plan in plans])
    whole = noise if choice is None else PrivacyProfile.compose([choice.charge.profile, noise])
    chosen = [chosen for plan in plans if (chosen := Chosen.of(plan)) is not None]
    return float(whole.delta(plans[0].epsilon)) + math.fsum(one.delta for one in chosen)


def draw_of_limits(neighbours: Neighbours, budget: Budget) -> Check:
    """Judge the draw of a limit at ε = 1: between two candidates, of which one unit is cut by the smaller alone."""
    ladder = choosing.Ladder("limits", (1, 2), (1.0, 1.0))

    def outputs(units: Any, size: int) -> NDArray[np.int64]:
        histogram = [0, int(units), 0]
        drawn = (
            choosing.choose([ladder], [histogram], epsilon=1.0, target=0, exponent=1.0, neighbours=neighbours).limit
            for _ in range(size)
        )
        return np.fromiter(drawn, dtype=np.int64, count=size)[:, np.newaxis]

    claim = Claim.of(None, None, PrivacyProfile.of([choosing.loss_of_choice(1.0)]))
    return curve(outputs, 0, 1, claim, budget, name="choice of limits")


def _log_ratio(first: Any, second: Any) -> float:
    """The logarithm of a ratio of probabilities, within limits."""
    return math.log(max(float(first), _LEAST)) - math.log(max(float(second), _LEAST))
