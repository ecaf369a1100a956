"""DiscreteOSGT on the integers against other ways to sum, from standard deviation 0.05 to 1e7."""

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from law_oracle import FloatSums, GeometricSums, MultiplyingSums, integer_oracle, mp, relative_error
from scipy import stats

from osgt import OSGT, DiscreteOSGT

FUNCTIONS = ["pmf", "logpmf", "cdf", "logcdf", "sf", "logsf"]
MOMENTS = ["var", "std", "mean_abs"]
TAILS = [1e-300, 1e-200, 1e-100, 1e-30, 1e-10, 1e-3, 0.1, 0.3, 0.45, 0.499]

#: Slope and curvature. Standard deviations: three near 0.05, then about 0.3, 1, 8 …
RATES = [(6.7, 0.0), (0.0, 13.4), (3.0, 7.4), (0.0, 6.0), (2.0, 3.0), (0.5, 0.6), (1e-6, 0.25), (0.0, 0.0144)]
#: … 30 to 800, with both ends and shapes from 1e-6 to 1e4 …
RATES += [(z / s, 1 / s**2) for s, z in [(30, 0), (30, 0.5), (30, 5), (90, 1e-6), (800, 0), (800, 50), (6e5, 1e4)]]
#: … both ends from 1e5 to 1e7, and the interior.
RATES += [(0.0, s**-2) for s in (1e5, 1e6)] + [(1 / s, 0.0) for s in (2.0, 30.0, 1e3, 1e5, 1e7)]
RATES += [(1e-5, 1e-10), (2e-6, 1e-12)]


def law_of(rates):
    return DiscreteOSGT.from_rates(*rates)


def quantiles(law):
    """Integers k ≥ 0 with P[Y > k] about TAILS, and the first few."""
    return np.unique([0, 1, 2, 3, *law.isf(TAILS)])


@pytest.fixture(params=RATES, ids=lambda rates: f"slope={rates[0]:g},curvature={rates[1]:g}")
def rates(request):
    return request.param


@pytest.fixture
def law(rates):
    return law_of(rates)


#: Narrow and wide, both ends and the interior: enough where the figures themselves are not in question.
few_laws = pytest.mark.parametrize("rates", [(0.0, 13.4), (0.5, 0.6), (0.0, 1e-4), (0.5, 0.0), (2e-6, 1e-12)])


