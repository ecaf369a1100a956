"""Can this be the state after these charges? A check that takes microseconds for a charge that was seen before.

Sums are added up again. The Gaussian residue is not computed again, but it is bounded: if g ⊗ Gauss(μ') is dominated
by Gauss(μ), then so are its Rényi divergences, and those of Gauss(μ) are α·μ²/2. Hence μ'² ≤ μ² - 2·D_α(g)/α at every
order, in particular at the order of the Rényi filter. A state that was made up can be better than the true one only by
what lies between this bound and the true residue; `filters.follows`, which `verify` uses, leaves it nothing.
"""

from collections.abc import Iterable
from fractions import Fraction

from osgt.ledger import filters
from osgt.ledger.filter_state import FilterState
from osgt.ledger.shares import Shares
from osgt.privacy import Charge

#: More than the rounding of divergences or of μ, relative.
_ROUNDING = 1e-8


def plausible(before: FilterState, shares: Shares, charge: Charge, after: FilterState) -> bool:
    """Whether `after` can be the state that an honest ledger writes when it allows the charge in the state `before`."""
    if after.selection > Fraction(shares.selection) or not filters.alive(after, shares):
        return False
    return possible_sum(before, shares, [charge], after)


def possible_sum(before: FilterState, shares: Shares, charges: Iterable[Charge], after: FilterState) -> bool:
    """Whether `after` can be the state with these charges, whether or not they fit."""
    sums = before
    for charge in charges:
        sums = filters.sums_after(sums, shares, charge)
    if (sums.pure, sums.unbounded, sums.selection) != (after.pure, after.unbounded, after.selection):
        return False
    if after.few is not None and (
        sums.few is None or after.count != sums.count or after.few < sums.few * (1 - Fraction(_ROUNDING))
    ):
        return False
    if after.renyi != sums.renyi and abs(after.renyi - sums.renyi) > Fraction(_ROUNDING) * sums.renyi:
        return False
    if after.mu is None:
        return True
    if before.mu is None or after.mu <= 0:
        return False
    lost = float(2 * (sums.renyi - before.renyi)) / (1.0 + shares.order) * (1.0 - _ROUNDING)
    return after.mu**2 <= (before.mu**2 - lost) * (1.0 + _ROUNDING)
