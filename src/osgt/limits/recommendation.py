"""The bounds of least error as far as the evidence tells, and how sure that is."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from osgt.limits.curve import Aim, Bounds, Choice, Model, Wanted, best
from osgt.limits.evidence import Evidence
from osgt.limits.histogram import Histogram, limits_up_to

#: Other outcomes of the noise that are tried for how sure the recommendation is.
_TRIALS = 30

#: Outcomes in nine of ten cases are told; a factor between them up to which the recommendation is stable, and fair.
_OUTCOMES = (0.05, 0.95)
_STABLE, _FAIR = 1.6, 3.0

#: Units, in standard deviations of the noise on a bin, below which there is little to go by.
_FEW = 20.0

#: Skew from which on groups are very unequal.
_UNEQUAL = 10.0


@dataclass(frozen=True)
class Open:
    """The aggregates that are wanted, and the bounds that were given; None where one is to be recommended."""

    wanted: tuple[Wanted, ...]
    max_groups: int | None
    max_rows: int | None
    bounds: Mapping[str, Bounds | None]
    grouped: bool

    @property
    def needs_rows(self) -> bool:
        """Whether rows count, so that there is a limit to them."""
        return any(each.needs_rows for each in self.wanted)


@dataclass(frozen=True)
class Recommendation:
    """A choice of all bounds, the limits of groups and rows that other noise might have led to, and words for both."""

    choice: Choice
    groups_range: tuple[int, int]
    rows_range: tuple[int, int]
    cautions: tuple[str, ...]

    @property
    def sure(self) -> str:
        """The stability against other noise: "stable", "fair" or "weak"; what cannot be seen is not in it."""
        factor = max(high / low for low, high in (self.groups_range, self.rows_range))
        if self.cautions:
            return "weak" if factor > _STABLE else "fair"
        return "stable" if factor <= _STABLE else "fair" if factor <= _FAIR else "weak"


def limits_tried(evidence: Evidence, asked: Open, aim: Aim = "error") -> tuple[list[int], list[int]]:
    """The limits of groups and of rows among which the best is looked for: up to the first edge where nobody is seen.

    For coverage up to the one after that, where a few might hide.
    """
    more = 2 if aim == "coverage" else 1
    groups = [asked.max_groups] if asked.max_groups is not None else _limits(evidence.groups, evidence.known, more)
    if not asked.needs_rows:
        return groups, [1]
    rows = [asked.max_rows] if asked.max_rows is not None else [1]
    if asked.max_rows is None and evidence.rows is not None:
        rows = _limits((evidence.settled or evidence.rows).all_units(), None, more)
    return groups, rows


def _limits(histogram: Histogram | None, most: int | None, more: int) -> list[int]:
    if histogram is None:
        return [1]
    last = int(histogram.edges[min((histogram.ends or (0, 0))[1] + more, len(histogram.edges) - 1)])
    return limits_up_to(last if most is None else min(last, most))


def bounds_tried(histogram: Histogram, more: int = 0) -> list[Bounds]:
    """Pairs of edges between which most values lie, or `more` edges on; where no value is below zero, from zero on."""
    places = histogram.places
    zero = int(np.searchsorted(places, 0.0))
    first, last = histogram.ends or (zero, zero + 1)
    first, last = max(first - more, 0) if first < zero else first, min(last + more, len(places) - 1)
    if first >= zero:
        return [(0.0, float(places[high])) for high in range(max(first, zero + 1), max(last, zero + 1) + 1)]
    if last <= zero:
        return [(float(places[low]), 0.0) for low in range(min(first, zero - 1), min(last, zero - 1) + 1)]
    at = range(first, last + 1)
    return [(float(places[low]), float(places[high])) for low, high in itertools.combinations(at, 2) if low <= zero]


def recommend(evidence: Evidence, asked: Open, noise: Callable[[int], float], aim: Aim = "error") -> Recommendation:
    """The best choice, and what it would have been with other noise of the same kind."""
    choice = _best(evidence, asked, evidence.model(noise), aim)
    others = [choice]
    if asked.max_groups is None or (asked.max_rows is None and asked.needs_rows):
        for again in evidence.again(_TRIALS):
            others.append(_best(again, asked, again.model(noise), aim, bounds=choice.bounds))
    return Recommendation(
        choice,
        _range([each.max_groups for each in others]),
        _range([each.max_rows for each in others]),
        tuple(_cautions(evidence, asked)),
    )


def _best(
    evidence: Evidence,
    asked: Open,
    model: Model,
    aim: Aim,
    bounds: Mapping[str, Bounds] | None = None,
) -> Choice:
    groups, rows = limits_tried(evidence, asked, aim)
    tried: dict[str, list[Bounds]] = {}
    first: dict[str, Bounds] = {}
    for column, given in asked.bounds.items():
        settled = given if bounds is None else bounds[column]
        if settled is None:
            tried[column] = bounds_tried(evidence.values[column], more=1 if aim == "coverage" else 0)
            first[column] = max(tried[column], key=lambda pair: pair[1] - pair[0])
        else:
            first[column] = settled
    return best(model, asked.wanted, Choice(groups[-1], rows[-1], first), groups, rows, tried, aim)


def _range(limits: Sequence[int]) -> tuple[int, int]:
    low, high = np.quantile(limits, _OUTCOMES, method="nearest")
    return int(low), int(high)


def _cautions(evidence: Evidence, asked: Open) -> list[str]:
    """List the reasons to doubt the recommendation."""
    found = []
    histogram = evidence.groups if evidence.groups is not None else next(iter(evidence.values.values()), None)
    if histogram is not None and evidence.units < _FEW * histogram.std:
        found.append(
            f"There are few units for the noise (about {max(evidence.units, 0):,.0f}, with noise of "
            f"±{2 * histogram.std:,.0f} on every bin): use a larger ε, or choose bounds that you can give reasons for."
        )
    unseen = evidence.sizes is None or len(evidence.sizes.numbers) == 0
    if asked.max_groups is None and asked.grouped and evidence.known is None and unseen:
        found.append(
            "No group was large enough to be measured. The recommendation is for groups that are just large enough to "
            "be published."
        )
    if asked.max_groups is None and evidence.skew > _UNEQUAL:
        found.append(
            f"The groups are very unequal (mean square over squared mean: about {evidence.skew:,.0f}): large groups "
            "lose much more than small ones."
        )
    for column, given in asked.bounds.items():
        if given is None and evidence.values[column].ends is None:
            found.append(f"The values of {column} could not be told from noise: choose its bounds yourself.")
    return found
