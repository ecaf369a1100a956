"""The private choice of open limits: how many units each candidate would cut, from the engine, and the draw."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

from osgt.data.engines.query import EngineQuery, check_query, compile_query, fetch
from osgt.data.sql import Table, Value
from osgt.data.unit import Neighbours
from osgt.limits.choice import Ladder, choose
from osgt.limits.contribution import UNIT, saturate
from osgt.mechanism import Mechanism
from osgt.plan.choice import AROUND, FROM_ZERO, VALUE_STEP, Draw, LimitChoice, limit_of
from osgt.plan.plan import Plan
from osgt.query.aggregates.base import Limit, OpenLimit, QuerySpec
from osgt.query.measures import Distinct, Measure, Values
from osgt.query.values import as_float, present
from osgt.release.measuring import prepared_rows
from osgt.support.errors import OsgtError

#: The columns of units with the number that a kind of candidates is about.
_NUMBERS = {AROUND: "number", FROM_ZERO: "number_from_zero"}

#: Values count as at most so many steps: floats tell these apart.
_MOST_STEPS = 1 << 50

#: Values count as at most this before the centre of their range is subtracted.
_FARTHEST = 2.0**60


class TooFewUnitsError(OsgtError, RuntimeError):
    """The budget was charged, and nothing was released: there are too few units to choose limits privately."""


@dataclass(frozen=True)
class PreparedDraw:
    """A draw, and the query for the histogram of its units."""

    draw: Draw
    query: EngineQuery


def prepare_draw(query: QuerySpec, draw: Draw) -> PreparedDraw:
    """Write and check the query of a draw. No row is read."""
    prepared = compile_draw(query, draw)
    check_query(prepared.query)
    return prepared


def compile_draw(query: QuerySpec, draw: Draw) -> PreparedDraw:
    """Write the query of a draw: units in the bins between candidates."""
    units = unit_numbers(query, draw.limit)
    bins: dict[str, Value] = {}
    for ladder in draw.ladders:
        number, limits = units[_NUMBERS[ladder.kind]], ladder.limits
        inside = [number <= limits[0], *((number > low) & (number <= high) for low, high in pairwise(limits))]
        for i, holds in enumerate([*inside, number > limits[-1]]):
            bins[_bin(ladder, i)] = units.count().where(holds)
    ready = compile_query(
        units.select("histogram", "How many units are between candidates for a limit. Nobody sees it.", bins)
    )
    return PreparedDraw(draw, ready)


def _bin(ladder: Ladder, place: int) -> str:
    return f"{_NUMBERS[ladder.kind]}_{place}"


def unit_numbers(query: QuerySpec, limit: OpenLimit) -> Table:
    """A table of units with the number that a limit is about: rows, the total, largest or different values of a column.

    Values are whole steps, each of its row alone, so that the numbers of other units do not change with a unit. For
    bounds that begin at 0, or at the lower end of a range, a value below that is beyond every limit.
    """
    if limit.column is not None and not limit.is_of_values:
        return _numbers_of_pairs(query, Distinct(limit.column, 1))
    measures = [] if limit.column is None else [Values(limit.column)]
    rows, _, values = prepared_rows(query, measures, with_totals=False, with_keys=False)
    engine, name, comment = rows.engine, "unit_numbers", "The number of each unit that the limit is about."
    if limit.column is None:
        return rows.select(name, comment, {"number": rows.count()}, group_by=[UNIT])
    column = rows[values[limit.column]]
    negative = (present(column) & (as_float(column) < float(limit.low))).then(_MOST_STEPS, 0)
    steps = {"number_1": _distance(column, limit.centre), "number_2": negative}
    if limit.low != limit.centre:
        steps["number_3"] = _distance(column, limit.low)
    where = "0" if limit.low == limit.centre else "the lower end of the range"
    numbers = rows.select(
        "value_steps",
        f"The size of each value in whole steps, and whether it is below {where}.",
        {UNIT: rows[UNIT], **steps},
    )
    largest, below = numbers["number_1"], numbers["number_2"]
    from_low = numbers["number_3"] if "number_3" in steps else largest
    if limit.argument == "max_total":
        total = saturate(engine.total(largest))
        both = {"number": total, "number_from_zero": total.at_least(below.max())}
    else:
        both = {"number": largest.max(), "number_from_zero": from_low.at_least(below).max()}
    return numbers.select(name, comment, both, group_by=[UNIT])


def _numbers_of_pairs(query: QuerySpec, measure: Distinct) -> Table:
    """A table of units with the number of their pairs of group and value."""
    rows, keys, values = prepared_rows(query, [measure], with_totals=False)
    value = values[measure]
    present_rows = rows.select(
        "present_values",
        "The rows with a value.",
        {name: rows[name] for name in (UNIT, *keys, value)},
        where=[rows[value].not_null()],
    )
    names = [UNIT, *keys, value]
    pairs = present_rows.select("pairs", "The pairs of group and value of each unit.", {}, group_by=names)
    return pairs.select(
        "unit_numbers", "The number of each unit that the limit is about.", {"number": pairs.count()}, group_by=[UNIT]
    )


def _distance(column: Value, origin: Fraction) -> Value:
    """The distance of each value from a number in whole steps; 0 where it is missing."""
    value = as_float(column)
    if origin:  # no difference of two floats of this size is an error
        value = value.at_least(-_FARTHEST).at_most(_FARTHEST) - float(origin)
    size = value.abs().at_most(float(_MOST_STEPS * VALUE_STEP)) * float(1 / VALUE_STEP)
    return present(column).then((size + 0.5).floor().cast(column.engine.int64), 0)


def histograms_of(prepared: PreparedDraw) -> list[list[int]]:
    """Read the histogram of units of each ladder: as many as are between candidates. Private!"""
    [row] = fetch(prepared.query).to_pylist()
    return [[int(row[_bin(ladder, i)]) for i in range(len(ladder.limits) + 1)] for ladder in prepared.draw.ladders]


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
                f"Give {' and '.join(one.draw.limit.words for one in draws)}. The charge stands."
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
        if not measure.per_unit and _is_about(limit, measure)
    ]
    return max(own, default=1.0)


def _is_about(limit: OpenLimit, measure: Measure) -> bool:
    """Whether it is what a unit adds to a measure that a limit is about."""
    if isinstance(measure, Distinct):
        return limit.argument == "max_distinct" and limit.column == measure.column
    return (limit.argument == "max_total") == (measure.own_limit is not None) and limit.argument != "max_distinct"
