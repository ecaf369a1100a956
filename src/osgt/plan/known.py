"""Known totals: public numbers of some levels, with which the estimates of all levels agree.

To least squares a level that is known is one that is measured with a variance of zero. It costs no budget.

Known totals count what limits cut off, and measured numbers do not. What is missing in one group is shared out among
all groups of the same known total, so an estimate may be too small for its own group and too large for others:
`reach` bounds both.
"""

import itertools
import math
from collections.abc import Collection, Iterable, Mapping

import numpy as np

from osgt.plan.structure import LeastSquares, Structure, parents_of
from osgt.query.aggregates.base import Aggregate, PlainNumbers
from osgt.query.groups import Groups, Level, codes
from osgt.query.levels import groups_of_level
from osgt.query.measures import Measure
from osgt.support.errors import ArgumentError
from osgt.support.numeric import LARGEST_SUM, Floats, Integers
from osgt.support.text import names_in_words

#: The known numbers of levels, by what they count.
Known = Mapping[Measure, Mapping[Level, Integers]]


def known_totals(groups: Groups, aggregates: Iterable[Aggregate], *, complete: bool = False) -> Known:
    """The known totals of each count, those that follow for coarser levels among them; errors name `totals`.

    A count that is not there may still come, unless the query is `complete`.
    """
    result: dict[Measure, dict[Level, Integers]] = {}
    for level in groups.levels:
        measure = None if level.known is None else _count_of(level, groups, aggregates, complete=complete)
        if level.known is not None and measure is not None:
            result.setdefault(measure, {})[level] = np.array(level.known.numbers, np.int64)[:, None]
    for measure, known in result.items():
        most = LARGEST_SUM * groups.step(measure)
        if max(int(numbers.max()) for numbers in known.values()) > most:
            raise ArgumentError(f"totals: known totals must be at most {int(most):,} here", argument="totals")
        for one, other in itertools.combinations(known, 2):
            _check_agreement(groups, one, other)
        result[measure] = known | _coarser(groups, known)
    return result


def _coarser(groups: Groups, known: Mapping[Level, Integers]) -> dict[Level, Integers]:
    """The totals of coarser levels, which follow from known ones."""
    result = {}
    for level in groups.levels:
        finer = [other for other in known if set(level.by) < set(other.by)]
        if level not in known and finer:
            result[level] = _summed(groups, finer[0], level.by)
    return result


def _count_of(level: Level, groups: Groups, aggregates: Iterable[Aggregate], *, complete: bool) -> Measure | None:
    """The count that known totals are about; None if it is not there yet."""
    assert level.known is not None
    counts = {count.name: count for count in aggregates if isinstance(count, PlainNumbers) and _is_count(count.measure)}
    names, asked = [*counts], level.known.column
    if not names or asked not in (None, *names):
        if not complete:
            return None
        got = names_in_words(names) if names else "no count"
        what = "a count of rows or of units" if asked is None else repr(asked)
        raise ArgumentError(f"totals: known totals are about {what}, and the query asks for {got}", argument="totals")
    if asked is None and len({aggregate.measure for aggregate in counts.values()}) > 1:
        raise ArgumentError(
            f"totals: known totals are about one of the counts {names_in_words(names)}; say which, as in "
            f'{{"by": {list(level.by)}, "known": …, "column": {names[0]!r}}}',
            argument="totals",
        )
    aggregate = counts[names[0] if asked is None else asked]
    if not aggregate.adds_up(groups):
        raise ArgumentError(
            f"totals: {aggregate.name} counts distinct {groups.noun.many}, whose numbers in groups do not add up to a "
            f"known total; give max_groups=1 if each {groups.noun} is in one group",
            argument="totals",
        )
    return aggregate.measure


def _is_count(measure: Measure) -> bool:
    return measure.counted is not None and measure.numbers == 1


