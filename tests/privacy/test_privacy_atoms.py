"""Losses with atoms: integer noise and the Laplace end, next to the sums of the atoms, against enumeration."""

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from privacy_oracles import listed_delta, listed_losses, sums_of_integer_losses

from osgt import OSGT, DiscreteOSGT, PrivacyProfile

SLACK = 1e-4
NEARLY_LAPLACE = DiscreteOSGT.from_rates(0.7225, 1.432e-5)


def profile(parts):
    return PrivacyProfile.compose([PrivacyProfile(*part) for part in parts])


def integer_law(shape, scale):
    """m/σ = shape (None: the Laplace end) and about this standard deviation."""
    if shape is None:
        return DiscreteOSGT.laplace(scale)
    wide = scale * (1 + shape)
    return DiscreteOSGT(shape * wide, wide)


@pytest.mark.parametrize("gap", [-1e-6, 1e-9, 1.5e-4, 1e-3])
@pytest.mark.parametrize("coordinates", [2, 3])
def test_just_above_the_kinks_of_nearly_laplace_noise(coordinates, gap):
    parts = [(NEARLY_LAPLACE, 1, coordinates)]
    epsilon = coordinates * (0.7225 + 1.432e-5 / 2) + gap
    # All coordinates must be at or above their kinks: with one of them below, the others would be very far above.
    exact = _only_above_the_kinks(NEARLY_LAPLACE, coordinates, epsilon)
    assert exact <= profile(parts).delta(epsilon) <= exact * (1 + SLACK)


def _only_above_the_kinks(noise, coordinates, epsilon):
    """δ(ε) of shift 1 for ε near coordinates·kink: integers k ≥ 0 have losses kink + curvature·k."""
    with mp.workdps(60):
        a, c = mp.mpf(noise.slope), mp.mpf(noise.curvature)
        reach = 100
        weights = [mp.exp(-(a * k + c * k * k / 2)) for k in range(reach * 2)]
        norm = 2 * mp.fsum(weights) - 1
        law = [mp.mpf(1)]
        for _ in range(coordinates):
            law = [
                mp.fsum(law[i] * weights[k - i] for i in range(max(0, k - 2 * reach + 1), min(k + 1, len(law))))
                for k in range(2 * reach)
            ]
        kinks = coordinates * (a + c / 2)
        total = mp.mpf(0)
        for k, p in enumerate(law):
            loss = kinks + c * k
            if loss > epsilon:
                total += p / norm**coordinates * -mp.expm1(mp.mpf(epsilon) - loss)
        return total


def test_values_that_used_to_be_one():
    two = PrivacyProfile(NEARLY_LAPLACE, coordinates=2)
    assert two.delta([1.44514, 1.44529]) == pytest.approx([7.3e-8, 6.9e-11], rel=0.01)
    assert two.epsilon(1.26e-14) == pytest.approx(1.44545, rel=2e-5)


def check_falling(kind, slope, shape, shift, coordinates):
    """δ around sums of kinks near the Laplace end; each ε by itself, so that no two share their work, and together."""
    noise = kind.from_rates(slope, (slope / shape) ** 2)
    kink = shift * (noise.slope + noise.curvature * shift / 2)
    gaps = [-1e-2, -1e-6, 1e-8, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2]
    epsilons = np.array([j * kink * (1 + gap) for j in (coordinates - 2, coordinates) if j for gap in gaps])
    one = PrivacyProfile(noise, shift, coordinates)
    alone = np.array([one.delta(epsilon) for epsilon in epsilons])
    assert np.all(alone[1:] <= alone[:-1] * (1 + SLACK))
    assert np.all(np.diff(one.delta(epsilons)) <= 0)


@pytest.mark.parametrize(
    ("kind", "slope", "shape", "shift", "coordinates"),
    [
        (DiscreteOSGT, 0.7225, 191.0, 1, 2),
        (DiscreteOSGT, 1.0, 3000.0, 1, 2),
        (DiscreteOSGT, 0.3, 90.0, 2, 5),
        (DiscreteOSGT, 0.05, 400.0, 1, 20),
        (OSGT, 0.5, 80.0, 1, 3),
    ],
)
def test_delta_does_not_rise_around_sums_of_kinks(kind, slope, shape, shift, coordinates):
    check_falling(kind, slope, shape, shift, coordinates)


@pytest.mark.long
@settings(max_examples=200)
@given(
    kind=st.sampled_from([OSGT, DiscreteOSGT]),
    slope=st.floats(0.02, 3.0),
    log_shape=st.floats(math.log(60.0), math.log(3000.0)),
    shift=st.integers(1, 3),
    coordinates=st.integers(2, 20),
)
def test_delta_does_not_rise_anywhere_near_the_laplace_end(kind, slope, log_shape, shift, coordinates):
    check_falling(kind, slope, math.exp(log_shape), shift, coordinates)


