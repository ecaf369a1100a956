"""What the engines should compute, in plain Python: a row at a time, no query language.

Every unit has K = 2³⁰ steps for its rows. The documentation does not say which groups of a unit come first where only
so many count; `choose` stands for their order.
"""

import functools
import itertools
import math
from collections import defaultdict
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from osgt.query.aggregates.proportion import Balance
from osgt.query.measures import (
    Bins,
    Centred,
    CentredSum,
    ClippedSum,
    Distinct,
    LimitedSum,
    Rows,
    Squares,
    Units,
    Values,
)
from osgt.query.quantiles import Leaves

#: The steps of a unit.
STEPS = 2**30

#: What the conditions of measures mean.
CONDITIONS = {"small > 0": lambda row: row["small"] is not None and row["small"] > 0}


@dataclass(frozen=True)
class Limits:
    """The limits of a query, as a user gives them; `public` are the keys that are, if any are."""

    max_rows: int | None = None
    max_groups: int | None = None
    max_rows_per_group: int | None = None
    public: tuple | None = None

    def groups_that_count(self, groups, choose):
        """The groups of a unit that count: all, or the first few in the order of `choose`."""
        limits = [self.max_groups, None if self.public is not None else self.max_rows]
        most = min([limit for limit in limits if limit is not None], default=len(groups))
        return set(groups) if len(groups) <= most else set(choose(groups)[:most])

    def worths(self, groups, counting, unit_rows):
        """What a row of a unit is worth in each of its groups."""
        if self.max_rows is not None:
            worth = STEPS // max(unit_rows, self.max_rows)
            return {group: worth if self.public is not None or group in counting else 0 for group in groups}
        return {
            group: STEPS // max(len(rows), self.max_rows_per_group or 1) if group in counting else 0
            for group, rows in groups.items()
        }


def by_group(rows, keys):
    """The rows of each group."""
    groups = defaultdict(list)
    for row in rows:
        groups[tuple(row[key] for key in keys)].append(row)
    return groups


def by_unit(rows, unit):
    """The rows of each unit, without those of nobody."""
    units = defaultdict(list)
    for row in rows:
        if row[unit] is not None:
            units[row[unit]].append(row)
    return units


def weighted_sums(rows, unit, keys, limits, measures, choose=None, choose_pairs=None):
    """For each group the numbers of each measure, in steps.

    Parameters
    ----------
    rows
        Dictionaries from column to value, those of other than public keys among them.
    choose
        From the groups of a unit, with their rows, to these groups in the order in which they count.
    choose_pairs
        The same for the pairs of group and value of a measure.
    """
    result = {}
    for person, own in by_unit(rows, unit).items():
        groups = {g: each for g, each in by_group(own, keys).items() if limits.public is None or g in limits.public}
        counting = limits.groups_that_count(groups, choose)
        worths = limits.worths(groups, counting, len(own))
        totals = {m: sum(abs(*numbers(m, [row], person)) for row in own) for m in measures if isinstance(m, LimitedSum)}
        for group, inside in groups.items():
            zero = [[0] * measure.numbers for measure in measures]
            sums = result.setdefault(group, zero)
            for place, measure in enumerate(measures):
                if isinstance(measure, Distinct):
                    added = [0]
                elif measure.per_unit:
                    added = [int(group in counting)]
                else:
                    full = group in counting or (limits.max_rows is not None and limits.public is not None)
                    added = _weighted(measure, inside, worths[group], full, totals, person)
                sums[place] = [a + b for a, b in zip(sums[place], added, strict=True)]
    for place, measure in enumerate(measures):
        if isinstance(measure, Distinct):
            worth = STEPS // measure.limit if measure.in_steps else 1
            for group, _ in pairs_that_count(rows, unit, keys, limits, measure, choose, choose_pairs):
                result[group][place][0] += worth
    return result


def pairs_of_units(rows, unit, keys, limits, measure, choose):
    """For each unit its pairs of group and value, with their rows: in groups that count, if these are chosen."""
    for own in by_unit(rows, unit).values():
        groups = {g: each for g, each in by_group(own, keys).items() if limits.public is None or g in limits.public}
        if keys and limits.public is None:
            counting = limits.groups_that_count(groups, choose)
            groups = {group: each for group, each in groups.items() if group in counting}
        pairs = defaultdict(list)
        for group, inside in groups.items():
            for row in inside:
                if not missing(row[measure.column]):
                    pairs[group, row[measure.column]].append(row)
        yield pairs


def pairs_that_count(rows, unit, keys, limits, measure, choose, choose_pairs):
    """The pairs of group and value that any unit counts with: each with as many as its limit."""
    result = set()
    for pairs in pairs_of_units(rows, unit, keys, limits, measure, choose):
        many = len(pairs) > measure.limit
        result |= set(choose_pairs(measure)(pairs)[: measure.limit] if many else pairs)
    return result


def _weighted(measure, rows, worth, counts, totals, unit):
    """What the rows of a unit in a group add: each the whole part of its number times its worth."""
    steps, of = worth, measure.largest
    if measure in totals:
        steps, of = STEPS if counts else 0, max(totals[measure], measure.own_limit)
    each = [numbers(measure, [row], unit) for row in rows]
    return [sum(toward_zero(steps * number, of) for number in column) for column in zip(*each, strict=True)]


