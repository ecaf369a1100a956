"""Planned composition: the exact composition of releases whose noise was fixed before the first answer was seen.

The losses of all standing charges are composed exactly, on the safe side; docs/ledger.md says when that is a theorem.
An exact composition takes milliseconds for each *different* release, which would be minutes after ten thousand. So the
composed loss is kept in the process, never stored, as a row of tilted masses (see `osgt.privacy.grid`) at multiples of
one fixed step, to which a further release is added by one convolution. Every step errs upward, as in
`osgt.privacy.composition`: mass is split between grid points so that it dominates, whatever a window cuts off or a
transform may have rounded is added up, and so each δ that is read from it is an upper bound on δ of the exact
composition.

How far above? A release adds about step²/6 to the variance of the loss, so that the bound is too large by a part of
about releases·step²·θ(1 + θ)/12. Tilt θ and step are set for the budget: a normal loss that just meets it has a
standard deviation of `STEPS` steps. docs/ledger.md has the figures that were measured.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, Self

import numpy as np
import scipy

from osgt.noise import OSGT
from osgt.privacy import Charge, NoisyPart, PrivacyProfile, composition
from osgt.privacy.filters.budget import Budget
from osgt.privacy.filters.costs import largest_loss
from osgt.privacy.grid import UNIT, compose
from osgt.privacy.loss_distribution import TINY, Composed
from osgt.privacy.moments import Cumulant
from osgt.privacy.pair import Pair, pair_delta, pair_of
from osgt.privacy.profile import float_above
from osgt.support.numeric import first_that_fits

#: Steps of the grid in the standard deviation of a loss that just meets the budget.
STEPS = 2400.0

#: Tilted mass that one release, or one convolution, may leave outside its window.
_TOLERANCE = 1e-13

#: A part that would need more cells than this is not put on the grid.
_MOST_CELLS = 2**18

#: An ε is only ever told, not decided by: so close is enough, and rounded up by more.
_EPSILON_ACCURACY = 1e-6

#: Rows that are multiplied in one go: bounds the memory.
_BATCH = 64


class TooCoarseError(ArithmeticError):
    """The losses of a release are too large for the grid of this budget."""


@dataclass(frozen=True)
class LossGrid:
    """Step of the grid and tilt of the masses; the same for all losses that are to be added."""

    step: float
    theta: float


@lru_cache(maxsize=256)
def grid_for(epsilon: float, delta: float) -> LossGrid:
    """The grid for a budget with δ > 0: as if the budget were met by very many small releases."""

    def excess(log_mu: float) -> float:
        reached = float(pair_delta(pair_of(OSGT.gaussian(1.0), math.exp(log_mu)), np.asarray(epsilon)))
        return math.log(max(reached, TINY)) - math.log(delta)

    # δ of a unit Gaussian moved by μ: next to nothing where μ is far below ε, next to 1 where μ² is far above it.
    low, high = math.log(epsilon) - 9.0, math.log(4.0 * math.sqrt(epsilon) + 2.0 * epsilon + 10.0)
    mu = (
        math.exp(scipy.optimize.brentq(excess, low, high, xtol=1e-6))
        if excess(low) < 0 < excess(high)
        else math.sqrt(epsilon)
    )
    theta = scipy.optimize.brentq(
        lambda x: (math.exp(x) + 0.5) * mu**2 - math.exp(-x) - 1 / (1 + math.exp(x)) - epsilon, -60.0, 60.0
    )
    return LossGrid(mu / STEPS, math.exp(theta))


@lru_cache(maxsize=512)
def loss_of(parts: tuple[NoisyPart, ...], grid: LossGrid) -> Composed:
    """The loss of one release on the grid."""
    pairs = [pair_of(part.noise, part.shift) for part in parts]
    counts = [part.coordinates for part in parts]
    cumulant = Cumulant(pairs, np.asarray(counts, dtype=np.float64))
    # n equal coordinates are cut √n times as fine and composed by fours, so that together they add as much as one.
    levels = np.ceil(0.5 * np.log2(np.asarray(counts, dtype=np.float64))).astype(int)
    tolerance = _TOLERANCE / sum(counts)
    windows = [cumulant.window(i, grid.theta, tolerance) for i in range(len(pairs))]
    widths = [(high - low) / grid.step * 2.0**level for (low, high), level in zip(windows, levels, strict=True)]
    if not (max(widths) <= _MOST_CELLS and math.isfinite(_kinks(pairs, counts))):
        raise TooCoarseError("the losses of this release are too large for the grid of this budget")
    fine = composition.Grid(grid.step, grid.theta, levels, windows, tolerance, outside=_TOLERANCE)
    return composition.on_grid(pairs, counts, fine)


def _kinks(pairs: list[Pair], counts: list[int]) -> float:
    return sum(n * pair.kink for pair, n in zip(pairs, counts, strict=True))


def together(losses: Sequence[tuple[Composed, int]]) -> Composed:
    """The loss of all of them, each as often as the number beside it says. All are on one grid."""
    while len(losses) > _BATCH:
        batches = [losses[i : i + _BATCH] for i in range(0, len(losses), _BATCH)]
        losses = [(together(batch), 1) for batch in batches]
    if len(losses) == 1 and losses[0][1] == 1:
        return losses[0][0]
    composed = compose([one.loss for one, _ in losses], [n for _, n in losses], _TOLERANCE)
    log_factor = math.fsum(n * loss.log_factor for loss, n in losses)
    size = math.fsum(n * abs(loss.log_factor) for loss, n in losses)
    beyond = [math.log(n) + loss.log_beyond for loss, n in losses]
    return Composed(
        composed,
        losses[0][0].theta,
        log_factor + 4 * UNIT * size,  # never smaller than the true sum
        float(np.logaddexp.reduce(beyond)) + 4 * UNIT * len(beyond),
        math.fsum(n * loss.loss_error for loss, n in losses) * (1.0 + 4 * UNIT),
    )


def add(running: Composed | None, parts: tuple[NoisyPart, ...], grid: LossGrid) -> Composed:
    """The running loss with one more release on top."""
    before = [] if running is None else [(running, 1)]
    return together([*before, (loss_of(parts, grid), 1)])


def from_parts(parts: Iterable[NoisyPart], grid: LossGrid) -> Composed | None:
    """The loss of these parts, each with all of its coordinates: built anew, more closely than by `add`."""
    losses: list[tuple[Composed, int]] = []
    for part in parts:
        losses.append((loss_of((part,), grid), 1))
        if len(losses) >= _BATCH:
            losses = [(together(losses), 1)]
    return together(losses) if losses else None


def epsilon_at(loss: Composed, delta: float, start: float) -> float:
    """An ε at which the bound is at most δ: close to the least, unless δ is far from that of the budget."""
    if delta <= 0:
        return math.inf
    return float(composition.crossing(loss, math.log(delta), start, _EPSILON_ACCURACY)) * (1.0 + 4 * _EPSILON_ACCURACY)


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
    """The standing charges of a budget, composed."""

    budget: Budget
    charges: int = 0
    selection: Fraction = Fraction(0)  # Σ selection δ
    pure: Fraction = Fraction(0)  # Σ largest losses, of the charges that have one
    unbounded: int = 0  # number of the charges that have none
    counts: Counts = field(default_factory=dict)  # coordinates by noise and shift
    running: Composed | None = None  # the loss of all of them; None: not on the grid of this budget

    @classmethod
    def of(cls, budget: Budget, charges: Iterable[Charge]) -> Self:
        """Compose these charges, equal ones together."""
        made = cls(budget)
        for charge in charges:
            made = made._counted(charge)
        grid = made.grid
        if grid is None or not made.counts:
            return made
        try:
            return replace(made, running=from_parts(made.parts, grid))
        except TooCoarseError:
            return made

    @property
    def grid(self) -> LossGrid | None:
        """The grid of the running loss, where the budget has use for one."""
        return grid_for(self.budget.epsilon, self.budget.delta) if self.budget.delta > 0 else None

    def with_charge(self, charge: Charge) -> Self:
        """Add one more charge, whether it fits or not."""
        moved = self._counted(charge)
        if self.grid is None or (self.running is None and self.charges):
            return moved
        try:
            return replace(moved, running=add(self.running, charge.profile.parts, self.grid))
        except TooCoarseError:
            return replace(moved, running=None)

    def try_charge(self, charge: Charge, *, quick: bool = False) -> Self | None:
        """Add one more charge if it fits, else None; `quick`: no exact composition where the bound cannot tell."""
        moved = self.with_charge(charge)
        return moved if moved._fits(quick=quick) else None

    def fits(self, charge: Charge) -> bool:
        """Whether one more charge would be allowed; in doubt not."""
        return self.try_charge(charge, quick=True) is not None

    def how_many(self, charge: Charge, most: int) -> int:
        """Count how many more charges like this one would be allowed, one after the other; never more than `most`.

        Many equal releases are one with as many times the coordinates. The quick bound comes close.
        """
        low, high = 0, 1
        while high <= most and self.fits(_times(charge, high)):
            low, high = high, 2 * high
        low = first_that_fits(lambda times: not self.fits(_times(charge, times)), low + 1, min(high, most + 1)) - 1
        while low < most and self.try_charge(_times(charge, low + 1)) is not None:
            low += 1
        return low

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
        return -float_above(self.selection - Fraction(self.budget.delta))

    @property
    def quota(self) -> float:
        """The most that Σ selection δ may come to."""
        return self.budget.delta

    @property
    def parts(self) -> list[NoisyPart]:
        """The parts of all standing charges, equal ones together."""
        return [NoisyPart(noise, shift, n) for (noise, shift), n in self.counts.items()]

    @cached_property
    def profile(self) -> PrivacyProfile:
        """The privacy profile of all standing charges."""
        return PrivacyProfile.of(self.parts)

    @property
    def share(self) -> float:
        """The share of the budget that is used; at 1 nothing fits any more."""
        return min(self.figures()[0] / self.budget.epsilon, 1.0)

    def figures(self) -> tuple[float, float]:
        """Upper bounds on ε at the declared δ and on δ at the declared ε: exact where that does not take long."""
        selection = float_above(self.selection)
        if self.charges == 0:
            return 0.0, selection
        epsilon = float_above(self.pure) if self.unbounded == 0 else math.inf
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
        loss = largest_loss(charge)
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


def _times(charge: Charge, n: int) -> Charge:
    """The charge of n releases like this one."""
    parts = (NoisyPart(part.noise, part.shift, n * part.coordinates) for part in charge.profile.parts)
    # Rounded up, as the sum of their exact values is compared with the budget.
    selection = min(math.nextafter(n * charge.selection_delta, 1.0), 1.0 - 2.0**-53) if charge.selection_delta else 0.0
    return Charge(PrivacyProfile.of(parts), selection)
