"""Making a suggestion: charge, read, add noise to the histograms, and look for the best bounds."""

import datetime
import math
from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import version
from typing import Any, get_args

import numpy as np

from osgt.calibration import Part, calibrate_parts
from osgt.calibration.joint import budget
from osgt.calibration.rough import calibrate_roughly
from osgt.mechanism import Mechanism
from osgt.noise.parameters import confidence_level
from osgt.tables.bounding import fresh_salt
from osgt.tables.bounds.budget import NoisePlan, noise_plan, sizes_can_be_measured
from osgt.tables.bounds.curve import Aim, Bounds
from osgt.tables.bounds.edges import SMALLEST_VALUE, count_edges, value_edges
from osgt.tables.bounds.evidence import Evidence, RowsHistogram
from osgt.tables.bounds.histogram import Histogram
from osgt.tables.bounds.measuring import Exact, Layout, exact_numbers, histograms
from osgt.tables.bounds.open_query import OpenQuery
from osgt.tables.bounds.recommendation import recommend
from osgt.tables.bounds.skew import Sizes
from osgt.tables.bounds.suggestion import Suggestion
from osgt.tables.charging import reserved, title_of
from osgt.tables.errors import NothingReleasedError
from osgt.tables.exact_sums import prepared_rows
from osgt.tables.groups import Groups, Neighbours
from osgt.tables.measures import Values
from osgt.tables.reading import EngineQuery, check_query, compiled, fetched

#: A release has so many times the budget of its suggestion, unless another is named.
_TIMES = 10

#: Edges of groups beside those of rows: few, so that there are units at each.
_FEW_EDGES = 4.0

#: Shifts for which noise on the integers is as on the reals.
_LARGE = 1 << 20

#: Values of `max_groups` at which the noise of the release is calibrated; in between it is interpolated.
_CALIBRATED = 3.0


def suggest(
    query: OpenQuery,
    epsilon: float,
    delta: float,
    *,
    release_epsilon: float | None = None,
    release_delta: float | None = None,
    aim: Aim = "error",
    confidence: float = 0.95,
) -> Suggestion:
    """The suggestion for a query: see `Query.suggest_bounds`."""
    if not query.asked:
        raise ValueError("the query must ask for something, such as a count, a sum or a mean")
    if aim not in get_args(Aim):
        raise ValueError(f'aim must be "error" or "coverage", got {aim!r}')
    epsilon, delta = budget(epsilon, delta)
    confidence_level(confidence)
    planned = budget(
        _TIMES * epsilon if release_epsilon is None else release_epsilon,
        min(_TIMES * delta, 0.5) if release_delta is None else release_delta,
    )
    noise = _noise(query, *planned)
    noise(1)  # refuses what cannot be calibrated
    layout, plan = planned_histograms(query, epsilon, delta)
    asked = prepared_histograms(query, layout)
    title = "bounds: " + title_of(query)
    bounded = {name: bounds for name, bounds in query.wanted.bounds.items() if bounds is not None}
    reservation = reserved(query.dataset, plan, title, {"suggest_bounds": query_in_plain_values(query)})
    if reservation is not None:
        reservation.reading()
    try:
        evidence = _noisy(exact_histograms(query, layout, asked), layout, plan, query.groups, bounded)
        recommendation = recommend(evidence, query.wanted, noise, aim)
    except Exception as error:
        raise NothingReleasedError(charged=reservation is not None) from error
    made = Suggestion(
        query=query,
        evidence=evidence,
        recommendation=recommendation,
        model=evidence.model(noise),
        noise_plan=plan,
        release_epsilon=planned[0],
        release_delta=planned[1],
        aim=aim,
        confidence=confidence,
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        software=f"osgt {version('osgt')}",
        entry=None if reservation is None else str(reservation.sequence),
    )
    if reservation is not None:
        made.settle(reservation)
    return made


def planned_histograms(query: OpenQuery, epsilon: float, delta: float) -> tuple[Layout, NoisePlan]:
    """The histograms that are measured for a suggestion, and their noise."""
    layout = _layout(query, delta)
    light = {
        *({"groups"} if query.wanted.max_groups is not None else ()),
        *({"rows"} if query.wanted.max_rows is not None else ()),
    }
    return layout, noise_plan(layout, query.groups, query.dataset.neighbours, epsilon, delta, light)


