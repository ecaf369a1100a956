"""Distributions with next to no noise: the whole mass is in a few losses, the largest among them."""

import numpy as np
import pytest

from osgt import DiscreteOSGT, PrivacyProfile, calibrate


def two_coordinates(law, epsilon):
    """δ(ε) of two coordinates that move by one, by going through all outcomes."""
    outcomes = np.arange(-40, 41)
    log_p = law.logpmf(outcomes)
    losses = log_p - law.logpmf(outcomes - 1)
    loss, mass = np.add.outer(losses, losses), np.exp(np.add.outer(log_p, log_p))
    return float(np.sum(mass * -np.expm1(np.minimum(epsilon - loss, 0.0))))


@pytest.mark.parametrize("law", [DiscreteOSGT.laplace(0.04), DiscreteOSGT(24, 1), DiscreteOSGT(100, 1.8)], ids=repr)
@pytest.mark.parametrize("epsilon", [30.0, 45.0, 48.0, 49.9])
def test_two_coordinates(law, epsilon):
    exact = two_coordinates(law, epsilon)
    delta = PrivacyProfile(law, 1, 2).delta(epsilon)
    assert exact * (1 - 1e-13) <= delta <= exact * (1 + 1e-6)


@pytest.mark.parametrize("coordinates", [2, 5])
@pytest.mark.parametrize("epsilon", [50, 100, 1e4])
def test_calibration_for_large_budgets(epsilon, coordinates):
    law = calibrate(epsilon, 1e-6, coordinates=coordinates)
    assert PrivacyProfile(law, 1, coordinates).delta(epsilon) <= 1e-6
