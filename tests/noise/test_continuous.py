"""OSGT on the reals against mpmath, scipy and the paper."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from law_oracle import real_oracle, relative_error
from scipy import stats

from osgt import OSGT

SHAPES = [0, 1e-6, 0.5, 1.99, 2.01, 5, 50, 1e4, 1e12, math.inf]
SCALES = [2e-3, 1.0, 250.0]
PROBABILITIES = np.array(
    [1e-300, 1e-200, 1e-100, 1e-30, 1e-10, 1e-3, 0.1, 0.3, 0.399, 0.401, 0.45, 0.499, 0.5 - 1e-7, 0.5 - 1e-12]
)
FUNCTIONS = ["pdf", "logpdf", "cdf", "logcdf", "sf", "logsf"]
MOMENTS = ["var", "mean_abs", "entropy", "fisher_information"]


def law_of(shape, scale=1.0):
    """The distribution of this m/σ whose natural scale (σ, or the Laplace scale) is `scale`."""
    if shape == math.inf:
        return OSGT.laplace(scale)
    return OSGT.from_rates(shape / scale, 1.0 / scale**2)


def oracle_of(law):
    return real_oracle(law.slope, law.curvature)


@pytest.fixture(params=SHAPES, ids=lambda shape: f"shape={shape:g}")
def shape(request):
    return request.param


@pytest.fixture(params=SCALES, ids=lambda scale: f"scale={scale:g}")
def law(shape, request):
    return law_of(shape, request.param)


@pytest.fixture
def unit_law(shape):
    return law_of(shape)


class TestAccuracy:
    @pytest.mark.parametrize("name", FUNCTIONS)
    def test_functions_out_to_probability_1e_300(self, law, name):
        far = law.isf(PROBABILITIES)
        y = np.concatenate([-far, [0.0], far])
        exact = getattr(oracle_of(law), name)
        assert relative_error(getattr(law, name)(y), [exact(float(x)) for x in y]) < 1e-10

    @pytest.mark.parametrize("name", MOMENTS)
    def test_moments(self, law, name):
        assert relative_error(getattr(law, name)(), getattr(oracle_of(law), name)()) < 1e-10

    def test_quantiles_out_to_probability_1e_300(self, law):
        upper = law.isf(PROBABILITIES)
        exact = [oracle_of(law).isf(float(q), float(y)) for q, y in zip(PROBABILITIES, upper, strict=True)]
        assert relative_error(upper, exact) < 1e-9
        assert relative_error(law.ppf(PROBABILITIES), [-y for y in exact]) < 1e-9

    def test_quantiles_above_the_median(self, law):
        q = 0.5 + np.array([1e-15, 1e-12, 1e-6, 0.01, 0.099, 0.101, 0.3, 0.4999])
        above = law.ppf(q)
        exact = [-oracle_of(law).isf(float(p), float(-y)) for p, y in zip(q, above, strict=True)]
        assert relative_error(above, exact) < 1e-9
        assert relative_error(law.isf(q), [-y for y in exact]) < 1e-9

    def test_std_is_the_root_of_the_variance(self, unit_law):
        assert unit_law.std() == pytest.approx(math.sqrt(unit_law.var()), rel=1e-15)
        assert unit_law.mean() == unit_law.median() == 0.0

    @pytest.mark.parametrize("shape", [0, 0.5, 2.01, 50, math.inf])
    def test_against_quadrature(self, shape):
        law = law_of(shape, 3.0)
        exact = oracle_of(law)
        lower = float(law.isf(1e-20))
        got = {
            "var": law.var(),
            "mean_abs": law.mean_abs(),
            "entropy": law.entropy(),
            "fisher_information": law.fisher_information(),
            "sf": 2 * law.sf(lower),
            "mass": 1.0,
        }
        want = {
            "var": exact.expectation(lambda y: y**2),
            "mean_abs": exact.expectation(lambda y: y),
            "entropy": exact.expectation(lambda y: -exact.logpdf(y)),
            "fisher_information": exact.expectation(lambda y: (exact.slope + exact.curvature * y) ** 2),
            "sf": exact.expectation(lambda y: 1, lower),
            "mass": exact.expectation(lambda y: 1),
        }
        assert {name for name in want if relative_error(got[name], want[name]) > 1e-10} == set()


def test_variance_of_the_papers_example():
    assert OSGT(3, math.sqrt(40)).var() == pytest.approx(27.704678326334605, rel=1e-14)


@pytest.mark.parametrize("name", [*FUNCTIONS, "ppf", "isf", "std", "var", "entropy"])
@pytest.mark.parametrize(
    ("law", "peer"),
    [(OSGT.gaussian(2.5), stats.norm(scale=2.5)), (OSGT.laplace(2.5), stats.laplace(scale=2.5))],
    ids=["gaussian", "laplace"],
)
def test_the_ends_are_scipys_normal_and_laplace(law, peer, name):
    if name in {"ppf", "isf"}:
        points = (np.array([0.0, 1e-12, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0]),)
    else:
        points = () if name in {"std", "var", "entropy"} else (np.linspace(-20, 20, 81),)
    np.testing.assert_allclose(getattr(law, name)(*points), getattr(peer, name)(*points), rtol=1e-12, atol=1e-15)


class TestLikeScipy:
    @pytest.mark.parametrize("name", [*FUNCTIONS, "ppf", "isf"])
    @pytest.mark.parametrize("argument", [0.25, np.float32(0.25), np.array(0.25), 0, 1])
    def test_scalars_stay_scalars(self, unit_law, name, argument):
        result = getattr(unit_law, name)(argument)
        assert isinstance(result, float)
        assert result == getattr(unit_law, name)(np.array([float(argument)]))[0]

    @pytest.mark.parametrize("name", [*FUNCTIONS, "ppf", "isf"])
    @pytest.mark.parametrize("shape_of_array", [(0,), (1,), (7,), (2, 3), (2, 0), (1, 2, 3)])
    def test_arrays_keep_their_shape(self, name, shape_of_array):
        argument = np.linspace(0.1, 0.9, math.prod(shape_of_array)).reshape(shape_of_array)
        for law in (OSGT(1, 2), OSGT.gaussian(2), OSGT.laplace(2)):
            result = getattr(law, name)(argument)
            one_by_one = [getattr(law, name)(x) for x in argument.ravel()]
            assert result.dtype == np.float64
            np.testing.assert_allclose(result, np.reshape(one_by_one, shape_of_array), rtol=1e-14)

    def test_lists_and_integers_are_welcome(self, unit_law):
        np.testing.assert_array_equal(unit_law.pdf([0, 1, 2]), unit_law.pdf(np.arange(3.0)))
        np.testing.assert_array_equal(unit_law.cdf(np.array([-3, 3], dtype=np.int8)), unit_law.cdf([-3.0, 3.0]))

    def test_arguments_are_left_alone(self, unit_law):
        y = np.array([0.2, 0.5, np.nan, np.inf])
        for name in [*FUNCTIONS, "ppf", "isf"]:
            getattr(unit_law, name)(y)
        np.testing.assert_array_equal(y, [0.2, 0.5, np.nan, np.inf])

    def test_the_median(self, unit_law):
        assert unit_law.cdf(0) == unit_law.sf(0) == pytest.approx(0.5, rel=1e-15)
        assert unit_law.ppf(0.5) == unit_law.isf(0.5) == 0.0

    def test_ends_of_the_quantile_function(self, unit_law):
        np.testing.assert_array_equal(unit_law.ppf([0, 1]), [-np.inf, np.inf])
        np.testing.assert_array_equal(unit_law.isf([0, 1]), [np.inf, -np.inf])

    @pytest.mark.parametrize("q", [-0.1, 1.1, -np.inf, np.inf, np.nan])
    def test_what_is_no_probability_has_no_quantile(self, unit_law, q):
        assert np.isnan(unit_law.ppf(q))
        assert np.isnan(unit_law.isf(q))

    def test_infinite_and_missing_arguments(self, unit_law):
        ends = np.array([-np.inf, np.inf, np.nan])
        np.testing.assert_array_equal(unit_law.pdf(ends), [0, 0, np.nan])
        np.testing.assert_array_equal(unit_law.logpdf(ends), [-np.inf, -np.inf, np.nan])
        np.testing.assert_array_equal(unit_law.cdf(ends), [0, 1, np.nan])
        np.testing.assert_array_equal(unit_law.logcdf(ends), [-np.inf, 0, np.nan])
        np.testing.assert_array_equal(unit_law.sf(ends), [1, 0, np.nan])
        np.testing.assert_array_equal(unit_law.logsf(ends), [0, -np.inf, np.nan])

    @pytest.mark.parametrize("scale", [1e-100, 1.0])
    def test_arguments_as_large_as_floats_go(self, shape, scale):
        law = law_of(shape, scale)
        largest = np.finfo(float).max
        np.testing.assert_array_equal(law.pdf([-largest, largest]), [0, 0])
        np.testing.assert_array_equal(law.cdf([-largest, largest]), [0, 1])
        np.testing.assert_array_equal(law.sf([-largest, largest]), [1, 0])

    @pytest.mark.parametrize("scale", [1e-200, 1e-100, 1e100, 1e200])
    def test_laplace_quantiles_at_any_scale(self, scale):
        assert OSGT.laplace(scale).isf(0.1) == pytest.approx(math.log(5) * scale, rel=1e-13)

    def test_interval(self, unit_law):
        low, high = unit_law.interval([0.0, 0.5, 0.95, 1.0])
        np.testing.assert_allclose(high, unit_law.ppf([0.5, 0.75, 0.975, 1.0]), rtol=1e-12)
        np.testing.assert_array_equal(low, -high)

    @pytest.mark.parametrize("confidence", [-0.5, 1.5, np.nan])
    def test_no_interval_for_what_is_no_probability(self, confidence):
        assert np.all(np.isnan(OSGT(1, 1).interval(confidence)))

    def test_support(self, unit_law):
        assert unit_law.support() == (-math.inf, math.inf)

    def test_kstest_accepts_the_right_law_only(self, unit_law):
        sample = unit_law.rvs(4000, random_state=7)
        assert stats.kstest(sample, unit_law.cdf).pvalue > 1e-3
        assert stats.kstest(1.2 * sample, unit_law.cdf).pvalue < 1e-3

    def test_probplot(self, unit_law):
        sample = 3.0 + 2.0 * unit_law.rvs(20_000, random_state=11)
        _, (slope, intercept, correlation) = stats.probplot(sample, dist=unit_law)
        assert correlation > 0.999
        assert slope == pytest.approx(2.0, rel=0.03)
        assert intercept == pytest.approx(3.0, abs=0.05 * unit_law.std())


class TestDraws:
    #: Both sides of the change from Gaussian to Laplace proposals, and the ends.
    laws = pytest.mark.parametrize("law", [law_of(z, 3.0) for z in (0, 0.5, 0.79, 0.81, 5, 1e4, math.inf)], ids=str)

    @laws
    def test_moments_within_five_standard_errors(self, law):
        count = 200_000
        draws = law.rvs(count, random_state=20)
        for value, expected in [(draws, 0.0), (np.abs(draws), law.mean_abs()), (draws**2, law.var())]:
            assert np.mean(value) == pytest.approx(expected, abs=5 * np.std(value) / math.sqrt(count))

    @laws
    def test_distribution(self, law):
        draws = law.rvs(50_000, random_state=21)
        assert stats.kstest(draws, law.cdf).pvalue > 1e-3
        assert stats.kstest(1.05 * draws, law.cdf).pvalue < 1e-3

    @pytest.mark.parametrize(
        ("size", "expected"), [(0, (0,)), (5, (5,)), (np.int64(5), (5,)), ((2, 3), (2, 3)), ((2, 0), (2, 0))]
    )
    def test_size(self, unit_law, size, expected):
        assert unit_law.rvs(size, random_state=1).shape == expected

    def test_one_draw_is_a_scalar(self, unit_law):
        assert isinstance(unit_law.rvs(random_state=1), float)

    @pytest.mark.parametrize("source", [int, np.random.default_rng, np.random.RandomState])
    def test_the_same_seed_gives_the_same_draws(self, unit_law, source):
        first, again, other = (unit_law.rvs(100, random_state=source(seed)) for seed in (5, 5, 6))
        np.testing.assert_array_equal(first, again)
        assert not np.any(first == other)

    def test_a_generator_moves_on(self):
        generator = np.random.default_rng(5)
        assert OSGT(1, 1).rvs(random_state=generator) != OSGT(1, 1).rvs(random_state=generator)

    def test_without_a_seed_draws_differ(self):
        assert not np.any(OSGT(1, 1).rvs(20) == OSGT(1, 1).rvs(20))


class TestTails:
    finite = pytest.mark.parametrize("shape", [z for z in SHAPES if 0 < z < 1e6])

    @pytest.mark.parametrize("shape", [*(z for z in SHAPES if z < math.inf), 0.6744])
    def test_sub_gaussian_with_variance_proxy_sigma_squared(self, shape):
        # Proposition 2 has it for shape ≤ 0.6745.
        law = law_of(shape, 2.0)
        y = law.sigma * np.concatenate([np.geomspace(1e-9, 0.1, 50), np.linspace(0.1, 40, 400)])
        assert law.is_sub_gaussian()
        assert np.all(law.logsf(y) < -0.5 * (y / law.sigma) ** 2)

    @pytest.mark.parametrize("proxy", [1.0, 10.0, 1e4])
    def test_the_laplace_end_is_not_sub_gaussian(self, proxy):
        law = OSGT.laplace(2.0)
        y = 3 * proxy**2 * law.slope + 5
        assert not law.is_sub_gaussian()
        assert law.logsf(y) > -0.5 * (y / proxy) ** 2

    @finite
    def test_heavier_than_the_gaussian_of_the_same_variance(self, shape):
        # Proposition 3: the ratio of the tails grows without bound.
        law = law_of(shape)
        y = law.std() * np.array([20.0, 40.0, 80.0])
        gap = law.logsf(y) - stats.norm(scale=law.std()).logsf(y)
        assert gap[0] > 0
        assert np.all(np.diff(gap) > gap[0])

    @finite
    def test_lighter_than_the_laplace_of_the_same_variance(self, shape):
        # Proposition 4, likewise.
        law = law_of(shape)
        y = law.std() * np.array([20.0, 40.0, 80.0])
        gap = stats.laplace(scale=law.std() / math.sqrt(2)).logsf(y) - law.logsf(y)
        assert gap[0] > 0
        assert np.all(np.diff(gap) > gap[0])

    @finite
    def test_variance_below_sigma_squared(self, shape):
        law = law_of(shape, 3.0)
        assert law.var() < law.sigma**2

    def test_fisher_information_is_least_for_the_gaussian(self, law):
        product = law.fisher_information() * law.var()
        assert product == pytest.approx(1.0, rel=1e-14) if law.slope == 0 else product > 1.0 + 1e-13


steady = settings(derandomize=True)
shapes = st.one_of(st.floats(0, 5), st.floats(5, 1e4))
scales = st.floats(1e-3, 1e3)
laws = st.builds(law_of, st.one_of(shapes, st.just(math.inf)), scales)
multiples = st.floats(-30, 30)


class TestProperties:
    @steady
    @given(laws, multiples)
    def test_symmetry(self, law, multiple):
        y = multiple * law.std()
        assert law.pdf(y) == law.pdf(-y)
        assert law.cdf(y) == law.sf(-y)
        assert law.cdf(y) + law.sf(y) == pytest.approx(1.0, abs=1e-14)

    @steady
    @given(laws, multiples, multiples)
    def test_the_cdf_rises_and_the_density_falls_from_0(self, law, one, other):
        low, high = law.std() * min(one, other), law.std() * max(one, other)
        assert law.cdf(low) <= law.cdf(high) * (1 + 1e-12)
        inner, outer = sorted([abs(low), abs(high)])
        assert law.pdf(outer) <= law.pdf(inner)

    @steady
    @given(laws, st.floats(-30, 0))
    def test_ppf_inverts_the_cdf(self, law, multiple):
        y = multiple * law.std()
        assert law.ppf(law.cdf(y)) == pytest.approx(y, rel=1e-9, abs=1e-14 * law.std())
        assert law.isf(law.sf(-y)) == pytest.approx(-y, rel=1e-9, abs=1e-14 * law.std())

    @steady
    @given(laws, st.one_of(st.floats(1e-300, 1), st.floats(-300, -1).map(lambda e: 10.0**e)))
    def test_the_cdf_inverts_ppf(self, law, q):
        assert law.cdf(law.ppf(q)) == pytest.approx(q, rel=1e-10)
        assert law.sf(law.isf(q)) == pytest.approx(q, rel=1e-10)

    @steady
    @given(st.floats(0, 100), st.floats(1e-2, 100), st.floats(1e-3, 1e3), multiples)
    def test_scaling(self, m, sigma, factor, multiple):
        law, scaled = OSGT(m, sigma), OSGT(m * factor, sigma * factor)
        y = multiple * law.std()
        assert scaled.shape == pytest.approx(law.shape, rel=1e-14)
        assert scaled.logsf(y * factor) == pytest.approx(law.logsf(y), rel=1e-12)
        assert scaled.pdf(y * factor) * factor == pytest.approx(law.pdf(y), rel=1e-10)
        assert scaled.var() == pytest.approx(law.var() * factor**2, rel=1e-12)
        assert scaled.ppf(0.01) == pytest.approx(law.ppf(0.01) * factor, rel=1e-12)

    @steady
    @given(st.floats(1e-3, 1e3), st.floats(1e-2, 100), st.floats(1.001, 10))
    def test_variance_falls_with_m_and_rises_with_sigma(self, m, sigma, factor):
        variance = OSGT(m, sigma).var()
        assert OSGT(m * factor, sigma).var() < variance
        assert OSGT(m, sigma * factor).var() > variance
