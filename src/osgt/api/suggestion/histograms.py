"""Making a suggestion: charge, read, add noise to the histograms, and look for the best bounds.

The suggestion is a release like any other. Its budget and that of the table that uses it add up: a table that is
calibrated together with the bounds that were chosen for it would not keep its promise.
"""

import datetime
import math
from collections.abc import Callable, Collection, Mapping
from functools import cache, partial
from importlib.metadata import version
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from osgt.api.charge import charge, title_of
from osgt.api.suggestion.open_query import OpenQuery
from osgt.api.suggestion.suggestion import NoisePlan, Suggestion
from osgt.calibration import Part, calibrate_parts
from osgt.calibration.joint import budget
from osgt.calibration.search import calibrate_roughly
from osgt.data.reading import EngineQuery, check_query, compile_query, fetch
from osgt.data.unit import Neighbours
from osgt.limits.bounding import fresh_salt
from osgt.limits.curve import Aim, Bounds
from osgt.limits.evidence import Evidence, RowsHistogram, Sizes
from osgt.limits.histogram import SCALE, SMALLEST_VALUE, Histogram, count_edges, value_edges
from osgt.limits.histogram_query import Exact, Layout, exact_numbers, histograms
from osgt.limits.recommendation import recommend
from osgt.mechanism import Mechanism
from osgt.noise import on_integers
from osgt.noise.arguments import confidence_level
from osgt.plan.selection import chance_apart, chosen_delta, threshold
from osgt.privacy.filters.budget import USUAL_DELTA
from osgt.query.groups import Groups
from osgt.query.measures import Values
from osgt.release.exact_sums import prepared_rows
from osgt.release.measuring import NothingReleasedError
from osgt.support.errors import ArgumentError

#: Part of δ for choosing the groups whose sizes are looked at, where they are not public.
_SELECTION_SHARE = 0.1

#: The sizes of groups say only how unequal they are, which matters less than the rest; and so do histograms whose limit
#: was given.
_LIGHT = 1 / 8


def sizes_can_be_measured(groups: Groups, delta: float) -> bool:
    """Whether there are several groups, and those that are not public can be chosen by their size."""
    return bool(groups.by) and (groups.public is not None or delta > 0)


def noise_plan(
    layout: Layout,
    groups: Groups,
    neighbours: Neighbours,
    epsilon: float,
    delta: float,
    light: Collection[str] = (),
) -> NoisePlan:
    """Calibrate the noise: one unit is in one place of every histogram; exchanged for another, in one more.

    Those that are `light` get more noise.
    """
    epsilon, delta = budget(epsilon, delta)
    coordinates = 1 if neighbours == "add_remove" else 2
    parts: dict[str, Part] = {}
    if layout.group_edges is not None:
        parts["groups"] = Part(SCALE, coordinates, _LIGHT if "groups" in light else 1.0)
    if layout.rows is not None:
        parts["rows"] = Part(SCALE, coordinates, _LIGHT if "rows" in light else 1.0)
    if layout.sizes:
        parts["sizes"] = Part(1, coordinates, _LIGHT)
    for name in layout.values:
        parts[f"values of {name}"] = Part(SCALE, coordinates)
    chosen = layout.sizes and groups.public is None
    share = _SELECTION_SHARE * delta if chosen else 0.0
    laws = calibrate_parts(epsilon, delta - share, list(parts.values()))
    named = {name: on_integers(law) for name, law in zip(parts, laws, strict=True)}
    selection, tau = 0.0, None
    if chosen:
        chance = chance_apart(coordinates, share)
        selection = chosen_delta(coordinates, chance)
        tau = threshold(named["sizes"], 1, chance)
    return NoisePlan(epsilon, delta, parts, named, selection, tau)


#: A release has so many times the budget of its suggestion, unless another is named.
_TIMES = 10

