"""Values that are made for what a query measures: at the ends of bounds, beyond them, missing and strange."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

from osgt.auditing.made_keys import named_values, stored_columns
from osgt.auditing.made_rows import Row, ends, key_rows, strange
from osgt.auditing.stage import Stage

#: Combinations of values that are tried for a derived column.
_TRIED = 150


@dataclass(frozen=True, eq=False)
class MadeValues:
    """Values of the stored columns that are measured, but for some that are `fixed`; `row` has all others."""

    stage: Stage
    fixed: Collection[str]
    row: Row

    @property
    def low(self) -> list[Row]:
        """Values at the lower ends of bounds, and far beyond them."""
        return _together([pool[0] for pool in self._pools])

    @property
    def high(self) -> list[Row]:
        """Values at the upper ends of bounds, and far beyond them."""
        return _together([pool[1] for pool in self._pools])

    @property
    def strange(self) -> list[Row]:
        """All kinds of values."""
        return _together([pool[2] for pool in self._pools])

    @cached_property
    def measured(self) -> Mapping[str, list[float]]:
        """The columns that are measured, and the bounds that they have."""
        found: dict[str, list[float]] = {}
        for aggregate in self.stage.query.aggregates:
            for measure in aggregate.measures:
                for column in measure.columns:
                    found.setdefault(column, [])
            for limits in aggregate.limits:
                found.setdefault(limits.column, []).extend((limits.low, limits.high))
        return found

    @cached_property
    def _pools(self) -> list[tuple[list[Row], list[Row], list[Row]]]:
        """For each column low, high and all values, as values of stored columns."""
        found = []
        derived = self.stage.query.dataset.derived
        for name, bounds in self.measured.items():
            if name in derived:
                found.append(self._derived(name, bounds))
            elif name in self.stage.columns and name not in self.fixed:
                low, high = ends(self.stage.columns[name], bounds)
                every = [*low, *high, *strange(self.stage.columns[name])]
                found.append(([{name: v} for v in low], [{name: v} for v in high], [{name: v} for v in every]))
        return found

    def _derived(self, name: str, bounds: list[float]) -> tuple[list[Row], list[Row], list[Row]]:
        """Values of the columns behind a derived one, in the order of what the engine makes of them."""
        data = self.stage.query.dataset
        pools: dict[str, list[str | None]] = {}
        for column in stored_columns(data, [name]):
            if column in self.stage.columns and column not in self.fixed:
                dtype = self.stage.columns[column]
                low, high = ends(dtype, bounds) if dtype.is_numeric() or dtype.is_boolean() else ([], [])
                listed = [*low, *high, *named_values(self.stage, column), *strange(dtype)]
                pools[column] = list(dict.fromkeys(listed))
        tried = key_rows(pools, _TRIED)
        places = self.stage.placed([self.row | each for each in tried], [name])
        numbers = ((None if place is None else place.values[0], i) for i, place in enumerate(places))
        order = [tried[i] for _, i in sorted((x, i) for x, i in numbers if x is not None and not math.isnan(x))]
        return order[:2] or tried[:1], order[:-3:-1] or tried[:1], tried


def _together(pools: list[list[Row]]) -> list[Row]:
    """One row of values for each place in the longest pool; shorter ones begin again."""
    longest = max((len(pool) for pool in pools), default=1)
    found: list[Row] = []
    for i in range(longest):
        found.append({name: value for pool in pools for name, value in pool[i % len(pool)].items()})
    return found
