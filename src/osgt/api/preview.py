"""Preview: what bounds cut off, exactly. For whoever may see the data; never part of a release."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import ibis
import ibis.expr.types as ir
import numpy as np
from numpy.typing import NDArray

from osgt.api.suggestion.words import Table, lined
from osgt.limits.bounding import UNIT
from osgt.limits.histogram import limits_around, limits_up_to, value_edges
from osgt.limits.histogram_query import placed
from osgt.limits.misfits import LineEnds, Misfits, line_ends, misfits, undecoded
from osgt.query.measures import Values
from osgt.query.values import as_float, present
from osgt.release.exact_sums import prepared_rows
from osgt.render.cards import Card
from osgt.render.table_cards import preview_card
from osgt.support.numbers import counted

if TYPE_CHECKING:
    from osgt.api.suggestion.open_query import OpenQuery

WARNING = "NOT PRIVATE: exact figures from the data, for choosing bounds. Do not publish them."

#: Shares of a column's values that may be beyond each end of its bounds: the bounds of such shares are shown.
_BEYOND = (0.0, 0.0005, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1)


@dataclass(frozen=True)
class Cut:
    """The loss to one bound: of rows (or of units in groups, where only these count), or of values; and of units.

    `limit` is a number of groups or rows, or a pair of bounds. Where groups are left out at random, it is what is to be
    expected.
    """

    limit: Any
    number: float
    share: float
    units: int | None = None
    units_share: float | None = None
    given: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        plain = {"limit": self.limit, "lost": self.number, "share": self.share, "given": self.given}
        return plain if self.units is None else plain | {"units": self.units, "units_share": self.units_share}


@dataclass(frozen=True)
class Preview:
    """The exact effect of bounds, given ones and others: what they drop or change. Not private.

    `rows` has how many rows there are and how many count, `units` how many units; `counted` says whether rows can be
    left out, or units in groups. `max_groups`, `max_rows_per_group` and `bounds` have a line for each choice. `misfits`
    are values that do not fit the declared types of a CSV file, `undecoded` its rows with bytes that are no text, and
    `line_ends` its fields with line ends in them.
    """

    rows: Mapping[str, int]
    units: int
    counted: str
    max_groups: tuple[Cut, ...]
    max_rows_per_group: tuple[Cut, ...]
    bounds: Mapping[str, tuple[Cut, ...]]
    missing: Mapping[str, int]
    misfits: Mapping[str, Misfits]
    undecoded: int
    line_ends: Mapping[str, LineEnds]

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "warning": WARNING,
            "rows": dict(self.rows),
            "units": self.units,
            "counted": self.counted,
            "max_groups": [cut.to_dict() for cut in self.max_groups],
            "max_rows_per_group": [cut.to_dict() for cut in self.max_rows_per_group],
            "bounds": {name: [cut.to_dict() for cut in cuts] for name, cuts in self.bounds.items()},
            "missing_values": dict(self.missing),
            "misfits": {name: asdict(each) for name, each in self.misfits.items()},
            "undecoded_rows": self.undecoded,
            "line_ends": {name: asdict(each) for name, each in self.line_ends.items()},
        }

    def __repr__(self) -> str:
        return "Preview(NOT PRIVATE; print it to see what the bounds cut off)"

    def _repr_html_(self) -> str:
        return preview_card(self.curves(), WARNING).html()

    @property
    def tables(self) -> "dict[str, Preview]":
        """The previews of all tables: this one, without a name."""
        return {"": self}

    def curves(self) -> list[Table]:
        """Make a heading and lines for each bound; the line of the one that was given has a star."""
        found: list[Table] = []
        for name, cuts in (("max_groups", self.max_groups), ("max_rows_per_group", self.max_rows_per_group)):
            if cuts:
                head = (name, f"{self.counted} lost", "", "units that lose some", "")
                found.append((head, [(_limit(cut), *_counted(cut)) for cut in cuts]))
        for name, cuts in self.bounds.items():
            found.append(((f"bounds of {name}", "values outside", ""), [(_limit(cut), *_counted(cut)) for cut in cuts]))
        return found

    def lines(self) -> list[str]:
        """Describe the rows and units before any bound applies, and what the given bounds cut off."""
        in_words = ", ".join(f"{number:,} {name.replace('_', ' ')}" for name, number in self.rows.items())
        found = [f"Rows: {in_words}. Units: {self.units:,}."]
        for name, cuts in (("max_groups", self.max_groups), ("max_rows_per_group", self.max_rows_per_group)):
            found += [_sentence(cut, self.counted, f"lost to {name} = {cut.limit:,}") for cut in cuts if cut.given]
        for name, cuts in self.bounds.items():
            words = f"values of {name}"
            found += [_sentence(cut, words, "outside {:,} to {:,}".format(*cut.limit)) for cut in cuts if cut.given]
        found += [f"{number:,} values of {name} are missing." for name, number in self.missing.items() if number]
        found += [each.words(name) for name, each in self.misfits.items()]
        found += self._unreadable()
        found += [each.words(name) for name, each in self.line_ends.items()]
        return found

    def _unreadable(self) -> Iterator[str]:
        """Say how many rows have no unit, or bytes that are no text."""
        if without := self.rows["without_a_unit"]:
            have, are = ("has", "is") if without == 1 else ("have", "are")
            yield f"{counted(without, 'row')} {have} no unit that can be read, and {are} ignored in a release."
        if self.undecoded:
            have = "has" if self.undecoded == 1 else "have"
            yield (
                f"{counted(self.undecoded, 'row')} {have} bytes that are no text in "
                'the encoding of the file, shown as �: give another encoding, as "latin-1" or "cp1252".'
            )

    def __str__(self) -> str:
        parts = [[WARNING, *self.lines()], *([*lined(table)] for table in self.curves())]
        return "\n\n".join("\n".join(part) for part in parts)


def _sentence(cut: Cut, what: str, where: str) -> str:
    return f"{cut.number:,.0f} {what} ({percent(cut.share)}) {where}."


def _limit(cut: Cut) -> str:
    limit = "{:,.10g} to {:,.10g}".format(*cut.limit) if isinstance(cut.limit, tuple) else f"{cut.limit:,}"
    return f"{limit} *" if cut.given else limit


def _counted(cut: Cut) -> tuple[str, ...]:
    found = (f"{cut.number:,.0f}", percent(cut.share))
    return found if cut.units is None else (*found, f"{cut.units:,}", percent(cut.units_share or 0.0))


def percent(share: float) -> str:
    """Write a share in percent, with one digit after the point below ten."""
    if 0 < share < 0.00005:
        return "< 0.01 %"
    digits = 0 if share >= 0.0995 or share == 0 else 1 if share >= 0.00095 else 2
    return f"{100 * share:.{digits}f} %"


def make_preview(query: "OpenQuery") -> Preview:
    """Run the counting queries. They take about as long as a release."""
    asked = query.wanted
    names = list(dict.fromkeys(limits.column for each in query.aggregates for limits in each.limits))
    rows, keys, values = prepared_rows(query, [Values(name) for name in names])
    backend = rows.get_backend()
    everything, left = query.dataset.table, query.dataset.rows()
    with_unit = rows.filter(rows[UNIT].notnull())
    pairs = with_unit.group_by([UNIT, *keys]).agg(size=with_unit.count().cast("int64"))
    if not asked.needs_rows:
        pairs = pairs.mutate(size=ibis.literal(1, type="int64"))
    known = "with_public_keys_and_a_unit" if query.groups.public is not None else "with_a_unit"
    counts = {
        "in_the_table": everything.count(),
        "after_where": left.count(),
        "without_a_unit": left.filter(query.dataset.unit.missing(left)).count(),
        known: with_unit.count(),
    }
    loss, limited = _Losses.of(backend, pairs), not query.groups.each_row
    return Preview(
        rows={name: _number(backend, expression) for name, expression in counts.items()},
        units=int(loss.units.sum()),
        counted="rows" if asked.needs_rows else "units in groups",
        max_groups=loss.by_groups(asked.max_groups) if keys and limited else (),
        max_rows_per_group=loss.by_rows(asked.max_rows, asked.max_groups) if asked.needs_rows and limited else (),
        bounds={name: _values(backend, with_unit, query, name, values[name]) for name in names},
        missing={name: _number(backend, (~present(with_unit[values[name]])).sum()) for name in names},
        misfits=misfits(query.dataset),
        undecoded=undecoded(query.dataset),
        line_ends=line_ends(query.dataset),
    )


@dataclass(frozen=True, eq=False)
class _Losses:
    """The counts of (unit, group) pairs, by their rows and by the number of groups of their unit."""

    groups: NDArray[np.int64]
    sizes: NDArray[np.int64]
    pairs: NDArray[np.int64]
    #: The same for units: their groups, the rows in their fullest one, and how many they are.
    unit_groups: NDArray[np.int64]
    fullest: NDArray[np.int64]
    units: NDArray[np.int64]

    @classmethod
    def of(cls, backend: Any, pairs: ir.Table) -> "_Losses":
        """Count pairs and units, from (unit, group) pairs with their sizes."""
        counted = pairs.mutate(groups=pairs.count().over(group_by=UNIT))
        by_size = counted.group_by(["groups", "size"]).agg(n=counted.count())
        units = pairs.group_by(UNIT).agg(groups=pairs.count(), fullest=pairs["size"].max())
        by_unit = units.group_by(["groups", "fullest"]).agg(n=units.count())
        tables = (
            (backend.to_pyarrow(by_size), ("groups", "size", "n")),
            (
                backend.to_pyarrow(by_unit),
                ("groups", "fullest", "n"),
            ),
        )
        return cls(*(np.asarray(table[name], dtype=np.int64) for table, names in tables for name in names))

    def by_groups(self, given: int | None) -> tuple[Cut, ...]:
        """Compute what limits of groups leave out."""
        return tuple(
            self._cut(limit, self._lost(limit), self.unit_groups > limit, given=limit == given)
            for limit in self._limits(self.unit_groups, given)
        )

    def by_rows(self, given: int | None, max_groups: int | None) -> tuple[Cut, ...]:
        """Compute what limits of rows leave out in the groups that a unit counts in."""
        kept = 1.0 if max_groups is None else np.minimum(max_groups / np.maximum(self.groups, 1), 1.0)
        return tuple(
            self._cut(
                limit,
                math.fsum(kept * np.maximum(self.sizes - limit, 0) * self.pairs),
                self.fullest > limit,
                given=limit == given,
            )
            for limit in self._limits(self.sizes, given)
        )

    def _lost(self, limit: int) -> float:
        """Compute the expected number of rows in the groups that are left out, which are chosen at random."""
        part = np.maximum(1.0 - limit / np.maximum(self.groups, 1), 0.0)
        return math.fsum(part * self.sizes * self.pairs)

    def _cut(self, limit: int, lost: float, affected: NDArray[np.bool_], *, given: bool) -> Cut:
        units, every = int(self.units[affected].sum()), int(self.units.sum())
        total = float((self.sizes * self.pairs).sum())
        return Cut(limit, round(lost, 3), lost / max(total, 1.0), units, units / max(every, 1), given)

    @staticmethod
    def _limits(numbers: NDArray[np.int64], given: int | None) -> list[int]:
        most = int(numbers.max()) if len(numbers) else 1
        limits = sorted({*limits_up_to(most), *(() if given is None else (given,))})
        return sorted({*limits_around(limits, given), limits[-1]})


def _values(backend: Any, rows: ir.Table, query: "OpenQuery", name: str, column: str) -> tuple[Cut, ...]:
    """Count the values outside the bounds that were given, and outside pairs that leave out less or more."""
    there = rows.filter(present(rows[column]))
    number = as_float(there[column])
    edges = value_edges(1.0 if query.dataset.number_type_of(name).is_integer() else 1e-3)
    below, _ = placed(number, edges)
    binned = there.select(bin=below.cast("int64"))
    found = backend.to_pyarrow(binned.group_by("bin").agg(n=binned.count()))
    counts = np.zeros(len(edges), dtype=np.int64)
    counts[np.asarray(found["bin"], dtype=np.int64)] = np.asarray(found["n"], dtype=np.int64)
    total = int(counts.sum())
    given = [(limits.low, limits.high) for limits in query.given_limits if limits.column == name]
    pairs = list(dict.fromkeys([*_pairs(counts, edges), *given]))
    outside = {
        f"outside_{i}": there.count(where=(number < float(low)) | (number > float(high)))
        for i, (low, high) in enumerate(pairs)
    }
    answer = backend.to_pyarrow(there.agg(**outside)).to_pylist()[0]
    cuts = []
    for i, pair in enumerate(pairs):
        n = int(answer[f"outside_{i}"] or 0)
        cuts.append(Cut(pair, n, n / max(total, 1), given=pair in given))
    return tuple(sorted(cuts, key=lambda cut: (cut.limit[1] - cut.limit[0], cut.limit)))


def _pairs(counts: NDArray[np.int64], edges: Sequence[float]) -> list[tuple[float, float]]:
    """Bounds that leave out a small share at either end: from zero on where no value is below it."""
    total = int(counts.sum())
    if total == 0:
        return []
    before = np.append(0, np.cumsum(counts))  # values below each edge
    zero = edges.index(0.0)
    found = []
    for share in _BEYOND:
        low = int(np.flatnonzero(before[:-1] <= share * total)[-1])
        high = int(np.flatnonzero(total - before[:-1] <= share * total)[0]) if before[-2] >= (1 - share) * total else -1
        low, high = min(low, zero), max(high % len(edges), zero)
        if edges[low] < edges[high]:
            found.append((_plain(edges[low]), _plain(edges[high])))
    return found


def _plain(number: float) -> float:
    return int(number) if number.is_integer() else number


def _number(backend: Any, expression: ir.Scalar) -> Any:
    """Evaluate an expression; a sum over no rows is null, and counts as 0."""
    value = backend.to_pyarrow(expression).as_py()
    return 0 if value is None else value


@dataclass(frozen=True)
class PublicationPreview:
    """The exact effect of the bounds of each table: what they drop or change. Not private."""

    tables: Mapping[str, Preview]

    def __getitem__(self, name: str) -> Preview:
        return self.tables[name]

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        plain = {name: preview.to_dict() for name, preview in self.tables.items()}
        return {
            "warning": WARNING,
            "tables": {
                name: {key: value for key, value in each.items() if key != "warning"} for name, each in plain.items()
            },
        }

    def __repr__(self) -> str:
        return "PublicationPreview(NOT PRIVATE; print it to see what the bounds cut off)"

    def _repr_html_(self) -> str:
        tables = [
            replace(table, caption=f"{name}: {table.caption}")
            for name, preview in self.tables.items()
            for table in preview_card(preview.curves(), WARNING).tables
        ]
        return Card("What the bounds cut off", alarm=WARNING, tables=tables).html()

    def __str__(self) -> str:
        lines = [WARNING]
        for name, preview in self.tables.items():
            lines.append(f"{name}:")
            lines += [f"  {line}" for line in str(preview).splitlines() if line != WARNING]
        return "\n".join(lines)
