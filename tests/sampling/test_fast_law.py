"""The fast sampler has the distribution that it promises, in every regime. Each test has its power check beside it."""

import numpy as np
import pytest
from scipy import stats

from goodness import FALSE_ALARM, chi_square, five_percent_wider, log_ratio, moments
from osgt import DiscreteOSGT
from osgt.noise import RoundedGaussian
from osgt.sampling import Sampler
from osgt.sampling.entropy import system_entropy
from osgt.sampling.fast import BlockSampler, TableSampler, draw, fast_sampler
from osgt.sampling.lookup import tail_index

DRAWS = 1_000_000

TABLE_LAWS = [
    DiscreteOSGT(3, 40**0.5),
    DiscreteOSGT(2.7, 5.3),
    DiscreteOSGT(0.5, 0.8),
    DiscreteOSGT(40, 12),
    DiscreteOSGT.gaussian(0.45),
    DiscreteOSGT.gaussian(1),
    DiscreteOSGT.gaussian(20),
    DiscreteOSGT.gaussian(128),  # the last scale that is tabulated
    DiscreteOSGT.laplace(0.3),
    DiscreteOSGT.laplace(1),
    DiscreteOSGT.laplace(30),
    DiscreteOSGT.laplace(255),
    RoundedGaussian(0.3),
    RoundedGaussian(2),
    RoundedGaussian(37.5),
]
BLOCK_LAWS = [
    DiscreteOSGT.gaussian(132),  # just beyond the table
    DiscreteOSGT.laplace(260),
    DiscreteOSGT(100.5, 400),
    DiscreteOSGT(2000, 900),
    DiscreteOSGT.gaussian(800),
    DiscreteOSGT.laplace(600),
    DiscreteOSGT(1e5, 3.3e5),
    DiscreteOSGT.gaussian(1e7),
    DiscreteOSGT.laplace(1e7),
    DiscreteOSGT.gaussian(6e10),  # blocks of 30 bits, the most that 32-bit words hold beside the sign
    DiscreteOSGT.gaussian(1.3e11),  # 31 bits
    DiscreteOSGT(1e12, 2e12),
    RoundedGaussian(132),
    RoundedGaussian(5.4e9),  # for a person with 2³⁰ steps at ε = 1, δ = 1e-8
]


@pytest.mark.parametrize("law", TABLE_LAWS, ids=repr)
def test_small_scales_are_tabulated(law):
    assert isinstance(Sampler(law.potential)._sampler, TableSampler)


@pytest.mark.parametrize("law", BLOCK_LAWS, ids=repr)
def test_large_scales_use_blocks(law):
    assert isinstance(Sampler(law.potential)._sampler, BlockSampler)


def places_in_blocks(draws, bits):
    """p-values that the upper eight bits of places in blocks are spread evenly, and do not depend on the sign."""
    mirrored = draws < 0
    places = np.where(mirrored, ~draws, draws) & ((1 << bits) - 1)
    upper, counts = places >> (bits - 8), np.zeros((2, 256))
    np.add.at(counts, (mirrored.astype(int), upper), 1)
    # The weights fall by less than a sixteenth within a block: half of it is no more than that away from a half.
    halves = [
        stats.binomtest(int(np.sum(upper >> bit & 1)), len(draws), 0.5).proportion_ci(1 - FALSE_ALARM)
        for bit in range(8)
    ]
    even = all(half.low < 0.516 and half.high > 0.484 for half in halves)
    return stats.chi2_contingency(counts).pvalue if even else 0.0


@pytest.mark.parametrize("log_scale", [34, 36, 37, 38, 41, 45, 50])
def test_every_bit_of_a_place_in_a_large_block_is_drawn(log_scale):
    sampler = block_sampler(2.0**log_scale)
    assert places_in_blocks(draw(sampler, 200_000), sampler._block_bits) > FALSE_ALARM