class TestAccuracy:
    def test_the_laws_cover_the_promised_range(self):
        spread = [law_of(rates).std() for rates in RATES]
        assert min(spread) < 0.0505
        assert max(spread) > 1e7

    @pytest.mark.parametrize("name", FUNCTIONS)
    def test_functions_out_to_probability_1e_300(self, law, rates, name):
        exact = integer_oracle(*rates)
        k = [k for k in quantiles(law) if exact.sf(k) > 1e-305]
        k = np.array([*(-x - 1 for x in k), *k])
        assert relative_error(getattr(law, name)(k), [getattr(exact, name)(x) for x in k]) < 1e-10

    @pytest.mark.parametrize("name", MOMENTS)
    def test_moments(self, law, rates, name):
        assert relative_error(getattr(law, name)(), getattr(integer_oracle(*rates), name)()) < 1e-10

    def test_quantiles_are_the_exact_integers(self, law, rates):
        exact = integer_oracle(*rates)
        for k in quantiles(law):
            q = float((exact.sf(k) + exact.sf(k - 1)) / 2)
            if q > 1e-305:
                assert law.isf(q) == k
                assert law.ppf(q) == -k
            q = float((exact.cdf(k) + exact.cdf(k - 1)) / 2)
            if exact.pmf(k) > 1e-12:  # else neighbouring values of the cdf are one float
                assert law.ppf(q) == k
                assert law.isf(q) == -k

    def test_quantiles_are_whole_numbers_to_the_last_bit(self):
        """A step of 1 + 2⁻⁵² on the way there would leave -3.9999999999999996, and int() of it is -3."""
        shares = np.concatenate([np.arange(1, 64) / 64, 10.0 ** -np.arange(2.0, 16.0)])
        for scale in np.linspace(0.3, 40, 30):
            for law in (DiscreteOSGT.laplace(scale), DiscreteOSGT(scale, scale)):
                for quantiles in (law.ppf(shares), law.isf(shares)):
                    assert np.array_equal(quantiles, np.rint(quantiles))

    def test_widest_interior_law(self):
        # 1e8 terms for the normaliser alone: the few figures that one pass over them gives.
        sigma = 1.2e7
        law, exact = DiscreteOSGT(2e6, sigma), FloatSums(2e6 / sigma**2, sigma**-2)
        assert law.std() > 1e7
        assert relative_error(law.pmf(5), exact.pmf(5)) < 1e-10
        assert relative_error(law.var(), exact.var()) < 1e-10
        assert relative_error(law.sf(2e8), exact.sf(2e8)) < 1e-10

    @pytest.mark.parametrize("sigma", [0.3, 1.0, 7.0, 40.0, 500.0])
    def test_gaussian_normaliser_is_a_theta_function(self, sigma):
        law = DiscreteOSGT.gaussian(sigma)
        assert relative_error(1 / law.pmf(0), mp.jtheta(3, 0, mp.exp(-mp.mpf(law.curvature) / 2))) < 1e-10

    @pytest.mark.parametrize("sigma", [20.0, 1e3, 1e5, 1e7])
    def test_wide_gaussian_by_poisson_summation(self, sigma):
        # The dual sum is 1 + 2·exp(-2π²σ²) + …: normaliser σ√2π and variance σ² to more than a thousand digits.
        law = DiscreteOSGT.gaussian(sigma)
        assert 1 / law.pmf(0) == pytest.approx(sigma * math.sqrt(2 * math.pi), rel=1e-13)
        assert law.var() == pytest.approx(sigma**2, rel=1e-13)

    def test_wide_laws_are_close_to_the_continuous_ones(self):
        law, peer = DiscreteOSGT(1e7, 1.5e7), OSGT(1e7, 1.5e7)
        k = np.array([1e6, 1e7, 1e8])
        np.testing.assert_allclose(law.sf(k), peer.sf(k + 0.5), rtol=1e-12)
        assert law.var() == pytest.approx(peer.var(), rel=1e-12)

    @pytest.mark.parametrize(("slope", "curvature"), [(1e-2, 0.0), (0.7, 0.0)])
    def test_the_oracles_agree_at_the_laplace_end(self, slope, curvature):
        closed = GeometricSums(slope, curvature)
        for other in (MultiplyingSums(slope, curvature), FloatSums(slope, curvature)):
            assert abs(other.sf(20) / closed.sf(20) - 1) < 1e-13
            assert abs(other.var() / closed.var() - 1) < 1e-13
            assert abs(other.mean_abs() / closed.mean_abs() - 1) < 1e-13

    def test_the_oracles_agree_inside_the_family(self):
        one, other = MultiplyingSums(1e-3, 1e-5), FloatSums(1e-3, 1e-5)
        assert abs(one.sf(2000) / other.sf(2000) - 1) < 1e-13
        assert abs(one.var() / other.var() - 1) < 1e-13


