"""Quantiles without an interval: their privacy loss by enumeration, the sampler, and how near they are."""

import itertools
import json
import math
import random
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from goodness import FALSE_ALARM
from osgt import Dataset, Publication
from osgt.check import check
from osgt.noise import DiscreteOSGT
from osgt.plan.inputs import profile_of_pairs
from osgt.query.quantiles import Layout, QuantileDraw
from osgt.release import exponential_mechanism
from osgt.release.exponential_mechanism import costs_of_bins, draw_bins
from osgt.support.errors import OsgtError

#: Steps of a unit in the enumeration.
STEPS = 12


def chances(bins, level, slope, strength=None):
    """The chance of each bin, by the definition of the exponential mechanism, in floats."""
    total = bins.sum()
    below = np.concatenate([[0], np.cumsum(bins)]) - level * total
    off = np.maximum(np.maximum(below[:-1], -below[1:]), 0.0)
    weights = np.exp(-slope * off / (2 * max(level, 1 - level)) * (1 if strength is None else strength))
    return weights / weights.sum()


def together(groups, level, slope, strength=None):
    """The chances of all outcomes of several groups."""
    result = np.ones(1)
    for bins in groups:
        result = np.outer(result, chances(bins, level, slope, strength)).ravel()
    return result


def delta(one, other, epsilon):
    """δ of one table against the other."""
    return float(np.maximum(one - math.exp(epsilon) * other, 0.0).sum())


def spread(rng, groups, bins):
    """What one unit adds: its steps, or fewer, spread over groups and bins or all in one place."""
    result = np.zeros((groups, bins), dtype=int)
    for _ in range(rng.choice([STEPS, STEPS - 1, 3])):
        result[rng.randrange(groups) if rng.random() < 0.5 else 0, rng.choice([0, bins - 1, rng.randrange(bins)])] += 1
    if rng.random() < 0.5:
        result = np.zeros_like(result)
        result[0, rng.choice([0, bins - 1])] = STEPS
    return result


def largest_excess(level, whole_loss, exchanged, strength=None):
    """By how much δ of any outcome exceeds what is charged, over random tables, many ε and both directions."""
    slope, worst, rng = whole_loss / STEPS, -1.0, random.Random(f"{level} {whole_loss}")
    charged = DiscreteOSGT.from_rates(slope, 0.0)
    epsilons = whole_loss * np.array([0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 1.0, 1.3])
    shift = 2 * STEPS if exchanged else STEPS
    allowed = [float(profile_of_pairs([(charged, _part(shift))]).delta(epsilon)) for epsilon in epsilons]
    for _ in range(150):
        groups, bins = rng.choice([(1, 3), (1, 6), (2, 4), (3, 3)])
        others = np.array([[rng.choice([0, 0, 1, 5, 30]) for _ in range(bins)] for _ in range(groups)])
        one = others + spread(rng, groups, bins)
        two = others + spread(rng, groups, bins) if exchanged else others
        first, second = (together(each, level, slope, strength) for each in (one, two))
        for epsilon, most in zip(epsilons, allowed, strict=True):
            worst = max(worst, delta(first, second, epsilon) - most, delta(second, first, epsilon) - most)
    return worst


def _part(shift):
    from osgt.calibration import Part  # noqa: PLC0415

    return Part(shift, 1)


