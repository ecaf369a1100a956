"""Weighted sums of noises: quantiles are sound, and the least where they can be, by other ways of adding up."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from osgt import OSGT, DiscreteOSGT
from osgt.noise.error import Combination, convolved, grid_sum, reach_of

small_laws = st.builds(
    lambda scale, shape: DiscreteOSGT.from_rates(shape / scale, (1 - shape) / scale**2),
    st.floats(0.4, 3),
    st.one_of(st.just(0.0), st.just(1.0), st.floats(0, 1)),
)
rates = st.tuples(st.floats(-6, 6), st.one_of(st.just(0.0), st.just(1.0), st.floats(0, 1))).map(
    lambda drawn: (drawn[1] / 10 ** drawn[0], (1 - drawn[1]) / 10 ** (2 * drawn[0]))
)
halves = st.integers(-6, 6).filter(bool).map(lambda n: Fraction(n, 2))


def outcomes(terms):
    """All values of |Σ coefficient·Y| and their probabilities, as far as these count: by going through them."""
    values, probabilities = np.zeros(1), np.ones(1)
    for coefficient, law in terms:
        y = np.arange(-int(law.isf(1e-11)), int(law.isf(1e-11)) + 1)
        values = np.add.outer(values, float(coefficient) * y).ravel()
        probabilities = np.multiply.outer(probabilities, law.pmf(y)).ravel()
    return np.abs(values), probabilities


class TestReach:
    @given(rates, st.floats(-17, -1))
    def test_on_the_reals_no_more_than_the_tail_is_beyond_and_nearly_as_much(self, rates, exponent):
        law, tail = OSGT.from_rates(*rates), 10**exponent
        assert 0.85 * tail <= law.sf(reach_of(law, tail)) <= tail

    @given(rates, st.floats(-17, -1))
    def test_on_the_integers_it_is_the_least_but_for_a_few_percent(self, rates, exponent):
        law, tail = DiscreteOSGT.from_rates(*rates), 10**exponent
        reach = reach_of(law, tail)
        assert reach == int(reach)
        assert law.sf(reach) <= tail
        assert reach <= 1.06 * law.isf(tail) + 2


class TestHalfWidth:
    @settings(max_examples=60)
    @given(st.lists(st.tuples(halves, small_laws), min_size=2, max_size=3), st.sampled_from([0.5, 0.9, 0.95, 0.99]))
    def test_the_least_on_a_common_step(self, terms, confidence):
        values, probabilities = outcomes(terms)
        half = Combination(tuple(terms)).half_width(confidence)
        assert probabilities[values <= half + 1e-9].sum() >= confidence - 1e-9
        # The far ends count as outside: a ten-thousandth of what is left.
        assert probabilities[values < half - 1e-9].sum() < confidence + 1.1e-4 * (1 - confidence)

    @settings(max_examples=40)
    @given(st.lists(st.tuples(st.floats(0.1, 40), small_laws), min_size=2, max_size=3))
    def test_sound_and_close_with_any_coefficients(self, terms):
        values, probabilities = outcomes(terms)
        half = Combination(tuple(terms)).half_width(0.95)
        assert probabilities[values <= half].sum() >= 0.95 - 1e-9
        order = np.argsort(values)
        least = values[order][np.searchsorted(np.cumsum(probabilities[order]), 0.95 + 1e-5)]
        assert half <= least * 1.003 + 1e-9

    @pytest.mark.parametrize("confidence", [0.5, 0.95, 1 - 1e-5, 1 - 1e-8])
    def test_sums_of_gaussians(self, confidence):
        """Large discrete Gaussians are Gaussian, and so is their sum."""
        for scales in ((3e5, 20.0), (1e4, 1e4, 3e3)):
            coefficients = [Fraction(1, 2), Fraction(2500), Fraction(7)][: len(scales)]
            noise = Combination(tuple((c, DiscreteOSGT.gaussian(s)) for c, s in zip(coefficients, scales, strict=True)))
            std = math.sqrt(sum(float(c * c) * s * s for c, s in zip(coefficients, scales, strict=True)))
            assert noise.std() == pytest.approx(std, rel=1e-9)
            exact = stats.norm.isf((1 - confidence) / 2) * std
            # A lattice of 2500 lies under the first of them.
            assert exact * (1 - 1e-3) <= noise.half_width(confidence) <= exact * (1 + 3e-3)

    @pytest.mark.parametrize("confidence", [0.5, 0.95, 0.9999, 1 - 1e-9])
    def test_sums_of_two_laplace_noises(self, confidence):
        """P[|X| > x] = (1 + x/2)·e^{-x} for two of scale 1."""
        noise = Combination(((1.0, OSGT.laplace(1.0)), (1.0, OSGT.laplace(1.0))))
        half = noise.half_width(confidence)
        assert (1 + half / 2) * math.exp(-half) <= 1 - confidence
        shorter = half * (1 - 3e-3)
        assert (1 + shorter / 2) * math.exp(-shorter) > 1 - confidence
        assert noise.quantile(confidence) == pytest.approx(half, rel=3e-3)

    def test_one_term_is_its_own_quantile(self):
        law = DiscreteOSGT(3, 5)
        for coefficient in (1, Fraction(1, 2), -3):
            noise = Combination(((Fraction(coefficient), law),))
            assert noise.half_width(0.95) == abs(coefficient) * law.isf(0.025)
            assert noise.var() == pytest.approx(float(coefficient**2) * law.var())

    @pytest.mark.parametrize("scale", [0.8, 2.0, 50.0, 1e5])
    def test_quantiles_vary_with_the_scale(self, scale):
        """What a search goes by: no steps, also where the half-width is a whole number."""
        found = [
            Combination(((Fraction(1), DiscreteOSGT(scale, s)), (Fraction(3, 2), DiscreteOSGT(2 * scale, s)))).quantile(
                0.95
            )
            for s in scale * np.linspace(1, 1.02, 6)
        ]
        assert all(a < b for a, b in itertools.pairwise(found))


def test_convolutions_by_two_ways():
    """The quick way is off by less than it says."""
    rng = np.random.default_rng(5)
    for _ in range(20):
        parts = []
        for n in rng.integers(2, 400, rng.integers(2, 5)):
            half = rng.random(n) * np.exp(-rng.uniform(0, 0.2) * np.arange(n))
            parts.append(half / (half[0] + 2 * half[1:].sum()))
        quick, allowed = convolved(parts)
        exact, _ = convolved(parts, precise=True)
        assert len(quick) == len(exact)
        assert 2 * np.abs(quick - exact).sum() < allowed


def test_tails_have_all_that_is_lost():
    terms = ((Fraction(1), DiscreteOSGT.laplace(5)), (Fraction(1), DiscreteOSGT.laplace(8)))
    total = grid_sum(terms, 0.05)
    assert total.off == 0
    assert total.masses[0] + 2 * total.masses[1:].sum() + total.lost >= 1
    assert np.all(np.diff(total.beyond()) <= 0)
