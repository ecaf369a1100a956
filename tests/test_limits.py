"""The shared limits: what they allow works, and what lies just beyond is refused by the parts that use them."""

import math

import mpmath
import numpy as np
import pytest

from osgt import DiscreteOSGT, Mechanism
from osgt.support.numeric import LARGEST_NOISE_SCALE, LARGEST_SHIFT, LARGEST_SUM, LARGEST_VALUE, can_be_drawn

#: Distributions whose potential is ½ at the largest scale, and just beyond it.
LARGEST = [
    lambda factor: DiscreteOSGT.laplace(2.0 * LARGEST_NOISE_SCALE * factor),
    lambda factor: DiscreteOSGT.gaussian(float(LARGEST_NOISE_SCALE) * factor),
    lambda factor: DiscreteOSGT.from_rates(
        0.25 / LARGEST_NOISE_SCALE / factor, 0.5 / LARGEST_NOISE_SCALE**2 / factor**2
    ),
]


@pytest.mark.parametrize("noise_of", LARGEST)
def test_what_can_be_drawn_is_drawn_and_the_rest_refused(noise_of):
    allowed, beyond = noise_of(1.0), noise_of(1.0 + 1e-9)
    assert can_be_drawn(allowed.potential)
    assert np.abs(allowed.sample(2000)).max() < LARGEST_VALUE
    assert not can_be_drawn(beyond.potential)
    with pytest.raises(ValueError, match="too large to be drawn"):
        beyond.sample(1)


@pytest.mark.parametrize("noise_of", LARGEST)
def test_the_largest_noise_that_can_be_drawn_fits_into_64_bits(noise_of):
    """The chance of noise beyond 2⁶², bounded by the integral of the density on the reals with 50 digits."""
    noise = noise_of(1.0)
    slope, curvature = mpmath.mpf(noise.slope), mpmath.mpf(noise.curvature)
    with mpmath.workdps(50):
        # U is convex: beyond 2⁶² it grows at least at its slope there.
        rate = slope + curvature * LARGEST_VALUE
        tail = mpmath.exp(-(slope * LARGEST_VALUE + curvature * LARGEST_VALUE**2 / 2)) / (1 - mpmath.exp(-rate))
        assert 2 * tail < 1e-94
    assert LARGEST_VALUE + LARGEST_VALUE <= 2**63
    assert LARGEST_SUM + LARGEST_VALUE + LARGEST_NOISE_SCALE * math.ceil(-math.log(1e-9)) < 2**63


@pytest.mark.parametrize("shift", [LARGEST_SHIFT, LARGEST_SHIFT - 1])
def test_the_largest_shift_works(shift):
    noisy = Mechanism(1, 1e-6, shift=shift).release([0, LARGEST_VALUE, -LARGEST_VALUE])
    assert noisy.dtype == np.int64


def test_a_larger_shift_is_refused():
    with pytest.raises(ValueError, match="shift must be"):
        Mechanism(1, 1e-6, shift=LARGEST_SHIFT + 1)