@pytest.mark.parametrize("exchanged", [False, True])
@pytest.mark.parametrize("loss", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("level", [0.5, 0.9, 0.02])
def test_no_outcome_tells_more_than_the_noise_that_is_charged(level, loss, exchanged):
    assert largest_excess(level, loss, exchanged) <= 1e-12


def test_an_exponent_that_is_too_large_would_be_seen():
    """Power: half as strong again; or without the factor for levels away from the middle."""
    assert largest_excess(0.5, 1.0, exchanged=False, strength=1.5) > 1e-3
    assert largest_excess(0.9, 1.0, exchanged=False, strength=1.8) > 1e-3


@pytest.mark.parametrize("loss", [0.01, 0.3, 1.0, 5.0, 20.0])
def test_bounded_range_is_dominated_by_laplace_noise(loss):
    """The largest δ over all pairs of two losses that are apart by this is the docs' formula, and below Laplace's."""
    for epsilon in np.linspace(0.0, loss, 41):
        formula = (1 - math.exp((epsilon - loss) / 2)) ** 2 / -math.expm1(-loss)
        tops = np.linspace(epsilon, loss, 2001)
        found = (-np.expm1(tops - loss) * -np.expm1(epsilon - tops) / -math.expm1(-loss)).max()
        assert found <= formula + 1e-12
        assert found >= formula * (1 - 1e-4) - 1e-12
        assert formula <= -math.expm1((epsilon - loss) / 2) + 1e-15


def test_the_costs_are_those_of_the_definition():
    rng = random.Random(3)
    for _ in range(200):
        bins = [rng.choice([0, 1, 7, 2**40]) for _ in range(rng.choice([1, 2, 9]))]
        level = Fraction(rng.choice(["0.5", "0.25", "0.9", "0.001"]))
        total, places = sum(bins), list(itertools.accumulate([0, *bins]))
        for i, cost in enumerate(costs_of_bins(bins, level)):
            off = max(places[i] - level * total, level * total - places[i + 1], 0)
            assert cost == off * level.denominator


def leaves_of(bins=16):
    data = Dataset(pa.table({"u": [1], "x": [1.0]}), "u")
    return data.group_by(max_rows=1).quantile("x", 0.5, (0, 16), bins=bins).aggregates[0].leaves


def p_value(draws, probabilities):
    observed = np.bincount(draws, minlength=len(probabilities))
    keep = probabilities * len(draws) >= 20
    observed = np.append(observed[keep], observed[~keep].sum())
    expected = np.append(probabilities[keep], probabilities[~keep].sum()) * len(draws)
    return stats.chisquare(observed[expected > 0], expected[expected > 0]).pvalue


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_draws_have_exactly_the_distribution(level):
    """At a false-alarm rate of 1e-9; an exponent that is a quarter larger is seen."""
    bins = np.array([3, 0, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9])
    asked = QuantileDraw(leaves_of(), level)
    draws = draw_bins(asked, np.tile(bins, (6000, 1)), DiscreteOSGT.from_rates(0.25, 0.0))[:, 0]
    assert p_value(draws, chances(bins, level, 0.25)) > FALSE_ALARM
    assert p_value(draws, chances(bins, level, 0.25, strength=1.5)) < FALSE_ALARM


def test_only_laplace_noise_is_stood_for():
    asked = QuantileDraw(leaves_of(), 0.5)
    with pytest.raises(TypeError, match="Laplace"):
        draw_bins(asked, np.ones((1, 16), dtype=np.int64), DiscreteOSGT.gaussian(3))


def rides(size=3000):
    rng = np.random.default_rng(1)
    fares = np.sort(rng.gamma(2.0, 20.0, size))
    return pa.table({"rider": np.arange(size), "city": ["a", "b", "c"] * (size // 3), "fare": fares})


def test_released_with_other_numbers_in_one_charge(monkeypatch):
    """The bin with the least cost, if draws are so; and the file's promise can be recomputed."""
    monkeypatch.setattr(exponential_mechanism, "bernoulli_exp", lambda x, source: x == 0)
    data = Dataset(rides(), "rider")
    query = data.group_by("city", max_rows=2, public_keys=["a", "b", "c"])
    query = query.median("fare", (0, 200), interval="none").count().quantile("fare", 0.9, (0, 200), interval="none")
    plan = query.plan(1, 1e-6)
    assert {law.curvature for law in plan.laws.values()} == {0.0}
    assert plan.charge.delta(1) <= 1e-6
    release = query.release(1, 1e-6)
    table = release.to_pandas()
    fares = rides().to_pandas().groupby("city").fare
    assert (table.fare_median - fares.quantile(0.5).to_numpy()).abs().max() < 200 / 256
    assert (table.fare_q90 - fares.quantile(0.9).to_numpy()).abs().max() < 200 / 256
    assert set(table.fare_median_low) == {0}
    assert set(table.fare_median_high) == {200}
    assert check(json.loads(json.dumps(release.statement.to_dict()))).problems == []


@pytest.mark.parametrize(("epsilon", "times"), [(1.0, 2.0), (0.2, 4.0)])
def test_it_is_nearer_than_a_tree(epsilon, times):
    """The root mean square of the rank error, computed from the distributions of both, of 2,000 values."""
    values = np.clip(np.random.default_rng(3).gamma(2.0, 20.0, 2000), 0, 200)
    data = Dataset(pa.table({"person": [1], "x": [1.0]}), "person").group_by(max_rows=1)
    tree_plan = data.median("x", (0, 200), bins=1024).plan(epsilon, 0, measure_left_out=False)
    plan = data.median("x", (0, 200), bins=1024, interval="none").plan(epsilon, 0, measure_left_out=False)
    [(asked, law)] = plan.laws.items()
    edges = asked.leaves.edges * float(asked.leaves.grid.step)
    bins = np.histogram(values, edges)[0]
    p = chances(bins, 0.5, law.slope * 2**30)
    ordered = np.sort(values)
    ranks = np.abs(np.searchsorted(ordered, (edges[:-1] + edges[1:]) / 2) - 1000)
    drawn_error = math.sqrt(float(p @ ranks**2))
    [tree] = tree_plan.noise.scheme.trees(tree_plan.laws).values()
    assert isinstance(tree.layout, Layout)
    middle = int(np.searchsorted(edges, np.median(values)))
    tree_error = math.sqrt(tree.rank_noise(0.5)[middle].var())
    assert tree_error > times * drawn_error


@pytest.mark.parametrize(
    ("limits", "asked", "words"),
    [
        ({"max_rows": 2}, {"levels": 0.5}, "public_keys"),
        ({"max_rows": 2, "public_keys": ["a"]}, {"levels": [0.1, 0.5]}, "for one quantile"),
        ({"max_rows": 2, "public_keys": ["a"], "totals": [[]]}, {"levels": 0.5}, "a table of their own"),
        ({"max_length": 2, "public_keys": ["a"]}, {"levels": 0.5}, "max_rows in place"),
        ({"max_rows": 2, "public_keys": ["a"]}, {"levels": 0.5, "interval": "some"}, '"noise" or "none"'),
    ],
)
def test_refused(limits, asked, words):
    data = Dataset(rides(), "rider")
    with pytest.raises(ValueError, match=words):
        data.group_by("city", **limits).quantile("fare", bounds=(0, 200), **{"interval": "none"} | asked)


def test_beside_a_length_delta_must_be_above_0():
    data = Dataset(rides(), "rider")
    drawn_table = data.group_by("city", max_rows=2, public_keys=["a"]).median("fare", (0, 200), interval="none")
    counts = data.group_by("city", max_length=2, public_keys=["a", "b"]).count()
    both = Publication(medians=drawn_table, counts=counts)
    with pytest.raises(OsgtError, match="delta must be above 0"):
        both.plan(1, 0)
    assert both.plan(1, 1e-6).charge
