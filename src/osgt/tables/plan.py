"""Plan: all that a release will do, settled before any data are read."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from osgt.calibration import calibrate_parts
from osgt.calibration.compare import ends_of_family
from osgt.calibration.joint import Part, probability
from osgt.limits import LARGEST_SHIFT, can_be_drawn
from osgt.noise import IntegerLaw, on_integers
from osgt.noise.parameters import real_number
from osgt.privacy import Charge, PrivacyProfile
from osgt.privacy.cautions import budget_warnings
from osgt.privacy.profile import NoisyPart
from osgt.tables import keys
from osgt.tables.aggregates.base import Aggregate, Column, Noisy
from osgt.tables.groups import Groups, Neighbours
from osgt.tables.measures import Measure, Units, Values

#: Part of δ that is set aside for choosing groups, where they are not public. The threshold grows slowly as it
#: shrinks, and so does the noise with what is left.
SELECTION_SHARE = 0.1

#: A group must be this large to be shown with this probability: said in plans and statements.
SHOWN = 0.99

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
    laws: Mapping[Measure, IntegerLaw]
    parts: Mapping[Measure, Part]
    selector: Measure | None
    threshold: int | None
    selection_delta: float
    cuts: tuple[str, ...]

    @property
    def noise_delta(self) -> float:
        """The part of δ that the noise may use."""
        return self.delta - self.selection_delta

    @cached_property
    def charge(self) -> Charge:
        """What a release would take out of a budget."""
        profile = PrivacyProfile.compose(
            PrivacyProfile.of([NoisyPart(self.laws[measure], part.shift, part.coordinates)])
            for measure, part in self.parts.items()
        )
        return Charge(profile, self.selection_delta)

    @property
    def shown_size(self) -> int | None:
        """How large a group must be to be shown with 99 % probability; None if all groups are shown."""
        if self.selector is None or self.threshold is None:
            return None
        return keys.shown_size(self.laws[self.selector], self.threshold, SHOWN)

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
        return self._columns(self.laws)

    @cached_property
    def alternatives(self) -> dict[str, tuple[Column, ...]]:
        """The same columns with Gaussian and with Laplace noise at the same budget, accounted for as tightly."""
        return {name: self._columns(laws) for name, laws in self._ends.items()}

    @property
    def gains(self) -> dict[str, float]:
        """The part of the variance that is saved against each alternative."""
        first = next(iter(self.laws))
        return {name: 1.0 - self.laws[first].var() / laws[first].var() for name, laws in self._ends.items()}

    @cached_property
    def _ends(self) -> dict[str, dict[Measure, Any]]:
        found = ends_of_family(self.epsilon, self.noise_delta, list(self.parts.values()))
        return {name: dict(zip(self.parts, laws, strict=True)) for name, laws in found.items()}

    def _columns(self, laws: Mapping[Measure, IntegerLaw]) -> tuple[Column, ...]:
        noisy = Noisy({}, laws, self.confidence, clamp=False)
        return tuple(column for aggregate in self.aggregates for column in aggregate.planned(noisy))

    def noisy(self, measured: Mapping[Measure, NDArray[np.int64]], *, clamp: bool) -> Noisy:
        """What aggregates see of a release: the numbers that they ask for, out of those measured with noise."""
        return Noisy(measured, self.laws, self.confidence, clamp)

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
            "columns": [column.to_dict() for column in self.columns],
            "alternatives": {
                name: [column.to_dict() for column in columns] for name, columns in self.alternatives.items()
            },
            "gains": self.gains,
            "charge": self.charge.to_dict(),
            "bounds_cut_off": list(self.cuts),
            "warnings": list(self.warnings),
        }

    def __str__(self) -> str:
        lines = [f"ε = {self.epsilon:.15g}, δ = {self.delta:.15g} would be charged, in all. No data were read."]
        lines += [f"  {column.name}: {column.in_words()}" for column in self.columns]
        others = ", ".join(f"{percent(gain)} of the variance of {name}" for name, gain in self.gains.items())
        lines.append(f"  saved: {others} noise at the same budget")
        if self.threshold is not None:
            lines.append(
                f"  groups are shown from a noisy {self.threshold:,} {self.chosen_by} on; a group of "
                f"{self.shown_size:,} is shown with {SHOWN:.0%} probability (δ = {self.selection_delta:g} is for that)"
            )
        lines += [f"  {cut}" for cut in self.cuts]
        lines += [f"Warning: {warning}" for warning in self.warnings]
        return "\n".join(lines)


def percent(part: float) -> str:
    """A part in percent; what is next to nothing has no sign."""
    return f"{round(100 * part, 1) + 0.0:.1f} %"


def make_plan(
    groups: Groups,
    aggregates: Sequence[Aggregate],
    neighbours: Neighbours,
    epsilon: float,
    delta: float,
    confidence: float,
    cuts: Sequence[str],
) -> Plan:
    """One joint calibration of all measures that the aggregates need, and of a count by which groups are chosen."""
    epsilon = real_number("epsilon", epsilon, positive=True)
    delta = probability("delta", delta)
    if probability("confidence", confidence) == 0:
        raise ValueError("confidence must be above 0 and below 1, got 0")
    if delta == 0 and not groups.shows_all:
        raise ValueError("delta must be above 0 where groups are chosen by their size; or give public_keys")
    selection = 0.0 if groups.shows_all else SELECTION_SHARE * delta
    parts = measured_parts(groups, aggregates, neighbours)
    laws = calibrate_parts(epsilon, delta - selection, list(parts.values()))
    named = {measure: on_integers(law) for measure, law in zip(parts, laws, strict=True)}
    if not all(can_be_drawn(law.potential) for law in named.values()):
        raise ValueError(
            f"epsilon = {epsilon:.15g} needs more noise than can be drawn as 64-bit integers: use a larger epsilon, "
            "narrower bounds or a smaller max_rows_per_group"
        )
    selector, tau = _selector(groups, parts), None
    if selector is not None:
        both, most = neighbours == "change_one", groups.most_of(selector)
        tau = keys.threshold(named[selector], groups.most, selection, both=both, most=most)
    return Plan(
        groups=groups,
        aggregates=tuple(aggregates),
        neighbours=neighbours,
        epsilon=epsilon,
        delta=delta,
        confidence=confidence,
        laws=named,
        parts=parts,
        selector=selector,
        threshold=tau,
        selection_delta=selection,
        cuts=tuple(cuts),
    )


def _selector(groups: Groups, measures: Iterable[Measure]) -> Measure | None:
    """The count by which groups are chosen: of units if that is there, else one that is there and costs no more noise.

    None if all groups are shown, or if nothing is counted.
    """
    if groups.shows_all:
        return None
    counts = [measure for measure in measures if measure.counted is not None]
    return min(counts, key=lambda measure: (groups.most_of(measure), isinstance(measure, Values)), default=None)


def measured_parts(groups: Groups, aggregates: Sequence[Aggregate], neighbours: Neighbours) -> dict[Measure, Part]:
    """Each measure once, with its shift and coordinates; a count is among them where groups are chosen."""
    if not aggregates:
        raise ValueError("the query must ask for something: count(), count_units(), sum(…), mean(…), …")
    weights: dict[Measure, float] = {}
    for aggregate in aggregates:
        for measure in aggregate.measures:
            weights[measure] = max(weights.get(measure, 0.0), aggregate.weight)
    if not groups.shows_all:
        weights.setdefault(_selector(groups, weights) or Units(), 1.0)
    parts = {measure: groups.part(measure, neighbours, weight) for measure, weight in weights.items()}
    for part in parts.values():
        if part.shift > LARGEST_SHIFT:
            raise ValueError(
                "bounds or max_rows_per_group are too large: one unit could move a sum by more than 2**50 steps"
            )
    return parts


def epsilon_for(target: float, excess: Callable[[float], float]) -> float:
    """The least ε, to about 1e-5 of itself, at which a noise interval is as narrow as the target.

    `excess` of ε is ≤ 0 there: the logarithm of the chance to be outside the target, less that of the chance allowed.
    """

    @cache
    def limited(log_epsilon: float) -> float:
        return min(max(excess(math.exp(log_epsilon)), -_STEEP), _STEEP)

    low = high = 0.0
    while limited(high) > 0:
        low, high = high, high + 1.0
        if high > math.log(1e5):
            raise ValueError(f"interval {target:g} is too small for this query: not even ε = 100,000 reaches it")
    while limited(low) <= 0:
        low, high = low - 1.0, low
        if low < math.log(1e-8):
            raise ValueError(f"interval {target:g} is wide enough for any ε")
    found = float(brentq(limited, low, high, xtol=1e-5))
    while limited(found) > 0:
        found += 1e-5
    epsilon = math.exp(found)
    digits = 4 - math.floor(math.log10(epsilon))
    rounded = round(math.ceil(epsilon * 10.0**digits) / 10.0**digits, max(digits, 0))  # one that people can write down
    return rounded if rounded >= epsilon and excess(rounded) <= 0 else epsilon
