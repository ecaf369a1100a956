"""Estimates, differences and ratios of published numbers: post-processing, which costs no budget."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from osgt.estimation.intervals import Contrasts, IndependentNoise
from osgt.facts import wording
from osgt.facts.statement import ReleasedTable
from osgt.query.aggregates.base import as_floats
from osgt.query.aggregates.marks import MARK
from osgt.query.groups import SUMMED_OVER
from osgt.release.numbers import PublishedColumn, PublishedTable, estimate_column
from osgt.render.derived import Comparison, Description, Estimates
from osgt.support.errors import ArgumentError, ArgumentTypeError, guided
from osgt.support.numeric import Floats, confidence_level

#: A group: its keys by their names, or the value of the only key.
Group = Mapping[str, Any] | str | int | float | bool | None


class PostProcessing(ReleasedTable):
    """The methods of a release that compute something from its published numbers."""

    def estimates(self, *, confidence: float | None = None) -> Estimates:
        """The best estimates of counts and sums, beside the published numbers. They cost no budget.

        Empirical Bayes: how large the numbers are is learned from all groups together, and small noisy ones are drawn
        towards that. Where an unbiased estimate of the error does not say that this helps by at least a fifth, as in
        tables of large groups, the numbers stay as they are; where it does, none is negative, and sums stay. Means,
        shares and other columns have none. The intervals hold on average over the groups (docs: Best estimates).

        Parameters
        ----------
        confidence
            The share of true numbers that the intervals hold; that of the release, if it is not given.
        """
        return _estimates(self, _confidence(self, confidence))

    @guided
    def difference(
        self,
        first: Group = None,
        second: Group = None,
        *,
        other: Any = None,
        column: str | None = None,
        confidence: float | None = None,
    ) -> Comparison:
        """The first group's number less the second's, with an interval from the noise of both. It costs no budget.

        Parameters
        ----------
        first, second
            Groups, as {"town": "Bern", "sex": "f"}; the value alone, "Bern", where there is one key. Keys that are left
            out are summed over, if the table has such totals.
        other
            Another release, or another table of a publication: the second group is that of this one, and the same
            group if none is given. With no group at all, every group is compared with the same one there.
        column
            The count or sum, if there are several.
        confidence
            How often the interval holds the difference; as for the release, if it is not given.
        """
        return _Pairs.of(self, other, column, confidence).compare("difference", first, second)

    @guided
    def ratio(
        self,
        first: Group = None,
        second: Group = None,
        *,
        other: Any = None,
        column: str | None = None,
        confidence: float | None = None,
    ) -> Comparison:
        """The first group's number divided by the second's, with an interval; arguments as for `difference`.

        The interval holds all ratios that the noise of both numbers allows (Fieller). It has no upper end where the
        second number may be 0.
        """
        return _Pairs.of(self, other, column, confidence).compare("ratio", first, second)


def _estimates(release: ReleasedTable, confidence: float) -> Estimates:
    """Estimate all counts and sums of a release."""
    published = _published(release, "estimates")
    if release.plan.groups.public is None:
        raise ArgumentError(
            "estimates are for tables with public_keys: here only groups that are large enough were published, and "
            "these have little to gain",
            argument="public_keys",
        )
    if not published.names:
        raise ArgumentError("estimates are for counts and sums, and the release has none", argument="column")
    table, notes, gains, shown = release.table, [], {}, []
    for name in published.names:
        column = published.column(name)
        low, high = (as_floats(release.table[name + end]) for end in ("_low", "_high"))
        result = estimate_column(column, low, high, confidence, _missing(release, column))
        gains[name] = result.gain
        if result.reason is not None:
            notes.append(wording.estimates_left(name, result.reason.value))
        if result.gain is not None:
            notes.append(wording.estimates_gain(name, result.gain))
        new = {"": result.values, "_low": result.low, "_high": result.high}
        at = max(
            table.column_names.index(column) for column in (f"{name}_high", name + MARK) if column in table.column_names
        )
        for i, (end, values) in enumerate(new.items(), start=1):
            table = table.add_column(at + i, f"{name}_estimate{end}", pa.array(values))
        shown += [name, f"{name}_estimate"]
    notes.append(wording.estimates_coverage(confidence))
    return Estimates(table, release.plan.groups.by, tuple(shown), tuple(notes), gains)


@dataclass(frozen=True, eq=False)
class _Pairs:
    """A column of one table, and the same or another one to compare it with."""

    first: PublishedColumn
    second: PublishedColumn
    missing: tuple[float, float]
    confidence: float
    is_other: bool

    @classmethod
    def of(cls, release: ReleasedTable, other: Any, column: str | None, confidence: float | None) -> "_Pairs":
        """Check both."""
        if other is not None and not isinstance(other, ReleasedTable):
            raise ArgumentTypeError(
                f"other must be a release, or a table of one, got an object of type {type(other).__name__}",
                argument="other",
            )
        if other is not None:
            _check_apart(release, other)
        first = _published(release, "comparisons").column(column)
        theirs = release if other is None else other
        second = first if other is None else _published(theirs, "comparisons").column(first.name)
        missing = _missing(release, first), _missing(theirs, second)
        return cls(first, second, missing, _confidence(release, confidence), other is not None)

    def compare(self, what: str, first: Group, second: Group) -> Comparison:
        """Compare two groups, or all groups of a table with the same ones of another."""
        if what == "ratio" and not (self.first.is_positive and self.second.is_positive):
            raise ArgumentError(
                f"column: a ratio needs numbers that cannot be negative, which {self.first.name!r} may be: use "
                "difference",
                argument="column",
            )
        name = f"{self.first.name}_{what}"
        if first is None and second is None and self.is_other:
            one, two = self._common_rows()
            named, keys = self._keys_of(one), self.first.of.plan.groups.by
        else:
            (one, two), named, keys = self._two_rows(first, second), pa.table({}), ()
        numbers = dict(zip(("", "_low", "_high"), self._columns(what, one, two), strict=True))
        columns = {name + end: pa.array(values) for end, values in numbers.items()}
        table = pa.table([*named.columns, *columns.values()], names=[*named.column_names, *columns])
        return Comparison(table, keys, (name,), ())

    def _two_rows(self, first: Group, second: Group) -> tuple[Any, Any]:
        """The rows of two groups that are named."""
        keys = self.first.of.plan.groups.by
        if first is None or (second is None and not self.is_other):
            argument = "first" if first is None else "second"
            example = f'{{"{keys[0] if keys else "key"}": …}}'
            raise ArgumentError(f"{argument} must be given: a group, as {example}", argument=argument)
        one = _row(self.first, "first", first)
        return np.array([one]), np.array([_row(self.second, "second", first if second is None else second)])

    def _keys_of(self, rows: Any) -> pa.Table:
        """The keys of some rows."""
        table = self.first.of.table
        over = [SUMMED_OVER] if SUMMED_OVER in table.column_names else []
        return table.select([*self.first.of.plan.groups.by, *over]).take(pa.array(rows))

    def _common_rows(self) -> tuple[Any, Any]:
        """The rows of the groups that both tables have."""
        keys = self.first.of.plan.groups.by
        if keys != self.second.of.plan.groups.by:
            raise ArgumentError(
                f"other must have the keys {', '.join(keys)}, to compare all groups; name groups to compare two",
                argument="other",
            )
        places = {self._key(self.second, row): i for i, row in enumerate(self.second.of.table.to_pylist())}
        pairs = [
            (i, places[key])
            for i, row in enumerate(self.first.of.table.to_pylist())
            if (key := self._key(self.first, row)) in places
        ]
        if not pairs:
            raise ArgumentError("other has no group in common with this table", argument="other")
        one, two = zip(*pairs, strict=True)
        return np.array(one), np.array(two)

    @staticmethod
    def _key(column: PublishedColumn, row: Mapping[str, Any]) -> tuple[Any, ...]:
        return (*(row[key] for key in column.of.plan.groups.by), row.get(SUMMED_OVER))

    def _columns(self, what: str, one: Any, two: Any) -> tuple[Any, Floats, Floats]:
        """The values and the ends of the intervals of pairs of rows."""
        sizes = self.first.step, self.second.step
        numbers = self.first.steps[one].astype(float) * sizes[0], self.second.steps[two].astype(float) * sizes[1]
        ends = np.empty((2, len(one)))
        for places, contrasts, half in self._contrasts(one, two):
            pair = tuple(one[places] / sizes[0] for one in numbers)
            if what == "difference":
                ends[:, places] = contrasts.difference(*pair)
            else:
                ends[:, places] = contrasts.ratio(*pair, half * sizes[1] / sizes[0])
        low, high = ends
        if what == "difference":
            low = low * sizes[0] - self.missing[1] * np.maximum(numbers[1], 0.0)
            return numbers[0] - numbers[1], low, high * sizes[0] + self.missing[0] * np.maximum(numbers[0], 0.0)
        low, high = low / (1.0 + self.missing[1]), high * (1.0 + self.missing[0])
        value = [
            None if bottom <= 0 or (first_end == 0 and not np.isfinite(last_end)) else max(top, 0.0) / bottom
            for top, bottom, first_end, last_end in zip(*numbers, low, high, strict=True)
        ]
        return pa.array(value, pa.float64()), low, high

    def _contrasts(self, one: Any, two: Any) -> Any:
        """Places of pairs, the intervals from their joint noise, and the half-width of the second number."""
        rounding = self.first.rounding, self.second.rounding * self.second.step / self.first.step
        if not self.is_other:
            [row], [against] = one, two
            noise = self.first.pair_noise(int(row), int(against))
            half = self.second.noise_of(int(against)).half_width(self.confidence) + self.second.rounding
            yield np.zeros(1, np.intp), Contrasts(noise, self.confidence, rounding), half
            return
        scale = self.second.step / self.first.step
        noises = [
            (self.first.noise_of(int(row)), self.second.noise_of(int(other)))
            for row, other in zip(one, two, strict=True)
        ]
        for pair in dict.fromkeys(noises):
            places = np.array([i for i, noise in enumerate(noises) if noise == pair])
            contrasts = Contrasts(IndependentNoise(*pair, scale), self.confidence, rounding)
            yield places, contrasts, pair[1].half_width(self.confidence) + self.second.rounding


def _published(release: ReleasedTable, what: str) -> PublishedTable:
    """The published numbers of a release, which must be as noise made them."""
    if release.statement.values.get("nonnegative"):
        raise ArgumentError(
            f"nonnegative must be left out of a release for {what}: numbers shown as 0 are not those with noise; "
            "estimates() of the release without it gives better numbers, none below 0",
            argument="nonnegative",
        )
    return PublishedTable(release.table, release.plan)


def _missing(release: ReleasedTable, column: PublishedColumn) -> float:
    """The part of a number that limits may have cut off, if intervals allow for it."""
    if release.left_out is None or release.statement.values.get("intervals") == "noise":
        return 0.0
    return release.left_out.missing.get(column.aggregate.counted(release.plan.groups) or "", 0.0)


def _confidence(release: ReleasedTable, given: float | None) -> float:
    return release.plan.confidence if given is None else confidence_level(given, "confidence")


def _check_apart(release: ReleasedTable, other: ReleasedTable) -> None:
    """Raise if two tables share noise of which the joint distribution is not known here."""
    if other is release:
        raise ArgumentError("other is this table itself: leave it out to compare two of its groups", argument="other")
    whole, name = release.statement.values.get("publication"), other.statement.values.get("table")
    if whole is None or whole != other.statement.values.get("publication"):
        return
    own = release.statement.values["table"]
    shared = [getattr(table.plan.levels, "shared", None) for table in (release, other)]
    estimated_together = shared[0] is not None and shared[0] is shared[1]
    if name == own or name in whole["tables"][own]["measured_with"] or estimated_together:
        raise ArgumentError(
            f"other: the tables {own!r} and {name!r} have the same noise, or some of it in common: compare groups of "
            "one of them",
            argument="other",
        )


def _row(column: PublishedColumn, argument: str, group: Group) -> int:
    """The row of a group."""
    by = column.of.plan.groups.by
    if not isinstance(group, Mapping):
        if len(by) != 1:
            raise ArgumentTypeError(
                f'{argument} must name the keys of the group, as {{"{by[0] if by else "key"}": …}}', argument=argument
            )
        group = {by[0]: group}
    return column.of.row_of(argument, group)


#: The quartiles of a description, by their names.
QUARTILES = {"q25": 0.25, "median": 0.5, "q75": 0.75}


def describe_columns(release: ReleasedTable) -> Description:
    """Make the description of columns out of a release of their counts and quartiles."""
    published = _published(release, "a description")
    rows, confidence = published.column("count"), release.plan.confidence
    [row] = release.table.to_pylist()
    described = []
    for aggregate in release.plan.aggregates:
        if aggregate.kind != "count_values":
            continue
        name = aggregate.arguments()["column"]
        values = published.column(aggregate.name)
        number = float(rows.floats[0] - values.floats[0])
        half = rows.difference_noise(values).half_width(confidence) + rows.rounding + values.rounding
        high = number + half + _missing(release, rows) * max(number, 0.0)
        missing = max(number, 0.0), max(float(np.floor(number - half)), 0.0), max(float(np.ceil(high)), 0.0)
        own: dict[str, Any] = {"column": name}
        for end, more in zip(("", "_low", "_high"), missing, strict=True):
            own |= {f"values{end}": row[aggregate.name + end], f"missing{end}": more}
        for quartile, level in QUARTILES.items():
            for end in ("", "_low", "_high"):
                quantile = row.get(f"{name}_q{100 * level:g}{end}")
                own[quartile + end] = None if quantile is None else float(quantile)
        described.append(own)
    ends = [f"{name}{end}" for name in ("values", "missing", *QUARTILES) for end in ("", "_low", "_high")]
    table = pa.Table.from_pylist([{key: own[key] for key in ("column", *ends)} for own in described])
    note = wording.described_rows(row["count"], row["count_low"], row["count_high"])
    return Description(table, ("column",), ("values", "missing", *QUARTILES), (note,), release)
