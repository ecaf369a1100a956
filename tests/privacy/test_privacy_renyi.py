"""Rényi divergence, Theorem 2, the conversion to δ, trade-off curves, μ, the Euclidean bound, interop, bad input."""

import builtins
import math

import dp_accounting.pld
import mpmath as mp
import numpy as np
import pytest
from privacy_oracles import gaussian_delta, renyi_by_quadrature, renyi_exactly
from scipy.stats import norm

from osgt import OSGT, DiscreteOSGT, PrivacyProfile
from osgt.noise import RoundedGaussian
from osgt.privacy import NoisyPart

SIGMA = math.sqrt(630)


@pytest.mark.parametrize(
    ("noise", "shift"),
    [(OSGT(3, math.sqrt(40)), 1), (OSGT.laplace(2), 1), (OSGT.gaussian(3), 2), (OSGT(10, 5), 7), (OSGT(300, 400), 1)],
    ids=str,
)
@pytest.mark.parametrize("alpha", [1.01, 2.0, 8.5, 71.66, 1000.0])
def test_renyi_against_quadrature(noise, shift, alpha):
    exact = float(renyi_by_quadrature(noise, shift, alpha))
    assert PrivacyProfile(noise, shift).renyi(alpha) == pytest.approx(exact, rel=1e-10)


def test_renyi_of_the_ends_in_closed_form():
    alphas = np.array([1.0001, 1.5, 2.0, 30.0, 1e3, 1e6])
    gaussian = PrivacyProfile(OSGT.gaussian(5), 2, 3).renyi(alphas)
    np.testing.assert_allclose(gaussian, 3 * alphas * 4 / 50, rtol=1e-13)
    a = np.array([1.5, 2.0, 30.0])
    laplace = np.log(a / (2 * a - 1) * np.exp((a - 1) * 0.5) + (a - 1) / (2 * a - 1) * np.exp(-a * 0.5)) / (a - 1)
    np.testing.assert_allclose(PrivacyProfile(OSGT.laplace(2)).renyi(a), laplace, rtol=3e-12)
    assert PrivacyProfile(OSGT.laplace(2)).renyi(1e6) == pytest.approx(0.5, rel=1e-5)


def renyi_by_summation(noise, shift, alpha):
    reach = int(50 * noise.std() + alpha * shift + 50)
    k = np.arange(-reach - shift, reach + 1.0)
    potential, moved = noise.potential(np.abs(k)), noise.potential(np.abs(k + shift))
    exponent = (alpha - 1) * (moved - potential) - potential
    top = float(np.max(exponent))
    total = top + math.log(math.fsum(np.exp(exponent - top))) - math.log(math.fsum(np.exp(-potential)))
    return total / (alpha - 1)


@pytest.mark.parametrize(
    "noise", [DiscreteOSGT(3, 6.3), DiscreteOSGT.laplace(2), DiscreteOSGT.gaussian(0.4), DiscreteOSGT(40, 20)]
)
@pytest.mark.parametrize("alpha", [1.01, 2.0, 20.0, 300.0])
def test_renyi_on_the_integers_by_summation(noise, alpha):
    assert PrivacyProfile(noise, 3).renyi(alpha) == pytest.approx(renyi_by_summation(noise, 3, alpha), rel=1e-9)


@pytest.mark.parametrize("noise", [DiscreteOSGT.laplace(9_000), DiscreteOSGT(9_000, 9_000)])
def test_renyi_on_many_integers_by_summation(noise):
    """So many that an integral takes the place of the sum, with a correction at its kink."""
    shift = 6_000
    assert PrivacyProfile(noise, shift).renyi(2.0) == pytest.approx(renyi_by_summation(noise, shift, 2.0), rel=1e-11)


