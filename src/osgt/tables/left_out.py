"""What the bounds of a release left out, as noisy measures tell it: shares with intervals, in words and in figures."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osgt.noise import IntegerLaw
from osgt.pages.numbers import counted, with_article
from osgt.tables.aggregates.base import Limits
from osgt.tables.bounds.edges import SCALE
from osgt.tables.bounds.histogram import Histogram
from osgt.tables.bounds.share import Share, share_of
from osgt.tables.groups import Groups
from osgt.tables.left_out_measures import (
    FATES,
    KINDS,
    PLACES,
    WEIGHTS,
    LeftOutMeasures,
    can_lose_groups,
    can_lose_rows,
)

Integers = NDArray[np.int64]

#: Intervals as wide as this say nothing.
_VAGUE = 0.5

#: Shares above this are worth a warning.
_MUCH = 0.05


@dataclass(frozen=True, eq=False)
class LeftOut:
    """The shares that the bounds of a release left out, each with its noise interval.

    `by_max_groups` and `by_max_rows_per_group` are shares of the rows, or of the units in groups where only these
    count; `units_by_…` are shares of the units of which something was left out; `values` are shares of each column's
    values, in the groups that units count in, that were beyond its bounds.
    """

    unit: str
    groups: Groups
    by_max_groups: Share
    by_max_rows_per_group: Share
    units_by_max_groups: Share
    units_by_max_rows_per_group: Share
    values: Mapping[str, Share]
    limits: tuple[Limits, ...]
    confidence: float
    #: So many units with more rows than this each are not told from noise: shares and intervals are of the others.
    unseen: tuple[int, int]
    #: What people call the columns, where they have another name for them.
    labels: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        measured: LeftOutMeasures,
        noisy: Mapping[str, Integers],
        laws: Mapping[str, IntegerLaw],
        unit: str,
        confidence: float,
    ) -> "LeftOut":
        """What noisy numbers say."""
        rows = {i: _fate(noisy["rows"], laws["rows"], [i], range(FATES), confidence) for i in range(2)}
        units = {i: _kind(noisy["units"], laws["units"], i, confidence) for i in (1, 2)}
        values = {
            limits.column: _fate(noisy[name], laws[name], [0], (0, 1), confidence)
            for limits, name in zip(measured.limits, measured.names[2:], strict=True)
        }
        places = _places(noisy["rows"], laws["rows"])
        unseen = math.ceil(places.least_seen), int(places.places[places.around(1, 1)][-1])
        limits = measured.limits
        return cls(unit, measured.groups, rows[0], rows[1], units[1], units[2], values, limits, confidence, unseen)

    def of_columns(self, columns: Collection[str]) -> "LeftOut":
        """The same without what it says about the values of other columns."""
        limits = tuple(each for each in self.limits if each.column in columns)
        return replace(self, limits=limits, values={each.column: self.values[each.column] for each in limits})

    @property
    def rows_in_words(self) -> str:
        """What is counted."""
        return "rows" if self.groups.max_rows is not None else f"appearances of {with_article(self.unit)} in a group"

    @property
    def _told(self) -> list[tuple[Share, str, str]]:
        """Each share, what became of it, and what would help."""
        found = []
        groups = self.groups
        if can_lose_groups(groups):
            found.append(
                (
                    self.by_max_groups,
                    f"of the {self.rows_in_words} were left out because {with_article(self.unit)} appears in more than "
                    f"{counted(groups.max_groups, 'group')}{self._others}",
                    "a larger max_groups or coarser groups",
                )
            )
        if (rows := groups.max_rows) is not None and can_lose_rows(groups):
            where = "in a group" if groups.by else "in all"
            found.append(
                (
                    self.by_max_rows_per_group,
                    f"of the rows were left out because {with_article(self.unit)} has more than "
                    f"{counted(rows, 'row')} {where}{self._others}",
                    "a larger max_rows_per_group",
                )
            )
        for limits in self.limits:
            found.append(
                (
                    self.values[limits.column],
                    f"of the values of {self.labels.get(limits.column, limits.column)} were outside {limits.low:,} to "
                    f"{limits.high:,}, and count as the nearer of these",
                    f"wider bounds for {limits.column}",
                )
            )
        return found

    @property
    def _others(self) -> str:
        """Which units a share is not about: so few of them can be there that nobody sees them."""
        return f"; {with_article(self.unit)} with more than {self._many} is not in this figure"

    @property
    def _many(self) -> str:
        """From how many rows on units may be unseen."""
        return f"{self.unseen[1]:,} {'rows' if self.groups.max_rows is not None else 'groups'}"

    @property
    def sentences(self) -> list[str]:
        """In words, one sentence for each bound."""
        if all(share.high - share.low >= _VAGUE for share, _, _ in self._told):
            return ["The noise is too large to say how much the limits left out."]
        return [
            f"About {share} {words}."
            if share.high - share.low < _VAGUE
            else f"The noise is too large to say how many {words.removeprefix('of the ')} ({share.interval})."
            for share, words, _ in self._told
        ] + self._unseen

    @property
    def _unseen(self) -> list[str]:
        """How many units with very many rows could have escaped, where something is told at all."""
        counts = can_lose_groups(self.groups) or can_lose_rows(self.groups)
        if not counts or all(share.high - share.low >= _VAGUE for share, _, _ in self._told):
            return []
        heavy = f"{with_article(self.unit)} with more than {self._many}"
        return [
            f"Up to about {self.unseen[0]:,} cases of {heavy} can go unseen here: the shares and intervals above are "
            "about the others alone, and more was left out if there are such."
        ]

    @property
    def warnings(self) -> list[str]:
        """Where more than 5 % was left out, and what would help."""
        return [
            f"About {share} {words}. The noise intervals do not cover that. What would help: {helps}; `osgt bounds` "
            "weighs it against the noise."
            for share, words, helps in self._told
            if share.value > _MUCH and share.low > 0 and share.high - share.low < _VAGUE
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "counted": "rows" if self.groups.max_rows is not None else "units in groups",
            "by_max_groups": self.by_max_groups.to_dict(),
            "by_max_rows_per_group": self.by_max_rows_per_group.to_dict(),
            "units_by_max_groups": self.units_by_max_groups.to_dict(),
            "units_by_max_rows_per_group": self.units_by_max_rows_per_group.to_dict(),
            "values_outside_bounds": {name: share.to_dict() for name, share in self.values.items()},
            "confidence": self.confidence,
            "unseen": {"units": self.unseen[0], "with_more_than": self.unseen[1]},
        }

    def __repr__(self) -> str:
        return f"LeftOut({'; '.join(f'{share} {words}' for share, words, _ in self._told)})"

    def __str__(self) -> str:
        return "\n".join(self.sentences)


def _places(numbers: Integers, law: IntegerLaw) -> Histogram:
    """The units at each place, whatever becomes of their rows."""
    return Histogram(PLACES, numbers.sum(axis=1), law, layers=FATES)


def _fate(numbers: Integers, law: IntegerLaw, part: Sequence[int], whole: Sequence[int], confidence: float) -> Share:
    """The share of rows with some fates among those with some others, over the places where units are."""
    places = _places(numbers, law)
    inside = places.around(1, 1)
    counts = numbers[inside] / SCALE
    rows = np.repeat((SCALE / WEIGHTS[inside])[:, None], FATES, axis=1)
    wanted, all_of = np.zeros_like(rows), np.zeros_like(rows)
    wanted[:, list(part)] = rows[:, list(part)]
    all_of[:, list(whole)] = rows[:, list(whole)]
    return share_of(counts.ravel(), wanted.ravel(), all_of.ravel(), law, SCALE, confidence)


def _kind(numbers: Integers, law: IntegerLaw, bit: int, confidence: float) -> Share:
    """The share of units of which one of the limits left something out."""
    part = np.array([float(bool(kind & bit)) for kind in range(KINDS)])
    return share_of(numbers.astype(np.float64), part, np.ones(KINDS), law, 1, confidence)