@pytest.mark.parametrize("bit", [1, 4, 8])
def test_the_bits_have_power(bit):
    """A bit that is never drawn, and one that is the sign's."""
    sampler = block_sampler(2.0**41)
    draws, place = draw(sampler, 200_000), 1 << (sampler._block_bits - bit)
    assert places_in_blocks(np.where(draws < 0, ~(~draws & ~place), draws & ~place), sampler._block_bits) < FALSE_ALARM
    assert places_in_blocks(draws | place, sampler._block_bits) < FALSE_ALARM


def block_sampler(scale):
    sampler = fast_sampler(DiscreteOSGT.gaussian(scale).potential, system_entropy)
    assert isinstance(sampler, BlockSampler)
    return sampler


@pytest.mark.parametrize("law", TABLE_LAWS + BLOCK_LAWS, ids=repr)
def test_draws_have_the_law(law):
    draws = Sampler(law.potential).sample(DRAWS)
    other = five_percent_wider(law)
    assert chi_square(draws, law) > FALSE_ALARM
    assert moments(draws, law) > FALSE_ALARM
    # Power: the moments reject a scale that is 5 % off everywhere, Pearson's test where there are cells enough.
    assert moments(draws, other) < FALSE_ALARM
    if law.std() > 0.5:
        assert chi_square(draws, other) < FALSE_ALARM


@pytest.mark.parametrize("law", [law for law in TABLE_LAWS if 0.9 < law.std() < 10], ids=repr)
def test_steps_of_the_log_pmf(law):
    draws = Sampler(law.potential).sample(6 * DRAWS)
    assert log_ratio(draws, law) > FALSE_ALARM
    assert log_ratio(draws, five_percent_wider(law)) < FALSE_ALARM


def test_a_rounded_gaussian_is_not_the_discrete_one():
    """Their variances differ by 1/12, which the moments of a million draws see."""
    draws = RoundedGaussian(2).sample(DRAWS)
    assert moments(draws, DiscreteOSGT.gaussian(2)) < FALSE_ALARM


def place_in_block(draws, law, bits):
    """p-value of the mean place of the draws within their blocks of 2^bits integers: from 0 up, and from -1 down."""
    block_starts = (1 << bits) * np.arange(1.0, 6000.0)
    whole_blocks = (law.sf(block_starts - 1) + law.sf(block_starts)).sum()
    expected = law.mean_abs() - law.sf(0) - (1 << bits) * whole_blocks
    places = (np.where(draws < 0, ~draws, draws) & ((1 << bits) - 1)).astype(np.float64)
    return 2 * stats.norm.sf(abs(places.mean() - expected) / (places.std() / len(places) ** 0.5))


@pytest.mark.parametrize("law", [law for law in BLOCK_LAWS if law.std() > 500], ids=repr)
def test_inside_the_blocks(law, monkeypatch):
    """14 million draws put the mean place of flat blocks at least 13 standard errors off; 6.1 are an alarm."""
    sampler = Sampler(law.potential)
    bits = sampler._sampler._block_bits
    draws = sampler.sample(14 * DRAWS)
    assert place_in_block(draws, law, bits) > FALSE_ALARM
    assert stats.binomtest(int((draws > 0).sum()), int((draws != 0).sum())).pvalue > FALSE_ALARM
    # Power: the same sampler without its rejection step, which makes every block flat.
    monkeypatch.setattr(BlockSampler, "_is_kept", lambda self, draws, levels: np.ones(len(draws), dtype=bool))
    assert place_in_block(sampler.sample(14 * DRAWS), law, bits) < FALSE_ALARM


