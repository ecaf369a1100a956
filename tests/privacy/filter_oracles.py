"""Oracles for the filters: δ from probability functions alone, and an analyst who plays as well as one can."""

import math

import numpy as np
from scipy.special import log_ndtr, ndtr

from osgt import DiscreteOSGT


def gauss_delta(mu, epsilon):
    """δ of two unit normal distributions μ apart, at any real ε."""
    epsilon = np.asarray(epsilon, dtype=float)
    first, second = log_ndtr(mu / 2 - epsilon / mu), epsilon + log_ndtr(-mu / 2 - epsilon / mu)
    return np.exp(first) * -np.expm1(np.minimum(second - first, 0.0))


def atoms(noise, shift=1):
    """Losses and P-masses of one coordinate: of every integer, or of Gauss–Legendre nodes on the reals."""
    scale = noise.std()
    if isinstance(noise, DiscreteOSGT):
        y = np.arange(-math.ceil(42 * scale) - 42, math.ceil(42 * scale) + 43, dtype=float)
        weights = 1.0
    else:
        panels = np.concatenate([-shift - scale * np.linspace(42, 0, 85), [-shift / 2], scale * np.linspace(0, 42, 85)])
        nodes, weights = np.polynomial.legendre.leggauss(12)
        half = np.diff(panels)[:, None] / 2
        y = (panels[:-1, None] + half * (1 + nodes)).ravel()
        weights = (half * weights).ravel()
    energy = noise.slope * np.abs(y) + 0.5 * noise.curvature * y**2
    moved = noise.slope * np.abs(y + shift) + 0.5 * noise.curvature * (y + shift) ** 2
    p = weights * np.exp(-energy)
    keep = p > 1e-40
    return (moved - energy)[keep], p[keep] / np.sum(p)


def law_on_grid(losses, masses, step, direction):
    """P-masses at multiples of the step, and the first multiple.

    "down" moves each loss; "up" divides a mass between its neighbours so that the mean of exp(-loss)
    stays, which can only help an analyst: all that she can reach is convex in exp(-loss).
    """
    lower = np.floor(losses / step + 1e-9).astype(int)
    share = {
        "down": np.zeros(len(losses)),
        "up": np.clip(np.expm1(np.minimum(lower * step - losses, 0.0)) / math.expm1(-step), 0.0, 1.0),
    }[direction]
    first = int(lower.min())
    size = int(lower.max()) - first + 2
    below = np.bincount(lower - first, weights=masses * (1 - share), minlength=size)
    return first, below + np.bincount(lower - first + 1, weights=masses * share, minlength=size)


def gauss_atoms(mu, direction, count=20_000):
    """Losses and P-masses of a Gaussian release: narrow cells at their lower end, or with their P- and Q-mass kept."""
    loss = mu * mu / 2 + mu * np.linspace(-10, 10, count + 1)
    p = np.diff(ndtr(loss / mu - mu / 2))
    q = np.diff(ndtr(loss / mu + mu / 2))
    keep = (p > 1e-30) & (q > 1e-30)
    # Cells are narrow: the loss of a whole one differs from a further division of it by less than their width squared.
    seen = np.log(p[keep] / q[keep]) + (20 * mu / count) ** 2
    return (loss[:-1][keep] if direction == "down" else seen), p[keep]


def power_on_grid(first, masses, count):
    """The sum of `count` independent copies, by direct convolution."""
    total, start = np.ones(1), 0
    for _ in range(count):
        total, start = np.convolve(total, masses), start + first
    return start, total


