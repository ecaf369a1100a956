"""The numbers that a release measured, in plain values: all that is needed to recompute what one unit can move.

`check.py` reads these, and believes none of the sensitivities: they follow from the rules and from the limits.
"""

import re
from typing import Any

from osgt.noise import written
from osgt.plan.choice import LimitChoice
from osgt.plan.plan import Plan
from osgt.query.groups import Total, UnitsAt
from osgt.query.measures import Distinct, Measure
from osgt.query.quantiles import QuantileDraw
from osgt.query.values import ValueGrid


def measured_values(plan: Plan) -> dict[str, Any]:
    """Gather the values of the choice of groups, of the measures and of their noise."""
    extra = plan.noise.extra_noise
    measures = [
        *((measure.words, rule_of(measure), plan.laws[measure], part) for measure, part in plan.parts.items()),
        *((f"what is left out: {name}", _rule_left_out(plan, name), *noise) for name, noise in extra.items()),
    ]
    return {
        "selection_delta": plan.selection_delta,
        "threshold": plan.threshold,
        "threshold_in_steps": None if plan.selection is None else plan.selection.threshold,
        "chosen_by": plan.chosen_by,
        "chosen_by_measure": None if plan.selector is None else plan.selector.words,
        "shown_size": plan.shown_size,
        "measures": [
            {
                "measure": name,
                "rule": rule,
                "moved_by_one_unit": [{"shift": shift, "coordinates": n} for shift, n in part.moves],
                "noise": written(law),
            }
            for name, rule, law, part in measures
        ],
        "numbers": plan.noise.scheme.in_words(),
    }


def choice_values(choice: LimitChoice | None) -> dict[str, Any] | None:
    """Gather the values of the private choice of limits, and of counting the units before it."""
    if choice is None:
        return None
    return {
        "limits": [draw.limit.words for draw in choice.draws],
        "epsilon_of_each": choice.epsilon_of_a_draw,
        "noise_on_units": written(choice.counting_noise) if choice.counting_epsilon else None,
    }


def rule_of(measure: Measure) -> dict[str, Any]:
    """The rule of a measure: what a row adds to its numbers, at least and at most, and what else they depend on."""
    rule: dict[str, Any] = {
        "kind": _kind(measure),
        "adds": [measure.low, measure.high],
        "of": "unit" if measure.per_unit else "row",
        "numbers": measure.numbers,
    }
    for name in ("column", "times", "by"):
        if isinstance(value := getattr(measure, name, None), str | int):
            rule[name] = value
    for name in ("base", "on"):
        if isinstance(value := getattr(measure, name, None), Measure):
            rule[name] = rule_of(value)
    if isinstance(grid := getattr(measure, "grid", None), ValueGrid):
        rule |= {"step": str(grid.step), "from": grid.low, "to": grid.high}
    if measure.own_limit is not None:
        rule["limit"] = measure.own_limit
    if isinstance(measure, Distinct):
        rule |= {"of": "unit", "in_steps": measure.in_steps}
    if isinstance(measure, QuantileDraw):
        rule |= {"column": measure.leaves.column, "level": measure.level}
    if isinstance(measure, Total):
        rule |= {"level": list(measure.level.by), "groups": measure.level.size}
        rule["of"] = "unit" if isinstance(measure.base, UnitsAt) else rule["base"]["of"]
    return rule


def _rule_left_out(plan: Plan, name: str) -> dict[str, Any]:
    """The rule of a pair of numbers about what was left out."""
    left_out = plan.left_out  # None where a limit was chosen of which it cannot be measured what it cuts off
    if left_out is not None and name in left_out.names_of_misfits:
        return {"kind": "misfits"}
    if left_out is not None and name in left_out.outside:
        return {"kind": "outside", "column": left_out.outside[name].column}
    return {"kind": "cut_off", "what": name if name in ("rows", "units") else name.partition(" ")[0]}


def _kind(measure: Measure) -> str:
    """The name of a class of measures as it is written down: "centred_sum"."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(measure).__name__).lower()
