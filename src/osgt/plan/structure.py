"""The levels of tables: how they hang together, and which of them are worth measuring."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from osgt.data.unit import Neighbours
from osgt.estimation.rounding import rounded_margins
from osgt.estimation.totals import Cube, Tree
from osgt.query.groups import Groups, Level, Total, codes, is_product
from osgt.query.measures import CentredOnAll, Distinct, Measure
from osgt.query.quantiles import QuantileDraw
from osgt.support.numeric import Floats, Integers


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
    """The levels of a table with public keys or without keys, from the coarsest to the groups themselves (None)."""

    groups: Groups

    @property
    def levels(self) -> list[Level | None]:
        """The levels, in the order in which numbers are given and come back."""
        return [*reversed(self.groups.levels), None]

    @property
    def _size(self) -> int:
        assert self.groups.public_group_count is not None
        return self.groups.public_group_count

    @cached_property
    def places(self) -> list[NDArray[np.intp]]:
        """The place of every group in each level."""
        every = np.arange(self._size)
        return [every if level is None or level.places is None else level.places for level in self.levels]

    @cached_property
    def sizes(self) -> list[int]:
        """The number of groups in each level."""
        return [int(places.max()) + 1 for places in self.places]

    @cached_property
    def cells(self) -> list[NDArray[np.intp]]:
        """The number of finest groups in each group of every level."""
        return [np.bincount(places) for places in self.places]

    def in_order(self, first: Sequence[Level] = ()) -> NDArray[np.intp]:
        """The groups in an order in which those of each nested level, or of the first keys, come together.

        Those of nested levels that are given, the finest first, come together before.
        """
        keys = [codes(self.keys(None)[name]) for name in self.groups.by]
        if not keys:
            return np.arange(self._size)
        if not self.is_product:
            return np.lexsort([np.arange(self._size), *reversed(self.places[:-1])])
        return np.lexsort([*keys[::-1], *(level.places for level in first if level.places is not None)])

    @cached_property
    def is_product(self) -> bool:
        """Whether the groups are all combinations of the values of their keys."""
        return self.groups.public is None or is_product(self.groups.public)

    def keys(self, level: Level | None) -> pa.Table:
        """The keys of the groups of a level."""
        keys = self.groups.public if level is None else level.keys
        assert keys is not None
        return keys

    def by(self, level: Level | None) -> tuple[str, ...]:
        """The names of the keys of a level."""
        return self.groups.by if level is None else level.by

    @cached_property
    def parents(self) -> list[NDArray[np.intp]]:
        """For each level but the first the place of each group in the level above, where levels are nested."""
        return [parents_of(below, above) for above, below in pairwise(self.places)]


@dataclass(frozen=True, eq=False)
class Margins:
    """The levels of one table, or of several whose groups are margins of one another: all of them in a row."""

    structures: tuple[Structure, ...]

    @cached_property
    def entries(self) -> list[tuple[int, Level | None]]:
        """The place of the table that each level is of, and the level."""
        return [(table, level) for table, structure in enumerate(self.structures) for level in structure.levels]

    @cached_property
    def _values(self) -> dict[str, pa.Array]:
        """The values of each key, in the order in which the first table that has it gives them."""
        result: dict[str, pa.Array] = {}
        for structure in self.structures:
            for name in structure.groups.by:
                if name not in result:
                    result[name] = structure.keys(None)[name].unique()
        return result

    @cached_property
    def _shape(self) -> tuple[int, ...]:
        return tuple(len(values) for values in self._values.values())

    @cached_property
    def _axes(self) -> list[tuple[int, ...]]:
        """The keys that each level has, by their places in order."""
        names = [*self._values]
        return [tuple(sorted(names.index(name) for name in self._by(i))) for i in range(len(self.entries))]

    def _by(self, entry: int) -> tuple[str, ...]:
        table, level = self.entries[entry]
        return self.structures[table].by(level)

    @cached_property
    def _positions(self) -> list[NDArray[np.intp]]:
        """The position of each group of a level among all combinations of its keys."""
        names, result = [*self._values], []
        for axes, (table, level) in zip(self._axes, self.entries, strict=True):
            structure = self.structures[table]
            at = np.zeros(structure.sizes[structure.levels.index(level)], np.intp)
            for axis in axes:
                column = structure.keys(level)[names[axis]]
                at = at * self._shape[axis] + _places_among(column, self._values[names[axis]])
            result.append(at)
        return result

    def least_squares(self, variances: Mapping[int, float | None]) -> LeastSquares:
        """The estimates for some levels, by their places here, given the variances of those that are measured."""
        noise = [*variances.values()]
        if self.is_cube:
            cube = Cube(self._shape, [self._axes[entry] for entry in variances], noise)
            return _Arranged(cube, [self._positions[entry] for entry in variances])
        [structure] = self.structures
        first = np.full(structure.sizes[0], np.inf if noise[0] is None else noise[0])
        return Tree(structure.parents, [first, *noise[1:]])

    def shares(self, variances: Mapping[int, float], weights: Sequence[float]) -> list[float]:
        """The derivatives of the weighted sum of the variances of estimates, by those of the measured levels."""
        return Cube(self._shape, [self._axes[entry] for entry in variances], [*variances.values()]).shares(weights)

    @cached_property
    def is_cube(self) -> bool:
        """Whether all groups are combinations of the values of their keys."""
        return all(structure.is_product for structure in self.structures)

    def rounded(self, numbers: Mapping[int, tuple[Integers, Floats]]) -> dict[int, Integers]:
        """Whole numbers for the groups of tables, near the sum of two: the margins that tables share are the same."""
        entries = [self.entries.index((table, None)) for table in numbers]
        inverse = [np.argsort(self._positions[entry]) for entry in entries]
        base = [pair[0][back] for pair, back in zip(numbers.values(), inverse, strict=True)]
        parts = [pair[1][back] for pair, back in zip(numbers.values(), inverse, strict=True)]
        result = rounded_margins(self._shape, [self._axes[entry] for entry in entries], base, parts)
        arranged = zip(numbers, entries, result, strict=True)
        return {table: whole[self._positions[entry]] for table, entry, whole in arranged}


def parents_of(places: NDArray[np.intp], coarser: NDArray[np.intp]) -> NDArray[np.intp]:
    """For each group of a level its place in a coarser one, out of the places of all public groups in both."""
    result = np.zeros(int(places.max()) + 1, np.intp)
    result[places] = coarser
    return result


def _places_among(column: pa.ChunkedArray, values: pa.Array) -> NDArray[np.intp]:
    """The place of each value of a key among those that there are."""
    import pyarrow.compute as pc  # noqa: PLC0415 - takes a while

    return np.asarray(pc.index_in(column, value_set=values).to_numpy(), dtype=np.intp)


def agree(one: Groups, other: Groups) -> bool:
    """Whether the groups of two tables of the same rows are margins of one set of groups, with the same limits.

    What a row is worth may depend on the groups themselves where these are limited, or the length of what is in them.
    """
    if (one.each_row, one.max_rows) != (other.each_row, other.max_rows):
        return False
    if not all(Structure(groups).is_product and groups.shows_all for groups in (one, other)):
        return False
    if any(groups.max_rows_per_group or groups.max_length for groups in (one, other)):
        return False
    shared = [name for name in one.by if name in other.by]
    if not shared:
        return True
    keys = Structure(one).keys(None), Structure(other).keys(None)
    pairs = [(keys[0][name].unique(), keys[1][name].unique()) for name in shared]
    return all(len(a) == len(b) and not np.any(_missing(a, b)) for a, b in pairs)


def _missing(values: pa.Array, among: pa.Array) -> NDArray[np.bool_]:
    import pyarrow.compute as pc  # noqa: PLC0415 - takes a while

    return np.asarray(pc.invert(pc.is_in(values, value_set=among)).to_numpy(zero_copy_only=False))


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

    def _back(self, results: Sequence[Floats]) -> list[Floats]:
        return [numbers[at] for numbers, at in zip(results, self.positions, strict=True)]


def adds_up(measure: Measure) -> bool:
    """Whether totals of a measured number can be measured: it is one for each group, and only a unit's groups move."""
    return not (measure.for_table or isinstance(measure, CentredOnAll | Distinct | QuantileDraw))


def measured_levels(
    groups: Groups,
    neighbours: Neighbours,
    measure: Measure,
    *,
    measures: int,
    others: float,
    known: Collection[Level] = (),
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
    known
        Levels whose totals are public: as if they were measured without noise, at no budget.
    """
    if groups.public is None:
        return groups.levels
    structure = Structure(groups)
    margins = Margins((structure,))
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
        noise |= dict.fromkeys(known, 0.0)
        result = margins.least_squares({i: noise.get(level) for i, level in enumerate(structure.levels)})
        return needed * math.fsum(
            weights[level] * float(np.mean(variances)) / shifts[level] ** 2
            for level, variances in zip(structure.levels, result.variances_of_estimates, strict=True)
        )

    chosen = frozenset(groups.levels) - frozenset(known)
    least = error(chosen)
    while chosen:
        fewer = {chosen - {level}: error(chosen - {level}) for level in chosen}
        best = min(fewer, key=lambda each: fewer[each])
        if fewer[best] >= least:
            break
        chosen, least = best, fewer[best]
    return tuple(level for level in groups.levels if level in chosen)
