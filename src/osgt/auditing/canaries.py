"""Whole releases with many canaries: units in groups of their own, put in or left out by coins, all in one release.

Where units are exchanged rather than added, a coin decides between two versions of a canary.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osgt.auditing.budget import Progress
from osgt.auditing.claims import epsilon_at
from osgt.auditing.made_rows import Row
from osgt.auditing.neighbours import Maker
from osgt.auditing.one_run import PARTS, guesses_of, least_epsilon, smallest_p_value
from osgt.auditing.result import Check, Finding
from osgt.auditing.stage import Stage, groups_of, keys_of
from osgt.privacy import PrivacyProfile
from osgt.sampling.entropy import SystemEntropy
from osgt.tables.bounding import fresh_salt
from osgt.tables.measuring import exact_numbers, prepared, shown_keys, with_noise
from osgt.tables.plan import Plan
from osgt.tables.planning import profile_of_all
from osgt.tables.query import Query

#: Canaries in one release, and rows that it has at most: these are written to the engine.
_MOST_CANARIES, _MOST_ROWS = 250, 60_000

#: The δ at which a verdict can be as sure as an audit has to be.
_TINY = 1e-14

#: Fewer canaries than this say nothing.
_FEWEST_CANARIES = 20

#: A group is shown but for this chance.
_HIDDEN = 1e-4

#: The lower bound that is told is wrong at most this often; the verdict has the false-alarm rate of the audit.
_TOLD = 0.05

#: For each measure the numbers of each group.
Numbers = Mapping[Any, Mapping[Any, NDArray[np.int64]]]


@dataclass(frozen=True, eq=False)
class _Table:
    """A query with its plan, and what makes rows for it."""

    query: Query
    plan: Plan

    @property
    def stage(self) -> Stage:
        return Stage(self.query)

    @property
    def groups(self) -> int:
        """How many groups of its own a canary has."""
        return self.query.groups.most if self.query.groups.by else 1

    @property
    def crowd(self) -> int:
        """How many others make that a group is shown."""
        plan = self.plan
        if plan.selector is None or plan.threshold is None:
            return 0
        return max(1, plan.threshold + int(plan.laws[plan.selector].isf(_HIDDEN)))


@dataclass(frozen=True, eq=False)
class _Stand:
    """The canaries, in both versions, and rows of others in their groups."""

    inside: tuple[tuple[Row, ...], ...]
    outside: tuple[tuple[Row, ...], ...]
    others: tuple[Row, ...]

    def rows(self, coins: Sequence[bool] | NDArray[np.bool_]) -> list[Row]:
        """The table for these coins."""
        both = zip(self.inside, self.outside, coins, strict=True)
        return [*self.others, *(row for one, other, is_in in both for row in (one if is_in else other))]


def canaries(
    tables: Sequence[tuple[Query, Plan]],
    *,
    false_alarm: float = 1e-6,
    progress: Progress = lambda what, done: None,
) -> Check | None:
    """One release of a made table, and what guesses about its canaries say about ε; None if there is no room.

    Tables that are released together all speak about the same canaries.
    """
    every = [_Table(query, plan) for query, plan in tables]
    stand = _stand(every)
    if stand is None:
        return None
    number = len(stand.inside)
    progress(f"canaries: {number}", 0.0)
    coins = np.unpackbits(SystemEntropy().read(number))[:number].astype(bool)
    scores = np.zeros(number)
    for i, table in enumerate(every):
        scores += _scores(table, stand, coins)
        progress(f"canaries: {number}", (i + 1) / len(every))
    # Others are in the groups too, so all that tells is the noise, whose whole curve is claimed. A p-value at δ cannot
    # be much smaller than δ itself: a smaller one is looked at as well.
    epsilon, delta = every[0].plan.epsilon, every[0].plan.delta
    profile: PrivacyProfile = profile_of_all([table.plan.noise for table in every])
    farther = epsilon_at(profile, _TINY)
    claims = [(epsilon, delta), (farther, _TINY)]
    p = min(1.0, len(claims) * min(smallest_p_value(scores, coins, *claim) for claim in claims))
    least = least_epsilon(scores, coins, delta, _TOLD)
    details: dict[str, Any] = {
        "canaries": number,
        "rows": len(stand.rows(coins)),
        "right": [list(guesses_of(scores, coins, part)) for part in PARTS],
        "p_value": p,
        "epsilon_at_least": least,
        "confidence": 1 - _TOLD,
    }
    name = "canaries"
    if p <= false_alarm:
        surely = least_epsilon(scores, coins, _TINY, false_alarm)
        what = f"ε is at least {surely:.3g} at δ = {_TINY:g}, and {farther:.3g} follows from the plan: p-value {p:.2g}"
        return Check(name, "The release gives canaries away.", (Finding(name, what),), false_alarm, details)
    words = (
        f"One release with {number} canaries, each in or out by a coin: from the guesses about all of them, ε is at "
        f"least {least:.3g} ({100 * (1 - _TOLD):g} % confidence); {epsilon:.15g} is promised."
    )
    return Check(name, words, (), false_alarm, details)


def _stand(tables: Sequence[_Table]) -> _Stand | None:
    """Canaries that are in groups of their own in each table, as far as there are such; None if there are too few."""
    exchanged = tables[0].plan.neighbours == "change_one"
    versions = 2 if exchanged else 1
    makers = [Maker(table.stage, most=_MOST_CANARIES * table.groups * versions) for table in tables]
    keys = [maker.counting_keys() for maker in makers]
    room = [len(own) // (table.groups * versions) for own, table in zip(keys, tables, strict=True)]
    each = sum(t.groups * (versions * t.crowd + (t.query.groups.max_rows or 1)) for t in tables)
    number = min(_MOST_CANARIES, _MOST_ROWS // each, max(room))
    if number < _FEWEST_CANARIES:
        return None
    inside: list[tuple[Row, ...]] = []
    outside: list[tuple[Row, ...]] = []
    others: list[Row] = []
    for i in range(number):
        made: list[list[Row]] = [[], []]
        for maker, table, every in zip(makers, tables, keys, strict=True):
            start = i * table.groups * versions
            own = every[start : start + table.groups * versions]
            made[0] += maker.heavy(i, own[: table.groups])
            made[1] += maker.heavy(i, own[table.groups :], low=True)
            for key in own:
                others += [maker.ordinary(number + len(others) + j, key) for j in range(table.crowd)]
        for canary, rows in ((inside, made[0]), (outside, made[1])):
            # A row that is a unit by itself is in all tables at once.
            canary.append(tuple([reduce(or_, rows)] if rows and makers[0].unit.each_row else rows))
    units = {tuple(makers[0].named(i).values()) for i in range(number + len(others))}
    if len(units) < number + len(others) and not makers[0].unit.each_row:
        return None  # two of them would be one
    return _Stand(tuple(inside), tuple(outside), tuple(others))


def _scores(table: _Table, stand: _Stand, coins: NDArray[np.bool_]) -> NDArray[np.float64]:
    """One release of a table: for each canary the logarithm of how much more likely it is with her than without."""
    stage, plan, salt, number = table.stage, table.plan, fresh_salt(), len(stand.inside)
    all_in, all_out = (_exact(stage, plan, stand.rows(np.full(number, each)), salt) for each in (True, False))
    query, order = stage.asked(stand.rows(coins))
    exact = exact_numbers(query, plan, prepared(query, plan, salt, order))
    noisy = with_noise(query, plan, exact)
    # A key is shown in another form than the one in which it is told apart.
    forms = dict(zip(keys_of(shown_keys(query, exact.keys)), groups_of(query, exact.keys), strict=True))
    shown = _by_group([forms[key] for key in keys_of(noisy.keys)], noisy.noisy)
    versions = [[*one, *other] for one, other in zip(stand.inside, stand.outside, strict=True)]
    places = stage.placed([row for rows in versions for row in rows])
    of_canary = np.repeat(np.arange(number), [len(rows) for rows in versions])
    groups: list[set[Any]] = [set() for _ in range(number)]
    for i, place in zip(of_canary, places, strict=True):
        if place is not None:
            groups[i].add(place.group)
    shared = Counter(group for own in groups for group in own)
    return np.array(
        [_score(plan, {group for group in own if shared[group] == 1}, all_in, all_out, shown) for own in groups]
    )


def _exact(stage: Stage, plan: Plan, rows: Sequence[Row], salt: int) -> Numbers:
    query, order = stage.asked(rows)
    exact = exact_numbers(query, plan, prepared(query, plan, salt, order))
    return _by_group(groups_of(query, exact.keys), exact.numbers)


def _by_group(groups: Sequence[Any], numbers: Mapping[Any, NDArray[np.int64]]) -> Numbers:
    """For each measure that has numbers in groups, these by the group."""
    return {measure: dict(zip(groups, each, strict=True)) for measure, each in numbers.items() if not measure.for_table}


def _score(plan: Plan, groups: set[Any], all_in: Numbers, all_out: Numbers, shown: Numbers) -> float:
    """The logarithm of how much more likely the numbers of a canary's groups are with it than without it."""
    total = 0.0
    for measure, numbers in shown.items():
        law = plan.laws[measure]
        for group in groups:
            seen = numbers.get(group)
            if seen is None:
                continue
            zero = np.zeros_like(seen)
            with_it, without = (each.get(measure, {}).get(group, zero) for each in (all_in, all_out))
            total += float(np.sum(law.logpmf(seen - with_it) - law.logpmf(seen - without)))
    return total if math.isfinite(total) else math.copysign(1e300, total)
