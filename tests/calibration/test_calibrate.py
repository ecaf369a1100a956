"""The best distribution for a budget: never over it, never worse than an end of the family, and where it should be."""

import csv
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as google
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from osgt import OSGT, DiscreteOSGT, PrivacyProfile, calibrate, compare
from osgt.calibration import Part, calibrate_parts
from osgt.calibration.joint import joint_noise
from osgt.calibration.scale import ScaleSearch, pure_scale
from osgt.noise.error import absolute_quantile, expected_maximum, measure

#: Variances on the reals at their optimum, computed with a contour integral and a residue sum.
OPTIMA = list(csv.DictReader((Path(__file__).parent / "optima.csv").read_text().splitlines()))


def analytic_gaussian(epsilon, delta, sensitivity):
    """σ of the analytic Gaussian mechanism (Balle and Wang), by bisection on the closed form."""

    def excess(sigma):
        a, b = sensitivity / (2 * sigma), epsilon * sigma / sensitivity
        return stats.norm.cdf(a - b) - math.exp(epsilon + stats.norm.logcdf(-a - b)) - delta

    low, high = 1e-9 * sensitivity, 1e9 * sensitivity
    for _ in range(200):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return high


@pytest.mark.parametrize("row", OPTIMA, ids=lambda row: f"{row['eps']}-{row['delta']}-{row['r']}")
def test_known_optima(row):
    law = calibrate(float(row["eps"]), float(row["delta"]), coordinates=int(row["r"]), discrete=False)
    assert law.var() == pytest.approx(float(row["V_osgt"]), rel=2e-3)


@settings(max_examples=25)
@given(
    log_epsilon=st.floats(math.log(0.02), math.log(8)),
    log_delta=st.floats(math.log(1e-12), math.log(1e-2)),
    coordinates=st.integers(1, 40),
    discrete=st.booleans(),
)
def test_never_over_the_budget_and_never_worse_than_an_end(log_epsilon, log_delta, coordinates, discrete):
    epsilon, delta = math.exp(log_epsilon), math.exp(log_delta)
    law = calibrate(epsilon, delta, coordinates=coordinates, discrete=discrete)
    assert PrivacyProfile(law, 1, coordinates).delta(epsilon) <= delta
    gaussian = analytic_gaussian(epsilon, delta, math.sqrt(coordinates))
    pure = (OSGT if not discrete else DiscreteOSGT).laplace(coordinates / epsilon)
    # The discrete Gaussian of the analytic σ is a little better or worse than the continuous: allow 1 % for small σ.
    slack = 1.001 if not discrete or gaussian > 3 else 1.01
    assert law.var() <= slack * gaussian**2
    assert law.var() <= 1.001 * pure.var()


@pytest.mark.parametrize(
    ("epsilon", "delta", "coordinates"),
    [(1.0, 1e-6, 1), (0.3, 1e-5, 3), (2.0, 1e-7, 8), (1.0, 1e-4, 20), (5.0, 1e-6, 12)],
)
def test_an_independent_accountant_agrees(epsilon, delta, coordinates):
    """dp-accounting on the pmf of the noise: its pessimistic δ is not above the budget by more than its own slack."""
    law = calibrate(epsilon, delta, coordinates=coordinates)
    reach = int(law.isf(1e-18))
    pmf = {int(y): float(law.pmf(y)) for y in range(-reach, reach + 1)}
    shifted = {y + 1: p for y, p in pmf.items()}
    log = {y: math.log(p) for y, p in pmf.items()}
    log_shifted = {y: math.log(p) for y, p in shifted.items()}
    pld = google.from_two_probability_mass_functions(
        log, log_shifted, value_discretization_interval=epsilon * 1e-5, pessimistic_estimate=False
    ).self_compose(coordinates)
    assert pld.get_delta_for_epsilon(epsilon) <= delta * (1 + 1e-6)
    # And the budget is used up, or the distribution is the pure Laplace, which saves next to nothing.
    assert PrivacyProfile(law, 1, coordinates).delta(epsilon) >= 0.98 * delta or law.slope * coordinates <= epsilon