@pytest.mark.parametrize("noise", [DiscreteOSGT(3, 6.3), DiscreteOSGT(40, 20)])
def test_renyi_of_huge_orders_is_not_too_small(noise):
    """Far out the terms are those of a normal distribution around s·shift: the largest of them are a lower bound."""
    slope, curvature = mp.mpf(float(noise.slope)), mp.mpf(float(noise.curvature))
    reach = 20 * math.ceil(float(noise.std()))
    with mp.workdps(80):
        total = 2 * mp.fsum(mp.exp(-slope * k - curvature * k * k / 2) for k in range(1, 40 * reach)) + 1
        for s in [10.0**e for e in (4, 7, 8, 9, 10, 12, 14, 20, 60)]:
            around = [mp.mpf(int(s)) + k for k in range(-reach, reach + 1)]
            exponents = [
                s * (slope + curvature * (w + 0.5)) - slope * w - curvature * w * w / 2 - mp.log(total) for w in around
            ]
            top = max(exponents)
            least = (top + mp.log(mp.fsum(mp.exp(exponent - top) for exponent in exponents))) / s
            assert PrivacyProfile(noise).renyi(1 + s) >= least
    assert PrivacyProfile(noise).renyi(1e60) == math.inf
    assert PrivacyProfile(noise, 10**12).renyi(1e20) == math.inf


def test_renyi_at_every_scale_and_order():
    alphas = np.geomspace(1 + 1e-6, 1e6, 30)
    for kind in (OSGT, DiscreteOSGT):
        for scale in (0.1, 10.0, 1e4, 1e7):
            for noise in (kind(0.7 * scale, scale), kind.laplace(scale)):
                values = PrivacyProfile(noise).renyi(alphas)
                assert np.all(np.isfinite(values))
                assert np.all(values > 0)
                assert np.all(np.diff(values) >= -1e-12 * values[1:])


def test_large_scale_integers_meet_the_reals():
    for alpha in (1.5, 10.0, 1e5):
        discrete = PrivacyProfile(DiscreteOSGT(1e6, 2e6), 1).renyi(alpha)
        assert discrete == pytest.approx(PrivacyProfile(OSGT(1e6, 2e6), 1).renyi(alpha), rel=1e-5)


def test_theorem_2_bounds_the_divergence():
    alphas = np.geomspace(1.01, 1e4, 40)
    for noise in (
        OSGT(3, math.sqrt(40)),
        OSGT(0.1, 1),
        DiscreteOSGT(3, 6),
        DiscreteOSGT(0.2, 0.5),
        DiscreteOSGT(30, 7),
    ):
        profile = PrivacyProfile(noise, 2, 5)
        assert np.all(profile.zcdp(alphas) >= profile.renyi(alphas))
    profile = PrivacyProfile(OSGT(3, math.sqrt(40)))
    tail = norm.sf(3 / math.sqrt(40))
    assert profile.zcdp(4.0) == pytest.approx(4 / 80 + math.log((1 - tail) / tail) / 3, rel=1e-12)
    assert profile.zcdp(1 + 1e-9) > 1e8  # no limit as α → 1
    assert profile.zcdp(1e9) == pytest.approx(1e9 / 80, rel=1e-6)  # the Gaussian with the same σ as α → ∞
    assert PrivacyProfile(OSGT.gaussian(4)).zcdp(3.0) == pytest.approx(3 / 32)
    assert PrivacyProfile(DiscreteOSGT.gaussian(4)).zcdp(3.0) == pytest.approx(3 / 32)
    assert PrivacyProfile(OSGT.laplace(4)).zcdp(3.0) == math.inf


def test_conversion_of_figure_6():
    assert PrivacyProfile(OSGT(15, SIGMA), 1, 8).delta_from_renyi(0.9) == pytest.approx(1.2287e-14, rel=1e-4)
    variance = OSGT(15, SIGMA).var()
    assert PrivacyProfile(OSGT.gaussian(math.sqrt(variance)), 1, 8).delta_from_renyi(0.9) == pytest.approx(
        2.2297e-11, rel=1e-4
    )


@pytest.mark.parametrize("noise", [OSGT(3, 6), OSGT.laplace(8), DiscreteOSGT(3, 6), DiscreteOSGT.laplace(8)], ids=repr)
def test_conversion_is_never_below_delta(noise):
    profile = PrivacyProfile(noise, 1, 6)
    epsilons = np.array([0.1, 0.6, 1.5])
    assert np.all(profile.delta_from_renyi(epsilons) >= profile.delta(epsilons) * (1 - 1e-9))


def test_delta_is_one_where_nothing_is_hidden():
    assert PrivacyProfile(OSGT.laplace(1e-3)).delta_from_renyi(1.0) == 1.0


