"""What is measured about the bounds of a release: how many rows they leave out, of how many units, and values beyond.

A unit may have any number of rows, so no total of rows can be measured as it is. Units are put into places by the
number of their rows: the place e for those with at most e rows, and more than the place before has. A unit with n rows
counts there as n/e, in whole parts of SCALE, split by what becomes of its rows. Places times parts are the totals
again, and a unit moves the histogram by SCALE at most, whatever it holds.

Groups and rows are left out at random. What is measured is the share to be expected, as a unit's own rows decide it: of
the rows of a unit in g groups the part 1 - max_groups/g. Over many units chance makes no difference.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from osgt.calibration import Part
from osgt.tables.aggregates.base import Aggregate, Limits
from osgt.tables.bounding import UNIT, saturated
from osgt.tables.bounds.edges import SCALE, count_edges
from osgt.tables.engines import engine_on
from osgt.tables.groups import Groups, Neighbours
from osgt.tables.values import as_float, one_if, present

Integers = NDArray[np.int64]

#: Places of units by their rows, each at most 1.5 times the one before. More rows of a unit than the last are ignored.
PLACES = count_edges()

#: What becomes of rows: left out by max_groups, by max_rows_per_group, or kept. Of values: beyond bounds, within, none.
FATES = 3

#: Kinds of units: by whether they are in more than max_groups groups, and have more than max_rows_per_group in one.
KINDS = 4


#: Units are counted once whatever they hold: half as exactly as rows is enough.
_LIGHT = 1 / 4


@dataclass(frozen=True)
class LeftOutMeasures:
    """What is measured: rows (or units in groups, where only these count), kinds of units, values of some columns."""

    groups: Groups
    limits: tuple[Limits, ...]

    @property
    def names(self) -> list[str]:
        """The histograms, in order."""
        return ["rows", "units", *(f"values of {limits.column}" for limits in self.limits)]

    @property
    def columns(self) -> list[str]:
        """The columns whose values are looked at."""
        return list(dict.fromkeys(limits.column for limits in self.limits))

    def parts(self, neighbours: Neighbours) -> dict[str, Part]:
        """A unit is in one place of each histogram; exchanged for another, in one more."""
        coordinates = 1 if neighbours == "add_remove" else 2
        rows, units = Part(SCALE, coordinates), Part(1, coordinates, _LIGHT)
        return {name: units if name == "units" else rows for name in self.names}

    def numbers(self, rows: ir.Table, keys: Sequence[str], values: Mapping[str, str]) -> ir.Table:
        """The query: for each place what all units together come to there, and how much of it has each fate."""
        units = self._units(rows, list(keys), values)
        size, kept = as_float(units["size"]), ibis.least(float(self.groups.max_groups) / as_float(units["groups"]), 1.0)
        place = _place(size)
        whole = _part(size / place, ibis.literal(SCALE, type="int64"))
        split = {"rows": (1.0 - kept, kept * as_float(units["crowd"]) / size)}
        split |= {
            f"values_{i}": (as_float(units[f"beyond_{i}"]) / size, as_float(units[f"within_{i}"]) / size)
            for i in range(len(self.limits))
        }
        columns: dict[str, Any] = {"place": place.cast("int64"), "all": whole}
        for name, (first, second) in split.items():
            columns[f"{name}_0"] = _part(first * size / place, whole)
            columns[f"{name}_1"] = _part(second * size / place, whole - columns[f"{name}_0"])
        more, crowded = units["groups"] > self.groups.max_groups, units["crowd"] > 0
        for i in range(KINDS):
            kind = (more if i & 1 else ~more) & (crowded if i & 2 else ~crowded)
            columns[f"kind_{i}"] = one_if(kind)
        table, total = units.select(**columns), engine_on(rows.get_backend()).total
        sums = {name: saturated(total(table[name].cast("int64"))) for name in columns if name != "place"}
        return table.group_by("place").agg(**sums)

    def _units(self, rows: ir.Table, keys: list[str], values: Mapping[str, str]) -> ir.Table:
        """For each unit its groups, its rows, those too many in their groups, and its values beyond and within bounds.

        Two plain aggregations, which take less time than a choice of groups would.
        """
        if self.groups.each_row:
            one, none = (ibis.literal(number, type="int64") for number in (1, 0))
            outside = {name: one_if(holds) for name, holds in self._outside(rows, values).items()}
            return rows.select(groups=one, size=one, crowd=none, **outside)
        rows = rows.filter(rows[UNIT].notnull())
        counted = {name: rows.count(where=holds) for name, holds in self._outside(rows, values).items()}
        pairs = rows.group_by([UNIT, *keys]).agg(size=rows.count().cast("int64"), **counted)
        if self.groups.max_rows is None:
            # Where rows do not count, a unit in a group is all that can be left out.
            pairs = pairs.mutate(size=ibis.literal(1, type="int64"))
        sums = {name: pairs[name].sum().cast("int64") for name in counted}
        return pairs.group_by(UNIT).agg(
            groups=pairs.count().cast("int64"),
            size=pairs["size"].sum().cast("int64"),
            crowd=ibis.greatest(pairs["size"] - self.groups.rows, 0).sum().cast("int64"),
            **sums,
        )

    def _outside(self, rows: ir.Table, values: Mapping[str, str]) -> dict[str, Any]:
        """Whether a value is there, and beyond or within its bounds."""
        found: dict[str, Any] = {}
        for i, limits in enumerate(self.limits):
            column = rows[values[limits.column]]
            there, number = present(column), as_float(column)
            outside = (number < float(limits.low)) | (number > float(limits.high))
            found[f"beyond_{i}"] = (there & outside).fill_null(False)
            found[f"within_{i}"] = (there & ~outside).fill_null(False)
        return found

    def exact(self, answer: pa.Table) -> dict[str, Integers]:
        """The numbers of each histogram: a row for each place and a column for each fate, or the kinds of units."""
        columns = {name: np.asarray(answer[name].cast(pa.int64()).to_numpy()) for name in answer.column_names}
        at = np.searchsorted(np.asarray(PLACES), columns["place"])
        found = {}
        for name, short in zip(
            self.names, ["rows", "kind", *(f"values_{i}" for i in range(len(self.limits)))], strict=True
        ):
            if name == "units":
                found[name] = np.array([columns[f"{short}_{i}"].sum() for i in range(KINDS)], dtype=np.int64)
                continue
            first, second = columns[f"{short}_0"], columns[f"{short}_1"]
            numbers = np.zeros((len(PLACES), FATES), dtype=np.int64)
            numbers[at] = np.stack([first, second, columns["all"] - first - second], axis=1)
            found[name] = numbers
        return found


def _place(size: Any) -> Any:
    """The least of the places that is not smaller than a number of rows, or the last one."""
    *before, last = (float(place) for place in PLACES)
    return ibis.cases(*((size <= place, place) for place in before), else_=last).cast("float64")


def _part(part: Any, most: Any) -> Any:
    """A part of a unit in whole parts of SCALE, rounded down.

    Whatever the engine's arithmetic makes of it, it is between 0 and `most`, so that no unit is more than SCALE.
    """
    return ibis.least(ibis.greatest((part * SCALE).floor().cast("int64"), 0), most)


def left_out_measures(groups: Groups, aggregates: Sequence[Aggregate]) -> LeftOutMeasures | None:
    """What there is to measure; None if the bounds can leave nothing out."""
    if all(aggregate.kind == "count_units" for aggregate in aggregates):
        groups = replace(groups, max_rows=None)
    limits = {(each.column, each.low, each.high): each for aggregate in aggregates for each in aggregate.limits}
    first = {each.column: each for each in reversed(limits.values())}
    if not (can_lose_groups(groups) or can_lose_rows(groups) or first):
        return None
    return LeftOutMeasures(groups, tuple(reversed(first.values())))


def can_lose_groups(groups: Groups) -> bool:
    """Whether a unit may be in more groups than it counts in, as far as the number of groups is public."""
    return bool(groups.by) and not groups.each_row and (groups.known is None or groups.max_groups < groups.known)


def can_lose_rows(groups: Groups) -> bool:
    """Whether a unit may have more rows in a group than count."""
    return groups.max_rows is not None and not groups.each_row
