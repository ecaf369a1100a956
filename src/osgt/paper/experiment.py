"""The experiment that the paper's conclusion asks for: δ(ε) measured on what the mechanism puts out.

A data set of people with eight yes/no answers is counted, and its neighbour has one person more, who says yes to all.
The mechanism adds exact integer noise to the eight counts, many times for each of the two. What an outcome y says about
the person is L(y) = log P[y | data]/P[y | neighbour], and δ(ε) is measured in three ways:

- *counted*: the share of outcomes with L ≥ ε under the one, less exp(ε) times the share under the other. Uses nothing
  but counts; limits by Clopper and Pearson.
- *averaged*: the mean of max(1 - exp(ε - L), 0) under the first. Limits by the empirical Bernstein inequality.
- *weighted*: the same mean by importance sampling (see `importance`), for δ that no direct run can reach.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainccinv, betaincinv

from osgt.mechanism import Mechanism
from osgt.noise import DiscreteOSGT
from osgt.paper.picture import Floats

Integers = NDArray[np.int64]

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
        """How many outcomes were counted."""
        return int(self.counts.sum())

    def losses(self) -> Floats:
        """L of each cell of `counts`."""
        above = np.arange(self.coordinates + 1)[:, np.newaxis]
        return loss(self.law, self.coordinates, np.arange(-self.reach, self.reach + 1)[np.newaxis, :], above)

    def reaching(self, levels: Floats) -> Integers:
        """How many outcomes have an L of at least each level."""
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
    each = error / (4 * len(epsilon))  # two shares for each ε, two sides for each share
    shares = []
    for one in (first, second):
        hits = one.reaching(epsilon)
        shares.append((hits / one.applications, *clopper_pearson(hits, one.applications, each)))
    growth = np.exp(epsilon)
    (value, low, high), (value_2, low_2, high_2) = shares
    return Estimate(
        "counted",
        first.applications + second.applications,
        1 - error,
        epsilon,
        value - growth * value_2,
        np.maximum(low - growth * high_2, 0.0),
        high - growth * low_2,
    )


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
    low, high = empirical_bernstein(mean, square, first.applications, np.ones(len(epsilon)), error / len(epsilon))
    return Estimate("averaged", first.applications, 1 - error, epsilon, mean, low, high)


def empirical_bernstein(
    mean: Floats, square: Floats, trials: int, largest: Floats, error: float
) -> tuple[Floats, Floats]:
    """Limits of the mean of independent variables in [0, `largest`] (Maurer and Pontil 2009, Theorem 4).

    Both hold together with probability at least 1 - `error`, whatever the distribution and however many trials.
    """
    log = math.log(4 / error)
    variance = np.maximum(square - mean**2, 0.0) * trials / (trials - 1)
    width = np.sqrt(2 * variance * log / trials) + 7 * largest * log / (3 * (trials - 1))
    return np.maximum(mean - width, 0.0), mean + width
