"""What is measured for quantiles: how many values lie in each of many bins, and in ranges of several bins.

The bins are made from the bounds alone. All bins of a group move together by no more than one number would
(docs/dominance.md), and so do the ranges of one level. Levels of fewer, wider ranges make the number of values below an
edge a sum of fewer noises, but each level takes a part of the budget: how many are best depends on the noise.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import ibis
import ibis.expr.types as ir
import numpy as np

from osgt.noise.mills import Floats
from osgt.tables.measures import Integers, Measure, Place
from osgt.tables.tree import Tree
from osgt.tables.values import ValueGrid, one_if, present

#: How many ranges make one of the level above.
_FAN_OUTS = (16, 8, 4, 2)

#: Edges that stand for those in the middle half, and rounds by which the best shares of the budget are found.
_EDGES, _ROUNDS = 128, 12


@dataclass(frozen=True)
class Leaves(Measure):
    """The number of values in each of at most `most` equally wide bins, which hold all steps between the bounds."""

    column: str
    grid: ValueGrid
    most: int

    @property
    def edges(self) -> Integers:
        """The first step of each bin, and the end of the last one, which is the upper bound itself for floats."""
        steps = self.grid.width + (self.grid.kind != "float")
        size = -(-steps // self.most)
        starts = self.grid.low + size * np.arange(-(-steps // size), dtype=np.int64)
        return np.append(starts, self.grid.low + steps)

    @property
    def numbers(self) -> int:
        return len(self.edges) - 1

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    @property
    def words(self) -> str:
        return f"values of {self.column} in each of {self.numbers:,} bins"

    def derived(self, rows: ir.Table) -> ir.Value:
        column = rows[self.column]
        return present(column).ifelse(self.grid.steps(column), ibis.null("int64"))

    def contributions(self, rows: Mapping[Any, ir.Value], place: Place) -> list[Any]:
        steps, lasts = rows[self], [*(self.edges[1:-1] - 1), self.grid.high]
        # Nothing is between two steps for a missing value, and every step between the bounds is in one bin.
        return [
            one_if(steps.between(int(first), int(last))) for first, last in zip(self.edges[:-1], lasts, strict=True)
        ]


@dataclass(frozen=True)
class Ranges(Measure):
    """The number of values in ranges of `width` neighbouring bins."""

    leaves: Leaves
    width: int

    @property
    def numbers(self) -> int:
        return -(-self.leaves.numbers // self.width)

    @property
    def columns(self) -> tuple[str, ...]:
        return self.leaves.columns

    @property
    def words(self) -> str:
        return f"values of {self.leaves.column} in each of {self.numbers:,} ranges"

    @property
    def summed(self) -> tuple[Measure, ...]:
        return (self.leaves,)

    def exact(self, sums: Mapping[Measure, Integers]) -> Integers:
        starts = np.arange(self.numbers) * self.width
        return np.asarray(np.add.reduceat(sums[self.leaves], starts, axis=1))


@dataclass(frozen=True)
class Layout:
    """The levels that are measured for the quantiles of a column, each of ranges of `fan_out` ranges of the next.

    `total` is the number of all values, where that is measured anyway.
    """

    leaves: Leaves
    fan_out: int
    total: Measure | None

    @cached_property
    def levels(self) -> tuple[Measure, ...]:
        """From the widest ranges to the bins."""
        widths = [1]
        while -(-self.leaves.numbers // widths[-1]) > self.fan_out:
            widths.append(widths[-1] * self.fan_out)
        return tuple(self.leaves if width == 1 else Ranges(self.leaves, width) for width in reversed(widths))

    def tree(self, total: float | None, variances: list[float]) -> Tree:
        """The tree with these variances of noise on the total, if it is measured, and on each level."""
        return _tree(self.leaves.numbers, self.fan_out, total, variances)

    @property
    def coefficients(self) -> tuple[list[Fraction], Fraction]:
        """How the noise of each level, and of the total, enters into the rank of an edge in the middle half.

        The rank is the number of values below the edge less half of all, by least squares. The noises of a level come
        to as much as one of them times its coefficient: the root of the mean sum of squared weights.
        """
        levels, total = _coefficients(self.leaves.numbers, self.fan_out, self.total is not None)
        return [Fraction(c).limit_denominator(10_000) for c in levels], Fraction(total).limit_denominator(10_000)


def layouts(leaves: Leaves, total: Measure | None) -> list[Layout]:
    """All layouts that differ; the first has one level."""
    flat = Layout(leaves, leaves.numbers, total)
    return [flat, *(Layout(leaves, fan_out, total) for fan_out in _FAN_OUTS if fan_out < leaves.numbers)]


def least_rank_error(leaves: Leaves) -> float:
    """The standard deviation of a rank with Gaussian noise, in units of one count with the same budget."""
    return min(float(sum(layout.coefficients[0])) for layout in layouts(leaves, None))


def below(bins: int, edges: Integers, share: float) -> Floats:
    """For each edge the weights of the bins in the number of values below it, less a share of all of them."""
    return np.asarray((np.arange(bins)[:, None] < edges) - share)


def _tree(bins: int, fan_out: int, total: float | None, variances: list[float]) -> Tree:
    sizes = [-(-bins // fan_out**i) for i in range(len(variances))]
    parents = [np.arange(size) // fan_out for size in sizes]
    return Tree(parents[::-1], [total, *variances])


@lru_cache(maxsize=256)
def _coefficients(bins: int, fan_out: int, with_total: bool) -> tuple[list[float], float]:
    """Those of the levels and of the total, with the shares of a budget that are best for Gaussian noise."""
    golden = np.mod(np.arange(_EDGES) * 0.6180339887498949, 1.0)
    edges = np.unique(np.clip(np.rint(bins * (0.25 + 0.5 * golden)), 1, max(bins - 1, 1))).astype(np.int64)
    asked = below(bins, edges, 0.5)
    levels = 1
    while -(-bins // fan_out ** (levels - 1)) > fan_out:
        levels += 1
    variances = np.ones(levels)
    for _ in range(_ROUNDS):
        # With Gaussian noise of variance v on a level that counts for c², Σ c²·v is least under a limit on Σ 1/v where
        # v is in proportion to 1/c. The total is measured as exactly as a count that is alone.
        tree = _tree(bins, fan_out, 1.0 if with_total else None, variances.tolist())
        weights = tree.weights([*([None] * levels), asked])
        squares = [float(np.mean(np.sum(level**2, axis=0))) for level in weights]
        roots = np.sqrt(np.maximum(squares[1:], 1e-12))
        variances = np.sqrt(variances * np.sum(roots) / roots)
    return roots.tolist(), math.sqrt(squares[0]) if with_total else 0.0
