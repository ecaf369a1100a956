"""What the engines should compute, in plain Python: a row at a time, no query language.

The documentation does not say which groups of a unit are kept, only how many; `choose` stands for that choice.
"""

import itertools
import math
from collections import defaultdict
from decimal import Decimal
from fractions import Fraction

from osgt.query.aggregates.proportion import Balance
from osgt.query.measures import Bins, Centred, CentredSum, ClippedSum, Rows, Squares, Units, Values
from osgt.query.quantiles import Leaves

#: What the conditions of measures mean.
CONDITIONS = {"small > 0": lambda row: row["small"] is not None and row["small"] > 0}


def bounded(rows, unit, keys, order, max_groups, max_rows, choose=None):
    """The rows that are kept, as lists by group.

    Parameters
    ----------
    rows
        Dictionaries from column to value.
    choose
        From a unit and its groups to those that are kept; needed only where `max_groups` binds.
    """
    by_unit = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row[unit] is not None:
            by_unit[row[unit]][tuple(row[key] for key in keys)].append(row)
    kept = defaultdict(list)
    for person, groups in by_unit.items():
        chosen = set(groups)
        if len(groups) > max_groups:
            chosen = set(choose(person, set(groups)))
            assert len(chosen) == max_groups
            assert chosen <= set(groups)
        for group in chosen:
            kept[group] += sorted(groups[group], key=lambda row: row[order])[:max_rows]
    return dict(kept)


def sums(kept, unit, measures):
    """For each group the numbers of each measure, from its kept rows."""
    return {group: [numbers(measure, rows, unit) for measure in measures] for group, rows in kept.items()}


def numbers(measure, rows, unit):
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
    if type(measure) is ClippedSum:
        return steps
    distance = 2 * steps - measure.grid.low - measure.grid.high
    if type(measure) is CentredSum:
        return distance
    assert type(measure) is Squares
    return 2 * distance**2 - measure.grid.width**2


def missing(value):
    """Null and NaN are no values; infinities are."""
    return value is None or (isinstance(value, float | Decimal) and math.isnan(value))


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
    return wrong
