"""Why a release was refused, and what would fit instead."""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

from osgt.ledger.headroom import Headroom, least_log_factor, scaled
from osgt.ledger.rounding import rounded_up
from osgt.privacy import Charge

_UP, _DOWN = (Context(prec=3, rounding=rounding) for rounding in (ROUND_CEILING, ROUND_FLOOR))


def noise_factor(headroom: Headroom, charge: Charge) -> float | None:
    """How many times as large the noise of a refused release must be for it to fit; None if that does not help."""
    log_factor = least_log_factor(headroom, charge, accuracy=0.02)
    if log_factor is None:
        return None
    factor = math.exp(log_factor)
    digits = 1 - math.floor(math.log10(factor))
    return math.ceil(factor * 10.0**digits) / 10.0**digits  # up, to two digits


def refusal(name: str, headroom: Headroom, charge: Charge, factor: float | None) -> str:
    """Why a release was refused, what is left and what would fit."""
    budget = headroom.budget
    text = f"Refused, nothing was charged. Budget of {name!r}: ε = {budget.epsilon:g} at δ = {budget.delta:g}; spent: "
    plural = "release" if headroom.releases == 1 else "releases"
    if headroom.lost is not None:
        return text + (
            f"all of it, since charges were lost when the ledger was restored on {headroom.lost[:10]}. Open a budget "
            "under another name, and decide what both may spend together"
        )
    spent, _ = headroom.figures()
    text += f"ε = {_up(spent)} " if spent < math.inf else ""
    text += f"in {headroom.releases:,} {plural}. "
    if headroom.selection + Fraction(charge.selection_delta) > Fraction(headroom.quota):
        return text + (
            f"The choice of groups in this release needs δ = {_up(charge.selection_delta)}; of the δ = "
            f"{_up(headroom.quota)} set aside for that, {_up(rounded_up(headroom.selection))} is spent. Use public "
            "keys, or a smaller δ"
        )
    asked = Charge(charge.profile).epsilon(budget.delta) if budget.delta > 0 else _largest_loss(charge)
    text += f"This release asks for ε = {_up(asked)} at that δ; " if asked < math.inf else ""
    if factor is None:
        return text + "no release of this shape fits any more"
    smaller = scaled(Charge(charge.profile), factor)
    fitting = smaller.epsilon(budget.delta) if budget.delta > 0 else _largest_loss(smaller)
    return text + f"at most about ε = {_down(fitting)} still fits, with noise {factor:g} times as large"


def _largest_loss(charge: Charge) -> float:
    """The largest loss of a release, for budgets with δ = 0."""
    loss = charge.profile._pure_loss()
    return math.inf if loss is None else rounded_up(loss)


def _up(value: float) -> str:
    """Three digits, never rounded down."""
    return _rounded(value, _UP)


def _down(value: float) -> str:
    """Three digits, never rounded up."""
    return _rounded(value, _DOWN)


def _rounded(value: float, context: Context) -> str:
    return f"{float(Decimal(value).normalize(context)):.3g}" if 0 < value < math.inf else f"{value:g}"
