"""The largest ε with which one more release fits.

A calibration takes longest. So the search is made with noise that is calibrated roughly, and only what was found is
calibrated as a release would be, to see that it fits.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from typing import TYPE_CHECKING

from osgt.calibration import Part, calibrate_parts
from osgt.calibration.joint import profile_of
from osgt.calibration.rough import calibrate_roughly, epsilon_roughly
from osgt.ledger.headroom import Headroom, least_log_factor, scaled
from osgt.ledger.planned import Planned
from osgt.noise import OSGT, Law
from osgt.noise.parameters import real_number
from osgt.privacy import Charge, PrivacyProfile

if TYPE_CHECKING:
    from osgt.tables.publication import Publication
    from osgt.tables.query import Query

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

_DOWN = Context(prec=4, rounding=ROUND_FLOOR)


@dataclass(frozen=True)
class Shape:
    """A release but for its ε: its parts, δ for its noise and for its choice of groups, and how it is calibrated."""

    parts: tuple[Part, ...]
    delta: float
    selection_delta: float
    charge_at: Callable[[float], Charge]

    @classmethod
    def of(cls, parts: Sequence[Part], delta: float, selection_share: float) -> "Shape":
        """Noise on these parts, calibrated to a δ of which the share goes to the choice of groups."""
        share = real_number("selection_share", selection_share, positive=False)
        if share >= 1:
            raise ValueError(f"selection_share must be below 1, got {selection_share!r}")
        noise_delta, selection_delta = delta * (1.0 - share), delta * share

        def charge_at(epsilon: float) -> Charge:
            return _charge(calibrate_parts(epsilon, noise_delta, parts), parts, selection_delta)

        return cls(tuple(parts), noise_delta, selection_delta, charge_at)

    @classmethod
    def of_query(cls, query: "Query | Publication", delta: float) -> "Shape":
        """What the plan of a query, or of several in a publication, says, without a calibration."""
        from osgt.tables.plan import SELECTION_SHARE  # noqa: PLC0415 - only with a query at hand

        selection_delta = 0.0 if query.shows_all else SELECTION_SHARE * delta
        return cls(
            query.rough_parts(1.0, delta - selection_delta),
            delta - selection_delta,
            selection_delta,
            lambda epsilon: query.plan(epsilon=epsilon, delta=delta, charged=True).charge,
        )

    def roughly(self, epsilon: float) -> Charge:
        """About the charge at ε."""
        if self.delta == 0:
            return self.charge_at(epsilon)  # there it takes no time
        return _charge(calibrate_roughly(epsilon, self.delta, self.parts), self.parts, self.selection_delta)


def _charge(noises: Sequence[Law], parts: Sequence[Part], selection_delta: float) -> Charge:
    return Charge(profile_of(noises, parts), selection_delta)


def largest_epsilon(headroom: Headroom, shape: Shape) -> float:
    """The largest ε, to about 1.5 percent, with which one more release of a shape fits; 0 if there is none.

    It has four digits, and a release with exactly this ε was found to fit.
    """
    found = _roughly(headroom, shape)
    if found is None:
        return 0.0
    margin = _MARGIN if len(shape.parts) == 1 else _MARGIN_OF_PARTS
    best, epsilon = 0.0, _four_digits(found * (1.0 - margin))
    for _ in range(_TRIALS):
        charge = shape.charge_at(epsilon)
        fits = headroom.fits(charge)
        if fits:
            best = max(best, epsilon)
            if not headroom.fits(scaled(charge, 1.0 - _NEARLY)):
                break
        moved = _moved(headroom, charge, epsilon, shape.delta)
        if moved is None:
            break
        after = _four_digits(moved * (1.0 - _MARGIN))
        # If the shape that was found does not agree with the search, go down in small steps.
        epsilon = after if fits or after < epsilon else _four_digits((1.0 - 2 * _MARGIN) * epsilon)
        if epsilon <= best:
            break
    return best


def _roughly(headroom: Headroom, shape: Shape) -> float | None:
    """About the largest ε; None if no noise is large enough."""
    epsilon = _guess(headroom, shape.delta)
    for _ in range(_ROUNDS):
        before, found = epsilon, _moved(headroom, shape.roughly(epsilon), epsilon, shape.delta)
        if found is None:
            return None
        epsilon = found
        if abs(epsilon - before) <= _CLOSE * before:
            break
    return epsilon


def _moved(headroom: Headroom, charge: Charge, epsilon: float, delta: float) -> float | None:
    """From a charge at ε, about the ε at which noise of the same shape just fits; None if it never does."""
    log_factor = least_log_factor(headroom, charge, accuracy=_ACCURACY, step=8 * _ACCURACY)
    if log_factor is None:
        return None
    factor = math.exp(log_factor)
    if delta == 0:
        return _within(epsilon / factor)
    # What is wrong with the estimates is the same in both.
    before, after = (epsilon_roughly(one.profile, delta) for one in (charge, scaled(charge, factor)))
    return _within(epsilon * after / before if before > 0 else after)


def _within(epsilon: float) -> float:
    """An ε that can be calibrated to."""
    return min(max(epsilon, 1e-9), 1e6)


def _guess(headroom: Headroom, delta: float) -> float:
    """About the ε that is left, by the filter that leaves most."""
    state, epsilon = headroom.state, headroom.budget.epsilon
    left = max(1.0 - headroom.share(), 1e-3)
    guesses = [epsilon * left]
    if isinstance(state, Planned):
        guesses.append(epsilon * left**0.5)
    elif state.mu is not None and delta > 0:
        guesses.append(float(PrivacyProfile(OSGT.gaussian(1.0 / state.mu)).epsilon(delta)))
    return _within(max(guesses))


def _four_digits(value: float) -> float:
    return max(float(Decimal(value).normalize(_DOWN)), 1e-9)
