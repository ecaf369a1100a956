"""Totals and tables that add up: noise and numbers of every level, after least squares over those that were measured.

Each number that adds up is estimated at once for all levels of a table, and of all tables whose groups are margins of
one another. The estimates are the measured numbers of the groups and small corrections. What is shown is rounded so
that it still adds up, in all tables alike; intervals are around the estimates before that.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from osgt.estimation.intervals import PARTS_OF_ONE, CommonNoise, Quotient
from osgt.estimation.sums import ManyTerm, NoiseSum, sum_of
from osgt.noise import IntegerDistribution
from osgt.noise.error import Combination
from osgt.plan.agreement import SharedNoise, SharedNumbers, TableNoise, counted
from osgt.plan.known import reach
from osgt.plan.schemes import Combined, Scheme
from osgt.plan.structure import Structure
from osgt.query.aggregates.base import Aggregate, Noisy
from osgt.query.groups import Groups, Level, Total, UnitsAt
from osgt.query.measures import Measure
from osgt.query.quantiles import NoisyTree
from osgt.support.numeric import LARGEST_VALUE, Floats, Integers

#: Groups of a level are put into at most so many classes, each with the noise of its noisiest group.
_CLASSES = 24


@dataclass(frozen=True)
class LevelNoises:
    """The noise of the numbers that are asked for, and of the trees that quantiles are read from."""

    numbers: Mapping[Measure, NoiseSum]
    trees: Mapping[Measure, NoisyTree]

    @classmethod
    def of(cls, scheme: Scheme, asked: Iterable[Measure], noise: Callable[[Combined], NoiseSum]) -> "LevelNoises":
        """The noise of what is asked for, given that of any combination of measured numbers."""
        numbers = {measure: noise(scheme.combined[measure]) for measure in asked}
        trees = {
            measure: NoisyTree(
                layout,
                tuple(noise({level: scheme.step(level)}) for level in layout.levels),
                None if layout.total is None else numbers[layout.total],
            )
            for measure, layout in scheme.layouts.items()
        }
        return cls(numbers, trees)


@dataclass(frozen=True)
class AlikeGroups:
    """Groups of a level whose noise is alike: their places, and the noise of what is asked for."""

    places: NDArray[np.intp]
    noises: LevelNoises


@dataclass(frozen=True)
class LevelRows:
    """The numbers of some groups of a level, for aggregates that add up and for those that do not."""

    places: NDArray[np.intp]
    added: Noisy
    distinct: Noisy

    def of(self, aggregate: Aggregate, groups: Groups) -> Noisy:
        """The numbers that an aggregate is made from."""
        return self.added if aggregate.adds_up(groups) else self.distinct


@dataclass(frozen=True, eq=False)
class Reconciled:
    """The noise of all levels of a table, and their numbers: `table` is its place among those that share them."""

    shared: SharedNoise
    table: int
    asked: tuple[Measure, ...]

    @property
    def _own(self) -> TableNoise:
        return self.shared.tables[self.table]

    @property
    def structure(self) -> Structure:
        """The levels, from the coarsest to the groups."""
        return self.shared.margins.structures[self.table]

    @cached_property
    def noises(self) -> list[list[AlikeGroups]]:
        """The groups of each level, by their noise."""
        return [self._classes(at) for at in range(len(self.structure.levels))]

    def _classes(self, at: int) -> list[AlikeGroups]:
        entry = self.shared.entry(self.table, at)
        estimators = {m: self.shared.estimator(m, self.table) for m in self._own.measured}
        variances = {
            m: estimator.at(estimator.squares.variances_of_estimates, entry) for m, estimator in estimators.items()
        }
        first = next(iter(variances.values()))
        result = []
        for places in _alike(first):
            worst = {m: int(places[np.argmax(own[places])]) for m, own in variances.items()}
            terms = {m: self.shared.terms(m, self.table, at, place) for m, place in worst.items()}
            cells = int(self.structure.cells[at][places].max())
            noise = partial(self._noise, terms=terms, cells=cells)
            result.append(AlikeGroups(places, LevelNoises.of(self._own.scheme, self.asked, noise)))
        return result

    def _noise(self, parts: Combined, terms: Mapping[Measure, list[ManyTerm]], cells: int) -> NoiseSum:
        every: list[ManyTerm] = []
        for measure, part in parts.items():
            if measure.for_table:
                every.append((part * cells, self._own.laws[measure], 1))
            else:
                every += [(_product(part, c), law, n) for c, law, n in terms[measure]]
        return sum_of(every)

    def joint_noise(self, asked: Measure, first: tuple[int, int], second: tuple[int, int]) -> CommonNoise:
        """The noise of two numbers of an asked measure together, each by its level and its place there."""
        weights = [self._weights(asked, *number) for number in (first, second)]

        def joint(ratio: float) -> NoiseSum:
            pairs = [(law, own - ratio * others) for (law, own), (_, others) in zip(*weights, strict=True)]
            return sum_of(
                [(Fraction(c) if c == int(c) else c, law, n) for law, both in pairs for c, law, n in counted(both, law)]
            )

        return CommonNoise(joint)

    def _weights(self, asked: Measure, at: int, place: int) -> list[tuple[IntegerDistribution, Floats]]:
        """The coefficients of all noises in one number, by the distribution that they have."""
        result = []
        for measure, part in self._own.scheme.combined[asked].items():
            if measure.for_table:
                cells = float(self.structure.cells[at][place])
                result.append((self._own.laws[measure], np.array([float(part) * cells])))
            else:
                own = self.shared.weights(measure, self.table, at, place)
                result += [(law, float(part) * weights) for law, weights in own]
        return result

    def noisiest(self, at: int) -> tuple[LevelNoises, Mapping[Measure, NoiseSum]]:
        """The largest noises of a level: of numbers that add up, and of distinct units."""
        classes = [alike.noises for alike in self.noises[at]]
        numbers = {m: max((own.numbers[m] for own in classes), key=lambda noise: noise.var()) for m in self.asked}
        trees = {
            m: max((own.trees[m] for own in classes), key=lambda tree: tree.noises[-1].var())
            for m in self._own.scheme.layouts
        }
        level = self.structure.levels[at]
        distinct = None if level is None else distinct_noise(level, self._own.laws)
        return LevelNoises(numbers, trees), {} if distinct is None else dict.fromkeys(self.asked, distinct)

    def rows(self, numbers: SharedNumbers, confidence: float) -> list[list[LevelRows]]:
        """The numbers of every level, by class, out of those that were measured with noise."""
        shown = {asked: self._levels_of(asked, numbers) for asked in self.asked}
        result = []
        for at, classes in enumerate(self.noises):
            rows = []
            for alike in classes:
                values = {asked: _taken(shown[asked][at][0], alike.places) for asked in self.asked}
                whole = {asked: shown[asked][at][1][alike.places] for asked in self.asked}
                trees = {
                    asked: self._tree(tree, at, alike.places, numbers, values)
                    for asked, tree in alike.noises.trees.items()
                }
                added = Noisy(values, alike.noises.numbers, confidence, numbers.nonnegative, trees, whole)
                rows.append(LevelRows(alike.places, added, self._distinct(added, at, alike.places, numbers)))
            result.append(rows)
        return result

    def reach(self, measure: Measure, missing: Floats) -> list[tuple[Floats, Floats]] | None:
        """Bound, by level, how far known totals mislead where limits cut off up to `missing` in each group.

        None where nothing is known.
        """
        if measure not in self._own.laws:
            return None
        estimator = self.shared.estimator(measure, self.table)
        return reach(self.structure, estimator.squares, estimator.known, missing) if estimator.known else None

    def _tree(
        self,
        tree: NoisyTree,
        at: int,
        places: NDArray[np.intp],
        shared: SharedNumbers,
        values: Mapping[Measure, Quotient],
    ) -> NoisyTree:
        """A tree with the estimates of some groups of a level."""
        level, total, measured = self.structure.levels[at], tree.layout.total, shared.measured[self.table]
        numbers = []
        for measure in tree.layout.levels:
            exact = measured[measure] if level is None else level.summed(measured[measure])
            correction = shared.corrections(measure, self.table)[at]
            numbers.append((exact + correction)[places] * float(self._own.scheme.step(measure)))
        return tree.with_values(numbers, None if total is None else values[total])

    def _distinct(self, added: Noisy, at: int, places: NDArray[np.intp], shared: SharedNumbers) -> Noisy:
        """Put distinct units in place of those added up."""
        level = self.structure.levels[at]
        if level is None:
            return added
        result = distinct_units(level, shared.measured[self.table], self._own.laws)
        return added if result is None else result.at(places, added)

    def _levels_of(self, asked: Measure, numbers: SharedNumbers) -> list[tuple[Quotient, Integers]]:
        """Compute for every level the estimates as fixed-point numbers, and the whole numbers that are shown."""
        exact, of, is_fraction = numbers.exact(asked, self.table)
        correction, whole = numbers.correction(asked, self.table), numbers.whole(asked, self.table)
        result = []
        known = self._own.known.get(asked, {})
        for at, level in enumerate(self.structure.levels):
            if level is not None and level in known:
                result.append((Quotient(known[level] * PARTS_OF_ONE, PARTS_OF_ONE), known[level]))
                continue
            summed, shown = (exact, whole) if level is None else (level.summed(exact), level.summed(whole))
            result.append((_fixed(Quotient(summed, of, is_fraction), correction[at]), shown))
        return result


def asked_numbers(aggregates: Sequence[Aggregate], scheme: Scheme) -> tuple[Measure, ...]:
    """The numbers that aggregates ask for, and the totals of trees; not the trees themselves."""
    asked = [measure for aggregate in aggregates for measure in aggregate.measures if measure not in scheme.layouts]
    totals = [layout.total for layout in scheme.layouts.values() if layout.total is not None]
    return tuple(dict.fromkeys([*asked, *totals]))


def distinct_units(
    level: Level, measured: Mapping[Measure, Integers], laws: Mapping[Measure, IntegerDistribution]
) -> "DistinctUnits | None":
    """The distinct units of a level; None if they were not counted."""
    noise = distinct_noise(level, laws)
    return None if noise is None else DistinctUnits(measured[Total(UnitsAt(level.by), level)], noise)


def distinct_noise(level: Level, laws: Mapping[Measure, IntegerDistribution]) -> Combination | None:
    """The noise of the distinct units of a level; None if they are not counted."""
    total = Total(UnitsAt(level.by), level)
    return Combination(((Fraction(1), laws[total]),)) if total in laws else None


@dataclass(frozen=True)
class DistinctUnits:
    """Distinct units of a level, as they were measured."""

    numbers: Integers
    noise: Combination

    def at(self, places: NDArray[np.intp], noisy: Noisy) -> Noisy:
        """Put the distinct units of some groups in place of units added up."""
        units = {measure for measure in noisy.noises if measure.counted == "units"}
        values = {**noisy.values, **dict.fromkeys(units, Quotient(self.numbers[places], 1))}
        return replace(noisy, values=values, noises={**noisy.noises, **dict.fromkeys(units, self.noise)}, whole=None)


def _alike(variances: Floats) -> Iterator[NDArray[np.intp]]:
    """Places by their variances: equal ones together, or near ones where there are many."""
    logs = np.round(np.log(np.maximum(variances, 1e-300)), 9)
    if len(np.unique(logs)) > _CLASSES:
        low, high = float(logs.min()), float(logs.max())
        logs = np.ceil((logs - low) * (_CLASSES / (high - low)) - 1e-9)
    order = np.argsort(logs, kind="stable")
    yield from np.split(order, np.flatnonzero(np.diff(logs[order])) + 1)


def _product(part: Fraction, coefficient: float | Fraction) -> float | Fraction:
    return part * coefficient if isinstance(coefficient, Fraction) else float(part) * coefficient


def _taken(quotient: Quotient, places: NDArray[np.intp]) -> Quotient:
    return quotient._replace(values=quotient.values[places])


def _fixed(quotient: Quotient, correction: Floats) -> Quotient:
    """Add a correction, in whole numbers of small parts; of parts of one, where that is beyond 64 bits."""
    if not np.any(correction):
        return quotient
    numbers, of, is_fraction = quotient
    largest = float(np.abs(numbers).max(initial=1)) + float(np.abs(correction).max()) * of
    parts = 1
    while parts < PARTS_OF_ONE and 2.0 * parts * largest < LARGEST_VALUE:
        parts *= 2
    return Quotient(numbers * parts + np.rint(correction * (of * parts)).astype(np.int64), of * parts, is_fraction)
