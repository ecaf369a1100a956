"""What the bounds of a release left out, measured in the release itself with noise of its own.

A unit may have any number of rows, so no total of rows can be measured as it is. Units are put into a histogram by the
number of their rows (`bounds.edges`), and in each place a unit is split by what became of its rows: all its parts
together are SCALE. Places times parts are the totals again, and the histogram moves by SCALE whatever a unit holds.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from osgt.calibration import Part
from osgt.noise import IntegerLaw
from osgt.tables.aggregates.base import Aggregate, Limits
from osgt.tables.bounding import UNIT, saturated
from osgt.tables.bounds.edges import SCALE, count_edges
from osgt.tables.bounds.histogram import Histogram
from osgt.tables.bounds.measuring import placed
from osgt.tables.bounds.share import Share, share_of
from osgt.tables.engines import engine_on
from osgt.tables.groups import Groups, Neighbours
from osgt.tables.values import as_float, one_if, present

Integers = NDArray[np.int64]

#: Places of units by their rows; each is about twice the one before.
EDGES = count_edges(factor=2.0)

#: What becomes of rows: left out by max_groups, by max_rows_per_group, or kept. Of values: beyond bounds, within, none.
_FATES = 3

#: Kinds of units: by whether max_groups and max_rows_per_group left something of them out.
_KINDS = 4

#: Intervals as wide as this say nothing.
_VAGUE = 0.5

#: Shares above this are worth a warning.
_MUCH = 0.05


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
        return {name: Part(1 if name == "units" else SCALE, coordinates) for name in self.names}

    def numbers(self, rows: ir.Table, keys: Sequence[str], values: Mapping[str, str], salt: int) -> ir.Table:
        """The query: for each place the parts of units there. The same groups are left out as by the release."""
        units = self._units(rows.filter(rows[UNIT].notnull()), list(keys), values, salt)
        below, upper = placed(units["size"], EDGES)
        split = {"rows": (units["by_groups"], units["by_rows"])}
        split |= {f"values_{i}": (units[f"beyond_{i}"], units[f"within_{i}"]) for i in range(len(self.limits))}
        shifted, total = engine_on(rows.get_backend()).shifted, engine_on(rows.get_backend()).total
        columns: dict[str, Any] = {"place": below.cast("int64")}
        for name, fates in split.items():
            first = _share(fates[0], units["size"], ibis.literal(SCALE, type="int64"))
            second = _share(fates[1], units["size"], SCALE - first)
            for i, share in enumerate((first, second, SCALE - first - second)):
                columns[f"{name}_{i}_above"] = shifted(share * upper, SCALE.bit_length() - 1)
                columns[f"{name}_{i}_below"] = shifted(share * (SCALE - upper), SCALE.bit_length() - 1)
        more, crowded = units["by_groups"] > 0, units["by_rows"] > 0
        for i in range(_KINDS):
            kind = (more if i & 1 else ~more) & (crowded if i & 2 else ~crowded)
            columns[f"kind_{i}"] = one_if(kind)
        table = units.select(**columns)
        sums = {name: saturated(total(table[name].cast("int64"))) for name in columns if name != "place"}
        return table.group_by("place").agg(**sums)

    def _units(self, rows: ir.Table, keys: list[str], values: Mapping[str, str], salt: int) -> ir.Table:
        """For each unit its rows, those left out by either limit, and its values beyond and within bounds."""
        counted: dict[str, Any] = {}
        for i, limits in enumerate(self.limits):
            column = rows[values[limits.column]]
            there, number = present(column), as_float(column)
            outside = (number < float(limits.low)) | (number > float(limits.high))
            counted[f"beyond_{i}"] = one_if((there & outside).fill_null(False)).sum().cast("int64")
            counted[f"within_{i}"] = one_if((there & ~outside).fill_null(False)).sum().cast("int64")
        pairs = rows.group_by([UNIT, *keys]).agg(size=rows.count(), **counted)
        pairs = pairs.mutate(rank=ibis.literal(0, type="int64"))
        if keys:
            hashed = engine_on(rows.get_backend()).hashed(salt, [pairs[name] for name in (UNIT, *keys)])
            pairs = pairs.mutate(choice=hashed)
            pairs = pairs.mutate(rank=ibis.row_number().over(group_by=UNIT, order_by=["choice", *keys]).cast("int64"))
        # Where rows do not count, a unit in a group is all that can be left out.
        size = ibis.literal(1, type="int64") if self.groups.max_rows is None else pairs["size"].cast("int64")
        pairs = pairs.mutate(number=size)
        kept = pairs["rank"] < self.groups.max_groups
        crowd = ibis.greatest(pairs["number"] - self.groups.rows, 0)
        sums = {name: pairs[name].sum().cast("int64") for name in counted}
        return pairs.group_by(UNIT).agg(
            size=pairs["number"].sum().cast("int64"),
            by_groups=kept.ifelse(0, pairs["number"]).sum().cast("int64"),
            by_rows=kept.ifelse(crowd, 0).sum().cast("int64"),
            **sums,
        )

    def exact(self, answer: pa.Table) -> dict[str, Integers]:
        """The numbers of each histogram: a row for each place and a column for each fate, or the kinds of units."""
        columns = {name: np.asarray(answer[name].cast(pa.int64()).to_numpy()) for name in answer.column_names}
        found = {"units": np.array([columns[f"kind_{i}"].sum() for i in range(_KINDS)], dtype=np.int64)}
        for name, short in zip(
            self.names, ["rows", "", *(f"values_{i}" for i in range(len(self.limits)))], strict=True
        ):
            if name == "units":
                continue
            numbers = np.zeros((len(EDGES), _FATES), dtype=np.int64)
            for i in range(_FATES):
                np.add.at(numbers[:, i], columns["place"], columns[f"{short}_{i}_below"])
                np.add.at(numbers[:, i], columns["place"] + 1, columns[f"{short}_{i}_above"])
            found[name] = numbers
        return found


def _share(part: Any, whole: Any, most: Any) -> Any:
    """The part of SCALE that a part of a unit's rows comes to, rounded down.

    Whatever the engine's arithmetic makes of it, it is between 0 and `most`, so that no unit is more than SCALE.
    """
    share = (part.cast("float64") / whole.cast("float64") * SCALE).floor().cast("int64")
    return ibis.least(ibis.greatest(share, 0), most)


def left_out_measures(groups: Groups, aggregates: Sequence[Aggregate]) -> LeftOutMeasures | None:
    """What there is to measure; None if the bounds can leave nothing out."""
    limits = {(each.column, each.low, each.high): each for aggregate in aggregates for each in aggregate.limits}
    first = {each.column: each for each in reversed(limits.values())}
    can_lose_groups = bool(groups.by) and (groups.known is None or groups.max_groups < groups.known)
    if not (can_lose_groups or groups.max_rows is not None or first):
        return None
    return LeftOutMeasures(groups, tuple(reversed(first.values())))


@dataclass(frozen=True, eq=False)
class LeftOut:
    """The shares that the bounds of a release left out, each with its noise interval.

    `by_max_groups` and `by_max_rows_per_group` are shares of the rows, or of the units in groups where only these
    count; `units_by_…` are shares of the units of which something was left out; `values` are shares of each column's
    values that were beyond its bounds.
    """

    unit: str
    groups: Groups
    by_max_groups: Share
    by_max_rows_per_group: Share
    units_by_max_groups: Share
    units_by_max_rows_per_group: Share
    values: Mapping[str, Share]
    limits: tuple[Limits, ...]
    confidence: float

    @classmethod
    def of(
        cls,
        measured: LeftOutMeasures,
        noisy: Mapping[str, Integers],
        laws: Mapping[str, IntegerLaw],
        unit: str,
        confidence: float,
    ) -> "LeftOut":
        """What noisy numbers say."""
        rows = {i: _fate(noisy["rows"], laws["rows"], [i], range(_FATES), confidence) for i in range(2)}
        units = {i: _kind(noisy["units"], laws["units"], i, confidence) for i in (1, 2)}
        values = {
            limits.column: _fate(noisy[name], laws[name], [0], (0, 1), confidence)
            for limits, name in zip(measured.limits, measured.names[2:], strict=True)
        }
        return cls(unit, measured.groups, rows[0], rows[1], units[1], units[2], values, measured.limits, confidence)

    def of_columns(self, columns: Collection[str]) -> "LeftOut":
        """The same without what it says about the values of other columns."""
        limits = tuple(each for each in self.limits if each.column in columns)
        return replace(self, limits=limits, values={each.column: self.values[each.column] for each in limits})

    @property
    def rows_in_words(self) -> str:
        """What is counted."""
        return "rows" if self.groups.max_rows is not None else f"appearances of a {self.unit} in a group"

    @property
    def _told(self) -> list[tuple[Share, str, str]]:
        """Each share, what became of it, and what would help."""
        found = []
        groups = self.groups
        if groups.by and not groups.each_row and (groups.known is None or groups.max_groups < groups.known):
            found.append(
                (
                    self.by_max_groups,
                    f"of the {self.rows_in_words} were left out because a {self.unit} appears in more than "
                    f"{groups.max_groups:,} groups",
                    "a larger max_groups or coarser groups",
                )
            )
        if groups.max_rows is not None and not groups.each_row:
            where = "in a group" if groups.by else "in all"
            found.append(
                (
                    self.by_max_rows_per_group,
                    f"of the rows were left out because a {self.unit} has more than {groups.max_rows:,} rows {where}",
                    "a larger max_rows_per_group",
                )
            )
        for limits in self.limits:
            found.append(
                (
                    self.values[limits.column],
                    f"of the values of {limits.column} were outside {limits.low:,} to {limits.high:,}",
                    f"wider bounds for {limits.column}",
                )
            )
        return found

    @property
    def sentences(self) -> list[str]:
        """In words, one sentence for each bound."""
        return [
            f"About {share} {words}."
            if share.high - share.low < _VAGUE
            else f"Too little could be measured to say how much {words} (between {share.low:.0%} and {share.high:.0%})."
            for share, words, _ in self._told
        ]

    @property
    def warnings(self) -> list[str]:
        """Where more than 5 % was left out, and what would help."""
        return [
            f"About {share} {words}. The noise intervals do not cover that. What would help: {helps}; `osgt bounds` "
            "weighs it against the noise."
            for share, words, helps in self._told
            if share.value > _MUCH and share.low > 0 and share.high - share.low < _VAGUE
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "counted": "rows" if self.groups.max_rows is not None else "units in groups",
            "by_max_groups": self.by_max_groups.to_dict(),
            "by_max_rows_per_group": self.by_max_rows_per_group.to_dict(),
            "units_by_max_groups": self.units_by_max_groups.to_dict(),
            "units_by_max_rows_per_group": self.units_by_max_rows_per_group.to_dict(),
            "values_outside_bounds": {name: share.to_dict() for name, share in self.values.items()},
            "confidence": self.confidence,
        }

    def __str__(self) -> str:
        return "\n".join(self.sentences)


def _fate(numbers: Integers, law: IntegerLaw, part: Sequence[int], whole: Sequence[int], confidence: float) -> Share:
    """The share of rows with some fates among those with some others, over the places where units are."""
    places = Histogram(EDGES, numbers.sum(axis=1), law, layers=_FATES)
    inside = places.around(1, 1)
    counts = numbers[inside] / SCALE
    rows = np.repeat(places.places[inside][:, None], _FATES, axis=1)
    wanted, all_of = np.zeros_like(rows), np.zeros_like(rows)
    wanted[:, list(part)] = rows[:, list(part)]
    all_of[:, list(whole)] = rows[:, list(whole)]
    return share_of(counts.ravel(), wanted.ravel(), all_of.ravel(), law, SCALE, confidence)


def _kind(numbers: Integers, law: IntegerLaw, bit: int, confidence: float) -> Share:
    """The share of units of which one of the limits left something out."""
    part = np.array([float(bool(kind & bit)) for kind in range(_KINDS)])
    return share_of(numbers.astype(np.float64), part, np.ones(_KINDS), law, 1, confidence)
