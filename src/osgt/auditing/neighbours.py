"""Neighbouring tables for a query: its own with one unit less, and made ones with one that goes too far."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import ibis.expr.datatypes as dt

from osgt.auditing.made_rows import Row, can_be_written, ends, key_rows, numbered, strange, text_of
from osgt.tables.query import Query
from osgt.tables.unit import PrivacyUnit

#: Rows of one made unit: limits that are larger than this allows are not exceeded, and the audit says so.
_MOST_ROWS = 3000

#: More groups than this are not tried either.
_MOST_GROUPS = 600

#: Other units in made tables.
_CROWD = 6


@dataclass(frozen=True)
class Pair:
    """Two tables that differ in one unit; or in rows of nobody, which must change nothing."""

    name: str
    before: tuple[Row, ...]
    after: tuple[Row, ...]
    of_nobody: bool = False


@dataclass(frozen=True, eq=False)
class Maker:
    """Makes pairs for a query, from rows of its own table where there are any."""

    query: Query
    real: Sequence[Row]

    @cached_property
    def columns(self) -> dict[str, dt.DataType]:
        """The columns that can be made."""
        schema = self.query.dataset.table.schema()
        return {name: dtype for name, dtype in schema.items() if can_be_written(dtype)}

    @property
    def unit(self) -> PrivacyUnit:
        """The privacy unit."""
        return self.query.dataset.unit

    def unit_of(self, row: Row) -> Any:
        """Whom a row is about; None if about nobody."""
        if self.unit.each_row:
            return id(row)
        names = tuple(row[name] for name in self.unit.columns)
        return None if None in names else names

    @cached_property
    def values(self) -> dict[str, list[float]]:
        """The columns that are measured, and the bounds that they have."""
        found: dict[str, list[float]] = {}
        for aggregate in self.query.aggregates:
            for measure in aggregate.measures:
                for column in measure.columns:
                    found.setdefault(column, [])
            for limits in aggregate.limits:
                found.setdefault(limits.column, []).extend((limits.low, limits.high))
        return found

    def pairs(self) -> Iterator[Pair]:
        """All pairs, for the relation of neighbours that the data set has."""
        others = self._others()
        for name, mine in (*self._of_made(), *self._of_real()):
            gone = {self.unit_of(row) for row in mine}
            yield self._pair(name, [row for row in others if self.unit_of(row) not in gone], mine)
        if not self.unit.each_row:
            nobody = [row | dict.fromkeys(self.unit.columns) for row in self._crowded(0, low=False)]
            yield Pair("rows of nobody", tuple(others), (*others, *nobody), of_nobody=True)
        yield self._pair("a unit in a table with nobody else", [], self._crowded(0, low=False))

    def _pair(self, name: str, rest: Sequence[Row], mine: Sequence[Row]) -> Pair:
        most = 1 if self.unit.each_row else len(mine)
        if self.query.dataset.neighbours == "add_remove":
            return Pair(name, tuple(rest), (*rest, *mine[:most]))
        unit = {name: mine[0][name] for name in self.unit.columns}
        instead = [row | unit for row in self._crowded(4, low=True, first_key=3)]
        return Pair(f"{name}, exchanged", (*rest, *mine[:most]), (*rest, *instead[:most]))

    def _others(self) -> list[Row]:
        """The table that a unit is taken out of or added to: real rows, and a few made units."""
        crowd = []
        for i in range(_CROWD):
            for j, keys in enumerate(self._keys(4)):
                values = {name: pool[(i + j) % len(pool)] for name, pool in self._strange_values().items()}
                crowd.append(self._row(10 + i, keys | values))
        return [*self.real, *crowd]

    def _of_real(self) -> Iterator[tuple[str, list[Row]]]:
        """Units of the real table that are most likely to show something."""
        of_unit: Mapping[Any, list[Row]] = defaultdict(list)
        for row in self.real:
            if self.unit_of(row) is not None:
                of_unit[self.unit_of(row)].append(row)
        if not of_unit:
            return

        def groups(unit: Any) -> set[tuple[str | None, ...]]:
            return {tuple(row[name] for name in self.query.groups.by) for row in of_unit[unit]}

        members: dict[tuple[str | None, ...], int] = defaultdict(int)
        for unit in of_unit:
            for group in groups(unit):
                members[group] += 1
        alone = [unit for unit in of_unit if all(members[group] == 1 for group in groups(unit))]
        chosen = {max(of_unit, key=lambda unit: len(of_unit[unit])): "the unit with most rows"}
        chosen.setdefault(max(of_unit, key=lambda unit: len(groups(unit))), "the unit in most groups")
        chosen.setdefault(
            alone[0] if alone else next(iter(of_unit)), "a unit alone in its groups" if alone else "a unit"
        )
        for unit, name in chosen.items():
            yield name, of_unit[unit]

    def _of_made(self) -> Iterator[tuple[str, list[Row]]]:
        yield "more groups and rows than the limits, values at the upper ends", self._crowded(0, low=False)
        yield "more groups and rows than the limits, values at the lower ends", self._crowded(1, low=True)
        yield "strange values: missing, not a number, infinite, largest", self._strange(2)
        keys = self._keys(3)
        pool = self._strange_values()
        again = {name: each[0] for name, each in pool.items()}
        yield "one row again and again", [self._row(3, key | again) for key in keys for _ in range(self._rows(3))]
        yield "groups of its own", [self._row(5, key) for key in self._own_keys(3)]

    def _crowded(self, number: int, *, low: bool, first_key: int = 0) -> list[Row]:
        """A unit with more groups and more rows than may count."""
        keys = self._keys(min(self.query.groups.max_groups + 2, _MOST_GROUPS) + first_key)[first_key:] or self._keys(1)
        values = {}
        for name, bounds in self.values.items():
            if name in self.columns:
                values[name] = ends(self.columns[name], bounds)[0 if low else 1]
        rows = []
        for key in keys:
            for i in range(self._rows(len(keys))):
                rows.append(self._row(number, key | {name: pool[i % len(pool)] for name, pool in values.items()}))
        return rows

    def _strange(self, number: int) -> list[Row]:
        pools = self._strange_values()
        longest = max((len(pool) for pool in pools.values()), default=1)
        rows = []
        for i, key in enumerate(self._keys(40)):
            for j in range(min(longest, 6)):
                rows.append(self._row(number, key | {name: pool[(i + j) % len(pool)] for name, pool in pools.items()}))
        return rows

    def _strange_values(self) -> dict[str, list[str | None]]:
        found = {}
        for name, bounds in self.values.items():
            if name in self.columns:
                low, high = ends(self.columns[name], bounds)
                found[name] = [*low, *high, *strange(self.columns[name])]
        return found

    def _rows(self, groups: int) -> int:
        return max(1, min((self.query.groups.max_rows or 1) + 2, _MOST_ROWS // max(groups, 1)))

    def _keys(self, most: int) -> list[Row]:
        """Keys of groups: public ones, those of real rows, strange ones, and as many more as there can be."""
        return self._key_list[:most]

    @cached_property
    def _key_list(self) -> list[Row]:
        by, most = self.query.groups.by, _MOST_GROUPS + 8
        public = self.query.groups.public
        known: list[Row] = []
        if public is not None:
            known = [{name: text_of(value) for name, value in row.items()} for row in public.to_pylist()]
        known += [{name: row[name] for name in by} for row in self.real]
        pools = {}
        for name in by:
            more = (numbered(self.columns[name], i) for i in range(most))
            pools[name] = list(dict.fromkeys([*strange(self.columns[name]), *(key for key in more if key is not None)]))
        # Alternately: groups that others are in as well, and groups that are strange.
        made = key_rows(pools, most)
        mixed = [key for both in zip(known, made, strict=False) for key in both] if public is None else known
        every = [*mixed, *known[len(made) :], *made]
        unique = {tuple(key.items()): key for key in every}
        return list(unique.values())

    def groups_of_own(self, most: int) -> list[Row]:
        """So many keys of groups, or as many as there can be: public ones, or such that nobody is in."""
        public, by = self.query.groups.public, self.query.groups.by
        if public is not None or not by:
            return self._key_list[: min(most, public.num_rows if public is not None else 1)]
        pools = {}
        for name in by:
            more = (numbered(self.columns[name], i) for i in range(most if name == by[0] else 40))
            pools[name] = [key for key in more if key is not None]
        return key_rows(pools, most)

    def heavy(self, number: int, keys: Sequence[Row]) -> list[Row]:
        """A unit with as many rows in each of these groups as may count, and values at the upper ends."""
        values = self._at_bounds(1)
        return [self._row(number, key | values) for key in keys for _ in range(self.query.groups.max_rows or 1)]

    def ordinary(self, number: int, key: Row) -> Row:
        """A row of another unit in a group."""
        values = self._at_bounds(0)
        return self._row(number, key | values)

    def _at_bounds(self, end: int) -> Row:
        columns = ((name, bounds) for name, bounds in self.values.items() if name in self.columns)
        return {name: ends(self.columns[name], bounds)[end][0] for name, bounds in columns}

    def _own_keys(self, most: int) -> list[Row]:
        return self._key_list[-most:]

    def _row(self, unit: int, given: Row) -> Row:
        """A row of a made unit; columns that nobody asks about are as in a real row."""
        template = self.real[unit % len(self.real)] if self.real else {}
        others = {name: template.get(name, _ordinary(dtype)) for name, dtype in self.columns.items()}
        names = {name: numbered(self.columns[name], 1000 + unit) or str(unit) for name in self.unit.columns}
        return others | given | names


def _ordinary(dtype: dt.DataType) -> str | None:
    return strange(dtype)[0]
