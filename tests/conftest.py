"""Hypothesis tries the same examples every time in CI, and new ones at a desk."""

import os

from hypothesis import settings

settings.register_profile("same every time", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("same every time")
