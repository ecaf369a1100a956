"""Quality marks: how certain each published number is, as statistical offices tell it. Post-processing alone.

A mark follows from the coefficient of variation: the standard deviation of the noise of a number, divided by the size
of the number. Of a count or a sum the noise is known exactly. Of a mean, a share, a variance or a quantile it is known
by the interval, and its standard deviation is taken from that, rather too large than too small (`std_of_interval`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from osgt.query.aggregates.base import Aggregate, Noisy, as_floats
from osgt.support.errors import ArgumentError
from osgt.support.numeric import Floats

#: The marks, from certain to uncertain, and the end of the name of the column that has them.
GOOD, CAUTION, UNCERTAIN = "good", "use with caution", "too uncertain"
MARK = "_mark"


@dataclass(frozen=True)
class Marks:
    """The largest coefficients of variation with which a number is good, and with which it can be used with caution."""

    good: float = 0.166
    caution: float = 0.333

    def __post_init__(self) -> None:
        if not 0 < self.good < self.caution <= 1:
            raise ArgumentError(
                "marks must be true, or two ascending shares above 0 and up to 1, as in [0.166, 0.333] for 16.6 % and "
                f"33.3 %, got {self.good:g} and {self.caution:g}",
                argument="marks",
            )

    @classmethod
    def of(cls, asked: bool | Sequence[float]) -> "Marks | None":
        """The marks that were asked for: the usual ones, those of two thresholds, or none."""
        if isinstance(asked, bool):
            return cls() if asked else None
        numbers: list[Any] = [] if isinstance(asked, str) else list(asked)
        if len(numbers) != 2 or any(isinstance(n, bool) or not isinstance(n, int | float) for n in numbers):
            raise ArgumentError(
                f"marks must be true, or two ascending shares, as in [0.166, 0.333], got {asked!r}", argument="marks"
            )
        return cls(*map(float, numbers))

    def to_dict(self) -> dict[str, float]:
        """The thresholds in plain values."""
        return {GOOD: self.good, CAUTION: self.caution}

    def marks(self, values: Floats, stds: Floats | float) -> pa.Array:
        """Mark numbers by the standard deviations of their noise; one that is not there, or is 0, is too uncertain."""
        with np.errstate(divide="ignore", invalid="ignore"):
            variation = np.broadcast_to(stds, values.shape) / np.abs(values)
        words = np.select([variation <= self.good, variation <= self.caution], [GOOD, CAUTION], UNCERTAIN)
        return pa.array(words.tolist(), pa.string())


def marked_columns(aggregate: Aggregate, noisy: Noisy, marks: Marks | None) -> Mapping[str, pa.Array]:
    """Compute the columns of an aggregate; with marks, each number has its own after the ends of its interval."""
    columns = aggregate.columns(noisy)
    if marks is None:
        return columns
    stds = aggregate.stds(noisy, columns)
    result: dict[str, pa.Array] = {}
    for name, column in columns.items():
        result[name] = column
        number = name.removesuffix("_high")
        if number != name and number in stds:
            result[number + MARK] = marks.marks(as_floats(columns[number]), stds[number])
    return result
