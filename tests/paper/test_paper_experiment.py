"""The experiment. False alarms of `Measurement.agrees` are at most 1e-9 a run; power checks stand beside it."""

import math

import numpy as np
import pytest
from scipy.stats import binomtest

from osgt import DiscreteOSGT, Mechanism, PrivacyProfile
from osgt.paper.experiment import (
    FALSE_ALARM,
    averaged,
    clopper_pearson,
    counted,
    empirical_bernstein,
    experiment_picture,
    loss,
    measure,
    proposal,
    tally,
    total_applications,
    weighted,
)

LAW = DiscreteOSGT(15, math.sqrt(630))
APPLICATIONS = 1_500_000


def scaled(factor):
    return DiscreteOSGT.from_rates(LAW.slope / factor, LAW.curvature / factor**2)


@pytest.fixture(scope="module")
def measured():
    done = []
    result = measure(APPLICATIONS, 1 << 14, done.append)
    assert sum(done) == total_applications(APPLICATIONS, 1 << 14)
    return result


def test_the_mechanism_agrees_with_theory(measured):
    assert FALSE_ALARM <= 1e-9
    assert measured.agrees
    assert measured.on_data.applications == measured.on_neighbour.applications == APPLICATIONS


@pytest.mark.parametrize("factor", [0.95, 1.05])
def test_power_a_scale_five_percent_off_is_found(factor):
    assert not measure(APPLICATIONS, 1 << 10, law=scaled(factor)).agrees


def test_power_of_counting_alone():
    # Counts of outcomes find out too little noise, whatever the mechanism says about itself.
    found = measure(4_000_000, 1 << 10, law=scaled(0.9))
    by_count = found.estimates(FALSE_ALARM)[0]
    assert np.any(by_count.low > found.truth(by_count.epsilon))


def test_power_of_the_weighted_estimate(measured):
    # Against the δ of a distribution whose scale is 5 % off, each small δ is rejected.
    one = measured.sums.estimate(FALSE_ALARM)
    small = one.epsilon >= 0.6
    other = PrivacyProfile(scaled(1.05), coordinates=8).delta(one.epsilon)
    assert np.all(other[small] < one.low[small])


def test_neighbours_differ_in_one_person(measured):
    assert measured.neighbour.tolist() == (measured.data + 1).tolist()
    assert measured.data.min() > 0


def test_loss_is_the_log_ratio_of_the_laws():
    draws = LAW.sample((5, 200))
    expected = (LAW.logpmf(draws) - LAW.logpmf(draws - 1)).sum(axis=0)
    assert loss(LAW, 5, draws.sum(axis=0), (draws > 0).sum(axis=0)) == pytest.approx(expected, abs=1e-12)


def test_tally_counts_every_application():
    mechanism = Mechanism.of(LAW, 1, 3)
    data = np.array([10, 20, 30])
    found = tally(mechanism, LAW, data, data + 1, 70_001)
    assert found.applications == 70_001
    # Under the neighbour the mean of exp(L) is 1, the mass of the other distribution.
    assert np.sum(found.counts * np.exp(found.losses())) / 70_001 == pytest.approx(1.0, abs=0.01)


def test_noise_of_another_size_is_refused():
    mechanism = Mechanism.of(DiscreteOSGT(15_000, 25_000), 1, 3)
    with pytest.raises(RuntimeError, match="standard deviations"):
        tally(mechanism, LAW, np.zeros(3, dtype=np.int64), np.zeros(3, dtype=np.int64), 1000)


def test_clopper_pearson_is_the_exact_interval():
    hits = np.array([0, 1, 17, 500, 1000])
    low, high = clopper_pearson(hits, 1000, 0.005)
    for h, below, above in zip(hits, low, high, strict=True):
        exact = binomtest(int(h), 1000).proportion_ci(0.99, method="exact")
        assert (below, above) == pytest.approx((exact.low, exact.high), abs=1e-12)


def test_empirical_bernstein_covers():
    # 2,000 intervals at 90 %: the inequality is cautious, so misses are far fewer than the 10 % allowed.
    random = np.random.default_rng(5)
    values = random.random((2000, 400)) ** 4
    low, high = empirical_bernstein(values.mean(axis=1), (values**2).mean(axis=1), 400, 0.1)
    assert np.mean((low > 0.2) | (high < 0.2)) < 0.1
    assert np.all(high - low < 0.2)


def test_direct_estimates_are_unbiased(measured):
    epsilon = np.array([0.0, 0.1])
    truth = measured.truth(epsilon)
    for one in (
        averaged(measured.on_data, epsilon, 1e-9),
        counted(measured.on_data, measured.on_neighbour, epsilon, 1e-9),
    ):
        assert one.covers(truth)
        assert np.all(np.abs(one.value - truth) <= one.high - one.low)


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 0.9, 2.0])
def test_weighted_values_stay_below_their_bound(epsilon):
    chosen = proposal(LAW, 8, epsilon)
    values = chosen.draw(50_000)
    assert np.all(values >= 0)
    assert values.max() <= chosen.largest * (1 + 1e-9)


def test_weighted_in_one_dimension():
    # Here δ is known by another way, and far below what a direct run could see.
    law = DiscreteOSGT(3, math.sqrt(40))
    epsilon = np.array([0.5, 1.0])
    estimate = weighted(law, 1, epsilon, 1 << 17).estimate(1e-9)
    assert estimate.covers(PrivacyProfile(law).delta(epsilon))
    assert np.all(estimate.high < 1.1 * estimate.low)


def test_importance_sampling_needs_a_law_between_the_ends():
    with pytest.raises(ValueError, match="between the Gaussian and the Laplace"):
        proposal(DiscreteOSGT.laplace(3.0), 2, 1.0)


def test_picture_data(measured):
    picture = experiment_picture(measured)
    direct, small, ratio = picture.panels
    theory = direct.curve("exact δ(ε) on the integers")
    assert theory.y == pytest.approx(PrivacyProfile(LAW, coordinates=8).delta(theory.x), rel=2e-4)
    points = small.curves[1]
    assert len(points.x) == 25
    assert points.y.min() < 1e-25
    assert np.all(points.low < points.high)
    assert np.all(np.abs(ratio.curve("weighted").y - 1) < 0.3)
    assert "99.9" in picture.title
