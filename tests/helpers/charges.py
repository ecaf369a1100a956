"""Charges that the tests of the ledger use."""

from osgt import DiscreteOSGT, PrivacyProfile
from osgt.privacy import Charge


def gaussian(sigma, coordinates=1, selection_delta=0.0):
    return Charge(PrivacyProfile(DiscreteOSGT.gaussian(sigma), coordinates=coordinates), selection_delta)


def laplace(epsilon, selection_delta=0.0):
    return Charge(PrivacyProfile(DiscreteOSGT.from_rates(epsilon, 0.0)), selection_delta)


def osgt(m, sigma, coordinates=1, selection_delta=0.0):
    return Charge(PrivacyProfile(DiscreteOSGT(m, sigma), coordinates=coordinates), selection_delta)
