"""Where the OSGT beats the Gaussian in several dimensions, and where it does not."""

import math

import numpy as np
import pytest
from scipy.integrate import quad

from osgt import OSGT, PrivacyProfile
from osgt.paper.conjecture import conjecture, divergence_turn, information_excess, steps, threshold
from osgt.paper.drawing import draw_conjecture
from osgt.paper.figures import Trio, of_shape


@pytest.fixture(scope="module")
def mapped():
    done = []
    found = conjecture(lambda: done.append(1), fine=False)
    assert len(done) == steps(fine=False)
    return found


def test_map_is_the_ratio_of_the_two_deltas(mapped):
    i, j = 3, 6
    osgt, gaussian, _ = Trio.of(of_shape(mapped.shape, 400.0)).profiles(int(mapped.coordinates[i]))
    epsilon = mapped.epsilons[j]
    assert mapped.by_epsilon[i, j] == pytest.approx(math.log10(gaussian.delta(epsilon) / osgt.delta(epsilon)), abs=1e-3)


def test_it_holds_for_small_delta_and_fails_for_many_coordinates(mapped):
    values = mapped.by_epsilon
    assert np.nanmax(values) > 1
    assert np.nanmin(values) < 0
    # With one coordinate it holds at the largest ε shown, with the most it fails everywhere.
    assert values[0][~np.isnan(values[0])][-1] > 0
    assert np.all(values[-1] < 0)
    # One turn only along ε: fails, then holds.
    for row in values:
        signs = np.sign(row[~np.isnan(row) & (np.abs(row) > 1e-3)])
        assert np.all(np.diff(signs) >= 0)


def test_threshold_is_where_the_two_are_equal():
    for shape, k, delta in [(0.5976143046671969, 8, 1.6656e-4), (0.25, 32, 1.1835e-5), (1.5, 4, 3.1332e-4)]:
        epsilon, found = threshold(shape, k)
        assert found == pytest.approx(delta, rel=1e-2)
        osgt, gaussian, _ = Trio.of(of_shape(shape, 400.0)).profiles(k)
        assert osgt.delta(1.1 * epsilon) < gaussian.delta(1.1 * epsilon)
        assert osgt.delta(0.9 * epsilon) > gaussian.delta(0.9 * epsilon)


@pytest.mark.parametrize(
    ("shape", "delta", "largest"),
    [(0.1, 1e-6, 115), (0.25, 1e-3, 9), (0.5976, 1e-6, 19), (0.5976, 1e-10, 41), (1.5, 1e-6, 11)],
)
def test_largest_k_of_the_docs_page(shape, delta, largest):
    assert threshold(shape, largest)[1] >= delta > threshold(shape, largest + 1)[1]


def test_thresholds_fall_with_k(mapped):
    for values in mapped.thresholds.values():
        assert np.all(np.diff(values) < 0)


@pytest.mark.parametrize("shape", [0.25, 0.5976, 1.5])
def test_fisher_information_decides_for_many_coordinates(shape):
    excess = information_excess(shape)
    law = OSGT(shape, 1.0)
    # The information is the mean square of the score a·sign(y) + c·y.
    direct = quad(lambda y: 2 * (shape + y) ** 2 * law.pdf(y), 0, 40)[0]
    assert excess == pytest.approx(law.var() * direct - 1, rel=1e-8)
    assert excess > 0
    # Many coordinates, noise that grows with them: δ is that of a Gaussian mechanism with the information's μ.
    k = 20_000
    profile = PrivacyProfile(of_shape(shape, float(k)), coordinates=k)
    limit = PrivacyProfile(OSGT.gaussian(1.0 / math.sqrt(1 + excess)))
    assert profile.delta(1.0) == pytest.approx(limit.delta(1.0), rel=5e-3)
    assert profile.delta(1.0) > PrivacyProfile(OSGT.gaussian(1.0)).delta(1.0)


def test_large_shifts_are_the_exception():
    turn = divergence_turn(0.5976)
    assert turn == pytest.approx(1.0995, abs=1e-3)
    law = of_shape(0.5976, 1.0)
    for shift, smaller in [(0.9 * turn, False), (1.1 * turn, True)]:
        kl = quad(lambda y, s=shift: law.pdf(y) * (law.logpdf(y) - law.logpdf(y - s)), -30, 30, limit=200)[0]
        assert (kl < shift**2 / 2) is smaller


def test_picture(mapped, tmp_path):
    assert [path.name for path in draw_conjecture(mapped, tmp_path)] == ["conjecture.png", "conjecture.svg"]