def test_tradeoff_of_one_coordinate():
    alphas = np.array([0.0, 1e-12, 0.01, 0.3, 0.5, 0.9, 1.0])
    gaussian = PrivacyProfile(OSGT.gaussian(2), 1).tradeoff(alphas)
    np.testing.assert_allclose(gaussian, norm.cdf(norm.isf(alphas) - 0.5), rtol=1e-9, atol=1e-15)
    noise = OSGT(3, 6)
    np.testing.assert_allclose(PrivacyProfile(noise, 2).tradeoff(0.2), noise.cdf(noise.isf(0.2) - 2), rtol=1e-12)
    # its convex conjugate is δ: δ(ε) = 1 + sup over α of -exp(ε)·α - T(α)
    alphas = np.linspace(0, 1, 20001)
    conjugate = np.max(1 - math.exp(0.3) * alphas - PrivacyProfile(noise, 2).tradeoff(alphas))
    assert conjugate == pytest.approx(PrivacyProfile(noise, 2).delta(0.3), rel=1e-5)


def test_tradeoff_on_the_integers_is_piecewise_linear():
    noise = DiscreteOSGT(1, 2)
    profile = PrivacyProfile(noise)
    knots = noise.sf(np.arange(-3.0, 4.0))
    np.testing.assert_allclose(profile.tradeoff(knots), noise.cdf(np.arange(-3.0, 4.0) - 1), atol=1e-12)
    middle = (knots[1:] + knots[:-1]) / 2
    values = profile.tradeoff(knots)
    np.testing.assert_allclose(profile.tradeoff(middle), (values[1:] + values[:-1]) / 2, atol=1e-12)
    assert profile.tradeoff(0.0) == 1
    assert profile.tradeoff(1.0) == 0


def test_tradeoff_of_many_coordinates_is_a_lower_bound():
    alphas = np.array([1e-6, 0.01, 0.1, 0.5, 0.9])
    laws = OSGT.from_rates(1e-9, 1 / 64), OSGT.gaussian(8)
    nearly, exact = (PrivacyProfile(law, 1, 8).tradeoff(alphas) for law in laws)
    truth = norm.cdf(norm.isf(alphas) - math.sqrt(8) / 8)
    for values in (nearly, exact):
        assert np.all(values <= truth * (1 + 1e-9))
        np.testing.assert_allclose(values, truth, rtol=2e-3)


def test_mu():
    noise = OSGT(3, 6)
    assert PrivacyProfile(noise, 2, 9).mu == pytest.approx(6 * math.sqrt(noise.fisher_information()))
    assert PrivacyProfile(OSGT.gaussian(4)).mu == pytest.approx(0.25)
    assert PrivacyProfile(DiscreteOSGT.gaussian(4)).mu == pytest.approx(0.25, rel=1e-9)
    for scale in (300.0, 1e5):
        ratio = PrivacyProfile(DiscreteOSGT(scale, scale)).mu / PrivacyProfile(OSGT(scale, scale)).mu
        assert ratio == pytest.approx(1, rel=2 / scale)
    many = PrivacyProfile(OSGT(1000, 1000), coordinates=10**5)
    assert many.delta(1.0) == pytest.approx(float(gaussian_delta(many.mu, 1.0)), rel=0.02)


def test_euclidean_bound_of_the_gaussian_is_the_analytic_gaussian():
    bound = PrivacyProfile.l2(OSGT.gaussian(20), math.sqrt(8), 100)
    assert bound.delta(0.9) == pytest.approx(float(gaussian_delta(math.sqrt(8) / 20, 0.9)), rel=1e-10)
    assert bound.renyi(3.0) == pytest.approx(3 * 8 / 800)


@pytest.mark.parametrize("noise", [OSGT(15, SIGMA), OSGT(5, 20), DiscreteOSGT(15, SIGMA)], ids=repr)
def test_euclidean_bound_covers_all_changes(noise):
    rng = np.random.default_rng(3)
    radius, dimensions = 4.0, 16
    bound = PrivacyProfile.l2(noise, radius, dimensions)
    limit = {epsilon: bound.delta(epsilon) for epsilon in (0.3, 0.8)}
    order_limit = bound.renyi([2.0, 20.0])
    shapes = [np.full(16, 1.0), np.array([4.0]), np.array([2.0] * 4)]
    for _ in range(4):
        d = np.abs(rng.standard_normal(16)) ** 2
        shapes.append(
            np.floor(radius * d / np.linalg.norm(d))
            if isinstance(noise, DiscreteOSGT)
            else radius * d / np.linalg.norm(d)
        )
    for change in shapes:
        profile = PrivacyProfile.compose([PrivacyProfile(noise, float(d)) for d in change if d > 0])
        assert np.all(profile.renyi([2.0, 20.0]) <= order_limit * (1 + 1e-9))
        for epsilon, value in limit.items():
            assert profile.delta(epsilon) <= value
    assert bound.delta(bound.epsilon(1e-6)) <= 1e-6
    # The bound is close to the worst change of those tried.
    orders = [2.0, 20.0]
    tried = [sum(PrivacyProfile(noise, float(d)).renyi(orders) for d in change if d > 0) for change in shapes]
    assert np.all(order_limit <= 1.05 * np.max(tried, axis=0))


