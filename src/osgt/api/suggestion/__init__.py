"""Recommended limits, from private histograms: charged like a release."""
