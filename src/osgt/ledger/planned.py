"""Planned composition: the exact composition of releases whose noise was fixed before the first answer was seen.

The losses of all standing charges are composed exactly, on the safe side; docs/ledger.md says when that is a theorem.
An exact composition takes milliseconds for each *different* release, so the composed loss is kept in the process as a
row of masses on a grid (`running`), to which a further release is added by one convolution. It is never stored.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, Self

from osgt.ledger.budget import Budget
from osgt.ledger.rounding import rounded_up
from osgt.ledger.running import LossGrid, TooCoarseError, add, epsilon_at, from_parts, grid_for
from osgt.privacy import Charge, NoisyPart, PrivacyProfile
from osgt.privacy.engine import Composed

#: Different parts up to which an exact composition is made where the running loss cannot decide.
EXACT_PARTS = 32

#: A quick bound that is too large by more than this factor, and close, is not questioned.
_CLEARLY = 1.5

#: Slack up to which a quick bound counts as close.
_CLOSE = 0.1

#: A decision that is made again comes by another order of additions to the same figures, up to this.
_AGAIN = 1e-3

Counts = dict[tuple[Any, float], int]


@dataclass(frozen=True)
class Planned:
    """All that stands against a budget, composed."""

    budget: Budget
    charges: int = 0
    selection: Fraction = Fraction(0)  # Σ selection δ
    pure: Fraction = Fraction(0)  # Σ largest losses, of the charges that have one
    unbounded: int = 0  # number of the charges that have none
    counts: Counts = field(default_factory=dict)  # coordinates by noise and shift
    running: Composed | None = None  # the loss of all of them; None: not on the grid of this budget

    @classmethod
    def of(cls, budget: Budget, charges: Iterable[Charge]) -> Self:
        """With these charges, equal ones composed together."""
        made = cls(budget)
        for charge in charges:
            made = made._counted(charge)
        grid = made.grid
        if grid is None or not made.counts:
            return made
        parts = [(NoisyPart(noise, shift, 1), n) for (noise, shift), n in made.counts.items()]
        try:
            return replace(made, running=from_parts(parts, grid))
        except TooCoarseError:
            return made

    @property
    def grid(self) -> LossGrid | None:
        """The grid of the running loss, where the budget has use for one."""
        return grid_for(self.budget.epsilon, self.budget.delta) if self.budget.delta > 0 else None

    def with_charge(self, charge: Charge) -> Self:
        """With one more charge, whether it fits or not."""
        moved = self._counted(charge)
        if self.grid is None or (self.running is None and self.charges):
            return moved
        try:
            return replace(moved, running=add(self.running, [charge.profile.parts], self.grid))
        except TooCoarseError:
            return replace(moved, running=None)

    def charged(self, charge: Charge, *, quick: bool = False) -> Self | None:
        """With one more charge, if that fits; `quick`: without the exact composition where the bound cannot tell."""
        moved = self.with_charge(charge)
        return moved if moved._fits(quick=quick) else None

    def fits_again(self) -> bool:
        """Whether what stands fits, up to the rounding between two ways to add it up."""
        return self._fits(slack=_AGAIN)

    def _fits(self, *, quick: bool = False, slack: float = 0.0) -> bool:
        left = self.left * (1.0 + slack)
        if self.selection > Fraction(self.budget.delta) * (1 + Fraction(slack)):
            return False
        # Exactly at the largest loss δ is zero: basic composition, if it fits, needs no more.
        if self.charges == 0 or (self.unbounded == 0 and self.pure <= Fraction(self.budget.epsilon)):
            return True
        if self.grid is None:
            return False
        if self.running is not None:
            delta = self.running.delta(self.budget.epsilon)
            clear = delta > _CLEARLY * left and self.running.serves(self.budget.epsilon, _CLOSE)
            if delta <= left or clear or quick or len(self.counts) > EXACT_PARTS:
                return delta <= left
        return len(self.counts) <= EXACT_PARTS and float(self.profile.delta(self.budget.epsilon)) <= left

    @property
    def left(self) -> float:
        """δ that selection leaves for the noise; never rounded up."""
        return -rounded_up(self.selection - Fraction(self.budget.delta))

    @cached_property
    def profile(self) -> PrivacyProfile:
        """All that stands, as a profile."""
        return PrivacyProfile.of(NoisyPart(noise, shift, n) for (noise, shift), n in self.counts.items())

    def figures(self) -> tuple[float, float]:
        """Upper bounds on ε at the declared δ and on δ at the declared ε: exact where that does not take long."""
        selection = rounded_up(self.selection)
        if self.charges == 0:
            return 0.0, selection
        epsilon = rounded_up(self.pure) if self.unbounded == 0 else math.inf
        delta = selection if epsilon <= self.budget.epsilon else 1.0
        if self.left <= 0 and self.selection > Fraction(self.budget.delta):
            return math.inf, min(1.0, max(selection, delta))
        if self.grid is None:
            return epsilon, delta
        if len(self.counts) <= EXACT_PARTS:
            delta = min(delta, float(self.profile.delta(self.budget.epsilon)) + selection)
            return min(epsilon, float(self.profile.epsilon(self.left)) if self.left > 0 else math.inf), delta
        if self.running is not None:
            delta = min(delta, self.running.delta(self.budget.epsilon) + selection)
            return min(epsilon, epsilon_at(self.running, self.left, self.budget.epsilon)), min(1.0, delta)
        return epsilon, delta

    def _counted(self, charge: Charge) -> Self:
        loss = _largest_loss(charge)
        counts = dict(self.counts)
        for part in charge.profile.parts:
            counts[part.noise, part.shift] = counts.get((part.noise, part.shift), 0) + part.coordinates
        return replace(
            self,
            charges=self.charges + 1,
            selection=self.selection + Fraction(charge.selection_delta),
            pure=self.pure + (loss or 0),
            unbounded=self.unbounded + (loss is None),
            counts=counts,
            running=None,
        )


@lru_cache(maxsize=4096)
def _largest_loss(charge: Charge) -> Fraction | None:
    return charge.profile._pure_loss()
