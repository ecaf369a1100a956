"""Many coordinates: the engine against other methods, and its own laws."""

import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import given, settings
from hypothesis import strategies as st
from privacy_oracles import arb_delta, contour_delta, enumerated_delta, gaussian_delta, random_smaller

from osgt import OSGT, DiscreteOSGT, PrivacyProfile
from osgt.privacy import Charge, composition
from osgt.privacy.pair import Pair

SLACK = 1e-4
SIGMA = math.sqrt(630)


def within_slack(value, exact, slack=SLACK, error=1e-9):
    return exact * (1 - error) <= value <= exact * (1 + slack)


def test_eight_coordinates_of_the_paper():
    profile = PrivacyProfile(OSGT(15, SIGMA), coordinates=8)
    assert within_slack(profile.delta(0.9), 1.6746392134e-15)
    assert profile.delta(0.9) < profile.delta_from_renyi(0.9)


@pytest.mark.parametrize(
    "parts",
    [
        [(OSGT(15, SIGMA), 1.0, 8)],
        [(OSGT(2, 4), 1.5, 3)],
        [(OSGT(0.3, 1.0), 0.2, 50)],
        [(OSGT(5, 9), 1.0, 4), (OSGT(1, 3), 0.2, 10), (OSGT(20, 30), 2.0, 7)],
        [(OSGT(300, 400), 1.0, 10_000)],
        [(OSGT(1e4, 2e4), 1.0, 10**6)],
    ],
    ids=str,
)
def test_against_the_contour_integral(parts):
    profile = PrivacyProfile.compose([PrivacyProfile(*part) for part in parts])
    for distance in (0.5, 3.0, 7.0, 12.0):
        epsilon = profile.mu**2 / 2 + distance * profile.mu
        exact = contour_delta(parts, epsilon)
        assert within_slack(profile.delta(epsilon), exact, error=1e-7), (epsilon, profile.delta(epsilon) / exact - 1)


@pytest.mark.parametrize("slack", [1e-2, 1e-4, 1e-6])
@pytest.mark.parametrize(
    ("sigma", "coordinates", "epsilon"), [(20, 8, 0.9), (20, 8, 3.0), (300, 10**4, 0.5), (1, 2, 1e-3)]
)
def test_the_engine_itself_against_the_analytic_gaussian(sigma, coordinates, epsilon, slack):
    exact = float(gaussian_delta(math.sqrt(coordinates) / sigma, epsilon))
    bound = composition.deltas([Pair(OSGT.gaussian(sigma), 1.0)], [coordinates], np.array([epsilon]), slack)[0]
    assert within_slack(bound, exact, slack)


@pytest.mark.parametrize("exponent", [20, 100, 200, 290])
def test_tiny_delta_keeps_its_digits(exponent):
    mu = 0.1
    low, high = 0.0, 10.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if gaussian_delta(mu, middle) > 10.0**-exponent else (low, middle)
    bound = composition.deltas([Pair(OSGT.gaussian(math.sqrt(8) / mu), 1.0)], [8], np.array([high]), SLACK)[0]
    assert within_slack(bound, float(gaussian_delta(mu, high)))


@pytest.mark.parametrize(
    ("m", "curvature", "shift", "coordinates"),
    [
        (0, 1 / 8, 1, 2),
        (2, 1 / 16, 1, 3),
        (3, 1 / 32, 1, 8),
        (5, 1 / 64, 2, 4),
        (1, 1 / 32, 3, 5),
        (0, 4.0, 1, 6),
        (2, 1 / 16, 1, 40),
    ],
)
def test_integers_against_ball_arithmetic(m, curvature, shift, coordinates):
    """Direct convolution of polynomials over Arb: a proof on either side."""
    profile = PrivacyProfile(DiscreteOSGT.from_rates(m * curvature, curvature), shift, coordinates)
    kink = m * curvature * shift + curvature * shift**2 / 2
    for epsilon in (0.1, 0.5 * coordinates * kink, 1.01 * coordinates * kink, 2 * coordinates * kink + 1):
        low, high = arb_delta(m, curvature, shift, coordinates, epsilon)
        assert low <= profile.delta(epsilon) <= high * (1 + SLACK)