@pytest.mark.parametrize("epsilon", [1e-4, 0.01, 1.0, 10.0, 100.0])
@pytest.mark.parametrize("delta", [1e-300, 1e-30, 1e-6, 0.5])
@pytest.mark.parametrize(("coordinates", "shift"), [(1, 1), (1, 10**6), (100, 1), (10**6, 1), (10**6, 10**6)])
def test_robust_over_the_whole_range(epsilon, delta, coordinates, shift):
    law = calibrate(epsilon, delta, coordinates=coordinates, shift=shift)
    assert PrivacyProfile(law, shift, coordinates).delta(epsilon) <= delta
    assert law.var() <= 1.001 * DiscreteOSGT.laplace(coordinates * shift / epsilon).var()
    sigma = analytic_gaussian(epsilon, delta, shift * math.sqrt(coordinates))
    if sigma > 10:
        assert law.var() <= 1.002 * sigma**2


@pytest.mark.parametrize(
    ("epsilon", "delta", "coordinates"), [(1, 0.9999, 1), (1, 0.9, 1), (0.1, 0.95, 1), (5, 0.999, 2), (0.1, 0.999, 5)]
)
def test_a_delta_near_one(epsilon, delta, coordinates):
    """No budget to speak of, but the answer must still be the best and meet it."""
    law = calibrate(epsilon, delta, coordinates=coordinates)
    rows = compare(epsilon, delta, coordinates=coordinates, cells=1)
    assert PrivacyProfile(law, 1, coordinates).delta(epsilon) <= delta
    assert law.std() <= 1.0005 * min(rows["gaussian"].std, rows["laplace"].std)


@pytest.mark.parametrize("coordinates", [1, 7])
def test_pure_privacy_is_the_laplace(coordinates):
    law = calibrate(0.7, 0, coordinates=coordinates, shift=3)
    assert law.curvature == 0
    assert PrivacyProfile(law, 3, coordinates).epsilon(0) <= 0.7
    assert law.slope == pytest.approx(0.7 / (3 * coordinates), rel=1e-12)


def test_small_noise_is_optimal_on_the_integers():
    """At ε = 3 the noise is a handful of integers: a search over a grid of (slope, curvature) finds nothing better."""
    epsilon, delta = 3.0, 1e-5
    law = calibrate(epsilon, delta, coordinates=2)
    best = math.inf
    for slope in np.linspace(0.0, 1.5, 16):
        low, high = 1e-4, 8.0
        for _ in range(16):
            curvature = math.sqrt(low * high)
            spent = PrivacyProfile(DiscreteOSGT.from_rates(slope, curvature), 1, 2).delta(epsilon)
            low, high = (curvature, high) if spent <= delta else (low, curvature)
        candidate = DiscreteOSGT.from_rates(slope, low)
        if PrivacyProfile(candidate, 1, 2).delta(epsilon) <= delta:
            best = min(best, candidate.var())
    assert law.var() <= 1.001 * best


@pytest.mark.parametrize("objective", ["mean_abs", ("quantile", 0.95), ("quantile", 0.999999), ("max", 10_000)])
def test_each_objective_is_best_at_its_own(objective):
    error = measure(objective)
    chosen = calibrate(1.0, 1e-6, coordinates=4, objective=objective, discrete=False)
    assert PrivacyProfile(chosen, 1, 4).delta(1.0) <= 1e-6
    for other in ("variance", "mean_abs", ("quantile", 0.95), ("max", 10_000)):
        rival = calibrate(1.0, 1e-6, coordinates=4, objective=other, discrete=False)
        assert error(chosen) <= 1.001 * error(rival)


def test_the_tail_objective_makes_a_lighter_tail():
    by_variance = calibrate(1.0, 1e-6, coordinates=8)
    by_tail = calibrate(1.0, 1e-6, coordinates=8, objective=("quantile", 0.999999))
    assert by_tail.isf(5e-7) < 0.9 * by_variance.isf(5e-7)


