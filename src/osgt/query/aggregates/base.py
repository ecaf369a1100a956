"""The base of all aggregates: the whole numbers they need, their columns, the noise, and what their bounds cut off.

A query may have limits that are not given. Only limits whose choice leaves the noise in steps as it is can be chosen
within a release: of rows, of totals and of values. How many groups a unit counts in decides about the noise: without a
limit, units count in all public groups.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from osgt.data.rows import PrivateRows
from osgt.data.types import ColumnType
from osgt.estimation.intervals import Numbers, Quotient, std_of_interval
from osgt.estimation.rounding import with_sum_kept
from osgt.estimation.sums import ManySum, NoiseSum
from osgt.query.groups import Groups
from osgt.query.measures import Measure
from osgt.query.public_numbers import RATE
from osgt.query.quantiles import NoisyTree
from osgt.query.values import ValueGrid
from osgt.support.errors import ArgumentTypeError
from osgt.support.numeric import Floats, real_number

#: Sizes of a group for which intervals of means and variances are told.
_SIZES = (100, 1_000, 10_000)


#: Whole numbers from 0 on.
_COUNTS = ValueGrid("integer", Fraction(1), 0, 1)


@dataclass(frozen=True)
class Noisy:
    """The whole numbers that aggregates ask for, with noise: one row for each group, and the noise of each.

    This is all that an aggregate sees of a release. How the numbers came about, and what is measured for them, is the
    plan's business.
    """

    values: Mapping[Measure, Quotient]
    noises: Mapping[Measure, NoiseSum]
    confidence: float
    nonnegative: bool
    #: For quantiles: the tree of ranges that they are read from.
    trees: Mapping[Measure, NoisyTree] = field(default_factory=dict)
    #: Whole numbers to show in place of the nearest ones, where numbers are to add up.
    whole: Mapping[Measure, NDArray[np.int64]] | None = None

    def noise(self, asked: Measure) -> NoiseSum:
        """The distribution of the noise on each number of a measure."""
        return self.noises[asked]

    def numbers(self, asked: Measure) -> list[Numbers]:
        """The numbers of a measure, in order: most measures have one, bins have several."""
        values, of, is_fraction = self.values[asked]
        shown = None if self.whole is None else self.whole[asked]
        return [
            Numbers(values[:, i], self.noise(asked), of, None if shown is None else shown[:, i], is_fraction)
            for i in range(values.shape[1])
        ]

    def number(self, asked: Measure) -> Numbers:
        """The one number of a measure."""
        [one] = self.numbers(asked)
        return one

    def in_groups(self, values: Mapping[Measure, Sequence[int]]) -> "Noisy":
        """Replace the numbers by those of some groups, and keep the noise."""
        given = {measure: Quotient(np.array(numbers)[:, None], 1) for measure, numbers in values.items()}
        return replace(self, values=given, nonnegative=False, whole=None)


@dataclass(frozen=True)
class Error:
    """The terms of the error of a column: the noise of Σ coefficient·number, in units of `unit`."""

    coefficients: Mapping[Measure, float]
    unit: float
    weight: float


@dataclass(frozen=True)
class Column:
    """The accuracy of a column, known beforehand: its noise in steps of `step`, or the half-widths by group size.

    Of a quantile it is the half-width in ranks: what that means for the value depends on the data.
    """

    name: str
    kind: str
    confidence: float
    noise: NoiseSum | None = None
    step: Fraction = Fraction(1)
    by_size: Mapping[int, float] | None = None
    ranks: float | None = None
    #: Which quantile it is.
    level: float | None = None

    @property
    def is_count(self) -> bool:
        """Whether it holds whole numbers of rows or units."""
        return self.kind in ("count", "count_units", "count_values", "count_distinct", "histogram")

    @property
    def is_known(self) -> bool:
        """Whether its numbers are public, and have no noise."""
        return isinstance(self.noise, ManySum) and not self.noise.terms

    @property
    def std(self) -> float | None:
        """The standard deviation of the noise; None if it depends on the size of the group."""
        return None if self.noise is None else self.noise.std() * float(self.step)

    @property
    def half_width(self) -> float | None:
        """The half-width of the noise interval; None if it depends on the size of the group."""
        return None if self.noise is None else self.noise.half_width(self.confidence) * float(self.step)

    @property
    def width(self) -> float:
        """A half-width to compare with that of another plan: in ranks for a quantile, in a large group for a ratio.

        Other figures of the same column are in the same proportion.
        """
        if self.ranks is not None:
            return self.ranks
        return (self.half_width or 0.0) if self.by_size is None else max(self.by_size.items())[1]

    def excess(self, target: float) -> float:
        """Above 0 as long as the half-width exceeds the target, and the more so the larger the noise is."""
        if self.noise is None:
            raise TypeError(f"the noise of {self.name} depends on the size of the group")
        return self.noise.excess(self.confidence, Fraction(target) / self.step)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "name": self.name,
            "kind": self.kind,
            "std": self.std,
            "half_width": self.half_width,
            "half_width_in_ranks": self.ranks,
            "half_width_by_size": {str(size): half for size, half in (self.by_size or {}).items()},
        }


@dataclass(frozen=True)
class Limits:
    """The least and the largest value of a column that an aggregate takes as it is, and what becomes of the others."""

    column: str
    low: float
    high: float
    words: str
    #: What values beyond them do, in words.
    beyond: str = "count as the nearer of these"


@dataclass(frozen=True)
class Aggregate:
    """One or more columns of a release. A larger `weight` means less noise here and more elsewhere."""

    kind: ClassVar[str]

    name: str
    weight: float

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The measures that it is made of."""
        raise NotImplementedError

    @property
    def names(self) -> list[str]:
        """The names of its columns, without the ends of the intervals."""
        return [self.name]

    @property
    def open_limit(self) -> str | None:
        """The argument to be chosen before anything is released: "max_total", "max_distinct" or "bounds"; or None."""
        return None

    def with_limit(self, limit: Any, dtype: ColumnType) -> Self:
        """Close the open limit: a number for a total, two for bounds."""
        raise NotImplementedError

    def adds_up(self, groups: Groups) -> bool:
        """Whether the numbers of groups add up to those of all their rows; distinct units may not."""
        return True

    @property
    def clipping(self) -> tuple[str, ValueGrid] | None:
        """The column whose values count as the nearer bound where they are beyond it, and its grid; None if none."""
        return None

    @property
    def limits(self) -> tuple[Limits, ...]:
        """The values that its bounds cut off: named in plans and statements, counted by previews."""
        if self.clipping is None:
            return ()
        column, (low, high) = self.clipping[0], self.clipping[1].bounds
        words = f"values below {low:,} count as {low:,}, values above {high:,} as {high:,}"
        return (Limits(column, low, high, f"bounds of {column}: {words}"),)

    def errors(self, groups: Groups) -> tuple[Error, ...]:
        """List the terms of the errors of its columns: noise is shared out among measures to keep them small."""
        raise NotImplementedError

    def columns(self, noisy: Noisy) -> dict[str, pa.Array]:
        """Compute its columns: for each name the value and both ends of the noise interval.

        A value is null where the interval is all that the bounds allow: the group does not have enough data.
        """
        raise NotImplementedError

    def stds(self, noisy: Noisy, columns: Mapping[str, pa.Array]) -> dict[str, Floats | float]:
        """Compute the standard deviation of the noise of each of its columns: here, from their intervals."""
        result: dict[str, Floats | float] = {}
        for name in self.names:
            value, low, high = (as_floats(columns[name + end]) for end in ("", "_low", "_high"))
            result[name] = std_of_interval(value, low, high, noisy.confidence)
        return result

    def counted(self, groups: Groups) -> str | None:
        """The things that it counts and that limits can cut off: "rows" or "units"; None if it is not such a count."""
        return None

    def mostly_noise(self, table: pa.Table) -> NDArray[np.bool_]:
        """Mark the rows of a published table whose number is mostly noise: here, those that have none."""
        return np.asarray(np.all([table[name].is_null().to_numpy() for name in self.names], axis=0))

    def arguments(self) -> dict[str, Any]:
        """List the arguments beside name and weight, in plain values, as in a query file."""
        if self.clipping is None:
            return {}
        bounds = {} if self.open_limit is not None else {"bounds": self.clipping[1].bounds}
        return {"column": self.clipping[0], **bounds}

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as in a query file."""
        return {"kind": self.kind, **self.arguments(), "name": self.name, "weight": self.weight}

    @property
    def title(self) -> str:
        """In a word: `count`, `mean(delay)`."""
        column = self.arguments().get("column")
        return self.kind if column is None else f"{self.kind}({column})"

    def with_interval(self, value: Any, low: Any, high: Any, *, unknown: Any = None) -> dict[str, pa.Array]:
        """A column and the ends of its interval, under their names; the value is null where it is unknown."""
        named = {f"{self.name}_low": low, f"{self.name}_high": high}
        return {self.name: pa.array(value, mask=unknown)} | {name: pa.array(end) for name, end in named.items()}

    def plan_columns(self, noisy: Noisy) -> list[Column]:
        """Describe its columns before there are any numbers: `noisy` has noise alone.

        Here, that of a ratio: half the length of the interval in groups of several sizes. The first measure is a count
        and is as large as the group; all others are 0, as in the middle of the bounds.
        """
        numbers = dict.fromkeys(self.measures, [0] * len(_SIZES)) | {self.measures[0]: _SIZES}
        columns = self.columns(noisy.in_groups(numbers))
        low, high = (columns[f"{self.name}_{end}"].to_numpy() for end in ("low", "high"))
        by_size = dict(zip(_SIZES, ((high - low) / 2).tolist(), strict=True))
        return [Column(self.name, self.kind, noisy.confidence, by_size=by_size)]


@dataclass(frozen=True)
class PlainNumbers(Aggregate):
    """One measure, a column for each of its numbers. The noise is the same in groups of every size."""

    measure: Measure

    @property
    def measures(self) -> tuple[Measure, ...]:
        return (self.measure,)

    @property
    def grid(self) -> ValueGrid:
        """The meaning of a step of the measure."""
        return _COUNTS

    def errors(self, groups: Groups) -> tuple[Error, ...]:
        return (Error({self.measure: 1.0}, float(groups.max_contribution(self.measure)), self.weight),)

    def columns(self, noisy: Noisy) -> dict[str, pa.Array]:
        columns = {}
        for name, numbers in zip(self.names, noisy.numbers(self.measure), strict=True):
            shown = numbers.whole(noisy.confidence)
            if noisy.nonnegative and self.grid.low >= 0:
                value, *ends = shown
                # Where there are totals, this was done for all levels together.
                value = with_sum_kept(value) if noisy.whole is None else value
                shown = tuple(np.maximum(number, 0) for number in (value, *ends))
            for suffix, steps in zip(("", "_low", "_high"), shown, strict=True):
                columns[name + suffix] = in_units(steps, self.grid)
        return columns

    def stds(self, noisy: Noisy, columns: Mapping[str, pa.Array]) -> dict[str, Floats | float]:
        return dict.fromkeys(self.names, noisy.noise(self.measure).std() * float(self.grid.step))

    def counted(self, groups: Groups) -> str | None:
        if self.measure.per_unit:
            return "units"
        return "rows" if groups.is_weighted(self.measure) and self.measure.largest == 1 else None

    def mostly_noise(self, table: pa.Table) -> NDArray[np.bool_]:
        """Mark the rows in which all its noise intervals contain 0 or are wider than their numbers.

        Upper ends may allow for what limits cut off as well, which is no noise: widths are taken from the lower ends.
        """
        result = []
        for name in self.names:
            value, low, high = (as_floats(table[name + end]) for end in ("", "_low", "_high"))
            result.append(((low <= 0) & (high >= 0) & (low < high)) | (2 * (value - low) > np.abs(value)))
        return np.asarray(np.all(result, axis=0))

    def plan_columns(self, noisy: Noisy) -> list[Column]:
        noise = noisy.noise(self.measure)
        return [Column(name, self.kind, noisy.confidence, noise, self.grid.step) for name in self.names]


def as_floats(column: pa.Array | pa.ChunkedArray) -> Floats:
    """The numbers of a column as floats; NaN where there is none."""
    return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))


def in_units(steps: NDArray[np.int64], grid: ValueGrid) -> pa.Array:
    """Whole steps as numbers of the column's kind: int64, decimal or float64."""
    if grid.kind == "float":
        return pa.array(steps * float(grid.step))
    if grid.step == 1:
        return pa.array(steps)
    digits = len(str(grid.step.denominator)) - 1
    if grid.step.numerator == 1:
        return _decimals(steps, digits)
    return pa.array([Decimal(int(n)) * grid.step.numerator for n in steps], type=pa.decimal128(38, 0))


