"""Suggestion: recommended bounds, what each choice would cut off, the error that it would lead to, and its picture."""

import hashlib
import json
import math
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from osgt.api.query import Query
from osgt.api.suggestion.open_query import OpenQuery
from osgt.api.suggestion.words import in_words, suggestion_card, suggestion_line
from osgt.calibration import Part
from osgt.facts import wording
from osgt.limits.curve import Aim, Choice, Model
from osgt.limits.evidence import Evidence
from osgt.limits.histogram import Histogram, Share, limits_around
from osgt.limits.recommendation import Recommendation, limits_tried
from osgt.noise import IntegerDistribution
from osgt.privacy import Charge, PrivacyProfile
from osgt.privacy.filters.budget import USUAL_DELTA
from osgt.privacy.profile import NoisyPart
from osgt.render.pictures import axes_for
from osgt.support.numbers import listed, with_article


@dataclass(frozen=True, eq=False)
class NoisePlan:
    """The noise of each histogram by its name ("groups", "rows", "sizes", "values of …") and what is charged."""

    epsilon: float
    delta: float
    parts: Mapping[str, Part]
    laws: Mapping[str, IntegerDistribution]
    selection_delta: float
    threshold: int | None

    @cached_property
    def charge(self) -> Charge:
        """The charge that the suggestion takes out of a budget."""
        profile = PrivacyProfile.compose(
            PrivacyProfile.of([NoisyPart(self.laws[name], part.shift, part.coordinates)])
            for name, part in self.parts.items()
        )
        return Charge(profile, self.selection_delta)


@dataclass(frozen=True)
class Outcome:
    """The outcome of one choice of limits; errors are of the first column, in its own units."""

    max_groups: int
    max_rows: int
    pairs_lost: Share
    rows_beyond: Share
    rows_lost: float
    noise: float
    small: float
    typical: float
    large: float
    recommended: bool
    #: Whether there are units that are seen to be beyond the limit of groups, and of rows.
    sees_groups: bool
    sees_rows: bool

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "max_groups": self.max_groups,
            "max_rows_per_group": self.max_rows,
            "pairs_cut_off": self.pairs_lost.to_dict(),
            "rows_cut_off_by_max_rows_per_group": self.rows_beyond.to_dict(),
            "rows_cut_off": self.rows_lost,
            "noise_std": self.noise,
            "expected_error": {"small": self.small, "typical": self.typical, "large": self.large},
            "recommended": self.recommended,
            "seen_beyond": {"max_groups": self.sees_groups, "max_rows_per_group": self.sees_rows},
        }


