"""A release whose limits are open: the draw and what follows keep the promise together, whatever is drawn."""

import math
import random
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import leakage
from osgt import Dataset, Ledger
from osgt.api import publish
from osgt.facts.measured import measured_values
from osgt.plan.choice import choice_of, draws_of, limit_of
from osgt.query.aggregates.base import OpenLimit
from osgt.release.choice import histograms_of, prepare_draw
from osgt.release.measuring import exact_numbers, prepare
from osgt.support.errors import ArgumentError

ROWS, TOTAL, DISTINCT = OpenLimit("max_rows"), OpenLimit("max_total", "fare"), OpenLimit("max_distinct", "fare")
TOWNS = ["a", "b", "c", "d", "e"]


def made(units=600, seed=1):
    rng = random.Random(seed)
    return [
        (f"p{i}", rng.choice(TOWNS), round(rng.lognormvariate(2, 1), 2))
        for i in range(units)
        for _ in range(min(int(rng.paretovariate(1.2)), 40))
    ]


def data_of(rows, **options):
    person, town, fare = zip(*rows, strict=True)
    return Dataset(pa.table({"person": person, "town": town, "fare": fare}), "person", **options)


def chances(costs):
    """The chance of each candidate by permute-and-flip: ∫ e^(-t)·Π P[E_j < t + cost_j - cost_k] over t ≥ 0."""
    t = np.linspace(0, 30, 3_001)
    costs = np.array([float(cost) for cost in costs])
    found = []
    for k, cost in enumerate(costs):
        others = np.delete(costs, k) - cost
        inside = np.maximum(t[:, None] + others, 0.0)
        found.append(np.trapezoid(np.exp(-t) * np.prod(-np.expm1(-inside), axis=1), t))
    return np.array(found)


