"""The private choice of open limits: how many units each candidate would cut, from the engine, and the draw."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import ibis
import ibis.expr.types as ir

from osgt.data.reading import EngineQuery, check_query, compile_query, fetch
from osgt.data.unit import Neighbours
from osgt.limits.choice import Ladder, choose
from osgt.limits.worth import UNIT, saturated
from osgt.mechanism import Mechanism
from osgt.plan.choice import AROUND, FROM_ZERO, VALUE_STEP, Draw, LimitChoice, limit_of
from osgt.plan.plan import Plan
from osgt.query.aggregates.base import QuerySpec
from osgt.query.measures import Values
from osgt.query.open_limits import Limit, OpenLimit
from osgt.query.values import as_float, present
from osgt.release.exact_sums import prepared_rows
from osgt.support.errors import OsgtError

#: The columns of units with the number that a kind of candidates is about.
_NUMBERS = {AROUND: "number", FROM_ZERO: "number_from_zero"}

#: Values count as at most so many steps: floats tell these apart.
_MOST_STEPS = 1 << 50


class TooFewUnitsError(OsgtError, RuntimeError):
    """The budget was charged, and nothing was released: there are too few units to choose limits privately."""


@dataclass(frozen=True)
class PreparedDraw:
    """A draw, and the query for the histogram of its units."""

    draw: Draw
    query: EngineQuery


def prepare_draw(query: QuerySpec, draw: Draw) -> PreparedDraw:
    """Compile and check the query of a draw: units in the bins between candidates. No row is read."""
    units = unit_numbers(query, draw.limit)
    bins: dict[str, Any] = {}
    for ladder in draw.ladders:
        number, limits = units[_NUMBERS[ladder.kind]], ladder.limits
        inside = [number <= limits[0], *((number > low) & (number <= high) for low, high in pairwise(limits))]
        for i, holds in enumerate([*inside, number > limits[-1]]):
            bins[_bin(ladder, i)] = units.count(where=holds)
    ready = compile_query(units.agg(**bins))
    check_query(ready)
    return PreparedDraw(draw, ready)


def _bin(ladder: Ladder, place: int) -> str:
    return f"{_NUMBERS[ladder.kind]}_{place}"


def unit_numbers(query: QuerySpec, limit: OpenLimit) -> ir.Table:
    """A table of units with the number that a limit is about: rows, the total or the largest of a column.

    Values are whole steps, each of its row alone, so that the numbers of other units do not change with a unit. For
    bounds that begin at 0 a value below that is beyond every limit.
    """
    measures = [] if limit.column is None else [Values(limit.column)]
    rows, _, values = prepared_rows(query, measures, with_totals=False, with_keys=False)
    engine = query.dataset.engine
    if limit.column is None:
        return rows.group_by(UNIT).agg(number=rows.count())
    column = rows[values[limit.column]]
    value = as_float(column)
    size = ibis.least(value.abs(), float(_MOST_STEPS * VALUE_STEP)) * float(1 / VALUE_STEP)
    nothing = ibis.literal(0, type="int64")
    steps = present(column).ifelse((size + 0.5).floor().cast("int64"), nothing)
    negative = (present(column) & (value < 0)).ifelse(ibis.literal(_MOST_STEPS, type="int64"), nothing)
    numbers = rows.select(UNIT, steps=steps, negative=negative)
    if limit.argument == "max_total":
        total = saturated(engine.total(numbers["steps"]))
        return numbers.group_by(UNIT).agg(
            number=total, number_from_zero=ibis.greatest(total, numbers["negative"].max())
        )
    largest = ibis.greatest(numbers["steps"], numbers["negative"]).max()
    return numbers.group_by(UNIT).agg(number=numbers["steps"].max(), number_from_zero=largest)


def histograms_of(prepared: PreparedDraw) -> list[list[int]]:
    """Read the histogram of units of each ladder: as many as are between candidates. Private!"""
    [row] = fetch(prepared.query).to_pylist()
    return [[int(row[_bin(each, i)]) for i in range(len(each.limits) + 1)] for each in prepared.draw.ladders]


def choose_limits(
    draws: Sequence[PreparedDraw],
    choice: LimitChoice,
    noises: Mapping[OpenLimit, float],
    neighbours: Neighbours,
    units: int | None,
    max_rows: int = 1,
) -> dict[OpenLimit, Limit]:
    """Read the histograms of units, and draw a limit from each.

    `noises` is the noise at a limit of one, `max_rows` the limit of rows if that is given.
    """
    result: dict[OpenLimit, Any] = {}
    needed = choice.units_needed if units is None else 0  # a plan has refused too few of them, if they are known
    for prepared in draws:
        draw = prepared.draw
        histograms = histograms_of(prepared)
        if units is None:
            law = Mechanism.of(choice.counting_noise, 1, 1)
            units = int(law.release([sum(histograms[0])])[0])
        noise = noises[draw.limit]
        if draw.limit.argument == "bounds":
            # A value beyond its bounds is one row, and the noise is that of as many rows as a unit may have.
            noise *= float(max(result.get(OpenLimit("max_rows"), max_rows), 1))
        rule = choice.rule(draw, max(units, 1), noise)
        if rule is None or units < needed:
            raise TooFewUnitsError(
                f"Nothing was released: there are too few units to choose limits privately (about {max(units, 0):,}). "
                f"Give {' and '.join(each.draw.limit.words for each in draws)}. The charge stands."
            )
        chosen = choose(
            draw.ladders,
            histograms,
            epsilon=choice.epsilon_of_a_draw,
            target=rule.target,
            exponent=rule.exponent,
            neighbours=neighbours,
        )
        result[draw.limit] = limit_of(draw.limit, chosen)
    return result


def noise_at_one(plan: Plan, limit: OpenLimit) -> float:
    """The standard deviation of the numbers that a limit is about, with a limit of one."""
    own = [
        law.std() / plan.groups.shift(measure)
        for measure, law in plan.laws.items()
        if not measure.per_unit and (limit.argument == "max_total") == (measure.own_limit is not None)
    ]
    return max(own, default=1.0)
