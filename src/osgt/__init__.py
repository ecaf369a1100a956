"""Publish statistics about people with the least noise that a privacy budget allows."""

from osgt.calibrate import calibrate, compare
from osgt.mechanism import Mechanism
from osgt.noise import OSGT, DiscreteOSGT
from osgt.privacy import PrivacyProfile

__all__ = ["OSGT", "DiscreteOSGT", "Mechanism", "PrivacyProfile", "calibrate", "compare"]