@pytest.mark.parametrize(
    "parts",
    [
        [(DiscreteOSGT.laplace(1.66341), 1, 1), (DiscreteOSGT.laplace(1.06356), 3, 1)],
        [(DiscreteOSGT.laplace(2.903560717), 1, 3), (DiscreteOSGT.laplace(1.547700907), 2, 1)],
        [(DiscreteOSGT.laplace(0.7286635304), 3, 1), (DiscreteOSGT.laplace(0.6371092042), 3, 2)],
        [(DiscreteOSGT.laplace(0.05), 1, 2), (DiscreteOSGT.laplace(0.083), 2, 1)],
        [(DiscreteOSGT(0.05487951853, 1.093504166), 3, 1), (DiscreteOSGT.laplace(6.103011783), 3, 1)],
        [(DiscreteOSGT.gaussian(0.4), 1, 2), (DiscreteOSGT(2.5, 2.04), 2, 1)],
    ],
    ids=str,
)
def test_next_to_every_heavy_sum_of_losses(parts):
    """With 50 digits: above the truth, and within the slack down to a hundred-millionth of the loss."""
    losses = listed_losses(parts)
    heavy = sorted(losses, key=lambda atom: -atom[1] if atom[0] > 0 else 1)[:4]
    largest = max(loss for loss, p in losses if p > 1e-13)
    for loss in {loss for loss, p in heavy if loss > 0} | {largest}:
        for gap in (-1e-2, -1e-5, -1e-8, 1e-8, 1e-4):
            epsilon = float(loss) * (1 + gap)
            exact = listed_delta(losses, epsilon)
            if exact > 1e-20:
                assert exact <= profile(parts).delta(epsilon) <= exact * (1 + SLACK), (epsilon, exact)


def random_integer_parts(rng):
    parts = []
    for _ in range(rng.integers(1, 4)):
        shape = rng.choice([0.0, np.inf, 10 ** rng.uniform(-1, 1.5)])
        law = integer_law(None if np.isinf(shape) else shape, math.exp(rng.uniform(math.log(0.3), math.log(8.0))))
        parts.append((law, int(rng.integers(1, 4)), int(rng.integers(1, 4))))
    return parts if sum(n for _, _, n in parts) > 1 else random_integer_parts(rng)


def check_random_compositions(seed, number):
    """Excesses of δ over the truth, at ε anywhere and next to sums of losses; none may be negative."""
    rng, excesses = np.random.default_rng(seed), []
    while len(excesses) < number:
        parts = random_integer_parts(rng)
        found = sums_of_integer_losses(parts, most=2 * 10**5)
        if found is None:
            continue
        loss, log_p = found
        above = np.logaddexp.accumulate(log_p[::-1])[::-1]
        choice = np.flatnonzero((above > -30) & (loss > 0.01))
        if len(choice) == 0:
            continue
        if rng.random() < 0.5:
            near = loss[rng.choice(choice, p=np.exp(log_p[choice]) / np.sum(np.exp(log_p[choice])))]
            epsilon = near * (1 + rng.choice([-1, 1]) * 10 ** rng.uniform(-7, -1))
        else:
            epsilon = rng.uniform(0, loss[choice[-1]])
        upper = loss > epsilon
        exact = math.fsum(np.exp(log_p[upper]) * -np.expm1(epsilon - loss[upper]))
        if exact > 1e-14:
            value = profile(parts).delta(epsilon)
            assert value >= exact * (1 - 1e-8), (parts, epsilon)  # the oracle's own losses are floats
            excesses.append((value / exact - 1, epsilon, parts))
    return excesses


def test_random_compositions_of_integer_noise():
    excesses = check_random_compositions(20, 40)
    assert max(excess for excess, _, _ in excesses) <= SLACK


@pytest.mark.long
def test_thousands_of_random_compositions_of_integer_noise():
    excesses = np.array([excess for excess, _, _ in check_random_compositions(21, 5000)])
    assert np.mean(excesses > SLACK) < 2e-3
    assert np.max(excesses) < 20 * SLACK


#: For each of these the search for ε used to end at a composed loss that did not serve.
TROUBLESOME = [
    (4.5047719251765626e-11, [(OSGT.from_rates(0.98822523715268, 1.356122518643721e-05), 1, 3)]),
    (
        3.038971156311329e-16,
        [
            (DiscreteOSGT.from_rates(0.7680801673744594, 0.0), 2, 2),
            (OSGT.from_rates(3.1702011205339935, 1.127745138518061e-08), 2, 1),
        ],
    ),
    (6.291115440908855e-10, [(DiscreteOSGT.from_rates(2.81073899541143, 1.2492568880153393e-05), 4, 3)]),
    (
        2.97997079156044e-14,
        [
            (DiscreteOSGT.from_rates(0.4601647762628342, 0.0), 1, 1),
            (DiscreteOSGT.from_rates(0.028962479531032516, 1.4085306662068179e-12), 1, 20),
            (DiscreteOSGT.from_rates(0.029946526784769556, 3.611698892317434e-08), 3, 1),
        ],
    ),
    (
        6.964667712429448e-15,
        [
            (DiscreteOSGT.from_rates(0.7092649079450564, 1.2102298791498705e-08), 3, 20),
            (DiscreteOSGT.from_rates(0.3944586029774224, 0.0), 2, 5),
            (DiscreteOSGT.from_rates(0.03923866887350618, 0.0), 4, 2),
        ],
    ),
]


@pytest.mark.parametrize(
    ("delta", "parts"), TROUBLESOME, ids=lambda value: f"{value:.1e}" if value.__class__ is float else ""
)
def test_epsilon_is_not_larger_than_need_be(delta, parts):
    one = profile(parts)
    epsilon = one.epsilon(delta)
    assert one.delta(epsilon) <= delta
    assert one.delta(epsilon * (1 - 1e-6)) > 0.99 * delta
