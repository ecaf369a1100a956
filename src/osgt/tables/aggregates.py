"""Aggregates: what a user asks for, which measures it takes, and the columns that come of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from numbers import Real
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from osgt.noise import IntegerLaw
from osgt.tables.intervals import half_width, ratio_interval, variance_interval
from osgt.tables.measures import Bins, CentredSum, ClippedSum, Measure, Rows, Squares, Units, Values
from osgt.tables.values import ValueGrid


@dataclass(frozen=True)
class Noisy:
    """The measures of a release with their noise: integers, one row for each group, and the laws of the noise."""

    values: Mapping[Measure, NDArray[np.int64]]
    laws: Mapping[Measure, IntegerLaw]
    confidence: float
    clamp: bool


@dataclass(frozen=True)
class Aggregate:
    """One or more columns of a release. A larger `weight` means less noise here and more elsewhere."""

    name: str
    weight: float

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The measures that it is made of."""
        raise NotImplementedError

    @property
    def names(self) -> list[str]:
        """Its columns, without the ends of the intervals."""
        return [self.name]

    def columns(self, noisy: Noisy) -> dict[str, pa.Array]:
        """Its columns: for each name the value and both ends of the noise interval."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as in a query file."""
        raise NotImplementedError


@dataclass(frozen=True)
class Number(Aggregate):
    """A measure as it is: a count, or a sum in steps of its grid."""

    measure: Measure
    kind: str

    @property
    def measures(self) -> tuple[Measure, ...]:
        return (self.measure,)

    @property
    def grid(self) -> ValueGrid:
        """The grid of a sum; whole numbers from 0 for counts."""
        return self.measure.grid if isinstance(self.measure, ClippedSum) else ValueGrid("integer", Fraction(1), 0, 1)

    @property
    def names(self) -> list[str]:
        if isinstance(self.measure, Bins):
            return [f"{self.name}_{i}" for i in range(1, len(self.measure.edges))]
        return [self.name]

    def columns(self, noisy: Noisy) -> dict[str, pa.Array]:
        steps = noisy.values[self.measure]
        half = half_width(noisy.laws[self.measure], noisy.confidence)
        columns = {}
        for i, name in enumerate(self.names):
            value = steps[:, i]
            for suffix, shifted in (("", value), ("_low", value - half), ("_high", value + half)):
                if noisy.clamp and self.grid.low >= 0:
                    shifted = np.maximum(shifted, 0)  # noqa: PLW2901
                columns[name + suffix] = in_units(shifted, self.grid)
        return columns

    def to_dict(self) -> dict[str, Any]:
        plain: dict[str, Any] = {"kind": self.kind}
        if isinstance(self.measure, Bins):
            plain |= {"column": self.measure.column, "edges": list(self.measure.edges)}
        if isinstance(self.measure, ClippedSum):
            plain |= {"column": self.measure.column, "bounds": bounds_of(self.measure.grid)}
        return plain | {"name": self.name, "weight": self.weight}


@dataclass(frozen=True)
class Mean(Aggregate):
    """The mean: a centred sum over a count, both with noise; missing values are left out or count as the centre."""

    column: str
    grid: ValueGrid
    count: Measure

    @property
    def measures(self) -> tuple[Measure, ...]:
        return self.count, CentredSum(self.column, self.grid)

    def columns(self, noisy: Noisy) -> dict[str, pa.Array]:
        count, total = (noisy.values[measure][:, 0] for measure in self.measures)
        width = self.grid.width
        laws = noisy.laws[self.measures[1]], noisy.laws[self.measures[0]]
        low, high = ratio_interval(total, count, laws, width, noisy.confidence)
        value = np.clip(total / np.maximum(count, 1), low, high)
        centre, unit = float(self.grid.centre), float(self.grid.step) / 2
        named = {self.name: value, f"{self.name}_low": low, f"{self.name}_high": high}
        return {name: pa.array(centre + unit * array) for name, array in named.items()}

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": "mean",
            "column": self.column,
            "bounds": bounds_of(self.grid),
            "missing": "skip" if isinstance(self.count, Values) else "centre",
            "name": self.name,
            "weight": self.weight,
        }


@dataclass(frozen=True)
class Variance(Aggregate):
    """The variance of the values around their mean: the mean square less the squared mean, all centred."""

    column: str
    grid: ValueGrid

    @property
    def measures(self) -> tuple[Measure, ...]:
        return Values(self.column), CentredSum(self.column, self.grid), Squares(self.column, self.grid)

    def columns(self, noisy: Noisy) -> dict[str, pa.Array]:
        sums = tuple(noisy.values[measure][:, 0] for measure in self.measures)
        laws = tuple(noisy.laws[measure] for measure in self.measures)
        width = self.grid.width
        low, high = variance_interval(sums, laws, width, noisy.confidence)  # type: ignore[arg-type]
        count = np.maximum(sums[0], 1)
        square = float(width) ** 2
        mean = np.clip(sums[1] / count, -width, width)
        value = np.clip((sums[2] / count + square) / 2 - mean**2, 0.0, square)
        unit = (float(self.grid.step) / 2) ** 2
        named = {self.name: np.clip(value, low, high), f"{self.name}_low": low, f"{self.name}_high": high}
        return {name: pa.array(unit * array) for name, array in named.items()}

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": "variance",
            "column": self.column,
            "bounds": bounds_of(self.grid),
            "name": self.name,
            "weight": self.weight,
        }


def bounds_of(grid: ValueGrid) -> list[float]:
    """The bounds in the units of the column, as they are kept."""
    ends = [grid.low * grid.step, grid.high * grid.step]
    return [int(end) if end.denominator == 1 else float(end) for end in ends]


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


def checked_edges(column: str, edges: object) -> tuple[float, ...]:
    """The edges of a histogram: at least two finite numbers, ascending."""
    if isinstance(edges, str) or not isinstance(edges, Sequence | np.ndarray):
        raise TypeError(f"edges of {column!r} must be a list of ascending numbers, got {edges!r}")
    numbers = list(edges)
    if not all(isinstance(edge, Real | Decimal) and not isinstance(edge, bool) for edge in numbers):
        raise TypeError(f"edges of {column!r} must be numbers, got {edges!r}")
    values = np.array([float(edge) for edge in numbers])
    if len(values) < 2 or not np.all(np.isfinite(values)) or not np.all(np.diff(values) > 0):
        raise ValueError(f"edges of {column!r} must be at least two finite, ascending numbers, got {edges!r}")
    return tuple(int(edge) if edge.is_integer() and abs(edge) < 2**53 else float(edge) for edge in values)


__all__ = ["Aggregate", "Bins", "Mean", "Noisy", "Number", "Rows", "Units", "Variance"]
