"""Whole releases with many canaries: units in groups of their own, put in or left out by coins, all in one release.

Where units are exchanged rather than added, a coin decides between two versions of a canary.

Guesses about many canaries at once give a lower bound on ε from one release:
Steinke, Nasr and Jagielski, Privacy Auditing with One (1) Training Run (2023), Corollary 5.4 and Appendix D: m canaries
are put in by fair coins, an (ε, δ)-private algorithm runs once, and r of the coins are guessed from its output; on the
others one abstains. Then v or more guesses are right with probability at most

    P[W ≥ v] + 2·m·δ·max over i of P[v > W ≥ v - i]/i,      W binomial with r trials and probability e^ε/(1 + e^ε).

Several independent runs, each with canaries of its own, are one run of all of them.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import or_
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from osgt.api.query import Query
from osgt.auditing.evidence import epsilon_at
from osgt.auditing.neighbours import Maker
from osgt.auditing.result import Check, Finding, Progress
from osgt.auditing.stage import Row, Stage, groups_of, keys_of
from osgt.limits.contribution import fresh_salt
from osgt.plan.inputs import profile_of_all
from osgt.plan.plan import Plan
from osgt.privacy import PrivacyProfile
from osgt.release.measuring import Exact, exact_numbers, prepare, shown_keys, with_noise
from osgt.sampling.entropy import SystemEntropy
from osgt.support.numeric import least_that_fits

#: Of the canaries, the part that is guessed: those that the output speaks most clearly about. All are tried.
PARTS = (0.125, 0.25, 0.5, 1.0)


def p_value(canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """The probability, at most, of so many right guesses if the algorithm is (ε, δ)-differentially private."""
    chance = 1.0 / (1.0 + math.exp(-epsilon))
    by_luck = float(scipy.stats.binom.sf(right - 1, guesses, chance))
    if delta == 0 or right == 0:
        return min(1.0, by_luck)
    missed = np.arange(1, right + 1)
    below = np.cumsum(scipy.stats.binom.pmf(right - missed, guesses, chance))
    return min(1.0, by_luck + 2.0 * canaries * delta * float(np.max(below / missed)))


def guesses_of(scores: NDArray[np.float64], inside: NDArray[np.bool_], part: float) -> tuple[int, int]:
    """Count the guesses, and the right ones: canaries with the largest scores are guessed in, with the least out."""
    half = max(1, round(part * len(scores) / 2))
    order = np.argsort(scores, kind="stable")
    right = int(np.count_nonzero(inside[order[-half:]])) + int(np.count_nonzero(~inside[order[:half]]))
    return 2 * half, right


def smallest_p_value(scores: NDArray[np.float64], inside: NDArray[np.bool_], epsilon: float, delta: float) -> float:
    """A p-value from all `PARTS`: the least, times how many there are."""
    values = [p_value(len(scores), *guesses_of(scores, inside, part), epsilon, delta) for part in PARTS]
    return min(1.0, len(PARTS) * min(values))


def least_epsilon(scores: NDArray[np.float64], inside: NDArray[np.bool_], delta: float, error: float) -> float:
    """A lower bound on ε at this δ, wrong with probability at most `error`."""

    def is_refuted(minus: float) -> bool:
        return smallest_p_value(scores, inside, -minus, delta) <= error

    if not is_refuted(0.0):
        return 0.0
    return -(least_that_fits(is_refuted, 0.0, step=1.0, accuracy=1e-9, lowest=-_LARGEST) or 0.0)


#: A lower bound on ε is looked for up to this.
_LARGEST = 64.0

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
    """A query with its plan, and the groups in which each canary is alone but for a crowd, in each of its versions."""

    query: Query
    plan: Plan

    @cached_property
    def stage(self) -> Stage:
        return Stage(self.query)

    @cached_property
    def maker(self) -> Maker:
        """The maker of rows for the query."""
        return Maker(self.stage, most=_MOST_CANARIES * self.groups * self.versions)

    @property
    def versions(self) -> int:
        """The number of versions of a canary that have groups: it is in or out, or exchanged for another one."""
        return 2 if self.plan.neighbours == "change_one" else 1

    @property
    def groups(self) -> int:
        """The number of groups of its own that a canary has: where its rows are limited in all, they are in one."""
        in_one = not self.query.groups.by or self.query.groups.max_rows is not None
        return 1 if in_one else self.query.groups.max_groups_per_unit

    @property
    def crowd(self) -> int:
        """The number of others that a group needs to be shown."""
        plan = self.plan
        if plan.selector is None or plan.selection is None:
            return 0
        steps = plan.selection.threshold + int(plan.laws[plan.selector].isf(_HIDDEN))
        return max(1, math.ceil(steps * plan.groups.step(plan.selector)))

    @cached_property
    def keys(self) -> list[Row]:
        """The keys with which rows count, each in a group of its own."""
        return self.maker.counting_keys()

    @property
    def room(self) -> int:
        """The number of canaries that there are groups for."""
        return len(self.keys) // (self.groups * self.versions)

    @property
    def rows(self) -> int:
        """The number of rows that a canary takes, with its crowd."""
        return self.groups * (self.versions * self.crowd + (self.query.groups.max_rows or 1))

    def own(self, canary: int) -> list[Row]:
        """The keys of a canary, for its versions one after the other."""
        size = self.groups * self.versions
        return self.keys[canary * size : (canary + 1) * size]

    def canary(self, number: int, *, low: bool) -> list[Row]:
        """The rows of a canary in its first version, or in the other one, with low values."""
        own = self.own(number)
        return self.maker.heavy(number, own[self.groups :] if low else own[: self.groups], low=low)

    def others(self, canary: int, first: int) -> list[Row]:
        """The rows of the crowd in the groups of a canary, each of a unit with a number of its own from `first` on."""
        keys = [key for key in self.own(canary) for _ in range(self.crowd)]
        return [self.maker.ordinary(first + i, key) for i, key in enumerate(keys)]


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
    """Release a made table once, and judge ε by guesses about its canaries; None if there is no room.

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
    rows = sum(table.rows for table in tables)
    number = min(_MOST_CANARIES, _MOST_ROWS // rows, max(table.room for table in tables))
    if number < _FEWEST_CANARIES:
        return None
    inside: list[tuple[Row, ...]] = []
    outside: list[tuple[Row, ...]] = []
    others: list[Row] = []
    maker = tables[0].maker
    for i in range(number):
        for canary, low in ((inside, False), (outside, True)):
            made = [row for table in tables for row in table.canary(i, low=low)]
            # A row that is a unit by itself is in all tables at once.
            canary.append(tuple([reduce(or_, made)] if made and maker.unit.each_row else made))
        for table in tables:
            others += table.others(i, number + len(others))
    if not maker.can_name(number + len(others)):
        return None  # two of them would be one
    return _Stand(tuple(inside), tuple(outside), tuple(others))


def _scores(table: _Table, stand: _Stand, coins: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Release a table once, and score each canary: the log of how much more likely that is with her than without."""
    plan, salt, number = table.plan, fresh_salt(), len(stand.inside)
    all_in, all_out = (
        _by_group(groups_of(query, exact.keys), exact.numbers)
        for query, exact in (_exact(table, stand.rows(np.full(number, is_in)), salt) for is_in in (True, False))
    )
    query, exact = _exact(table, stand.rows(coins), salt)
    noisy = with_noise(query, plan, exact)
    # A key is shown in another form than the one in which it is told apart.
    forms = dict(zip(keys_of(shown_keys(query, exact.keys)), groups_of(query, exact.keys), strict=True))
    shown = _by_group([forms[key] for key in keys_of(noisy.keys)], noisy.noisy)
    return np.array([_score(plan, groups, all_in, all_out, shown) for groups in _own_groups(table, stand)])


def _own_groups(table: _Table, stand: _Stand) -> list[set[Any]]:
    """The groups of each canary that no other one is in, in either of its versions."""
    versions = [[*one, *other] for one, other in zip(stand.inside, stand.outside, strict=True)]
    places = table.stage.place([row for rows in versions for row in rows])
    of_canary = np.repeat(np.arange(len(versions)), [len(rows) for rows in versions])
    groups: list[set[Any]] = [set() for _ in versions]
    for i, place in zip(of_canary, places, strict=True):
        if place is not None:
            groups[i].add(place.group)
    shared = Counter(group for own in groups for group in own)
    return [{group for group in own if shared[group] == 1} for own in groups]


def _exact(table: _Table, rows: Sequence[Row], salt: int) -> tuple[Query, Exact]:
    """The query on these rows, and its exact numbers."""
    query, _ = table.stage.query_on(rows)
    return query, exact_numbers(query, table.plan, prepare(query, table.plan, salt))


def _by_group(groups: Sequence[Any], numbers: Mapping[Any, NDArray[np.int64]]) -> Numbers:
    """Arrange the numbers by the group, for each measure that has numbers in groups."""
    return {measure: dict(zip(groups, rows, strict=True)) for measure, rows in numbers.items() if not measure.for_table}


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
            with_it, without = (exact.get(measure, {}).get(group, zero) for exact in (all_in, all_out))
            total += float(np.sum(law.logpmf(seen - with_it) - law.logpmf(seen - without)))
    return total if math.isfinite(total) else math.copysign(1e300, total)
