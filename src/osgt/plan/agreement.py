"""Numbers that tables share: least squares over all levels in which they are measured, and what is shown of them.

Of one table these are its groups and its totals. Tables of a publication whose groups are margins of one another share
every number that is the same sum of rows in all of them. Each has one estimate, and is rounded once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from osgt.estimation.intervals import Quotient
from osgt.estimation.rounding import nonnegative, rounded_together
from osgt.estimation.sums import ManyTerm
from osgt.noise import IntegerDistribution
from osgt.plan.known import Known
from osgt.plan.schemes import Scheme, is_alike
from osgt.plan.structure import LeastSquares, Margins, Structure, adds_up
from osgt.query.groups import Groups, Level, Total, is_nested
from osgt.query.measures import Measure
from osgt.support.numeric import Floats, Integers

#: Weights below this part of the largest one are the rounding of floats.
_ROUNDING = 1e-12

#: Different coefficients of one noise that are told apart; beyond, they are rounded up by at most one percent.
_COEFFICIENTS = 64


@dataclass(frozen=True, eq=False)
class TableNoise:
    """The numbers that are measured for a table with public keys, and their noise."""

    groups: Groups
    scheme: Scheme
    laws: Mapping[Measure, IntegerDistribution]
    #: Totals that are public, of some of the numbers: as if they were measured with a variance of zero.
    known: Known = field(default_factory=dict)

    @property
    def measured(self) -> list[Measure]:
        """The numbers that are measured for the groups."""
        return [measure for measure in self.scheme.measured if not measure.for_table]

    def law(self, measure: Measure, level: Level | None) -> IntegerDistribution | None:
        """The noise of a number on a level; None where it is not measured there."""
        return self.laws.get(measure if level is None else Total(measure, level))

    def known_steps(self, measure: Measure, level: Level | None) -> Integers | None:
        """The known totals of a number on a level, in steps; None where it is not known there."""
        numbers = None if level is None else self.known.get(measure, {}).get(level)
        return None if numbers is None else numbers * int(1 / self.scheme.step(measure))

    def shares(self, measure: Measure) -> bool:
        """Whether a number is the same sum of rows in all tables that agree with this one."""
        return measure in self.laws and adds_up(measure) and is_alike(self.groups, measure)


@dataclass(frozen=True, eq=False)
class Estimator:
    """Least squares for one number: the levels that it is for, by their places, and the noise where it is measured."""

    levels: tuple[int, ...]
    laws: tuple[IntegerDistribution | None, ...]
    squares: LeastSquares
    #: The keys of the levels that are known.
    known: tuple[tuple[str, ...], ...] = ()

    def at(self, results: Sequence[Floats], entry: int) -> Floats:
        """The result for a level."""
        return results[self.levels.index(entry)]


@dataclass(frozen=True, eq=False)
class SharedNoise:
    """The estimators of one table, or of several whose groups are margins of one another, known without data."""

    tables: tuple[TableNoise, ...]
    _made: dict[Any, Estimator] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def margins(self) -> Margins:
        """All levels of all tables."""
        return Margins(tuple(Structure(table.groups) for table in self.tables))

    def sharing(self, measure: Measure, table: int) -> list[int]:
        """The tables that measure the same number, this one among them."""
        own = self.tables[table]
        if not own.shares(measure):
            return [table]
        step = own.groups.step(measure)
        return [i for i, t in enumerate(self.tables) if t.shares(measure) and t.groups.step(measure) == step]

    def entry(self, table: int, at: int) -> int:
        """The place of a level of a table among all."""
        return sum(len(structure.levels) for structure in self.margins.structures[:table]) + at

    def estimator(self, measure: Measure, table: int) -> Estimator:
        """The least squares for a number that is measured for the groups of a table, over all levels in which it is."""
        tables = self.sharing(measure, table)
        key = measure, *tables
        if key not in self._made:
            entries = [i for i, (t, _) in enumerate(self.margins.entries) if t in tables]
            levels = [self.margins.entries[i] for i in entries]
            laws = [self.tables[t].law(measure, level) for t, level in levels]
            is_known = [self.tables[t].known_steps(measure, level) is not None for t, level in levels]
            variances = _variances(laws, is_known)
            alone = self if len(tables) == len(self.tables) else SharedNoise((self.tables[table],))
            squares = (
                self.margins.least_squares(dict(zip(entries, variances, strict=True)))
                if self.margins.is_cube
                else alone.margins.least_squares(dict(enumerate(variances)))
            )
            structures = self.margins.structures
            by = tuple(structures[t].by(level) for (t, level), known in zip(levels, is_known, strict=True) if known)
            self._made[key] = Estimator(tuple(entries), tuple(laws), squares, by)
        return self._made[key]

    def terms(self, measure: Measure, table: int, at: int, place: int) -> list[ManyTerm]:
        """List the terms of the noise on the estimate for one group of a level."""
        estimator, structure = self.estimator(measure, table), self.margins.structures[table]
        if sum(law is not None for law in estimator.laws) == 1 and not estimator.known:
            return [(Fraction(1), self.tables[table].laws[measure], int(structure.cells[at][place]))]
        return [term for law, own in self.weights(measure, table, at, place) for term in counted(own, law)]

    def weights(self, measure: Measure, table: int, at: int, place: int) -> list[tuple[IntegerDistribution, Floats]]:
        """The weights of the measured numbers in the estimate for one group of a level, by level, with their noise."""
        estimator, structure = self.estimator(measure, table), self.margins.structures[table]
        one = np.zeros((structure.sizes[at], 1))
        one[place] = 1.0
        entry = self.entry(table, at)
        weights = estimator.squares.weights([one if level == entry else None for level in estimator.levels])
        # What known totals leave of a weight beside them is rounding.
        least = _ROUNDING * max(float(np.abs(own).max(initial=0.0)) for own in weights)
        return [
            (law, np.where(np.abs(own[:, 0]) > least, own[:, 0], 0.0))
            for law, own in zip(estimator.laws, weights, strict=True)
            if law is not None
        ]


@dataclass(frozen=True, eq=False)
class TableSet:
    """The noise of tables that agree; and what it would be at each end of the family, by its name."""

    noise: SharedNoise
    ends: Mapping[str, SharedNoise]
    #: The plans of the tables, which do not know of each other.
    plans: tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class SharedNumbers:
    """The numbers that were measured with noise for the tables that share it, and what least squares make of them."""

    noise: SharedNoise
    measured: tuple[Mapping[Measure, Integers], ...]
    nonnegative: bool
    _made: dict[Any, Any] = field(default_factory=dict, init=False, repr=False)

    def corrections(self, measure: Measure, table: int) -> list[Floats]:
        """Compute what least squares add to the numbers of the groups of a table and to their sums, by level."""
        estimator = self.noise.estimator(measure, table)
        key = measure, estimator.levels
        if key not in self._made:
            # Of one table, how far its totals are from the sums of its groups; of several, the numbers themselves.
            tables = {self.noise.margins.entries[i][0] for i in estimator.levels}
            values = [self._numbers(measure, entry, differences=len(tables) == 1) for entry in estimator.levels]
            self._made[key] = estimator.squares.estimates(values), len(tables) == 1
        estimates, are_differences = self._made[key]
        result = []
        for at, level in enumerate(self.noise.margins.structures[table].levels):
            estimate = estimator.at(estimates, self.noise.entry(table, at))
            result.append(estimate if are_differences else estimate - self._sums(measure, table, level))
        return result

    def _numbers(self, measure: Measure, entry: int, *, differences: bool) -> Floats | None:
        """The numbers of a level, or how far they are from the sums of the groups of its table; None if there are none.

        Known ones come first.
        """
        table, level = self.noise.margins.entries[entry]
        numbers = self.noise.tables[table].known_steps(measure, level)
        if numbers is None:
            numbers = self.measured[table].get(measure if level is None else Total(measure, level))
        if numbers is None:
            return None
        return (numbers - self._sums(measure, table, level) if differences else numbers).astype(np.float64)

    def _sums(self, measure: Measure, table: int, level: Level | None) -> Integers:
        numbers = self.measured[table][measure]
        return numbers if level is None else level.summed(numbers)

    def exact(self, asked: Measure, table: int) -> Quotient:
        """A number that is asked for, as it was measured for the groups of a table."""
        scheme, measured = self.noise.tables[table].scheme, self.measured[table]
        cells = {m: numbers for m, numbers in measured.items() if m in scheme.combined[asked]}
        size = self.noise.margins.structures[table].sizes[-1]
        spread = {m: np.broadcast_to(n, (size, n.shape[1])) if m.for_table else n for m, n in cells.items()}
        return scheme.values_of(asked, spread)

    def correction(self, asked: Measure, table: int) -> list[Floats]:
        """Compute what least squares add to a number that is asked for, by level."""
        parts = self.noise.tables[table].scheme.combined[asked]
        own = {m: self.corrections(m, table) for m in parts if not m.for_table}
        return [
            sum((float(parts[m]) * corrections[at] for m, corrections in own.items()), np.zeros((1, 1)))
            for at in range(len(self.noise.margins.structures[table].levels))
        ]

    def whole(self, asked: Measure, table: int) -> Integers:
        """Whole numbers to show for the groups of a table: they add up to the same in all tables that share them."""
        tables = self._agreeing(asked, table)
        key = asked, *tables
        if key not in self._made:
            numbers = {}
            for i in tables:
                exact, of, _ = self.exact(asked, i)
                base, rest = np.divmod(exact, of)
                numbers[i] = base, rest / of + self.correction(asked, i)[-1]
            positive = self.nonnegative and asked.low >= 0
            knows = asked in self.noise.tables[table].known and self.noise.margins.is_cube
            if (len(tables) > 1 or knows) and not positive:
                self._made[key] = self.noise.margins.rounded(numbers)
            else:
                self._made[key] = {i: self._alone(asked, i, *pair, positive=positive) for i, pair in numbers.items()}
        result: Integers = self._made[key][table]
        return result

    def _agreeing(self, asked: Measure, table: int) -> list[int]:
        """The tables in which a number that is asked for is made of the same estimates."""
        parts = self.noise.tables[table].scheme.combined[asked]
        if not all(self.noise.tables[table].shares(measure) for measure in parts):
            return [table]
        others = set(range(len(self.measured))).intersection(*(self.noise.sharing(m, table) for m in parts))
        schemes = [noise.scheme for noise in self.noise.tables]
        return [i for i in sorted(others) if schemes[i].combined.get(asked) == parts]

    def _alone(self, asked: Measure, table: int, base: Integers, parts: Floats, *, positive: bool) -> Integers:
        """Whole numbers for the groups of one table, near the estimates; so near are their sums for nested levels.

        Sums that are known, and nested, are exact.
        """
        structure = self.noise.margins.structures[table]
        known = self.noise.tables[table].known.get(asked, {})
        fixed = [level for level in structure.groups.levels if level in known]
        order = structure.in_order(fixed)
        if positive:
            nested = is_nested([level.by for level in structure.groups.levels])
            places = [level.places for level in reversed(fixed) if level.places is not None]
            base, parts = nonnegative(base, parts, structure.places[:-1] if nested else places)
        return rounded_together(base[order], parts[order])[np.argsort(order)]


def _variances(laws: Sequence[IntegerDistribution | None], known: Sequence[bool]) -> list[float | None]:
    """The variances for least squares: 0 for what is known, else above the rounding of floats; None for no number."""
    noise = [None if law is None else law.var() for law in laws]
    smallest = max(variance for variance in noise if variance is not None) * 1e-12 or 1.0
    least = [None if variance is None else max(variance, smallest) for variance in noise]
    return [0.0 if is_known else variance for variance, is_known in zip(least, known, strict=True)]


def counted(weights: Floats, law: IntegerDistribution) -> list[ManyTerm]:
    """Equal coefficients together; where there are many, they are rounded up to steps of one percent."""
    sizes = np.abs(weights[weights != 0])
    if len(sizes) == 0:
        return []
    sizes = np.exp(np.round(np.log(sizes), 9))
    if len(np.unique(sizes)) > _COEFFICIENTS:
        sizes = np.exp(np.ceil(np.log(np.maximum(sizes, sizes.max() * 1e-9)) * 100.0) / 100.0)
    result, numbers = np.unique(sizes, return_counts=True)
    return [(float(c), law, int(n)) for c, n in zip(result, numbers, strict=True)]
