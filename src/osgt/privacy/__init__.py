"""The privacy loss of noise: exact privacy accounting."""

from osgt.privacy.charge import Charge
from osgt.privacy.profile import NoisyPart, PrivacyProfile

__all__ = ["Charge", "NoisyPart", "PrivacyProfile"]
