"""One run of the experiment on the paper's eight-dimensional example, and its picture."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from osgt.auditing.claims import Claim
from osgt.auditing.curve import Measured, judged
from osgt.auditing.evidence import Counts
from osgt.auditing.result import Check
from osgt.mechanism import Mechanism
from osgt.noise import DiscreteOSGT
from osgt.paper.experiment import CONFIDENCE, Estimate, Integers, Tally, averaged, counted, tally
from osgt.paper.figures_privacy import DIMENSIONS, EIGHT
from osgt.paper.importance import WeightedSums, weighted
from osgt.paper.picture import Curve, Floats, Panel, Picture
from osgt.privacy import PrivacyProfile

#: Applications of the mechanism to the data set and as many to its neighbour, and weighted ones for each ε.
DEFAULT = (4_000_000, 1 << 18)
FULL = (500_000_000, 1 << 23)

#: The verdict on a correct mechanism is wrong at most this often.
FALSE_ALARM = 1e-9

_EPSILONS = np.linspace(0.0, 1.2, 25)
#: A direct run measures δ where it expects at least this many outcomes' worth of it.
_LEAST_EXPECTED = 100


@dataclass(frozen=True)
class Measurement:
    """What was counted, and what theory says at the same ε."""

    profile: PrivacyProfile
    data: Integers
    neighbour: Integers
    on_data: Tally
    on_neighbour: Tally
    sums: WeightedSums

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
        """What an audit says about the same outcomes, against the whole curve that is claimed."""
        levels = np.concatenate([-self.direct_epsilons[:0:-1], self.direct_epsilons])
        nothing = np.zeros(len(levels), dtype=np.int64)
        events = [f"the privacy loss reaches {level:.6g}" for level in levels]
        on_data, on_neighbour = (
            Counts(nothing, 0, one.reaching(levels), one.applications) for one in (self.on_data, self.on_neighbour)
        )
        measured = Measured(events, on_data, on_neighbour)
        return judged(measured, Claim.of(None, None, self.profile), FALSE_ALARM / 2, "experiment")

    @cached_property
    def agrees(self) -> bool:
        """Whether all limits at the false-alarm rate contain what theory says, and an audit finds nothing."""
        found = self.estimates(FALSE_ALARM / 2)
        return self.audit.passed and all(one.covers(self.truth(one.epsilon)) for one in found)


def measure(
    applications: int = DEFAULT[0],
    weighted_applications: int = DEFAULT[1],
    progress: Callable[[int], object] = lambda done: None,
    *,
    law: DiscreteOSGT | None = None,
) -> Measurement:
    """Apply the mechanism to a data set and to its neighbour. `law`: another noise than the stated one, as a test."""
    stated = DiscreteOSGT(EIGHT[0], math.sqrt(EIGHT[1]))
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
    """How much progress `measure` reports."""
    return 2 * applications + len(_EPSILONS) * weighted_applications


def _people() -> Integers:
    """A made-up data set: 1,000 people, and whether each has each of eight properties."""
    person, question = np.arange(1000)[:, np.newaxis], np.arange(DIMENSIONS)[np.newaxis, :]
    return ((person * (2 * question + 3)) % 17 < 2 * question + 1).astype(np.int64)


def experiment_picture(measured: Measurement) -> Picture:
    """Measured δ(ε) on the theoretical curve, and the ratio of the two."""
    epsilon = np.linspace(0, 1.2, 121)
    theory = Curve("exact δ(ε) on the integers", "osgt", epsilon, measured.truth(epsilon))
    by_count, by_mean, by_weight = measured.estimates()
    names = {
        "counted": f"counted, {by_count.applications:,} applications",
        "averaged": f"averaged, {by_mean.applications:,} applications",
        "weighted": f"weighted, {by_weight.applications:,} draws for each ε",
    }
    colours = {"counted": "gaussian", "averaged": "bound", "weighted": "laplace"}

    def points(one: Estimate, relative: bool = False) -> Curve:
        unit = measured.truth(one.epsilon) if relative else np.ones(len(one.epsilon))
        nudge = {"counted": -0.004, "averaged": 0.004, "weighted": 0.0}[one.method] * relative
        label = one.method if relative else names[one.method]
        return Curve(
            label,
            colours[one.method],
            one.epsilon + nudge,
            one.value / unit,
            "points",
            one.low / unit,
            one.high / unit,
        )

    width = 1.5 * float(np.max(by_weight.high / measured.truth(by_weight.epsilon) - 1.0))
    level = Curve("theory", "osgt", np.array([0.0, 1.2]), np.ones(2))
    return Picture(
        "experiment",
        f"δ(ε) measured on the outcomes, k = 8, m = 15, σ² = 630, on the integers; "
        f"all bars hold together with {CONFIDENCE:.1%} confidence",
        (
            Panel(
                "Direct: outcomes on the data set and its neighbour",
                "ε",
                "δ(ε)",
                (theory, points(by_count), points(by_mean)),
                xlim=(0, 0.65),
                ylim=(1e-8, 1),
                ylog=True,
                legend="upper right",
            ),
            Panel(
                "Importance sampling",
                "ε",
                "δ(ε)",
                (theory, points(by_weight)),
                xlim=(0, 1.22),
                ylim=(1e-27, 1),
                ylog=True,
                legend="upper right",
            ),
            Panel(
                "Measured / theory",
                "ε",
                "ratio",
                (level, points(by_mean, relative=True), points(by_weight, relative=True)),
                xlim=(-0.02, 1.22),
                ylim=(1 - width, 1 + width),
                legend="upper left",
            ),
        ),
    )