def test_euclidean_bound_of_one_dimension_is_exact():
    assert PrivacyProfile.l2(OSGT(3, 6), 2.5, 1).delta(1.0) == PrivacyProfile(OSGT(3, 6), 2.5).delta(1.0)
    assert PrivacyProfile.l2(DiscreteOSGT(3, 6), 2.5, 1).delta(1.0) == PrivacyProfile(DiscreteOSGT(3, 6), 2).delta(1.0)


def test_to_dp_accounting():
    for profile in (
        PrivacyProfile(OSGT(15, SIGMA), 1, 8),
        PrivacyProfile(DiscreteOSGT.laplace(10), 3, 4) + PrivacyProfile(DiscreteOSGT(5, 9), 1, 2),
    ):
        theirs = profile.to_dp_accounting()
        for epsilon in (0.2, 0.5):
            assert theirs.get_delta_for_epsilon(epsilon) == pytest.approx(profile.delta(epsilon), rel=2e-4)


def test_to_dp_accounting_without_the_library(monkeypatch):
    original = builtins.__import__

    def without(name, *args, **kwargs):
        if name.startswith("dp_accounting"):
            raise ImportError(name)
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match="pip install dp-accounting"):
        PrivacyProfile(OSGT(3, 6)).to_dp_accounting()


def test_a_profile_is_its_parts():
    profile = PrivacyProfile(OSGT(3, 6), 2, 5) + PrivacyProfile(DiscreteOSGT(3, 6), 1, 4)
    rows = [(type(p.noise).__name__, p.noise.slope, p.noise.curvature, p.shift, p.coordinates) for p in profile.parts]
    kinds = {"OSGT": OSGT, "DiscreteOSGT": DiscreteOSGT}
    again = PrivacyProfile.of(NoisyPart(kinds[k].from_rates(a, c), shift, n) for k, a, c, shift, n in rows)
    assert again == profile
    assert hash(again) == hash(profile)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda p: p.delta(-1), "epsilon must be finite and ≥ 0, got -1"),
        (lambda p: p.delta([0.1, math.nan]), "epsilon must be finite and ≥ 0, got nan"),
        (lambda p: p.delta(math.inf), "epsilon must be"),
        (lambda p: p.delta(1, slack=0), "slack must be"),
        (lambda p: p.epsilon(1), "delta must be in"),
        (lambda p: p.epsilon(-1e-9), "delta must be in"),
        (lambda p: p.epsilon(math.nan), "delta must be in"),
        (lambda p: p.renyi(1), "alpha must be finite and > 1, got 1"),
        (lambda p: p.zcdp(0.5), "alpha must be"),
        (lambda p: p.delta_from_renyi(-1), "epsilon must be"),
        (lambda p: p.tradeoff(1.5), "type_1_error must be in"),
        (lambda p: PrivacyProfile(OSGT(1, 1), 0), "shift must be a finite number > 0, got 0"),
        (lambda p: PrivacyProfile(OSGT(1, 1), math.nan), "shift must be"),
        (lambda p: PrivacyProfile(DiscreteOSGT(1, 1), 1.5), "shift must be an integer"),
        (lambda p: PrivacyProfile(OSGT(1, 1), 1, 0), "coordinates must be an integer ≥ 1, got 0"),
        (lambda p: PrivacyProfile.compose([]), "at least one"),
        (lambda p: PrivacyProfile.l2(OSGT(1, 1), -1, 2), "radius must be"),
        (lambda p: PrivacyProfile.l2(OSGT(1, 1), 1, 0), "dimensions must be"),
        (lambda p: p.to_dp_accounting(interval=0), "interval must be"),
    ],
)
def test_bad_values_are_named(call, words):
    with pytest.raises(ValueError, match=words):
        call(PrivacyProfile(OSGT(3, 6), 1, 2))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: PrivacyProfile("gaussian"), "noise must be a noise distribution .*, got 'gaussian'"),
        (lambda: PrivacyProfile(OSGT(1, 1), "1"), "shift must be"),
        (lambda: PrivacyProfile(OSGT(1, 1), 1, 2.0), "coordinates must be an integer"),
        (lambda: PrivacyProfile(OSGT(1, 1), 1, True), "coordinates must be an integer"),
        (lambda: PrivacyProfile(OSGT(1, 1)).delta("1"), "epsilon must be a number"),
        (lambda: PrivacyProfile.compose([OSGT(1, 1)]), "profiles must be PrivacyProfile"),
        (lambda: PrivacyProfile(OSGT(1, 1)) + 1, "unsupported operand"),
    ],
)
def test_bad_types_are_named(call, words):
    with pytest.raises(TypeError, match=words):
        call()


