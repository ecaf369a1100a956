"""The choice of groups: one unit's own group must stay hidden but for the chance that δ allows; and the salts."""

import math
from typing import Any

import numpy as np

from osgt.auditing.evidence import Counts, log_against, log_mean, p_value
from osgt.auditing.result import Check, Finding
from osgt.tables.bounding import fresh_salt
from osgt.tables.plan import Plan
from osgt.tables.planning import profile_of_pairs
from osgt.tables.release import noisy_numbers

#: Groups of one unit that are tried, and salts that are drawn.
_GROUPS, _SALTS, _SALT_BITS = 1_000_000, 2048, 62

#: Relative error of figures that are computed in two ways.
_ROUNDING = 1e-6


def choice(plan: Plan, *, false_alarm: float = 1e-6) -> Check:
    """Judge threshold and salts: by adding up probabilities, and by what the software does."""
    findings: list[Finding] = []
    words, details = "", {}
    if plan.selector is not None and plan.selection is not None:
        chance = _chance_alone(plan)
        spent = _spent(plan, chance)
        details = {"threshold": plan.threshold, "chance_alone": chance, "delta_spent": spent}
        if spent > plan.delta * (1 + _ROUNDING):
            findings.append(
                Finding("threshold", f"noise and choice take δ = {spent:.6g} together, {plan.delta:.6g} is promised")
            )
        shown, evidence = _shown_alone(plan, chance)
        details |= {"groups_alone": _GROUPS, "shown": shown}
        if evidence >= -math.log(false_alarm / 2):
            what = f"{shown:,} of {_GROUPS:,} groups of one unit were shown; p-value {p_value(evidence):.2g}"
            findings.append(Finding("groups of one unit", what))
        words = (
            f"A group of one unit is shown with a probability of {chance:.2g}; {shown:,} of {_GROUPS:,} were. With the "
            f"noise that takes δ = {spent:.3g} of {plan.delta:.3g}. "
        )
    wrong = _salts(false_alarm / 2)
    findings += [Finding("salts", wrong)] if wrong else []
    words += f"{_SALTS:,} salts differ from each other and have even bits." if not wrong else ""
    return Check("choice of groups", words.strip(), tuple(findings), false_alarm, details)


def _chance_alone(plan: Plan) -> float:
    """P[most + Y ≥ threshold] for the most that one unit adds to the count, added up term by term."""
    assert plan.selector is not None
    assert plan.threshold is not None
    law, most = plan.laws[plan.selector], plan.groups.most_of(plan.selector)
    first = plan.threshold - most
    terms = law.pmf(np.arange(first, max(first, 0) + int(60 * law.std()) + 800))
    return float(min(1.0, math.fsum(np.asarray(terms).tolist())))


def _spent(plan: Plan, chance: float) -> float:
    """δ of noise and choice together: the largest over how many groups of the unit have nobody else in them."""
    assert plan.selection is not None
    groups = plan.groups.most
    if plan.selection.apart:
        return float(profile_of_pairs(plan.noise.pairs).delta(plan.epsilon)) - math.expm1(groups * math.log1p(-chance))
    worst = float(profile_of_pairs(plan.noise.pairs).delta(plan.epsilon))
    for alone in sorted({*range(1, min(groups, 12) + 1), groups}):
        parts = ((plan.laws[measure], plan.planning.part(measure, alone)) for measure in plan.parts)
        left = [*((law, part) for law, part in parts if part is not None), *plan.noise.beside.values()]
        rest = float(profile_of_pairs(left).delta(plan.epsilon)) if left else 0.0
        hidden = math.exp(alone * math.log1p(-chance))
        worst = max(worst, 1.0 - hidden + hidden * rest)
    return worst


def _shown_alone(plan: Plan, chance: float) -> tuple[int, float]:
    """How many groups of one unit the software shows, and the evidence that it shows too many."""
    assert plan.selector is not None
    most = plan.groups.most_of(plan.selector)
    exact: dict[Any, Any] = {
        measure: np.zeros((1 if measure.for_table else _GROUPS, measure.numbers), dtype=np.int64)
        for measure in plan.parts
    }
    exact[plan.selector][:] = most
    shown, _ = noisy_numbers(plan, exact)
    hits = int(np.count_nonzero(shown))
    # Nothing is learned; more than the chance says is what counts.
    counts = Counts(np.array([0]), 0, np.array([hits]), _GROUPS)
    evidence = float(log_against(counts, np.array([chance]))[0]) if hits > chance * _GROUPS else 0.0
    return hits, evidence


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
