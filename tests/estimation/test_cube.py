"""Least squares over the margins of a cube, against solving the normal equations."""

import itertools

import numpy as np
import pytest

from osgt.estimation.totals import Cube

CUBES = {
    "one key": ((3,), [(), (0,)]),
    "every margin": ((2, 3), [(), (0,), (1,), (0, 1)]),
    "some margins": ((2, 3, 4), [(0,), (0, 2), (1, 2), (0, 1, 2)]),
    "nested": ((2, 3, 2), [(), (1,), (0, 1, 2)]),
    "a key with one value": ((1, 4), [(), (0,), (1,), (0, 1)]),
    "cells alone": ((3, 2), [(0, 1)]),
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
    kept = [v if len(m) == len(shape) or rng.random() < 0.7 else None for m, v in zip(margins, variances, strict=True)]
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
        exact = matrix @ np.linalg.solve(normal, matrix.T @ (weights[:, None] * values))
        np.testing.assert_allclose(np.concatenate(cube.estimates(by_margin(cube, values))), exact, atol=1e-12)

    def test_variances(self, name, seed):
        cube, matrix, weights, _ = made(name, seed)
        covariance = matrix @ np.linalg.inv(matrix.T @ (weights[:, None] * matrix)) @ matrix.T
        np.testing.assert_allclose(np.concatenate(cube.variances_of_estimates), np.diag(covariance), rtol=1e-12)

    def test_weights(self, name, seed):
        cube, matrix, weights, rng = made(name, seed)
        asked = rng.normal(size=(len(matrix), 3))
        covariance = matrix @ np.linalg.inv(matrix.T @ (weights[:, None] * matrix)) @ matrix.T
        exact = weights[:, None] * (covariance @ asked)
        np.testing.assert_allclose(np.concatenate(cube.weights(by_margin(cube, asked))), exact, atol=1e-12)


def test_what_is_consistent_stays():
    cube, matrix, _, rng = made("every margin", 0)
    values = matrix @ rng.integers(0, 1000, (matrix.shape[1], 1)).astype(float)
    np.testing.assert_allclose(np.concatenate(cube.estimates(by_margin(cube, values))), values, rtol=1e-12)


def test_every_margin_of_a_large_cube():
    """All eight margins of 3 × 12 × 104, measured alike: the variance of each falls from 8 to 5.5."""
    margins = [margin for n in range(4) for margin in itertools.combinations(range(3), n)]
    found = Cube((3, 12, 104), margins, [8.0] * 8).variances_of_estimates
    assert np.mean([each[0] for each in found]) == pytest.approx(5.4857, abs=1e-4)


def test_cells_must_be_measured():
    with pytest.raises(ValueError, match="must be measured"):
        Cube((2, 2), [(), (0, 1)], [1.0, None])
    with pytest.raises(ValueError, match="must be measured"):
        Cube((2, 2), [()], [1.0])
    with pytest.raises(ValueError, match="above 0"):
        Cube((2, 2), [(), (0, 1)], [0.0, 1.0])
