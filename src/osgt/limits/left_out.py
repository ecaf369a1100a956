"""The shares that the limits of a release cut off, measured in the release itself, with intervals and in words.

The engine adds up, in steps, what the limits cut off and what they keep. Of a unit with N rows, of which each is worth
w steps less than it would be without the limit, N·w steps were cut off, or 3K if that is less: each row counts at most
⌊3K/N⌋ of them. So a unit moves both numbers by 4K together, however many rows it has. Values outside of their bounds
are weighted as the rows are; values that do not fit their declared types are counted in all rows of a unit, which has K
steps for them, in a query of its own: they may be why a condition or a public key left a row out.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from osgt.calibration import Part
from osgt.data.sql import Table, Value
from osgt.data.unit import Neighbours
from osgt.limits.contribution import (
    MOST_CUT_OFF,
    MOST_OF_LENGTH,
    UNIT,
    UNIT_ROWS,
    WORTH,
    number_of_rows,
    saturate,
    with_unit_totals,
)
from osgt.limits.share import MUCH, Share, at_most, in_brief
from osgt.noise import IntegerDistribution
from osgt.query.aggregates.base import Aggregate, Limits
from osgt.query.groups import STEPS, Groups
from osgt.query.measures import ClippedSum, ColumnMeasure, Distinct, LimitedSum, Measure, Place
from osgt.query.values import as_float, one_if, present
from osgt.support.numeric import LARGEST_SUM, Integers
from osgt.support.text import counted, listed, with_article

T = TypeVar("T")

#: What is said where limits can cut off nothing.
NOTHING = "The limits could leave nothing out of what was counted."

#: A measure with a limit of its own on what a unit adds.
OwnLimit = ClippedSum | Distinct

#: The part of the loss that the cut-off of rows or units has beside that of values.
_LIGHT = 1 / 4


@dataclass(frozen=True)
class Outside(ColumnMeasure):
    """The number of values outside of the bounds of a column, and that of values inside; for the whole table."""

    low_end: float
    high_end: float

    numbers = 2
    for_table = True

    @property
    def words(self) -> str:
        return f"values of {self.column} outside and inside of their bounds"

    def contributions(self, rows: Mapping[Any, Value], place: Place) -> list[Any]:
        column = rows[self.column]
        number, low, high = as_float(column), float(self.low_end), float(self.high_end)
        # A comparison with null holds in no case; NaN is above all numbers to every engine.
        outside = (number < low) | ((number > high) & present(column))
        return [one_if(outside), one_if((number >= low) & (number <= high))]


@dataclass(frozen=True)
class LeftOutMeasures:
    """The numbers to measure: cut off and kept of some `things`, values outside and inside, values that do not fit."""

    groups: Groups
    #: "rows" if limits can cut off rows, "units" if they can cut off units in groups; measures with their own limits.
    things: tuple[str | OwnLimit, ...]
    limits: tuple[Limits, ...]
    #: Columns of which it is measured how many values do not fit their declared types.
    misfits: tuple[str, ...] = ()

    @property
    def outside(self) -> dict[str, Outside]:
        """The measures of values outside of their bounds, by name."""
        return {f"values of {limit.column}": Outside(limit.column, limit.low, limit.high) for limit in self.limits}

    def without(self, others: "Sequence[LeftOutMeasures]") -> "LeftOutMeasures | None":
        """Drop what others measure of the same rows; None if nothing is left."""
        result = replace(
            self,
            things=_without(self.things, [thing for other in others for thing in other._things_in_rows]),
            limits=_without(self.limits, [limit for other in others for limit in other.limits]),
            misfits=_without(self.misfits, [column for other in others for column in other.misfits]),
        )
        return result if result.things or result.limits or result.misfits else None

    @property
    def _things_in_rows(self) -> list[str | OwnLimit]:
        """The things of which limits cut off the same in whatever groups: neither units nor pairs with values."""
        return [thing for thing in self.things if thing != "units" and not isinstance(thing, Distinct)]

    def of_own_sums(self, shares: Mapping[str, T]) -> dict[str, T]:
        """Keep what is about the sums whose cut-off is told here, by their columns."""
        own = {thing.column for thing in self.things if isinstance(thing, ClippedSum)}
        return {column: told for column, told in shares.items() if column in own}

    @property
    def names_of_misfits(self) -> list[str]:
        """The names of the numbers of values that do not fit their types."""
        return [f"values of {column} that do not fit" for column in self.misfits]

    def parts(self, neighbours: Neighbours) -> dict[str, Part]:
        """The sensitivity of each pair of numbers: all have one sign, so units that are exchanged do not add up."""
        exchanges = 1 if neighbours == "add_remove" else 2
        own = 1 if self.groups.each_row else STEPS
        times = MOST_CUT_OFF + 1 if self.groups.max_length is None else 2 * MOST_OF_LENGTH
        result = {
            name_of(thing): Part((times if isinstance(thing, str) else MOST_CUT_OFF + 1) * STEPS, exchanges)
            for thing in self.things
        }
        result |= dict.fromkeys(self.outside, Part(own * self._most_in_all, exchanges, _LIGHT))
        return result | dict.fromkeys(self.names_of_misfits, Part(own, exchanges, _LIGHT))

    @property
    def _most_in_all(self) -> int:
        """The most that a unit's rows are worth in all groups together, in parts of its steps."""
        if self.groups.each_row or self.groups.max_rows is not None:
            return 1
        if self.groups.max_length is None:
            return self.groups.max_groups_per_unit
        # In Euclidean norm they are worth one part; spread over so many groups, at most its root times as much. A limit
        # on groups is for units alone where all groups are shown.
        known = self.groups.public_group_count
        return math.isqrt((self.groups.max_groups_per_unit if known is None else known) - 1) + 1

    def exact(
        self, sums: pa.Table, outside: Mapping[Measure, Integers], values: Mapping[Any, str]
    ) -> dict[str, Integers]:
        """The exact pairs of numbers, from the sums of all groups; `values` has the columns of sums with own limits."""
        columns = {
            name_of(thing): [f"{fate}_{thing if isinstance(thing, str) else values[thing]}" for fate in ("cut", "kept")]
            for thing in self.things
        }
        result = {thing: np.array([[_total(sums[name]) for name in names]]) for thing, names in columns.items()}
        for name, measure in self.outside.items():
            totals = [min(sum(column.tolist()), LARGEST_SUM) for column in outside[measure].T]
            result[name] = np.array([totals])
        return result

    def fitting(self, rows: Table) -> Table:
        """Count the values that do not fit, and those that do: a unit has the same number of steps for each column.

        `rows` are those of `misfits.fitting_rows`: all rows of a unit count, whatever becomes of them.
        """
        worth = rows.engine.whole(1)
        if UNIT in rows.columns:
            rows = with_unit_totals(rows, {UNIT_ROWS: (number_of_rows, 1)})
            worth = rows[WORTH]
        names = [f"{what}_{i}" for i in range(len(self.misfits)) for what in ("wrong", "fits")]
        steps = rows.select(
            "contributions",
            "The steps of each row, where a value does not fit its type and where it does.",
            {name: rows[name].then(worth, 0) for name in names},
        )
        return steps.select(
            "exact_sums",
            "The exact sums. Nobody sees them: noise is added before anything is shown.",
            {name: saturate(rows.engine.total(steps[name])) for name in names},
        )

    def exact_fitting(self, answer: pa.Table) -> dict[str, Integers]:
        """The pairs of numbers of values that do not fit, and that do."""
        return {
            name: np.array([[_total(answer[f"{what}_{i}"]) for what in ("wrong", "fits")]])
            for i, name in enumerate(self.names_of_misfits)
        }


