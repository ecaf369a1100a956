"""Headroom: what still fits into a budget. Only ever asked, never charged."""

import math
from dataclasses import dataclass
from fractions import Fraction

from osgt.ledger import filters
from osgt.ledger.account import Account
from osgt.ledger.budget import Budget
from osgt.ledger.filter_state import FilterState
from osgt.ledger.planned import Planned
from osgt.ledger.rounding import rounded_up
from osgt.noise import scaled as larger
from osgt.privacy import Charge, NoisyPart, PrivacyProfile

#: Noise that would have to be larger than this, against what was asked for, is no use to anyone.
_LARGEST_LOG_FACTOR = 20 * math.log(2.0)


@dataclass(frozen=True)
class Headroom:
    """A budget and what stands against it at one moment: all that decides what still fits."""

    budget: Budget
    state: FilterState | Planned
    profile: PrivacyProfile | None  # what stands, where it has few different parts
    releases: int
    lost: str | None

    @classmethod
    def of(cls, account: Account) -> "Headroom":
        """That of an account as it is now."""
        state = account.planned if account.state is None else account.state
        return cls(account.budget, state, account.profile(), account.releases, account.lost)

    def fits(self, charge: Charge) -> bool:
        """Whether one more charge would be allowed."""
        if self.lost is not None:
            return False
        if isinstance(self.state, Planned):
            return self.state.charged(charge, quick=True) is not None
        assert self.budget.shares is not None
        return filters.fits(self.state, self.budget.shares, charge)

    @property
    def selection(self) -> Fraction:
        """Σ selection δ."""
        return self.state.selection

    @property
    def quota(self) -> float:
        """What Σ selection δ may come to."""
        return self.budget.delta if self.budget.shares is None else self.budget.shares.selection

    def share(self) -> float:
        """The share of the budget that is used."""
        if self.lost is not None:
            return 1.0
        if isinstance(self.state, Planned):
            return min(self.state.figures()[0] / self.budget.epsilon, 1.0)
        assert self.budget.shares is not None
        return filters.spent(self.state, self.budget.shares).share

    def figures(self) -> tuple[float, float]:
        """Upper bounds on ε at the declared δ and on δ at the declared ε of what stands."""
        if isinstance(self.state, Planned):
            return self.state.figures()
        if self.releases == 0:
            return 0.0, 0.0
        assert self.budget.shares is not None
        alive = filters.alive(self.state, self.budget.shares)
        epsilon = filters.spent(self.state, self.budget.shares).epsilon if alive else math.inf
        delta = self.budget.delta if alive else 1.0
        left = -rounded_up(self.selection - Fraction(self.budget.delta))
        if self.profile is not None and left >= 0:
            epsilon = min(epsilon, float(self.profile.epsilon(left)))
            exact = float(self.profile.delta(self.budget.epsilon)) + rounded_up(self.selection)
            delta = min(delta, exact) if alive else exact
        return epsilon, min(delta, 1.0)


def how_many(headroom: Headroom, charge: Charge, most: int) -> int:
    """How many more releases with this charge fit, one after the other; counted up to `most`."""
    if headroom.lost is not None:
        return 0
    if not isinstance(headroom.state, Planned):
        assert headroom.budget.shares is not None
        return filters.how_many(headroom.state, headroom.budget.shares, charge, most)
    # In a plan, many equal releases are one with as many times the coordinates.
    low, high = 0, 1
    while high <= most and headroom.fits(_times(charge, high)):
        low, high = high, 2 * high
    high = min(high, most + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if headroom.fits(_times(charge, middle)) else (low, middle)
    return low


def _times(charge: Charge, n: int) -> Charge:
    parts = (NoisyPart(part.noise, part.shift, n * part.coordinates) for part in charge.profile.parts)
    # Rounded up, as the sum of their exact values is compared with the budget.
    selection = min(math.nextafter(n * charge.selection_delta, 1.0), 1.0 - 2.0**-53) if charge.selection_delta else 0.0
    return Charge(PrivacyProfile.of(parts), selection)


def least_log_factor(headroom: Headroom, charge: Charge, *, accuracy: float, step: float = 0.5) -> float | None:
    """log of the least factor of the noise with which a charge fits, from above; None if no factor helps."""

    def fits(log_factor: float) -> bool:
        return headroom.fits(scaled(charge, math.exp(log_factor)))

    low = high = 0.0
    if fits(0.0):
        low = -step
        while fits(low):
            low, high, step = low - 2 * step, low, 2 * step
            if low < -_LARGEST_LOG_FACTOR:
                return high
    else:
        while not fits(high):
            low, high, step = high, high + step, 2 * step
            if high > _LARGEST_LOG_FACTOR:
                return None
    while high - low > accuracy:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def scaled(charge: Charge, factor: float) -> Charge:
    """The charge with noise so many times as large."""
    parts = (NoisyPart(larger(part.noise, factor), part.shift, part.coordinates) for part in charge.profile.parts)
    return Charge(PrivacyProfile.of(parts), charge.selection_delta)