def toward_zero(numerator, denominator):
    """A quotient of whole numbers, rounded toward 0."""
    return int(math.copysign(1, numerator)) * (abs(numerator) // denominator)


def cut_off(rows, unit, keys, limits, thing, choose=None):
    """What limits cut off and keep of all units, in steps: of "rows", "units" in groups, or values of units."""
    cut = kept = 0
    if isinstance(thing, Distinct):
        numbers = [len(pairs) for pairs in pairs_of_units(rows, unit, keys, limits, thing, choose)]
        full, beyond = STEPS // thing.limit, [max(number - thing.limit, 0) for number in numbers]
        cut = sum(each * min(full, 3 * STEPS // max(each, 1)) for each in beyond)
        return cut, sum(full * min(number, thing.limit) for number in numbers)
    for own in by_unit(rows, unit).values():
        groups = {g: each for g, each in by_group(own, keys).items() if limits.public is None or g in limits.public}
        counting = limits.groups_that_count(groups, choose)
        if thing == "units":
            full = STEPS // min(x for x in (limits.max_groups, limits.public and len(limits.public)) if x)
            kept += full * len(counting)
            beyond = len(groups) - len(counting)
            cut += beyond * min(full, 3 * STEPS // max(beyond, 1))
            continue
        in_box = limits.max_rows is None
        boxes = min(limits.max_groups, len(limits.public or ()) or limits.max_groups) if in_box else 1
        full = STEPS // boxes // limits.max_rows_per_group if in_box else STEPS // limits.max_rows
        inside = sum(len(each) for each in groups.values())
        most = 3 * STEPS // max(inside, 1) if in_box else 3 * (STEPS // max(len(own), limits.max_rows))
        for group, worth in limits.worths(groups, counting, len(own)).items():
            share = worth // boxes
            kept += len(groups[group]) * share
            cut += len(groups[group]) * min(full - share, most)
    return cut, kept


def row_sums(groups, unit, measures):
    """For each group the numbers of each measure where every row is a unit: counts as they are, sums in steps."""
    return {group: [_of_rows(measure, rows, unit) for measure in measures] for group, rows in groups.items()}


def _of_rows(measure, rows, unit):
    if isinstance(measure, Distinct) and measure.in_steps:
        return [STEPS // measure.limit * numbers(measure, rows, unit)[0]]
    if not isinstance(measure, LimitedSum):
        return numbers(measure, rows, unit)
    return [sum(toward_zero(STEPS * numbers(measure, [row], unit)[0], measure.own_limit) for row in rows)]


def numbers(measure, rows, unit):
    if isinstance(measure, Distinct):
        return [len({row[measure.column] for row in rows if not missing(row[measure.column])})]
    if isinstance(measure, Units):
        return [len({row[unit] for row in rows})]
    if isinstance(measure, Rows):
        return [len(rows)]
    if isinstance(measure, Centred):
        [base], [on] = (numbers(each, rows, unit) for each in (measure.base, measure.on))
        return [measure.times * base - measure.by * on]
    if isinstance(measure, Balance):
        holds = CONDITIONS[measure.condition.text]
        return [sum(1 if holds(row) else -1 for row in rows)]
    return _of_values(measure, rows)


def _of_values(measure, rows):
    values = [row[measure.column] for row in rows if not missing(row[measure.column])]
    if isinstance(measure, Values):
        return [len(values)]
    if isinstance(measure, Bins):
        return _bins(values, measure.edges)
    steps = [in_steps(value, measure.grid) for value in values]
    if isinstance(measure, Leaves):
        # As many bins as start up to here, less one, come before that of a value.
        places = [sum(start <= each for start in measure.edges[:-1].tolist()) - 1 for each in steps]
        return [places.count(i) for i in range(measure.numbers)]
    return [sum(_added(measure, each) for each in steps)]


def _added(measure, steps):
    if type(measure) in (ClippedSum, LimitedSum):
        return steps
    distance = 2 * steps - measure.grid.low - measure.grid.high
    if type(measure) is CentredSum:
        return distance
    assert type(measure) is Squares
    return 2 * distance**2 - measure.grid.width**2


def missing(value):
    """Null and NaN are no values; infinities are."""
    return value is None or (isinstance(value, float | Decimal) and math.isnan(value))


@functools.lru_cache(maxsize=100_000)
def in_steps(value, grid):
    """The nearest number of steps, halves upward; beyond the bounds, the bound."""
    if value in (math.inf, -math.inf):
        return grid.high if value > 0 else grid.low
    return min(max(math.floor(Fraction(value) / grid.step + Fraction(1, 2)), grid.low), grid.high)


def _bins(values, edges):
    counts = [0] * (len(edges) - 1)
    # Edges are floats: 0.01 as an edge means the decimal 0.01.
    for value in (float(value) if isinstance(value, Decimal) else value for value in values):
        for i, (low, high) in enumerate(itertools.pairwise(edges)):
            if low <= value < high or (i == len(counts) - 1 and value == high):
                counts[i] += 1
    return counts


def differences(found, expected, measures):
    """What differs, in words that say where; empty if nothing does."""
    wrong = [f"group {group}: not expected" for group in found.keys() - expected.keys()]
    wrong += [f"group {group}: not found" for group in expected.keys() - found.keys()]
    for group in found.keys() & expected.keys():
        for measure, theirs, ours in zip(measures, found[group], expected[group], strict=True):
            if theirs != ours:
                wrong.append(f"group {group}, {measure}: {theirs}, expected {ours}")
    return wrong[:10]
