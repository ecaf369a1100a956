"""Tables that are computed from published numbers, as they are printed: estimates, comparisons, descriptions."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from osgt.query.groups import key_words
from osgt.render.cards import Card, CardTable, Cell
from osgt.render.published import Interchange
from osgt.support.text import with_interval

#: Rows that are printed.
_SHOWN = 20


@dataclass(frozen=True, eq=False, repr=False)
class Derived(Interchange):
    """A table that was computed from published numbers, and notes on it. It costs no budget and can be published."""

    table: pa.Table
    #: The keys, and the numbers that are printed, each with the ends of its interval.
    keys: tuple[str, ...]
    numbers: tuple[str, ...]
    notes: tuple[str, ...]

    def to_pandas(self) -> Any:
        """The table as a pandas frame."""
        return self.table.to_pandas()

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __getitem__(self, name: str) -> Any:
        """A column of the table as a NumPy array."""
        return np.asarray(self.table[name].to_numpy(zero_copy_only=False))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self.numbers)}; {len(self):,} rows; print it to read it)"

    def __str__(self) -> str:
        """The first rows, each number with its interval, and the notes."""
        return self._card().text()

    def _repr_html_(self) -> str:
        return self._card().html()

    def _card(self) -> Card:
        rows = []
        for row in self.table.slice(0, _SHOWN).to_pylist():
            cells = [Cell(key_words(row, key, missing="missing")) for key in self.keys]
            for name in self.numbers:
                numbers = [row[name + end] for end in ("", "_low", "_high")]
                shown = with_interval(*numbers)
                cells.append(Cell(shown.value, f"{shown.low} to {shown.high}") if numbers[1] is not None else Cell(""))
            rows.append(cells)
        more = [f"… {len(self) - _SHOWN:,} more rows"] if len(self) > _SHOWN else []
        table = CardTable([*self.keys, *self.numbers], rows, keys=len(self.keys))
        return Card(type(self).__name__, tables=[table], lines=[*more, *self.notes])


@dataclass(frozen=True, eq=False, repr=False)
class Estimates(Derived):
    """Best estimates beside the published numbers: columns `…_estimate`, with the ends of their intervals.

    `gains` has for each count and sum the part of the root mean square error that is saved in the groups, as estimated
    without bias; None where the numbers are left as they were published, for the reason that is among the `notes`.
    """

    gains: Mapping[str, float | None]


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Derived):
    """Differences or ratios of published numbers, with intervals from the joint noise of both."""

    @property
    def value(self) -> float | None:
        """The only difference or ratio; None for a ratio of which the noise leaves nothing."""
        value = self._only("")
        return None if value is None else float(value)

    @property
    def low(self) -> float:
        """The lower end of the only interval."""
        return float(self._only("_low"))

    @property
    def high(self) -> float:
        """The upper end of the only interval; infinite for a ratio whose second number may be 0."""
        return float(self._only("_high"))

    def _only(self, end: str) -> Any:
        if len(self) != 1:
            raise ValueError(f"there are {len(self):,} rows: take the columns of to_pandas()")
        return self.table[self.numbers[0] + end][0].as_py()


@dataclass(frozen=True, eq=False, repr=False)
class Description(Derived):
    """How many values columns have, how many are missing, and their quartiles: a row for each column.

    `release` is the release that it was made from, with the plan and the statement; it is published as any other.
    """

    release: Any

    def _card(self) -> Card:
        card = super()._card()
        return replace(card, promise=self.release.statement.words)
