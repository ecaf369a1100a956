"""The experiment that the paper's conclusion asks for: δ(ε) measured on what the mechanism puts out.

A data set of people with eight yes/no answers is counted, and its neighbour has one person more, who says yes to all.
The mechanism adds exact integer noise to the eight counts, many times for each of the two. What an outcome y says about
the person is L(y) = log P[y | data]/P[y | neighbour], and δ(ε) is measured in three ways:

- *counted*: the share of outcomes with L ≥ ε under the one, less exp(ε) times the share under the other. Uses nothing
  but counts; limits by Clopper and Pearson.
- *averaged*: the mean of max(1 - exp(ε - L), 0) under the first. Limits by the empirical Bernstein inequality.
- *weighted*: the same mean by importance sampling, for δ that no direct run can reach.

Importance sampling draws exactly from a shifted distribution and weights back. Noise that gives the person away is
negative in every coordinate. There the OSGT is a piece of a Gaussian with the same σ, so the proposal is that Gaussian
on the integers, moved to -s: P/proposal is exp(-θ·L) times a constant with θ = m + s as long as all coordinates are
≤ 0, and less than that where some are not. Hence

    weight·max(1 - exp(ε - L), 0) ≤ constant·exp(-θ·ε)·θ^θ/(1 + θ)^(1 + θ),

a bounded variable, whose mean has rigorous limits from the empirical Bernstein inequality. The shift s is the integer
for which that bound is least.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainccinv, betaincinv

from osgt.auditing.curve import Measured, judge
from osgt.auditing.evidence import Claim, Counts
from osgt.auditing.result import Check
from osgt.mechanism import Mechanism
from osgt.noise import DiscreteOSGT
from osgt.paper.drawing import Axis, Curve, Panel, Picture
from osgt.paper.figures import DIMENSIONS, EIGHT, whole_law_of
from osgt.privacy import PrivacyProfile
from osgt.support.numeric import Floats, Integers

#: All intervals of one run hold together with this confidence.
CONFIDENCE = 0.999
#: Applications are made and counted this many at a time, which bounds the memory at a few megabytes.
BATCH = 1 << 16
#: Sums of noise beyond this many standard deviations do not occur (probability below 1e-100 for these distributions).
_REACH = 40


@dataclass(frozen=True)
class Estimate:
    """δ at each ε, with limits that hold together with the stated confidence."""

    method: str
    applications: int
    confidence: float
    epsilon: Floats
    value: Floats
    low: Floats
    high: Floats

    def covers(self, truth: Floats) -> bool:
        """Whether every interval contains the truth."""
        return bool(np.all((self.low <= truth) & (truth <= self.high)))


@dataclass(frozen=True)
class Tally:
    """Outcomes counted by what they say: `counts[j, s + reach]` of them had sum s and j coordinates above the data.

    All sums are of y - data. For an OSGT these two numbers are all that L depends on.
    """

    law: DiscreteOSGT
    coordinates: int
    reach: int
    counts: Integers

    @property
    def applications(self) -> int:
        """The number of outcomes that were counted."""
        return int(self.counts.sum())

    def losses(self) -> Floats:
        """L of each cell of `counts`."""
        above = np.arange(self.coordinates + 1)[:, np.newaxis]
        return loss(self.law, self.coordinates, np.arange(-self.reach, self.reach + 1)[np.newaxis, :], above)

    def reaching(self, levels: Floats) -> Integers:
        """Count the outcomes that have an L of at least each level."""
        losses = self.losses()
        return np.array([self.counts[losses >= level].sum() for level in levels], dtype=np.int64)


def loss(law: DiscreteOSGT, coordinates: int, total: NDArray[np.integer], above: NDArray[np.integer]) -> Floats:
    """L = log P[y | data]/P[y | data + 1] from the sum of y - data and the number of its positive entries.

    A coordinate at n ≤ 0 contributes U(1 - n) - U(-n) = a - c·n + c/2, one at n ≥ 1 contributes -a - c·n + c/2.
    """
    offset = 0.5 * law.curvature * coordinates
    return np.asarray(law.slope * (coordinates - 2.0 * above) - law.curvature * total + offset, dtype=np.float64)


def tally(
    mechanism: Mechanism,
    law: DiscreteOSGT,
    data: Integers,
    answers: Integers,
    applications: int,
    progress: Callable[[int], object] = lambda done: None,
) -> Tally:
    """Apply the mechanism to `answers` and count the outcomes by what they say for `data` against `data + 1`.

    `law` is the one that the observer believes in; whether it is the mechanism's is what the experiment finds out.
    """
    coordinates = len(data)
    reach = math.ceil(_REACH * law.std() * math.sqrt(coordinates))
    counts = np.zeros((coordinates + 1) * (2 * reach + 1), dtype=np.int64)
    column = data[:, np.newaxis]
    for start in range(0, applications, BATCH):
        size = min(BATCH, applications - start)
        noise = mechanism.release(np.broadcast_to(answers[:, np.newaxis], (coordinates, size)))
        noise -= column
        total = noise.sum(axis=0)
        if max(int(total.max()), -int(total.min())) > reach:
            raise RuntimeError(f"the mechanism's noise is beyond {_REACH} standard deviations: it is not {law!r}")
        above = (noise > 0).view(np.int8).sum(axis=0, dtype=np.int64)
        counts += np.bincount(above * (2 * reach + 1) + total + reach, minlength=len(counts))
        progress(size)
    return Tally(law, coordinates, reach, counts.reshape(coordinates + 1, 2 * reach + 1))


def counted(first: Tally, second: Tally, epsilon: Floats, error: float) -> Estimate:
    """δ from the shares of outcomes with L ≥ ε under the data set and under its neighbour."""
    single = error / (4 * len(epsilon))  # two shares for each ε, two sides for each share
    shares = []
    for one in (first, second):
        hits = one.reaching(epsilon)
        shares.append((hits / one.applications, *clopper_pearson(hits, one.applications, single)))
    growth = np.exp(epsilon)
    (value, low, high), (value_2, low_2, high_2) = shares
    limits = np.maximum(low - growth * high_2, 0.0), high - growth * low_2
    applications = first.applications + second.applications
    return Estimate("counted", applications, 1 - error, epsilon, value - growth * value_2, *limits)


def clopper_pearson(hits: NDArray[np.integer], trials: int, error: float) -> tuple[Floats, Floats]:
    """Limits of a probability, each wrong with probability at most `error` (Clopper and Pearson 1934)."""
    low = np.where(hits > 0, betaincinv(np.maximum(hits, 1), trials - hits + 1, error), 0.0)
    high = np.where(hits < trials, betainccinv(hits + 1, np.maximum(trials - hits, 1), error), 1.0)
    return low, high


def averaged(first: Tally, epsilon: Floats, error: float) -> Estimate:
    """δ as the mean of max(1 - exp(ε - L), 0)."""
    losses, share = first.losses(), first.counts / first.applications
    terms = [-np.expm1(np.minimum(e - losses, 0.0)) for e in epsilon]
    mean = np.array([np.sum(share * term) for term in terms])
    square = np.array([np.sum(share * term**2) for term in terms])
    sums = Sums("averaged", first.applications, epsilon, mean, square, np.ones(len(epsilon)))
    return sums.estimate(error)


@dataclass(frozen=True)
class Sums:
    """Mean and mean square of variables whose mean is δ, in units of their bounds, at each ε."""

    method: str
    applications: int
    epsilon: Floats
    mean: Floats
    square: Floats
    largest: Floats

    def estimate(self, error: float) -> Estimate:
        """δ at each ε; the limits hold together with confidence 1 - `error`."""
        limits = empirical_bernstein(self.mean, self.square, self.applications, error / len(self.epsilon))
        values = (number * self.largest for number in (self.mean, *limits))
        return Estimate(self.method, self.applications, 1 - error, self.epsilon, *values)


def empirical_bernstein(mean: Floats, square: Floats, trials: int, error: float) -> tuple[Floats, Floats]:
    """Limits of the mean of independent variables in [0, 1] (Maurer and Pontil 2009, Theorem 4).

    Both hold together with probability at least 1 - `error`, whatever the distribution and however many trials.
    """
    log = math.log(4 / error)
    variance = np.maximum(square - mean**2, 0.0) * trials / (trials - 1)
    width = np.sqrt(2 * variance * log / trials) + 7 * log / (3 * (trials - 1))
    return np.maximum(mean - width, 0.0), mean + width


@dataclass(frozen=True)
class Proposal:
    """The discrete Gaussian `sampler` moved to -shift, and what is needed to weight its draws back to `law`."""

    law: DiscreteOSGT
    sampler: DiscreteOSGT
    coordinates: int
    epsilon: float
    shift: int
    #: log P/proposal of a coordinate at 0.
    log_weight_at_zero: float

    @property
    def largest(self) -> float:
        """A bound on the weighted variable."""
        theta = self.law.m + self.shift
        at_zero = self.law.slope + 0.5 * self.law.curvature  # L of a coordinate at 0
        exponent = self.coordinates * (self.log_weight_at_zero + theta * at_zero) - theta * self.epsilon
        return math.exp(exponent + theta * math.log(theta) - (1 + theta) * math.log1p(theta))

    def draw(self, size: int) -> Floats:
        """`size` independent values of the weighted variable, whose mean is δ(ε)."""
        draws = np.asarray(self.sampler.sample((self.coordinates, size)))
        draws -= self.shift
        total = draws.sum(axis=0)
        losses = loss(self.law, self.coordinates, total, (draws > 0).sum(axis=0))
        log_weight = self.coordinates * self.log_weight_at_zero + self.law.curvature * self.shift * total
        log_weight -= self.law.slope * np.abs(draws).sum(axis=0)
        return np.asarray(np.exp(log_weight) * -np.expm1(np.minimum(self.epsilon - losses, 0.0)))


def proposal(law: DiscreteOSGT, coordinates: int, epsilon: float) -> Proposal:
    """The proposal with the least bound."""
    if not 0 < law.m < math.inf:
        raise ValueError(f"law must lie between the Gaussian and the Laplace, got {law!r}")
    sampler = DiscreteOSGT.from_rates(0.0, law.curvature)
    shifts = np.arange(math.ceil(10 * law.sigma))
    weights = law.logpmf(0) - sampler.logpmf(shifts)
    candidates = (
        Proposal(law, sampler, coordinates, epsilon, int(shift), float(weight))
        for shift, weight in zip(shifts, weights, strict=True)
    )
    return min(candidates, key=lambda candidate: candidate.largest)


def weighted(
    law: DiscreteOSGT,
    coordinates: int,
    epsilon: Floats,
    applications: int,
    progress: Callable[[int], object] = lambda done: None,
) -> Sums:
    """Draw `applications` weighted outcomes for each ε."""
    mean, square, largest = np.zeros(len(epsilon)), np.zeros(len(epsilon)), np.zeros(len(epsilon))
    for i, e in enumerate(epsilon):
        chosen = proposal(law, coordinates, float(e))
        largest[i] = chosen.largest
        for start in range(0, applications, BATCH):
            size = min(BATCH, applications - start)
            values = chosen.draw(size) / largest[i]  # in units of the bound: the square of 1e-200 would be 0
            mean[i] += values.sum()
            square[i] += values @ values
            progress(size)
    return Sums("weighted", applications, epsilon, mean / applications, square / applications, largest)


#: Applications of the mechanism to the data set and as many to its neighbour, and weighted ones for each ε.
DEFAULT = (4_000_000, 1 << 18)
FULL = (500_000_000, 1 << 23)

#: The verdict on a correct mechanism is wrong at most this often.
FALSE_ALARM = 1e-9

#: The ε at which δ is measured.
_EPSILONS = np.linspace(0.0, 1.2, 25)
#: A direct run measures δ where it expects at least this many outcomes' worth of it.
_LEAST_EXPECTED = 100


@dataclass(frozen=True)
class Measurement:
    """The counts of an experiment, and what theory says at the same ε."""

    profile: PrivacyProfile
    data: Integers
    neighbour: Integers
    on_data: Tally
    on_neighbour: Tally
    sums: Sums

    @cached_property
    def direct_epsilons(self) -> Floats:
        """The ε at which a direct run of this size can see δ."""
        worth = self.truth(_EPSILONS) * self.on_data.applications
        return _EPSILONS[worth >= _LEAST_EXPECTED]

    def truth(self, epsilon: Floats) -> Floats:
        """δ(ε) of the accounting, tight to a millionth."""
        return np.asarray(self.profile.delta(epsilon, slack=1e-6))

    def estimates(self, error: float = 1 - CONFIDENCE) -> tuple[Estimate, Estimate, Estimate]:
        """The three estimates; all their limits hold together with confidence 1 - `error`."""
        direct = self.direct_epsilons
        return (
            counted(self.on_data, self.on_neighbour, direct, error / 3),
            averaged(self.on_data, direct, error / 3),
            self.sums.estimate(error / 3),
        )

    @cached_property
    def audit(self) -> Check:
        """The audit of the same outcomes, against the whole curve that is claimed."""
        levels = np.concatenate([-self.direct_epsilons[:0:-1], self.direct_epsilons])
        nothing = np.zeros(len(levels), dtype=np.int64)
        events = [f"the privacy loss reaches {level:.6g}" for level in levels]
        on_data, on_neighbour = (
            Counts(nothing, 0, one.reaching(levels), one.applications) for one in (self.on_data, self.on_neighbour)
        )
        measured = Measured(events, on_data, on_neighbour)
        return judge(measured, Claim.of(None, None, self.profile), FALSE_ALARM / 2, "experiment")

    @cached_property
    def agrees(self) -> bool:
        """Whether all limits at the false-alarm rate contain what theory says, and an audit finds nothing."""
        estimates = self.estimates(FALSE_ALARM / 2)
        return self.audit.passed and all(one.covers(self.truth(one.epsilon)) for one in estimates)


def measure(
    applications: int = DEFAULT[0],
    weighted_applications: int = DEFAULT[1],
    progress: Callable[[int], object] = lambda done: None,
    *,
    law: DiscreteOSGT | None = None,
) -> Measurement:
    """Apply the mechanism to a data set and to its neighbour. `law`: another noise than the stated one, as a test."""
    stated = whole_law_of(EIGHT)
    mechanism = Mechanism.of(law or stated, 1, DIMENSIONS)
    data = _people().sum(axis=0)
    neighbour = np.vstack([_people(), np.ones((1, DIMENSIONS), dtype=np.int64)]).sum(axis=0)
    return Measurement(
        PrivacyProfile(stated, coordinates=DIMENSIONS),
        data,
        neighbour,
        tally(mechanism, stated, data, data, applications, progress),
        tally(mechanism, stated, data, neighbour, applications, progress),
        weighted(stated, DIMENSIONS, _EPSILONS, weighted_applications, progress),
    )


def total_applications(applications: int, weighted_applications: int) -> int:
    """Add up the progress that `measure` reports."""
    return 2 * applications + len(_EPSILONS) * weighted_applications


def _people() -> Integers:
    """A made-up data set: 1,000 people, and whether each has each of eight properties."""
    person, question = np.arange(1000)[:, np.newaxis], np.arange(DIMENSIONS)[np.newaxis, :]
    return ((person * (2 * question + 3)) % 17 < 2 * question + 1).astype(np.int64)


#: The colours of the ways to measure, and how far their points stand aside in units of theory.
_COLOURS = {"counted": "gaussian", "averaged": "bound", "weighted": "laplace"}
_ASIDE = {"counted": -0.004, "averaged": 0.004, "weighted": 0.0}


def experiment_picture(measured: Measurement) -> Picture:
    """Measured δ(ε) on the theoretical curve, and the ratio of the two."""
    epsilon = np.linspace(0, 1.2, 121)
    theory = Curve("exact δ(ε) on the integers", "osgt", epsilon, measured.truth(epsilon))
    by_count, by_mean, by_weight = measured.estimates()
    direct = _panel(
        "Direct: outcomes on the data set and its neighbour", (theory, _points(by_count), _points(by_mean)), 0.65, 1e-8
    )
    importance = _panel("Importance sampling", (theory, _points(by_weight)), 1.22, 1e-27)
    width = 1.5 * float(np.max(by_weight.high / measured.truth(by_weight.epsilon) - 1.0))
    level = Curve("theory", "osgt", np.array([0.0, 1.2]), np.ones(2))
    ratio = Panel(
        "Measured / theory",
        Axis("ε", -0.02, 1.22),
        Axis("ratio", 1 - width, 1 + width),
        (level, *(_points(one, measured.truth(one.epsilon)) for one in (by_mean, by_weight))),
        legend="upper left",
    )
    return Picture(
        "experiment",
        f"δ(ε) measured on the outcomes, k = 8, m = 15, σ² = 630, on the integers; "
        f"all bars hold together with {CONFIDENCE:.1%} confidence",
        (direct, importance, ratio),
    )


def _panel(title: str, curves: tuple[Curve, ...], end: float, least: float) -> Panel:
    """Curves of δ(ε) down to the least δ."""
    return Panel(
        title,
        Axis("ε", 0, end),
        Axis("δ(ε)", least, 1, log=True),
        curves,
        legend="upper right",
    )


def _points(one: Estimate, theory: Floats | None = None) -> Curve:
    """The estimates with their limits; in units of what theory says, if that is given."""
    times = "draws for each ε" if one.method == "weighted" else "applications"
    label = one.method if theory is not None else f"{one.method}, {one.applications:,} {times}"
    unit = np.ones(len(one.epsilon)) if theory is None else theory
    at = one.epsilon if theory is None else one.epsilon + _ASIDE[one.method]
    return Curve(label, _COLOURS[one.method], at, one.value / unit, "points", one.low / unit, one.high / unit)
