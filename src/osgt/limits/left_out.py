"""The shares that the bounds of a release left out, as noisy measures tell: with intervals, in words and in figures."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from osgt.limits.histogram import SCALE, Histogram, Share, share_of
from osgt.limits.left_out_measures import FATES, KINDS, PLACES, WEIGHTS, LeftOutMeasures, can_lose_groups, can_lose_rows
from osgt.noise import IntegerDistribution
from osgt.query.aggregates.base import Limits
from osgt.query.groups import Groups
from osgt.support.arrays import Integers
from osgt.support.numbers import counted, with_article

#: Intervals as wide as this say nothing.
_VAGUE = 0.5

#: Shares above this are worth a warning.
_MUCH = 0.05

#: What is said where limits can cut off nothing.
NOTHING = "The limits could leave nothing out of what was counted."

#: Who knows whether it is worth it.
_WEIGHED = "`osgt bounds` weighs it against the noise"

#: A share, what became of it, and what would help.
Told = tuple[Share, str, str]


@dataclass(frozen=True, eq=False)
class LeftOut:
    """The shares that the bounds of a release left out, each with its noise interval.

    `by_max_groups` and `by_max_rows_per_group` are shares of the rows, or of the units in groups where only these
    count; `units_by_…` are shares of the units of which something was left out; `values` are shares of each column's
    values, in the groups that units count in, that were beyond its bounds; `misfits` are shares of each column's
    values, in all rows with a unit, that do not fit its declared type.
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
    misfits: Mapping[str, Share] = field(default_factory=dict)
    #: The declared types of the columns, and how their values are written.
    types: Mapping[str, str] = field(default_factory=dict)
    #: What people call the columns, where they have another name for them.
    labels: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        measured: LeftOutMeasures,
        noisy: Mapping[str, Integers],
        laws: Mapping[str, IntegerDistribution],
        unit: str,
        confidence: float,
        types: Mapping[str, str] | None = None,
    ) -> "LeftOut":
        """Estimate the shares from noisy numbers; `types` are the declared ones, each with an example."""

        def of_values(name: str) -> Share:
            return _fate(noisy[name], laws[name], [0], (0, 1), confidence)

        columns = [limits.column for limits in measured.limits]
        values = dict(zip(columns, map(of_values, measured.names_of_values), strict=True))
        misfits = dict(zip(measured.misfits, map(of_values, measured.names_of_misfits), strict=True))
        rows = units = {i: Share(0.0, 0.0, 0.0) for i in range(3)}
        unseen = (0, 0)
        if measured.by_limits:
            rows = {i: _fate(noisy["rows"], laws["rows"], [i], range(FATES), confidence) for i in range(2)}
            units = {i: _kind(noisy["units"], laws["units"], i, confidence) for i in (1, 2)}
            places = _places(noisy["rows"], laws["rows"])
            unseen = math.ceil(places.least_seen), int(places.places[places.around(1, 1)][-1])
        return cls(
            unit,
            measured.groups,
            rows[0],
            rows[1],
            units[1],
            units[2],
            values,
            measured.limits,
            confidence,
            unseen,
            misfits,
            dict(types or {}),
        )

    def of_columns(self, bounded: Collection[str], declared: Collection[str]) -> "LeftOut":
        """Drop what is said about the values of columns other than these."""
        return replace(
            self,
            limits=tuple(each for each in self.limits if each.column in bounded),
            values={name: share for name, share in self.values.items() if name in bounded},
            misfits={name: share for name, share in self.misfits.items() if name in declared},
        )

    @property
    def by_limits(self) -> bool:
        """Whether limits could leave something out at all."""
        return bool(self._told)

    @property
    def rows_in_words(self) -> str:
        """The name of what is counted: rows, or appearances in a group."""
        return "rows" if self.groups.max_rows is not None else f"appearances of {with_article(self.unit)} in a group"

    @property
    def _told(self) -> list[Told]:
        """The shares that limits left out, what became of each, and what would help."""
        found: list[Told] = []
        groups = self.groups
        if can_lose_groups(groups):
            found.append(
                (
                    self.by_max_groups,
                    f"of the {self.rows_in_words} were left out because {with_article(self.unit)} appears in more than "
                    f"{counted(groups.max_groups, 'group')}{self._others}",
                    f"a larger max_groups or coarser groups; {_WEIGHED}",
                )
            )
        if (rows := groups.max_rows) is not None and can_lose_rows(groups):
            where = "in a group" if groups.by else "in all"
            found.append(
                (
                    self.by_max_rows_per_group,
                    f"of the rows were left out because {with_article(self.unit)} has more than "
                    f"{counted(rows, 'row')} {where}{self._others}",
                    f"a larger max_rows_per_group; {_WEIGHED}",
                )
            )
        for limits in self.limits:
            found.append(
                (
                    self.values[limits.column],
                    f"of the values of {self.labels.get(limits.column, limits.column)} were outside {limits.low:,} to "
                    f"{limits.high:,}, and count as the nearer of these",
                    f"wider bounds for {limits.column}; {_WEIGHED}",
                )
            )
        return found

    @property
    def _others(self) -> str:
        """The units that a share is not about: so few of them can be there that nobody sees them."""
        return f"; {with_article(self.unit)} with more than {self._many} is not in this figure"

    @property
    def _many(self) -> str:
        """The number of rows from which on units may be unseen."""
        return f"{self.unseen[1]:,} {'rows' if self.groups.max_rows is not None else 'groups'}"

    @property
    def _told_of_misfits(self) -> list[Told]:
        """The shares of values that do not fit their declared types, what became of each, and what would help."""
        found: list[Told] = []
        for column, share in self.misfits.items():
            found.append(
                (
                    share,
                    f"of the values of {self.labels.get(column, column)}, over all rows with "
                    f"{with_article(self.unit)}, are not written as the declared type says ({self.types[column]}), "
                    "and count as missing",
                    "the type that they are of, or the way in which the file is written (decimal, date_format, "
                    "encoding); `osgt preview` counts them, for whoever may see the data",
                )
            )
        return found

    @property
    def sentences(self) -> list[str]:
        """The sentences for people, one for each bound and for each column with a declared type."""
        limits = [_sentence(share, words) for share, words, _ in self._told] + self._unseen
        if not self._told:
            limits = [NOTHING]
        elif all(_is_vague(share) for share, _, _ in self._told):
            limits = ["The noise is too large to say how much the limits left out."]
        return [*limits, *(_sentence(share, words) for share, words, _ in self._told_of_misfits)]

    @property
    def _unseen(self) -> list[str]:
        """The sentence on units with very many rows that could have escaped, where something is told at all."""
        counts = can_lose_groups(self.groups) or can_lose_rows(self.groups)
        if not counts or all(_is_vague(share) for share, _, _ in self._told):
            return []
        heavy = f"{with_article(self.unit)} with more than {self._many}"
        return [
            f"Up to about {self.unseen[0]:,} cases of {heavy} can go unseen here: the shares and intervals above are "
            "about the others alone, and more was left out if there are such."
        ]

    @property
    def warnings(self) -> list[str]:
        """The warnings where more than 5 % was left out or does not fit its type, and what would help."""
        return [
            f"About {share} {words}. The noise intervals do not cover that. What would help: {helps}."
            for share, words, helps in (*self._told_of_misfits, *self._told)
            if share.low > _MUCH or (share.value > _MUCH and share.low > 0 and not _is_vague(share))
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
            "values_that_do_not_fit": {name: share.to_dict() for name, share in self.misfits.items()},
            "confidence": self.confidence,
            "unseen": {"units": self.unseen[0], "with_more_than": self.unseen[1]},
        }

    def __repr__(self) -> str:
        told = [*self._told, *self._told_of_misfits]
        return f"LeftOut({'; '.join(f'{share} {words}' for share, words, _ in told)})"

    def __str__(self) -> str:
        return "\n".join(self.sentences)


