"""The laws: OSGT on the reals, DiscreteOSGT on the integers. No randomness."""

from osgt.noise.continuous import OSGT
from osgt.noise.discrete import DiscreteOSGT

__all__ = ["OSGT", "DiscreteOSGT"]