def laplace_delta(scale, shift, coordinates, epsilon, interval):
    return (
        pld.from_laplace_mechanism(scale, sensitivity=shift, value_discretization_interval=interval)
        .self_compose(coordinates)
        .get_delta_for_epsilon(epsilon)
    )


@pytest.mark.parametrize(("scale", "coordinates"), [(2.0, 2), (8.0, 8), (30.0, 64)])
def test_laplace_end_against_dp_accounting(scale, coordinates):
    profile = PrivacyProfile(OSGT.laplace(scale), coordinates=coordinates)
    for epsilon in (0.2, 0.5, 0.9):
        theirs = laplace_delta(scale, 1, coordinates, epsilon, 1e-4)
        assert profile.delta(epsilon) == pytest.approx(theirs, rel=2e-4)


def test_laplace_end_with_two_coordinates_exactly():
    # Each loss is b with probability ½, -b with ½·exp(-b), and has density ¼·exp((l - b)/2) between (b = shift/scale).
    b, epsilon = 0.5, 0.6
    continuous = np.polynomial.legendre.leggauss(200)

    def integral(function, low, high):
        x = low + (high - low) * (continuous[0] + 1) / 2
        return float(np.sum(continuous[1] * function(x))) * (high - low) / 2

    def density(x):
        return 0.25 * np.exp((x - b) / 2)

    def gain(x):
        return -np.expm1(np.minimum(epsilon - x, 0))

    exact = 0.25 * gain(2 * b) + integral(lambda x: density(x) * gain(x + b), epsilon - b, b)
    exact += integral(
        lambda x: density(x) * np.array([integral(lambda y, x=x: density(y) * gain(x + y), epsilon - x, b) for x in x]),
        epsilon - b, b,
    )  # fmt: skip
    assert within_slack(PrivacyProfile(OSGT.laplace(2), coordinates=2).delta(epsilon), exact)


def test_discrete_ends_against_dp_accounting():
    """Their grid spreads the atoms of these distributions; ours puts them on the grid and must not be above theirs."""
    laplace = pld.from_discrete_laplace_mechanism(0.2, sensitivity=1, value_discretization_interval=1e-4).self_compose(
        8
    )
    gaussian = pld.from_discrete_gaussian_mechanism(6.0, value_discretization_interval=1e-4).self_compose(8)
    ours = PrivacyProfile(DiscreteOSGT.laplace(5), 1, 8), PrivacyProfile(DiscreteOSGT.gaussian(6), 1, 8)
    for epsilon in (0.25, 0.777, 1.1):
        for profile, theirs in zip(ours, (laplace, gaussian), strict=True):
            bound = theirs.get_delta_for_epsilon(epsilon)
            assert 0.99 * bound <= profile.delta(epsilon) <= bound * (1 + SLACK)


def test_unlike_gaussians_and_laplaces_against_dp_accounting():
    theirs = pld.from_gaussian_mechanism(10.0, value_discretization_interval=1e-4).compose(
        pld.from_laplace_mechanism(12.0, value_discretization_interval=1e-4).self_compose(4)
    )
    ours = PrivacyProfile(OSGT.gaussian(10)) + PrivacyProfile(OSGT.laplace(12), coordinates=4)
    for epsilon in (0.1, 0.4, 0.7):
        assert ours.delta(epsilon) == pytest.approx(theirs.get_delta_for_epsilon(epsilon), rel=1e-3)


def test_wildly_unlike_parts():
    # Next to a loud part a whisper is hardly heard, but never for nothing.
    loud, whisper = PrivacyProfile(OSGT(3, 6), 1, 5), PrivacyProfile(DiscreteOSGT(1e6, 1e7), 3, 200)
    both = loud + whisper
    for epsilon in (0.5, 2.0, 6.0):
        assert loud.delta(epsilon) <= both.delta(epsilon) * (1 + SLACK)
        assert both.delta(epsilon) <= loud.delta(epsilon) * (1 + 1e-3)


def test_repeated_parts_are_grouped():
    one = PrivacyProfile(OSGT(30, 50))
    composed = PrivacyProfile.compose([one] * 500)
    assert composed == PrivacyProfile(OSGT(30, 50), coordinates=500)
    assert len(composed.parts) == 1
    assert composed.parts[0].coordinates == 500


