"""The distributions: OSGT on the reals, DiscreteOSGT and RoundedGaussian on the integers, families."""

from osgt.noise.family import (
    Distribution,
    End,
    Family,
    family_of,
    on_integers,
    read,
    register,
    registered,
    scaled,
    written,
)
from osgt.noise.integer import IntegerDistribution, RoundedGaussian
from osgt.noise.osgt import OSGT, OSGT_FAMILY, DiscreteOSGT
from osgt.noise.potential import Potential, RealDistribution

__all__ = [
    "OSGT",
    "OSGT_FAMILY",
    "DiscreteOSGT",
    "Distribution",
    "End",
    "Family",
    "IntegerDistribution",
    "Potential",
    "RealDistribution",
    "RoundedGaussian",
    "family_of",
    "on_integers",
    "read",
    "register",
    "registered",
    "scaled",
    "written",
]
