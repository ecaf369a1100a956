"""Statement: what a release promises, in plain words and with every number needed to check it."""

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from osgt.noise import written
from osgt.noise.error import objective_text
from osgt.tables.columns import columns_of
from osgt.tables.left_out import LeftOut
from osgt.tables.plan import SHOWN, Plan

if TYPE_CHECKING:
    from osgt.tables.query import Query


@dataclass(frozen=True)
class Statement:
    """The promise of a release. `str` of it is for people, `to_dict` for programs."""

    words: str
    values: dict[str, Any]

    @classmethod
    def of(
        cls,
        query: "Query",
        plan: Plan,
        *,
        left_out: LeftOut | None,
        clamp: bool,
        groups: int,
        date: datetime.datetime,
        version: str,
        reservation: str | None,
    ) -> "Statement":
        """The statement of a release of `groups` rows."""
        values = {
            "epsilon": plan.epsilon,
            "delta": plan.delta,
            "query": _published(query),
            "columns": columns_of(query, plan),
            "privacy": {
                "definition": "approximate differential privacy" if plan.delta else "pure differential privacy",
                "unit": query.dataset.privacy_unit,
                "unit_in_words": query.dataset.unit.in_words,
                "neighbours": plan.neighbours,
                "neighbouring": query.groups.neighbouring(plan.neighbours),
                "noise_delta": plan.noise_delta,
                "selection_delta": plan.selection_delta,
                "threshold": plan.threshold,
                "chosen_by": plan.chosen_by,
                "shown_size": plan.shown_size,
                "charge": plan.charge.to_dict(),
                "choice_within_delta": plan.selection is not None and not plan.selection.apart,
                "measures": [
                    {
                        "measure": measure.words,
                        "moved_by_one_unit": [{"shift": shift, "coordinates": n} for shift, n in part.moves],
                        "noise": written(plan.laws[measure]),
                    }
                    for measure, part in plan.parts.items()
                ],
                "numbers": plan.noise.scheme.in_words(),
            },
            "left_out": None if left_out is None else left_out.to_dict(),
            "warnings": [*plan.warnings, *([] if left_out is None else left_out.warnings)],
            "confidence": plan.confidence,
            "objective": objective_text(plan.objective),
            "clamp": clamp,
            "groups_shown": groups,
            "ledger": None if reservation is None else {"dataset": query.dataset.dataset, "reservation": reservation},
            "date": date.isoformat(timespec="seconds"),
            "software": f"osgt {version}",
        }
        return cls(_words(query, plan, left_out, clamp, reservation), values)

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "Statement":
        """The statement of which these are the plain values."""
        values = dict(plain)
        return cls(values.pop("statement"), values)

    def to_dict(self) -> dict[str, Any]:
        """Every parameter of the release, in plain values for JSON, and the words."""
        return {"statement": self.words, **self.values}

    def __str__(self) -> str:
        return self.words


def _published(query: "Query") -> dict[str, Any]:
    """The query as everybody may see it: the name of the table, not where it is kept."""
    plain = query.to_dict()
    plain["data"]["source"] = query.dataset.identity["name"] or query.dataset.origin
    return plain


def _number_of(number: int, thing: str) -> str:
    return f"{number:,} {thing}" + ("" if number == 1 else "s")


def _words(query: "Query", plan: Plan, left_out: LeftOut | None, clamp: bool, reservation: str | None) -> str:
    unit, groups = query.dataset.privacy_unit, query.groups
    kept = f"at most {_number_of(groups.max_groups, 'group')}" if groups.by else "the table"
    rows = (
        ""
        if groups.max_rows is None
        else f", with at most {_number_of(groups.max_rows, 'row')} {'in each' if groups.by else ''}"
    )
    sentences = [
        f"This release is (ε, δ)-differentially private with ε = {plan.epsilon:.15g} and δ = {plan.delta:.15g}, in "
        f"total, for every {unit}: if {groups.neighbouring(plan.neighbours)}, the probability of any result changes by "
        "at most a factor of e^ε, except with a probability of about δ.",
        "Every row counts as one unit, once: whoever has several rows is protected for each of them alone."
        if groups.each_row
        else f"Every {unit} counts in {kept}{rows.rstrip()}; what exceeds that was left out, chosen at random, before "
        "anything was added up.",
        "Noise was added to whole numbers, by an exact sampler with the operating system's randomness.",
        f"Each interval contains the value without noise with a probability of at least {100 * plan.confidence:.10g} "
        "%. Intervals tell about the noise alone: neither about what the bounds cut off nor about errors in the data.",
    ]
    if left_out is not None:
        sentences += left_out.sentences
    if plan.threshold is not None:
        sentences.append(
            f"A group is published if its noisy number of {plan.chosen_by} is at least {plan.threshold:,}. A group of "
            f"{plan.shown_size:,} is published {100 * SHOWN:g} % of the time. {plan.choice_in_words()}"
        )
        asked = [measure for aggregate in plan.aggregates for measure in aggregate.measures]
        if any(plan.selector in plan.noise.scheme.combined[measure] for measure in asked):
            sentences.append(
                f"Groups smaller than that are shown where the noise happens to be upward: their numbers of "
                f"{plan.chosen_by}, and what is computed from these, are too large on average, and the intervals cover "
                "less often."
            )
    elif groups.public is not None:
        sentences.append("The groups were given beforehand; all of them are shown, also those without any rows.")
    if clamp:
        sentences.append("Negative numbers are shown as 0, which makes small groups look larger on average.")
    sentences.append(
        f"The release was charged to a ledger (data set {query.dataset.dataset!r}, entry {reservation})."
        if reservation is not None
        else "This release was not charged to a ledger. Every further release from the same data weakens the "
        "protection."
    )
    sentences += [f"Warning: {warning}" for warning in plan.warnings]
    return " ".join(sentences)
