"""Least squares over the margins of a cube, against solving the normal equations."""

import itertools

import numpy as np
import pytest

from osgt.estimation.rounding import rounded_margins
from osgt.estimation.totals import Cube

CUBES = {
    "one key": ((3,), [(), (0,)]),
    "every margin": ((2, 3), [(), (0,), (1,), (0, 1)]),
    "some margins": ((2, 3, 4), [(0,), (0, 2), (1, 2), (0, 1, 2)]),
    "nested": ((2, 3, 2), [(), (1,), (0, 1, 2)]),
    "a key with one value": ((1, 4), [(), (0,), (1,), (0, 1)]),
    "cells alone": ((3, 2), [(0, 1)]),
    "pairs, without the cells": ((3, 2, 4), [(0,), (1,), (0, 1), (0, 2), (1, 2)]),
    "keys that never meet": ((3, 2), [(), (0,), (1,)]),
    "a margin measured twice": ((3, 2, 2), [(0, 1), (0,), (0, 1), (1, 2)]),
}


def design(shape, margins):
    """Which cells each number of a margin is the sum of."""
    cells = list(itertools.product(*map(range, shape)))
    return np.array(
        [
            [float(all(cell[axis] == value for axis, value in zip(margin, key, strict=True))) for cell in cells]
            for margin in margins
            for key in itertools.product(*(range(shape[axis]) for axis in margin))
        ]
    )


def made(name, seed):
    shape, margins = CUBES[name]
    rng = np.random.default_rng(seed)
    variances = [float(v) for v in rng.uniform(0.2, 3.0, len(margins))]
    largest = [not any(set(margin) < set(other) for other in margins) for margin in margins]
    kept = [v if needed or rng.random() < 0.7 else None for v, needed in zip(variances, largest, strict=True)]
    cube = Cube(shape, margins, kept)
    matrix = design(shape, margins)
    weights = np.concatenate([np.full(n, 0.0 if v is None else 1 / v) for n, v in zip(cube.sizes, kept, strict=True)])
    return cube, matrix, weights, rng


def by_margin(cube, array):
    return np.split(array, np.cumsum(cube.sizes)[:-1])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", CUBES)
class TestAgainstTheNormalEquations:
    def test_estimates(self, name, seed):
        cube, matrix, weights, rng = made(name, seed)
        values = rng.normal(size=(len(matrix), 2))
        normal = matrix.T @ (weights[:, None] * matrix)
        exact = matrix @ np.linalg.pinv(normal, hermitian=True) @ (matrix.T @ (weights[:, None] * values))
        np.testing.assert_allclose(np.concatenate(cube.estimates(by_margin(cube, values))), exact, atol=1e-12)

    def test_variances(self, name, seed):
        cube, matrix, weights, _ = made(name, seed)
        covariance = matrix @ np.linalg.pinv(matrix.T @ (weights[:, None] * matrix), hermitian=True) @ matrix.T
        np.testing.assert_allclose(np.concatenate(cube.variances_of_estimates), np.diag(covariance), rtol=1e-12)

    def test_weights(self, name, seed):
        cube, matrix, weights, rng = made(name, seed)
        asked = rng.normal(size=(len(matrix), 3))
        covariance = matrix @ np.linalg.pinv(matrix.T @ (weights[:, None] * matrix), hermitian=True) @ matrix.T
        exact = weights[:, None] * (covariance @ asked)
        np.testing.assert_allclose(np.concatenate(cube.weights(by_margin(cube, asked))), exact, atol=1e-12)

    def test_shares(self, name, seed):
        """The change of the weighted sum of variances with that of the noise on each margin."""
        cube, _, _, rng = made(name, seed)
        counted = rng.uniform(0.5, 2.0, len(cube.margins)).tolist()

        def error(variances):
            result = Cube(cube.shape, cube.margins, variances).variances_of_estimates
            return sum(weight * each[0] for weight, each in zip(counted, result, strict=True))

        shares = cube.shares(counted)
        for i, variance in enumerate(cube.variances):
            if variance is not None:
                ends = [[v * f if i == j else v for j, v in enumerate(cube.variances)] for f in (0.999, 1.001)]
                change = (error(ends[1]) - error(ends[0])) / (0.002 * variance)
                assert shares[i] == pytest.approx(change, rel=1e-5, abs=1e-12)
        whole = sum(share * v for share, v in zip(shares, cube.variances, strict=True) if v is not None)
        assert whole == pytest.approx(error(cube.variances))


def test_what_is_consistent_stays():
    cube, matrix, _, rng = made("every margin", 0)
    values = matrix @ rng.integers(0, 1000, (matrix.shape[1], 1)).astype(float)
    np.testing.assert_allclose(np.concatenate(cube.estimates(by_margin(cube, values))), values, rtol=1e-12)


def test_every_margin_of_a_large_cube():
    """All eight margins of 3 × 12 × 104, measured alike: the variance of each falls from 8 to 5.5."""
    margins = [margin for n in range(4) for margin in itertools.combinations(range(3), n)]
    found = Cube((3, 12, 104), margins, [8.0] * 8).variances_of_estimates
    assert np.mean([each[0] for each in found]) == pytest.approx(5.4857, abs=1e-4)


def test_margins_of_one_measurement_are_the_same():
    """A margin that is asked for twice has one estimate, to the last bit."""
    cube = Cube((3, 2), [(0,), (0, 1), (0,)], [1.0, 2.0, 5.0])
    first, _, again = cube.estimates([np.arange(3.0), np.arange(6.0), np.ones(3)])
    assert first.tolist() == again.tolist()


def test_what_is_not_measured_must_be_a_margin():
    with pytest.raises(ValueError, match="must be measured"):
        Cube((2, 2), [(), (0, 1)], [1.0, None])
    with pytest.raises(ValueError, match="must be measured"):
        Cube((2, 2), [(0,), (1,)], [1.0, None])
    with pytest.raises(ValueError, match="at least 0"):
        Cube((2, 2), [(), (0, 1)], [-1.0, 1.0])


@pytest.mark.parametrize("shape", [(4,), (3, 5), (2, 3, 4)])
def test_rounded_margins_add_up_and_stay_near(shape):
    """Every set of margins up to all keys, in either sign: the same sums wherever keys are shared, and bounds kept."""
    rng = np.random.default_rng(len(shape))
    subsets = [m for n in range(len(shape) + 1) for m in itertools.combinations(range(len(shape)), n)]
    for _ in range(20):
        margins = [m for m in subsets if rng.random() < 0.7] or [()]
        cells = rng.normal(0, 30, (*shape, 2))
        exact = [cells.sum(axis=tuple(a for a in range(len(shape)) if a not in m)).reshape(-1, 2) for m in margins]
        huge = rng.integers(-(2**58), 2**58, (*shape, 2))
        base = [huge.sum(axis=tuple(a for a in range(len(shape)) if a not in m)).reshape(-1, 2) for m in margins]
        whole = rounded_margins(shape, margins, base, exact)
        known = {}
        for margin, numbers, at, near in zip(margins, whole, base, exact, strict=True):
            assert (
                np.abs(numbers - at - near).max() <= 2.0 ** max(len(margin) - 1, 0) * (0.5 if not margin else 1) + 1e-6
            )
            array = numbers.reshape(*(shape[a] for a in margin), 2)
            for n in range(len(margin) + 1):
                for some in itertools.combinations(margin, n):
                    summed = array.sum(axis=tuple(i for i, a in enumerate(margin) if a not in some)).tolist()
                    assert known.setdefault(some, summed) == summed