@dataclass(frozen=True, eq=False)
class Suggestion:
    """Bounds that were recommended from noisy histograms over units. `apply` gives the query with them."""

    query: OpenQuery
    evidence: Evidence
    recommendation: Recommendation
    model: Model
    noise_plan: NoisePlan
    release_epsilon: float
    release_delta: float | None  # None: it is still to be chosen
    aim: Aim
    confidence: float
    date: str
    software: str
    entry: str | None

    def apply(self) -> Query:
        """The query with the recommended bounds; given ones stay. Refused if one was read from noise alone."""
        if self.without_signal:
            raise ValueError(f"{self.refusal} Give {listed(self.without_signal)} yourself.")
        choice = self.recommendation.choice
        return self.query.completed(choice.max_groups, choice.max_rows, self.bounds)

    def filled(self, plain: Mapping[str, Any]) -> dict[str, Any]:
        """A query file in plain values with the recommended bounds; those given stay, and so does its budget.

        What was read from noise alone stays open. A δ that nobody has named is left out, so that whoever releases the
        table must name one.
        """
        found = deepcopy(dict(plain))
        groups = found.setdefault("groups", {})
        for key, limit in (("max_groups", self.max_groups), ("max_rows_per_group", self.max_rows_per_group)):
            if limit is not None and key not in self.without_signal:
                groups.setdefault(key, limit)
        for aggregate in found.get("aggregates", []):
            column = aggregate.get("column")
            if (
                aggregate.get("bounds") is None
                and column in self.bounds
                and _bounds_of(column) not in self.without_signal
            ):
                aggregate["bounds"] = list(self.bounds[column])
        delta = {} if self.release_delta is None else {"delta": self.release_delta}
        found["budget"] = {"epsilon": self.release_epsilon, **delta, **found.get("budget", {})}
        return found

    @cached_property
    def without_signal(self) -> tuple[str, ...]:
        """The bounds to recommend for which nothing could be told from the noise."""
        asked, evidence = self.query.wanted, self.evidence
        rows = None if evidence.settled is None else evidence.settled.all_units()
        read = {
            "max_groups": evidence.groups if asked.max_groups is None and asked.grouped else None,
            "max_rows_per_group": rows if asked.max_rows is None and asked.needs_rows else None,
            **{_bounds_of(name): evidence.values[name] for name, given in asked.bounds.items() if given is None},
        }
        return tuple(name for name, histogram in read.items() if histogram is not None and histogram.ends is None)

    @property
    def refusal(self) -> str:
        """The reason why some of the recommendation is not applied, in words; "" if all of it is."""
        if not self.without_signal:
            return ""
        return (
            f"Nothing could be told from the noise about {listed(self.without_signal)}, so no number is filled in. "
            "Are there any rows in the groups that were asked for? If there are, a larger ε would show them."
        )

    @property
    def max_groups(self) -> int | None:
        """The recommended limit of groups; None where there are none."""
        return self.recommendation.choice.max_groups if self.query.groups.by else None

    @property
    def max_rows_per_group(self) -> int | None:
        """The recommended limit of rows; None where units alone are counted."""
        return self.recommendation.choice.max_rows if self.query.wanted.needs_rows else None

    @property
    def bounds(self) -> dict[str, tuple[float, float]]:
        """The recommended bounds of each column that had none."""
        given = self.query.wanted.bounds
        found = self.recommendation.choice.bounds
        return {name: (_plain(low), _plain(high)) for name, (low, high) in found.items() if given[name] is None}

    @cached_property
    def choices(self) -> tuple[Outcome, ...]:
        """The outcomes of limits of groups around the recommended one, with the recommended limit of rows."""
        best = self.recommendation.choice
        limits, _ = limits_tried(self.evidence, self.query.wanted, self.aim)
        return tuple(
            self._outcome(Choice(limit, best.max_rows, best.bounds)) for limit in limits_around(limits, best.max_groups)
        )

    @cached_property
    def row_choices(self) -> tuple[Outcome, ...]:
        """The outcomes of limits of rows around the recommended one, with the recommended limit of groups."""
        if self.max_rows_per_group is None:
            return ()
        best = self.recommendation.choice
        _, limits = limits_tried(self.evidence, self.query.wanted, self.aim)
        return tuple(
            self._outcome(Choice(best.max_groups, limit, best.bounds)) for limit in limits_around(limits, best.max_rows)
        )

    def _outcome(self, choice: Choice) -> Outcome:
        model, first = self.model, self.query.wanted.wanted[0]
        lost, noise = model.lost(first, choice), model.noise_of(first, choice)
        small, typical, large = (math.hypot(lost * size, noise) for size in model.sizes(first, choice.max_groups))
        return Outcome(
            choice.max_groups,
            choice.max_rows,
            self.evidence.pairs_lost(choice.max_groups, self.confidence),
            self.evidence.rows_beyond(choice.max_rows, self.confidence),
            model.rows_lost(choice.max_groups, choice.max_rows) if self.query.wanted.needs_rows else lost,
            noise,
            small,
            typical,
            large,
            choice == self.recommendation.choice,
            self.evidence.sees_groups_beyond(choice.max_groups),
            self.evidence.sees_rows_beyond(choice.max_rows),
        )

    @cached_property
    def values_beyond(self) -> dict[str, Share]:
        """The share of values beyond the recommended bounds of each column, of one value of each unit."""
        return {name: self.evidence.values_beyond(name, pair, self.confidence) for name, pair in self.bounds.items()}

    @property
    def sure(self) -> str:
        """The sentence on how much of the recommendation is owed to the noise, or that all of it is."""
        if self.without_signal:
            return self.refusal
        found = self.recommendation
        ranges = []
        if self.max_groups is not None and found.groups_range[0] < found.groups_range[1]:
            ranges.append("max_groups = {:,} to {:,}".format(*found.groups_range))
        if self.max_rows_per_group is not None and found.rows_range[0] < found.rows_range[1]:
            ranges.append("max_rows_per_group = {:,} to {:,}".format(*found.rows_range))
        judgement = {
            "stable": "The recommendation is stable, as far as anything can be seen",
            "fair": "The recommendation is fairly stable, as far as anything can be seen",
            "weak": "The recommendation rests on little evidence",
        }[found.sure]
        if not ranges:
            return f"{judgement}: other noise would have led to the same."
        return f"{judgement}: other noise would have led to {' and '.join(ranges)}."

    @cached_property
    def unseen(self) -> str:
        """The sentence on what nobody can see in these histograms, so that nothing is known of it."""
        found, unit = [], with_article(self.query.dataset.privacy_unit)
        groups, rows = self.evidence.groups, self.evidence.settled
        if self.max_groups is not None and groups is not None and not self.evidence.sees_all_groups:
            found.append(_unseen(f"{unit} in more than {groups.last_seen:,.10g} groups", groups))
        if self.max_rows_per_group is not None and rows is not None:
            every = rows.all_units()
            found.append(_unseen(f"{unit} with more than {every.last_seen:,.10g} rows in a group", every))
        for name in self.bounds:
            values = self.evidence.values[name]
            low, high = values.seen
            found.append(_unseen(f"{unit} with values of {name} below {low:,.10g} or above {high:,.10g}", values))
        if not found:
            return "All that there can be is seen."
        return (
            f"What lies beyond what is seen is unknown, and in none of these figures: {listed(found)} can be there "
            "without being seen."
        )

    @property
    def notes(self) -> list[str]:
        """The notes on what is still to be chosen for the release."""
        if self.release_delta is not None:
            return []
        return [
            f"No δ was named for the release: these bounds are for one of about {USUAL_DELTA:g}. Choose it before the "
            "release, far below one over the number of units."
        ]

    @property
    def statement(self) -> str:
        """The promise and the charge of the suggestion, in words."""
        plan, data = self.noise_plan, self.query.dataset
        private = f"{data.privacy_unit} that are {wording.definition(plan.epsilon, plan.delta)}"
        return (
            f"These bounds were chosen from histograms over {private}. This cost comes on top of that of the table "
            f"that uses the bounds. {wording.ledger('suggestion', data.dataset, self.entry)}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "recommended": {
                "max_groups": self.max_groups,
                "max_rows_per_group": self.max_rows_per_group,
                "bounds": {name: list(pair) for name, pair in self.bounds.items()},
            },
            "aim": self.aim,
            "sure": self.recommendation.sure,
            "how_sure": self.sure,
            "unseen": self.unseen,
            "cautions": list(self.recommendation.cautions),
            "notes": self.notes,
            "other_noise": {
                "max_groups": list(self.recommendation.groups_range),
                "max_rows_per_group": list(self.recommendation.rows_range),
            },
            "epsilon": self.noise_plan.epsilon,
            "delta": self.noise_plan.delta,
            "charge": self.noise_plan.charge.to_dict(),
            "release": {"epsilon": self.release_epsilon, "delta": self.release_delta},
            "confidence": self.confidence,
            "units": self.evidence.units,
            "skew": self.model.skew,
            "choices": [each.to_dict() for each in self.choices],
            "row_choices": [each.to_dict() for each in self.row_choices],
            "values_cut_off": {name: share.to_dict() for name, share in self.values_beyond.items()},
            "statement": self.statement,
            "date": self.date,
            "software": self.software,
        }

    def settle(self, reservation: Any) -> None:
        """Tell the ledger that the suggestion is out: whoever has it can read it."""
        plain = json.dumps(self.to_dict(), sort_keys=True, default=str)
        reservation.settle(hashlib.sha256(plain.encode()).hexdigest(), output="a suggestion of bounds")

    def plot(self, axes: Any = None) -> Any:
        """Draw the error against the limit of groups, and what it is made of. Returns the axes of Matplotlib."""
        return draw(self, axes)

    def __repr__(self) -> str:
        return suggestion_line(self)

    def _repr_html_(self) -> str:
        return suggestion_card(self).html()

    def __str__(self) -> str:
        return in_words(self)


