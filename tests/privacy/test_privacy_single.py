"""One coordinate: closed form on the reals, direct sums on the integers."""

import math

import mpmath as mp
import numpy as np
import pytest
from privacy_oracles import enumerated_delta, gaussian_delta, theorem_1

from osgt import OSGT, DiscreteOSGT, PrivacyProfile
from osgt.privacy import pair


def law_with(kind, shape, scale):
    return kind.laplace(scale) if math.isinf(shape) else kind(shape * scale, scale)


def test_the_reference_values_of_the_paper():
    profile = PrivacyProfile(OSGT(3, math.sqrt(40)))
    gaussian = PrivacyProfile(OSGT.gaussian(math.sqrt(27.704678326334605)))
    assert profile.delta(1) == pytest.approx(7.84736101774877e-12, rel=1e-10)
    assert gaussian.delta(1) == pytest.approx(3.92850593291963e-9, rel=1e-10)
    assert profile.epsilon(1e-10) == pytest.approx(0.936625756498584, rel=1e-12)
    assert gaussian.epsilon(1e-10) == pytest.approx(1.11994533875367, rel=1e-12)


@pytest.mark.parametrize("shape", [0.0, 0.1, 1.0, 10.0, math.inf])
def test_closed_form_to_ten_digits_at_every_scale(shape):
    rng = np.random.default_rng(1)
    for _ in range(40):
        noise = law_with(OSGT, shape, 10 ** rng.uniform(-1.3, 7))
        shift = 10 ** rng.uniform(0, 6)
        depth = rng.uniform(0, 440)  # the tail that is to be compared: down to 1e-190
        w = rng.choice([-0.5 * shift * rng.random(), float(noise.isf(math.exp(-depth - 0.7)))])
        if math.isinf(shape):
            w = -0.5 * shift * rng.random()
        epsilon = noise.potential(np.float64(abs(w + shift))) - noise.potential(np.float64(abs(w)))
        if not 0 < epsilon < 500:
            continue
        exact = theorem_1(noise, shift, epsilon)
        if exact > mp.mpf(10) ** -250:
            ratio = float(mp.mpf(float(PrivacyProfile(noise, shift).delta(epsilon))) / exact) - 1
            assert 0 <= ratio < 1e-10, (noise, shift, epsilon)


def test_delta_of_many_integers_by_summation():
    """So many that integrals take the place of sums, with corrections at both sides of the kink."""
    noise, shift, k = DiscreteOSGT.laplace(80_000), 9_000, np.arange(-3_000_000, 3_000_001)
    losses = noise.potential(np.abs(k + shift)) - noise.potential(np.abs(k))
    weights = np.exp(-noise.potential(np.abs(k)))
    for epsilon in (0.02, 0.05):
        exact = math.fsum(weights[losses > epsilon] * -np.expm1(epsilon - losses[losses > epsilon])) / math.fsum(
            weights
        )
        assert exact < 0.05
        assert PrivacyProfile(noise, shift).delta(epsilon) == pytest.approx(exact, rel=1e-9)


def test_shifts_that_floats_cannot_count_are_refused():
    with pytest.raises(ValueError, match="shift"):
        PrivacyProfile(DiscreteOSGT.laplace(2), shift=2.0**54)


def test_very_small_delta():
    noise = OSGT(3, math.sqrt(40))
    epsilon = PrivacyProfile(noise).epsilon(1e-200)
    exact = theorem_1(noise, 1, epsilon)
    assert float(exact / mp.mpf(10) ** -200) == pytest.approx(1, abs=1e-10)


def discrete_deltas(noise, shift, epsilons):
    """δ at each ε from sums of the pmf in mpmath, term by term."""
    with mp.workdps(40):
        a, c = mp.mpf(noise.slope), mp.mpf(noise.curvature)
        reach = int(60 * noise.std() + 10)
        weights = {k: mp.exp(-a * abs(k) - c * mp.mpf(k) * k / 2) for k in range(-reach, reach + shift + 1)}
        norm = mp.fsum(weights.values())
        for epsilon in epsilons:
            factor = mp.exp(epsilon)
            terms = (weights[k] - factor * weights[k + shift] for k in range(-reach, reach + 1))
            yield mp.fsum(term for term in terms if term > 0) / norm


@pytest.mark.parametrize("shape", [0.0, 0.5, 3.0, math.inf])
@pytest.mark.parametrize(("scale", "shift"), [(0.06, 1), (0.5, 1), (4.0, 3), (60.0, 1), (60.0, 100)])
def test_the_integers_term_by_term(shape, scale, shift):
    noise = law_with(DiscreteOSGT, shape, scale)
    profile = PrivacyProfile(noise, shift)
    ends = [float(noise.isf(math.exp(-depth))) for depth in (0.2, 3.0, 30.0)]
    losses = [noise.potential(np.float64(abs(k + shift))) - noise.potential(np.float64(abs(k))) for k in ends]
    epsilons = [0.9 * abs(float(loss)) for loss in losses]
    for epsilon, exact in zip(epsilons, discrete_deltas(noise, shift, epsilons), strict=True):
        if exact > mp.mpf(10) ** -290:
            assert 0 <= float(mp.mpf(float(profile.delta(epsilon))) / exact) - 1 < 1e-10