def costs_of(histograms, ladders, epsilon, rule):
    """Scores by their definition, the least for the best."""
    allowed = min(rule.target, sum(histograms[0]) // 10)
    return [
        epsilon * max(sum(histogram[i + 1 :]) - allowed, 0) + rule.exponent * math.log(noise)
        for histogram, ladder in zip(histograms, ladders, strict=True)
        for i, noise in enumerate(ladder.noise)
    ]


@pytest.mark.parametrize("neighbours", ["add_remove", "change_one"])
@pytest.mark.parametrize("limit", ["max_rows", "max_total", "max_distinct"])
def test_the_draw_and_the_release_together(neighbours, limit):
    """Σ over limits of P[limit]·δ(ε - log P/P') is at most δ, both ways, over the limits that are likely."""
    epsilon, delta = 1.0, 1e-3
    rows = made(1200)
    heavy = rows + [("x", "a", 50.0 + (i if limit == "max_distinct" else 0)) for i in range(30)]
    other = rows + ([("x", "b", 1.0)] if neighbours == "change_one" else [])

    def asked(data):
        query = data.group_by("town", public_keys=TOWNS)
        return {"max_rows": query.count, "max_total": lambda: query.sum("fare")}.get(
            limit, lambda: query.count_distinct("fare")
        )()

    queries = [asked(data_of(each, units=1200, neighbours=neighbours)) for each in (heavy, other)]
    plan = queries[0].plan(epsilon, delta)
    [draw] = plan.choice.draws
    histograms = [histograms_of(prepare_draw(query, draw)) for query in queries]
    rule = plan.choice.rule(draw, 1200, publish.noise_at_one(plan, draw.limit))
    candidates = [candidate for ladder in draw.ladders for candidate in ladder]
    # An exchange of units can move the scores of two ladders in opposite directions.
    rate = plan.choice.epsilon_of_a_draw / (2 if neighbours == "change_one" and len(draw.ladders) > 1 else 1)
    drawn = [chances(costs_of(each, draw.ladders, rate, rule)) for each in histograms]
    assert all(p.sum() == pytest.approx(1, abs=1e-5) for p in drawn)
    likely = np.minimum(*drawn) > 1e-9
    assert np.abs(np.log(drawn[0][likely] / drawn[1][likely])).max() <= plan.choice.epsilon_of_a_draw * 1.001
    found = [0.0, 0.0]
    for k in np.argsort(drawn[0])[-4:]:
        chosen = limit_of(draw.limit, candidates[k])
        closed = [query.with_limits({draw.limit: chosen}) for query in queries]
        own = closed[0].renew(plan)
        answers = [exact_numbers(query, own, prepare(query, own, 5)) for query in closed]
        assert leakage.too_far([own], answers[:1], answers[1:], neighbours) == []
        for way in (0, 1):
            here, there = drawn[way][k], drawn[1 - way][k]
            one, two = answers[way : way + 1], answers[1 - way : 2 - way]
            found[way] += here * leakage.delta([own], one, two, epsilon - math.log(here / there))
    assert max(found) <= delta


def every(moves):
    """How far numbers move, one after the other, the furthest first."""
    return sorted((shift for shift, n in moves for _ in range(n)), reverse=True)


@pytest.mark.parametrize(
    ("limit", "sizes"),
    [
        (ROWS, [Fraction(size) for size in (1, 7, 3000)]),
        (DISTINCT, [Fraction(size) for size in (1, 7, 3000)]),
        (TOTAL, [(-Fraction(1, 2), Fraction(1, 2)), (-80, 80), (Fraction(0), Fraction(80)), (0, 12_345)]),
    ],
    ids=["rows", "distinct", "total"],
)
@pytest.mark.parametrize("public", [True, False])
@pytest.mark.parametrize("neighbours", ["add_remove", "change_one"])
def test_the_noise_is_made_for_every_limit_that_may_be_chosen(limit, sizes, public, neighbours):
    """What a unit moves under the limit that was chosen is within what is charged, and the charge is the same."""
    data = data_of(made(30), units=100_000, neighbours=neighbours)
    keys = {"public_keys": [*TOWNS, *map(str, range(40))]} if public else {}
    if limit == ROWS:
        query = data.group_by("town", **keys).count()
    elif limit == DISTINCT:
        query = data.group_by("town", max_rows=3, **keys).count_distinct("fare")
    else:
        query = data.group_by("town", max_rows=3, **keys).count().sum("fare")
    assert query.open_limits == (limit,)
    plan = query.plan(1, 1e-6)
    [draw] = plan.choice.draws
    assert draw.ladders[0].limits[-1] >= 1 << 20
    for size in sizes:
        closed = query.with_limits({limit: size})
        own = closed.renew(plan)
        assert own.selection_delta <= plan.selection_delta
        assert list(own.laws.values()) == list(plan.laws.values())
        assert len(measured_values(own)["measures"]) == len(measured_values(plan)["measures"])
        for measure, part in own.parts.items():
            moves, allowed = every(closed.groups.sensitivity(measure, neighbours)), every(part.moves)
            # Of a sum from 0 on, an exchange of units moves two numbers by half of what one is moved by around 0.
            halves = neighbours == "change_one" and limit == TOTAL and closed.groups.is_weighted(measure)
            if halves and measure.own_limit is not None and measure.low == 0:
                assert moves == [allowed[0] / 2] * 2
                assert len(allowed) == 1
            else:
                assert moves == allowed


def test_a_plan_is_the_same_as_one_with_the_limit_given():
    """But for what the choice costs: at the ε that is left, noise and intervals are equal to rounding."""
    data = data_of(made(30), units=100_000)
    query = data.group_by("town", public_keys=TOWNS).count()
    plan = query.plan(1, 1e-6)
    left = 1 - plan.choice.epsilon
    for rows in (1, 24, 999):
        own = query.with_limits({ROWS: Fraction(rows)}).renew(plan)
        given = data.group_by("town", max_rows=rows, public_keys=TOWNS).count().plan(left, 1e-6)
        [one], [other] = own.columns, given.columns
        assert one.half_width == pytest.approx(other.half_width, rel=2e-3)
        assert own.laws == plan.laws


class TestRelease:
    def test_one_charge_and_the_limits_that_were_chosen(self, tmp_path):
        ledger = Ledger(tmp_path / "ledger.db")
        ledger.open("visits", epsilon=10, delta=1e-3)
        data = data_of(made(2000), units=2000, ledger=ledger, dataset="visits")
        release = data.group_by("town", public_keys=TOWNS).count().sum("fare").release(1, 1e-6)
        limits = release.query.to_dict()
        assert limits["groups"]["max_rows"] == release.plan.groups.max_rows >= 1
        assert release.query.open_limits == ()
        [total] = [each["max_total"] for each in limits["aggregates"] if each["kind"] == "sum"]
        # One number is for both signs; from 0 on, there are two.
        assert (total if not isinstance(total, list) else total[1]) > 0
        words = str(release.statement)
        assert f"{release.plan.groups.max_rows:,}" in words
        assert len(ledger.history("visits")) == 1

    def test_too_few_units_are_refused_before_the_charge(self):
        query = data_of(made(50), units=50).group_by("town", public_keys=TOWNS).count()
        with pytest.raises(ArgumentError, match="max_rows: with about 50 units"):
            query.release(1, 1e-6)

    def test_units_are_counted_where_nobody_says_how_many_there_are(self):
        data = data_of(made(50))
        choice = choice_of(draws_of([data.group_by("town", public_keys=TOWNS).count()]), 1.0, None)
        assert choice.counting_epsilon > 0
        assert choice.epsilon == pytest.approx(0.17)
        with pytest.raises(publish.TooFewUnitsError, match="Give max_rows"):
            data.group_by("town", public_keys=TOWNS).count().release(1, 1e-6)