class TestBetweenTheSummationMethods:
    """Sums go term by term where the slope exceeds 0.4 or the curvature 0.01, else by Euler–Maclaurin."""

    @pytest.mark.parametrize("rates", [(0.4, 0.0), (0.4, 0.01), (0.4, 1e-6), (0.0, 0.01), (0.1, 0.01)])
    def test_no_jump_between_neighbouring_laws(self, rates):
        below, above = (law_of([rate * (1 + side) for rate in rates]) for side in (-1e-15, 1e-15))
        k = np.arange(60)
        np.testing.assert_allclose(below.pmf(k), above.pmf(k), rtol=1e-12)
        np.testing.assert_allclose(below.sf(k), above.sf(k), rtol=1e-12)
        np.testing.assert_allclose(below.var(), above.var(), rtol=1e-12)
        np.testing.assert_allclose(below.mean_abs(), above.mean_abs(), rtol=1e-12)

    @pytest.mark.parametrize("rates", [(0.4, 0.0), (0.4, 0.01), (0.39, 0.01), (0.41, 0.0), (0.0, 0.01), (0.0, 0.0101)])
    @pytest.mark.parametrize("name", ["sf", "pmf"])
    def test_accuracy_at_the_boundary(self, rates, name):
        exact = getattr(integer_oracle(*rates), name)
        k = np.arange(0, 60, 4)
        assert relative_error(getattr(law_of(rates), name)(k), [exact(x) for x in k]) < 1e-13

    @pytest.mark.parametrize("rates", [(0.0, 1 / 2500), (0.3, 1e-3), (0.39, 1e-2)])
    def test_no_jump_along_one_tail(self, rates):
        law = law_of(rates)
        crossing = math.floor((0.4 - rates[0]) / rates[1])
        k = np.arange(max(crossing - 5, 1), crossing + 5)
        np.testing.assert_allclose(law.sf(k - 1) - law.sf(k), law.pmf(k), rtol=1e-11)


