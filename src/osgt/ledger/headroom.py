"""What still fits into a budget. Only ever asked, never charged."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

from osgt.calibration import Part, calibrate_parts
from osgt.ledger import filters
from osgt.ledger.account import Account
from osgt.ledger.budget import Budget
from osgt.ledger.filter_state import FilterState
from osgt.ledger.planned import Planned
from osgt.ledger.rounding import rounded_up
from osgt.noise import OSGT, scaled
from osgt.noise.parameters import real_number
from osgt.privacy import Charge, NoisyPart, PrivacyProfile

#: Noise that would have to be larger than this, against what was asked for, is no use to anyone.
_LARGEST_LOG_FACTOR = 20 * math.log(2.0)

#: How often the shape of the noise is adapted to ε at most. Where ε changes by less than this, it is as good as before.
_ROUNDS = 8
_CLOSE = 0.1

#: To this the scale of the noise is sought, relative.
_ACCURACY = 4e-3

_UP, _DOWN = (Context(prec=3, rounding=rounding) for rounding in (ROUND_CEILING, ROUND_FLOOR))
_DOWN_FOUR = Context(prec=4, rounding=ROUND_FLOOR)


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
        """The room in an account as it is now."""
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


def noise_factor(room: Headroom, charge: Charge) -> float | None:
    """How many times as large the noise of a refused release must be for it to fit; None if that does not help."""
    log_factor = _least_log_factor(room, charge, accuracy=0.02)
    if log_factor is None:
        return None
    factor = math.exp(log_factor)
    digits = 1 - math.floor(math.log10(factor))
    return math.ceil(factor * 10.0**digits) / 10.0**digits  # up, to two digits


def refusal(name: str, room: Headroom, charge: Charge, factor: float | None) -> str:
    """Why a release was refused, what is left and what would fit."""
    budget = room.budget
    text = f"Refused, nothing was charged. Budget of {name!r}: ε = {budget.epsilon:g} at δ = {budget.delta:g}; spent: "
    plural = "release" if room.releases == 1 else "releases"
    if room.lost is not None:
        return text + (
            f"all of it, since charges were lost when the ledger was restored on {room.lost[:10]}. Open a budget under "
            "another name, and decide what both may spend together"
        )
    spent, _ = room.figures()
    text += (
        f"ε = {_up(spent)} in {room.releases:,} {plural}. " if spent < math.inf else f"in {room.releases:,} {plural}. "
    )
    if room.selection + Fraction(charge.selection_delta) > Fraction(room.quota):
        return text + (
            f"The choice of groups in this release needs δ = {_up(charge.selection_delta)}; of the δ = "
            f"{_up(room.quota)} set aside for that, {_up(rounded_up(room.selection))} is spent. Use public keys, or a "
            "smaller δ"
        )
    asked = Charge(charge.profile).epsilon(budget.delta) if budget.delta > 0 else rounded_up_loss(charge)
    text += f"This release asks for ε = {_up(asked)} at that δ; " if asked < math.inf else ""
    if factor is None:
        return text + "no release of this shape fits any more"
    smaller = Charge(_scaled(charge.profile, factor))
    fitting = smaller.epsilon(budget.delta) if budget.delta > 0 else rounded_up_loss(smaller)
    return text + f"at most about ε = {_down(fitting)} still fits, with noise {factor:g} times as large"


def rounded_up_loss(charge: Charge) -> float:
    """The largest loss of a release, for budgets with δ = 0."""
    loss = charge.profile._pure_loss()
    return math.inf if loss is None else rounded_up(loss)


def charge_of(shape: Sequence[Part], delta: float, selection_share: float) -> Callable[[float], Charge]:
    """What a release of this shape is charged with, calibrated to an ε at δ."""
    share = real_number("selection_share", selection_share, positive=False)
    if share >= 1:
        raise ValueError(f"selection_share must be below 1, got {selection_share!r}")

    def charge_at(epsilon: float) -> Charge:
        laws = calibrate_parts(epsilon, delta * (1.0 - share), shape)
        pairs = zip(laws, shape, strict=True)
        profile = PrivacyProfile.compose(PrivacyProfile(law, part.shift, part.coordinates) for law, part in pairs)
        return Charge(profile, delta * share)

    return charge_at


def largest_epsilon(room: Headroom, charge_at: Callable[[float], Charge], delta: float) -> float:
    """The largest ε at δ, to about half a percent, with which one more release fits; 0 if there is none.

    It has four digits, and a release with exactly this ε was found to fit.
    """
    # A calibration takes longest. The best shape of the noise depends on ε only a little: find the scale that fits,
    # then the shape for its ε.
    epsilon, is_close = _guess(room, delta), False
    for _ in range(_ROUNDS):
        charge = charge_at(epsilon)
        if is_close and room.fits(charge):
            return epsilon
        log_factor = _least_log_factor(room, charge, accuracy=_ACCURACY, step=8 * _ACCURACY)
        if log_factor is None:
            return 0.0
        scaled = Charge(_scaled(charge.profile, math.exp(log_factor)))
        found = min(max(scaled.epsilon(delta - charge.selection_delta), 1e-9), 1e6)
        is_close = abs(found - epsilon) <= _CLOSE * epsilon
        epsilon = _four_digits(found)
    while not room.fits(charge_at(epsilon)):
        epsilon = _four_digits(0.998 * epsilon)
        if epsilon < 1e-9:
            return 0.0
    return epsilon


def _guess(room: Headroom, delta: float) -> float:
    """About the ε that is left, by the filter that leaves most."""
    state, epsilon = room.state, room.budget.epsilon
    guesses = [epsilon * max(1.0 - room.share(), 1e-3)]
    if isinstance(state, Planned):
        guesses.append(epsilon * max(1.0 - room.share(), 1e-3) ** 0.5)
    elif state.mu is not None and delta > 0:
        guesses.append(float(PrivacyProfile(OSGT.gaussian(1.0 / state.mu)).epsilon(delta)))
    return max(guesses)


def _four_digits(value: float) -> float:
    return float(Decimal(value).normalize(_DOWN_FOUR))


def how_many(room: Headroom, charge: Charge, most: int) -> int:
    """How many more releases with this charge fit, one after the other; counted up to `most`."""
    if room.lost is not None:
        return 0
    if not isinstance(room.state, Planned):
        assert room.budget.shares is not None
        return filters.how_many(room.state, room.budget.shares, charge, most)
    # In a plan, many equal releases are one with as many times the coordinates.
    low, high = 0, 1
    while high <= most and room.fits(_times(charge, high)):
        low, high = high, 2 * high
    high = min(high, most + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if room.fits(_times(charge, middle)) else (low, middle)
    return low


def _times(charge: Charge, n: int) -> Charge:
    parts = (NoisyPart(part.noise, part.shift, n * part.coordinates) for part in charge.profile.parts)
    # Rounded up, as the sum of their exact values is compared with the budget.
    selection = min(math.nextafter(n * charge.selection_delta, 1.0), 1.0 - 2.0**-53) if charge.selection_delta else 0.0
    return Charge(PrivacyProfile.of(parts), selection)


def _least_log_factor(room: Headroom, charge: Charge, *, accuracy: float, step: float = 0.5) -> float | None:
    """log of the least factor of the noise with which a charge fits, from above; None if no factor helps."""

    def fits(log_factor: float) -> bool:
        scaled = Charge(_scaled(charge.profile, math.exp(log_factor)), charge.selection_delta)
        return room.fits(scaled)

    low = high = 0.0
    if fits(0.0):
        while fits(low):
            low, high, step = low - step, low, 2 * step
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


def _scaled(profile: PrivacyProfile, factor: float) -> PrivacyProfile:
    """The profile with noise so many times as large."""
    return PrivacyProfile.of(
        NoisyPart(scaled(part.noise, factor), part.shift, part.coordinates) for part in profile.parts
    )


def _up(value: float) -> str:
    """Three digits, never rounded down."""
    return _rounded(value, _UP)


def _down(value: float) -> str:
    """Three digits, never rounded up."""
    return _rounded(value, _DOWN)


def _rounded(value: float, context: Context) -> str:
    return f"{float(Decimal(value).normalize(context)):.3g}" if 0 < value < math.inf else f"{value:g}"
