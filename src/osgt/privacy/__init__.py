"""The privacy loss of noise: exact privacy accounting."""

from osgt.privacy.profile import Charge, NoisyPart, PrivacyProfile

__all__ = ["Charge", "NoisyPart", "PrivacyProfile"]
