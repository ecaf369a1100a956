"""Best estimates: posterior, weights and kept sums against independent computations, the risk without bias."""

from fractions import Fraction

import numpy as np
import pytest
import scipy

from osgt import DiscreteOSGT
from osgt.estimation.cells import CellNoise, cell_width
from osgt.estimation.empirical_bayes import NoisyNumbers, Posterior, Ranges, Shrinkage, fit_weights, keep_sums
from osgt.estimation.sums import ManySum
from osgt.noise.error import Combination


def alone(law, coefficient=1):
    """The noise of a number that is measured as it is."""
    return Combination(((Fraction(coefficient), law),))


NOISES = [DiscreteOSGT(3, 7), DiscreteOSGT.gaussian(5), DiscreteOSGT.laplace(4), DiscreteOSGT(0.5, 0.8)]


def probabilities(law, reach):
    """The probabilities of the noise from -reach to reach, from its own distribution."""
    return law.pmf(np.arange(-reach, reach + 1.0))


@pytest.mark.parametrize("law", NOISES)
def test_cells_of_one_step_are_the_distribution(law):
    noise = CellNoise.of(alone(law), 1)
    assert np.allclose(noise.masses, probabilities(law, noise.reach), atol=1e-11)


def test_cells_of_a_sum_are_its_convolution():
    one, other = DiscreteOSGT(3, 7), DiscreteOSGT.laplace(3)
    direct = np.convolve(probabilities(one, 80), probabilities(other, 80))
    for noise in (Combination(((Fraction(1), one), (Fraction(1), other))), ManySum(((1, one, 1), (1.0, other, 1)))):
        cells = CellNoise.of(noise, 1)
        middle = direct[160 - cells.reach : 160 + cells.reach + 1]
        assert np.allclose(cells.masses, middle, atol=1e-9)


def test_wide_noise_is_in_wide_cells():
    law = DiscreteOSGT(200, 900)
    width = cell_width([alone(law)])
    cells = CellNoise.of(alone(law), width)
    steps = np.arange(-8_000, 8_001)
    direct = np.bincount(np.rint(steps / width).astype(int) + 1_000, law.pmf(steps))
    assert width > 10
    middle = slice(cells.reach - 40, cells.reach + 41)
    assert np.allclose(cells.masses[middle], direct[960:1_041], atol=1e-4)
    assert cells.var * width**2 == pytest.approx(law.var(), rel=2e-3)


# The risk


@pytest.mark.parametrize("law", NOISES)
@pytest.mark.parametrize("true", [0, 1, 7, 40])
def test_products_with_noise_have_no_bias(law, true):
    """E[h(θ + X)] = E[X·δ(θ + X)], summed directly, for a function with bends and a jump."""
    noise = CellNoise.of(alone(law), 1)
    grid = np.arange(-3 * noise.reach - 50, 3 * noise.reach + 150)
    rng = np.random.default_rng(3)
    bends = np.where((grid > -30) & (grid < 60), np.cumsum(rng.random(len(grid)) * 2.0), 0.0)
    estimates = np.where(grid < 60, np.clip(bends, 0, 55), grid)
    products, bias = noise.product_with_noise(np.diff(estimates))
    at = true + noise.places - grid[0]
    wanted = float((noise.places * estimates[at]) @ noise.masses)
    scale = noise.var * np.abs(np.diff(estimates)).max()
    assert float(products[at] @ noise.masses) == pytest.approx(wanted, abs=bias + 1e-9 * scale)
    assert bias < 1e-5 * scale


def test_a_kernel_for_other_noise_has_bias():
    """The power of the test above: noise that is a tenth wider is noticed."""
    law, wider = CellNoise.of(alone(DiscreteOSGT(3, 7)), 1), CellNoise.of(alone(DiscreteOSGT(3.3, 7.7)), 1)
    grid = np.arange(-200, 400)
    estimates = np.clip(0.7 * grid, 0, None)
    products, _ = wider.product_with_noise(np.diff(estimates))
    at = 5 + law.places - grid[0]
    wanted = float((law.places * estimates[at]) @ law.masses)
    assert abs(float(products[at] @ law.masses) - wanted) > 0.1 * wanted


@pytest.mark.parametrize("law", NOISES[:3])
@pytest.mark.parametrize("true", [0, 3, 25, 200])
def test_the_risk_of_a_given_estimate_has_no_bias(law, true):
    """The mean of the estimated risk is the mean square error, both summed over all noise."""
    shrinkage = Shrinkage([NoisyNumbers(np.arange(-20, 600), alone(law))])
    noise, ranges = shrinkage._noises[0], shrinkage._ranges
    weights = np.linspace(1.0, 0.01, len(ranges.sizes))
    posterior = Posterior(ranges, weights / weights.sum(), noise)
    cells = true + noise.places
    direct = float((shrinkage._estimates(posterior, cells) - true) ** 2 @ noise.masses)
    assert float(shrinkage._risks(posterior, cells) @ noise.masses) == pytest.approx(direct, rel=1e-6)


# The estimates


