"""Whole numbers rounded together, so that they still add up, and numbers that are not negative and keep their sums."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osgt.support.numeric import Floats, Integers


def rounded_together(base: Integers, parts: Floats) -> Integers:
    """Whole numbers near base + parts, column by column: every run of rows has a sum within one of the true one.

    What is rounded is the running total; a number is the difference of two of these. So all numbers that are sums of
    neighbouring rows are within one of what they were, and each row itself as well.
    """
    whole = np.floor(parts)
    running = np.rint(np.cumsum(parts - whole, axis=0))
    return np.asarray(base + (whole + np.diff(running, axis=0, prepend=0.0)).astype(np.int64))


def rounded_margins(
    shape: Sequence[int],
    margins: Sequence[tuple[int, ...]],
    base: Sequence[Integers],
    parts: Sequence[Floats],
) -> list[Integers]:
    """Whole numbers near base + parts for margins of a cube, which add up to the same wherever two have keys in common.

    What is rounded are running totals along all keys of a margin at once. At the last value of a key they are those
    without the key, so that each is rounded once, for all margins that have it. A number is a difference of 2ᵏ of these
    if its margin has k keys: it is at most 2ᵏ⁻¹ away from what it was, and 0.29·2^(k/2) as the root mean square.

    Parameters
    ----------
    shape
        How many values each key of the cube has.
    margins
        The keys of each margin by their places, in order.
    base, parts
        For each margin its numbers by columns, the last key fastest; they add up but for the rounding of floats.
    """
    running: dict[tuple[int, ...], Integers] = {}
    needed = {some for m in margins for n in range(len(m) + 1) for some in itertools.combinations(m, n)}
    for axes in sorted(needed, key=len):
        first = next(i for i, margin in enumerate(margins) if set(axes) <= set(margin))
        whole, rest = (_running(numbers[first], shape, margins[first], axes) for numbers in (base, parts))
        total = whole + np.rint(rest).astype(np.int64)
        for place, axis in enumerate(axes):
            total[(slice(None),) * place + (-1,)] = running[tuple(other for other in axes if other != axis)]
        running[axes] = total
    return [_differences(running[margin]) for margin in margins]


def _running(numbers: NDArray[Any], shape: Sequence[int], margin: Sequence[int], axes: Sequence[int]) -> NDArray[Any]:
    """The running totals of a margin along some keys. Sums of 64 bits may wrap round: so do their differences."""
    array = numbers.reshape(*(shape[axis] for axis in margin), numbers.shape[1])
    array = array.sum(axis=tuple(place for place, axis in enumerate(margin) if axis not in axes))
    for place in range(len(axes)):
        array = np.asarray(array.cumsum(axis=place))
    return np.asarray(array)


def _differences(running: Integers) -> Integers:
    """The numbers of which these are the running totals along all keys."""
    for place in range(running.ndim - 1):
        running = np.diff(running, axis=place, prepend=0)
    return running.reshape(-1, running.shape[-1])


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
