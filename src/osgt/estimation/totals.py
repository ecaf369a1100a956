"""Totals that add up: least squares over a tree or over the margins of a cube.

Some or all numbers are measured, each with independent noise. In a tree every node is the sum of its children. Two
passes give the estimates with the least variance (Hay, Rastogi, Miklau and Suciu 2010, here for any fan-outs, variances
and unmeasured nodes): from the leaves up each node is weighed against what its children say about it, and from the root
down the difference is shared out among the children by their variances.

A cube has numbers by every combination of some keys, and margins are sums over some of these. Along each key a number
is split into the mean over its values and what differs from that. Any margin that has a key tells about its
differences, and those margins tell about them independently of all other parts: each part is a mean of what the margins
say, weighted by how exactly they say it. Putting the parts together again gives the estimates with the least variance
(as in ResidualPlanner, Xiao et al. 2023, here for any variances), in a time that grows like the numbers of the margins
times that of keys, however many cells the cube has.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from osgt.support.numeric import Floats

#: Variances below count as this.
_LEAST = 1e-250

#: What is given for each level: nothing where the level is not measured.
Levels = Sequence[ArrayLike | None]


@dataclass(frozen=True, eq=False)
class Tree:
    """Levels from the root down, or from several roots: how nodes hang together, and how exactly each is measured.

    Parameters
    ----------
    parents
        For each level but the first the place of each node's parent in the level above; any order will do.
    variances
        For each level the variance of the noise on each node, one number for all or one for each. None is for a level
        that is not measured, infinity for a node that is not. A node without children must be measured.

    Examples
    --------
    >>> tree = Tree([[0, 0, 0]], [1.0, 1.0])
    >>> [level.ravel().tolist() for level in tree.estimates([[12.0], [3.0, 4.0, 1.0]])]
    [[11.0], [4.0, 5.0, 2.0]]
    >>> [level.tolist() for level in tree.variances_of_estimates]
    [[0.75], [0.75, 0.75, 0.75]]
    """

    parents: Sequence[ArrayLike]
    variances: Levels

    def __post_init__(self) -> None:
        if len(self.variances) != len(self.parents) + 1:
            raise ValueError(
                f"a tree of {len(self.variances)} levels has parents for all levels but the first, "
                f"got {len(self.parents)}"
            )
        for level, noise in enumerate(self._noise):
            if not np.all(noise >= 0):
                raise ValueError("variances must be at least 0")
            if np.any(np.isinf(noise) & (self._children[level] == 0)):
                raise ValueError("a node without children must be measured")

    @cached_property
    def _up(self) -> list[NDArray[np.intp]]:
        """Parents by level; none for the first level."""
        return [np.zeros(0, np.intp), *(np.asarray(parents, dtype=np.intp) for parents in self.parents)]

    @cached_property
    def sizes(self) -> list[int]:
        """The number of nodes in each level."""
        below = [len(parents) for parents in self._up[1:]]
        first = int(self._up[1].max(initial=0)) + 1 if below else 1
        given = self.variances[0]
        return [first if given is None or np.ndim(given) == 0 else len(np.asarray(given)), *below]

    @cached_property
    def _noise(self) -> list[Floats]:
        given = (np.inf if noise is None else noise for noise in self.variances)
        floats = [np.broadcast_to(np.asarray(v, dtype=np.float64), n) for v, n in zip(given, self.sizes, strict=True)]
        # Without noise on both sides of a difference, too, there is something to share it out by.
        return [np.where((noise >= 0) & (noise < _LEAST), _LEAST, noise) for noise in floats]

    @cached_property
    def _children(self) -> list[NDArray[np.intp]]:
        """The number of children of each node."""
        counted = [np.bincount(up, minlength=n) for up, n in zip(self._up[1:], self.sizes, strict=False)]
        return [*counted, np.zeros(self.sizes[-1], np.intp)]

    @cached_property
    def _adding(self) -> "list[scipy.sparse.csr_matrix]":
        """Matrices that add up the children of each node: from a level to the one above."""
        result = []
        for level, up in enumerate(self._up[1:]):
            ones, places = np.ones(len(up)), np.arange(len(up))
            result.append(scipy.sparse.csr_matrix((ones, (up, places)), shape=(self.sizes[level], len(up))))
        return result

    @cached_property
    def _passes(self) -> tuple[list[Floats], list[Floats], list[Floats]]:
        """The quantities that both passes need, by level.

        The weight of a node's own number against the sum of its children; the variance of what node and descendants
        together say; and the share of its parent's difference that a node takes.
        """
        weights, below = [np.ones(n) for n in self.sizes], [noise.copy() for noise in self._noise]
        for level in range(len(self.sizes) - 2, -1, -1):
            summed = self._adding[level] @ below[level + 1]
            own = self._noise[level]
            inner = self._children[level] > 0
            weights[level] = np.where(inner, summed / (np.where(inner, own, 0.0) + np.where(inner, summed, 1.0)), 1.0)
            both = np.where(np.isfinite(own), weights[level] * np.where(np.isfinite(own), own, 0.0), summed)
            below[level] = np.where(inner, both, own)
        shares = [np.zeros(self.sizes[0])]
        for level, up in enumerate(self._up[1:]):
            shares.append(below[level + 1] / (self._adding[level] @ below[level + 1])[up])
        return weights, below, shares

    @cached_property
    def variances_of_estimates(self) -> list[Floats]:
        """The variance of each node's estimate, by level."""
        _, below, shares = self._passes
        result = [below[0]]
        for level, up in enumerate(self._up[1:]):
            summed = self._adding[level] @ below[level + 1]
            result.append(below[level + 1] - shares[level + 1] ** 2 * (summed - result[level])[up])
        return result

    def estimates(self, values: Levels) -> list[Floats]:
        """The estimates of least variance, level by level: an array of nodes and columns for each.

        `values` are the measured numbers, nodes by columns or one for each node; None where a level is not measured.
        A value that is not measured may be anything. Parents are the sums of their children, but for the rounding of
        floats.
        """
        columns = next((np.shape(given)[1:] for given in values if given is not None), ())
        weights, _, shares = self._passes
        own = []
        for given, noise in zip(values, self._noise, strict=True):
            known = np.zeros((len(noise), *columns)) if given is None else np.asarray(given, dtype=np.float64)
            own.append(np.where(np.isfinite(noise)[:, None], known.reshape(len(noise), -1), 0.0))
        sums = []
        for level in range(len(own) - 2, -1, -1):
            sums.append(self._adding[level] @ own[level + 1])
            weight = weights[level][:, None]
            own[level] = weight * own[level] + (1.0 - weight) * sums[-1]
        for level, (up, total) in enumerate(zip(self._up[1:], reversed(sums), strict=True)):
            own[level + 1] = own[level + 1] + shares[level + 1][:, None] * (own[level] - total)[up]
        return own

    def weights(self, asked: Levels) -> list[Floats]:
        """Compute the coefficients of the measured numbers in Σ asked·estimate: nodes by columns, by level.

        `asked` has the coefficients of the estimates in the same form; None is for a level that is not asked for. A
        number that is not measured has the coefficient 0. The variance is the sum of weight²·variance.
        """
        columns = next((np.shape(given)[1:] for given in asked if given is not None), ())
        weights, _, shares = self._passes
        upward = []
        for given, n in zip(asked, self.sizes, strict=True):
            known = np.zeros((n, *columns)) if given is None else np.asarray(given, dtype=np.float64)
            upward.append(known.reshape(n, -1).copy())
        taken = []
        for level in range(len(upward) - 2, -1, -1):
            taken.append(self._adding[level] @ (shares[level + 1][:, None] * upward[level + 1]))
            upward[level] += taken[-1]
        result = upward
        for level, (up, shared) in enumerate(zip(self._up[1:], reversed(taken), strict=True)):
            passed = (1.0 - weights[level])[:, None] * result[level]
            result[level] = weights[level][:, None] * result[level]
            result[level + 1] = result[level + 1] + (passed - shared)[up]
        return result


