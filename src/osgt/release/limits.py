"""The private choice of open limits: how many units each candidate would cut, from the engine, and the draw."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

import ibis
import ibis.expr.types as ir

from osgt.data.reading import EngineQuery, check_query, compile_query, fetch
from osgt.data.unit import Neighbours
from osgt.limits.choice import choose
from osgt.limits.worth import UNIT, fresh_salt, saturated
from osgt.mechanism import Mechanism
from osgt.plan.choice import VALUE_STEP, Draw, LimitChoice, limit_of
from osgt.plan.plan import Plan
from osgt.query.aggregates.base import QuerySpec
from osgt.query.measures import Values
from osgt.query.open_limits import OpenLimit
from osgt.query.values import as_float, present
from osgt.release.exact_sums import prepared_rows
from osgt.support.errors import OsgtError


class TooFewUnitsError(OsgtError, RuntimeError):
    """The budget was charged, and nothing was released: there are too few units to choose limits privately."""


@dataclass(frozen=True)
class PreparedDraw:
    """A draw, and the query for the histogram of its units."""

    draw: Draw
    query: EngineQuery


def prepare_draw(query: QuerySpec, draw: Draw) -> PreparedDraw:
    """Compile and check the query of a draw. No row is read."""
    units, limits = unit_numbers(query, draw.limit), draw.ladder.limits
    number = units["number"]
    bins = {"units_0": units.count(where=number <= limits[0])}
    for i, (lower, upper) in enumerate(pairwise(limits), start=1):
        bins[f"units_{i}"] = units.count(where=(number > lower) & (number <= upper))
    bins[f"units_{len(limits)}"] = units.count(where=number > limits[-1])
    ready = compile_query(units.agg(**bins))
    check_query(ready)
    return PreparedDraw(draw, ready)


def unit_numbers(query: QuerySpec, limit: OpenLimit) -> ir.Table:
    """A table of units with the number that a limit is about: rows, groups, the total or the largest of a column.

    Values are whole steps, each of its row alone, so that the numbers of other units do not change with a unit.
    """
    in_groups = limit.argument == "max_groups"
    measures = [] if limit.column is None else [Values(limit.column)]
    rows, keys, values = prepared_rows(query, measures, with_totals=False, with_keys=in_groups)
    engine = query.dataset.engine
    if in_groups:
        pairs = rows.select(UNIT, group=engine.hashed(fresh_salt(), [rows[key] for key in keys]))
        return pairs.group_by(UNIT).agg(number=pairs["group"].nunique())
    if limit.column is None:
        return rows.group_by(UNIT).agg(number=rows.count())
    column, most = rows[values[limit.column]], 1 << 50
    size = ibis.least(as_float(column).abs(), float(most * VALUE_STEP)) * float(1 / VALUE_STEP)
    steps = present(column).ifelse((size + 0.5).floor().cast("int64"), ibis.literal(0, type="int64"))
    numbers = rows.select(UNIT, steps=steps)
    total: Any = numbers["steps"].max() if limit.argument == "bounds" else engine.total(numbers["steps"])
    return numbers.group_by(UNIT).agg(number=saturated(total))


def choose_limits(
    draws: Sequence[PreparedDraw],
    choice: LimitChoice,
    noises: Mapping[OpenLimit, float],
    neighbours: Neighbours,
    units: int | None,
) -> dict[OpenLimit, Fraction]:
    """Read the histograms of units, and draw a limit from each; `noises` is the noise at a limit of one."""
    result = {}
    for prepared in draws:
        draw = prepared.draw
        [row] = fetch(prepared.query).to_pylist()
        histogram = [int(row[f"units_{i}"]) for i in range(len(draw.ladder.limits) + 1)]
        if units is None:
            law = Mechanism.of(choice.counting_noise, 1, 1)
            units = int(law.release([sum(histogram)])[0])
        rule = choice.rule(draw, max(units, 1), noises[draw.limit])
        if rule is None or units < choice.units_needed:
            raise TooFewUnitsError(
                f"Nothing was released: there are too few units to choose limits privately (about {max(units, 0):,}). "
                f"Give {' and '.join(each.draw.limit.words for each in draws)}. The charge stands."
            )
        chosen = choose(
            [draw.ladder],
            [histogram],
            epsilon=choice.epsilon_of_a_draw,
            target=rule.target,
            exponent=rule.exponent,
            neighbours=neighbours,
        )
        result[draw.limit] = limit_of(draw.limit, chosen.limit)
    return result


def noise_at_one(plan: Plan, limit: OpenLimit) -> float:
    """The standard deviation of the numbers that a limit is about, with a limit of one."""
    own = [
        law.std() / plan.groups.shift(measure)
        for measure, law in plan.laws.items()
        if (limit.argument == "max_groups") == measure.per_unit
        and (limit.argument == "max_total") == (measure.own_limit is not None)
    ]
    return max(own, default=1.0)
