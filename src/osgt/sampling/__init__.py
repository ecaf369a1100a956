"""Exact draws from the distributions on the integers.

All of this layer is exact; the floating-point numbers of noise/ and privacy/ have stated errors.
"""

from osgt.sampling.fast import Sampler, sampler_for

__all__ = ["Sampler", "sampler_for"]