def _total(column: pa.ChunkedArray) -> int:
    return min(int(sum(column.cast(pa.int64()).to_pylist())), LARGEST_SUM)


def left_out_measures(
    groups: Groups, aggregates: Sequence[Aggregate], misfits: tuple[str, ...] = ()
) -> LeftOutMeasures | None:
    """Gather what there is to measure; None if the limits can cut off nothing, and all values fit their types."""
    measures = [measure for aggregate in aggregates for measure in aggregate.measures]
    things: list[str | OwnLimit] = ["rows"] if groups.weighs_rows(measures) else []
    if any(measure.per_unit for measure in measures) and can_lose_groups(groups):
        things.append("units")
    things += _limited_sums(groups, aggregates)
    if not groups.each_row:  # of several limits of a column, the first
        things += {measure.column: measure for measure in reversed(measures) if isinstance(measure, Distinct)}.values()
    limits = {limit.column: limit for aggregate in reversed(aggregates) for limit in reversed(aggregate.limits)}
    result = LeftOutMeasures(groups, tuple(things), tuple(reversed(limits.values())), misfits)
    return result if things or limits or misfits else None


def can_cut_off(groups: Groups, aggregates: Sequence[Aggregate]) -> bool:
    """Whether limits can cut off anything: of sums that may be negative it cannot be measured how much."""
    limited = any(isinstance(measure, LimitedSum) for aggregate in aggregates for measure in aggregate.measures)
    return limited or left_out_measures(groups, aggregates) is not None


