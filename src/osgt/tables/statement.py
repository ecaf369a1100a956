"""Statement: what a release promises, in plain words and with every number needed to check it."""

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from osgt.noise import written
from osgt.noise.error import Objective, objective_text
from osgt.pages.numbers import factor
from osgt.privacy import Charge
from osgt.tables.columns import columns_of
from osgt.tables.left_out import LeftOut
from osgt.tables.left_out_measures import left_out_measures
from osgt.tables.levels import OTHER
from osgt.tables.plan import SHOWN, Plan

if TYPE_CHECKING:
    from osgt.tables.dataset import Dataset
    from osgt.tables.query import Query


class Budgeted(Protocol):
    """What has a budget: a plan of one table or of several."""

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
    def charge(self) -> Charge:
        """What a ledger takes out of a budget."""

    @property
    def confidence(self) -> float:
        """The probability of each interval."""

    @property
    def objective(self) -> Objective:
        """What was made small."""


@dataclass(frozen=True)
class Made:
    """How and when a release was made: `reservation` is its entry in the ledger, if there is one."""

    nonnegative: bool
    date: datetime.datetime
    version: str
    reservation: str | None


@dataclass(frozen=True)
class Statement:
    """The promise of a release. `str` of it is for people, `to_dict` for programs."""

    words: str
    values: dict[str, Any]

    @classmethod
    def of(cls, query: "Query", plan: Plan, made: "Made", *, left_out: LeftOut | None, groups: int) -> "Statement":
        """The statement of a release of `groups` rows."""
        sentences = [
            promise("This release", query, plan),
            about_bounds(query),
            *about_noise(plan.confidence),
            *about_groups(query, plan, left_out),
            *closing("release", query.dataset, made),
            *(f"Warning: {warning}" for warning in plan.warnings),
        ]
        return cls(" ".join(sentences), table_values(query, plan, plan, made, left_out=left_out, groups=groups))

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "Statement":
        """The statement of which these are the plain values."""
        values = dict(plain)
        return cls(values.pop("statement"), values)

    def to_dict(self) -> dict[str, Any]:
        """Every parameter of the release, in plain values for JSON, and the words."""
        return {"statement": self.words, **self.values}

    def __repr__(self) -> str:
        budget = f"epsilon={self.values['epsilon']:.15g}, delta={self.values['delta']:.15g}"
        return f"Statement({budget}; print it to read it)"

    def __str__(self) -> str:
        return self.words


def published(query: "Query") -> dict[str, Any]:
    """The query as everybody may see it: the name of the table, not where it is kept."""
    plain = query.to_dict()
    plain["data"]["source"] = query.dataset.identity["name"] or query.dataset.origin
    return plain


def common_values(query: "Query", plan: Budgeted, made: Made) -> dict[str, Any]:
    """What is the same for all tables that are released together."""
    ledger = None if made.reservation is None else {"dataset": query.dataset.dataset, "reservation": made.reservation}
    return {
        "epsilon": plan.epsilon,
        "delta": plan.delta,
        "privacy": {
            "definition": "approximate differential privacy" if plan.delta else "pure differential privacy",
            "unit": query.dataset.privacy_unit,
            "unit_in_words": query.dataset.unit.in_words,
            "neighbours": query.dataset.neighbours,
            "neighbouring": query.groups.neighbouring(query.dataset.neighbours),
            "noise_delta": plan.noise_delta,
            "charge": plan.charge.to_dict(),
        },
        "confidence": plan.confidence,
        "objective": objective_text(plan.objective),
        "nonnegative": made.nonnegative,
        "ledger": ledger,
        "date": made.date.isoformat(timespec="seconds"),
        "software": f"osgt {made.version}",
    }


def table_values(
    query: "Query", plan: Plan, whole: Budgeted, made: Made, *, left_out: LeftOut | None, groups: int
) -> dict[str, Any]:
    """All there is to know about a table, in plain values; `whole` is the plan of all that is released with it."""
    common = common_values(query, whole, made)
    return common | {
        "query": published(query),
        "columns": columns_of(query, plan),
        "privacy": common["privacy"] | measured_values(plan),
        "left_out": None if left_out is None else left_out.to_dict(),
        "warnings": [*plan.warnings, *([] if left_out is None else left_out.warnings)],
        "groups_shown": groups,
    }