#: Keys by their place.
Axes = frozenset[int]


@dataclass(frozen=True, eq=False)
class Cube:
    """Margins of a cube, and how exactly each is measured. Its cells need not be among them, nor be few.

    Parameters
    ----------
    shape
        How many values each key has.
    margins
        The keys that each margin has, by their places, in order; one may be there several times, with noise of its own.
    variances
        The variance of the noise on each number of a margin, 0 for one that is known; None for one that is not
        measured, which must be a margin of one that is.

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
        if not all(any(True for _ in self._margins_with(axes)) for axes in self._axes):
            raise ValueError("each margin must be measured, or be one of a margin that is")
        if not all(variance is None or variance >= 0 for variance in self.variances):
            raise ValueError("variances must be at least 0")

    @cached_property
    def _axes(self) -> list[Axes]:
        return [frozenset(margin) for margin in self.margins]

    def _number(self, axes: Axes) -> int:
        """Count the combinations of values that these keys have."""
        return math.prod(self.shape[axis] for axis in axes)

    @cached_property
    def sizes(self) -> list[int]:
        """The length of each margin: how many numbers it has."""
        return [self._number(axes) for axes in self._axes]

    @cached_property
    def _noise(self) -> list[float | None]:
        return [None if variance is None else max(variance, _LEAST) for variance in self.variances]

    @cached_property
    def _variance(self) -> dict[Axes, float]:
        """The variance of each part, before the mean over the other keys is taken away: 1/Σ what margins tell."""
        parts = dict.fromkeys(part for axes in self._axes for part in _subsets(axes))
        return {
            part: 1.0 / math.fsum(1.0 / (v * self._number(axes - part)) for axes, v in self._margins_with(part))
            for part in parts
        }

    def _margins_with(self, part: Axes) -> Iterator[tuple[Axes, float]]:
        """The measured margins that tell about a part."""
        for axes, variance in zip(self._axes, self._noise, strict=True):
            if variance is not None and part <= axes:
                yield axes, variance

    def _counts(self, axes: Axes, part: Axes) -> float:
        """The variance that a part brings to each number of a margin, in its own."""
        return math.prod(1.0 - 1.0 / self.shape[axis] for axis in part) / self._number(axes - part) ** 2

    @cached_property
    def variances_of_estimates(self) -> list[Floats]:
        """The variance of each estimate, by margin."""
        totals = (math.fsum(self._variance[p] * self._counts(axes, p) for p in _subsets(axes)) for axes in self._axes)
        return [np.full(size, total) for size, total in zip(self.sizes, totals, strict=True)]

    def shares(self, weights: Sequence[float]) -> list[float]:
        """The derivatives of Σ weight·(variance of an estimate) over the margins, by the variance of each measured one.

        They add up, each times that variance, to the sum itself.
        """
        asked = dict.fromkeys(self._variance, 0.0)
        for axes, weight in zip(self._axes, weights, strict=True):
            for part in _subsets(axes):
                asked[part] += weight * self._counts(axes, part)
        return [
            0.0
            if v is None
            else math.fsum(asked[p] * (self._variance[p] / v) ** 2 / self._number(axes - p) for p in _subsets(axes))
            for axes, v in zip(self._axes, self._noise, strict=True)
        ]

    def estimates(self, values: Sequence[Floats | None]) -> list[Floats]:
        """The estimates of least variance, margin by margin: arrays of numbers by columns; None is for no value."""
        parts: dict[Axes, Any] = {}
        for given, axes, variance in zip(values, self._axes, self._noise, strict=True):
            if given is not None and variance is not None:
                for part, numbers in self._split(given, axes):
                    weight = self._variance[part] / (variance * self._number(axes - part))
                    parts[part] = parts.get(part, 0.0) + weight * numbers
        return [self._joined(parts, axes) for axes in self._axes]

    def weights(self, asked: Sequence[Floats | None]) -> list[Floats]:
        """Compute the coefficients of the measured numbers in Σ asked·estimate: numbers by columns, by margin.

        The covariances of the estimates are C, that of the measured numbers V, and the estimates C·V⁻¹·measured. So
        the coefficients are V⁻¹·C·asked. In C every part is by itself.
        """
        parts: dict[Axes, Any] = {}
        for given, axes in zip(asked, self._axes, strict=True):
            if given is not None:
                for part, numbers in self._split(given, axes):
                    weight = self._variance[part] / self._number(axes - part)
                    parts[part] = parts.get(part, 0.0) + weight * numbers
        return [
            self._joined(parts, axes) * (0.0 if variance is None else 1.0 / variance)
            for axes, variance in zip(self._axes, self._noise, strict=True)
        ]

    def _split(self, values: ArrayLike, axes: Axes) -> Iterator[tuple[Axes, Floats]]:
        """The parts of a margin: along each key the sum, or what differs from the mean; one place where summed over."""
        array = np.asarray(values, dtype=np.float64)
        array = array.reshape(*(self.shape[axis] for axis in sorted(axes)), -1)
        for place, axis in enumerate(sorted(axes)):
            total = array.sum(axis=place, keepdims=True)
            array = np.concatenate([total, array - total / self.shape[axis]], axis=place)
        for part in _subsets(axes):
            yield part, array[_place(part, axes)].reshape(*(self.shape[axis] for axis in sorted(part)), -1)

    def _joined(self, parts: Mapping[Axes, Floats], axes: Axes) -> Floats:
        """The numbers of a margin from their parts."""
        columns = next(numbers.shape[-1] for numbers in parts.values())
        array = np.zeros((*(self.shape[axis] + 1 for axis in sorted(axes)), columns))
        for part in _subsets(axes):
            if part in parts:
                numbers = _place(part, axes)
                array[numbers] = parts[part].reshape(array[numbers].shape)
        for place, axis in enumerate(sorted(axes)):
            total, others = np.split(array, [1], axis=place)
            array = others + total / self.shape[axis]
        return array.reshape(-1, columns)


def _place(part: Axes, axes: Axes) -> tuple[slice, ...]:
    """Locate the numbers of a part among those of a margin."""
    return tuple(slice(1, None) if axis in part else slice(0, 1) for axis in sorted(axes))


def _subsets(axes: Axes) -> Iterator[Axes]:
    for n in range(len(axes) + 1):
        yield from map(frozenset, itertools.combinations(sorted(axes), n))