LAWS = st.builds(
    lambda kind, shape, scale: kind.laplace(scale) if shape is None else kind(shape * scale, scale),
    st.sampled_from([OSGT, DiscreteOSGT]),
    st.sampled_from([None, 0.0, 0.2, 1.0, 4.0]),
    st.floats(2.0, 500.0),
)
PARTS = st.builds(PrivacyProfile, LAWS, st.integers(1, 3), st.integers(1, 40))
few = settings(max_examples=15)


@few
@given(PARTS, PARTS, PARTS, st.floats(0.05, 3.0))
def test_composition_is_commutative_and_associative(a, b, c, epsilon):
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)
    assert (a + b + c).delta(epsilon) == PrivacyProfile.compose([c, a, b]).delta(epsilon)


@few
@given(PARTS, st.floats(0.0, 2.0), st.floats(1.001, 2.0))
def test_delta_falls_with_epsilon(profile, epsilon, factor):
    assert profile.delta(epsilon * factor + 1e-3) <= profile.delta(epsilon) * (1 + SLACK)


@pytest.mark.parametrize(
    ("noise", "shift", "coordinates", "delta", "slack"),
    [
        (OSGT.laplace(2.910237365), 7, 8, 3.0955016593076163e-11, 1e-6),
        (DiscreteOSGT.laplace(1.169156106), 2, 5, 1.9429651818298924e-10, 1e-3),
        (DiscreteOSGT.laplace(330.5896512), 2, 3, 3.3890436358596265e-12, 1e-4),
        (DiscreteOSGT.laplace(15.28978746), 7, 3, 8.340774700731667e-12, 1e-6),
    ],
    ids=str,
)
def test_delta_at_epsilon_is_not_above_the_one_asked_for(noise, shift, coordinates, delta, slack):
    """Here the ε that is found first has a bound that is 0.004 to 0.4 % above."""
    profile = PrivacyProfile(noise, shift, coordinates)
    assert profile.delta(profile.epsilon(delta, slack=slack), slack=slack) <= delta


@few
@given(PARTS, st.floats(1e-12, 0.5), st.floats(0.01, 0.9))
def test_epsilon_falls_with_delta_and_inverts_it(profile, delta, factor):
    epsilon = profile.epsilon(delta)
    assert profile.delta(epsilon) <= delta
    assert profile.epsilon(delta * factor) >= epsilon * (1 - 1e-6)
    if epsilon > 0:
        assert profile.delta(epsilon * (1 - 1e-3)) >= delta * (1 - SLACK)


@few
@given(LAWS, st.integers(1, 20), st.floats(0.05, 2.0))
def test_more_change_gives_more_away(noise, coordinates, epsilon):
    base = PrivacyProfile(noise, 1, coordinates).delta(epsilon)
    assert PrivacyProfile(noise, 2, coordinates).delta(epsilon) >= base * (1 - SLACK)
    assert PrivacyProfile(noise, 1, coordinates + 1).delta(epsilon) >= base * (1 - SLACK)


@few
@given(st.sampled_from([OSGT, DiscreteOSGT]), st.floats(0.0, 30.0), st.floats(3.0, 60.0), st.floats(1.05, 3.0))
def test_a_flatter_potential_gives_less_away(kind, m, sigma, factor):
    """A larger σ at the same m/σ², and a smaller m at the same σ, are more noise."""
    base = PrivacyProfile(kind(m, sigma), 1, 6)
    wider = PrivacyProfile(kind.from_rates(base.parts[0].noise.slope, base.parts[0].noise.curvature / factor), 1, 6)
    lower = PrivacyProfile(kind(m / factor, sigma), 1, 6)
    for epsilon in (0.1, 1.0):
        assert wider.delta(epsilon) <= base.delta(epsilon) * (1 + SLACK)
        assert lower.delta(epsilon) <= base.delta(epsilon) * (1 + SLACK)


@settings(max_examples=25)
@given(LAWS, st.integers(1, 4), st.integers(2, 12), st.floats(0.02, 3.0), st.integers(0, 2**32))
def test_no_smaller_change_exceeds_the_full_shift(noise, shift, coordinates, epsilon, seed):
    """The dominance theorem: changing all coordinates by the full shift is the worst case."""
    changes = random_smaller(np.random.default_rng(seed), shift, coordinates, whole=isinstance(noise, DiscreteOSGT))
    smaller = PrivacyProfile.compose([PrivacyProfile(noise, d) for d in changes])
    assert smaller.delta(epsilon) <= PrivacyProfile(noise, shift, coordinates).delta(epsilon) * (1 + SLACK)