def measured_values(plan: Plan) -> dict[str, Any]:
    """How groups are chosen, what is measured, and with which noise."""
    return {
        "selection_delta": plan.selection_delta,
        "threshold": plan.threshold,
        "chosen_by": plan.chosen_by,
        "shown_size": plan.shown_size,
        "choice_within_delta": plan.selection is not None and not plan.selection.apart,
        "measures": [
            {
                "measure": measure.words,
                "moved_by_one_unit": [{"shift": shift, "coordinates": n} for shift, n in part.moves],
                "noise": written(plan.laws[measure]),
            }
            for measure, part in plan.parts.items()
        ]
        + [
            {
                "measure": f"what is left out: {name}",
                "moved_by_one_unit": [{"shift": shift, "coordinates": n} for shift, n in part.moves],
                "noise": written(law),
            }
            for name, (law, part) in plan.noise.beside.items()
        ],
        "numbers": plan.noise.scheme.in_words(),
    }


def about_totals(plan: Plan) -> list[str]:
    """How totals come about, and what is true of them."""
    if not plan.groups.levels:
        return []
    distinct = [name for aggregate in plan.aggregates if not aggregate.adds_up(plan.groups) for name in aggregate.names]
    apart = (
        f" Distinct units ({', '.join(distinct)}) were counted for each level: they do not add up, since a unit can be "
        "in several groups."
        if distinct
        else ""
    )
    if plan.groups.public is None:
        return [
            "The total of all rows has noise of its own; what is left of it beside the published groups is shown as "
            f"“{OTHER}”. Groups are published where the noise happens to be upward, so that what is left comes out too "
            f"small on average; it has no interval where it is made from the number of {plan.chosen_by}.{apart}"
        ]
    levels = ", ".join(level.words for level in plan.groups.levels)
    return [
        f"Totals ({levels}) were measured from the same rows where that helps, and all levels estimated together by "
        "least squares. Published numbers add up exactly; means are those of each group’s own sum and count. Where "
        f"negative numbers are shown as 0, others of the same total are lowered, so that totals stay.{apart}"
    ]


def _number_of(number: int, thing: str) -> str:
    return f"{number:,} {thing}" + ("" if number == 1 else "s")


def promise(subject: str, query: "Query", plan: Budgeted) -> str:
    """What is promised, and to whom."""
    return (
        f"{subject} is (ε, δ)-differentially private with ε = {plan.epsilon:.15g} and δ = {plan.delta:.15g}, in "
        f"total, for every {query.dataset.privacy_unit}: if {query.groups.neighbouring(query.dataset.neighbours)}, the "
        f"probability of any result changes by at most a factor of {factor(plan.epsilon)}, except with a probability "
        "of about δ."
    )


def about_noise(confidence: float) -> list[str]:
    """What the noise is, and what intervals tell."""
    return [
        "Noise was added to whole numbers, by an exact sampler with the operating system's randomness.",
        f"Each interval contains the value without noise with a probability of at least {100 * confidence:.10g} "
        "%. Intervals tell about the noise alone: neither about what the bounds cut off nor about errors in the data.",
    ]


def about_bounds(query: "Query") -> str:
    """How much of a unit counts in a table."""
    groups = query.groups
    kept = f"at most {_number_of(groups.max_groups, 'group')}" if groups.by else "the table"
    rows = (
        ""
        if groups.max_rows is None
        else f", with at most {_number_of(groups.max_rows, 'row')} {'in each' if groups.by else ''}"
    )
    if groups.each_row:
        return "Every row counts as one unit, once: whoever has several rows is protected for each of them alone."
    return (
        f"Every {query.dataset.privacy_unit} counts in {kept}{rows.rstrip()}; what exceeds that was left out, chosen "
        "at random, before anything was added up."
    )


def about_groups(query: "Query", plan: Plan, left_out: LeftOut | None) -> list[str]:
    """What was left out of a table, and which groups are shown."""
    sentences = about_totals(plan)
    if query.dataset.derived:
        made = "; ".join(f"{name} = {made.text}" for name, made in query.dataset.derived.items())
        sentences.append(f"Columns were computed from each row by itself: {made}.")
    if left_out is not None:
        sentences += left_out.sentences
    elif left_out_measures(query.groups, query.aggregates) is None:
        sentences.append("The bounds could leave nothing out of what was counted.")
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
    elif query.groups.public is not None:
        sentences.append("The groups were given beforehand; all of them are shown, also those without any rows.")
    return sentences


def closing(thing: str, dataset: "Dataset", made: Made) -> list[str]:
    """What was done to negative numbers, and whether a ledger was charged."""
    found = (
        ["Negative numbers are shown as 0, which makes small groups look larger on average."]
        if made.nonnegative
        else []
    )
    found.append(
        f"The {thing} was charged to a ledger (data set {dataset.dataset!r}, entry {made.reservation})."
        if made.reservation is not None
        else f"This {thing} was not charged to a ledger. Every further release from the same data weakens the "
        "protection."
    )
    return found
