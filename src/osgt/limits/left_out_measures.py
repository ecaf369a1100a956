"""The measures of what the bounds of a release leave out: how many rows, of how many units, and values beyond.

A unit may have any number of rows, so no total of rows can be measured as it is. Units are put into places by the
number of their rows: the place e for those with at most e rows, and more than the place before has. Each row of a unit
counts ⌊SCALE/e⌋ there, split by what becomes of it. Numbers divided by that are rows again, and a unit moves the
histogram by SCALE at most, whatever it holds.

The rows are those that the release itself bounds, in the same query: what is told is what was left out, by the groups
that were chosen. Values are looked at in these groups, and units have their place there by their rows in them.

Values that do not fit their declared types are counted in all rows of a unit, in a query of its own: they may be why a
condition or a public key left a row out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa

from osgt.calibration import Part
from osgt.data.reading import Grouped
from osgt.data.unit import Neighbours
from osgt.limits.bounding import UNIT
from osgt.limits.histogram import SCALE, count_edges
from osgt.query.aggregates.base import Aggregate, Limits
from osgt.query.groups import Groups
from osgt.query.values import as_float, one_if, present
from osgt.support.arrays import LARGEST_SUM, Integers

#: Places of units by their rows, each at most 1.5 times the one before. More rows of a unit than the last are ignored.
PLACES = count_edges()
_LAST = PLACES[-1]

#: What a row counts at each place.
WEIGHTS = SCALE // np.asarray(PLACES, dtype=np.int64)

#: What becomes of rows: left out by max_groups, by max_rows_per_group, or kept. Of values: beyond bounds, within, none.
FATES = 3

#: Kinds of units: by whether they are in more than max_groups groups, and have more than max_rows_per_group in one.
KINDS = 4


#: For how many units lose something, and for values that do not fit, half as exactly as for rows is enough.
_LIGHT = 1 / 4


@dataclass(frozen=True)
class LeftOutMeasures:
    """The measures: rows (or units in groups, where only these count), kinds of units, values of some columns.

    `misfits` are columns of which it is measured how many values do not fit their declared types.
    """

    groups: Groups
    limits: tuple[Limits, ...]
    misfits: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """The histograms, in order."""
        return [*(["rows", "units"] if self.by_limits else []), *self.names_of_values, *self.names_of_misfits]

    @property
    def by_limits(self) -> bool:
        """Whether limits can leave something out, so that it is asked about the rows that a release bounds."""
        return can_lose_groups(self.groups) or can_lose_rows(self.groups) or bool(self.limits)

    @property
    def names_of_values(self) -> list[str]:
        """The names of the histograms of values beyond bounds."""
        return [f"values of {limits.column}" for limits in self.limits]

    @property
    def names_of_misfits(self) -> list[str]:
        """The names of the histograms of values that do not fit their types."""
        return [f"values of {column} that do not fit" for column in self.misfits]

    @property
    def columns(self) -> list[str]:
        """The columns whose values are looked at."""
        return list(dict.fromkeys(limits.column for limits in self.limits))

    def parts(self, neighbours: Neighbours) -> dict[str, Part]:
        """Give the sensitivity: a unit is in one place of each histogram; exchanged for another, in one more."""
        coordinates = 1 if neighbours == "add_remove" else 2
        found = dict.fromkeys(self.names, Part(SCALE, coordinates))
        found |= dict.fromkeys(self.names_of_misfits, Part(SCALE, coordinates, _LIGHT))
        return found | ({"units": Part(1, coordinates, _LIGHT)} if self.by_limits else {})

    @property
    def all_groups(self) -> bool:
        """Whether all groups of a unit must be known: where rows do not count, a unit in a group can be left out."""
        return self.groups.max_rows is None and not self.groups.each_row

    def of_unit(self, rows: ir.Table, values: Mapping[Any, str]) -> dict[str, Any]:
        """Count each unit's rows, those in the groups that are kept, those that are kept; and values in the groups.

        `rows` are as in `bounding.Told`.
        """
        outside = self._outside(rows, values)
        if self.groups.each_row:
            one = ibis.literal(1, type="int64")
            return {"size": one, "chosen": one, "kept": one, **{name: one_if(holds) for name, holds in outside.items()}}
        if self.all_groups:
            return {"size": (rows["group_rank"].max() + 1).cast("int64")}
        return {
            "size": rows["unit_rows"].max().cast("int64"),
            "chosen": rows.count().cast("int64"),
            "kept": rows["part"].sum(),
            **{name: rows.count(where=holds).cast("int64") for name, holds in outside.items()},
        }

    def grouped(self, units: ir.Table) -> Grouped:
        """Count the rows of all units together at each place, and how many of them have which fate."""
        rows = units["size"]
        if self.all_groups:
            in_groups = kept = ibis.least(rows, self.groups.max_groups)
        else:
            # A sum of parts is a whole number, but for rounding.
            in_groups, kept = units["chosen"], (units["kept"].cast("float64") + 0.5).floor().cast("int64")
        size, chosen = ibis.least(rows, _LAST), ibis.least(in_groups, _LAST)
        inside = ibis.least(_scaled(in_groups, rows), size)
        numbers = {
            "size": size,
            "inside": inside,
            "kept": ibis.least(_scaled(kept, rows), inside),
            "chosen": chosen,
        }
        for i in range(len(self.limits)):
            beyond = ibis.least(_scaled(units[f"beyond_{i}"], in_groups), chosen)
            within = _scaled(units[f"within_{i}"], in_groups)
            numbers |= {f"beyond_{i}": beyond, f"within_{i}": ibis.least(within, chosen - beyond)}
        more, crowded = in_groups < rows, kept < in_groups
        for i in range(KINDS):
            kind = (more if i & 1 else ~more) & (crowded if i & 2 else ~crowded)
            numbers[f"kind_{i}"] = one_if(kind)
        places = {"place": _place(rows), "place_of_chosen": _place(in_groups)}
        # None is beyond a million, so that 64 bits are enough for any number of units.
        return Grouped(
            places, {name: number.cast("int64") for name, number in numbers.items()}, lambda each: each.sum()
        )

    def fitting(self, rows: ir.Table) -> ir.Table:
        """Count the rows of all units together at each place, and the values that do not fit, or do.

        `rows` are those of `misfits.fitting_rows`: all rows of a unit count, whatever becomes of them.
        """
        names = [f"{what}_{i}" for i in range(len(self.misfits)) for what in ("wrong", "fits")]
        if UNIT in rows.columns:
            rows = rows.filter(rows[UNIT].notnull())
            counts = {name: rows.count(where=rows[name]).cast("int64") for name in names}
            units = rows.group_by(UNIT).agg(size=rows.count().cast("int64"), **counts)
        else:
            units = rows.select(size=ibis.literal(1, type="int64"), **{name: one_if(rows[name]) for name in names})
        size = ibis.least(units["size"], _LAST)
        numbers = {"size": size}
        for i in range(len(self.misfits)):
            wrong = ibis.least(_scaled(units[f"wrong_{i}"], units["size"]), size)
            fits = ibis.least(_scaled(units[f"fits_{i}"], units["size"]), size - wrong)
            numbers |= {f"wrong_{i}": wrong, f"fits_{i}": fits}
        numbers = {name: number.cast("int64") for name, number in numbers.items()}
        return Grouped({"place": _place(units["size"])}, numbers, lambda each: each.sum()).table(units)

    def exact_fitting(self, answer: pa.Table) -> dict[str, Integers]:
        """The numbers of the histograms of values that do not fit, by place and fate: wrong, right, none."""
        columns = {name: np.asarray(answer[name].cast(pa.int64()).to_numpy()) for name in answer.column_names}
        found = {}
        for i, name in enumerate(self.names_of_misfits):
            wrong, fits = columns[f"wrong_{i}"], columns[f"fits_{i}"]
            found[name] = _at(columns["place"], wrong, fits, columns["size"] - wrong - fits)
        return found

    def _outside(self, rows: ir.Table, values: Mapping[Any, str]) -> dict[str, Any]:
        """Mark the values that are there as beyond or within their bounds."""
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
        kinds = np.array([columns[f"kind_{i}"].sum() for i in range(KINDS)], dtype=np.int64)
        size, inside, kept = columns["size"], columns["inside"], columns["kept"]
        found = {"rows": _at(columns["place"], size - inside, inside - kept, kept), "units": kinds}
        for i, name in enumerate(self.names_of_values):
            beyond, within = columns[f"beyond_{i}"], columns[f"within_{i}"]
            found[name] = _at(columns["place_of_chosen"], beyond, within, columns["chosen"] - beyond - within)
        return found


def _at(place: Integers, *fates: Integers) -> Integers:
    """The rows with each fate, at their places and times the weights of these."""
    at, numbers = np.searchsorted(np.asarray(PLACES), place), np.zeros((len(PLACES), FATES), dtype=np.int64)
    np.add.at(numbers, at, np.stack(fates, axis=1))
    most = LARGEST_SUM // WEIGHTS[:, None]
    return np.minimum(numbers, most) * WEIGHTS[:, None]


def _place(size: Any) -> Any:
    """The least of the places that is not smaller than a number of rows, or the last one."""
    *before, last = (ibis.literal(place, type="int64") for place in PLACES)
    return ibis.cases(*((size <= place, place) for place in before), else_=last)


def _scaled(part: Any, size: Any) -> Any:
    """A part of a unit's rows; of a unit with more than the last place has, the same share of that."""
    share = (as_float(part) * float(_LAST) / as_float(size)).floor().cast("int64")
    return ibis.ifelse(size > _LAST, share, part)


def left_out_measures(
    groups: Groups, aggregates: Sequence[Aggregate], misfits: tuple[str, ...] = ()
) -> LeftOutMeasures | None:
    """Gather what there is to measure; None if the bounds can leave nothing out, and all values fit their types."""
    if all(aggregate.kind == "count_units" for aggregate in aggregates):
        groups = replace(groups, max_rows=None)
    limits = {(each.column, each.low, each.high): each for aggregate in aggregates for each in aggregate.limits}
    first = {each.column: each for each in reversed(limits.values())}
    found = LeftOutMeasures(groups, tuple(reversed(first.values())), misfits)
    return found if found.names else None


def can_lose_groups(groups: Groups) -> bool:
    """Whether a unit may be in more groups than it counts in, as far as the number of groups is public."""
    return (
        bool(groups.by)
        and not groups.each_row
        and (groups.public_group_count is None or groups.max_groups < groups.public_group_count)
    )


def can_lose_rows(groups: Groups) -> bool:
    """Whether a unit may have more rows in a group than count."""
    return groups.max_rows is not None and not groups.each_row
