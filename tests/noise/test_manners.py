"""Entropy, expectations and refused draws: what users of scipy.stats try on a noise distribution."""

import math

import numpy as np
import pytest
from scipy import stats

from osgt import OSGT, DiscreteOSGT
from osgt.noise import RoundedGaussian


def test_entropy_is_the_expected_surprise():
    for noise in (OSGT(3, 6), OSGT.gaussian(2), OSGT.laplace(5)):
        assert noise.entropy() == pytest.approx(noise.expect(lambda y, noise=noise: -noise.logpdf(y)), rel=1e-9)
    for noise in (DiscreteOSGT(3, 6), DiscreteOSGT.gaussian(0.3), DiscreteOSGT.laplace(1e3)):
        assert noise.entropy() == pytest.approx(noise.expect(lambda k, noise=noise: -noise.logpmf(k)), rel=1e-9)


def test_entropy_agrees_with_scipy():
    assert OSGT.gaussian(2.5).entropy() == pytest.approx(stats.norm(scale=2.5).entropy(), rel=1e-12)
    assert OSGT.laplace(2.5).entropy() == pytest.approx(stats.laplace(scale=2.5).entropy(), rel=1e-12)
    assert DiscreteOSGT.laplace(2.5).entropy() == pytest.approx(float(stats.dlaplace(0.4).entropy()), rel=1e-9)


@pytest.mark.parametrize(
    "noise",
    [OSGT(3, 6), OSGT.laplace(1e-3), DiscreteOSGT(3, 6), DiscreteOSGT(0.2, 0.4), RoundedGaussian(40.0)],
    ids=repr,
)
def test_expectations_are_moments_and_probabilities(noise):
    assert noise.expect(lambda y: y**2) == pytest.approx(noise.var(), rel=1e-9)
    assert noise.expect(np.abs) == pytest.approx(noise.mean_abs(), rel=1e-9)
    assert noise.expect(lambda y: y) == pytest.approx(0, abs=1e-12 * noise.std())
    assert noise.expect(lambda y: np.exp(y / (9 * noise.std()))) > 1
    if noise.discrete:
        assert noise.expect(lambda k: k == 0) == pytest.approx(float(noise.pmf(0)), rel=1e-12)


def test_expectations_of_functions_that_see_the_sign():
    noise = DiscreteOSGT(3, 6)
    assert noise.expect(lambda k: k > 2) == pytest.approx(float(noise.sf(2)), rel=1e-12)
    assert OSGT(3, 6).expect(lambda y: np.exp(0.1 * y)) == pytest.approx(
        OSGT(3, 6).expect(lambda y: np.cosh(0.1 * y)), rel=1e-9
    )


def test_too_many_integers_are_refused():
    with pytest.raises(ValueError, match="on the reals"):
        DiscreteOSGT.gaussian(1e9).expect(np.abs)


@pytest.mark.parametrize("noise", [DiscreteOSGT(3, 6), RoundedGaussian(5.0)], ids=repr)
def test_integers_are_not_drawn_from_a_seed(noise):
    with pytest.raises(TypeError, match=r"no rvs: .*Use sample\(size\)"):
        noise.rvs(size=10, random_state=1)
    assert math.isfinite(float(np.mean(noise.sample(10))))
