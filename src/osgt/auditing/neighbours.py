"""Neighbouring tables for a query: its own with one unit less, and made ones with one that goes too far."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from osgt.auditing.made_keys import MOST_GROUPS, MadeKeys
from osgt.auditing.made_rows import Row, numbered, ordinary
from osgt.auditing.made_values import MadeValues
from osgt.auditing.stage import Stage
from osgt.tables.unit import PrivacyUnit

#: Rows of one made unit: limits that are larger than this allows are not exceeded, and the audit says so.
_MOST_ROWS = 3000

#: Other units in made tables.
_CROWD = 6

#: Groups of a unit beside one that shares a part of its name: so many more than that one's that mostly hers are kept.
_OWN = 40


@dataclass(frozen=True)
class Pair:
    """Two tables that differ in one unit; or in rows of nobody, which must change nothing."""

    name: str
    before: tuple[Row, ...]
    after: tuple[Row, ...]
    of_nobody: bool = False


@dataclass(frozen=True, eq=False)
class Maker:
    """Makes units and pairs for a query, from rows of its own table where there are any."""

    stage: Stage
    real: Sequence[Row] = ()
    #: Groups that are made, at most.
    most: int = MOST_GROUPS

    @property
    def unit(self) -> PrivacyUnit:
        """The privacy unit."""
        return self.stage.query.dataset.unit

    @cached_property
    def keys(self) -> list[Row]:
        """Values of columns with which rows count, each in a group of its own."""
        return MadeKeys(self.stage, self.real, self.most).found

    def counting_keys(self) -> list[Row]:
        """Those of the keys with which rows count for certain, each in a group of its own."""
        places = self.stage.placed([self._row(0, key) for key in self.keys])
        by_group = {place.group: key for key, place in zip(self.keys, places, strict=True) if place is not None}
        return list(by_group.values())

    @cached_property
    def values(self) -> MadeValues:
        """Values of the columns that are measured and may be changed: not those that keys and conditions look at."""
        return MadeValues(self.stage, {*self.unit.columns, *self.keys[0]}, self._row(0, self.keys[0]))

    def unit_of(self, row: Row) -> Any:
        """Whom a row is about; None if about nobody."""
        if self.unit.each_row:
            return id(row)
        names = tuple(row[name] for name in self.unit.columns)
        return None if None in names else names

    def pairs(self) -> Iterator[Pair]:
        """All pairs, for the relation of neighbours that the data set has."""
        others = self._others()
        for name, mine in (*self._of_made(), *self._of_real()):
            gone = {self.unit_of(row) for row in mine}
            yield self._pair(name, [row for row in others if self.unit_of(row) not in gone], mine)
        if not self.unit.each_row:
            nobody = [row | self._nameless(i) for i, row in enumerate(self._crowded(0, low=False))]
            yield Pair("rows of nobody", tuple(others), (*others, *nobody), of_nobody=True)
        if len(self.unit.columns) > 1:
            most = self.stage.query.groups.most
            rows = [self._row(0, key) for key in self.keys[: (_OWN + 1) * most]]
            for name, names in self._similar(rows[0]):
                yield self._pair(name, [row | names for row in rows[-most:]], rows[:-most] or rows)
        mine = self._crowded(0, low=False)
        if self.stage.query.dataset.neighbours == "change_one" and not self.unit.each_row:
            yield Pair("a unit exchanged for one with a single row", (*others, *mine), (*others, mine[-1]))
        yield self._pair("a unit in a table with nobody else", [], mine)

    def _pair(self, name: str, rest: Sequence[Row], mine: Sequence[Row]) -> Pair:
        most = 1 if self.unit.each_row else len(mine)
        if self.stage.query.dataset.neighbours == "add_remove":
            return Pair(name, tuple(rest), (*rest, *mine[:most]))
        unit = {name: mine[0][name] for name in self.unit.columns}
        instead = [row | unit for row in self._crowded(4, low=True, first_key=3)]
        return Pair(f"{name}, exchanged", (*rest, *mine[:most]), (*rest, *instead[:most]))

    def _nameless(self, i: int) -> Row:
        """Nothing in one of the columns that name the unit, or in all."""
        names = self.unit.columns
        return dict.fromkeys(names if i % (len(names) + 1) == len(names) else [names[i % (len(names) + 1)]])

    def _similar(self, row: Row) -> Iterator[tuple[str, Row]]:
        """Units that share all but one of the columns that name them; or whose names are the same if put together."""
        names = self.unit.columns
        for name in names:
            yield f"another unit with another {name}", {name: self.named(50)[name]}
        texts = [name for name in names if self.stage.columns[name].is_string()]
        if len(texts) > 1:
            first, second = str(row[texts[0]]), str(row[texts[1]])
            yield "another unit with as much text", {texts[0]: first + second[:1], texts[1]: second[1:]}

    def _others(self) -> list[Row]:
        """The table that a unit is taken out of or added to: real rows, and a few made units."""
        strange = self.values.strange
        crowd = []
        for i in range(_CROWD):
            for j, key in enumerate(self.keys[:4]):
                crowd.append(self._row(10 + i, key | strange[(i + j) % len(strange)]))
        return [*self.real, *crowd]

    def _of_real(self) -> Iterator[tuple[str, list[Row]]]:
        """Units of the real table that are most likely to show something."""
        of_unit: Mapping[Any, list[Row]] = defaultdict(list)
        for row in self.real:
            if self.unit_of(row) is not None:
                of_unit[self.unit_of(row)].append(row)
        if not of_unit:
            return
        by = MadeKeys(self.stage, self.real, self.most).key_columns

        def groups(unit: Any) -> set[tuple[str | None, ...]]:
            return {tuple(row[name] for name in by) for row in of_unit[unit]}

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
        again = self.values.strange[0]
        keys = self.keys[:3]
        yield "one row again and again", [self._row(3, key | again) for key in keys for _ in range(self._rows(3))]
        yield "groups of its own", [self._row(5, key) for key in self.keys[-3:]]

    def _crowded(self, number: int, *, low: bool, first_key: int = 0) -> list[Row]:
        """A unit with more groups and more rows than may count."""
        wanted = min(self.stage.query.groups.max_groups + 2, MOST_GROUPS)
        keys = self.keys[first_key : first_key + wanted] or self.keys[:wanted]
        values = self.values.low if low else self.values.high
        return [self._row(number, key | values[i % len(values)]) for key in keys for i in range(self._rows(len(keys)))]

    def _strange(self, number: int) -> list[Row]:
        pool = self.values.strange
        return [
            self._row(number, key | pool[(i + j) % len(pool)])
            for i, key in enumerate(self.keys[:40])
            for j in range(min(len(pool), 6))
        ]

    def _rows(self, groups: int) -> int:
        return max(1, min((self.stage.query.groups.max_rows or 1) + 2, _MOST_ROWS // max(groups, 1)))

    def heavy(self, number: int, keys: Sequence[Row], *, low: bool = False) -> list[Row]:
        """A unit with as many rows in each of these groups as may count, and values at the upper or lower ends."""
        values = (self.values.low if low else self.values.high)[0]
        rows = self.stage.query.groups.max_rows or 1
        return [self._row(number, key | values) for key in keys for _ in range(rows)]

    def ordinary(self, number: int, key: Row) -> Row:
        """A row of another unit in a group."""
        return self._row(number, key | self.values.low[0])

    def _row(self, unit: int, given: Row) -> Row:
        """A row of a made unit; columns that nobody asks about are as in a real row."""
        template = self.real[unit % len(self.real)] if self.real else {}
        others = {name: template.get(name, ordinary(dtype)) for name, dtype in self.stage.columns.items()}
        return others | given | self.named(unit)

    def named(self, unit: int) -> Row:
        """The columns that name a made unit; of types with few values, those with small numbers differ."""
        types = {name: self.stage.columns[name] for name in self.unit.columns}
        return {name: numbered(t, 1000 + unit) or numbered(t, unit) or ordinary(t) for name, t in types.items()}
