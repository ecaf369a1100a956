"""Basic composition with geometrically shrinking δ: the filter for the first few releases.

A budget should take one release that uses its whole ε, or two that use half of it each; there the other filters are too
strict. The first release is taken at half of the δ that is set aside for this filter, the second at a quarter, and so
on. Σ ε at most ε and Σ δ at most δ is basic composition, which holds for every analyst.
"""

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np

from osgt.privacy import Charge, NoisyPart, PrivacyProfile
from osgt.privacy.estimate import epsilon_roughly
from osgt.privacy.filters.release_loss import loss_of

#: Releases after which this filter is of no use any more.
MOST = 20

#: The ε of a release that takes this share of the whole or more, and that may fit, is computed exactly: the row of its
#: loss gives up to a few hundredths too much.
_LARGE = 0.15
_NEARLY = 0.95
_SLACK = 1e-3
_PROVED_PARTS = 8

#: δ of a release that is nearer to its share than this, relative, is left in doubt.
_DOUBT = 5e-3

#: ε is raised by this, relative and absolute: more than all rounding errors.
_MARGIN = 1e-8
_LEAST_MARGIN = 1e-13


@lru_cache(maxsize=4096)
def release_epsilon(parts: tuple[NoisyPart, ...], delta: float, tail: float, earlier: int) -> float:
    """ε of a release at δ/2 if it is the first, at δ/4 if one came earlier, …; rounded up, or infinite."""
    share = math.ldexp(delta, -1 - earlier)
    loss = loss_of(parts, tail) if earlier < MOST else None
    if loss is None or loss.beyond >= share:
        return math.inf
    # With S = Σ over losses ≥ l of mass·exp(l - loss), δ at l, less a step or part of it, is δ(l) + S·(1 - exp(-step)).
    losses = loss.losses
    above = np.cumsum((loss.masses * np.exp(-losses))[::-1])[::-1] * np.exp(losses)
    deltas = np.append(np.cumsum((-math.expm1(-loss.step) * above)[:0:-1])[::-1], 0.0) + loss.beyond
    first = int(np.argmax(deltas <= share))
    back = min((share - float(deltas[first])) / float(above[first]), -math.expm1(-loss.step))
    result = float(losses[first]) + math.log1p(-back)
    return max(result + loss.error, 0.0) * (1.0 + _MARGIN) + _LEAST_MARGIN


def add_release(
    total: Fraction, charge: Charge, pure: Fraction | None, shares: tuple[float, float, float], earlier: int
) -> Fraction | None:
    """Σ ε with one more release; None if that is more than ε.

    Parameters
    ----------
    pure
        Its largest loss, where it has one.
    shares
        ε and δ of this filter, and the P-mass that the loss of a release may leave out.
    """
    limit, delta, tail = shares
    result = release_epsilon(charge.profile.parts, delta, tail, earlier)
    if _is_worth_a_proof(total, result, pure, limit):
        result = min(result, _exact(charge.profile, math.ldexp(delta, -1 - earlier)))
    more = pure if pure is not None and pure <= result else Fraction(result) if result < math.inf else None
    return total + more if more is not None and total + more <= limit else None


def can_add(
    total: Fraction, charge: Charge, pure: Fraction | None, shares: tuple[float, float, float], earlier: int
) -> bool:
    """Whether `add_release` is not None, more quickly; in doubt not."""
    limit, delta, tail = shares
    if pure is not None and total + pure <= limit:
        return True
    result = release_epsilon(charge.profile.parts, delta, tail, earlier)
    if not _is_worth_a_proof(total, result, pure, limit) or len(charge.profile.parts) > _PROVED_PARTS:
        return result < math.inf and total + Fraction(result) <= limit
    left = float(limit - total) * (1.0 - 2 * _MARGIN)
    share = math.ldexp(delta, -1 - earlier)
    return left > 0 and float(charge.profile.delta(left, slack=_SLACK)) <= share * (1.0 - _DOUBT)


def _is_worth_a_proof(total: Fraction, result: float, pure: Fraction | None, limit: float) -> bool:
    """Whether a release that takes `result` by its row is large, and may fit though this may be too much."""
    if result <= _LARGE * limit or (pure is not None and total + pure <= limit):
        return False
    return total + Fraction(_NEARLY) * Fraction(min(result, 2.0 * limit)) <= limit


@lru_cache(maxsize=1024)
def _exact(profile: PrivacyProfile, share: float) -> float:
    """ε by exact accounting; infinite where that is not proved to the last digit."""
    if len(profile.parts) > _PROVED_PARTS:
        return math.inf
    if sum(part.coordinates for part in profile.parts) == 1:
        # One that is hardly larger, and proved, is found more quickly.
        larger = epsilon_roughly(profile, share) * (1.0 + 2 * _SLACK)
        if float(profile.delta(larger)) <= share:
            return larger * (1.0 + _MARGIN)
    return float(profile.epsilon(share, slack=_SLACK)) * (1.0 + _MARGIN)
