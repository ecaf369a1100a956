"""The reference sampler and its building blocks, each against the probability that it states."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats
from scripted import ScriptedBytes

from goodness import FALSE_ALARM, chi_square, moments
from osgt import DiscreteOSGT
from osgt.noise import RoundedGaussian, scaled
from osgt.sampling import Sampler, reference


def wider(law, factor):
    return DiscreteOSGT.from_rates(law.slope / factor, law.curvature / factor**2)


def test_uniform_below_rejects_what_is_too_large():
    assert reference.uniform_below(5, ScriptedBytes(b"\xff", b"\xbf", b"\x9f")) == 4  # the top three bits: 7, 5, 4
    assert reference.uniform_below(1, ScriptedBytes(b"")) == 0
    assert reference.uniform_below(2**16, ScriptedBytes(b"\x12\x34")) == 0x1234


def test_uniform_below_is_uniform():
    counts = np.bincount([reference.uniform_below(7) for _ in range(40_000)], minlength=7)
    assert stats.chisquare(counts).pvalue > FALSE_ALARM
    assert stats.chisquare(counts, counts.sum() * np.array([8, 7, 7, 7, 7, 7, 6]) / 49).pvalue < FALSE_ALARM


@pytest.mark.parametrize("x", [Fraction(0), Fraction(1, 3), Fraction(1), Fraction(5, 2), Fraction(0.1)])
def test_bernoulli_exp(x):
    count, p = 20_000, math.exp(-x)
    successes = sum(reference.bernoulli_exp(x) for _ in range(count))
    assert stats.binomtest(successes, count, min(p, 1.0)).pvalue > FALSE_ALARM
    assert stats.binomtest(successes, count, 0.65 * p).pvalue < FALSE_ALARM


@pytest.mark.parametrize("rate", [Fraction(1, 4), Fraction(3, 2), Fraction(0.37)])
def test_geometric_exp(rate):
    draws = np.array([reference.geometric_exp(rate) for _ in range(10_000)])
    parameter = -math.expm1(-rate)
    cells = np.minimum(draws, 6)
    pmf = stats.geom(parameter, loc=-1).pmf(np.arange(6))
    expected = np.append(pmf, 1 - pmf.sum()) * len(draws)
    keep = expected > 50
    observed = np.bincount(cells, minlength=7)[keep]
    assert stats.chisquare(observed, expected[keep] * observed.sum() / expected[keep].sum()).pvalue > FALSE_ALARM
    assert stats.binomtest(int((draws == 0).sum()), len(draws), 0.75 * parameter).pvalue < FALSE_ALARM


@pytest.mark.parametrize(
    "law",
    [
        DiscreteOSGT(3, 40**0.5),
        DiscreteOSGT(0.25, 0.7),
        DiscreteOSGT(20, 8),
        DiscreteOSGT.gaussian(12.5),
        DiscreteOSGT.laplace(4.3),
        DiscreteOSGT(200, 1000),
    ],
    ids=repr,
)
def test_reference_sampler_and_fast_sampler_have_one_law(law):
    """At the 9,000 draws that the reference sampler affords, a scale that is 20 % off is rejected."""
    draws = np.array([reference.discrete_osgt(law.slope, law.curvature) for _ in range(9_000)])
    assert chi_square(draws, law, cells=30) > FALSE_ALARM
    assert chi_square(draws, wider(law, 1.2), cells=30) < FALSE_ALARM

    def two_samples(other):
        edges = np.unique(law.ppf(np.arange(1, 20) / 20))
        table = [np.bincount(np.searchsorted(edges, sample), minlength=len(edges) + 1) for sample in (draws, other)]
        table = np.array(table)
        return stats.chi2_contingency(table[:, table.sum(axis=0) > 200]).pvalue

    assert two_samples(Sampler(law.potential).sample(500_000)) > FALSE_ALARM
    assert two_samples(Sampler(wider(law, 1.2).potential).sample(500_000)) < FALSE_ALARM


def by_offset(m, variance):
    """The paper's own remark: a discrete Gaussian without its middle -m, …, m-1, the two sides moved together."""
    while True:
        x = reference.discrete_osgt(0, 1 / Fraction(variance))
        if not -m <= x < m:
            return x - m if x >= m else x + m


@pytest.mark.parametrize(("m", "variance"), [(0, 9), (1, 2), (3, 40), (5, Fraction(49, 2))])
def test_the_remark_of_the_paper(m, variance):
    law = DiscreteOSGT(m, float(variance) ** 0.5)
    draws = np.array([by_offset(m, variance) for _ in range(7_000)])
    assert chi_square(draws, law, cells=30) > FALSE_ALARM
    assert chi_square(draws, wider(law, 1.2), cells=30) < FALSE_ALARM


@pytest.mark.parametrize("sigma", [0.3, 1e10])
def test_a_normal_number_that_is_rounded(sigma):
    law = RoundedGaussian(sigma)
    draws = np.array([reference.rounded_gaussian(law.potential.curvature) for _ in range(10_000)])
    assert chi_square(draws, law, cells=30) > FALSE_ALARM
    assert moments(draws, law) > FALSE_ALARM
    # Power: the moments of a scale that is 10 % off are 15 standard errors away, more than twice as far as an alarm.
    assert moments(draws, scaled(law, 1.1)) < FALSE_ALARM


def test_fractions_are_taken_as_they_are():
    draws = [reference.discrete_osgt(Fraction(1, 3), Fraction(1, 7)) for _ in range(10)]
    assert all(type(draw) is int for draw in draws)
