"""How noise is shared out among the parts that columns are put together from."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from osgt.calibration import Column, Part
from osgt.calibration.joint import joint_noise


def gaussian_variances(parts, columns, scales):
    """Variances of the columns for Gaussian noise with these scales, made as large as a loss of 1 needs."""
    loss = math.fsum(part.coordinates * (part.shift / scale) ** 2 for part, scale in zip(parts, scales, strict=True))
    squares = loss * np.square(scales)
    return [float(np.square(np.array(column.coefficients, dtype=float)) @ squares) for column in columns]


def even_scales(parts, columns):
    """Every part as exact in units of its shift as its heaviest column asks for."""
    weights = [max(c.weight for c in columns if c.coefficients[i]) for i in range(len(parts))]
    return [part.shift * (part.coordinates / weight) ** 0.25 for part, weight in zip(parts, weights, strict=True)]


@st.composite
def joints(draw):
    number = draw(st.integers(1, 4))
    parts = [Part(draw(st.integers(1, 5000)), draw(st.integers(1, 30))) for _ in range(number)]
    columns = []
    for i in range(number):
        coefficients = [draw(st.integers(-2500, 2500)) for _ in range(number)]
        coefficients[i] = coefficients[i] or 1
        columns.append(Column(tuple(coefficients), draw(st.floats(0.5, 1e4)), draw(st.floats(0.05, 20))))
    return parts, columns


@given(joints())
def test_no_column_pays_for_another(joint):
    parts, columns = joint
    noise = joint_noise(parts, discrete=False, family="osgt", columns=columns)
    found = gaussian_variances(parts, columns, noise.relative_scales(0.0))
    even = gaussian_variances(parts, columns, even_scales(parts, columns))
    assert all(mine <= theirs * (1 + 1e-9) for mine, theirs in zip(found, even, strict=True))


def test_one_column_of_several_parts_gets_what_is_best_for_it():
    parts = [Part(3, 8), Part(7500, 8)]
    columns = [Column((2500, 1), 15000.0)]
    noise = joint_noise(parts, discrete=False, family="osgt", columns=columns)
    [found] = gaussian_variances(parts, columns, noise.relative_scales(0.0))
    trials = [gaussian_variances(parts, columns, [3.0 * ratio, 7500.0])[0] for ratio in np.geomspace(0.1, 10, 401)]
    assert found == pytest.approx(min(trials), rel=1e-4)


def test_what_helps_all_columns_is_done():
    """Units, and rows less twice the units: less noise on the units helps both."""
    parts, columns = [Part(1, 8), Part(1, 8)], [Column((1, 0)), Column((2, 1), 3.0)]
    noise = joint_noise(parts, discrete=False, family="osgt", columns=columns)
    found = gaussian_variances(parts, columns, noise.relative_scales(0.0))
    even = gaussian_variances(parts, columns, even_scales(parts, columns))
    assert all(mine < 0.97 * theirs for mine, theirs in zip(found, even, strict=True))
