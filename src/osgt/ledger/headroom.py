"""What still fits into a budget. Only ever asked, never charged: a quick bound is enough."""

import math
from collections.abc import Sequence

from osgt.calibrate import Part, calibrate
from osgt.ledger.account import Account
from osgt.ledger.decision import decide
from osgt.noise.error import Law
from osgt.noise.parameters import real_number
from osgt.privacy import Charge, PrivacyProfile
from osgt.privacy import Part as ProfilePart

#: Noise that would have to be larger than this, against what was asked for, is no use to anyone.
_LARGEST_LOG_FACTOR = 20 * math.log(2.0)

_ROUNDS = 8


def noise_factor(account: Account, charge: Charge) -> float | None:
    """How many times as large the noise of a refused release must be for it to fit; None if that does not help."""
    log_factor = _least_log_factor(decide(account, quick=True).account, charge, accuracy=0.02)
    if log_factor is None:
        return None
    factor = math.exp(log_factor)
    digits = 1 - math.floor(math.log10(factor))
    return math.ceil(factor * 10.0**digits) / 10.0**digits  # up, to two digits


def refusal(name: str, account: Account, charge: Charge, factor: float | None) -> str:
    """Why a release was refused, what is left and what would fit."""
    budget = account.budget
    before = decide(account, quick=True)
    after = decide(before.account.charged(0, charge), quick=True)
    text = f"the release was refused and nothing was charged: with it, data set {name!r} would reach "
    text += f"δ = {_up(after.delta)} at ε = {budget.epsilon:g}, and its budget there is δ = {budget.delta:g}. "
    spent = f"ε = {_up(before.epsilon)}" if before.epsilon < math.inf else f"δ = {_up(before.delta)}"
    text += f"Spent: {spent} of {budget.epsilon:g} at that δ, in {account.charges:,} releases. "
    if factor is not None:
        smaller = Charge(_scaled(charge.profile, factor), charge.selection_delta)
        asked, fitting = (decide(Account(budget).charged(0, c), quick=True).epsilon for c in (charge, smaller))
        return text + (
            f"Left for a release of this shape: ε = {_up(fitting)} at that δ, with noise {factor:g} times as large as "
            f"asked for (ε = {_up(asked)}); Ledger.remaining says it exactly"
        )
    if charge.selection_delta > 0 and account.selection_delta() + charge.selection_delta > budget.delta:
        return text + (
            f"No noise would help: the choice of the groups takes δ = {_up(charge.selection_delta)}, and "
            f"{_up(account.selection_delta())} is taken already. Ask with a smaller δ, or with public keys"
        )
    return text + "No release of this shape fits any more (see Ledger.change_budget)"


def largest_epsilon(account: Account, shape: Sequence[Part], *, delta: float | None, selection_share: float) -> float:
    """The largest ε at δ of one more release of this shape, calibrated to it, that fits; 0 if there is none."""
    delta = account.budget.delta if delta is None else real_number("delta", delta, positive=False)
    share = real_number("selection_share", selection_share, positive=False)
    if delta >= 1 or share >= 1:
        raise ValueError(f"delta and selection_share must be below 1, got {delta!r} and {selection_share!r}")
    noise_delta, selection = delta * (1.0 - share), delta * share
    account = decide(account, quick=True).account

    def charge_at(epsilon: float) -> Charge:
        laws: tuple[Law, ...] = calibrate(epsilon, noise_delta, parts=shape)
        pairs = zip(laws, shape, strict=True)
        profile = PrivacyProfile.compose(PrivacyProfile(law, part.shift, part.coordinates) for law, part in pairs)
        return Charge(profile, selection)

    # The best shape of the noise depends on ε only a little: find the scale that fits, then the shape for its ε.
    epsilon = account.budget.epsilon
    for _ in range(_ROUNDS):
        charge = charge_at(epsilon)
        log_factor = _least_log_factor(account, charge, accuracy=1e-3)
        if log_factor is None:
            return 0.0
        found = Charge(_scaled(charge.profile, math.exp(log_factor))).epsilon(noise_delta)
        done = abs(found - epsilon) <= 2e-3 * epsilon
        epsilon = min(max(found, 1e-9), 1e6)
        if done:
            break
    while not decide(account.charged(0, charge_at(epsilon)), quick=True).fits:
        epsilon *= 0.998
        if epsilon < 1e-9:
            return 0.0
    return epsilon


def _least_log_factor(account: Account, charge: Charge, *, accuracy: float) -> float | None:
    """log of the least factor of the noise with which a charge fits, from above; None if no factor helps."""

    def fits(log_factor: float) -> bool:
        scaled = Charge(_scaled(charge.profile, math.exp(log_factor)), charge.selection_delta)
        return decide(account.charged(0, scaled), quick=True).fits

    low = high = 0.0
    step = 0.5
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
        ProfilePart(
            type(part.noise).from_rates(part.noise.slope / factor, part.noise.curvature / factor**2),
            part.shift,
            part.coordinates,
        )
        for part in profile.parts
    )


def _up(value: float) -> str:
    """Three digits, never rounded down."""
    if value <= 0 or not math.isfinite(value):
        return f"{value:g}"
    digits = 2 - math.floor(math.log10(value))
    return f"{math.ceil(value * 10.0**digits * (1 - 1e-12)) / 10.0**digits:.3g}"
