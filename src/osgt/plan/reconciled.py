"""Totals that add up: noise and numbers of every level, after least squares over the levels that were measured.

Each number that adds up is estimated for all levels at once. The estimates are the measured numbers of the groups and
small corrections, which are the same least squares of how far the totals are from the sums of the groups. What is shown
is rounded so that it still adds up; intervals are around the estimates before that.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from osgt.estimation.intervals import PARTS_OF_ONE, Quotient
from osgt.estimation.totals import nonnegative, rounded_together
from osgt.noise import IntegerDistribution
from osgt.noise.error import Combination
from osgt.noise.many import ManySum, ManyTerm, NoiseSum
from osgt.plan.schemes import Combined, Scheme
from osgt.plan.structure import LeastSquares, Structure
from osgt.query.aggregates.base import Aggregate, Noisy
from osgt.query.groups import Groups, Level, Total, UnitsAt, is_nested
from osgt.query.measures import Measure
from osgt.query.quantiles import NoisyTree
from osgt.support.numeric import LARGEST_VALUE, Floats, Integers

#: Groups of a level are put into at most so many classes, each with the noise of its noisiest group.
_CLASSES = 24

#: Noises up to which a sum is convolved term by term.
_FEW = 4

#: Different coefficients of one noise that are told apart; beyond, they are rounded up by at most one percent.
_COEFFICIENTS = 64


@dataclass(frozen=True)
class LevelNoises:
    """The noise of the numbers that are asked for, and of the trees that quantiles are read from."""

    numbers: Mapping[Measure, NoiseSum]
    trees: Mapping[Measure, NoisyTree]

    @classmethod
    def of(cls, scheme: Scheme, asked: Iterable[Measure], noise: Callable[[Combined], NoiseSum]) -> "LevelNoises":
        """The noise of what is asked for, given that of any combination of measured numbers."""
        numbers = {each: noise(scheme.combined[each]) for each in asked}
        trees = {
            each: NoisyTree(
                layout,
                tuple(noise({level: scheme.step(level)}) for level in layout.levels),
                None if layout.total is None else numbers[layout.total],
            )
            for each, layout in scheme.layouts.items()
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
    """The estimators and the noise of all levels, known without data."""

    groups: Groups
    scheme: Scheme
    laws: Mapping[Measure, IntegerDistribution]
    asked: tuple[Measure, ...]

    @cached_property
    def structure(self) -> Structure:
        """The levels, from the coarsest to the groups."""
        return Structure(self.groups)

    @cached_property
    def _estimators(self) -> dict[Measure, LeastSquares]:
        """The least squares for each number that is measured for the groups, over the levels in which it is."""
        result = {}
        for measure in self._measured:
            noise: dict[Level | None, float] = {None: self.laws[measure].var()}
            noise |= {level: self.laws[total].var() for level, total in self._totals(measure).items()}
            smallest = max(noise.values()) * 1e-12 or 1.0
            result[measure] = self.structure.least_squares(
                {level: max(variance, smallest) for level, variance in noise.items()}
            )
        return result

    @property
    def _measured(self) -> list[Measure]:
        return [measure for measure in self.scheme.measured if not measure.for_table]

    def _totals(self, measure: Measure) -> dict[Level, Total]:
        totals = (each for each in self.laws if isinstance(each, Total) and each.base == measure)
        return {each.level: each for each in totals}

    @cached_property
    def noises(self) -> list[list[AlikeGroups]]:
        """The groups of each level, by their noise."""
        return [self._classes(at) for at in range(len(self.structure.levels))]

    def _classes(self, at: int) -> list[AlikeGroups]:
        variances = {m: result.variances_of_estimates[at] for m, result in self._estimators.items()}
        first = next(iter(variances.values()))
        result = []
        for places in _alike(first):
            worst = {m: int(places[np.argmax(each[places])]) for m, each in variances.items()}
            terms = {m: self._terms(m, at, place) for m, place in worst.items()}
            cells = int(self.structure.cells[at][places].max())
            noise = partial(self._noise, terms=terms, cells=cells)
            result.append(AlikeGroups(places, LevelNoises.of(self.scheme, self.asked, noise)))
        return result

    def _noise(self, parts: Combined, terms: Mapping[Measure, list[ManyTerm]], cells: int) -> NoiseSum:
        every: list[ManyTerm] = []
        for measure, part in parts.items():
            if measure.for_table:
                every.append((part * cells, self.laws[measure], 1))
            else:
                every += [(_product(part, c), law, n) for c, law, n in terms[measure]]
        if sum(n for _, _, n in every) <= _FEW:
            return Combination(tuple((c, law) for c, law, n in every for _ in range(n)))
        return ManySum(tuple(every))

    def _terms(self, measure: Measure, at: int, place: int) -> list[ManyTerm]:
        """List the terms of the noise on the estimate for one group of a level."""
        totals = self._totals(measure)
        if not totals:
            return [(Fraction(1), self.laws[measure], int(self.structure.cells[at][place]))]
        asked: list[Floats | None] = [None] * len(self.structure.levels)
        one = np.zeros((self.structure.sizes[at], 1))
        one[place] = 1.0
        asked[at] = one
        weights = self._estimators[measure].weights(asked)
        result: list[ManyTerm] = []
        for level, each in zip(self.structure.levels, weights, strict=True):
            if level is None:
                result += _counted(each[:, 0], self.laws[measure])
            elif level in totals:
                result += _counted(each[:, 0], self.laws[totals[level]])
        return result

    def noisiest(self, at: int) -> tuple[LevelNoises, Mapping[Measure, NoiseSum]]:
        """The largest noises of a level: of numbers that add up, and of distinct units."""
        classes = [each.noises for each in self.noises[at]]
        numbers = {m: max((each.numbers[m] for each in classes), key=lambda noise: noise.var()) for m in self.asked}
        trees = {
            m: max((each.trees[m] for each in classes), key=lambda tree: tree.noises[-1].var())
            for m in self.scheme.layouts
        }
        level = self.structure.levels[at]
        distinct = None if level is None else distinct_noise(level, self.laws)
        return LevelNoises(numbers, trees), {} if distinct is None else dict.fromkeys(self.asked, distinct)

    def rows(
        self, measured: Mapping[Measure, Integers], confidence: float, *, nonnegative: bool
    ) -> list[list[LevelRows]]:
        """The numbers of every level, by class, out of those that were measured with noise."""
        corrections = {measure: self._corrections(measure, measured) for measure in self._measured}
        shown = {asked: self._levels_of(asked, measured, corrections, nonnegative) for asked in self.asked}
        result = []
        for at, classes in enumerate(self.noises):
            rows = []
            for each in classes:
                values = {asked: _taken(shown[asked][at][0], each.places) for asked in self.asked}
                whole = {asked: shown[asked][at][1][each.places] for asked in self.asked}
                trees = {
                    asked: self._tree(tree, at, each.places, measured, corrections, values)
                    for asked, tree in each.noises.trees.items()
                }
                added = Noisy(values, each.noises.numbers, confidence, nonnegative, trees, whole)
                rows.append(LevelRows(each.places, added, self._distinct(added, at, each.places, measured)))
            result.append(rows)
        return result

    def _tree(
        self,
        tree: NoisyTree,
        at: int,
        places: NDArray[np.intp],
        measured: Mapping[Measure, Integers],
        corrections: Mapping[Measure, list[Floats]],
        values: Mapping[Measure, Quotient],
    ) -> NoisyTree:
        """A tree with the estimates of some groups of a level."""
        level, total = self.structure.levels[at], tree.layout.total
        numbers = []
        for each in tree.layout.levels:
            exact = measured[each] if level is None else level.summed(measured[each])
            numbers.append((exact + corrections[each][at])[places] * float(self.scheme.step(each)))
        return tree.with_values(numbers, None if total is None else values[total])

    def _distinct(self, added: Noisy, at: int, places: NDArray[np.intp], measured: Mapping[Measure, Integers]) -> Noisy:
        """Put distinct units in place of those added up."""
        level = self.structure.levels[at]
        if level is None:
            return added
        result = distinct_units(level, measured, self.laws)
        return added if result is None else result.at(places, added)

    def _corrections(self, measure: Measure, measured: Mapping[Measure, Integers]) -> list[Floats]:
        """Compute what least squares add to the numbers of the groups and to their sums, by level."""
        totals = self._totals(measure)
        numbers = measured[measure]
        values: list[Floats | None] = []
        for level in self.structure.levels:
            if level is None:
                values.append(np.zeros(numbers.shape))
            elif level in totals:
                values.append((measured[totals[level]] - level.summed(numbers)).astype(np.float64))
            else:
                values.append(None)
        return self._estimators[measure].estimates(values)

    def _levels_of(
        self,
        asked: Measure,
        measured: Mapping[Measure, Integers],
        corrections: Mapping[Measure, list[Floats]],
        positive: bool,
    ) -> list[tuple[Quotient, Integers]]:
        """Compute for every level the estimates as fixed-point numbers, and the whole numbers that are shown."""
        parts = self.scheme.combined[asked]
        cells = {m: numbers for m, numbers in measured.items() if m in parts}
        size = self.structure.sizes[-1]
        spread = {m: np.broadcast_to(n, (size, n.shape[1])) if m.for_table else n for m, n in cells.items()}
        exact, of, is_fraction = self.scheme.values_of(asked, spread)
        correction = [
            sum((float(part) * corrections[m][at] for m, part in parts.items() if m in corrections), np.zeros((1, 1)))
            for at in range(len(self.structure.levels))
        ]
        whole = self._whole(exact, of, correction, positive and asked.low >= 0)
        result = []
        for at, level in enumerate(self.structure.levels):
            numbers, shown = (exact, whole) if level is None else (level.summed(exact), level.summed(whole))
            result.append((_fixed(Quotient(numbers, of, is_fraction), correction[at]), shown))
        return result

    def _whole(self, exact: Integers, of: int, correction: Sequence[Floats], positive: bool) -> Integers:
        """Whole numbers for the groups, near the estimates; so near are their sums for nested levels, too."""
        order = self.structure.in_order
        back = np.argsort(order)
        base, rest = np.divmod(exact, of)
        parts = rest / of + correction[-1]
        if positive:
            nested = is_nested([level.by for level in self.groups.levels])
            base, parts = nonnegative(base, parts, self.structure.places[:-1] if nested else [])
        return rounded_together(base[order], parts[order])[back]


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


def _counted(weights: Floats, law: IntegerDistribution) -> list[ManyTerm]:
    """Equal coefficients together; where there are many, they are rounded up to steps of one percent."""
    sizes = np.abs(weights[weights != 0])
    if len(sizes) == 0:
        return []
    sizes = np.exp(np.round(np.log(sizes), 9))
    if len(np.unique(sizes)) > _COEFFICIENTS:
        sizes = np.exp(np.ceil(np.log(np.maximum(sizes, sizes.max() * 1e-9)) * 100.0) / 100.0)
    result, numbers = np.unique(sizes, return_counts=True)
    return [(float(c), law, int(n)) for c, n in zip(result, numbers, strict=True)]


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