def test_the_posterior_is_that_of_all_whole_numbers():
    law, ranges = DiscreteOSGT(2, 4), Ranges.up_to(60)
    rng = np.random.default_rng(1)
    weights = rng.dirichlet(np.ones(len(ranges.sizes)))
    noise = CellNoise.of(alone(law), 1)
    posterior = Posterior(ranges, weights, noise)
    prior = np.repeat(weights / ranges.sizes, ranges.sizes)
    numbers, cells = np.arange(len(prior)), np.array([-9, 0, 3, 17, 45])
    after = prior * law.pmf(cells[:, None] - numbers)
    after /= after.sum(axis=1, keepdims=True)
    means = after @ numbers
    assert posterior.moments(cells)[0] == pytest.approx(means, rel=1e-9)
    assert posterior.moments(cells)[1] == pytest.approx(after @ numbers**2 - means**2, rel=1e-7)
    low, high = posterior.interval(cells, 0.9)
    for share, first, last in zip(after, low, high, strict=True):
        assert share[first : last + 1].sum() >= 0.9 - 1e-9
        # It is no wider than need be at the upper end.
        assert share[first:last].sum() < 0.95 + 1e-9


def test_weights_have_the_most_likelihood():
    """Against a solver that knows nothing of expectation and maximisation."""
    rng = np.random.default_rng(2)
    likelihoods, times = rng.random((40, 6)), rng.integers(1, 20, 40).astype(float)

    def negative(free):
        weights = np.exp(free) / np.exp(free).sum()
        return -(times @ np.log(likelihoods @ weights) + 0.5 * np.log(weights).sum())

    best = scipy.optimize.minimize(negative, np.zeros(6), tol=1e-10).fun
    weights = fit_weights(likelihoods, times)
    assert weights.sum() == pytest.approx(1)
    assert negative(np.log(weights)) <= best + 1e-3


def test_sums_are_kept_by_the_least_change():
    """Against a solver of quadratic programs."""
    rng = np.random.default_rng(4)
    values, variances = rng.normal(2, 3, 12), rng.uniform(0.5, 4, 12)
    parents, totals = np.repeat([0, 1, 2], 4), np.array([20.0, 3.0, -1.0])
    result = keep_sums(values, variances, parents, totals)
    assert np.bincount(parents, result) == pytest.approx([20, 3, 0], abs=1e-9)
    for each in (0, 1):
        own = parents == each
        solved = scipy.optimize.minimize(
            lambda x, own=own: np.sum((x - values[own]) ** 2 / variances[own]),
            np.full(4, totals[each] / 4),
            bounds=[(0, None)] * 4,
            constraints={"type": "eq", "fun": lambda x, total=totals[each]: x.sum() - total},
            tol=1e-12,
        )
        assert result[own] == pytest.approx(solved.x, abs=1e-4)
    assert keep_sums(np.zeros(3), np.zeros(3), np.zeros(3, int), np.array([6.0])).tolist() == [2, 2, 2]


# All of it, on drawn numbers: the same each time


def drawn(law, true, seed):
    """The numbers with noise, drawn by NumPy."""
    reach = int(law.isf(1e-12))
    masses = probabilities(law, reach)
    noise = np.random.default_rng(seed).choice(np.arange(-reach, reach + 1), p=masses / masses.sum(), size=len(true))
    return NoisyNumbers(true + noise, alone(law))


def many_small(seed, size=3_000):
    """Numbers of which most are 0 and some large."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(size) < 0.7, 0, np.rint(rng.lognormal(1.5, 1.2, size))).astype(np.int64)


@pytest.mark.parametrize("law", [DiscreteOSGT(3, 7), DiscreteOSGT.laplace(6), DiscreteOSGT(30, 200)])
def test_sparse_numbers_gain_and_intervals_hold(law):
    true = many_small(5)
    shrinkage = Shrinkage([drawn(law, true, 6)])
    [result] = shrinkage.estimate(0.95)
    error = np.mean((result.values - true) ** 2)
    holds = np.mean((result.low <= true) & (true <= result.high))
    assert shrinkage.risk.helps
    assert abs(shrinkage.risk.estimated - error) < 4 * shrinkage.risk.std_error
    assert error < 0.5 * law.var()
    assert 0.93 < holds < 0.995
    assert np.mean(result.high - result.low) < 0.5 * 2 * law.isf(0.025)
    assert np.all(result.low <= result.values)
    assert np.all(result.values <= result.high)


def test_dense_numbers_are_left_as_they_are():
    rng = np.random.default_rng(7)
    true = rng.integers(500, 5_000, 400)
    risk = Shrinkage([drawn(DiscreteOSGT(3, 7), true, 8)]).risk
    assert not risk.helps
    assert abs(risk.gain) < 0.05


def test_few_numbers_are_left_as_they_are():
    risk = Shrinkage([drawn(DiscreteOSGT(3, 7), np.zeros(19, np.int64), 8)]).risk
    assert not risk.helps
    assert risk.gain == -np.inf


def test_numbers_with_different_noise_are_estimated_together():
    true = many_small(9)
    narrow, wide = drawn(DiscreteOSGT(3, 7), true[:1500], 10), drawn(DiscreteOSGT(9, 20), true[1500:], 11)
    first, second = Shrinkage([narrow, wide]).estimate(0.95)
    [apart] = Shrinkage([wide]).estimate(0.95)
    assert np.mean((first.values - true[:1500]) ** 2) < np.mean((second.values - true[1500:]) ** 2)
    # The narrow ones tell how large the others are.
    assert np.mean((second.values - true[1500:]) ** 2) < 1.02 * np.mean((apart.values - true[1500:]) ** 2)