def test_a_large_integer_law_is_close_to_the_continuous_one():
    # Euler–Maclaurin: the distributions differ by terms of relative order 1/scale².
    for shape in (0.0, 1.0, 5.0):
        for shift in (1, 10**4, 10**6):
            discrete = PrivacyProfile(DiscreteOSGT(shape * 1e7, 1e7), shift)
            continuous = PrivacyProfile(OSGT(shape * 1e7, 1e7), shift)
            mu = discrete.mu
            assert discrete.delta(mu * mu / 2 + 3 * mu) == pytest.approx(
                continuous.delta(mu * mu / 2 + 3 * mu), rel=1e-5
            )


def test_pure_privacy_exists_at_the_laplace_end_only():
    laplace = PrivacyProfile(OSGT.laplace(4), shift=2, coordinates=6)
    assert laplace.epsilon(0) == 3.0
    assert laplace.delta(3.0) == 0
    assert laplace.delta(4.0) == 0
    assert laplace.delta(2.999) > 0
    assert laplace.epsilon(1e-300) <= 3.0
    assert PrivacyProfile(DiscreteOSGT.laplace(4), shift=2, coordinates=6).epsilon(0) == 3.0
    assert (laplace + laplace).epsilon(0) == 6.0
    assert PrivacyProfile(OSGT(1, 1)).epsilon(0) == math.inf
    assert (laplace + PrivacyProfile(OSGT.gaussian(1))).epsilon(0) == math.inf


def test_laplace_in_closed_form():
    # One coordinate of scale b: δ(ε) = 1 - exp((ε - shift/b)/2) below shift/b.
    for epsilon in (0.0, 0.1, 0.49999):
        assert PrivacyProfile(OSGT.laplace(2)).delta(epsilon) == pytest.approx(
            -math.expm1((epsilon - 0.5) / 2), rel=1e-11
        )


@pytest.mark.parametrize("delta", [1e-290, 1e-50, 1e-10, 1e-3, 0.3, 0.9])
@pytest.mark.parametrize(
    "noise", [OSGT(3, 6), OSGT.gaussian(0.2), OSGT.laplace(3), DiscreteOSGT(3, 6), DiscreteOSGT(1e6, 1e7)], ids=repr
)
def test_epsilon_is_the_inverse_of_delta(noise, delta):
    profile = PrivacyProfile(noise)
    epsilon = profile.epsilon(delta)
    assert profile.delta(epsilon) <= delta
    if epsilon > 0:
        assert profile.delta(epsilon * (1 - 1e-9)) >= delta * (1 - 1e-12)
        assert epsilon <= profile.epsilon(0)


def test_gaussian_end_in_any_dimension():
    for coordinates in (1, 2, 8, 1000, 10**6):
        for epsilon in (0.01, 1.0, 5.0):
            sigma = math.sqrt(coordinates) * 2.5
            exact = gaussian_delta(math.sqrt(coordinates) / sigma, epsilon)
            assert PrivacyProfile(OSGT.gaussian(sigma), 1, coordinates).delta(epsilon) == pytest.approx(
                float(exact), rel=1e-10
            )


def test_scalars_stay_scalars_and_arrays_keep_their_shape():
    profile = PrivacyProfile(OSGT(3, 6), coordinates=3)
    assert np.ndim(profile.delta(1)) == 0
    assert np.ndim(profile.epsilon(1e-5)) == 0
    assert profile.delta(np.array([[0.5, 1.0, 2.0], [0.1, 0.2, 0.3]])).shape == (2, 3)
    assert profile.epsilon([1e-5, 1e-6]).shape == (2,)
    assert profile.renyi([[2.0, 3.0]]).shape == (1, 2)
    assert isinstance(float(profile.mu), float)


def test_two_integers_by_enumeration():
    parts = [(DiscreteOSGT(0.7, 1.3), 1, 1), (DiscreteOSGT.laplace(1.1), 2, 1)]
    profile = PrivacyProfile.compose([PrivacyProfile(*part) for part in parts])
    for epsilon in (0.0, 0.37, 1.234, 2.9):
        exact = enumerated_delta(parts, epsilon)
        assert exact * (1 - 1e-11) <= profile.delta(epsilon) <= exact * (1 + 1e-4)


@pytest.mark.parametrize(
    ("noise", "shift"),
    [
        (DiscreteOSGT(3000, 6000), 1),
        (DiscreteOSGT.gaussian(20_000), 400),
        (DiscreteOSGT(300_000, 90_000), 7000),
        (DiscreteOSGT.gaussian(20_000), 60_000),
        (DiscreteOSGT.laplace(5000), 10),
    ],
    ids=str,
)
def test_long_sums_are_those_of_all_terms(noise, shift):
    """Integrals with the terms of Euler and Maclaurin at their ends, against all terms one by one."""
    of = pair.pair_of(noise, shift)
    for epsilon in (0.0, 0.1 * of.kink, 0.9 * of.kink, 2.0 * of.kink, 20.0 * of.kink):
        if epsilon < min(of.largest_loss, 30.0):
            first = max(math.floor(float(of.position(np.asarray(epsilon)))) + 1.0, math.ceil(-shift / 2))
            life = 1.0 / float(noise.potential.hazard(np.asarray(max(first, 0.0))))
            assert life > pair._SUMMED
            terms = pair._terms(of, np.asarray(epsilon), np.arange(first, max(first, 0.0) + 60 * life))
            assert pair._sum(of, epsilon, first) == pytest.approx(math.fsum(terms), rel=2e-13)
