"""The choice of groups: one unit's own group must stay hidden but for the chance that δ allows; and the salts."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osgt.auditing.evidence import Counts, log_against, log_mean, p_value
from osgt.auditing.result import Check, Finding
from osgt.mechanism import Mechanism
from osgt.noise import IntegerLaw
from osgt.tables.bounding import fresh_salt
from osgt.tables.bounds.budget import NoisePlan
from osgt.tables.measuring import noisy_numbers
from osgt.tables.plan import Plan
from osgt.tables.planning import profile_of_all, profile_of_pairs

#: Groups of one unit that are tried, and salts that are drawn.
_GROUPS, _SALTS, _SALT_BITS = 1_000_000, 2048, 62

#: Relative error of figures that are computed in two ways.
_ROUNDING = 1e-6


@dataclass(frozen=True, eq=False)
class Chosen:
    """Groups that are shown by a noisy count: what one unit adds to it, its noise, and the software that chooses."""

    law: IntegerLaw
    most: int
    threshold: int
    #: The most groups that one unit is in.
    groups: int
    #: For exact counts of groups, which of them are shown.
    shown: Callable[[int], NDArray[np.bool_]]

    @property
    def chance(self) -> float:
        """P[most + Y ≥ threshold] for the most that one unit adds to the count, added up term by term."""
        first = self.threshold - self.most
        terms = self.law.pmf(np.arange(first, max(first, 0) + int(60 * self.law.std()) + 800))
        return float(min(1.0, math.fsum(np.asarray(terms).tolist())))

    @property
    def delta(self) -> float:
        """The probability that any group of a unit alone is shown."""
        return -math.expm1(self.groups * math.log1p(-self.chance))

    @classmethod
    def of(cls, plan: Plan) -> "Chosen | None":
        """The choice of a release; None if all groups are shown."""
        if plan.selector is None or plan.threshold is None:
            return None
        most = plan.groups.most_of(plan.selector)

        def shown(number: int) -> NDArray[np.bool_]:
            exact: dict[Any, Any] = {
                measure: np.zeros((1 if measure.for_table else number, measure.numbers), dtype=np.int64)
                for measure in plan.parts
            }
            exact[plan.selector][:] = most
            return noisy_numbers(plan, exact)[0]

        return cls(plan.laws[plan.selector], most, plan.threshold, plan.groups.most, shown)

    @classmethod
    def of_suggestion(cls, plan: NoisePlan) -> "Chosen | None":
        """The choice of groups whose sizes a suggestion looks at; None if it does not, or all are public."""
        if plan.threshold is None:
            return None
        law, part = plan.laws["sizes"], plan.parts["sizes"]

        def shown(number: int) -> NDArray[np.bool_]:
            ones = np.ones(number, dtype=np.int64)
            return np.asarray(Mechanism.of(law, part.shift, part.coordinates).release(ones) >= plan.threshold)

        return cls(law, 1, plan.threshold, part.coordinates, shown)


def choice(chosen: Sequence[Chosen], spent: float, delta: float, *, false_alarm: float = 1e-6) -> Check:
    """Judge thresholds, δ and salts: by adding up probabilities, and by what the software does.

    Parameters
    ----------
    spent
        δ of noise and choice together.
    delta
        The δ that is promised.
    """
    findings: list[Finding] = []
    details: dict[str, Any] = {"delta_spent": spent, "delta": delta, "chosen": []}
    words = ""
    if spent > delta * (1 + _ROUNDING):
        what = f"noise and choice take δ = {spent:.6g} together, {delta:.6g} is promised"
        findings.append(Finding("threshold" if chosen else "noise", what))
    for each in chosen:
        chance = each.chance
        hits = int(np.count_nonzero(each.shown(_GROUPS)))
        details["chosen"].append({"threshold": each.threshold, "chance_alone": chance, "of": _GROUPS, "shown": hits})
        # Nothing is learned; more than the chance says is what counts.
        counts = Counts(np.array([0]), 0, np.array([hits]), _GROUPS)
        evidence = float(log_against(counts, np.array([chance]))[0]) if hits > chance * _GROUPS else 0.0
        if evidence >= -math.log(false_alarm / 2 / len(chosen)):
            what = f"{hits:,} of {_GROUPS:,} groups of one unit were shown; p-value {p_value(evidence):.2g}"
            findings.append(Finding("groups of one unit", what))
        words += f"A group of one unit is shown with a probability of {chance:.2g}; {hits:,} of {_GROUPS:,} were. "
    words += f"{'Noise and choice take' if chosen else 'The noise takes'} δ = {spent:.3g} of {delta:.3g}. "
    wrong = _salts(false_alarm / 2)
    findings += [Finding("salts", wrong)] if wrong else []
    words += f"{_SALTS:,} salts differ from each other and have even bits." if not wrong else ""
    return Check("choice of groups" if chosen else "δ and salts", words.strip(), tuple(findings), false_alarm, details)


def spent_by(plans: Sequence[Plan]) -> float:
    """δ of noise and choice together, of tables that are released together.

    Where the choice is charged apart they add up. Else one table chooses: the largest over how many groups of the unit
    have nobody else in them.
    """
    epsilon = plans[0].epsilon
    whole = float(profile_of_all([plan.noise for plan in plans]).delta(epsilon))
    chosen = [(plan, each) for plan in plans if (each := Chosen.of(plan)) is not None]
    if any(plan.selection is not None and plan.selection.apart for plan in plans):
        return whole + math.fsum(each.delta for _, each in chosen)
    worst = whole
    for plan, each in chosen:
        others = [pair for other in plans if other is not plan for pair in other.noise.pairs]
        for alone in sorted({*range(1, min(each.groups, 12) + 1), each.groups}):
            parts = ((plan.laws[measure], plan.planning.part(measure, alone)) for measure in plan.parts)
            left = [*((law, part) for law, part in parts if part is not None), *plan.noise.beside.values(), *others]
            rest = float(profile_of_pairs(left).delta(epsilon)) if left else 0.0
            hidden = math.exp(alone * math.log1p(-each.chance))
            worst = max(worst, 1.0 - hidden + hidden * rest)
    return worst


def _salts(false_alarm: float) -> str | None:
    """What is wrong with the salts; None if nothing is."""
    salts = [fresh_salt() for _ in range(_SALTS)]
    if len(set(salts)) < _SALTS:
        return f"{_SALTS - len(set(salts)):,} of {_SALTS:,} salts came before"
    bits = np.array([[salt >> i & 1 for i in range(_SALT_BITS)] for salt in salts], dtype=np.int64)
    nothing = np.zeros(_SALT_BITS, dtype=np.int64)
    logs = log_against(Counts(nothing, 0, bits.sum(axis=0), _SALTS), np.full(_SALT_BITS, 0.5))
    if log_mean(logs) >= -math.log(false_alarm):
        return f"bit {int(np.argmax(logs))} is not even: p-value {p_value(log_mean(logs)):.2g}"
    return None
