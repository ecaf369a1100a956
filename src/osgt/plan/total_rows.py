"""The rows of a table with totals: the groups and the totals of every level, each total after its groups."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from osgt.estimation.sums import ManySum, NoiseSum
from osgt.noise import IntegerDistribution
from osgt.noise.error import Combination
from osgt.plan.reconciled import LevelNoises, LevelRows, distinct_noise, distinct_units
from osgt.plan.schemes import Combined, Scheme
from osgt.query.aggregates.base import Aggregate, Noisy
from osgt.query.aggregates.marks import Marks, marked_columns
from osgt.query.groups import OTHER, SUMMED_OVER, Groups, Level, Total, codes
from osgt.query.measures import Measure
from osgt.support.numeric import Integers


def with_totals(
    groups: Groups, aggregates: Sequence[Aggregate], rows: Sequence[Sequence[LevelRows]], marks: Marks | None
) -> tuple[pa.Table, pa.Table]:
    """Keys and columns of all levels, out of what `Reconciled.rows` gives."""
    assert groups.public is not None
    columns = [level_columns(groups, aggregates, classes, marks) for classes in rows]
    keys = [_keys(groups, level) for level in [*reversed(groups.levels), None]]
    order = pa.array(order_of_rows(groups))
    return pa.concat_tables(keys).take(order), pa.concat_tables(columns).take(order)


def order_of_rows(groups: Groups) -> NDArray[np.intp]:
    """The row that each row of a table is, counted through the levels from the coarsest to the groups."""
    assert groups.public is not None
    of_groups = [codes(groups.public[name]) for name in groups.by]
    ranks = [_ranks(groups, level, of_groups) for level in [*reversed(groups.levels), None]]
    return np.lexsort(np.concatenate(ranks, axis=1)[::-1])


def level_columns(
    groups: Groups, aggregates: Sequence[Aggregate], classes: Sequence[LevelRows], marks: Marks | None
) -> pa.Table:
    """The columns of a level, its groups in their order."""
    tables = []
    for rows in classes:
        columns = [marked_columns(aggregate, rows.of(aggregate, groups), marks) for aggregate in aggregates]
        tables.append(pa.table({name: array for some in columns for name, array in some.items()}))
    places = np.concatenate([rows.places for rows in classes])
    return pa.concat_tables(tables).take(pa.array(np.argsort(places)))


def _keys(groups: Groups, level: Level | None) -> pa.Table:
    """The keys of a level; those that are summed over are missing, and named."""
    public = groups.public
    assert public is not None
    known = public if level is None else level.keys
    assert known is not None
    size = known.num_rows
    columns = {
        name: known[name] if name in known.column_names else pa.nulls(size, public.schema.field(name).type)
        for name in groups.by
    }
    return pa.table({**columns, SUMMED_OVER: summed_over(groups, level, size)})


def summed_over(groups: Groups, level: Level | None, size: int) -> pa.Array:
    """Name the keys that the totals of a level are summed over: "year"; missing for the groups themselves."""
    over = "" if level is None else ", ".join(name for name in groups.by if name not in level.by)
    return pa.array([over or None] * size, pa.string())


def _ranks(groups: Groups, level: Level | None, of_groups: Sequence[NDArray[np.intp]]) -> NDArray[np.intp]:
    """The place of each row by each key: that of the key in the order given, totals last."""
    if level is None or level.places is None:
        return np.stack(of_groups)
    ranks = np.full((len(groups.by), level.size), np.iinfo(np.intp).max)
    for i, name in enumerate(groups.by):
        if name in level.by:
            ranks[i, level.places] = of_groups[i]
    return ranks


@dataclass(frozen=True, eq=False)
class ChosenGroups:
    """Groups that are chosen by their size: the total of all rows, and of those that are in no group that is shown.

    Groups are shown whose noise on the count that they are chosen by, the `selector`, was not too far down. So the
    noise of what is left beside them is not zero on average, and by how much depends on the data: numbers that are made
    from that count have no interval there.
    """

    groups: Groups
    scheme: Scheme
    laws: Mapping[Measure, IntegerDistribution]
    asked: tuple[Measure, ...]
    selector: Measure | None

    @property
    def level(self) -> Level:
        """The only level: all rows."""
        [level] = self.groups.levels
        return level

    def total_noises(self) -> LevelNoises:
        """The noise of the total."""
        return self._noises(0)

    def _noises(self, groups: int) -> LevelNoises:
        """The noise of the total less so many groups."""

        def noise(parts: Combined) -> NoiseSum:
            terms = [(part, self.laws[Total(m, self.level)], 1) for m, part in parts.items()]
            terms += [(part, self.laws[m], groups) for m, part in parts.items() if groups]
            return ManySum(tuple(terms)) if groups else Combination(tuple((c, law) for c, law, _ in terms))

        return LevelNoises.of(self.scheme, self._added, noise)

    @property
    def _added(self) -> list[Measure]:
        """The numbers of which a total was measured."""
        return [
            asked for asked in self.asked if all(Total(m, self.level) in self.laws for m in self.scheme.combined[asked])
        ]

    def distinct_noises(self) -> dict[Measure, NoiseSum]:
        """The noise of distinct units in all."""
        result = distinct_noise(self.level, self.laws)
        return {} if result is None else dict.fromkeys(self.asked, result)

    def columns(
        self,
        aggregates: Sequence[Aggregate],
        shown: Noisy,
        measured: Mapping[Measure, Integers],
        marks: Marks | None = None,
    ) -> list[dict[str, pa.Array]]:
        """The columns of the groups that are not shown, and those of all rows."""
        totals = {m: measured[Total(m, self.level)] for m in self.scheme.measured if Total(m, self.level) in measured}
        rest = {m: numbers - self.level.summed(measured[m]) for m, numbers in totals.items()}
        shown_groups = next(len(numbers) for m, numbers in measured.items() if not m.for_table)
        total = self._noisy(shown, totals, self._noises(0))
        other = self._noisy(shown, rest, self._noises(shown_groups))
        other = replace(other, whole=_difference(total, shown, self._added))
        distinct = distinct_units(self.level, measured, self.laws)
        result: list[dict[str, pa.Array]] = [{}, {}]
        for aggregate in aggregates:
            if aggregate.adds_up(self.groups):
                result[0] |= self._without_intervals(aggregate, marked_columns(aggregate, other, marks))
                result[1] |= marked_columns(aggregate, total, marks)
            elif distinct is not None:
                columns = marked_columns(aggregate, distinct.at(np.zeros(1, np.intp), shown), marks)
                result[1] |= columns
                result[0] |= {name: pa.nulls(1, array.type) for name, array in columns.items()}
        return result

    def _without_intervals(self, aggregate: Aggregate, columns: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
        """The columns of an aggregate; if it is made from the count that groups are chosen by, the values alone."""
        if not any(self.selector in self.scheme.combined[measure] for measure in aggregate.measures):
            return dict(columns)
        ends = {f"{name}_{end}" for name in aggregate.names for end in ("low", "high", "mark")}
        return {name: pa.nulls(1, array.type) if name in ends else array for name, array in columns.items()}

    def _noisy(self, shown: Noisy, measured: Mapping[Measure, Integers], noises: LevelNoises) -> Noisy:
        values = {asked: self.scheme.values_of(asked, measured) for asked in self._added}
        trees = {}
        for asked, tree in noises.trees.items():
            total = tree.layout.total
            numbers = [
                np.asarray(measured[level] * float(self.scheme.step(level)), np.float64) for level in tree.layout.levels
            ]
            trees[asked] = tree.with_values(numbers, None if total is None else values[total])
        return replace(shown, values=values, noises=noises.numbers, trees=trees)


def _difference(total: Noisy, shown: Noisy, asked: Iterable[Measure]) -> dict[Measure, Integers]:
    """Subtract what is shown of the groups from what is shown of a total."""
    result = {}
    for measure in asked:
        pairs = zip(total.numbers(measure), shown.numbers(measure), strict=True)
        numbers = [whole.whole(total.confidence)[0] - part.whole(total.confidence)[0].sum() for whole, part in pairs]
        result[measure] = np.stack(numbers, axis=1)
    return result


def joined(keys: pa.Table, columns: pa.Table | Mapping[str, pa.Array]) -> pa.Table:
    """Keys and columns side by side."""
    named = columns if isinstance(columns, Mapping) else dict(zip(columns.column_names, columns.columns, strict=True))
    return pa.table([*keys.columns, *named.values()], names=[*keys.column_names, *named])


def with_others(table: pa.Table, groups: Groups, columns: Sequence[Mapping[str, pa.Array]]) -> pa.Table:
    """The groups that are shown, and after them the others together and all rows."""
    shown = table.select(list(groups.by))
    numbers = table.drop_columns(list(groups.by))
    missing = {name: pa.nulls(2, shown.schema.field(name).type) for name in groups.by}
    over = pa.array([OTHER, ", ".join(groups.by)], pa.string())
    keys = pa.concat_tables(
        [
            shown.append_column(SUMMED_OVER, pa.nulls(table.num_rows, pa.string())),
            pa.table({**missing, SUMMED_OVER: over}),
        ]
    )
    rows = [pa.table({name: column[name] for name in numbers.column_names}) for column in columns]
    return joined(keys, pa.concat_tables([numbers, *rows]))