def _limited_sums(groups: Groups, aggregates: Sequence[Aggregate]) -> list[ClippedSum]:
    """The sums with a limit of their own of which it can be measured what it cuts off: those from 0 on."""
    result: dict[ClippedSum, None] = {}
    for aggregate in aggregates:
        # Whether an open limit will be for sums from 0 on is not known yet.
        is_open = aggregate.open_limit == "max_total"
        for measure in aggregate.measures:
            if isinstance(measure, LimitedSum) and groups.is_weighted(measure) and (is_open or measure.low >= 0):
                result[measure] = None
    return list(result)


def _without(own: Iterable[T], others: Collection[T]) -> tuple[T, ...]:
    return tuple(element for element in own if element not in others)


def _first_rows(tables: Iterable["LeftOut"]) -> Share | None:
    """The share of rows that was measured beside the first of some tables that has it."""
    return next((table.rows for table in tables if table.rows is not None), None)


def _first_of(mappings: Iterable[Mapping[str, T]]) -> dict[str, T]:
    """Join mappings; the first that has a name counts."""
    return {name: value for mapping in reversed([*mappings]) for name, value in mapping.items()}


def name_of(thing: str | OwnLimit) -> str:
    """The name of what is cut off: "rows", "units", "sum of cost", "pairs of diagnosis"."""
    if isinstance(thing, str):
        return thing
    return f"{'pairs' if isinstance(thing, Distinct) else 'sum'} of {thing.column}"


def can_lose_groups(groups: Groups) -> bool:
    """Whether a unit may be in more groups than it counts in, as far as the number of groups is public."""
    public = groups.public_group_count
    return not groups.each_row and (public is None or groups.max_groups_per_unit < public)


def _missing(noisy: Integers, law: IntegerDistribution) -> float:
    """The part that was cut off, and as much again as its noise is on average, of what was kept; 0 if that is noise.

    A group's part of what was cut off is taken to be about its part of the table.
    """
    cut, kept = (float(number) for number in noisy[0])
    spread = law.mean_abs()
    return max(cut + spread, 0.0) / kept if kept > spread else 0.0


def _of_little(shares: Mapping[str, Share], names: Sequence[str]) -> str:
    """Say how many values at most do not fit their declared types, where these are few."""
    most = at_most(max(share.high for share in shares.values())).capitalize()
    return f"{most} of the values of {listed(names)} do not fit their declared types, and count as missing."


def _untold(share: Share, what: str) -> str:
    """Say what more is missing where much is: of one unit no more than three times its steps is measured."""
    return f"; {what} are missing as well, and not in this share" if share.low > MUCH else ""


#: A share, what became of it, and what would help.
Told = tuple[Share, str, str]


def missing_together(allowances: Sequence[tuple[float, int, int, float]]) -> float:
    """The part that was cut off in several releases with independent noise, as `LeftOut.allowances` has it of each."""
    cut, kept = sum(one[1] for one in allowances), sum(one[2] for one in allowances)
    spread = math.sqrt(sum(one[3] ** 2 for one in allowances))
    return max(cut + spread, 0.0) / kept if kept > spread else max(one[0] for one in allowances)


