"""What still fits into a budget. Only ever asked, never charged."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Any

from osgt.calibrate import Part, calibrate
from osgt.ledger import filters
from osgt.ledger.account import Account
from osgt.ledger.budget import Budget
from osgt.ledger.filters import FilterState
from osgt.ledger.planned import Planned, rounded_up
from osgt.noise import OSGT
from osgt.noise.parameters import real_number
from osgt.privacy import Charge, PrivacyProfile
from osgt.privacy import Part as ProfilePart

#: Noise that would have to be larger than this, against what was asked for, is no use to anyone.
_LARGEST_LOG_FACTOR = 20 * math.log(2.0)

#: What is looked for when an ε is sought: so close to the largest that fits is near enough; each scale is found to
#: this, in steps that begin with these; and steered by figures of this slack.
_ENOUGH = 6e-3
_ACCURACY = 2e-3
_FIRST_STEP, _NEXT_STEP = 0.1, 0.012
_STEERING_SLACK = 0.02
_SMALLEST = 1e-9
_ROUNDS = 5

_UP, _DOWN = (Context(prec=3, rounding=rounding) for rounding in (ROUND_CEILING, ROUND_FLOOR))


@dataclass(frozen=True)
class Room:
    """A budget and what stands against it at one moment: all that decides what still fits."""

    budget: Budget
    state: FilterState | Planned
    profile: PrivacyProfile | None  # what stands, where it has few different parts
    releases: int
    lost: str | None

    @classmethod
    def of(cls, account: Account) -> "Room":
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


def noise_factor(room: Room, charge: Charge) -> float | None:
    """How many times as large the noise of a refused release must be for it to fit; None if that does not help."""
    log_factor = _least_log_factor(room, charge, accuracy=0.02)
    if log_factor is None:
        return None
    factor = math.exp(log_factor)
    digits = 1 - math.floor(math.log10(factor))
    return math.ceil(factor * 10.0**digits) / 10.0**digits  # up, to two digits


def refusal(name: str, room: Room, charge: Charge, factor: float | None) -> str:
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


def largest_epsilon(room: Room, shape: Sequence[Part], *, delta: float | None, selection_share: float) -> float:
    """The largest ε at δ of one more release of this shape, calibrated to it, that fits; 0 if there is none."""
    delta = room.budget.delta if delta is None else real_number("delta", delta, positive=False)
    share = real_number("selection_share", selection_share, positive=False)
    if delta >= 1 or share >= 1:
        raise ValueError(f"delta and selection_share must be below 1, got {delta!r} and {selection_share!r}")
    noise_delta, selection = delta * (1.0 - share), delta * share

    def charge_at(epsilon: float) -> Charge:
        laws: tuple[Any, ...] = calibrate(epsilon, noise_delta, parts=shape)
        pairs = zip(laws, shape, strict=True)
        profile = PrivacyProfile.compose(PrivacyProfile(law, part.shift, part.coordinates) for law, part in pairs)
        return Charge(profile, selection)

    # A calibration takes longest. The best shape of the noise depends on ε only a little: the scale at which the shape
    # for about the right ε fits tells an ε that is nearly right, and what is returned was calibrated and fits.
    if room.lost is not None or room.selection + Fraction(selection) > Fraction(room.quota):
        return 0.0
    epsilon: float = _guess(room, noise_delta)
    step = _FIRST_STEP
    for _ in range(_ROUNDS):
        charge = charge_at(epsilon)
        log_factor = _least_log_factor(room, charge, accuracy=_ACCURACY, step=step, enough=_ENOUGH)
        if log_factor is None or epsilon <= _SMALLEST:
            return 0.0
        if log_factor <= 0 and -log_factor <= _ENOUGH:
            return epsilon
        scaled = Charge(_scaled(charge.profile, math.exp(log_factor))).epsilon(noise_delta, slack=_STEERING_SLACK)
        epsilon = min(max(scaled * (1.0 - _ACCURACY), _SMALLEST), 1e6)
        step = _NEXT_STEP
    while not room.fits(charge_at(epsilon)):
        epsilon *= 1.0 - _ENOUGH
        if epsilon <= _SMALLEST:
            return 0.0
    return epsilon


def _guess(room: Room, delta: float) -> float:
    """About the ε at δ of a release that uses up what is left."""
    whole, state = room.budget.epsilon, room.state
    guesses: list[float] = [whole * max(1.0 - room.share(), 1e-3) ** 0.5]
    if isinstance(state, FilterState):
        if state.mu is not None and delta > 0:
            guesses = [float(PrivacyProfile(OSGT.gaussian(1.0), state.mu).epsilon(delta))]
        if state.unbounded == 0:
            guesses.append(whole - float(state.pure))
        if state.few is not None:
            guesses.append(whole - float(state.few))
    return min(max(*guesses, 1e-6 * whole, _SMALLEST), 1e6)


def _least_log_factor(
    room: Room, charge: Charge, *, accuracy: float, step: float = 0.5, enough: float = 0.0
) -> float | None:
    """log of the least factor of the noise with which a charge fits, from above; None if no factor helps.

    If the charge fits as it is, and does not with noise that is smaller by the part `enough`, the answer is 0.
    """

    def fits(log_factor: float) -> bool:
        scaled = Charge(_scaled(charge.profile, math.exp(log_factor)), charge.selection_delta)
        return room.fits(scaled)

    low = high = 0.0
    if fits(0.0):
        if enough and not fits(-enough):
            return 0.0
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
        ProfilePart(
            type(part.noise).from_rates(part.noise.slope / factor, part.noise.curvature / factor**2),
            part.shift,
            part.coordinates,
        )
        for part in profile.parts
    )


def _up(value: float) -> str:
    """Three digits, never rounded down."""
    return _rounded(value, _UP)


def _down(value: float) -> str:
    """Three digits, never rounded up."""
    return _rounded(value, _DOWN)


def _rounded(value: float, context: Context) -> str:
    return f"{float(Decimal(value).normalize(context)):.3g}" if 0 < value < math.inf else f"{value:g}"