@pytest.mark.parametrize("law", [OSGT(2, 3), DiscreteOSGT(2, 3), DiscreteOSGT.laplace(0.7), DiscreteOSGT(500, 9000)])
def test_expected_maximum_against_simulation(law):
    cells = 50
    draws = np.abs(law.rvs((40_000, cells), random_state=5) if isinstance(law, OSGT) else law.sample((40_000, cells)))
    simulated = draws.max(axis=1)
    error = 6.5 * simulated.std() / math.sqrt(len(simulated))
    assert abs(expected_maximum(law, cells) - simulated.mean()) < error
    assert abs(1.05 * expected_maximum(law, cells) - simulated.mean()) > error  # power


def test_quantiles_between_integers():
    law = DiscreteOSGT(2, 3)
    for p in (0.5, 0.9, 0.95, 0.999):
        k = float(law.isf((1 - p) / 2))
        assert k - 1 <= absolute_quantile(law, p) <= k
    values = [absolute_quantile(DiscreteOSGT(2, s), 0.95) for s in np.linspace(3, 3.4, 20)]
    assert all(np.diff(values) > 0)


def joint(laws, parts):
    return PrivacyProfile.compose(
        [PrivacyProfile(law, part.shift, part.coordinates) for law, part in zip(laws, parts, strict=True)]
    )


def weighted_error(laws, parts):
    return sum(part.weight * law.var() / part.shift**2 for law, part in zip(laws, parts, strict=True))