def prepared_histograms(
    query: OpenQuery, layout: Layout, salt: int | None = None, order: str | None = None
) -> EngineQuery:
    """The query for the engine, compiled and checked. No row is read.

    A suggestion has a fresh salt and takes rows at random; an audit plays it again with those that are given.
    """
    rows, keys, values = prepared_rows(query, [Values(name) for name in layout.values], order)
    salt = fresh_salt() if salt is None else salt
    asked = compiled(histograms(rows, keys, values, layout, salt, None if order is None else "order"))
    check_query(asked)
    return asked


def exact_histograms(query: OpenQuery, layout: Layout, asked: EngineQuery) -> Exact:
    """What the engine gives back."""
    return exact_numbers(fetched(asked), layout, _public(query.groups))


def query_in_plain_values(query: OpenQuery) -> dict[str, Any]:
    """What is asked for, as in a query file."""
    limits = {name: limit for name, limit in (query.given or {}).items() if limit is not None}
    return {
        "data": query.dataset.to_dict(),
        "groups": {"by": list(query.groups.by), **limits, "public_keys": _public(query.groups)},
        "aggregates": [dict(each) for each in query.asked],
    }


def _public(groups: Groups) -> int | None:
    return None if groups.public is None else int(groups.public.num_rows)


def _layout(query: OpenQuery, delta: float) -> Layout:
    """The histograms that are of use."""
    asked, known = query.wanted, query.groups.known
    most = {} if known is None else {"most": known}
    grouped = asked.grouped
    rows = None
    if asked.needs_rows:
        rows = (count_edges(**most, factor=_FEW_EDGES) if grouped else (1, 2), count_edges())
    return Layout(
        group_edges=count_edges(**most) if grouped else None,
        rows=rows,
        values={name: _edges_of(query, name) for name, bounds in asked.bounds.items() if bounds is None},
        sizes=grouped and asked.max_groups is None and sizes_can_be_measured(query.groups, delta),
    )


def _edges_of(query: OpenQuery, column: str) -> tuple[float, ...]:
    whole = query.dataset.number_type_of(column).is_integer()
    return value_edges(1.0 if whole else SMALLEST_VALUE)


def _noisy(exact: Exact, layout: Layout, plan: NoisePlan, groups: Groups, bounded: Mapping[str, Bounds]) -> Evidence:
    """The histograms with their noise."""

    def noisy(name: str, numbers: Any) -> Any:
        part = plan.parts[name]
        return Mechanism.of(plan.laws[name], part.shift, part.coordinates).release(numbers)

    histogram = rows = sizes = None
    if layout.group_edges is not None and exact.groups is not None:
        histogram = Histogram(layout.group_edges, noisy("groups", exact.groups), plan.laws["groups"])
    if layout.rows is not None and exact.rows is not None:
        rows = RowsHistogram(*layout.rows, noisy("rows", exact.rows), plan.laws["rows"])
    if exact.sizes is not None:
        numbers = np.asarray(noisy("sizes", exact.sizes))
        if plan.threshold is not None:
            numbers = np.sort(numbers[numbers >= plan.threshold])  # in an order that says nothing
        sizes = Sizes(numbers, plan.laws["sizes"], known=plan.threshold is None)
    values = {
        name: Histogram(
            edges, noisy(f"values of {name}", exact.values[name]), plan.laws[f"values of {name}"], gaps=True
        )
        for name, edges in layout.values.items()
    }
    return Evidence(histogram, rows, values, sizes, groups.known, bounded)


def _noise(query: OpenQuery, epsilon: float, delta: float) -> Callable[[int], float]:
    """For `max_groups` the noise that a release would have on a number that one unit moves by 1 in a group.

    All that is measured has the same share of the budget here; a plan may share it out a little better.
    """
    measures = len({measure for aggregate in query.aggregates for measure in aggregate.measures})
    groups, neighbours = query.groups, query.dataset.neighbours

    @cache
    def at(limit: int) -> float:
        part = Part(_LARGE, _coordinates(groups, neighbours, limit))
        calibrated = calibrate_roughly if delta > 0 else calibrate_parts
        return calibrated(epsilon, delta, [part] * measures)[0].std() / _LARGE

    def between(limit: int) -> float:
        step = math.log(max(limit, 1), _CALIBRATED)
        low, high = round(_CALIBRATED ** math.floor(step)), round(_CALIBRATED ** math.ceil(step))
        if low == high:
            return at(low)
        part = math.log(limit / low) / math.log(high / low)
        return math.exp((1.0 - part) * math.log(at(low)) + part * math.log(at(high)))

    return between


def _coordinates(groups: Groups, neighbours: Neighbours, limit: int) -> int:
    return limit if neighbours == "add_remove" else 2 * limit
