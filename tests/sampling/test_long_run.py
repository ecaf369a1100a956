"""A billion draws a distribution: cells out to probabilities of 1e-7, and a scale that is 0.1 % off is seen."""

import numpy as np
import pytest
from scipy import stats

from goodness import FALSE_ALARM
from osgt import DiscreteOSGT
from osgt.sampling import Sampler

DRAWS, BATCH = 1_000_000_000, 10_000_000


@pytest.mark.long
@pytest.mark.parametrize(
    "law",
    [DiscreteOSGT(3, 40**0.5), DiscreteOSGT.gaussian(128), DiscreteOSGT(300, 900), DiscreteOSGT.laplace(3e5)],
    ids=repr,
)
def test_a_billion_draws(law):
    tails = 10.0 ** -np.arange(1.0, 7.25, 0.25)
    upper = np.unique(law.isf(tails))
    middle = np.unique(law.ppf(np.arange(0.1, 0.95, 0.05)))
    edges = np.unique(np.concatenate([-upper, middle, upper]))  # cell i holds edges[i-1] < y ≤ edges[i]
    observed = np.zeros(len(edges) + 1, dtype=np.int64)
    sampler = Sampler(law.potential)
    for _ in range(DRAWS // BATCH):
        observed += np.bincount(np.searchsorted(edges, sampler.sample(BATCH)), minlength=len(observed))

    def p_value(other):
        # Both tails from their own side, where they are exact.
        below = np.where(edges < 0, other.cdf(edges), 1.0 - other.sf(edges))
        probability = np.diff(np.concatenate([[0.0], below, [1.0]]))
        probability[-1] = other.sf(edges[-1])
        return stats.chisquare(observed, probability / probability.sum() * DRAWS).pvalue

    assert p_value(law) > FALSE_ALARM
    assert p_value(DiscreteOSGT.from_rates(law.slope / 1.001, law.curvature / 1.001**2)) < FALSE_ALARM