def _check_agreement(groups: Groups, one: Level, other: Level) -> None:
    """Raise unless two known levels have the same sums over what they have in common."""
    common = tuple(name for name in groups.by if name in one.by and name in other.by)
    first, second = (_summed(groups, level, common)[:, 0] for level in (one, other))
    wrong = np.flatnonzero(first != second)
    if len(wrong):
        assert groups.public is not None
        _, keys = groups_of_level(groups.public, common)
        key = ", ".join(str(keys[name][int(wrong[0])]) for name in common)
        where = f" for {key}" if key else ""
        raise ArgumentError(
            f"totals: the known totals contradict each other{where}: those {one.words} come to {first[wrong[0]]:,}, "
            f"those {other.words} to {second[wrong[0]]:,}",
            argument="totals",
        )


def _summed(groups: Groups, level: Level, by: tuple[str, ...]) -> Integers:
    """The known numbers of a level, added up for a coarser one."""
    assert groups.public is not None
    assert level.known is not None
    assert level.places is not None
    places, _ = groups_of_level(groups.public, by)
    result = np.zeros((int(places.max()) + 1, 1), np.int64)
    np.add.at(result, parents_of(level.places, places), np.array(level.known.numbers, np.int64)[:, None])
    return result


def reach(
    structure: Structure, squares: LeastSquares, known: Collection[tuple[str, ...]], missing: Floats
) -> list[tuple[Floats, Floats]]:
    """Bound how far estimates are above and below the true numbers, if up to `missing` is missing in each group.

    By level, what of it may make estimates too large, and what too small. `known` has the keys of the known levels.
    """
    if structure.is_product:
        return [_reach_in_cube(structure, at, known, missing) for at in range(len(structure.levels))]
    finest = max(known, key=len)
    above = [structure.by(level) for level in structure.levels].index(finest)
    _, firsts = np.unique(structure.places[above], return_index=True)
    ones = np.ones((len(firsts), 1))
    sums: list[Floats] = [
        np.bincount(places[firsts])[:, None].astype(np.float64) for places in structure.places[:above]
    ]
    zeros: list[Floats] = [np.zeros((size, 1)) for size in structure.sizes[above + 1 :]]
    parts = squares.estimates([*sums, ones, *zeros])
    result = []
    for at, places in enumerate(structure.places):
        own, finer = np.bincount(places, missing), float(at > above)
        of, part = parents_of(places, structure.places[above]), parts[at][:, 0]
        total = np.bincount(structure.places[above], missing)[of]
        result.append((finer * part * (total - own), finer * (1.0 - part) * own))
    return result


def _reach_in_cube(
    structure: Structure, at: int, known: Iterable[tuple[str, ...]], missing: Floats
) -> tuple[Floats, Floats]:
    """The reach among all combinations: known totals shift all cells of a margin alike, by inclusion and exclusion."""
    groups, keys = structure.groups, structure.keys(None)
    by = set(structure.by(structure.levels[at]))
    signs: dict[frozenset[str], int] = {}
    parts: dict[tuple[str, ...], float] = {}
    for margin in _closure(known):
        signs[margin] = 1 - sum(sign for larger, sign in signs.items() if margin < larger)
        common = tuple(name for name in groups.by if name in by & margin)
        cells = math.prod(int(codes(keys[name]).max()) + 1 for name in by - margin)
        parts[common] = parts.get(common, 0.0) + signs[margin] / cells
    own = np.bincount(structure.places[at], missing)
    above = np.zeros(len(own))
    below: Floats = max(1.0 - math.fsum(parts.values()), 0.0) * own.astype(np.float64)
    for common, part in parts.items():
        places, _ = groups_of_level(keys, common)
        others = np.bincount(places, missing)[parents_of(structure.places[at], places)] - own
        above += max(part, 0.0) * others
        below += max(-part, 0.0) * others
    return above, below


def _closure(levels: Iterable[tuple[str, ...]]) -> list[frozenset[str]]:
    """Sets of keys with all intersections of theirs, the largest first."""
    result = set(map(frozenset, levels))
    while more := {one & other for one in result for other in result} - result:
        result |= more
    return sorted(result, key=lambda by: (-len(by), sorted(by)))