@pytest.mark.parametrize("kind", [OSGT, DiscreteOSGT])
def test_renyi_is_rounded_up(kind):
    """Never below the exact value, and at most 3e-12 of it above."""
    rng = np.random.default_rng(8)
    for _ in range(60 if kind is OSGT else 12):
        scale = 10 ** rng.uniform(-1, 6 if kind is OSGT else 1)
        shape = rng.choice([np.inf, 10 ** rng.uniform(-3, 3)])
        rates = (1 / scale, 0.0) if np.isinf(shape) else (shape / (1 + shape) / scale, ((1 + shape) * scale) ** -2)
        noise, shift = kind.from_rates(*rates), float(rng.integers(1, 6))
        order = 1 + 10 ** rng.uniform(-4, 5 if kind is OSGT else 2)
        exact = renyi_exactly(noise, shift, order - 1) / mp.mpf(order - 1)
        assert exact <= PrivacyProfile(noise, shift).renyi(order) <= exact * (1 + 3e-12)


def test_renyi_is_rounded_up_in_a_hard_case():
    # The closed form loses most digits where the moment is small and the order large.
    noise, shift, s = OSGT.from_rates(1.6244272737850786e-05, 0.0), 8.05833894709858, 2637.0841583502724
    exact = renyi_exactly(noise, shift, (1 + s) - 1) / mp.mpf((1 + s) - 1)
    assert exact <= PrivacyProfile(noise, shift).renyi(1 + s) <= exact * (1 + 3e-12)
    parts = [PrivacyProfile(noise, shift, 7), PrivacyProfile(OSGT.gaussian(3.3), 1.7, 11)]
    total = 7 * exact + 11 * mp.mpf(1 + s) * mp.mpf(1.7) ** 2 * mp.mpf(OSGT.gaussian(3.3).curvature) / 2
    assert PrivacyProfile.compose(parts).renyi(1 + s) >= total


def delta_of_event(event, epsilon):
    """What Google's accountant says of an event."""
    accountant = dp_accounting.pld.PLDAccountant(value_discretization_interval=1e-4)
    return accountant.compose(event).get_delta(epsilon)


@pytest.mark.parametrize(
    "profile",
    [
        PrivacyProfile(OSGT.gaussian(7), 2, 5),
        PrivacyProfile(RoundedGaussian(7.0), 2),
        PrivacyProfile(OSGT.laplace(9), 3),
        PrivacyProfile(DiscreteOSGT.laplace(11), 2, 4) + PrivacyProfile(OSGT.gaussian(7), 0.5),
    ],
    ids=repr,
)
def test_events_of_dp_accounting_have_the_same_loss(profile):
    event = profile.to_dp_event()
    for epsilon in (0.1, 0.4):
        assert delta_of_event(event, epsilon) == pytest.approx(profile.delta(epsilon), rel=2e-3)


@pytest.mark.parametrize("noise", [OSGT(3, 6), DiscreteOSGT.gaussian(4)], ids=repr)
def test_noise_without_an_event_is_named(noise):
    with pytest.raises(ValueError, match=r"has no event for .*to_dp_accounting"):
        PrivacyProfile(noise).to_dp_event()