@settings(max_examples=25)
@given(
    st.lists(st.tuples(st.floats(0.0, 2.0), st.floats(0.3, 2.0), st.integers(1, 2)), min_size=2, max_size=3),
    st.floats(0.0, 8.0),
)
def test_never_below_the_true_value(laws, epsilon):
    parts = [(DiscreteOSGT(shape * scale, scale), shift, 1) for shape, scale, shift in laws]
    exact = enumerated_delta(parts, epsilon)
    value = PrivacyProfile.compose([PrivacyProfile(*part) for part in parts]).delta(epsilon)
    assert value >= exact * (1 - 1e-10)


def test_arrays_share_their_work():
    profile = PrivacyProfile(OSGT(15, SIGMA), coordinates=8)
    epsilons = np.linspace(0, 2, 41)
    together = profile.delta(epsilons)
    assert np.all(np.diff(together) <= 0)
    for epsilon, value in zip(epsilons[::8], together[::8], strict=True):
        assert value == pytest.approx(profile.delta(epsilon), rel=2 * SLACK)


@pytest.mark.parametrize("coordinates", [2, 8, 1000, 10**6])
@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 50.0])
def test_every_size_of_epsilon_and_every_number_of_coordinates(coordinates, epsilon):
    scale = 5 * math.sqrt(coordinates) / epsilon if epsilon < 1 else math.sqrt(coordinates) / 5
    profile = PrivacyProfile(OSGT(0.5 * scale, scale), coordinates=coordinates)
    exact = contour_delta([(profile.parts[0].noise, 1.0, coordinates)], epsilon)
    assert within_slack(profile.delta(epsilon), exact, error=1e-6)


def test_delta_next_to_the_end_of_a_bounded_loss():
    # All mass of the tilted loss sits on its largest value here.
    profile = PrivacyProfile(DiscreteOSGT.laplace(0.6925131724), 2, 416)
    epsilon = profile.epsilon(1.24e-240)
    assert epsilon <= profile.epsilon(0)
    assert profile.delta(epsilon) <= 1.24e-240


@pytest.mark.parametrize("delta", [0.3, 1e-3, 1e-6, 1e-8, 1e-12, 1e-40])
@pytest.mark.parametrize("mu", [0.02, 0.3, 1.0, 4.0])
@pytest.mark.parametrize("coordinates", [1, 3, 40])
def test_an_epsilon_never_misses_its_delta(mu, coordinates, delta):
    """By the analytic Gaussian mechanism: not by a thousandth, and the ε of a little more δ is smaller."""
    noise = OSGT.gaussian(2.0)
    profile = PrivacyProfile(noise, 2.0 * mu / math.sqrt(coordinates), coordinates)
    epsilon = float(profile.epsilon(delta))
    assert gaussian_delta(mu, epsilon) <= delta * (1 + 1e-9)
    assert epsilon == 0 or gaussian_delta(mu, epsilon * (1 - 1e-3)) > delta * (1 - SLACK)
    share = Charge(profile, 0.25 * delta).epsilon(delta)
    assert gaussian_delta(mu, share) <= 0.75 * delta * (1 + 1e-9)


@pytest.mark.parametrize("delta", [1e-2, 1e-6, 1e-10])
@pytest.mark.parametrize(
    "profile",
    [
        PrivacyProfile(DiscreteOSGT(3, 6), coordinates=5),
        PrivacyProfile(DiscreteOSGT(20, 9), 3),
        PrivacyProfile(OSGT(3, 6), coordinates=60) + PrivacyProfile(DiscreteOSGT.gaussian(9), coordinates=2),
        PrivacyProfile(DiscreteOSGT.from_rates(0.3, 0.0), coordinates=4),
    ],
)
def test_an_epsilon_is_proved_by_the_profile_itself(profile, delta):
    """δ at the ε that is told is at most the δ that was asked for, to the last digit."""
    assert profile.delta(profile.epsilon(delta)) <= delta
