"""Publish statistics about people with the least noise that a privacy budget allows."""

from osgt.noise import OSGT, DiscreteOSGT
from osgt.privacy import PrivacyProfile

__all__ = ["OSGT", "DiscreteOSGT", "PrivacyProfile"]
