"""Claims: what a mechanism promises, as lines p ≤ e^ε·q + δ for the probabilities of an event on neighbouring data."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from osgt.auditing.evidence import Counts, Floats, log_against_line
from osgt.calibration.joint import budget

#: Points of a curve, and the least δ among them: with fewer draws than 1/δ the lines beyond say nothing.
_POINTS, _LEAST_DELTA = 48, 1e-10

#: A curve is named by its ε at this δ.
_TOLD = 1e-6


#: Where an ε is looked for, and how: so many at once, so many times.
_LEAST, _MOST, _AT_ONCE, _ROUNDS = 2.0**-20, 2.0**12, 65, 4


def epsilon_at(profile: Any, delta: float) -> float:
    """An ε at which the δ of a profile is no larger than this one, and the least to four digits."""
    tried = np.geomspace(_LEAST, _MOST, _AT_ONCE)
    for _ in range(_ROUNDS):
        above = int(np.count_nonzero(np.asarray(profile.delta(tried)) > delta))
        if above == len(tried):
            return float(profile.epsilon(delta))
        tried = np.linspace(tried[above - 1] if above else 0.0, tried[above], _AT_ONCE)
    return float(tried[-1])


@dataclass(frozen=True, eq=False)
class Claim:
    """(ε, δ) at one or at many ε. Data and neighbour may change places."""

    words: str
    epsilons: Floats
    deltas: Floats

    @classmethod
    def of(cls, epsilon: float | None, delta: float | None, profile: Any = None) -> "Claim":
        """The claim of a budget; or of a profile, which has `delta(ε)` for every ε."""
        if profile is None:
            if epsilon is None or delta is None:
                raise ValueError("epsilon and delta must be given, or the whole curve as claim=PrivacyProfile(…)")
            epsilon, delta = budget(epsilon, delta)
            return cls(f"ε = {epsilon:.15g}, δ = {delta:.15g}", np.array([epsilon]), np.array([delta]))
        if not hasattr(profile, "delta"):
            raise TypeError(f"claim must be a PrivacyProfile, or have its method delta(ε), got {profile!r}")
        epsilons = np.linspace(0.0, epsilon_at(profile, _LEAST_DELTA), _POINTS)
        deltas = np.minimum(np.asarray(profile.delta(epsilons), dtype=np.float64), 1.0)
        if epsilon is not None and delta is not None:
            epsilons, deltas = np.append(epsilons, epsilon), np.append(deltas, delta)
        return cls(f"the whole curve (ε = {epsilon_at(profile, _TOLD):.4g} at δ = {_TOLD:g})", epsilons, deltas)

    def log_evidence(self, first: Counts, second: Counts) -> Floats:
        """log E of each event against the claim: the line that says most, of those for it and for its complement."""
        epsilon, delta = self.epsilons[:, np.newaxis], self.deltas[:, np.newaxis]
        lines = np.concatenate(
            [
                log_against_line(first, second, epsilon, delta),
                log_against_line(second.others(), first.others(), epsilon, delta),
            ]
        )
        return np.asarray(lines.max(axis=0))

    def most(self, share: Floats) -> Floats:
        """The largest probability that an event may have, if the other one is this."""
        grown = np.exp(self.epsilons)[:, np.newaxis] * share + self.deltas[:, np.newaxis]
        back = 1.0 - (1.0 - share - self.deltas[:, np.newaxis]) / np.exp(self.epsilons)[:, np.newaxis]
        return np.asarray(np.minimum(np.minimum(grown, back).min(axis=0), 1.0))

    def with_epsilons(self, factor: float) -> "Claim":
        """The claim with every ε times a factor."""
        return Claim(self.words, self.epsilons * factor, self.deltas)