class TestLikeScipy:
    def test_the_pmf_sums_to_1(self):
        for rates in RATES:
            law = law_of(rates)
            if law.std() < 1e3:
                reach = int(law.isf(1e-18))
                assert math.fsum(law.pmf(np.arange(-reach, reach + 1))) == pytest.approx(1.0, abs=1e-13)

    def test_the_laplace_end_is_scipys_dlaplace(self):
        law, peer, k = DiscreteOSGT.laplace(2.5), stats.dlaplace(1 / 2.5), np.arange(-30, 31)
        np.testing.assert_allclose(law.pmf(k), peer.pmf(k), rtol=1e-13)
        np.testing.assert_allclose(law.cdf(k), peer.cdf(k), rtol=1e-13)
        assert law.var() == pytest.approx(peer.var(), rel=1e-13)
        np.testing.assert_array_equal(law.ppf([0.01, 0.3, 0.5, 0.8]), peer.ppf([0.01, 0.3, 0.5, 0.8]))

    @few_laws
    @pytest.mark.parametrize("name", [*FUNCTIONS, "ppf", "isf"])
    @pytest.mark.parametrize("argument", [0.25, np.array(0.25), 0, 1, np.int8(1)])
    def test_scalars_stay_scalars(self, law, name, argument):
        result = getattr(law, name)(argument)
        assert isinstance(result, float)
        assert result == getattr(law, name)(np.array([float(argument)]))[0]

    @pytest.mark.parametrize("name", [*FUNCTIONS, "ppf", "isf"])
    @pytest.mark.parametrize("shape", [(0,), (1,), (7,), (2, 3), (2, 0)])
    def test_arrays_keep_their_shape(self, name, shape):
        argument = np.linspace(0.05, 0.95, math.prod(shape)).reshape(shape)
        argument = argument if name in {"ppf", "isf"} else np.round(20 * argument)
        for law in (DiscreteOSGT(1, 2), DiscreteOSGT.gaussian(20), DiscreteOSGT.laplace(3)):
            result = getattr(law, name)(argument)
            one_by_one = [getattr(law, name)(x) for x in argument.ravel()]
            assert result.dtype == np.float64
            np.testing.assert_array_equal(result, np.reshape(one_by_one, shape))

    def test_one_array_may_need_both_summation_methods(self):
        law, k = DiscreteOSGT.gaussian(50), np.arange(-2000, 2000, 37)
        np.testing.assert_array_equal(law.sf(k), [law.sf(x) for x in k])

    @few_laws
    def test_between_the_integers(self, law):
        between = np.array([-1.5, -0.5, 0.25, 0.999, 7.5])
        np.testing.assert_array_equal(law.pmf(between), np.zeros(5))
        np.testing.assert_array_equal(law.logpmf(between), np.full(5, -np.inf))
        for name in ("cdf", "sf", "logcdf", "logsf"):
            function = getattr(law, name)
            np.testing.assert_array_equal(function(between), function(np.floor(between)))

    @few_laws
    def test_infinite_and_missing_arguments(self, law):
        ends = np.array([-np.inf, np.inf, np.nan])
        np.testing.assert_array_equal(law.pmf(ends), [0, 0, np.nan])
        np.testing.assert_array_equal(law.logpmf(ends), [-np.inf, -np.inf, np.nan])
        np.testing.assert_array_equal(law.cdf(ends), [0, 1, np.nan])
        np.testing.assert_array_equal(law.logcdf(ends), [-np.inf, 0, np.nan])
        np.testing.assert_array_equal(law.sf(ends), [1, 0, np.nan])
        np.testing.assert_array_equal(law.logsf(ends), [0, -np.inf, np.nan])

    @pytest.mark.parametrize("rates", [(0.0, 1.0), (1.0, 0.0), (1.0, 1e-14)])
    @pytest.mark.parametrize("k", [2.0**63, 1e25, 1e200, np.finfo(float).max])
    def test_arguments_as_large_as_floats_go(self, rates, k, time_limit):
        law = law_of(rates)
        with time_limit(5):
            assert law.pmf(k) == law.sf(k) == law.cdf(-k) == 0.0
            assert law.cdf(k) == law.sf(-k) == 1.0

    def test_logarithms_of_what_underflows(self):
        assert DiscreteOSGT.laplace(2).logsf(1e6) == pytest.approx(-5e5, rel=1e-5)
        assert DiscreteOSGT.gaussian(1e-3).logpmf(3) == pytest.approx(-4.5e6, rel=1e-13)
        assert DiscreteOSGT.gaussian(1e-3).var() == 0.0

    @few_laws
    def test_ends_of_the_quantile_function(self, law):
        np.testing.assert_array_equal(law.ppf([0, 1]), [-np.inf, np.inf])
        np.testing.assert_array_equal(law.isf([0, 1]), [np.inf, -np.inf])
        assert law.ppf(0.5) == law.isf(0.5) == law.median() == law.mean() == 0.0

    @few_laws
    @pytest.mark.parametrize("q", [-0.1, 1.1, -np.inf, np.inf, np.nan])
    def test_what_is_no_probability_has_no_quantile(self, law, q):
        assert np.isnan(law.ppf(q))
        assert np.isnan(law.isf(q))

    @few_laws
    def test_interval_is_the_least_that_holds_enough(self, law):
        low, high = law.interval([0.5, 0.95])
        np.testing.assert_array_equal(low, -high)
        assert np.all(1 - 2 * law.sf(high) >= [0.5, 0.95])
        assert np.all((high == 0) | (1 - 2 * law.sf(high - 1) < [0.5, 0.95]))
        np.testing.assert_array_equal(law.interval(1.0), [-np.inf, np.inf])
        np.testing.assert_array_equal(law.interval(0.0), [0, 0])

    @pytest.mark.parametrize("confidence", [-0.5, 1.5, np.nan])
    def test_no_interval_for_what_is_no_probability(self, confidence):
        assert np.all(np.isnan(DiscreteOSGT(1, 1).interval(confidence)))

    @few_laws
    def test_support(self, law):
        assert law.support() == (-math.inf, math.inf)