@pytest.mark.parametrize(
    ("law", "step", "start"),
    [
        (DiscreteOSGT(3, 6), 1, 2),
        (DiscreteOSGT.laplace(5), 1, 170),
        (DiscreteOSGT.gaussian(30), 1, 250),
        (DiscreteOSGT.gaussian(1000), 16, 500),
        (RoundedGaussian(2), 1, 3),
    ],
    ids=repr,
)
def test_the_tail_beyond_the_table(law, step, start):
    """`tail_index` has the distribution of the indices from `start` on."""
    count = 6000
    draws = np.array([tail_index(lambda j: law.potential.ball(j * step), start, system_entropy) for _ in range(count)])
    assert draws.min() == start

    def p_value(exponents):
        weights = np.exp(exponents[0] - exponents)
        probabilities = weights / weights.sum()
        cells = np.minimum(np.floor(np.cumsum(probabilities) * 40).astype(int), 39)
        expected = np.bincount(cells, weights=probabilities, minlength=40) * count
        observed = np.bincount(cells[draws - start], minlength=40)
        keep = expected >= 100
        return stats.chisquare(observed[keep], expected[keep] * (observed[keep].sum() / expected[keep].sum())).pvalue

    indices = step * np.arange(start, start + 4000.0)
    assert p_value(law.potential(indices)) > FALSE_ALARM
    assert p_value(law.potential(indices) / 1.3) < FALSE_ALARM  # power, at the few draws of a slow sampler


@pytest.mark.parametrize("law", [DiscreteOSGT(3, 6), DiscreteOSGT(300, 900)], ids=repr)
def test_all_tail(law, monkeypatch):
    """With most of the distribution left to the tail, tail and table still make one distribution."""
    monkeypatch.setattr("osgt.sampling.lookup._LISTED_EXPONENT", 1.0)
    draws = draw(Sampler(law.potential)._sampler, 8_000)
    assert chi_square(draws, law) > FALSE_ALARM
    assert chi_square(draws, DiscreteOSGT.from_rates(law.slope / 1.25, law.curvature / 1.25**2)) < FALSE_ALARM


def test_count_of_draws_and_shapes():
    law = DiscreteOSGT.gaussian(500)
    for size in (0, 1, 5, 1024, 1025, 131_072, 131_073, 500_000):
        draws = law.sample(size)
        assert draws.dtype == np.int64
        assert draws.shape == (size,)
    assert law.sample((3, 4)).shape == (3, 4)
    assert law.sample((2, 0)).shape == (2, 0)
    assert law.sample(()).shape == ()
    assert law.sample(np.int32(7)).shape == (7,)
    assert type(law.sample()) is int


@pytest.mark.parametrize("size", [-1, (2, -1)])
def test_negative_size(size):
    with pytest.raises(ValueError, match="size must be an integer ≥ 0"):
        DiscreteOSGT.gaussian(5).sample(size)


@pytest.mark.parametrize("size", [1.5, "3", (2, 1.0), [2, 3]])
def test_wrong_type_of_size(size):
    with pytest.raises(TypeError, match="size must be an integer ≥ 0"):
        DiscreteOSGT.gaussian(5).sample(size)


def test_noise_beyond_int64_is_refused():
    with pytest.raises(ValueError, match="too large to be drawn as 64-bit integers"):
        DiscreteOSGT.gaussian(1e17).sample()
    for rates in ((1e-310, 0.0), (0.0, 5e-324)):
        with pytest.raises(ValueError, match="too large to be drawn as 64-bit integers"):
            DiscreteOSGT.from_rates(*rates).sample()
    assert abs(DiscreteOSGT.gaussian(4e15).sample()) < 2**62


@pytest.mark.parametrize("scale", [1e-12, 1e-3, 0.01, 0.02])
def test_noise_that_is_nearly_always_zero(scale):
    """The tail may be far below what any table resolves: e^-1000 and less."""
    assert not np.any(DiscreteOSGT.laplace(scale).sample(100_000))


@pytest.mark.parametrize("std", [0.05, 1, 30, 800, 3e5, 1e7, 1e12])
def test_memory_of_a_sampler(std):
    for law in (DiscreteOSGT.gaussian(std), DiscreteOSGT.laplace(std / 2**0.5)):
        assert Sampler(law.potential).nbytes < 2**20
