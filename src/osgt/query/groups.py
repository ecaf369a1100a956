"""Groups, and levels of totals: how much one unit may contribute, and so how far it moves each measure."""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from osgt.data.sql import Value
from osgt.data.unit import NEIGHBOURING_ROWS, NEIGHBOURS, UNIT_NOUN, Neighbours, Noun
from osgt.query.measures import CentredOnAll, Distinct, Measure, Place, Rows, Units
from osgt.query.public_numbers import Rates
from osgt.query.values import one_if
from osgt.support.numeric import LARGEST_SUM, Integers

#: The column of a release that says which keys a number is summed over.
SUMMED_OVER = "summed_over"

#: What that column says of all groups that are not shown.
OTHER = "other groups"


@dataclass(frozen=True)
class KnownTotals:
    """Public numbers for the groups of a level, in their order: a count of what is there, whatever limits cut off.

    `column` names the count that they are about; None for the only one.
    """

    numbers: tuple[int, ...] = field(repr=False)
    column: str | None = None


@dataclass(frozen=True)
class Level:
    """The groups with equal values of the columns `by`; with none, all rows.

    Parameters
    ----------
    weight
        More than 1: less noise here, and more elsewhere.
    places
        The place of each public group among those of this level. None if keys are not public: one number for all.
    keys
        The keys of this level's groups.
    known
        The numbers of its groups, if they are public: no noise is added to them, and the groups agree with them.
    """

    by: tuple[str, ...]
    weight: float = 1.0
    places: NDArray[np.intp] | None = field(default=None, compare=False, repr=False)
    keys: pa.Table | None = field(default=None, compare=False, repr=False)
    known: KnownTotals | None = field(default=None, hash=False)

    @property
    def size(self) -> int:
        """The number of groups."""
        return 1 if self.keys is None else max(1, self.keys.num_rows)

    @property
    def words(self) -> str:
        """The name of the level in words: "by region", "in all"."""
        return f"by {', '.join(self.by)}" if self.by else "in all"

    def summed(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Numbers of the finest groups added up for this level; sums beyond ±2⁶¹ count as that."""
        places = np.zeros(len(numbers), np.intp) if self.places is None else self.places
        if np.abs(numbers.astype(np.float64)).sum() < LARGEST_SUM // 2:
            total = np.zeros((self.size, numbers.shape[1]), np.int64)
            np.add.at(total, places, numbers)
            return total
        exact = np.zeros((self.size, numbers.shape[1]), object)
        np.add.at(exact, places, numbers.astype(object))
        return np.clip(exact, -LARGEST_SUM, LARGEST_SUM).astype(np.int64)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as in a query file; of known totals, which count they are about."""
        if self.known is not None:
            column = {} if self.known.column is None else {"column": self.known.column}
            return {"by": list(self.by), "known": True, **column}
        return {"by": list(self.by), "weight": self.weight}


def groups_alone(table: pa.Table, levels: Sequence[Level]) -> pa.Table:
    """The rows of a published table that are groups, without its totals and without the column that names these."""
    if not levels or SUMMED_OVER not in table.column_names:
        return table
    return table.filter(table[SUMMED_OVER].is_null()).drop_columns([SUMMED_OVER])


def key_words(row: Mapping[str, Any], key: str, *, missing: str) -> str:
    """A key of a released row in words: what it is, "Total" where it was summed over, or the word for none."""
    over = row.get(SUMMED_OVER)
    if row[key] is not None:
        return value_words(row[key])
    if over == OTHER:
        return OTHER
    return "Total" if over is not None and key in over.split(", ") else missing


def value_words(value: Any) -> str:
    """A value of a key as text."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def is_nested(levels: Sequence[Sequence[str]]) -> bool:
    """Whether each level is within the one before it."""
    ordered = sorted(levels, key=len)
    return all(set(few) < set(more) for few, more in itertools.pairwise(ordered))


def is_product(public: pa.Table) -> bool:
    """Whether the keys are all combinations of the values of their columns."""
    return bool(math.prod(len(np.unique(codes(column))) for column in public.columns) == public.num_rows)


def codes(column: pa.ChunkedArray) -> NDArray[np.intp]:
    """A number for each value of a key, in the order in which they come first."""
    encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    return np.asarray(encoded.indices.to_numpy(zero_copy_only=False), dtype=np.intp)


# Totals: numbers measured for the groups of a level, each a sum over the finest groups in it


@dataclass(frozen=True)
class UnitsAt(Measure):
    """The number of distinct units in each group of a level: a unit counts in the first of its finest groups there."""

    by: tuple[str, ...]

    per_unit = True
    words = "distinct units"

    def contributions(self, rows: Mapping[str, Value], place: Place) -> list[Any]:
        return [one_if(place.starts[self.by])]


@dataclass(frozen=True)
class Total(Measure):
    """A measure added up for the groups of a level.

    One unit is in several of the finest groups, and what it adds to them may fall on one number or on several: one is
    the worst case (docs/dominance.md). Distinct units move by one in each group that the unit is in.
    """

    base: Measure
    level: Level

    @property
    def numbers(self) -> int:
        return self.base.numbers

    for_table = True

    @property
    def words(self) -> str:
        return f"{self.base.words} {self.level.words}"

    @property
    def summed(self) -> tuple[Measure, ...]:
        return self.base.summed

    def exact(self, sums: Mapping[Measure, Integers]) -> Integers:
        return self.level.summed(self.base.exact(sums))


# Groups

#: The steps that every unit has, and spreads over its rows. Floors take N/2³⁰ from a unit with N rows, and products
#: with values of up to 2³² steps fit into 64 bits.
STEPS = 1 << 30

#: The largest limit: a row is worth at least 2¹⁰ steps.
LARGEST_LIMIT = 1 << 20


@dataclass(frozen=True)
class Groups:
    """The grouping of a query: key columns, limits, the public keys if there are any, and the levels of totals.

    What one unit may count for is limited in one of four ways. Where every row is a unit of its own (`each_row`),
    nothing has to be. `max_rows` limits its rows in all; `max_groups` and `max_rows_per_group` together are a box;
    `max_length` limits the root of the sum of squares of its rows in each group. Of a unit with more rows than that,
    each row counts less (`limits.contribution`). Units are counted in at most `max_groups` groups, whatever limits the
    rows.
    """

    by: tuple[str, ...]
    public: pa.Table | None = field(default=None, hash=False)
    levels: tuple[Level, ...] = ()
    each_row: bool = False
    max_rows: int | None = None
    max_groups: int | None = None
    max_rows_per_group: int | None = None
    max_length: int | None = None
    #: What one unit is called.
    noun: Noun = UNIT_NOUN
    #: Public numbers to divide by; tables that are measured together may differ in them.
    rates: Rates | None = field(default=None, compare=False)
    #: The public values of further keys, those of tables that agree with this one: rows with others are ignored.
    further: Mapping[str, pa.Array] = field(default_factory=dict, hash=False, compare=False)

    def neighbouring(self, neighbours: Neighbours) -> str:
        """Describe the difference between neighbouring tables."""
        return (NEIGHBOURING_ROWS if self.each_row else NEIGHBOURS)[neighbours].format(noun=self.noun)

    def counted_in_words(self, counted: str | None) -> str:
        """The name of what is counted, in words: "patients" for units."""
        return self.noun.many if counted == "units" else str(counted)

    @property
    def shows_all(self) -> bool:
        """Whether every group is shown, so that none is chosen by its size."""
        return not self.by or self.public is not None

    @property
    def public_group_count(self) -> int | None:
        """The number of groups, as far as that is public."""
        if not self.by:
            return 1
        return None if self.public is None else self.public.num_rows

    @property
    def max_groups_per_unit(self) -> int:
        """The most groups that one unit counts in, as far as units are told apart by groups at all.

        Groups that are chosen by their size have a limit always: where there is none on groups, that on rows.
        """
        if self.each_row:
            return 1
        limit = self.max_rows if self.max_groups is None and not self.shows_all else self.max_groups
        return min(most for most in (limit, self.public_group_count) if most is not None)

    def uses_salt(self, measures: Iterable[Measure]) -> bool:
        """Whether a unit counts in some of its groups alone, or with some values, which a salted hash has to choose."""
        measures = list(measures)
        if self.each_row or not (self.by or any(isinstance(measure, Distinct) for measure in measures)):
            return False
        in_box = self.max_rows_per_group is not None
        return in_box or not self.shows_all or any(m.per_unit or isinstance(m, Distinct) for m in measures)

    @property
    def limits_groups(self) -> bool:
        """Whether a unit counts in few of its groups: by a limit on them, or since groups are chosen by their size."""
        return self.max_groups is not None or not self.shows_all

    def limits_groups_of(self, *, counts_units: bool) -> bool:
        """Whether a limit on groups is given and does something, where units are counted or not."""
        in_box = self.max_rows_per_group is not None
        return bool(self.by) and self.max_groups is not None and (counts_units or in_box or not self.shows_all)

    @property
    def limits_rows(self) -> bool:
        """Whether the rows of a unit are limited, so that counts of rows and sums can be asked for."""
        return self.each_row or any((self.max_rows, self.max_rows_per_group, self.max_length))

    @property
    def limits(self) -> dict[str, int]:
        """The limits that are given, by name."""
        names = ("max_rows", "max_groups", "max_rows_per_group", "max_length")
        given = {name: getattr(self, name) for name in names}
        return {name: limit for name, limit in given.items() if limit is not None and (self.by or name != "max_groups")}

    def canonical(self, measure: Measure) -> Measure:
        """The measure itself; with one row of a unit in a group, rows are units."""
        same = self.each_row or self.max_rows_per_group == 1
        return Units() if same and isinstance(measure, Rows) else measure

    # What a unit adds, in steps

    def is_weighted(self, measure: Measure) -> bool:
        """Whether rows count by what they are worth, rather than as 1."""
        if isinstance(measure, Total) and measure.base.per_unit:
            return False  # distinct units of a level
        if measure.own_limit is not None:
            return measure.in_steps
        return not (self.each_row or measure.per_unit or isinstance(measure, CentredOnAll))

    def weighs_rows(self, measures: Iterable[Measure]) -> bool:
        """Whether some measure adds up rows by their worth, under the limit that all of them share."""
        return any(self.is_weighted(measure) and measure.own_limit is None for measure in measures)

    @property
    def most_rows(self) -> int:
        """The most rows that one unit counts as: in all, or in each of its groups; 1 where rows make no difference."""
        return self.max_rows or self.max_rows_per_group or self.max_length or 1

    @property
    def full_worth(self) -> int:
        """The worth of a row of a unit that keeps to the limit, in steps."""
        return STEPS // self.most_rows

    def step(self, measure: Measure) -> Fraction:
        """The size of a step of a measured number, in units of the number that is asked for."""
        measure = measure.base if isinstance(measure, Total) else measure
        if not self.is_weighted(measure):
            return Fraction(1)
        if isinstance(measure, Distinct):
            return Fraction(1, STEPS // measure.limit)
        if measure.own_limit is not None:
            return Fraction(measure.own_limit, STEPS)
        return Fraction(measure.largest, self.full_worth)

    def shift(self, measure: Measure) -> int:
        """The most that one unit adds to a measured number, in absolute value and in steps."""
        if isinstance(measure, Total):
            return 1 if isinstance(measure.base, UnitsAt) else self._spread(measure.base) * self.shift(measure.base)
        return STEPS if self.is_weighted(measure) else measure.own_limit or measure.largest

    def max_contribution(self, measure: Measure) -> Fraction:
        """The most that one unit adds to a number that is asked for, in absolute value."""
        return self.shift(measure) * self.step(measure)

    def limits_in_all(self, measure: Measure) -> bool:
        """Whether it is limited what a unit adds to all groups together, rather than to each."""
        return measure.own_limit is not None or (self.is_weighted(measure) and self.max_rows is not None)

    def limits_length(self, measure: Measure) -> bool:
        """Whether it is the Euclidean norm of what a unit adds to all groups that is limited."""
        return self.is_weighted(measure) and measure.own_limit is None and self.max_length is not None

    def _spread(self, measure: Measure) -> int:
        """The number of groups to each of which a unit may add as much as it can."""
        return 1 if self.limits_in_all(measure) or self.limits_length(measure) else self.max_groups_per_unit

    def sensitivity(self, measure: Measure, neighbours: Neighbours) -> tuple[tuple[int, int], ...]:
        """The sensitivity of a measure to one unit, as pairs (shift, coordinates): how far, and in how many numbers.

        A limit on all rows bounds the sum over all numbers: one that moves by all of it is the worst case
        (docs/dominance.md). Exchanging a unit for another moves a measure by what the one takes away and the other
        brings: in twice as many groups, or in the same groups twice as far. Twice as far in one group loses at least as
        much privacy as once in two, so it stands for both; where all contributions have one sign, they cannot add up in
        one group.
        """
        if isinstance(measure, Total):
            return self._sensitivity_of_total(measure, neighbours)
        shift, groups = self.shift(measure), self._spread(measure)
        if self.limits_length(measure) and neighbours == "change_one":
            # Of two vectors of this length; they are at right angles, at the least, if all their numbers have one sign.
            result = [(2 * shift if measure.low < 0 < measure.high else math.isqrt(2 * shift**2) + 1, 1)]
        elif measure.for_table:
            result = [(shift, 1)]
        elif isinstance(measure, CentredOnAll):
            # Whoever comes or goes moves the groups that they are not in as well.
            result = [(shift, groups), (abs(measure.by), (self.public_group_count or groups) - groups)]
        elif neighbours == "add_remove":
            result = [(shift, groups)]
        elif measure.low < 0 < measure.high:
            result = [(2 * shift, groups)]
        elif self.public_group_count is not None and measure.numbers == 1:
            result = [(shift, min(2 * groups, self.public_group_count))]
        else:
            result = [(shift, 2 * groups)]
        return tuple((far, n) for far, n in result if n)

    def _sensitivity_of_total(self, total: Total, neighbours: Neighbours) -> tuple[tuple[int, int], ...]:
        """The sensitivity of a total: in the worst case, all contributions of a unit fall on one number of the level.

        Of two units that are exchanged one takes away and the other brings: where all contributions have one sign, on
        two numbers if there are two; else both may move one number in the same direction.
        """
        exchanges = 1 if neighbours == "add_remove" else 2
        if isinstance(total.base, UnitsAt):
            return ((1, min(exchanges * self.max_groups_per_unit, total.level.size)),)
        if total.base.low < 0 < total.base.high:
            return ((exchanges * self.shift(total), 1),)
        return ((self.shift(total), min(exchanges, total.level.size * total.numbers)),)
