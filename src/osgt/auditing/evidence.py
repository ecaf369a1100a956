"""Evidence from counts: how much better what was learned explains them than the claim does, whatever made one stop.

Draws come in two parts: of the first, event by event, a guess is learned; the second is judged. Let k of n judged draws
be hits, and let the guess be Beta(a, b) with a - ½ hits and b - ½ misses learned. If p is the probability of a hit,

    E(p) = B(a + k, b + n - k) / B(a, b) / (p^k·(1 - p)^(n - k))

is a mixture of likelihood ratios: a nonnegative martingale in the number of judged draws that starts at 1. By Ville's
inequality it ever reaches 1/α with probability at most α, so that one may look at any time and stop at any time. What
is claimed is a set of probabilities. The least E over this set is at most E at the truth if the truth is in the set,
and the mean of several such numbers (over events) is bounded in the same way: that is the evidence, and 1/evidence is
a p-value.

Claims are such sets: what a mechanism promises, as lines p ≤ e^ε·q + δ for the probabilities of an event on
neighbouring data.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy

from osgt.auditing.result import Budget
from osgt.calibration.joint import budget as checked_budget
from osgt.support.numeric import Floats, Integers

#: Logarithms of evidence are off by less than this for up to 10¹⁰ draws; it is taken off.
_ROUNDING = 1e-3

#: Halvings in the search for the least evidence and for limits: to 1e-24 and to 1e-18, far below one over any number
#: of draws.
_HALVINGS, _ROUNDS = 80, 60

#: Draws that are judged before evidence is looked at first; then it is whenever they are twice as many.
_FIRST_LOOK = 1 << 8

#: Points of a curve, and the least δ among them: with fewer draws than 1/δ the lines beyond say nothing.
_POINTS, _LEAST_DELTA = 48, 1e-10

#: A curve is named by its ε at this δ.
_TOLD = 1e-6

#: Where an ε is looked for, and how: so many at once, so many times.
_LEAST, _MOST, _AT_ONCE, _SEARCHES = 2.0**-20, 2.0**12, 65, 4


@dataclass(frozen=True)
class Counts:
    """Hits of some events, in the draws that were learned from and in those that are judged."""

    learned: Integers
    learned_draws: int
    judged: Integers
    judged_draws: int

    @cached_property
    def explained(self) -> Floats:
        """The logarithm of the probability of the judged draws under what was learned."""
        a, b = self.learned + 0.5, self.learned_draws - self.learned + 0.5
        return np.asarray(
            scipy.special.betaln(a + self.judged, b + self.judged_draws - self.judged) - scipy.special.betaln(a, b)
        )

    @property
    def share(self) -> Floats:
        """The share of hits among all draws."""
        return np.asarray((self.learned + self.judged) / (self.learned_draws + self.judged_draws))

    def of(self, hits: Callable[[Integers], Any]) -> "Counts":
        """The counts of other events, whose hits follow from the hits of these."""
        return Counts(hits(self.learned), self.learned_draws, hits(self.judged), self.judged_draws)

    def others(self) -> "Counts":
        """The complements of the events."""
        return Counts(
            self.learned_draws - self.learned, self.learned_draws, self.judged_draws - self.judged, self.judged_draws
        )

    def limits(self, error: float) -> tuple[Floats, Floats]:
        """Limits of each probability: all p with E(p) < 1/error. Each wrong with at most this probability, ever."""
        middle = self.judged / self.judged_draws
        result = []
        for end in (0.0, 1.0):
            outside, inside = np.full(middle.shape, end), middle
            for _ in range(_ROUNDS):
                between = 0.5 * (outside + inside)
                is_out = log_against(self, between) >= -math.log(error)
                outside, inside = np.where(is_out, between, outside), np.where(is_out, inside, between)
            result.append(outside)
        return result[0], result[1]


def count_hits(
    count: Callable[[int], Integers],
    learned: tuple[Integers, int],
    budget: Budget,
    name: str,
    is_refuted: Callable[[Counts], bool],
    batch: int = 1 << 16,
) -> Counts:
    """Count hits after those that were learned from, until a claim is refuted or the budget is used up.

    Parameters
    ----------
    count
        The hits of all events in so many new draws.
    learned
        Hits in draws that are not judged, and how many draws these are.
    """
    counts, look = Counts(*learned, np.zeros_like(learned[0]), 0), _FIRST_LOOK
    while (done := counts.learned_draws + counts.judged_draws) < budget.draws:
        if counts.judged_draws and budget.used() >= 1:
            break
        size = min(batch, budget.draws - done)
        counts = replace(counts, judged=counts.judged + count(size), judged_draws=counts.judged_draws + size)
        budget.tell(name, done + size)
        if counts.judged_draws >= look:
            look *= 2
            if is_refuted(counts):
                break
    return counts


def log_against(counts: Counts, probability: Floats) -> Floats:
    """log E of each event against its known probability."""
    k, n = counts.judged, counts.judged_draws
    return np.asarray(
        counts.explained - scipy.special.xlogy(k, probability) - scipy.special.xlog1py(n - k, -probability) - _ROUNDING
    )


def log_against_cells(counts: Counts, probability: Floats) -> float:
    """log E of all cells of a partition together (a Dirichlet in place of the Beta), against their probabilities."""
    a, n = counts.learned + 0.5, counts.judged
    mixed = (
        scipy.special.gammaln(a.sum())
        - scipy.special.gammaln(a.sum() + n.sum())
        + np.sum(scipy.special.gammaln(a + n) - scipy.special.gammaln(a))
    )
    return float(mixed - np.sum(scipy.special.xlogy(n, probability))) - _ROUNDING


def log_against_line(first: Counts, second: Counts, epsilon: Any, delta: Any) -> Floats:
    """The least log E over all p, q with p ≤ e^ε·q + δ; an event has probability p in the first and q in the second.

    -log of the likelihood is convex in (p, q) and so is the set. So the least is at the observed shares or, if these
    are outside, on the line: one bisection of a derivative that grows along it. Epsilon and delta are broadcast.
    """
    growth, delta = np.exp(np.asarray(epsilon, dtype=np.float64)), np.asarray(delta, dtype=np.float64)
    n, m = float(first.judged_draws), float(second.judged_draws)
    growth, delta, k, h = np.broadcast_arrays(growth, delta, first.judged.astype(float), second.judged.astype(float))
    q = h / m
    low, high = np.zeros(k.shape), np.clip((1.0 - delta) / growth, 0.0, 1.0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            p = growth * middle + delta
            rising = growth * ((n - k) / (1.0 - p) - k / p) + (m - h) / (1.0 - middle) - h / middle > 0
            low, high = np.where(rising, low, middle), np.where(rising, middle, high)
        on_line = 0.5 * (low + high)
        inside = k / n <= growth * q + delta
        at_q = np.where(inside, q, on_line)
        at_p = np.where(inside, k / n, np.minimum(growth * on_line + delta, 1.0))
        unlikely = -(
            scipy.special.xlogy(k, at_p)
            + scipy.special.xlog1py(n - k, -at_p)
            + scipy.special.xlogy(h, at_q)
            + scipy.special.xlog1py(m - h, -at_q)
        )
    return np.asarray(first.explained + second.explained + unlikely - _ROUNDING)


def log_mean(logs: Any) -> float:
    """The logarithm of the mean of numbers that are given by their logarithms."""
    logs = np.asarray(logs, dtype=np.float64).ravel()
    return float(np.logaddexp.reduce(logs) - math.log(len(logs)))


def p_value(log_evidence: float) -> float:
    """Bound the probability of as much evidence, at any time, if the claim holds."""
    return math.exp(-min(max(log_evidence, 0.0), 700.0))  # never 0: that is no probability of anything


def epsilon_at(profile: Any, delta: float) -> float:
    """An ε at which the δ of a profile is no larger than this one, and the least to four digits."""
    tried = np.geomspace(_LEAST, _MOST, _AT_ONCE)
    for _ in range(_SEARCHES):
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
            epsilon, delta = checked_budget(epsilon, delta)
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
