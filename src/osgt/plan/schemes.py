"""Schemes: which whole numbers are measured, and how those that aggregates ask for are put together from them.

A number may be measured as it is, or centred on one that is measured anyway, which then moves half as far
(docs/how-tables-work.md#measure-once). Which way is best depends on all that is asked for. There are few
alternatives, and a formula says how good each is: they are all tried.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osgt.data.unit import Neighbours
from osgt.estimation.intervals import PARTS_OF_ONE, Quotient
from osgt.noise import Distribution
from osgt.noise.error import Combination
from osgt.query.aggregates.base import Error
from osgt.query.groups import Groups
from osgt.query.measures import (
    Centred,
    CentredOnAll,
    CentredSum,
    ClippedSum,
    Distinct,
    Measure,
    Rows,
    Units,
    UnitsInAny,
    Values,
    centre,
)
from osgt.query.quantiles import Layout, Leaves, NoisyTree, QuantileDraw, layouts
from osgt.support.numeric import LARGEST_VALUE

#: What an asked number is made of: measured numbers and their coefficients.
Combined = Mapping[Measure, Fraction]

#: Parts of a unit's reach by which numbers are centred on the units in any group.
_PARTS = (Fraction(1, 2), Fraction(1, 3), Fraction(1, 4), Fraction(1, 6))

#: Public groups for each group of a unit beyond which that cannot be better.
_MANY = 8

#: Alternatives up to which all are tried; where there are more, each number in turn takes the best for it.
_ALL = 300
_ROUNDS = 4


@dataclass(frozen=True)
class Scheme:
    """The measured numbers that each number which is asked for is made of.

    Quantiles have a layout beside that: then the coefficients say how far the noises of its levels count in ranks.
    """

    combined: Mapping[Measure, Combined]
    layouts: Mapping[Measure, Layout] = field(default_factory=dict)
    #: The size of a step of the measured numbers whose rows are weighted; they may be any fraction of one.
    steps: Mapping[Measure, Fraction] = field(default_factory=dict)
    #: The way in which each number is measured.
    ways: "Mapping[Measure, Option]" = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def key(self) -> frozenset[tuple[Measure, frozenset[tuple[Measure, Fraction]]]]:
        """The key of the scheme: schemes that come to the same have the same."""
        return frozenset((asked, frozenset(parts.items())) for asked, parts in self.combined.items())

    @cached_property
    def measured(self) -> tuple[Measure, ...]:
        """The measures, each once, in the order in which they are asked for."""
        return tuple(dict.fromkeys(measure for parts in self.combined.values() for measure in parts))

    def noises(self, laws: Mapping[Measure, Distribution]) -> dict[Measure, Combination]:
        """The noise of each number that is asked for."""
        return {
            asked: Combination(tuple((part, laws[measure]) for measure, part in parts.items()))
            for asked, parts in self.combined.items()
            if asked not in self.layouts
        }

    def values(self, measured: Mapping[Measure, NDArray[np.int64]]) -> dict[Measure, Quotient]:
        """The numbers that are asked for, out of those that were measured."""
        return {asked: self.values_of(asked, measured) for asked in self.combined if asked not in self.layouts}

    def trees(
        self, laws: Mapping[Measure, Distribution], measured: Mapping[Measure, NDArray[np.int64]] | None = None
    ) -> dict[Measure, NoisyTree]:
        """The trees that quantiles are read from, with their noise and, if there are any, with their numbers."""
        noises, values = self.noises(laws), {} if measured is None else self.values(measured)
        result = {}
        for asked, layout in self.layouts.items():
            levels, total = layout.levels, layout.total
            own = tuple(Combination(((self.step(level), laws[level]),)) for level in levels)
            tree = NoisyTree(layout, own, None if total is None else noises[total])
            if measured is not None:
                numbers = [np.asarray(measured[level] * float(self.step(level)), np.float64) for level in levels]
                tree = tree.with_values(numbers, None if total is None else values[total])
            result[asked] = tree
        return result

    def values_of(self, asked: Measure, measured: Mapping[Measure, NDArray[np.int64]]) -> Quotient:
        """Compute one of the numbers that are asked for, out of those that were measured; a drawn bin is as it is."""
        if isinstance(asked, QuantileDraw):
            return Quotient(measured[asked], 1)
        parts = self.combined[asked]
        return (
            _fraction(parts, measured) if any(measure in self.steps for measure in parts) else _exact(parts, measured)
        )

    def step(self, measure: Measure) -> Fraction:
        """The size of a step of a measured number."""
        return self.steps.get(measure, Fraction(1))

    def with_steps(self, measures: Mapping[Measure, tuple[Measure, Fraction, Fraction]]) -> "Scheme":
        """The scheme with other measured numbers, given each with the size of its steps before and now."""
        combined = {
            asked: {measures[m][0]: part / measures[m][1] * measures[m][2] for m, part in parts.items()}
            for asked, parts in self.combined.items()
        }
        return Scheme(combined, self.layouts, {measures[m][0]: measures[m][2] for m in self.steps})

    def with_totals(self, totals: Mapping[Measure, Fraction]) -> "Scheme":
        """Add numbers that are measured as they are: totals of some of the others, and the size of their steps."""
        steps = {total: step for total, step in totals.items() if step != 1}
        return Scheme(
            {**self.combined, **{total: {total: step} for total, step in totals.items()}},
            self.layouts,
            {**self.steps, **steps},
        )

    def in_words(self) -> dict[str, str]:
        """Write each number that is asked for as a sum of measured ones: "(rows - 2·units) + 2·(units)"."""
        return {asked.words: self._in_words(asked, parts) for asked, parts in self.combined.items()}

    def _in_words(self, asked: Measure, parts: Combined) -> str:
        if asked in self.layouts:
            return f"least squares over ({') and ('.join(measure.words for measure in parts)})"
        return " + ".join(
            f"({measure.words})" if part == 1 else f"{part}·({measure.words})" for measure, part in parts.items()
        )

    def coefficients(self, error: Error) -> dict[Measure, Fraction]:
        """The coefficients of the measured numbers in what decides an error."""
        result: dict[Measure, Fraction] = {}
        for asked, coefficient in error.coefficients.items():
            for measure, part in self.combined[asked].items():
                result[measure] = result.get(measure, Fraction(0)) + Fraction(coefficient) * part
        return {measure: number for measure, number in result.items() if number}

    def needs(self, errors: Iterable[Error]) -> dict[Measure, float]:
        """Compute how much the variance of each measure counts: Σ weight·coefficient²/unit² over the errors."""
        parts = {asked: [(m, float(part)) for m, part in combined.items()] for asked, combined in self.combined.items()}
        result = dict.fromkeys(self.measured, 0.0)
        for error in errors:
            total: dict[Measure, float] = {}
            for asked, coefficient in error.coefficients.items():
                for measure, part in parts[asked]:
                    total[measure] = total.get(measure, 0.0) + coefficient * part
            for measure, number in total.items():
                result[measure] += error.weight * (number / error.unit) ** 2
        return result


def _exact(parts: Combined, measured: Mapping[Measure, NDArray[np.int64]]) -> Quotient:
    """Σ coefficient·number as whole numbers and what they are to be divided by; beyond ±2⁶² they count as that."""
    of = math.lcm(*(part.denominator for part in parts.values()))
    factors = {measure: int(part * of) for measure, part in parts.items()}
    largest = sum(abs(factor) * int(np.abs(measured[measure]).max(initial=0)) for measure, factor in factors.items())
    if largest < LARGEST_VALUE:
        terms = [factor * measured[measure] for measure, factor in factors.items()]
        return Quotient(np.asarray(sum(terms[1:], terms[0])), of)
    # Integers of any size: slow, and as good as never.
    total = sum(factor * measured[measure].astype(object) for measure, factor in factors.items())
    return Quotient(np.clip(total, -LARGEST_VALUE, LARGEST_VALUE).astype(np.int64), of)


def _fraction(parts: Combined, measured: Mapping[Measure, NDArray[np.int64]]) -> Quotient:
    """Σ coefficient·number in small parts of one, to the nearest: numbers whose rows are weighted are fractions.

    A number that is a·q + b, 0 ≤ b < q, times p/q is a·p + b·p/q: both fit into 64 bits where the result does.
    """
    whole, rest = np.zeros((1, 1), np.int64), np.zeros((1, 1))
    largest, most = 0.0, LARGEST_VALUE // len(parts)
    for measure, part in parts.items():
        p, q = part.numerator, part.denominator
        numbers = measured[measure]
        reach = float(np.abs(numbers).max(initial=0)) / q * abs(p) + abs(p)
        if max(q * abs(p), reach) >= most:
            numbers = numbers.astype(object)  # integers of any size: slow, and as good as never
        above = numbers // q
        below = (numbers - above * q) * p
        more = below // q
        whole = whole + np.clip(above * p + more, -most, most).astype(np.int64)
        rest = rest + (below - more * q).astype(np.float64) / q
        largest += reach
    of = PARTS_OF_ONE
    while of > 1 and of * largest >= LARGEST_VALUE:
        of //= 2
    return Quotient(whole * of + np.rint(rest * of).astype(np.int64), of, is_fraction=True)


@dataclass(frozen=True)
class Option:
    """A way to measure a number: as it is, or by `measure` = times·number - by·on; or the levels of a layout."""

    measure: Measure | None = None
    on: Measure | None = None
    times: int = 1
    by: int = 0
    layout: Layout | None = None


@dataclass(frozen=True)
class Alternatives:
    """The schemes for what is asked for.

    Parameters
    ----------
    complete
        Columns known to be without missing values: their number of values is that of rows.
    direct
        Numbers that must be measured as they are: the count by which groups are chosen.
    ways
        For a table that shares numbers with others, the ways in which these are measured, as far as they are settled.
    """

    asked: tuple[Measure, ...]
    groups: Groups
    neighbours: Neighbours
    complete: frozenset[str] = frozenset()
    direct: frozenset[Measure] = frozenset()
    ways: Mapping[Measure, Option] | None = None
    _options: dict[Measure, list[Option]] = field(default_factory=dict)
    _made: dict[tuple[int, ...], Scheme] = field(default_factory=dict)
    _by_key: dict[Any, Scheme] = field(default_factory=dict)

    def same(self, asked: Measure) -> Measure:
        """The measure itself, or another one that comes to the same: rows for the values of a column without nulls."""
        complete = isinstance(asked, Values) and asked.column in self.complete
        return self.groups.canonical(Rows() if complete else asked)

    def directly(self) -> Scheme:
        """The scheme in which every number is measured as it is."""
        return self._scheme({})

    def ranked(self, cost: Callable[[Scheme], float]) -> list[Scheme]:
        """The schemes from the best to the worst by the cost; where they are many, those that a search has met."""
        numbers = self._numbers()
        options = [self.options(number) for number in numbers]
        met: dict[int, tuple[float, Scheme]] = {}

        def tried(choice: Sequence[int]) -> float:
            scheme = self._chosen(numbers, tuple(choice))
            if id(scheme) not in met:
                met[id(scheme)] = cost(scheme), scheme
            return met[id(scheme)][0]

        ways = [range(len(option)) for option in options]
        if math.prod(len(way) for way in ways) <= _ALL:
            for choice in itertools.product(*ways):
                tried(choice)
        else:
            for place in range(max(len(way) for way in ways)):
                _descend([min(place, len(way) - 1) for way in ways], ways, tried)
        # Of schemes that are as good, that with the fewest numbers.
        ordered = sorted(met.values(), key=lambda each: each[0] * (1 + 1e-6 * len(each[1].measured)))
        return [scheme for _, scheme in ordered]

    def _chosen(self, numbers: Sequence[Measure], choice: tuple[int, ...]) -> Scheme:
        """The scheme in which each number is measured in the way that is chosen for it; equal ones are one."""
        if choice not in self._made:
            pairs = zip(numbers, choice, strict=True)
            scheme = self._scheme({number: self.options(number)[place] for number, place in pairs})
            self._made[choice] = self._by_key.setdefault(scheme.key, scheme)
        return self._made[choice]

    def _numbers(self) -> list[Measure]:
        """The numbers that can be measured in several ways: those asked for, and counts to centre them on."""
        extra = [self.groups.canonical(Rows()), Units()]
        sums = [measure.column for measure in self.asked if isinstance(measure, ClippedSum)]
        extra += [Values(column) for column in dict.fromkeys(sums) if column not in self.complete]
        return [number for number in dict.fromkeys([*self.asked, *extra]) if len(self.options(number)) > 1]

    def options(self, asked: Measure) -> list[Option]:
        """The ways to measure a number; the first is as it is."""
        if asked not in self._options:
            self._options[asked] = list(self._ways(asked))
            if self.ways is not None and is_alike(self.groups, asked):
                shared = [option for option in self._options[asked] if not isinstance(option.measure, CentredOnAll)]
                self._options[asked] = [self.ways[asked]] if asked in self.ways else shared
        return self._options[asked]

    def _ways(self, asked: Measure) -> Iterator[Option]:
        if isinstance(asked, Leaves):
            total = self.same(Values(asked.column))
            anyway = total in map(self.same, self.asked)
            yield from (Option(layout=layout) for layout in layouts(asked, total if anyway else None))
            return
        yield Option()
        if asked in self.direct:
            return
        if type(asked) in (Values, ClippedSum):
            yield self._centred_on_rows(asked)
        if type(asked) is ClippedSum:
            ends = asked.grid.low + asked.grid.high
            yield Option(CentredSum(asked.column, asked.grid), Values(asked.column), 2, ends)
        if type(asked) in (Units, Values, ClippedSum) and self._may_use_all and not self.groups.is_weighted(asked):
            yield from self._centred_on_all(asked, min(asked.low, 0) + max(asked.high, 0))

    def _centred_on_all(self, asked: Measure, reach: Any) -> Iterator[Option]:
        """The ways to centre a number on the count of units in any group, by parts of its `reach`."""
        in_few = self.groups.max_groups_per_unit < (self.groups.public_group_count or 1)
        for part in _PARTS if in_few else _PARTS[:1]:
            middle = part * reach
            times, by = middle.denominator, middle.numerator
            if times > 12:
                times, by = 1, round(middle)
            if by:
                yield Option(CentredOnAll(asked, times, by), UnitsInAny(), times, by)

    @property
    def _may_use_all(self) -> bool:
        """Whether numbers may be centred on the units in any group: several public groups, and units come and go."""
        known = self.groups.public_group_count or 1
        return (
            self.neighbours == "add_remove"
            and self.groups.public is not None
            and 1 < known <= _MANY * self.groups.max_groups_per_unit
        )

    def _centred_on_rows(self, asked: Measure) -> Option:
        """Centre what each row adds; where rows count by their worth, on the rows themselves, not on their unit."""
        times, by = centre(asked.low, asked.high)
        same = self.groups.canonical(Rows())
        own = Rows() if self.groups.is_weighted(asked) else same
        return Option(Centred(asked, own, times, by), same, times, by)

    def _scheme(self, chosen: Mapping[Measure, Option]) -> Scheme:
        made: dict[Measure, Combined] = {}
        ways: dict[Measure, Option] = {}

        def combined(asked: Measure) -> Combined:
            if asked not in made:
                made[asked] = made_of(asked)
            return made[asked]

        def made_of(asked: Measure) -> Combined:
            if self.same(asked) != asked:
                return combined(self.same(asked))
            option = ways[asked] = chosen.get(asked) or self.options(asked)[0]
            if option.layout is not None:
                ranks, whole = option.layout.coefficients
                result = {
                    level: rank * self.groups.step(level)
                    for level, rank in zip(option.layout.levels, ranks, strict=True)
                }
                if option.layout.total is not None:
                    for measure, part in combined(option.layout.total).items():
                        result[measure] = result.get(measure, Fraction(0)) + whole * part
                return result
            if option.measure is None or option.on is None:
                return {asked: self.groups.step(asked)}
            total: dict[Measure, Fraction] = {}
            if option.measure.largest:
                total[option.measure] = self.groups.step(option.measure) / option.times
            if option.by:
                for measure, part in combined(option.on).items():
                    total[measure] = total.get(measure, Fraction(0)) + Fraction(option.by, option.times) * part
            return {measure: part for measure, part in total.items() if part}

        trees = [asked for asked in self.asked if isinstance(asked, Leaves)]
        layout_of = {asked: (chosen.get(asked) or self.options(asked)[0]).layout for asked in trees}
        totals = [layout.total for layout in layout_of.values() if layout is not None and layout.total is not None]
        result = {asked: combined(asked) for asked in dict.fromkeys([*self.asked, *totals])}
        measured = {measure for parts in result.values() for measure in parts}
        return Scheme(
            result,
            {asked: layout for asked, layout in layout_of.items() if layout is not None},
            {measure: self.groups.step(measure) for measure in measured if self.groups.is_weighted(measure)},
            ways,
        )


def is_alike(groups: Groups, measure: Measure) -> bool:
    """Whether what a row adds to a number is the same in whatever groups: units have their steps for all together."""
    return not isinstance(measure, Distinct) and (groups.each_row or groups.limits_in_all(measure))


def _descend(choice: list[int], options: Sequence[Sequence[int]], cost: Callable[[Sequence[int]], float]) -> None:
    """Let one number after the other take the way that is best for all, as long as that helps."""
    least = cost(choice)
    for _ in range(_ROUNDS):
        before = least
        for i, ways in enumerate(options):
            costs = [cost([*choice[:i], way, *choice[i + 1 :]]) for way in ways]
            choice[i], least = ways[costs.index(min(costs))], min(costs)
        if least >= before:
            return


@dataclass(frozen=True)
class RoughCost:
    """About the least weighted variance of a scheme: with Gaussian and with Laplace noise, and at a budget.

    With noise of variance v on a measure that counts for a, Gaussian noise has Σ a·v least under a limit on
    Σ coordinates·shift²/v, which is (Σ shift·√(a·coordinates))²; Laplace noise under one on Σ coordinates·shift/√v.
    """

    groups: Groups
    neighbours: Neighbours
    errors: tuple[Error, ...]
    _moves: dict[Measure, tuple[float, float]] = field(default_factory=dict)
    _costs: dict[Any, tuple[float, float]] = field(default_factory=dict)

    def at(self, epsilon: float, delta: float) -> Callable[[Scheme], float]:
        """The cost at a budget: that of the better of the two."""
        log_inverse = -math.log(delta) if delta > 0 else math.inf
        root_rho = epsilon / (math.sqrt(log_inverse + epsilon) + math.sqrt(log_inverse))
        of_gaussian = 1.0 / (2.0 * root_rho**2) if delta > 0 else math.inf
        of_laplace = 2.0 / epsilon**2
        return lambda scheme: min(of_gaussian * self.gaussian(scheme), of_laplace * self.laplace(scheme))

    def gaussian(self, scheme: Scheme) -> float:
        """The cost with Gaussian noise, as all schemes have it at one budget but for a factor."""
        return self._cost(scheme)[0]

    def laplace(self, scheme: Scheme) -> float:
        """The cost with Laplace noise, likewise."""
        return self._cost(scheme)[1]

    def _cost(self, scheme: Scheme) -> tuple[float, float]:
        if scheme.key not in self._costs:
            needs = [(a, *self._sum_moves(measure)) for measure, a in scheme.needs(self.errors).items()]
            gaussian = math.fsum(math.sqrt(a * squares) for a, _, squares in needs) ** 2
            laplace = math.fsum((a * moved**2) ** (1 / 3) for a, moved, _ in needs) ** 3
            self._costs[scheme.key] = gaussian, laplace
        return self._costs[scheme.key]

    def _sum_moves(self, measure: Measure) -> tuple[float, float]:
        """Σ coordinates·shift and Σ coordinates·shift²."""
        if measure not in self._moves:
            moves = self.groups.sensitivity(measure, self.neighbours)
            self._moves[measure] = (
                math.fsum(float(n) * shift for shift, n in moves),
                math.fsum(float(n) * float(shift) ** 2 for shift, n in moves),
            )
        return self._moves[measure]
