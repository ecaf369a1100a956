"""The wording of plans: which groups are published, what the noise saves, and all of it in lines for a terminal."""

from osgt.facts import wording
from osgt.plan.plan import SHOWN, AnyPlan, Plan
from osgt.query.aggregates.base import Column
from osgt.query.groups import OTHER
from osgt.support.numbers import counted, half_width, percent


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
    lines = [wording.cost(plan.epsilon, plan.delta, len(plan.tables))]
    if isinstance(plan, Plan):
        lines += [f"  {line}" for line in (*_noise(plan), gains(plan), *_limits(plan))]
    else:
        for name, table in plan.tables.items():
            lines += [f"{name}:", *(f"  {line}" for line in (*_noise(table), *_limits(table)))]
        lines.append(gains(plan))
    return "\n".join([*lines, *(f"Warning: {warning}" for warning in plan.cautions)])


def _noise(plan: Plan) -> list[str]:
    """The noise of each column."""
    lines = [f"{column.name}: {accuracy(column)}" for column in plan.columns]
    for level, columns in plan.totals.items():
        lines += [f"{column.name} {level.words}: {accuracy(column)}" for column in columns]
    return lines


def _limits(plan: Plan) -> list[str]:
    """Say which groups are chosen, and what the limits do."""
    lines = [] if plan.threshold is None else [f"{published_groups(plan)[0]} {choice(plan)}"]
    if (beside := plan.left_out) is not None:
        by_limits, misfits = bool(beside.things or beside.limits), bool(beside.misfits)
        lines.append(wording.measured_beside(by_limits=by_limits, misfits=misfits))
    return [*lines, *plan.limit_notes]
