"""Best estimates of published counts and sums, from the published numbers alone: they cost no budget.

Numbers of a level are estimated together, if an unbiased estimate of the error says that this helps (see
`estimation.empirical_bayes`). Sums stay: from the coarsest level down, the estimates of the groups of a total add up to
the estimate of that; where levels are not nested, those of each level add up to the sum of its published numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from osgt.estimation.empirical_bayes import Estimated, Risk, Shrinkage, keep_sums
from osgt.release.numbers import PublishedColumn
from osgt.support.numeric import Floats


class Reason(Enum):
    """The reasons why numbers are left as they were published."""

    NEGATIVE = "may be negative"
    SHARED = "noise in common"
    DENSE = "nothing to gain"


@dataclass(frozen=True, eq=False)
class Estimates:
    """The estimates of a column, one for each row of the table, and the ends of their intervals.

    `gain` is the part of the root mean square error that is saved in the groups, as estimated; None where the numbers
    are left as they were published, for a reason.
    """

    values: Floats
    low: Floats
    high: Floats
    gain: float | None
    reason: Reason | None = None


def estimate_column(column: PublishedColumn, low: Floats, high: Floats, confidence: float) -> Estimates:
    """Estimate a column; `low` and `high` are the ends of its published intervals."""
    if not column.is_positive or column.shares_noise:
        reason = Reason.SHARED if column.is_positive else Reason.NEGATIVE
        return Estimates(column.floats, low, high, None, reason)
    present = [at for at, rows in enumerate(column.of.rows) if len(rows)]
    levels = [_Level.of(column, at, confidence) for at in present]
    if not any(level.risk.helps for level in levels):
        return Estimates(column.floats, low, high, None, Reason.DENSE)
    best = levels[-1].risk
    estimated = _with_sums(column, present, [level.estimated for level in levels])
    values, ends = np.empty(len(low)), (np.empty(len(low)), np.empty(len(low)))
    for rows, level in zip([column.of.rows[at] for at in present], estimated, strict=True):
        values[rows] = level.values * column.step
        ends[0][rows], ends[1][rows] = level.low * column.step, level.high * column.step
    return Estimates(values, *ends, best.gain if best.helps else None, None if best.helps else Reason.DENSE)


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
    result[:, places] = np.concatenate([[each.values, each.low, each.high, each.variances] for each in parts], axis=1)
    return Estimated(*result)


def _with_sums(column: PublishedColumn, present: Sequence[int], levels: Sequence[Estimated]) -> list[Estimated]:
    """The estimates of all levels, those of the groups of a total adding up to it."""
    parents = column.of.parents if column.adds_up else None
    result: list[Estimated] = []
    for at, level in zip(present, levels, strict=True):
        if parents is None or not result:
            above, totals = np.zeros(len(level.values), np.intp), column.steps[column.of.rows[at]].sum(keepdims=True)
        else:
            above, totals = parents[at], result[-1].values
        values = keep_sums(level.values, level.variances, above, totals)
        low, high = np.minimum(level.low, values), np.maximum(level.high, values)
        result.append(Estimated(values, low, high, level.variances))
    return result
