"""Whole releases with many canaries: units in groups of their own, put in or left out by coins, all in one release."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osgt.auditing.made_rows import Row
from osgt.auditing.neighbours import Maker
from osgt.auditing.one_run import PARTS, guesses_of, least_epsilon, smallest_p_value
from osgt.auditing.replay import Stage, keys_of
from osgt.auditing.result import Check, Finding, Progress
from osgt.sampling.entropy import SystemEntropy
from osgt.tables.bounding import fresh_salt
from osgt.tables.plan import Plan
from osgt.tables.planning import profile_of_pairs
from osgt.tables.query import Query
from osgt.tables.release import Exact, exact_numbers, prepared, with_noise

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


@dataclass(frozen=True, eq=False)
class _Stand:
    """The canaries: rows of each and rows of others in their groups."""

    canaries: tuple[tuple[Row, ...], ...]
    others: tuple[Row, ...]

    def rows(self, inside: Sequence[bool] | NDArray[np.bool_]) -> list[Row]:
        """The table with some of the canaries."""
        chosen = [row for rows, is_in in zip(self.canaries, inside, strict=True) if is_in for row in rows]
        return [*self.others, *chosen]


def canaries(
    query: Query, plan: Plan, *, false_alarm: float = 1e-6, progress: Progress = lambda what, done: None
) -> Check | None:
    """One release of a made table, and what guesses about its canaries say about ε; None if there is no room."""
    stand = _stand(query, plan)
    if stand is None:
        return None
    number = len(stand.canaries)
    progress(f"canaries: {number}", 0.0)
    stage = Stage(query, plan, Maker(query, []).columns)
    salt = fresh_salt()
    bits = np.unpackbits(SystemEntropy().read(number))[:number]
    inside = bits.astype(bool)
    all_in, all_out = (_exact(stage, stand.rows(np.full(number, each)), salt) for each in (True, False))
    progress(f"canaries: {number}", 0.5)
    played, order = stage.put_and_asked(stand.rows(inside))
    exact = exact_numbers(played, plan, prepared(played, plan, salt, order))
    noisy = with_noise(played, plan, exact)
    shown = _by_key(noisy.keys, noisy.noisy)
    scores = np.array([_score(plan, keys, all_in, all_out, shown) for keys in _own_groups(query, stand)])
    # Others are in the groups too, so all that tells is the noise, whose whole curve is claimed. A p-value at δ cannot
    # be much smaller than δ itself: a smaller one is looked at as well.
    farther = float(profile_of_pairs(plan.noise.pairs).epsilon(_TINY))
    claims = [(plan.epsilon, plan.delta), (farther, _TINY)]
    p = min(1.0, len(claims) * min(smallest_p_value(scores, inside, *claim) for claim in claims))
    least = least_epsilon(scores, inside, plan.delta, _TOLD)
    details: dict[str, Any] = {
        "canaries": number,
        "rows": len(stand.rows(inside)),
        "right": [list(guesses_of(scores, inside, part)) for part in PARTS],
        "p_value": p,
        "epsilon_at_least": least,
        "confidence": 1 - _TOLD,
    }
    name = "canaries"
    if p <= false_alarm:
        surely = least_epsilon(scores, inside, _TINY, false_alarm)
        what = f"ε is at least {surely:.3g} at δ = {_TINY:g}, and {farther:.3g} follows from the plan: p-value {p:.2g}"
        return Check(name, "The release gives canaries away.", (Finding(name, what),), false_alarm, details)
    words = (
        f"One release with {number} canaries, each in or out by a coin: from the guesses about all of them, ε is at "
        f"least {least:.3g} ({100 * (1 - _TOLD):g} % confidence); {plan.epsilon:.15g} is promised."
    )
    return Check(name, words, (), false_alarm, details)


def _stand(query: Query, plan: Plan) -> _Stand | None:
    maker = Maker(query, [])
    groups = query.groups.most if query.groups.by else 1
    crowd = 0
    if plan.selector is not None and plan.threshold is not None:
        crowd = max(1, plan.threshold + int(plan.laws[plan.selector].isf(_HIDDEN)))
    each = groups * (crowd + (query.groups.max_rows or 1))
    keys = maker.groups_of_own(_MOST_CANARIES * groups)
    number = min(_MOST_CANARIES, _MOST_ROWS // each, len(keys) // groups)
    if number < _FEWEST_CANARIES:
        return None
    made: list[tuple[Row, ...]] = []
    others: list[Row] = []
    for i in range(number):
        own = keys[i * groups : (i + 1) * groups]
        made.append(tuple(maker.heavy(i, own)))
        for key in own:
            others += [maker.ordinary(number + len(others) + j, key) for j in range(crowd)]
    return _Stand(tuple(made), tuple(others))


def _own_groups(query: Query, stand: _Stand) -> list[set[tuple[str | None, ...]]]:
    return [{tuple(row[name] for name in query.groups.by) for row in rows} for rows in stand.canaries]


Numbers = Mapping[Any, Mapping[Any, NDArray[np.int64]]]


def _exact(stage: Stage, rows: Sequence[Row], salt: int) -> Numbers:
    query, order = stage.put_and_asked(rows)
    exact: Exact = exact_numbers(query, stage.plan, prepared(query, stage.plan, salt, order))
    return _by_key(exact.keys, exact.numbers)


def _by_key(keys: Any, numbers: Mapping[Any, NDArray[np.int64]]) -> Numbers:
    """For each measure that has numbers in groups, these by the key of the group, as text."""
    names = [tuple(map(_text, key)) for key in keys_of(keys)]
    return {
        measure: dict(zip(names, each, strict=True))
        for measure, each in numbers.items()
        if not measure.for_table and len(each) == len(names)
    }


def _text(key: Any) -> str | None:
    return key.decode() if isinstance(key, bytes) else None if key is None else str(key)


def _score(plan: Plan, keys: set[tuple[str | None, ...]], all_in: Numbers, all_out: Numbers, shown: Numbers) -> float:
    """The logarithm of how much more likely the numbers of a canary's groups are with it than without it."""
    total = 0.0
    for measure, numbers in shown.items():
        law = plan.laws[measure]
        for key in keys:
            seen = numbers.get(key)
            if seen is None:
                continue
            zero = np.zeros_like(seen)
            with_it, without = (each.get(measure, {}).get(key, zero) for each in (all_in, all_out))
            total += float(np.sum(law.logpmf(seen - with_it) - law.logpmf(seen - without)))
    return total if math.isfinite(total) else math.copysign(1e300, total)
