"""Neighbouring tables for a query: its own with one unit less, and made ones with one that goes too far.

Keys are values of the stored columns with which a row counts, one for each group. Where conditions or derived columns
stand between a row and its group, the engine says where a row falls: many are put before it, with values that the
expressions name among them. Values of what is measured are at the ends of its limits, beyond them, missing and strange.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from osgt.auditing.stage import Row, Stage, constants, ends, key_rows, numbered, ordinary, strange, text_of
from osgt.data.expressions.expression import Expression
from osgt.data.rows import PrivateRows
from osgt.data.unit import PrivacyUnit

#: More groups than this are not tried.
MOST_GROUPS = 600

#: Groups of a unit that is in every group: so many at most.
_EVERY = 100

#: Strange rows that are tried one by one where each row is a unit.
_ROWS = 8

#: Combinations of values that are tried to meet the conditions, and numbered values of a column that is not the first.
_TRIED_KEYS, _FEW = 400, 40

#: Combinations of values that are tried for a derived column.
_TRIED_VALUES = 150

#: Rows of one made unit: limits that are larger than this allows are not exceeded, and the audit says so.
_MOST_ROWS = 3000

#: Other units in made tables.
_CROWD = 6

#: Groups of a unit beside one that shares a part of its name: so many more than that one's that mostly hers are kept.
_OWN = 40


def stored_columns(data: PrivateRows, names: Iterable[str]) -> list[str]:
    """The stored columns that some columns are made of, each once."""
    result: list[str] = []
    for name in names:
        result += stored_columns(data, data.derived[name].columns) if name in data.derived else [name]
    return list(dict.fromkeys(result))


def conditions_on(data: PrivateRows) -> list[Expression]:
    """The conditions on rows: those of the query, and those that tell the parts of the people apart."""
    return [*data.filters, *(() if data.part is None else data.part.conditions)]


def named_values(stage: Stage, column: str) -> list[str | None]:
    """Values of a stored column that the expressions which look at it name."""
    data = stage.query.dataset
    every = [*data.derived.values(), *conditions_on(data)]
    texts = [expression.text for expression in every if column in stored_columns(data, expression.columns)]
    return [value for text in texts for value in constants(stage.columns[column], text)]


def unit_name(stage: Stage, number: int) -> Row:
    """The columns that name a made unit; of types with few values, those with small numbers differ."""
    types = {name: stage.columns[name] for name in stage.query.dataset.unit.columns}
    return {name: numbered(t, 1000 + number) or numbered(t, number) or ordinary(t) for name, t in types.items()}


def _distinct(rows: Iterable[Row]) -> list[Row]:
    """The rows without repetitions."""
    return list({tuple(row.items()): row for row in rows}.values())


@dataclass(frozen=True, eq=False)
class MadeKeys:
    """Keys for a query: those of real rows and public ones, strange ones, and as many more as there can be."""

    stage: Stage
    real: Sequence[Row]
    most: int

    @cached_property
    def key_columns(self) -> list[str]:
        """The stored columns that groups depend on."""
        return self._stored(self.stage.query.groups.by)

    @cached_property
    def condition_columns(self) -> list[str]:
        """The stored columns that conditions depend on."""
        return self._stored(name for condition in conditions_on(self.stage.query.dataset) for name in condition.columns)

    def _stored(self, names: Iterable[str]) -> list[str]:
        data = self.stage.query.dataset
        return [name for name in stored_columns(data, names) if name in self.stage.columns]

    @property
    def counting(self) -> list[Row]:
        """The keys, each in a group of its own as far as can be told."""
        free = [name for name in self.key_columns if name not in self.condition_columns]
        combined, meeting = self._combined(free), self._meeting
        if not meeting:
            return combined  # they do not count, and the audit says so
        tried = [key | meeting[i % len(meeting)] for i, key in enumerate(combined)]
        tried += [combined[i % len(combined)] | row for i, row in enumerate(meeting)]
        unique = _distinct(tried)
        data, groups = self.stage.query.dataset, self.stage.query.groups
        if not conditions_on(data) and not set(groups.by) & set(data.derived):
            return unique
        places = self.stage.place([self._template | key for key in unique])
        by_group: dict[object, Row] = {}
        for key, place in zip(unique, places, strict=True):
            if place is not None:
                by_group.setdefault(place.group, key)
        return list(by_group.values()) or unique

    def _combined(self, names: Sequence[str]) -> list[Row]:
        """Combinations of values of some columns: alternately those that others have as well, and strange ones."""
        public = self.stage.query.groups.public
        known: list[Row] = [{name: row[name] for name in names} for row in self.real]
        if public is not None and set(names) <= set(public.column_names):
            listed = public.select(names).to_pylist()
            known = [{name: text_of(value) for name, value in row.items()} for row in listed] + known
        made = key_rows(self._pools(names, self.most + 8), self.most + 8)
        mixed = [key for both in zip(known, made, strict=False) for key in both] if public is None else known
        every = [*mixed, *known[len(made) :], *made]
        return _distinct(every)

    def _pools(self, names: Sequence[str], most: int) -> dict[str, list[str | None]]:
        """For each column values that are known, that expressions name, strange ones, and as many more."""
        public, pools = self.stage.query.groups.public, {}
        for i, name in enumerate(names):
            dtype = self.stage.columns[name]
            listed: list[str | None] = [row[name] for row in self.real]
            if public is not None and name in public.column_names:
                listed += [text_of(value) for value in public[name].to_pylist()]
            more = (numbered(dtype, j) for j in range(most if i == 0 else max(_FEW, most // 4)))
            listed += [*named_values(self.stage, name), *strange(dtype), *(key for key in more if key is not None)]
            pools[name] = list(dict.fromkeys(listed))
        return pools

    @cached_property
    def _meeting(self) -> list[Row]:
        """Values with which rows meet the conditions; of nothing, if there are none."""
        names = self.condition_columns
        if not conditions_on(self.stage.query.dataset):
            return [{}]
        tried = [{name: row[name] for name in names} for row in self.real]
        tried += key_rows(self._pools(names, _TRIED_KEYS), _TRIED_KEYS)
        unique = _distinct(tried)
        # Each row is of another unit: of one unit, rows in several parts would not all count.
        rows = [self._template | unit_name(self.stage, i) | values for i, values in enumerate(unique)]
        counting = self.stage.which_count(rows)
        return [values for values, counts in zip(unique, counting, strict=True) if counts]

    @cached_property
    def _template(self) -> Row:
        return {name: ordinary(dtype) for name, dtype in self.stage.columns.items()}


class Values(NamedTuple):
    """Values at the lower ends of bounds and far beyond them, at the upper ends and beyond, and of all kinds."""

    low: list[Row]
    high: list[Row]
    strange: list[Row]


@dataclass(frozen=True, eq=False)
class MadeValues:
    """Values of the stored columns that are measured, but for some that are `fixed`; `row` has all others."""

    stage: Stage
    fixed: Collection[str]
    row: Row

    @cached_property
    def measured(self) -> Mapping[str, list[float]]:
        """The columns that are measured, and the bounds that they have."""
        result: dict[str, list[float]] = {}
        for aggregate in self.stage.query.aggregates:
            for measure in aggregate.measures:
                for column in measure.columns:
                    result.setdefault(column, [])
            for limits in aggregate.limits:
                result.setdefault(limits.column, []).extend((limits.low, limits.high))
        return result

    def of_columns(self) -> list[Values]:
        """Make the values of each column that is measured, as values of stored columns."""
        result = []
        derived = self.stage.query.dataset.derived
        for name, bounds in self.measured.items():
            if name in derived:
                result.append(self._derived(name, bounds))
            elif name in self.stage.columns and name not in self.fixed:
                low, high = ends(self.stage.columns[name], bounds)
                pools = low, high, [*low, *high, *strange(self.stage.columns[name])]
                result.append(Values(*([{name: value} for value in pool] for pool in pools)))
        return result

    def _derived(self, name: str, bounds: list[float]) -> Values:
        """Values of the columns behind a derived one, in the order of what the engine makes of them."""
        data = self.stage.query.dataset
        pools: dict[str, list[str | None]] = {}
        for column in stored_columns(data, [name]):
            if column in self.stage.columns and column not in self.fixed:
                dtype = self.stage.columns[column]
                low, high = ends(dtype, bounds) if dtype.is_number or dtype.kind == "boolean" else ([], [])
                listed = [*low, *high, *named_values(self.stage, column), *strange(dtype)]
                pools[column] = list(dict.fromkeys(listed))
        tried = key_rows(pools, _TRIED_VALUES)
        places = self.stage.place([self.row | values for values in tried], [name])
        numbers = ((None if place is None else place.values[0], i) for i, place in enumerate(places))
        order = [tried[i] for _, i in sorted((x, i) for x, i in numbers if x is not None and not math.isnan(x))]
        return Values(order[:2] or tried[:1], order[:-3:-1] or tried[:1], tried)


def _together(pools: list[list[Row]]) -> list[Row]:
    """Combine the pools into rows, one for each place in the longest pool; shorter ones begin again."""
    longest = max((len(pool) for pool in pools), default=1)
    return [{name: value for pool in pools for name, value in pool[i % len(pool)].items()} for i in range(longest)]


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
        return MadeKeys(self.stage, self.real, self.most).counting

    def counting_keys(self) -> list[Row]:
        """Select the keys with which rows count for certain, each in a group of its own."""
        places = self.stage.place([self._row(0, key) for key in self.keys])
        by_group = {place.group: key for key, place in zip(self.keys, places, strict=True) if place is not None}
        return list(by_group.values())

    @cached_property
    def values(self) -> Values:
        """Values of the columns that are measured and may be changed: not those that keys and conditions look at."""
        made = MadeValues(self.stage, {*self.unit.columns, *self.keys[0]}, self._row(0, self.keys[0])).of_columns()
        return Values(*(_together([values[kind] for values in made]) for kind in range(3)))

    def unit_of(self, row: Row) -> Any:
        """Identify the unit that a row is about; None if about nobody."""
        if self.unit.each_row:
            return id(row)
        names = tuple(row[name] for name in self.unit.columns)
        return None if None in names else names

    def pairs(self) -> Iterator[Pair]:
        """Make all pairs, for the relation of neighbours that the data set has."""
        others = self._others()
        for name, mine in (*self._of_made(), *self._of_real()):
            gone = {self.unit_of(row) for row in mine}
            yield self._pair(name, [row for row in others if self.unit_of(row) not in gone], mine)
        if not self.unit.each_row:
            nobody = [row | self._nameless(i) for i, row in enumerate(self._crowded(0, low=False))]
            yield Pair("rows of nobody", tuple(others), (*others, *nobody), of_nobody=True)
        if len(self.unit.columns) > 1:
            most = self.stage.query.groups.max_groups_per_unit
            rows = [self._row(0, key) for key in self.keys[: (_OWN + 1) * most]]
            for name, names in self._similar(rows[0]):
                yield self._pair(name, [row | names for row in rows[-most:]], rows[:-most] or rows)
        mine = self._crowded(0, low=False)
        if self.stage.query.dataset.neighbours == "change_one" and not self.unit.each_row:
            yield Pair("a unit exchanged for one with a single row", (*others, *mine), (*others, mine[-1]))
        yield from self._beyond()
        yield self._pair("a unit in a table with nobody else", [], mine)

    def _beyond(self) -> Iterator[Pair]:
        """Make pairs with values beyond the bounds among ordinary ones: with infinite ones they would not show."""
        calm = [self.ordinary(20 + i, key) for i, key in enumerate(self.keys[:4])]
        if not self.unit.each_row:
            yield self._pair("values beyond the bounds, among ordinary ones", calm, self._crowded(0, low=False))
            return
        beyond = [*self.values.low[1:], *self.values.high[1:], *self.values.strange[1:_ROWS]]
        for i, values in enumerate(_distinct(beyond)):
            name = f"a row with values beyond the bounds, or strange ones ({i + 1})"
            yield self._pair(name, calm, [self._row(8, self.keys[0] | values)])

    def _pair(self, name: str, rest: Sequence[Row], mine: Sequence[Row]) -> Pair:
        most = 1 if self.unit.each_row else len(mine)
        if self.stage.query.dataset.neighbours == "add_remove":
            return Pair(name, tuple(rest), (*rest, *mine[:most]))
        unit = {name: mine[0][name] for name in self.unit.columns}
        instead = [row | unit for row in self._crowded(4, low=True, first_key=3)]
        return Pair(f"{name}, exchanged", (*rest, *mine[:most]), (*rest, *instead[:most]))

    def _nameless(self, i: int) -> Row:
        """Leave empty one of the columns that name the unit, or all."""
        names = self.unit.columns
        return dict.fromkeys(names if i % (len(names) + 1) == len(names) else [names[i % (len(names) + 1)]])

    def _similar(self, row: Row) -> Iterator[tuple[str, Row]]:
        """Units that share all but one of the columns that name them; or whose names are the same if put together."""
        names = self.unit.columns
        for name in names:
            yield f"another unit with another {name}", {name: unit_name(self.stage, 50)[name]}
        texts = [name for name in names if self.stage.columns[name].kind == "text"]
        if len(texts) > 1:
            first, second = str(row[texts[0]]), str(row[texts[1]])
            yield "another unit with as much text", {texts[0]: first + second[:1], texts[1]: second[1:]}

    def _others(self) -> list[Row]:
        """The table that a unit is taken out of or added to: real rows, and a few made units."""
        strange = self.values.strange
        keys = list(enumerate(self.keys[:4]))
        crowd = [self._row(10 + i, key | strange[(i + j) % len(strange)]) for i in range(_CROWD) for j, key in keys]
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
        for more, name in enumerate(("as many rows as the limits", "one row more than the limits")):
            yield f"{name} in one group", self.heavy(6, self.keys[:1], more=more)
        yield "one row in every group", [self._row(7, key | self.values.high[0]) for key in self.keys[:_EVERY]]
        yield "groups of its own", [self._row(5, key) for key in self.keys[-3:]]

    def _crowded(self, number: int, *, low: bool, first_key: int = 0) -> list[Row]:
        """A unit with more groups and more rows than may count."""
        groups = self.stage.query.groups
        few = groups.max_groups_per_unit if groups.limits_groups else 2
        wanted = min(few + 2, MOST_GROUPS)
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
        return max(1, min(self.stage.query.groups.most_rows + 2, _MOST_ROWS // max(groups, 1)))

    def heavy(self, number: int, keys: Sequence[Row], *, low: bool = False, more: int = 0) -> list[Row]:
        """A unit with as many rows in each of these groups as may count, or more; values at the upper or lower ends."""
        values = (self.values.low if low else self.values.high)[0]
        rows = min(self.stage.query.groups.most_rows + more, _MOST_ROWS)
        return [self._row(number, key | values) for key in keys for _ in range(rows)]

    def ordinary(self, number: int, key: Row) -> Row:
        """A row of another unit in a group."""
        return self._row(number, key | self.values.low[0])

    def _row(self, unit: int, given: Row) -> Row:
        """A row of a made unit; columns that nobody asks about are as in a real row."""
        template = self.real[unit % len(self.real)] if self.real else {}
        others = {name: template.get(name, ordinary(dtype)) for name, dtype in self.stage.columns.items()}
        return others | given | unit_name(self.stage, unit)

    def can_name(self, units: int) -> bool:
        """Whether there are different names for so many units, where they have names."""
        return self.unit.each_row or len({tuple(unit_name(self.stage, i).values()) for i in range(units)}) == units
