"""Sums of very many noises: half-widths are sound and close, by other ways of adding up."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from scipy import stats

from goodness import FALSE_ALARM
from osgt import OSGT, DiscreteOSGT
from osgt.estimation.sums import _ERROR, ManySum, _least_inside, _table

small_laws = st.builds(
    lambda scale, shape: DiscreteOSGT.from_rates(shape / scale, (1 - shape) / scale**2),
    st.floats(0.4, 6),
    st.one_of(st.just(0.0), st.just(1.0), st.floats(0, 1)),
)


def exact_sum(terms):
    """P[|X| = 0, 1, …] for whole coefficients, convolved one noise at a time."""
    whole = np.ones(1)
    for coefficient, law, number in terms:
        reach = int(law.isf(1e-15)) + 1
        one = np.zeros(2 * coefficient * reach + 1)
        one[::coefficient] = law.pmf(np.arange(-reach, reach + 1))
        for _ in range(number):
            whole = np.convolve(whole, one)
    middle = len(whole) // 2
    return np.concatenate([whole[middle : middle + 1], 2.0 * whole[middle + 1 :]])


class TestHalfWidth:
    @settings(max_examples=40)
    @given(
        st.lists(st.tuples(st.integers(1, 4), small_laws, st.integers(1, 9)), min_size=1, max_size=3),
        st.sampled_from([0.5, 0.9, 0.95, 0.99, 0.9999]),
    )
    @example([(1, DiscreteOSGT.gaussian(0.40234375), 6)], 0.9999)
    def test_sound_and_close_to_the_least(self, terms, confidence):
        inside = np.cumsum(exact_sum(terms))
        noise = ManySum(tuple(terms))
        half = noise.half_width(confidence)
        assert inside[math.floor(half)] >= confidence
        # As close as a whole number can be to an interval that is shorter by one percent of the standard deviation, and
        # less likely to hold the noise by a tenth of what is left.
        shorter = math.floor(half - 0.01 * noise.std() - 1e-9)
        allowed = confidence + 0.1 * (1.0 - confidence)
        assert shorter < 0 or inside[shorter] < allowed

    @pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999, 1 - 1e-6])
    def test_very_many_are_gaussian(self, confidence):
        noise = ManySum(((0.3, DiscreteOSGT.gaussian(12.0), 5_000), (-1.7, DiscreteOSGT.gaussian(300.0), 777)))
        expected = stats.norm.isf((1 - confidence) / 2)
        wider = 0.01 if confidence < 0.9999 else 0.1
        assert expected <= noise.half_width(confidence) / noise.std() <= expected + wider

    @pytest.mark.parametrize("law", [DiscreteOSGT.laplace(3e6), OSGT.laplace(3.0), OSGT(1.0, 2.0)])
    def test_noise_that_is_rounded(self, law):
        """A sum of n Laplace variables is a difference of two gamma variables: its density is known."""
        n = 40
        noise = ManySum(((1, law, n),))
        half = noise.half_width(0.95) / noise.std()
        if law.slope and not law.curvature:
            scale = noise.std() / math.sqrt(2 * n)
            frequencies = (np.arange(1 << 14) + 0.5) * 2e-3
            density = (1.0 + (frequencies * scale / noise.std()) ** 2) ** -n
            inside = (2 / math.pi) * 2e-3 * np.sum(density * np.sin(frequencies * half) / frequencies)
            assert 0.95 <= inside <= 0.9515
        assert 1.94 <= half <= 2.0

    def test_one_noise_is_exact(self):
        law = DiscreteOSGT(3, 7)
        assert ManySum(((-2.5, law, 1), (0.0, law, 7))).half_width(0.95) == 2.5 * law.isf(0.025)

    def test_nothing_is_never_off(self):
        assert ManySum(()).half_width(0.95) == 0.0

    def test_noise_that_is_as_good_as_none(self):
        nothing, some = DiscreteOSGT.laplace(0.001), DiscreteOSGT.laplace(4)
        assert ManySum(((1, nothing, 50),)).half_width(0.95) == 0.0
        both, alone = ManySum(((1, nothing, 50), (1, some, 9))), ManySum(((1, some, 9),))
        assert both.half_width(0.9) == pytest.approx(alone.half_width(0.9), rel=1e-9)

    def test_equal_terms_may_be_written_apart(self):
        law = DiscreteOSGT.laplace(4)
        apart, together = ManySum(((1, law, 3), (-1, law, 4))), ManySum(((1, law, 7),))
        assert apart.half_width(0.9) == together.half_width(0.9)
        assert apart.std() == pytest.approx(math.sqrt(7) * law.std())

    def test_a_confidence_that_floats_cannot_tell_from_one(self):
        with pytest.raises(ValueError, match="confidence must leave more than"):
            ManySum(((1, DiscreteOSGT.laplace(4), 100),)).half_width(1 - 1e-15)

    def test_draws_are_inside_as_often_as_it_says(self):
        """Draws of mixed noises; the same test rejects noise that is 5 % wider."""
        laws = [DiscreteOSGT.laplace(5), DiscreteOSGT(4, 6), DiscreteOSGT.gaussian(3)]
        terms = ((0.75, laws[0], 16), (0.31, laws[1], 60), (1.2, laws[2], 9))
        half, runs = ManySum(terms).half_width(0.9), 60_000
        draws = sum(c * law.sample((runs, number)).sum(axis=1) for c, law, number in terms)

        def too_few(factor):
            inside = int(np.count_nonzero(np.abs(factor * draws) <= half))
            return stats.binom.cdf(inside, runs, 0.9) < FALSE_ALARM

        assert not too_few(1.0)
        assert too_few(1.05)
        # Nor is it much wider than need be.
        assert stats.binom.sf(np.count_nonzero(np.abs(draws) <= half) - 1, runs, 0.902) > FALSE_ALARM


@pytest.mark.parametrize("degree", [1, 5, 40])
def test_the_polynomial_is_below_the_indicator(degree):
    """For X that is always x, a mean is the polynomial at x itself."""
    k = np.arange(1.0, degree + 1)
    for part in np.linspace(0.01, 0.49, 25):
        for x in np.linspace(-0.5, 0.5, 401):
            assert _least_inside(np.cos(2 * math.pi * k * x))(part) <= (abs(x) <= part) + 1e-12
        # Its mean over the circle is as large as that of any such polynomial.
        assert _least_inside(np.zeros(degree))(part) == pytest.approx(2 * part - 1 / (degree + 1))


@pytest.mark.parametrize("law", [DiscreteOSGT.laplace(0.3), DiscreteOSGT(2, 5), DiscreteOSGT.gaussian(40)])
def test_characteristic_functions(law):
    """Against sums of 40 digits, within the error that is taken into account."""
    rng = np.random.default_rng(3)
    frequencies = np.concatenate([rng.uniform(0, 30, 25), [0.0, math.pi, 2 * math.pi, 7 * math.pi, 1e-9]])
    reach = int(law.isf(1e-18)) + 2
    with mp.workdps(40):
        masses = [mp.exp(mpf(-law.slope) * y - mpf(law.curvature) * y * y / 2) for y in range(reach)]
        total = masses[0] + 2 * mp.fsum(masses[1:])
        expected = [
            float((masses[0] + 2 * mp.fsum(m * mp.cos(mpf(f) * y) for y, m in enumerate(masses) if y)) / total)
            for f in frequencies
        ]
    assert np.abs(_table(law).characteristic(frequencies) - expected).max() <= _ERROR
