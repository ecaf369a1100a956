"""Least squares over the margins of a cube: numbers by every combination of some keys, and sums over some of these.

Along each key a number is split into the mean over its values and what differs from that. Any margin that has a key
tells about its differences, and those margins tell about them independently of all other parts: each part is a mean of
what the margins say, weighted by how exactly they say it. Putting the parts together again gives the estimates with the
least variance, in a time that grows like the number of cells times that of keys.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from osgt.support.arrays import Floats

#: Keys by their place.
Axes = frozenset[int]


@dataclass(frozen=True, eq=False)
class Cube:
    """Margins of a cube, and how exactly each is measured.

    Parameters
    ----------
    shape
        How many values each key has.
    margins
        The keys that each margin has, by their places; the cells themselves, which have all, among them.
    variances
        The variance of the noise on each number of a margin; None for one that is not measured. Cells are measured.

    Examples
    --------
    >>> cube = Cube((3,), [(), (0,)], [1.0, 1.0])
    >>> [numbers.ravel().tolist() for numbers in cube.estimates([[12.0], [3.0, 4.0, 1.0]])]
    [[11.0], [4.0, 5.0, 2.0]]
    """

    shape: tuple[int, ...]
    margins: Sequence[tuple[int, ...]]
    variances: Sequence[float | None]

    def __post_init__(self) -> None:
        if self._cells not in self._axes or self.variances[self._axes.index(self._cells)] is None:
            raise ValueError("the cells of a cube must be measured")
        if not all(variance is None or variance > 0 for variance in self.variances):
            raise ValueError("variances must be above 0")

    @cached_property
    def _axes(self) -> list[Axes]:
        return [frozenset(margin) for margin in self.margins]

    @property
    def _cells(self) -> Axes:
        return frozenset(range(len(self.shape)))

    def _number(self, axes: Axes) -> int:
        """Count the combinations of values that these keys have."""
        return math.prod(self.shape[axis] for axis in axes)

    @cached_property
    def sizes(self) -> list[int]:
        """The length of each margin: how many numbers it has."""
        return [self._number(axes) for axes in self._axes]

    @cached_property
    def _variance(self) -> dict[Axes, float]:
        """The variance of each part, before the mean over the other keys is taken away: 1/Σ what margins tell."""
        told: dict[Axes, float] = {}
        for part in _subsets(self._cells):
            told[part] = 1.0 / math.fsum(1.0 / (v * self._number(axes - part)) for axes, v in self._measured(part))
        return told

    def _measured(self, part: Axes) -> Iterator[tuple[Axes, float]]:
        """The measured margins that tell about a part."""
        for axes, variance in zip(self._axes, self.variances, strict=True):
            if variance is not None and part <= axes:
                yield axes, variance

    @cached_property
    def variances_of_estimates(self) -> list[Floats]:
        """The variance of each estimate, by margin."""
        result = []
        for axes, size in zip(self._axes, self.sizes, strict=True):
            total = 0.0
            for part in _subsets(axes):
                differing = math.prod(1.0 - 1.0 / self.shape[axis] for axis in part)
                total += self._variance[part] * differing / self._number(axes - part) ** 2
            result.append(np.full(size, total))
        return result

    def estimates(self, values: Sequence[Floats | None]) -> list[Floats]:
        """The estimates of least variance, margin by margin: arrays of numbers by columns; None is for no value."""
        columns = next(np.asarray(given).reshape(len(given), -1).shape[1] for given in values if given is not None)
        parts = np.zeros((*(n + 1 for n in self.shape), columns))
        for given, axes, variance in zip(values, self._axes, self.variances, strict=True):
            if given is None or variance is None:
                continue
            split = self._split(np.asarray(given, dtype=np.float64), axes, columns)
            for part in _subsets(axes):
                weight = self._variance[part] / (variance * self._number(axes - part))
                parts[self._place(part)] += weight * split[self._place(part)]
        return [self._joined(parts, axes) for axes in self._axes]

    def weights(self, asked: Sequence[Floats | None]) -> list[Floats]:
        """Compute the coefficients of the measured numbers in Σ asked·estimate: numbers by columns, by margin.

        The covariances of the estimates are C, that of the measured numbers V, and the estimates C·V⁻¹·measured. So
        the coefficients are V⁻¹·C·asked, and C·asked are the estimates from V·asked. What is asked of a margin is
        asked of all its cells.
        """
        columns = next(np.asarray(given).reshape(len(given), -1).shape[1] for given in asked if given is not None)
        of_cells = np.zeros((*self.shape, columns))
        for given, axes in zip(asked, self._axes, strict=True):
            if given is not None:
                sizes = [n if axis in axes else 1 for axis, n in enumerate(self.shape)]
                of_cells += np.asarray(given, dtype=np.float64).reshape(*sizes, columns)
        cells = self._axes.index(self._cells)
        noise = self.variances[cells]
        assert noise is not None
        values: list[Floats | None] = [None] * len(self._axes)
        values[cells] = noise * of_cells.reshape(-1, columns)
        result = self.estimates(values)
        return [
            np.zeros_like(each) if variance is None else each / variance
            for each, variance in zip(result, self.variances, strict=True)
        ]

    def _split(self, values: Floats, axes: Axes, columns: int) -> Floats:
        """Along each key the sum first, then what differs from the mean; keys that are summed over have one place."""
        array = values.reshape(*(n if axis in axes else 1 for axis, n in enumerate(self.shape)), columns)
        for axis in axes:
            total = array.sum(axis=axis, keepdims=True)
            array = np.concatenate([total, array - total / self.shape[axis]], axis=axis)
        return array

    def _joined(self, parts: Floats, axes: Axes) -> Floats:
        """The numbers of a margin from their parts."""
        array = parts[tuple(slice(None) if axis in axes else slice(0, 1) for axis in range(len(self.shape)))]
        for axis in axes:
            total, others = np.split(array, [1], axis=axis)
            array = others + total / self.shape[axis]
        return array.reshape(-1, parts.shape[-1])

    def _place(self, part: Axes) -> tuple[slice, ...]:
        """Locate the numbers of a part."""
        return tuple(slice(1, None) if axis in part else slice(0, 1) for axis in range(len(self.shape)))


def _subsets(axes: Axes) -> Iterator[Axes]:
    for n in range(len(axes) + 1):
        yield from map(frozenset, itertools.combinations(sorted(axes), n))
