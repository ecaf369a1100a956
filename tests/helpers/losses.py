"""Losses of numbers with noise, convolved in plain NumPy: an accounting that shares nothing with the package's own."""

import math

import numpy as np


def losses(law, shift, step, *, up):
    """The loss of a number that is moved by the shift, in whole steps, and its probabilities; rounded up or down."""
    y = np.arange(-int(law.isf(1e-18)) - shift, int(law.isf(1e-18)) + shift + 1)
    ratio = (law.logpmf(y - shift) - law.logpmf(y)) / step
    places = (np.ceil(ratio - 1e-9) if up else np.floor(ratio + 1e-9)).astype(int)
    return places.min(), np.bincount(places - places.min(), law.pmf(y - shift))


def delta_of(changes, epsilon, *, up):
    """δ(ε) of moving numbers with independent noise, by convolution of their losses: [(law, shift, how many), …]."""
    step = epsilon / 400
    parts = [(*losses(law, shift, step, up=up), n) for law, shift, n in changes if shift]
    size = 1 << math.ceil(math.log2(sum((len(masses) - 1) * n for _, masses, n in parts) + 1))
    spectrum = np.prod([np.fft.rfft(masses, size) ** n for _, masses, n in parts], axis=0)
    first = sum(place * n for place, _, n in parts)
    loss = (first + np.arange(size)) * step
    return float(np.fft.irfft(spectrum, size) @ np.maximum(-np.expm1(epsilon - np.maximum(loss, epsilon)), 0))