def _is_vague(share: Share) -> bool:
    """Whether an interval says nothing: it is wide, and nothing need have been left out."""
    return share.high - share.low >= _VAGUE and share.low <= _MUCH


def _sentence(share: Share, words: str) -> str:
    if _is_vague(share):
        return f"The noise is too large to say how many {words.removeprefix('of the ')} ({share.interval})."
    return f"About {share} {words}."


def _places(numbers: Integers, law: IntegerDistribution) -> Histogram:
    """The units at each place, whatever becomes of their rows."""
    return Histogram(PLACES, numbers.sum(axis=1), law, layers=FATES)


def _fate(
    numbers: Integers, law: IntegerDistribution, part: Sequence[int], whole: Sequence[int], confidence: float
) -> Share:
    """The share of rows with some fates among those with some others, over the places where units are."""
    places = _places(numbers, law)
    inside = places.around(1, 1)
    counts = numbers[inside] / SCALE
    rows = np.repeat((SCALE / WEIGHTS[inside])[:, None], FATES, axis=1)
    wanted, all_of = np.zeros_like(rows), np.zeros_like(rows)
    wanted[:, list(part)] = rows[:, list(part)]
    all_of[:, list(whole)] = rows[:, list(whole)]
    return share_of(counts.ravel(), wanted.ravel(), all_of.ravel(), law, SCALE, confidence)


def _kind(numbers: Integers, law: IntegerDistribution, bit: int, confidence: float) -> Share:
    """The share of units of which one of the limits left something out."""
    part = np.array([float(bool(kind & bit)) for kind in range(KINDS)])
    return share_of(numbers.astype(np.float64), part, np.ones(KINDS), law, 1, confidence)
