"""Whole numbers that add up: rounded together, and kept from falling below zero where that is asked for."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from osgt.support.arrays import Floats, Integers


def rounded_together(base: Integers, parts: Floats) -> Integers:
    """Whole numbers near base + parts, column by column: every run of rows has a sum within one of the true one.

    What is rounded is the running total; a number is the difference of two of these. So all numbers that are sums of
    neighbouring rows are within one of what they were, and each row itself as well.
    """
    whole = np.floor(parts)
    running = np.rint(np.cumsum(parts - whole, axis=0))
    return np.asarray(base + (whole + np.diff(running, axis=0, prepend=0.0)).astype(np.int64))


def with_sum_kept(numbers: Integers) -> Integers:
    """The nearest whole numbers that are not negative and have the same sum; 0 each if that is negative."""
    if not np.any(numbers < 0):
        return numbers
    return rounded_together(*nonnegative(numbers[:, None], np.zeros((len(numbers), 1)), []))[:, 0]


def nonnegative(base: Integers, parts: Floats, levels: Sequence[NDArray[np.intp]]) -> tuple[Integers, Floats]:
    """The nearest numbers that are not negative and keep the total, and those of nested levels.

    From the coarsest level down: totals below zero become zero, and what a total is more or less than the sum of its
    parts is taken from all of these alike, but from none more than it has. `levels` has the place of each group, from
    the coarsest level on.
    """
    exact = base.astype(np.float64) + parts
    columns = []
    for column in exact.T:
        totals = np.maximum(column.sum(keepdims=True), 0.0)
        above = np.zeros(len(column), np.intp)
        for places in [*levels, np.arange(len(column))]:
            sums = np.asarray(np.bincount(places, column), dtype=np.float64)
            parents = np.empty(len(sums), np.intp)
            parents[places] = above
            totals = _onto(sums, parents, totals)
            above = places
        columns.append(totals)
    kept = np.stack(columns, axis=1)
    whole = np.floor(kept)
    return whole.astype(np.int64), kept - whole


def _onto(values: Floats, parents: NDArray[np.intp], totals: Floats) -> Floats:
    """The nearest numbers ≥ 0 whose sums over equal parents are the totals: max(value - c, 0), c for each parent."""
    order = np.lexsort([-values, parents])
    sorted_values, sorted_parents = values[order], parents[order]
    starts = np.flatnonzero(np.diff(sorted_parents, prepend=-1))
    rank = np.arange(len(values)) - np.repeat(starts, np.diff(np.append(starts, len(values)))) + 1
    running = np.cumsum(sorted_values)
    before = np.where(starts > 0, running[starts - 1], 0.0)
    running = running - np.repeat(before, np.diff(np.append(starts, len(values))))
    levels = (running - totals[sorted_parents]) / rank
    holds = sorted_values > levels
    # The largest rank for which it holds gives c; the first always holds unless the total is zero.
    last = np.zeros(len(totals), np.intp) - 1
    np.maximum.at(last, sorted_parents[holds], np.flatnonzero(holds))
    cut = np.where(last >= 0, levels[np.maximum(last, 0)], np.inf)
    result = np.maximum(values - cut[parents], 0.0)
    result[~np.isfinite(result)] = 0.0
    return np.asarray(result)
