"""Aggregates that show a measure as it is: counts, and sums in steps of their grid."""

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from osgt.tables.aggregates.base import Aggregate, Column, Error, Noisy
from osgt.tables.groups import Groups
from osgt.tables.measures import Measure
from osgt.tables.values import ValueGrid

#: Whole numbers from 0 on.
_COUNTS = ValueGrid("integer", Fraction(1), 0, 1)


@dataclass(frozen=True)
class PlainNumbers(Aggregate):
    """One measure, a column for each of its numbers. The noise is the same in groups of every size."""

    measure: Measure

    @property
    def measures(self) -> tuple[Measure, ...]:
        return (self.measure,)

    @property
    def grid(self) -> ValueGrid:
        """What a step of the measure means."""
        return _COUNTS

    def errors(self, groups: Groups) -> tuple[Error, ...]:
        return (Error({self.measure: 1.0}, groups.most_of(self.measure), self.weight),)

    def columns(self, noisy: Noisy) -> dict[str, pa.Array]:
        columns = {}
        for name, numbers in zip(self.names, noisy.numbers(self.measure), strict=True):
            for suffix, steps in zip(("", "_low", "_high"), numbers.whole(noisy.confidence), strict=True):
                shown = np.maximum(steps, 0) if noisy.nonnegative and self.grid.low >= 0 else steps
                columns[name + suffix] = in_units(shown, self.grid)
        return columns

    def planned(self, noisy: Noisy) -> list[Column]:
        noise = noisy.noise(self.measure)
        return [Column(name, self.kind, noisy.confidence, noise, self.grid.step) for name in self.names]


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