#: A release is calibrated to this part of the δ of its ledger, unless another is named.
_RELEASES = 100

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
        raise ArgumentError(f'aim must be "error" or "coverage", got {aim!r}', argument="aim")
    epsilon, delta = budget(epsilon, delta)
    confidence_level(confidence)
    if release_delta is None:
        release_delta = _release_delta(query, delta)
    planned = budget(
        _TIMES * epsilon if release_epsilon is None else release_epsilon,
        USUAL_DELTA if release_delta is None else release_delta,
    )
    noise = _noise(query, *planned)
    noise(1)  # refuses what cannot be calibrated
    layout, plan = planned_histograms(query, epsilon, delta)
    asked = prepared_histograms(query, layout)
    title = "bounds: " + title_of(query)
    bounded = {name: bounds for name, bounds in query.wanted.bounds.items() if bounds is not None}
    reservation = charge(query.dataset, plan, title, {"suggest_bounds": query_in_plain_values(query)})
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
        release_delta=None if release_delta is None else planned[1],
        aim=aim,
        confidence=confidence,
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        software=f"osgt {version('osgt')}",
        entry=None if reservation is None else str(reservation.sequence),
    )
    if reservation is not None:
        made.settle(reservation)
    return made


def _release_delta(query: OpenQuery, delta: float) -> float | None:
    """δ of the release if none is named: by that of the suggestion, or of the ledger; None if nobody says one."""
    if delta > 0:
        return min(_TIMES * delta, 0.5)
    data = query.dataset
    return None if data.ledger is None else float(data.ledger.spent(data.dataset).budget_delta) / _RELEASES


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
    query.dataset.check_files()
    rows, keys, values = prepared_rows(query, [Values(name) for name in layout.values], order)
    salt = fresh_salt() if salt is None else salt
    asked = compile_query(histograms(rows, keys, values, layout, salt, None if order is None else "order"))
    check_query(asked)
    return asked


def exact_histograms(query: OpenQuery, layout: Layout, asked: EngineQuery) -> Exact:
    """Fetch the exact histograms from the engine."""
    return exact_numbers(fetch(asked), layout, _public(query.groups))


def query_in_plain_values(query: OpenQuery) -> dict[str, Any]:
    """Write the query in plain values, as in a query file."""
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
    asked, known = query.wanted, query.groups.public_group_count
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
    noisy = partial(noisy_histogram, plan)
    histogram = rows = sizes = None
    if layout.group_edges is not None and exact.groups is not None:
        histogram = Histogram(layout.group_edges, noisy("groups", exact.groups), plan.laws["groups"])
    if layout.rows is not None and exact.rows is not None:
        rows = RowsHistogram(*layout.rows, noisy("rows", exact.rows), plan.laws["rows"])
    if exact.sizes is not None:
        sizes = Sizes(noisy_sizes(plan, exact.sizes), plan.laws["sizes"], known=plan.threshold is None)
    values = {
        name: Histogram(
            edges, noisy(f"values of {name}", exact.values[name]), plan.laws[f"values of {name}"], gaps=True
        )
        for name, edges in layout.values.items()
    }
    return Evidence(histogram, rows, values, sizes, groups.public_group_count, bounded)


def noisy_histogram(plan: NoisePlan, name: str, numbers: Any) -> Any:
    """The numbers of a histogram, with its noise."""
    part = plan.parts[name]
    return Mechanism.of(plan.laws[name], part.shift, part.coordinates).release(numbers)


def noisy_sizes(plan: NoisePlan, sizes: Any) -> NDArray[np.int64]:
    """The sizes of groups with noise: of all, or of those that are shown if they are chosen by their size."""
    noisy = np.asarray(noisy_histogram(plan, "sizes", sizes))
    # In an order that says nothing.
    return noisy if plan.threshold is None else np.sort(noisy[noisy >= plan.threshold])


def _noise(query: OpenQuery, epsilon: float, delta: float) -> Callable[[int], float]:
    """Estimate for `max_groups` the noise of a release on a number that one unit moves by 1 in a group.

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