class TestParts:
    def test_one_part_is_the_plain_call(self):
        assert calibrate_parts(1, 1e-6, [Part(2, 5)])[0] == calibrate(1, 1e-6, shift=2, coordinates=5)

    def test_the_budget_is_met_jointly(self):
        parts = [Part(1, 8), Part(100, 8), Part(5, 3)]
        laws = calibrate_parts(1.0, 1e-7, parts)
        profile = PrivacyProfile.compose(
            [PrivacyProfile(law, part.shift, part.coordinates) for law, part in zip(laws, parts, strict=True)]
        )
        assert 0.98e-7 <= profile.delta(1.0) <= 1e-7
        assert len({round(law.shape, 6) for law in laws}) == 1

    def test_joint_calibration_beats_a_split_budget(self):
        joint = calibrate_parts(1.0, 1e-6, [Part(1, 8), Part(1, 8)])
        split = calibrate(0.5, 5e-7, coordinates=8)
        assert joint[0].var() < 0.75 * split.var()

    def test_weight_moves_noise_to_the_other_part(self):
        heavy, light = calibrate_parts(1.0, 1e-6, [Part(1, 4, weight=16.0), Part(1, 4, weight=1.0)])
        assert 0.98 * 16 ** (-1 / 3) <= heavy.std() / light.std() <= 1.02 * 16 ** (-1 / 4)

    @pytest.mark.parametrize(
        ("epsilon", "delta", "parts"),
        [
            (1.0, 1e-6, [Part(1, 1), Part(1, 1, weight=9.0)]),  # the Laplace end
            (1.0, 1e-6, [Part(1, 4), Part(1, 4, weight=16.0)]),  # between the ends
            (1.0, 1e-6, [Part(1, 64), Part(1, 64, weight=16.0)]),  # the Gaussian end
            (1.0, 1e-8, [Part(1, 2), Part(5.0, 20)]),
        ],
        ids=str,
    )
    def test_no_other_allocation_is_better(self, epsilon, delta, parts):
        """Against a search over the ratio of the two scales, at the shape that was chosen, with the exact profile."""
        laws = calibrate_parts(epsilon, delta, parts, discrete=False)
        assert joint(laws, parts).delta(epsilon) <= delta
        ratio = math.log(laws[1].std() / laws[0].std())

        def least_error(log_ratio):
            def scaled(log_scale):
                factors = math.exp(log_scale), math.exp(log_scale + log_ratio - ratio)
                return [OSGT.from_rates(x.slope / f, x.curvature / f**2) for x, f in zip(laws, factors, strict=True)]

            def excess(log_scale):
                return math.log(max(joint(scaled(log_scale), parts).delta(epsilon, slack=1e-3), 1e-30) / delta)

            return weighted_error(scaled(optimize.brentq(excess, -0.5, 0.5, xtol=1e-4)), parts)

        best = optimize.minimize_scalar(
            least_error, bounds=(ratio - 0.4, ratio + 0.4), method="bounded", options={"xatol": 0.04}
        )
        assert weighted_error(laws, parts) <= 1.002 * best.fun

    @pytest.mark.parametrize(
        ("epsilon", "delta", "parts", "worse"),
        [
            (1.0, 0.0, [Part(1, 1), Part(7, 1, weight=100.0)], 0.25),
            (1.0, 1e-6, [Part(1, 1), Part(1, 1, weight=9.0)], 0.25),
            (1.0, 1e-6, [Part(1, 16), Part(1, 16, weight=25.0), Part(9, 1, weight=0.2)], 1 / 3),
        ],
    )
    def test_never_worse_than_one_exponent_for_all_shapes(self, epsilon, delta, parts, worse):
        """Against scales in proportion to shift·(coordinates/weight)^¼ and ^⅓: one of the two is clearly worse."""
        laws = calibrate_parts(epsilon, delta, parts)
        for exponent in (0.25, 1 / 3):
            family = replace(joint_noise(parts, discrete=True, family="osgt"), exponent=exponent)
            u = 1.0 if laws[0].curvature == 0 else laws[0].shape / (1 + laws[0].shape)
            search = ScaleSearch(family, epsilon, delta or 0.5)
            scale = pure_scale(family, 1.0, epsilon) if delta == 0 else math.exp(search.proved(u))
            fixed = weighted_error(family.distributions(u, scale), parts)
            assert weighted_error(laws, parts) <= 1.001 * fixed
            if exponent == worse:
                assert weighted_error(laws, parts) < 0.985 * fixed

    def test_pure_privacy_is_shared_out_exactly(self):
        """At δ = 0 the loss is Σ coordinates·shift/scale: the optimum has a closed form."""
        parts = [Part(1, 2), Part(7, 3, weight=100.0)]
        laws = calibrate_parts(0.01, 0, parts)
        assert laws[1].slope / laws[0].slope == pytest.approx((1 / 7) * (2 / (3 / 100)) ** (1 / 3), rel=1e-9)

    def test_bad_parts(self):
        with pytest.raises(ValueError, match="at least one Part"):
            calibrate_parts(1, 1e-6, [])
        with pytest.raises(ValueError, match="weight must be"):
            calibrate_parts(1, 1e-6, [Part(1, 1, weight=0)])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epsilon": 0}, "epsilon must be"),
        ({"epsilon": -1}, "epsilon must be"),
        ({"epsilon": math.nan}, "epsilon must be"),
        ({"delta": -1e-9}, "delta must be"),
        ({"delta": 1}, "delta must be"),
        ({"delta": math.nan}, "delta must be"),
        ({"delta": 1e-320}, "delta must be"),
        ({"epsilon": 1e-300}, "epsilon must be"),
        ({"epsilon": 1e9}, "epsilon must be"),
        ({"shift": 0}, "shift must be"),
        ({"shift": 1.5}, "shift must be"),
        ({"coordinates": 0}, "coordinates must be"),
        ({"coordinates": 2.5}, "coordinates must be"),
        ({"objective": "best"}, "objective must be"),
        ({"objective": ("quantile", 1.5)}, "objective must be"),
        ({"objective": ("max", 0)}, "objective must be"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    arguments = {"epsilon": 1.0, "delta": 1e-6, **arguments}
    with pytest.raises((ValueError, TypeError), match=message):
        calibrate(arguments.pop("epsilon"), arguments.pop("delta"), **arguments)


@pytest.mark.parametrize("coordinates", [1, 3])
def test_next_to_no_noise(coordinates):
    """δ jumps with the scale where all but a few integers have no probability to speak of."""
    law = calibrate(1000.0, 1e-6, coordinates=coordinates)
    assert PrivacyProfile(law, 1, coordinates).delta(1000.0) <= 1e-6
    assert law.var() <= DiscreteOSGT.laplace(coordinates / 1000.0).var() * (1 + 1e-9)
