"""The wording of plans: which groups are published, what the noise saves, and all of it in lines for a terminal."""

from typing import Any

from osgt.facts import wording
from osgt.plan.plan import HANDFUL, SHOWN, AnyPlan, Plan
from osgt.query.aggregates.base import Column
from osgt.query.groups import OTHER
from osgt.support.numbers import counted, half_width, listed, percent


def published_groups(plan: Plan, unit: str | None = None) -> list[str]:
    """Say which groups are published, if not all rows are one group; a unit by the name that people have for it."""
    if plan.threshold is not None:
        assert plan.chosen_by is not None
        assert plan.shown_size is not None
        return [wording.threshold(plan.chosen_by, plan.threshold, plan.shown_size, SHOWN, unit)]
    return [] if plan.groups.public is None else [wording.GIVEN_GROUPS]


def choice(plan: Plan) -> str | None:
    """Say what the choice of groups has to do with δ; None where none is chosen."""
    if plan.selection is None:
        return None
    return wording.choice(plan.selection_delta)


def totals(plan: Plan) -> list[str]:
    """Say how totals come about, if there are any."""
    if not plan.groups.levels:
        return []
    if plan.groups.public is None:
        return [wording.total_of_chosen_groups(OTHER)]
    return [wording.totals([level.words for level in plan.groups.levels])]


def gains(plan: AnyPlan) -> str:
    """Say how much smaller the error is than with the other noises."""
    over = "root mean square over the tables, of each over its columns in units of their shifts"
    if isinstance(plan, Plan):
        over = "root mean square over the columns" if len(plan.columns) > 1 else ""
    return wording.gains(plan.objective, plan.gains, over)


def width(column: Column) -> str:
    """The half-width of a column's interval: in a large group for a ratio, in ranks for a quantile."""
    if column.half_width is not None:
        return half_width(column.half_width)
    if column.ranks is not None:
        return f"{half_width(column.ranks)} ranks"
    size, half = max((column.by_size or {0: 0.0}).items())
    return f"{half_width(half)} with {counted(size, 'value')}"


#: Where a limit on values is open: what widths are told in multiples of, and its power.
_IN_LIMITS = {
    "sum": ("max_total", 1),
    "mean": ("the largest value", 1),
    "variance": ("the square of the largest value", 2),
}


def widths_at_limits(plan: Plan) -> dict[str, list[str]]:
    """The half-widths of each column at a handful of limits in place of those that are open.

    Those of a column whose limit on values is open are multiples of that. Where groups are chosen by their size, the
    least noisy number of one that is shown comes last.
    """
    plans = [plan.at_limit(size) for size in HANDFUL]
    lines = {}
    owners: list[Any] = [aggregate for aggregate in plan.aggregates for _ in aggregate.names]
    for i, (owner, column) in enumerate(zip(owners, plan.columns, strict=True)):
        name, scale = column.name, 1.0
        if owner.open_limit is not None:
            in_what, power = _IN_LIMITS[owner.kind]
            name, scale = f"{name}, in multiples of {in_what}", float(owner.grid.bounds[1]) ** power
        if column.ranks is not None:
            name += ", in ranks"
        if column.by_size is not None:
            name += f", with {counted(max(column.by_size), 'value')}"
        lines[name] = [half_width(at.columns[i].width / scale) for at in plans]
    if plan.selection is not None:
        lines[f"{plan.chosen_by} of a group that is shown, at least"] = [f"{at.threshold or 0:,}" for at in plans]
    return lines


def limits_to_choose(plan: AnyPlan) -> list[str]:
    """Say which limits are chosen privately first; nothing if all are given."""
    if plan.choice is None:
        return []
    names, choice = [draw.limit.words for draw in plan.choice.draws], plan.choice
    return [wording.limits_to_choose(names, choice.epsilon, plan.epsilon, choice.counting_epsilon)]


def _noise_at_limits(plan: Plan) -> list[str]:
    """The noise of each column at limits that may be chosen."""
    names = [limit.argument for limit in plan.open_limits if limit.column is None]
    at = f" at {' and '.join(names)} of {listed([str(size) for size in HANDFUL])}" if names else ""
    lines = [f"Noise intervals ({percent(plan.confidence)} of the time){at}:"]
    for name, widths in widths_at_limits(plan).items():
        lines.append(f"  {name}: {widths[0] if len(set(widths)) == 1 else ', '.join(widths)}")
    return lines


def accuracy(column: Column) -> str:
    """The half-widths of a column's interval, how often they hold, and the standard deviation if there is one."""
    widths, often = width(column), f"{percent(column.confidence)} of the time"
    if column.std is not None:
        return f"{widths} ({often}; standard deviation {column.std:,.4g})"
    if column.by_size is not None:
        sizes = column.by_size.items()
        widths = ", ".join(f"{half_width(half)} in a group of {counted(size, 'value')}" for size, half in sizes)
    return f"{widths} ({often})"


def plan_text(plan: AnyPlan) -> str:
    """A plan in lines."""
    lines = [wording.cost(plan.epsilon, plan.delta, len(plan.tables)), *limits_to_choose(plan)]
    if isinstance(plan, Plan):
        lines += [f"  {line}" for line in (*_noise(plan), gains(plan), *_limits(plan))]
    else:
        for name, table in plan.tables.items():
            lines += [f"{name}:", *(f"  {line}" for line in (*_noise(table), *_limits(table)))]
        lines.append(gains(plan))
    return "\n".join([*lines, *(f"Warning: {warning}" for warning in plan.cautions)])


def _noise(plan: Plan) -> list[str]:
    """The noise of each column."""
    if plan.open_limits:
        return _noise_at_limits(plan)
    lines = [f"{column.name}: {accuracy(column)}" for column in plan.columns]
    for level, columns in plan.totals.items():
        lines += [f"{column.name} {level.words}: {accuracy(column)}" for column in columns]
    return lines


def _limits(plan: Plan) -> list[str]:
    """Say which groups are chosen, and what the limits do."""
    shows_threshold = plan.threshold is not None and not plan.open_limits
    lines = [] if not shows_threshold else [f"{published_groups(plan)[0]} {choice(plan)}"]
    if (beside := plan.left_out) is not None:
        by_limits, misfits = bool(beside.things or beside.limits), bool(beside.misfits)
        lines.append(wording.measured_beside(by_limits=by_limits, misfits=misfits))
    return [*lines, *plan.limit_notes]