class TestQuantilesAreTheLeastInteger:
    """One number at a time: a search over an array must not lend its steps to its neighbours."""

    @pytest.mark.parametrize("q", [1e-300, 1e-20, 1e-3, 0.2, 0.499, 0.501, 0.8, 0.999, 1 - 1e-12])
    def test_between_the_steps(self, law, q):
        k = law.ppf(q)
        assert law.cdf(k - 1) < q <= law.cdf(k)
        k = law.isf(q)
        assert law.sf(k) <= q < law.sf(k - 1)

    @pytest.mark.parametrize("rates", [(1.0, 0.0), (0.0, 0.25), (0.05, 0.01)])
    def test_at_the_steps(self, rates):
        law = law_of(rates)
        k = [k for k in range(-40, 41) if min(law.cdf(k), law.sf(k)) > 1e-14]
        assert [law.ppf(law.cdf(x)) for x in k] == k
        assert [law.isf(law.sf(x)) for x in k] == k


@pytest.mark.parametrize(
    "law", [DiscreteOSGT.gaussian(1e7), DiscreteOSGT.laplace(1e7), DiscreteOSGT(1e7, 2e7)], ids=str
)
def test_a_fine_grid_costs_no_memory(law):
    law.sf(0)
    tracemalloc.start()
    fresh = DiscreteOSGT.from_rates(law.slope, law.curvature)
    k = np.array([0, 1e3, 1e7, 1e9])
    for name in FUNCTIONS:
        getattr(fresh, name)(k)
    for name in MOMENTS:
        getattr(fresh, name)()
    fresh.ppf(1e-300)
    fresh.isf([0.025, 0.5])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**20


def test_small_noise_is_better_on_the_integers():
    # ε = 1 for one count: the continuous formula would charge 2.00.
    assert round(DiscreteOSGT.laplace(1).var(), 2) == 1.84
    assert round(OSGT.laplace(1).var(), 2) == 2.00


steady = settings(derandomize=True)
slopes = st.one_of(st.just(0.0), st.floats(1e-4, 0.5), st.floats(0.3, 5))
curvatures = st.one_of(st.just(0.0), st.floats(1e-8, 0.02), st.floats(0.005, 10))
laws = st.tuples(slopes, curvatures).filter(any).map(law_of)
integers = st.integers(-3000, 3000)


class TestProperties:
    @steady
    @given(laws, integers)
    def test_symmetry(self, law, k):
        assert law.pmf(k) == law.pmf(-k)
        assert law.cdf(k) == law.sf(-k - 1)
        assert law.cdf(k) + law.sf(k) == pytest.approx(1.0, abs=1e-14)

    @steady
    @given(laws, st.integers(1, 3000))
    def test_the_pmf_is_the_step_of_the_tail(self, law, k):
        # Relative to the tail: one step of a wide distribution is a small difference of large numbers.
        assert law.sf(k - 1) - law.sf(k) == pytest.approx(law.pmf(k), abs=1e-11 * law.sf(k - 1))

    @steady
    @given(laws, integers)
    def test_the_pmf_is_log_concave(self, law, k):
        before, here, after = law.logpmf(np.array([k - 1, k, k + 1]))
        assert 2 * here >= before + after - 1e-13 * abs(here)

    @steady
    @given(laws, integers, integers)
    def test_the_cdf_rises(self, law, one, other):
        assert law.cdf(min(one, other)) <= law.cdf(max(one, other)) * (1 + 1e-12)

    @steady
    @given(laws, st.integers(-3000, 0))
    def test_ppf_inverts_the_cdf(self, law, k):
        if law.pmf(k) > 1e-300:
            assert law.ppf(law.cdf(k)) == k
            assert law.isf(law.sf(-k)) == -k

    @steady
    @given(laws, st.floats(1e-300, 1, exclude_max=True))
    def test_ppf_is_the_least_integer_that_reaches_q(self, law, q):
        k = law.ppf(q)
        assert law.cdf(k - 1) < q <= law.cdf(k)

    @steady
    @given(laws, st.floats(1.01, 3))
    def test_variance_falls_with_either_rate(self, law, factor):
        if law.slope:
            assert DiscreteOSGT.from_rates(law.slope * factor, law.curvature).var() < law.var()
        if law.curvature:
            assert DiscreteOSGT.from_rates(law.slope, law.curvature * factor).var() < law.var()
