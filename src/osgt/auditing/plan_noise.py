"""All the noise of a plan at once, as the release draws it: one unit that moves every number as far as it may."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from osgt.auditing.claims import Claim
from osgt.auditing.evidence import Floats
from osgt.calibration import Part
from osgt.mechanism import Mechanism
from osgt.noise import IntegerLaw
from osgt.privacy import PrivacyProfile
from osgt.tables.bounds.budget import NoisePlan
from osgt.tables.measuring import noisy_numbers
from osgt.tables.plan import Plan
from osgt.tables.planning import profile_of_pairs

#: A count that is so many standard deviations above the threshold is never hidden.
_SURE = 60

#: Of very many coordinates as many draws are made as fit into so many numbers.
_NUMBERS = 40_000_000

Outputs = NDArray[np.int64]
Pairs = Sequence[tuple[IntegerLaw, Part]]


class Noisy(Protocol):
    """Noise on numbers that are all zero in one table, and in its neighbour each moved by its shift."""

    @property
    def pairs(self) -> Pairs:
        """The noise and what it is for, in the order of the outputs."""

    def outputs(self, moved: int, size: int) -> Outputs:
        """`size` releases of all the numbers, through the release's own code."""


@dataclass(frozen=True, eq=False)
class OfTable:
    """The noise of a release."""

    plan: Plan

    @property
    def pairs(self) -> Pairs:
        """The noise and what it is for."""
        return self.plan.noise.pairs

    def outputs(self, moved: int, size: int) -> Outputs:
        """Releases of all the numbers."""
        plan, shown = self.plan, 0
        groups = max(sum(n for _, n in part.moves) for part in plan.parts.values())
        if plan.selector is not None and plan.threshold is not None:
            shown = abs(plan.threshold) + int(_SURE * plan.laws[plan.selector].std()) + 1000
        exact = {}
        for measure, part in plan.parts.items():
            shifts = _shifts(part) * moved
            width = len(shifts) if measure.for_table else groups
            numbers = np.zeros((size, width, measure.numbers), dtype=np.int64)
            numbers[:, : len(shifts), 0] = shifts
            numbers += shown if measure == plan.selector else 0
            exact[measure] = numbers.reshape(size * width, measure.numbers)
        _, noisy = noisy_numbers(plan, exact)
        columns = []
        for measure, part in plan.parts.items():
            found = noisy[measure][:, 0].reshape(size, -1)[:, : len(_shifts(part))]
            columns.append(found - (shown if measure == plan.selector else 0))
        columns += [_released(law, part, moved, size) for law, part in plan.noise.beside.values()]
        return np.concatenate(columns, axis=1)


@dataclass(frozen=True, eq=False)
class OfSuggestion:
    """The noise of the histograms that bounds are recommended from."""

    plan: NoisePlan

    @property
    def pairs(self) -> Pairs:
        """The noise and what it is for."""
        return [(self.plan.laws[name], part) for name, part in self.plan.parts.items()]

    def outputs(self, moved: int, size: int) -> Outputs:
        """Releases of all the numbers."""
        return np.concatenate([_released(law, part, moved, size) for law, part in self.pairs], axis=1)


@dataclass(frozen=True, eq=False)
class WorstCase:
    """One unit that moves all numbers of all tables, and what is claimed about it: the whole curve, and the budget."""

    noises: Sequence[Noisy]
    epsilon: float
    #: The δ that the noise may use.
    delta: float

    @classmethod
    def of(cls, plans: Sequence[Plan], delta: float) -> "WorstCase":
        """Of tables that are released together."""
        return cls([OfTable(plan) for plan in plans], plans[0].epsilon, delta)

    @cached_property
    def columns(self) -> list[tuple[IntegerLaw, float]]:
        """The noise and the shift of each number, in the order of the outputs."""
        pairs = [pair for noise in self.noises for pair in noise.pairs]
        return [(law, shift) for law, part in pairs for shift in _shifts(part).tolist()]

    @cached_property
    def profile(self) -> PrivacyProfile:
        """The privacy loss of all noise together."""
        return profile_of_pairs(pair for noise in self.noises for pair in noise.pairs)

    @property
    def claim(self) -> Claim:
        """The whole curve, and the budget."""
        return Claim.of(self.epsilon, self.delta, self.profile)

    @property
    def draws(self) -> int:
        """How many draws there is room for."""
        return max(1000, min(1_000_000, _NUMBERS // len(self.columns)))

    def outputs(self, moved: Any, size: int) -> Outputs:
        """`size` releases of all the numbers."""
        return np.concatenate([noise.outputs(int(moved), size) for noise in self.noises], axis=1)

    def loss(self) -> Callable[[NDArray[np.generic]], Floats]:
        """The privacy loss of outputs: Σ log P[y | 0]/P[y | shift]."""
        columns = self.columns

        def of(outputs: NDArray[np.generic]) -> Floats:
            total = np.zeros(len(outputs))
            for column, (law, shift) in zip(outputs.astype(np.float64).T, columns, strict=True):
                total += law.potential(np.abs(column - shift)) - law.potential(np.abs(column))
            return total

        return of


def _shifts(part: Part) -> NDArray[np.int64]:
    return np.array([math.ceil(shift) for shift, n in part.moves for _ in range(n)], dtype=np.int64)


def _released(law: IntegerLaw, part: Part, moved: int, size: int) -> Outputs:
    start = np.tile(_shifts(part) * moved, (size, 1))
    return np.asarray(Mechanism.of(law, part.shift, part.coordinates).release(start))
