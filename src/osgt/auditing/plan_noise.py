"""All the noise of a plan at once, as the release draws it: one unit that moves every number as far as it may."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osgt.auditing.claims import Claim
from osgt.auditing.evidence import Floats
from osgt.mechanism import Mechanism
from osgt.noise import IntegerLaw
from osgt.tables.plan import Plan
from osgt.tables.planning import profile_of_pairs
from osgt.tables.release import noisy_numbers

#: A count that is so many standard deviations above the threshold is never hidden.
_SURE = 60

#: Of very many coordinates as many draws are made as fit into so many numbers.
_NUMBERS = 40_000_000


@dataclass(frozen=True, eq=False)
class WorstCase:
    """Numbers that are all zero in one table, and in its neighbour each moved by its shift."""

    plan: Plan

    @property
    def columns(self) -> list[tuple[IntegerLaw, float]]:
        """The noise and the shift of each number, in the order of the outputs."""
        found = []
        for measure, part in self.plan.parts.items():
            found += [(self.plan.laws[measure], shift) for shift, n in part.moves for _ in range(n)]
        for law, part in self.plan.noise.beside.values():
            found += [(law, part.shift)] * part.coordinates
        return found

    @property
    def claim(self) -> Claim:
        """The whole curve, and the budget."""
        profile = profile_of_pairs(self.plan.noise.pairs)
        return Claim.of(self.plan.epsilon, self.plan.noise_delta, profile)

    @property
    def draws(self) -> int:
        """How many draws there is room for."""
        return max(1000, min(1_000_000, _NUMBERS // len(self.columns)))

    def outputs(self, moved: Any, size: int) -> NDArray[np.int64]:
        """`size` releases of all the numbers, through the release's own code."""
        plan, shown = self.plan, 0
        groups = max(sum(n for _, n in part.moves) for part in plan.parts.values())
        if plan.selector is not None and plan.threshold is not None:
            shown = abs(plan.threshold) + int(_SURE * plan.laws[plan.selector].std()) + 1000
        exact = {}
        for measure, part in plan.parts.items():
            shifts = np.array([int(shift) for shift, n in part.moves for _ in range(n)]) * int(moved)
            width = len(shifts) if measure.for_table else groups
            numbers = np.zeros((size, width, measure.numbers), dtype=np.int64)
            numbers[:, : len(shifts), 0] = shifts
            numbers += shown if measure == plan.selector else 0
            exact[measure] = numbers.reshape(size * width, measure.numbers)
        _, noisy = noisy_numbers(plan, exact)
        columns = []
        for measure, part in plan.parts.items():
            wanted = sum(n for _, n in part.moves)
            found = noisy[measure][:, 0].reshape(size, -1)[:, :wanted]
            columns.append(found - (shown if measure == plan.selector else 0))
        for law, part in plan.noise.beside.values():
            start = np.full((size, part.coordinates), int(part.shift) * int(moved), dtype=np.int64)
            columns.append(Mechanism.of(law, part.shift, part.coordinates).release(start))
        return np.concatenate(columns, axis=1)

    def loss(self) -> Callable[[NDArray[np.generic]], Floats]:
        """The privacy loss of outputs: Σ log P[y | 0]/P[y | shift]."""
        columns = self.columns

        def of(outputs: NDArray[np.generic]) -> Floats:
            total = np.zeros(len(outputs))
            for column, (law, shift) in zip(outputs.astype(np.float64).T, columns, strict=True):
                total += law.potential(np.abs(column - shift)) - law.potential(np.abs(column))
            return total

        return of