@dataclass(frozen=True, eq=False)
class LeftOut:
    """The shares that the limits of a release cut off, each with its noise interval.

    `rows` is the share of rows that is missing in counts and sums, `units` that of the appearances of units in groups
    that is missing in counts of units; None where limits cannot cut off any. `values` are shares of each column's
    values outside of its bounds; `misfits` are shares of each column's values, in all rows with a unit, that do not
    fit its declared type.
    """

    groups: Groups
    rows: Share | None
    units: Share | None
    values: Mapping[str, Share]
    limits: tuple[Limits, ...]
    confidence: float
    #: What may be missing in counts of rows, and of units, in parts of what was counted: upper ends allow for it.
    missing: Mapping[str, float] = field(default_factory=dict)
    #: The shares of sums that limits on the totals of units cut off, by column, and these limits.
    sums: Mapping[str, tuple[Share, float]] = field(default_factory=dict)
    #: Of the pairs of group and value that units have, the shares that limits on these cut off, and the limits.
    pairs: Mapping[str, tuple[Share, int]] = field(default_factory=dict)
    misfits: Mapping[str, Share] = field(default_factory=dict)
    #: The declared types of the columns, and how their values are written.
    types: Mapping[str, str] = field(default_factory=dict)
    #: What people call the columns, where they have another name for them.
    labels: Mapping[str, str] = field(default_factory=dict)
    #: The noisy amounts that were cut off and kept, and the standard deviation of their noise, as `missing`.
    amounts: Mapping[str, tuple[int, int, float]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        measured: LeftOutMeasures,
        noisy: Mapping[str, Integers],
        laws: Mapping[str, IntegerDistribution],
        confidence: float,
        types: Mapping[str, str] | None = None,
    ) -> "LeftOut":
        """Estimate the shares from noisy numbers; `types` are the declared ones, each with an example."""
        shares = {name: Share.of(numbers, laws[name], confidence) for name, numbers in noisy.items()}
        return cls(
            measured.groups,
            shares.get("rows"),
            shares.get("units"),
            {limits.column: shares[f"values of {limits.column}"] for limits in measured.limits},
            measured.limits,
            confidence,
            {
                name: _missing(noisy[name], laws[name])
                for name in (name_of(thing) for thing in measured.things if not isinstance(thing, Distinct))
            },
            {
                thing.column: (shares[name_of(thing)], thing.grid.bounds[1])
                for thing in measured.things
                if isinstance(thing, ClippedSum)
            },
            {
                thing.column: (shares[name_of(thing)], thing.limit)
                for thing in measured.things
                if isinstance(thing, Distinct)
            },
            dict(zip(measured.misfits, (shares[name] for name in measured.names_of_misfits), strict=True)),
            dict(types or {}),
            amounts={
                name: (int(noisy[name][0, 0]), int(noisy[name][0, 1]), laws[name].std())
                for name in map(name_of, measured.things)
            },
        )

    @property
    def allowances(self) -> dict[str, tuple[float, int, int, float]]:
        """The parts that upper ends allow for, and the amounts that they come from: see `missing_together`."""
        return {name: (part, *self.amounts[name]) for name, part in self.missing.items()}

    def of_columns(self, bounded: Collection[str], declared: Collection[str]) -> "LeftOut":
        """Drop what is said about the values of columns other than these."""
        return replace(
            self,
            limits=tuple(limit for limit in self.limits if limit.column in bounded),
            sums={name: told for name, told in self.sums.items() if name in bounded},
            pairs={name: told for name, told in self.pairs.items() if name in bounded},
            values={name: share for name, share in self.values.items() if name in bounded},
            misfits={name: share for name, share in self.misfits.items() if name in declared},
        )

    @classmethod
    def of_several(cls, asked: LeftOutMeasures, own: "LeftOut | None", others: "Sequence[LeftOut]") -> "LeftOut":
        """Gather what there is to tell of a table: what was measured beside it, or beside others with the same rows."""
        every = [*others] if own is None else [own, *others]
        every = [replace(table, missing=table._missing_in_rows) if table is not own else table for table in every]
        values = _first_of(table.values for table in every)
        return replace(
            every[0],
            groups=asked.groups,
            rows=_first_rows(every) if "rows" in asked.things else None,
            units=None if own is None else own.units,
            values=values,
            limits=tuple(limit for limit in asked.limits if limit.column in values),
            missing=_first_of(table.missing for table in every),
            amounts=_first_of(table.amounts for table in every),
            sums=asked.of_own_sums(_first_of(table.sums for table in every)),
            pairs={} if own is None else own.pairs,
            misfits=_first_of(table.misfits for table in every),
        )

    @property
    def _missing_in_rows(self) -> dict[str, float]:
        """The parts that may be missing, but those of units in groups."""
        return {name: part for name, part in self.missing.items() if name != "units"}

    @property
    def by_limits(self) -> bool:
        """Whether limits could cut off something at all."""
        return bool(self._told)

    @property
    def _told(self) -> list[Told]:
        """The shares that limits cut off, what became of each, and what would help."""
        result: list[Told] = []
        groups, one = self.groups, with_article(self.groups.noun)
        if self.rows is not None and groups.max_rows is not None:
            because = f"{one} with more than {counted(groups.max_rows, 'row')} counts as {groups.max_rows:,}"
            because += _untold(self.rows, f"rows of one beyond {(MOST_CUT_OFF + 1) * groups.max_rows:,}")
            result.append((self.rows, f"of the rows are missing in the numbers: {because}", "a larger max_rows"))
        elif self.rows is not None and groups.max_length is not None:
            because = f"{one} beyond a length of {groups.max_length:,} rows counts less"
            result.append((self.rows, f"of the rows are missing in the numbers: {because}", "a larger max_length"))
        elif self.rows is not None:
            rows = counted(groups.max_rows_per_group or 1, "row")
            because = (
                f"{one} counts as at most {rows} in each of at most {counted(groups.max_groups_per_unit, 'group')}"
            )
            helps = "larger limits, or max_rows in their place"
            result.append((self.rows, f"of the rows are missing in the numbers: {because}", helps))
        if self.units is not None:
            most = groups.max_groups_per_unit
            because = f"{one} in more than {counted(most, 'group')} is counted in {most:,} of them"
            what = f"of the appearances of {one} in a group are missing in the numbers: {because}"
            result.append((self.units, what, "a larger max_groups, or coarser groups"))
        for column, (share, total) in self.sums.items():
            name = self.labels.get(column, column)
            because = f"{one} adds at most {total:,.10g}"
            because += _untold(share, f"amounts of one beyond {(MOST_CUT_OFF + 1) * total:,.10g}")
            result.append((share, f"of the sum of {name} is missing: {because}", f"a larger max_total of {column}"))
        for column, (share, most) in self.pairs.items():
            name = self.labels.get(column, column)
            what = (
                f"of the values of {name} that {groups.noun.many} have were not looked at: {one} counts with at most "
                f"{most:,}. Those that nobody else counts with are missing"
            )
            result.append((share, what, f"a larger max_distinct of {column}"))
        for limits in self.limits:
            what = (
                f"of the values of {self.labels.get(limits.column, limits.column)} were outside {limits.low:,} to "
                f"{limits.high:,}, and {limits.beyond}"
            )
            result.append((self.values[limits.column], what, f"wider bounds for {limits.column}"))
        return result

    @property
    def _told_of_misfits(self) -> list[Told]:
        """The shares of values that do not fit their declared types, what became of each, and what would help."""
        result: list[Told] = []
        one = with_article(self.groups.noun)
        for column, share in self.misfits.items():
            what = (
                f"of the values of {self.labels.get(column, column)}, over all rows with {one}, "
                f"are not written as the declared type says ({self.types[column]}), and count as missing"
            )
            helps = (
                "the type that they are of, or the way in which the file is written (decimal, date_format, encoding); "
                "`osgt preview` counts them, for whoever may see the data"
            )
            result.append((share, what, helps))
        return result

    @property
    def brief(self) -> list[str]:
        """The shares in a few words each; small ones together."""
        shares: list[tuple[Share, str]] = []
        if self.rows is not None:
            shares.append((self.rows, "of the rows"))
        if self.units is not None:
            shares.append((self.units, f"of the {self.groups.noun}–group pairs"))
        shares += [(share, f"of the sum of {self.labels.get(name, name)}") for name, (share, _) in self.sums.items()]
        shares += [
            (share, f"of the {self.groups.noun}–{self.labels.get(n, n)} pairs") for n, (share, _) in self.pairs.items()
        ]
        shares += [(share, f"of {self.labels.get(name, name)} clipped") for name, share in self.values.items()]
        shares += [(share, f"of {self.labels.get(name, name)} unreadable") for name, share in self.misfits.items()]
        return in_brief(shares)

    @property
    def sentences(self) -> list[str]:
        """The sentences for people, one for each limit and for each column with a declared type."""
        limits = [share.sentence(words) for share, words, _ in self._told]
        if not self._told:
            limits = [NOTHING]
        elif all(share.is_vague for share, _, _ in self._told):
            limits = ["The noise is too large to say how much the limits left out."]
        small = {name: share for name, share in self.misfits.items() if share.is_small}
        large = [told for told in self._told_of_misfits if not told[0].is_small]
        return [
            *limits,
            *(share.sentence(words) for share, words, _ in large),
            *([_of_little(small, [self.labels.get(name, name) for name in small])] if small else []),
        ]

    @property
    def warnings(self) -> list[str]:
        """The warnings where more than 5 % was left out or does not fit its type, and what would help."""
        return [
            f"About {share} {words}. What would help: {helps}."
            for share, words, helps in (*self._told_of_misfits, *self._told)
            if share.low > MUCH or (share.value > MUCH and share.low > 0 and not share.is_vague)
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "rows": None if self.rows is None else self.rows.to_dict(),
            "units": None if self.units is None else self.units.to_dict(),
            "sums": {name: share.to_dict() for name, (share, _) in self.sums.items()},
            "pairs": {name: share.to_dict() for name, (share, _) in self.pairs.items()},
            "values_outside_bounds": {name: share.to_dict() for name, share in self.values.items()},
            "values_that_do_not_fit": {name: share.to_dict() for name, share in self.misfits.items()},
            "confidence": self.confidence,
        }

    def __repr__(self) -> str:
        told = [*self._told, *self._told_of_misfits]
        return f"LeftOut({'; '.join(f'{share} {words}' for share, words, _ in told)})"

    def __str__(self) -> str:
        return "\n".join(self.sentences)