def _decimals(steps: NDArray[np.int64], digits: int) -> pa.Array:
    """The integers with a decimal point before the last digits, without a Python object for each."""
    halves = np.empty((len(steps), 2), dtype=np.int64)
    halves[:, 0], halves[:, 1] = steps, steps >> 63
    return pa.Array.from_buffers(pa.decimal128(38, digits), len(steps), [None, pa.py_buffer(halves)])


@dataclass(frozen=True, eq=False)
class QuerySpec:
    """A query as far as aggregates know it: what they are asked of, and where they go."""

    dataset: PrivateRows
    groups: Groups
    aggregates: tuple[Aggregate, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The query in plain values, as in a query file."""
        groups: dict[str, Any] = {"by": list(self.groups.by)}
        groups |= self.groups.limits
        groups["public_keys"] = None if self.groups.public is None else self.groups.public.num_rows
        if self.groups.levels:
            groups["totals"] = [level.to_dict() for level in self.groups.levels]
        return {
            "data": self.dataset.to_dict(),
            "groups": groups,
            "aggregates": [aggregate.to_dict() for aggregate in self.aggregates],
        }

    def with_aggregate(self, aggregate: Aggregate) -> Self:
        """Make a copy of the query with one more aggregate."""
        raise NotImplementedError


def check_name(name: object, usual: str) -> str:
    """The name of a column in the release: the usual one if none is given."""
    if name is not None and not (isinstance(name, str) and name):
        raise ArgumentTypeError(f"name must be the name of a column, got {name!r}", argument="name")
    return usual if name is None else name


def check_weight(weight: object) -> float:
    """The weight of an aggregate."""
    return real_number("weight", weight, positive=True)


def rate_names(query: QuerySpec) -> dict[str, str]:
    """The names of the columns with rates, by those that are divided: counts and sums, if rates are asked for."""
    counts = [aggregate for aggregate in query.aggregates if isinstance(aggregate, PlainNumbers)]
    alone = [] if query.groups.rates is None else [count.name for count in counts if count.measure.numbers == 1]
    return {name: name + RATE for name in alone}


#: Ranges below this are taken as bounds: the private choice of bounds has no steps within them.
_NARROWEST = 0.02


def bounds_within_range(query: QuerySpec, column: object, bounds: Any, *, choose: bool = True) -> tuple[Any, bool]:
    """The bounds of a column, and whether they are open, to be chosen privately within the range that is known of it.

    The range itself where nothing is chosen: it is not wanted, every row is a unit, or the range is too narrow.
    """
    if bounds is not None or not isinstance(column, str):
        return bounds, False
    known = query.dataset.known_column(column).range
    is_narrow = known is not None and known[1] - known[0] < _NARROWEST
    if choose and not query.groups.each_row and not is_narrow:
        return None, True
    return known, False


Q = TypeVar("Q", bound=QuerySpec)

#: A limit: a number, or two where it is bounds.
Limit = Fraction | tuple[Fraction, Fraction]

#: What stands for limits that are still open. The noise in steps is the same for every limit on rows; that of groups
#: which a unit counts in is made for so many, and none beyond it may be chosen.
ANY_LIMIT = 16


@dataclass(frozen=True)
class OpenLimit:
    """A limit that is to be chosen: the argument that it is of, and the column if it is about values.

    `range` are the least and the largest plausible value of the column, if they are known.
    """

    argument: str
    column: str | None = None
    range: tuple[Fraction, Fraction] | None = field(default=None, compare=False)

    @property
    def is_of_values(self) -> bool:
        """Whether it is about the sizes of values, rather than a whole number of rows or of different values."""
        return self.column is not None and self.argument != "max_distinct"

    @property
    def low(self) -> Fraction:
        """The lower end of bounds that are not around a centre: that of the range, or 0."""
        return self.range[0] if self.range is not None and self.argument == "bounds" else Fraction(0)

    @property
    def centre(self) -> Fraction:
        """The centre of bounds around one: that of the range, or 0."""
        return sum(self.range, Fraction(0)) / 2 if self.range is not None and self.argument == "bounds" else Fraction(0)

    @property
    def words(self) -> str:
        """The limit in words: "max_rows", "max_total of cost"."""
        return self.argument if self.column is None else f"{self.argument} of {self.column}"


def open_limits(query: QuerySpec) -> tuple[OpenLimit, ...]:
    """The limits that are not given and that something in the query needs."""
    groups = query.groups
    measures = [measure for aggregate in query.aggregates for measure in aggregate.measures]
    result = []
    # Groups that are chosen by their size are chosen by rows, unless units are limited in groups.
    chosen_by_rows = not groups.shows_all and groups.max_groups is None
    counts_rows = any(groups.is_weighted(measure) and measure.own_limit is None for measure in measures)
    if not groups.limits_rows and (counts_rows or chosen_by_rows):
        result.append(OpenLimit("max_rows"))
    for aggregate in query.aggregates:
        if aggregate.open_limit is not None:
            column = str(aggregate.arguments()["column"])
            result.append(OpenLimit(aggregate.open_limit, column, _range(query, column)))
    return tuple(dict.fromkeys(result))


def _range(query: QuerySpec, column: str) -> tuple[Fraction, Fraction] | None:
    """The range of a column as exact numbers."""
    known = query.dataset.known_column(column).range
    return None if known is None else (Fraction(str(known[0])), Fraction(str(known[1])))


def counts_units(aggregates: Iterable[Aggregate]) -> bool:
    """Whether any of some aggregates counts units."""
    return any(measure.per_unit for aggregate in aggregates for measure in aggregate.measures)


def with_limits(query: Q, limits: Mapping[OpenLimit, Limit]) -> Q:
    """Give a query the limits that were chosen for it."""
    of_groups: dict[str, Any] = {
        limit.argument: int(size)
        for limit, size in limits.items()
        if isinstance(size, Fraction) and limit.column is None and getattr(query.groups, limit.argument) is None
    }

    def closed(aggregate: Aggregate) -> Aggregate:
        if aggregate.open_limit is None:
            return aggregate
        column = str(aggregate.arguments()["column"])
        limit = OpenLimit(aggregate.open_limit, column)
        type_of = query.dataset.number_type_of if limit.is_of_values else partial(query.dataset.type_of, "column")
        return aggregate.with_limit(limits[limit], type_of(column))

    return replace(query, groups=replace(query.groups, **of_groups), aggregates=tuple(map(closed, query.aggregates)))


def with_any_limits(query: Q) -> Q:
    """Give a query some limits on rows and groups where they are open: its plan in steps serves all candidates."""
    limits: dict[str, Any] = {limit.argument: ANY_LIMIT for limit in open_limits(query) if limit.column is None}
    return replace(query, groups=replace(query.groups, **limits)) if limits else query
