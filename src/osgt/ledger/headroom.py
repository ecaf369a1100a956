"""Headroom: what still fits into a budget, and how a refusal says so. Only ever asked, never charged.

The largest ε with which one more release fits is searched for with noise that is calibrated roughly, since a
calibration takes longest; only the result is calibrated as a release would be, to see that it fits.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Any, Protocol

from osgt.calibration import Part, calibrate_parts
from osgt.calibration.joint import profile_of
from osgt.calibration.search import calibrate_roughly
from osgt.ledger.account import Account, State
from osgt.noise import OSGT, Distribution
from osgt.noise import scaled as larger
from osgt.privacy import Charge, NoisyPart, PrivacyProfile
from osgt.privacy.estimate import epsilon_roughly
from osgt.privacy.filters.budget import Budget
from osgt.privacy.filters.parts import PartStates
from osgt.privacy.filters.planned import Planned
from osgt.privacy.profile import CHOICE_SHARE, float_above
from osgt.support.errors import ArgumentError
from osgt.support.numeric import least_that_fits, real_number
from osgt.support.text import counted

#: Noise that would have to be larger than this, against what was asked for, is no use to anyone.
_LARGEST_LOG_FACTOR = 20 * math.log(2.0)


@dataclass(frozen=True)
class Headroom:
    """A budget and what stands against it at one moment: all that decides what still fits."""

    budget: Budget
    state: State
    releases: int
    lost: str | None
    last: Charge | None  # the latest charge that stands

    @classmethod
    def of(cls, account: Account, part: str | None = None) -> "Headroom":
        """Take the headroom of an account as it is now, for releases about a part of the people or about everybody."""
        state = account.current
        if isinstance(state, PartStates):
            state = state.only(part)
        return cls(account.budget, state, account.releases, account.lost, account.last)

    def fits(self, charge: Charge) -> bool:
        """Whether one more charge would be allowed."""
        return self.lost is None and self.state.fits(charge)

    def how_many(self, charge: Charge, most: int) -> int:
        """Count how many more releases with this charge fit, one after the other; up to `most`."""
        return self.state.how_many(charge, most) if self.lost is None else 0

    def share(self) -> float:
        """The share of the budget that is used."""
        return self.state.share if self.lost is None else 1.0

    def figures(self) -> tuple[float, float]:
        """Compute the proved spending: upper bounds on ε at the declared δ and on δ at the declared ε.

        Of an adaptive budget that is what its filters prove for every analyst, of a planned one exact composition. If
        charges were lost, all that is known of them is that they were within the budget.
        """
        if self.lost is not None:
            return self.budget.epsilon, self.budget.delta
        return self.state.figures() if self.releases else (0.0, 0.0)


def least_log_factor(headroom: Headroom, charge: Charge, *, accuracy: float, step: float = 0.5) -> float | None:
    """log of the least factor of the noise with which a charge fits, from above; None if no factor helps."""

    def fits(log_factor: float) -> bool:
        return headroom.fits(scale_noise(charge, math.exp(log_factor)))

    limits = {"lowest": -_LARGEST_LOG_FACTOR, "largest": _LARGEST_LOG_FACTOR}
    return least_that_fits(fits, 0.0, step=step, accuracy=accuracy, **limits)


def scale_noise(charge: Charge, factor: float) -> Charge:
    """The charge with noise so many times as large."""
    parts = (NoisyPart(larger(part.noise, factor), part.shift, part.coordinates) for part in charge.profile.parts)
    return replace(charge, profile=PrivacyProfile.of(parts))


def noise_factor(headroom: Headroom, charge: Charge) -> float | None:
    """Find the factor by which the noise of a refused release must grow for it to fit; None if that does not help."""
    log_factor = least_log_factor(headroom, charge, accuracy=0.02)
    if log_factor is None:
        return None
    factor = math.exp(log_factor)
    digits = 1 - math.floor(math.log10(factor))
    return math.ceil(factor * 10.0**digits) / 10.0**digits  # up, to two digits


def refusal(name: str, headroom: Headroom, charge: Charge, factor: float | None) -> str:
    """Explain why a release was refused, what is left and what would fit."""
    budget = headroom.budget
    text = f"Refused, nothing was charged. Budget of {name!r}: ε = {budget.epsilon:g} at δ = {budget.delta:g}; spent: "
    if headroom.lost is not None:
        return text + (
            f"all of it, since charges were lost when the ledger was restored on {headroom.lost[:10]}. Open a budget "
            "under another name, and decide what both may spend together"
        )
    spent = headroom.figures()[0]
    text += f"ε = {_up(spent)} " if spent < math.inf else ""
    text += "if fixed in advance, " if budget.shares is None and headroom.releases else ""
    text += f"in {counted(headroom.releases, 'release')}. "
    selection, quota = headroom.state.selection, headroom.state.quota
    if selection + Fraction(charge.selection_delta) > Fraction(quota):
        return text + (
            f"The choice of groups in this release needs δ = {_up(charge.selection_delta)}; of the δ = {_up(quota)} "
            f"set aside for that, {_up(float_above(selection))} is spent. Use public keys, or a smaller δ"
        )
    asked = float(charge.profile.epsilon(budget.delta))
    text += f"This release asks for ε = {_up(asked)} at that δ; " if asked < math.inf else ""
    if factor is None:
        return text + "no release of this shape fits any more"
    fitting = float(scale_noise(charge, factor).profile.epsilon(budget.delta))
    return text + f"at most about ε = {_down(fitting)} still fits, with noise {factor:g} times as large"


def _up(value: float) -> str:
    """Three digits, never rounded down."""
    return f"{_digits(value, 3, ROUND_CEILING):.3g}"


def _down(value: float) -> str:
    """Three digits, never rounded up."""
    return f"{_digits(value, 3, ROUND_FLOOR):.3g}"


def _digits(value: float, digits: int, rounding: str) -> float:
    return float(Decimal(value).normalize(Context(prec=digits, rounding=rounding)))


#: How often the shape of the noise is adapted to ε at most. Where ε changes by less than this, it is as good as before.
_ROUNDS = 3
_CLOSE = 0.05

#: To this the scale of the noise is sought, relative.
_ACCURACY = 2.5e-3

#: An ε is given out if it fits, and noise that is smaller by this part does not; calibrations that this may take.
_NEARLY = 0.015
_TRIALS = 6

#: What is found roughly is lowered by this, relative, so that it fits as a rule; more where the noise is also to be
#: shared out among several parts, which the rough calibration does not search for.
_MARGIN = 5e-4
_MARGIN_OF_PARTS = 2e-3


class Plannable(Protocol):
    """A query or a publication as a ledger sees it: whom it is about, and what its plans would charge."""

    @property
    def dataset(self) -> Any:
        """The data, with their `privacy_unit`, `neighbours` and `identity`."""

    @property
    def shows_all(self) -> bool:
        """Whether no group has to be chosen."""

    def rough_parts(self, epsilon: float, delta: float) -> tuple[Part, ...]:
        """List the parts that a unit moves, weighted as the noise is shared out."""

    @property
    def plan(self) -> Callable[..., Any]:
        """Plan it with `epsilon` and `delta`: a plan has a `charge`."""


@dataclass(frozen=True)
class Shape:
    """A release but for its ε: its parts, δ for its noise and for its choice of groups, and how it is calibrated."""

    parts: tuple[Part, ...]
    delta: float
    selection_delta: float
    charge_at: Callable[[float], Charge]

    @classmethod
    def of(cls, parts: Sequence[Part], delta: float, selection_share: float) -> "Shape":
        """Take noise on these parts, calibrated to a δ of which the share goes to the choice of groups."""
        share = real_number("selection_share", selection_share, positive=False)
        if share >= 1:
            raise ArgumentError(f"selection_share must be below 1, got {selection_share!r}", argument="selection_share")
        noise_delta, selection_delta = delta * (1.0 - share), delta * share

        def charge_at(epsilon: float) -> Charge:
            return _charge(calibrate_parts(epsilon, noise_delta, parts), parts, selection_delta)

        return cls(tuple(parts), noise_delta, selection_delta, charge_at)

    @classmethod
    def of_query(cls, query: Plannable, delta: float) -> "Shape":
        """Take the shape from the plan of a query, or of several in a publication, without a calibration."""
        selection_delta = 0.0 if query.shows_all else CHOICE_SHARE * delta

        def charge_at(epsilon: float) -> Charge:
            charge: Charge = query.plan(epsilon=epsilon, delta=delta).charge
            return charge

        noise_delta = delta - selection_delta
        return cls(query.rough_parts(1.0, noise_delta), noise_delta, selection_delta, charge_at)

    def roughly(self, epsilon: float) -> Charge:
        """Approximate the charge at ε."""
        if self.delta == 0:
            return self.charge_at(epsilon)  # there it takes no time
        return _charge(calibrate_roughly(epsilon, self.delta, self.parts), self.parts, self.selection_delta)


def _charge(noises: Sequence[Distribution], parts: Sequence[Part], selection_delta: float) -> Charge:
    return Charge(profile_of(noises, parts), selection_delta)


def largest_epsilon(headroom: Headroom, shape: Shape) -> float:
    """The largest ε, to about 1.5 percent, with which one more release of a shape fits; 0 if there is none.

    It has four digits, and a release with exactly this ε was found to fit.
    """
    rough = _roughly(headroom, shape)
    if rough is None:
        return 0.0
    margin = _MARGIN if len(shape.parts) == 1 else _MARGIN_OF_PARTS
    best, epsilon = 0.0, _four_digits(rough * (1.0 - margin))
    for _ in range(_TRIALS):
        charge = shape.charge_at(epsilon)
        fits = headroom.fits(charge)
        if fits:
            best = max(best, epsilon)
            if not headroom.fits(scale_noise(charge, 1.0 - _NEARLY)):
                break
        moved = _move(headroom, charge, epsilon, shape.delta)
        if moved is None:
            break
        after = _four_digits(moved * (1.0 - _MARGIN))
        # If the shape that was found does not agree with the search, go down in small steps.
        epsilon = after if fits or after < epsilon else _four_digits((1.0 - 2 * _MARGIN) * epsilon)
        if epsilon <= best:
            break
    return best


def _roughly(headroom: Headroom, shape: Shape) -> float | None:
    """Approximate the largest ε; None if no noise is large enough."""
    epsilon = _guess(headroom, shape.delta)
    for _ in range(_ROUNDS):
        before, moved = epsilon, _move(headroom, shape.roughly(epsilon), epsilon, shape.delta)
        if moved is None:
            return None
        epsilon = moved
        if abs(epsilon - before) <= _CLOSE * before:
            break
    return epsilon


def _move(headroom: Headroom, charge: Charge, epsilon: float, delta: float) -> float | None:
    """Approximate, from a charge at ε, the ε at which noise of the same shape just fits; None if it never does."""
    log_factor = least_log_factor(headroom, charge, accuracy=_ACCURACY, step=8 * _ACCURACY)
    if log_factor is None:
        return None
    factor = math.exp(log_factor)
    if delta == 0:
        return _clamp(epsilon / factor)
    # What is wrong with the estimates is the same in both.
    before, after = (epsilon_roughly(one.profile, delta) for one in (charge, scale_noise(charge, factor)))
    return _clamp(epsilon * after / before if before > 0 else after)


def _clamp(epsilon: float) -> float:
    """An ε that can be calibrated to."""
    return min(max(epsilon, 1e-9), 1e6)


def _guess(headroom: Headroom, delta: float) -> float:
    """Guess the ε that is left, by the filter that leaves most."""
    state, epsilon = headroom.state, headroom.budget.epsilon
    left = max(1.0 - headroom.share(), 1e-3)
    guesses = [epsilon * left]
    if isinstance(state, Planned):
        guesses.append(epsilon * left**0.5)
    elif state.mu is not None and delta > 0:
        guesses.append(float(PrivacyProfile(OSGT.gaussian(1.0 / state.mu)).epsilon(delta)))
    return _clamp(max(guesses))


def _four_digits(value: float) -> float:
    return max(_digits(value, 4, ROUND_FLOOR), 1e-9)
