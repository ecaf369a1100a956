"""The numbers of a published table in steps, with the exact noise of each, and their best estimates: post-processing.

Estimates are made of the published numbers alone: they cost no budget. Numbers of a level are estimated together, if an
unbiased estimate of the error says that this helps (see `estimation.empirical_bayes`). Sums stay: from the coarsest
level down, the estimates of the groups of a total add up to the estimate of that; where levels are not nested, those of
each level add up to the sum of its published numbers.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from osgt.estimation.empirical_bayes import Estimated, NoisyNumbers, Risk, Shrinkage, keep_sums
from osgt.estimation.intervals import IndependentNoise, PairNoise, whole_half_width
from osgt.estimation.sums import NoiseSum, many_terms, sum_of
from osgt.limits.left_out import missing_together
from osgt.plan.plan import Plan
from osgt.plan.reconciled import Reconciled, distinct_noise
from osgt.plan.total_rows import order_of_rows
from osgt.query.aggregates.base import PlainNumbers, as_floats, in_units
from osgt.query.aggregates.marks import MARK, Marks
from osgt.query.groups import SUMMED_OVER, is_nested
from osgt.query.measures import Distinct
from osgt.query.values import ValueGrid
from osgt.support.errors import ArgumentError
from osgt.support.numeric import LARGEST_SUM, Floats, Integers
from osgt.support.text import unknown

Places = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class PublishedTable:
    """A published table, and the plan that says how noisy its numbers are."""

    table: pa.Table
    plan: Plan

    @property
    def _reconciled(self) -> Reconciled | None:
        """The estimators of a table with totals, or of groups that are public; None where groups were chosen."""
        return self.plan.levels if isinstance(self.plan.levels, Reconciled) else None

    @cached_property
    def rows(self) -> list[Places]:
        """The rows of the groups of each level, from the coarsest to the groups; an empty level is not in the table."""
        size, groups = self.table.num_rows, self.plan.groups
        if self._reconciled is None or not groups.levels:
            return [np.arange(size)]
        sizes = self._reconciled.structure.sizes
        order = order_of_rows(groups)
        if SUMMED_OVER not in self.table.column_names:  # without totals
            order = order[order >= len(order) - sizes[-1]] - (len(order) - sizes[-1])
            return [*(np.empty(0, np.intp) for _ in sizes[:-1]), np.argsort(order)]
        return np.split(np.argsort(order), np.cumsum(sizes)[:-1])

    @property
    def parents(self) -> list[Places] | None:
        """For each level but the first the place of each group in the level above; None where levels are not nested."""
        levels = self.plan.groups.levels
        if self._reconciled is None or not levels or not is_nested([level.by for level in levels]):
            return None
        return self._reconciled.structure.parents

    @property
    def names(self) -> list[str]:
        """The columns whose noise is the same whatever the numbers are: counts and sums."""
        return [
            name
            for aggregate in self.plan.aggregates
            if isinstance(aggregate, PlainNumbers)
            for name in aggregate.names
        ]

    def column(self, name: str | None) -> "PublishedColumn":
        """One of these columns; the only one, if there is no other."""
        if not self.names:
            raise ArgumentError("column must be a count or a sum, and the release has none", argument="column")
        if name is None and len(self.names) == 1:
            [name] = self.names
        if name is None:
            raise ArgumentError(f"column must be given: one of {', '.join(self.names)}", argument="column")
        for aggregate in self.plan.aggregates:
            if name in aggregate.names:
                if isinstance(aggregate, PlainNumbers):
                    return PublishedColumn(self, name, aggregate)
                raise ArgumentError(
                    f"column must be a count or a sum, whose noise is known exactly; {name!r} is a {aggregate.kind}",
                    argument="column",
                )
        raise ArgumentError(f"column: {unknown('count or sum', str(name), self.names)}", argument="column")

    def row_of(self, argument: str, group: Mapping[str, Any]) -> int:
        """The row of a group; keys that are left out are summed over, where the table has such totals."""
        by = self.plan.groups.by
        for key in group:
            if key not in by:
                raise ArgumentError(f"{argument}: {unknown('key', str(key), by)}", argument=argument)
        fits = np.ones(self.table.num_rows, dtype=bool)
        for key, value in group.items():
            fits &= np.array([own == value for own in self.table[key].to_pylist()], dtype=bool)
        over = ", ".join(key for key in by if key not in group)
        has_totals = SUMMED_OVER in self.table.column_names
        if has_totals:
            fits &= np.array(
                [(summed_over or "") == over for summed_over in self.table[SUMMED_OVER].to_pylist()], dtype=bool
            )
        rows = np.flatnonzero(fits)
        if len(rows) == 1 and (has_totals or not over):
            return int(rows[0])
        if over and not has_totals:
            raise ArgumentError(f"{argument} must have a value for each of {', '.join(by)}", argument=argument)
        raise ArgumentError(f"{argument}: the table has no group {dict(group)!r}", argument=argument)


@dataclass(frozen=True, eq=False)
class PublishedColumn:
    """A count or a sum in a published table."""

    of: PublishedTable
    name: str
    aggregate: PlainNumbers

    @property
    def step(self) -> float:
        """The size of a step."""
        return float(self.aggregate.grid.step)

    @property
    def is_positive(self) -> bool:
        """Whether the numbers without noise cannot be below 0."""
        return self.aggregate.grid.low >= 0

    @property
    def adds_up(self) -> bool:
        """Whether totals are the sums of their groups."""
        return self.aggregate.adds_up(self.of.plan.groups)

    @cached_property
    def floats(self) -> Floats:
        """The numbers of all rows."""
        return as_floats(self.of.table[self.name])

    @cached_property
    def steps(self) -> Integers:
        """The numbers of all rows in steps."""
        return np.rint(np.nan_to_num(self.floats) / self.step).astype(np.int64)

    @property
    def shares_noise(self) -> bool:
        """Whether groups have some noise in common, since their numbers are centred on one of the whole table."""
        return any(measure.for_table for measure in self.of.plan.noise.scheme.combined[self.aggregate.measure])

    @property
    def is_fraction(self) -> bool:
        """Whether the numbers without noise need not be whole: rows of heavy units count less."""
        scheme = self.of.plan.noise.scheme
        return any(measure in scheme.steps for measure in scheme.combined[self.aggregate.measure])

    @property
    def rounding(self) -> float:
        """The steps by which a published number may have been rounded."""
        parts = self.of.plan.noise.scheme.combined[self.aggregate.measure]
        is_whole = all(part.denominator == 1 for part in parts.values()) and not self.is_fraction
        if self.of.plan.shared is not None:
            return 2.0 ** max(len(self.of.plan.groups.by) - 1, 0)
        return 0.0 if is_whole and not self.of.plan.groups.levels else 1.0

    def noises(self, at: int) -> list[tuple[Places, NoiseSum]]:
        """The places of a level, by the noise that they have."""
        plan, measure, places = self.of.plan, self.aggregate.measure, np.arange(len(self.of.rows[at]))
        levels = plan.levels
        if not len(places):
            return []
        if not plan.is_reconciled or not isinstance(levels, Reconciled):
            return [(places, plan.noise.scheme.noises(plan.laws)[measure])]
        level = levels.structure.levels[at]
        distinct = None if self.adds_up or level is None else distinct_noise(level, plan.laws)
        if distinct is not None:
            return [(places, distinct)]
        return [(group.places, group.noises.numbers[measure]) for group in levels.noises[at]]

    def parts(self, at: int) -> list[tuple[Places, NoisyNumbers]]:
        """The noisy numbers of a level, by the noise that they have, with their places."""
        steps = self.steps[self.of.rows[at]]
        return [(places, NoisyNumbers(steps[places], noise)) for places, noise in self.noises(at)]

    @cached_property
    def classes(self) -> tuple[list[NoiseSum], Integers, list[tuple[int, int]]]:
        """The noises that rows have, and for each row which of them, its level and its place there."""
        result: list[NoiseSum] = []
        which = np.zeros(len(self.steps), np.int64)
        where = [(0, 0)] * len(self.steps)
        for at, rows in enumerate(self.of.rows):
            for i, row in enumerate(rows.tolist()):
                where[row] = (at, i)
            for places, noise in self.noises(at):
                which[rows[places]] = len(result)
                result.append(noise)
        return result, which, where

    def noise_of(self, row: int) -> NoiseSum:
        """The noise of the number in a row."""
        noises, which, _ = self.classes
        return noises[int(which[row])]

    def pair_noise(self, first: int, second: int) -> PairNoise:
        """The noise of the numbers in two rows of this table together."""
        levels = self.of.plan.levels
        in_common = self.shares_noise or (self.of.plan.is_reconciled and self.adds_up)
        if isinstance(levels, Reconciled) and in_common:
            _, _, where = self.classes
            return levels.joint_noise(self.aggregate.measure, where[first], where[second])
        return IndependentNoise(self.noise_of(first), self.noise_of(second))

    def difference_noise(self, other: "PublishedColumn") -> NoiseSum:
        """The noise of this column less another one, in the same row of a table without totals."""
        plan = self.of.plan
        mine, theirs = (plan.noise.scheme.combined[column.aggregate.measure] for column in (self, other))
        parts = {m: mine.get(m, Fraction(0)) - theirs.get(m, Fraction(0)) for m in (*mine, *theirs)}
        return sum_of([(part, plan.laws[measure], 1) for measure, part in parts.items() if part])


class Reason(Enum):
    """The reasons why numbers are left as they were published."""

    NEGATIVE = "may be negative"
    SHARED = "noise in common"
    DENSE = "nothing to gain"


@dataclass(frozen=True, eq=False)
class ColumnEstimates:
    """The estimates of a column, one for each row of the table, and the ends of their intervals.

    `gain` is the part of the root mean square error that is saved in the groups, as estimated; None where the numbers
    are left as they were published, for a reason.
    """

    values: Floats
    low: Floats
    high: Floats
    gain: float | None
    reason: Reason | None = None


def estimate_column(
    column: PublishedColumn, low: Floats, high: Floats, confidence: float, missing: float
) -> ColumnEstimates:
    """Estimate a column; `low` and `high` are the ends of its published intervals.

    Those of estimates, too, allow for the part of a number that may be `missing`.
    """
    if not column.is_positive or column.shares_noise:
        reason = Reason.SHARED if column.is_positive else Reason.NEGATIVE
        return ColumnEstimates(column.floats, low, high, None, reason)
    present = [at for at, rows in enumerate(column.of.rows) if len(rows)]
    levels = [_Level.of(column, at, confidence) for at in present]
    if not any(level.risk.helps for level in levels):
        return ColumnEstimates(column.floats, low, high, None, Reason.DENSE)
    best = levels[-1].risk
    estimated = _with_sums(column, present, [level.estimated for level in levels])
    values, ends = np.empty(len(low)), (np.empty(len(low)), np.empty(len(low)))
    for rows, level in zip([column.of.rows[at] for at in present], estimated, strict=True):
        values[rows] = level.values * column.step
        ends[0][rows], ends[1][rows] = level.low * column.step, level.high * column.step
    ends[1][:] += np.ceil(np.maximum(values, 0.0) * missing)
    return ColumnEstimates(values, *ends, best.gain if best.helps else None, None if best.helps else Reason.DENSE)


@dataclass(frozen=True, eq=False)
class _Level:
    """The estimates of a level, or its published numbers, and the risk that decides which."""

    estimated: Estimated
    risk: Risk

    @classmethod
    def of(cls, column: PublishedColumn, at: int, confidence: float) -> "_Level":
        """Estimate the numbers of a level together, if that helps."""
        parts = column.parts(at)
        size = len(column.of.rows[at])
        shrinkage = Shrinkage([numbers for _, numbers in parts])
        risk = shrinkage.risk
        if risk.helps:
            own = shrinkage.estimate(confidence)
        else:
            own = [
                _as_published(numbers.values, numbers.noise.var(), numbers.noise.half_width(confidence))
                for _, numbers in parts
            ]
        places = np.concatenate([places for places, _ in parts])
        return cls(_in_order(own, places, size), risk)


def _as_published(steps: NDArray[np.int64], variance: float, half: float) -> Estimated:
    values = steps.astype(np.float64)
    return Estimated(
        values, np.maximum(values - half, 0.0), np.maximum(values + half, 0.0), np.full(len(values), variance)
    )


def _in_order(parts: Sequence[Estimated], places: NDArray[np.intp], size: int) -> Estimated:
    """The estimates of all parts, by their places."""
    result = np.empty((4, size))
    result[:, places] = np.concatenate([[part.values, part.low, part.high, part.variances] for part in parts], axis=1)
    return Estimated(*result)


def _with_sums(column: PublishedColumn, present: Sequence[int], levels: Sequence[Estimated]) -> list[Estimated]:
    """The estimates of all levels, those of the groups of a total adding up to it."""
    parents = column.of.parents if column.adds_up else None
    result: list[Estimated] = []
    for at, level in zip(present, levels, strict=True):
        if parents is None or not result:
            above, totals = np.zeros(len(level.values), np.intp), column.steps[column.of.rows[at]].sum(keepdims=True)
        else:
            above, totals = parents[at - 1], result[-1].values
        values = keep_sums(level.values, level.variances, above, totals)
        low, high = np.minimum(level.low, values), np.maximum(level.high, values)
        result.append(Estimated(values, low, high, level.variances))
    return result


# Tables of one plan, one after the other in time


def additive(plan: Plan) -> list[PlainNumbers]:
    """The aggregates of a plan whose numbers of several periods add up: counts and sums, but for different values."""
    return [
        aggregate
        for aggregate in plan.aggregates
        if isinstance(aggregate, PlainNumbers) and not isinstance(aggregate.measure, Distinct)
    ]


#: What upper ends allow for beside noise, by what is counted: `LeftOut.allowances`.
Allowances = Mapping[str, tuple[float, int, int, float]]


def add_tables(
    tables: Sequence[pa.Table], plan: Plan, marks: Marks | None, allowances: Sequence[Allowances] = ()
) -> pa.Table:
    """The sums of the counts and sums in published tables of one plan, whose noises are independent.

    Each number of a table is that without noise, plus noise, and its interval is made of the half-width h of that. So
    the sum of the lower ends and of all h is the sum without noise, plus the noises, but for the rounding to whole
    steps; and the interval of the sum is that with the half-width of the sum of the noises. What upper ends allow for
    beside noise is replaced by what was cut off in all tables together; beside known totals it is added up.
    """
    keys = [*plan.groups.by, *([SUMMED_OVER] if SUMMED_OVER in tables[0].column_names else [])]
    if any(not table.select(keys).equals(tables[0].select(keys)) for table in tables):
        raise ValueError("the tables do not have the same groups")
    result = tables[0].select(keys) if keys else pa.table({"": [0]}).select([])
    published = PublishedTable(tables[0], plan)
    for aggregate in additive(plan):
        for name in aggregate.names:
            counted = aggregate.counted(plan.groups) or ""
            own = [] if plan.planning.known else [one[counted] for one in allowances if counted in one]
            for title, values in _added(tables, published.column(name), marks, own).items():
                result = result.append_column(title, values)
    return result


def _added(
    tables: Sequence[pa.Table],
    column: PublishedColumn,
    marks: Marks | None,
    allowances: Sequence[tuple[float, int, int, float]],
) -> dict[str, pa.Array]:
    """The sums of a column, the ends of their intervals and their marks."""
    grid, confidence, copies = column.aggregate.grid, column.of.plan.confidence, len(tables)
    parts = [[_in_steps(table[column.name + end], grid) for table in tables] for end in ("", "_low", "_high")]
    middle, low, high = (np.sum(steps, axis=0) for steps in parts)
    if allowances:
        high = high + _allowed(middle, column, missing_together(allowances))
        for steps, (part, *_) in zip(parts[0], allowances, strict=True):
            high = high - _allowed(steps, column, part, rather_less=True)
    singles, which, _ = column.classes
    noises = [sum_of([(c, law, n * copies) for c, law, n in many_terms(noise)]) for noise in singles]
    less = []
    for one, several in zip(singles, noises, strict=True):
        halves = one.half_width(confidence), several.half_width(confidence)
        if column.rounding and many_terms(one):
            # Ends are the next whole numbers: of fractions those outside, of others those inside.
            lost = 0.0 if column.is_fraction else 1.0
            less.append(math.floor(copies * (halves[0] - lost) - halves[1]))
        else:
            less.append(copies * whole_half_width(halves[0]) - whole_half_width(halves[1]))
    inward = np.array(less, dtype=np.int64)[which]
    ends = {"": middle, "_low": np.minimum(low + inward, middle), "_high": np.maximum(high - inward, middle)}
    result = {column.name + end: in_units(steps, grid) for end, steps in ends.items()}
    if marks is not None:
        stds = np.array([noise.std() for noise in noises])[which]
        result[column.name + MARK] = marks.marks(middle.astype(np.float64), stds)
    return result


def _allowed(steps: Integers, column: PublishedColumn, part: float, *, rather_less: bool = False) -> Integers:
    """The steps by which upper ends move to allow for a part that was cut off: on to the next whole number.

    Rather less, since products of floats may differ in their last digit, and floats be half a step off.
    """
    numbers, grid = np.maximum(steps * column.step, 0.0) * part, column.aggregate.grid
    if not rather_less:
        return np.asarray(np.ceil(np.ceil(numbers) / column.step).astype(np.int64))
    whole = np.floor(np.ceil(numbers * (1.0 - 1e-9)) / column.step).astype(np.int64)
    return np.asarray(whole - (grid.kind == "float"))


def _in_steps(column: pa.ChunkedArray, grid: ValueGrid) -> Integers:
    """The numbers of a published column in whole steps."""
    if pa.types.is_decimal(column.type):
        steps = np.array([int(Fraction(number) / grid.step) for number in column.to_pylist()], dtype=object)
    else:
        steps = np.rint(as_floats(column) / float(grid.step)) if grid.kind == "float" else column.to_numpy()
    if np.abs(steps.astype(np.float64)).max(initial=0.0) > LARGEST_SUM:
        raise ValueError("the numbers are too large to be added up")
    return np.asarray(steps.astype(np.int64))
