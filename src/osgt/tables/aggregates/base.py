"""What every aggregate can tell: the whole numbers it needs, its columns, their noise, and what its bounds cut off."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from osgt.noise.many import NoiseSum
from osgt.tables.groups import Groups
from osgt.tables.intervals import Numbers
from osgt.tables.measures import Measure
from osgt.tables.quantiles import NoisyTree

#: Whole numbers, one row for each group, and what they are to be divided by.
Quotient = tuple[NDArray[np.int64], int]

#: Sizes of a group for which intervals of means and variances are told.
_SIZES = (100, 1_000, 10_000)


@dataclass(frozen=True)
class Noisy:
    """The whole numbers that aggregates ask for, with noise: one row for each group, and the noise of each.

    This is all that an aggregate sees of a release. How the numbers came about, and what is measured for them, is the
    plan's business.
    """

    values: Mapping[Measure, Quotient]
    noises: Mapping[Measure, NoiseSum]
    confidence: float
    nonnegative: bool
    #: For quantiles: the tree of ranges that they are read from.
    trees: Mapping[Measure, NoisyTree] = field(default_factory=dict)
    #: Whole numbers to show in place of the nearest ones, where numbers are to add up.
    whole: Mapping[Measure, NDArray[np.int64]] | None = None

    def noise(self, asked: Measure) -> NoiseSum:
        """The distribution of the noise on each number of a measure."""
        return self.noises[asked]

    def numbers(self, asked: Measure) -> list[Numbers]:
        """The numbers of a measure, in order: most measures have one, bins have several."""
        values, of = self.values[asked]
        shown = None if self.whole is None else self.whole[asked]
        return [
            Numbers(values[:, i], self.noise(asked), of, None if shown is None else shown[:, i])
            for i in range(values.shape[1])
        ]

    def number(self, asked: Measure) -> Numbers:
        """The one number of a measure."""
        [one] = self.numbers(asked)
        return one

    def in_groups(self, values: Mapping[Measure, Sequence[int]]) -> "Noisy":
        """The same noise around the numbers of some groups."""
        given = {measure: (np.array(numbers)[:, None], 1) for measure, numbers in values.items()}
        return replace(self, values=given, nonnegative=False, whole=None)


@dataclass(frozen=True)
class Error:
    """What decides the error of a column: the noise of Σ coefficient·number, in units of `unit`."""

    coefficients: Mapping[Measure, float]
    unit: float
    weight: float


@dataclass(frozen=True)
class Column:
    """What is known beforehand about a column: its noise in steps of `step`, or the half-widths by group size.

    Of a quantile it is the half-width in ranks: what that means for the value depends on the data.
    """

    name: str
    kind: str
    confidence: float
    noise: NoiseSum | None = None
    step: Fraction = Fraction(1)
    by_size: Mapping[int, float] | None = None
    ranks: float | None = None

    @property
    def std(self) -> float | None:
        """The standard deviation of the noise; None if it depends on the size of the group."""
        return None if self.noise is None else self.noise.std() * float(self.step)

    @property
    def half_width(self) -> float | None:
        """The half-width of the noise interval; None if it depends on the size of the group."""
        return None if self.noise is None else self.noise.half_width(self.confidence) * float(self.step)

    def excess(self, target: float) -> float:
        """Above 0 as long as the half-width exceeds the target, and the more so the larger the noise is."""
        if self.noise is None:
            raise TypeError(f"the noise of {self.name} depends on the size of the group")
        return self.noise.excess(self.confidence, Fraction(target) / self.step)

    def width_in_words(self) -> str:
        """The half-width, for ratios that in a large group."""
        if self.ranks is not None:
            return f"±{self.ranks:,.4g} ranks"
        if self.by_size is None:
            return f"±{self.half_width:,.6g}"
        size, half = max(self.by_size.items())
        return f"±{half:,.4g} with {size:,} values"

    def in_words(self) -> str:
        """The half-widths, and the standard deviation if there is one."""
        often = f"{100 * self.confidence:.10g} % of the time"
        if self.ranks is not None:
            return f"{self.width_in_words()} ({often})"
        if self.by_size is None:
            return f"{self.width_in_words()} ({often}; standard deviation {self.std:,.4g})"
        sizes = ", ".join(f"±{half:,.4g} in a group of {size:,} values" for size, half in self.by_size.items())
        return f"{sizes} ({often})"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "name": self.name,
            "kind": self.kind,
            "std": self.std,
            "half_width": self.half_width,
            "half_width_in_ranks": self.ranks,
            "half_width_by_size": {str(size): half for size, half in (self.by_size or {}).items()},
        }


@dataclass(frozen=True)
class Limits:
    """The least and the largest value of a column that an aggregate takes as it is, and what becomes of the others."""

    column: str
    low: float
    high: float
    words: str


@dataclass(frozen=True)
class Aggregate:
    """One or more columns of a release. A larger `weight` means less noise here and more elsewhere."""

    kind: ClassVar[str]

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

    def adds_up(self, groups: Groups) -> bool:
        """Whether the numbers of groups add up to those of all their rows; distinct units may not."""
        return True

    @property
    def limits(self) -> tuple[Limits, ...]:
        """The values that its bounds cut off: named in plans and statements, counted by previews."""
        return ()

    def errors(self, groups: Groups) -> tuple[Error, ...]:
        """What decides the errors of its columns: noise is shared out among measures so that these are small."""
        raise NotImplementedError

    def columns(self, noisy: Noisy) -> dict[str, pa.Array]:
        """Its columns: for each name the value and both ends of the noise interval.

        A value is null where the interval is all that the bounds allow: the group is too small to tell.
        """
        raise NotImplementedError

    def planned(self, noisy: Noisy) -> list[Column]:
        """What is known of its columns before there are any numbers: `noisy` has noise alone."""
        raise NotImplementedError

    def arguments(self) -> dict[str, Any]:
        """What was asked for beside name and weight, in plain values, as in a query file."""
        return {}

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as in a query file."""
        return {"kind": self.kind, **self.arguments(), "name": self.name, "weight": self.weight}

    @property
    def title(self) -> str:
        """In a word: `count`, `mean(delay)`."""
        column = self.arguments().get("column")
        return self.kind if column is None else f"{self.kind}({column})"

    def with_interval(self, value: Any, low: Any, high: Any, *, unknown: Any = None) -> dict[str, pa.Array]:
        """A column and the ends of its interval, under their names; the value is null where it is unknown."""
        named = {f"{self.name}_low": low, f"{self.name}_high": high}
        return {self.name: pa.array(value, mask=unknown)} | {name: pa.array(end) for name, end in named.items()}

    def planned_by_size(self, noisy: Noisy) -> list[Column]:
        """For ratios: half the length of the interval in groups of several sizes.

        The first measure is a count and is as large as the group; all others are 0, as in the middle of the bounds.
        """
        numbers = dict.fromkeys(self.measures, [0] * len(_SIZES)) | {self.measures[0]: _SIZES}
        columns = self.columns(noisy.in_groups(numbers))
        low, high = (columns[f"{self.name}_{end}"].to_numpy() for end in ("low", "high"))
        by_size = dict(zip(_SIZES, ((high - low) / 2).tolist(), strict=True))
        return [Column(self.name, self.kind, noisy.confidence, by_size=by_size)]