def _unseen(who: str, histogram: Histogram) -> str:
    return f"up to about {math.ceil(histogram.least_seen):,} cases of {who}"


def _bounds_of(column: str) -> str:
    return f"the bounds of {column}"


def _plain(number: float) -> float:
    """Whole numbers without a point, as people write them."""
    return int(number) if float(number).is_integer() else number


def draw(suggestion: "Suggestion", axes: Any) -> Any:
    """Draw the curve: for limits of groups, or of rows where there are no groups, noise and expected errors."""
    by_groups = len(suggestion.choices) > 1
    outcomes = suggestion.choices if by_groups else suggestion.row_choices
    limits = [each.max_groups if by_groups else each.max_rows for each in outcomes]
    axes = axes_for(axes)
    for name, values, style in (
        ("noise alone", [each.noise for each in outcomes], "--"),
        ("small group", [each.small for each in outcomes], "-"),
        ("typical group", [each.typical for each in outcomes], "-"),
        ("large group", [each.large for each in outcomes], "-"),
    ):
        axes.plot(limits, values, style, marker="o", markersize=3, label=name)
    for limit, each in zip(limits, outcomes, strict=True):
        if each.recommended:
            axes.axvline(limit, color="grey", linewidth=1, label=f"recommended: {limit:,}")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(limits, [f"{limit:,}" for limit in limits])
    axes.set_xticks([], minor=True)
    axes.yaxis.set_major_formatter("{x:,g}")
    axes.set_xlabel("max_groups" if by_groups else "max_rows_per_group")
    axes.set_ylabel(f"expected error of {suggestion.query.aggregates[0].name}", parse_math=False)
    axes.legend(frameon=False)
    return axes
