"""A limit on all that a unit adds: what it costs, by reference values."""

import math

import numpy as np
import pyarrow as pa
import pytest

from osgt import Dataset, DiscreteOSGT

LAW = DiscreteOSGT(3, 6)


def delta(law, shifts, epsilon):
    """δ of noise whose coordinates move by some whole numbers, outcome by outcome."""
    reach = int(law.isf(1e-13)) + 8
    values = np.arange(-reach, reach + 1)
    here, there = np.ones(1), np.ones(1)
    for shift in shifts:
        here, there = (np.multiply.outer(a, law.pmf(values - s)).ravel() for a, s in ((here, shift), (there, 0)))
        # Outcomes with the same ratio are one: losses to 1e-6.
        loss = np.round(np.log(here / there), 6)
        _, place = np.unique(loss, return_inverse=True)
        here, there = (np.bincount(place, each) for each in (here, there))
    return float(np.maximum(here - math.exp(epsilon) * there, 0).sum())


@pytest.mark.parametrize(
    ("split", "ratios"),
    [
        ((3, 3), (0.7056, 0.6182, 0.4050, 0.0960)),
        ((5, 1), (0.8730, 0.8232, 0.6367, 0.3518)),
        ((1,) * 6, (0.4196, 0.2506, 0.0334, 4.3e-5)),
    ],
)
def test_a_change_that_is_spread_loses_less(split, ratios):
    """Reference values; one number that moves by all of it is the worst case."""
    for epsilon, ratio in zip((0, 0.3, 1, 2), ratios, strict=True):
        assert delta(LAW, split, epsilon) / delta(LAW, (6,), epsilon) == pytest.approx(ratio, rel=0.02, abs=1e-6)


@pytest.mark.parametrize(("blocks", "std"), [(1, 33.94), (2, 67.88), (4, 135.8)])
def test_the_noise_of_a_limit_of_24_rows(blocks, std):
    """Reference values for (1, 1e-8): so many tables, each of which a unit moves by all its steps."""
    data = Dataset(pa.table({"person": [1], "a": ["x"], "v": [1.0]}), "person")
    query = data.group_by("a", max_rows=24, public_keys=["x", "y"]).count()
    if blocks > 1:
        query = query.histogram("v", edges=[0, 1, 2])
    if blocks > 2:
        query = query.histogram("v", edges=[0, 3, 4], name="other").histogram("v", edges=[1, 5, 6], name="third")
    plan = query.plan(1, 1e-8, measure_left_out=False, objective="variance")
    assert len(plan.parts) == blocks
    assert plan.columns[0].std == pytest.approx(std, rel=2e-3)
