"""The one harness for statistical tests: p-values that must not fall below a stated false-alarm rate.

Entropy is fresh in every run. Each test is run at `FALSE_ALARM`, and beside each stands its power check: the same test,
with as many draws, must reject the distribution whose scale is 5 % larger.
"""

import numpy as np
from scipy import stats

from osgt.noise import scaled

FALSE_ALARM = 1e-9

#: The normal approximation behind chi-square must hold far out in its tail, so no cell expects fewer draws than this.
_LEAST_EXPECTED = 100


def five_percent_wider(law):
    return scaled(law, 1.05)


def chi_square(draws, law, cells=200):
    """p-value of Pearson's test on about `cells` cells with equal probability, the tails among them."""
    cells = min(cells, len(draws) // _LEAST_EXPECTED)
    edges = np.unique(law.ppf(np.arange(1, cells) / cells))  # cell i holds edges[i-1] < y ≤ edges[i]
    probabilities = np.diff(np.concatenate([[0.0], law.cdf(edges), [1.0]]))
    observed = np.bincount(np.searchsorted(edges, draws, side="left"), minlength=len(probabilities))
    keep = probabilities * len(draws) >= _LEAST_EXPECTED
    observed = np.append(observed[keep], observed[~keep].sum())
    expected = np.append(probabilities[keep], probabilities[~keep].sum()) * len(draws)
    if expected[-1] < _LEAST_EXPECTED:
        observed, expected = observed[:-1], expected[:-1] * (observed[:-1].sum() / expected[:-1].sum())
    return stats.chisquare(observed, expected).pvalue


def log_ratio(draws, law):
    """p-value of the steps of the log pmf: given that y is 2i or 2i + 1, it is 2i + 1 with a known probability."""
    low, high = int(law.ppf(1e-4)), int(law.isf(1e-4))
    even = np.arange(low - low % 2, high + 1, 2)
    counts = np.bincount(np.clip(draws - even[0] + 1, 0, 2 * len(even) + 1), minlength=2 * len(even) + 2)[1:-1]
    pairs = counts.reshape(-1, 2)
    total = pairs.sum(axis=1)
    odd = law.pmf(even + 1) / (law.pmf(even) + law.pmf(even + 1))
    variance = total * odd * (1 - odd)
    keep = variance >= _LEAST_EXPECTED / 4
    scores = (pairs[keep, 1] - total[keep] * odd[keep]) / np.sqrt(variance[keep])
    return stats.chi2.sf(np.sum(scores**2), keep.sum())


def moments(draws, law):
    """p-value of Σ|y| and Σy² together, the sufficient statistics of the family; sees a wrong scale best."""
    magnitude = np.abs(draws.astype(np.float64)) / law.std()
    scores = []
    for power, expected in ((1, law.mean_abs() / law.std()), (2, 1.0)):
        values = magnitude**power
        scores.append((values.mean() - expected) / (values.std() / np.sqrt(len(values))))
    return min(1.0, 2 * 2 * stats.norm.sf(max(abs(score) for score in scores)))


def equal_cells(counts):
    """p-value of Pearson's test that all cells are equally likely."""
    assert np.mean(counts) >= _LEAST_EXPECTED
    return stats.chisquare(counts).pvalue
