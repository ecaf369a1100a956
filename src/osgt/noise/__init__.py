"""The distributions: OSGT on the reals, DiscreteOSGT on the integers, and the families behind them. No randomness."""

from osgt.noise.continuous import OSGT
from osgt.noise.discrete import DiscreteOSGT
from osgt.noise.family import End, Family, Law, family_of, on_integers, read, register, registered, scaled, written
from osgt.noise.integer import IntegerLaw
from osgt.noise.osgt_family import OSGT_FAMILY
from osgt.noise.potential import Potential
from osgt.noise.real import RealLaw

__all__ = [
    "OSGT",
    "OSGT_FAMILY",
    "DiscreteOSGT",
    "End",
    "Family",
    "IntegerLaw",
    "Law",
    "Potential",
    "RealLaw",
    "family_of",
    "on_integers",
    "read",
    "register",
    "registered",
    "scaled",
    "written",
]
