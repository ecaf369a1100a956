"""A release in five lines: promise, limits, what was left out, intervals, ledger. The statement has all of it."""

from collections.abc import Callable

from osgt.facts import wording
from osgt.facts.plan_wording import limits_in_words
from osgt.facts.statement import Released, ReleasedTable, hold_truth
from osgt.limits.left_out import left_out_measures
from osgt.plan.plan import AnyPlan


def brief(release: Released) -> list[str]:
    """The lines; of several tables, what is true of all is told once, and the rest under their names."""
    plan, data, values = release.plan, release.dataset, release.statement.values
    tables = list(release.tables.values())
    charged = values["ledger"]
    held = hold_truth(tables, values["intervals"])
    limits = _of_each(release, lambda table: limits_in_words(table.plan)) or "none"
    return [
        wording.brief_promise(data.unit.noun, plan.epsilon, plan.delta, tables=len(tables)),
        f"Limits: {limits}{wording.chosen(_names_of_chosen(plan))}.",
        f"Left out: {_of_each(release, _left_out) or 'nothing'}.",
        wording.brief_intervals(plan.confidence, hold_truth=held),
        wording.brief_ledger(*((None, None) if charged is None else charged.values())),
    ]


def _names_of_chosen(plan: AnyPlan) -> list[str]:
    return [] if plan.choice is None else [draw.limit.words for draw in plan.choice.draws]


def _of_each(release: Released, words: Callable[[ReleasedTable], list[str]]) -> str:
    """Tell what is true of all tables once, and the rest of each under its name."""
    told = {name: words(table) for name, table in release.tables.items()}
    first, *others = told.values()
    common = [part for part in first if all(part in parts for parts in others)]
    rest = {name: [part for part in parts if part not in common] for name, parts in told.items()}
    return "; ".join([*common, *(f"{name}: {', '.join(parts)}" for name, parts in rest.items() if parts)])


def _left_out(table: ReleasedTable) -> list[str]:
    """Tell how much limits and the threshold left out of a table."""
    left_out, plan = table.left_out, table.plan
    if left_out is not None:
        parts = left_out.brief
    elif left_out_measures(table.query.groups, plan.aggregates) is None:
        parts = []
    else:
        parts = ["not measured what the limits cut off"]
    if plan.threshold is not None:
        counted = plan.groups.counted_in_words(plan.chosen_by)
        parts.append(f"groups below a noisy {plan.threshold:,} {counted}")
    return parts
