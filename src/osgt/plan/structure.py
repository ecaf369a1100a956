"""The levels of a table: how they hang together, and which of them are worth measuring."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from osgt.data.unit import Neighbours
from osgt.estimation.totals import Cube, Tree
from osgt.query.groups import Groups, Level, Total, codes, is_product
from osgt.query.measures import CentredOnAll, Measure
from osgt.support.numeric import Floats


class LeastSquares(Protocol):
    """Estimates that add up, from levels that are measured with noise: from the coarsest level to the groups."""

    @property
    def variances_of_estimates(self) -> list[Floats]:
        """The variance of each estimate, by level."""

    def estimates(self, values: Sequence[Floats | None]) -> list[Floats]:
        """The estimates, by level: an array of groups and columns for each."""

    def weights(self, asked: Sequence[Floats | None]) -> list[Floats]:
        """Compute the weights of the measured numbers in Σ asked·estimate, by level."""


@dataclass(frozen=True, eq=False)
class Structure:
    """The levels of a table with public keys, from the coarsest to the groups themselves (None)."""

    groups: Groups

    @property
    def levels(self) -> list[Level | None]:
        """The levels, in the order in which numbers are given and come back."""
        return [*reversed(self.groups.levels), None]

    @cached_property
    def places(self) -> list[NDArray[np.intp]]:
        """The place of every group in each level."""
        assert self.groups.public is not None
        every = np.arange(self.groups.public.num_rows)
        return [every if level is None or level.places is None else level.places for level in self.levels]

    @cached_property
    def sizes(self) -> list[int]:
        """The number of groups in each level."""
        return [int(places.max()) + 1 for places in self.places]

    @cached_property
    def cells(self) -> list[NDArray[np.intp]]:
        """The number of finest groups in each group of every level."""
        return [np.bincount(places) for places in self.places]

    @cached_property
    def in_order(self) -> NDArray[np.intp]:
        """The groups in an order in which those of each nested level, or of the first keys, come together."""
        public = self.groups.public
        assert public is not None
        keys = [codes(public[name]) for name in self.groups.by]
        if self._product is None:
            return np.lexsort([np.arange(public.num_rows), *reversed(self.places[:-1])])
        return np.lexsort(keys[::-1])

    def least_squares(self, variances: Mapping[Level | None, float]) -> LeastSquares:
        """The estimates for these variances of the noise; levels without one are not measured."""
        noise = [variances.get(level) for level in self.levels]
        if self._product is not None:
            shape, positions = self._product
            margins = [
                tuple(range(len(shape))) if level is None else tuple(self.groups.by.index(name) for name in level.by)
                for level in self.levels
            ]
            return _Arranged(Cube(shape, margins, noise), positions)
        parents = []
        for above, below, size in zip(self.places, self.places[1:], self.sizes[1:], strict=False):
            parent = np.empty(size, np.intp)
            parent[below] = above
            parents.append(parent)
        first = np.full(self.sizes[0], np.inf if noise[0] is None else noise[0])
        return Tree(parents, [first, *noise[1:]])

    @cached_property
    def _product(self) -> tuple[tuple[int, ...], list[NDArray[np.intp]]] | None:
        """The number of values of each key and the positions of groups among them, if keys are all combinations."""
        public = self.groups.public
        assert public is not None
        if not is_product(public):
            return None
        numbers = {name: codes(public[name]) for name in self.groups.by}
        shape = {name: int(column.max()) + 1 for name, column in numbers.items()}
        positions = []
        for level, places, size in zip(self.levels, self.places, self.sizes, strict=True):
            at = np.zeros(public.num_rows, np.intp)
            for name in self.groups.by if level is None else level.by:
                at = at * shape[name] + numbers[name]
            position = np.empty(size, np.intp)
            position[places] = at
            positions.append(position)
        return tuple(shape.values()), positions


@dataclass(frozen=True, eq=False)
class _Arranged:
    """A cube whose groups are in another order."""

    cube: Cube
    positions: list[NDArray[np.intp]]

    @property
    def variances_of_estimates(self) -> list[Floats]:
        return self.cube.variances_of_estimates

    def estimates(self, values: Sequence[Floats | None]) -> list[Floats]:
        return self._back(self.cube.estimates(self._there(values)))

    def weights(self, asked: Sequence[Floats | None]) -> list[Floats]:
        return self._back(self.cube.weights(self._there(asked)))

    def _there(self, values: Sequence[Floats | None]) -> list[Floats | None]:
        result: list[Floats | None] = []
        for given, at in zip(values, self.positions, strict=True):
            if given is None:
                result.append(None)
                continue
            arranged = np.empty_like(np.asarray(given, dtype=np.float64))
            arranged[at] = given
            result.append(arranged)
        return result

    def _back(self, found: Sequence[Floats]) -> list[Floats]:
        return [numbers[at] for numbers, at in zip(found, self.positions, strict=True)]


def adds_up(measure: Measure) -> bool:
    """Whether totals of a measured number can be measured: it is one for each group, and only a unit's groups move."""
    return not (measure.for_table or isinstance(measure, CentredOnAll))


def measured_levels(
    groups: Groups, neighbours: Neighbours, measure: Measure, *, measures: int, others: float
) -> tuple[Level, ...]:
    """The levels whose totals are worth a part of the budget; the others are better added up from finer ones.

    All levels are measured at first, and one after the other is left away as long as that makes the sum of
    weight·variance/shift² over the levels smaller: with noise shared out evenly, and accounted for like Gaussian noise.

    Parameters
    ----------
    measure
        One of the numbers that are measured for each group and add up.
    measures
        How many such numbers there are.
    others
        What the rest of the release moves, as Σ √coordinates.
    """
    if groups.public is None:
        return groups.levels
    structure = Structure(groups)
    moves = {
        level: groups.sensitivity(measure if level is None else Total(measure, level), neighbours)
        for level in structure.levels
    }
    weights = {level: 1.0 if level is None else level.weight for level in structure.levels}
    spread = {level: math.fsum(n * (shift / pairs[0][0]) ** 2 for shift, n in pairs) for level, pairs in moves.items()}
    shifts = {level: float(pairs[0][0]) for level, pairs in moves.items()}

    def error(chosen: frozenset[Level]) -> float:
        measured: list[Level | None] = [None, *chosen]
        needed = others + measures * math.fsum(math.sqrt(spread[level] * weights[level]) for level in measured)
        noise = {level: shifts[level] ** 2 * math.sqrt(spread[level] / weights[level]) for level in measured}
        result = structure.least_squares(noise).variances_of_estimates
        return needed * math.fsum(
            weights[level] * float(np.mean(variances)) / shifts[level] ** 2
            for level, variances in zip(structure.levels, result, strict=True)
        )

    chosen = frozenset(groups.levels)
    least = error(chosen)
    while chosen:
        fewer = {chosen - {level}: error(chosen - {level}) for level in chosen}
        best = min(fewer, key=lambda each: fewer[each])
        if fewer[best] >= least:
            break
        chosen, least = best, fewer[best]
    return tuple(level for level in groups.levels if level in chosen)
