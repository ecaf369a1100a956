"""Suggestion: recommended bounds, what each choice would cut off, and the error that it would lead to."""

import hashlib
import json
import math
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from osgt.tables.bounds.budget import NoisePlan
from osgt.tables.bounds.curve import Aim, Choice, Model
from osgt.tables.bounds.edges import limits_around
from osgt.tables.bounds.evidence import Evidence
from osgt.tables.bounds.open_query import OpenQuery
from osgt.tables.bounds.picture import draw
from osgt.tables.bounds.recommendation import Recommendation, limits_tried
from osgt.tables.bounds.share import Share
from osgt.tables.cards import suggestion_card, suggestion_line
from osgt.tables.query import Query


@dataclass(frozen=True)
class Outcome:
    """What one choice of limits leads to; errors are of the first column, in its own units."""

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
    release_delta: float
    aim: Aim
    confidence: float
    date: str
    software: str
    entry: str | None

    def apply(self) -> Query:
        """The query with the recommended bounds; those that were given stay."""
        choice = self.recommendation.choice
        return self.query.completed(choice.max_groups, choice.max_rows, self.bounds)

    def filled(self, plain: Mapping[str, Any]) -> dict[str, Any]:
        """A query file in plain values with the recommended bounds; those given stay, and so does its budget."""
        found = deepcopy(dict(plain))
        groups = found.setdefault("groups", {})
        for key, limit in (("max_groups", self.max_groups), ("max_rows_per_group", self.max_rows_per_group)):
            if limit is not None:
                groups.setdefault(key, limit)
        for aggregate in found.get("aggregates", []):
            if aggregate.get("bounds") is None and aggregate.get("column") in self.bounds:
                aggregate["bounds"] = list(self.bounds[aggregate["column"]])
        found["budget"] = {"epsilon": self.release_epsilon, "delta": self.release_delta} | found.get("budget", {})
        return found

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
        """What limits of groups around the recommended one lead to, with the recommended limit of rows."""
        best = self.recommendation.choice
        limits, _ = limits_tried(self.evidence, self.query.wanted, self.aim)
        return tuple(
            self._outcome(Choice(limit, best.max_rows, best.bounds)) for limit in limits_around(limits, best.max_groups)
        )

    @cached_property
    def row_choices(self) -> tuple[Outcome, ...]:
        """What limits of rows around the recommended one lead to, with the recommended limit of groups."""
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
        )

    @cached_property
    def values_beyond(self) -> dict[str, Share]:
        """For each column with recommended bounds the share of values beyond them, of one value of each unit."""
        return {name: self.evidence.values_beyond(name, pair, self.confidence) for name, pair in self.bounds.items()}

    @property
    def sure(self) -> str:
        """In a sentence: how much of the recommendation is owed to the noise."""
        found = self.recommendation
        ranges = []
        if self.max_groups is not None and found.groups_range[0] < found.groups_range[1]:
            ranges.append("max_groups = {:,} to {:,}".format(*found.groups_range))
        if self.max_rows_per_group is not None and found.rows_range[0] < found.rows_range[1]:
            ranges.append("max_rows_per_group = {:,} to {:,}".format(*found.rows_range))
        judgement = {
            "clear": "The recommendation is clear",
            "fair": "The recommendation is fairly clear",
            "weak": "The recommendation rests on little evidence",
        }[found.sure]
        if not ranges:
            return f"{judgement}: other noise would have led to the same."
        return f"{judgement}: other noise would have led to {' and '.join(ranges)}."

    @property
    def statement(self) -> str:
        """What was promised and charged, in words."""
        plan, data = self.noise_plan, self.query.dataset
        charged = (
            f"It was charged to a ledger (data set {data.dataset!r}, entry {self.entry})."
            if self.entry is not None
            else "It was not charged to a ledger. Every further release from the same data weakens the protection."
        )
        return (
            f"These bounds were chosen from histograms over {data.privacy_unit} that are (ε, δ)-differentially private "
            f"with ε = {plan.epsilon:.15g} and δ = {plan.delta:.15g}. This budget and that of the table that uses the "
            f"bounds add up. {charged}"
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
            "cautions": list(self.recommendation.cautions),
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
        from osgt.tables.bounds.words import in_words  # noqa: PLC0415 - it uses this class

        return in_words(self)


def _plain(number: float) -> float:
    """Whole numbers without a point, as people write them."""
    return int(number) if float(number).is_integer() else number
