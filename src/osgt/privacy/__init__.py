"""What a law gives away: exact privacy accounting."""

from osgt.privacy.profile import Part, PrivacyProfile

__all__ = ["Part", "PrivacyProfile"]