def followed_by_gauss(parts, mu, epsilon):
    """δ of independent coordinates [(noise, shift, count), …] and Gauss(μ) together: exact, or 1e-6 too large."""
    laws = [(atoms(noise, shift), count) for noise, shift, count in parts]
    if len(laws) == 1 and laws[0][1] == 1:
        losses, masses = laws[0][0]
    else:
        variance = sum(count * np.sum(p * loss**2) for (loss, p), count in laws)
        step = math.sqrt(variance) / 600
        start, masses = 0, np.ones(1)
        for (loss, p), count in laws:
            first, one = law_on_grid(loss, p, step, "up")
            one_start, one = power_on_grid(first, one, count)
            start, masses = start + one_start, np.convolve(masses, one)
        losses = step * (start + np.arange(len(masses)))
    keep = masses > 1e-30
    losses, masses = losses[keep], masses[keep]
    return np.array([np.sum(masses * gauss_delta(mu, e - losses)) for e in np.atleast_1d(epsilon)])


class Analyst:
    """The best that an analyst can do who sees every loss, and may release whatever the rule allows.

    By dynamic programming, backward, over the realised loss on a grid. With direction "down" all losses are rounded
    down, and what is found can really be reached; with "up" nobody can reach more.

    Parameters
    ----------
    epsilon
        The ε at which δ is sought.
    menu
        For each kind of release its losses and P-masses.
    step
        Of the grid.
    """

    def __init__(self, epsilon, menu, step, direction):
        self.epsilon, self.step, self.direction = epsilon, step, direction
        self.laws = [law_on_grid(*kind, step, direction) for kind in menu]
        span = 1.5 * epsilon
        self.grid = step * np.arange(-round(span / step), round((epsilon + span) / step) + 1)
        self.origin = round(span / step)
        self.stopped = np.maximum(-np.expm1(np.minimum(epsilon - self.grid, 0.0)), 0.0)
        size = 1 << (len(self.grid) + max(len(m) for _, m in self.laws)).bit_length()
        self.size = size
        self.spectra = [np.fft.rfft(masses[::-1], size) for _, masses in self.laws]

    def _expected(self, value, kind):
        """E[value at loss + that of one more release]; what leaves the grid is moved or counted on the safe side."""
        first, masses = self.laws[kind]
        reach = len(masses) - 1
        # Beyond the upper end: the value there, or 1. Below the lower end: nothing, or the value at the end.
        above = value[-1] if self.direction == "down" else 1.0
        below = 0.0 if self.direction == "down" else value[0]
        pad_low, pad_high = max(-first, 0), max(first + reach, 0)
        padded = np.concatenate([np.full(pad_low, below), value, np.full(pad_high, above)])
        size = self.size
        while size < len(padded) + reach:
            size *= 2
        spectrum = self.spectra[kind] if size == self.size else np.fft.rfft(masses[::-1], size)
        full = np.fft.irfft(np.fft.rfft(padded, size) * spectrum, size)
        # full[n] = Σ padded[n - reach + j]·masses[j]
        start = pad_low + first + reach
        expected = full[start : start + len(value)]
        slack = -1e-14 if self.direction == "down" else 1e-14
        return np.clip(expected + slack + (1.0 - np.sum(masses)) * (self.direction == "up"), 0.0, 1.0)

    def best(self, allowed, limits, selection=0.0, most_selections=0):
        """The largest δ that can be reached.

        Parameters
        ----------
        allowed
            Whether so many releases of each kind may stand together; fewer may whenever more may.
        limits
            The most of each kind that need to be looked at.
        selection, most_selections
            Selection δ of one more kind of release, and how many of them are allowed.
        """
        values = {}
        for state in sorted(np.ndindex(*(n + 1 for n in limits), most_selections + 1), key=sum, reverse=True):
            *counts, chosen = state
            if not allowed(tuple(counts)):
                continue
            value = self.stopped
            for kind in range(len(counts)):
                further = (*counts[:kind], counts[kind] + 1, *counts[kind + 1 :], chosen)
                if further in values:
                    value = np.maximum(value, self._expected(values[further], kind))
            if (further := (*counts, chosen + 1)) in values:
                value = np.maximum(value, selection + (1.0 - selection) * values[further])
            values[state] = value
        return float(values[(0,) * (len(limits) + 1)][self.origin])
